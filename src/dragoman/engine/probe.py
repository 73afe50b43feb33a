"""A target in, what its server really does out: a few small questions, each asked for one fact. A plan."""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.engine import failover as chain
from dragoman.engine.effects import Plan
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.errors import (
    AuthFailed,
    DragomanError,
    EmptyResponse,
    Interrupted,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestError,
    WireError,
)
from dragoman.schema.validate import validate
from dragoman.targets.target import Capabilities, Target
from dragoman.types import Image, JsonObject, Part, Request, Response, Text, Tool, user

Outcome: TypeAlias = Literal["yes", "no", "unclear"]
MAX_TOKENS = 2048
"""Room for a model that thinks first."""
_MAX_WORDS = 160


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question, and what was seen.

    >>> Finding(question="images", outcome="no", seen="BadRequest: no vision").outcome
    'no'
    """

    question: str
    outcome: Outcome
    seen: str = ""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe has found: the answers, and the facts that follow from them.

    >>> found = Findings(target="box/m", findings=(), facts={"tools": False})
    >>> print(found.toml)
    [capabilities."box/m"]
    tools = false
    """

    target: str
    findings: tuple[Finding, ...]
    facts: dict[str, Any]
    """What `registry.set_capabilities(target, **facts)` takes."""

    @property
    def toml(self) -> str:
        """The facts as a table of a dragoman.toml."""
        lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in self.facts.items()]
        return "\n".join([f"[capabilities.{msgspec.json.encode(self.target).decode()}]", *lines])


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, what its answer shows, and the fact that a yes and a no make."""

    name: str
    request: Request
    shows: Callable[[Response], Finding]
    yes: dict[str, Any] = {}
    no: dict[str, Any] = {}
    quirks: dict[str, Any] = {}
    after: str | None = None
    """A question whose no answers this one, too."""


# The questions --------------------------------------------------------------------------------------------------------

_CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_WEATHER = Tool(name="weather", description="The weather of one city, now.", parameters=_CITY)
_CLOCK = Tool(name="clock", description="The time of day in one city.", parameters=_CITY)
_SHADE: JsonObject = {
    "type": "object",
    "properties": {"shade": {"type": "string", "enum": ["qualm", "zephyr"]}, "count": {"type": "integer"}},
    "required": ["shade", "count"],
    "additionalProperties": False,
}


def _asked(*parts: Part | str, **fields: Any) -> Request:
    return Request(messages=(user(*parts),), max_tokens=MAX_TOKENS, **fields)


_HELLO = _asked("Say hello.")


def _questions() -> Iterator[_Question]:
    """In the order of asking; built when they are needed."""
    weather = Text(text="What is the weather in Paris? Use the tool.")
    both = Text(text="What is the weather in Paris, and what in Rome? Call the tool for both at once.")
    yield _Question(name="text", request=_HELLO, shows=_text)
    yield _Question(
        name="streaming",
        request=_asked("Count to five.", stream=True),
        shows=_text,
        yes={"streaming": True},
        no={"streaming": False},
        quirks={"stream_usage": False},
    )
    yield _Question(
        name="usage in streams",
        request=_asked("Count to five.", stream=True),
        shows=_usage,
        yes={"stream_usage": True},
        no={"stream_usage": False},
        after="streaming",
    )
    yield _Question(
        name="tools",
        request=_asked(weather, tools=(_WEATHER,)),
        shows=_calls,
        yes={"tools": True},
        no={"tools": False},
    )
    yield _Question(
        name="forced choice",
        request=_asked("Say hello.", tools=(_WEATHER,), tool_choice="required"),
        shows=_forced,
        yes={"tools": True, "forced_choice": True},
        no={"forced_choice": False},
        after="tools",
    )
    yield _Question(
        name="named choice",
        request=_asked("Say hello.", tools=(_WEATHER, _CLOCK), tool_choice="clock"),
        shows=_named,
        yes={"named_choice": True},
        no={"named_choice": False},
        after="forced choice",
    )
    yield _Question(name="parallel calls", request=_asked(both, tools=(_WEATHER,)), shows=_parallel, after="tools")
    yield _Question(
        name="parallel calls switched off",
        request=_asked(both, tools=(_WEATHER,), parallel_tool_calls=False),
        shows=_single,
        yes={"parallel_tool_calls": True},
        no={"parallel_tool_calls": False},
        after="tools",
    )
    yield _Question(
        name="schema",
        request=_asked("Write one line about the sea.", schema=_SHADE, schema_name="shade"),
        shows=_obeys,
        yes={"structured": True},
        no={"structured": False},
    )
    yield _Question(
        name="images",
        request=_asked(Image(data=_red_square(), mime="image/png"), "Which colour is this? Answer in one word."),
        shows=_sees,
        no={"max_images": 0},
    )


def _red_square(side: int = 64) -> bytes:
    rows = zlib.compress((b"\0" + b"\xff\0\0" * side) * side)
    pieces = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in pieces
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


# What an answer shows -------------------------------------------------------------------------------------------------


def _found(outcome: Outcome, seen: str) -> Finding:
    return Finding(question="", outcome=outcome, seen=seen if len(seen) <= _MAX_WORDS else f"{seen[:_MAX_WORDS]}…")


def _text(response: Response) -> Finding:
    return _found("yes", response.text)


def _usage(response: Response) -> Finding:
    usage = response.usage
    return _found("yes" if usage.output is not None else "no", f"{usage.input} in, {usage.output} out")


def _calls(response: Response) -> Finding:
    """A model that has tools may still not use them: only a refusal is a no."""
    wrong = [reason for call in response.tool_calls for reason in validate(call.arguments, _CITY)]
    if wrong:
        return _found("unclear", wrong[0])
    return _found("yes" if response.tool_calls else "unclear", _told_calls(response))


def _forced(response: Response) -> Finding:
    return _found("yes" if response.tool_calls else "no", _told_calls(response))


def _named(response: Response) -> Finding:
    names = {call.name for call in response.tool_calls}
    return _found("yes" if names == {"clock"} else "no", _told_calls(response))


def _parallel(response: Response) -> Finding:
    count = len(response.tool_calls)
    return _found("yes" if count > 1 else "no" if count else "unclear", _told_calls(response))


def _single(response: Response) -> Finding:
    count = len(response.tool_calls)
    return _found("no" if count > 1 else "yes" if count else "unclear", _told_calls(response))


def _obeys(response: Response) -> Finding:
    if response.finish.reason == "length":
        return _found("unclear", "the answer was cut at its limit of tokens")
    try:
        value = msgspec.json.decode(response.text)
    except msgspec.DecodeError:
        return _found("no", response.text)
    return _found("no" if validate(value, _SHADE) else "yes", response.text)


def _sees(response: Response) -> Finding:
    return _found("yes" if "red" in response.text.lower() else "unclear", response.text)


def _told_calls(response: Response) -> str:
    told = ", ".join(f"{call.name} {msgspec.json.encode(call.arguments).decode()}" for call in response.tool_calls)
    return told or f"no call, but {response.text!r}"


# Asking ---------------------------------------------------------------------------------------------------------------


def probe(target: Target, options: ChainOptions, /) -> Plan[Findings]:
    """Ask one question after the other. A server that does not even answer the first is raised as its error.

    So is an outage on the way: after a fault that may pass, the first question is asked again.

    >>> from dragoman.targets.providers import target
    >>> next(probe(target("vllm/m"), ChainOptions()))
    Now()
    """
    open = _open(target)
    found: dict[str, Finding] = {}
    facts: dict[str, Any] = {}
    for question in _questions():
        finding = found.get(question.after or "")
        if finding is None or finding.outcome != "no":
            finding = yield from _ask(question, open, options)
        facts |= {"yes": question.yes, "no": question.no, "unclear": {}}[finding.outcome]
        found[question.name] = replace(finding, question=question.name)
    return Findings(target=target.name, findings=tuple(found.values()), facts=facts)


def _open(target: Target) -> Target:
    """The target without what is thought of it: it must be asked all the same."""
    capabilities, quirks = target.capabilities, target.quirks
    return replace(
        target,
        capabilities=Capabilities(context_window=capabilities.context_window, max_output=capabilities.max_output),
        quirks=replace(quirks, named_choice=True, parallel_tool_calls=True, stream_usage=True, json_schema=True),
    )


def _ask(question: _Question, target: Target, options: ChainOptions) -> Plan[Finding]:
    """What one question finds. A fault that may pass is a no only where hello is answered between two of them."""
    asked = replace(target, quirks=replace(target.quirks, **question.quirks))
    found = yield from _answered(question, asked, options)
    if isinstance(found, DragomanError) and found.retry:
        yield from chain.run(_HELLO, [target], Health(), options)
        found = yield from _answered(question, asked, options)
    if isinstance(found, Finding):
        return found
    outcome: Outcome = "unclear" if isinstance(found, EmptyResponse) else "no"
    return _found(outcome, f"{type(found).__name__}: {found.message}")


def _answered(question: _Question, target: Target, options: ChainOptions) -> Plan[Finding | DragomanError]:
    """What the answer shows, or the fault that may be one of the feature; what says nothing of it is raised."""
    try:
        response = yield from chain.run(question.request, [target], Health(), options)
    except (AuthFailed, ModelNotFound, RateLimited, Overloaded):
        raise
    except (ProviderError, RequestError, WireError, EmptyResponse, Interrupted) as error:
        if question.request is _HELLO:
            raise
        return _last(error)
    return question.shows(response)


def _last(error: DragomanError) -> DragomanError:
    """What really happened, behind an exhausted chain and a broken stream."""
    while isinstance(error.__cause__, DragomanError):
        error = error.__cause__
    return error
