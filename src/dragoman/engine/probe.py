"""Probe a target: send a few small requests, each of which shows one capability of the server. A plan.

A successful answer shows what it shows; an error of the server counts as "no". An error that may pass counts only if a
plain request in between succeeds.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.engine import failover
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

ProbeOutcome: TypeAlias = Literal["yes", "no", "unclear"]
MAX_TOKENS = 2048
"""Enough for a model that thinks first."""
_MAX_EVIDENCE_LENGTH = 160


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one question, and the answer or error that shows it."""

    question: str
    outcome: ProbeOutcome
    evidence: str = ""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of a probe, and the capabilities that follow from them.

    >>> findings = Findings(target="box/m", findings=(), facts={"tools": False})
    >>> print(findings.toml)
    [capabilities."box/m"]
    tools = false
    """

    target: str
    findings: tuple[Finding, ...]
    facts: dict[str, Any]
    """Arguments for `registry.set_capabilities(target, **facts)`."""

    @property
    def toml(self) -> str:
        """The facts as a table for dragoman.toml."""
        lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in self.facts.items()]
        return "\n".join([f"[capabilities.{msgspec.json.encode(self.target).decode()}]", *lines])


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """A request, how to judge its answer, and the facts that follow from yes and no."""

    name: str
    request: Request
    judge: Callable[[Response], Finding]
    yes: dict[str, Any] = {}
    no: dict[str, Any] = {}
    quirks: dict[str, Any] = {}
    after: str | None = None
    """Another question; if its outcome is no, this one's is no, too."""


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


def _request(*parts: Part | str, **fields: Any) -> Request:
    return Request(messages=(user(*parts),), max_tokens=MAX_TOKENS, **fields)


_HELLO = _request("Say hello.")


def _questions() -> Iterator[_Question]:
    weather = Text(text="What is the weather in Paris? Use the tool.")
    both = Text(text="What is the weather in Paris, and what in Rome? Call the tool for both at once.")
    yield _Question(name="text", request=_HELLO, judge=_text)
    yield _Question(
        name="streaming",
        request=_request("Count to five.", stream=True),
        judge=_text,
        yes={"streaming": True},
        no={"streaming": False},
        quirks={"stream_usage": False},
    )
    yield _Question(
        name="usage in streams",
        request=_request("Count to five.", stream=True),
        judge=_usage,
        yes={"stream_usage": True},
        no={"stream_usage": False},
        after="streaming",
    )
    yield _Question(
        name="tools",
        request=_request(weather, tools=(_WEATHER,)),
        judge=_calls,
        yes={"tools": True},
        no={"tools": False},
    )
    yield _Question(
        name="forced choice",
        request=_request("Say hello.", tools=(_WEATHER,), tool_choice="required"),
        judge=_forced,
        yes={"tools": True, "forced_choice": True},
        no={"forced_choice": False},
        after="tools",
    )
    yield _Question(
        name="named choice",
        request=_request("Say hello.", tools=(_WEATHER, _CLOCK), tool_choice="clock"),
        judge=_named,
        yes={"named_choice": True},
        no={"named_choice": False},
        after="forced choice",
    )
    yield _Question(name="parallel calls", request=_request(both, tools=(_WEATHER,)), judge=_parallel, after="tools")
    yield _Question(
        name="parallel calls switched off",
        request=_request(both, tools=(_WEATHER,), parallel_tool_calls=False),
        judge=_single,
        yes={"parallel_tool_calls": True},
        no={"parallel_tool_calls": False},
        after="tools",
    )
    yield _Question(
        name="schema",
        request=_request("Write one line about the sea.", schema=_SHADE, schema_name="shade"),
        judge=_valid_json,
        yes={"structured": True},
        no={"structured": False},
    )
    yield _Question(
        name="images",
        request=_request(Image(data=_red_square(), mime="image/png"), "Which colour is this? Answer in one word."),
        judge=_sees_red,
        no={"max_images": 0},
    )


def _red_square() -> bytes:
    side = 64
    rows = zlib.compress((b"\0" + b"\xff\0\0" * side) * side)
    pieces = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in pieces
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


# Judging an answer ----------------------------------------------------------------------------------------------------


def _finding(outcome: ProbeOutcome, evidence: str) -> Finding:
    if len(evidence) > _MAX_EVIDENCE_LENGTH:
        evidence = f"{evidence[:_MAX_EVIDENCE_LENGTH]}…"
    return Finding(question="", outcome=outcome, evidence=evidence)


def _text(response: Response) -> Finding:
    return _finding("yes", response.text)


def _usage(response: Response) -> Finding:
    usage = response.usage
    return _finding("yes" if usage.output is not None else "no", f"{usage.input} in, {usage.output} out")


def _calls(response: Response) -> Finding:
    # A model may ignore its tools, so an answer without a call is unclear.
    wrong = [reason for call in response.tool_calls for reason in validate(call.arguments, _CITY)]
    if wrong:
        return _finding("unclear", wrong[0])
    return _finding("yes" if response.tool_calls else "unclear", _calls_text(response))


def _forced(response: Response) -> Finding:
    return _finding("yes" if response.tool_calls else "no", _calls_text(response))


def _named(response: Response) -> Finding:
    names = {call.name for call in response.tool_calls}
    return _finding("yes" if names == {"clock"} else "no", _calls_text(response))


def _parallel(response: Response) -> Finding:
    count = len(response.tool_calls)
    return _finding("yes" if count > 1 else "no" if count else "unclear", _calls_text(response))


def _single(response: Response) -> Finding:
    count = len(response.tool_calls)
    return _finding("no" if count > 1 else "yes" if count else "unclear", _calls_text(response))


def _valid_json(response: Response) -> Finding:
    if response.finish.reason == "length":
        return _finding("unclear", "the answer was cut off at its token limit")
    try:
        value = msgspec.json.decode(response.text)
    except msgspec.DecodeError:
        return _finding("no", response.text)
    return _finding("no" if validate(value, _SHADE) else "yes", response.text)


def _sees_red(response: Response) -> Finding:
    return _finding("yes" if "red" in response.text.lower() else "unclear", response.text)


def _calls_text(response: Response) -> str:
    calls = ", ".join(f"{call.name} {msgspec.json.encode(call.arguments).decode()}" for call in response.tool_calls)
    return calls or f"no call, but {response.text!r}"


# The probe ------------------------------------------------------------------------------------------------------------


def probe(target: Target, options: ChainOptions, /) -> Plan[Findings]:
    """Ask all questions in turn. If the target does not answer at all, its error is raised."""
    target_to_probe = _without_known_limits(target)
    findings: dict[str, Finding] = {}
    facts: dict[str, Any] = {}
    for question in _questions():
        finding = findings.get(question.after or "")
        if finding is None or finding.outcome != "no":
            finding = yield from _ask(question, target_to_probe, options)
        facts |= {"yes": question.yes, "no": question.no, "unclear": {}}[finding.outcome]
        findings[question.name] = replace(finding, question=question.name)
    return Findings(target=target.name, findings=tuple(findings.values()), facts=facts)


def _without_known_limits(target: Target) -> Target:
    """Remove what is known about the target, so that every question is sent."""
    capabilities, quirks = target.capabilities, target.quirks
    return replace(
        target,
        capabilities=Capabilities(context_window=capabilities.context_window, max_output=capabilities.max_output),
        quirks=replace(quirks, named_choice=True, parallel_tool_calls=True, stream_usage=True, json_schema=True),
    )


def _ask(question: _Question, target: Target, options: ChainOptions) -> Plan[Finding]:
    """Ask one question. An error that may pass means no only if it comes twice with a plain answer in between."""
    adjusted = replace(target, quirks=replace(target.quirks, **question.quirks))
    result = yield from _try(question, adjusted, options)
    if isinstance(result, DragomanError) and result.retry:
        yield from failover.run(_HELLO, [target], Health(), options)
        result = yield from _try(question, adjusted, options)
    if isinstance(result, Finding):
        return result
    outcome: ProbeOutcome = "unclear" if isinstance(result, EmptyResponse) else "no"
    return _finding(outcome, f"{type(result).__name__}: {result.message}")


def _try(question: _Question, target: Target, options: ChainOptions) -> Plan[Finding | DragomanError]:
    """Return the finding, or the error if the feature may have caused it. All other errors are raised."""
    try:
        response = yield from failover.run(question.request, [target], Health(), options)
    except (AuthFailed, ModelNotFound, RateLimited, Overloaded):
        raise
    except (ProviderError, RequestError, WireError, EmptyResponse, Interrupted) as error:
        if question.request is _HELLO:
            raise
        return _root_cause(error)
    return question.judge(response)


def _root_cause(error: DragomanError) -> DragomanError:
    """Return the first error behind an exhausted chain or a broken stream."""
    while isinstance(error.__cause__, DragomanError):
        error = error.__cause__
    return error
