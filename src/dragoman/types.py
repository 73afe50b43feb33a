"""The vocabulary: messages, parts, requests and responses. Every wire translates to and from these values.

The values are frozen. `dump` writes them as JSON and `load` reads them.
"""

import binascii
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
JsonObject: TypeAlias = dict[str, Any]
Extra: TypeAlias = dict[str, Any]
"""Data of one wire that the vocabulary has no field for, by wire name: signatures, ids, flags.

It goes back unchanged to the wire that it came from, and to no other wire.
"""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "blocked", "pause", "other"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "max"]
NoticeKind: TypeAlias = Literal["dropped", "changed", "repaired", "renamed", "info"]
UsageSource: TypeAlias = Literal["reported", "partial", "estimated", "unknown"]


class _Value:
    """Lets these values be fields of pydantic models."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object, /) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else msgspec.convert(value, cls),
            serialization=core_schema.plain_serializer_function_ser_schema(_to_plain),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: object, handler: object, /) -> JsonObject:
        return {"type": "object", "title": cls.__name__}


class Text(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="text"):
    """A piece of text."""

    text: str
    extra: Extra = {}


class Image(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    """An image: bytes with their MIME type, or a URL that the target fetches.

    >>> Image.from_data_url("data:image/gif;base64,R0lGODlh").mime
    'image/gif'
    """

    data: bytes | None = None
    mime: str | None = None
    url: str | None = None
    detail: str | None = None
    extra: Extra = {}

    @classmethod
    def from_path(cls, path: "str | Path", *, detail: str | None = None) -> "Image":
        import mimetypes
        from pathlib import Path

        from dragoman.media.sniff import sniff

        data = Path(path).read_bytes()
        mime = sniff(data) or mimetypes.guess_type(str(path))[0] or "application/octet-stream"
        return cls(data=data, mime=mime, detail=detail)

    @classmethod
    def from_base64(cls, text: str, *, mime: str, detail: str | None = None) -> "Image":
        return cls(data=decode_base64(text), mime=mime, detail=detail)

    @classmethod
    def from_data_url(cls, url: str, *, detail: str | None = None) -> "Image":
        mime, data = split_data_url(url)
        return cls(data=data, mime=mime, detail=detail)


class Document(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="document"):
    """A PDF or a plain text file."""

    data: bytes
    mime: str
    name: str | None = None
    extra: Extra = {}


class Audio(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="audio"):
    """An audio clip, as input."""

    data: bytes
    mime: str
    extra: Extra = {}


class Thinking(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="thinking"):
    """Thinking of the model. Its signature or encrypted form is in `extra`.

    >>> Thinking(text="Seven, or eight?").redacted
    False
    """

    text: str
    redacted: bool = False
    extra: Extra = {}


class ToolCall(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A call of a tool. `raw` is the provider's text of the arguments, if it differs from ours.

    >>> ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}).arguments["port"]
    'Brest'
    """

    id: str
    name: str
    arguments: JsonObject = {}
    raw: str | None = None
    extra: Extra = {}


class Opaque(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="opaque"):
    """A part or a tool of one wire that the vocabulary does not have, such as a provider's own web search.

    It stays at its place in the message, goes back unchanged to the same wire, and is dropped on any other.

    >>> Opaque(wire="anthropic", data={"type": "server_tool_use"}).wire
    'anthropic'
    """

    wire: str
    data: JsonObject


ResultPart: TypeAlias = Text | Image | Document | Opaque


class ToolResult(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    """The result of a tool; `id` is that of the call.

    >>> ToolResult(id="call_1", name="tide", content="4.2 m").text
    '4.2 m'
    """

    id: str
    name: str = ""
    content: str | tuple[ResultPart, ...] = ""
    is_error: bool = False
    extra: Extra = {}

    @property
    def parts(self) -> tuple[ResultPart, ...]:
        """The content as parts."""
        return (Text(text=self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


Part: TypeAlias = Text | Image | Document | Audio | Thinking | ToolCall | ToolResult | Opaque


class Message(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message: a role and its parts, in order.

    >>> Message(role="user", parts=(Text(text="hello"),)).text
    'hello'
    """

    role: Role
    parts: tuple[Part, ...] = ()
    extra: Extra = {}

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Thinking))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


class Tool(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool"):
    """A function that the model may call; `parameters` is a JSON Schema, or None for no arguments.

    >>> Tool(name="now", description="The time").parameters is None
    True
    """

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    extra: Extra = {}
    handler: Callable[..., Any] | None = None


ToolChoice: TypeAlias = str
"""`auto`, `none`, `required`, or the name of a tool."""


class Notice(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in a request or response that was dropped, changed, repaired or renamed, or an information.

    >>> Notice(kind="dropped", what="seed", why="anthropic has no seed").loss
    True
    """

    kind: NoticeKind
    what: str
    why: str

    @property
    def loss(self) -> bool:
        """Whether meaning was lost; with `strict`, such a notice is an error."""
        return self.kind in ("dropped", "changed")


class Request(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to a model. Fields that are None are not sent.

    >>> request = Request(messages=(user("hello"),), temperature=0.0)
    >>> msgspec.structs.replace(request, max_tokens=5).max_tokens
    5
    """

    messages: tuple[Message, ...] = ()
    system: str | tuple[Text, ...] | None = None
    tools: tuple[Tool | Opaque, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    schema: JsonObject | None = None
    """JSON Schema of the answer; an empty one stands for any JSON."""
    schema_name: str = "response"
    schema_strict: bool | None = None
    schema_mode: Literal["native", "auto"] = "native"
    """`native` fails if a target has no structured output; `auto` then uses a forced tool call or a prompt."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning: Effort | int | None = None
    """How much the model thinks: an effort, or a budget of tokens."""
    cache: bool | None = None
    user: str | None = None
    metadata: dict[str, str] = {}
    stream: bool = False
    strict: bool = False
    extra: Extra = {}
    """By provider or wire name: fields that are merged into the body as they are."""

    def __post_init__(self) -> None:
        stop: object = self.stop
        if isinstance(stop, str):
            msgspec.structs.force_setattr(self, "stop", (stop,))


class Finish(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the model stopped: the reason in this vocabulary, and the provider's own word."""

    reason: FinishReason
    raw: str | None = None
    extra: Extra = {}
    """More about the end, by wire: the stop sequence, the reason of a refusal, …"""


class Usage(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens: `input` and `output` are totals, the others are portions of them. None means not reported.

    >>> Usage(input=10, output=3, cache_read=8).reasoning is None
    True
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    source: UsageSource = "reported"


UNKNOWN_USAGE = Usage(source="unknown")
_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "source")


def add_usage(usages: Iterable[Usage], /) -> Usage:
    """The sum of several usages. It is `partial` if one of them is not complete.

    >>> add_usage([Usage(input=3, output=1), Usage(input=4)]).input
    7
    """
    known = [usage for usage in usages if usage.source != "unknown"]
    if len(known) < 2:
        return known[0] if known else UNKNOWN_USAGE
    numbers = {name: [n for usage in known if (n := getattr(usage, name)) is not None] for name in _COUNTS}
    is_complete = all(usage.source == "reported" for usage in known)
    sums = {name: sum(counts) for name, counts in numbers.items() if counts}
    return Usage(**sums, source="reported" if is_complete else "partial")


class Attempt(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One try of one target: how it ended, and what it used.

    >>> Attempt(target="groq/llama", outcome="served", duration=0.2).error is None
    True
    """

    target: str
    outcome: str
    error: str | None = None
    duration: float | None = None
    usage: Usage = UNKNOWN_USAGE


class Response(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer with its usage, its notices (what was dropped or changed) and its attempts (which targets were tried).

    >>> Response(message=assistant("hello"), finish=Finish(reason="stop")).text
    'hello'
    """

    message: Message
    finish: Finish
    usage: Usage = UNKNOWN_USAGE
    id: str | None = None
    model: str | None = None
    created: int | None = None
    target: str | None = None
    notices: tuple[Notice, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    raw: bytes | None = None

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def thinking(self) -> str:
        return self.message.thinking

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls

    @property
    def is_empty(self) -> bool:
        """Whether there is only white space or thinking."""
        for part in self.message.parts:
            if part.text.strip() if isinstance(part, Text) else not isinstance(part, Thinking):
                return False
        return True


class ModelInfo(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model that a provider lists.

    >>> ModelInfo(id="llama", context_window=8192).max_output is None
    True
    """

    id: str
    name: str | None = None
    created: int | None = None
    context_window: int | None = None
    max_output: int | None = None


class Embeddings(_Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vectors of some texts, in the order of the texts.

    >>> Embeddings(vectors=((0.6, 0.8),)).vectors[0][1]
    0.8
    """

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = UNKNOWN_USAGE
    target: str | None = None


def _message(role: Role, parts: tuple[Part | str, ...]) -> Message:
    return Message(role=role, parts=tuple([Text(text=part) if isinstance(part, str) else part for part in parts]))


def system(*parts: Part | str) -> Message:
    """A system message.

    >>> system("Be brief.").role
    'system'
    """
    return _message("system", parts)


def user(*parts: Part | str) -> Message:
    """A user message from strings and parts.

    >>> user("What is this?", Image(url="https://example.org/a.png")).parts[1].url
    'https://example.org/a.png'
    """
    return _message("user", parts)


def assistant(*parts: Part | str) -> Message:
    """An assistant message from strings and parts.

    >>> assistant("hello").text
    'hello'
    """
    return _message("assistant", parts)


def tool_results(*results: ToolResult) -> Message:
    """A message with the results of tool calls.

    >>> tool_results(ToolResult(id="call_1", content="4.2 m")).role
    'tool'
    """
    return Message(role="tool", parts=results)


def is_object(value: object, /) -> TypeGuard[JsonObject]:
    """Whether a JSON value is an object.

    >>> is_object({}), is_object([])
    (True, False)
    """
    return isinstance(value, dict)


def is_list(value: object, /) -> TypeGuard[list[Any]]:
    """Whether a JSON value is a list.

    >>> is_list([]), is_list("")
    (True, False)
    """
    return isinstance(value, list)


def decode_base64(text: str, /) -> bytes:
    """The bytes of standard or URL-safe base64, padded or not; InvalidRequest for any other text.

    >>> decode_base64("aGk")
    b'hi'
    """
    plain = text.translate(_URL_SAFE)
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError as error:
        from dragoman.errors import InvalidRequest

        raise InvalidRequest(f"data must be base64: {error}") from error


_URL_SAFE = str.maketrans({"-": "+", "_": "/", **dict.fromkeys("\n\r\t =")})


def encode_base64(data: bytes, /) -> str:
    """Standard base64.

    >>> encode_base64(b"hi")
    'aGk='
    """
    return "".join(_base64_slices(data))


def _base64_slices(data: bytes) -> Iterator[str]:
    """base64 in slices: between two of them other threads can run, such as that of an event loop."""
    view = memoryview(data)
    for start in range(0, len(data), _SLICE):
        yield binascii.b2a_base64(view[start : start + _SLICE], newline=False).decode("ascii")


_SLICE = 3 * 256 * 1024
"""Bytes; a multiple of three."""


def data_url(mime: str, data: bytes, /) -> str:
    """A data URL of some bytes.

    >>> data_url("text/plain", b"hi")
    'data:text/plain;base64,aGk='
    """
    return "".join((f"data:{mime};base64,", *_base64_slices(data)))


def is_data_url(url: str, /) -> bool:
    """Whether a URL is a data URL.

    >>> is_data_url("Data:text/plain;base64,aGk=")
    True
    """
    return url[:5].lower() == "data:"


def split_data_url(url: str, /) -> tuple[str, bytes]:
    """MIME type and bytes of a base64 data URL; InvalidRequest for any other text.

    >>> split_data_url("data:text/plain;base64,aGk=")
    ('text/plain', b'hi')
    """
    head, comma, payload = url.partition(",")
    head = head.lower()
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        from dragoman.errors import InvalidRequest

        raise InvalidRequest("url must be data:<type>;base64,<data>")
    return head[5:-7].partition(";")[0].strip(), decode_base64(payload.replace("%3D", "=").replace("%3d", "="))


def dump(value: msgspec.Struct | Iterable[msgspec.Struct]) -> bytes:
    """JSON of a value or of a list of values: messages, a request, a response, events.

    >>> load(dump([user("hello")]))[0].text
    'hello'
    """
    return _ENCODER.encode(value if isinstance(value, msgspec.Struct) else tuple(value))


def _encode_unknown(value: object) -> object:
    if callable(value):
        return None
    if (dump_model := getattr(value, "model_dump", None)) is not None:
        return dump_model(mode="json")
    raise TypeError(f"value must be JSON, a struct or a pydantic model, got {type(value).__name__}")


def _to_plain(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=_encode_unknown)


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_unknown)


@overload
def load(data: bytes) -> tuple[Message, ...]: ...
@overload
def load(data: bytes, type: type[T]) -> T: ...
def load(data: bytes, type: Any = tuple[Message, ...]) -> Any:
    """The messages that `dump` wrote, or a value of another type; InvalidRequest if the data does not fit.

    >>> load(b'[{"role":"user","parts":[{"type":"text","text":"hello"}]}]')[0].role
    'user'
    >>> load(dump(Request(seed=7)), Request).seed
    7
    """
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        from dragoman.errors import InvalidRequest

        what = getattr(type, "__name__", "value") if type != tuple[Message, ...] else "list of messages"
        raise InvalidRequest(f"data must be the JSON of a {what}: {error}") from error
