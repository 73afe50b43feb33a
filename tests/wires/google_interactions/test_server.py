"""The Interactions API as a server: requests of clients, exact JSON of answers, stored interactions."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import (
    BadRequest,
    Blocked,
    DragomanError,
    InvalidRequest,
    ModelNotFound,
    RateLimited,
    ServerFault,
    Unsupported,
)
from dragoman.events import CallDelta, Event, PartEnded, PartStarted, Ping, Started, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import (
    Audio,
    Document,
    Finish,
    HostedCall,
    Image,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    WebSearch,
    assistant,
    user,
)
from dragoman.wires.common.server_endpoints import (
    CancelResponse,
    DropResponse,
    FetchResponse,
    StoredResponse,
    StoredResponseQuery,
)
from dragoman.wires.google_interactions.parts import encode_content, encode_step
from tests.support.wires import laws

NAME = "google_interactions"
WIRE = wires.get(NAME)
SERVER = WIRE.server
TARGET = target("google-interactions/gemini-x", api_key="k")
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}


def decoded(**body: Any) -> Request:
    return decoded_with_model(**body)[1]


def decoded_with_model(**body: Any) -> tuple[str, Request]:
    http = HttpRequest(method="POST", path="/v1beta/interactions", body=msgspec.json.encode(body))
    return SERVER.decode_request(http)


def again(**body: Any) -> dict[str, Any]:
    """The body that a provider of the same wire gets."""
    sent: dict[str, Any] = msgspec.json.decode(WIRE.client.encode_request(decoded(**body), TARGET).body)
    return sent


# Requests -------------------------------------------------------------------------------------------------------------

IMAGE = {"type": "image", "data": "iVBO", "mime_type": "image/png"}
PICTURE = Image(data=b"\x89PN", mime="image/png")


@pytest.mark.parametrize(
    ("input", "messages"),
    [
        (None, ()),
        ("hi", (user("hi"),)),
        (IMAGE, (Message(role="user", parts=(PICTURE,)),)),
        ([{"type": "text", "text": "hi"}, IMAGE], (user("hi", PICTURE),)),
        ([{"type": "user_input", "content": "hi"}], (user("hi"),)),
        ([{"type": "user_input", "content": IMAGE}], (Message(role="user", parts=(PICTURE,)),)),
        (
            [{"type": "text", "text": "a"}, {"type": "model_output"}, {"type": "text", "text": "b"}],
            (user("a"), Message(role="assistant"), user("b")),
        ),
        (
            [{"role": "user", "content": "hi"}, {"role": "model", "content": [{"type": "text", "text": "ho"}]}],
            (user("hi"), assistant(Text(text="ho"))),
        ),
    ],
    ids=["none", "text", "content", "contents", "step", "step of a content", "mixed", "turns"],
)
def test_an_input_has_many_forms(input: Any, messages: tuple[Message, ...]) -> None:
    assert decoded(input=input).messages == messages


STEPS: list[dict[str, Any]] = [
    {"type": "user_input", "content": [{"type": "text", "text": "hi"}], "note": 1},
    {"type": "thought", "summary": [{"type": "text", "text": "Look."}], "signature": "c2ln"},
    {"type": "google_search_call", "id": "g1", "arguments": {"queries": ["tide"]}},
    {"type": "model_output", "content": [{"type": "text", "text": "So:", "annotations": [{"type": "word_info"}]}]},
    {"type": "function_call", "id": "a", "name": "tide", "arguments": {"port": "Brest"}, "signature": "c2ln"},
    {"type": "function_call", "id": "b", "name": "tide", "arguments": {}},
    {"type": "function_result", "call_id": "a", "name": "tide", "result": {"m": 4}},
    {"type": "function_result", "call_id": "b", "name": "tide", "result": [{"type": "text", "text": "x"}, IMAGE]},
    {"type": "user_input", "content": [{"type": "text", "text": "and?"}, {"type": "hologram", "data": "AAAA"}]},
]


def test_steps_are_messages() -> None:
    hologram = {"type": "user_input", "content": [{"type": "hologram", "data": "AAAA"}]}
    assert decoded(input=STEPS).messages == (
        Message(role="user", parts=(Text(text="hi"),), extra={NAME: {"note": 1}}),
        assistant(
            Thinking(text="Look.", extra={NAME: {"signature": "c2ln"}}),
            HostedCall(id="g1", tool="web_search", arguments={"queries": ["tide"]}, extra={NAME: STEPS[2]}),
            Text(text="So:", extra={NAME: {"annotations": [{"type": "word_info"}]}}),
            ToolCall(id="a", name="tide", arguments={"port": "Brest"}, extra={NAME: {"signature": "c2ln"}}),
            ToolCall(id="b", name="tide"),
        ),
        Message(
            role="tool",
            parts=(
                ToolResult(id="a", name="tide", content='{"m":4}', extra={NAME: {"result": {"m": 4}}}),
                ToolResult(id="b", name="tide", content=(Text(text="x"), PICTURE)),
            ),
        ),
        user("and?", Opaque(wire=NAME, data=hologram)),
    )


def test_steps_go_to_a_provider_of_the_same_wire_as_they_came() -> None:
    sent = again(model="gemini-x", input=STEPS)["input"]
    last = STEPS[-1]["content"]
    assert sent == [
        *STEPS[:-1],
        {"type": "user_input", "content": last[:1]},
        {"type": "user_input", "content": last[1:]},
    ]


def test_results_among_the_contents_of_a_user_are_results() -> None:
    call: dict[str, Any] = {"type": "function_call", "id": "a", "name": "tide", "arguments": {}}
    result = {"type": "function_result", "call_id": "a", "result": None, "is_error": True}
    request = decoded(input=[call, {"type": "user_input", "content": [result, {"type": "text", "text": "and?"}]}])
    assert request.messages[1:] == (
        Message(role="tool", parts=(ToolResult(id="a", name="tide", content="", is_error=True),)),
        user("and?"),
    )


def test_a_result_of_a_stored_call_stays_a_step() -> None:
    result = {"type": "function_result", "call_id": "a", "result": "4 m"}
    request = decoded(input=[result], previous_interaction_id="v1_x")
    assert request.messages == (Message(role="user", parts=(Opaque(wire=NAME, data=result),)),)
    assert again(input=[result], previous_interaction_id="v1_x")["input"] == [result]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (
            {"type": "image", "uri": "https://a/b.png", "resolution": "low"},
            Image(url="https://a/b.png", detail="low", extra={NAME: {}}),
        ),
        (
            {"type": "video", "uri": "https://a/b.mp4", "mime_type": "video/mp4", "name": "v"},
            Document(data=b"", url="https://a/b.mp4", mime="video/mp4", name="v"),
        ),
        ({"type": "document", "data": "JVBE", "mime_type": "application/pdf"}, Document(data=b"%PD", mime="application/pdf")),
        ({"type": "audio", "data": "UklG", "mime_type": "audio/wav", "channels": 1}, Audio(data=b"RIF", mime="audio/wav", extra={NAME: {"channels": 1}})),
    ],
)  # fmt: skip
def test_media_of_clients(content: dict[str, Any], part: Part) -> None:
    assert decoded(input=[content]).messages[0].parts == (part,)
    assert again(input=[content])["input"] == [{"type": "user_input", "content": [content]}]


@pytest.mark.parametrize(
    "content",
    [
        {"type": "image", "uri": "https://generativelanguage.googleapis.com/v1beta/files/x"},
        {"type": "image", "uri": "gs://a/b"},
        {"type": "image"},
        {"type": "image", "data": "iVBO", "uri": "https://a"},
        {"type": "document", "data": "JVBE"},
        {"type": "document", "data": "JVBE", "mime_type": "video/mp4"},
        {"type": "video", "data": "JVBE", "mime_type": 7},
        {"type": "video", "data": "JVBE", "mime_type": "application/pdf"},
        {"type": "audio", "uri": "https://a/b.wav", "mime_type": "audio/wav"},
        {"type": "audio", "data": "JVBE"},
        {"type": "video", "data": "AAAA", "mime_type": "video/mp4", "name": 7},
    ],
)
def test_media_that_only_google_understands_stay_as_they_are(content: dict[str, Any]) -> None:
    assert again(input=[content])["input"] == [{"type": "user_input", "content": [content]}]


@pytest.mark.parametrize(
    ("input", "message"),
    [
        (7, "input[0] must be an object"),
        ([7], "input[0] must be an object"),
        ([{"type": "text", "text": 7}], "input[0].text must be a text, got 7"),
        ([{"type": "image", "data": "?"}], "input[0].data: data must be base64"),
        ([{"role": "me", "content": "x"}], "input[0].role must be user or model, got 'me'"),
        ([{"type": "user_input", "content": [7]}], "input[0].content[0] must be an object"),
        (
            [{"type": "user_input", "content": [{"type": "function_response"}]}],
            "input[0].content[0].type must be function_result, got 'function_response'",
        ),
        ([{"type": "function_call", "name": "a"}], "input[0].arguments is required"),
        ([{"type": "function_result", "result": "x"}], "input[0].call_id is required"),
        ([{"type": "function_result", "call_id": "a", "result": [7]}], "input[0].result[0] must be an object"),
    ],
)
def test_an_input_that_is_wrong_is_refused_with_its_place(input: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decoded(input=input)
    assert raised.value.message.startswith(message[:40])
    assert str(raised.value.param) in message


def test_options_of_clients() -> None:
    config = {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 9, "stop_sequences": ["x"], "seed": 7}
    model, request = decoded_with_model(
        model="models/gemini-x",
        input="hi",
        system_instruction="Be brief.",
        generation_config=config,
        service_tier="flex",
        stream=True,
        labels={"a": "b"},
        store=None,
    )
    assert model == "gemini-x"
    assert request == Request(
        messages=(user("hi"),),
        system="Be brief.",
        temperature=0.5,
        top_p=0.9,
        max_tokens=9,
        stop=("x",),
        seed=7,
        service_tier="flex",
        stream=True,
        extra={NAME: {"labels": {"a": "b"}}},
    )


@pytest.mark.parametrize(
    ("config", "reasoning", "choice"),
    [
        ({"thinking_level": "low", "thinking_summaries": "auto"}, "low", None),
        ({"thinking_level": "LOW"}, "low", None),
        ({"thinking_level": "high", "thinking_summaries": "none"}, "high", None),
        ({"thinking_level": "high", "thinking_summaries": "new"}, "high", None),
        ({"thinking_level": "new"}, None, None),
        ({"tool_choice": "any"}, None, "required"),
        ({"tool_choice": "validated"}, None, "auto"),
        ({"tool_choice": "new"}, None, None),
        ({"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["tide"]}}}, None, "tide"),
        ({"tool_choice": {"allowed_tools": {"mode": "auto", "tools": ["tide"]}}}, None, None),
        ({"thinking_level": "low", "image_config": {}}, "low", None),
    ],
)
def test_a_config_is_read_and_goes_back_as_it_came(config: dict[str, Any], reasoning: Any, choice: Any) -> None:
    tools = [{"type": "function", "name": "tide"}]
    request = decoded(input="hi", generation_config=config, tools=tools)
    assert (request.reasoning, request.tool_choice) == (reasoning, choice)
    assert again(input="hi", generation_config=config, tools=tools)["generation_config"] == config


FORMAT = {"type": "text", "mime_type": "application/json"}
ODD = {"type": "string", "pattern": "x"}


@pytest.mark.parametrize(
    ("fields", "schema"),
    [
        ({"response_format": {**FORMAT, "schema": SCHEMA}}, SCHEMA),
        ({"response_format": FORMAT}, {}),
        ({"response_format": [{**FORMAT, "schema": SCHEMA}]}, SCHEMA),
        ({"response_format": {**FORMAT, "schema": ODD}}, ODD),
        ({"response_format": SCHEMA, "response_mime_type": "application/json"}, SCHEMA),
        ({"response_format": {**FORMAT, "schema": SCHEMA}, "response_mime_type": "application/json"}, SCHEMA),
        ({"response_mime_type": "application/json"}, {}),
        ({"response_mime_type": "text/plain"}, None),
        ({"response_format": {"type": "image", "aspect_ratio": "1:1"}}, None),
        ({"response_format": [FORMAT, {"type": "image"}]}, None),
        ({"response_format": {**FORMAT, "schema": 7}, "response_mime_type": "application/json"}, None),
    ],
)
def test_a_format_is_a_schema_and_goes_back_as_it_came(fields: dict[str, Any], schema: Any) -> None:
    assert decoded(input="hi", **fields).schema == schema
    sent = again(input="hi", **fields)
    if fields == {"response_mime_type": "application/json"}:
        fields = {**fields, "response_format": FORMAT}
    assert {key: value for key, value in sent.items() if key.startswith("response")} == fields


def test_tools_of_clients() -> None:
    tools = [
        {"type": "function", "name": "tide", "description": "Tide height", "parameters": SCHEMA},
        {"type": "function", "name": "odd", "parameters": {"type": "object", "properties": {"a": ODD}}, "new": 1},
        {"type": "google_search"},
    ]
    request = decoded(input="hi", tools=tools)
    assert request.tools[0] == Tool(name="tide", description="Tide height", parameters=SCHEMA)
    assert request.tools[2] == WebSearch(extra={f"{NAME}.verbatim": {"tool": {"type": "google_search"}}})
    assert again(input="hi", tools=tools)["tools"] == tools


def test_an_agent_is_the_model_of_its_request() -> None:
    model, request = decoded_with_model(input="hi", agent="deep-research")
    assert (model, request.extra) == ("deep-research", {NAME: {"agent": "deep-research"}})
    assert decoded_with_model(input="hi", agent=7)[0] == ""


@pytest.mark.parametrize(
    ("model", "request_", "param"),
    [
        ("", Request(messages=(user("hi"),)), "model"),
        ("m", Request(), "input"),
        ("m", Request(messages=(user("hi"),), temperature=2.0), None),
    ],
)
def test_a_request_needs_a_model_and_an_input(model: str, request_: Request, param: str | None) -> None:
    if param is None:
        SERVER.check(model, request_)
        return
    with pytest.raises(InvalidRequest) as raised:
        SERVER.check(model, request_)
    assert raised.value.param == param


def test_an_option_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"generation_config\.temperature must be between 0 and 2, got 3"):
        SERVER.check("m", decoded(input="hi", generation_config={"temperature": 3}))


# Answers --------------------------------------------------------------------------------------------------------------

ANSWER = Response(
    id="v1_a",
    model="m",
    created=1778871115,
    message=assistant(
        Thinking(text="Look.", extra={NAME: {"signature": "c2ln"}}),
        Text(text="Six.", extra={NAME: {"annotations": [{"type": "word_info"}]}}),
        PICTURE,
        ToolCall(id="a", name="tide", arguments={"port": "Brest"}),
        Opaque(wire=NAME, data={"type": "google_search_call", "id": "g1"}),
    ),
    finish=Finish(reason="tool_calls"),
    usage=Usage(input=7, output=51, cache_read=0, reasoning=32),
    service_tier="default",
)


def test_a_whole_answer_is_an_interaction() -> None:
    assert msgspec.json.decode(SERVER.encode_body(ANSWER).body) == {
        "id": "v1_a",
        "object": "interaction",
        "model": "m",
        "created": "2026-05-15T18:51:55Z",
        "status": "requires_action",
        "service_tier": "standard",
        "usage": {
            "total_input_tokens": 7,
            "total_cached_tokens": 0,
            "total_output_tokens": 19,
            "total_thought_tokens": 32,
            "total_tokens": 58,
        },
        "steps": [
            {"type": "thought", "summary": [{"type": "text", "text": "Look."}], "signature": "c2ln"},
            {
                "type": "model_output",
                "content": [{"type": "text", "text": "Six.", "annotations": [{"type": "word_info"}]}, IMAGE],
            },
            {"type": "function_call", "id": "a", "name": "tide", "arguments": {"port": "Brest"}},
            {"type": "google_search_call", "id": "g1"},
        ],
    }


def frames(events: list[Event] | list[Any]) -> list[dict[str, Any]]:
    encoder = SERVER.stream_encoder(Request(stream=True))
    lines = b"".join(encoder.feed(event) for event in events).splitlines()
    data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: {")]
    return [msgspec.json.decode(item) for item in data]


def test_a_stream_is_steps_one_after_another() -> None:
    found = frames(to_events(ANSWER))
    assert [frame.pop("event_id") for frame in found] == [str(i + 1) for i in range(len(found))]
    head = {"id": "v1_a", "object": "interaction", "model": "m", "created": "2026-05-15T18:51:55Z"}
    assert found[:2] == [
        {"event_type": "interaction.created", "interaction": {**head, "status": "in_progress"}},
        {"event_type": "interaction.status_update", "interaction_id": "v1_a", "status": "in_progress"},
    ]
    assert [(frame["event_type"], frame["index"], frame.get("step") or frame.get("delta")) for frame in found[2:-1]] == [
        ("step.start", 0, {"type": "thought"}),
        ("step.delta", 0, {"type": "thought_summary", "content": {"type": "text", "text": "Look."}}),
        ("step.delta", 0, {"type": "thought_signature", "signature": "c2ln"}),
        ("step.stop", 0, None),
        ("step.start", 1, {"type": "model_output"}),
        ("step.delta", 1, {"type": "text", "text": "Six."}),
        ("step.delta", 1, {"type": "text_annotation_delta", "annotations": [{"type": "word_info"}]}),
        ("step.stop", 1, None),
        ("step.start", 2, {"type": "model_output"}),
        ("step.delta", 2, IMAGE),
        ("step.stop", 2, None),
        ("step.start", 3, {"type": "function_call", "id": "a", "name": "tide", "arguments": {}}),
        ("step.delta", 3, {"type": "arguments_delta", "arguments": '{"port":"Brest"}'}),
        ("step.stop", 3, None),
        ("step.start", 4, {"type": "google_search_call", "id": "g1"}),
        ("step.stop", 4, None),
    ]  # fmt: skip
    assert found[-1]["event_type"] == "interaction.completed"
    assert found[-1]["interaction"]["status"] == "requires_action"
    encoder = SERVER.stream_encoder(Request(stream=True))
    assert b"".join(map(encoder.feed, to_events(ANSWER))).endswith(b"event: done\ndata: [DONE]\n\n")


def test_fragments_of_a_call_are_passed_on_and_a_cut_one_is_stopped() -> None:
    started = [Started(id="v1_a"), PartStarted(index=0, kind="tool_call", id="a", name="tide")]
    found = frames([*started, CallDelta(index=0, text='{"po'), Ping(), *to_events(ANSWER)[-1:]])
    kinds = [frame["event_type"] for frame in found[2:]]
    assert kinds == ["step.start", "step.delta", "step.stop", "interaction.completed"]
    assert SERVER.stream_encoder(Request(stream=True)).feed(Ping()) == b": ping\n\n"
    call = ToolCall(id="a", name="tide", arguments={"po": 1})
    whole = frames([*started, CallDelta(index=0, text='{"po":1}'), PartEnded(index=0, part=call)])
    assert [frame["event_type"] for frame in whole[2:]] == ["step.start", "step.delta", "step.stop"]


@pytest.mark.parametrize(
    "part",
    [
        Thinking(text="", redacted=True),
        Opaque(wire="google", data={}),
        ToolResult(id="a", name="b", content="c"),
        Text(text=""),
        Thinking(text=""),
    ],
)
def test_what_says_nothing_is_not_written(part: Part) -> None:
    assert SERVER.supports_part(part) == (isinstance(part, Text) or part == Thinking(text=""))
    response = replace(ANSWER, message=Message(role="assistant", parts=(part,)))
    assert msgspec.json.decode(SERVER.encode_body(response).body)["steps"] == []
    assert len(frames(to_events(response))) == 3


def test_a_text_that_came_at_once_and_a_thought_with_an_image() -> None:
    image = {"type": "image", "data": "iVBO"}
    summary = [{"type": "text", "text": "Hm."}, image, "odd"]
    parts = (Text(text="Six."), Thinking(text="Hm.", extra={NAME: {"summary": summary}}))
    events = [event for event in to_events(replace(ANSWER, message=assistant(*parts))) if not hasattr(event, "text")]
    deltas = [frame["delta"] for frame in frames(events) if "delta" in frame]
    assert deltas == [
        {"type": "text", "text": "Six."},
        {"type": "thought_summary", "content": {"type": "text", "text": "Hm."}},
        {"type": "thought_summary", "content": image},
        {"type": "thought_summary", "content": "odd"},
    ]


def test_a_blocked_answer_has_failed_with_a_code() -> None:
    response = replace(ANSWER, finish=Finish(reason="blocked", raw="SAFETY"), usage=Usage(source="unknown"))
    body = msgspec.json.decode(SERVER.encode_body(response).body)
    assert (body["status"], body["errors"][0]["code"], "usage" in body) == ("failed", "content_blocked", False)
    own = replace(ANSWER, finish=Finish(reason="blocked", raw="recitation"))
    assert msgspec.json.decode(SERVER.encode_body(own).body)["errors"][0]["code"] == "recitation"


@pytest.mark.parametrize("created", [-1, 10**12])
def test_a_time_that_has_no_date_is_left_out(created: int) -> None:
    assert "created" not in msgspec.json.decode(SERVER.encode_body(replace(ANSWER, created=created)).body)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequest("no"), 400, "invalid_request"),
        (Unsupported("no"), 400, "invalid_request"),
        (BadRequest("no", status=422), 422, "invalid_request"),
        (ModelNotFound("no"), 404, "model_not_found"),
        (RateLimited("no", retry=False), 429, "quota_exceeded"),
        (RateLimited("no"), 429, "rate_limit_exceeded"),
        (Blocked("no"), 400, "content_blocked"),
        (ServerFault("no"), 502, "api_error"),
    ],
)
def test_an_error_has_a_code(error: DragomanError, status: int, code: str) -> None:
    reply = SERVER.encode_error(error)
    assert msgspec.json.decode(reply.body) == {"error": {"message": "no", "code": code}}
    assert (reply.status >= 400, reply.status == error.http_status) == (True, True)
    assert status == reply.status or isinstance(error, BadRequest | ServerFault)


def test_an_error_ends_a_stream() -> None:
    found = frames([Started(id="v1_a"), ServerFault("it broke")])
    assert found[-1] == {
        "event_type": "error",
        "error": {"message": "it broke", "code": "api_error"},
        "event_id": "3",
    }


@pytest.mark.parametrize(("encode", "part"), [(encode_content, ToolCall(id="a", name="b")), (encode_step, PICTURE)])
def test_a_part_has_its_own_place(encode: Any, part: Part) -> None:
    with pytest.raises(Unsupported, match="cannot send"):
        encode(part)


# Stored interactions --------------------------------------------------------------------------------------------------

STORED = WIRE.continuation
HELLO = decoded(input="hi")


def split(**body: Any) -> tuple[StoredResponseQuery, Request]:
    assert STORED is not None
    return STORED.split(decoded(**body), b"")


def test_an_interaction_is_stored_unless_the_client_says_no() -> None:
    query, request = split(input="hi", labels={"a": "b"})
    assert query == StoredResponseQuery(store=True)
    assert request.extra[NAME] == {"labels": {"a": "b"}}
    assert split(input="hi", store=False)[0] == StoredResponseQuery(store=False)
    query, request = split(input="hi", previous_interaction_id="v1_x", store=True)
    assert (query.previous_id, query.store, NAME in request.extra) == ("v1_x", True, False)
    assert [notice.what for notice in split(input="hi", background=True)[0].notices] == ["background"]
    assert split(input="hi", agent="deep-research")[0].needs_own_wire == "agent"


def test_a_previous_id_must_be_a_text() -> None:
    with pytest.raises(InvalidRequest, match="previous_interaction_id must be a string, got int"):
        split(input="hi", previous_interaction_id=7)


def recorded() -> StoredResponse:
    assert STORED is not None
    _, first = split(input="hi")
    return STORED.record(first, ANSWER)


def test_a_request_continues_from_a_stored_interaction() -> None:
    assert STORED is not None
    result = {"type": "function_result", "call_id": "a", "result": "4 m"}
    content = [result, {"type": "text", "text": "and?"}]
    _, request = split(input=[{"type": "user_input", "content": content}], previous_interaction_id="v1_a")
    joined = STORED.join(recorded(), request)
    assert joined.messages == (
        user("hi"),
        ANSWER.message,
        Message(role="tool", parts=(ToolResult(id="a", name="tide", content="4 m"),)),
        user("and?"),
    )
    STORED.note_completed(joined, 1778871116)
    body = msgspec.json.decode(SERVER.encode_body(ANSWER, joined).body)
    assert (body["previous_interaction_id"], body["updated"]) == ("v1_a", "2026-05-15T18:51:56Z")
    encoder = SERVER.stream_encoder(joined)
    last = b"".join(map(encoder.feed, to_events(ANSWER))).split(b"data: ")[-2].partition(b"\n")[0]
    assert msgspec.json.decode(last)["interaction"]["previous_interaction_id"] == "v1_a"
    answer = fetched(STORED.record(joined, ANSWER), "?include_input=true")
    assert answer["input"] == [
        {"type": "function_result", "call_id": "a", "name": "tide", "result": "4 m"},
        {"type": "user_input", "content": [{"type": "text", "text": "and?"}]},
    ]
    plain = STORED.join(recorded(), split(input="so?")[1])
    assert plain.messages[-1] == user("so?")


def test_steps_have_no_ids_to_refer_to() -> None:
    assert STORED is not None
    assert (STORED.response_of("x"), STORED.items(recorded()), STORED.request_items(b"{}")) == (None, [], [])
    assert STORED.insert_items(b"{}", {}, [], needs_state=False) == (b"{}", False)
    assert not STORED.is_stored_alone({"id": "x"})


def endpoint(method: str, path: str) -> tuple[Any, Any]:
    """The endpoint for a path, and what it makes of the request."""
    http = HttpRequest(method=method, path=path)
    tail = path.partition("?")[0].rpartition("/")[2]
    found = next(
        each
        for each in WIRE.server_endpoints
        if each.route.method == method and each.route.path.startswith("/v1beta/") and (tail == "cancel") == each.route.path.endswith("cancel")
    )  # fmt: skip
    return found, found.decode(http)


def fetched(stored: StoredResponse, query: str = "") -> dict[str, Any]:
    found, request = endpoint("GET", f"/v1beta/interactions/v1_a{query}")
    assert request.id == "v1_a"
    body: dict[str, Any] = msgspec.json.decode(found.encode(request, stored).body)
    return body


def test_a_stored_interaction_is_fetched_whole() -> None:
    assert fetched(recorded()) == msgspec.json.decode(SERVER.encode_body(ANSWER).body)
    assert fetched(recorded(), "?include_input=true")["input"] == [
        {"type": "user_input", "content": [{"type": "text", "text": "hi"}]}
    ]


def test_a_stored_interaction_is_fetched_as_a_stream_from_any_event() -> None:
    found, request = endpoint("GET", "/v1beta/interactions/v1_a?stream=true")
    reply = found.encode(request, recorded())
    assert reply.headers["content-type"] == "text/event-stream"
    events, error = laws.read(WIRE.client.stream_decoder(), [reply.body])
    assert (error, len(events) > 5) == (None, True)
    found, request = endpoint("GET", "/v1beta/interactions/v1_a?stream=true&last_event_id=18")
    assert found.encode(request, recorded()).body.count(b"event: ") == 2
    found, request = endpoint("GET", "/v1beta/interactions/v1_a?stream=true&last_event_id=999")
    assert found.encode(request, recorded()).body == b"event: done\ndata: [DONE]\n\n"


@pytest.mark.parametrize("after", ["x", "-1", "9" * 10])
def test_an_event_id_must_be_a_number(after: str) -> None:
    with pytest.raises(InvalidRequest, match="last_event_id must be the id of an event"):
        endpoint("GET", f"/v1beta/interactions/v1_a?stream=true&last_event_id={after}")


def test_a_stored_interaction_is_dropped_or_cancelled() -> None:
    found, request = endpoint("DELETE", "/v1beta/interactions/v1_a")
    assert request == DropResponse("v1_a")
    assert found.encode(request, None).body == b"{}"
    found, request = endpoint("POST", "/v1beta/interactions/v1_a/cancel")
    assert request == CancelResponse("v1_a")
    assert found.encode(request, {"status": "completed"}).body == b'{"status":"completed"}'
    paths = {each.route.path for each in WIRE.server_endpoints}
    assert "/v1beta1/projects/{project}/locations/{location}/interactions/{id}" in paths
    assert isinstance(endpoint("GET", "/v1beta/interactions/a")[1], FetchResponse)
