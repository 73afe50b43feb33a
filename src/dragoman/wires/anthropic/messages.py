"""The conversation in Anthropic's messages, for the client and the server.

The API wants turns of user and assistant that start with the user and are never empty. It joins consecutive messages
of the user itself, so they stay apart here: a later one must not change an earlier one. Results of tools are blocks of
a user message. Some targets take system messages inside the conversation, in some places.
"""

from itertools import groupby
from typing import Any

from msgspec.structs import replace

from dragoman.targets.target import Target
from dragoman.types import (
    SYSTEM_ROLES,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    is_object,
)
from dragoman.types.checks import shown
from dragoman.types.fast_constructors import new_message
from dragoman.wires.anthropic.client_tools import COVERED
from dragoman.wires.anthropic.parts import decode_block, decode_result, encode_block
from dragoman.wires.anthropic.schema import NAME, AnthropicMessage, AnthropicRequest
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import (
    FILLER_ANSWER,
    check_urls,
    fill_turns,
    has_content,
    join_turns,
    mark_system,
    merge_answers,
    merge_turns,
    repair,
    start_with_user,
)
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.open_turns import DecodedMessage, UnlinkedResult
from dragoman.wires.common.request_body import invalid_field, read_fields

# Encoding -------------------------------------------------------------------------------------------------------------


def prepare_history(request: Request, target: Target, notices: NoticeCollector) -> tuple[list[Text], list[Message]]:
    """The system texts, and the turns of user and assistant, and of the system if the target takes them."""
    history = repair(request, notices, system_turns=target.quirks.system_turns, alternating=True, cites_documents=True)
    system = [text for text in history.system if has_content(text, notices)]
    check_urls(history.turns, target)
    return system, _alternating_turns(history.turns, target, notices)


def encode_system(texts: list[Text]) -> str | list[JsonObject]:
    """The system prompt: a string if possible, else a list of blocks."""
    if len(texts) == 1 and NAME not in texts[0].extra:
        return texts[0].text
    return [{"type": "text", "text": text.text, **wire_extra(text.extra, NAME)} for text in texts]


def encode_messages(turns: list[Message], notices: NoticeCollector) -> list[JsonObject]:
    """The messages of some turns."""
    return [message for turn in turns for message in _encode_turn(turn, notices)]


def continues_without_thinking(turns: list[Message]) -> bool:
    """Whether the last turn has results of calls that the model made without thinking."""
    loop: list[Message] = []
    for turn in reversed(merge_turns(turn for turn in turns if turn.role != "system")):
        if turn.role == "user" and not any(isinstance(part, ToolResult) for part in turn.parts):
            break
        loop.append(turn)
    return bool(loop) and loop[0].role == "user" and not isinstance(loop[-1].parts[0], Thinking)


def _is_system_content(part: Part, notices: NoticeCollector) -> bool:
    if isinstance(part, Thinking | ToolCall | ToolResult):
        notices.add("dropped", "part of a system message", "thinking, tool calls and results are not supported there")
        return False
    return True


def _place_system(turns: list[Message], notices: NoticeCollector) -> list[Message]:
    """System turns where the API takes them: after a user turn, before an answer or at the end, one at a time.

    After an answer they become user turns, marked. Before a user turn, which may come later, an answer follows them.
    """
    runs = [[*run] for _, run in groupby(turns, key=lambda turn: turn.role == "system")]
    placed: list[Message] = []
    for run, after in zip(runs, [*runs[1:], None], strict=False):
        if run[0].role != "system":
            placed += run
        elif placed and placed[-1].role == "user":
            placed += merge_turns(run)
            if after is not None and after[0].role == "user":
                notices.add("repaired", "system message before a user message", "added an answer: it must follow")
                placed.append(Message(role="assistant", parts=(Text(text=FILLER_ANSWER),)))
        else:
            placed += [mark_system(turn, notices) for turn in run]
    return placed


def _alternating_turns(turns: tuple[Message, ...], target: Target, notices: NoticeCollector) -> list[Message]:
    filled: list[Message] = []
    for turn in turns:
        parts = [part for part in turn.parts if has_content(part, notices)]
        if turn.role in SYSTEM_ROLES:
            parts = [part for part in parts if _is_system_content(part, notices)]
        if target.quirks.signed_thinking:
            parts = [part for part in parts if _is_signed(part, notices)]
        while parts and isinstance(parts[-1], Thinking):
            # 400: the final block in an assistant message cannot be `thinking` (seen 2025-12).
            notices.add("repaired", "thinking at the end of a message", "nothing follows it; left out")
            parts.pop()
        role: Role = "system" if turn.role in SYSTEM_ROLES else "assistant" if turn.role == "assistant" else "user"
        if parts or role != "system":
            is_same = role == turn.role and len(parts) == len(turn.parts)
            filled.append(turn if is_same else replace(turn, role=role, parts=tuple(parts)))
    if not all(turn.parts for turn in filled):
        filled = fill_turns(filled, notices)
    if target.quirks.system_turns:
        filled = _place_system(filled, notices)
    return _without_trailing_space(start_with_user(_joined(filled), notices), notices)


def _joined(turns: list[Message]) -> list[Message]:
    """The turns; answers that follow each other are one, and so are results and the text of one message."""
    joined: list[Message] = []
    for turn in merge_answers(turns):
        if joined and wire_extra(turn.extra, COVERED).get("with_results") and joined[-1].role == turn.role:
            joined[-1] = join_turns([joined[-1], turn])
        else:
            joined.append(turn)
    return joined


def _is_signed(part: Part, notices: NoticeCollector) -> bool:
    if not isinstance(part, Thinking) or part.redacted or "signature" in wire_extra(part.extra, NAME):
        return True
    notices.add("dropped", "thinking", "it has no signature")
    return False


def _without_trailing_space(turns: list[Message], notices: NoticeCollector) -> list[Message]:
    """The turns; if the last is the assistant's, and so a prefill, it must not end in white space."""
    last = turns[-1].parts[-1] if turns and turns[-1].role == "assistant" else None
    if not isinstance(last, Text) or last.text == last.text.rstrip():
        return turns
    notices.add("repaired", "the last message", "it must not end in white space; removed")
    text = replace(last, text=last.text.rstrip())
    return [*turns[:-1], replace(turns[-1], parts=(*turns[-1].parts[:-1], text))]


def _encode_turn(turn: Message, notices: NoticeCollector) -> list[JsonObject]:
    """One message, or several if system messages stand inside the turn."""
    messages: list[JsonObject] = []
    blocks: list[JsonObject] = []
    if len(turn.parts) == 1 and type(text := turn.parts[0]) is Text and not text.extra and turn.role != "system":
        return [{"role": turn.role, "content": text.text, **wire_extra(turn.extra, NAME)}]
    if turn.role == "system":
        content = [encode_block(part, notices) for part in turn.parts]
        return [{"role": "system", "content": content, **wire_extra(turn.extra, NAME)}]
    for part in turn.parts:
        if isinstance(part, Opaque) and part.data.get("role") == "system":
            messages += [*_encode_message(turn, blocks), part.data]
            blocks = []
        else:
            blocks.append(encode_block(part, notices))
    return [*messages, *_encode_message(turn, blocks)]


def _encode_message(turn: Message, blocks: list[JsonObject]) -> list[JsonObject]:
    if not blocks:
        return []
    is_plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and blocks[0]["type"] == "text"
    content: Any = blocks[0]["text"] if is_plain else blocks
    return [{"role": turn.role, "content": content, **wire_extra(turn.extra, NAME)}]


# Decoding -------------------------------------------------------------------------------------------------------------


def decode_system(body: AnthropicRequest) -> list[Text]:
    """The system prompt."""
    return _system_texts([body.system] if isinstance(body.system, str) else body.system or [], "system")


def decode_message(data: JsonObject, where: str) -> DecodedMessage:
    """Decode a message. Its results have no names yet: those are in the messages of the calls."""
    message, rest = read_fields(AnthropicMessage, data, where)
    blocks = [message.content] if isinstance(message.content, str) else message.content or []
    extra = make_extra(NAME, rest)
    match message.role:
        case "user":
            return _decode_user(blocks, f"{where}.content", extra)
        case "assistant":
            parts = tuple([decode_block(block, f"{where}.content[{j}]") for j, block in enumerate(blocks)])
            return DecodedMessage(new_message("assistant", parts, extra))
        case "system" if not all(isinstance(block, str) or block.get("type") == "text" for block in blocks):
            return DecodedMessage(new_message("user", (Opaque(wire=NAME, data=data),)))
        case "system":
            return DecodedMessage(new_message("system", tuple(_system_texts(blocks, f"{where}.content")), extra))
        case _:
            raise invalid_field(f"{where}.role", f"must be user, assistant or system, got {message.role!r}")


def split_system(turns: tuple[Message, ...]) -> tuple[list[Text], tuple[Message, ...]]:
    """The texts of the leading system messages, and the other turns."""
    count = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
    texts = [part for turn in turns[:count] for part in turn.parts if isinstance(part, Text)]
    return texts, turns[count:] if count else turns


def _system_texts(blocks: list[Any], where: str) -> list[Text]:
    texts: list[Text] = []
    for i, block in enumerate(blocks):
        part = decode_block(block, f"{where}[{i}]")
        if not isinstance(part, Text):
            raise invalid_field(f"{where}[{i}]", f"must be a text block, got {shown(block)}")
        texts.append(part)
    return texts


def _decode_user(blocks: list[Any], where: str, extra: dict[str, Any]) -> DecodedMessage:
    results: list[UnlinkedResult] = []
    parts: list[Part] = []
    for i, block in enumerate(blocks):
        if is_object(block) and block.get("type") == "tool_result":
            result = decode_result(block, f"{where}[{i}]")
            results.append(UnlinkedResult(result))
        else:
            parts.append(decode_block(block, f"{where}[{i}]"))
    if results and parts:
        extra = {**extra, COVERED: {"with_results": True}}
    role: Role = "user" if parts or not results else "tool"
    return DecodedMessage(new_message(role, tuple(parts), extra), tuple(results))
