"""What is asked and answered in the matrix: each scene is a conversation that every client has with every provider."""

from collections.abc import Callable

import msgspec

from dragoman.errors import Overloaded
from dragoman.testing import Cut, Inside, Line
from dragoman.types import (
    Finish,
    Image,
    JsonObject,
    Message,
    Request,
    Response,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    tool_results,
    user,
)
from tests.pictures import picture

PORT: JsonObject = {
    "type": "object",
    "properties": {"port": {"type": "string"}},
    "required": ["port"],
    "additionalProperties": False,
}
TIDE = Tool(name="tide", description="When the tide turns.", parameters=PORT)
DEPTH = Tool(name="depth", description="How deep the water is.", parameters=PORT)
ASKED = user("When does the tide turn at Brest?")
PICTURE = Image(data=picture(8, 8), mime="image/png")
USAGE = Usage(input=12, output=7)
SIGNED: dict[str, JsonObject] = {
    "anthropic": {"signature": "c2lnbmVk"},
    "google": {"thoughtSignature": "c2lnbmVk"},
    "openai_responses": {"id": "rs_1", "encrypted_content": "c2lnbmVk"},
}
"""How a provider signs what its model thought, where it does."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: what is asked first, what a provider answers each time, and what the client says to that."""

    name: str
    request: Request
    script: Callable[[str], tuple[Line, ...]]
    """The lines of a provider that speaks some wire."""
    next: Callable[[Response], Message] | None = None
    """What the client says to the first answer; without it, one is enough."""


def answer(*parts: str | Thinking | ToolCall, reason: str = "stop") -> Response:
    message = assistant(*parts)
    finish = msgspec.convert({"reason": "tool_calls" if message.tool_calls else reason}, Finish)
    return Response(id="answer_1", model="m", created=1_794_900_000, message=message, finish=finish, usage=USAGE)


def call(number: int, name: str, port: str) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments={"port": port})


def thought(wire: str) -> Thinking:
    signed = SIGNED.get(wire)
    return Thinking(text="It turned at noon.", extra={wire: signed} if signed else {})


def results(response: Response, *, is_error: bool = False) -> Message:
    """What the client's tools gave."""
    return tool_results(
        *(
            ToolResult(id=call.id, name=call.name, content=f"{call.name}: 6", is_error=is_error)
            for call in response.tool_calls
        )
    )


def always(*lines: Line) -> Callable[[str], tuple[Line, ...]]:
    return lambda _wire: lines


SCENES = (
    Scene(name="text", request=Request(system="Be brief.", messages=(ASKED,)), script=always(answer("At six."))),
    Scene(
        name="tools over two turns",
        request=Request(messages=(ASKED,), tools=(TIDE,)),
        script=always(answer(call(1, "tide", "Brest")), answer("At six.")),
        next=results,
    ),
    Scene(
        name="parallel tools",
        request=Request(messages=(ASKED,), tools=(TIDE, DEPTH)),
        script=always(answer("I look.", call(1, "tide", "Brest"), call(2, "depth", "Brest")), answer("At six.")),
        next=results,
    ),
    Scene(
        name="tool error",
        request=Request(messages=(ASKED,), tools=(TIDE,)),
        script=always(answer(call(1, "tide", "Brest")), answer("I do not know.")),
        next=lambda response: results(response, is_error=True),
    ),
    Scene(
        name="image",
        request=Request(messages=(user("What is this?", PICTURE),)),
        script=always(answer("Red and blue.")),
    ),
    Scene(
        name="structured",
        request=Request(messages=(ASKED,), schema=PORT),
        script=always(answer('{"port":"Brest"}')),
    ),
    Scene(
        name="thinking over two turns",
        request=Request(messages=(ASKED,), reasoning="high"),
        script=lambda wire: (answer(thought(wire), "At six."), answer("At seven.")),
        next=lambda _response: user("And tomorrow?"),
    ),
    Scene(
        name="length stop",
        request=Request(messages=(ASKED,), max_tokens=2000),
        script=always(answer("At s", reason="length")),
    ),
)
