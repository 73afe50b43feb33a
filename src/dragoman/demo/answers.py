"""The answers of the demo: text, tool calls, JSON and thinking. The same request always gets the same answer."""

import re
import zlib
from collections.abc import Iterator

import msgspec

from dragoman.demo.hosted_tools import cite, hosted_parts
from dragoman.demo.schema_example import example_value
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started, kind_of
from dragoman.media import measure
from dragoman.types import (
    Audio,
    Document,
    Finish,
    FinishReason,
    Image,
    JsonObject,
    Message,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.types.data_urls import encode_base64
from dragoman.wires.common.json import object_of

_COMMON = frozenset(
    "about after also and any are can could does for from get give has have how into its just let list make may much "
    "need not now one our out please say see set show some tell than that the their them then there these they this "
    "use user was were what when where which who will with would you your".split()
)
MAX_PROMPT = 20_000
_GREETING = re.compile(r"\s*(hello|hi|hey|good (morning|day|evening)|bonjour|hallo)\b", re.IGNORECASE)


def answer(request: Request, model: str, /) -> Response:
    """Answer a request.

    >>> from dragoman.types import user
    >>> answer(Request(messages=(user("What is love?"),)), "any").text
    'You said “What is love?”, which is 3 words.'
    """
    parts: list[Part] = []
    if request.reasoning not in (None, "none", 0):
        parts.append(Thinking(text=_thinking(request)))
    calls = _tool_calls(request)
    reason: FinishReason = "tool_calls" if calls else "stop"
    if calls:
        parts += calls
    else:
        found = [] if request.schema is not None or _results(request) else hosted_parts(request.tools, _prompt(request))
        text, reason = _limit(_text(request), request)
        parts += [*found, cite(text, found)]
    message = Message(role="assistant", parts=tuple(parts))
    return Response(
        id=f"demo-{zlib.crc32(msgspec.json.encode(request.messages)):08x}",
        model=model,
        message=message,
        finish=Finish(reason=reason),
        usage=_usage(request, message),
    )


def stream_events(response: Response, /) -> Iterator[Event]:
    """Return the events of a stream that sends the response word by word."""
    yield Started(id=response.id, model=response.model, created=response.created)
    for index, part in enumerate(response.message.parts):
        yield PartStarted(index=index, kind=kind_of(part))
        if isinstance(part, Text | Thinking):
            for word in re.findall(r"\s*(?:[^\s,]+,?|,)\s*", part.text):
                yield PartDelta(index=index, text=word)
        yield PartEnded(index=index, part=part)
    yield Finished(finish=response.finish, usage=response.usage)


def count_tokens(text: str, /) -> int:
    """Count words and punctuation marks: close enough to tokens for a demo.

    >>> count_tokens("Is it so?")
    4
    """
    return sum(1 for _ in re.finditer(r"\w+|[^\w\s]", text))  # a loop: other threads run between its steps


def embed(text: str, /, *, size: int = 32) -> list[float]:
    """Return a vector of length one. Texts that share words are close to each other.

    >>> embed("a b") == embed("b a")
    True
    """
    counts = [0.0] * size
    for word in re.finditer(r"\w+", text.lower()):  # no list of all words: other threads run between the steps
        counts[zlib.crc32(word[0].encode()) % size] += 1.0
    if not any(counts):
        counts[0] = 1.0
    length = sum(count * count for count in counts) ** 0.5
    return [count / length for count in counts]


def _whole_prompt(request: Request) -> str:
    return next((turn.text for turn in reversed(request.messages) if turn.role == "user" and turn.text.strip()), "")


def _prompt(request: Request) -> str:
    """As much of the prompt as the demo looks at for names, numbers and tools."""
    return _whole_prompt(request)[:MAX_PROMPT]


def _results(request: Request) -> tuple[ToolResult, ...]:
    last = request.messages[-1] if request.messages else None
    return last.tool_results if last is not None else ()


def _thinking(request: Request) -> str:
    return f"The user asks: “{_shorten(_prompt(request))}”. I will answer in one sentence."


def _text(request: Request) -> str:
    if request.schema is not None:
        schema = request.schema or {"type": "object", "properties": {"answer": {"type": "string"}}}
        value = example_value(schema, words=_names(_prompt(request)), numbers=_numbers(_prompt(request)))
        return msgspec.json.encode(value).decode()
    if results := _results(request):
        return " ".join(_quote(result) for result in results)
    prompt = _whole_prompt(request)
    if request.raw:
        return _continuation(prompt, request.suffix or "")
    last = request.messages[-1].parts if request.messages else ()
    seen = [sentence for part in last if (sentence := _describe(part))]
    if not prompt:
        text = "You said nothing." if not seen else ""
    elif _GREETING.match(prompt):
        text = "Hello! I am the demo of dragoman: I need no key and no network, and say the same every time."
    else:
        words = sum(1 for _ in re.finditer(r"\S+", prompt))
        text = f"You said “{_shorten(prompt)}”, which is {words} word{'s' * (words != 1)}."
    return " ".join([*([text] if text else []), *seen])


def _continuation(prompt: str, suffix: str) -> str:
    """The words of a text that the demo continues: what it counts stands before and after the gap."""
    before, after = len(prompt.split()), len(suffix.split())
    return f" and so on, after {before} words" + (f" and before {after}" if suffix else "") + "."


def _describe(part: Part) -> str:
    match part:
        case Image(data=bytes(data)):
            size = measure(data)
            pixels = f" of {size.width} by {size.height} pixels" if size else ""
            return f"I see an image ({part.mime}){pixels}, {len(data)} bytes."
        case Image():
            return f"I see an image at {part.url}."
        case Document():
            return f"I have a document {part.name or ''} ({part.mime}), {len(part.data)} bytes.".replace("  ", " ")
        case Audio():
            return f"I hear {len(part.data)} bytes of {part.mime}."
        case _:
            return ""


def _quote(result: ToolResult) -> str:
    text = _shorten(result.text)
    pictures = " ".join(_describe(part) for part in result.parts if isinstance(part, Image | Document))
    sentence = f"{result.name or 'The tool'} {'failed' if result.is_error else 'says'}: {text}"
    return f"{sentence} {pictures}".strip()


def _tool_calls(request: Request) -> list[ToolCall]:
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    prompt = _prompt(request)
    is_forced = request.tool_choice not in (None, "auto", "none")
    is_answered = bool(_results(request)) or _GREETING.match(prompt) is not None
    if not tools or request.tool_choice == "none" or (is_answered and not is_forced):
        return []
    scores = {tool.name: _score(tool, prompt) for tool in tools}
    matching = sorted((tool for tool in tools if scores[tool.name] >= 2), key=lambda tool: -scores[tool.name])
    if request.tool_choice == "required":
        matching = matching or [max(tools, key=lambda tool: scores[tool.name])]
    elif request.tool_choice not in (None, "auto"):
        matching = [tool for tool in tools if tool.name == request.tool_choice]
    if request.parallel_tool_calls is False:
        matching = matching[:1]
    previous_calls = sum(len(turn.tool_calls) for turn in request.messages)
    return [
        ToolCall(id=f"call_{previous_calls + number}", name=tool.name, arguments=_arguments(tool, prompt))
        for number, tool in enumerate(matching, 1)
    ]


def _arguments(tool: Tool, prompt: str) -> JsonObject:
    schema = tool.parameters or {"type": "object"}
    return object_of(example_value(schema, words=_names(prompt), numbers=_numbers(prompt)))


def _score(tool: Tool, prompt: str) -> int:
    """Rate how well a tool fits the prompt. A word of its name counts twice as much as one of its description."""
    words = _stems(prompt)
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", tool.name).replace("_", " ").replace("-", " ")
    return 2 * len(words & _stems(spaced)) + len(words & _stems(tool.description or ""))


def _stems(text: str) -> set[str]:
    words = (word for word in re.findall(r"[a-zà-ÿ]{3,}", text.lower()) if word not in _COMMON)
    return {word.removesuffix("s") for word in words}


def _names(prompt: str) -> tuple[str, ...]:
    """Return the words of the prompt that look like names, or are in quotes."""
    quoted = re.findall(r"[\"“']([^\"”']{1,80})[\"”']", prompt)
    named = re.findall(r"(?<=[a-z,:] )[A-ZÀ-Ý][\w-]+(?: [A-ZÀ-Ý][\w-]+)*", prompt)
    return tuple(dict.fromkeys(quoted + named))


def _numbers(prompt: str) -> tuple[float, ...]:
    return tuple(float(number) for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])", prompt))


def _limit(text: str, request: Request) -> tuple[str, FinishReason]:
    for stop in request.stop:
        if stop and stop in text:
            text = text[: text.index(stop)]
    if request.max_tokens is None or count_tokens(text) <= request.max_tokens:
        return text, "stop"
    tokens = list(re.finditer(r"\w+|[^\w\s]", text))
    return text[: tokens[request.max_tokens - 1].end()] if request.max_tokens > 0 else "", "length"


def _usage(request: Request, message: Message) -> Usage:
    reasoning = count_tokens(message.thinking)
    outputs = [
        message.thinking,
        message.text,
        *(msgspec.json.encode(call.arguments).decode() for call in message.tool_calls),
    ]
    system = request.system if isinstance(request.system, str) else "".join(part.text for part in request.system or ())
    inputs = [system, *(_part_text(part) for turn in request.messages for part in turn.parts)]
    inputs += [msgspec.json.encode(tool.parameters).decode() for tool in request.tools if isinstance(tool, Tool)]
    return Usage(
        input=sum(map(count_tokens, inputs)),
        output=sum(map(count_tokens, outputs)),
        reasoning=reasoning or None,
    )


def _part_text(part: Part) -> str:
    match part:
        case Text() | Thinking():
            return part.text
        case ToolResult():
            return part.text
        case ToolCall():
            return msgspec.json.encode(part.arguments).decode()
        case Image() | Document() | Audio():
            return "x " * (len(encode_base64(part.data or b"")) // 1000 + 1)
        case _:
            return ""


def _shorten(text: str) -> str:
    text = " ".join(text[:2000].split())
    return text if len(text) <= 200 else f"{text[:199]}…"
