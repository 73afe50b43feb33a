"""What a client of generateContent asks, and the exact JSON that it is answered with."""

from typing import Any

import msgspec
import pytest

from dragoman.errors import AuthFailed, DragomanError, InvalidRequest, Overloaded, RateLimited, ServerFault
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import (
    Audio,
    Document,
    Finish,
    Image,
    JsonObject,
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
    tool_results,
    user,
)
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.google import WIRE
from tests.support.wires import laws

PATH = "/v1beta/models/gemini-x:generateContent"
TARGET = target("google/gemini-x", api_key="k")
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
DONE = Finish(reason="stop", raw="STOP")


def decode(body: object, path: str = PATH) -> tuple[str, Request]:
    return WIRE.server.decode_request(HttpRequest(method="POST", path=path, body=msgspec.json.encode(body)))


def decoded(**body: Any) -> Request:
    return decode(body)[1]


def messages(*contents: Any) -> tuple[Message, ...]:
    return decoded(contents=list(contents)).messages


def turn(role: str, *parts: Any) -> JsonObject:
    return {"role": role, "parts": list(parts)}


def sent_back(body: JsonObject) -> JsonObject:
    """The body that the same wire gets when a client sent this one."""
    again: JsonObject = msgspec.json.decode(WIRE.client.encode_request(decoded(**body), TARGET).body)
    return again


def encoded(response: Response) -> JsonObject:
    body: JsonObject = msgspec.json.decode(WIRE.server.encode_body(response).body)
    return body


def response_of(*parts: Part, finish: Finish = DONE, **facts: Any) -> Response:
    return Response(message=Message(role="assistant", parts=parts), finish=finish, **facts)


def stream(events: list[Event | DragomanError], request: Request | None = None) -> bytes:
    encoder = WIRE.server.stream_encoder(request or Request(stream=True))
    return b"".join(encoder.feed(event) for event in events)


def frames(data: bytes) -> list[JsonObject]:
    return [msgspec.json.decode(frame.removeprefix(b"data: ")) for frame in data.split(b"\n\n") if frame]


# Where it was sent ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        ("/v1beta/models/gemini-x:generateContent", "gemini-x", False),
        ("/v1beta/models/gemini-x:generateContent?key=k", "gemini-x", False),
        ("/v1/models/gemini-x:streamGenerateContent?alt=sse", "gemini-x", True),
        ("/gate/v1beta/models/models/gemini-x:generateContent", "gemini-x", False),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent", "gemini-x", False),
        ("/v1beta/tunedModels/tide-7:generateContent", "tunedModels/tide-7", False),
        ("/v1/projects/p/locations/l/endpoints/77:streamGenerateContent", "endpoints/77", True),
        ("/v1beta/models/team%2Ftide:8b:generateContent", "team/tide:8b", False),
        ("/v1beta/models/team/tide:generateContent", "team/tide", False),
    ],
)
def test_the_model_and_the_stream_are_in_the_path(path: str, model: str, *, stream: bool) -> None:
    found, request = decode({"contents": []}, path)
    assert (found, request.stream) == (model, stream)


def test_the_model_may_be_in_the_body() -> None:
    assert decode({"model": "models/gemini-x"}, "/") == ("gemini-x", Request())


@pytest.mark.parametrize(
    ("query", "extra"),
    [("?alt=sse", {}), ("?key=k&alt=sse", {}), ("", {"google.alt": "json"}), ("?alt=json", {"google.alt": "json"})],
)
def test_the_form_of_the_stream_is_in_the_query(query: str, extra: JsonObject) -> None:
    assert decode({}, f"/v1beta/models/g:streamGenerateContent{query}")[1].extra == extra


@pytest.mark.parametrize(("publisher", "model"), [("google", "a"), ("demo", "demo/a"), ("a%20b", "a b/a")])
def test_the_publisher_of_the_path_is_the_provider(publisher: str, model: str) -> None:
    for place in ("projects/p/locations/l/", ""):
        path = f"/v1/{place}publishers/{publisher}/models/a:generateContent"
        assert decode({"model": "other"}, path)[0] == model


def test_routes() -> None:
    assert [route.path for route in WIRE.server.routes] == [
        "/v1beta/models/{model}:generateContent",
        "/v1beta/models/{model}:streamGenerateContent",
        "/v1/models/{model}:generateContent",
        "/v1/models/{model}:streamGenerateContent",
        *(
            f"/{version}/{place}publishers/{{publisher}}/models/{{model}}:{method}"
            for version in ("v1beta1", "v1")
            for place in ("projects/{project}/locations/{location}/", "")
            for method in ("generateContent", "streamGenerateContent")
        ),
        "/v1beta/{model}:generateContent",
        "/v1beta/{model}:streamGenerateContent",
        "/v1/{model}:generateContent",
        "/v1/{model}:streamGenerateContent",
    ]


# What was said --------------------------------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    request = decoded(systemInstruction={"parts": [{"text": "Be brief."}]}, contents=[turn("user", {"text": "hi"})])
    assert request == Request(messages=(user("hi"),), system="Be brief.")


@pytest.mark.parametrize(
    ("given", "system"),
    [
        ("Be brief.", "Be brief."),
        ({"role": "user", "parts": {"text": "Be brief."}}, "Be brief."),
        ({"parts": [{"text": "a", "thought": False}, {"text": "b"}]}, (Text(text="a"), Text(text="b"))),
        ({"parts": []}, None),
        (None, None),
    ],
)
def test_the_system_instruction(given: Any, system: Any) -> None:
    assert decoded(system_instruction=given).system == system


def test_a_system_instruction_that_is_more_than_text_is_given_back() -> None:
    body: JsonObject = {
        "systemInstruction": {"parts": [{"text": "a"}, {"fileData": {"fileUri": "gs://a"}}]},
        "contents": [],
    }
    assert decoded(**body).system == "a"
    assert sent_back(body) == body


def test_a_content_without_a_role_that_calls_is_the_model() -> None:
    assert messages({"parts": [{"functionCall": {"name": "now"}}]})[0].role == "assistant"


def test_roles() -> None:
    assert messages({"parts": [{"text": "a"}]}, turn("model", {"text": "b"}), turn("user", {"text": "c"})) == (
        user("a"),
        assistant("b"),
        user("c"),
    )


def test_one_content_and_one_part_may_stand_alone() -> None:
    assert decoded(contents={"role": "user", "parts": {"text": "a"}}).messages == (user("a"),)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"contents": "hi"}, "contents must be "),
        ({"contents": [{"role": "system"}]}, "contents[0].role must be one of user, model"),
        ({"contents": [{"parts": "hi"}]}, "contents[0].parts must be "),
        ({"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text must be "),
        ({"contents": [{"parts": [{"text": "a"}, {"inlineData": 1}]}]}, "contents[0].parts[1].inlineData must be "),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}]}]},
            "contents[0].parts[0].inlineData: data must be base64",
        ),
        ({"contents": [{"parts": [{"functionCall": {"args": 1}}]}]}, "contents[0].parts[0].functionCall.args must be "),
        (
            {"contents": [{"parts": [{"functionResponse": {"response": "x"}}]}]},
            "contents[0].parts[0].functionResponse.response must be ",
        ),
        ({"systemInstruction": {"parts": [{"text": 1}]}}, "systemInstruction.parts[0].text must be "),
        ({"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature must be "),
        ({"generationConfig": {"topK": 1.5}}, "generationConfig.topK must be "),
        ({"tools": [{"functionDeclarations": [""]}]}, "tools[0].functionDeclarations[0] must be "),
        ({"tools": [{"functionDeclarations": [{"name": 1}]}]}, "tools[0].functionDeclarations[0].name must be "),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(body: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(body)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}, Image(data=b"\x89PNG", mime="image/png")),
        ({"inline_data": {"mime_type": "image/jpeg", "data": "_9j_4A"}}, Image(data=b"\xff\xd8\xff\xe0", mime="image/jpeg")),
        ({"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}}, Document(data=b"%PDF", mime="application/pdf")),
        ({"inlineData": {"mimeType": "text/csv", "data": "YSxi"}}, Document(data=b"a,b", mime="text/csv")),
        ({"inlineData": {"mimeType": "audio/x-wav", "data": "UklGRg=="}}, Audio(data=b"RIFF", mime="audio/x-wav")),
        (
            {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
            Image(url="https://example.org/a.png", mime="image/png", extra={"google": {}}),
        ),
        ({"text": "a", "partMetadata": {"k": 1}}, Text(text="a", extra={"google": {"partMetadata": {"k": 1}}})),
        (
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg==", "displayName": "bill.pdf"}},
            Document(
                data=b"%PDF",
                mime="application/pdf",
                name="bill.pdf",
                extra={"google": {"inlineData": {"displayName": "bill.pdf"}}},
            ),
        ),
        (
            {
                "fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png", "displayName": "a"},
                "mediaResolution": {"level": "LOW"},
            },
            Image(
                url="https://example.org/a.png",
                mime="image/png",
                extra={"google": {"fileData": {"displayName": "a"}, "mediaResolution": {"level": "LOW"}}},
            ),
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_parts(given: JsonObject, part: Part) -> None:
    assert messages(turn("user", given)) == (Message(role="user", parts=(part,)),)


@pytest.mark.parametrize(
    "block",
    [
        {"inlineData": {"data": "AAAA"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "gs://bucket/a.png"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a"}},
        {"file_data": {"file_uri": "https://youtu.be/x"}},
        {"executableCode": {"code": "1"}, "thought": True},
    ],
)
def test_blocks_without_a_word_are_kept_and_given_back(block: JsonObject) -> None:
    part = Opaque(wire="google", data=block, is_optional="thought" in block)
    assert messages(turn("user", block)) == (Message(role="user", parts=(part,)),)
    assert sent_back({"contents": [turn("user", block)]})["contents"] == [turn("user", block)]


@pytest.mark.parametrize(
    ("block", "video"),
    [
        (
            {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}, "videoMetadata": {"fps": 2}},
            Document(data=b"\0\0\0", mime="video/mp4", extra={"google": {"videoMetadata": {"fps": 2}}}),
        ),
        (
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/x"}},
            Document(data=b"", mime="video/mp4", url="https://youtu.be/x", extra={"google": {}}),
        ),
    ],
)
def test_a_video_is_a_document(block: JsonObject, video: Document) -> None:
    assert messages(turn("user", block)) == (user(video),)
    assert sent_back({"contents": [turn("user", block)]})["contents"] == [turn("user", block)]


def test_a_part_that_says_nothing_is_left_out() -> None:
    assert messages(turn("user", {}, {"text": "a"})) == (user("a"),)


def test_members_of_a_call_that_are_unknown_are_given_back() -> None:
    call: JsonObject = {"functionCall": {"name": "now", "args": {}, "mood": "calm"}}
    body: JsonObject = {
        "contents": [
            turn("user", {"text": "?"}),
            turn("model", call),
            turn("user", {"functionResponse": {"name": "now", "response": {"output": "noon"}}}),
        ]
    }
    assert sent_back(body) == body


def test_thoughts_and_signatures() -> None:
    parts = [
        {"text": "Hm.", "thought": True},
        {"thought": True, "thought_signature": "QQ=="},
        {"text": "", "thoughtSignature": "Qg=="},
        {"functionCall": {"name": "now"}, "thoughtSignature": "Qw==", "thought": False},
    ]
    assert messages(turn("model", *parts))[0].parts == (
        Thinking(text="Hm.", extra={"google": {}}),
        Thinking(text="", redacted=True, extra={"google": {"thoughtSignature": "QQ=="}}),
        Text(text="", extra={"google": {"thoughtSignature": "Qg=="}}),
        ToolCall(id="call_1", name="now", extra={"google": {"thoughtSignature": "Qw=="}}),
    )


# Calls and results ----------------------------------------------------------------------------------------------------


def call(name: str = "tide", **more: Any) -> JsonObject:
    return {"functionCall": {"name": name, "args": {}, **more}}


def response(name: str = "tide", /, **more: Any) -> JsonObject:
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **more}}


def ids(*contents: Any) -> list[list[str]]:
    """The ids of the calls and results of each turn that has some."""
    found = [
        [part.id for part in message.parts if isinstance(part, ToolCall | ToolResult)]
        for message in messages(*contents)
    ]
    return [turn for turn in found if turn]


def test_ids_of_the_client_are_kept() -> None:
    assert messages(turn("model", call(id="w7")), turn("user", response(id="w7"))) == (
        assistant(ToolCall(id="w7", name="tide", extra={"google": {"id": "w7"}})),
        tool_results(ToolResult(id="w7", name="tide", content="ok")),
    )


def test_calls_without_ids_are_counted_and_answered_by_name_and_order() -> None:
    assert ids(
        turn("model", call("a"), call("b"), call("a")),
        turn("user", response("b"), response("a"), response("a")),
        turn("model", call("a")),
        turn("function", response("a")),
    ) == [["call_1", "call_2", "call_3"], ["call_2", "call_1", "call_3"], ["call_4"], ["call_4"]]


def test_a_response_without_a_name_answers_the_first_call() -> None:
    assert messages(turn("model", call("a")), turn("user", {"functionResponse": {"response": {"output": "ok"}}}))[
        1
    ].tool_results == (ToolResult(id="call_1", name="a", content="ok"),)


def test_a_response_answers_the_latest_step() -> None:
    assert ids(
        turn("model", call("a")), turn("user", {"text": "stop"}), turn("model", call("a")), turn("user", response("a"))
    ) == [["call_1"], ["call_2"], ["call_2"]]


def test_a_response_without_a_call_keeps_its_id() -> None:
    assert messages(turn("user", response("a", id="w9"), response("b"))) == (
        tool_results(
            ToolResult(id="w9", name="a", content="ok", extra={"google": {"id": "w9"}}),
            ToolResult(id="", name="b", content="ok"),
        ),
    )


def test_an_id_that_no_call_has_is_given_back() -> None:
    body = {"contents": [turn("user", {"text": "?"}), turn("model", call("a")), turn("user", response("a", id="w9"))]}
    assert sent_back(body) == body


def test_parallel_calls_in_contents_of_their_own_are_one_step() -> None:
    assert ids(
        turn("model", call("a")), turn("model", call("b")), turn("user", response("a")), turn("user", response("b"))
    ) == [
        ["call_1", "call_2"],
        ["call_1", "call_2"],
    ]


def test_text_beside_a_response_is_a_turn_of_its_own() -> None:
    assert messages(turn("model", call()), turn("user", response(), {"text": "and?"}))[1:] == (
        tool_results(ToolResult(id="call_1", name="tide", content="ok")),
        user("and?"),
    )


@pytest.mark.parametrize(
    ("given", "content", "is_error", "whole"),
    [
        ({"output": "4 m"}, "4 m", False, True),
        ({"error": "no"}, "no", True, True),
        ({"output": {"m": 4}}, '{"m":4}', False, True),
        ({"output": '{"m":4}'}, '{"m":4}', False, False),
        ({"output": [4]}, "[4]", False, False),
        ({"output": None}, "null", False, False),
        ({"result": "4 m"}, '{"result":"4 m"}', False, False),
        ({"error": "no", "code": 4}, '{"error":"no","code":4}', True, False),
        ({}, "{}", False, False),
    ],
)
def test_responses(given: JsonObject, content: str, *, is_error: bool, whole: bool) -> None:
    contents = [turn("user", {"text": "?"}), turn("model", call()), turn("user", response("tide", response=given))]
    extra: JsonObject = {} if whole else {"google": {"response": given}}
    assert decoded(contents=contents).messages[2].tool_results == (
        ToolResult(id="call_1", name="tide", content=content, is_error=is_error, extra=extra),
    )
    assert sent_back({"contents": contents}) == {"contents": contents}


def test_media_inside_a_response_stay_there_on_this_wire() -> None:
    parts: list[JsonObject] = [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
        {"fileData": {"fileUri": "gs://a"}},
        {"text": "b"},
        {},
    ]
    contents = [
        turn("user", {"text": "?"}),
        turn("model", call()),
        turn("user", response(parts=parts, scheduling="SILENT")),
    ]
    contents[2]["parts"][0]["partMetadata"] = {"k": 1}
    (result,) = decoded(contents=contents).messages[2].tool_results
    assert result.content == (
        Text(text="ok"),
        Image(data=b"\x89PNG", mime="image/png"),
        Opaque(wire="google", data={"fileData": {"fileUri": "gs://a"}}),
        Opaque(wire="google", data={"text": "b"}),
    )
    parts.pop()
    assert sent_back({"contents": contents}) == {"contents": contents}


# Tools ----------------------------------------------------------------------------------------------------------------


def test_tools() -> None:
    declarations = [
        {"name": "tide", "description": "Tide height", "parametersJsonSchema": SCHEMA},
        {"name": "now", "description": None},
    ]
    assert decoded(
        tools=[{"function_declarations": declarations, "codeExecution": None}, {"google_search": {}}]
    ).tools == (
        Tool(name="tide", description="Tide height", parameters=SCHEMA),
        Tool(name="now"),
        WebSearch(extra={"google.verbatim": {"tool": {"googleSearch": {}}}}),
    )


def test_openapi_parameters_are_understood_and_given_back() -> None:
    given = {
        "type": "OBJECT",
        "properties": {
            "port": {"type": "STRING", "nullable": True, "enum": ["Brest"], "format": "enum"},
            "any": {"nullable": True, "any_of": [{"type": "INTEGER"}, {"ref": "#/defs/Leg"}]},
            "legs": {"type": "ARRAY", "items": {"type": "NUMBER", "example": 2}, "min_items": "1", "maxItems": 3},
        },
        "property_ordering": ["port"],
        "defs": {"Leg": {"type": ["STRING", "NULL"], "nullable": False, "default": None}},
    }
    body = {"contents": [], "tools": [{"functionDeclarations": [{"name": "plan", "parameters": given}]}]}
    (tool,) = decoded(**body).tools
    assert isinstance(tool, Tool)
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "port": {"type": ["string", "null"], "enum": ["Brest", None]},
            "any": {"anyOf": [{"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Leg"}]}, {"type": "null"}]},
            "legs": {"type": "array", "items": {"type": "number", "examples": [2]}, "minItems": 1, "maxItems": 3},
        },
        "propertyOrdering": ["port"],
        "$defs": {"Leg": {"type": ["string", "null"]}},
    }
    assert sent_back(body) == body


def test_odd_openapi_is_left_as_it_is() -> None:
    given: JsonObject = {
        "type": "OBJECT",
        "properties": 1,
        "anyOf": {},
        "ref": 2,
        "items": True,
        "examples": [3],
        "nullable": True,
    }
    (tool,) = decoded(tools=[{"functionDeclarations": [{"name": "odd", "parameters": given}]}]).tools
    assert isinstance(tool, Tool)
    assert tool.parameters == {
        "type": ["object", "null"],
        "properties": 1,
        "anyOf": {},
        "$ref": 2,
        "items": True,
        "examples": [3],
    }


def test_openapi_that_is_nested_too_deeply_is_refused() -> None:
    schema: JsonObject = {"type": "STRING"}
    for _ in range(600):
        schema = {"items": schema}
    with pytest.raises(InvalidRequest, match="too deeply"):
        decoded(tools=[{"functionDeclarations": [{"name": "deep", "parameters": schema}]}])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"port": {"type": "string", "minLength": 2}}},
    ],
)
def test_a_json_schema_that_we_would_change_is_given_back(schema: JsonObject) -> None:
    body = {
        "contents": [],
        "tools": [{"functionDeclarations": [{"name": "tide", "parametersJsonSchema": schema}]}],
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": {**schema, "minProperties": 1},
        },
    }
    assert sent_back(body) == body


@pytest.mark.parametrize(
    ("calling", "choice", "covered"),
    [
        ({"mode": "AUTO"}, "auto", True),
        ({}, "auto", True),
        ({"mode": "none"}, "none", True),
        ({"mode": "ANY"}, "required", True),
        ({"mode": "ANY", "allowed_function_names": ["tide"]}, "tide", True),
        ({"mode": "ANY", "allowedFunctionNames": []}, "required", True),
        ({"mode": "ANY", "allowedFunctionNames": ["tide", "now"]}, "required", False),
        ({"mode": "VALIDATED"}, "auto", False),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["tide"]}, "auto", False),
        ({"mode": "AUTO", "streamFunctionCallArguments": True}, "auto", False),
        ({"mode": "MODE_UNSPECIFIED"}, None, False),
    ],
)
def test_forced_choice(calling: JsonObject, choice: str | None, *, covered: bool) -> None:
    tool_config = {"function_calling_config": calling}
    request = decoded(tools=[{"functionDeclarations": [{"name": "tide"}]}], toolConfig=tool_config)
    assert request.tool_choice == choice
    assert request.extra == ({} if covered else {"google": {"toolConfig": tool_config}})


@pytest.mark.parametrize(
    "tool_config", [{"retrievalConfig": {"languageCode": "fr"}}, {"functionCallingConfig": {"mode": "ANY"}}]
)
def test_a_tool_config_without_functions_is_given_back(tool_config: JsonObject) -> None:
    body: JsonObject = {"contents": [], "tools": [{"googleMaps": {}}], "toolConfig": tool_config}
    assert sent_back(body) == body


def test_several_allowed_functions_are_noted_as_dropped_on_another_wire() -> None:
    calling = {"mode": "ANY", "allowedFunctionNames": ["tide", "now"]}
    declared = [{"name": "tide"}, {"name": "now"}, {"name": "never"}]
    request = decoded(tools=[{"functionDeclarations": declared}], toolConfig={"functionCallingConfig": calling})
    notes = NoticeCollector("openai_chat")
    body_extra(request, target("openai/x", api_key="k"), notes)
    assert [(notice.kind, notice.what) for notice in notes.notices] == [("dropped", "google: toolConfig")]


# Options --------------------------------------------------------------------------------------------------------------


def test_options() -> None:
    request = decoded(
        generation_config={
            "temperature": 0,
            "top_p": 0.5,
            "topK": 40.0,
            "max_output_tokens": "100",
            "stopSequences": ["END"],
            "seed": -3,
        }
    )
    assert request == Request(temperature=0, top_p=0.5, top_k=40, max_tokens=100, stop=("END",), seed=-3)


def test_what_our_words_do_not_cover_is_given_back() -> None:
    body = {
        "contents": [],
        "generationConfig": {"candidateCount": 2, "presencePenalty": 0.5, "responseModalities": ["IMAGE"]},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "cachedContent": "cachedContents/a",
        "labels": {"team": "tides"},
    }
    assert sent_back(body) == body


@pytest.mark.parametrize(
    ("config", "schema"),
    [
        ({"responseMimeType": "application/json"}, {}),
        ({"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}, SCHEMA),
        ({"responseJsonSchema": SCHEMA}, SCHEMA),
        ({"_responseJsonSchema": SCHEMA}, SCHEMA),
        ({"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}}, {"type": "string"}),
        ({"responseFormat": {"text": {"mimeType": "application/json", "schema": SCHEMA}}}, SCHEMA),
        ({"responseFormat": [{"text": {"schema": SCHEMA}}]}, SCHEMA),
        ({"responseFormat": {"image": {}}}, None),
        ({"responseFormat": "json"}, None),
        ({"responseMimeType": "text/plain"}, None),
        (
            {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}},
            {"type": "string", "enum": ["a"]},
        ),
        ({"responseMimeType": "text/x.enum"}, None),
        ({}, None),
    ],
)
def test_structured_output(config: JsonObject, schema: JsonObject | None) -> None:
    assert decoded(generationConfig=config).schema == schema


@pytest.mark.parametrize(
    "config",
    [
        {"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}},
        {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}},
        {"responseFormat": {"text": {"mimeType": "application/json", "schema": SCHEMA}}},
        {"thinkingConfig": {"thinkingLevel": "HIGH"}},
        {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}},
        {"thinkingConfig": {"thinkingBudget": 500, "includeThoughts": True}},
        {"thinkingConfig": {"thinkingBudget": 500}},
    ],
)
def test_a_config_is_given_back_as_it_was_written(config: JsonObject) -> None:
    body: JsonObject = {"contents": [], "generationConfig": config}
    assert sent_back(body) == body


@pytest.mark.parametrize(
    ("config", "covered"),
    [
        ({"responseSchema": {"type": "STRING"}}, True),
        ({"responseJsonSchema": {**SCHEMA, "minProperties": 1}}, True),
        ({"responseFormat": {"text": {"mimeType": "application/json", "schema": SCHEMA}}}, True),
        ({"responseFormat": {"text": {"schema": SCHEMA, "grammar": "x"}}}, False),
        ({"responseMimeType": "text/plain"}, True),
        ({"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}}, True),
        ({"responseMimeType": "text/x.enum"}, False),
        ({"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}}, True),
        ({"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": False}}, False),
        ({"thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False}}, True),
        ({"thinkingConfig": {"thinkingBudget": 500}}, True),
        ({"thinkingConfig": {"thinkingBudget": -1}}, False),
        ({"thinkingConfig": {"thinkingLevel": "HIGH"}, "mediaResolution": "LOW"}, False),
    ],
)
def test_only_what_our_words_say_whole_is_covered(config: JsonObject, *, covered: bool) -> None:
    name = "google.verbatim" if covered else "google"
    assert decoded(generationConfig=config).extra == {name: {"generationConfig": config}}


@pytest.mark.parametrize(
    ("config", "reasoning"),
    [
        ({"thinkingBudget": 0}, "none"),
        ({"thinking_budget": 500, "include_thoughts": True}, 500),
        ({"thinkingBudget": -1}, None),
        ({"thinkingLevel": "low"}, "low"),
        ({"thinking_level": "HIGH"}, "high"),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, None),
        ({"includeThoughts": True}, None),
    ],
)
def test_thinking(config: JsonObject, reasoning: Any) -> None:
    assert decoded(generationConfig={"thinkingConfig": config}).reasoning == reasoning


# Answers --------------------------------------------------------------------------------------------------------------


def test_a_whole_answer() -> None:
    usage = Usage(input=120, output=93, cache_read=60, reasoning=75)
    parts = (
        Thinking(text="Hm.", extra={"anthropic": {"signature": "x"}}),
        Text(text="Let me see."),
        ToolCall(id="toolu_1", name="tide", arguments={"port": "Brest"}),
    )
    finish = Finish(reason="tool_calls", raw="tool_use")
    assert encoded(response_of(*parts, finish=finish, id="r1", model="m", created=1775149430, usage=usage)) == {
        "candidates": [
            {
                "index": 0,
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {"text": "Let me see."},
                        {"functionCall": {"id": "toolu_1", "name": "tide", "args": {"port": "Brest"}}},
                    ],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 120,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 18,
            "thoughtsTokenCount": 75,
            "totalTokenCount": 213,
        },
        "modelVersion": "m",
        "createTime": "2026-04-02T17:03:50Z",
        "responseId": "r1",
    }


@pytest.mark.parametrize("created", [-1, 1775149430000])
def test_a_time_that_is_none_is_not_said(created: int) -> None:
    assert "createTime" not in encoded(response_of(created=created))


def test_notes_of_several_texts_are_told_together() -> None:
    parts = (
        Text(text="a", extra={"google": {"groundingMetadata": {"webSearchQueries": ["a"]}}}),
        ToolCall(id="w7", name="now"),
        Text(text="b", extra={"google": {"groundingMetadata": {"webSearchQueries": ["b"]}}}),
    )
    assert encoded(response_of(*parts))["candidates"][0]["groundingMetadata"] == {"webSearchQueries": ["a", "b"]}


def test_nothing_is_invented() -> None:
    assert encoded(response_of()) == {
        "candidates": [{"index": 0, "content": {"role": "model"}, "finishReason": "STOP"}]
    }


def test_usage_says_only_what_is_known() -> None:
    assert encoded(response_of(usage=Usage(output=3)))["usageMetadata"] == {"candidatesTokenCount": 3}


def test_a_call_that_came_without_an_id_goes_without_one() -> None:
    parts = (ToolCall(id="call_1", name="now", extra={"google": {"thoughtSignature": "QQ=="}}),)
    content = encoded(response_of(*parts))["candidates"][0]["content"]
    assert content["parts"] == [{"functionCall": {"name": "now", "args": {}}, "thoughtSignature": "QQ=="}]


def test_parts_that_this_dialect_cannot_say_are_left_out() -> None:
    parts = (
        Opaque(wire="anthropic", data={"type": "x"}),
        Opaque(wire="google", data={"executableCode": {}}),
        Text(text=""),
        Thinking(text="", redacted=True),
        ToolResult(id="call_1"),
    )
    assert encoded(response_of(*parts))["candidates"][0]["content"]["parts"] == [{"executableCode": {}}]


@pytest.mark.parametrize(
    ("finish", "word"),
    [
        (Finish(reason="stop", raw="end_turn"), "STOP"),
        (Finish(reason="length", raw="max_tokens"), "MAX_TOKENS"),
        (Finish(reason="blocked", raw="content_filter"), "SAFETY"),
        (Finish(reason="blocked", raw="RECITATION"), "RECITATION"),
        (Finish(reason="pause", raw="pause_turn"), "STOP"),
        (Finish(reason="other"), "OTHER"),
        (Finish(reason="other", raw="MALFORMED_FUNCTION_CALL"), "MALFORMED_FUNCTION_CALL"),
    ],
)
def test_finish_reasons(finish: Finish, word: str) -> None:
    assert encoded(response_of(finish=finish))["candidates"][0]["finishReason"] == word


NOTED = response_of(
    Text(text="A"),
    Text(text="B", extra={"google": {"thoughtSignature": "QQ==", "groundingMetadata": {"a": [1]}, "avgLogprobs": -1}}),
    finish=Finish(reason="stop", raw="STOP", extra={"google": {"finishMessage": "Well."}}),
)
BLOCKED = response_of(
    finish=Finish(reason="blocked", raw="OTHER", extra={"google": {"promptFeedback": {"blockReason": "OTHER"}}})
)
SIGNED = response_of(
    Thinking(text="", redacted=True, extra={"google": {"thoughtSignature": "QQ=="}}),
    Text(text="", extra={"google": {"thoughtSignature": "Qg=="}}),
    ToolCall(id="w7", name="now", extra={"google": {"id": "w7"}}),
    Image(data=b"\x89PNG", mime="image/png", extra={"google": {"thoughtSignature": "Qw=="}}),
    finish=Finish(reason="tool_calls", raw="STOP", extra={"google": {"avgLogprobs": -1}}),
)


@pytest.mark.parametrize("array", [False, True], ids=["sse", "array"])
@pytest.mark.parametrize("response", [NOTED, BLOCKED, SIGNED], ids=["noted", "blocked", "signed"])
def test_what_this_wire_told_survives_in_every_form(response: Response, *, array: bool) -> None:
    assert fold(WIRE.client.decode_body(WIRE.server.encode_body(response).body)) == response
    request = Request(stream=True, extra={"google.alt": "json"} if array else {})
    events, error = laws.read(WIRE.client.stream_decoder(), [stream(list(to_events(response)), request)])
    assert error is None
    assert fold(events) == response


def test_a_prompt_that_was_blocked_has_no_candidates() -> None:
    assert encoded(BLOCKED) == {"promptFeedback": {"blockReason": "OTHER"}}


def test_what_was_said_before_a_block_is_said() -> None:
    response = response_of(Text(text="Well,"), finish=BLOCKED.finish)
    assert fold(WIRE.client.decode_body(WIRE.server.encode_body(response).body)) == response


@pytest.mark.parametrize(
    ("part", "count"),
    [
        (Thinking(text="Hm.", redacted=True, extra={"openai_responses": {}}), 1),
        (Thinking(text="", redacted=True, extra={"openai_responses": {}}), 0),
        (Image(url="https://example.org/a.png"), 1),
        (Document(data=b"\xff", mime="text/plain"), 1),
        (Audio(data=b"RIFF", mime="audio/wav"), 1),
        (Opaque(wire="anthropic", data={"type": "x"}), 0),
        (ToolResult(id="call_1"), 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Part) else "",
)
def test_both_forms_say_the_same_parts(part: Part, count: int) -> None:
    response = response_of(part, Text(text="a"))
    events, error = laws.read(WIRE.client.stream_decoder(), [stream(list(to_events(response)))])
    body = WIRE.client.decode_body(WIRE.server.encode_body(response).body)
    assert error is None
    assert fold(events).message.parts == fold(body).message.parts
    assert len(fold(events).message.parts) == count + 1


# Streams --------------------------------------------------------------------------------------------------------------

EVENTS: list[Event | DragomanError] = [
    Started(id="r1", model="m"),
    PartStarted(index=0, kind="thinking"),
    PartDelta(index=0, text="Hm."),
    PartEnded(index=0, part=Thinking(text="Hm.")),
    Ping(),
    PartStarted(index=1, kind="text"),
    PartDelta(index=1, text="Six"),
    PartEnded(index=1, part=Text(text="Six")),
    PartStarted(index=2, kind="tool_call"),
    PartEnded(index=2, part=ToolCall(id="toolu_1", name="now")),
    Finished(finish=Finish(reason="tool_calls", raw="tool_use"), usage=Usage(input=3, output=2)),
]


def chunk(*parts: JsonObject, **more: Any) -> JsonObject:
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}, **more}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1"}


def test_notes_are_joined_without_changing_those_of_the_response() -> None:
    queries = [["a"], ["b"]]
    texts = [Text(text="x", extra={"google": {"groundingMetadata": {"webSearchQueries": query}}}) for query in queries]
    assert encoded(response_of(*texts))["candidates"][0]["groundingMetadata"] == {"webSearchQueries": ["a", "b"]}
    assert queries == [["a"], ["b"]]


def test_a_stream_of_events() -> None:
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    assert encoder.content_type == "text/event-stream"
    last = chunk({"text": ""}, finishReason="STOP")
    last["usageMetadata"] = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    assert frames(stream(EVENTS)) == [
        chunk({"text": "Hm.", "thought": True}),
        chunk({"text": "Six"}),
        chunk({"functionCall": {"id": "toolu_1", "name": "now", "args": {}}}),
        last,
    ]


def test_a_stream_as_an_array() -> None:
    request = Request(stream=True, extra={"google.alt": "json"})
    assert WIRE.server.stream_encoder(request).content_type == "application/json"
    assert msgspec.json.decode(stream(EVENTS, request)) == frames(stream(EVENTS))


def test_a_ping_is_not_said() -> None:
    assert stream([Ping()]) == b""


def test_a_text_without_deltas_is_said_at_its_end() -> None:
    events: list[Event | DragomanError] = [
        PartStarted(index=0, kind="text"),
        PartEnded(index=0, part=Text(text="Six")),
    ]
    assert frames(stream(events)) == [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Six"}]}}]}
    ]


def test_notes_of_a_text_are_said_at_its_end() -> None:
    text = Text(text="Six", extra={"google": {"avgLogprobs": -1}})
    events = list(to_events(response_of(text)))
    assert frames(stream(list(events)))[1] == {"candidates": [{"index": 0, "avgLogprobs": -1}]}


def test_a_text_with_a_signature_is_said_whole() -> None:
    text = Text(text="Six", extra={"google": {"thoughtSignature": "QQ=="}})
    events: list[Event | DragomanError] = [
        PartStarted(index=0, kind="text", extra=text.extra),
        PartDelta(index=0, text="S"),
        PartDelta(index=0, text="ix"),
        PartEnded(index=0, part=text),
    ]
    assert frames(stream(events)) == [
        {
            "candidates": [
                {"index": 0, "content": {"role": "model", "parts": [{"text": "Six", "thoughtSignature": "QQ=="}]}}
            ]
        }
    ]


@pytest.mark.parametrize(
    ("error", "status", "response_of"),
    [
        (AuthFailed("bad key"), 401, {"code": 401, "message": "bad key", "status": "UNAUTHENTICATED"}),
        (Overloaded("busy"), 503, {"code": 503, "message": "busy", "status": "UNAVAILABLE"}),
        (ServerFault("boom"), 502, {"code": 502, "message": "boom", "status": "INTERNAL"}),
        (InvalidRequest("contents: ?"), 400, {"code": 400, "message": "contents: ?", "status": "INVALID_ARGUMENT"}),
        (
            RateLimited("slow down", retry_after=1.5),
            429,
            {
                "code": 429,
                "message": "slow down",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}],
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors(error: DragomanError, status: int, response_of: JsonObject) -> None:
    reply = WIRE.server.encode_error(error)
    assert reply.status == status
    assert msgspec.json.decode(reply.body) == {"error": response_of}
    assert frames(stream([error])) == [{"error": response_of}]


def test_an_error_ends_an_array() -> None:
    data = stream([Overloaded("busy")], Request(stream=True, extra={"google.alt": "json"}))
    assert msgspec.json.decode(data) == [{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}]


# One value of an enum ---------------------------------------------------------------------------------------------------


def test_a_value_of_an_enum_is_plain_text() -> None:
    config = {"responseMimeType": "text/x.enum", "responseJsonSchema": {"type": "string", "enum": ["a"]}}
    request = decoded(generationConfig=config)
    for text, expected in (('"a"', "a"), ("a", "a"), ("7", "7")):
        parts = (Thinking(text="Hm."), Text(text=text))
        response = Response(message=Message(role="assistant", parts=parts), finish=Finish(reason="stop"))
        body = msgspec.json.decode(WIRE.server.encode_body(response, request).body)
        assert [part["text"] for part in body["candidates"][0]["content"]["parts"]] == ["Hm.", expected]
        encoder = WIRE.server.stream_encoder(request)
        stream = b"".join(encoder.feed(event) for event in to_events(response))
        assert f'{{"text":"{expected}"}}'.encode() in stream
