"""Keys and teams, changed at run time through the admin API."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.auth.api_keys import new_key
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG, Admin, running


def run(work: Callable[[Admin], Awaitable[None]], config: str = ROOT_CONFIG, **options: Any) -> None:
    async def main() -> None:
        async with running(config, **options) as admin:
            await work(admin)

    asyncio.run(main())


def test_a_new_key_works_at_once_and_is_shown_once() -> None:
    async def work(admin: Admin) -> None:
        made = await admin.do("POST", "keys", {"name": "alice", "owner": "a@example.com", "tags": ["web"]})
        assert made["key"].startswith("sk-dm-")
        assert (await admin.chat(made["key"]))[0] == 200
        for path in ("keys", "keys/alice", "audit", "me"):
            answer = await admin.do("GET", path)
            assert made["key"] not in str(answer)
            assert "b2:" not in str(answer)
        assert (await admin.do("GET", "keys/alice"))["status"] == "active"

    run(work)


def test_a_name_is_used_once() -> None:
    async def work(admin: Admin) -> None:
        await admin.do("POST", "keys", {"name": "alice"})
        assert await admin.refused("POST", "keys", {"name": "alice"}) == (
            409,
            "name must be new, and there is a key 'alice'; choose another one",
        )
        assert (await admin.refused("POST", "keys", {"name": "root"}))[0] == 409

    run(work)


def test_a_rotated_key_is_accepted_during_the_overlap() -> None:
    async def work(admin: Admin) -> None:
        old = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        new = (await admin.do("POST", "keys/alice/rotate", {"overlap": 60}))["key"]
        assert [(await admin.chat(key))[0] for key in (old, new)] == [200, 200]
        newest = (await admin.do("POST", "keys/alice/rotate"))["key"]
        assert [(await admin.chat(key))[0] for key in (old, new, newest)] == [401, 401, 200]

    run(work)


def test_an_overlap_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(admin: Admin) -> None:
        old = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        await admin.do("POST", "keys/alice/rotate", {"overlap": 60})
        later = datetime.now(UTC).timestamp() + 61
        monkeypatch.setattr("dragoman.gateway.auth.api_keys.time.time", lambda: later)
        assert (await admin.chat(old))[0] == 401

    run(work)


def test_a_disabled_key_is_refused_until_it_is_enabled() -> None:
    async def work(admin: Admin) -> None:
        key = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        await admin.do("POST", "keys/alice/disable")
        status, answer = await admin.chat(key)
        assert (status, answer["error"]["message"]) == (401, "key 'alice' is disabled")
        await admin.do("POST", "keys/alice/enable")
        assert (await admin.chat(key))[0] == 200

    run(work)


def test_an_expired_key_is_refused() -> None:
    async def work(admin: Admin) -> None:
        past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        key = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        await admin.do("PATCH", "keys/alice", {"expires_at": past})
        status, answer = await admin.chat(key)
        assert (status, answer["error"]["message"]) == (401, "key 'alice' has expired")
        assert (await admin.do("GET", "keys/alice"))["status"] == "expired"
        await admin.do("PATCH", "keys/alice", {"expires_at": None})
        assert (await admin.chat(key))[0] == 200

    run(work)


def test_a_deleted_key_is_refused() -> None:
    async def work(admin: Admin) -> None:
        key = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        assert await admin.do("DELETE", "keys/alice") == {"name": "alice"}
        assert (await admin.chat(key))[0] == 401
        assert (await admin.refused("GET", "keys/alice"))[0] == 404

    run(work)


def test_a_key_of_the_file_can_be_changed_removed_and_reverted() -> None:
    plain, hash = new_key()

    async def work(admin: Admin) -> None:
        assert (await admin.do("GET", "keys/bob"))["source"] == "file"
        await admin.do("PATCH", "keys/bob", {"requests_per_minute": 0})
        assert (await admin.do("GET", "keys/bob"))["source"] == "store over file"
        assert (await admin.chat(plain))[0] == 429
        await admin.do("DELETE", "keys/bob")
        assert (await admin.chat(plain))[0] == 401
        await admin.do("POST", "keys/bob/revert")
        assert (await admin.chat(plain))[0] == 200

    run(work, f'{ROOT_CONFIG}[keys.bob]\nhash = "{hash}"\n')


def test_a_team_bounds_its_keys_together() -> None:
    async def work(admin: Admin) -> None:
        await admin.do("POST", "teams", {"name": "research", "requests_per_minute": 3, "models": ["demo/*"]})
        keys = [
            (await admin.do("POST", "keys", {"name": name, "team": "research", "requests_per_minute": 2}))["key"]
            for name in ("alice", "bob")
        ]
        answers = [await admin.chat(key) for key in (*keys, *keys)]
        assert [status for status, _ in answers] == [200, 200, 200, 429]
        assert answers[-1][1]["error"]["message"] == "team research: the limit of 3 requests per minute is reached"
        (level,) = (await admin.do("GET", "teams/research"))["levels"]
        assert (level["limit"], level["used"], level["unit"], level["per"]) == (3, 3, "requests", "minute")
        assert (await admin.do("GET", "teams/research"))["keys"] == 2
        await admin.do("PATCH", "teams/research", {"disabled": True})
        assert (await admin.chat(keys[0]))[1]["error"]["message"] == "team 'research' is disabled"

    run(work)


def test_a_team_limits_the_models_of_its_keys() -> None:
    async def work(admin: Admin) -> None:
        await admin.do("POST", "teams", {"name": "research", "models": ["demo/any"]})
        key = (await admin.do("POST", "keys", {"name": "alice", "team": "research"}))["key"]
        assert [(await admin.chat(key, model))[0] for model in ("demo/any", "demo/slow")] == [200, 403]

    run(work)


def test_a_team_with_keys_stays() -> None:
    async def work(admin: Admin) -> None:
        await admin.do("POST", "teams", {"name": "research"})
        await admin.do("POST", "keys", {"name": "alice", "team": "research"})
        assert (await admin.refused("DELETE", "teams/research"))[1].startswith("team 'research' must have no keys")
        await admin.do("PATCH", "keys/alice", {"team": None})
        await admin.do("DELETE", "teams/research")
        assert (await admin.refused("PATCH", "keys/alice", {"team": "research"}))[0] == 400

    run(work)


def test_a_budget_is_used_reset_and_raised() -> None:
    async def work(admin: Admin) -> None:
        budget = {"per": "week", "tokens": 60}
        key = (await admin.do("POST", "keys", {"name": "alice", "budgets": [budget]}))["key"]
        statuses = [(await admin.chat(key, max_tokens=30))[0] for _ in range(3)]
        assert statuses[0] == 200
        assert statuses[-1] == 429
        shown = await admin.do("POST", "keys/alice/reset")
        assert [level["used"] for level in shown["levels"]] == [0]
        assert (await admin.chat(key, max_tokens=30))[0] == 200
        await admin.do("PATCH", "keys/alice", {"budgets": [{"per": "week", "tokens": 10_000}]})
        assert (await admin.chat(key, max_tokens=30))[0] == 200

    run(work)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"name": "a b"}, "name: the name of a key must be 1 to 64 letters, digits or . @ _ -, got 'a b'"),
        ({}, "name is required"),
        ({"name": "a", "color": 1}, "color is not a known field"),
        ({"name": "a", "team": "none"}, "team must be a team of this gateway, got 'none'; make it first"),
        ({"name": "a", "role": "owner"}, 'owner is required for role = "owner"'),
        ({"name": "a", "expires_at": "2027-01-01"}, "expires_at"),
        ({"name": "a", "expires_at": "2027-01-01T00:00:00"}, "expires_at must have a time zone"),
        ({"name": "a", "requests_per_minute": -1}, "requests_per_minute must be a whole number >= 0, got -1"),
        ({"name": "a", "budgets": [{"per": "day"}]}, "budget per day must have tokens or dollars"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], problem: str) -> None:
    async def work(admin: Admin) -> None:
        status, message = await admin.refused("POST", "keys", body)
        assert status == 400
        assert problem in message

    run(work)


# Roles ----------------------------------------------------------------------------------------------------------------


def test_a_viewer_reads_and_changes_nothing() -> None:
    async def work(admin: Admin) -> None:
        key = (await admin.do("POST", "keys", {"name": "eve", "role": "viewer"}))["key"]
        for path in ("keys", "teams", "aliases", "providers", "audit", "limits", "keys/root"):
            await admin.do("GET", path, key=key)
        for method, path, body in (
            ("POST", "keys", {"name": "x"}),
            ("PATCH", "keys/root", {}),
            ("DELETE", "keys/root", None),
            ("POST", "keys/root/rotate", None),
            ("POST", "keys/eve/disable", None),
            ("PUT", "aliases/fast", {"spec": "demo/any"}),
        ):
            assert (await admin.refused(method, path, body, key=key))[0] == 403

    run(work)


def test_an_owner_manages_their_own_keys_only() -> None:
    async def work(admin: Admin) -> None:
        key = (await admin.do("POST", "keys", {"name": "ann", "role": "owner", "owner": "ann"}))["key"]
        await admin.do("POST", "keys", {"name": "ann-app", "owner": "ann"})
        await admin.do("POST", "keys", {"name": "bob", "owner": "bob"})
        listed = await admin.do("GET", "keys", key=key)
        assert [each["name"] for each in listed["keys"]] == ["ann", "ann-app"]
        await admin.do("POST", "keys/ann-app/rotate", {"overlap": 5}, key=key)
        await admin.do("POST", "keys/ann-app/disable", key=key)
        assert (await admin.refused("POST", "keys/bob/disable", key=key))[0] == 404
        assert (await admin.refused("PATCH", "keys/ann-app", {"requests_per_minute": 9}, key=key))[0] == 403
        assert (await admin.refused("GET", "audit", key=key))[0] == 403

    run(work)


def test_a_key_without_a_role_sees_itself() -> None:
    async def work(admin: Admin) -> None:
        key = (await admin.do("POST", "keys", {"name": "app", "requests_per_minute": 9}))["key"]
        me = await admin.do("GET", "me", key=key)
        assert (me["name"], me["role"], me["key"]["levels"][0]["limit"]) == ("app", None, 9)
        assert (await admin.refused("GET", "keys", key=key))[0] == 403

    run(work)


def test_the_last_admin_stays() -> None:
    async def work(admin: Admin) -> None:
        for method, path, body in (
            ("DELETE", "keys/root", None),
            ("POST", "keys/root/disable", None),
            ("PATCH", "keys/root", {"role": None}),
            ("PATCH", "keys/root", {"expires_at": "2099-01-01T00:00:00Z"}),
        ):
            status, message = await admin.refused(method, path, body)
            assert (status, message.startswith("the gateway must have a key with the role admin")) == (400, True)
        await admin.do("POST", "keys", {"name": "second", "role": "admin"})
        await admin.do("DELETE", "keys/root")
        assert (await admin.refused("GET", "me"))[0] == 401

    run(work)


def test_the_first_key_of_an_open_gateway_is_an_admins() -> None:
    async def work(admin: Admin) -> None:
        assert (await admin.refused("POST", "keys", {"name": "app"}, key=None))[0] == 400
        key = (await admin.do("POST", "keys", {"name": "ops", "role": "admin"}, key=None))["key"]
        assert (await admin.chat(None))[0] == 401
        assert (await admin.chat(key))[0] == 200

    run(work, "")


# The audit log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_change_is_in_the_audit_log(kind: str, tmp_path: Path) -> None:
    store = "memory" if kind == "memory" else f"sqlite:{tmp_path / 'store.db'}"

    async def work(admin: Admin) -> None:
        await admin.do("POST", "keys", {"name": "alice"})
        for number in range(130):
            await admin.do("PATCH", "keys/alice", {"requests_per_minute": number})
        await admin.do("POST", "keys/alice/reset")
        found: list[dict[str, Any]] = []
        query = "audit?limit=60"
        while True:
            page = await admin.do("GET", query)
            found += page["changes"]
            if page["next"] is None:
                break
            query = f"audit?limit=60&before={page['next']}"
        expected = range(132, 0 if kind == "sqlite" else 50, -1)  # a store in memory keeps the newest changes
        assert [each["id"] for each in found] == [*expected]
        assert found[0]["action"] == "keys.reset"
        assert found[1]["fields"] == {"requests_per_minute": 129}
        assert {each["actor"] for each in found} == {"root"}

    run(work, f'{ROOT_CONFIG}[gateway]\nstore = "{store}"\n')


def test_changes_are_there_after_a_restart(tmp_path: Path) -> None:
    config, keys = f'{ROOT_CONFIG}[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n', list[str]()

    async def make(admin: Admin) -> None:
        await admin.do("POST", "teams", {"name": "research", "requests_per_minute": 1})
        keys.append((await admin.do("POST", "keys", {"name": "alice", "team": "research"}))["key"])
        await admin.do("PUT", "aliases/fast", {"spec": "demo/any"})

    async def use(admin: Admin) -> None:
        assert [(await admin.chat(keys[0], "fast"))[0] for _ in range(2)] == [200, 429]
        assert (await admin.do("GET", "keys", key=ADMIN))["keys"][0]["source"] == "store"

    run(make, config)
    run(use, config)


CACHED = f'{ROOT_CONFIG}[cache]\nttl = 60\n[gateway]\nproviders = ["demo"]\n'


@pytest.mark.parametrize("holder", ["keys", "teams"])
def test_the_response_cache_of_a_key_or_team_is_switched_at_run_time(holder: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.do("POST", "teams", {"name": "research"})
        key = (await admin.do("POST", "keys", {"name": "research", "team": "research"}))["key"]
        await admin.chat(key)
        changed = await admin.do("PATCH", f"{holder}/research", {"cache": True})
        assert changed["cache"] is True
        for _ in range(2):
            await admin.chat(key)
        rows = (await admin.do("GET", "usage/requests?key=research"))["requests"]
        assert [row["cache"] for row in rows] == ["hit", "miss", None]
        assert (await admin.do("PATCH", f"{holder}/research", {"tags": ["web"]}))["cache"] is True

    run(work, CACHED)
