"""What we make of the answers: bodies, streams and errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    DragomanError,
    Malformed,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestTooLarge,
    ServerFault,
    Truncated,
)
from dragoman.events import Event, Ping, Started, fold
from dragoman.http import Head
from dragoman.types import (
    Citation,
    Document,
    Finish,
    HostedCall,
    HostedResult,
    Image,
    Notice,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from dragoman.wires.anthropic import WIRE
from tests.support.wires import laws

TAPES = Path(__file__).parent / "tapes"
CALL = ToolCall(id="toolu_1", name="tide", arguments={"port": "Brest"})
RESULT = ToolResult(id="toolu_1", name="tide", content="4.2 m")
SIGNED = Thinking(text="Hm.", extra={"anthropic": {"signature": "EqQB"}})
USED: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"port": "Brest"}}


def read(name: str) -> tuple[list[Event], DragomanError | None]:
    return laws.read(WIRE.client.stream_decoder(), [(TAPES / f"{name}.sse").read_bytes()])


def played(name: str) -> Response:
    events, error = read(name)
    assert error is None
    return fold(events)


def failed(name: str) -> DragomanError:
    _, error = read(name)
    assert error is not None
    return error


def decoded(**message: Any) -> Response:
    whole: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        **message,
    }
    return fold(WIRE.client.decode_body(json.dumps(whole).encode()))


class TestBody:
    def test_a_text(self) -> None:
        response = decoded(
            content=[{"type": "text", "text": "4.2 m", "citations": None}],
            stop_reason="end_turn",
            stop_sequence=None,
            usage={"input_tokens": 21, "output_tokens": 57},
        )
        assert response == Response(
            id="msg_1",
            model="claude-x",
            message=assistant("4.2 m"),
            finish=Finish(reason="stop", raw="end_turn"),
            usage=Usage(input=21, output=57),
        )

    def test_every_kind_of_block(self) -> None:
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            {"type": "text", "text": "a", "citations": [{"type": "char_location"}]},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [], "caller": None},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
            {"type": "document", "source": {"type": "text", "data": "t"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}},
            {**USED, "caller": {"type": "direct"}},
        ]
        assert decoded(content=blocks, stop_reason="tool_use").message.parts == (
            SIGNED,
            Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}}),
            Text(
                text="a",
                extra={"anthropic": {"citations": [{"type": "char_location"}]}},
                citations=(Citation(source_unit="characters"),),
            ),
            HostedCall(id="srvtoolu_1", tool="web_search", arguments={"query": "q"}, extra={"anthropic": blocks[3]}),
            HostedResult(id="srvtoolu_1", tool="web_search", extra={"anthropic": blocks[4]}),
            Image(data=b"png", mime="image/png"),
            Document(data=b"t", mime="text/plain"),
            Opaque(wire="anthropic", data=blocks[7]),
            replace(CALL, extra={"anthropic": {"caller": {"type": "direct"}}}),
        )

    def test_thinking_without_a_signature_is_still_of_this_wire(self) -> None:
        parts = decoded(content=[{"type": "thinking", "thinking": "Hm.", "signature": ""}]).message.parts
        assert parts == (Thinking(text="Hm.", extra={"anthropic": {}}),)

    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("tool_use", "tool_calls"),
            ("pause_turn", "pause"),
            ("compaction", "pause"),
            ("refusal", "blocked"),
            (None, "other"),
            ("", "other"),
            (7, "other"),
        ],
    )
    def test_the_stop_reason(self, word: Any, reason: Any) -> None:
        finish = decoded(stop_reason=word).finish
        assert finish == Finish(reason=reason, raw=word if word and isinstance(word, str) else None)

    def test_a_new_stop_reason_is_kept_to_be_said_again(self) -> None:
        finish = decoded(stop_reason="tired").finish
        assert finish == Finish(reason="other", raw="tired", extra={"anthropic": {"stop_reason": "tired"}})

    def test_calls_are_taken_by_their_presence(self) -> None:
        assert decoded(content=[USED], stop_reason="end_turn").finish == Finish(reason="tool_calls", raw="end_turn")

    def test_an_empty_input_is_no_arguments(self) -> None:
        response = decoded(content=[{**USED, "input": {}}], stop_reason="max_tokens")
        assert response.tool_calls == (replace(CALL, arguments={}),)

    @pytest.mark.parametrize("rest", [{}, {"input": None}])
    def test_a_missing_input_is_no_arguments(self, rest: Any) -> None:
        block = {"type": "tool_use", "id": "toolu_1", "name": "tide", **rest}
        assert decoded(content=[block], stop_reason="tool_use").tool_calls == (replace(CALL, arguments={}),)

    def test_an_input_that_is_no_object_is_malformed(self) -> None:
        with pytest.raises(MalformedToolCall):
            decoded(content=[{**USED, "input": [1]}], stop_reason="tool_use")

    def test_a_missing_id_is_counted_over_the_conversation(self) -> None:
        request = Request(messages=(user("?"), assistant(CALL), tool_results(RESULT)))
        whole = {"content": [{**USED, "id": ""}], "stop_reason": "tool_use"}
        events = WIRE.client.decode_body(json.dumps(whole).encode(), request)
        assert fold(events).tool_calls[0].id == "call_2"

    def test_the_cache_is_part_of_the_input(self) -> None:
        usage = {
            "input_tokens": 20,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 1800,
            "output_tokens": 57,
            "output_tokens_details": {"thinking_tokens": 31},
        }
        assert decoded(usage=usage).usage == Usage(
            input=2120, output=57, cache_read=1800, cache_write=300, reasoning=31
        )

    @pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 0, "output_tokens": 0}, 7])
    def test_unknown_usage_is_not_zero(self, usage: Any) -> None:
        assert decoded(usage=usage).usage == Usage(source="unknown")

    def test_details_may_be_null(self) -> None:
        usage = {"input_tokens": 2, "output_tokens": 3, "output_tokens_details": None}
        assert decoded(usage=usage).usage == Usage(input=2, output=3)

    def test_what_else_it_tells_is_kept_beside_the_finish(self) -> None:
        response = decoded(
            stop_reason="refusal",
            stop_details={"type": "refusal", "category": "cyber"},
            container={"id": "c1"},
            usage={"input_tokens": 2, "output_tokens": 3, "service_tier": "standard", "inference_geo": "eu"},
        )
        assert response.finish.extra == {
            "anthropic": {
                "stop_details": {"type": "refusal", "category": "cyber"},
                "container": {"id": "c1"},
                "usage": {"inference_geo": "eu"},
            }
        }
        assert response.service_tier == "standard"

    @pytest.mark.parametrize(("content", "text"), [("Hi.", "Hi."), (None, "")])
    def test_content_that_is_no_list(self, content: Any, text: str) -> None:
        assert decoded(content=content).text == text

    def test_an_error_has_the_usage_that_was_told_before_it(self) -> None:
        with pytest.raises(Malformed) as caught:
            decoded(content=["x"], usage={"input_tokens": 3, "output_tokens": 2})
        assert caught.value.usage == Usage(input=3, output=2, source="partial")

    @pytest.mark.parametrize("whole", [b"[]", b"{}", b'{"content": ["x"]}', b"nope"])
    def test_what_is_no_message_is_malformed(self, whole: bytes) -> None:
        with pytest.raises(Malformed):
            WIRE.client.decode_body(whole)

    @pytest.mark.parametrize("whole", [b"", b'{"content": ['])
    def test_a_body_that_breaks_off_is_truncated(self, whole: bytes) -> None:
        with pytest.raises(Truncated):
            WIRE.client.decode_body(whole)

    def test_an_error_behind_a_200_is_an_error(self) -> None:
        with pytest.raises(Overloaded, match="busy"):
            WIRE.client.decode_body(b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}')
        with pytest.raises(ServerFault, match="no tokens"):
            WIRE.client.decode_body(b'{"message":"no tokens"}')


class TestStream:
    def test_hello(self) -> None:
        events, _ = read("hello")
        assert events[:2] == [Started(id="msg_1", model="claude-x"), Ping()]
        assert fold(events) == Response(
            id="msg_1",
            model="claude-x",
            message=assistant("High tide at nöon ☀"),
            finish=Finish(reason="stop", raw="end_turn"),
            usage=Usage(input=12, output=9),
        )

    def test_a_signature_in_its_own_delta_and_two_calls(self) -> None:
        response = played("tool")
        assert response.message.parts == (
            Thinking(text="", extra={"anthropic": {"signature": "EqQB"}}),
            ToolCall(
                id="toolu_1",
                name="get_tide",
                arguments={"port": "Brest"},
                raw='{"port": "Brest"}',
                extra={"anthropic": {"caller": {"type": "direct"}}},
            ),
            ToolCall(id="toolu_2", name="list_ports"),
        )
        assert response.usage == Usage(input=410, output=88, cache_read=0, cache_write=0)

    def test_thinking(self) -> None:
        response = played("thinking")
        assert response.message.parts[0] == Thinking(
            text="Springs or neaps?", extra={"anthropic": {"signature": "EuYB"}}
        )
        assert response.usage.reasoning == 31

    def test_redacted_thinking_has_no_deltas(self) -> None:
        assert played("redacted").message.parts == (
            Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}}),
            Text(text="Done."),
        )

    def test_server_tools_citations_and_unknown_blocks_are_kept_whole(self) -> None:
        response = played("server_tool")
        use, result, text, compaction = response.message.parts
        assert isinstance(use, HostedCall)
        assert use.arguments == {"query": "tides"}
        assert isinstance(result, HostedResult)
        assert result.extra["anthropic"]["content"][0]["page_age"] is None
        location = {"type": "web_search_result_location", "url": "https://example.org"}
        cited = (Citation(url="https://example.org"),)
        assert text == Text(text="Twice a day.", extra={"anthropic": {"citations": [location]}}, citations=cited)
        block = {"type": "compaction", "content": "So far."}
        assert compaction == HostedResult(id="", tool="compaction", content="So far.", extra={"anthropic": block})
        assert response.finish.extra["anthropic"] == {
            "container": {"id": "container_1"},
            "context_management": {"applied_edits": []},
            "usage": {"server_tool_use": {"web_search_requests": 1}},
        }

    def test_thinking_that_the_provider_left_out_is_a_notice(self) -> None:
        place, reason = "messages.1.content.0", "prefix_binding_mismatch"
        dropped = {"type": "thinking_dropped", "path": place, "reason": reason}
        allowed = {**dropped, "type": "thinking_mismatch_allowed"}
        response = decoded(
            content=[{"type": "text", "text": "Yes."}],
            stop_reason="end_turn",
            input_transformations=[dropped, {**dropped, "path": "messages.3.content.0"}, allowed],
        )
        why = f"the provider left out earlier thinking: {reason}"
        assert response.notices == (Notice(kind="dropped", what="thinking", why=why),)

    def test_the_input_of_a_server_tool_that_was_cut_off_is_told(self) -> None:
        response = played("cut_server_tool")
        why = 'cut off: {"query": "ti'
        assert response.notices == (Notice(kind="dropped", what="input of server_tool_use", why=why),)

    def test_the_input_of_a_server_tool_may_stand_in_its_start(self) -> None:
        response = played("pause")
        assert response.finish == Finish(reason="pause", raw="pause_turn")
        (use,) = response.message.parts
        assert isinstance(use, HostedCall)
        assert use.arguments == {"url": "https://example.org"}

    def test_a_turn_that_goes_on_may_have_its_blocks_in_its_start(self) -> None:
        response = played("goes_on")
        done, call = response.message.parts
        assert isinstance(done, HostedResult)
        assert done.content == "4.2"
        assert call == CALL
        assert response.finish == Finish(reason="tool_calls", raw="tool_use")

    def test_the_last_told_count_wins_field_by_field(self) -> None:
        assert played("cache").usage == Usage(input=2125, output=57, cache_read=1800, cache_write=300)

    def test_a_call_that_the_limit_cut_off_is_left_out(self) -> None:
        response = played("cut_call")
        assert [call.id for call in response.tool_calls] == ["toolu_1"]
        assert [notice.what for notice in response.notices] == ["tool call get_tide"]

    def test_a_call_that_the_limit_cut_off_before_its_arguments_is_left_out(self) -> None:
        response = played("cut_before_arguments")
        assert response.tool_calls == ()
        assert response.finish.reason == "length"
        assert [notice.what for notice in response.notices] == ["tool call get_tide"]

    def test_calls_without_arguments_before_other_blocks_were_not_cut_off(self) -> None:
        response = played("no_arguments")
        assert response.message.parts == (
            ToolCall(id="toolu_1", name="list_ports"),
            ToolCall(id="toolu_2", name="list_ports"),
            Text(text="Wait."),
        )
        assert response.notices == ()

    def test_arguments_that_are_no_object_are_malformed(self) -> None:
        error = failed("broken_call")
        assert isinstance(error, MalformedToolCall)
        assert (error.name, error.text) == ("get_tide", '{"port":')
        assert error.usage == Usage(input=12, output=9)

    def test_an_error_after_events_keeps_them(self) -> None:
        events, error = read("overloaded")
        assert fold(events).text == "High"
        assert isinstance(error, Overloaded)
        assert error.usage == Usage(input=12, output=1, source="partial")

    @pytest.mark.parametrize(
        ("tape", "kind", "words"),
        [
            ("error_text", ServerFault, "upstream is gone"),
            ("error_unnamed", ServerFault, "broken pipe"),
            ("bare_error", RateLimited, "slow down"),
        ],
    )
    def test_an_error_in_another_form_is_an_error(self, tape: str, kind: type[ProviderError], words: str) -> None:
        error = failed(tape)
        assert type(error) is kind
        assert str(error) == words

    def test_a_refusal_tells_why(self) -> None:
        finish = played("refusal").finish
        assert (finish.reason, finish.raw) == ("blocked", "refusal")
        assert finish.extra["anthropic"]["stop_details"]["category"] == "cyber"

    def test_the_stop_sequence_is_kept(self) -> None:
        assert played("stop_sequence").finish == Finish(
            reason="stop", raw="stop_sequence", extra={"anthropic": {"stop_sequence": "three"}}
        )

    def test_a_stray_done_is_tolerated(self) -> None:
        assert played("done").text == "Hi."

    @pytest.mark.parametrize("tape", ["done_early", "no_stop"])
    def test_message_stop_is_the_farewell(self, tape: str) -> None:
        assert isinstance(failed(tape), Truncated)

    def test_a_whole_message_where_a_stream_was_asked_for(self) -> None:
        assert played("whole").text == "At once."

    def test_an_unknown_event_may_use_the_same_words_for_other_things(self) -> None:
        unknown = b'data: {"type":"tomorrow","delta":"x","index":"first"}\n\n'
        events, error = laws.read(WIRE.client.stream_decoder(), [unknown, (TAPES / "hello.sse").read_bytes()])
        assert (events, error) == read("hello")

    @pytest.mark.parametrize("data", [b'{"type":"ping","delta":"x"}', b'"x"'])
    def test_a_known_event_may_not(self, data: bytes) -> None:
        _, error = laws.read(WIRE.client.stream_decoder(), [b"data: %b\n\n" % data])
        assert isinstance(error, Malformed)

    def test_unknown_events_deltas_and_fields_are_tolerated(self) -> None:
        events, error = read("unknown")
        assert error is None
        assert isinstance(events[0], Started)
        response = fold(events)
        assert response.message.parts == (Text(text="Hi.", extra={"anthropic": {"lang": "en"}}),)
        assert response.finish == Finish(reason="stop", raw="end_turn")
        assert response.usage == Usage(input=12, output=5)

    def test_a_server_that_leaves_much_out(self) -> None:
        response = played("odd")
        assert response.message.parts == (
            Thinking(text="Hm.", extra={"anthropic": {}}),
            Text(text="Hi."),
            ToolCall(id="call_1", name="get_tide", arguments={"port": "Brest"}),
            ToolCall(id="call_2", name="list_ports"),
        )
        assert response.finish == Finish(reason="tool_calls", raw="end_turn")
        assert response.usage == Usage(output=6)

    def test_blocks_that_interleave_are_joined_by_index(self) -> None:
        assert played("interleaved").message.parts == (
            Text(text="ac"),
            Thinking(text="b", extra={"anthropic": {}}),
        )

    @pytest.mark.parametrize("kind", ["input_json_delta", "signature_delta", "mood_delta"])
    def test_a_delta_of_a_block_that_is_not_open_is_malformed(self, kind: str) -> None:
        call: Any = {"type": "content_block_start", "index": 0, "content_block": {**USED, "input": {}}}
        stray: Any = {"type": "content_block_delta", "index": 1, "delta": {"type": kind, "partial_json": '{"port":'}}
        frames = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in (call, stray)]
        _, error = laws.read(WIRE.client.stream_decoder(), frames)
        assert isinstance(error, Malformed)
        assert str(error).endswith(f"a {kind} for block 1, which is not open")

    def test_deltas_that_we_do_not_know_are_joined_in_a_block_that_we_do_not_know(self) -> None:
        start: Any = {"type": "content_block_start", "index": 0, "content_block": {"type": "mood", "name": "ca"}}
        deltas: list[Any] = [
            {"type": "mood_delta", "name": "l", "word": 1, "gone": None},
            {"type": "mood_delta", "name": "m", "word": "o"},
            {"type": "mood_delta", "word": "k"},
            {"type": "mood_delta", "depth": "a"},
            {"type": "mood_delta", "depth": "b"},
            {"type": "mood_delta", "depth": 2},
        ]
        deltas_sent = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
        events = [start, *deltas_sent, {"type": "message_stop"}]
        data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        seen, _ = laws.read(WIRE.client.stream_decoder(), [data])
        assert fold(seen).message.parts == (
            Opaque(wire="anthropic", data={"type": "mood", "name": "calm", "word": "ok", "depth": 2}),
        )

    def test_an_event_that_is_not_json_is_malformed(self) -> None:
        _, error = laws.read(WIRE.client.stream_decoder(), [b"event: ping\ndata: {\n\n"])
        assert isinstance(error, Malformed)

    def test_an_error_may_be_named_by_its_type_alone(self) -> None:
        _, error = laws.read(WIRE.client.stream_decoder(), [b'data: {"type":"error","message":"gone"}\n\n'])
        assert isinstance(error, ServerFault)


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind", "message", "expected"),
        [
            (400, "invalid_request_error", "max_tokens: required", BadRequest),
            (400, "invalid_request_error", "prompt is too long: 201234 tokens > 200000 maximum", ContextTooLong),
            (
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
                ContextTooLong,
            ),
            (401, "authentication_error", "invalid x-api-key", AuthFailed),
            (402, "billing_error", "no credit", RateLimited),
            (403, "permission_error", "no", AuthFailed),
            (404, "not_found_error", "model: claude-9", ModelNotFound),
            (409, "conflict_error", "again", ServerFault),
            (413, "request_too_large", "too large", RequestTooLarge),
            (429, "rate_limit_error", "slow down", RateLimited),
            (500, "api_error", "Overloaded", ServerFault),
            (504, "timeout_error", "slow", ServerFault),
            (529, "overloaded_error", "Overloaded", Overloaded),
        ],
    )
    def test_the_table(self, status: int, kind: str, message: str, expected: type[ProviderError]) -> None:
        whole = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
        error = WIRE.client.decode_error(Head(status=status), json.dumps(whole).encode())
        assert type(error) is expected
        assert (error.status, error.code, error.message) == (status, kind, message)

    def test_the_numbers_of_a_prompt_that_is_too_long(self) -> None:
        whole = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201234 tokens > 200000 maximum"}}'
        error = WIRE.client.decode_error(Head(status=400), whole)
        assert isinstance(error, ContextTooLong)
        assert (error.tokens, error.limit) == (201234, 200000)

    def test_a_spend_cap_is_not_transient(self) -> None:
        details = {"error_code": "enforced_spend_limit_reached"}
        whole = {"type": "error", "error": {"type": "rate_limit_error", "message": "cap", "details": details}}
        error = WIRE.client.decode_error(Head(status=429), json.dumps(whole).encode())
        assert (type(error), error.retry) == (RateLimited, False)

    def test_resets_are_timestamps(self) -> None:
        headers = {
            "date": "Sat, 31 Oct 2026 10:00:00 GMT",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2026-10-31T10:00:20Z",
        }
        whole = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'
        assert WIRE.client.decode_error(Head(status=429, headers=headers), whole).retry_after == 20.0


def test_the_tokens_of_a_compaction_are_part_of_the_usage() -> None:
    compaction = {"type": "compaction", "input_tokens": 900, "output_tokens": 40, "cache_read_input_tokens": 60}
    message = {"type": "message", "input_tokens": 20, "output_tokens": 5}
    totals = {"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 0, "iterations": [compaction, message]}
    response = decoded(usage=totals)
    assert response.usage == Usage(input=980, output=45, cache_read=60)
    said = json.loads(WIRE.server.encode_body(response).body)["usage"]
    assert said == totals
    assert decoded(usage={**totals, "iterations": [message, "odd"]}).usage.output == 5
