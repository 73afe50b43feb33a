"""A request for JSON and a target in, the request in a way that the target can be asked out, and its answer back.

Three ways, the surest first: the target's own structured output; a tool that must be called, whose arguments are the
answer; the schema in words, in the system prompt.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, arguments_text
from dragoman.schema.strict import WRAPPER_KEY, wrap_root
from dragoman.schema.traverse import is_recursive
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Notice, Request, Text, Tool, ToolCall
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector

_ANSWER = "final_answer"
_ANSWERED = "Give your answer by calling this, once you have all that it takes."


class OutputPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A request as a target can be asked, and how its answer is turned back.

    >>> OutputPlan(request=Request()).answer is None
    True
    """

    request: Request
    answer: str | None = None
    """The tool whose call is the answer."""
    wrapped: bool = False
    """Whether the answer is a property of the call's arguments, as the arguments are always an object."""
    notices: tuple[Notice, ...] = ()


def shape(request: Request, target: Target, /) -> OutputPlan:
    """The request in the surest way that the target has.

    >>> from dragoman.targets.providers import target
    >>> shape(Request(schema={"type": "object"}), target("openai/x")).answer is None
    True
    """
    schema, capabilities = request.schema, target.capabilities
    if schema is None or _is_native(schema, request, target):
        return OutputPlan(request=request)
    notes = NoticeCollector(target.wire, strict=request.strict)
    if request.tools and request.tool_choice not in (None, "auto", "none"):
        notes.add("info", "schema", "a call is forced, and takes the answer's place")
        return OutputPlan(request=replace(request, schema=None), notices=notes.notices)
    if schema and capabilities.tools and capabilities.forced_choice:
        notes.add("renamed", "schema", "it is asked for as the arguments of a tool")
        return _by_tool(request, schema, notes)
    if capabilities.structured:
        return OutputPlan(request=request)
    notes.add("changed", "schema", "it cannot be enforced, so it is asked for in the system prompt")
    return OutputPlan(request=_by_words(request, schema), notices=notes.notices)


def _is_native(schema: JsonObject, request: Request, target: Target) -> bool:
    quirks = target.quirks
    beside_tools = quirks.schema_with_tools or not request.tools
    return target.capabilities.structured and beside_tools and (quirks.recursive_schemas or not is_recursive(schema))


def _by_tool(request: Request, schema: JsonObject, notes: NoticeCollector) -> OutputPlan:
    taken = {tool.name for tool in request.tools if isinstance(tool, Tool)}
    name = _ANSWER
    while name in taken:
        name += "_"
    wrapped = schema.get("type") != "object"
    parameters = wrap_root(schema) if wrapped else schema
    tool = Tool(name=name, description=_ANSWERED, parameters=parameters)
    others = request.tools if request.tool_choice != "none" else ()
    asked = replace(request, schema=None, tools=(*request.tools, tool), tool_choice="required" if others else name)
    return OutputPlan(request=asked, answer=name, wrapped=wrapped, notices=notes.notices)


def _by_words(request: Request, schema: JsonObject) -> Request:
    words = json_instruction(schema)
    system = request.system
    if system is None or isinstance(system, str):
        return replace(request, schema=None, system=f"{system}\n\n{words}" if system else words)
    return replace(request, schema=None, system=(*system, Text(text=words)))


class ToolOutputDecoder:
    """Turns the call that is an answer back into text, as if it had been said.

    >>> call = ToolCall(id="call_1", name="final_answer", arguments={"a": 1})
    >>> restorer = ToolOutputDecoder(OutputPlan(request=Request(), answer="final_answer"))
    >>> restorer.feed([PartStarted(index=0, kind="tool_call"), PartEnded(index=0, part=call)])[1].text
    '{"a":1}'
    """

    def __init__(self, shaped: OutputPlan) -> None:
        self._shaped = shaped
        self._is_answered = False
        self._has_calls = False

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """The same events, with the answer as text."""
        if self._shaped.answer is None:
            return [*events]
        answers = {event.index for event in events if isinstance(event, PartEnded) and self._is_answer(event)}
        restored: list[Event] = []
        for event in events:
            match event:
                case PartStarted() if event.index in answers:
                    continue
                case PartEnded(part=ToolCall() as call) if event.index in answers:
                    restored += self._said(event.index, call)
                case PartEnded(part=ToolCall()):
                    self._has_calls = True
                    restored.append(event)
                case Finished() if self._is_answered and not self._has_calls and event.finish.reason == "tool_calls":
                    restored.append(replace(event, finish=replace(event.finish, reason="stop")))
                case _:
                    restored.append(event)
        return restored

    def _is_answer(self, event: PartEnded) -> bool:
        return isinstance(event.part, ToolCall) and event.part.name == self._shaped.answer

    def _said(self, index: int, call: ToolCall) -> list[Event]:
        """The answer as text; what a model says twice is said once."""
        if self._is_answered:
            return []
        self._is_answered = True
        text = arguments_text(call)
        if self._shaped.wrapped and WRAPPER_KEY in call.arguments:
            text = encode_json(call.arguments[WRAPPER_KEY]).decode()
        return [
            PartStarted(index=index, kind="text"),
            PartDelta(index=index, text=text),
            PartEnded(index=index, part=Text(text=text)),
        ]
