"""Hooks: what they see of calls, streams, typed calls and agents, and that they break nothing."""

import asyncio
import logging
from typing import Any

import pytest

from dragoman import (
    Agent,
    Call,
    DragomanError,
    Finished,
    Hooks,
    InvalidRequest,
    Overloaded,
    Registry,
    Reset,
    Response,
    user,
)
from dragoman.events import StreamEvent
from dragoman.testing import CloseAfter, Scripted


class Seen:
    """Hooks that remember what they saw."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Any]] = []
        self.calls: list[Call] = []
        self.hooks = Hooks(before=self.before, after=self.after, on_error=self.on_error, on_event=self.on_event)

    def before(self, call: Call) -> None:
        self.calls.append(call)
        self.steps.append(("before", call.spec))

    def after(self, call: Call, response: Response) -> None:
        assert call is self.calls[-1]
        self.steps.append(("after", response.text))

    def on_error(self, call: Call, error: DragomanError) -> None:
        assert call is self.calls[-1]
        self.steps.append(("error", type(error)))

    def on_event(self, call: Call, event: StreamEvent) -> None:
        assert call is self.calls[-1]
        self.steps.append(("event", event))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.steps]


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_a_call_is_seen_before_and_after(seen: Seen) -> None:
    model = Registry(env={}, hooks=seen.hooks).model("demo/any")
    response = model.generate("Is it so?", temperature=0)
    assert seen.steps == [("before", "demo/any"), ("after", response.text)]
    (call,) = seen.calls
    assert call.request.messages == (user("Is it so?"),)
    assert (call.request.temperature, call.target, repr(call)) == (0, "demo/any", "Call('demo/any')")
    assert call.duration == call.duration > 0
    assert call.time_to_first_content is None


def test_an_async_call_is_seen(seen: Seen) -> None:
    model = Registry(env={}).model("demo/any", hooks=[seen.hooks])
    asyncio.run(model.agenerate("Is it so?"))
    assert seen.names == ["before", "after"]


def test_an_error_is_seen(seen: Seen) -> None:
    model = Registry(env={}).model("demo/overloaded", hooks=seen.hooks, retries=0)
    with pytest.raises(Overloaded):
        model.generate("Is it so?")
    assert seen.steps == [("before", "demo/overloaded"), ("error", Overloaded)]


def test_the_events_of_a_stream_are_seen(seen: Seen) -> None:
    model = Registry(env={}).model("demo/any", hooks=seen.hooks)
    events = list(model.stream("Is it so?").events())
    assert [what for name, what in seen.steps if name == "event"] == events
    assert seen.names[0] == "before"
    assert seen.names[-1] == "after"
    assert isinstance(seen.steps[-2][1], Finished)
    first = seen.calls[0].time_to_first_content
    assert first is not None
    assert 0 < first <= seen.calls[0].duration

    async def work() -> None:
        async with model.astream("Is it so?") as stream:
            assert [event async for event in stream.events()] == events

    asyncio.run(work())
    assert seen.names.count("after") == 2


def test_a_stream_that_is_left_or_breaks_is_an_error(seen: Seen) -> None:
    model = Registry(env={}).model("demo/any", hooks=seen.hooks)
    for _ in model.stream("Is it so?"):
        assert seen.calls[0].duration > 0  # while it runs
        break
    assert seen.steps[-1] == ("error", Reset)
    broken = Scripted(CloseAfter(250, "The tide is at four metres."))
    with pytest.raises(DragomanError):
        list(broken.registry().model("scripted/model", hooks=seen.hooks, retries=0).stream("Well?"))
    assert seen.names[-1] == "error"


def test_typed_calls_and_agents_are_seen(seen: Seen) -> None:
    registry = Registry(env={}, hooks=seen.hooks)
    model = registry.model("demo/any")
    model.generate("Is it so?", output=bool)
    model.extract(bool, "Is it so?")
    assert seen.names == ["before", "after"] * 2
    Agent(model).run("Is it so?")
    assert seen.names[4:] == ["before", "after"]


def test_hooks_of_the_registry_come_before_those_of_the_model() -> None:
    order: list[str] = []
    registry = Registry(env={})
    model = registry.model("demo/any", hooks=Hooks(before=lambda _call: order.append("model")))
    registry.add_hooks(
        Hooks(before=lambda _call: order.append("registry"), after=lambda _call, _response: order.append("after"))
    )
    model.generate("Is it so?")
    assert order == ["registry", "model", "after"]


def test_a_hook_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ValueError("secret words")

    hooks = Hooks(before=fail, after=fail, on_event=fail)
    model = Registry(env={}, hooks=hooks).model("demo/any")
    assert model.generate("Is it so?").text
    assert "".join(model.stream("Is it so?").text_deltas())
    warnings = {record.getMessage() for record in caplog.records if record.levelno == logging.WARNING}
    assert warnings == {"an observer or a hook failed: ValueError"}


async def _coroutine(_call: Call) -> None: ...


@pytest.mark.parametrize(("hook", "kind"), [(5, "5"), (_coroutine, "a coroutine function")])
def test_a_hook_is_a_plain_function(hook: Any, kind: str) -> None:
    with pytest.raises(InvalidRequest, match=f"before must be a plain function or None, got {kind}"):
        Hooks(before=hook)


@pytest.mark.parametrize("hooks", [5, print, [print]])
def test_wrong_hooks_are_refused(hooks: Any) -> None:
    with pytest.raises(InvalidRequest, match="hooks must be Hooks, or a list of these"):
        Registry(env={}, hooks=hooks)
    with pytest.raises(InvalidRequest, match="hooks must be Hooks, or a list of these"):
        Registry(env={}).model("demo/any", hooks=hooks)


# Logging --------------------------------------------------------------------------------------------------------------


def test_attempts_are_logged_without_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="dragoman")
    registry = Registry(env={})
    response = registry.model("demo/overloaded, demo/any", retries=0).generate("secret words")
    lines = [record.getMessage() for record in caplog.records if record.name == "dragoman.calls"]
    assert lines[0] == "demo/overloaded failed: Overloaded"
    assert lines[-1].startswith("demo/any served in ")
    assert lines[-1].endswith(f" s, tokens: {response.usage.input} in, {response.usage.output} out")
    assert not [line for line in lines if "secret" in line]
    levels = {record.levelname for record in caplog.records}
    assert levels >= {"INFO", "DEBUG"}


def test_a_cooldown_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    model = Registry(env={}).model("demo/overloaded, demo/any", retries=0)
    for _ in range(3):
        model.generate("secret words")
    (line,) = {record.getMessage() for record in caplog.records if record.levelno == logging.WARNING}
    assert line.startswith("demo/overloaded: cooldown of ")
    assert line.endswith(" s after Overloaded")


def test_nothing_is_logged_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    model = Registry(env={}).model("demo/overloaded, demo/any", retries=0)
    for _ in range(3):
        model.generate("Is it so?")
    assert capfd.readouterr().err == ""
