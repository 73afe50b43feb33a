"""The dashboard's JSON and its files, without a browser and without a socket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Overloaded, StoreDown
from dragoman.gateway.accounting.usage import MAX_RECENT, RecentRequests
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.dashboard import static_files
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.store.base import UsageRow
from dragoman.http import HttpRequest
from dragoman.testing import FaultyServer
from dragoman.types import Attempt
from tests.support.gateway.dialects import ClientResponse, hello, post, request_of, send_blocking
from tests.support.gateway.live import record

API = "/admin/api/"
JSON = {"content-type": "application/json", "host": "127.0.0.1:8080"}
PLANTED = "the-prompt-that-nobody-may-see"
SECRET = "sk-provider-secret-1234567890"


def app_of(config: str = "", *, is_local: bool = True) -> App:
    return App(Runtime(decode_config(config), {}), is_local=is_local)


def get(app: App, name: str, **headers: str) -> ClientResponse:
    return send_blocking(app, HttpRequest(method="GET", path=API + name, headers={"host": "localhost", **headers}))


def body_of(seen: ClientResponse) -> Any:
    assert seen.status == 200, seen.body
    return json.loads(seen.body)


def do(app: App, name: str, body: object) -> ClientResponse:
    return send_blocking(app, post(API + name, json.dumps(body).encode(), **JSON))


def states(app: App) -> dict[str, str]:
    return {target["name"]: target["state"] for target in body_of(get(app, "snapshot"))["targets"]}


# Who may look ---------------------------------------------------------------------------------------------------------


def keyed() -> tuple[App, str, str]:
    (admin, admin_hash), (team, team_hash) = new_key(), new_key()
    config = f'[keys.root]\nhash = "{admin_hash}"\nadmin = true\n[keys.team]\nhash = "{team_hash}"\n'
    return app_of(config), admin, team


@pytest.mark.parametrize("name", ["snapshot", "system", "providers"])
def test_only_an_admin_key_may_look(name: str) -> None:
    app, admin, team = keyed()
    assert get(app, name).status == 401
    assert get(app, name, authorization="Bearer sk-dm-wrong").status == 401
    assert get(app, name, authorization=f"Bearer {team}").status == 403
    assert get(app, name, authorization=f"Bearer {admin}").status == 200


@pytest.mark.parametrize("name", ["targets/disable", "targets/enable", "explain"])
def test_only_an_admin_key_may_do(name: str) -> None:
    app, _, team = keyed()
    assert send_blocking(app, post(API + name, b"{}", **JSON)).status == 401
    assert send_blocking(app, post(API + name, b"{}", **JSON, authorization=f"Bearer {team}")).status == 403


def test_what_cannot_be_read_is_refused() -> None:
    app, admin, _ = keyed()
    http = post(API + "targets/enable", b'{"target": "\xff"}', **JSON, authorization=f"Bearer {admin}")
    assert send_blocking(app, http).status == 400


def test_without_keys_nobody_looks_from_elsewhere() -> None:
    assert get(app_of(is_local=False), "snapshot").status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[bad"])
def test_without_keys_no_other_name_leads_here(host: str) -> None:
    assert get(app_of(), "snapshot", host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST"])
def test_without_keys_this_machine_looks(host: str) -> None:
    assert get(app_of(), "snapshot", host=host).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_foreign_page_can_send_changes_nothing(kind: str) -> None:
    app = app_of()
    http = post(API + "targets/disable", b'{"target": "demo/any"}', **{**JSON, "content-type": kind})
    assert send_blocking(app, http).status == 400
    assert states(app) == {"demo/any": "healthy"}


# Answers ------------------------------------------------------------------------------------------------------------------


def test_a_target_is_disabled_and_enabled() -> None:
    app = app_of()
    do(app, "targets/disable", {"target": "demo/any", "seconds": 60})
    assert states(app) == {"demo/any": "disabled"}
    assert send_blocking(app, request_of("openai_chat", "demo/any", hello())).status == 503
    do(app, "targets/enable", {"target": "demo/any"})
    assert states(app) == {"demo/any": "healthy"}


@pytest.mark.parametrize("target", ["fast", "demo/any,demo/slow", "groq/llama", "", "demo/"])
def test_only_a_target_can_be_disabled(target: str) -> None:
    app = app_of('[aliases]\nfast = "demo/any"\n')
    assert do(app, "targets/disable", {"target": target}).status == 404
    assert states(app) == {"demo/any": "healthy"}


@pytest.mark.parametrize(
    "body", [{}, {"target": 1}, {"target": "demo/any", "seconds": 0}, {"target": "x", "more": 1}, []]
)
def test_a_disable_request_with_other_fields_is_refused(body: object) -> None:
    assert do(app_of(), "targets/disable", body).status == 400


def test_names_are_listed_with_their_targets() -> None:
    app = app_of('[tiers.simple]\nmodels = { "demo/any" = 1, "demo/slow" = 4 }\n[aliases]\nfast = "demo/any, simple"\n')
    simple, fast = body_of(get(app, "snapshot"))["names"]
    assert simple == {
        "name": "simple",
        "tier": True,
        "order": "weighted",
        "targets": ["demo/any", "demo/slow"],
        "costs": [1.0, 4.0],
    }
    assert (fast["tier"], fast["order"], fast["targets"]) == (False, "in_order", ["demo/any", "demo/slow"])


def test_a_target_that_left_the_config_is_not_listed() -> None:
    app = app_of('[aliases]\nfast = "demo/any"\n')
    do(app, "targets/disable", {"target": "demo/any"})
    app.runtime = Runtime(
        decode_config(record("up", "http://127.0.0.1:1/v1") + '[aliases]\nfast = "up/m"\n'), {}, app.runtime
    )
    assert states(app) == {"up/m": "healthy"}


def test_a_request_is_shown_with_all_attempts() -> None:
    app = app_of("[chain]\nretries = 0\n")
    for stream in (False, True):
        send_blocking(app, request_of("openai_chat", "demo/overloaded,demo/any", hello(stream=stream)))
    for listed in body_of(get(app, "usage/requests"))["requests"]:
        row = body_of(get(app, f"usage/requests/{listed['id']}"))
        assert row["outcome"] == "served"
        assert [(attempt["target"], attempt["outcome"]) for attempt in row["attempt_details"]] == [
            ("demo/overloaded", "failed"),
            ("demo/any", "served"),
        ]
        assert row["attempt_details"][0]["error"] == "Overloaded"


@pytest.mark.parametrize(
    ("body", "param"),
    [({}, "target"), ({"target": 5}, "target"), ({"target": "demo/any", "seconds": -1}, "seconds"), ([], None)],
)
def test_a_wrong_disable_request_is_refused_with_the_field_name(body: object, param: str | None) -> None:
    seen = do(app_of(), "targets/disable", body)
    assert (seen.status, json.loads(seen.body)["error"]["param"]) == (400, param)


def test_recent_requests_are_bounded() -> None:
    recent = RecentRequests()
    for number in range(MAX_RECENT + 3):
        recent.add(
            UsageRow(id=f"r{number}", started_at=0.0, model="m"),
            [Attempt(target="aa/m", outcome="failed", error="X: y")],
        )
    known = [number for number in range(MAX_RECENT + 3) if recent.attempts(f"r{number}")]
    assert known == list(range(3, MAX_RECENT + 3))


def test_a_store_that_is_down_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of()

    async def down(*_: object, **__: object) -> None:
        raise StoreDown("store: away")

    for name in ("read", "write", "usage", "record"):
        monkeypatch.setattr(app.runtime.store, name, down)
    assert body_of(get(app, "snapshot"))["store"] == "store: away"
    system = body_of(get(app, "system"))
    assert (system["store"], system["store_state"]) == ("memory", "store: away")
    assert system["problems"] == ["the store cannot be used: store: away"]


def test_each_target_of_a_chain_is_explained_without_its_key() -> None:
    config = record("up", "https://user:hidden@127.0.0.1:1/v1", "anthropic").replace("sk-test-key", SECRET)
    body = {"model": "up/m,demo/any", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    seen = do(app_of(config + '[gateway]\nproviders = ["demo"]\n'), "explain", body)
    up, demo = body_of(seen)["targets"]
    assert up["body"]["max_tokens"] == 5
    assert up["request"].startswith("POST https://[redacted]@127.0.0.1:1/v1/messages")
    assert demo["body"]["messages"] == [{"role": "user", "content": "hi"}]
    assert SECRET.encode() not in seen.body
    assert b"hidden" not in seen.body


def test_a_request_that_cannot_be_explained_is_refused_in_words() -> None:
    assert do(app_of(), "explain", {"model": "demo/any", "messages": []}).status == 400
    assert do(app_of(), "explain", {"model": "nix", "messages": [{"role": "user", "content": "hi"}]}).status == 404


def test_no_prompt_and_no_key_is_shown_even_if_the_provider_repeats_it() -> None:
    with FaultyServer(Overloaded(f"cannot answer {PLANTED} for {SECRET}"), repeat=True) as upstream:
        app = app_of(record("up", upstream.base_url()).replace("sk-test-key", SECRET) + "[chain]\nretries = 0\n")
        body = {"model": "up/m", "messages": [{"role": "user", "content": PLANTED}]}
        for _ in range(3):
            send_blocking(app, post("/v1/chat/completions", json.dumps(body).encode(), **JSON))
        seen = [get(app, name).body for name in ("snapshot", "usage/requests", "usage/sums")]
    assert b"Overloaded" in seen[0]
    for text in seen:
        assert PLANTED.encode() not in text
        assert SECRET.encode() not in text


# The files ------------------------------------------------------------------------------------------------------------


def pages() -> Iterator[tuple[str, ClientResponse]]:
    app = app_of(is_local=False)
    for path in ("/", *(f"/dashboard/{name}" for name in static_files.FILES)):
        yield path, send_blocking(app, HttpRequest(method="GET", path=path))


def test_the_page_and_its_files_are_served_with_a_strict_policy() -> None:
    for path, seen in pages():
        assert seen.status == 200, path
        policy = seen.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert seen.headers["x-content-type-options"] == "nosniff"


def test_the_page_names_no_place_outside() -> None:
    for path, seen in pages():
        text = seen.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, path
        assert "https:" not in text, path
        assert "innerHTML" not in text, path


def test_every_file_is_served_and_all_of_them_are_small() -> None:
    folder = Path(static_files.__file__).parent / "static"
    assert {path.name for path in folder.iterdir()} == {static_files.PAGE, *static_files.FILES}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 130_000
