"""A gateway with traffic of some days, and what tests and pictures of its dashboard do."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

from selenium.webdriver.common.keys import Keys

from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow
from tests.support.gateway.browser import Browser
from tests.support.gateway.live import Gateway, chat

OPERATOR_CONFIG = """
[gateway]
store = "sqlite:{store}"
providers = ["demo"]
[keys.root]
hash = "{hash}"
role = "admin"
[bodies]
retention = 3600
[cache]
[tiers.simple]
models = ["demo/any", "demo/slow"]
[aliases]
fast = "demo/overloaded, demo/any"
"""
TARGETS = ("groq/llama-3.3-70b-versatile", "openai/gpt-5-mini", "anthropic/claude-sonnet-5", "mistral/mistral-large")
PEOPLE = (("alice", "research"), ("bob", "research"), ("support-bot", "support"), ("carol", None))
DAY = 86_400


def past_rows(count: int = 900, days: int = 14) -> list[UsageRow]:
    """Requests of the last days, always the same but for their time."""
    rng, now = random.Random(7), time.time()
    rows: list[UsageRow] = []
    for number in range(count):
        # More by day than by night, and more today.
        age = (rng.random() ** 1.6) * days * DAY
        if (now - age) % DAY / 3600 < 6 and rng.random() < 0.7:
            continue
        key, team = PEOPLE[min(3, int(rng.expovariate(1.1)))]
        target = rng.choices(TARGETS, (5, 4, 3, 1))[0]
        outcome = rng.choices(("served", "failed", "refused", "client_disconnected"), (94, 3, 2, 1))[0]
        duration, is_served = rng.lognormvariate(0.3, 0.6), outcome == "served"
        tokens = int(rng.lognormvariate(6.5, 1)), int(rng.lognormvariate(5.5, 0.9))
        rows.append(
            UsageRow(
                id=f"req_demo{number:05d}",
                started_at=now - age - 5,
                key=key,
                team=team,
                model="simple" if rng.random() < 0.3 else target,
                target=target,
                dialect=rng.choice(("openai_chat", "anthropic", "openai_responses", "google")),
                stream=rng.random() < 0.7,
                status={"served": 200, "failed": 503, "refused": 429}.get(outcome, 499),
                outcome=outcome,
                input=tokens[0] if is_served else None,
                output=tokens[1] if is_served else None,
                cost=(tokens[0] * 400 + tokens[1] * 1600) if is_served else None,
                duration=duration,
                time_to_first_token=duration / 4 if is_served else None,
                attempts=2 if rng.random() < 0.06 else 1,
                cache="hit" if is_served and rng.random() < 0.08 else None,
            )
        )
    return rows


def fill(gateway: Gateway, admin: str, store: Path) -> dict[str, str]:
    """Add keys, teams, names, past requests and a few new ones; returns the new keys."""

    async def write() -> None:
        opened = open_store(f"sqlite:{store}")
        rows = past_rows()
        for start in range(0, len(rows), 200):
            await opened.record(rows[start : start + 200])
        await opened.aclose()

    asyncio.run(write())

    def make(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        status, _, answer = gateway.post(f"/admin/api/{kind}", body, authorization=f"Bearer {admin}")
        assert status == 201, answer
        made: dict[str, Any] = json.loads(answer)
        return made

    make("teams", {"name": "research", "budgets": [{"per": "month", "tokens": 500_000}], "tags": ["lab"]})
    make("teams", {"name": "support", "requests_per_minute": 600})
    limits: tuple[dict[str, Any], ...] = (
        {"budgets": [{"per": "day", "tokens": 100_000}], "requests_per_minute": 60, "tags": ["web"]},
        {"models": ["demo/*", "simple"], "concurrent": 4, "role": "owner"},
        {"tokens_per_minute": 200_000, "cache": True},
        {"role": "viewer"},
    )
    keys = {
        name: str(make("keys", {"name": name, "team": team, "owner": f"{name}@example.com", **more})["key"])
        for (name, team), more in zip(PEOPLE, limits, strict=True)
    }
    for name in ("alice", "alice", "bob", "support-bot"):
        for model in ("demo/any", "fast"):
            gateway.post("/v1/chat/completions", chat(model, stream=True), authorization=f"Bearer {keys[name]}")
    return keys


def view(page: Browser, name: str) -> None:
    """Open a view of the page."""
    page.run("location.hash = '/' + arguments[0]", name)
    page.wait(lambda: page.find(f"#{name.partition('?')[0]}").is_displayed() or None)


def ask(page: Browser, model: str, prompt: str, field: str = "model") -> None:
    """Send a message in the playground."""
    page.run("document.getElementById(arguments[0]).value = arguments[1]", field, model)
    page.find("#prompt").send_keys(prompt, Keys.ENTER)
