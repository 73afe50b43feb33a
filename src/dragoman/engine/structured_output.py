"""Decides how a target is made to answer with JSON, and turns its answer back into text.

There are three ways, the most reliable first: the native structured output of the target; a tool that the model must
call, whose arguments are the answer; the schema in the system prompt.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, fold, to_events
from dragoman.schema.strict import WRAPPER_KEY, wrap_root
from dragoman.schema.traverse import is_recursive
from dragoman.targets.target import Target
from dragoman.types import Choice, JsonObject, Notice, Request, Response, Text, Tool, ToolCall
from dragoman.types.arguments import arguments_text
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import can_force_call

_TOOL_NAME = "final_answer"
_TOOL_DESCRIPTION = "Call this to give your answer, as soon as you know all of it."


class OutputForm(msgspec.Struct, frozen=True, kw_only=True):
    """The request to send to a target, and how its answer is turned back into text."""

    request: Request
    tool: str | None = None
    """The name of the tool whose call is the answer."""
    is_wrapped: bool = False
    """Whether the answer is a property of the arguments: arguments are always an object, answers may be anything."""
    notices: tuple[Notice, ...] = ()


def choose_output_form(request: Request, target: Target, /) -> OutputForm:
    """Choose the most reliable way that the target has."""
    schema, capabilities = request.schema, target.capabilities
    if schema is None or _has_native(schema, request, target):
        return OutputForm(request=request)
    notices = NoticeCollector(target.wire, strict=request.strict)
    if request.tools and request.tool_choice not in (None, "auto", "none"):
        notices.add("info", "schema", "not used, because tool_choice forces a tool call")
        return OutputForm(request=replace(request, schema=None), notices=notices.notices)
    if schema and capabilities.tools and can_force_call(request, target):
        notices.add("renamed", "schema", "sent as the parameters of a tool")
        return _tool_form(request, schema, notices)
    if capabilities.structured:
        return OutputForm(request=request)
    notices.add("changed", "schema", "cannot be enforced; it is part of the system prompt")
    return OutputForm(request=_add_instruction(request, schema), notices=notices.notices)


def _has_native(schema: JsonObject, request: Request, target: Target) -> bool:
    quirks = target.quirks
    if not target.capabilities.structured or (schema and not quirks.json_schema):
        return False
    fits_tools = quirks.schema_with_tools or not request.tools
    return fits_tools and (quirks.recursive_schemas or not is_recursive(schema))


def _tool_form(request: Request, schema: JsonObject, notices: NoticeCollector) -> OutputForm:
    names = {tool.name for tool in request.tools if isinstance(tool, Tool)}
    name = _TOOL_NAME
    while name in names:
        name += "_"
    is_wrapped = schema.get("type") != "object"
    tool = Tool(name=name, description=_TOOL_DESCRIPTION, parameters=wrap_root(schema) if is_wrapped else schema)
    has_other_tools = bool(request.tools) and request.tool_choice != "none"
    tool_choice = "required" if has_other_tools else name
    changed = replace(request, schema=None, tools=(*request.tools, tool), tool_choice=tool_choice)
    return OutputForm(request=changed, tool=name, is_wrapped=is_wrapped, notices=notices.notices)


def _add_instruction(request: Request, schema: JsonObject) -> Request:
    instruction = json_instruction(schema)
    system = request.system
    if system is None or isinstance(system, str):
        return replace(request, schema=None, system=f"{system}\n\n{instruction}" if system else instruction)
    return replace(request, schema=None, system=(*system, Text(text=instruction)))


class ToolOutputDecoder:
    """Turns the tool call that is the answer back into text, unless a stream has shown it as text already.

    >>> call = ToolCall(id="call_1", name="final_answer", arguments={"a": 1})
    >>> decoder = ToolOutputDecoder(OutputForm(request=Request(), tool="final_answer"))
    >>> decoder.feed([PartStarted(index=0, kind="tool_call"), PartEnded(index=0, part=call)])[1].text
    '{"a":1}'
    """

    def __init__(self, form: OutputForm) -> None:
        self._form = form
        self._has_answer = False
        self._has_calls = False

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """The same events, with the answer as text."""
        answers = {event.index for event in events if isinstance(event, PartEnded) and self._is_answer(event)}
        decoded: list[Event] = []
        for event in events:
            match event:
                case PartStarted() if event.index in answers:
                    continue
                case PartEnded(part=ToolCall() as call) if event.index in answers:
                    decoded += self._answer(event.index, call)
                case PartEnded(part=ToolCall()):
                    self._has_calls = True
                    decoded.append(event)
                case Finished():
                    decoded.append(self._finished(event))
                case _:
                    decoded.append(event)
        return decoded

    def _finished(self, event: Finished) -> Finished:
        if event.other_choices:
            event = replace(event, other_choices=tuple(map(self._choice, event.other_choices)))
        if self._has_answer and not self._has_calls and event.finish.reason == "tool_calls":
            return replace(event, finish=replace(event.finish, reason="stop"))
        return event

    def _choice(self, choice: Choice) -> Choice:
        """A further answer, for a request with `n`, with its own tool call as text."""
        response = fold(
            ToolOutputDecoder(self._form).feed(to_events(Response(message=choice.message, finish=choice.finish)))
        )
        return Choice(message=response.message, finish=response.finish)

    def _is_answer(self, event: PartEnded) -> bool:
        return isinstance(event.part, ToolCall) and event.part.name == self._form.tool

    def _answer(self, index: int, call: ToolCall) -> list[Event]:
        """The answer as text; only the first, if a model answers twice."""
        if self._has_answer:
            return []
        self._has_answer = True
        text = arguments_text(call)
        if self._form.is_wrapped and WRAPPER_KEY in call.arguments:
            text = encode_json(call.arguments[WRAPPER_KEY]).decode()
        return [
            PartStarted(index=index, kind="text"),
            PartDelta(index=index, text=text),
            PartEnded(index=index, part=Text(text=text)),
        ]
