"""The Interactions API as a client: exact JSON of requests, and what its answers mean."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    DragomanError,
    InvalidRequest,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    TooLarge,
    Truncated,
    Unsupported,
)
from dragoman.events import CallDelta, PartStarted, Ping, fold
from dragoman.http import Head
from dragoman.registry import Registry
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Citation,
    Document,
    Finish,
    HostedCall,
    HostedResult,
    Image,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from tests.support.paths import TESTS
from tests.support.wires import laws

NAME = "google_interactions"
CLIENT = wires.get(NAME).client
TARGET = target("google-interactions/gemini-x", api_key="k")
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
TIDE = Tool(name="tide", description="Tide height", parameters=SCHEMA)
SPEC = {"type": "function", "name": "tide", "description": "Tide height", "parameters": SCHEMA}
HELLO = [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}]
BARE: dict[str, Any] = {"model": "gemini-x", "store": False, "input": HELLO}


def sent(request: Request, to: Target = TARGET) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    http = CLIENT.encode_request(request, to)
    return msgspec.json.decode(http.body), [(notice.kind, notice.what) for notice in http.notices]


def ask(**options: Any) -> Request:
    return Request(messages=(user("hi"),), **options)


# Requests -------------------------------------------------------------------------------------------------------------


def test_a_request_is_a_post_with_the_version_and_the_key() -> None:
    http = CLIENT.encode_request(ask(), TARGET)
    assert (http.method, http.url) == ("POST", "https://generativelanguage.googleapis.com/v1beta/interactions")
    assert http.headers["api-revision"] == "2026-05-20"
    assert http.headers["x-goog-api-key"] == "k"
    assert msgspec.json.decode(http.body) == BARE
    assert [*msgspec.json.decode(http.body)][-1] == "input"


def test_a_conversation_is_a_list_of_steps() -> None:
    thought = Thinking(text="Look.", extra={NAME: {"signature": "c2ln"}})
    hidden = Thinking(text="", redacted=True, extra={NAME: {"signature": "bW9y"}})
    search = Opaque(wire=NAME, data={"type": "google_search_call", "id": "g1", "arguments": {"queries": ["tide"]}})
    call = ToolCall(id="fc_1", name="tide", arguments={"port": "Brest"})
    request = Request(
        system="Be brief.",
        messages=(
            user("hi"),
            assistant(hidden, search, Text(text="I look."), Text(text="So:"), thought, call),
            tool_results(ToolResult(id="fc_1", name="tide", content="4 m", is_error=True)),
            user("and?", Image(data=b"\x89PN", mime="image/png")),
        ),
    )
    body, notices = sent(request)
    assert notices == []
    assert body["system_instruction"] == "Be brief."
    assert body["input"] == [
        *HELLO,
        {"type": "thought", "signature": "bW9y"},
        search.data,
        {"type": "model_output", "content": [{"type": "text", "text": "I look."}, {"type": "text", "text": "So:"}]},
        {"type": "thought", "summary": [{"type": "text", "text": "Look."}], "signature": "c2ln"},
        {"type": "function_call", "id": "fc_1", "name": "tide", "arguments": {"port": "Brest"}},
        {"type": "function_result", "call_id": "fc_1", "name": "tide", "result": "4 m", "is_error": True},
        {
            "type": "user_input",
            "content": [
                {"type": "text", "text": "and?"},
                {"type": "image", "data": "iVBO", "mime_type": "image/png"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (Image(data=b"\x89PN", detail="high"), {"type": "image", "data": "iVBO", "mime_type": "image/png", "resolution": "high"}),
        (Image(url="https://a/b.png", extra={NAME: {}}), {"type": "image", "uri": "https://a/b.png"}),
        (Document(data=b"%PD", mime="application/pdf"), {"type": "document", "data": "JVBE", "mime_type": "application/pdf"}),
        (
            Document(data=b"", url="https://youtu.be/x", mime="video/mp4", name="v"),
            {"type": "video", "uri": "https://youtu.be/x", "mime_type": "video/mp4", "name": "v"},
        ),
        (Audio(data=b"RIF", mime="audio/wav"), {"type": "audio", "data": "UklG", "mime_type": "audio/wav"}),
    ],
    ids=["image", "image url", "document", "video", "audio"],
)  # fmt: skip
def test_media_are_contents(part: Any, content: dict[str, Any]) -> None:
    body, notices = sent(Request(messages=(Message(role="user", parts=(Text(text="?"), part)),)))
    assert body["input"][0]["content"][1] == content
    assert notices == []


def test_what_a_medium_loses_is_a_notice() -> None:
    parts = (Document(data=b"%PD", mime="application/pdf", name="a.pdf"), Image(data=b"\x89PN", detail="original"))
    _, notices = sent(Request(messages=(Message(role="user", parts=parts),)))
    assert notices == [("dropped", "name of a document"), ("dropped", "detail of an image")]


def test_an_image_url_that_google_cannot_fetch_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"cannot fetch https://a/b\.png"):
        sent(Request(messages=(user("?", Image(url="https://a/b.png")),)))


def test_a_result_has_text_media_and_blocks_of_its_own() -> None:
    call = ToolCall(id="fc_1", name="tide")
    own, foreign = Opaque(wire=NAME, data={"type": "new"}), Opaque(wire="google", data={}, is_optional=True)
    content = (Text(text="4 m"), Image(data=b"\x89PN", mime="image/png"), own, foreign)
    result = ToolResult(id="fc_1", content=content, extra={NAME: {"note": 1}})
    body, _ = sent(Request(messages=(user("hi"), assistant(call), tool_results(result))))
    assert body["input"][-1] == {
        "type": "function_result",
        "call_id": "fc_1",
        "name": "tide",
        "result": [
            {"type": "text", "text": "4 m"},
            {"type": "image", "data": "iVBO", "mime_type": "image/png"},
            {"type": "new"},
        ],
        "note": 1,
    }
    assert CLIENT.encode_result(replace(result, content=(own, foreign)))["result"] == [{"type": "new"}]


def test_empty_texts_say_nothing_and_nothing_alone_is_refused() -> None:
    body, _ = sent(Request(messages=(user("hi"), assistant(Text(text="")), user(""), user("?"))))
    assert [step["content"][0]["text"] for step in body["input"]] == ["hi", "?"]
    with pytest.raises(InvalidRequest, match="non-empty text"):
        sent(Request(messages=(user(""),)))


@pytest.mark.parametrize(
    ("options", "config", "notices"),
    [
        (
            {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9, "stop": ("x",), "seed": 7},
            {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 9, "stop_sequences": ["x"], "seed": 7},
            [],
        ),
        ({"seed": 2**40 + 5}, {"seed": 5}, [("changed", "seed")]),
        ({"stop": tuple("abcdef")}, {"stop_sequences": [*"abcde"]}, [("dropped", "stop")]),
        ({"top_k": 3, "user": "u", "metadata": {"a": "b"}}, None, [("dropped", "top_k"), ("dropped", "user"), ("dropped", "metadata")]),
        ({"reasoning": "low"}, {"thinking_level": "low", "thinking_summaries": "auto"}, []),
        ({"reasoning": "none"}, {"thinking_level": "minimal"}, [("changed", "reasoning")]),
        ({"reasoning": "max"}, {"thinking_level": "xhigh", "thinking_summaries": "auto"}, [("changed", "reasoning")]),
        ({"reasoning": 9000}, {"thinking_level": "medium", "thinking_summaries": "auto"}, [("changed", "reasoning")]),
        (
            {"reasoning": "low", "extra": {NAME: {"generation_config": {"thinking_level": "high"}}}},
            {"thinking_level": "high"},
            [],
        ),
    ],
)  # fmt: skip
def test_options_are_in_the_config(options: dict[str, Any], config: Any, notices: list[tuple[str, str]]) -> None:
    body, seen = sent(ask(**options))
    assert (body.get("generation_config"), seen) == (config, notices)


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "any"),
        ("tide", {"allowed_tools": {"mode": "any", "tools": ["tide"]}}),
    ],
)
def test_tools_and_the_choice_of_one(choice: str, word: Any) -> None:
    body, notices = sent(ask(tools=(TIDE, Opaque(wire=NAME, data={"type": "google_search"})), tool_choice=choice))
    assert body["tools"] == [SPEC, {"type": "google_search"}]
    assert (body["generation_config"], notices) == ({"tool_choice": word}, [])


def test_a_choice_without_tools_and_one_of_the_caller() -> None:
    assert sent(ask(tool_choice="auto"))[0] == BARE
    own = {NAME: {"generation_config": {"tool_choice": "validated"}}}
    body, notices = sent(ask(tools=(TIDE,), tool_choice="required", parallel_tool_calls=False, extra=own))
    assert (body["generation_config"], notices) == ({"tool_choice": "validated"}, [("dropped", "parallel_tool_calls")])


def test_a_tool_loses_what_the_api_does_not_know() -> None:
    bare = Tool(name="now", strict=True)
    odd = Tool(name="odd", parameters={"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}})
    body, notices = sent(ask(tools=(bare, odd)))
    assert body["tools"][0] == {"type": "function", "name": "now"}
    assert "pattern" not in body["tools"][1]["parameters"]["properties"]["a"]
    assert ("dropped", "tool now: strict") in notices
    assert len(notices) == 2


def test_a_schema_is_the_format_of_the_answer() -> None:
    format = {"type": "text", "mime_type": "application/json"}
    assert sent(ask(schema=SCHEMA))[0]["response_format"] == {**format, "schema": SCHEMA}
    assert sent(ask(schema={}))[0]["response_format"] == format
    own = {NAME: {"response_format": {"type": "image"}}}
    assert sent(ask(schema=SCHEMA, extra=own))[0]["response_format"] == {"type": "image"}


def test_a_model_without_schemas_beside_tools_gets_the_schema_as_text() -> None:
    old = replace(TARGET, quirks=replace(TARGET.quirks, schema_with_tools=False))
    body, notices = sent(ask(schema=SCHEMA, tools=(TIDE,)), old)
    assert "response_format" not in body
    assert "port" in body["system_instruction"]
    assert notices == [("changed", "schema")]
    assert "response_format" in sent(ask(schema=SCHEMA), old)[0]


@pytest.mark.parametrize(
    ("own", "store"),
    [
        ({}, False),
        ({"store": True}, True),
        ({"previous_interaction_id": "v1_a"}, None),
        ({"background": True}, None),
    ],
)
def test_nothing_is_stored_unless_the_caller_says_so(own: dict[str, Any], *, store: bool | None) -> None:
    assert sent(ask(extra={NAME: own}))[0].get("store") is store


def test_an_agent_takes_the_place_of_the_model() -> None:
    body, _ = sent(ask(extra={NAME: {"agent": "deep-research"}}))
    assert body == {"agent": "deep-research", "input": HELLO}


def test_a_stream_and_a_tier_are_members_of_the_body() -> None:
    assert sent(ask(stream=True, service_tier="flex"))[0] == {**BARE, "stream": True, "service_tier": "flex"}


def test_the_record_has_the_facts_of_the_family() -> None:
    env = {"GEMINI_API_KEY": "g"}
    found = Registry(env=env).target("google-interactions/gemini-3-pro-preview")
    assert (found.wire, found.api_key, found.quirks.efforts) == (NAME, "g", ("low", "high"))


def test_models_are_listed_like_those_of_google() -> None:
    endpoints = wires.get(NAME).endpoints
    assert endpoints.encode_models(TARGET).path == "/v1beta/models?pageSize=1000"
    assert endpoints.decode_models(b"{}") == ()
    assert [model.id for model in endpoints.decode_models(b'{"models": [{"name": "models/gemini-x"}]}')] == ["gemini-x"]


# Answers --------------------------------------------------------------------------------------------------------------


def tape(name: str) -> tuple[Response, DragomanError | None]:
    data = (TESTS / "wires" / NAME / "tapes" / f"{name}.sse").read_bytes()
    events, error = laws.read(CLIENT.stream_decoder(), [data])
    return fold(events), error


SIGNED = Thinking(text="", redacted=True, extra={NAME: {"signature": "c2lnbmVk"}})
SIX = Text(text="Six.")


@pytest.mark.parametrize(
    ("name", "parts", "finish"),
    [
        ("hello", (SIGNED, Text(text="High tide is at six.")), Finish(reason="stop", raw="completed")),
        ("no_done", (SIGNED, Text(text="High tide is at six.")), Finish(reason="stop", raw="completed")),
        ("whole_steps", (SIX,), Finish(reason="stop", raw="completed")),
        (
            "thinking",
            (Thinking(text="**Tide**\n\nThen six.", extra={NAME: {"signature": "c2lnbmVk"}}), SIX),
            Finish(reason="stop", raw="completed"),
        ),
        (
            "tools",
            (ToolCall(id="fc_1", name="tide", arguments={"port": "Brest"}), ToolCall(id="fc_2", name="now")),
            Finish(reason="tool_calls", raw="requires_action"),
        ),
        ("cut_call", (ToolCall(id="fc_1", name="now"),), Finish(reason="length", raw="incomplete")),
        (
            "search",
            (
                HostedCall(
                    id="g1",
                    tool="web_search",
                    arguments={"queries": ["tide"]},
                    extra={
                        NAME: {
                            "type": "google_search_call",
                            "id": "g1",
                            "search_type": "web_search",
                            "arguments": {"queries": ["tide"]},
                            "signature": "c2ln",
                        }
                    },
                ),
                HostedResult(
                    id="g1",
                    tool="web_search",
                    content='[{"search_suggestions":"<a>"}]',
                    extra={
                        NAME: {
                            "type": "google_search_result",
                            "call_id": "g1",
                            "result": [{"search_suggestions": "<a>"}],
                            "is_error": False,
                        }
                    },
                ),
                Text(
                    text="Six.",
                    extra={
                        NAME: {
                            "annotations": [
                                {"type": "url_citation", "url": "https://a", "start_index": 0, "end_index": 4}
                            ]
                        }
                    },
                    citations=(Citation(url="https://a", start=0, end=4),),
                ),
            ),
            Finish(reason="stop", raw="completed"),
        ),
        (
            "media",
            (
                Text(text="See: a map."),
                Image(data=b"\x89PN", mime="image/png"),
                Audio(data=b"RIFF\x00\x00", mime="audio/wav"),
                Opaque(wire=NAME, data={"type": "model_output", "content": [{"type": "hologram", "data": "AAAA"}]}),
                Text(text="Done."),
            ),
            Finish(reason="stop", raw="completed"),
        ),
        (
            "older",
            (SIGNED, Text(text="1, 2"), ToolCall(id="fc_1", name="tide", arguments={"port": "Brest"})),
            Finish(reason="tool_calls", raw="requires_action"),
        ),
        (
            "unknown",
            (
                SIX,
                Opaque(wire=NAME, data={"type": "model_output", "error": {"code": 3, "message": "odd"}}),
                Thinking(
                    text="",
                    redacted=True,
                    extra={NAME: {"summary": [{"type": "image", "data": "iVBO", "mime_type": "image/png"}]}},
                ),
            ),
            Finish(reason="other", raw="new_status", extra={NAME: {"environment_id": "e1"}}),
        ),
        (
            "blocked",
            (),
            Finish(
                reason="blocked", raw="safety", extra={NAME: {"errors": [{"code": "safety", "message": "not that"}]}}
            ),
        ),
    ],
)
def test_a_tape_is_an_answer(name: str, parts: tuple[Any, ...], finish: Finish) -> None:
    response, error = tape(name)
    assert error is None
    assert (response.message.parts, response.finish) == (parts, finish)


def test_the_head_and_the_usage_of_an_answer() -> None:
    response, _ = tape("hello")
    assert (response.id, response.model, response.service_tier) == ("v1_abc", "gemini-3-flash-preview", "standard")
    assert response.usage == Usage(input=7, output=51, cache_read=0, reasoning=32)
    assert tape("older")[0].usage == Usage(source="unknown")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("done_early", Truncated), ("error", Overloaded), ("error_unnamed", RateLimited), ("failed", ServerFault)],
)
def test_a_tape_ends_in_an_error(name: str, kind: type[DragomanError]) -> None:
    assert type(tape(name)[1]) is kind


def test_status_updates_are_pings_and_arguments_stream() -> None:
    data = (TESTS / "wires" / NAME / "tapes" / "tools.sse").read_bytes()
    decoder = CLIENT.stream_decoder()
    decoder.call_deltas = True
    events, _ = laws.read(decoder, [data])
    assert [event for event in events if isinstance(event, Ping)] == [Ping()]
    started = [(event.id, event.name) for event in events if isinstance(event, PartStarted)]
    assert started == [("fc_1", "tide"), (None, None)]
    assert [event.text for event in events if isinstance(event, CallDelta)] == ['{"port":', '"Brest"}']


def whole(*steps: Any, **fields: Any) -> Response:
    return CLIENT.decode_response(msgspec.json.encode({"status": "completed", "steps": [*steps], **fields}))


def output(*content: Any) -> dict[str, Any]:
    return {"type": "model_output", "content": [*content]}


def test_a_whole_body_is_an_answer() -> None:
    response = whole(
        {"type": "thought", "signature": ""},
        {"type": "thought", "summary": [{"type": "text", "text": "Hm."}, {"type": "image", "uri": "u"}]},
        output({"type": "text", "text": ""}, {"type": "text", "text": "Six.", "annotations": []}),
        output({"type": "image", "data": "iVBO", "mime_type": "image/png", "resolution": "ultra_high"}),
        {"type": "function_call", "id": "fc_1", "name": "now", "arguments": {}, "signature": "c2ln"},
        status="requires_action",
        created="2026-05-15T18:51:55Z",
        usage={
            "total_input_tokens": 22,
            "total_tool_use_tokens": 129,
            "total_thought_tokens": 9,
            "raw_prompt_token": 4,
        },
    )
    assert response.message.parts == (
        Thinking(
            text="Hm.",
            extra={NAME: {"summary": [{"type": "text", "text": "Hm."}, {"type": "image", "uri": "u"}]}},
        ),
        Text(text="Six.", extra={NAME: {"annotations": []}}),
        Image(data=b"\x89PN", mime="image/png", extra={NAME: {"resolution": "ultra_high"}}),
        ToolCall(id="fc_1", name="now", extra={NAME: {"signature": "c2ln"}}),
    )
    assert (response.created, response.usage) == (1778871115, Usage(input=151, output=9, reasoning=9))
    assert response.finish.extra == {NAME: {"usage": {"total_tool_use_tokens": 129, "raw_prompt_token": 4}}}
    back = CLIENT.decode_response(wires.get(NAME).server.encode_body(response).body)
    assert back == response


def test_an_older_body_has_outputs() -> None:
    body = {"status": "completed", "outputs": [{"type": "thought", "signature": "s"}, {"type": "text", "text": "Six."}]}
    parts = CLIENT.decode_response(msgspec.json.encode(body)).message.parts
    assert parts == (Thinking(text="", redacted=True, extra={NAME: {"signature": "s"}}), SIX)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("in_progress", "pause"),
        ("queued", "pause"),
        ("requires_continuation", "pause"),
        ("requires_action", "pause"),
        ("budget_exceeded", "length"),
        ("cancelled", "other"),
    ],
)
def test_a_status_is_a_finish(status: str, reason: str) -> None:
    assert (whole(status=status).finish.reason, whole(status=status).finish.raw) == (reason, status)


@pytest.mark.parametrize("created", [None, 7, "soon", "2026-05-15T18:51:55"])
def test_a_time_that_is_none_is_left_out(created: Any) -> None:
    assert whole(created=created).created is None


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[]", Malformed),
        (b"{}", Malformed),
        (b'{"error": {"code": "authentication", "message": "no"}}', AuthFailed),
        (b'{"status": "completed", "steps": [7]}', Malformed),
        (b'{"status": "completed", "steps": [{"type": "model_output", "content": [7]}]}', Malformed),
        (b'{"status": "completed", "steps": [{"type": "function_call", "name": "a", "arguments": "x"}]}', MalformedToolCall),
        (b'{"status": "failed"}', ServerFault),
        (b'{"status": "failed", "error": {"code": "quota_exceeded", "message": "no"}}', RateLimited),
        (b'{"status": "failed", "errors": [{"code": "malformed_function_call", "message": "no"}]}', BadRequest),
    ],
)  # fmt: skip
def test_a_body_that_is_no_answer(body: bytes, kind: type[DragomanError]) -> None:
    with pytest.raises(DragomanError) as raised:
        CLIENT.decode_body(body)
    assert type(raised.value) is kind


def stream(*events: dict[str, Any]) -> tuple[Response, DragomanError | None]:
    data = b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events)
    found, error = laws.read(CLIENT.stream_decoder(), [data])
    return fold(found), error


END = {"event_type": "interaction.completed", "interaction": {"status": "completed"}}


def step(kind: str, **members: Any) -> dict[str, Any]:
    return {"event_type": f"step.{kind}", "index": 0, **members}


OUTPUT = step("start", step={"type": "model_output"})


@pytest.mark.parametrize(
    "events",
    [
        [7],
        [{"event_type": "interaction.completed"}],
        [step("delta", delta={"type": "text", "text": "x"})],
        [OUTPUT, step("delta", delta={"type": "audio", "data": "?"})],
        [OUTPUT, step("delta", delta={"type": "image", "data": "?"})],
    ],
)
def test_an_event_that_has_no_sense_is_malformed(events: list[Any]) -> None:
    assert type(stream(*events, END)[1]) is Malformed


def test_odd_events_are_read_as_far_as_they_make_sense() -> None:
    response, error = stream(
        {"event_type": 7},
        {"event_type": "interaction.created"},
        step("start"),
        step("start", step={"type": "function_call", "id": "a", "name": "now", "arguments": {"port": "x"}}),
        step("start", step={"type": "function_call", "id": "a", "name": "now", "arguments": {"port": "x"}}),
        step("delta", delta=7),
        step("delta", delta={"type": "arguments_delta"}),
        step("start", step={"type": "model_output", "content": "x"}),
        step("delta", delta={"type": "text_annotation_delta"}),
        step("delta", delta={"type": "image", "uri": "gs://a/b", "mime_type": "image/png"}),
        step("start", step={"type": "mcp_server_tool_call", "id": "m", "name": "x"}),
        step("stop"),
        step("stop"),
        END,
    )
    assert error is None
    image = {"type": "image", "uri": "gs://a/b", "mime_type": "image/png"}
    assert response.message.parts == (
        ToolCall(id="a", name="now", arguments={"port": "x"}),
        Opaque(wire=NAME, data={"type": "model_output", "content": [image]}),
        HostedCall(
            id="m", tool="mcp", name="x", extra={NAME: {"type": "mcp_server_tool_call", "id": "m", "name": "x"}}
        ),
    )


@pytest.mark.parametrize(("pieces", "arguments"), [(['{"a":', "1}"], {"a": 1}), (['{"a":'], '{"a":')])
def test_arguments_of_a_tool_that_google_runs_come_in_pieces(pieces: list[str], arguments: Any) -> None:
    call = {"type": "mcp_server_tool_call", "id": "m", "name": "x", "server_name": "s"}
    deltas = [step("delta", delta={"type": "arguments_delta", "arguments": piece}) for piece in pieces]
    response, _ = stream(step("start", step={**call, "arguments": {}}), *deltas, step("stop"), END)
    (part,) = response.message.parts
    assert isinstance(part, HostedCall)
    assert part.arguments == (arguments if isinstance(arguments, dict) else {"input": arguments})
    assert part.extra == {NAME: {**call, "arguments": arguments}}


def test_annotations_without_a_text_are_kept() -> None:
    response, _ = stream(
        step("start", step={"type": "model_output"}),
        step("delta", delta={"type": "text_annotation_delta", "annotations": [{"type": "word_info"}]}),
        END,
    )
    assert response.message.parts == (Text(text="", extra={NAME: {"annotations": [{"type": "word_info"}]}}),)


def test_a_stream_that_breaks_off_is_truncated() -> None:
    assert type(stream(step("start", step={"type": "model_output"}))[1]) is Truncated


def test_a_code_alone_says_why_an_answer_is_blocked() -> None:
    server = wires.get(NAME).server
    blocked = replace(whole(), finish=Finish(reason="blocked", raw="safety"))
    assert CLIENT.decode_response(server.encode_body(blocked).body).finish == Finish(reason="blocked", raw="safety")
    assert whole(usage={"total_tokens": 3}).usage == Usage(source="unknown")


def test_a_call_without_arguments_has_none() -> None:
    assert whole({"type": "function_call", "id": "a", "name": "now"}).tool_calls == (ToolCall(id="a", name="now"),)


def test_too_many_open_steps_are_refused() -> None:
    events = [{"event_type": "step.start", "index": i, "step": {"type": "model_output"}} for i in range(1001)]
    assert type(stream(*events)[1]) is TooLarge


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", BadRequest),
        (400, "safety", Blocked),
        (401, "authentication", AuthFailed),
        (402, "payment_required", RateLimited),
        (403, "permission_denied", AuthFailed),
        (404, "model_not_found", ModelNotFound),
        (429, "rate_limit_exceeded", RateLimited),
        (429, "too_many_requests", RateLimited),
        (500, "api_error", ServerFault),
        (503, "service_unavailable", Overloaded),
    ],
)
def test_an_error_has_the_class_of_its_code(status: int, code: str, kind: type[DragomanError]) -> None:
    body = msgspec.json.encode({"error": {"message": "no", "code": code}})
    error = CLIENT.decode_error(Head(status=status), body)
    assert (type(error), error.code, str(error)) == (kind, code, "no")
    assert type(stream({"event_type": "error", "error": {"message": "no", "code": code}})[1]) is kind


def test_a_quota_of_a_day_is_not_worth_a_retry() -> None:
    error = CLIENT.decode_error(Head(status=429), b'{"error": {"message": "no", "code": "quota_exceeded"}}')
    assert (type(error), error.retry) == (RateLimited, False)
