"""Tools of type `custom`, which take free text: functions for other wires, and calls of them as the client knows them.

The client runs such a tool, so any target can offer it. Its definition stays in `extra`, so that this wire sends it
unchanged. A `ToolCall` of it has one argument, `input`.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dragoman.types import AnyTool, JsonObject, Part, Request, Tool, ToolCall, is_object
from dragoman.wires.common.extra import CHANGED, wire_extra
from dragoman.wires.common.json import object_of
from dragoman.wires.common.raw_input import GRAMMAR_CHANGED, INPUT, input_description, input_text
from dragoman.wires.common.request_body import missing_field
from dragoman.wires.openai_chat.schema import COVERED, CUSTOM, NAME


def decode_custom_tool(data: JsonObject, where: str) -> Tool | None:
    """The function for a custom tool; None for other tools."""
    custom = data.get(CUSTOM)
    if data.get("type") != CUSTOM or not is_object(custom):
        return None
    name, format = custom.get("name"), custom.get("format")
    if not isinstance(name, str):
        raise missing_field(f"{where}.{CUSTOM}.name")
    covered: JsonObject = {"tool": data}
    grammar = None
    if is_object(format) and format.get("type") == "grammar":
        grammar, covered[CHANGED] = object_of(format.get("grammar")), GRAMMAR_CHANGED
    description = input_description(custom.get("description"), grammar)
    return Tool(name=name, description=description, parameters=INPUT, extra={COVERED: covered})


def custom_names(tools: Iterable[AnyTool]) -> frozenset[str]:
    """The names of the custom tools that a client offered."""
    return frozenset(tool.name for tool in tools if isinstance(tool, Tool) and COVERED in tool.extra)


def restore(part: Part, names: frozenset[str]) -> Part:
    """A call of another wire as a call of the custom tool that the client offered."""
    if not isinstance(part, ToolCall) or part.name not in names or COVERED in part.extra:
        return part
    return replace(part, extra={**part.extra, COVERED: {"type": CUSTOM}})


def returned_call(request: Request) -> Callable[[ToolCall], ToolCall]:
    """Makes the calls that the client of a request sends back: those of a custom tool have only the input."""
    names = custom_names(request.tools)

    def returned(call: ToolCall) -> ToolCall:
        return replace(call, arguments={"input": input_text(call)}) if call.name in names else call

    return returned


def as_functions(request: Request) -> Request:
    """The request with functions only, and calls of functions, for servers that know nothing else."""
    messages = tuple(
        replace(message, parts=tuple(map(_as_function, message.parts))) if message.tool_calls else message
        for message in request.messages
    )
    tools = tuple(replace(tool, extra=_without(tool)) if isinstance(tool, Tool) else tool for tool in request.tools)
    return replace(request, messages=messages, tools=tools)


def _as_function(part: Part) -> Part:
    if not isinstance(part, ToolCall) or not part.extra:
        return part
    own = {key: value for key, value in wire_extra(part.extra, NAME).items() if (key, value) != ("type", CUSTOM)}
    extra = {wire: data for wire, data in _without(part).items() if wire != NAME}
    return replace(part, extra={**extra, **({NAME: own} if own else {})})


def _without(value: Tool | ToolCall) -> JsonObject:
    return {wire: data for wire, data in value.extra.items() if wire != COVERED}
