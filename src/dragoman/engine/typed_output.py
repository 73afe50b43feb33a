"""Typed output: request an answer of a type, parse it, and if it does not fit, ask again with the reasons.

The functions are plans. `Partials` parses a stream: it returns the part of the value that has arrived so far.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from dragoman.engine import failover
from dragoman.engine.call_context import remaining_time
from dragoman.engine.effects import Job, Now, Plan, perform
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.errors import DragomanError, InvalidRequest, OutputError
from dragoman.events import PartDelta, PartStarted, Restarted, StreamEvent
from dragoman.schema.output_type import ADVICE, OutputType
from dragoman.schema.partial_json import PartialJson
from dragoman.schema.strict import needs_wrapper
from dragoman.schema.unstrict import NO_VALUE
from dragoman.targets.target import Target
from dragoman.types import Notice, Request, Response, add_costs, add_usage, user
from dragoman.wires.common.think_tags import ThinkTagSplitter

T = TypeVar("T")
_LENGTH_LIMIT = "the length limit cut the answer off; raise max_tokens, or ask for less"
_MAX_REASONS = 20


class Parsed(Response, Generic[T], frozen=True, kw_only=True, omit_defaults=True):
    """A response with the value of its answer. `parsed` is None if the model called tools instead.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("demo/any").generate("Is it so?", output=bool).parsed
    True
    """

    parsed: T | None = None


def run(
    request: Request,
    output_type: OutputType[T],
    targets: Sequence[Target],
    health: Health,
    options: ChainOptions,
    /,
    *,
    max_repairs: int,
) -> Plan[Parsed[T]]:
    """Run the chain until the answer fits the type, with at most `max_repairs` further requests."""
    request = with_output_schema(request, output_type, targets)
    responses: list[Response] = []
    notices: list[Notice] = []
    started_at: float = yield Now()
    while True:
        remaining = yield from _with_remaining_time(options, started_at)
        try:
            response = yield from failover.run(request, targets, health, remaining)
        except DragomanError as error:
            raise _with_earlier_usage(error, responses) from error.__cause__
        responses.append(response)
        parsed = _sum_up(responses, notices)
        if response.tool_calls:
            return parsed
        try:
            return replace(parsed, parsed=(yield from parse_output(output_type, response.text)))
        except OutputError as error:
            wrong = with_finish_reason(error, response)
        if len(responses) > max_repairs or response.finish.reason == "blocked":
            provider, _, model = (response.target or "").partition("/")
            wrong.annotate(usage=parsed.usage, attempts=parsed.attempts, provider=provider, model=model)
            raise wrong from wrong.__cause__
        notices.append(Notice(kind="repaired", what="answer", why=f"asked again: {wrong.message.removesuffix(ADVICE)}"))
        request = _repair_request(request, response, wrong)


def extract(
    request: Request,
    output_type: OutputType[T],
    targets: Sequence[Target],
    health: Health,
    options: ChainOptions,
    /,
    *,
    max_repairs: int,
) -> Plan[Parsed[T]]:
    """Like `run`, but a tool call instead of a value is an OutputError."""
    response = yield from run(request, output_type, targets, health, options, max_repairs=max_repairs)
    if response.tool_calls:
        names = ", ".join(call.name for call in response.tool_calls)
        reason = f"the model called {names} instead of giving an answer; use generate(output=...) to get the calls"
        error = OutputError(reason, text=response.text, reasons=(reason,), usage=response.usage)
        raise error.annotate(attempts=response.attempts)
    return response


def parse_output(output_type: OutputType[T], text: str, /) -> Plan[T]:
    """Parse the text of an answer. Any error, also of the type's own validators, becomes an OutputError."""
    outcome = yield from perform(Job(partial(output_type.read, text), is_quick=True))
    error = outcome.error
    if error is None:
        value: T = outcome.value
        return value
    if isinstance(error, OutputError):
        raise error
    reason = f"{type(error).__name__}: {error}"
    raise OutputError(f"the answer cannot be parsed: {reason}", text=text, reasons=(reason,)) from error


def with_output_schema(request: Request, output_type: OutputType[Any], targets: Sequence[Target] = (), /) -> Request:
    """Add the schema of a type to a request; in strict mode if the first target supports it."""
    if request.schema is not None:
        raise InvalidRequest("schema must not be set together with an output type; pass one of them", param="schema")
    strict, name = request.schema_strict, request.schema_name
    if strict is None and targets and targets[0].quirks.strict and output_type.is_strict:
        strict = True
    name = output_type.name if name == Request().schema_name else name
    return replace(request, schema=output_type.schema, schema_name=name, schema_strict=strict, schema_mode="auto")


def _with_remaining_time(options: ChainOptions, started_at: float) -> Plan[ChainOptions]:
    """Reduce the total timeout by the time used so far: repairs count as part of the call."""
    if options.timeouts.total is None:
        return options
    now: float = yield Now()
    return replace(options, timeouts=remaining_time(options.timeouts, now - started_at))


def _sum_up(responses: list[Response], notices: list[Notice]) -> Parsed[Any]:
    """Return the last response, with the usage and the attempts of all."""
    last = responses[-1]
    fields = {name: getattr(last, name) for name in Response.__struct_fields__}
    fields["usage"] = add_usage(response.usage for response in responses)
    fields["cost"] = add_costs(response.cost for response in responses)
    fields["attempts"] = tuple(attempt for response in responses for attempt in response.attempts)
    fields["notices"] = tuple(dict.fromkeys((*notices, *last.notices)))
    return Parsed(**fields)


def _with_earlier_usage(error: DragomanError, responses: list[Response]) -> DragomanError:
    """Add the usage and the attempts of the earlier responses to an error."""
    if responses:
        usages = [response.usage for response in responses]
        attempts = (*(attempt for response in responses for attempt in response.attempts), *error.attempts)
        error.annotate(usage=add_usage([*usages, *([error.usage] if error.usage else [])]), attempts=attempts)
    return error


def with_finish_reason(error: OutputError, response: Response, /) -> OutputError:
    """Add the finish reason to an error if it explains why the answer does not fit."""
    match response.finish.reason:
        case "length":
            cause = _LENGTH_LIMIT
        case "blocked":
            cause = f"the provider blocked the answer ({response.finish.raw or 'blocked'})"
        case _:
            return error
    shown = "; ".join(error.reasons[:_MAX_REASONS])
    wrong = OutputError(f"{cause}: {shown}", text=error.text, reasons=(cause, *error.reasons))
    wrong.__cause__ = error.__cause__
    return wrong


def repair_prompt(error: OutputError, /) -> str:
    """The message that asks the model to correct an answer."""
    reasons = "\n".join(f"- {reason}" for reason in error.reasons[:_MAX_REASONS])
    return f"That answer cannot be used:\n{reasons}\nAnswer again with the whole JSON value, valid for the schema."


def _repair_request(request: Request, response: Response, error: OutputError) -> Request:
    answer = () if response.is_empty else (response.message,)
    return replace(request, messages=(*request.messages, *answer, user(repair_prompt(error))), stream=False)


class Partials:
    """Turns the events of a typed stream into partial values: plain JSON, without incomplete parts.

    A new value is built only after the text has grown by a 64th of its length. So the cost of all values together is
    proportional to the final one.

    >>> partials = Partials(OutputType(list[str]))
    >>> [partials.feed(PartDelta(index=0, text=text)) for text in ('{"value": ["a', 'b", "c"]}')]
    [['a'], ['ab', 'c']]
    """

    def __init__(self, output_type: OutputType[Any]) -> None:
        self._output_type = output_type
        self._json = PartialJson(output_type.closed_schema)
        self._thinking: ThinkTagSplitter | None = ThinkTagSplitter()
        self._other_parts: set[int] = set()
        self._length = 0
        self._last_length = 0
        self._last: Any = NO_VALUE
        self._is_restarted = False

    def feed(self, event: StreamEvent, /) -> Any:
        """The next value, or NOTHING."""
        match event:
            case PartStarted() if event.kind != "text":
                self._other_parts.add(event.index)
            case PartDelta() if event.index not in self._other_parts and not self._is_restarted:
                self._json.feed(self._without_thinking(event.text))
                self._length += len(event.text)
                if self._length - self._last_length > self._length // 64:
                    return self._next_value()
            case Restarted():
                self._is_restarted = True  # a new start may contradict earlier values, so only the final one is sent
            case _:
                return NO_VALUE
        return NO_VALUE

    def _without_thinking(self, text: str) -> str:
        """The text without thinking in tags at its start, which may have JSON inside."""
        if self._thinking is None:
            return text
        pieces = [piece for kind, piece in self._thinking.feed(text) if kind == "text"]
        if pieces:
            pieces += [piece for _, piece in self._thinking.end()]
            self._thinking = None
        return "".join(pieces)

    def _next_value(self) -> Any:
        value = self._json.value
        if value is NO_VALUE or (needs_wrapper(self._output_type.type_schema) and value == {}):
            return NO_VALUE
        self._last_length = self._length
        value = self._output_type.converter.convert_partial(value)
        if value is NO_VALUE or value == self._last:
            return NO_VALUE
        self._last = value
        return value
