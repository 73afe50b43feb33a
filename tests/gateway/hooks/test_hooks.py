"""Hooks around requests: what they may do, and what happens if they fail."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.events import Event, PartDelta
from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.hooks.base import Hook, HookCall, Refused
from dragoman.gateway.runtime import Runtime
from dragoman.types import Message, Request, Response, Tool, ToolCall, ToolResult, assistant, user
from tests.support.gateway.dialects import ClientResponse, hello, request_of, response_of, send_blocking

HERE = "tests.gateway.hooks.test_hooks"
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Recorder(Hook):
    """Notes what it sees."""

    log: ClassVar[list[str]] = []

    def before(self, call: HookCall) -> None:
        self.log.append(f"before {call.request.messages[-1].text}")
        call.note("seen", f"{call.key} {call.model} {call.dialect}")

    async def after(self, call: HookCall, response: Response) -> None:
        self.log.append(f"after {response.finish.reason}")

    def on_events(self, call: HookCall, events: Sequence[Event]) -> None:
        self.log.append("events")

    def on_error(self, call: HookCall, error: Exception) -> None:
        self.log.append(f"error {type(error).__name__}")


class ShoutSettings(msgspec.Struct, forbid_unknown_fields=True):
    word: str = "LOUD"


class Shout(Hook):
    """Changes requests and answers."""

    settings_type = ShoutSettings

    def before(self, call: HookCall) -> None:
        call.request = replace(call.request, messages=(user(self.settings.word),))
        call.notice("prompt", "it is louder now")

    async def after(self, call: HookCall, response: Response) -> Response:
        return replace(response, message=assistant(response.text.upper()))

    def on_events(self, call: HookCall, events: Sequence[Event]) -> list[Event]:
        return [replace(event, text=event.text.upper()) if isinstance(event, PartDelta) else event for event in events]


class Gate(Hook):
    """Refuses."""

    def before(self, call: HookCall) -> None:
        raise Refused("not today", code="closed")


class HoldBack(Hook):
    async def after(self, call: HookCall, response: Response) -> None:
        raise Refused("not this answer")


class Broken(Hook):
    def before(self, call: HookCall) -> None:
        raise KeyError("sk-secret-123456")


class Sleepy(Hook):
    async def before(self, call: HookCall) -> None:
        await asyncio.sleep(30)


class Blocking(Hook):
    def before(self, call: HookCall) -> None:
        time.sleep(0.3)


class Meddler(Hook):
    """Changes a request in place, which a hook must not do."""

    seen: ClassVar[list[str]] = []

    def before(self, call: HookCall) -> None:
        arguments = call.request.messages[1].tool_calls[0].arguments
        self.seen.append(arguments["port"])
        arguments["port"] = "Nantes"


def app_of(*hooks: str, more: str = "") -> App:
    tables = "".join(f'[hooks.h{number}]\nuse = "{HERE}:{hook}"\n{more}\n' for number, hook in enumerate(hooks))
    return App(Runtime(decode_config(f'[gateway]\nproviders = ["demo"]\n[chain]\nretries = 0\n{tables}'), {}))


def ask(app: App, *, stream: bool = False, model: str = "demo/any") -> ClientResponse:
    return send_blocking(app, request_of("openai_chat", model, hello(stream=stream)))


@pytest.fixture(autouse=True)
def _empty() -> None:
    Recorder.log.clear()


@STREAMS
def test_a_hook_sees_the_request_and_the_answer(stream: bool) -> None:  # noqa: FBT001 - a parameter
    seen = ask(app_of("Recorder"), stream=stream)
    assert Recorder.log[0] == "before hello"
    assert Recorder.log[-1] == "after stop"
    assert ("events" in Recorder.log) == stream
    assert seen.headers["x-dragoman-note-seen"] == "None demo/any openai_chat"


@STREAMS
def test_a_hook_changes_the_request_and_the_answer(stream: bool) -> None:  # noqa: FBT001 - a parameter
    seen = ask(app_of("Shout"), stream=stream)
    text = response_of("openai_chat", hello(stream=stream), seen).text
    assert "LOUD" in text
    assert text == text.upper()
    assert any("it is louder now" in notice for notice in seen.notices)


@STREAMS
def test_a_hook_refuses_before_a_target_is_called(stream: bool) -> None:  # noqa: FBT001 - a parameter
    seen = ask(app_of("Recorder", "Gate"), stream=stream)
    assert seen.status == 403
    assert b"not today" in seen.body
    assert Recorder.log == ["before hello", "error Refused"]


def test_a_hook_holds_an_answer_back() -> None:
    seen = ask(app_of("HoldBack"))
    assert (seen.status, b"not this answer" in seen.body) == (403, True)


def test_hooks_see_errors_of_targets() -> None:
    assert ask(app_of("Recorder"), model="demo/overloaded").status == 503
    assert Recorder.log == ["before hello", "error Overloaded"]


def test_the_first_hook_sees_the_answer_last() -> None:
    seen = ask(app_of("Recorder", "Shout"))
    assert Recorder.log[0] == "before hello"
    assert "LOUD" in response_of("openai_chat", hello(), seen).text


@pytest.mark.parametrize("hook", ["Broken", "Sleepy", "Blocking"])
def test_a_hook_that_fails_or_is_slow_refuses_or_is_passed_over(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert ask(app_of(hook, more="timeout = 0.05")).status == 503
        assert ask(app_of(hook, more='timeout = 0.05\non_failure = "continue"')).status == 200
    assert "hook h0: before failed" in caplog.text
    assert "sk-secret" not in caplog.text


def test_a_hook_is_for_some_keys_and_models() -> None:
    app = app_of("Gate", more='models = ["demo/o*"]')
    assert (ask(app).status, ask(app, model="demo/overloaded").status) == (200, 403)
    assert ask(app_of("Gate", more='keys = ["alice"]')).status == 200


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("", "hooks.x: use must be a hook such as redaction, moderation, webhook or module:Class, got None"),
        ('use = "redation"', "hooks.x: unknown hook 'redation'; did you mean 'redaction'?"),
        (
            'use = "nowhere:X"',
            "nowhere:X cannot be imported: No module named 'nowhere'; install its package, or start with",
        ),
        ('use = "json:JSONDecoder"', "use must name a subclass of dragoman.gateway.hooks.base.Hook"),
        ('use = "redaction"\npatern = 1', "hooks.x: unknown setting 'patern'; did you mean 'patterns'?"),
        ('use = "redaction"\npatterns = ["mail"]', "hooks.x.patterns must be of email, iban, card"),
        ('use = "redaction"\ncustom = { a = "(" }', "custom.a must be a regular expression"),
        ('use = "moderation"', "hooks.x: model is required"),
        ('use = "webhook"\nurl = "nowhere"', "hooks.x.url must be a URL"),
        ('use = "webhook"\nurl = "https://x"\ntimeout = 0', "hooks.x.timeout must be"),
        (f'use = "{HERE}:Shout"\nvolume = 3', "hooks.x: unknown setting 'volume'"),
    ],
)
def test_a_wrong_setting_is_named(table: str, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(f"[hooks.x]\n{table}")
    assert problem in str(caught.value)


def test_an_entry_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "shout"

        def load(self) -> Any:
            return Shout

    def entries(*, group: str, name: str | None = None) -> list[Entry]:
        return [Entry()] if group == "dragoman.hooks" and name in ("shout", None) else []

    monkeypatch.setattr("importlib.metadata.entry_points", entries)
    config = decode_config('[hooks.x]\nuse = "shout"\nword = "HI"')
    assert config.hooks[0].own == ShoutSettings("HI")
    assert "HI" not in repr(config.hooks[0])


def test_headers_with_keys_are_not_shown_to_hooks() -> None:
    class Spy(Hook):
        seen: ClassVar[dict[str, str]] = {}

        def before(self, call: HookCall) -> None:
            self.seen.update(call.headers)

    globals()["Spy"] = Spy
    try:
        http = request_of("openai_chat", "demo/any", hello())
        send_blocking(app_of("Spy"), replace(http, headers={**http.headers, "X-Team": "red"}))
    finally:
        del globals()["Spy"]
    assert Spy.seen["x-team"] == "red"
    assert not any("auth" in name for name in Spy.seen)


def test_a_note_must_have_a_name_that_a_header_can_have() -> None:
    with pytest.raises(ValueError, match="name must be 1 to 64 letters"):
        HookCall(Request()).note("a b", "x")


def test_a_hook_that_changes_a_request_in_place_changes_no_other_request() -> None:
    app = app_of("Meddler")
    call = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
    result = ToolResult(id="call_1", name="tide", content="4.2 m " * 2000)
    request = Request(messages=(user("?"), assistant(call), Message(role="tool", parts=(result,)), user("And now?")))
    for _ in range(2):
        assert send_blocking(app, request_of("openai_chat", "demo/any", request)).status == 200
    assert Meddler.seen == ["Brest", "Brest"]


@pytest.mark.parametrize("hooks", ["", '[hooks.x]\nuse = "redaction"'], ids=["none", "our own"])
def test_decoded_messages_are_shared_if_all_hooks_are_our_own(hooks: str) -> None:
    app = App(Runtime(decode_config(f'[gateway]\nproviders = ["demo"]\n{hooks}'), {}))
    request = Request(messages=(user("?"), assistant("4.2 m " * 2000), user("And now?")), tools=(Tool(name="tide"),))
    assert send_blocking(app, request_of("openai_chat", "demo/any", request)).status == 200
    cache = app.runtime.item_cache
    assert cache is not None
    assert cache.memory > 12_000


def test_a_short_request_is_not_looked_up() -> None:
    app = App(Runtime(decode_config('[gateway]\nproviders = ["demo"]'), {}))
    request = Request(messages=(user("?"), assistant("4.2 m"), user("And now?")), tools=(Tool(name="tide"),))
    assert send_blocking(app, request_of("openai_chat", "demo/any", request)).status == 200
    cache = app.runtime.item_cache
    assert cache is not None
    assert cache.memory == 0
