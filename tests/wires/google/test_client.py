"""Exact JSON that leaves for generateContent, and what its answers mean."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    DragomanError,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    RateLimited,
    TooLarge,
    Truncated,
    Unsupported,
)
from dragoman.events import Assembler, Event, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import Head, HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Finish,
    Image,
    JsonObject,
    Message,
    Notice,
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
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.google import WIRE
from dragoman.wires.google.decoder import GeminiDecoder
from dragoman.wires.google.parts import encode_part
from tests.support.wires import laws

TAPES = Path(__file__).parent / "tapes"
TARGET = target("google/gemini-x", api_key="k")
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
TIDE = Tool(name="tide", description="Tide height", parameters=SCHEMA)
PNG = b"\x89PNG"
PNG_BLOB = {"mimeType": "image/png", "data": "iVBORw=="}
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
OWN_CALL = ToolCall(id="w7", name="tide", arguments={"port": "Brest"}, extra={"google": {"id": "w7"}})


def with_quirks(**quirks: Any) -> Target:
    return msgspec.structs.replace(TARGET, quirks=Quirks(**quirks))


def encode(request: Request, to: Target = TARGET) -> HttpRequest:
    return WIRE.client.encode_request(request, to)


def body(request: Request, to: Target = TARGET) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(encode(request, to).body)
    return decoded


def config(to: Target = TARGET, **options: Any) -> JsonObject:
    found: JsonObject = body(Request(messages=(user("hi"),), **options), to).get("generationConfig", {})
    return found


def contents(*messages: Message, to: Target = TARGET) -> list[JsonObject]:
    found: list[JsonObject] = body(Request(messages=messages), to)["contents"]
    return found


def notices(request: Request, to: Target = TARGET) -> list[tuple[str, str]]:
    return [(notice.kind, notice.what) for notice in encode(request, to).notices]


def read(tape: str) -> Response:
    events, error = laws.read(WIRE.client.stream_decoder(), [(TAPES / tape).read_bytes()])
    assert error is None
    return fold(events)


def fail(tape: str) -> tuple[list[Event], DragomanError]:
    events, error = laws.read(WIRE.client.stream_decoder(), [(TAPES / tape).read_bytes()])
    assert error is not None
    return events, error


def answer(*parts: Any, **candidate: Any) -> Response:
    chunk = {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", **candidate}]}
    return fold(WIRE.client.decode_body(msgspec.json.encode(chunk)))


# Where it goes --------------------------------------------------------------------------------------------------------


def test_the_key_goes_in_the_header_of_google() -> None:
    http = encode(Request(messages=(user("hi"),)))
    assert http.method == "POST"
    assert http.headers == {"content-type": "application/json", "x-goog-api-key": "k"}


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-x", False, "/v1beta/models/gemini-x:generateContent"),
        ("gemini-x", True, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"),
        ("models/gemini-x", False, "/v1beta/models/gemini-x:generateContent"),
        ("tunedModels/tide-7", False, "/v1beta/tunedModels/tide-7:generateContent"),
        ("publishers/google/models/g", False, "/v1beta/publishers/google/models/g:generateContent"),
        ("team/tide", False, "/v1beta/models/team%2Ftide:generateContent"),
    ],
)
def test_the_model_is_in_the_path(model: str, *, stream: bool, path: str) -> None:
    to = msgspec.structs.replace(TARGET, model=model)
    assert encode(Request(messages=(user("hi"),), stream=stream), to).path == path


def test_a_stream_is_asked_for_as_an_array_where_the_client_did() -> None:
    http = encode(Request(messages=(user("hi"),), stream=True, extra={"google.alt": "json"}))
    assert http.path == "/v1beta/models/gemini-x:streamGenerateContent"
    assert b"alt" not in http.body


# What is said ---------------------------------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    assert body(Request(messages=(user("hi"),), system="Be brief.")) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


def test_system_messages_are_folded_into_the_system_instruction() -> None:
    request = Request(system=(Text(text="a"), Text(text="b")), messages=(system("c"), user("hi")))
    assert body(request)["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}


def test_empty_texts_are_left_out() -> None:
    request = Request(system="", messages=(user("hi", ""), assistant(""), user("there")))
    assert body(request) == {
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "user", "parts": [{"text": "there"}]},
        ]
    }


def test_turns_of_one_role_are_merged() -> None:
    assert contents(user("a"), user("b"), assistant("c"), assistant("d"), user("e")) == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
        {"role": "user", "parts": [{"text": "e"}]},
    ]


def test_the_first_turn_is_from_the_user() -> None:
    assert contents(assistant("Ahoy"), user("hi"))[0] == {
        "role": "user",
        "parts": [{"text": "(The conversation begins.)"}],
    }


@pytest.mark.parametrize(
    ("part", "encoded"),
    [
        (Image(data=PNG, mime="image/png"), {"inlineData": PNG_BLOB}),
        (Image(data=PNG), {"inlineData": PNG_BLOB}),
        (
            Image(url="https://example.org/a.webp", mime="image/webp"),
            {"fileData": {"mimeType": "image/webp", "fileUri": "https://example.org/a.webp"}},
        ),
        (
            Image(url="https://example.org/a"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.org/a"}},
        ),
        (
            Image(url="https://example.org/a.PNG?size=1.5#x"),
            {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.PNG?size=1.5#x"}},
        ),
        (
            Image(url="https://example.org/a.jpg"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.org/a.jpg"}},
        ),
        (
            Document(data=b"%PDF", mime="application/pdf"),
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        ),
        (Audio(data=b"RIFF", mime="audio/wav"), {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}),
        (
            Opaque(wire="google", data={"fileData": {"fileUri": "gs://a/b.mp4"}, "videoMetadata": {"fps": 2}}),
            {"fileData": {"fileUri": "gs://a/b.mp4"}, "videoMetadata": {"fps": 2}},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_media(part: Part, encoded: JsonObject) -> None:
    to = msgspec.structs.replace(TARGET, capabilities=Capabilities(image_urls=True))
    assert contents(user("?", part), to=to)[0]["parts"][1] == encoded


def test_a_picture_by_url_is_refused_where_the_target_cannot_fetch_it() -> None:
    picture = Image(url="https://example.org/a.png", mime="image/png")
    with pytest.raises(Unsupported, match="cannot fetch"):
        contents(user(picture))
    result = ToolResult(id="call_1", content=(picture,))
    with pytest.raises(Unsupported, match="cannot fetch"):
        contents(user("?"), assistant(CALL), tool_results(result), to=with_quirks(result_media=True))


def test_a_picture_by_url_that_a_client_of_this_wire_gave_goes_back() -> None:
    picture = Image(url="https://example.org/a.png", mime="image/png", extra={"google": {}})
    file = {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}
    assert contents(user(picture))[0]["parts"] == [{"fileData": file}]


def test_what_stood_in_and_beside_media_goes_back() -> None:
    extra = {"google": {"mediaResolution": {"level": "LOW"}, "inlineData": {"displayName": "a.png"}}}
    assert contents(user(Image(data=PNG, mime="image/png", extra=extra)))[0]["parts"] == [
        {"mediaResolution": {"level": "LOW"}, "inlineData": {**PNG_BLOB, "displayName": "a.png"}}
    ]


def test_a_detail_and_a_document_name_are_noted_as_dropped() -> None:
    named = Document(data=b"%PDF", mime="application/pdf", name="bill.pdf")
    request = Request(messages=(user(named, Image(data=PNG, detail="low")),))
    assert notices(request) == [("dropped", "name of a document"), ("dropped", "detail of an image")]


def test_a_document_name_of_this_wire_goes_back() -> None:
    extra = {"google": {"inlineData": {"displayName": "bill.pdf"}}}
    part = Document(data=b"%PDF", mime="application/pdf", name="bill.pdf", extra=extra)
    assert contents(user(part))[0]["parts"][0]["inlineData"]["displayName"] == "bill.pdf"
    assert notices(Request(messages=(user(part),))) == []


def test_a_result_is_no_part_of_a_content() -> None:
    with pytest.raises(Unsupported):
        encode_part(ToolResult(id="call_1"))


# Thinking and signatures ----------------------------------------------------------------------------------------------


def test_own_thinking_goes_back_as_thoughts_and_foreign_thinking_does_not() -> None:
    parts = (
        Thinking(text="mine", extra={"google": {"thoughtSignature": "c2ln"}}),
        Thinking(text="", redacted=True, extra={"google": {"thoughtSignature": "cmVk"}}),
        Thinking(text="theirs", extra={"anthropic": {"signature": "x"}}),
        Text(text="Six."),
    )
    assert contents(user("?"), Message(role="assistant", parts=parts))[1]["parts"] == [
        {"text": "mine", "thought": True, "thoughtSignature": "c2ln"},
        {"thought": True, "thoughtSignature": "cmVk"},
        {"text": "Six."},
    ]


def test_signatures_go_back_in_their_place() -> None:
    parts = (
        Text(text="A", extra={"google": {"thoughtSignature": "QQ==", "groundingMetadata": {}, "avgLogprobs": -1}}),
        Text(text="", extra={"google": {"thoughtSignature": "Qg=="}}),
        ToolCall(id="w7", name="tide", extra={"google": {"id": "w7", "thoughtSignature": "Qw=="}}),
        ToolCall(id="w8", name="tide", extra={"google": {"id": "w8"}}),
    )
    turn = contents(user("?"), Message(role="assistant", parts=parts))[1]
    assert turn["parts"] == [
        {"text": "A", "thoughtSignature": "QQ=="},
        {"text": "", "thoughtSignature": "Qg=="},
        {"functionCall": {"id": "w7", "name": "tide", "args": {}}, "thoughtSignature": "Qw=="},
        {"functionCall": {"id": "w8", "name": "tide", "args": {}}},
    ]


def test_the_first_call_of_a_step_gets_a_dummy_signature_where_one_is_needed() -> None:
    step = assistant("So:", CALL, ToolCall(id="call_2", name="tide"))
    signed = ToolCall(id="w9", name="tide", extra={"google": {"thoughtSignature": "c2ln"}})
    sent = contents(user("?"), step, user("go on"), assistant(signed), to=with_quirks(thought_signatures=True))
    calls = [part for turn in sent for part in turn["parts"] if "functionCall" in part]
    assert [call.get("thoughtSignature") for call in calls] == ["skip_thought_signature_validator", None, "c2ln"]


def test_no_dummy_signature_where_none_is_needed() -> None:
    assert contents(user("?"), assistant(CALL))[1]["parts"] == [
        {"functionCall": {"name": "tide", "args": {"port": "Brest"}}}
    ]


# Calls and results ----------------------------------------------------------------------------------------------------


def test_only_ids_that_this_wire_gave_are_sent() -> None:
    step = assistant(CALL, OWN_CALL)
    results = tool_results(ToolResult(id="call_1", content="4 m"), ToolResult(id="w7", content="5 m"))
    assert contents(user("?"), step, results)[1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "tide", "args": {"port": "Brest"}}},
                {"functionCall": {"id": "w7", "name": "tide", "args": {"port": "Brest"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "tide", "response": {"output": "4 m"}}},
                {"functionResponse": {"id": "w7", "name": "tide", "response": {"output": "5 m"}}},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("result", "response"),
    [
        (ToolResult(id="call_1", content="4 m"), {"output": "4 m"}),
        (ToolResult(id="call_1", content="no such port", is_error=True), {"error": "no such port"}),
        (ToolResult(id="call_1", content='{"m":4}'), {"output": {"m": 4}}),
        (ToolResult(id="call_1", content='{"m": 4}'), {"output": '{"m": 4}'}),
        (ToolResult(id="call_1", content='{"m":4}', is_error=True), {"error": {"m": 4}}),
        (ToolResult(id="call_1", content="{m}"), {"output": "{m}"}),
        (ToolResult(id="call_1", content="[4]"), {"output": "[4]"}),
        (
            ToolResult(id="call_1", content='{"result":4}', extra={"google": {"response": {"result": 4}}}),
            {"result": 4},
        ),
    ],
    ids=lambda value: str(value.content) if isinstance(value, ToolResult) else "",
)
def test_a_result_is_an_object(result: ToolResult, response: JsonObject) -> None:
    part = contents(user("?"), assistant(CALL), tool_results(result))[2]["parts"][0]
    assert part["functionResponse"]["response"] == response


def test_results_and_text_are_in_two_contents() -> None:
    mixed = Message(role="user", parts=(ToolResult(id="call_1", content="4 m"), Text(text="and Cork?")))
    assert contents(user("?"), assistant(CALL), mixed)[2:] == [
        {"role": "user", "parts": [{"functionResponse": {"name": "tide", "response": {"output": "4 m"}}}]},
        {"role": "user", "parts": [{"text": "and Cork?"}]},
    ]


def test_pictures_of_results_follow_in_a_labelled_turn() -> None:
    result = ToolResult(id="call_1", content=(Text(text="seen"), Image(data=PNG, mime="image/png")))
    assert contents(user("?"), assistant(CALL), tool_results(result))[2:] == [
        {"role": "user", "parts": [{"functionResponse": {"name": "tide", "response": {"output": "seen"}}}]},
        {"role": "user", "parts": [{"text": "From the result of tide (call_1):"}, {"inlineData": PNG_BLOB}]},
    ]


def test_pictures_of_results_stand_inside_where_the_target_takes_them() -> None:
    result = ToolResult(id="call_1", content=(Text(text="seen"), Image(data=PNG, mime="image/png")))
    sent = contents(user("?"), assistant(CALL), tool_results(result), to=with_quirks(result_media=True))
    response = {"name": "tide", "response": {"output": "seen"}, "parts": [{"inlineData": PNG_BLOB}]}
    assert sent[2:] == [{"role": "user", "parts": [{"functionResponse": response}]}]


def test_blocks_of_other_wires_in_results_are_noted_as_dropped() -> None:
    result = ToolResult(id="call_1", content=(Text(text="seen"), Opaque(wire="anthropic", data={"type": "x"})))
    request = Request(messages=(user("?"), assistant(CALL), tool_results(result)))
    assert notices(request, with_quirks(result_media=True)) == [("dropped", "anthropic block in a result")]
    assert b'"x"' not in encode(request, with_quirks(result_media=True)).body


def test_a_call_without_a_result_gets_an_error() -> None:
    assert contents(user("?"), assistant(CALL), user("well?"))[2]["parts"] == [
        {"functionResponse": {"name": "tide", "response": {"error": "result unavailable; do not assume that it ran"}}}
    ]


# Tools ----------------------------------------------------------------------------------------------------------------


def tools(*given: Tool | Opaque) -> list[JsonObject]:
    found: list[JsonObject] = body(Request(messages=(user("hi"),), tools=given))["tools"]
    return found


def test_functions_stand_in_one_entry() -> None:
    search = Opaque(wire="google", data={"googleSearch": {}})
    assert tools(TIDE, search, Tool(name="now")) == [
        {
            "functionDeclarations": [
                {"name": "tide", "description": "Tide height", "parametersJsonSchema": SCHEMA},
                {"name": "now"},
            ]
        },
        {"googleSearch": {}},
    ]


@pytest.mark.parametrize("empty", [{"type": "object"}, {"type": "object", "properties": {}, "required": []}])
def test_a_tool_without_arguments_has_no_parameters(empty: JsonObject) -> None:
    assert tools(Tool(name="now", parameters=empty)) == [{"functionDeclarations": [{"name": "now"}]}]


def test_parameters_that_a_client_of_this_wire_wrote_go_as_they_are() -> None:
    extra = {"google": {"parameters": {"type": "OBJECT"}, "behavior": "BLOCKING"}}
    assert tools(Tool(name="now", parameters={"type": "object", "minProperties": 1}, extra=extra)) == [
        {"functionDeclarations": [{"name": "now", "parameters": {"type": "OBJECT"}, "behavior": "BLOCKING"}]}
    ]


def test_a_schema_is_fitted_and_what_it_loses_is_told() -> None:
    parameters = {"type": "object", "properties": {"port": {"type": "string", "minLength": 2, "const": "Brest"}}}
    request = Request(messages=(user("hi"),), tools=(Tool(name="tide", parameters=parameters),))
    declared = body(request)["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert declared["properties"]["port"]["enum"] == ["Brest"]
    assert "minLength" not in declared["properties"]["port"]
    assert ("dropped", "tools.tide.properties.port: minLength") in notices(request)


def test_strict_and_foreign_tools_are_noted_as_dropped() -> None:
    foreign = Opaque(wire="anthropic", data={"type": "bash"})
    request = Request(messages=(user("hi"),), tools=(Tool(name="now", strict=True), foreign))
    assert notices(request) == [
        ("dropped", "hosted tool"),
        ("dropped", "tool now: strict"),
    ]


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("tide", {"mode": "ANY", "allowedFunctionNames": ["tide"]}),
    ],
)
def test_forced_choice(choice: str, calling: JsonObject) -> None:
    request = Request(messages=(user("hi"),), tools=(TIDE,), tool_choice=choice)
    assert body(request)["toolConfig"] == {"functionCallingConfig": calling}


@pytest.mark.parametrize(("choice", "noted"), [("auto", []), ("required", [("dropped", "tool_choice")])])
def test_a_choice_without_functions_is_not_sent(choice: str, noted: list[tuple[str, str]]) -> None:
    request = Request(messages=(user("hi"),), tool_choice=choice)
    assert "toolConfig" not in body(request)
    assert notices(request) == noted


def test_what_a_client_said_of_functions_wins() -> None:
    theirs = {"functionCallingConfig": {"mode": "VALIDATED"}, "retrievalConfig": {"languageCode": "fr"}}
    request = Request(
        messages=(user("hi"),), tools=(TIDE,), tool_choice="auto", extra={"google": {"toolConfig": theirs}}
    )
    assert body(request)["toolConfig"] == theirs


def test_the_rest_of_a_tool_config_stands_beside_the_choice() -> None:
    theirs = {"retrieval_config": {"languageCode": "fr"}}
    request = Request(
        messages=(user("hi"),), tools=(TIDE,), tool_choice="none", extra={"google": {"toolConfig": theirs}}
    )
    assert body(request)["toolConfig"] == {
        "functionCallingConfig": {"mode": "NONE"},
        "retrievalConfig": {"languageCode": "fr"},
    }


def test_tools_and_results_by_themselves() -> None:
    tools = (Tool(name="now"), Opaque(wire="anthropic", data={"type": "bash"}))
    assert WIRE.client.encode_tools(tools) == [{"functionDeclarations": [{"name": "now"}]}]
    assert WIRE.client.encode_result(ToolResult(id="call_1", name="now", content="noon")) == {
        "functionResponse": {"name": "now", "response": {"output": "noon"}}
    }


# Options --------------------------------------------------------------------------------------------------------------


def test_options_are_in_the_generation_config() -> None:
    assert config(
        temperature=0.0, top_p=0.5, top_k=7, max_tokens=100, stop=("END",), seed=-3, parallel_tool_calls=True
    ) == {
        "temperature": 0.0,
        "topP": 0.5,
        "topK": 7,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "seed": -3,
    }


def test_options_that_a_target_has_not_are_noted_as_dropped() -> None:
    request = Request(messages=(user("hi"),), temperature=0.2, stop=("END",), user="u", metadata={"a": "b"})
    to = with_quirks(sampling=False, stop=False)
    assert notices(request, to) == [
        ("dropped", "temperature"),
        ("dropped", "stop"),
        ("dropped", "user"),
        ("dropped", "metadata"),
    ]
    assert "generationConfig" not in body(request, to)


def test_an_option_that_the_caller_insists_on_is_sent() -> None:
    theirs = {"temperature": 0.2, "topP": 0.5, "topK": 7, "stopSequences": ["END"]}
    extra = {"google": {"generationConfig": theirs}}
    request = Request(messages=(user("hi"),), temperature=0.2, top_p=0.5, top_k=7, stop=("END",), extra=extra)
    to = with_quirks(sampling=False, stop=False)
    assert notices(request, to) == []
    assert body(request, to)["generationConfig"] == theirs


def test_one_call_at_a_time_cannot_be_asked_for() -> None:
    request = Request(messages=(user("hi"),), tools=(TIDE,), parallel_tool_calls=False)
    assert notices(request) == [("dropped", "parallel_tool_calls")]
    with pytest.raises(Unsupported, match="parallel_tool_calls"):
        encode(msgspec.structs.replace(request, strict=True))


def test_only_five_stops_are_taken() -> None:
    request = Request(messages=(user("hi"),), stop=tuple("abcdef"))
    assert body(request)["generationConfig"] == {"stopSequences": list("abcde")}
    assert notices(request) == [("dropped", "stop")]


def test_a_seed_has_32_bits() -> None:
    request = Request(messages=(user("hi"),), seed=2**31 + 5)
    assert body(request)["generationConfig"] == {"seed": 5}
    assert notices(request) == [("changed", "seed")]


def test_no_more_tokens_are_asked_for_than_the_target_can() -> None:
    to = msgspec.structs.replace(TARGET, capabilities=Capabilities(max_output=100))
    assert config(to, max_tokens=100) == {"maxOutputTokens": 100}
    assert config(to, max_tokens=101) == {"maxOutputTokens": 100}
    assert notices(Request(messages=(user("hi"),), max_tokens=101), to) == [("changed", "max_tokens")]


def test_a_choice_that_cannot_be_forced_is_left_to_the_model() -> None:
    to = msgspec.structs.replace(TARGET, capabilities=Capabilities(forced_choice=False))
    request = Request(messages=(user("hi"),), tools=(TIDE,), tool_choice="tide")
    assert body(request, to)["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}
    assert notices(request, to) == [("changed", "tool_choice")]


@pytest.mark.parametrize(("reasoning", "noted"), [("none", []), ("low", [("dropped", "reasoning")])])
def test_a_model_that_does_not_think_is_not_asked_to(reasoning: Any, noted: list[tuple[str, str]]) -> None:
    to = msgspec.structs.replace(TARGET, capabilities=Capabilities(thinking=False))
    request = Request(messages=(user("hi"),), reasoning=reasoning)
    assert "generationConfig" not in body(request, to)
    assert notices(request, to) == noted


def test_structured_output() -> None:
    assert config(schema=SCHEMA) == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert config(schema={}) == {"responseMimeType": "application/json"}


def test_a_response_schema_is_fitted() -> None:
    request = Request(messages=(user("hi"),), schema={"type": "object", "properties": {}, "minProperties": 1})
    assert "minProperties" not in body(request)["generationConfig"]["responseJsonSchema"]
    assert ("dropped", "schema: minProperties") in notices(request)


def test_a_schema_beside_functions_is_asked_for_in_words_where_it_must() -> None:
    request = Request(messages=(user("hi"),), schema={"type": "string"}, tools=(TIDE,))
    to = with_quirks(schema_with_tools=False)
    wish = json_instruction({"type": "string"})
    assert body(request, to)["systemInstruction"] == {"parts": [{"text": wish}]}
    assert "generationConfig" not in body(request, to)
    assert notices(request, to) == [("changed", "schema")]


def test_a_schema_alone_is_a_schema() -> None:
    assert "responseJsonSchema" in config(with_quirks(schema_with_tools=False), schema=SCHEMA)


@pytest.mark.parametrize(
    ("theirs", "sent"),
    [
        (
            {"responseSchema": {"type": "OBJECT"}},
            {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}},
        ),
        ({"response_format": {"text": {}}}, {"responseFormat": {"text": {}}}),
        (
            {"candidateCount": 2},
            {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA, "candidateCount": 2},
        ),
    ],
)
def test_the_config_of_the_caller_wins(theirs: JsonObject, sent: JsonObject) -> None:
    assert config(schema=SCHEMA, extra={"google": {"generationConfig": theirs}}) == sent


def test_fields_of_the_caller_are_merged_into_the_body() -> None:
    extra: JsonObject = {
        "google": {"safety_settings": [], "cachedContent": "cachedContents/a"},
        "openai_chat": {"n": 2},
    }
    request = Request(messages=(user("hi"),), extra=extra)
    assert body(request) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "safetySettings": [],
        "cachedContent": "cachedContents/a",
    }
    assert notices(request) == [("dropped", "openai_chat: n")]


@pytest.mark.parametrize(
    ("reasoning", "sent"),
    [
        ("none", {"thinkingBudget": 0}),
        ("low", {"includeThoughts": True, "thinkingBudget": 2048}),
        ("max", {"includeThoughts": True, "thinkingBudget": 24576}),
        (30000, {"includeThoughts": True, "thinkingBudget": 30000}),
    ],
)
def test_thinking_is_asked_for_by_a_budget(reasoning: Any, sent: JsonObject) -> None:
    assert config(reasoning=reasoning) == {"thinkingConfig": sent}


@pytest.mark.parametrize(
    ("reasoning", "sent", "noted"),
    [
        ("none", {"thinkingLevel": "MINIMAL"}, ["changed"]),
        ("minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}, []),
        ("medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}, []),
        ("max", {"includeThoughts": True, "thinkingLevel": "HIGH"}, ["changed"]),
        (2000, {"includeThoughts": True, "thinkingLevel": "LOW"}, ["changed"]),
    ],
)
def test_thinking_is_asked_for_by_a_level_where_the_target_takes_one(
    reasoning: Any, sent: JsonObject, noted: list[str]
) -> None:
    to = with_quirks(reasoning="level")
    request = Request(messages=(user("hi"),), reasoning=reasoning)
    assert body(request, to)["generationConfig"] == {"thinkingConfig": sent}
    assert [kind for kind, _ in notices(request, to)] == noted


def test_a_level_that_a_target_has_not_becomes_the_nearest() -> None:
    to = with_quirks(reasoning="level", efforts=("low", "medium", "high"))
    assert config(to, reasoning="minimal") == {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"}}


def test_a_model_that_may_not_think_beside_tools_does_not() -> None:
    request = Request(messages=(user("hi"),), tools=(TIDE,), reasoning="low")
    to = with_quirks(reasoning_with_tools=False)
    assert body(request, to)["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}}
    assert notices(request, to) == [("changed", "reasoning")]


def test_a_thinking_config_of_the_caller_wins() -> None:
    theirs = {"thinkingConfig": {"thinkingLevel": "HIGH"}}
    assert config(reasoning="low", extra={"google": {"generationConfig": theirs}}) == theirs


# Answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tape", ["hello.sse", "hello.array", "hello_done.sse"])
def test_a_text_comes_in_any_form(tape: str) -> None:
    response = read(tape)
    assert response.message == assistant("High water at six: née marée.")
    assert response.finish == Finish(reason="stop", raw="STOP")
    assert response.usage == Usage(input=9, output=11)
    assert (response.id, response.model) == ("rIdeEbb", "gemini-9-tide")


def test_a_whole_object_in_place_of_a_stream_is_read() -> None:
    assert read("hello_whole.array").text == "née marée."


def test_texts_are_deltas_of_one_part() -> None:
    events, _ = laws.read(WIRE.client.stream_decoder(), [(TAPES / "hello.sse").read_bytes()])
    assert events[:4] == [
        Started(id="rIdeEbb", model="gemini-9-tide"),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="High water "),
        PartDelta(index=0, text="at six: "),
    ]
    assert events[5] == PartEnded(index=0, part=Text(text="High water at six: née marée."))


def test_thoughts_and_calls() -> None:
    response = read("tools.sse")
    assert response.message.parts == (
        Thinking(text="**Two ports**\n\nI need both tides.", extra={"google": {}}),
        ToolCall(
            id="w71i0cbt",
            name="get_tide",
            arguments={"port": "Brest"},
            extra={"google": {"id": "w71i0cbt", "thoughtSignature": "CiQBsig1"}},
        ),
        ToolCall(id="p0aa91xe", name="get_tide", arguments={"port": "Cork"}, extra={"google": {"id": "p0aa91xe"}}),
    )
    ending = {"google": {"finishMessage": "Model generated function call(s)."}}
    assert response.finish == Finish(reason="tool_calls", raw="STOP", extra=ending)
    assert response.usage == Usage(input=120, output=111, reasoning=75)


def test_an_empty_id_is_none() -> None:
    (call,) = answer({"functionCall": {"name": "now", "id": ""}}).tool_calls
    assert call == ToolCall(id="call_1", name="now", extra={"google": {}})


def test_calls_without_ids_are_counted_over_the_conversation() -> None:
    request = Request(messages=(user("?"), assistant(CALL), tool_results(ToolResult(id="call_1"))))
    data = (TAPES / "tools_no_ids.sse").read_bytes()
    events, _ = laws.read(WIRE.client.stream_decoder(request), [data])
    assert fold(events).tool_calls == (
        ToolCall(id="call_2", name="get_tide", arguments={"port": "Brest"}, extra={"google": {}}),
        ToolCall(id="call_3", name="now", extra={"google": {}}),
    )


def test_an_empty_text_with_a_signature_is_a_part() -> None:
    assert read("signed_text.sse").message.parts == (
        Text(text="Ebb at noon."),
        Text(text="", extra={"google": {"thoughtSignature": "EpEBsig2"}}),
    )


def test_a_signature_stays_on_its_own_part() -> None:
    assert read("signed_middle.sse").message.parts == (
        Text(text="A"),
        Text(text="B", extra={"google": {"thoughtSignature": "c2lnQg=="}}),
        Text(text="C"),
        Thinking(text="D", extra={"google": {}}),
        Thinking(text="E", extra={"google": {"thoughtSignature": "c2lnRQ=="}}),
    )


def test_a_blocked_prompt_has_no_candidates() -> None:
    response = read("blocked_prompt.sse")
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "Not on this coast."}
    assert response.message.parts == ()
    assert response.finish == Finish(
        reason="blocked", raw="PROHIBITED_CONTENT", extra={"google": {"promptFeedback": feedback}}
    )
    assert response.usage == Usage(input=7, output=0)


@pytest.mark.parametrize(
    ("feedback", "raw"),
    [
        ({"blockReason": "JAILBREAK"}, "JAILBREAK"),
        ({"blockReasonMessage": "Not on this coast."}, None),
        ({"blockReason": "BLOCKED_REASON_UNSPECIFIED", "blockReasonMessage": "No."}, "BLOCKED_REASON_UNSPECIFIED"),
    ],
)
def test_a_prompt_may_be_blocked_with_or_without_a_word(feedback: JsonObject, raw: str | None) -> None:
    body = msgspec.json.encode({"candidates": [], "promptFeedback": feedback})
    finish = Finish(reason="blocked", raw=raw, extra={"google": {"promptFeedback": feedback}})
    assert fold(WIRE.client.decode_body(body)).finish == finish
    events, error = laws.read(WIRE.client.stream_decoder(), [b"data: %b\n\n" % body])
    assert error is None
    assert fold(events).finish == finish


@pytest.mark.parametrize("feedback", [{"safetyRatings": []}, {"blockReason": "BLOCK_REASON_UNSPECIFIED"}])
def test_what_is_told_of_a_prompt_blocks_nothing_by_itself(feedback: JsonObject) -> None:
    said = {"content": {"parts": [{"text": "Ebb."}]}, "finishReason": "STOP"}
    body = msgspec.json.encode({"candidates": [said], "promptFeedback": feedback})
    assert fold(WIRE.client.decode_body(body)).finish == Finish(reason="stop", raw="STOP")


def test_a_response_that_a_model_gives_is_kept_as_it_is() -> None:
    part = {"functionResponse": {"name": "tide", "response": {"output": "4.2 m"}}}
    assert answer(part).message.parts == (Opaque(wire="google", data=part),)


def test_a_thought_that_says_nothing_is_no_part() -> None:
    assert answer({"thought": True}, {"text": "Ebb."}).message.parts == (Text(text="Ebb."),)


def test_blank_events_are_passed_over() -> None:
    data = b"data:\n\n" + (TAPES / "blocked_prompt.sse").read_bytes()
    events, _ = laws.read(WIRE.client.stream_decoder(), [data])
    assert fold(events) == read("blocked_prompt.sse")


def test_what_is_told_of_a_blocked_answer_is_with_its_text() -> None:
    response = read("blocked_answer.sse")
    ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True}]
    assert response.message.parts == (Text(text="First ", extra={"google": {"safetyRatings": ratings}}),)
    assert response.finish == Finish(reason="blocked", raw="SAFETY")


def test_all_tokens_may_be_thoughts() -> None:
    response = read("thought_out.sse")
    assert response.is_empty
    assert response.finish == Finish(reason="length", raw="MAX_TOKENS")
    assert response.usage == Usage(input=15, output=64, reasoning=64)


def test_grounding_and_citations_grow_with_the_text() -> None:
    response = read("grounded.sse")
    sources = [
        {"startIndex": 0, "endIndex": 4, "uri": "https://example.org/a"},
        {"startIndex": 5, "endIndex": 9, "uri": "https://example.org/b"},
    ]
    chunks = [{"web": {"uri": "https://example.org/a", "title": "Tides"}}]
    notes = {
        "groundingMetadata": {"webSearchQueries": ["neap tide"], "groundingChunks": chunks},
        "citationMetadata": {"citationSources": sources},
        "avgLogprobs": -0.25,
    }
    assert response.message.parts == (Text(text="Neap tides.", extra={"google": notes}),)
    assert response.usage == Usage(input=52, output=4)


def test_notes_that_repeat_the_earlier_ones_are_not_doubled() -> None:
    queries = {"webSearchQueries": ["a"]}
    more = {"webSearchQueries": ["a", "b"]}
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "groundingMetadata": queries}]},
        {"candidates": [{"groundingMetadata": more, "finishReason": "STOP"}]},
    ]
    response = fold(WIRE.client.decode_body(msgspec.json.encode(chunks)))
    assert response.message.parts == (Text(text="x", extra={"google": {"groundingMetadata": more}}),)


def test_of_a_note_that_is_no_list_the_last_stands() -> None:
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "groundingMetadata": {"token": "a"}}]},
        {"candidates": [{"groundingMetadata": {"token": "b"}, "finishReason": "STOP"}]},
    ]
    response = fold(WIRE.client.decode_body(msgspec.json.encode(chunks)))
    assert response.message.parts == (Text(text="x", extra={"google": {"groundingMetadata": {"token": "b"}}}),)


def test_notes_without_a_text_are_with_the_finish() -> None:
    response = answer({"functionCall": {"name": "now"}}, avgLogprobs=-0.5)
    assert response.finish == Finish(reason="tool_calls", raw="STOP", extra={"google": {"avgLogprobs": -0.5}})


def test_notes_of_a_text_stay_with_it_when_a_call_follows() -> None:
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "avgLogprobs": -0.5}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "now"}}]}, "finishReason": "STOP"}]},
    ]
    response = fold(WIRE.client.decode_body(msgspec.json.encode(chunks)))
    assert response.message.parts[0] == Text(text="x", extra={"google": {"avgLogprobs": -0.5}})


def test_blocks_of_server_tools_are_kept_in_their_place() -> None:
    assert read("code.sse").message.parts == (
        Opaque(
            wire="google",
            data={"executableCode": {"language": "PYTHON", "code": "print(6*7)"}, "thoughtSignature": "c2lnMw=="},
        ),
        Opaque(wire="google", data={"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}),
        Text(text="It is 42."),
    )


def test_pictures_of_the_model_are_images() -> None:
    assert read("picture.sse").message.parts == (
        Text(text="Here: "),
        Image(data=b"\x89PNG\r\n\x1a\n", mime="image/png", extra={"google": {"thoughtSignature": "c2lnNA=="}}),
    )


def test_a_picture_that_is_a_thought_is_no_answer() -> None:
    blob = {"mimeType": "image/png", "data": "iVBORw0KGgo="}
    assert read("thought_picture.sse").message.parts == (
        Opaque(wire="google", data={"inlineData": blob, "thought": True}),
        Thinking(text="", redacted=True, extra={"google": {"thoughtSignature": "c2lnNg=="}}),
        Text(text="Done."),
    )


def test_partial_arguments_become_whole_calls() -> None:
    assert read("partial_arguments.sse").tool_calls == (
        ToolCall(
            id="q1",
            name="plan",
            arguments={
                "port": "Saint-Malo",
                "legs": [{"hours": 6, "night": False}, {"hours": 1.5}],
                "note": None,
                "tags": ["spring"],
            },
            extra={"google": {"id": "q1", "thoughtSignature": "c2lnNQ=="}},
        ),
        ToolCall(id="call_2", name="now", extra={"google": {}}),
        ToolCall(id="call_3", name="later", arguments={"days": 2}, extra={"google": {}}),
    )


def test_a_call_that_the_length_limit_cut_off_is_left_out() -> None:
    response = read("partial_cut.sse")
    assert response.tool_calls == ()
    why = 'the length limit cut its arguments off: {"port":"Saint-Malo"}'
    assert response.notices == (Notice(kind="dropped", what="tool call plan", why=why),)


def test_a_call_that_is_open_at_the_end_is_taken() -> None:
    response = answer({"functionCall": {"name": "now", "willContinue": True}})
    assert [call.name for call in response.tool_calls] == ["now"]


def test_partial_arguments_grow_where_there_is_text_and_replace_all_else() -> None:
    pieces: list[Any] = [
        {"jsonPath": "$.port", "stringValue": "rest"},
        {"jsonPath": "$.note", "stringValue": "neap"},
        {"jsonPath": "$.note", "numberValue": 4},
        {"jsonPath": "$.tags[0]", "stringValue": "a"},
        {"jsonPath": "$.tags[0]", "stringValue": "b"},
    ]
    call = {"name": "plan", "args": {"port": "B"}, "partialArgs": pieces}
    assert answer({"functionCall": call}).tool_calls[0].arguments == {"port": "Brest", "note": 4, "tags": ["ab"]}


def test_members_of_a_call_that_are_unknown_are_kept() -> None:
    response = answer({"functionCall": {"name": "now", "mood": "calm"}})
    assert response.tool_calls[0].extra == {"google": {"functionCall": {"mood": "calm"}}}


def test_partial_arguments_have_a_limit() -> None:
    reader = GeminiDecoder(None)
    reader.out = Assembler(limit=10)
    call = {"name": "now", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x" * 11}]}
    with pytest.raises(TooLarge):
        reader.read_body(msgspec.json.encode({"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}))


def test_calls_and_notes_have_a_limit() -> None:
    for candidate in ({"content": {"parts": [{"functionCall": {"name": "now"}}]}}, {"avgLogprobs": -0.123456789}):
        reader = GeminiDecoder(None)
        reader.out = Assembler(limit=10)
        with pytest.raises(TooLarge):
            reader.read_body(msgspec.json.encode({"candidates": [candidate]}))


def test_several_candidates_are_told() -> None:
    response = read("two_candidates.sse")
    assert response.text == "first"
    why = "the answer has 2 candidates; only the first is used"
    assert response.notices == (Notice(kind="info", what="candidates", why=why),)


def test_a_malformed_call_is_another_finish() -> None:
    ending = {"google": {"finishMessage": "Malformed function call: tide("}}
    assert read("malformed_call.sse").finish == Finish(reason="other", raw="MALFORMED_FUNCTION_CALL", extra=ending)


def test_what_is_unknown_is_tolerated() -> None:
    response = read("unknown.sse")
    assert response.message.parts == (
        Text(text="High water "),
        Opaque(wire="google", data={"futurePart": {"a": 1}}),
        Text(text=" yes"),
    )
    assert response.finish == Finish(reason="other", raw="NEW_REASON")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "blocked"),
        ("RECITATION", "blocked"),
        ("IMAGE_SAFETY", "blocked"),
        ("MODEL_ARMOR", "blocked"),
        ("UNEXPECTED_TOOL_CALL", "other"),
        ("MISSING_THOUGHT_SIGNATURE", "other"),
        ("CONTINUATION", "pause"),
    ],
)
def test_finish_reasons(word: str, reason: Any) -> None:
    assert answer({"text": "x"}, finishReason=word).finish == Finish(reason=reason, raw=word)


def test_a_continuation_keeps_its_token() -> None:
    finish = answer({"text": "x"}, finishReason="CONTINUATION", continuationToken="dG9r").finish
    assert finish.extra == {"google": {"continuationToken": "dG9r"}}


def test_plain_texts_of_a_body_are_one_text() -> None:
    assert answer({"text": "a"}, {"text": "b"}).message == assistant("ab")


def test_a_body_in_snake_case_is_read() -> None:
    parts = ({"inline_data": {"mime_type": "audio/wav", "data": "UklGRg"}}, {"function_call": {"name": "now"}})
    assert answer(*parts).message.parts == (
        Audio(data=b"RIFF", mime="audio/wav"),
        ToolCall(id="call_1", name="now", extra={"google": {}}),
    )


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {
                "promptTokenCount": "100",
                "cachedContentTokenCount": 60,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "toolUsePromptTokenCount": 20,
                "totalTokenCount": 132,
            },
            Usage(input=120, output=12, cache_read=60, reasoning=7),
        ),
        ({"promptTokenCount": 10, "totalTokenCount": 10}, Usage(input=10, output=0)),
        ({"promptTokenCount": 10}, Usage(input=10)),
        ({"candidatesTokenCount": 3}, Usage(output=3)),
        ({"trafficType": "ON_DEMAND"}, Usage(source="unknown")),
    ],
)
def test_usage(told: JsonObject, usage: Usage) -> None:
    chunk = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": told}
    assert fold(WIRE.client.decode_body(msgspec.json.encode(chunk))).usage == usage


@pytest.mark.parametrize(
    ("moment", "created"),
    [("2026-04-02T17:03:50.399550Z", 1775149430), ("2026-04-02T17:03:50", None), ("soon", None), (None, None)],
)
def test_the_time_of_an_answer(moment: str | None, created: int | None) -> None:
    chunk = {"candidates": [{"finishReason": "STOP"}], "createTime": moment}
    assert fold(WIRE.client.decode_body(msgspec.json.encode(chunk))).created == created


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tape", ["no_farewell.sse", "unspecified.sse"])
def test_a_stream_without_a_finish_reason_is_truncated(tape: str) -> None:
    events, error = fail(tape)
    assert isinstance(error, Truncated)
    assert isinstance(events[-1], PartDelta)


@pytest.mark.parametrize("data", [b"", b"  \r\n"])
def test_an_empty_stream_is_truncated(data: bytes) -> None:
    _, error = laws.read(WIRE.client.stream_decoder(), [data])
    assert isinstance(error, Truncated)


@pytest.mark.parametrize("tape", ["error_frame.sse", "error_bare.sse"])
def test_an_error_in_the_middle_of_a_stream(tape: str) -> None:
    events, error = fail(tape)
    assert isinstance(events[-1], PartDelta)
    assert isinstance(error, Overloaded)
    assert (error.status, error.usage) == (503, Usage(input=9, output=0, source="partial"))


def test_an_error_after_the_finish_reason_is_an_error() -> None:
    _, error = fail("error_after_stop.txt")
    assert isinstance(error, Overloaded)
    assert str(error) == "The model is overloaded. Try later."


def test_an_error_in_an_array_tells_when_to_come_back() -> None:
    _, error = fail("error_in_array.array")
    assert isinstance(error, RateLimited)
    assert error.retry_after == 1.5


def test_an_error_in_place_of_a_stream() -> None:
    _, error = fail("error_only.array")
    assert isinstance(error, AuthFailed)


@pytest.mark.parametrize("form", [b"%b", b"[%b]"])
def test_an_error_in_a_200(form: bytes) -> None:
    with pytest.raises(Overloaded, match="busy"):
        WIRE.client.decode_body(form % b'{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}')


@pytest.mark.parametrize("data", [b"{}", b'{"hello":1}', b"[]", b"<html>", b'"x"'])
def test_a_body_that_is_no_answer_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        WIRE.client.decode_body(data)


def test_a_body_that_breaks_off_is_truncated() -> None:
    with pytest.raises(Truncated):
        WIRE.client.decode_body(b'{"candidates":[{"content"')


def test_an_answer_without_candidates_is_empty() -> None:
    response = fold(WIRE.client.decode_body(b'{"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}'))
    assert response.is_empty
    assert response.finish == Finish(reason="other")


def test_an_error_has_the_usage_that_was_told_before_it() -> None:
    chunk: JsonObject = {
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
        "candidates": [{"content": {"parts": [{"text": 1}]}}],
    }
    with pytest.raises(Malformed) as caught:
        WIRE.client.decode_body(msgspec.json.encode(chunk))
    assert caught.value.usage == Usage(input=3, output=2, source="partial")


def test_arguments_that_are_no_object_are_a_malformed_call() -> None:
    with pytest.raises(MalformedToolCall):
        answer({"functionCall": {"name": "now", "args": [1]}})


@pytest.mark.parametrize(
    "part", [{"inlineData": {"mimeType": "image/png", "data": "?"}}, {"text": 1}, {"inlineData": 1}]
)
def test_a_broken_part_is_malformed(part: JsonObject) -> None:
    with pytest.raises(Malformed):
        answer(part)


@pytest.mark.parametrize(
    ("status", "error", "kind", "facts"),
    [
        (
            400,
            {
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
            },
            AuthFailed,
            {},
        ),
        (400, {"message": "User location is not supported.", "status": "FAILED_PRECONDITION"}, BadRequest, {}),
        (402, {"message": "Credits are used up.", "status": "RESOURCE_EXHAUSTED"}, RateLimited, {"retry": False}),
        (
            429,
            {
                "message": "Quota exceeded.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}],
            },
            RateLimited,
            {"retry": True, "retry_after": 37.0},
        ),
        (
            429,
            {
                "message": "Quota exceeded.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]},
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
                ],
            },
            RateLimited,
            {"retry": False, "fail_over": True},
        ),
        (404, {"message": "models/x is not found", "status": "NOT_FOUND"}, ModelNotFound, {}),
        (503, {"message": "overloaded", "status": "UNAVAILABLE"}, Overloaded, {"retry": True}),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_errors(status: int, error: JsonObject, kind: type[DragomanError], facts: dict[str, Any]) -> None:
    told = WIRE.client.decode_error(Head(status=status), msgspec.json.encode({"error": {"code": status, **error}}))
    assert type(told) is kind
    assert {name: getattr(told, name) for name in facts} == facts
