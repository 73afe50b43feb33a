"""Prompt caching: one intent, in the form of each target."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.attempt import build_request
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.testing import assert_prefix_stable
from dragoman.types import (
    CachePoint,
    Document,
    Image,
    Message,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from dragoman.types.caching import mark_of
from dragoman.wires.common.caching import (
    block_point,
    find_breakpoints,
    has_marks,
    point_block,
    prepare_caching,
    read_mark,
)
from dragoman.wires.common.notices import NoticeCollector
from tests.support.images import picture
from tests.support.wires.conversations import PROVIDER_TARGETS, conversations, through_gateway

target = Registry(env={"AWS_REGION": "eu-west-1"}).target
CLAUDE, GPT, OLD_GPT = target("anthropic/claude-sonnet-5"), target("openai-responses/gpt-5.6"), target("openai/gpt-4.1")
CHAT = replace(OLD_GPT, quirks=replace(OLD_GPT.quirks, caching="breakpoints"))
BEDROCK = target("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0")
ROUTER, GROQ = target("openrouter/anthropic/claude-sonnet-5"), target("groq/llama-3.3-70b-versatile")
SHORT: dict[str, Any] = {"type": "ephemeral"}
LONG: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}
POINT: dict[str, Any] = {"cachePoint": {"type": "default"}}


def body(request: Request, target: Target) -> Any:
    return msgspec.json.decode(build_request(request, target).body)


def notices(request: Request, target: Target) -> list[str]:
    return [f"{notice.kind} {notice.what}: {notice.why}" for notice in build_request(request, target).notices]


def ask(*parts: Any, **options: Any) -> Request:
    return Request(messages=(user(*parts),), **options)


# Points ---------------------------------------------------------------------------------------------------------------


def test_a_point_belongs_to_the_part_before_it() -> None:
    message = user("long", CachePoint(ttl="1h"), {"type": "text", "text": "b"}, {"type": "cache_point", "ttl": 60})
    assert [mark_of(part.extra) for part in message.parts if isinstance(part, Text)] == [
        CachePoint(3600),
        CachePoint(60),
    ]
    assert mark_of({"cache": {"ttl": -1}}) == CachePoint()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: user(CachePoint()), "parts must not begin with a CachePoint"),
        (lambda: user(Opaque(wire="google", data={}), CachePoint()), "CachePoint must follow a part such as Text"),
        (lambda: CachePoint(ttl="soon"), 'ttl must be a number of seconds up to 30 days, or a text such as "5m"'),
        (lambda: CachePoint(ttl=True), "ttl must be a number of seconds"),
        (lambda: Request(cache_ttl=0), "cache_ttl must be between 1 and 2592000, got 0"),
        (lambda: Request(cache_ttl="1 hour"), "cache_ttl must be a number of seconds"),  # type: ignore[arg-type]
    ],
)
def test_wrong_points_are_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        make()


# Each target ----------------------------------------------------------------------------------------------------------

SYSTEM: Any = (Text("Be brief."), CachePoint(ttl="1h"))


def test_anthropic_gets_marks_on_blocks() -> None:
    call, result = ToolCall(id="t1", name="t"), ToolResult(id="t1", content="9")
    request = Request(
        system=SYSTEM,
        messages=(
            user("doc", CachePoint(), Image(data=picture(2, 2), mime="image/png")),
            Message(role="assistant", parts=(call,)),
            Message(role="tool", parts=(result,)),
            user("q", CachePoint(ttl="5m")),
        ),
    )
    sent = body(request, CLAUDE)
    assert sent["system"] == [{"type": "text", "text": "Be brief.", "cache_control": LONG}]
    assert sent["messages"][0]["content"][0] == {"type": "text", "text": "doc", "cache_control": SHORT}
    assert sent["messages"][-1]["content"] == [{"type": "text", "text": "q", "cache_control": {**SHORT, "ttl": "5m"}}]
    assert "cache_control" not in sent
    assert find_breakpoints(sent) == ("system[0] (1h)", "messages[0].content[0]", "messages[3].content[0] (5m)")


def test_cache_true_marks_the_end_of_the_prompt() -> None:
    assert body(ask("hi", cache=True), CLAUDE)["cache_control"] == SHORT
    assert body(ask("hi", cache=True, cache_ttl="1h"), CLAUDE)["cache_control"] == LONG
    assert find_breakpoints(body(ask("hi", cache=True), CLAUDE)) == ("the end of the prompt",)


def test_calls_and_results_can_be_marked() -> None:
    call = ToolCall(id="t1", name="t", extra={"cache": {}})
    result = ToolResult(id="t1", content="9", extra={"cache": {}})
    request = Request(messages=(user("a"), Message(role="assistant", parts=(call,)), tool_results(result)))
    sent = body(request, CLAUDE)
    assert sent["messages"][1]["content"][0]["cache_control"] == SHORT
    assert sent["messages"][2]["content"][0]["cache_control"] == SHORT
    assert [block.keys() for block in body(request, BEDROCK)["messages"][1]["content"]] == [
        {"toolUse"},
        {"cachePoint"},
    ]


def test_the_first_four_points_are_sent() -> None:
    request = Request(messages=(user(*(each for i in range(6) for each in (str(i), CachePoint()))),))
    blocks = body(request, CLAUDE)["messages"][0]["content"]
    assert ["cache_control" in block for block in blocks] == [True] * 4 + [False] * 2
    assert notices(request, CLAUDE) == [
        "info cache point: anthropic: at most 4 are possible; the first ones are sent, so that they stay in place"
    ]
    blocks = body(replace(request, cache=True, cache_ttl=3600), CLAUDE)["messages"][0]["content"]
    assert sum("cache_control" in block for block in blocks) == 3


def test_a_longer_time_does_not_follow_a_shorter_one() -> None:
    request = ask("a", CachePoint(), "b", CachePoint(ttl="1h"))
    blocks = body(request, CLAUDE)["messages"][0]["content"]
    assert [block["cache_control"] for block in blocks] == [SHORT, SHORT]
    assert "1h became 5m" in notices(request, CLAUDE)[0]


def test_an_unsupported_ttl_becomes_the_next_longer_one() -> None:
    request = ask("a", CachePoint(ttl=60), "b", CachePoint(ttl=7200))
    assert "60 s became 5m: there are 5m and 1h" in notices(request, CLAUDE)[0]


def test_two_marks_never_stand_at_one_place() -> None:
    request = ask("a", CachePoint(ttl="1h"), cache=True)
    assert "cache_control" not in body(request, CLAUDE)
    assert body(request, BEDROCK)["messages"][0]["content"][1:] == [{"cachePoint": {"type": "default", "ttl": "1h"}}]
    assert body(ask("a", CachePoint(), cache=True), CLAUDE)["cache_control"] == SHORT


def test_thinking_cannot_be_marked() -> None:
    thinking = Thinking(text="hm", extra={"anthropic": {"signature": "s"}, "cache": {}})
    said = Message(role="assistant", parts=(Text("a"), thinking, Text("b")))
    sent = body(Request(messages=(user("x"), said, user("y"))), CLAUDE)
    assert [block.get("cache_control") for block in sent["messages"][1]["content"]] == [SHORT, None, None]
    alone = Message(role="assistant", parts=(thinking, Text("b")))
    request = Request(messages=(user("x"), alone, user("y")))
    assert notices(request, CLAUDE) == ["info cache point: anthropic: this part cannot have one; left out"]


def test_bedrock_gets_points_between_blocks() -> None:
    tool = Tool(name="t", extra={"anthropic": {"cache_control": SHORT}})
    request = Request(system=SYSTEM, messages=(user("doc", CachePoint(), "q"),), tools=(tool,), cache=True)
    sent = body(replace(request, cache_ttl=300), BEDROCK)
    assert sent["messages"][0]["content"] == [
        {"text": "doc"},
        {"cachePoint": {"type": "default", "ttl": "5m"}},
        {"text": "q"},
        {"cachePoint": {"type": "default", "ttl": "5m"}},
    ]
    assert sent["system"][1] == {"cachePoint": {"type": "default"}}  # 1h must not follow the 5m of the tools
    assert "cachePoint" in sent["toolConfig"]["tools"][1]
    assert find_breakpoints(sent)[0] == "toolConfig.tools[1] (5m)"


def test_openai_gets_a_key_of_the_conversation() -> None:
    first = ask("hi", cache=True, system="Be brief.")
    later = replace(first, messages=(*first.messages, assistant("hello"), user("bye")))
    key = body(first, OLD_GPT)["prompt_cache_key"]
    assert body(later, OLD_GPT)["prompt_cache_key"] == key
    assert len(key) == 32
    assert body(ask("bye", cache=True, system="Be brief."), OLD_GPT)["prompt_cache_key"] != key
    assert "prompt_cache_retention" not in body(replace(first, cache_ttl=3600), OLD_GPT)
    assert body(replace(first, cache_ttl=7200), OLD_GPT)["prompt_cache_retention"] == "24h"
    own = replace(first, extra={"openai": {"prompt_cache_key": "mine"}})
    assert body(own, OLD_GPT)["prompt_cache_key"] == "mine"
    assert find_breakpoints(body(first, OLD_GPT)) == (f"as the provider decides, with the key {key}",)


def test_openai_gets_breakpoints_where_the_model_has_them() -> None:
    request = Request(
        system=SYSTEM,
        messages=(user("doc", CachePoint(), "q"), assistant("a", CachePoint()), user("b")),
    )
    sent = body(request, GPT)
    assert sent["input"][0]["content"] == [
        {"type": "input_text", "text": "Be brief.", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    ]
    assert sent["input"][1]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert "prompt_cache_key" in sent
    assert notices(request, GPT) == ["info cache point: openai_responses: this part cannot have one; left out"]
    chat = body(request, CHAT)["messages"]
    assert chat[0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert chat[1]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert body(replace(request, cache=True, cache_ttl=7200), GPT)["prompt_cache_options"] == {"ttl": "12h"}
    assert "7200 s became 30m" in " ".join(notices(replace(request, cache=True, cache_ttl=7200), CHAT))


def test_openrouter_gets_marks_in_anthropics_form() -> None:
    sent = body(ask("doc", CachePoint(), "q", cache=True, cache_ttl="1h"), ROUTER)
    assert sent["cache_control"] == LONG
    assert sent["messages"][0]["content"][0]["cache_control"] == LONG


def test_a_provider_that_decides_itself_gets_nothing() -> None:
    request = ask("doc", CachePoint(), "q", cache=True)
    assert body(request, GROQ) == body(ask("doc", "q"), GROQ)
    assert notices(request, GROQ) == ["info cache point: openai_chat: the provider decides itself what it caches"]
    assert notices(request, OLD_GPT) == notices(request, GROQ)
    assert body(replace(request, strict=True), GROQ) == body(request, GROQ)


def test_marks_of_tools_count_and_other_providers_do_without() -> None:
    tools = tuple(Tool(name=f"t{i}", extra={"cache": {}}) for i in range(5))
    sent = body(ask("q", tools=tools), CLAUDE)
    assert sum("cache_control" in tool for tool in sent["tools"]) == 4
    assert body(ask("q", tools=tools), GPT)["prompt_cache_key"]


# Marks of clients -----------------------------------------------------------------------------------------------------


def test_marks_of_one_dialect_mean_the_same_on_other_wires() -> None:
    marks: list[dict[str, Any]] = [
        {"anthropic": {"cache_control": LONG}},
        {"openai_responses": {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}},
        {"cache": {"ttl": 3600}},
    ]
    for extra in marks:
        part = Text("doc", extra=extra)
        assert body(ask(part, "q"), BEDROCK)["messages"][0]["content"][1] == {
            "cachePoint": {"type": "default", "ttl": "1h"}
        }
    assert read_mark({"anthropic": {"cache_control": {"type": "ephemeral", "ttl": 7.5}}}) == CachePoint()
    assert read_mark({}) is None
    assert read_mark({"anthropic": 3}) is None


def test_the_points_of_converse_are_read() -> None:
    point = Opaque(wire="bedrock", data=POINT)
    request = Request(messages=(user("doc", point, "q"),), tools=(Tool(name="t"), point))
    sent = body(request, CLAUDE)
    assert sent["messages"][0]["content"][0]["cache_control"] == SHORT
    assert sent["tools"] == [{**sent["tools"][0], "cache_control": SHORT}]
    assert body(request, BEDROCK)["messages"][0]["content"][1] == POINT
    lone = Request(messages=(Message(role="user", parts=(point, Text("q"))),), tools=(point, Tool(name="t")))
    assert notices(lone, CLAUDE) == ["info cache point: anthropic: this part cannot have one; left out"]


def test_what_a_client_wrote_for_its_own_wire_stays_as_it_is() -> None:
    marks = [Text(str(i), extra={"anthropic": {"cache_control": {**SHORT, "x": i}}}) for i in range(5)]
    tool = Tool(name="t", extra={"anthropic": {"cache_control": LONG}})
    system = (Text("s", extra={"anthropic": {"cache_control": LONG}}),)
    sent = body(Request(messages=(user(*marks, "q", CachePoint()),), tools=(tool,), system=system), CLAUDE)
    assert [block.get("cache_control") for block in sent["messages"][0]["content"]] == [
        *({**SHORT, "x": i} for i in range(5)),
        None,
    ]
    assert (sent["tools"][0]["cache_control"], sent["system"][0]["cache_control"]) == (LONG, LONG)


def test_options_of_one_dialect_mean_the_same_on_other_wires() -> None:
    codex = ask("hi", extra={"openai_responses": {"prompt_cache_key": "session", "prompt_cache_retention": "24h"}})
    http = build_request(codex, CLAUDE)
    assert msgspec.json.decode(http.body)["cache_control"] == LONG
    assert not any(notice.kind == "dropped" for notice in http.notices)
    assert body(codex, OLD_GPT)["prompt_cache_key"] == "session"
    explicit = ask("hi", extra={"openai_chat": {"prompt_cache_options": {"mode": "explicit"}}})
    assert "cache_control" not in body(explicit, CLAUDE)
    claude_code = ask("hi", extra={"anthropic": {"cache_control": LONG}})
    assert body(claude_code, OLD_GPT)["prompt_cache_key"]
    assert body(claude_code, CLAUDE)["cache_control"] == LONG
    assert "cache_control" not in body(replace(claude_code, cache=False), GPT)


def test_the_native_wire_carries_the_intent_itself() -> None:
    request = ask("doc", CachePoint(ttl=60), "q", cache=True, cache_ttl=300)
    home = Target(provider="home", model="m", wire="native", base_url="https://gateway.example/native/v1")
    http = build_request(request, home)
    sent = msgspec.json.decode(http.body)
    assert (sent["cache"], sent["cache_ttl"], http.notices) == (True, 300, ())
    assert sent["messages"][0]["content"][0]["extra"] == {"cache": {"ttl": 60}}
    _, decoded = wires.get("native").server.decode_request(http)
    assert (decoded.messages, decoded.cache, decoded.cache_ttl) == (request.messages, True, 300)


@pytest.mark.parametrize(
    "request_",
    [
        Request(system=(Text("s", extra={"cache": {}}),)),
        Request(tools=(Opaque(wire="bedrock", data=POINT),)),
        Request(messages=(user("a", Opaque(wire="bedrock", data=POINT)),)),
    ],
)
def test_marks_are_found_everywhere(request_: Request) -> None:
    assert has_marks(request_)
    assert not has_marks(Request(system="s", messages=(user("a", Opaque(wire="google", data={})),)))


def test_breakpoints_are_found_in_the_body_of_any_wire() -> None:
    nested: dict[str, Any] = {"content": [{"content": [{"content": [{"content": [SHORT]}]}]}]}
    assert find_breakpoints({"messages": [nested, {"content": "text"}], "cachedContent": "cachedContents/1"}) == (
        "before the request (cachedContents/1)",
    )
    assert find_breakpoints([]) == ()


# The prefix law -------------------------------------------------------------------------------------------------------


def marked(requests: list[Request], places: set[int]) -> list[Request]:
    """The requests with points after the parts at some places of the conversation."""

    def mark(message: Message, number: int) -> Message:
        parts = [
            replace(part, extra={**part.extra, "cache": {}})
            if number in places and i == 0 and not isinstance(part, Opaque)
            else part
            for i, part in enumerate(message.parts)
        ]
        return replace(message, parts=tuple(parts))

    return [
        replace(request, messages=tuple(mark(message, i) for i, message in enumerate(request.messages)))
        for request in requests
    ]


@pytest.mark.parametrize("provider", [*PROVIDER_TARGETS, CHAT, GPT, ROUTER], ids=lambda provider: provider.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests=conversations(), places=st.sets(st.integers(0, 12)), is_cached=st.booleans())
def test_a_turn_with_points_is_the_beginning_of_the_next(
    provider: Target, requests: list[Request], places: set[int], *, is_cached: bool
) -> None:
    cache = is_cached and provider.wire != "bedrock"  # its point stands at the end of the conversation
    requests = [replace(request, cache=cache, cache_ttl=None) for request in marked(requests, places)]
    try:
        https = [build_request(request, provider) for request in requests]
    except (Unsupported, InvalidRequest):
        assume(condition=False)
        raise
    places_sent = [find_breakpoints(msgspec.json.decode(http.body)) for http in https]
    assert all(len(found) <= 4 for found in places_sent) or provider.quirks.caching == "breakpoints"
    assert_prefix_stable(https)


@pytest.mark.parametrize("provider", [CLAUDE, BEDROCK, GPT], ids=lambda provider: provider.wire)
def test_a_clients_own_marks_reach_other_wires(provider: Target) -> None:
    request = Request(messages=(user("doc", CachePoint(ttl="1h"), "q"),))
    for dialect in ("anthropic", "bedrock"):
        sent = msgspec.json.decode(through_gateway(request, dialect, provider).body)
        assert len([place for place in find_breakpoints(sent) if "key" not in place]) == 1


def test_marks_are_no_lost_data_of_another_wire() -> None:
    marked_parts = (
        Text("a", extra={"cache": {"ttl": 60}}),
        Text("b", extra={"anthropic": {"cache_control": LONG}}),
        Text("c"),
    )
    request = ask(*marked_parts, strict=True)
    for each in (GROQ, OLD_GPT, target("google/gemini-3-pro-preview"), target("ollama/x")):
        assert {notice.kind for notice in build_request(request, each).notices} <= {"info"}


# Points after a stored file -------------------------------------------------------------------------------------------

STORED = {"type": "document", "source": {"type": "file", "file_id": "f"}}


def after_file(spec: str, wire: str, caching: Any, **extra: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The parts of a message with a reference to a file that had a mark, and the notices."""
    block = point_block(extra or {"cache": {"ttl": 3600}}, wire)
    assert block is not None
    request = Request(messages=(user(Opaque(wire=wire, data=STORED), block, "What?"),))
    assert has_marks(request)
    notes = NoticeCollector("w")
    return prepare_caching(request, target(spec), notes, caching).messages[0].parts, tuple(
        notice.why for notice in notes.notices
    )


def test_a_point_after_a_stored_file_is_written_into_its_reference() -> None:
    parts, notices = after_file("anthropic/x", "anthropic", "blocks")
    assert [part.data for part in parts[:1]] == [{**STORED, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    assert (len(parts), notices) == (2, ())
    parts, _ = after_file("anthropic/x", "anthropic", "points")
    assert parts[1].data == {"cachePoint": {"type": "default", "ttl": "1h"}}
    parts, notices = after_file("openai/x", "openai_chat", None)
    assert ([part.data for part in parts[:1]], len(parts)) == ([STORED], 2)
    assert notices == ("w: the provider decides itself what it caches",)


def test_a_point_after_a_block_of_another_wire_is_left_out() -> None:
    block = point_block({"cache": {}}, "anthropic")
    assert block is not None
    request = Request(messages=(user(Opaque(wire="google", data={}), block),))
    notes = NoticeCollector("w")
    parts = prepare_caching(request, target("anthropic/x"), notes, "blocks").messages[0].parts
    assert len(parts) == 1
    assert [notice.why for notice in notes.notices] == ["w: this part cannot have one; left out"]


def test_the_point_of_a_block() -> None:
    assert point_block({}, "anthropic") is None
    assert point_block({"anthropic": {"cache_control": {}}}, "anthropic") is None
    block = point_block({"openai_chat": {"prompt_cache_breakpoint": {}}}, "anthropic")
    assert block is not None
    assert block_point(block) == CachePoint()
    assert block_point(Opaque(wire="cache", data={"x": 1})) is None
    assert block_point(Opaque(wire="bedrock", data=block.data)) is None


def test_a_text_separates_a_point_of_bedrock_from_a_document() -> None:
    document = Document(data=b"%PDF-1.4", mime="application/pdf", name="tides")
    blocks = body(Request(messages=(user(document, CachePoint(), "What?"),)), BEDROCK)["messages"][0]["content"]
    assert blocks[1:3] == [{"text": "\n"}, POINT]
    blocks = body(Request(messages=(user("What?", document),), cache=True), BEDROCK)["messages"][0]["content"]
    assert blocks[2:] == [{"text": "\n"}, POINT]
    blocks = body(Request(messages=(user("What?", CachePoint(), document),)), BEDROCK)["messages"][0]["content"]
    assert [*map(list, blocks)] == [["text"], ["cachePoint"], ["document"]]
