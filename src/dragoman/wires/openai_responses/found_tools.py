"""Tools that a tool search of the client finds, for wires that define all tools before the conversation.

There, a new definition would change the beginning of the conversation: the provider's cache is lost, and Claude refuses
its own thinking. So a request with a tool search also offers one function, the caller, that calls any tool by its name.
The result of a search describes the tools that it found. A call of a found tool is a call of the caller on other wires,
and the call itself on this wire, where the search defines the tools.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.types import AnyTool, JsonObject, Message, Part, Text, Tool, ToolCall, ToolResult, is_object
from dragoman.types.arguments import arguments_text, parse_history_arguments
from dragoman.wires.common.extra import CHANGED, wire_extra
from dragoman.wires.common.json import encode_json, object_of, objects
from dragoman.wires.openai_responses.schema import COVERED

CALLER = "call_found_tool"
"""The name of the function that calls a found tool."""
FOUND = "found"
"""In the `extra` of the caller, and of a call of the caller that replaces the call of a found tool."""
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool."},
        "arguments": {"type": "object", "description": "Its arguments, as its parameters say."},
    },
    "required": ["name", "arguments"],
}
DecodeTools = Callable[[Any, str], list[AnyTool]]


def with_found_tools(
    messages: Sequence[Message], tools: Sequence[AnyTool], decode_tools: DecodeTools, /
) -> tuple[tuple[Message, ...], tuple[AnyTool, ...]]:
    """The messages and tools of a request; if it offers a tool search, with the caller and calls of it."""
    tools = tuple(tool for tool in tools if FOUND not in _own(tool))
    if not any(_is_search(tool) for tool in tools):
        return tuple(messages), tools
    offered = {tool.name: tool for tool in tools if isinstance(tool, Tool)}
    found: dict[str, Tool] = {}
    colliding: list[Tool] = []
    ids: set[str] = set()
    changed: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult) and (item := _search_output(part)) is not None:
                new = [tool for tool in decode_tools(item.get("tools"), "input.tools") if isinstance(tool, Tool)]
                for tool in new:
                    known = offered.get(tool.name) or found.setdefault(tool.name, tool)
                    if identity(_own(known)) != identity(_own(tool)):
                        colliding += [known, tool] if known.name not in offered else [tool]
                parts.append(replace(part, content=_describe(new, offered)))
            elif isinstance(part, ToolCall) and (part.name in found or part.name == CALLER):
                ids.add(part.id)
                parts.append(as_call_of_caller(part))
            elif isinstance(part, ToolResult) and part.id in ids:
                parts.append(replace(part, name=CALLER))
            else:
                parts.append(part)
        changed.append(replace(message, parts=tuple(parts)))
    caller = Tool(
        name=CALLER,
        description="Call a tool that a search for tools has found.",
        parameters=_PARAMETERS,
        extra={COVERED: {"loaded": True, FOUND: True}},
    )
    loaded = sum(1 for tool in tools if _own(tool).get("loaded"))
    at = len(tools) - loaded
    # Two tools of one name are an error of every request; these make it one.
    return tuple(changed), (*tools[:at], caller, *tools[at:], *colliding)


def _own(tool: AnyTool) -> JsonObject:
    return wire_extra(tool.extra, COVERED) if isinstance(tool, Tool) else {}


def identity(own: JsonObject) -> tuple[object, object]:
    """What makes a tool different from another one whose function has the same name."""
    namespace = object_of(own.get("namespace")).get("name")
    return (namespace, object_of(own.get("tool")).get("name")) if own else (None, None)


def _is_search(tool: AnyTool) -> bool:
    return wire_extra(_own(tool), "tool").get("type") == "tool_search"


def _search_output(result: ToolResult) -> JsonObject | None:
    item = wire_extra(wire_extra(result.extra, COVERED), "item")
    return item if item.get("type") == "tool_search_output" else None


def _describe(tools: Sequence[Tool], offered: Container[str]) -> str | tuple[Text, ...]:
    texts: list[str] = []
    for tool in tools:
        parameters = encode_json(tool.parameters).decode()
        how = "" if tool.name in offered else f" Call it by {CALLER}."
        texts.append(f"{tool.name}: {tool.description or ''}{how}\nparameters: {parameters}")
    text = "\n\n".join(["Tools that can be called now:", *texts]) if texts else "No tools were found."
    changed = next((own[CHANGED] for own in map(_own, tools) if CHANGED in own), None)
    return text if changed is None else (Text(text=text, extra={COVERED: {CHANGED: changed}}),)


def found_definitions(messages: Iterable[Message]) -> Iterator[JsonObject]:
    """The definitions of the tools that searches found: `tool`, and the `namespace` that it is in."""
    for message in messages:
        for result in message.tool_results:
            item = _search_output(result)
            for tool in () if item is None else objects(item.get("tools")):
                if tool.get("type") == "namespace":
                    yield from ({"tool": inner, "namespace": tool} for inner in objects(tool.get("tools")))
                else:
                    yield {"tool": tool}


def is_found_by_search(message: Message, tools: Iterable[AnyTool]) -> bool:
    """Whether the results of a message define tools that the caller calls."""
    return any(_search_output(result) is not None for result in message.tool_results) and any(map(_is_search, tools))


# Calls ----------------------------------------------------------------------------------------------------------------


def as_call_of_caller(call: ToolCall) -> ToolCall:
    """The call of a found tool as a call of the caller."""
    covered = wire_extra(call.extra, COVERED)
    if call.name == CALLER or FOUND in covered:
        return call
    arguments: JsonObject = {"name": call.name, "arguments": call.arguments}
    raw = None if call.raw is None else f'{{"name":{encode_json(call.name).decode()},"arguments":{call.raw}}}'
    extra = {**call.extra, COVERED: {**covered, FOUND: True}}
    if raw is not None and parse_history_arguments(raw)[0] != arguments:
        raw = None  # the text is not a JSON object
    return replace(call, name=CALLER, arguments=arguments, raw=raw, extra=extra)


def as_call_of_found(call: ToolCall) -> ToolCall:
    """The inverse: the call of a found tool that a call of the caller replaces; the same call if it names no tool."""
    reader = FoundCallReader()
    text = reader.read(arguments_text(call))
    if reader.name is not None and reader.is_over:
        arguments, raw = parse_history_arguments(text)
        return replace(call, name=reader.name, arguments=arguments, raw=raw)
    name, inner = call.arguments.get("name"), call.arguments.get("arguments", {})
    if not isinstance(name, str) or not name:
        return call
    # A model may write the arguments as a text.
    arguments, raw = parse_history_arguments(inner) if isinstance(inner, str) else (inner, None)
    return replace(call, name=name, arguments=arguments if is_object(arguments) else {"input": inner}, raw=raw)


_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)')
_MAX_HEAD = 1024
_MARK = re.compile(r'["\\{}]')


class FoundCallReader:
    """Reads the name and the arguments of the inner call while the JSON of the caller arrives.

    If the JSON has another form, `name` stays None: the whole call has both.

    >>> reader = FoundCallReader()
    >>> [reader.read(text) for text in ('{"name": "tide", "argu', 'ments": {"port', '": "Brest"}', '}')]
    ['', '{"port', '": "Brest"}', '']
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self.is_over = False
        """Whether the arguments are complete."""
        self._held = ""
        self._depth = 0
        self._in_text = False
        self._is_escaped = False

    def read(self, text: str) -> str:
        """The piece of the inner arguments in a fragment."""
        if self.is_over:
            return ""
        if self.name is None:
            self._held += text
            head = _HEAD.match(self._held[:_MAX_HEAD])
            if head is None:
                self.is_over = len(self._held) > _MAX_HEAD
                return ""
            self.name = msgspec.json.decode(head[1], type=str)
            text, self._held = self._held[head.end() :], ""
        return text[: self._end(text)]

    def _end(self, text: str) -> int:
        """Where the inner arguments end."""
        start = 0
        if self._is_escaped and text:
            start, self._is_escaped = 1, False
        while (mark := _MARK.search(text, start)) is not None:
            start = mark.end()
            match mark[0]:
                case '"':
                    self._in_text = not self._in_text
                case "\\":
                    self._is_escaped = start == len(text)
                    start += 1
                case "{" if not self._in_text:
                    self._depth += 1
                case "}" if not self._in_text:
                    self._depth -= 1
                    if not self._depth:
                        self.is_over = True
                        return start
                case _:
                    continue
        return len(text)
