"""A request, a type and some targets in, a value of that type out: ask, read, ask again with the reasons. A plan."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from dragoman.engine import failover as chain
from dragoman.engine.effects import Job, Now, Plan, perform
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.errors import DragomanError, InvalidRequest, OutputError
from dragoman.events import PartDelta, PartStarted, Restarted, StreamEvent
from dragoman.schema.output_type import OutputType
from dragoman.schema.partial_json import PartialJson
from dragoman.schema.strict import needs_wrapper
from dragoman.schema.unstrict import NO_VALUE
from dragoman.targets.target import Target
from dragoman.types import Notice, Request, Response, add_usage, user

T = TypeVar("T")
_CUT = "the length limit cut the answer off; raise max_tokens, or ask for less"
_MAX_REASONS = 20


class Parsed(Response, Generic[T], frozen=True, kw_only=True, omit_defaults=True):
    """A response that was read as a value of a type; None where the model called tools in place of an answer.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("demo/any").generate("Is it so?", output=bool).parsed
    True
    """

    parsed: T | None = None


def run(
    request: Request,
    form: OutputType[T],
    targets: Sequence[Target],
    health: Health,
    options: ChainOptions,
    /,
    *,
    max_repairs: int,
) -> Plan[Parsed[T]]:
    """Ask until the answer is of the type, at most `max_repairs` times more than once.

    >>> from dragoman.targets.providers import target
    >>> next(run(Request(), OutputType(int), [target("ollama/x")], Health(), ChainOptions(), max_repairs=1))
    Now()
    """
    asked = shaped(request, form, targets)
    tries: list[Response] = []
    notices: list[Notice] = []
    began: float = yield Now()
    while True:
        left = yield from _left(options, began)
        try:
            response = yield from chain.run(asked, targets, health, left)
        except DragomanError as error:
            raise _with_receipt(error, tries) from error.__cause__
        tries.append(response)
        whole = _summed(tries, notices)
        if response.tool_calls:
            return whole
        try:
            return replace(whole, parsed=(yield from read(form, response.text)))
        except OutputError as error:
            wrong = explained(error, response)
        if len(tries) > max_repairs or response.finish.reason == "blocked":
            wrong.usage, wrong.attempts = whole.usage, whole.attempts
            wrong.provider, _, wrong.model = (response.target or "").partition("/")
            raise wrong from wrong.__cause__
        notices.append(Notice(kind="repaired", what="answer", why=f"asked again: {wrong.message}"))
        asked = _asked_again(asked, response, wrong)


def extract(
    request: Request,
    form: OutputType[T],
    targets: Sequence[Target],
    health: Health,
    options: ChainOptions,
    /,
    *,
    max_repairs: int,
) -> Plan[Parsed[T]]:
    """The same where nothing but a value will do: calls of tools are an OutputError."""
    response = yield from run(request, form, targets, health, options, max_repairs=max_repairs)
    if response.tool_calls:
        called = ", ".join(call.name for call in response.tool_calls)
        why = f"the model called {called} in place of an answer; generate(output=…) gives the calls"
        error = OutputError(why, text=response.text, reasons=(why,), usage=response.usage)
        error.attempts = response.attempts
        raise error
    return response


def read(form: OutputType[T], text: str, /) -> Plan[T]:
    """The value that a text says; OutputError where it says none, whatever the type's own validators raise.

    >>> type(next(read(OutputType(int), "4"))).__name__
    'Start'
    """
    outcome = yield from perform(Job(partial(form.read, text), is_quick=True))
    error = outcome.error
    if error is None:
        value: T = outcome.value
        return value
    if isinstance(error, OutputError):
        raise error
    reason = f"{type(error).__name__}: {error}"
    raise OutputError(f"the answer cannot be read: {reason}", text=text, reasons=(reason,)) from error


def shaped(request: Request, form: OutputType[Any], targets: Sequence[Target] = (), /) -> Request:
    """The request for an answer of a type: strictly, where the first target knows that word.

    >>> shaped(Request(), OutputType(bool)).schema_name
    'bool'
    """
    if request.schema is not None:
        raise InvalidRequest("schema: the output type has its own; give one of them")
    strict, name = request.schema_strict, request.schema_name
    if strict is None and targets and targets[0].quirks.strict and form.is_strict:
        strict = True
    name = form.name if name == Request().schema_name else name
    return replace(request, schema=form.schema, schema_name=name, schema_strict=strict, schema_mode="auto")


def _left(options: ChainOptions, began: float) -> Plan[ChainOptions]:
    """The options with as much time as is left: repairs are part of the call."""
    total = options.timeouts.total
    if total is None:
        return options
    now: float = yield Now()
    return replace(options, timeouts=replace(options.timeouts, total=max(total - (now - began), 0.001)))


def _summed(tries: list[Response], notices: list[Notice]) -> Parsed[Any]:
    """The last response, with what all of them cost."""
    last = tries[-1]
    told = {name: getattr(last, name) for name in Response.__struct_fields__}
    told["usage"] = add_usage(response.usage for response in tries)
    told["attempts"] = tuple(attempt for response in tries for attempt in response.attempts)
    told["notices"] = (*notices, *last.notices)
    return Parsed(**told)


def _with_receipt(error: DragomanError, tries: list[Response]) -> DragomanError:
    """The same error, with what the tries before it cost."""
    if tries:
        spent = [response.usage for response in tries]
        error.usage = add_usage([*spent, *([error.usage] if error.usage else [])])
        error.attempts = (*(attempt for response in tries for attempt in response.attempts), *error.attempts)
    return error


def explained(error: OutputError, response: Response, /) -> OutputError:
    """The error with the reason behind the reasons, where the finish tells it."""
    match response.finish.reason:
        case "length":
            cause = _CUT
        case "blocked":
            cause = f"the answer was refused ({response.finish.raw or 'blocked'})"
        case _:
            return error
    wrong = OutputError(f"{cause}: {error.message}", text=error.text, reasons=(cause, *error.reasons))
    wrong.__cause__ = error.__cause__
    return wrong


def _asked_again(request: Request, response: Response, error: OutputError) -> Request:
    reasons = "\n".join(f"- {reason}" for reason in error.reasons[:_MAX_REASONS])
    words = f"That answer cannot be used:\n{reasons}\nAnswer again, whole, with JSON that satisfies the schema."
    said = () if response.is_empty else (response.message,)
    return replace(request, messages=(*request.messages, *said, user(words)), stream=False)


class Partials:
    """The events of a typed stream in, growing values out: plain JSON, free of what is not whole.

    A value is given where the text has grown by a part of its length, so that all of them together cost no more than a
    fixed number of copies of the last.

    >>> partials = Partials(OutputType(list[str]))
    >>> [partials.feed(PartDelta(index=0, text=text)) for text in ('{"value": ["a', 'b", "c"]}')]
    [['a'], ['ab', 'c']]
    """

    def __init__(self, form: OutputType[Any]) -> None:
        self._form = form
        self._prefix = PartialJson(form.closed_schema)
        self._others: set[int] = set()
        self._length = 0
        self._shown_at = 0
        self._last: Any = NO_VALUE
        self._is_void = False

    def feed(self, event: StreamEvent, /) -> Any:
        """The next value, or NOTHING."""
        match event:
            case PartStarted() if event.kind != "text":
                self._others.add(event.index)
            case PartDelta() if event.index not in self._others and not self._is_void:
                self._prefix.feed(event.text)
                self._length += len(event.text)
                if self._length - self._shown_at > self._length // 64:
                    return self._grown()
            case Restarted():
                self._is_void = True  # what starts over might take back what was shown: only its end is
            case _:
                return NO_VALUE
        return NO_VALUE

    def _grown(self) -> Any:
        value = self._prefix.value
        if value is NO_VALUE or (needs_wrapper(self._form.type_schema) and value == {}):
            return NO_VALUE
        self._shown_at = self._length
        value = self._form.converter.convert_partial(value)
        if value is NO_VALUE or value == self._last:
            return NO_VALUE
        self._last = value
        return value
