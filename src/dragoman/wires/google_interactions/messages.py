"""The conversation as the input of an interaction, for the client and the server."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.targets.target import Target
from dragoman.types import (
    Document,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Text,
    ToolCall,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.types.fast_constructors import new_message, new_text
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import check_urls, repair
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.open_turns import OpenTurn, add_user_turn
from dragoman.wires.common.request_body import invalid_field, require_object
from dragoman.wires.google_interactions.parts import (
    decode_contents,
    decode_item,
    decode_result,
    decode_step,
    encode_steps,
    is_content_type,
)
from dragoman.wires.google_interactions.schema import NAME, RESOLUTIONS

# Encoding -------------------------------------------------------------------------------------------------------------


def encode_messages(request: Request, target: Target, notices: NoticeCollector) -> tuple[list[str], list[JsonObject]]:
    """The texts of the system instruction, and the steps."""
    history = repair(request, notices, citations="all")
    steps: list[JsonObject] = []
    for turn in history.turns:
        parts = tuple(part for part in turn.parts if _has_content(part))
        _check(parts, target, notices)
        steps += encode_turn(replace(turn, parts=parts))
    return [text.text for text in history.system if text.text], steps


def encode_turn(turn: Message) -> list[JsonObject]:
    """The steps of a message."""
    steps = encode_steps(turn.parts, "model_output" if turn.role == "assistant" else "user_input")
    extra = wire_extra(turn.extra, NAME)
    return [{**step, **extra} for step in steps] if extra else steps


def _has_content(part: Part) -> bool:
    """Whether a part is not an empty text, which has no meaning."""
    return not isinstance(part, Text) or bool(part.text or wire_extra(part.extra, NAME))


def _check(parts: Iterable[Part], target: Target, notices: NoticeCollector) -> None:
    """Reject an image URL that the target cannot fetch, unless a client of this API sent it; note dropped members."""
    for part in parts:
        match part:
            case Image():
                if NAME not in part.extra:
                    check_urls([Message(role="user", parts=(part,))], target)
                if part.detail not in (None, "auto", *RESOLUTIONS):
                    notices.add("dropped", "detail of an image", "not supported")
            case Document(name=str()) if not part.mime.startswith("video/"):
                notices.add("dropped", "name of a document", "not supported")
            case ToolResult():
                _check(part.parts, target, notices)
            case _:
                continue


# Decoding -------------------------------------------------------------------------------------------------------------


def decode_input(value: object) -> tuple[Message, ...]:
    """The messages of an input: a text, a content, or a list of contents or steps."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (new_message(role="user", parts=(new_text(text=value),)),)
    reader = _InputReader()
    for i, item in enumerate(value if is_list(value) else [value]):
        reader.read(require_object(item, f"input[{i}]"), f"input[{i}]")
    return tuple(new_message(role=turn.role, parts=tuple(turn.parts), extra=turn.extra) for turn in reader.turns)


class _InputReader:
    """Collects steps into messages: what the model did between two inputs is one message, and so are results."""

    def __init__(self) -> None:
        self.turns: list[OpenTurn] = []
        self._names: dict[str, str] = {}
        self._is_loose = False
        """Whether the last item was a content outside of a step: the next one belongs to the same message."""

    def read(self, item: JsonObject, where: str) -> None:
        was_loose, self._is_loose = self._is_loose, is_content_type(item)
        if "role" in item and "type" not in item:
            self._turn(item, where)
        elif self._is_loose:
            parts = decode_item(item, "user_input", where)
            if was_loose:
                self.turns[-1].parts += parts
            else:
                self.turns.append(OpenTurn(role="user", parts=parts))
        elif item.get("type") == "user_input":
            rest = {key: value for key, value in item.items() if key not in ("type", "content") and value is not None}
            self._user(item.get("content"), f"{where}.content", rest)
        elif item.get("type") == "function_result":
            self._add_user([item], [where], {})
        else:
            self._model(decode_step(item, where))

    def _turn(self, item: JsonObject, where: str) -> None:
        """Read a turn of an older version of the API: a role and contents."""
        match item["role"]:
            case "user":
                self._user(item.get("content"), f"{where}.content", {})
            case "model":
                self._model(decode_contents(item.get("content"), "model_output", f"{where}.content"))
            case role:
                raise invalid_field(f"{where}.role", f"must be user or model, got {role!r}")

    def _user(self, content: object, where: str, rest: JsonObject) -> None:
        if content is None or isinstance(content, str):
            add_user_turn(self.turns, [], decode_contents(content, "user_input", where), make_extra(NAME, rest))
        else:
            items = content if is_list(content) else [content]
            self._add_user(items, [f"{where}[{i}]" for i in range(len(items))], rest)

    def _add_user(self, items: list[Any], places: list[str], rest: JsonObject) -> None:
        results: list[Part] = []
        others: list[Part] = []
        for item, where in zip(items, places, strict=True):
            if not is_object(item) or item.get("type") != "function_result":
                others += decode_item(item, "user_input", where)
            elif (result := decode_result(item, where, self._names)).id in self._names:
                results.append(result)
            else:
                others.append(Opaque(wire=NAME, data=item))  # its call is in a stored interaction
        add_user_turn(self.turns, results, others, make_extra(NAME, rest))

    def _model(self, parts: list[Part]) -> None:
        self._names.update((part.id, part.name) for part in parts if isinstance(part, ToolCall))
        if not self.turns or self.turns[-1].role != "assistant":
            self.turns.append(OpenTurn(role="assistant", parts=[]))
        self.turns[-1].parts += parts
