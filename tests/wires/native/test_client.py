"""Exact JSON of native calls, and what their answers mean."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    Malformed,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    Truncated,
    Unsupported,
)
from dragoman.events import fold
from dragoman.http import Head
from dragoman.targets.dsn import decode_dsn
from dragoman.targets.providers import PROVIDERS, target
from dragoman.types import (
    Image,
    Message,
    Notice,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from tests.support.wires import laws

WIRE = wires.get("native")
CLIENT = WIRE.client
TARGET = target("dragoman/fast", base_url="http://gate:8000/native/v1", api_key="k")
TAPES = Path(__file__).parent / "tapes"
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})


def body_of(request: Request) -> Any:
    return msgspec.json.decode(CLIENT.encode_request(request, TARGET).body)


def notices_of(request: Request) -> list[str]:
    return [f"{notice.kind} {notice.what}" for notice in CLIENT.encode_request(request, TARGET).notices]


def read_tape(name: str) -> tuple[list[Any], DragomanError | None]:
    return laws.read(CLIENT.stream_decoder(), [(TAPES / name).read_bytes()])


# Requests -------------------------------------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    http = CLIENT.encode_request(Request(messages=(user("Hello"),), system="Be brief."), TARGET)
    assert http.url == "http://gate:8000/native/v1/chat/completions"
    assert http.headers == {"content-type": "application/json", "authorization": "Bearer k"}
    assert msgspec.json.decode(http.body) == {
        "model": "fast",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    }


def test_options() -> None:
    request = Request(
        messages=(user("Hello"),),
        temperature=0.5,
        top_p=0.9,
        max_tokens=5,
        stop=("END",),
        reasoning="low",
        schema={"type": "object"},
        schema_name="port",
        stream=True,
    )
    assert body_of(request) == {
        "model": "fast",
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": ["END"],
        "reasoning": "low",
        "schema": {"type": "object"},
        "schema_name": "port",
        "stream": True,
    }


def test_options_that_the_protocol_has_no_field_for_are_told() -> None:
    request = Request(
        messages=(user("Hello"),),
        top_k=5,
        seed=1,
        user="u",
        metadata={"a": "b"},
        cache=True,
        parallel_tool_calls=False,
        schema={},
        schema_strict=True,
        stop=("1", "2", "3", "4", "5"),
    )
    assert sorted(notices_of(request)) == [
        "dropped cache",
        "dropped metadata",
        "dropped parallel_tool_calls",
        "dropped schema_strict",
        "dropped seed",
        "dropped stop",
        "dropped top_k",
        "dropped user",
    ]
    assert body_of(request)["stop"] == ["1", "2", "3", "4"]


def test_what_is_asked_of_the_gateway_stands_in_extra() -> None:
    request = Request(messages=(user("Hello"),), extra={"native": {"conversation_id": "c1"}})
    assert body_of(request)["conversation_id"] == "c1"


def test_tools_and_their_results() -> None:
    picture = Image(data=b"png", mime="image/png")
    request = Request(
        messages=(
            user("Tide?", picture),
            assistant(CALL, ToolCall(id="call_2", name="now")),
            tool_results(
                ToolResult(id="call_1", content="no such port", is_error=True),
                ToolResult(id="call_2", content=(Text(text="see"), picture)),
            ),
        ),
        tools=(Tool(name="tide", description="Tide height", parameters={"type": "object"}, strict=True),),
        tool_choice="tide",
    )
    image = {"type": "image", "data": "cG5n", "mime": "image/png"}
    call = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest"}}}
    other: dict[str, Any] = {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": {}}}
    assert body_of(request) == {
        "model": "fast",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Tide?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [call, other]},
            {"role": "tool", "tool_call_id": "call_1", "content": "no such port", "is_error": True},
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "see"}, image]},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "tide",
                    "description": "Tide height",
                    "parameters": {"type": "object"},
                    "strict": True,
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "tide"}},
    }


def test_what_other_wires_signed_is_taken_along() -> None:
    thought = Thinking(text="Hm.", extra={"anthropic": {"signature": "s"}})
    block = Opaque(wire="google", data={"codeExecutionResult": {}})
    request = Request(messages=(user("?"), assistant(thought, block, "Yes."), user("And?")))
    assert body_of(request)["messages"][1]["content"] == [
        {"type": "thinking", "text": "Hm.", "extra": {"anthropic": {"signature": "s"}}},
        {"type": "opaque", "wire": "google", "data": {"codeExecutionResult": {}}},
        {"type": "text", "text": "Yes."},
    ]
    assert notices_of(request) == []


def test_an_answer_without_content_is_an_empty_string() -> None:
    said = Message(role="assistant", extra={"native": {"a": 1}})
    assert body_of(Request(messages=(user("?"), said, user("?"))))["messages"][1] == {
        "role": "assistant",
        "content": "",
        "extra": {"native": {"a": 1}},
    }


def test_a_tool_without_a_description_is_described_by_its_name() -> None:
    request = Request(messages=(user("?"),), tools=(Tool(name="now"),), tool_choice="auto")
    assert body_of(request)["tools"] == [
        {
            "type": "function",
            "function": {"name": "now", "description": "now", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    assert notices_of(request) == ["repaired description of now"]
    assert CLIENT.encode_tools((Tool(name="now"), Opaque(wire="native", data={"a": 1})))[1] == {"a": 1}


def test_models_are_asked_for() -> None:
    assert wires.get("native").endpoints.encode_models(TARGET).url == "http://gate:8000/native/v1/models"


def test_a_dsn_names_another_gateway() -> None:
    provider = decode_dsn("gate", "dragoman+http://key@gate:8000", PROVIDERS)
    assert provider.target("fast").base_url == "http://gate:8000/native/v1"
    assert provider.api_key == "key"


# Answers --------------------------------------------------------------------------------------------------------------


def test_a_stream_with_thinking() -> None:
    events, error = read_tape("hello.sse")
    assert error is None
    response = fold(events)
    assert response.message.parts == (
        Thinking(text="A greeting.", extra={"anthropic": {"signature": "sig"}}),
        Text(text="Héllo"),
    )
    assert response.usage == Usage(input=9, output=4, reasoning=2)
    assert response.finish.raw == "end_turn"
    assert response.notices == (Notice(kind="dropped", what="seed", why="anthropic: it has no such option"),)


def test_a_stream_with_calls() -> None:
    events, error = read_tape("tools.sse")
    assert error is None
    first, second = fold(events).tool_calls
    assert first.arguments == {"port": "Brest"}
    assert first.extra == {"google": {"thoughtSignature": "x"}}
    assert second.id == "call_7f3c2b1a-0d9e-4f5a-8b7c-1a2b3c4d5e6f"
    assert fold(events).usage == Usage(source="unknown")


def test_parts_that_come_whole() -> None:
    assert fold(read_tape("picture.sse")[0]).message.parts == (
        Image(data=b"\x89PNG", mime="image/png"),
        Text(text="Here."),
    )


def test_parts_that_interleave() -> None:
    assert fold(read_tape("interleaved.sse")[0]).message.parts == (Text(text="one more"), Text(text="two"))


def test_what_is_unknown_is_tolerated() -> None:
    events, error = read_tape("unknown.sse")
    assert error is None
    assert fold(events).text == "Hi"


def test_an_error_in_the_middle_is_of_its_class() -> None:
    events, error = read_tape("error.sse")
    assert fold(events).text == "Hel"
    assert isinstance(error, Overloaded)


def test_a_broken_part_is_malformed() -> None:
    assert isinstance(read_tape("bad_part.sse")[1], Malformed)


def test_a_streamed_part_cannot_end_as_another() -> None:
    assert isinstance(read_tape("changed_part.sse")[1], Malformed)


def test_a_farewell_before_the_end_is_truncated() -> None:
    assert isinstance(read_tape("done_early.sse")[1], Truncated)


def test_a_body_without_an_end_is_malformed() -> None:
    with pytest.raises(Malformed, match="no finish_reason"):
        CLIENT.decode_body(b'{"choices":[{"message":{"content":"Hi"}}]}')


@pytest.mark.parametrize(
    "error",
    [
        AuthFailed("no", status=403),
        AuthFailed("no", status=401),
        RateLimited("slow", retry_after=2.0),
        RateLimited("no credit", retry=False),
        Overloaded("busy"),
        ContextTooLong("too much"),
        Blocked("no"),
        ModelNotFound("no such thing"),
        BadRequest("no"),
        ServerFault("boom"),
    ],
)
def test_an_error_keeps_its_class_from_gateway_to_gateway(error: DragomanError) -> None:
    reply = WIRE.server.encode_error(error)
    seen = CLIENT.decode_error(Head(status=reply.status, headers=reply.headers), reply.body)
    assert (type(seen), seen.retry, seen.retry_after) == (type(error), error.retry, error.retry_after)


def test_what_one_target_of_a_gateway_cannot_another_may() -> None:
    reply = WIRE.server.encode_error(Unsupported("ollama: no documents"))
    seen = CLIENT.decode_error(Head(status=reply.status), reply.body)
    assert (type(seen), seen.fail_over) == (BadRequest, True)
