"""The size of the context window, and prompts that the server cut."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import (
    DragomanError,
    Truncated,
)
from dragoman.events import Event, fold
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Image,
    Message,
    Notice,
    Request,
    Response,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from dragoman.wires.ollama import WIRE
from tests.support.wires.laws import read

CLIENT = WIRE.client
TAPES = Path(__file__).parent / "tapes"
TARGET = target("ollama/qwen")
PNG = b"\x89PNG\r\n\x1a\n"
QUESTION = (user("?"),)


def sent(request: Request, to: Target = TARGET) -> dict[str, Any]:
    """The body of a request, as JSON."""
    body: dict[str, Any] = msgspec.json.decode(CLIENT.encode_request(request, to).body)
    return body


def request_with(**options: Any) -> Request:
    """A request with one message."""
    return Request(messages=QUESTION, **options)


def with_limits(capabilities: Capabilities, quirks: Quirks | None = None) -> Target:
    """The same target, of which more is known."""
    return msgspec.structs.replace(TARGET, capabilities=capabilities, quirks=quirks or Quirks())


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


# The size of the context ----------------------------------------------------------------------------------------------


def size(request: Request, window: int | None = None) -> int | None:
    """The `num_ctx` that is sent."""
    found: int | None = (
        sent(request, with_limits(Capabilities(context_window=window))).get("options", {}).get("num_ctx")
    )
    return found


def test_a_short_prompt_leaves_the_context_to_the_server() -> None:
    assert size(request_with()) is None


def test_a_short_prompt_takes_the_smallest_context_where_the_window_is_known() -> None:
    assert size(request_with(), window=131072) == 4096


def test_a_small_window_is_never_exceeded() -> None:
    assert size(request_with(), window=2048) == 2048
    assert size(Request(messages=(user("word " * 9000),)), window=10000) == 10000


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(messages=(user("word " * 2000),)), 8192),
        (Request(messages=(user("語" * 9000),)), 16384),
        (request_with(max_tokens=5000), 8192),
        (request_with(max_tokens=10**6), 32768),
        (Request(messages=(user(*[Image(data=PNG)] * 4),)), 8192),
        (request_with(tools=(Tool(name="short"),)), 16384),
        (request_with(tools=(Tool(name="long", description="word " * 12000),)), 32768),
    ],
    ids=["prompt", "bytes", "answer", "huge answer", "images", "tools", "long tools"],
)
def test_the_context_is_a_power_of_two_that_holds_the_need(request_: Request, expected: int) -> None:
    assert size(request_) == expected


def test_the_size_of_the_caller_wins() -> None:
    request = request_with(max_tokens=9000, extra={"ollama": {"options": {"num_ctx": 512}}})
    assert size(request, window=131072) == 512


LONG = Request(messages=(user("?"), Message(role="tool", parts=()), user("A long story of ships and tides. " * 2000)))


def counted(request: Request, tokens: int) -> list[Notice]:
    """The notices of an answer that says how many tokens of prompt it read."""
    line = {"message": {"content": "ok"}, "done": True, "done_reason": "stop", "prompt_eval_count": tokens}
    return list(fold(CLIENT.decode_body(msgspec.json.encode(line), request)).notices)


def test_a_prompt_that_was_cut_silently_is_told() -> None:
    [notice] = counted(LONG, 4095)
    assert (notice.kind, notice.what) == ("dropped", "a part of the prompt")
    assert notice.why.startswith("ollama: it read only 4095 tokens")


def test_a_prompt_that_was_cut_silently_is_truncated_under_strict() -> None:
    with pytest.raises(Truncated, match="the prompt was cut"):
        counted(msgspec.structs.replace(LONG, strict=True), 4095)


def test_a_whole_prompt_is_not_told() -> None:
    assert counted(LONG, 14000) == []


def test_repetition_is_no_sign_of_a_cut() -> None:
    assert counted(Request(messages=(user("?" + " " * 60000),)), 1000) == []


def test_a_prompt_too_short_to_be_cut_is_not_told_though_a_cache_hides_its_tokens() -> None:
    assert counted(Request(system="The tide is low. " * 100, messages=QUESTION), 3) == []


def test_a_prompt_that_fills_the_context_of_the_caller_is_told() -> None:
    call = ToolCall(id="a", name="now")
    result = tool_results(ToolResult(id="a", content="noon " * 200))
    request = Request(messages=(user("?"), assistant(call), result), extra={"ollama": {"options": {"num_ctx": 256}}})
    assert [notice.kind for notice in counted(request, 256)] == ["dropped"]
    assert counted(request, 220) == []
