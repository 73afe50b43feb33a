"""The conversation in Ollama's messages, for the client and the server.

Ollama's clients may leave out the ids of calls and results. The server gives calls without an id one of its own, and
matches results to calls by id, else by name and order.
"""

from collections import defaultdict, deque
from collections.abc import Callable

import msgspec

from dragoman.types import Image, JsonObject, Message, Part, Request, Role, Text, Thinking, ToolCall, ToolResult
from dragoman.types.base import unchecked
from dragoman.types.fast_constructors import new_message, new_result, new_text
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import repair, result_media, split_error
from dragoman.wires.common.json_prompt import json_instruction, split_json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.open_turns import UnlinkedResult
from dragoman.wires.common.request_body import invalid_field, read_fields
from dragoman.wires.ollama.parts import decode_call, decode_image, encode_message, encode_result
from dragoman.wires.ollama.schema import NAME, OllamaRequestMessage

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def encode_messages(request: Request, notices: NoticeCollector) -> list[JsonObject]:
    """The messages of a request.

    The schema is also in the system prompt, because the model does not see `format` and the cloud ignores it.
    """
    history = repair(request, notices)
    messages: list[JsonObject] = []
    texts = [text.text for text in history.system]
    if request.schema is not None:
        texts.append(json_instruction(request.schema))
    if texts:
        message: JsonObject = {"role": "system", "content": "\n\n".join(texts)}
        for text in history.system:
            message.update(wire_extra(text.extra, NAME))
        messages.append(message)
    for turn in history.turns:
        messages.extend(_ENCODERS[turn.role](turn, notices))
    return messages


def _encode_user(turn: Message, notices: NoticeCollector) -> list[JsonObject]:
    kinds = [type(part) for part in turn.parts]
    if Image in kinds and Text in kinds[kinds.index(Image) :]:
        notices.add("info", "position of images", "images are sent next to the text, not inside it")
    if any(isinstance(part, Image) and part.detail for part in turn.parts):
        notices.add("dropped", "detail of an image", "not supported")
    return [{**encode_message("user", turn.parts, "\n"), **wire_extra(turn.extra, NAME)}]


def _encode_assistant(turn: Message, _: NoticeCollector) -> list[JsonObject]:
    return [{**encode_message("assistant", turn.parts, ""), **wire_extra(turn.extra, NAME)}]


def _encode_results(turn: Message, notices: NoticeCollector) -> list[JsonObject]:
    messages = [encode_result(result) for result in turn.tool_results]
    if (media := result_media(turn.tool_results)) is not None:
        messages.extend(_encode_user(media, notices))
    return messages


_ENCODERS: dict[str, Callable[[Message, NoticeCollector], list[JsonObject]]] = {
    "user": _encode_user,
    "assistant": _encode_assistant,
    "tool": _encode_results,
}


def split_schema(system: list[Text]) -> tuple[list[Text], JsonObject | None]:
    """The system prompt without the schema that `encode_messages` adds to its end."""
    if not system:
        return system, None
    prompt, schema = split_json_instruction(system[-1].text)
    last = [] if prompt is None else [Text(text=prompt, extra=system[-1].extra)]
    return [*system[:-1], *last], schema


class _DecodedMessage(msgspec.Struct):
    """A message before its calls have ids, and its result is matched with a call."""

    message: Message
    """Its calls may have no id."""
    system: Text | None = None
    """The message as a part of the system prompt."""
    result: UnlinkedResult | None = None
    """The message as a result, with the id and the name in its own fields."""


def decode_message(data: JsonObject, where: str) -> _DecodedMessage:
    """Decode a message. Which call a result belongs to is not known yet."""
    message, rest = read_fields(OllamaRequestMessage, data, where)
    role = _ROLES.get(message.role.lower())
    if role is None:
        raise invalid_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}, got {message.role!r}")
    extra = make_extra(NAME, rest)
    images = _decode_images(message, where)
    if role == "tool":
        text, is_error = split_error(message.content or "")
        result = new_result(
            id=message.tool_call_id or "",
            name=message.tool_name or "",
            content=(new_text(text=text), *images) if images else text,
            is_error=is_error,
            extra=extra,
        )
        return _DecodedMessage(_RESULTS, result=UnlinkedResult(result))
    parts: list[Part] = []
    if message.thinking:
        parts.append(Thinking(text=message.thinking, extra={NAME: {}}))
    calls = [decode_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(message.tool_calls or ())]
    if message.content or (message.content is not None and not (parts or images or calls)):
        parts.append(new_text(text=message.content))
    system = new_text(text=message.content or "", extra=extra) if role == "system" else None
    return _DecodedMessage(new_message(role, (*parts, *images, *calls), extra), system)


_RESULTS = Message(role="tool")


def link_messages(items: list[_DecodedMessage]) -> tuple[list[Text], tuple[Message, ...]]:
    """The leading system messages, and the turns; consecutive results are one turn."""
    system: list[Text] = []
    turns: list[Message] = []
    results: list[Part] = []
    calls = _Calls()
    for item in items:
        if item.result is not None:
            results.append(calls.link(item.result))
            continue
        if results:
            turns.append(new_message("tool", tuple(results)))
            results = []
        if item.system is not None and not turns:
            system.append(item.system)
        else:
            turns.append(calls.add_all(item.message))
    if results:
        turns.append(new_message("tool", tuple(results)))
    return system, tuple(turns)


class _Calls:
    """The calls so far; those without an id get one."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._open = _OpenCalls([], [])
        self._count = 0
        self._last_number = 0

    def add_all(self, message: Message) -> Message:
        """Add the calls of a message; the message, with their ids."""
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if not calls:
            return message
        with_ids = [self._with_id(call) for call in calls]
        self._open = _OpenCalls(calls, with_ids)
        if all(call.id for call in calls):
            return message
        return unchecked(message, parts=(*message.parts[: -len(calls)], *with_ids))

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._count += 1
        if not call.id:
            number = max(self._count, self._last_number + 1)
            while f"call_{number}" in self._names:
                number += 1
            self._last_number = number
            call = unchecked(call, id=f"call_{number}")
        self._names[call.id] = call.name
        return call

    def link(self, unlinked: UnlinkedResult) -> ToolResult:
        """The result with the id and the name of its call."""
        own = unlinked.result
        id = self._open.take(own.id, own.name)
        return unlinked.link(id, self._names.get(id) or own.name)


class _OpenCalls:
    """The calls of one turn that have no result yet, in queues by id, by name, and of all."""

    def __init__(self, calls: list[ToolCall], with_ids: list[ToolCall]) -> None:
        self._ids = [call.id for call in with_ids]
        self._answered: set[int] = set()
        self._queues: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
        for place, call in enumerate(calls):
            keys = [("id", call.id)] if call.id else [("without id", call.name), ("without id", "")]
            for key in (*keys, ("any", call.name), ("any", "")):
                self._queues[key].append(place)

    def take(self, id: str, name: str) -> str:
        """The id of the call that a result belongs to: by its id, else the first open call of its name, if any.

        A client may have invented an id for a call without one, so an unknown id matches only calls without an id.
        """
        for key in (("id", id), ("without id", name)) if id else (("any", name),):
            queue = self._queues[key]
            while queue:
                place = queue.popleft()
                if place not in self._answered:
                    self._answered.add(place)
                    return self._ids[place]
        return id


def _decode_images(message: OllamaRequestMessage, where: str) -> list[Image]:
    images: list[Image] = []
    for i, text in enumerate(message.images or ()):
        try:
            images.append(decode_image(text))
        except ValueError as error:
            raise invalid_field(f"{where}.images[{i}]", str(error)) from error
    return images
