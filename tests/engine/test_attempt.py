import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.engine.attempt import HEAVY_MESSAGES, attempt, build_request
from dragoman.engine.call_context import CallContext, Timeouts
from dragoman.engine.effects import Compute, Emit, Now, Open, Plan, Read, Send
from dragoman.engine.exchange import (
    ERROR_BODY_TIMEOUT,
    MAX_BODY,
    MAX_ERROR_BODY,
    MAX_EVENTS,
    Completed,
    is_empty_response,
    join_deltas,
)
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    ConnectTimeout,
    ContextTooLong,
    DragomanError,
    EmptyResponse,
    Interrupted,
    InvalidRequest,
    Malformed,
    MalformedToolCall,
    Overloaded,
    RateLimited,
    ReadTimeout,
    Reset,
    ServerFault,
    SetupError,
    TimedOut,
    TooLarge,
    Truncated,
    Unsupported,
)
from dragoman.events import (
    CallDelta,
    Event,
    Finished,
    PartDelta,
    PartEnded,
    PartStarted,
    Ping,
    Restarted,
    Started,
    StreamEvent,
    fold,
)
from dragoman.http import Head
from dragoman.media import find_media
from dragoman.targets.providers import target as known
from dragoman.targets.target import Capabilities, Target
from dragoman.types import (
    Audio,
    Document,
    Finish,
    Image,
    Notice,
    Request,
    Response,
    Text,
    Tool,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from dragoman.wires.common.client_half import check_capabilities
from tests.support.images import picture
from tests.support.plans import EMPTY, OK, Piece, Script, Status, Wait, World, last_line, line, target

AA = target("aa/m")
ASK = Request(messages=(user("hello"),))
STREAM = replace(ASK, stream=True)
PNG = Image(data=picture(), mime="image/png")
TIDE = Tool(name="tide")


def plan(request: Request = ASK, to: Target = AA, deadline: float | None = None, **timeouts: Any) -> Plan[Completed]:
    return attempt(request, to, CallContext(timeouts=Timeouts(**timeouts), deadline=deadline))


def able(**capabilities: Any) -> Target:
    return target("aa/m", capabilities=Capabilities(**capabilities))


def check(request: Request, to: Target) -> None:
    check_capabilities(request, to)
    media = find_media(request, to.capabilities)
    if media is not None:
        media.check()


# What a target cannot do is refused before anything is sent -----------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "capabilities", "why"),
    [
        (Request(tools=(TIDE,)), {"tools": False}, "does not support tools"),
        (Request(stream=True), {"streaming": False}, "does not support streaming"),
        (Request(messages=(user(PNG),)), {"max_images": 0}, "does not support images"),
        (Request(messages=(user(Image(url="https://x/a.png")),)), {}, "cannot fetch https://x/a.png; send the bytes"),
        (Request(messages=(user(Document(data=b"%PDF", mime="application/pdf")),)), {"documents": False}, "documents"),
        (Request(messages=(user(Audio(data=b"RIFF", mime="audio/wav")),)), {"audio": False}, "audio"),
    ],
)
def test_what_a_target_cannot_do_is_unsupported(request_: Request, capabilities: dict[str, Any], why: str) -> None:
    with pytest.raises(Unsupported, match=f"^aa/m: .*{re.escape(why)}") as caught:
        next(plan(request_, able(**capabilities)))
    assert (caught.value.provider, caught.value.model) == ("aa", "m")


@pytest.mark.parametrize(
    ("request_", "capabilities"),
    [
        (Request(), {"tools": False, "structured": False, "streaming": False, "max_images": 0}),
        (Request(schema={}, schema_mode="auto"), {"structured": False}),
        (Request(messages=(user(PNG),)), {"max_images": 1}),
        (Request(messages=(user(Image(url="https://x/a.png")),)), {"image_urls": True, "max_image_bytes": 1}),
    ],
)
def test_what_a_target_can_do_passes(request_: Request, capabilities: dict[str, Any]) -> None:
    check(request_, able(**capabilities))


def test_pictures_and_documents_in_results_count() -> None:
    seen = Request(messages=(tool_results(ToolResult(id="call_1", content=(PNG, PNG))),))
    with pytest.raises(Unsupported, match="images"):
        check(seen, able(max_images=0))
    read = Request(
        messages=(tool_results(ToolResult(id="call_1", content=(Document(data=b"a", mime="application/pdf"),))),)
    )
    with pytest.raises(Unsupported, match="documents"):
        check(read, able(documents=False))


@pytest.mark.parametrize("name", ["openai", "anthropic", "google", "ollama", "openai-responses"])
def test_a_picture_by_url_is_refused_on_every_wire_whose_target_cannot_fetch(name: str) -> None:
    to = known(f"{name}/m", api_key="k")
    to = replace(to, capabilities=replace(to.capabilities, image_urls=False))
    with pytest.raises(Unsupported, match="cannot fetch"):
        build_request(Request(messages=(user(Image(url="https://x/a.png")),)), to)


def test_a_choice_that_cannot_be_forced_is_bent_with_a_notice() -> None:
    forced = Request(messages=(user("hi"),), tools=(TIDE,), tool_choice="required")
    for to in (
        replace(known("openai/m", api_key="k"), capabilities=Capabilities(forced_choice=False)),
        known("ollama/m"),
    ):
        assert [notice.what for notice in build_request(forced, to).notices] == ["tool_choice"]
        with pytest.raises(Unsupported, match="strict"):
            build_request(replace(forced, strict=True), to)


def test_thinking_of_a_model_that_does_not_is_dropped_with_a_notice() -> None:
    hard = Request(messages=(user("hi"),), reasoning="high")
    to = able(thinking=False)
    assert [notice.what for notice in build_request(hard, to).notices] == ["reasoning"]
    with pytest.raises(Unsupported, match="strict"):
        build_request(replace(hard, strict=True), to)


def test_missing_credentials_say_where_a_key_is_looked_for() -> None:
    with pytest.raises(AuthFailed) as caught:
        next(plan(ASK, known("google/m")))
    error = caught.value
    assert str(error) == "google/m: no API key; set GEMINI_API_KEY or GOOGLE_API_KEY or pass api_key="
    assert (error.retry, error.fail_over, error.count_failure, error.provider) == (False, True, False, "google")


def test_missing_credentials_without_variables() -> None:
    with pytest.raises(AuthFailed, match=r"^aa/m: no API key; pass api_key=$"):
        next(plan(ASK, target("aa/m", needs_key=True)))


def test_an_error_of_the_wire_is_named_too() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build_request(Request(messages=(user("x"),), extra={"ollama": {"a": object()}}), AA)
    assert (caught.value.provider, caught.value.model) == ("aa", "m")


# A whole answer -------------------------------------------------------------------------------------------------------


def test_a_request_is_sent_with_the_time_that_is_left() -> None:
    running = plan(deadline=130.0, connect=3.0)
    assert next(running) == Now()
    sent = running.send(100.0)
    assert isinstance(sent, Send)
    assert (sent.request.url, sent.total_timeout, sent.connect_timeout, sent.limit) == (
        "http://aa/api/chat",
        30.0,
        3.0,
        MAX_BODY,
    )


def test_without_a_deadline_a_request_may_take_as_long_as_it_takes() -> None:
    world = World(OK)
    world.run(plan())
    assert world.requests[0].total_timeout is None


def test_a_passed_deadline_sends_nothing() -> None:
    world = World()
    with pytest.raises(TimedOut, match="deadline"):
        world.run(plan(deadline=100.0))
    assert world.requests == []


def test_an_answer_has_its_target_its_notices_and_its_latency() -> None:
    running = plan(replace(ASK, user="me"))
    next(running)
    world = World(OK)
    running.send(100.0)
    reply = world.answer(Send(build_request(ASK, AA)))
    assert running.send(reply) == Now()
    with pytest.raises(StopIteration) as stop:
        running.send(100.75)
    answer: Completed = stop.value.value
    assert (answer.response.text, answer.response.target, answer.latency) == ("fine", "aa/m", 0.75)
    assert [notice.what for notice in answer.response.notices] == ["user"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, RateLimited), (500, ServerFault), (503, Overloaded), (400, BadRequest), (301, ServerFault)],
)
@pytest.mark.parametrize("request_", [ASK, STREAM], ids=["whole", "streamed"])
def test_a_refusal_is_a_typed_error_with_whose_it_is(request_: Request, status: int, kind: type[DragomanError]) -> None:
    world = World(Status(status, b'{"error": "no"}', {"retry-after": "7"}))
    with pytest.raises(kind) as caught:
        world.run(plan(request_))
    error = caught.value
    assert (error.provider, error.model, error.status, error.retry_after) == ("aa", "m", status, 7.0)


def test_a_key_that_a_server_says_back_is_blotted_out() -> None:
    world = World(Status(401, b'{"error": "bad key hush-hush"}'))
    with pytest.raises(AuthFailed, match=r"^aa/m: bad key \[redacted\]$"):
        world.run(plan(to=target("aa/m", api_key="hush-hush")))


def test_a_key_that_is_no_secret_does_not_spoil_the_words() -> None:
    with pytest.raises(ServerFault, match=r"^aa/m: broken$"):
        World(Status(500, b'{"error": "broken"}')).run(plan(to=target("aa/m", api_key="k")))


def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engine.exchange.MAX_BODY", 5)
    with pytest.raises(TooLarge):
        World(OK).run(plan())


def test_an_empty_answer_is_an_error_with_what_it_cost() -> None:
    world = World(Status(200, last_line(" \n", prompt_eval_count=3, eval_count=1)))
    with pytest.raises(EmptyResponse, match=r"^aa/m: the answer is empty \(finish: stop\)$") as caught:
        world.run(plan())
    assert caught.value.usage == Usage(input=3, output=1)


@pytest.mark.parametrize("reason", ["length", "blocked"])
def test_an_empty_answer_that_says_why_is_no_error(reason: Any) -> None:
    assert not is_empty_response(Response(message=assistant(), finish=Finish(reason=reason)), Request())


def test_an_empty_answer_that_the_length_limit_cut_is_given() -> None:
    cut = Status(200, b'{"message": {"content": ""}, "done": true, "done_reason": "length"}')
    assert World(cut).run(plan()).response.finish.reason == "length"
    world = World([cut.body + b"\n"])
    assert world.run(plan(STREAM)).response.finish.reason == "length"
    assert isinstance(world.shown[-1], Finished)


# A streamed answer ----------------------------------------------------------------------------------------------------


def streamed(*pieces: Piece, **timeouts: Any) -> World:
    world = World(list(pieces))
    world.run(plan(STREAM, **timeouts))
    return world


def broken(*pieces: Piece, **timeouts: Any) -> tuple[World, DragomanError]:
    world = World(list(pieces))
    with pytest.raises(DragomanError) as caught:
        world.run(plan(STREAM, **timeouts))
    return world, caught.value


def test_a_stream_is_opened_with_its_limits() -> None:
    running = plan(STREAM, deadline=110.0, first_event=4.0, idle=6.0, connect=2.0)
    next(running)
    opened = running.send(100.0)
    assert isinstance(opened, Open)
    assert (opened.head_timeout, opened.connect_timeout, opened.total_timeout, opened.read_timeout) == (
        4.0,
        2.0,
        10.0,
        6.0,
    )


def test_the_longest_silence_is_known_only_where_both_are_limited() -> None:
    assert Timeouts(first_event=4.0).max_read_timeout is None
    assert Timeouts(idle=4.0).max_read_timeout is None


def test_events_are_shown_as_they_come_and_fold_into_the_response() -> None:
    running = plan(STREAM)
    world = World([line("fi"), line("ne"), last_line("")])
    assert isinstance(world.until(running, Emit), Emit)
    world = streamed(line("fi"), line("ne"), last_line("", eval_count=2))
    assert [type(event) for event in world.shown] == [Started, PartStarted, PartDelta, PartDelta, PartEnded, Finished]
    assert fold(world.shown).text == "fine"


def test_nothing_is_shown_before_there_is_content() -> None:
    running = plan(STREAM)
    world = World([line(""), line(" \n"), line("fine"), last_line("")])
    shown = world.until(running, Emit)
    assert len(world.reads) == 3
    assert isinstance(shown, Emit)
    assert "".join(event.text for event in shown.events if isinstance(event, PartDelta)) == " \nfine"


def test_thinking_is_content() -> None:
    world = streamed(line("", thinking="Hm."), last_line(""))
    assert isinstance(world.shown[2], PartDelta)


def test_a_call_is_content() -> None:
    world = streamed(line("", tool_calls=[{"function": {"name": "tide"}}]), last_line(""))
    assert fold(world.shown).tool_calls[0].name == "tide"


def test_the_latency_of_a_stream_is_that_of_its_first_event() -> None:
    world = World([Wait(2.0), line("fi"), Wait(30.0), last_line("ne")])
    assert world.run(plan(STREAM)).latency == 2.0


def test_the_latency_of_a_stream_without_events_is_the_whole() -> None:
    world = World([Wait(2.0), b'{"message": {"content": ""}, "done": true, "done_reason": "length"}\n'])
    assert world.run(plan(STREAM)).latency == 2.0


def test_a_stream_that_ends_without_an_event_is_empty() -> None:
    world, error = broken(line(" "), last_line("", eval_count=1))
    assert isinstance(error, EmptyResponse)
    assert error.usage == Usage(output=1)
    assert world.shown == []


def test_a_stream_of_thinking_alone_was_shown_and_so_is_no_error() -> None:
    assert streamed(line("", thinking="Hm."), last_line("")).shown


@pytest.mark.parametrize("failure", [Reset("by peer"), TimedOut("slow")])
def test_before_the_first_event_a_failure_is_itself(failure: DragomanError) -> None:
    world, error = broken(line(""), failure)
    assert error is failure
    assert world.shown == []


def test_a_stream_cut_before_the_first_event_is_truncated() -> None:
    _, error = broken(line(""))
    assert isinstance(error, Truncated)


def test_a_stream_that_cannot_be_opened_is_the_failure() -> None:
    with pytest.raises(Reset):
        World(Reset("by peer")).run(plan(STREAM))


def test_after_the_first_event_a_failure_is_an_interruption_with_what_came() -> None:
    world, error = broken(line("fi"), line("ne"), failure := Reset("by peer"))
    assert isinstance(error, Interrupted)
    assert error.partial is not None
    assert (error.partial.text, error.partial.target, error.partial.usage.source) == ("fine", "aa/m", "partial")
    assert (error.message, error.provider, error.__cause__) == ("the stream broke: by peer", "aa", failure)
    assert fold(world.shown).text == "fine"


def test_a_long_stream_keeps_its_text_and_not_each_event() -> None:
    """Before, a stream of 50 000 tokens held 5 MB until its end."""
    words = [f"{number} " for number in range(3 * MAX_EVENTS)]
    thinking = [chunk(f'{{"reasoning_content": "{word}"}}') for word in words[:MAX_EVENTS]]
    text = [chunk(f'{{"content": "{word}"}}') for word in words]
    with pytest.raises(Interrupted) as caught:
        World([*thinking, *text, Reset("by peer")]).run(plan(STREAM, OPENAI))
    error = caught.value
    assert error.partial is not None
    assert error.partial.thinking == "".join(words[:MAX_EVENTS])
    assert error.partial.text == "".join(words)
    events: list[Event] = [Started(), PartStarted(index=0, kind="text"), Ping()]
    events += [CallDelta(index=1, text="{"), PartDelta(index=0, text="a"), PartDelta(index=1, text="b")]
    events += [PartDelta(index=0, text="c"), PartEnded(index=0, part=Text(text="ac")), PartDelta(index=1, text="d")]
    joined = join_deltas(events)
    assert fold(joined) == fold(events)
    assert [type(event).__name__ for event in joined] == [
        *("Started", "PartStarted", "PartDelta", "PartDelta", "PartEnded", "PartDelta")
    ]


def test_an_interruption_has_the_notices_of_its_request() -> None:
    world = World([line("fi")])
    with pytest.raises(Interrupted) as caught:
        world.run(plan(replace(STREAM, user="me")))
    assert caught.value.partial is not None
    assert [notice.what for notice in caught.value.partial.notices] == ["user"]


def test_an_error_in_the_stream_shows_what_came_with_it_first() -> None:
    world, error = broken(line("fine") + b'{"error": "out of memory"}\n')
    assert isinstance(error, Interrupted)
    assert isinstance(error.__cause__, ServerFault)
    assert fold(world.shown).text == "fine"


def test_an_error_in_the_stream_before_the_first_event_is_itself() -> None:
    _, error = broken(line("") + b'{"error": "out of memory"}\n')
    assert isinstance(error, ServerFault)


def test_a_broken_line_after_events_is_an_interruption_that_counts_as_its_cause_does() -> None:
    _, error = broken(line("fine"), b"]\n")
    assert isinstance(error, Interrupted)
    assert isinstance(error.__cause__, Malformed)
    assert error.count_failure


OPENAI = known("openai/m", api_key="k")


def chunk(delta: str = "{}", finish: str = "null", more: str = "") -> bytes:
    return f'data: {{"choices": [{{"index": 0, "delta": {delta}, "finish_reason": {finish}}}]{more}}}\n\n'.encode()


def test_a_malformed_call_after_text_counts_nothing_against_the_target() -> None:
    call_ = '{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "tide", "arguments": "["}}]}'
    world = World([chunk('{"content": "so"}'), chunk(call_), chunk("{}", '"tool_calls"'), b"data: [DONE]\n\n"])
    with pytest.raises(Interrupted) as caught:
        world.run(plan(STREAM, OPENAI))
    assert isinstance(caught.value.__cause__, MalformedToolCall)
    assert not caught.value.count_failure


def gemini_chunk(text: str, reason: str | None = None) -> bytes:
    candidate = {"content": {"parts": [{"text": text}] if text else []}, "finishReason": reason}
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 2}
    return b"data: " + json.dumps({"candidates": [candidate], "usageMetadata": counts}).encode() + b"\n\n"


GEMINI = known("google/m", api_key="k")


def test_a_mistake_of_the_model_after_shown_text_breaks_the_stream() -> None:
    world = World([gemini_chunk("so"), gemini_chunk(" on", "MALFORMED_FUNCTION_CALL")])
    with pytest.raises(Interrupted, match="MALFORMED_FUNCTION_CALL") as caught:
        world.run(plan(STREAM, GEMINI))
    assert isinstance(caught.value.__cause__, MalformedToolCall)
    assert not caught.value.count_failure
    assert caught.value.partial is not None
    assert caught.value.partial.text == "so on"
    assert caught.value.usage == Usage(input=9, output=2)
    assert not any(isinstance(event, Finished) for event in world.shown)


def test_a_mistake_of_the_model_before_anything_is_shown_is_an_error_that_can_be_retried() -> None:
    with pytest.raises(MalformedToolCall) as caught:
        World([chunk('{"content": "so"}', '"MALFORMED_FUNCTION_CALL"') + b"data: [DONE]\n\n"]).run(plan(STREAM, OPENAI))
    assert caught.value.retry
    with pytest.raises(EmptyResponse) as empty:
        World([gemini_chunk("", "UNEXPECTED_TOOL_CALL")]).run(plan(STREAM, GEMINI))
    assert empty.value.retry


def test_a_connection_that_breaks_tells_what_was_used_so_far() -> None:
    usage = ', "usage": {"prompt_tokens": 9, "completion_tokens": 2}'
    world = World([chunk('{"content": "so"}', more=usage), Reset("by peer")])
    with pytest.raises(Interrupted) as caught:
        world.run(plan(STREAM, OPENAI))
    assert caught.value.usage == Usage(input=9, output=2, source="partial")
    assert caught.value.partial is not None
    assert caught.value.partial.usage == caught.value.usage


def test_a_connection_that_breaks_after_the_finish_is_no_failure() -> None:
    usage = ', "usage": {"prompt_tokens": 9, "completion_tokens": 2}'
    world = World([chunk('{"content": "so"}'), chunk("{}", '"stop"', usage), Reset("by peer")])
    assert world.run(plan(STREAM, OPENAI)).response.text == "so"


# Deadlines of a stream ------------------------------------------------------------------------------------------------


def test_each_read_gets_the_shortest_of_its_limits() -> None:
    world = World([line("a"), line("b"), last_line("")])
    world.run(plan(STREAM, deadline=105.0, first_event=8.0, idle=3.0))
    assert world.reads == [5.0, 3.0, 3.0]


def test_the_first_event_must_come_in_time_and_pings_are_none() -> None:
    _, error = broken(Wait(3.0), line(""), Wait(3.0), line(""), last_line("fine"), first_event=5.0)
    assert isinstance(error, TimedOut)
    assert error.message == "no content within `first_event` (5 s)"


class Slow(World):
    """One in which every request takes too long."""

    def __init__(self, error: TimedOut | None = None) -> None:
        super().__init__()
        self.error = error or TimedOut("nothing came in time")

    def answer(self, effect: Send | Open) -> Any:
        self.now += 30.0
        raise self.error


@pytest.mark.parametrize("stream", [True, False])
def test_what_is_late_names_the_limit_of_the_whole_call(stream: bool) -> None:  # noqa: FBT001
    world = Slow()
    with pytest.raises(TimedOut, match=r"nothing came within `total` \(30 s\)$"):
        world.run(plan(replace(ASK, stream=stream), deadline=130.0, total=30.0))


@pytest.mark.parametrize("stream", [True, False])
def test_a_late_connection_names_the_limit_that_ended_first(stream: bool) -> None:  # noqa: FBT001
    def message(error: TimedOut, **timeouts: Any) -> str:
        with pytest.raises(type(error)) as caught:
            Slow(error).run(plan(replace(ASK, stream=stream), deadline=130.0, total=30.0, **timeouts))
        return caught.value.message

    def connect() -> TimedOut:
        return ConnectTimeout("no connection in time")

    assert message(connect(), connect=2.5) == "no connection within `connect` (2.5 s)"
    assert message(connect(), connect=60.0) == "no connection within `total` (30 s)"
    assert message(ReadTimeout("no answer in time"), connect=2.5) == "no answer within `total` (30 s)"
    assert message(ReadTimeout("no answer in time"), first_event=4.0) == "no answer within `first_event` (4 s)"


def test_a_late_body_names_the_limit_of_the_whole_call() -> None:
    """The head of a plain call has come within `first_event`, which holds no more."""
    late_body = ReadTimeout("a: no complete answer in time", has_head=True)
    with pytest.raises(ReadTimeout, match=r"^aa/m: a: no complete answer within `total` \(30 s\)$") as late:
        Slow(late_body).run(plan(ASK, deadline=130.0, total=30.0, first_event=4.0))
    assert late.value.limit_name == "total"


def test_the_answer_to_a_plain_call_must_begin_in_time() -> None:
    effects = plan(ASK, first_event=4.0)
    next(effects)
    sent = effects.send(100.0)
    assert isinstance(sent, Send)
    assert sent.head_timeout == 4.0


def test_a_stream_that_is_silent_names_the_limit_of_its_silence() -> None:
    world = World([line("a"), Wait(5.0), TimedOut("nothing came in time")])
    with pytest.raises(Interrupted, match=r"nothing came within `idle` \(5 s\)$"):
        world.run(plan(STREAM, idle=5.0))


def test_a_deadline_that_passes_before_anything_is_sent_counts_against_nobody() -> None:
    world = World()
    with pytest.raises(TimedOut) as caught:
        world.run(plan(deadline=99.0))
    assert (caught.value.count_failure, world.requests) == (False, [])


def test_a_deadline_that_passes_while_a_stream_is_read_counts() -> None:
    world = World([line(""), Wait(40.0), line(""), last_line("fine")])
    with pytest.raises(TimedOut) as caught:
        world.run(plan(STREAM, deadline=130.0, total=30.0))
    assert caught.value.count_failure


def test_idle_counts_from_one_piece_of_content_to_the_next() -> None:
    world = World([line("a"), Wait(4.0), line("b"), Wait(4.0), line("c"), last_line("")])
    world.run(plan(STREAM, idle=5.0))
    assert world.reads == [None, 5.0, 5.0, 5.0]


def test_idle_ends_a_stream_of_pings() -> None:
    _, error = broken(line("a"), Wait(3.0), line(""), Wait(3.0), line(""), last_line(""), idle=5.0)
    assert isinstance(error, Interrupted)
    assert isinstance(error.__cause__, TimedOut)


def test_comments_are_pings() -> None:
    world = World([Wait(3.0), b": keep-alive\n\n", Wait(3.0), b": keep-alive\n\n", chunk('{"content": "so"}')])
    with pytest.raises(TimedOut):
        world.run(plan(STREAM, OPENAI, first_event=5.0))


def test_pieces_of_a_call_are_content_although_nothing_can_be_shown_yet() -> None:
    def fragment(text: str) -> bytes:
        return chunk(
            f'{{"tool_calls": [{{"index": 0, "id": "c", "function": {{"name": "t", "arguments": "{text}"}}}}]}}'
        )

    pieces: list[Piece] = [Wait(4.0), fragment('{\\"a\\":'), Wait(4.0), fragment("1"), Wait(4.0), fragment("}")]
    world = World([*pieces, chunk("{}", '"tool_calls"'), b"data: [DONE]\n\n"])
    answer = world.run(plan(STREAM, OPENAI, first_event=5.0, idle=5.0))
    assert answer.response.tool_calls[0].arguments == {"a": 1}


def test_a_caller_that_takes_its_time_is_no_silence_of_the_target() -> None:
    running, world = plan(STREAM, idle=5.0), World([line("a"), line("b"), last_line("")])
    world.until(running, Emit)
    world.now += 60.0
    assert running.send(None) == Now()
    read = running.send(world.now)
    assert isinstance(read, Read)
    assert read.timeout == 5.0


def test_the_deadline_ends_a_stream() -> None:
    world = World([line("a"), Wait(20.0), line("b"), last_line("")])
    with pytest.raises(Interrupted) as caught:
        world.run(plan(STREAM, deadline=110.0))
    assert isinstance(caught.value.__cause__, TimedOut)


# The words of a refusal -----------------------------------------------------------------------------------------------


class Refusing(World):
    """An answer of 400 whose body comes in pieces."""

    def answer(self, effect: Send | Open) -> Any:
        return replace(super().answer(effect), head=Head(status=400))


def refusal(*pieces: Piece, deadline: float | None = None) -> tuple[World, DragomanError]:
    world = Refusing(list(pieces))
    with pytest.raises(DragomanError) as caught:
        world.run(plan(STREAM, deadline=deadline))
    return world, caught.value


def test_the_words_of_a_refusal_are_read_in_pieces() -> None:
    _, error = refusal(b'{"error": {"code": "context_length', b'_exceeded", "message": "too long"}}')
    assert isinstance(error, ContextTooLong)


@pytest.mark.parametrize("failure", [Reset("by peer"), TimedOut("slow")])
def test_a_refusal_whose_words_break_off_is_still_that_refusal(failure: DragomanError) -> None:
    _, error = refusal(b'{"error": ', failure)
    assert isinstance(error, BadRequest)


def test_the_words_of_a_refusal_must_come_soon() -> None:
    world, error = refusal(b"a", Wait(4.0), b"b", Wait(4.0), b"c")
    assert isinstance(error, BadRequest)
    assert world.reads == [ERROR_BODY_TIMEOUT, ERROR_BODY_TIMEOUT, 1.0]


def test_the_words_of_a_refusal_must_come_before_the_deadline() -> None:
    world, _ = refusal(b"a", deadline=102.0)
    assert world.reads[0] == 2.0


def test_the_words_of_a_refusal_have_a_limit() -> None:
    world, _ = refusal(*[b"a" * (MAX_ERROR_BODY // 2)] * 9)
    assert len(world.reads) == 2


# Starting over --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [[line("fine"), last_line("")], [b'{"message": {"content": ""}, "done": true, "done_reason": "length"}\n']],
)
def test_who_starts_over_says_so_before_anything_else(script: Script) -> None:
    world, again = World(script), Restarted(previous="zz/m", target="aa/m", why="Reset: by peer")
    world.run(attempt(STREAM, AA, CallContext(restarted=again)))
    assert world.shown[0] == again
    assert world.shown.count(again) == 1
    assert isinstance(world.shown[-1], Finished)


def test_who_cannot_start_over_says_nothing() -> None:
    world, again = World(EMPTY), Restarted(previous="zz/m", target="aa/m", why="Reset: by peer")
    with pytest.raises(EmptyResponse):
        world.run(attempt(STREAM, AA, CallContext(restarted=again)))
    assert world.shown == []


def test_what_came_before_a_restart_is_void() -> None:
    again = Restarted(previous="zz/m", target="aa/m", why="Reset: by peer")
    late = Finished(finish=Finish(reason="stop"), usage=Usage(input=1))
    before: list[StreamEvent] = [
        Started(id="old"),
        PartStarted(index=0, kind="thinking"),
        PartDelta(index=0, text="Hm."),
        late,
    ]
    response = fold([*before, again, PartStarted(index=0, kind="text"), PartDelta(index=0, text="fi"), Ping()])
    assert (response.id, response.text, response.thinking) == (None, "fi", "")
    assert response.usage == Usage(source="partial")


@pytest.mark.parametrize("name", Timeouts.__struct_fields__)
@pytest.mark.parametrize("given", [-1, float("nan"), "5", True])
def test_what_is_no_time_is_refused(name: str, given: Any) -> None:
    capabilities: dict[str, Any] = {name: given}
    with pytest.raises(SetupError, match=f"^{name} must be seconds >= 0 or None"):
        Timeouts(**capabilities)


@pytest.mark.parametrize("given", [float("inf"), 1e18])
def test_a_time_without_an_end_is_no_limit(given: float) -> None:
    assert Timeouts(total=given, connect=given, idle=given) == Timeouts(total=None, connect=None, idle=None)


# The request of one target --------------------------------------------------------------------------------------------


def test_the_request_is_made_for_its_target() -> None:
    note = Notice(kind="dropped", what="x", why="y")

    def adapt(request: Request, to: Target) -> tuple[Request, tuple[Notice, ...]]:
        return replace(request, system=f"You are {to.name}."), (note,)

    steps = attempt(ASK, AA, CallContext(adapt=adapt))
    assert next(steps) == Now()
    sent = steps.send(0.0)
    assert isinstance(sent, Send)
    assert b"You are aa/m." in sent.request.body
    assert note in sent.request.notices


@pytest.mark.parametrize("part", [PNG, "hello"], ids=["with an image", "text"])
def test_a_long_conversation_is_encoded_outside_the_event_loop(part: Any) -> None:
    long = Request(messages=(user(part),) * (HEAVY_MESSAGES + 1))
    effect = World().until(attempt(long, AA, CallContext(deadline=103.0)), Compute)
    assert isinstance(effect, Compute)
    assert effect.timeout == 3.0
    assert effect.function(lambda: False).body == build_request(long, AA).body
