"""What clients see of a response in the background, without a gateway."""

from dragoman import wires
from dragoman.errors import Overloaded
from dragoman.events import Ping, Started, to_events
from dragoman.types import Finish, JsonObject, Request, Response, Usage, assistant
from dragoman.wires.openai_responses.background import ResponsesBackground, ResponsesProgress
from dragoman.wires.openai_responses.request_echo import ECHO

REQUEST = Request(extra={ECHO: {"background": True}})
HEAD = Started(id="resp_1", model="m", created=1)
RESPONSE = Response(
    id="resp_1",
    model="m",
    created=1,
    message=assistant("4.2 m"),
    finish=Finish(reason="stop"),
    usage=Usage(input=1, output=1),
)
HOOKS = ResponsesBackground()


def test_the_snapshot_follows_the_events() -> None:
    progress = HOOKS.progress(REQUEST, HEAD)
    encoder = wires.get("openai_responses").server.stream_encoder(REQUEST)
    seen: list[tuple[str, int]] = [(progress.snapshot["status"], 0)]
    assert not HOOKS.is_over(progress.snapshot)
    data = b"".join(encoder.feed(event) for event in (Ping(), *to_events(RESPONSE)))
    for frame in data.split(b"\n\n"):
        progress.feed(frame + b"\n\n")
        state = (progress.snapshot["status"], len(progress.snapshot["output"]))
        if state != seen[-1]:
            seen.append(state)
    assert seen == [("queued", 0), ("in_progress", 0), ("in_progress", 1), ("completed", 1)]
    assert HOOKS.is_over(progress.snapshot)
    assert HOOKS.encode(progress.snapshot).status == 200
    assert all(frame.count(b"\n\n") == 1 for frame in progress.frames)
    assert b'"sequence_number":0' in progress.frames[0]


def _failed(progress: ResponsesProgress, code: str) -> JsonObject:
    encoder = wires.get("openai_responses").server.stream_encoder(REQUEST)
    progress.feed(encoder.feed(HEAD) + encoder.feed(Overloaded("busy", code=code)))
    return progress.snapshot


def test_an_error_is_a_failed_response() -> None:
    progress = HOOKS.progress(REQUEST, HEAD)
    snapshot = _failed(progress, "x")
    assert (snapshot["status"], snapshot["error"]) == ("failed", {"code": "server_error", "message": "busy"})
    assert progress.frames[-1].startswith(b"event: response.failed\n")
    assert HOOKS.is_over(snapshot)


def test_a_cancelled_response_keeps_what_it_has() -> None:
    progress = HOOKS.progress(REQUEST, HEAD)
    progress.cancel()
    assert (progress.snapshot["status"], progress.snapshot["id"]) == ("cancelled", "resp_1")


def test_a_stored_response_says_whether_it_ran_in_the_background() -> None:
    assert HOOKS.was_background(REQUEST)
    assert not HOOKS.was_background(Request())


def test_a_response_whose_worker_died_is_failed() -> None:
    snapshot = HOOKS.fail(HOOKS.progress(REQUEST, HEAD).snapshot, "the worker has stopped")
    assert (snapshot["status"], snapshot["error"]["message"]) == ("failed", "the worker has stopped")
    event = HOOKS.encode_failed(snapshot, 7)
    assert event.startswith(b"event: response.failed\n")
    assert b'"sequence_number":7' in event
