"""Names that clients make up are not kept for ever."""

import asyncio
import json
import re

import pytest

from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.store.base import UsageRow
from dragoman.gateway.store.memory import MemoryStore
from dragoman.testing import FaultyServer, RawResponse
from tests.support.gateway.contexts import context_of
from tests.support.gateway.dialects import app_of, post, send_request
from tests.support.gateway.live import chat, record
from tests.support.gateway.usage import usage_rows, usage_sums

CHAT = "/v1/chat/completions"
PLAIN, HASH = new_key()
KEYED = f'[gateway]\nproviders = ["demo"]\n[keys.alice]\nhash = "{HASH}"\nmodels = ["*/*", "nope*"]\n'
MISSING = b'{"error": {"message": "no such model", "code": "model_not_found"}}'


def test_unknown_models_share_one_sum() -> None:
    async def ask() -> tuple[set[tuple[str, str | None]], int, str]:
        line = RawResponse(status=404, headers={"content-type": "application/json"}, body=MISSING)
        with FaultyServer(line, repeat=True) as upstream:
            app = app_of(KEYED + "[chain]\nretries = 0\n" + record("up", upstream.base_url()))
            for number in range(20):
                for model in (f"nope{number}", f"nobody/m{number}", f"forbidden{number}", f"up/m{number}"):
                    body = json.dumps(chat(model)).encode()
                    seen = await send_request(app, post(CHAT, body, authorization=f"Bearer {PLAIN}"))
                    assert seen.status in (403, 404)
        (first, *_) = rows = await usage_rows(app.runtime.accounting)
        assert isinstance(first, UsageRow)
        sums = await usage_sums(app.runtime.accounting, first.day, first.day)
        metrics = (await app.runtime.accounting.scrape()).decode()
        return {(total.model, total.target) for total in sums}, len(rows), metrics

    names, rows, metrics = asyncio.run(ask())
    assert set(re.findall('target="([^"]*)"', metrics)) == {"", "up/(unknown)"}
    assert names == {("(unknown)", None), ("(unknown)", "up/(unknown)")}
    assert rows == 80


def test_a_target_behind_an_alias_keeps_its_name() -> None:
    async def ask() -> tuple[list[tuple[str, str | None]], str]:
        line = RawResponse(status=404, headers={"content-type": "application/json"}, body=MISSING)
        with FaultyServer(line, repeat=True) as upstream:
            alias = '[aliases]\nfast = "up/deleted"\n'
            app = app_of('[gateway]\nproviders = ["up"]\n' + alias + record("up", upstream.base_url()))
            assert (await send_request(app, post(CHAT, json.dumps(chat("fast")).encode()))).status == 404
        rows = [(row.model, row.target) for row in await usage_rows(app.runtime.accounting)]
        return rows, (await app.runtime.accounting.scrape()).decode()

    rows, metrics = asyncio.run(ask())
    assert rows == [("fast", "up/deleted")]
    assert 'dragoman_attempts_total{target="up/deleted",outcome="failed"}' in metrics


def test_a_404_that_names_no_model_keeps_the_names() -> None:
    async def ask() -> list[tuple[str, str | None]]:
        accounting = Accounting(MemoryStore())
        request = await accounting.open(context_of("r1", model="openai"))
        await request.finish("failed", status=404, target="openai/")
        return [(row.model, row.target) for row in await usage_rows(accounting)]

    assert asyncio.run(ask()) == [("openai", "openai/")]


def test_end_users_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.accounting.usage.MAX_USERS", 2)

    async def ask() -> list[str]:
        app = app_of(KEYED)
        for user in ("u1", "u2", "u3", "u1", "u4"):
            body = json.dumps({**chat("demo/any"), "user": user}).encode()
            assert (await send_request(app, post(CHAT, body, authorization=f"Bearer {PLAIN}"))).status == 200
        return sorted(str(row.user) for row in await usage_rows(app.runtime.accounting))

    assert asyncio.run(ask()) == ["(other)", "(other)", "u1", "u1", "u2"]


def test_names_that_a_server_accepts_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.accounting.usage.MAX_MODELS", 5)

    async def ask() -> set[tuple[str, str | None]]:
        with FaultyServer("Hello.", repeat=True) as upstream:
            app = app_of(KEYED + record("up", upstream.base_url()))
            for number in (*range(8), 0):
                body = json.dumps(chat(f"up/m{number}")).encode()
                assert (await send_request(app, post(CHAT, body, authorization=f"Bearer {PLAIN}"))).status == 200
        rows = await usage_rows(app.runtime.accounting)
        sums = await usage_sums(app.runtime.accounting, rows[0].day, rows[0].day)
        assert sum(total.requests for total in sums) == 9
        return {(total.model, total.target) for total in sums}

    own = {(f"up/m{number}", f"up/m{number}") for number in range(5)}
    assert asyncio.run(ask()) == own | {("(other)", "up/(other)")}
