"""The walk of one request through the package is short: few places, each once down and once up.

`pytest tests/test_walk.py -s` prints it; ARCHITECTURE.md explains it.
"""

import asyncio
import re

import pytest

from dragoman.gateway.app import App
from dragoman.http import HttpRequest
from dragoman.testing import FaultyServer
from tests.support.gateway.dialects import app_of, hello, request_of, send_request
from tests.support.paths import ROOT
from tests.support.walk import Walk, walk_of

WIRES = ("anthropic", "openai_chat")


def check(walk: Walk, places: int, changes: int, files: int, file_changes: int) -> None:
    """Bound what a reader has to follow, and also the raw numbers with a margin of three."""
    print(f"\n{walk}")
    assert len(walk.places) <= places, str(walk)
    assert walk.changes <= changes, str(walk)
    assert len(walk.files) <= files + 3, str(walk)
    assert walk.file_changes <= file_changes + 3, str(walk)


def documented(name: str) -> set[str]:
    """The places of a walk in ARCHITECTURE.md."""
    marker = f"<!-- walk: {name} -->\n"
    _, steps, _ = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split(marker)
    return set(re.findall(r"`([\w/]+(?:\.py|/))`", steps))


@pytest.mark.parametrize("wire", WIRES)
def test_a_plain_call_of_the_library(wire: str) -> None:
    with FaultyServer("Hello!", repeat=True) as server:
        model = server.model(wire)
        # 18 places, and two that are their own subject: the pool of connections, and the headers of a response.
        check(walk_of(lambda: model.generate("hi")), 20, 38, 26, 54)


@pytest.mark.parametrize("wire", WIRES)
def test_a_streamed_call_of_the_library(wire: str) -> None:
    with FaultyServer("Hello!", repeat=True) as server:
        model = server.model(wire)
        check(walk_of(lambda: list(model.stream("hi"))), 26, 140, 36, 175)


def gateway_request(server: FaultyServer) -> tuple[App, HttpRequest]:
    """A gateway in front of the server, and a streamed request of an OpenAI client."""
    base_url = f"{server.origin}/v1"
    app = app_of(
        f'[providers.up]\nlike = "anthropic"\nbase_url = "{base_url}"\napi_key = "sk-up"\n[aliases]\nfast = "up/m"'
    )
    return app, request_of("openai_chat", "fast", hello(stream=True))


@pytest.fixture(autouse=True)
def write_log_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of earlier requests are not written during a walk."""
    monkeypatch.setattr("dragoman.gateway.observability.access_log.FLUSH_DELAY", 60.0)


def test_a_streamed_request_through_the_gateway() -> None:
    with FaultyServer("Hello!", repeat=True) as server, asyncio.Runner() as runner:
        app, http = gateway_request(server)
        # 36 places, and six that are their own subject: checks of browsers, the pool of connections, the headers of a
        # response, stored chats, the access log, and the streamed response.
        check(walk_of(lambda: runner.run(send_request(app, http))), 42, 183, 54, 304)


def test_the_page_shows_the_walk_of_the_library() -> None:
    with FaultyServer("Hello!", repeat=True) as server:
        model = server.model("anthropic")
        assert set(walk_of(lambda: model.generate("hi")).places) == documented("library")


def test_the_page_shows_the_walk_of_the_gateway() -> None:
    with FaultyServer("Hello!", repeat=True) as server, asyncio.Runner() as runner:
        app, http = gateway_request(server)
        places = set(walk_of(lambda: runner.run(send_request(app, http))).places)
        own, shared = documented("gateway"), documented("library")
        assert own <= places
        assert places <= own | shared
