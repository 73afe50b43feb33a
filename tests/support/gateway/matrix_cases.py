"""The cases of the matrix: conversations that every client has with every provider."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from dragoman.types import (
    Finish,
    FinishReason,
    Image,
    JsonObject,
    Message,
    Request,
    Response,
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
from tests.support.images import picture

PORT: JsonObject = {
    "type": "object",
    "properties": {"port": {"type": "string"}},
    "required": ["port"],
    "additionalProperties": False,
}
TIDE = Tool(name="tide", description="When the tide turns.", parameters=PORT)
DEPTH = Tool(name="depth", description="How deep the water is.", parameters=PORT)
QUESTION = user("When does the tide turn at Brest?")
PICTURE = Image(data=picture(8, 8), mime="image/png")
TOTALS = Usage(input=12, output=7)
PORTIONS = Usage(input=12, output=7, cache_read=4, cache_write=2, reasoning=3)
SIGNED: dict[str, JsonObject] = {
    "anthropic": {"signature": "c2lnbmVk"},
    "bedrock": {"signature": "c2lnbmVk"},
    "google": {"thoughtSignature": "c2lnbmVk"},
    "google_interactions": {"signature": "c2lnbmVk"},
    "openai_responses": {"id": "rs_1", "encrypted_content": "c2lnbmVk"},
}
"""How a provider signs what its model thought, where it does."""


class MatrixCase(msgspec.Struct, frozen=True):
    """A conversation: what is asked, what a provider of some wire answers each time, what the client says to that."""

    name: str
    request: Request
    answers: Callable[[str], tuple[Response, ...]]
    reply: Callable[[Response], Message] | None = None
    """What the client says to the first answer; where it says nothing, that was all."""

    def requests(self, wire: str, *, stream: bool) -> list[Request]:
        """What a provider of that wire is asked each time, if nothing is lost on the way."""
        requests = [replace(self.request, stream=stream)]
        if self.reply is not None:
            requests.append(follow(requests[0], self.answers(wire)[0], self.reply))
        return requests


def follow(request: Request, response: Response, reply: Callable[[Response], Message]) -> Request:
    """The request that goes on after an answer."""
    return replace(request, messages=(*request.messages, response.message, reply(response)))


def answer(*parts: str | Thinking | ToolCall, reason: FinishReason = "stop", usage: Usage = TOTALS) -> Response:
    message = assistant(*parts)
    return Response(
        id="answer_1",
        model="m",
        created=1_794_900_000,
        message=message,
        finish=Finish(reason="tool_calls" if message.tool_calls else reason),
        usage=usage,
    )


def call(number: int, name: str) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments={"port": "Brest"})


def thought(wire: str) -> Thinking:
    return Thinking(text="It turned at noon.", extra={wire: SIGNED[wire]} if wire in SIGNED else {})


def results(response: Response, *, is_error: bool = False) -> Message:
    """What the client's tools gave."""
    return tool_results(
        *(
            ToolResult(id=call.id, name=call.name, content=f"{call.name}: 6", is_error=is_error)
            for call in response.tool_calls
        )
    )


def always(*answers: Response) -> Callable[[str], tuple[Response, ...]]:
    return lambda _wire: answers


_ALL: tuple[MatrixCase, ...] = (
    MatrixCase("text", Request(system="Be brief.", messages=(QUESTION,)), always(answer("At six.", usage=PORTIONS))),
    MatrixCase(
        "options",
        Request(
            messages=(QUESTION,),
            tools=(TIDE,),
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0.5,
            top_k=20,
            seed=7,
            stop=("END",),
            user="u1",
        ),
        always(answer("At six.")),
    ),
    MatrixCase(
        "tools over two turns",
        Request(messages=(QUESTION,), tools=(TIDE,)),
        always(answer(call(1, "tide")), answer("At six.")),
        results,
    ),
    MatrixCase(
        "parallel tools",
        Request(messages=(QUESTION,), tools=(TIDE, DEPTH)),
        always(answer("I look.", call(1, "tide"), call(2, "depth")), answer("At six.")),
        results,
    ),
    MatrixCase(
        "tool error",
        Request(messages=(QUESTION,), tools=(TIDE,), tool_choice="required"),
        always(answer(call(1, "tide")), answer("I do not know.")),
        lambda response: results(response, is_error=True),
    ),
    MatrixCase(
        "image",
        Request(messages=(user(PICTURE, "What is this?", PICTURE),)),
        always(answer("Red and blue.")),
    ),
    MatrixCase(
        "image in a result",
        Request(messages=(QUESTION,), tools=(TIDE,)),
        always(answer(call(1, "tide")), answer("At six.")),
        lambda response: tool_results(
            ToolResult(id=response.tool_calls[0].id, name="tide", content=(Text(text="See:"), PICTURE))
        ),
    ),
    MatrixCase("structured", Request(messages=(QUESTION,), schema=PORT), always(answer('{"port":"Brest"}'))),
    MatrixCase(
        "thinking over two turns",
        Request(messages=(QUESTION,), reasoning="high"),
        lambda wire: (answer(thought(wire), "At six."), answer("At seven.")),
        lambda _response: user("And tomorrow?"),
    ),
    MatrixCase(
        "thinking before a call",
        Request(messages=(QUESTION,), tools=(TIDE,), reasoning="high"),
        lambda wire: (answer(thought(wire), call(1, "tide")), answer("At six.")),
        results,
    ),
    MatrixCase(
        "length stop",
        Request(messages=(QUESTION,), max_tokens=2000),
        always(answer("At s", reason="length")),
    ),
    MatrixCase("unknown end", Request(messages=(QUESTION,)), always(answer("At", reason="other"))),
    MatrixCase("blocked", Request(messages=(QUESTION,)), always(answer("No.", reason="blocked"))),
)
CASES = {case.name: case for case in _ALL}
