"""A Request becomes the JSON of generateContent."""

from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    Unsupported,
)
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.google import WIRE
from dragoman.wires.google.parts import encode_part

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
            {"role": "model", "parts": [{"text": "(no text)"}]},
            {"role": "user", "parts": [{"text": "there"}]},
        ]
    }


def test_answers_are_joined_and_messages_of_the_user_stay_apart() -> None:
    assert contents(user("a"), user("b"), assistant("c"), assistant("d"), user("e")) == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "b"}]},
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
    result = ToolResult(
        id="call_1", content=(Text(text="seen"), Opaque(wire="anthropic", data={"type": "x"}, is_optional=True))
    )
    request = Request(messages=(user("?"), assistant(CALL), tool_results(result)))
    assert notices(request, with_quirks(result_media=True)) == [("dropped", "anthropic block (x)")]
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
        ("dropped", "tool bash"),
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
        "role": "user",
        "parts": [{"functionResponse": {"name": "now", "response": {"output": "noon"}}}],
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
    setting = json_instruction({"type": "string"})
    assert body(request, to)["systemInstruction"] == {"parts": [{"text": setting}]}
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
        ("xhigh", {"includeThoughts": True, "thinkingLevel": "XHIGH"}, []),
        ("max", {"includeThoughts": True, "thinkingLevel": "XHIGH"}, ["changed"]),
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
