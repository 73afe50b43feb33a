"""Lines and errors of Ollama become events."""

from pathlib import Path

import msgspec
import pytest

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
    ServerFault,
    Truncated,
)
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import Head
from dragoman.types import (
    Finish,
    Image,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant,
    user,
)
from dragoman.wires.ollama import WIRE
from tests.support.wires.laws import read

CLIENT = WIRE.client
TAPES = Path(__file__).parent / "tapes"


def tape(name: str, request: Request | None = None) -> tuple[Response, DragomanError | None]:
    """The response that a tape amounts to, and the error that ended it."""
    events, error = events_of(name, request)
    return fold(events), error


def events_of(name: str, request: Request | None = None) -> tuple[list[Event], DragomanError | None]:
    """The events of a tape, and the error that ended it."""
    return read(CLIENT.stream_decoder(request), [(TAPES / name).read_bytes()])


def answer(name: str) -> Response:
    """The response of a tape that has no error."""
    response, error = tape(name)
    assert error is None
    return response


def failure(name: str) -> DragomanError:
    """The error of a tape that has one."""
    error = tape(name)[1]
    assert error is not None
    return error


# Streams --------------------------------------------------------------------------------------------------------------


def test_lines_become_events() -> None:
    assert events_of("hello.ndjson") == (
        [
            Started(model="qwen", created=1794736800),
            PartStarted(index=0, kind="text"),
            PartDelta(index=0, text="Low"),
            PartDelta(index=0, text=" tide."),
            PartEnded(index=0, part=Text(text="Low tide.")),
            Finished(
                finish=Finish(reason="stop", raw="stop", extra={"ollama": {"total_duration": 1_200_000_000}}),
                usage=Usage(input=12, output=4),
            ),
        ],
        None,
    )


def test_thinking_is_its_own_part() -> None:
    response = answer("thinking.ndjson")
    assert response.message.parts == (Thinking(text="Ebb or flow?", extra={"ollama": {}}), Text(text="Ebb."))
    assert response.usage == Usage(output=9)


def test_calls_in_the_middle_are_calls_though_it_says_stop() -> None:
    response = answer("tool.ndjson")
    assert response.message.parts == (
        Text(text="I look."),
        ToolCall(id="call_k3", name="tide", arguments={"port": "Brest"}),
        ToolCall(id="call_k4", name="tide", arguments={"port": "Cork"}),
        Text(text="Done."),
    )
    assert response.finish == Finish(reason="tool_calls", raw="stop")


def test_calls_on_the_last_line_are_read() -> None:
    response = answer("tools_on_the_last_line.ndjson")
    assert [call.id for call in response.tool_calls] == ["a", "b"]
    assert response.finish.reason == "tool_calls"


def test_calls_without_ids_get_some_that_never_repeat() -> None:
    history = Request(messages=(user("?"), assistant(ToolCall(id="call_1", name="now"))))
    response, _ = tape("tools_without_ids.ndjson", history)
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("call_2", "tide", {"port": "Brest"}),
        ("call_3", "tide", {"port": "Cork"}),
        ("call_4", "now", {}),
    ]
    assert response.usage.source == "unknown"


def test_one_object_in_place_of_a_stream_is_read() -> None:
    response = answer("buffered.ndjson")
    assert (response.text, response.tool_calls[0].name) == ("All at once.", "now")


def test_one_object_over_several_lines_is_read() -> None:
    response = answer("pretty.ndjson")
    assert (response.text, response.finish.reason) == ("Line by line: é.", "length")


@pytest.mark.parametrize("name", ["hello.ndjson", "buffered.ndjson", "pretty.ndjson"])
def test_a_body_is_read_like_a_stream(name: str) -> None:
    assert CLIENT.decode_body((TAPES / name).read_bytes()) == events_of(name)[0]


def test_a_whole_body_that_was_broken_off_by_the_server_ends_for_another_reason() -> None:
    body = msgspec.json.encode({"message": {"content": "la la la"}, "done": False})
    response = fold(CLIENT.decode_body(body))
    assert (response.text, response.finish) == ("la la la", Finish(reason="other"))


def test_a_loaded_model_says_nothing() -> None:
    response = answer("load.ndjson")
    assert response.message.parts == ()
    assert response.finish == Finish(reason="stop", raw="load")


def test_an_end_without_a_reason_is_other() -> None:
    response = answer("without_a_reason.ndjson")
    assert response.finish == Finish(reason="other", extra={"ollama": {"total_duration": 8113331500}})
    assert response.created == 1691164339
    assert response.usage == Usage(input=61)


def test_unknown_lines_fields_and_reasons_are_tolerated() -> None:
    response = answer("unknown.ndjson")
    assert response.text == "So what"
    assert response.created is None
    assert response.finish == Finish(reason="other", raw="bored")


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", None])
def test_a_time_that_is_none_is_not_told(moment: str | None) -> None:
    body = msgspec.json.encode({"created_at": moment, "done": True})
    assert fold(CLIENT.decode_body(body)).created is None


def test_a_time_without_a_zone_is_utc() -> None:
    body = msgspec.json.encode({"created_at": "2026-11-15T10:00:00", "done": True})
    assert fold(CLIENT.decode_body(body)).created == 1794736800


def test_any_line_end_will_do() -> None:
    assert answer("crlf.ndjson").text == "ab"


def test_log_probabilities_belong_to_the_text_that_they_come_with() -> None:
    thinking, text = answer("logprobs.ndjson").message.parts
    assert isinstance(thinking, Thinking)
    assert isinstance(text, Text)
    assert [item["token"] for item in thinking.extra["ollama"]["logprobs"]] == ["<", "Hm"]
    assert [(token.token, token.logprob) for token in text.logprobs] == [("Yes", -0.3), (".", -0.4)]


def test_arguments_may_be_text_null_or_missing_and_unknown_fields_are_kept() -> None:
    assert answer("odd_arguments.ndjson").tool_calls == (
        ToolCall(
            id="a",
            name="tide",
            arguments={"port": "Brest"},
            raw='{"port": "Brest"}',
            extra={"ollama": {"signature": "s1"}},
        ),
        ToolCall(id="b", name="now"),
        ToolCall(id="c", name="now"),
        ToolCall(id="d", name="now", extra={"ollama": {"function": {"mark": 1}}}),
    )


def test_arguments_that_are_no_object_are_malformed() -> None:
    error = failure("bad_arguments.ndjson")
    assert isinstance(error, MalformedToolCall)
    assert (error.id, error.name, error.text) == ("a", "tide", '["Brest"]')
    assert error.usage == Usage(output=7)


def test_a_call_that_the_limit_cut_off_is_left_out() -> None:
    response = answer("cut_arguments.ndjson")
    assert [call.id for call in response.tool_calls] == ["a"]
    assert [notice.what for notice in response.notices] == ["tool call tide"]


def test_a_picture_of_the_model_is_an_image() -> None:
    response = answer("picture.ndjson")
    assert response.message.parts == (Text(text="Here:"), Image(data=b"GIF89a\x01", mime="image/gif"))


# What breaks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cut.ndjson", Truncated),
        ("broken_line.ndjson", Malformed),
        ("not_json.ndjson", Malformed),
        ("bad_picture.ndjson", Malformed),
        ("error_midway.ndjson", ServerFault),
        ("error_too_long.ndjson", ContextTooLong),
    ],
)
def test_a_broken_stream_is_an_error(name: str, kind: type[DragomanError]) -> None:
    assert type(failure(name)) is kind


def test_what_came_before_an_error_is_shown() -> None:
    response, error = tape("error_midway.ndjson")
    assert response.text == "Half"
    assert "runner has unexpectedly stopped" in str(error)


def test_an_error_over_several_lines_has_its_numbers() -> None:
    error = failure("error_pretty.ndjson")
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit) == (9000, 4096)


@pytest.mark.parametrize(
    "body", [b"", b'{"message": {"content": "a"}, "done": fal', b'{"done":false}\n{"done":false}\n']
)
def test_a_body_that_is_not_done_is_truncated(body: bytes) -> None:
    with pytest.raises(Truncated):
        CLIENT.decode_body(body)


def test_an_error_in_a_body_is_raised_though_text_came_before() -> None:
    with pytest.raises(ServerFault, match="unexpectedly"):
        CLIENT.decode_body((TAPES / "error_midway.ndjson").read_bytes())


@pytest.mark.parametrize(
    ("name", "kind", "retry", "fail_over"),
    [
        ("bad_json.400.json", BadRequest, False, False),
        ("no_tools.400.json", BadRequest, False, True),
        ("no_level.400.json", BadRequest, False, True),
        ("too_long.400.json", ContextTooLong, False, True),
        ("signed_out.401.json", AuthFailed, False, True),
        ("not_pulled.404.json", ModelNotFound, False, True),
        ("wrong_path.404.txt", ModelNotFound, False, True),
        ("usage_limit.429.json", RateLimited, True, True),
        ("runner.500.json", ServerFault, True, True),
        ("cloud.502.json", ServerFault, True, True),
        ("busy.503.json", Overloaded, True, True),
    ],
)
def test_a_refusal_is_typed(
    name: str,
    kind: type[ProviderError],
    retry: bool,  # noqa: FBT001
    fail_over: bool,  # noqa: FBT001
) -> None:
    error = CLIENT.decode_error(Head(status=int(name.split(".")[1])), (TAPES / name).read_bytes())
    assert type(error) is kind
    assert (error.retry, error.fail_over) == (retry, fail_over)
    assert error.status == int(name.split(".")[1])


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}'])
def test_a_body_without_a_message_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed, match="the body has no message"):
        CLIENT.decode_body(body)


def test_a_body_that_was_aborted_is_an_answer_that_ended_otherwise() -> None:
    response = fold(CLIENT.decode_body(b'{"message": {"content": "aaaa"}, "done": false}'))
    assert (response.text, response.finish.reason) == ("aaaa", "other")


def test_durations_that_a_server_did_not_send_are_added() -> None:
    from dragoman.wires.ollama.schema import add_durations

    sent = Finish(reason="stop", extra={"ollama": {"total_duration": 7}})
    assert add_durations(sent, 2.0, 0.5).extra["ollama"] == {
        "total_duration": 7,
        "load_duration": 1,
        "prompt_eval_duration": 500_000_000,
        "eval_duration": 1_500_000_000,
    }
    assert min(add_durations(Finish(reason="stop"), 0.0, 0.0).extra["ollama"].values()) == 1
