"""Decodes the items of clients of the Responses API: each by itself, then they become messages."""

from collections.abc import Mapping

import msgspec

from dragoman.types import (
    JsonObject,
    Message,
    Opaque,
    Part,
    ResultPart,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.types.fast_constructors import new_message, new_result, new_text
from dragoman.types.json_size import count_values
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import split_error
from dragoman.wires.common.open_turns import UnlinkedResult
from dragoman.wires.common.request_body import decode_items, invalid_field, read_fields
from dragoman.wires.openai_responses.client_tools import (
    call_id_of_output,
    decode_client_call,
    decode_client_output,
    is_client_call,
    tools_message,
)
from dragoman.wires.openai_responses.compaction_item import (
    MAX_VALUES,
    CompactedConversation,
    is_own,
    read_compaction,
)
from dragoman.wires.openai_responses.hosted_tools import decode_hosted_item
from dragoman.wires.openai_responses.parts import (
    EMPTY_MESSAGE,
    decode_call,
    decode_content,
    decode_image_call,
    decode_other_item,
    decode_output_text,
    decode_reasoning,
    item_of,
    item_rest,
    message_extra,
    text_extra,
    type_of,
)
from dragoman.wires.openai_responses.schema import CUSTOM, NAME, ResponsesCallOutput, ResponsesMessage

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
RESULT_TYPES = ("function_call_output", f"{CUSTOM}_output")
_CALLS = ("function_call", CUSTOM)
_NOT_AS_WRITTEN = "is not as this gateway wrote it; compact the conversation again"


class _DecodedMessage(msgspec.Struct):
    """A message item before it joins a turn."""

    role: Role
    parts: tuple[Part, ...]
    rest: JsonObject
    """Its other fields."""
    name: str
    """The client's name of the role."""


class _DecodedItem(msgspec.Struct):
    """An item before it joins a turn."""

    kind: str
    data: JsonObject
    value: _DecodedMessage | ToolCall | Thinking | UnlinkedResult | None = None
    """None if it depends on the items before it, or is rare."""


def decode_item(data: JsonObject, where: str) -> _DecodedItem:
    """Decode an item. A result has no name yet: that is in the item of its call."""
    kind = item_kind(data)
    value: _DecodedMessage | ToolCall | Thinking | UnlinkedResult | None = None
    if kind == "message":
        value = _decode_message(data, where)
    elif call_id_of_output(data) or is_client_call(data):
        value = None
    elif kind in RESULT_TYPES and (data.get("call_id") is not None or not data.get("name")):
        result = decode_result(data, where, {})
        value = UnlinkedResult(result)
    elif kind in _CALLS:
        value = decode_call(data, where)
    elif kind == "reasoning":
        value = decode_reasoning(data)
    return _DecodedItem(kind, data, value)


class ItemReader:
    """Decodes input items: the items of one assistant turn become one message, and so do consecutive results."""

    def __init__(self, *, is_stateful: bool) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], JsonObject]] = []
        self._is_stateful = is_stateful
        self._names: dict[str, str] = {}
        self._compacted_values = 0

    def messages(self) -> tuple[Message, ...]:
        """The messages."""
        return tuple(
            new_message(role=role, parts=tuple(turn), extra=extra) if role != "developer" else tools_message(extra)
            for role, turn, extra in self._turns
        )

    def read(self, input: str | list[JsonObject]) -> None:
        """Read all items; a text is the message of a user."""
        data: list[JsonObject] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        items = decode_items(data, decode_item, "input")
        self._is_stateful = self._is_stateful or any(item.kind == "item_reference" for item in items)
        for i, item in enumerate(items):
            self._item(item, i)

    def _item(self, decoded: _DecodedItem, index: int) -> None:
        value = decoded.value
        if isinstance(value, _DecodedMessage):
            self._message(value)
        elif isinstance(value, ToolCall):
            self._names[value.id] = value.name
            self._append("assistant", value)
        elif isinstance(value, UnlinkedResult):
            self._result(value, decoded.data)
        elif value is not None:
            self._append("assistant", value)
        else:
            self._other_item(decoded.data, decoded.kind, f"input[{index}]")

    def _other_item(self, item: JsonObject, kind: str, where: str) -> None:
        if kind == "additional_tools":
            self._turns.append(("developer", [], item))
        elif call_id_of_output(item) in self._names:
            self._append("tool", decode_client_output(item, self._names))
        elif is_client_call(item):
            call = decode_client_call(item)
            self._names[call.id] = call.name
            self._append("assistant", call)
        elif kind == "image_generation_call":
            self._append("assistant", decode_image_call(item))
        elif (compaction := read_compaction(item, where)) is not None:
            self._compaction(compaction, where)
        elif is_own(item):
            raise invalid_field(where, _NOT_AS_WRITTEN)
        elif (hosted := decode_hosted_item(item)) is not None:
            self._append("assistant", *hosted)
        else:
            self._append("assistant", decode_other_item(item))

    def _compaction(self, compaction: CompactedConversation, where: str) -> None:
        self._compacted_values += count_values(compaction.user, MAX_VALUES + 1)
        if self._compacted_values > MAX_VALUES:
            raise invalid_field(where, f"has more than {MAX_VALUES} values, with those before it; send fewer")
        for item in compaction.user:
            if item_kind(item) != "message":
                raise invalid_field(where, _NOT_AS_WRITTEN)
            self._message(_decode_message(item, where))
        self._append("user", compaction.text)

    def _append(self, role: Role, *parts: Part) -> None:
        if not self._turns or self._turns[-1][0] != role:
            self._turns.append((role, [], {}))
        self._turns[-1][1].extend(parts)

    def _message(self, message: _DecodedMessage) -> None:
        if message.role == "assistant":
            self._assistant_message(message)
            return
        texts = [part for part in message.parts if isinstance(part, Text)]
        if message.role == "system" and not self._turns and len(texts) == len(message.parts):
            self.system += [self._system_text(text, message) for text in texts]
        else:
            self._turns.append((message.role, [*message.parts], make_extra(NAME, message.rest)))

    def _system_text(self, text: Text, message: _DecodedMessage) -> Text:
        """A system text. If the server stores the conversation, it must stay an item: `instructions` are not stored."""
        extra = {**wire_extra(text.extra, NAME), **message.rest}
        fields = {"role": message.name, **extra} if extra or self._is_stateful else {}
        return new_text(text=text.text, extra=make_extra(NAME, fields))

    def _assistant_message(self, message: _DecodedMessage) -> None:
        last = self._turns[-1][1][-1] if self._turns and self._turns[-1][0] == "assistant" else None
        if isinstance(last, Text) and item_of(last) == message.rest:
            self._turns.append(("assistant", [*message.parts], {}))
        else:
            self._append("assistant", *message.parts)

    def _result(self, unlinked: UnlinkedResult, item: JsonObject) -> None:
        id = unlinked.result.id
        if id not in self._names and self._is_stateful:
            self._append("assistant", Opaque(wire=NAME, data=item))
        else:
            self._append("tool", unlinked.link(id, self._names.get(id, "")))


def _decode_message(item: JsonObject, where: str) -> _DecodedMessage:
    message, fields = read_fields(ResponsesMessage, item, where)
    role = _ROLES.get(message.role)
    if role is None:
        raise invalid_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}, got {message.role!r}")
    content = message.content
    if role != "assistant":
        parts = _decode_parts(content, f"{where}.content")
        return _DecodedMessage(role, parts, item_rest(fields), message.role)
    rest = message_extra(item)
    content = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    texts = tuple([decode_output_text(part, rest) for part in content or ()])
    if not texts:
        texts = (Text(text="", extra=text_extra(rest, {EMPTY_MESSAGE: True}, refused=False)),)
    return _DecodedMessage(role, texts, rest, message.role)


def item_kind(item: JsonObject) -> str:
    """The type of an item; messages and references may omit it."""
    return type_of(item) or ("message" if "role" in item or "id" not in item else "item_reference")


def decode_result(item: JsonObject, where: str, names: Mapping[str, str]) -> ToolResult:
    """The result of a call; `names` has the names of the calls so far by id."""
    result, rest = read_fields(ResponsesCallOutput, item, where)
    content, is_error = _decode_output(result.output, f"{where}.output")
    extra = make_extra(NAME, item_rest(rest))
    name = names.get(result.call_id, "")
    return new_result(id=result.call_id, name=name, content=content, is_error=is_error, extra=extra)


def _decode_parts(content: str | list[JsonObject] | None, where: str) -> tuple[ResultPart, ...]:
    if isinstance(content, str):
        return (new_text(text=content),)
    return tuple(decode_content(part, f"{where}[{i}]") for i, part in enumerate(content or ()))


def _decode_output(output: str | list[JsonObject], where: str) -> tuple[str | tuple[ResultPart, ...], bool]:
    if isinstance(output, str):
        return split_error(output)
    parts = _decode_parts(output, where)
    match parts:
        case (Text() as first, *rest):
            text, is_error = split_error(first.text)
            texts = (msgspec.structs.replace(first, text=text),) if text or not is_error else ()
            return (*texts, *rest), is_error
        case _:
            return parts, False
