"""Messages and tools that are dicts or objects of another SDK: of OpenAI, Anthropic, Google, Ollama or Bedrock.

The server half of each wire reads them, as it reads the requests of clients. A form is recognized by what only one SDK
has, such as a block of type `tool_use`. Text alone looks the same in most of them, and any of them can read it.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

import msgspec

from dragoman import wires
from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.http import HttpRequest
from dragoman.types import AnyTool, JsonObject, Message, Request, Text, Tool, is_list, is_object
from dragoman.types.checks import as_items, check_choice, is_mapping, naming, shown, wrong_value
from dragoman.types.parameters import named_parameters
from dragoman.wires.common.json import objects

DictForm: TypeAlias = Literal[
    "openai_chat", "openai_responses", "anthropic", "google", "google_interactions", "ollama", "bedrock"
]
"""The wire whose server half reads the dicts."""


class SdkObject(Protocol):
    """An object of another SDK, such as a message of an answer."""

    def model_dump(self, *arguments: Any, **options: Any) -> Any: ...


SdkValue: TypeAlias = Mapping[str, Any] | SdkObject
"""A message, a content block or a tool of another SDK."""
_FIELDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "openai_chat": ("messages", ("tools",)),
    "openai_responses": ("input", ("tools",)),
    "anthropic": ("messages", ("tools",)),
    "google": ("contents", ("tools",)),
    "google_interactions": ("input", ("tools",)),
    "ollama": ("messages", ("tools",)),
    "bedrock": ("messages", ("toolConfig", "tools")),
}
"""By wire: the field for messages in a request, and the path of the field for tools."""
_OURS = "dragoman"
"""The form of `dragoman.dump`, and of MCP's content."""


@named_parameters
def messages_from(
    messages: Message | SdkValue | Iterable[Message | SdkValue], *, wire: DictForm | None = None
) -> tuple[Message, ...]:
    """The messages of a list of dicts, as the SDKs of OpenAI, Anthropic and others have them.

    Objects of these SDKs may be among them, such as the message of an answer, and our own messages. The methods of a
    model take such lists, too; call this if you want to keep the messages, or to name their form by `wire`.

    >>> messages_from([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])[1].text
    'hi'
    """
    if wire is not None:
        check_choice("wire", wire, tuple(_FIELDS))
    all_messages = (messages,) if is_foreign(messages) or isinstance(messages, Message) else messages
    items: list[Any] = [_plain("messages", item) for item in as_items("messages", all_messages, _EXPECTED)]
    for index, item in enumerate(items):
        if not isinstance(item, Message) and not is_message_dict(item):
            hint = _answer_hint(item) or "put content into {'role': 'user', 'content': …}"
            raise wrong_value(f"messages[{index}]", "a dict with a role, or a Message", item, hint)
        if is_object(item):
            _check_names(item, f"messages[{index}]")
            _check_parts(item, f"messages[{index}]")
    form: str = wire or _form_of([item for item in items if is_object(item)])
    result: list[Message] = []
    for is_ours, group in groupby(items, lambda item: isinstance(item, Message)):
        run = list(group)
        result += run if is_ours else _decode_messages([*map(_as_sent, run)], form)
    return tuple(result)


_ANSWERS = {
    "choices": "choices[0].message",
    "candidates": "candidates[0].content",
    "output": "output, which is a list",
    "stopReason": "output.message",
    "message": "message",
}
"""By a field that whole answers of an SDK have: where they have their message."""


def _answer_hint(item: object) -> str | None:
    fields = item.keys() if is_object(item) else ()
    # The last one: answers of Bedrock have `output`, too.
    return next((f"pass its {part}" for name, part in reversed(_ANSWERS.items()) if name in fields), None)


def _as_sent(message: JsonObject) -> JsonObject:
    """A message as a request may have it.

    An answer of Anthropic is a message, too; its usage and other members are not sent back. An item of Responses that
    `model_dump` wrote has a null for what is not set. The result of a tool may be any JSON value.
    """
    if _is_answer(message):
        return {"role": message["role"], "content": message["content"]}
    if isinstance(message.get("type"), str):
        message = {name: value for name, value in message.items() if value is not None}
    if message.get("role") in ("tool", "function") and "content" in message:
        return {**message, "content": _result_content(message["content"])}
    if message.get("type") == "function_call_output" and "output" in message:
        return {**message, "output": _result_content(message["output"])}
    if is_list(content := message.get("content")) and any(map(_is_result, content)):
        results = [
            {**each, "content": _result_content(each["content"])} if _is_result(each) else each for each in content
        ]
        return {**message, "content": results}
    return message


def _is_result(block: object) -> TypeGuard[JsonObject]:
    return is_object(block) and block.get("type") == "tool_result" and "content" in block


def _result_content(content: Any) -> Any:
    """The content of a tool result: a text or content blocks as they are, any other value as its JSON."""
    items = content if is_list(content) else [content]
    is_content = all(isinstance(item, str) or (is_object(item) and "type" in item) for item in items)
    return content if is_content or content is None else msgspec.json.encode(content).decode()


def _is_answer(message: JsonObject) -> bool:
    return message.get("type") == "message" and {"role", "content", "model"} <= message.keys()


def _check_names(message: JsonObject, where: str) -> None:
    """Refuse a message without content whose fields look like typos, and content blocks of a misspelled type."""
    if message.get("role") in ("user", "system", "developer", "tool") and not _CONTENT.intersection(message):
        names = [name for name in message if name != "role"]
        close = [match for name in names for match in get_close_matches(name, _CONTENT, 1, 0.7)]
        hint = f"; did you mean {close[0]!r}?" if close else ""
        fields = ", ".join(map(repr, message))
        raise InvalidRequest(f"{where} must have content, got a dict with {fields}{hint}", param=where)
    known = {*_BLOCKS, *_OUR_BLOCKS, "text", "image", "document"}
    for index, block in enumerate(_blocks(message)):
        kind = block.get("type")
        if isinstance(kind, str) and kind not in known and (close := get_close_matches(kind, known, 1, 0.85)):
            path = f"{where}.content[{index}].type"
            raise InvalidRequest(
                f"{path} must be a known type, got {shown(kind)}; did you mean {close[0]!r}?", param=path
            )


def _check_parts(message: JsonObject, where: str) -> None:
    """Refuse a message of pydantic-ai, which has parts as those of Google do."""
    if is_list(parts := message.get("parts")) and any(is_object(part) and "part_kind" in part for part in parts):
        hint = "write the messages of pydantic-ai as user(…), assistant(…) and tool_results(…)"
        raise wrong_value(where, "a message of the SDK of a provider", message, hint)


_CONTENT = frozenset({"content", "parts", "type", "images", "tool_calls", "tool_call_id", "function_call"})
"""Fields that hold what a message says."""
_EXPECTED = "a list of dicts such as {'role': 'user', 'content': 'hi'}"


@named_parameters
def tools_from(
    tools: AnyTool | SdkValue | Iterable[AnyTool | SdkValue], *, wire: DictForm | None = None
) -> tuple[AnyTool, ...]:
    """The tools of a list of definitions, as the SDKs of OpenAI, Anthropic and others, or MCP, have them.

    A web search of a provider becomes a `WebSearch`, and so on. A tool that only one provider has becomes an `Opaque`.

    >>> tools_from([{"name": "tide", "input_schema": {"type": "object"}}])[0].name
    'tide'
    """
    if wire is not None:
        check_choice("wire", wire, tuple(_FIELDS))
    items = (tools,) if is_foreign(tools) or isinstance(tools, AnyTool) else tools
    result: list[AnyTool] = []
    for index, item in enumerate(as_items("tools", items, "a list of tool definitions")):
        plain = _plain("tools", item)
        result += (plain,) if isinstance(plain, AnyTool) else _decode_tool(plain, wire, f"tools[{index}]")
    return tuple(result)


def read_tools(tools: Any, /) -> Any:
    """The tools that a user passed, with definitions of other SDKs as our tools."""
    if is_foreign(tools):
        return tools_from(tools)
    items = _list_or_none(tools)
    if items is None or not any(map(is_foreign, items)):
        return tools
    return [tool for one in items for tool in (tools_from(one) if is_foreign(one) else (one,))]


def read_system(system: Any, /) -> Any:
    """The system prompt that a user passed, with blocks of other SDKs as `Text`."""
    blocks = [system] if is_foreign(system) else _list_or_none(system)
    if blocks is None or not any(map(is_foreign, blocks)):
        return system
    return messages_from([{"role": "system", "content": blocks}])[0].parts


def read_tool_choice(choice: Any, options: Mapping[str, Any], /) -> JsonObject:
    """The options for a tool choice of another SDK: `tool_choice`, and `parallel_tool_calls` if the choice sets it.

    `any` is the word of several SDKs for `required`, unless a tool has this name.

    >>> read_tool_choice({"type": "tool", "name": "tide"}, {})
    {'tool_choice': 'tide'}
    """
    if isinstance(choice, str) and choice == "any":
        names = [tool.name for tool in options.get("tools") or () if isinstance(tool, Tool)]
        return {"tool_choice": "any" if "any" in names else "required"}
    plain = _plain("tool_choice", choice, _CHOICE) if is_foreign(choice) else None
    if not is_object(plain):
        raise _wrong_choice(choice)
    form = next((form for form, marks in _CHOICE_MARKS if _has_marks(plain, marks)), None)
    if form is None:
        raise _wrong_choice(choice)
    *path, field = _CHOICE_FIELDS[form]
    body: JsonObject = {field: plain}
    for outer in reversed(path):
        body = {outer: body}
    with naming("tool_choice"):
        request = _decode(form, {_FIELDS[form][0]: [], **body})
    if request.tool_choice is None:
        raise _wrong_choice(choice)
    parallel = request.parallel_tool_calls
    return {"tool_choice": request.tool_choice, **({} if parallel is None else {"parallel_tool_calls": parallel})}


_CHOICE_MARKS: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    ("openai_chat", {"function": ()}),
    ("anthropic", {"type": ("tool", "any", "auto", "none")}),
    ("openai_responses", {"type": ("function", "custom")}),
    ("google", {"functionCallingConfig": (), "function_calling_config": ()}),
    ("bedrock", {"auto": (), "any": (), "tool": ()}),
    ("google_interactions", {"allowed_tools": ()}),
)
"""By wire: fields of a tool choice, and the values that the field must have, if any. The first that fits counts."""
_CHOICE_FIELDS = {
    "openai_chat": ("tool_choice",),
    "anthropic": ("tool_choice",),
    "openai_responses": ("tool_choice",),
    "google": ("toolConfig",),
    "google_interactions": ("generation_config", "tool_choice"),
    "bedrock": ("toolConfig", "toolChoice"),
}
"""By wire: the path of the tool choice in a request."""


def _has_marks(choice: JsonObject, marks: dict[str, tuple[str, ...]]) -> bool:
    return any(field in choice and (not values or choice[field] in values) for field, values in marks.items())


def _wrong_choice(choice: object) -> InvalidRequest:
    return wrong_value("tool_choice", _CHOICE, choice)


_CHOICE = "'auto', 'none', 'required' or the name of a tool"


def _list_or_none(value: Any) -> list[Any] | None:
    return [*value] if isinstance(value, list | tuple) else None


def is_foreign(value: object, /) -> bool:
    """Whether a value is a dict or an object of an SDK, and not one of our own values."""
    return isinstance(value, Mapping) or (not isinstance(value, type) and hasattr(value, "model_dump"))


def is_message_dict(value: object, /) -> TypeGuard[JsonObject]:
    """Whether a dict is a message, an item of OpenAI's Responses or a step of Google's, and not a content block.

    >>> is_message_dict({"type": "function_call_output"}), is_message_dict({"type": "text"})
    (True, False)
    """
    if not is_object(value):
        return False
    kind = value.get("type")
    if "role" in value or "parts" in value:
        return True
    return isinstance(kind, str) and (_ITEM.fullmatch(kind) is not None or _is_step(value))


def _is_step(value: JsonObject) -> bool:
    """Whether a dict is a step of Google's Interactions; Responses has calls, too, but their arguments are text."""
    return value.get("type") in _STEPS or (value.get("type") == "function_call" and is_object(value.get("arguments")))


_STEPS = tuple(
    "user_input model_output thought function_result google_search_call google_search_result google_maps_call "
    "google_maps_result url_context_call url_context_result mcp_server_tool_call mcp_server_tool_result".split()
)
_ITEM = re.compile(r"message|reasoning|item_reference|compaction|\w+_(call|call_output|list_tools|approval_\w+)")
"""The types of the items of OpenAI's Responses."""


def to_dict(value: object, /) -> object:
    """A dict for an object of an SDK, or for another mapping."""
    return _plain("prompt", value)


def _plain(parameter: str, value: Any, expected: str = _EXPECTED) -> Any:
    if isinstance(value, Message | AnyTool):
        return value
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_dump))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        reason = f"{parameter} must be {expected}, got {shown(value)}; {error}"
        raise InvalidRequest(reason, param=parameter) from error


def _dump(value: Any) -> object:
    if is_mapping(value):
        return {**value}
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True, exclude_none=True)
    raise TypeError(f"it must have JSON values, got {type(value).__name__}")


# The form of messages -------------------------------------------------------------------------------------------------


def _form_of(messages: list[JsonObject]) -> str:
    """The form of some messages: the one that all of their marks name."""
    marks: dict[str, str] = {}
    for index, message in enumerate(messages):
        for form, why in _marks(message):
            marks.setdefault(form, f"messages[{index}] has {why}")
    if "ollama" in marks:
        marks.pop("openai_chat", None)  # its messages have most fields of Chat Completions
    if len(marks) > 1:
        reasons = "; ".join(f"{form}: {why}" for form, why in marks.items())
        raise InvalidRequest(
            f"messages must have the form of one SDK, got several ({reasons}); pass wire= to messages_from",
            param="messages",
        )
    if marks:
        return next(iter(marks))
    has_cache_control = any("cache_control" in block for message in messages for block in _blocks(message))
    return "anthropic" if has_cache_control else "openai_chat"


def _marks(message: JsonObject) -> Iterable[tuple[str, str]]:
    """The forms that a message can only have, and why."""
    if is_list(parts := message.get("parts")):
        is_ours = all(is_object(part) and "type" in part for part in parts)
        yield _OURS if is_ours and message.get("role") != "model" else "google", "parts"
        return
    if _is_step(message):
        yield "google_interactions", f"type {message['type']!r}"
        return
    if _is_answer(message):
        yield "anthropic", "the fields of an answer"
    elif isinstance(message.get("type"), str):
        yield "openai_responses", f"type {message['type']!r}"
    for key, form in _KEYS.items():
        if message.get(key) is not None:
            yield form, key
    if message.get("role") in ("tool", "function"):
        yield "openai_chat", f"role {message['role']!r}"
    for block in _blocks(message):
        kind = block.get("type")
        if kind is None and not block.keys().isdisjoint(_BEDROCK_BLOCKS):
            yield "bedrock", "a content block without type"
        elif (own := _form_of_block(str(kind), block)) is not None:
            yield own, f"a content block of type {kind!r}"


_KEYS = {
    "tool_calls": "openai_chat",
    "tool_call_id": "openai_chat",
    "function_call": "openai_chat",
    "tool_name": "ollama",
    "images": "ollama",
}
"""Fields of messages that one form has."""
_BLOCKS = {
    "image_url": "openai_chat",
    "input_audio": "openai_chat",
    "file": "openai_chat",
    "input_text": "openai_responses",
    "output_text": "openai_responses",
    "input_image": "openai_responses",
    "input_file": "openai_responses",
    "tool_use": "anthropic",
    "tool_result": "anthropic",
    "thinking": "anthropic",
    "redacted_thinking": "anthropic",
    "server_tool_use": "anthropic",
    "search_result": "anthropic",
    "container_upload": "anthropic",
}
"""Types of content blocks that one form has."""
_OUR_BLOCKS = frozenset({"image", "document", "audio", "resource", "resource_link", "tool_call", "opaque"})
"""Types of content blocks of `dump` and of MCP. Those of Anthropic with the same type have a `source`."""
_BEDROCK_BLOCKS = frozenset({"text", "image", "document", "video", "toolUse", "toolResult", "reasoningContent"})


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return objects(content)


def _form_of_block(kind: str, block: JsonObject) -> str | None:
    if "source" in block or kind.endswith("_tool_result"):
        return "anthropic"
    return _OURS if kind in _OUR_BLOCKS else _BLOCKS.get(kind)


# Decoding -------------------------------------------------------------------------------------------------------------


def _decode_messages(messages: list[JsonObject], form: str) -> Iterable[Message]:
    if form == _OURS:
        return [
            _message(each.get("role"), each.get("parts", each.get("content")), each.get("extra")) for each in messages
        ]
    request = _decode(form, {_FIELDS[form][0]: messages})
    system = request.system
    texts = (Text(text=system),) if isinstance(system, str) else system or ()
    return (Message(role="system", parts=texts), *request.messages) if texts else request.messages


def _message(role: Any, parts: Any, extra: Any) -> Message:
    return Message(role=role, parts=parts, extra=extra)


def _decode_tool(tool: Any, wire: str | None, where: str) -> tuple[AnyTool, ...]:
    if not is_object(tool):
        raise wrong_value(where, "a tool definition", tool)
    if {"name", "inputSchema"} <= tool.keys():  # MCP
        wire, tool = "anthropic", {**_without(tool, "inputSchema"), "input_schema": tool["inputSchema"]}
    if wire is None and "type" not in tool and "parameters" in tool:  # a function of OpenAI without its frame
        tool = {"type": "function", "function": tool}
    form = wire or _form_of_tool(tool)
    if form is None:
        keys = ", ".join(map(repr, tool)) or "no field"
        reason = f"{where} must be a tool definition of a known SDK, got a dict with {keys}; pass wire= to tools_from"
        raise InvalidTool(reason, param=where)
    body: Any = [tool]
    for field in reversed(_FIELDS[form][1]):
        body = {field: body}
    try:
        return _decode(form, {_FIELDS[form][0]: [], **body}).tools
    except InvalidRequest as error:
        raise InvalidTool(error.message.replace("tools[0]", where), param=where) from error


def _form_of_tool(tool: JsonObject) -> str | None:
    kind = tool.get("type")
    for form, keys in _TOOL_KEYS.items():
        if not tool.keys().isdisjoint(keys):
            return form
    if not isinstance(kind, str):
        return None
    if kind in _INTERACTION_TOOLS:
        return "google_interactions"
    return "anthropic" if re.search(r"_\d{8}$", kind) else "openai_responses"


_INTERACTION_TOOLS = ("google_search", "google_maps", "url_context", "code_execution", "mcp_server", "retrieval")
"""Types of tools that only Google's Interactions have."""


_TOOL_KEYS: dict[str, frozenset[str]] = {
    "openai_chat": frozenset({"function"}),
    "anthropic": frozenset({"input_schema"}),
    "bedrock": frozenset({"toolSpec"}),
    "google": frozenset(
        {
            "functionDeclarations",
            "function_declarations",
            "googleSearch",
            "google_search",
            "codeExecution",
            "urlContext",
        }
    ),
}
"""Fields of tool definitions that one form has."""


def _without(data: JsonObject, field: str) -> JsonObject:
    return {key: value for key, value in data.items() if key not in (field, "annotations", "outputSchema", "_meta")}


def _decode(form: str, body: JsonObject) -> Request:
    server = wires.get(form).server
    path = server.routes[0].path.replace("{model}", "model")
    return server.decode_request(HttpRequest(method="POST", path=path, body=msgspec.json.encode(body)))[1]
