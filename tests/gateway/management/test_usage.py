"""What a dashboard reads of the usage log, through the admin API."""

import asyncio
import csv
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.management.usage import RequestView
from dragoman.gateway.store.base import UsageRow
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG, Admin, running


def run(work: Callable[[Admin], Awaitable[None]], config: str = ROOT_CONFIG) -> None:
    async def main() -> None:
        async with running(config) as admin:
            await work(admin)

    asyncio.run(main())


@pytest.fixture(params=["memory", "sqlite"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    store = "memory" if request.param == "memory" else f"sqlite:{tmp_path / 'store.db'}"
    return f'{ROOT_CONFIG}[gateway]\nstore = "{store}"\n'


def test_spend_by_key_team_and_end_user(config: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.do("POST", "teams", {"name": "research"})
        alice = (await admin.do("POST", "keys", {"name": "alice", "team": "research"}))["key"]
        for user in ("u1", "u1", "u2"):
            assert (await admin.chat(alice, user=user))[0] == 200
        await admin.chat(ADMIN, "demo/overloaded")
        by_user = await admin.do("GET", "usage/sums?by=hour&group=team,user&key=alice")
        assert [(each["team"], each["user"], each["requests"]) for each in by_user["buckets"]] == [
            ("research", "u1", 2),
            ("research", "u2", 1),
        ]
        assert (await admin.chat(alice, safety_identifier="u3"))[0] == 200
        by_user = await admin.do("GET", "usage/sums?by=hour&group=user&user=u3")
        assert by_user["totals"][0]["requests"] == 1
        assert by_user["totals"][0]["p99"] > 0
        (total,) = (await admin.do("GET", "usage/sums?by=total"))["buckets"]
        assert (total["requests"], total["served"], total["failed"]) == (5, 4, 1)
        assert total["input"] > 0
        minutes = await admin.do("GET", "usage/sums?by=minute&since=10m&group=model")
        assert {each["model"]: each["requests"] for each in minutes["buckets"]} == {"demo/any": 4, "demo/overloaded": 1}

    run(work, config)


def test_requests_are_filtered_paged_and_linked(config: str) -> None:
    async def work(admin: Admin) -> None:
        alice = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        for _ in range(5):
            await admin.chat(alice)
        await admin.chat(alice, "demo/overloaded")
        seen, query = list[dict[str, Any]](), "usage/requests?limit=2&key=alice&outcome=served"
        page = await admin.do("GET", query)
        seen += page["requests"]
        while page["next"]:
            page = await admin.do("GET", f"{query}&before={page['next']}")
            seen += page["requests"]
        assert len({each["id"] for each in seen}) == len(seen) == 5
        (failed,) = (await admin.do("GET", "usage/requests?status=503"))["requests"]
        shown = await admin.do("GET", f"usage/requests/{failed['id']}")
        assert shown["attempt_details"][0]["error"] == "Overloaded"
        assert (await admin.refused("GET", "usage/requests/req_none"))[0] == 404

    run(work, config)


def test_a_csv_has_every_row_and_no_formula(config: str) -> None:
    async def work(admin: Admin) -> None:
        for user in ("=1+1", "u,2"):
            await admin.chat(ADMIN, user=user)
        status, text = await admin.send("GET", "/admin/api/usage/requests.csv?key=root")
        rows = [*csv.DictReader(text.splitlines())]
        assert status == 200
        assert {row["user"] for row in rows} == {"'=1+1", "u,2"}
        assert datetime.fromisoformat(rows[0]["started_at"]).tzinfo == UTC
        _, text = await admin.send("GET", "/admin/api/usage/sums.csv?by=total&group=key")
        assert [(row["key"], row["requests"]) for row in csv.DictReader(text.splitlines())] == [("root", "2")]

    run(work, config)


def test_a_key_without_a_role_sees_its_own_usage_only() -> None:
    async def work(admin: Admin) -> None:
        alice = (await admin.do("POST", "keys", {"name": "alice"}))["key"]
        await admin.chat(alice)
        await admin.chat(ADMIN)
        (total,) = (await admin.do("GET", "usage/sums?by=total&group=key", key=alice))["buckets"]
        assert (total["key"], total["requests"]) == ("alice", 1)
        (own,) = (await admin.do("GET", "usage/requests", key=alice))["requests"]
        (other,) = (await admin.do("GET", "usage/requests?key=root"))["requests"]
        assert (await admin.refused("GET", f"usage/requests/{other['id']}", key=alice))[0] == 404
        assert (await admin.do("GET", f"usage/requests/{own['id']}", key=alice))["key"] == "alice"
        assert (await admin.refused("GET", "usage/requests?key=root", key=alice))[0] == 403

    run(work)


def test_a_request_is_shown_with_every_field_of_its_row() -> None:
    assert {*RequestView.__struct_fields__} == {*UsageRow.__struct_fields__, "attempt_details"}


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("since=yesterday", "since must be seconds since the epoch"),
        ("since=2027-01-01T00:00:00", "since must be seconds since the epoch"),
        ("since=1h&until=2h", "since must be before until"),
        ("by=minute&since=3d", "since must be at most 2 days before until for by = minute"),
        ("group=colour", "group must be of key, team, model, target, user, got 'colour'"),
        ("by=year", "by must be"),
        ("limit=3", "limit is not a known field"),
    ],
)
def test_a_wrong_parameter_is_named(query: str, problem: str) -> None:
    async def work(admin: Admin) -> None:
        status, message = await admin.refused("GET", f"usage/sums?{query}")
        assert status == 400
        assert problem in message

    run(work)
