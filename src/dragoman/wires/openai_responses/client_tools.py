"""Tools that the client runs, as functions for other wires, and calls of them as the client knows them.

The Responses API has tools besides functions that the provider only describes to the model: a `custom` tool takes free
text, a `namespace` groups tools, and `shell`, `local_shell`, `apply_patch`, `computer` and a `tool_search` of the
client have a schema that models of OpenAI know. Each becomes a `Tool` that any wire can offer. Its definition stays in
`extra`, so that this wire sends it unchanged. A `ToolCall` of such a tool has the arguments of that function;
`encode_call` turns them into the item of the tool.

A tool may also be defined inside the input, by an `additional_tools` item or the output of a tool search. It is then
`loaded`: other wires offer it with the others, this wire finds it in the input.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dragoman.types import (
    AnyTool,
    HostedTool,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.types.arguments import arguments_text, parse_history_arguments
from dragoman.types.data_urls import is_data_url
from dragoman.wires.common.extra import CHANGED, make_extra, wire_extra
from dragoman.wires.common.json import encode_json, object_of
from dragoman.wires.common.raw_input import GRAMMAR_CHANGED, INPUT, input_description, input_text
from dragoman.wires.common.request_body import invalid_field, missing_field
from dragoman.wires.openai_responses.found_tools import (
    CALLER,
    FOUND,
    as_call_of_found,
    found_definitions,
    identity,
    is_found_by_search,
)
from dragoman.wires.openai_responses.schema import COVERED, CUSTOM, NAME, is_own_item_id

MAX_TOOL_NAME = 64
"""Characters of a function's name at most providers."""
_NOT_ALLOWED = r"[^A-Za-z0-9_-]"

P = TypeVar("P", bound=Part | AnyTool)
_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer"}


def _object(required: Sequence[str], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A type of tool: the function that stands for it, and how its calls are written."""

    call: str
    """The type of the item of a call."""
    description: str
    parameters: JsonObject
    payload: str
    """The member of a call that has the arguments."""
    argument: str = ""
    """The one argument that is the payload; "" if all of them are."""
    fixed: JsonObject = {}
    """Members that each payload has."""
    members: JsonObject = {}
    """Members that each call has."""


_POINT = _object(["x", "y"], x=_COUNT, y=_COUNT)
_ACTION = _object(
    ["type"],
    type={
        "type": "string",
        "enum": ["click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"],
    },
    x={**_COUNT, "description": "For click, double_click, move and scroll: pixels from the left."},
    y={**_COUNT, "description": "For the same: pixels from the top."},
    button={"type": "string", "enum": ["left", "right", "wheel", "back", "forward"], "description": "For click."},
    path={"type": "array", "items": _POINT, "description": "For drag."},
    scroll_x={**_COUNT, "description": "For scroll: the horizontal distance."},
    scroll_y={**_COUNT, "description": "For scroll: the vertical distance."},
    keys={"type": "array", "items": _TEXT, "description": "For keypress; else the keys that are held."},
    text={**_TEXT, "description": "For type."},
)
_COMPUTER = "Use a computer by mouse and keyboard. The result is a screenshot."

_KINDS: dict[str, _Kind] = {
    "local_shell": _Kind(
        call="local_shell_call",
        description="Run a command on the user's machine. The command is a list: the program and its arguments.",
        parameters=_object(
            ["command"],
            command={"type": "array", "items": _TEXT},
            working_directory=_TEXT,
            timeout_ms=_COUNT,
            env={"type": "object", "additionalProperties": _TEXT},
            user=_TEXT,
        ),
        payload="action",
        fixed={"type": "exec", "env": {}},
    ),
    "shell": _Kind(
        call="shell_call",
        description="Run shell commands on the user's machine, in order.",
        parameters=_object(
            ["commands"],
            commands={"type": "array", "items": _TEXT},
            timeout_ms=_COUNT,
            max_output_length={**_COUNT, "description": "Characters of output to return from each command."},
        ),
        payload="action",
    ),
    "apply_patch": _Kind(
        call="apply_patch_call",
        description=(
            "Create, update or delete one file. `diff` is a V4A diff: for create_file each line starts with +; for "
            "update_file, sections start with @@ and lines with a space, - or +. delete_file has no diff."
        ),
        parameters=_object(
            ["type", "path"],
            type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            path={**_TEXT, "description": "Relative to the root of the workspace."},
            diff=_TEXT,
        ),
        payload="operation",
    ),
    "tool_search": _Kind(
        call="tool_search_call",
        description="Search for tools. The tools that are found can be called from then on.",
        parameters=_object(["query"], query=_TEXT),
        payload="arguments",
        members={"execution": "client"},
    ),
    "computer": _Kind(
        call="computer_call",
        description=f"{_COMPUTER} The actions are done in order.",
        parameters=_object(["actions"], actions={"type": "array", "items": _ACTION}),
        payload="actions",
        argument="actions",
        members={"pending_safety_checks": [], "status": "completed"},
    ),
    "computer_use_preview": _Kind(
        call="computer_call",
        description=_COMPUTER,
        parameters=_ACTION,
        payload="action",
        members={"pending_safety_checks": [], "status": "completed"},
    ),
}
"""By type of tool. The schemas are those of the items in the API's reference (2026-11)."""
_TOOLS_OF_CALL: dict[str, list[str]] = {}
"""The tools that a type of call may be of."""
for _tool, _kind in _KINDS.items():
    _TOOLS_OF_CALL.setdefault(_kind.call, []).append(_tool)
CLIENT_CALLS = frozenset({"function_call", CUSTOM, *_TOOLS_OF_CALL})
"""The types of calls that a client answers."""
_OUTPUTS = {f"{kind.call}_output" for kind in _KINDS.values()} - {"tool_search_call_output"} | {"tool_search_output"}


def function_name(namespace: str | None, name: str) -> str:
    """The name of a tool on other wires; the name of its namespace comes first."""
    joined = f"{namespace}__{name}" if namespace else name
    valid = re.sub(_NOT_ALLOWED, "_", joined)
    if not namespace or (valid == joined and len(joined) <= MAX_TOOL_NAME):
        return joined
    import hashlib

    digest = hashlib.sha256(joined.encode()).hexdigest()[:8]
    return f"{valid[: MAX_TOOL_NAME - 9]}_{digest}"


# Definitions ----------------------------------------------------------------------------------------------------------


def decode_client_tool(
    data: JsonObject, where: str, decode_function: Callable[[JsonObject, str], Tool | Opaque]
) -> list[Tool | Opaque] | None:
    """The functions for a tool that the client runs; None for other tools."""
    match data.get("type"):
        case "custom":
            return [_custom(data, where)]
        case "namespace":
            return _namespace(data, where, decode_function)
        case str(kind) if kind in _KINDS and _is_run_by_client(data):
            return [_special(data, _KINDS[kind])]
        case _:
            return None


def _is_run_by_client(data: JsonObject) -> bool:
    """Whether the client runs a tool or a call; a search or a container of the server is the provider's."""
    environment = data.get("environment")
    is_local = not is_object(environment) or environment.get("type") == "local"
    is_search = "tool_search" in str(data.get("type"))
    return is_local and (not is_search or data.get("execution") == "client")


def _custom(data: JsonObject, where: str) -> Tool:
    name, description, format = data.get("name"), data.get("description"), data.get("format")
    if not isinstance(name, str):
        raise missing_field(f"{where}.name")
    covered: JsonObject = {"tool": data}
    grammar = format if is_object(format) and format.get("type") == "grammar" else None
    if grammar is not None:
        covered[CHANGED] = GRAMMAR_CHANGED
    text = input_description(description, grammar)
    return Tool(name=name, description=text, parameters=INPUT, extra={COVERED: covered})


def _special(data: JsonObject, kind: _Kind) -> Tool:
    own, parameters = data.get("description"), data.get("parameters")
    width, height = data.get("display_width"), data.get("display_height")
    screen = f" The screen has {width} x {height} pixels." if width and height else ""
    return Tool(
        name=str(data["type"]),
        description=own if isinstance(own, str) else kind.description + screen,
        parameters=parameters if is_object(parameters) else kind.parameters,
        extra={COVERED: {"tool": data}},
    )


def _namespace(
    data: JsonObject, where: str, decode_function: Callable[[JsonObject, str], Tool | Opaque]
) -> list[Tool | Opaque] | None:
    name, tools = data.get("name"), data.get("tools")
    if not isinstance(name, str) or not is_list(tools):
        raise invalid_field(where, "must have a name and tools")
    head = {key: value for key, value in data.items() if key != "tools"}
    decoded: list[Tool | Opaque] = []
    for i, inner in enumerate(tools):
        if not is_object(inner) or inner.get("type") not in ("function", "custom"):
            return None
        place = f"{where}.tools[{i}]"
        tool = _custom(inner, place) if inner["type"] == "custom" else cast("Tool", decode_function(inner, place))
        covered = {**wire_extra(tool.extra, COVERED), "tool": inner, "namespace": head}
        decoded.append(_renamed(tool, function_name(name, tool.name), covered))
    return decoded or None


def _renamed(tool: Tool, name: str, covered: JsonObject) -> Tool:
    return Tool(
        name=name,
        description=tool.description,
        parameters=tool.parameters,
        strict=tool.strict,
        extra={**tool.extra, COVERED: covered},
    )


def client_tool(tool: Tool) -> JsonObject:
    """The definition of a tool in this API, `namespace` and `loaded`; empty for a function."""
    return wire_extra(tool.extra, COVERED)


def encode_definitions(
    tools: Iterable[Tool | Opaque], encode_function: Callable[[Tool | Opaque], JsonObject]
) -> list[JsonObject]:
    """The definitions of tools in this API; those of one namespace are together again, loaded ones are left out."""
    definitions: list[JsonObject] = []
    head: JsonObject | None = None
    for tool in tools:
        own = client_tool(tool) if isinstance(tool, Tool) else {}
        if own.get("loaded"):
            continue
        definition = own["tool"] if "tool" in own else encode_function(tool)
        if not definition:
            continue
        if (namespace := own.get("namespace")) is None:
            definitions.append(definition)
        elif namespace == head:
            definitions[-1]["tools"].append(definition)
        else:
            definitions.append({**namespace, "tools": [definition]})
        head = namespace
    return definitions


def as_functions(request: Request) -> Request:
    """The request with functions only, and calls of functions, for servers that know nothing else."""
    messages = tuple(
        replace(message, parts=tuple(map(_as_function, message.parts)))
        for message in request.messages
        if item_of_message(message) is None
    )
    tools = tuple(_as_function(tool) for tool in request.tools)
    return replace(request, messages=messages, tools=tools)


def _as_function(value: P) -> P:
    if not isinstance(value, Tool | ToolCall | ToolResult) or COVERED not in value.extra:
        return value
    return replace(value, extra={wire: data for wire, data in value.extra.items() if wire != COVERED})


# Tools that the input defines -----------------------------------------------------------------------------------------


def tools_message(item: JsonObject) -> Message:
    """A message that only stands for an item with tools, so that the item keeps its place on this wire."""
    return Message(role="developer", extra={COVERED: {"item": item}})


def item_of_message(message: Message) -> JsonObject | None:
    """The item that a message stands for."""
    item = wire_extra(message.extra, COVERED).get("item")
    return item if is_object(item) else None


def loaded_tools(
    messages: Iterable[Message],
    offered: Sequence[AnyTool],
    decode_tools: Callable[[Any, str], list[AnyTool]],
) -> list[AnyTool]:
    """The tools that items of the input define, in order. The first definition of a tool stays.

    Those that a search finds are not among them, if the search is offered: `found_tools` has them.
    """
    known = {tool.name: client_tool(tool) for tool in offered if isinstance(tool, Tool)}
    loaded: list[AnyTool] = []
    for message in messages:
        outputs = [result for result in message.tool_results if result.extra] if message.role == "tool" else []
        if not (message.extra or outputs):
            continue
        items = [item_of_message(message), *map(_output_item, outputs)]
        defined = [item["tools"] for item in items if item is not None and "tools" in item]
        is_found = bool(defined) and is_found_by_search(message, offered)
        for definitions in defined:
            for tool in decode_tools(definitions, "input.tools"):
                if not isinstance(tool, Tool):
                    loaded.append(_elsewhere(tool))
                    continue
                own = client_tool(tool)
                if is_found or (tool.name in known and identity(own) == identity(known[tool.name])):
                    continue
                known[tool.name] = own
                loaded.append(_renamed(tool, tool.name, {**own, "loaded": True}))
    return loaded


def _elsewhere(tool: HostedTool | Opaque) -> HostedTool | Opaque:
    """A tool of the provider that this wire finds in the input, so that it has no definition of its own."""
    if isinstance(tool, Opaque):
        return Opaque(wire=NAME, data={})
    return replace(tool, extra={COVERED: {"tool": {}}})


# Calls ----------------------------------------------------------------------------------------------------------------


def is_client_call(item: JsonObject) -> bool:
    """Whether an item is a call of a special tool that the client runs."""
    kind = item.get("type")
    return isinstance(kind, str) and kind in _TOOLS_OF_CALL and _is_run_by_client(item) and bool(_call_id(item))


def _call_id(item: JsonObject) -> str:
    id = item.get("call_id") or item.get("id")
    return id if isinstance(id, str) else ""


def decode_client_call(item: JsonObject) -> ToolCall:
    """The call of a special tool, with the arguments of its function."""
    tools = _TOOLS_OF_CALL[str(item["type"])]
    name = next((tool for tool in tools if item.get(_KINDS[tool].payload) is not None), tools[0])
    kind = _KINDS[name]
    payload = item.get(kind.payload)
    arguments: JsonObject
    raw: str | None
    if kind.argument:
        arguments, raw = {kind.argument: payload if is_list(payload) else []}, None
    elif isinstance(payload, str):
        arguments, raw = parse_history_arguments(payload)
    else:
        members = payload.items() if is_object(payload) else ()
        arguments, raw = {key: value for key, value in members if kind.fixed.get(key) != value}, None
    rest = {key: value for key, value in item.items() if key not in ("type", kind.payload)}
    if is_own_item_id(rest.get("id")):
        del rest["id"]
    extra = {COVERED: {"type": item["type"], "item": rest}}
    return ToolCall(id=_call_id(item), name=name, arguments=arguments, raw=raw, extra=extra)


def call_extra(kind: object, rest: JsonObject, **covered: str) -> dict[str, Any]:
    """The `extra` of a call: what the call itself says, and the other members of its item."""
    if is_own_item_id(rest.get("id")):
        rest = {key: value for key, value in rest.items() if key != "id"}
    if rest.get("status") == "completed":
        rest = {key: value for key, value in rest.items() if key != "status"}
    type_field = {} if kind == "function_call" else {"type": kind}
    return {**make_extra(COVERED, {**type_field, **covered}), **make_extra(NAME, rest)}


def encode_call(call: ToolCall, *, to_provider: bool = False) -> JsonObject:
    """The item of a call, with the provider's original text of the arguments."""
    extra = {**wire_extra(call.extra, COVERED), **wire_extra(call.extra, NAME)}
    if extra.pop(FOUND, False):
        call = as_call_of_found(call)
    kind = str(extra.pop("type", "function_call"))
    if kind in _TOOLS_OF_CALL:
        special = _KINDS[call.name if call.name in _TOOLS_OF_CALL[kind] else _TOOLS_OF_CALL[kind][0]]
        item = wire_extra(extra, "item") or {"call_id": "", **special.members}
        id = {"call_id" if "call_id" in item else "id": call.id}
        return {"type": kind, **item, **id, special.payload: _payload(call, special)}
    if kind == CUSTOM:
        return {"type": kind, "call_id": call.id, "name": call.name, "input": input_text(call), **extra}
    arguments = arguments_text(call, to_provider=to_provider)
    return {"type": kind, "call_id": call.id, "name": call.name, "arguments": arguments, **extra}


def _payload(call: ToolCall, kind: _Kind) -> object:
    if not kind.argument:
        return {**kind.fixed, **call.arguments}
    # A model may write one action in place of the list.
    value = call.arguments.get(kind.argument, call.arguments)
    return value if is_list(value) else [value] if value else []


class OfferedTools:
    """The tools that a client offered, by the names of their functions: calls go back in the client's form."""

    def __init__(self, tools: Iterable[AnyTool], messages: Iterable[Message] = ()) -> None:
        self._forms: dict[str, dict[str, Any]] = {}
        self.has_caller = False
        """Whether calls of `call_found_tool` are calls of another tool."""
        for tool in tools:
            if not isinstance(tool, Tool) or not (own := client_tool(tool)):
                continue
            if FOUND in own:
                self.has_caller = True
            else:
                self._forms[tool.name] = _form(own)
        for own in found_definitions(messages) if self.has_caller else ():
            if own["tool"].get("type") == "custom" or "namespace" in own:
                names = [object_of(own.get(member)).get("name") for member in ("namespace", "tool")]
                self._forms.setdefault(function_name(names[0], str(names[1])), _form(own))

    def restore(self, call: ToolCall) -> ToolCall:
        """A call of another wire as a call of the tool that the client offered, or that its search found."""
        if self.has_caller and call.name == CALLER and COVERED not in call.extra:
            call = as_call_of_found(call)
        extra = self._forms.get(call.name)
        if extra is None or COVERED in call.extra or NAME in call.extra:
            return call
        return ToolCall(
            id=call.id, name=call.name, arguments=call.arguments, raw=call.raw, extra={**call.extra, **extra}
        )


NO_TOOLS = OfferedTools(())


def _form(own: JsonObject) -> dict[str, Any]:
    definition, namespace = object_of(own.get("tool")), object_of(own.get("namespace"))
    kind = str(definition.get("type"))
    names = {"name": str(definition.get("name")), "namespace": str(namespace["name"])} if namespace else {}
    if kind in _KINDS:
        return call_extra(_KINDS[kind].call, {})
    return call_extra(CUSTOM if kind == "custom" else "function_call", {}, **names)


# Results --------------------------------------------------------------------------------------------------------------


def call_id_of_output(item: JsonObject) -> str:
    """The id of the call that an item is the result of; "" if it is not the result of a special tool."""
    return _call_id(item) if str(item.get("type")) in _OUTPUTS and _is_run_by_client(item) else ""


def decode_client_output(item: JsonObject, names: Mapping[str, str]) -> ToolResult:
    """The result of a special tool as text."""
    id, output = _call_id(item), item.get("output")
    if item["type"] == "tool_search_output":
        names_of_tools = ", ".join(_found_names(item.get("tools"))) or "none"
        output = f"Tools that can be called now: {names_of_tools}"
    content: Any = output if isinstance(output, str) else encode_json(output).decode() if output else ""
    if is_object(output) and isinstance(url := output.get("image_url"), str):
        content = (_screenshot(url),)
    failed = item.get("status") == "failed"
    return ToolResult(
        id=id,
        name=names.get(id, ""),
        content=content or str(item.get("status") or ""),
        is_error=failed,
        extra={COVERED: {"item": item}},
    )


def _screenshot(url: str) -> Image:
    try:
        return Image.from_data_url(url) if is_data_url(url) else Image(url=url)
    except ValueError as error:
        raise invalid_field("output.image_url", str(error)) from error


def _found_names(tools: object) -> Iterable[str]:
    for tool in tools if is_list(tools) else ():
        if not is_object(tool):
            continue
        inner = tool.get("tools")
        for each in inner if is_list(inner) else (tool,):
            if is_object(each) and isinstance(name := each.get("name", each.get("type")), str):
                yield function_name(str(tool.get("name") or "") if is_list(inner) else None, name)


def _output_item(result: ToolResult) -> JsonObject | None:
    item = wire_extra(result.extra, COVERED).get("item")
    return item if is_object(item) else None


def encode_client_output(result: ToolResult) -> JsonObject | None:
    """The item of the result of a special tool; None for other results."""
    item = _output_item(result)
    if item is None:
        return None
    return {**item, "call_id" if "call_id" in item else "id": result.id}
