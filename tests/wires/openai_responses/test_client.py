"""What we send to the Responses API, byte for byte, and what we read of its answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    InvalidRequest,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFault,
    TooLarge,
    Truncated,
    Unsupported,
)
from dragoman.events import MAX_OPEN, Assembler, Event, PartDelta, PartEnded, PartStarted, fold
from dragoman.http import Head
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Citation,
    Document,
    Finish,
    FinishReason,
    HostedCall,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.common.framing import SseDecoder
from dragoman.wires.common.stream_decoder import FramedStreamDecoder
from dragoman.wires.openai_responses import WIRE
from dragoman.wires.openai_responses.decoder import ResponsesDecoder
from tests.support.wires.laws import obeys_grammar, read

CLIENT = WIRE.client
NAME = "openai_responses"
TAPES = Path(__file__).parent / "tapes"
TARGET = target("openai-responses/gpt-x", api_key="k")
PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
STRICT = {**PORT, "additionalProperties": False}
TIDE = Tool(name="tide", description="Tide height", parameters=PORT)
TIDE_JSON = {"type": "function", "name": "tide", "description": "Tide height", "parameters": PORT, "strict": False}
HI = user("Hi")
HI_JSON = {"type": "message", "role": "user", "content": "Hi"}
NOTE = {
    "type": "url_citation",
    "url": "https://example.org/tides",
    "title": "Tides",
    "start_index": 0,
    "end_index": 4,
}
CITED = (Citation(url="https://example.org/tides", title="Tides", start=0, end=4),)


def encoded_body(request: Request, to: Target = TARGET) -> JsonObject:
    body: JsonObject = msgspec.json.decode(CLIENT.encode_request(request, to).body)
    return body


def notices(request: Request, to: Target = TARGET) -> list[tuple[str, str]]:
    return [(notice.kind, notice.what) for notice in CLIENT.encode_request(request, to).notices]


def items(*messages: Message, to: Target = TARGET) -> list[JsonObject]:
    found: list[JsonObject] = encoded_body(Request(messages=messages), to)["input"]
    return found


def option(**options: Any) -> JsonObject:
    """What a request with these options has beside a plain one."""
    plain = encoded_body(Request(messages=(HI,)))
    return {
        key: value
        for key, value in encoded_body(Request(messages=(HI,), **options)).items()
        if value != plain.get(key, ...)
    }


def quirky(**quirks: Any) -> Target:
    return msgspec.structs.replace(TARGET, quirks=Quirks(**quirks))


def wire_data(**extra: Any) -> dict[str, JsonObject]:
    return {NAME: extra}


def play(tape: str) -> tuple[list[Event], DragomanError | None]:
    return read(CLIENT.stream_decoder(), [(TAPES / tape).read_bytes()])


def response_of_tape(tape: str) -> Response:
    events, error = play(tape)
    assert error is None
    return fold(events)


def parts(tape: str) -> tuple[Part, ...]:
    return response_of_tape(tape).message.parts


def body(*output: JsonObject, **more: Any) -> bytes:
    return msgspec.json.encode({"id": "resp_1", "status": "completed", "output": output, **more})


def answer(*output: JsonObject, **more: Any) -> Response:
    return fold(CLIENT.decode_body(body(*output, **more)))


def message_item(*content: JsonObject, **more: Any) -> JsonObject:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


# What we send ---------------------------------------------------------------------------------------------------------


def test_a_plain_request_is_private_and_asks_for_encrypted_reasoning() -> None:
    assert encoded_body(Request(messages=(HI,))) == {
        "model": "gpt-x",
        "input": [HI_JSON],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_a_request_goes_to_responses_with_its_key() -> None:
    http = CLIENT.encode_request(Request(messages=(HI,)), TARGET)
    assert (http.method, http.url) == ("POST", "https://api.openai.com/v1/responses")
    assert http.headers["authorization"] == "Bearer k"


def test_the_callers_own_store_survives() -> None:
    assert encoded_body(Request(messages=(HI,), extra=wire_data(store=True)))["store"] is True


@pytest.mark.parametrize(
    "state", [{"previous_response_id": "resp_0"}, {"conversation": "conv_1"}, {"background": True}]
)
def test_a_request_that_needs_the_servers_memory_does_not_forbid_it(state: JsonObject) -> None:
    fields = encoded_body(Request(messages=(HI,), extra={NAME: state}))
    assert "store" not in fields
    assert {key: fields[key] for key in state} == state


def test_the_callers_include_is_kept_beside_ours() -> None:
    given = wire_data(include=["message.output_text.logprobs"])
    wanted = ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert encoded_body(Request(messages=(HI,), extra=given))["include"] == wanted
    assert encoded_body(Request(messages=(HI,), extra=wire_data(include=wanted)))["include"] == wanted


def test_a_model_that_does_not_think_is_not_asked_for_encrypted_reasoning() -> None:
    plain = msgspec.structs.replace(TARGET, capabilities=Capabilities(thinking=False))
    assert "include" not in encoded_body(Request(messages=(HI,)), plain)


def test_unknown_options_are_merged_verbatim() -> None:
    extra = wire_data(truncation="auto", context_management=[{"type": "compaction"}], prompt={"id": "pmpt_1"})
    assert option(extra=extra) == extra[NAME]


def test_a_request_without_messages_has_no_input() -> None:
    assert "input" not in encoded_body(Request(extra=wire_data(prompt={"id": "pmpt_1"})))


def test_streaming_is_asked_for() -> None:
    request = Request(messages=(HI,), stream=True, extra=wire_data(stream_options={"include_obfuscation": False}))
    assert encoded_body(request)["stream"] is True
    assert encoded_body(request)["stream_options"] == {"include_obfuscation": False}


def test_stream_options_are_for_streams_only() -> None:
    assert option(extra=wire_data(stream_options={"include_obfuscation": False})) == {}


def test_system_is_instructions() -> None:
    assert option(system="Be brief.") == {"instructions": "Be brief."}
    assert option(system=(Text(text="Be brief."), Text(text="Be kind."))) == {"instructions": "Be brief.\n\nBe kind."}


def test_a_system_text_of_this_wire_is_an_item() -> None:
    item_fields = Text(text="Be brief.", extra=wire_data(role="system", prompt_cache_breakpoint={"mode": "explicit"}))
    plain = Text(text="Be kind.", extra={"anthropic": {"cache_control": {}}})
    fields = encoded_body(Request(messages=(HI,), system=(item_fields, plain)))
    part = {"type": "input_text", "text": "Be brief.", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert fields["input"] == [{"type": "message", "role": "system", "content": [part]}, HI_JSON]
    assert fields["instructions"] == "Be kind."


def test_a_system_message_inside_the_history_is_a_marked_turn_of_the_user() -> None:
    request = Request(messages=(HI, system("Be brief."), assistant("Yes"), HI))
    marked = {"type": "message", "role": "user", "content": "<system>\nBe brief.\n</system>"}
    other = quirky(system_turns=False)
    assert encoded_body(request, other)["input"][1] == marked
    assert "instructions" not in encoded_body(request, other)
    assert notices(request, other) == [("changed", "system message after the first turn")]


def test_a_system_message_stays_in_its_place_where_the_target_takes_it_there() -> None:
    request = Request(messages=(HI, system("Be brief.")))
    item = {"type": "message", "role": "developer", "content": "Be brief."}
    assert encoded_body(request, quirky(system_turns=True))["input"] == [HI_JSON, item]


def test_a_system_message_in_its_place_has_no_block_of_another_wire() -> None:
    foreign = Opaque(wire="anthropic", data={"type": "cache"}, is_optional=True)
    request = Request(
        messages=(HI, Message(role="system", parts=(foreign, Text(text="Be brief.")), extra=wire_data(id="m")))
    )
    item = {"type": "message", "role": "developer", "content": "Be brief.", "id": "m"}
    assert encoded_body(request, quirky(system_turns=True))["input"] == [HI_JSON, item]
    assert notices(request, quirky(system_turns=True)) == [("dropped", "anthropic block (cache)")]


def test_images_and_documents_are_content() -> None:
    message = user(
        "See",
        Image(data=b"hi", mime="image/gif", detail="low"),
        Image(data=b"hi"),
        Image(url="https://example.org/a.png"),
        Document(data=b"hi", mime="application/pdf", name="a.pdf"),
        Document(data=b"hi", mime="text/plain"),
        Opaque(wire=NAME, data={"type": "input_file", "file_id": "file_1"}),
    )
    assert items(message)[0]["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/gif;base64,aGk=", "detail": "low"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        {"type": "input_file", "filename": "document", "file_data": "data:text/plain;base64,aGk="},
        {"type": "input_file", "file_id": "file_1"},
    ]


def test_audio_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="does not support audio"):
        encoded_body(Request(messages=(user(Audio(data=b"RIFF", mime="audio/wav")),)))


def test_an_assistants_document_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="cannot send a document"):
        encoded_body(Request(messages=(HI, assistant(Document(data=b"", mime="text/plain")))))


def test_what_a_users_part_and_message_came_with_goes_back() -> None:
    text = Text(text="Hi", extra=wire_data(prompt_cache_breakpoint={"mode": "explicit"}))
    message = Message(role="user", parts=(text,), extra=wire_data(id="msg_0"))
    part = {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert items(message) == [{"type": "message", "role": "user", "content": [part], "id": "msg_0"}]


def test_an_item_among_a_users_parts_is_an_item() -> None:
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert items(HI, user(Opaque(wire=NAME, data=approval), "Go on")) == [
        HI_JSON,
        approval,
        {"type": "message", "role": "user", "content": "Go on"},
    ]
    assert items(HI, user(Opaque(wire=NAME, data=approval))) == [HI_JSON, approval]


def test_an_assistants_plain_text_is_a_string() -> None:
    foreign = Text(text="Yes", extra={"anthropic": {"citations": []}})
    assert items(HI, assistant(foreign))[1] == {"type": "message", "role": "assistant", "content": "Yes"}


def test_several_plain_texts_are_one_message_item() -> None:
    content = [{"type": "output_text", "text": "Yes"}, {"type": "output_text", "text": "No"}]
    assert items(HI, assistant("Yes", "No"))[1:] == [{"type": "message", "role": "assistant", "content": content}]


def test_texts_go_back_into_the_items_that_they_came_in() -> None:
    first = {"id": "msg_1", "phase": "commentary"}
    last = {"id": "msg_2", "phase": "final_answer"}
    message = assistant(
        Text(text="Look.", extra=wire_data(item=first)),
        Text(text="Noon.", extra=wire_data(item=last, annotations=[NOTE])),
        Text(text="No.", extra=wire_data(item=last, refusal=True)),
    )
    usual = {"type": "message", "role": "assistant", "status": "completed"}
    assert items(HI, message)[1:] == [
        {**usual, **first, "content": [{"type": "output_text", "text": "Look.", "annotations": []}]},
        {
            **usual,
            **last,
            "content": [
                {"type": "output_text", "text": "Noon.", "annotations": [NOTE]},
                {"type": "refusal", "refusal": "No."},
            ],
        },
    ]


def test_a_call_is_an_item_and_its_arguments_are_text() -> None:
    call = ToolCall(
        id="call_1", name="tide", arguments={"port": "Brest"}, raw='{"port": "Brest"}', extra=wire_data(id="fc_1")
    )
    foreign = ToolCall(id="toolu_2", name="tide", arguments={}, extra={"anthropic": {"id": "x"}})
    results = (ToolResult(id="call_1", content="4.2 m"), ToolResult(id="toolu_2", content="no", is_error=True))
    assert items(HI, assistant(call, foreign), tool_results(*results))[1:] == [
        {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": '{"port": "Brest"}', "id": "fc_1"},
        {"type": "function_call", "call_id": "toolu_2", "name": "tide", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"},
        {"type": "function_call_output", "call_id": "toolu_2", "output": "ERROR: no"},
    ]


def test_a_custom_call_and_its_result_keep_their_kind() -> None:
    call = ToolCall(id="call_1", name="sql", arguments={"input": "SELECT 1"}, extra=wire_data(type="custom_tool_call"))
    assert items(HI, assistant(call), tool_results(ToolResult(id="call_1", content="1")))[1:] == [
        {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
    ]


def test_an_id_that_is_too_long_is_mapped_the_same_way_everywhere() -> None:
    long = "toolu_" + "x" * 80
    call, answered = assistant(ToolCall(id=long, name="tide")), tool_results(ToolResult(id=long, content="4 m"))
    first, second = items(HI, call, answered)[1:]
    assert first["call_id"] == second["call_id"] != long
    assert len(first["call_id"]) <= 64
    assert ("renamed", f"call id {long}") in notices(Request(messages=(HI, call, answered)))
    short = items(HI, call, answered, to=quirky(call_id="[A-Za-z0-9]{9}"))[1]
    assert len(short["call_id"]) == 9


def test_a_picture_by_address_is_refused_where_the_target_cannot_fetch_it() -> None:
    blind = msgspec.structs.replace(TARGET, capabilities=Capabilities(image_urls=False))
    with pytest.raises(Unsupported, match="cannot fetch https://example"):
        encoded_body(Request(messages=(user(Image(url="https://example.org/a.png")),)), blind)


def test_a_block_of_another_wire_in_a_result_is_left_out() -> None:
    answered = tool_results(
        ToolResult(id="call_1", content=(Opaque(wire="anthropic", data={"x": 1}, is_optional=True), Text(text="4 m")))
    )
    request = Request(messages=(HI, assistant(ToolCall(id="call_1", name="tide")), answered))
    assert encoded_body(request)["input"][2]["output"] == [{"type": "input_text", "text": "4 m"}]
    assert notices(request) == [("dropped", "anthropic block (x)")]


def output_of(*content: Text | Image | Opaque, is_error: bool = False) -> Any:
    result = ToolResult(id="call_1", content=content, is_error=is_error, extra=wire_data(id="fco_1"))
    item = CLIENT.encode_result(result)
    assert item["id"] == "fco_1"
    return item["output"]


PICTURE = Image(data=b"hi", mime="image/png")
PICTURE_JSON = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}


def test_pictures_in_a_result_stay_in_it() -> None:
    foreign, mine = Opaque(wire="anthropic", data={}), Opaque(wire=NAME, data={"type": "input_file", "file_url": "u"})
    text = {"type": "input_text", "text": "Look"}
    assert output_of(Text(text="Look"), PICTURE, foreign, mine) == [text, PICTURE_JSON, mine.data]


def test_an_error_with_a_picture_begins_with_the_prefix() -> None:
    assert output_of(Text(text="no"), PICTURE, is_error=True)[0] == {"type": "input_text", "text": "ERROR: no"}
    assert output_of(PICTURE, is_error=True) == [{"type": "input_text", "text": "ERROR: "}, PICTURE_JSON]


def test_reasoning_goes_back_verbatim_before_what_followed_it() -> None:
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    several = Thinking(text="a\n\nb", extra=wire_data(id="rs_1", encrypted_content="gAAAA", summary=summary))
    hidden = Thinking(text="", redacted=True, extra=wire_data(id="rs_2", encrypted_content="gBBBB"))
    assert items(HI, assistant(several, hidden, "Noon."))[1:3] == [
        {"type": "reasoning", "summary": summary, "id": "rs_1", "encrypted_content": "gAAAA"},
        {"type": "reasoning", "summary": [], "id": "rs_2", "encrypted_content": "gBBBB"},
    ]


@pytest.mark.parametrize(
    "after",
    [
        (),
        (HI,),
        (assistant(ToolCall(id="call_1", name="tide")), tool_results(ToolResult(id="call_1", content="4 m")), HI),
    ],
)
def test_reasoning_that_nothing_follows_is_left_out(after: tuple[Message, ...]) -> None:
    lone = assistant(Thinking(text="Hm", extra=wire_data(id="rs_1")))
    request = Request(messages=(HI, *after[:-1], lone, *after[-1:]))
    assert "reasoning" not in [item["type"] for item in encoded_body(request)["input"]]
    assert ("dropped", "thinking") in notices(request)


def test_reasoning_with_nothing_to_replay_is_left_out() -> None:
    request = Request(messages=(HI, assistant(Thinking(text="Hm", extra=wire_data()), "Yes"), HI))
    assert [item["type"] for item in encoded_body(request)["input"]] == ["message"] * 3
    assert notices(request) == [("dropped", "thinking")]


def test_thinking_of_another_wire_is_left_out() -> None:
    request = Request(messages=(HI, assistant(Thinking(text="Hm", extra={"anthropic": {}}), "Yes"), HI))
    assert notices(request) == [("dropped", "thinking")]


def test_an_image_that_this_wire_made_goes_back_as_its_item() -> None:
    image = Image(data=b"RIFF", mime="image/webp", extra=wire_data(id="ig_1", quality="low"))
    item = {"type": "image_generation_call", "result": "UklGRg==", "output_format": "webp", "id": "ig_1"}
    assert items(HI, assistant(image), HI)[1] == {**item, "quality": "low"}


def test_an_image_that_another_wire_made_is_shown_by_the_user() -> None:
    request = Request(messages=(HI, assistant("Here:", PICTURE), HI))
    content = [{"type": "input_text", "text": "Made by the assistant:"}, PICTURE_JSON]
    assert encoded_body(request)["input"][2] == {"type": "message", "role": "user", "content": content}
    assert notices(request) == [("changed", "image of the assistant")]


def test_an_opaque_item_stays_in_its_place() -> None:
    search = Opaque(wire=NAME, data={"type": "web_search_call", "id": "ws_1", "status": "completed"})
    foreign = Opaque(wire="anthropic", data={"type": "new"}, is_optional=True)
    assert items(HI, assistant("a", search, foreign, "b"))[2] == search.data


def test_tools_are_flat_and_say_that_they_are_not_strict() -> None:
    hosted = Opaque(wire=NAME, data={"type": "web_search"})
    none: JsonObject = {"type": "object", "properties": {}}
    now = {"type": "function", "name": "now", "parameters": none, "strict": False}
    assert CLIENT.encode_tools((TIDE, Tool(name="now"), hosted)) == [TIDE_JSON, now, {"type": "web_search"}]


def test_a_strict_tool_that_takes_nothing_says_so_strictly() -> None:
    none: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tool = {"type": "function", "name": "now", "parameters": none, "strict": True, "defer_loading": True}
    assert CLIENT.encode_tools((Tool(name="now", strict=True, extra=wire_data(defer_loading=True)),)) == [tool]


def test_a_tool_of_another_provider_is_left_out() -> None:
    request = Request(messages=(HI,), tools=(TIDE, Opaque(wire="anthropic", data={"type": "web_search_1"})))
    assert encoded_body(request)["tools"] == [TIDE_JSON]
    assert notices(request) == [("dropped", "tool web_search_1")]


def test_definitions_alone_have_no_tool_of_another_wire() -> None:
    assert CLIENT.encode_tools((TIDE, Opaque(wire="anthropic", data={"type": "web_search_1"}))) == [TIDE_JSON]


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("tide", {"type": "function", "name": "tide"}),
    ],
)
def test_a_choice_is_a_word_or_names_a_function(choice: str, fields: object) -> None:
    assert option(tools=(TIDE,), tool_choice=choice) == {"tools": [TIDE_JSON], "tool_choice": fields}


def test_a_target_that_cannot_be_told_a_name_gets_that_tool_alone() -> None:
    request = Request(messages=(HI,), tools=(TIDE, Tool(name="now")), tool_choice="tide")
    fields = encoded_body(request, quirky(named_choice=False, required_choice="any"))
    assert (fields["tools"], fields["tool_choice"]) == ([TIDE_JSON], "any")
    assert notices(request, quirky(named_choice=False)) == [("changed", "tool_choice")]


def test_a_choice_of_a_tool_that_is_not_there_is_refused_where_it_would_be_given_alone() -> None:
    with pytest.raises(InvalidRequest, match=r"tool_choice must be .*, got 'tide'"):
        encoded_body(Request(messages=(HI,), tools=(Tool(name="now"),), tool_choice="tide"), quirky(named_choice=False))


def test_a_choice_that_cannot_be_forced_is_free() -> None:
    free = msgspec.structs.replace(TARGET, capabilities=Capabilities(forced_choice=False))
    request = Request(messages=(HI,), tools=(TIDE,), tool_choice="required")
    assert encoded_body(request, free)["tool_choice"] == "auto"
    assert notices(request, free) == [("changed", "tool_choice")]


def test_a_choice_without_tools_is_left_out() -> None:
    assert option(tool_choice="auto") == {}
    assert option(tool_choice="required") == {}
    assert notices(Request(messages=(HI,), tool_choice="required")) == [("dropped", "tool_choice")]


def test_parallel_calls_are_a_switch() -> None:
    assert option(parallel_tool_calls=False) == {"parallel_tool_calls": False}
    request = Request(messages=(HI,), parallel_tool_calls=False)
    assert notices(request, quirky(parallel_tool_calls=False)) == [("dropped", "parallel_tool_calls")]


def test_a_schema_is_a_flat_format_without_a_strict_flag() -> None:
    form = {"type": "json_schema", "name": "response", "schema": PORT}
    assert option(schema=PORT) == {"text": {"format": form}}


def test_strict_is_sent_only_for_a_strict_schema() -> None:
    form = {"type": "json_schema", "name": "tide", "schema": STRICT, "strict": True}
    assert option(schema=STRICT, schema_name="tide", schema_strict=True) == {"text": {"format": form}}
    loose = Request(messages=(HI,), schema=PORT, schema_strict=True)
    assert "strict" not in encoded_body(loose)["text"]["format"]
    assert notices(loose) == [("dropped", "schema_strict")]
    tight = Request(messages=(HI,), schema=STRICT, schema_strict=True)
    assert "strict" not in encoded_body(tight, quirky(strict=False))["text"]["format"]
    assert "strict" not in encoded_body(Request(messages=(HI,), schema=STRICT), quirky(strict=False))["text"]["format"]


def test_a_tool_is_strict_only_where_its_parameters_are() -> None:
    loose = Request(messages=(HI,), tools=(Tool(name="tide", parameters=PORT, strict=True),))
    assert encoded_body(loose)["tools"][0]["strict"] is False
    assert notices(loose) == [("dropped", "strict of tide")]
    tight = Request(messages=(HI,), tools=(Tool(name="tide", parameters=STRICT, strict=True), Tool(name="now")))
    assert [tool["strict"] for tool in encoded_body(tight)["tools"]] == [True, False]
    assert ["strict" in tool for tool in encoded_body(tight, quirky(strict=False))["tools"]] == [False, False]
    assert notices(tight, quirky(strict=False)) == [("dropped", "strict of tide")]


def test_any_json_is_json_object() -> None:
    request = Request(messages=(user("Answer in JSON."),), schema={})
    assert encoded_body(request)["text"] == {"format": {"type": "json_object"}}
    assert notices(request) == []


def test_the_word_json_is_said_where_the_input_does_not_say_it() -> None:
    request = Request(messages=(HI,), system="Answer in JSON.", schema={})
    words = "Answer with one JSON value and nothing else: no prose, no code fence."
    assert encoded_body(request)["input"] == [{"type": "message", "role": "developer", "content": words}, HI_JSON]
    assert notices(request) == [("repaired", "input")]


def test_a_target_that_takes_no_schema_is_told_it_in_words() -> None:
    request = Request(messages=(HI,), schema=PORT)
    fields = encoded_body(request, quirky(json_schema=False))
    assert fields["text"] == {"format": {"type": "json_object"}}
    assert fields["input"][0]["role"] == "developer"
    assert msgspec.json.encode(PORT).decode() in fields["input"][0]["content"]
    assert notices(request, quirky(json_schema=False)) == [("changed", "schema")]


def test_a_format_of_the_callers_own_wins_where_the_target_takes_schemas() -> None:
    form = {"type": "json_schema", "name": "x", "schema": PORT, "strict": True}
    request = Request(messages=(HI,), schema=PORT, schema_strict=True, extra=wire_data(text={"format": form}))
    assert encoded_body(request)["text"] == {"format": form}
    assert notices(request) == []
    assert encoded_body(request, quirky(json_schema=False))["text"] == {"format": {"type": "json_object"}}


def test_a_schemas_name_is_made_to_fit() -> None:
    request = Request(messages=(HI,), schema=PORT, schema_name="Tide height")
    assert encoded_body(request)["text"]["format"]["name"] == "Tide_height"
    assert notices(request) == [("renamed", "schema_name")]


def test_other_wishes_for_the_text_stand_beside_the_schema() -> None:
    fields = option(schema=PORT, extra=wire_data(text={"verbosity": "low"}))
    form = {"type": "json_schema", "name": "response", "schema": PORT}
    assert fields == {"text": {"format": form, "verbosity": "low"}}


def test_sampling_is_sent_as_it_is() -> None:
    fields = {"temperature": 0.0, "top_p": 0.5}
    assert option(**fields) == fields
    request = Request(messages=(HI,), temperature=0.0, top_p=0.5)
    assert notices(request, quirky(sampling=False)) == [("dropped", "temperature"), ("dropped", "top_p")]


def test_what_the_api_has_no_word_for_is_dropped_with_a_notice() -> None:
    request = Request(messages=(HI,), top_k=3, seed=4, stop=("x",))
    assert encoded_body(request) == encoded_body(Request(messages=(HI,)))
    assert notices(request) == [("dropped", "top_k"), ("dropped", "seed"), ("dropped", "stop")]


@pytest.mark.parametrize("name", [NAME, f"{NAME}.verbatim", "openai-responses"])
def test_an_option_that_the_callers_extra_says_is_not_lost(name: str) -> None:
    assert notices(Request(messages=(HI,), top_k=3, extra={name: {"top_k": 3}})) == []


def test_a_loss_is_refused_under_strict() -> None:
    with pytest.raises(Unsupported, match="seed"):
        encoded_body(Request(messages=(HI,), seed=4, strict=True))


def test_max_tokens_is_max_output_tokens_and_at_least_16() -> None:
    assert option(max_tokens=16) == {"max_output_tokens": 16}
    assert option(max_tokens=5) == {"max_output_tokens": 16}
    assert notices(Request(messages=(HI,), max_tokens=5)) == [("changed", "max_tokens")]
    small = msgspec.structs.replace(TARGET, capabilities=Capabilities(max_output=100))
    assert encoded_body(Request(messages=(HI,), max_tokens=500), small)["max_output_tokens"] == 100
    assert notices(Request(messages=(HI,), max_tokens=50), small) == []


def test_reasoning_is_an_effort_beside_the_callers_own_words() -> None:
    assert option(reasoning="high") == {"reasoning": {"effort": "high"}}
    assert option(reasoning=9000) == {"reasoning": {"effort": "medium"}}
    fields = option(reasoning="max", extra=wire_data(reasoning={"effort": "xhigh", "summary": "auto"}))
    assert fields == {"reasoning": {"effort": "xhigh", "summary": "auto"}}


def test_an_effort_of_the_callers_own_is_not_bent() -> None:
    request = Request(messages=(HI,), reasoning=9000, extra=wire_data(reasoning={"effort": "xhigh"}))
    assert notices(request) == []


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    plain = msgspec.structs.replace(TARGET, capabilities=Capabilities(thinking=False))
    assert "reasoning" not in encoded_body(Request(messages=(HI,), reasoning="high"), plain)
    assert notices(Request(messages=(HI,), reasoning="high"), plain) == [("dropped", "reasoning")]
    assert notices(Request(messages=(HI,), reasoning="none"), plain) == []


def test_a_model_that_may_not_think_beside_tools_does_not() -> None:
    request = Request(messages=(HI,), tools=(TIDE,), reasoning="high")
    assert encoded_body(request, quirky(reasoning_with_tools=False))["reasoning"] == {"effort": "none"}
    assert notices(request, quirky(reasoning_with_tools=False)) == [("changed", "reasoning")]
    silent = Request(messages=(HI,), tools=(TIDE,))
    assert notices(silent, quirky(reasoning_with_tools=False)) == []


def test_user_and_metadata_are_sent_where_they_are_known() -> None:
    fields = {"user": "u1", "metadata": {"a": "b"}}
    assert option(**fields) == fields
    request = Request(messages=(HI,), user="u1", metadata={"a": "b"})
    assert notices(request, quirky(user_field=None, metadata=False)) == [("dropped", "user"), ("dropped", "metadata")]
    assert encoded_body(request, quirky(user_field="safety_identifier"))["safety_identifier"] == "u1"


# What we read: streams ------------------------------------------------------------------------------------------------


def test_a_stream_gives_its_text_piece_by_piece() -> None:
    events, error = play("hello.sse")
    response = fold(events)
    assert error is None
    assert [event.text for event in events if isinstance(event, PartDelta)] == ["High ", "water ", "at noon."]
    item = {"id": "msg_1", "phase": "final_answer"}
    assert response == Response(
        id="resp_1",
        model="gpt-x",
        created=1794700000,
        message=assistant(Text(text="High water at noon.", extra=wire_data(item=item))),
        finish=Finish(reason="stop", raw="completed"),
        usage=Usage(input=12, output=6, cache_read=4, cache_write=0, reasoning=2),
    )


def test_what_is_known_of_a_text_stands_at_its_start() -> None:
    starts = [event for event in play("hello.sse")[0] if isinstance(event, PartStarted)]
    assert starts == [PartStarted(index=0, kind="text", extra=wire_data(item={"id": "msg_1", "phase": "final_answer"}))]


BREST = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}, extra=wire_data(id="fc_1"))
RAW = Thinking(
    text="Moon, sun.",
    extra=wire_data(id="rs_1", summary=[], content=[{"type": "reasoning_text", "text": "Moon, sun."}]),
)
NOON = Text(text="Noon.", extra=wire_data(item={"id": "msg_1"}))


def test_encrypted_reasoning_is_taken_from_the_end_of_its_item() -> None:
    assert parts("tool.sse") == (
        Thinking(text="", redacted=True, extra=wire_data(id="rs_1", encrypted_content="gAAAAfull")),
        ToolCall(id="call_7", name="tide", arguments={"port": "Brest"}, extra=wire_data(id="fc_1")),
    )
    assert response_of_tape("tool.sse").finish == Finish(reason="tool_calls", raw="completed")


def test_parallel_calls_keep_the_order_of_their_items() -> None:
    cork = ToolCall(
        id="call_2", name="tide", arguments={"port": "Cork"}, raw='{"port": "Cork"}', extra=wire_data(id="fc_2")
    )
    assert parts("parallel_calls.sse") == (BREST, cork)


def test_several_messages_and_a_hosted_tool_keep_their_places() -> None:
    first, last = {"id": "msg_1", "phase": "commentary"}, {"id": "msg_2", "phase": "final_answer"}
    action = {"type": "search", "query": "tide brest"}
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": action}
    assert parts("commentary.sse") == (
        Text(text="Let me look.", extra=wire_data(item=first)),
        HostedCall(id="ws_1", tool="web_search", arguments={"query": "tide brest"}, extra={NAME: search}),
        Text(text="Noon.", extra=wire_data(item=last, annotations=[NOTE]), citations=CITED),
        Text(text="And at midnight.", extra=wire_data(item=last)),
    )


def test_summaries_are_one_thinking_with_blank_lines_between() -> None:
    summary = [{"type": "summary_text", "text": "First the moon."}, {"type": "summary_text", "text": "Then the sun."}]
    extra = wire_data(id="rs_1", summary=summary, encrypted_content="gAAAA")
    assert parts("summaries.sse")[0] == Thinking(text="First the moon.\n\nThen the sun.", extra=extra)
    pieces = [event.text for event in play("summaries.sse")[0] if isinstance(event, PartDelta) and event.index == 0]
    assert pieces == ["First ", "the moon.", "\n\nThen ", "the sun."]


def test_raw_thinking_whose_end_comes_late_stays_first() -> None:
    thinking = msgspec.structs.replace(RAW, extra=wire_data(**{**RAW.extra[NAME], "id": "rs_tmp"}))
    assert parts("raw_thinking.sse") == (thinking, Text(text="Noon.", extra=wire_data(item={"id": "msg_tmp"})))


def test_of_two_forms_of_thinking_the_first_is_read_and_both_are_kept() -> None:
    summary = [{"type": "summary_text", "text": "Moon."}]
    assert parts("two_forms.sse")[0] == Thinking(
        text="Moon, sun.", extra=wire_data(id="rs_1", summary=summary, content=RAW.extra[NAME]["content"])
    )


def test_items_are_told_apart_by_id_where_there_is_no_index() -> None:
    thinking = msgspec.structs.replace(RAW, extra=wire_data(**RAW.extra[NAME], encrypted_content=""))
    assert parts("no_index.sse") == (thinking, BREST)


def test_items_are_told_apart_by_their_beginning_where_the_index_is_always_the_same() -> None:
    assert parts("one_index.sse") == (Thinking(text="Moon.", extra=wire_data(id="rs_1")), NOON, BREST)


def test_events_without_index_and_id_belong_to_the_last_item() -> None:
    assert parts("no_keys.sse") == (
        Thinking(text="Moon, sun.", extra=wire_data(content=RAW.extra[NAME]["content"])),
        Text(text="Noon."),
        ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}),
    )


def test_items_may_begin_without_notice() -> None:
    assert parts("no_added.sse") == (RAW, NOON, BREST)


def test_items_may_end_without_notice() -> None:
    item = {"id": "msg_1", "phase": "final_answer"}
    assert parts("no_done.sse") == (
        Thinking(text="Moon.", extra=wire_data(id="rs_1")),
        Text(text="Noon.", extra=wire_data(item=item, annotations=[NOTE]), citations=CITED),
        BREST,
    )


def test_the_last_event_may_be_the_response_itself() -> None:
    response = response_of_tape("flat.sse")
    found = {"type": "search_results", "results": [{"url": "https://example.org/tides"}]}
    assert response.message.parts == (Text(text="Noon."), Opaque(wire="openai_responses", data=found))
    assert response.usage == Usage(input=4, output=2)
    assert response.finish == Finish(reason="stop", raw="completed")


@pytest.mark.parametrize("end", [{}, {"summary": None}, {"summary": []}, {"summary": [{"type": "summary_text"}]}])
def test_a_summary_that_only_deltas_tell_is_said_again(end: JsonObject) -> None:
    delta = {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "delta": "Moon."}
    done = {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1", **end}}
    last = {"type": "response.completed", "response": {"status": "completed"}}
    data = b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in (delta, done, last))
    events, error = read(CLIENT.stream_decoder(), [data])
    assert error is None
    again = fold(CLIENT.decode_body(WIRE.server.encode_body(fold(events)).body))
    assert again.message.parts == (Thinking(text="Moon.", extra=wire_data(id="rs_1")),)


def test_an_item_is_one_whatever_ids_it_is_told_under() -> None:
    assert parts("new_ids.sse") == (Text(text="Noon.", extra=wire_data(item={"id": "a3"})),)


def test_items_that_never_ended_are_completed_by_the_last_snapshot() -> None:
    hidden = Thinking(text="", redacted=True, extra=wire_data(id="rs_1", encrypted_content="gAAAA"))
    assert parts("no_done_snapshot.sse") == (hidden, NOON)


def test_a_stream_without_items_is_its_last_snapshot() -> None:
    assert parts("snapshot_only.sse") == (Thinking(text="Moon.", extra=wire_data(id="rs_1")), NOON, BREST)


def test_arguments_may_come_without_deltas() -> None:
    assert parts("arguments_done_only.sse") == (BREST,)


def test_what_comes_after_the_end_of_an_item_is_not_said_twice() -> None:
    assert parts("late_delta.sse") == (NOON,)


def test_an_event_may_be_named_by_its_line_only() -> None:
    assert parts("unnamed_types.sse") == (NOON,)


def test_a_message_without_content_is_kept_for_the_reasoning_before_it() -> None:
    hidden = Thinking(text="", redacted=True, extra=wire_data(id="rs_1", encrypted_content="gAAAA"))
    message = response_of_tape("empty_message.sse").message
    assert message.parts == (hidden, Text(text="", extra=wire_data(item={"id": "msg_1"}, empty=True)))
    assert response_of_tape("empty_message.sse").is_empty
    said_again: JsonObject = {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "id": "msg_1",
        "content": [],
    }
    assert items(HI, message, HI)[2] == said_again


def test_a_refusal_is_a_marked_text_and_blocked() -> None:
    assert parts("refusal.sse") == (Text(text="I will not.", extra=wire_data(item={"id": "msg_1"}, refusal=True)),)
    assert response_of_tape("refusal.sse").finish == Finish(reason="blocked", raw="completed")


def test_half_a_call_is_left_out_with_a_notice() -> None:
    response = response_of_tape("cut_call.sse")
    assert response.message.parts == (BREST,)
    assert response.finish == Finish(reason="length", raw="max_output_tokens")
    assert [(notice.what, notice.why) for notice in response.notices] == [
        ("tool call tide", 'the response ended in the middle of its arguments: {"port":"Co')
    ]


def test_a_call_that_never_began_is_left_out_with_a_notice() -> None:
    response = response_of_tape("cut_call_no_done.sse")
    assert response.message.parts == ()
    assert response.finish == Finish(reason="blocked", raw="content_filter")
    assert [notice.what for notice in response.notices] == ["tool call tide"]


def test_a_custom_call_has_its_text_as_input() -> None:
    extra = {"openai_responses.verbatim": {"type": "custom_tool_call"}, **wire_data(id="ctc_1")}
    assert parts("custom.sse") == (ToolCall(id="call_1", name="sql", arguments={"input": "SELECT 1"}, extra=extra),)


def test_an_image_that_was_made_is_an_image() -> None:
    extra = wire_data(id="ig_1", quality="low", revised_prompt="a tide", size="1024x1024")
    assert parts("image.sse") == (Image(data=b"RIFF", mime="image/webp", extra=extra),)


def test_a_question_for_approval_pauses() -> None:
    assert response_of_tape("approval.sse").finish == Finish(reason="pause", raw="completed")


@pytest.mark.parametrize(
    ("tape", "kind", "message"),
    [
        ("error.sse", RateLimited, "Too many tokens per minute"),
        ("error_flat.sse", ServerFault, "boom"),
        ("failed.sse", ServerFault, "boom"),
        (
            "unfinished.sse",
            Truncated,
            "openai_responses: the connection closed before the stream was complete (no response.completed event)",
        ),
        (
            "done_unfinished.sse",
            Truncated,
            "openai_responses: the connection closed before the stream was complete (no response.completed event)",
        ),
        ("bare_error.sse", Overloaded, "overloaded"),
        ("untyped_error.sse", ModelNotFound, "no such model: gpt-q"),
    ],
)
def test_a_stream_that_fails_raises(tape: str, kind: type[DragomanError], message: str) -> None:
    _, error = play(tape)
    assert type(error) is kind
    assert str(error) == message


def test_a_failure_tells_what_was_used() -> None:
    error = play("failed.sse")[1]
    assert error is not None
    assert error.usage == Usage(input=12, output=6, cache_read=4, cache_write=0, reasoning=2)


def stream_of(*events: JsonObject) -> bytes:
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events)


def test_notes_of_one_text_are_kept_in_their_order() -> None:
    fields: list[JsonObject] = [
        {"type": "response.output_text.annotation.added", "annotation": {"n": number}} for number in (1, 2)
    ]
    events, _ = read(CLIENT.stream_decoder(), [stream_of(*fields, {"type": "response.completed"})])
    assert fold(events).message.parts == (Text(text="", extra=wire_data(annotations=[{"n": 1}, {"n": 2}])),)


def test_items_that_have_ended_are_not_open() -> None:
    call = {"type": "function_call", "name": "now", "arguments": "{}"}
    done = [
        {"type": "response.output_item.done", "output_index": i, "item": {**call, "call_id": f"call_{i}"}}
        for i in range(MAX_OPEN + 1)
    ]
    events, error = read(CLIENT.stream_decoder(), [stream_of(*done, {"type": "response.completed"})])
    assert error is None
    assert len(fold(events).tool_calls) == MAX_OPEN + 1


def test_items_that_never_end_have_a_limit() -> None:
    added: list[JsonObject] = [
        {"type": "response.output_item.added", "output_index": i, "item": {}} for i in range(MAX_OPEN + 1)
    ]
    with pytest.raises(TooLarge):
        CLIENT.stream_decoder().feed(stream_of(*added))


def test_a_message_may_end_with_any_number_of_texts() -> None:
    texts = [{"type": "output_text", "text": "a"}] * (MAX_OPEN + 1)
    assert answer(message_item(*texts)).text == "a" * (MAX_OPEN + 1)


LARGE = "a" * 100
HELD: list[JsonObject] = [
    {"type": "response.function_call_arguments.done", "arguments": LARGE},
    {"type": "response.output_item.done", "item": {"type": "web_search_call", "id": LARGE}},
    {"type": "response.content_part.done", "part": {"type": "output_text", "text": LARGE}},
]


@pytest.mark.parametrize("event", HELD)
def test_what_is_held_back_has_a_limit(event: JsonObject) -> None:
    reader = ResponsesDecoder(None)
    reader.out = Assembler(limit=99)
    with pytest.raises(TooLarge):
        FramedStreamDecoder(SseDecoder(), reader).feed(stream_of(event))


def test_what_was_said_before_an_error_is_given_first() -> None:
    assert fold(play("error_flat.sse")[0]).text == "No"


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"type":"response.output_text.delta","delta":{"not":"text"}}\n\n',
        b'data: {"type":"response.reasoning_text.delta","delta":1}\n\n',
        b'data: {"type":"response.function_call_arguments.delta","delta":null}\n\n',
        b'data: {"type":"response.function_call_arguments.done"}\n\n',
        b'data: {"type":"response.content_part.added","part":{"type":"tomorrow"}}\n\n',
        b'data: {"type":"response.content_part.done","part":{"type":"tomorrow"}}\n\n',
        b'data: {"type":"response.output_item.added"}\n\ndata: {"type":"response.content_part.done","part":{"type":"refusal"}}\n\n'
        b'data: {"type":"response.output_text.annotation.added","annotation":{}}\n\n',
    ],
)
def test_what_makes_no_sense_says_nothing(data: bytes) -> None:
    events, error = read(CLIENT.stream_decoder(), [data])
    assert [event for event in events if isinstance(event, PartDelta | PartEnded)] == []
    assert isinstance(error, Truncated)


@pytest.mark.parametrize("data", [b"data: {oops}\n\n", b'data: {"type":"response.output_item.done","item":4}\n\n'])
def test_an_event_that_is_not_what_it_says_is_malformed(data: bytes) -> None:
    _, error = read(CLIENT.stream_decoder(), [data])
    assert isinstance(error, Malformed)


def test_an_unknown_event_may_use_the_same_words_for_other_things() -> None:
    unknown = b'data: {"type":"response.tomorrow","item":4,"output_index":"first","response":[]}\n\n'
    events, error = read(CLIENT.stream_decoder(), [unknown, (TAPES / "hello.sse").read_bytes()])
    assert (events, error) == play("hello.sse")


def test_an_id_that_is_none_tells_nothing() -> None:
    item = {"type": "image_generation_call", "id": {"not": "an id"}, "result": None}
    assert answer(item).message.parts == (Opaque(wire=NAME, data=item),)


def test_a_whole_body_in_place_of_a_stream_is_read() -> None:
    events, error = read(CLIENT.stream_decoder(), [body(message_item({"type": "output_text", "text": "Noon."}))])
    assert error is None
    assert fold(events).message.parts == (NOON,)


# What we read: bodies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tape", ["hello.sse", "tool.sse", "no_done_snapshot.sse", "snapshot_only.sse", "cut_call.sse"])
def test_a_body_is_its_stream_folded(tape: str) -> None:
    last = (TAPES / tape).read_text().strip().rpartition("data: ")[2]
    snapshot = msgspec.json.encode(msgspec.json.decode(last)["response"])
    assert fold(CLIENT.decode_body(snapshot)) == response_of_tape(tape)


@pytest.mark.parametrize(
    ("status", "details", "finish"),
    [
        ("completed", None, Finish(reason="stop", raw="completed")),
        (None, None, Finish(reason="stop", raw=None)),
        ("incomplete", {"reason": "max_output_tokens"}, Finish(reason="length", raw="max_output_tokens")),
        ("incomplete", {"reason": "max_messages"}, Finish(reason="length", raw="max_messages")),
        ("incomplete", {"reason": "content_filter"}, Finish(reason="blocked", raw="content_filter")),
        ("incomplete", {"reason": "steered"}, Finish(reason="pause", raw="steered")),
        ("incomplete", {"reason": "tired"}, Finish(reason="other", raw="tired")),
        ("incomplete", None, Finish(reason="length", raw="incomplete")),
        ("queued", None, Finish(reason="pause", raw="queued")),
        ("in_progress", None, Finish(reason="pause", raw="in_progress")),
    ],
)
def test_the_finish_is_why_it_is_incomplete_or_its_status(
    status: str | None, details: JsonObject | None, finish: Finish
) -> None:
    assert answer(status=status, incomplete_details=details).finish == finish


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (("function_call", "refusal"), "tool_calls"),
        (("mcp_approval_request", "refusal"), "pause"),
        (("refusal",), "blocked"),
    ],
)
def test_the_finish_of_a_completed_response_is_told_by_its_items(output: tuple[str, ...], reason: FinishReason) -> None:
    known = {
        "function_call": {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": "{}"},
        "mcp_approval_request": {"type": "mcp_approval_request", "id": "mcpr_1"},
        "refusal": message_item({"type": "refusal", "refusal": "No."}),
    }
    assert answer(*(known[kind] for kind in output)).finish.reason == reason


def test_usage_that_is_not_told_is_unknown() -> None:
    assert answer(usage=None).usage == Usage(source="unknown")
    assert answer(usage={"input_tokens": 3}).usage == Usage(input=3)


@pytest.mark.parametrize(("created", "fields"), [(7, 7), (7.0, 7), (0, None), ("soon", None), (None, None)])
def test_the_time_is_a_whole_number_or_not_told(created: object, fields: int | None) -> None:
    assert answer(created_at=created).created == fields


def test_a_call_without_an_id_gets_one_over_the_whole_conversation() -> None:
    before = Request(messages=(HI, assistant(ToolCall(id="call_1", name="tide"))))
    item = {"type": "function_call", "name": "tide", "arguments": {"port": "Brest"}}
    events = CLIENT.decode_body(body(item), before)
    assert fold(events).tool_calls == (ToolCall(id="call_2", name="tide", arguments={"port": "Brest"}),)


def test_a_call_whose_arguments_are_no_object_is_malformed() -> None:
    item = {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": "[1]"}
    with pytest.raises(MalformedToolCall) as raised:
        CLIENT.decode_body(body(item, usage={"input_tokens": 3}))
    assert (raised.value.id, raised.value.text, raised.value.usage) == ("call_1", "[1]", Usage(input=3))


def test_ids_that_we_made_ourselves_are_not_kept() -> None:
    message = message_item({"type": "output_text", "text": "Noon."}, id="msg_dragoman_resp_1_0")
    reasoning: JsonObject = {"type": "reasoning", "id": "rs_dragoman_resp_1_1", "summary": []}
    call = {"type": "function_call", "id": "fc_dragoman_2", "call_id": "call_1", "name": "tide", "arguments": ""}
    assert answer(message, reasoning, call).message.parts == (
        Text(text="Noon."),
        Thinking(text="", redacted=True, extra=wire_data()),
        ToolCall(id="call_1", name="tide"),
    )


def test_the_status_of_an_item_is_kept_where_it_is_not_the_usual_one() -> None:
    message = message_item({"type": "output_text", "text": "No"}, status="incomplete")
    assert answer(message).message.parts == (
        Text(text="No", extra=wire_data(item={"id": "msg_1", "status": "incomplete"})),
    )


def test_log_probabilities_travel_with_their_text() -> None:
    logprobs = [{"token": "No", "logprob": -0.1}]
    part = {"type": "output_text", "text": "No", "logprobs": logprobs, "annotations": []}
    assert answer(message_item(part)).message.parts == (
        Text(
            text="No",
            extra=wire_data(item={"id": "msg_1"}),
            logprobs=(TokenLogprob(token="No", logprob=-0.1),),
        ),
    )


def test_content_that_we_have_no_word_for_is_kept_as_a_message_of_its_own() -> None:
    part = {"type": "output_hologram", "data": "x"}
    message = {"type": "message", "role": "assistant", "id": "msg_1", "content": [part]}
    response = answer(message_item({"type": "output_text", "text": "Noon."}, part))
    assert response.message.parts == (NOON, Opaque(wire=NAME, data=message))


def test_the_content_of_a_message_may_be_its_text() -> None:
    assert answer({"type": "message", "content": "Noon."}).message.parts == (Text(text="Noon."),)


def test_the_items_of_the_end_are_those_that_were_told_of_by_id_and_else_in_order() -> None:
    fields = [{"type": "message", "id": id, "content": id} for id in ("a", "b", "c")]
    begun = [
        {"type": "response.output_item.added", "output_index": i, "item": {"type": "message", "id": id}}
        for i, id in enumerate("ax")
    ]
    last = {"type": "response.completed", "response": {"id": "resp_1", "output": fields}}
    data = b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in (*begun, last))
    events, error = read(CLIENT.stream_decoder(), [data])
    assert error is None
    assert [part.text for part in fold(events).message.parts if isinstance(part, Text)] == ["a", "b", "c"]


def test_the_last_event_may_say_that_it_is_done() -> None:
    done = {"type": "response.done", "response": {"id": "resp_1", "output": [{"type": "message", "content": "Noon."}]}}
    events, error = read(CLIENT.stream_decoder(), [b"data: %b\n\n" % msgspec.json.encode(done)])
    assert error is None
    assert fold(events).text == "Noon."
    assert fold(events).finish == Finish(reason="stop", raw="completed")


@pytest.mark.parametrize("item", [{"type": "message"}, {"type": "message", "content": ""}])
def test_a_message_whose_content_is_no_list_says_nothing(item: JsonObject) -> None:
    assert answer(item).message.parts == (Text(text="", extra=wire_data(empty=True)),)


@pytest.mark.parametrize("result", [None, "not base64!"])
def test_an_image_call_without_an_image_is_kept_as_it_is(result: str | None) -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": result}
    assert answer(item).message.parts == (Opaque(wire=NAME, data=item),)


def test_an_image_that_is_told_by_its_address_is_read() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": "https://example.org/a.png"}
    assert answer(item).message.parts == (Image(url="https://example.org/a.png", extra=wire_data(id="ig_1")),)


def test_unreadable_pieces_of_reasoning_are_not_read() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": ["x", {"type": "summary_text"}], "content": "y"}
    item_fields = {key: value for key, value in item.items() if key != "type"}
    assert answer(item).message.parts == (Thinking(text="", redacted=True, extra={NAME: item_fields}),)


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "retry"),
    [
        ("server_error", ServerFault, True),
        ("rate_limit_exceeded", RateLimited, True),
        ("vector_store_timeout", ServerFault, True),
        ("failed_to_download_image", ServerFault, True),
        ("invalid_image", BadRequest, False),
        ("image_too_large", BadRequest, False),
        ("bio_policy", Blocked, False),
        ("misalignment_policy_violation", Blocked, False),
        ("image_content_policy_violation", Blocked, False),
    ],
)
def test_a_failed_response_is_an_error_though_its_status_is_200(
    code: str, kind: type[ProviderError], *, retry: bool
) -> None:
    with pytest.raises(ProviderError) as raised:
        answer(status="failed", error={"code": code, "message": "no"})
    assert type(raised.value) is kind
    assert (raised.value.retry, raised.value.code, str(raised.value)) == (retry, code, "no")


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_response_that_failed_without_a_reason_is_an_error(status: str) -> None:
    with pytest.raises(ServerFault, match=f"the response ended with status {status}"):
        answer(status=status)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"error":{"message":"bad key","code":"invalid_api_key"}}', AuthFailed),
        (b'{"error":"busy"}', ServerFault),
        (b'{"detail":"nope"}', ServerFault),
        (b'{"hello":"world"}', Malformed),
        (b"[]", Malformed),
        (b'{"output":[', Truncated),
        (b"", Truncated),
    ],
)
def test_a_body_that_is_no_response_is_an_error(data: bytes, kind: type[DragomanError]) -> None:
    with pytest.raises(DragomanError) as raised:
        CLIENT.decode_body(data)
    assert type(raised.value) is kind


def test_an_error_is_typed_by_its_code_and_status() -> None:
    data = b'{"error":{"message":"Your input exceeds the context window","code":"context_length_exceeded"}}'
    assert type(CLIENT.decode_error(Head(status=400), data)) is ContextTooLong
    limited = CLIENT.decode_error(Head(status=429, headers={"retry-after": "3"}), b'{"error":{"message":"slow"}}')
    assert (type(limited), limited.retry_after) == (RateLimited, 3.0)


# Content indexes ------------------------------------------------------------------------------------------------------


def streamed(final: list[str], *deltas: tuple[int, str]) -> Response:
    """A stream with deltas at these content indexes, whose message has these texts at the end."""
    item = {"type": "message", "id": "m1", "role": "assistant"}
    content = [{"type": "output_text", "text": text} for text in final]
    events: list[JsonObject] = [
        {"type": "response.created", "response": {"id": "r1", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
    ]
    for index, text in deltas:
        place = {"output_index": 0, "item_id": "m1", "content_index": index}
        events.append({"type": "response.output_text.delta", **place, "delta": text})
    done = {**item, "content": content}
    events.append({"type": "response.output_item.done", "output_index": 0, "item": done})
    events.append({"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [done]}})
    data = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    found, error = read(CLIENT.stream_decoder(), [data])
    assert error is None
    obeys_grammar(found)
    return fold(found)


@pytest.mark.parametrize(
    ("final", "deltas", "texts"),
    [
        (["Hello"], [(0, "Hel"), (0, "lo")], ["Hello"]),
        (["Hello"], [(1, "Hel"), (1, "lo")], ["Hello"]),
        (["Hello"], [(1, "Hel")], ["Hello"]),
        (["Hello"], [(0, ""), (1, "Hello")], ["Hello"]),
        (["Hello"], [(0, "Hel"), (1, "lo")], ["Hel", "lo"]),
        (["Hello there"], [(0, "Hel"), (1, "lo")], ["Hel", "lo there"]),
        (["Hel", "lo"], [(0, "Hello")], ["Hello"]),
        (["One", "Two"], [(1, "One"), (2, "Two")], ["One", "Two"]),
        (["One", "Two"], [(0, "Two")], ["Two", "One"]),
        (["Hello"], [(0, "Servus")], ["Servus"]),
        (["Hello", "there"], [(0, "Servus")], ["Servus", "there"]),
        ([""], [(3, "Hello")], ["Hello"]),
        ([], [(3, "Hello")], ["Hello"]),
    ],
)
def test_a_text_comes_once_whatever_its_content_index(
    final: list[str], deltas: list[tuple[int, str]], texts: list[str]
) -> None:
    parts = streamed(final, *deltas).message.parts
    assert [part.text for part in parts if isinstance(part, Text) and part.text] == texts


def test_a_divided_message_keeps_what_is_not_text_and_its_refusal() -> None:
    item = {"type": "message", "id": "m1", "role": "assistant"}
    content: list[JsonObject] = [
        {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}]},
        {"type": "refusal", "refusal": "b"},
        {"type": "unknown"},
    ]
    done = {**item, "content": content}
    events: list[JsonObject] = [
        {"type": "response.output_text.delta", "output_index": 0, "item_id": "m1", "content_index": 0, "delta": "ab"},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {"status": "completed", "output": [done]}},
    ]
    data = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    found, error = read(CLIENT.stream_decoder(), [data])
    assert error is None
    response = fold(found)
    text, other = response.message.parts
    assert isinstance(text, Text)
    assert (text.text, text.extra[NAME]["annotations"]) == ("ab", [{"type": "url_citation"}])
    assert isinstance(other, Opaque)
    assert response.finish.reason == "blocked"


def test_a_divided_message_needs_no_id() -> None:
    tokens = [{"token": "a", "logprob": -0.5}]
    content = [{"type": "output_text", "text": "a", "logprobs": tokens}, {"type": "output_text", "text": "b"}]
    done: JsonObject = {"type": "message", "content": content}
    events: list[JsonObject] = [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "ab"},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {"status": "completed", "output": [done]}},
    ]
    data = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    found, error = read(CLIENT.stream_decoder(), [data])
    assert error is None
    assert fold(found).message.parts == (Text(text="ab", logprobs=(TokenLogprob(token="a", logprob=-0.5),)),)


def test_a_prompt_that_the_server_cut_silently_is_a_notice() -> None:
    request = Request(messages=(user("A long story of ships and tides. " * 2000),))
    data = body(message_item({"type": "output_text", "text": "Hi"}), usage={"input_tokens": 4095, "output_tokens": 1})
    [notice] = fold(CLIENT.decode_body(data, request)).notices
    assert (notice.kind, notice.what) == ("dropped", "a part of the prompt")


WHOLE: list[tuple[JsonObject, str]] = [
    ({"type": "response.output_text.done", "item_id": "m1", "content_index": 0, "text": "At six."}, "text"),
    ({"type": "response.refusal.done", "item_id": "m1", "content_index": 0, "refusal": "At six."}, "text"),
    (
        {"type": "response.reasoning_summary_text.done", "item_id": "r1", "summary_index": 0, "text": "At six."},
        "thinking",
    ),
    ({"type": "response.reasoning_text.done", "item_id": "r1", "content_index": 0, "text": "At six."}, "thinking"),
]


def whole_and_streamed(event: JsonObject, *pieces: str) -> Response:
    deltas = [{**event, "type": event["type"].replace(".done", ".delta"), "delta": piece} for piece in pieces]
    end: JsonObject = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}
    events, error = read(CLIENT.stream_decoder(), [stream_of(*deltas, event, end)])
    assert error is None
    return fold(events)


@pytest.mark.parametrize(("event", "kind"), WHOLE)
def test_a_text_that_comes_only_as_a_whole_is_read(event: JsonObject, kind: str) -> None:
    for pieces in ((), ("At ", "six.")):
        response = whole_and_streamed(event, *pieces)
        assert (response.text, response.thinking) == (("At six.", "") if kind == "text" else ("", "At six."))


@pytest.mark.parametrize(("event", "kind"), WHOLE)
def test_a_whole_text_with_another_id_comes_once(event: JsonObject, kind: str) -> None:
    first = {**event, "type": event["type"].replace(".done", ".delta"), "delta": "At six."}
    end: JsonObject = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}
    data = stream_of(first, {**event, "item_id": "changed"}, {**event, "text": None, "refusal": None}, end)
    events, error = read(CLIENT.stream_decoder(), [data])
    assert error is None
    assert fold(events).text + fold(events).thinking == "At six."


def test_the_whole_input_of_a_custom_tool_is_read() -> None:
    added = {"type": "custom_tool_call", "id": "x1", "call_id": "c1", "name": "shell", "input": ""}
    events: list[JsonObject] = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        {"type": "response.custom_tool_call_input.done", "output_index": 0, "item_id": "x1", "input": "ls"},
        {"type": "response.custom_tool_call_input.done", "output_index": 0, "item_id": "x1", "input": None},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ]
    decoded, error = read(CLIENT.stream_decoder(), [stream_of(*events)])
    assert error is None
    assert [call.arguments for call in fold(decoded).tool_calls] == [{"input": "ls"}]


@pytest.mark.parametrize("more", [{}, {"content_filters": [{"source_type": "prompt", "blocked": False}]}])
def test_the_scores_of_a_moderation_reach_the_client(more: JsonObject) -> None:
    scores = {"input": {"type": "moderation_results", "results": [{"flagged": False}]}}
    response = fold(CLIENT.decode_body(body(moderation=scores, **more)))
    said = msgspec.json.decode(WIRE.server.encode_body(response).body)
    assert said["moderation"] == scores
    assert fold(CLIENT.decode_body(msgspec.json.encode(said))).finish == response.finish
