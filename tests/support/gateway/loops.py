"""Tool loops of two turns: a client of one dialect, a provider of another wire that signs what it thinks."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from dragoman.events import fold
from dragoman.gateway.app import App
from dragoman.gateway.tool_call_ids import HEADER
from dragoman.testing import FaultyServer, Scripted
from dragoman.types import (
    Finish,
    FinishReason,
    Message,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    tool_results,
)
from tests.support.gateway.dialects import BASES, ClientResponse, app_of, events_of, request_of, send_blocking
from tests.support.gateway.live import record
from tests.support.gateway.matrix_cases import DEPTH, QUESTION, TIDE

OPTIONS = "[chain]\nretries = 0\n"
TEXT = Text(text="I look.")


def _call(number: int, name: str, **extra: dict[str, object]) -> ToolCall:
    return ToolCall(id=f"call_{number}x", name=name, arguments={"port": "Brest"}, extra=extra)


STEPS: dict[str, tuple[Part, ...]] = {
    "anthropic": (
        Thinking(text="The tide, then the depth.", extra={"anthropic": {"signature": "c2lnbmVk"}}),
        Thinking(text="", redacted=True, extra={"anthropic": {"data": "aGlkZGVu"}}),
        TEXT,
        _call(1, "tide"),
        _call(2, "depth"),
    ),
    "bedrock": (
        Thinking(text="The tide, then the depth.", extra={"bedrock": {"signature": "c2lnbmVk"}}),
        TEXT,
        _call(1, "tide"),
        _call(2, "depth"),
    ),
    "google": (
        Thinking(text="The tide, then the depth.", extra={"google": {}}),
        TEXT,
        _call(1, "tide", google={"id": "call_1x", "thoughtSignature": "c2lnbmVk"}),
        _call(2, "depth", google={"id": "call_2x"}),
    ),
    "google_interactions": (
        Thinking(text="The tide, then the depth.", extra={"google_interactions": {"signature": "c2lnbmVk"}}),
        TEXT,
        _call(1, "tide"),
        Thinking(text="", redacted=True, extra={"google_interactions": {"signature": "bW9yZQ=="}}),
        _call(2, "depth"),
    ),
    "openai_responses": (
        Thinking(text="The tide.", extra={"openai_responses": {"id": "rs_1", "encrypted_content": "ZW5jcnlwdGVk"}}),
        _call(1, "tide", openai_responses={"id": "fc_1"}),
        Thinking(text="", redacted=True, extra={"openai_responses": {"id": "rs_2", "encrypted_content": "bW9yZQ=="}}),
        _call(2, "depth", openai_responses={"id": "fc_2"}),
    ),
    "openai_chat": (
        Thinking(text="The tide, then the depth.", extra={"openai_chat": {"fields": ["reasoning_content"]}}),
        TEXT,
        _call(1, "tide"),
        _call(2, "depth"),
    ),
    "ollama": (
        Thinking(text="The tide, then the depth.", extra={"ollama": {}}),
        TEXT,
        _call(1, "tide"),
        _call(2, "depth"),
    ),
}
"""A step of a model with thinking and two calls, as each wire signs it."""
Forget = Callable[[Request], Request]


class Crossing(NamedTuple):
    """A client's dialect, a provider's wire, and whether the answers are streamed."""

    client: str
    provider: str
    stream: bool

    def __str__(self) -> str:
        return f"{self.client} - {self.provider}{' streamed' if self.stream else ''}"


def answer(*parts: Part) -> Response:
    message = Message(role="assistant", parts=parts)
    reason: FinishReason = "tool_calls" if message.tool_calls else "stop"
    return Response(id="answer_1", model="m", created=1_794_900_000, message=message, finish=Finish(reason=reason))


def gateway(*providers: str, more: str = "") -> tuple[App, Scripted]:
    """A gateway before providers of some wires, `up_<wire>`, and the script that they follow."""
    tables = [record(f"up_{wire}", f"http://{wire}.invalid" + BASES.get(wire, "/v1"), wire) for wire in providers]
    app = app_of("".join(tables) + OPTIONS + more)
    script = Scripted()
    app.runtime.registry.transport = script
    return app, script


def asking(*, stream: bool = False) -> Request:
    return Request(messages=(QUESTION,), tools=(TIDE, DEPTH), reasoning="high", stream=stream)


class Client:
    """A client of one dialect that sends back what it got."""

    def __init__(self, app: App, dialect: str, model: str, *, stream: bool = False) -> None:
        self.app, self.dialect, self.model = app, dialect, model
        self.request = asking(stream=stream)
        self.seen: ClientResponse | None = None
        self._headers: dict[str, str] = {}

    def send(self) -> Response:
        http = request_of(self.dialect, self.model, self.request)
        seen = self.seen = send_blocking(self.app, replace(http, headers={**http.headers, **self._headers}))
        assert seen.status == 200, seen.body
        self._headers = {HEADER: seen.headers[HEADER]} if HEADER in seen.headers else {}
        return fold(events_of(self.dialect, self.request, seen))

    def follow(self, response: Response) -> None:
        """Go on with the results of the calls, or with a question."""
        results = [ToolResult(id=call.id, name=call.name, content="6") for call in response.tool_calls]
        reply = tool_results(*results) if results else QUESTION
        self.request = replace(self.request, messages=(*self.request.messages, response.message, reply))

    @property
    def notices(self) -> tuple[str, ...]:
        return () if self.seen is None else self.seen.notices


def received(script: Scripted | FaultyServer) -> tuple[Part, ...]:
    """The first assistant message of the last request that a provider got, without the ids of calls and their items."""
    message = next(message for message in script.requests[-1].messages if message.role == "assistant")
    return tuple(_without_ids(part) if isinstance(part, ToolCall) else part for part in message.parts)


def _without_ids(call: ToolCall) -> ToolCall:
    return replace(call, id="", extra={wire: data for wire, data in call.extra.items() if wire != "openai_responses"})
