"""What we make of a client's JSON, and exact JSON of what we answer."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ChainExhausted,
    ContextTooLong,
    DragomanError,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    TimedOut,
    Unsupported,
)
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started, fold, to_events
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.types import (
    UNKNOWN_USAGE,
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
    system,
    tool_results,
    user,
)
from dragoman.wires.anthropic import WIRE
from tests.support.wires import laws

CALL = ToolCall(id="toolu_1", name="tide", arguments={"port": "Brest"})
USED: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"port": "Brest"}}
ANSWERED: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4.2 m"}
RESULT = ToolResult(id="toolu_1", name="tide", content="4.2 m")
WITH_RESULTS = {"anthropic.verbatim": {"with_results": True}}
SCHEMA_FORMAT = {"type": "json_schema", "schema": laws.SCHEMA}
END = Finish(reason="stop", raw="end_turn")

BAD: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": "99"}, "max_tokens must be "),
    ({"messages": [{"role": "user"}, {"content": "x"}]}, "messages[1].role is required"),
    ({"messages": [{"role": "pilot", "content": "x"}]}, "messages[0].role must be user, assistant or system, got"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text is required"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        "messages[0].content[0].text must be ",
    ),
    (
        {"messages": [{"role": "assistant", "content": [{**USED, "input": "{}"}]}]},
        "messages[0].content[0].input must be ",
    ),
    (
        {"messages": [{"role": "user", "content": [{**ANSWERED, "content": [USED]}]}]},
        "messages[0].content[0].content[0] must not be of type tool_call",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "?"},
                        }
                    ],
                }
            ]
        },
        "messages[0].content[0].source.data: data must be base64",
    ),
    ({"system": [{"type": "image", "source": {}}]}, "system[0] must be a text block"),
    ({"tools": [{"name": 1, "input_schema": {}}]}, "tools[0].name must be "),
]


def decode(path: str = "/v1/messages", headers: dict[str, str] | None = None, **fields: Any) -> tuple[str, Request]:
    body = json.dumps({"model": "claude-x", "max_tokens": 99, "messages": [], **fields}).encode()
    return WIRE.server.decode_request(HttpRequest(method="POST", path=path, headers=headers or {}, body=body))


def decoded(**fields: Any) -> Request:
    return decode(**fields)[1]


def turns(*messages: Any) -> tuple[Message, ...]:
    return decoded(messages=list(messages)).messages


def sent_again(**fields: Any) -> Any:
    """What the same wire sends on of a client's request."""
    model, request = decode(**fields)
    return json.loads(WIRE.client.encode_request(request, target(f"anthropic/{model}", api_key="k")).body)


def encoded_body(*parts: Part, finish: Finish = END, usage: Usage = UNKNOWN_USAGE) -> Any:
    response = Response(message=Message(role="assistant", parts=parts), finish=finish, usage=usage)
    return json.loads(WIRE.server.encode_body(response).body)


def streamed(*events: Event | DragomanError) -> list[Any]:
    """The data of the events that are written; each is named by its type."""
    encoder = WIRE.server.stream_encoder(Request(stream=True))
    frames = b"".join(encoder.feed(event) for event in events).decode().split("\n\n")
    written: list[Any] = []
    for frame in frames[:-1]:
        name, _, data = frame.partition("\ndata: ")
        written.append(json.loads(data))
        assert name == f"event: {written[-1]['type']}"
    return written


def blocks(*parts: Part) -> list[Any]:
    """The events of the blocks that some parts are written as."""
    response = Response(message=Message(role="assistant", parts=parts), finish=END)
    return streamed(*to_events(response))[1:-2]


class TestRequest:
    def test_the_route(self) -> None:
        vertex = "/v1/projects/{project}/locations/{location}/publishers/anthropic/models/{model}"
        paths = ["/v1/messages", "/anthropic/v1/messages", f"{vertex}:rawPredict", f"{vertex}:streamRawPredict"]
        assert [(route.method, route.path) for route in WIRE.server.routes] == [("POST", path) for path in paths]

    def test_every_plain_option(self) -> None:
        request = decoded(
            messages=[{"role": "user", "content": "hello"}],
            system="Be brief.",
            temperature=0.5,
            top_p=0.9,
            top_k=5,
            stop_sequences=["END"],
            metadata={"user_id": "u1"},
            stream=True,
            cache_control={"type": "ephemeral"},
        )
        assert request == Request(
            messages=(user("hello"),),
            system="Be brief.",
            temperature=0.5,
            top_p=0.9,
            top_k=5,
            max_tokens=99,
            stop=("END",),
            user="u1",
            stream=True,
            cache=True,
        )

    def test_unknown_fields_are_kept_and_given_back(self) -> None:
        fields: dict[str, Any] = {"speed": "fast", "mcp_servers": [{"name": "x"}], "container": "c1"}
        assert decoded(**fields).extra == {"anthropic": fields}
        assert fields.items() <= sent_again(**fields).items()

    def test_what_our_words_cover_in_part_is_kept_beside_them(self) -> None:
        fields: dict[str, Any] = {
            "metadata": {"user_id": "u1", "trace": "t"},
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        }
        request = decoded(**fields)
        assert (request.user, request.cache) == ("u1", True)
        assert fields.items() <= sent_again(**fields).items()

    def test_a_user_id_that_is_null_is_none(self) -> None:
        assert decoded(metadata={"user_id": None}) == decoded()

    def test_betas_come_from_the_header_and_go_back_to_it(self) -> None:
        _, request = decode(headers={"Anthropic-Beta": "a-1, b-2"}, anthropic_beta=["b-2", "c-3"])
        assert request.extra == {"anthropic": {"betas": ["a-1", "b-2", "c-3"]}}
        sent = WIRE.client.encode_request(request, target("anthropic/x", api_key="k"))
        assert sent.headers["anthropic-beta"] == "a-1,b-2,c-3"

    def test_the_model_of_a_cloud_is_in_the_path(self) -> None:
        path = "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:{}?alt=1"
        body = b'{"anthropic_version": "vertex-2023-10-16", "messages": []}'
        for verb, stream in (("rawPredict", False), ("streamRawPredict", True)):
            model, request = WIRE.server.decode_request(HttpRequest(method="POST", path=path.format(verb), body=body))
            assert (model, request) == ("claude-x@1", Request(stream=stream))

    def test_without_a_model_it_is_empty(self) -> None:
        assert WIRE.server.decode_request(HttpRequest(method="POST", path="/x", body=b"{}"))[0] == ""

    @pytest.mark.parametrize(("fields", "words"), BAD)
    def test_bad_input_is_refused_with_its_place(self, fields: Any, words: str) -> None:
        with pytest.raises(InvalidRequest) as caught:
            decoded(**fields)
        assert str(caught.value).startswith(words)


class TestMessages:
    def test_a_string_and_a_list_of_one_text_are_the_same(self) -> None:
        plain = turns({"role": "user", "content": "hello"})
        assert plain == (user("hello"),)
        assert turns({"role": "user", "content": [{"type": "text", "text": "hello"}]}) == plain
        assert turns({"role": "user", "content": ["hello"]}) == plain

    def test_no_content_is_no_parts(self) -> None:
        assert turns({"role": "assistant"}) == (Message(role="assistant"),)

    def test_what_else_a_message_has_is_kept(self) -> None:
        (message,) = turns({"role": "user", "content": "hello", "id": "m1"})
        assert message.extra == {"anthropic": {"id": "m1"}}

    def test_results_stand_before_the_users_words(self) -> None:
        assert turns(
            {"role": "user", "content": "tide?"},
            {"role": "assistant", "content": [USED]},
            {"role": "user", "content": [{"type": "text", "text": "And?"}, ANSWERED]},
        ) == (user("tide?"), assistant(CALL), tool_results(RESULT), replace(user("And?"), extra=WITH_RESULTS))

    @pytest.mark.parametrize("is_joined", [True, False])
    def test_text_stays_in_the_message_of_the_results(self, *, is_joined: bool) -> None:
        blocks: list[dict[str, Any]] = [ANSWERED, {"type": "text", "text": "And?"}]
        contents = [blocks] if is_joined else [blocks[:1], "And?"]
        given: list[dict[str, Any]] = [
            {"role": "user", "content": "tide?"},
            {"role": "assistant", "content": [USED]},
            *({"role": "user", "content": content} for content in contents),
        ]
        sent = WIRE.client.encode_request(Request(messages=turns(*given)), target("anthropic/claude-sonnet-4-5")).body
        assert json.loads(sent)["messages"] == given

    def test_results_in_two_messages_are_one_turn(self) -> None:
        second = {**USED, "id": "toolu_2"}
        assert turns(
            {"role": "assistant", "content": [USED, second]},
            {"role": "user", "content": [ANSWERED]},
            {"role": "user", "content": [{**ANSWERED, "tool_use_id": "toolu_2"}], "id": "m3"},
        )[1:] == (
            Message(
                role="tool",
                parts=(RESULT, replace(RESULT, id="toolu_2")),
                extra={"anthropic": {"id": "m3"}},
            ),
        )

    def test_every_form_of_a_result(self) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}}
        reference = {"type": "tool_reference", "tool_name": "x"}
        cache: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
        content = [
            {"type": "tool_result", "tool_use_id": "a"},
            {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
            {"type": "tool_result", "tool_use_id": "c", "content": ["t", image, reference], "is_error": False, **cache},
        ]
        (turn,) = turns({"role": "user", "content": content})
        assert turn.parts == (
            ToolResult(id="a"),
            ToolResult(id="b", content="no", is_error=True),
            ToolResult(
                id="c",
                content=(
                    Text(text="t"),
                    Image(data=b"png", mime="image/png"),
                    Text(text="A tool that can be called now: x", extra={"anthropic.verbatim": {"block": reference}}),
                ),
                extra={"anthropic": cache},
            ),
        )

    def test_every_kind_of_block(self) -> None:
        unknown: list[dict[str, Any]] = [
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            {"type": "document", "source": {"type": "content", "content": []}},
            {"no": "type"},
        ]
        found: dict[str, Any] = {"type": "search_result", "source": "s", "title": "t", "content": [{"text": "Ebb."}]}
        use: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
        pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
        known: list[Any] = [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "citations": []},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            {"type": "document", "source": pdf, "title": "bill", "citations": {"enabled": True}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Ebbe"}},
            {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "thinking", "thinking": "Hm."},
            {"type": "redacted_thinking", "data": "EmwK"},
            {**USED, "caller": {"type": "direct"}, "cache_control": None},
        ]
        (turn,) = turns({"role": "assistant", "content": [*known, found, use, *unknown]})
        assert turn.parts == (
            Text(text="a", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}}),
            Image(url="https://example.org/a.png"),
            Document(
                data=b"%PDF",
                mime="application/pdf",
                name="bill",
                extra={"anthropic": {"citations": {"enabled": True}}},
            ),
            Document(data=b"Ebbe", mime="text/plain"),
            Document(data=b"", mime="application/pdf", url="https://example.org/a.pdf"),
            Thinking(text="Hm.", extra={"anthropic": {"signature": "EqQB"}}),
            Thinking(text="Hm.", extra={"anthropic": {}}),
            Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}}),
            replace(CALL, extra={"anthropic": {"caller": {"type": "direct"}}}),
            Text(
                text="t\ns\nEbb.",
                extra={"anthropic.verbatim": {"block": found, "changed": "a search result is sent as text"}},
            ),
            HostedCall(id="s", tool="web_search", extra={"anthropic": use}),
            *(Opaque(wire="anthropic", data=data) for data in unknown),
        )

    def test_a_system_prompt_of_blocks(self) -> None:
        marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
        assert decoded(system=[{"type": "text", "text": "a"}, marked]).system == (
            Text(text="a"),
            Text(text="b", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}}),
        )
        assert decoded(system=[{"type": "text", "text": "a"}]).system == "a"
        assert decoded(system=[]).system is None

    def test_a_system_message_at_the_front_joins_the_prompt(self) -> None:
        request = decoded(system="a", messages=[{"role": "system", "content": "b"}, {"role": "user", "content": "c"}])
        assert request.system == (Text(text="a"), Text(text="b"))
        assert request.messages == (user("c"),)

    def test_a_system_message_inside_stays_there(self) -> None:
        assert turns({"role": "user", "content": "a"}, {"role": "system", "content": "b"}) == (user("a"), system("b"))

    def test_a_system_message_of_other_blocks_is_kept_as_it_is(self) -> None:
        whole = {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "x"}}]}
        given = [{"role": "user", "content": "a"}, whole]
        assert decoded(messages=given).messages[1] == Message(
            role="user", parts=(Opaque(wire="anthropic", data=whole),)
        )
        assert sent_again(messages=given)["messages"] == given


class TestTools:
    def test_definitions(self) -> None:
        tools: list[Any] = [
            {"name": "tide", "description": "d", "input_schema": laws.SCHEMA, "strict": True},
            {"name": "now", "input_schema": {"type": "object", "properties": {}}},
            {"type": "custom", "name": "x", "input_schema": {"type": "object"}, "defer_loading": True},
            {"type": "web_search_20260318", "name": "web_search"},
        ]
        assert decoded(tools=tools).tools == (
            Tool(name="tide", description="d", parameters=laws.SCHEMA, strict=True),
            Tool(name="now"),
            Tool(
                name="x",
                parameters={"type": "object"},
                extra={"anthropic": {"type": "custom", "defer_loading": True}},
            ),
            WebSearch(extra={"anthropic.verbatim": {"tool": tools[3]}}),
        )
        assert sent_again(tools=tools)["tools"] == tools

    @pytest.mark.parametrize(
        ("sent", "choice", "parallel"),
        [
            ({"type": "auto"}, "auto", None),
            ({"type": "none"}, "none", None),
            ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
            ({"type": "tool", "name": "tide", "disable_parallel_tool_use": False}, "tide", True),
        ],
    )
    def test_the_choice(self, sent: Any, choice: str, parallel: bool | None) -> None:  # noqa: FBT001  # a table's column
        request = decoded(tool_choice=sent)
        assert (request.tool_choice, request.parallel_tool_calls) == (choice, parallel)
        assert request.extra == {}

    @pytest.mark.parametrize("choice", [{"type": "allowed", "names": ["a"]}, {"type": "auto", "weight": 1}])
    def test_a_choice_that_we_have_no_word_for_is_given_back(self, choice: Any) -> None:
        tools: list[Any] = [{"name": "now", "input_schema": {"type": "object", "properties": {}}}]
        assert sent_again(tools=tools, tool_choice=choice)["tool_choice"] == choice


class TestSchema:
    @pytest.mark.parametrize("field", ["output_config", "output_format"])
    def test_the_format_is_the_schema_in_both_forms(self, field: str) -> None:
        fields = {field: SCHEMA_FORMAT if field == "output_format" else {"format": SCHEMA_FORMAT}}
        request = decoded(**fields)
        assert (request.schema, request.extra) == (laws.SCHEMA, {})
        assert sent_again(**fields)["output_config"] == {"format": SCHEMA_FORMAT}

    @pytest.mark.parametrize("format", [{"type": "grammar", "syntax": "lark"}, {**SCHEMA_FORMAT, "name": "port"}])
    def test_a_format_that_we_have_no_word_for_is_given_back(self, format: Any) -> None:
        assert sent_again(output_config={"format": format})["output_config"] == {"format": format}


class TestReasoning:
    @pytest.mark.parametrize(
        ("fields", "reasoning"),
        [
            ({"thinking": {"type": "disabled"}}, "none"),
            ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, 2000),
            ({"thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}}, 2000),
            ({"thinking": {"type": "enabled", "budget_tokens": 2000}, "output_config": {"effort": "low"}}, 2000),
            ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, "none"),
            ({"thinking": {"type": "adaptive"}}, "high"),
            ({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}, "low"),
            ({"output_config": {"effort": "xhigh"}}, "xhigh"),
            ({"output_config": {"effort": "wild"}}, None),
            ({"thinking": {"type": "between_tools"}}, None),
        ],
    )
    def test_it_means_the_same_and_is_said_the_same_again(self, fields: Any, reasoning: Any) -> None:
        assert decoded(**fields).reasoning == reasoning
        sent = sent_again(**{"max_tokens": 4096, **fields})
        assert {field: sent.get(field) for field in fields} == fields

    @pytest.mark.parametrize(
        ("fields", "extra"),
        [
            ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {}),
            (
                {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
                {"anthropic.verbatim": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}},
            ),
            (
                {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
                {
                    "anthropic": {"output_config": {"effort": "low"}},
                    "anthropic.verbatim": {"thinking": {"type": "disabled"}},
                },
            ),
            ({"output_config": {"effort": "xhigh"}}, {"anthropic.verbatim": {"output_config": {"effort": "xhigh"}}}),
            (
                {"thinking": {"type": "adaptive", "display": "summarized"}},
                {"anthropic.verbatim": {"thinking": {"type": "adaptive", "display": "summarized"}}},
            ),
            (
                {"thinking": {"type": "adaptive", "display": "omitted"}},
                {"anthropic": {"thinking": {"type": "adaptive", "display": "omitted"}}},
            ),
        ],
    )
    def test_only_what_our_words_say_whole_is_covered(self, fields: Any, extra: Any) -> None:
        assert decoded(**fields).extra == extra


class TestBody:
    def test_a_text(self) -> None:
        response = Response(
            id="msg_1", model="claude-x", message=assistant("hi"), finish=END, usage=Usage(input=3, output=2)
        )
        reply = WIRE.server.encode_body(response)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert json.loads(reply.body) == {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }

    def test_every_part(self) -> None:
        cited: dict[str, Any] = {"citations": [{"type": "page_location"}]}
        own: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
        content = encoded_body(
            Thinking(text="Hm.", extra={"anthropic": {"signature": "EqQB"}}),
            Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}}),
            Thinking(text="of another", extra={"openai_chat": {}}),
            Thinking(text="", redacted=True, extra={"openai_responses": {}}),
            Text(text="a", extra={"anthropic": cited}),
            Opaque(wire="anthropic", data=own),
            Opaque(wire="google", data={}),
            Image(data=b"png", mime="image/png"),
            Document(data=b"t", mime="text/plain"),
            CALL,
        )["content"]
        assert content == [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            {"type": "thinking", "thinking": "of another", "signature": ""},
            {"type": "text", "text": "a", **cited},
            own,
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "t"}},
            USED,
        ]

    @pytest.mark.parametrize(
        ("finish", "word"),
        [
            (Finish(reason="stop", raw="stop"), "end_turn"),
            (Finish(reason="length", raw="length"), "max_tokens"),
            (Finish(reason="length", raw="model_context_window_exceeded"), "model_context_window_exceeded"),
            (Finish(reason="tool_calls", raw="end_turn"), "tool_use"),
            (Finish(reason="blocked", raw="content_filter"), "refusal"),
            (Finish(reason="pause"), "pause_turn"),
            (Finish(reason="other", raw="eos"), "end_turn"),
            (Finish(reason="other", raw="tired", extra={"anthropic": {"stop_reason": "tired"}}), "tired"),
            (Finish(reason="other"), "end_turn"),
        ],
    )
    def test_the_stop_reason(self, finish: Finish, word: str) -> None:
        assert encoded_body(finish=finish)["stop_reason"] == word

    def test_what_the_end_told_is_given_back(self) -> None:
        details = {"stop_sequence": "three", "container": {"id": "c1"}, "usage": {"service_tier": "standard"}}
        answer = encoded_body(finish=Finish(reason="stop", raw="stop_sequence", extra={"anthropic": details}))
        assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "three")
        assert answer["container"] == {"id": "c1"}
        assert answer["usage"]["service_tier"] == "standard"

    def test_the_input_leaves_out_the_cache(self) -> None:
        usage = Usage(input=2120, output=57, cache_read=1800, cache_write=300, reasoning=31)
        assert encoded_body(usage=usage)["usage"] == {
            "input_tokens": 20,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 1800,
            "output_tokens": 57,
            "output_tokens_details": {"thinking_tokens": 31},
        }

    def test_what_is_not_told_is_zero_only_where_the_types_demand_it(self) -> None:
        answer = encoded_body()
        assert answer["usage"] == {"input_tokens": 0, "output_tokens": 0}
        assert (answer["id"], answer["model"]) == ("", "")


UNSAYABLE: list[Part] = [
    Audio(data=b"RIFF", mime="audio/wav"),
    Document(data=b"\xff", mime="text/plain"),
    Document(data=b"PK", mime="application/zip"),
    Image(url="data:image/png;base64,?"),
    Opaque(wire="google", data={}),
    RESULT,
    Thinking(text="", redacted=True, extra={"openai_responses": {}}),
]


class TestBothForms:
    @pytest.mark.parametrize("part", UNSAYABLE, ids=lambda part: type(part).__name__)
    def test_what_it_cannot_say_is_left_out(self, part: Part) -> None:
        assert encoded_body(part)["content"] == []
        assert blocks(part) == []

    @pytest.mark.parametrize(
        "part",
        [
            Thinking(text="Hm.", redacted=True, extra={"openai_responses": {}}),
            Thinking(text="Hm.", extra={"openai_chat": {}}),
            Image(url="http://example.org/a.png"),
            Document(data=b"%PDF", mime="application/pdf", name="bill"),
            Text(text=""),
        ],
        ids=lambda part: type(part).__name__,
    )
    def test_what_it_can_say_is_the_same(self, part: Part) -> None:
        answer = Response(message=Message(role="assistant", parts=(part, Text(text="a"))), finish=END)
        encoder = WIRE.server.stream_encoder(Request(stream=True))
        data = b"".join(encoder.feed(event) for event in to_events(answer))
        events, error = laws.read(WIRE.client.stream_decoder(), [data])
        assert error is None
        body = WIRE.client.decode_body(WIRE.server.encode_body(answer).body)
        assert fold(events).message.parts == fold(body).message.parts
        assert len(fold(events).message.parts) == 2


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status", "kind"),
        [
            (InvalidRequest("x"), 400, "invalid_request_error"),
            (Unsupported("x"), 400, "invalid_request_error"),
            (BadRequest("x"), 400, "invalid_request_error"),
            (Blocked("x"), 400, "invalid_request_error"),
            (AuthFailed("x"), 401, "authentication_error"),
            (AuthFailed("x", code="permission_error"), 401, "permission_error"),
            (ModelNotFound("x"), 404, "not_found_error"),
            (RateLimited("x"), 429, "rate_limit_error"),
            (RateLimited("x", code="billing_error"), 429, "billing_error"),
            (RateLimited("x", retry=False), 429, "billing_error"),
            (ServerFault("x"), 502, "api_error"),
            (Overloaded("x"), 529, "overloaded_error"),
            (ChainExhausted("x"), 503, "api_error"),
            (TimedOut("x"), 504, "timeout_error"),
        ],
    )
    def test_the_table(self, error: DragomanError, status: int, kind: str) -> None:
        reply = WIRE.server.encode_error(error)
        assert reply.status == status
        assert json.loads(reply.body) == {"type": "error", "error": {"type": kind, "message": "x"}}

    @pytest.mark.parametrize(
        ("message", "written"),
        [
            ("maximum context length is 8192", "prompt is too long: maximum context length is 8192"),
            ("Prompt is too long: 9 tokens > 8 maximum", "Prompt is too long: 9 tokens > 8 maximum"),
        ],
    )
    def test_a_full_context_is_said_in_the_words_that_clients_know(self, message: str, written: str) -> None:
        reply = WIRE.server.encode_error(ContextTooLong(message))
        assert json.loads(reply.body)["error"] == {"type": "invalid_request_error", "message": written}

    def test_it_says_when_to_come_back(self) -> None:
        assert WIRE.server.encode_error(RateLimited("x", retry_after=7)).headers["retry-after"] == "7"


class TestStream:
    def test_the_whole_sequence(self) -> None:
        assert WIRE.server.stream_encoder(Request()).content_type == "text/event-stream"
        finish = Finish(
            reason="stop", raw="end_turn", extra={"anthropic": {"context_management": {"applied_edits": []}}}
        )
        assert streamed(
            Started(id="msg_1", model="claude-x"),
            PartStarted(index=0, kind="text"),
            Ping(),
            PartDelta(index=0, text="hi"),
            PartEnded(index=0, part=Text(text="hi")),
            Finished(finish=finish, usage=Usage(input=5, output=2, cache_read=3)),
        ) == [
            {
                "type": "message_start",
                "message": {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "model": "claude-x",
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                },
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "context_management": {"applied_edits": []},
                "usage": {"input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 2},
            },
            {"type": "message_stop"},
        ]

    def test_a_call_streams_its_input(self) -> None:
        assert blocks(replace(CALL, raw='{"port": "Brest"}')) == [
            {"type": "content_block_start", "index": 0, "content_block": {**USED, "input": {}}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"port": "Brest"}'},
            },
            {"type": "content_block_stop", "index": 0},
        ]

    def test_thinking_ends_with_its_signature(self) -> None:
        thinking = Thinking(text="Hm.", extra={"anthropic": {"signature": "EqQB"}})
        assert blocks(thinking) == [
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""},
            },
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}},
            {"type": "content_block_stop", "index": 0},
        ]

    def test_its_own_thinking_is_shown_to_have_begun(self) -> None:
        begun = streamed(PartStarted(index=0, kind="thinking", extra={"anthropic": {}}))
        assert [event["type"] for event in begun] == ["content_block_start"]

    def test_redacted_thinking_comes_whole(self) -> None:
        hidden = Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}})
        assert blocks(hidden) == [
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "redacted_thinking", "data": "EmwK"},
            },
            {"type": "content_block_stop", "index": 0},
        ]

    def test_what_it_has_no_word_for_leaves_no_gap(self) -> None:
        foreign = Thinking(text="", redacted=True, extra={"openai_responses": {}})
        written = blocks(foreign, Opaque(wire="google", data={}), Text(text="a"))
        assert [event["index"] for event in written] == [0, 0, 0]

    def test_thinking_of_another_wire_is_shown(self) -> None:
        written = blocks(Thinking(text="Hm.", extra={"openai_chat": {}}))
        assert written[1]["delta"] == {"type": "thinking_delta", "thinking": "Hm."}

    def test_citations_follow_the_text(self) -> None:
        cited = Text(text="a", extra={"anthropic": {"citations": [{"type": "page_location"}], "lang": "en"}})
        written = blocks(cited)
        assert written[0]["content_block"] == {"type": "text", "text": "", "lang": "en"}
        assert written[2]["delta"] == {"type": "citations_delta", "citation": {"type": "page_location"}}

    def test_a_text_that_came_without_deltas_is_written(self) -> None:
        written = streamed(PartStarted(index=0, kind="text"), PartEnded(index=0, part=Text(text="a")))
        assert written[1]["delta"] == {"type": "text_delta", "text": "a"}

    def test_a_server_tools_input_is_streamed_and_its_result_comes_whole(self) -> None:
        use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
        result: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
        written = blocks(Opaque(wire="anthropic", data=use), Opaque(wire="anthropic", data=result))
        assert written[0]["content_block"] == {**use, "input": {}}
        assert written[1]["delta"] == {"type": "input_json_delta", "partial_json": '{"query":"q"}'}
        assert written[3]["content_block"] == result

    def test_parts_that_interleave_are_written_one_after_the_other(self) -> None:
        written = streamed(
            PartStarted(index=0, kind="text"),
            PartStarted(index=1, kind="thinking"),
            PartDelta(index=1, text="b"),
            PartDelta(index=0, text="a"),
            PartStarted(index=2, kind="text"),
            PartEnded(index=1, part=Thinking(text="b")),
            PartDelta(index=2, text="c"),
            PartEnded(index=0, part=Text(text="a")),
            PartDelta(index=2, text="d"),
            PartEnded(index=2, part=Text(text="cd")),
        )
        assert [(event["index"], event["type"].removeprefix("content_block_")) for event in written] == [
            (0, "start"),
            (0, "delta"),
            (0, "stop"),
            (1, "start"),
            (1, "delta"),
            (1, "stop"),
            (2, "start"),
            (2, "delta"),
            (2, "delta"),
            (2, "stop"),
        ]

    def test_an_error_is_said_in_the_middle(self) -> None:
        assert streamed(Started(), Overloaded("busy"))[1] == {
            "type": "error",
            "error": {"type": "overloaded_error", "message": "busy"},
        }
