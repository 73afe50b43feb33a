"""What becomes of everything that a user can say in one protocol when it goes to a provider of another.

Each member of the unions in the official SDKs stands in a request beside a plain text. It is carried, or converted with a
notice, or refused. `fidelity.py` makes a table of it.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from anthropic import types as anthropic
from anthropic.types import beta
from google.genai import interactions
from google.genai import types as google
from openai.types import chat, responses
from openai.types.responses.response_input_item_param import ResponseInputItemParam

from dragoman import wires
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import Request, is_object
from tests.support.corpus.rules import without_nulls
from tests.support.wires.unions import examples

TARGETS = {
    "anthropic": "anthropic",
    "bedrock": "bedrock",
    "google": "google",
    "google_interactions": "google-interactions",
    "native": "dragoman",
    "ollama": "ollama",
    "openai_chat": "openai",
    "openai_responses": "openai-responses",
}
"""A provider of each wire."""
CARRIED, CONVERTED, REFUSED, LEFT_OUT, LOST = "carried", "converted", "refused", "left out", "LOST"
WORDS = {
    CARRIED: "the provider gets it in its own form",
    CONVERTED: "the provider gets it in another form, such as text, and the client gets a notice",
    REFUSED: "the attempt fails with `Unsupported`: a chain goes on, and without another target the client gets an error",
    LEFT_OUT: "the provider does not get it, for example the thinking of another provider; the client gets a notice",
}
DECORATIONS = frozenset(
    {
        *("thinking", "redacted_thinking", "reasoning", "thought"),  # signed by one provider, for itself
        *("mcp_list_tools", "compaction_trigger", "additional_tools", "configuration_update"),  # about the request
        "fallback",  # which model answered
    }
)
"""Types that may be left out: a conversation means the same without them."""


class Member(NamedTuple):
    """A member of a union: the wire whose SDK has it, its name, and a request with it beside a text."""

    wire: str
    name: str
    item: dict[str, Any]
    path: str
    body: dict[str, Any]
    plain: dict[str, Any]
    """The same request without it."""


class Outcome(NamedTuple):
    """What became of it, and the body that was sent."""

    word: str
    body: bytes
    notices: tuple[str, ...]


_BASES = {"native": "https://up.invalid/v1", "bedrock": "https://up.invalid"}
_TEXT = "Ebb."
_CHAT_TEXT = {"type": "text", "text": _TEXT}
_HALVES = frozenset({"tool_use", "tool_result"})
"""Blocks that need their other half, and have tests of their own."""


def members() -> Iterator[Member]:
    """All members, each with what it must have, and with all that it may have."""
    for union in (anthropic.ContentBlockParam, beta.BetaContentBlockParam):
        for name, item in _objects(union):
            if item["type"] not in _HALVES:
                yield _turn("anthropic", name, item, "messages", "content", _CHAT_TEXT, max_tokens=500)
    for name, item in _objects(chat.ChatCompletionContentPartParam):
        yield _turn("openai_chat", name, item, "messages", "content", _CHAT_TEXT)
    for name, item in _objects(responses.ResponseInputContentParam):
        yield _turn("openai_responses", name, item, "input", "content", {"type": "input_text", "text": _TEXT})
    for name, item in _objects(ResponseInputItemParam):
        yield from _item(name, item)
    for field, info in google.Part.model_fields.items():
        if field in ("text", "thought", "thought_signature", "function_call", "function_response", "part_metadata"):
            continue
        for name, value in examples(info.annotation):
            if name != "NoneType1":
                item = {str(info.alias): value}
                yield _turn("google", f"Part.{field}", item, "contents", "parts", {"text": _TEXT})
    for name, item in _objects(interactions.Content):
        yield _turn("google_interactions", name, item, "input", "content", _CHAT_TEXT)
    for name, item in _objects(interactions.Step):
        if item.get("type") not in ("function_call", "function_result", "UNKNOWN", None):
            yield _step(name, item)


_PATHS = {
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/m:generateContent",
    "google_interactions": "/v1beta/interactions",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
}


def _objects(union: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, item in examples(union):
        if is_object(item) and item.get("type", "") != "UNKNOWN":
            yield name, without_nulls(item)


def _turn(wire: str, name: str, item: dict[str, Any], turns: str, field: str, text: Any, **more: Any) -> Member:
    """A member that is a part of a user's message."""
    head = {"type": "user_input"} if wire == "google_interactions" else {"role": "user"}

    def body(*parts: Any) -> dict[str, Any]:
        return {"model": "m", turns: [{**head, field: [*parts]}], **more}

    return Member(wire, _plain_name(name), item, _PATHS[wire], body(item, text), body(text))


def _item(name: str, item: dict[str, Any]) -> Iterator[Member]:
    """A member that is an item of its own, with the call that a result needs."""
    kind, id = str(item.get("type") or "message"), item.get("call_id")
    question, end = {"role": "user", "content": "?"}, {"role": "user", "content": _TEXT}
    call = {"type": kind.removesuffix("_output"), "call_id": id, "name": "tide", "arguments": "{}", "input": ""}
    before = [call] if id and kind in ("function_call_output", "custom_tool_call_output") else []
    body = {"model": "m", "input": [question, *before, item, end]}
    plain = {"model": "m", "input": [question, *before, end]}
    yield Member("openai_responses", _plain_name(name), item, _PATHS["openai_responses"], body, plain)


def _step(name: str, item: dict[str, Any]) -> Member:
    step = {**item, "arguments": {"a": 1}} if isinstance(item.get("arguments"), str) else item
    end = {"type": "user_input", "content": [_CHAT_TEXT]}
    start = {"type": "user_input", "content": [{"type": "text", "text": "?"}]}
    body, plain = {"model": "m", "input": [start, step, end]}, {"model": "m", "input": [start, end]}
    return Member("google_interactions", _plain_name(name), step, _PATHS["google_interactions"], body, plain)


def _plain_name(name: str) -> str:
    return name.rstrip("0123456789").removesuffix("Param") if not name.startswith("Part.") else name


def outcome(member: Member, wire: str) -> Outcome:
    """What becomes of a member that goes to a provider of a wire."""
    try:
        request = _decoded(member.wire, member.path, msgspec.json.encode(member.body))
        sent = wires.get(wire).client.encode_request(request, target_of(wire))
    except (Unsupported, InvalidRequest) as error:
        return Outcome(REFUSED, b"", (error.message,))
    plain = _decoded(member.wire, member.path, msgspec.json.encode(member.plain))
    without = wires.get(wire).client.encode_request(plain, target_of(wire)).body
    notices = tuple(f"{notice.kind} {notice.what}" for notice in sent.notices)
    is_decoration = member.item.get("type") in DECORATIONS and any(notice.loss for notice in sent.notices)
    if is_decoration:
        return Outcome(LEFT_OUT, sent.body, notices)
    if sent.body != without:
        is_changed = any(notice.kind == "changed" for notice in sent.notices)
        return Outcome(CONVERTED if is_changed else CARRIED, sent.body, notices)
    return Outcome(LOST, sent.body, notices)


@cache
def _decoded(wire: str, path: str, body: bytes) -> Request:
    return wires.get(wire).server.decode_request(HttpRequest(method="POST", path=path, body=body))[1]


@cache
def target_of(wire: str) -> Target:
    """A model of the provider of a wire."""
    return target(f"{TARGETS[wire]}/m", api_key="k", base_url=_BASES.get(wire))


def missing_words(member: Member, found: Outcome) -> list[str]:
    """The words of a member that a provider should get and does not."""
    if found.word not in (CARRIED, CONVERTED):
        return []
    said = msgspec.json.encode(member.item)
    return [word for word in _CONTENT if b'"%b"' % word.encode() in said and word.encode() not in found.body]


_CONTENT = ("text_x", "output_x", "stdout_x", "logs_x", "query_x", "refusal_x", "snippet_x")
"""Values of the examples that are content, by the names of their members."""


def says_nothing(member: Member) -> bool:
    """Whether a member has no content at all, so that nothing can be lost."""
    item = {key: value for key, value in member.item.items() if key not in ("type", "role")}
    return not any(item.values()) or (item.keys() <= {"content"} and not any(map(bool, item.get("content") or ())))


def table() -> list[str]:
    """The outcome of each member at each wire, in lines of Markdown."""
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    for member in members():
        if not says_nothing(member):
            cells = found.setdefault((member.wire, member.name), {})
            for wire in wires.NAMES:
                cells.setdefault(wire, set()).add(outcome(member, wire).word)
    lines: list[str] = []
    head = ""
    for (wire, name), cells in found.items():
        if wire != head:
            head = wire
            lines += ["", f"### From {wire}", "", "| | " + " | ".join(wires.NAMES) + " |"]
            lines.append("|---|" + "---|" * len(wires.NAMES))
        words = [" or ".join(word for word in WORDS if word in cells[other]) for other in wires.NAMES]
        lines.append(f"| {name} | " + " | ".join(words) + " |")
    return lines
