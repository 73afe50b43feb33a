"""What clients of the Responses API send us, and what we answer, byte for byte."""

from typing import Any

import msgspec
import pytest

from dragoman.errors import ContextTooLong, DragomanError, InvalidRequest, Overloaded, RateLimited, ServerFault
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import (
    Audio,
    Document,
    Effort,
    Finish,
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
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.openai_responses import WIRE
from dragoman.wires.openai_responses.server import OpenAIResponsesServer

SERVER = OpenAIResponsesServer()
CLIENT = WIRE.client
NAME = "openai_responses"
PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
HI: JsonObject = {"role": "user", "content": "Hi"}
REASONING: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "tide", "arguments": '{"port":"Brest"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"}
BREST = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}, extra={NAME: {"id": "fc_1"}})


def wire_data(**extra: Any) -> dict[str, JsonObject]:
    return {NAME: extra}


def decoded_request(**body: Any) -> Request:
    body.setdefault("input", "Hi")
    http = HttpRequest(method="POST", path="/v1/responses", body=msgspec.json.encode({"model": "m", **body}))
    return SERVER.decode_request(http)[1]


def turns(*items: JsonObject, **body: Any) -> tuple[Message, ...]:
    return decoded_request(input=items, **body).messages


def sent_again(*items: JsonObject, **body: Any) -> JsonObject:
    http = CLIENT.encode_request(decoded_request(input=items, **body), target("openai-responses/m", api_key="k"))
    again: JsonObject = msgspec.json.decode(http.body)
    return again


# What they ask --------------------------------------------------------------------------------------------------------


def test_the_route_is_the_one_of_the_api() -> None:
    paths = ["/v1/responses", "/openai/v1/responses", "/openai/responses"]
    assert [(route.method, route.path) for route in WIRE.server.routes] == [("POST", path) for path in paths]


def test_a_string_is_one_user_message() -> None:
    http = HttpRequest(method="POST", path="/v1/responses", body=b'{"model":"gpt-x","input":"Hi"}')
    assert SERVER.decode_request(http) == ("gpt-x", Request(messages=(user("Hi"),)))


def test_input_may_be_left_out() -> None:
    prompt = {"id": "pmpt_1"}
    assert decoded_request(input=None, prompt=prompt) == Request(extra=wire_data(prompt=prompt))


def test_content_is_parts() -> None:
    content: list[JsonObject] = [
        {"type": "input_text", "text": "See", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_image", "image_url": "data:image/gif;base64,aGk=", "detail": "low"},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        {"type": "input_file", "file_url": "https://example.org/b.pdf"},
        {"type": "input_text"},
        {"type": "input_hologram"},
    ]
    message = Message(
        role="user",
        parts=(
            Text(text="See", extra=wire_data(prompt_cache_breakpoint={"mode": "explicit"})),
            Image(data=b"hi", mime="image/gif", detail="low"),
            Image(url="https://example.org/a.png"),
            Opaque(wire=NAME, data=content[3]),
            Document(data=b"hi", mime="application/pdf", name="a.pdf"),
            Document.from_url("https://example.org/b.pdf"),
            Opaque(wire=NAME, data=content[6]),
            Opaque(wire=NAME, data=content[7]),
        ),
        extra=wire_data(id="msg_0"),
    )
    assert turns({"type": "message", "role": "user", "id": "msg_0", "content": content}) == (message,)
    again = {"type": "message", "role": "user", "content": content, "id": "msg_0"}
    assert sent_again({"role": "user", "id": "msg_0", "content": content})["input"] == [again]


def test_instructions_and_leading_system_messages_are_the_system_prompt() -> None:
    developer = {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]}
    request = decoded_request(instructions="Be brief.", input=[developer, HI])
    assert request.system == (Text(text="Be brief."), Text(text="Be kind."))
    assert decoded_request(instructions="Be brief.").system == "Be brief."
    assert decoded_request(input=[developer, HI]).system == "Be kind."


def test_a_later_system_message_is_a_message() -> None:
    assert turns(HI, {"role": "system", "content": "Be kind."}) == (user("Hi"), system("Be kind."))


def test_a_system_message_with_a_picture_is_a_message() -> None:
    content = [{"type": "input_image", "image_url": "https://example.org/a.png"}]
    found = turns({"role": "developer", "content": content})
    assert found == (system(Image(url="https://example.org/a.png")),)


@pytest.mark.parametrize("state", [{"store": True}, {"previous_response_id": "resp_0"}])
def test_a_system_message_stays_an_item_where_the_server_remembers(state: JsonObject) -> None:
    developer = {"role": "developer", "content": "Be kind."}
    assert decoded_request(input=[developer, HI], **state).system == (
        Text(text="Be kind.", extra=wire_data(role="developer")),
    )
    item = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]}
    assert sent_again(developer, HI, **state)["input"][0] == item


def test_a_system_text_with_more_to_it_stays_an_item() -> None:
    part = {"type": "input_text", "text": "Be kind.", "prompt_cache_breakpoint": {"mode": "explicit"}}
    item = {"type": "message", "role": "system", "content": [part]}
    assert sent_again(item, HI)["input"][0] == item


def test_the_items_of_one_turn_are_one_message() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    message: JsonObject = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Hm.", "annotations": []}, {"type": "refusal", "refusal": "No."}],
    }
    item = {"id": "msg_1", "phase": "commentary"}
    assert turns(HI, REASONING, message, search, CALL, OUTPUT, HI) == (
        user("Hi"),
        assistant(
            Thinking(text="", redacted=True, extra=wire_data(id="rs_1", encrypted_content="gAAAA")),
            Text(text="Hm.", extra=wire_data(item=item)),
            Text(text="No.", extra=wire_data(item=item, refusal=True)),
            HostedCall(id="ws_1", tool="web_search", extra={NAME: search}),
            BREST,
        ),
        tool_results(ToolResult(id="call_1", name="tide", content="4.2 m")),
        user("Hi"),
    )
    assert sent_again(HI, REASONING, message, search, CALL, OUTPUT, HI)["input"][1:6] == [
        REASONING,
        message,
        search,
        CALL,
        OUTPUT,
    ]


def test_an_assistants_text_may_be_a_string() -> None:
    assert turns(HI, {"role": "assistant", "content": "Yes"})[1] == assistant("Yes")


def test_two_messages_without_ids_stay_two() -> None:
    yes, no = ({"type": "message", "role": "assistant", "content": word} for word in ("Yes", "No"))
    assert turns(HI, yes, no)[1:] == (assistant("Yes"), assistant("No"))
    assert sent_again(HI, yes, no)["input"][1:] == [yes, no]


def test_an_assistants_message_without_content_is_kept() -> None:
    empty: JsonObject = {"type": "message", "role": "assistant", "status": "completed", "id": "msg_1", "content": []}
    assert turns(HI, REASONING, empty)[1].parts[1] == Text(text="", extra=wire_data(item={"id": "msg_1"}, empty=True))
    assert sent_again(HI, REASONING, empty)["input"][1:] == [REASONING, empty]


def test_results_that_follow_each_other_are_one_message() -> None:
    other = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "now", "arguments": ""}
    late = {**OUTPUT, "call_id": "call_2", "output": "ERROR: no", "id": "fco_2", "status": "completed"}
    assert turns(HI, CALL, other, OUTPUT, late)[2] == tool_results(
        ToolResult(id="call_1", name="tide", content="4.2 m"),
        ToolResult(id="call_2", name="now", content="no", is_error=True, extra=wire_data(id="fco_2")),
    )


def result(*output: JsonObject) -> ToolResult:
    found = turns(HI, CALL, {**OUTPUT, "output": output})[2].tool_results[0]
    assert sent_again(HI, CALL, {**OUTPUT, "output": output})["input"][2]["output"] == list(output)
    return found


PICTURE: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}


def test_pictures_in_a_result_are_parts_of_it() -> None:
    found = result({"type": "input_text", "text": "Look"}, PICTURE)
    assert found.content == (Text(text="Look"), Image(data=b"hi", mime="image/png"))


def test_an_error_in_a_result_of_parts_is_told_by_the_prefix() -> None:
    found = result({"type": "input_text", "text": "ERROR: no"}, PICTURE)
    assert (found.content, found.is_error) == ((Text(text="no"), Image(data=b"hi", mime="image/png")), True)
    found = result({"type": "input_text", "text": "ERROR: "}, PICTURE)
    assert (found.content, found.is_error) == ((Image(data=b"hi", mime="image/png"),), True)
    assert not result(PICTURE).is_error


def test_a_custom_call_and_its_result_keep_their_kind() -> None:
    call = {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "SELECT 1", "id": "ctc_1"}
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}
    assert turns(HI, call, output)[1:] == (
        assistant(
            ToolCall(
                id="call_1",
                name="sql",
                arguments={"input": "SELECT 1"},
                extra={"openai_responses.verbatim": {"type": "custom_tool_call"}, **wire_data(id="ctc_1")},
            )
        ),
        tool_results(ToolResult(id="call_1", name="sql", content="1")),
    )
    assert sent_again(HI, call, output)["input"][1:] == [call, output]


@pytest.mark.parametrize("state", [{"previous_response_id": "resp_0"}, {"conversation": {"id": "conv_1"}}])
def test_a_result_whose_call_the_server_remembers_is_kept(state: JsonObject) -> None:
    assert sent_again(HI, OUTPUT, **state)["input"][1] == OUTPUT


def test_a_result_whose_call_is_referred_to_is_kept() -> None:
    reference = {"type": "item_reference", "id": "fc_1"}
    assert sent_again(HI, reference, OUTPUT)["input"][1:] == [reference, OUTPUT]


def test_a_result_whose_call_is_nowhere_is_a_result() -> None:
    assert turns(HI, OUTPUT)[1] == tool_results(ToolResult(id="call_1", content="4.2 m"))


def test_an_image_that_was_made_is_an_image() -> None:
    made = {"type": "image_generation_call", "id": "ig_1", "result": "UklGRg==", "output_format": "webp"}
    assert turns(HI, made)[1] == assistant(Image(data=b"RIFF", mime="image/webp", extra=wire_data(id="ig_1")))


@pytest.mark.parametrize("form", [{}, {"output_format": "png"}, {"output_format": "webp"}])
def test_an_image_that_was_made_goes_back_as_it_came(form: JsonObject) -> None:
    made = {"type": "image_generation_call", "id": "ig_1", "result": "UklGRg==", **form}
    assert sent_again(HI, made)["input"][1] == made


@pytest.mark.parametrize(
    "item",
    [
        {"id": "msg_1"},
        {"type": None, "id": "msg_1"},
        {"type": "function_call_output", "name": "tide", "namespace": "sea", "output": "4.2 m"},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]},
        {"type": "program", "call_id": "call_9", "code": "1", "fingerprint": "gAAAA"},
        {"type": "compaction", "encrypted_content": "gAAAA"},
    ],
)
def test_an_item_that_we_have_no_word_for_is_kept_in_its_place(item: JsonObject) -> None:
    assert sent_again(HI, item, HI)["input"][1] == item


def test_a_message_may_have_no_type() -> None:
    assert turns({"type": None, "role": "user", "content": "Hi"}) == (user("Hi"),)


def test_arguments_may_be_an_object_or_nothing() -> None:
    assert turns(HI, {**CALL, "arguments": {"port": "Brest"}})[1] == assistant(BREST)
    assert turns(HI, {**CALL, "arguments": None})[1].tool_calls[0].arguments == {}


def test_arguments_that_are_no_json_object_go_back_as_they_came() -> None:
    call = {**CALL, "arguments": '{"port": Brest}'}
    assert turns(HI, call)[1].tool_calls[0].arguments == {"malformed_arguments": '{"port": Brest}'}
    assert sent_again(HI, call, OUTPUT)["input"][1] == call


def test_the_text_of_arguments_is_kept_where_we_would_write_another() -> None:
    assert turns(HI, {**CALL, "arguments": '{"port": "Brest"}'})[1].tool_calls[0].raw == '{"port": "Brest"}'


def test_ids_that_we_made_ourselves_never_go_out() -> None:
    items = [{**REASONING, "id": "rs_dragoman_resp_1_0"}, {**CALL, "id": "fc_dragoman_resp_1_1"}]
    again = sent_again(HI, *items, OUTPUT)["input"]
    assert ["id" in item for item in again] == [False] * 4


def test_tools_are_read_and_hosted_ones_kept() -> None:
    tide = {"type": "function", "name": "tide", "description": "Tide", "parameters": PORT, "strict": False}
    now: JsonObject = {
        "type": "function",
        "name": "now",
        "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        "strict": True,
    }
    hosted = {"type": "mcp", "server_label": "sea"}
    tools = [tide, {**now, "defer_loading": True}, hosted]
    assert decoded_request(tools=tools).tools == (
        Tool(name="tide", description="Tide", parameters=PORT),
        Tool(name="now", strict=True, extra=wire_data(defer_loading=True)),
        Opaque(wire=NAME, data=hosted),
    )
    assert sent_again(HI, tools=tools)["tools"] == tools


def test_a_tool_that_leaves_strict_to_the_server_still_does() -> None:
    tool = {"type": "function", "name": "tide", "parameters": PORT}
    assert sent_again(HI, tools=[tool])["tools"] == [tool]
    assert decoded_request(tools=[tool]).tools == (Tool(name="tide", parameters=PORT, extra=wire_data(strict=None)),)


def test_a_clients_own_strict_flag_stands_though_the_schema_does_not_satisfy_it() -> None:
    tool = {"type": "function", "name": "tide", "parameters": PORT, "strict": True}
    again = sent_again(HI, tools=[tool], text={"format": LOOSE})
    assert (again["tools"], again["text"]) == ([tool], {"format": LOOSE})


def test_a_tool_in_the_form_of_chat_is_read() -> None:
    inner = {"name": "tide", "parameters": PORT, "strict": True}
    tool = {"type": "function", "name": "tide", "function": inner}
    assert decoded_request(tools=[tool]).tools == (
        Tool(name="tide", parameters=PORT, strict=True, extra=wire_data(function=inner)),
    )
    assert sent_again(HI, tools=[tool])["tools"] == [tool]


ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "tide"}]}


@pytest.mark.parametrize(
    ("fields", "choice", "verbatim"),
    [
        (None, None, False),
        ("auto", "auto", False),
        ("none", "none", False),
        ("required", "required", False),
        ({"type": "function", "name": "tide"}, "tide", False),
        (ALLOWED, "required", True),
        ({**ALLOWED, "mode": "?"}, None, True),
        ({"type": "web_search_preview"}, None, True),
        ("sometimes", None, True),
    ],
)
def test_a_choice_is_read_and_kept_where_our_word_is_less(fields: Any, choice: str | None, *, verbatim: bool) -> None:
    request = decoded_request(tool_choice=fields)
    assert request.tool_choice == choice
    assert request.extra == (wire_data(tool_choice=fields) if verbatim else {})


STRICT = {**PORT, "additionalProperties": False}
FORM = {"type": "json_schema", "name": "tide", "schema": STRICT, "strict": True}
LOOSE = {**FORM, "schema": PORT}


@pytest.mark.parametrize(
    ("text", "known", "verbatim"),
    [
        ({"format": FORM}, {"schema": STRICT, "schema_name": "tide", "schema_strict": True}, None),
        ({"format": {"type": "json_schema", "schema": PORT}}, {"schema": PORT}, None),
        ({"format": {"type": "json_object"}, "verbosity": "low"}, {"schema": {}, "verbosity": "low"}, None),
        (
            {"format": {**FORM, "description": "x"}},
            {"schema": STRICT, "schema_name": "tide", "schema_strict": True},
            {"format": {**FORM, "description": "x"}},
        ),
        ({"format": {"type": "json_schema"}}, {}, {"format": {"type": "json_schema"}}),
        ({"verbosity": "low"}, {"verbosity": "low"}, None),
        ({"verbosity": "brief"}, {}, {"verbosity": "brief"}),
        ({}, {}, None),
    ],
)
def test_a_format_is_a_schema_and_the_rest_is_kept(
    text: JsonObject, known: dict[str, Any], verbatim: JsonObject | None
) -> None:
    assert decoded_request(text=text) == Request(
        messages=(user("Hi"),), extra=wire_data(text=verbatim) if verbatim else {}, **known
    )


def test_a_verbosity_beside_a_verbatim_format_is_read() -> None:
    request = decoded_request(text={"format": LOOSE, "verbosity": "low"})
    assert (request.verbosity, request.extra) == ("low", {f"{NAME}.verbatim": {"text": {"format": LOOSE}}})


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ({"text": {"format": LOOSE}}, {"schema": PORT, "schema_name": "tide", "schema_strict": True}),
        ({"text": {"format": {"type": "text"}}}, {}),
    ],
)
def test_the_clients_own_form_of_what_our_words_say_whole_goes_back(body: JsonObject, known: dict[str, Any]) -> None:
    assert decoded_request(**body) == Request(messages=(user("Hi"),), extra={f"{NAME}.verbatim": body}, **known)
    assert sent_again(HI, **body).items() >= body.items()


def test_what_is_null_is_not_told() -> None:
    assert decoded_request(previous_response_id=None, prompt=None).extra == {}


@pytest.mark.parametrize(
    ("reasoning", "effort", "verbatim"),
    [
        ({"effort": "high"}, "high", None),
        ({"effort": "low", "summary": "auto"}, "low", {"summary": "auto"}),
        ({"effort": "xhigh", "summary": "auto"}, "xhigh", {"summary": "auto"}),
        ({"effort": "huge"}, None, {"effort": "huge"}),
        ({"effort": None, "summary": "auto"}, None, {"summary": "auto"}),
        ({}, None, None),
    ],
)
def test_reasoning_is_an_effort_and_the_rest_is_kept(
    reasoning: JsonObject, effort: Effort | None, verbatim: JsonObject | None
) -> None:
    request = decoded_request(reasoning=reasoning)
    assert (request.reasoning, request.extra) == (effort, wire_data(reasoning=verbatim) if verbatim else {})


def test_other_options_are_read() -> None:
    fields: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.1,
        "parallel_tool_calls": False,
        "user": "u",
        "metadata": {"a": "b"},
    }
    assert decoded_request(**fields, max_output_tokens=99, stream=True) == Request(
        messages=(user("Hi"),), max_tokens=99, stream=True, **fields
    )


def test_unknown_options_are_kept() -> None:
    more = {"store": True, "include": ["x"], "truncation": "auto", "background": True}
    assert decoded_request(**more).extra == {NAME: more}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "the body must be a JSON object"),
        (b'{"input":4}', "input must be"),
        (b'{"input":["Hi"]}', "input[0] must be object"),
        (b'{"input":[{"role":"king","content":""}]}', "input[0].role must be one of system, developer, user"),
        (b'{"input":[{"content":"x"}]}', "input[0].role is required"),
        (b'{"input":[{"role":"user","content":4}]}', "input[0].content must be"),
        (
            b'{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:x"}]}]}',
            "input[0].content[0]: url must be data:<type>;base64,<data>",
        ),
        (b'{"input":[{"type":"function_call","name":"x"}]}', "input[0].call_id is required"),
        (b'{"input":[{"type":"function_call_output","call_id":"c"}]}', "input[0].output is required"),
        (b'{"tools":[{"type":"function"}]}', "tools[0].name is required"),
        (b'{"tools":[{"type":"function","function":{}}]}', "tools[0].function.name is required"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        SERVER.decode_request(HttpRequest(method="POST", path="/v1/responses", body=body))
    assert str(raised.value).startswith(message)


# What we answer -------------------------------------------------------------------------------------------------------

STOP = Finish(reason="stop", raw="completed")
NOTE = {"type": "url_citation", "url": "https://example.org", "title": "T", "start_index": 0, "end_index": 1}


def answer(*parts: Part, finish: Finish = STOP, **more: Any) -> JsonObject:
    response = Response(id="resp_1", model="gpt-x", created=7, message=assistant(*parts), finish=finish, **more)
    body: JsonObject = msgspec.json.decode(SERVER.encode_body(response).body)
    return body


def test_an_answer_has_all_that_clients_types_demand() -> None:
    usage = Usage(input=12, output=6, cache_read=4, cache_write=1, reasoning=2)
    assert answer(Text(text="Noon."), usage=usage) == {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "background": False,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "gpt-x",
        "output": [
            {
                "id": "msg_dragoman_resp_1_0",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Noon.", "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "store": True,
        "completed_at": None,
        "conversation": None,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "service_tier": "default",
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            "output_tokens": 6,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 18,
        },
    }


def test_what_is_not_told_is_empty_where_clients_demand_it() -> None:
    response = Response(message=assistant("Noon."), finish=STOP, usage=Usage(input=3))
    body = SERVER.encode_body(response).body
    fields = msgspec.json.decode(body)
    assert (fields["id"], fields["created_at"], fields["model"]) == ("", 0, "")
    assert fields["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 3,
    }
    assert fields["output"][0]["id"] == "msg_dragoman_0"
    assert fold(CLIENT.decode_body(body)).id is None


def test_unknown_usage_is_null() -> None:
    assert answer()["usage"] is None


def test_every_part_is_an_item_in_its_place() -> None:
    item = {"id": "msg_1", "phase": "commentary", "status": "incomplete"}
    output = answer(
        Thinking(text="Hm", extra={"anthropic": {"signature": "x"}}),
        Text(text="a", extra=wire_data(item=item, annotations=[NOTE])),
        Text(text="b", extra=wire_data(item=item, refusal=True)),
        Opaque(wire=NAME, data={"type": "web_search_call", "id": "ws_1"}),
        Opaque(wire="anthropic", data={"type": "server_tool_use"}),
        Audio(data=b"", mime="audio/wav"),
        BREST,
        ToolCall(id="call_2", name="sql", arguments={"input": "x"}, extra=wire_data(type="custom_tool_call")),
        Image(data=b"RIFF", mime="image/webp"),
        Image(url="https://example.org/a.png"),
    )["output"]
    assert output == [
        {"id": "rs_dragoman_resp_1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {
            **item,
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [NOTE]},
                {"type": "refusal", "refusal": "b"},
            ],
        },
        {"type": "web_search_call", "id": "ws_1"},
        {**CALL, "status": "completed"},
        {
            "id": "ctc_dragoman_resp_1_4",
            "status": "completed",
            "type": "custom_tool_call",
            "call_id": "call_2",
            "name": "sql",
            "input": "x",
        },
        {
            "id": "ig_dragoman_resp_1_5",
            "status": "completed",
            "type": "image_generation_call",
            "result": "UklGRg==",
            "output_format": "webp",
        },
        {
            "id": "ig_dragoman_resp_1_6",
            "status": "completed",
            "type": "image_generation_call",
            "result": "https://example.org/a.png",
        },
    ]


UNSAYABLE: list[Part] = [
    Audio(data=b"RIFF", mime="audio/wav"),
    Document(data=b"%PDF", mime="application/pdf"),
    ToolResult(id="call_1", content="4.2 m"),
    Opaque(wire="anthropic", data={"type": "server_tool_use"}),
]


@pytest.mark.parametrize("part", UNSAYABLE)
def test_a_part_that_the_dialect_cannot_say_is_left_out_of_a_body_and_of_a_stream(part: Part) -> None:
    assert answer(part, Text(text="a")) == answer(Text(text="a"))
    assert streamed(part, Text(text="a")) == streamed(Text(text="a"))


REFUSAL = Text(text="No.", extra={NAME: {"refusal": True}})
APPROVAL = Opaque(wire=NAME, data={"type": "mcp_approval_request", "id": "mcpr_1"})


@pytest.mark.parametrize(
    ("finish", "parts", "status", "reason"),
    [
        (Finish(reason="stop", raw="end_turn"), (), "completed", None),
        (Finish(reason="tool_calls", raw="tool_use"), (BREST,), "completed", None),
        (Finish(reason="length", raw="MAX_TOKENS"), (), "incomplete", "max_output_tokens"),
        (Finish(reason="length", raw="max_messages"), (), "incomplete", "max_messages"),
        (Finish(reason="length", raw="incomplete"), (), "incomplete", "max_output_tokens"),
        (Finish(reason="blocked", raw="completed"), (REFUSAL,), "completed", None),
        (Finish(reason="blocked", raw="SAFETY"), (), "incomplete", "content_filter"),
        (Finish(reason="pause", raw="completed"), (APPROVAL,), "completed", None),
        (Finish(reason="pause", raw="pause_turn"), (), "incomplete", "steered"),
        (Finish(reason="pause", raw="queued"), (), "queued", None),
        (Finish(reason="other", raw="tired"), (), "incomplete", "tired"),
        (Finish(reason="other"), (), "incomplete", "other"),
    ],
)
def test_a_finish_is_a_status_and_a_reason(
    finish: Finish, parts: tuple[Part, ...], status: str, reason: str | None
) -> None:
    fields = answer(*parts, finish=finish)
    assert (fields["status"], fields["incomplete_details"]) == (status, {"reason": reason} if reason else None)
    assert fold(CLIENT.decode_body(msgspec.json.encode(fields))).finish.reason == finish.reason


def test_an_error_is_an_error_object() -> None:
    reply = SERVER.encode_error(RateLimited("slow down", code="rate_limit_exceeded", retry_after=2))
    assert (reply.status, reply.headers["retry-after"]) == (429, "2")
    assert msgspec.json.decode(reply.body) == {
        "error": {
            "message": "slow down",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RateLimited("slow down", code="429"), "rate_limit_exceeded"),
        (RateLimited("no credit", retry=False), "insufficient_quota"),
        (ContextTooLong("too long", code="x"), "context_length_exceeded"),
        (ServerFault("boom", code="x"), "x"),
    ],
)
def test_an_error_has_this_dialects_code(error: DragomanError, code: str) -> None:
    assert msgspec.json.decode(SERVER.encode_error(error).body)["error"]["code"] == code


# What we stream -------------------------------------------------------------------------------------------------------


def stream(*events: Event | DragomanError) -> list[JsonObject]:
    """The events that we write, each checked for its name and number."""
    encoder = SERVER.stream_encoder(Request(stream=True))
    assert encoder.content_type == "text/event-stream"
    data = b"".join(encoder.feed(event) for event in events)
    found: list[JsonObject] = []
    for frame in data.decode().strip().split("\n\n"):
        if frame != ": ping":
            name, _, payload = frame.partition("\ndata: ")
            event = msgspec.json.decode(payload)
            assert name == f"event: {event['type']}"
            assert event.pop("sequence_number") == len(found)
            found.append(event)
    return found


def streamed(*parts: Part, finish: Finish = STOP) -> list[JsonObject]:
    """The events between the first two and the last."""
    response = Response(id="resp_1", model="gpt-x", created=7, message=assistant(*parts), finish=finish)
    events = stream(*to_events(response))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["response"] == answer(*parts, finish=finish)
    return events[2:-1]


def test_a_stream_begins_with_a_snapshot() -> None:
    first, second = stream(Started(id="resp_1", model="gpt-x", created=7), Ping())
    empty = {**answer(), "status": "in_progress"}
    assert first == {"type": "response.created", "response": empty}
    assert second == {"type": "response.in_progress", "response": empty}


def test_a_text_is_streamed_inside_its_item() -> None:
    item = {"id": "msg_1", "phase": "final_answer"}
    usual = {"type": "message", "role": "assistant", **item}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty: JsonObject = {"type": "output_text", "text": "", "annotations": []}
    whole = {"type": "output_text", "text": "Noon.", "annotations": [NOTE]}
    assert streamed(Text(text="Noon.", extra=wire_data(item=item, annotations=[NOTE]))) == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**usual, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": empty},
        {"type": "response.output_text.delta", **place, "delta": "Noon.", "logprobs": []},
        {"type": "response.output_text.annotation.added", **place, "annotation_index": 0, "annotation": NOTE},
        {"type": "response.output_text.done", **place, "text": "Noon.", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": whole},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**usual, "status": "completed", "content": [whole]},
        },
    ]


def kinds(events: list[JsonObject]) -> list[tuple[str, int]]:
    return [(event["type"].removeprefix("response."), event["output_index"]) for event in events]


def test_a_refusal_is_streamed_as_one() -> None:
    events = streamed(REFUSAL, finish=Finish(reason="blocked", raw="completed"))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "output_item.added",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]
    assert events[3]["refusal"] == events[4]["part"]["refusal"] == "No."


def test_texts_of_one_item_are_its_parts() -> None:
    first, last = {"id": "msg_1"}, {"id": "msg_2"}
    events = streamed(
        Text(text="a", extra=wire_data(item=first)),
        Text(text="b", extra=wire_data(item=first)),
        Text(text="c", extra=wire_data(item=last)),
    )
    deltas = [event for event in events if event["type"].endswith("delta")]
    assert [(event["output_index"], event["content_index"]) for event in deltas] == [(0, 0), (0, 1), (1, 0)]
    assert kinds(events)[-1] == ("output_item.done", 1)


def test_a_message_without_content_has_no_parts() -> None:
    events = streamed(Text(text="", extra=wire_data(item={"id": "msg_1"}, empty=True)))
    assert kinds(events) == [("output_item.added", 0), ("output_item.done", 0)]


def test_a_summary_is_streamed_inside_its_item() -> None:
    place = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    begun: JsonObject = {"id": "rs_1", "type": "reasoning", "summary": []}
    item = {**begun, "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "gAAAA"}
    assert streamed(Thinking(text="Hm", extra=wire_data(id="rs_1", encrypted_content="gAAAA"))) == [
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.reasoning_summary_part.added", **place, "part": {"type": "summary_text", "text": ""}},
        {"type": "response.reasoning_summary_text.delta", **place, "delta": "Hm"},
        {"type": "response.reasoning_summary_text.done", **place, "text": "Hm"},
        {"type": "response.reasoning_summary_part.done", **place, "part": {"type": "summary_text", "text": "Hm"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]


def test_raw_thinking_is_streamed_as_content() -> None:
    content = [{"type": "reasoning_text", "text": "Hm"}]
    place = {"item_id": "rs_dragoman_resp_1_0", "output_index": 0, "content_index": 0}
    events = streamed(Thinking(text="Hm", extra=wire_data(summary=[], content=content)))
    assert events[1:5] == [
        {"type": "response.content_part.added", **place, "part": {"type": "reasoning_text", "text": ""}},
        {"type": "response.reasoning_text.delta", **place, "delta": "Hm"},
        {"type": "response.reasoning_text.done", **place, "text": "Hm"},
        {"type": "response.content_part.done", **place, "part": content[0]},
    ]


def test_hidden_thinking_is_an_item_and_nothing_more() -> None:
    events = streamed(Thinking(text="", redacted=True, extra=wire_data(id="rs_1", encrypted_content="gAAAA")))
    assert kinds(events) == [("output_item.added", 0), ("output_item.done", 0)]
    assert events[1]["item"] == REASONING


def test_a_call_is_streamed_with_its_arguments() -> None:
    place = {"item_id": "fc_1", "output_index": 0}
    text = '{"port":"Brest"}'
    assert streamed(BREST, finish=Finish(reason="tool_calls", raw="completed")) == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**CALL, "arguments": "", "status": "in_progress"},
        },
        {"type": "response.function_call_arguments.delta", **place, "delta": text},
        {"type": "response.function_call_arguments.done", **place, "name": "tide", "arguments": text},
        {"type": "response.output_item.done", "output_index": 0, "item": {**CALL, "status": "completed"}},
    ]


def test_a_custom_call_is_streamed_with_its_input() -> None:
    call = ToolCall(
        id="call_1", name="sql", arguments={"input": "x"}, extra=wire_data(type="custom_tool_call", id="ctc_1")
    )
    events = streamed(call, finish=Finish(reason="tool_calls", raw="completed"))
    assert kinds(events)[1:3] == [("custom_tool_call_input.delta", 0), ("custom_tool_call_input.done", 0)]


def test_other_items_come_at_once() -> None:
    search = Opaque(wire=NAME, data={"type": "web_search_call", "id": "ws_1"})
    foreign = Opaque(wire="anthropic", data={"type": "server_tool_use"})
    image = Image(data=b"RIFF", mime="image/webp", extra=wire_data(id="ig_1"))
    assert kinds(streamed(search, foreign, image)) == [
        ("output_item.added", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("output_item.done", 1),
    ]


def test_parts_may_interleave() -> None:
    extra = wire_data(item={"id": "msg_1"})
    events: list[Event] = [
        Started(id="resp_1", model="gpt-x", created=7),
        PartStarted(index=0, kind="text", extra=extra),
        PartDelta(index=0, text="a"),
        PartStarted(index=1, kind="tool_call"),
        PartEnded(index=1, part=BREST),
        PartDelta(index=0, text="b"),
        PartEnded(index=0, part=Text(text="ab", extra=extra)),
        Finished(service_tier="default", finish=Finish(reason="tool_calls", raw="completed")),
    ]
    encoder = SERVER.stream_encoder(Request())
    decoder = CLIENT.stream_decoder()
    assert decoder.feed(b"".join(encoder.feed(event) for event in events))[-1] == events[-1]
    fields = stream(*events)
    assert kinds(fields[2:-1])[-1] == ("output_item.done", 0)
    assert [item["type"] for item in fields[-1]["response"]["output"]] == ["message", "function_call"]


def test_a_cut_answer_ends_as_incomplete() -> None:
    last = stream(Started(), Finished(finish=Finish(reason="length")))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_an_error_is_an_event_that_the_sdks_raise() -> None:
    error = {"message": "busy", "type": "server_error", "param": None, "code": "slow_down"}
    last = stream(Started(), Overloaded("busy", code="overloaded"))[-1]
    flat = {"code": "slow_down", "message": "busy", "param": None}
    assert last == {"type": "error", **flat, "status": 503, "error": error}
