"""Aliases, tiers and providers, changed at run time through the admin API."""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import InvalidRequest
from dragoman.gateway.management.secrets import hide_secrets, restore_secrets
from dragoman.gateway.reload import Reloader
from dragoman.gateway.store import open_store
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG, Admin, running
from tests.support.gateway.counting_provider import CountingProvider

SECRET = "sk-provider-secret-1234567890"


def run(work: Callable[[Admin], Awaitable[None]], config: str = ROOT_CONFIG, **options: Any) -> None:
    async def main() -> None:
        async with running(config, **options) as admin:
            await work(admin)

    asyncio.run(main())


def test_an_alias_is_added_changed_removed_and_reverted() -> None:
    async def work(admin: Admin) -> None:
        async def models(name: str) -> int:
            return (await admin.chat(ADMIN, name))[0]

        assert await models("fast") == 404
        shown = await admin.do("PUT", "aliases/fast", {"spec": "demo/any"})
        assert (shown["source"], shown["targets"]) == ("store", ["demo/any"])
        assert await models("fast") == 200
        await admin.do("DELETE", "aliases/fast")
        assert await models("fast") == 404
        await admin.do("PUT", "aliases/base", {"spec": "demo/slow"})
        assert (await admin.do("GET", "aliases/base"))["source"] == "store over file"
        await admin.do("DELETE", "aliases/base")
        assert (await admin.do("GET", "aliases/base"))["source"] == "removed"
        assert await models("base") == 404
        await admin.do("POST", "aliases/base/revert")
        assert await models("base") == 200

    run(work, f'{ROOT_CONFIG}[aliases]\nbase = "demo/any"\n')


def test_a_tier_is_added() -> None:
    async def work(admin: Admin) -> None:
        table = {"models": {"demo/any": 1, "demo/slow": 4}, "order": "weighted"}
        shown = await admin.do("PUT", "tiers/simple", {"table": table})
        assert shown["table"] == table
        assert shown["targets"] == ["demo/any", "demo/slow"]
        assert (await admin.chat(ADMIN, "simple"))[0] == 200

    run(work)


def test_a_pool_is_added_and_removed() -> None:
    async def work(admin: Admin) -> None:
        table = {"targets": ["demo/any", "demo/slow"], "order": "in_order"}
        shown = await admin.do("PUT", "pools/shared", {"table": table})
        assert (shown["table"], shown["targets"]) == (table, ["demo/any", "demo/slow"])
        assert (await admin.chat(ADMIN, "shared"))[0] == 200
        await admin.do("DELETE", "pools/shared")
        assert (await admin.chat(ADMIN, "shared"))[0] == 404

    run(work)


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("aliases/fast", {"spec": "nowhere/model"}, "aliases.fast"),
        ("aliases/fast", {"spec": ""}, "aliases"),
        ("tiers/simple", {"table": {"models": []}}, "tiers.simple.models must be a list"),
        ("tiers/simple", {"table": {"modells": []}}, "tiers.simple: unknown setting 'modells'"),
        ("providers/box", {"table": {"like": "nothing"}}, "providers.box: like"),
        ("providers/box", {"table": {"api_key": "(set)"}}, "api_key must be a secret"),
        ("providers/box", {"table": {"like": "vllm", "api_key": "${UNSET_KEY}"}}, "variable UNSET_KEY is not set"),
    ],
)
def test_what_does_not_fit_the_config_is_refused(path: str, body: dict[str, Any], problem: str) -> None:
    async def work(admin: Admin) -> None:
        status, message = await admin.refused("PUT", path, body)
        assert status == 400
        assert problem in message
        assert (await admin.do("GET", "audit"))["changes"] == []

    run(work)


def test_a_provider_is_used_at_once_and_its_key_is_never_shown() -> None:
    with CountingProvider() as server:

        async def work(admin: Admin) -> None:
            table = {"wire": "openai_chat", "base_url": server.base_url, "api_key": SECRET, "needs_key": True}
            shown = await admin.do("PUT", "providers/box", {"table": table})
            assert shown["table"] == {**table, "api_key": "(set)"}
            assert shown["ready"]
            assert (await admin.chat(ADMIN, "box/model"))[0] == 200
            # What was read can be written back: the secret stays.
            changed = await admin.do("PUT", "providers/box", {"table": {**shown["table"], "headers": {"x-team": "a"}}})
            assert changed["table"]["headers"] == {"x-team": "a"}
            assert (await admin.chat(ADMIN, "box/model"))[0] == 200
            for path in ("providers", "providers/box", "audit", "snapshot"):
                assert SECRET not in str(await admin.do("GET", path))

        run(work)


def test_a_variable_is_stored_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def work(admin: Admin) -> None:
        shown = await admin.do("PUT", "providers/groq", {"table": {"api_key": "${GROQ}"}})
        assert shown["table"] == {"api_key": "${GROQ}"}
        assert SECRET.encode() not in path.read_bytes() + path.with_name("store.db-wal").read_bytes()

    run(work, f'{ROOT_CONFIG}[gateway]\nstore = "sqlite:{path}"\n', env={"GROQ": SECRET})


def test_a_secret_is_not_put_into_a_file_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(0o644)

    async def work(admin: Admin) -> None:
        body = {"table": {"api_key": SECRET}}
        status, message = await admin.refused("PUT", "providers/groq", body)
        assert (status, "chmod 600" in message) == (400, True)
        path.chmod(0o600)
        await admin.do("PUT", "providers/groq", body)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    run(work, f'{ROOT_CONFIG}[gateway]\nstore = "sqlite:{path}"\n')


def test_a_change_that_no_longer_fits_the_file_is_left_out_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    box = '[providers.box]\nlike = "vllm"\nbase_url = "http://127.0.0.1:9/v1"\n'

    async def work(admin: Admin) -> None:
        reloader = Reloader(admin.app, path, {})
        await admin.do("PUT", "aliases/fast", {"spec": "box/model"})
        await admin.do("POST", "keys", {"name": "alice"})
        path.write_text(ROOT_CONFIG)
        assert reloader.reload()
        listed = await admin.do("GET", "aliases")
        assert listed["items"][0]["problem"] is not None
        assert "aliases.fast" in listed["problems"][0]
        assert {key["name"] for key in (await admin.do("GET", "keys"))["keys"]} == {"alice", "root"}
        path.write_text(ROOT_CONFIG + box)
        assert reloader.reload()
        assert (await admin.do("GET", "aliases"))["problems"] == []

    path.write_text(ROOT_CONFIG + box)
    run(work, ROOT_CONFIG + box)


def test_a_gateway_that_cannot_read_its_store_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def prepare() -> None:
        store = open_store(f"sqlite:{path}")
        await store.write("managed", b"{damaged", ttl=None)
        await store.aclose()

    async def work(admin: Admin) -> None:
        assert (await admin.chat(ADMIN))[0] == 503

    asyncio.run(prepare())
    run(work, f'{ROOT_CONFIG}[gateway]\nstore = "sqlite:{path}"\n')


def test_secrets_are_hidden_and_restored() -> None:
    table = {
        "api_key": SECRET,
        "base_url": "https://user:pass@box/v1",
        "auth": "x-api-key",
        "key_names": ["BOX_KEY"],
        "headers": {"x-auth-token": "abc", "x-team": "b", "x-private": "0123456789abcdef"},
        "deployments": [{"api_key": "one", "weight": 2}, {"api_key": "${TWO}"}],
    }
    hidden = hide_secrets(table)
    assert hidden == {
        "api_key": "(set)",
        "base_url": "(set)",
        "auth": "x-api-key",
        "key_names": ["BOX_KEY"],
        "headers": {"x-auth-token": "(set)", "x-team": "b", "x-private": "(set)"},
        "deployments": [{"api_key": "(set)", "weight": 2}, {"api_key": "${TWO}"}],
    }
    assert restore_secrets(hidden, table) == table


def test_a_list_of_secrets_is_not_shortened_by_a_guess() -> None:
    table = {"api_keys": ["sk-1234567890", "sk-2345678901", "${THIRD}"]}
    with pytest.raises(InvalidRequest, match=r"api_keys must have all 3 values if one of them is '\(set\)', got 2"):
        restore_secrets({"api_keys": ["(set)", "${THIRD}"]}, table)
    assert restore_secrets({"api_keys": ["(set)", "(set)", "${THIRD}", "sk-4"]}, table)["api_keys"][-1] == "sk-4"
    assert restore_secrets({"api_keys": ["sk-4"]}, table) == {"api_keys": ["sk-4"]}
