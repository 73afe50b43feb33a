"""The conversation in messages of Converse, for the client and the server.

The API wants turns of user and assistant that alternate, start with the user, and are never empty. Results of tools are
blocks of a user message. A cache point after a system text travels in the `extra` of that text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.targets.target import Target
from dragoman.types import (
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Role,
    Text,
    Thinking,
    is_list,
    is_object,
)
from dragoman.types.fast_constructors import new_message, new_text
from dragoman.wires.bedrock.parts import can_send, decode_block, decode_result, encode_block
from dragoman.wires.bedrock.schema import CACHE_POINT, NAME, ConverseMessage
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import (
    EMPTY_TURN,
    check_urls,
    fill_turns,
    merge_turns,
    repair,
    start_with_user,
)
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.open_turns import DecodedMessage, UnlinkedResult, link_results
from dragoman.wires.common.request_body import invalid_field, read_fields

_ROLES: Mapping[Role, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "user",
}
SEPARATOR = "\n"


def encode_messages(
    request: Request, target: Target, notices: NoticeCollector
) -> tuple[list[JsonObject], list[JsonObject], list[Message]]:
    """The system blocks, the messages, and the turns that they were made from."""
    history = repair(request, notices, system_turns=target.quirks.system_turns, alternating=True, cites_documents=True)
    check_urls(history.turns, target)
    system = [block for text in history.system if can_send(text, notices) for block in _encode_system(text)]
    turns = _alternating_turns(history.turns, notices)
    messages: list[JsonObject] = [
        {
            "role": turn.role,
            "content": [encode_block(part, notices) for part in turn.parts],
            **wire_extra(turn.extra, NAME),
        }
        for turn in turns
    ]
    _complete_documents(messages, notices)
    return system, messages, turns


def _complete_documents(messages: list[JsonObject], notices: NoticeCollector) -> None:
    """Give documents names of their own, and a text next to them: the API refuses a request without."""
    names: set[str] = set()
    for message in messages:
        documents = list(_documents(message["content"]))
        for document in documents:
            name = str(document.get("name"))
            if (unique := _unique_name(name, names)) != name:
                notices.add("renamed", "name of a document", f"became {unique}: another document is called {name}")
                document["name"] = unique
            names.add(unique.lower())
        blocks: list[JsonObject] = message["content"]
        if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
            notices.add("repaired", "a document without a text", "added a text: it must have one")
            # Not at the end: a cache point may be there.
            at = 1 + max(i for i, block in enumerate(blocks) if "document" in block)
            blocks.insert(at, {"text": EMPTY_TURN})


def separate_points(messages: list[JsonObject]) -> None:
    """Put a text between a document and a cache point: the API refuses a point that follows it directly (2026-03)."""
    for message in messages:
        blocks: list[JsonObject] = message["content"]
        for at in range(len(blocks) - 1, 0, -1):
            if "cachePoint" in blocks[at] and "document" in blocks[at - 1]:
                blocks.insert(at, {"text": SEPARATOR})


def _documents(blocks: list[JsonObject]) -> Iterator[JsonObject]:
    """The documents of a message; those in results of tools, too."""
    for i, block in enumerate(blocks):
        match block:
            case {"document": document} if is_object(document):
                blocks[i] = {"document": (copy := dict(document))}
                yield copy
            case {"toolResult": {"content": inner}} if is_list(inner):
                yield from _documents(inner)
            case _:
                continue


def _unique_name(name: str, used: set[str]) -> str:
    number, unique = 2, name
    while unique.lower() in used:
        unique, number = f"{name[:190]}-{number}", number + 1
    return unique


def _encode_system(text: Text) -> list[JsonObject]:
    extra = wire_extra(text.extra, NAME)
    own: list[JsonObject] = [{key: value} for key, value in extra.items() if key in ("guardContent", "cachePoint")]
    return own if "guardContent" in extra else [{"text": text.text}, *own]


def _alternating_turns(turns: tuple[Message, ...], notices: NoticeCollector) -> list[Message]:
    filled: list[Message] = []
    for turn in turns:
        following = (*turn.parts[1:], None)[: len(turn.parts)]
        parts = [
            part
            for part, after in zip(turn.parts, following, strict=True)
            if _is_separator(part, after) or can_send(part, notices)
        ]
        while parts and isinstance(parts[-1], Thinking):
            notices.add("repaired", "thinking at the end of a message", "nothing follows it; left out")
            parts.pop()
        role = _ROLES[turn.role]
        if parts or role != "system":
            filled.append(replace(turn, role=role, parts=tuple(parts)))
    return start_with_user(merge_turns(fill_turns(filled, notices)), notices)


def _is_separator(part: Part, after: Part | None) -> bool:
    """Whether a text of white space separates a document from a cache point, which must not follow it directly."""
    is_point = isinstance(after, Opaque) and after.wire == NAME and "cachePoint" in after.data
    return is_point and isinstance(part, Text) and part.text != ""


class ConverseTurn(DecodedMessage):
    """A message before its results have names."""

    without_point: DecodedMessage | None = None
    """The message without the cache point at its end, if it has one."""


def decode_message(data: JsonObject, where: str) -> ConverseTurn:
    """Decode a message. Its results have no names yet: those are in the messages of the calls."""
    message, rest = read_fields(ConverseMessage, data, where)
    role = _SENT_ROLES.get(message.role)
    if role is None:
        raise invalid_field(f"{where}.role", f"must be user, assistant or system, got {message.role!r}")
    extra, blocks, where = make_extra(NAME, rest), message.content, f"{where}.content"
    turn, results = _decode_blocks(role, blocks, where, extra)
    if len(blocks) < 2 or blocks[-1] != CACHE_POINT:
        return ConverseTurn(turn, results)
    blocks = blocks[:-1]
    if len(blocks) > 1 and blocks[-1] == {"text": SEPARATOR} and "document" in blocks[-2]:
        blocks = blocks[:-1]  # it is there for the cache point
    return ConverseTurn(turn, results, DecodedMessage(*_decode_blocks(role, blocks, where, extra)))


_SENT_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def _decode_blocks(
    role: Role, blocks: list[JsonObject], where: str, extra: dict[str, Any]
) -> tuple[Message, tuple[UnlinkedResult, ...]]:
    results: list[UnlinkedResult] = []
    parts: list[Part] = []
    for i, block in enumerate(blocks):
        if role == "user" and block.keys() == {"toolResult"}:
            result = decode_result(block, f"{where}[{i}]")
            results.append(UnlinkedResult(result))
        else:
            parts.append(decode_block(block, f"{where}[{i}]"))
    role = "tool" if results and not parts else role
    return new_message(role, tuple(parts), extra), tuple(results)


def link_messages(items: list[ConverseTurn]) -> tuple[tuple[Message, ...], bool]:
    """The turns, and whether the conversation ends in a cache point."""
    last = items[-1].without_point if items else None
    return link_results(items if last is None else [*items[:-1], last]), last is not None


def decode_system(blocks: list[JsonObject]) -> list[Text]:
    """The system prompt."""
    texts: list[Text] = []
    for i, block in enumerate(blocks):
        match block:
            case {"text": str(text)}:
                texts.append(new_text(text=text))
            case {"guardContent": {"text": {"text": str(text)}} as guard}:
                texts.append(new_text(text=text, extra={NAME: {"guardContent": guard}}))
            case {"cachePoint": point} if texts and is_object(point):
                extra = {NAME: {**wire_extra(texts[-1].extra, NAME), "cachePoint": point}}
                texts[-1] = replace(texts[-1], extra=extra)
            case _:
                why = "must be text, guardContent of a text, or a cachePoint after one of them"
                raise invalid_field(f"system[{i}]", why)
    return texts
