"""Messages, and the tools that a model may call."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec.structs import force_setattr, replace

from dragoman.errors import InvalidRequest
from dragoman.types.base import Extra, JsonObject
from dragoman.types.caching import CachePoint
from dragoman.types.checks import (
    as_object,
    as_text,
    check_choice,
    check_flag,
    check_texts,
    name_parameter,
    naming,
    set_extra,
    wrong_value,
)
from dragoman.types.files import File
from dragoman.types.media_files import PillowImage
from dragoman.types.parameters import named_parameters
from dragoman.types.parts import Part, Text, Thinking, ToolCall, ToolResult, all_are
from dragoman.types.structs import Value

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
PartLike: TypeAlias = Part | CachePoint | File | str | PillowImage | JsonObject
"""What can be a part: text, a Pillow image, and a content block of MCP or another SDK are converted. A `CachePoint`
belongs to the part before it, and a `File` becomes an image, a document or audio."""
SYSTEM_ROLES: frozenset[Role] = frozenset(("system", "developer"))
"""`developer` is OpenAI's word for `system`; both mean the same here."""


class Message(Value, frozen=True):
    """One message: a role and its parts, in order.

    >>> Message(role="user", parts=(Text(text="hello"),)) == Message("user", "hello")
    True
    """

    role: Role
    parts: tuple[Part, ...] = ()
    extra: Extra = {}

    if TYPE_CHECKING:  # the constructor takes more than the field holds

        def __init__(
            self,
            role: Role,
            parts: "PartLike | Iterable[PartLike]" = (),
            extra: Extra | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        role: Any = self.role
        if type(role) is not str or role not in _ROLES:
            check_choice("role", role, _ROLES)
            force_setattr(self, "role", str.__str__(role))
        if type(self.parts) is not tuple or len(self.parts) != 1 or type(self.parts[0]) is not Text:
            self._check_parts(self.parts)
        if type(self.extra) is not dict:
            set_extra(self)

    def _check_parts(self, parts: Any) -> None:
        if type(parts) is not tuple or not all_are(parts, _PARTS):
            from dragoman.types.content import read_parts

            with naming("parts"):
                force_setattr(self, "parts", read_parts("parts", parts))

    @property
    def text(self) -> str:
        parts = self.parts
        if len(parts) == 1 and type(parts[0]) is Text:
            return parts[0].text
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Thinking))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        # A list is built in half of the time of a generator, and long histories ask for each message.
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


class Tool(Value, frozen=True, kw_only=True, tag="tool"):
    """A function that the model may call; `parameters` is a JSON Schema, or None for no arguments."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    extra: Extra = {}
    handler: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name.isascii():
            force_setattr(self, "name", as_text("name", self.name))
        if self.parameters is not None and type(self.parameters) is not dict:
            hint = "pass a JSON Schema, or make the tool with @tool"
            force_setattr(self, "parameters", as_object("parameters", self.parameters, hint))
        strict: object = self.strict
        if strict is not None and type(strict) is not bool:
            check_flag("strict", strict)
        if self.handler is not None and not callable(self.handler):
            raise wrong_value("handler", "a function", self.handler)
        check_texts(self, ("description",))


ToolChoice: TypeAlias = str
"""`auto`, `none`, `required`, or the name of a tool."""


_ROLES: tuple[str, ...] = get_args(Role)
_PARTS: frozenset[type] = frozenset(get_args(Part))
_LISTS = frozenset((list, tuple))
_TEXT = Text("")
_MESSAGE = Message("user")


def _message(role: Role, parts: tuple[Any, ...]) -> Message:
    parts = _unpacked(parts)
    try:
        checked: Any = tuple([replace(_TEXT, text=part, extra={}) if type(part) is str else part for part in parts])
        return replace(_MESSAGE, role=role, parts=checked, extra={})
    except InvalidRequest as error:
        name_parameter(error, "parts")
        raise


def _unpacked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a call; those of the list if it got only one list."""
    return tuple(values[0]) if len(values) == 1 and type(values[0]) in _LISTS else values


@named_parameters
def system(*parts: PartLike | Sequence[PartLike]) -> Message:
    """A system message.

    >>> system("Be brief.").role
    'system'
    """
    return _message("system", parts)


@named_parameters
def user(*parts: PartLike | Sequence[PartLike]) -> Message:
    """A user message from strings and parts, or from one list of them.

    >>> from dragoman import Image
    >>> user("What is this?", Image(url="https://example.org/a.png")).parts[1].url
    'https://example.org/a.png'
    """
    return _message("user", parts)


@named_parameters
def assistant(*parts: PartLike | Sequence[PartLike]) -> Message:
    """An assistant message from strings and parts.

    >>> assistant("hello").text
    'hello'
    """
    return _message("assistant", parts)


@named_parameters
def tool_results(*results: ToolResult | Sequence[ToolResult]) -> Message:
    """A message with the results of tool calls, from results or from one list of them.

    >>> tool_results(ToolResult(id="call_1", content="4.2 m")).role
    'tool'
    """
    parts = _unpacked(results)
    for result in parts:
        if not isinstance(result, ToolResult):
            raise wrong_value("results", "ToolResult values", result)
    return Message(role="tool", parts=parts)
