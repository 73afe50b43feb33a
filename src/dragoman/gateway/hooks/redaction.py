"""The hook `redaction`: personal data in texts become placeholders before a provider sees them, and come back after.

`anna@example.org` becomes `<EMAIL_1>`. Values have numbers in the order in which they occur, so a conversation that the
client sends again gets the same placeholders, and caches of prompts still work. Placeholders in the answer become the
values again: in texts, in arguments of tool calls, and in streams, wherever they are cut. Nothing is stored.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded
from dragoman.gateway.hooks.base import Hook, HookCall, HookServices
from dragoman.types import (
    Choice,
    Message,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    is_list,
    is_object,
)

PATTERNS: Mapping[str, str] = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    "card": r"\b\d(?:[ -]?\d){12,18}\b",
    "ssn": r"\b\d{3}-\d{2}-\d{4}\b",
    "ip": r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}\b",
    "phone": r"(?<![\w.])\+\d{1,3}(?:[ .\-/]?\(?\d{1,4}\)?){2,6}(?![\w])"
    r"|(?<![\w.])\(?0\d{1,4}\)?[ \-/]\d{2,4}(?:[ \-/]?\d{2,4}){1,3}(?!\w)",
}
"""By name: a regular expression. The first one that fits counts, in this order."""
DEFAULT = ("email", "iban", "card", "ssn", "phone", "ip")
MAX_PATTERN = 500
_PLACEHOLDER = re.compile(r"<[A-Z][A-Z_]{0,31}_\d{1,6}>")
_BEGIN = re.compile(r"<(?:[A-Z][A-Z_]{0,31}\d{0,6})?$")
"""The end of a text that may be the begin of a placeholder."""


class RedactionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the hook."""

    patterns: tuple[str, ...] = DEFAULT
    """Names of `PATTERNS`."""
    custom: dict[str, str] = {}
    """By a name such as `employee`: a regular expression."""

    def __post_init__(self) -> None:
        for name in self.patterns:
            if name not in PATTERNS:
                raise ValueError(f"patterns must be of {', '.join(PATTERNS)}, got {name!r}")
        for name, pattern in self.custom.items():
            if not re.fullmatch(r"[a-z][a-z_]{0,30}", name):
                raise ValueError(f"custom must have names of small letters, got {name!r}")
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"custom.{name} must be a regular expression: {error}") from None
            if len(pattern) > MAX_PATTERN:
                raise ValueError(f"custom.{name} must have at most {MAX_PATTERN} characters, got {len(pattern)}")


class Redaction(Hook):
    """Replaces personal data by placeholders, and back."""

    settings_type = RedactionSettings
    quick_methods = frozenset({"on_events"})

    def __init__(self, settings: RedactionSettings, services: HookServices, /) -> None:
        super().__init__(settings, services)
        own = {name: pattern for name, pattern in PATTERNS.items() if name in settings.patterns}
        named = {**settings.custom, **own}
        self._pattern = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in named.items()) or r"(?!)")

    def before(self, call: HookCall) -> None:
        table = Placeholders(self._pattern, call.request)
        call.request = table.redact(call.request)
        if table.values:
            call.data[self] = table
            call.notice(
                "personal data", f"the provider gets placeholders instead; number of values: {len(table.values)}"
            )

    def after(self, call: HookCall, response: Response) -> Response | None:
        table: Placeholders | None = call.data.get(self)
        return None if table is None else table.restore_response(response)

    def on_events(self, call: HookCall, events: Sequence[Event]) -> list[Event] | None:
        table: Placeholders | None = call.data.get(self)
        return None if table is None else table.restore_events(events)


class Placeholders:
    """The placeholders of one request."""

    def __init__(self, pattern: re.Pattern[str], request: Request, /) -> None:
        self.values: dict[str, str] = {}
        """By placeholder."""
        self._pattern = pattern
        self._by_value: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._client_texts = {placeholder for text in _texts(request) for placeholder in _PLACEHOLDER.findall(text)}
        """Texts of the client that look like placeholders."""
        self._buffered: dict[tuple[int, bool], str] = {}
        """By part of a stream: the end of its text that may be the begin of a placeholder."""

    # To the provider --------------------------------------------------------------------------------------------------

    def redact(self, request: Request, /) -> Request:
        system = request.system
        if isinstance(system, str):
            system = self._redact_text(system)
        elif system is not None:
            system = tuple(replace(text, text=self._redact_text(text.text)) for text in system)
        messages = tuple(_change_message(message, self._redact_text) for message in request.messages)
        return replace(request, system=system, messages=messages)

    def _redact_text(self, text: str) -> str:
        return self._pattern.sub(self._placeholder, text)

    def _placeholder(self, match: re.Match[str]) -> str:
        name, value = cast("str", match.lastgroup), match[0]
        if name == "card" and not _is_card(value):
            return value
        known = self._by_value.get((name, value))
        if known is not None:
            return known
        while True:
            number = self._counts[name] = self._counts.get(name, 0) + 1
            placeholder = f"<{name.upper()}_{number}>"
            if placeholder not in self._client_texts:
                break
        self._by_value[name, value] = placeholder
        self.values[placeholder] = value
        return placeholder

    # To the client ----------------------------------------------------------------------------------------------------

    def restore_response(self, response: Response, /) -> Response:
        """The answer with the values."""
        others = tuple(self._restore_choice(choice) for choice in response.other_choices)
        return replace(response, message=_change_message(response.message, self._restore_text), other_choices=others)

    def _restore_choice(self, choice: Choice) -> Choice:
        return replace(choice, message=_change_message(choice.message, self._restore_text))

    def _restore_text(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: self.values.get(match[0], match[0]), text)

    def restore_events(self, events: Iterable[Event], /) -> list[Event]:
        """The events with the values. The begin of a placeholder is held back until its end comes."""
        restored: list[Event] = []
        for event in events:
            match event:
                case PartDelta() | CallDelta():
                    text = self._restore_piece(event)
                    if text:
                        restored.append(replace(event, text=text))
                case PartEnded():
                    restored += self._release(event.index)
                    restored.append(replace(event, part=_change_part(event.part, self._restore_text)))
                case Finished() if event.other_choices:
                    others = tuple(self._restore_choice(choice) for choice in event.other_choices)
                    restored.append(replace(event, other_choices=others))
                case _:
                    restored.append(event)
        return restored

    def _restore_piece(self, event: PartDelta | CallDelta) -> str:
        key = event.index, isinstance(event, CallDelta)
        text = self._buffered.pop(key, "") + event.text
        if (begin := _BEGIN.search(text, max(0, len(text) - 42))) is not None:
            self._buffered[key] = text[begin.start() :]
            text = text[: begin.start()]
        return self._restore_json(text) if key[1] else self._restore_text(text)

    def _restore_json(self, text: str) -> str:
        """The same in a fragment of JSON, where values are inside of strings."""
        return _PLACEHOLDER.sub(
            lambda match: json.dumps(self.values.get(match[0], match[0]), ensure_ascii=False)[1:-1], text
        )

    def _release(self, index: int) -> list[Event]:
        """What was held back of a part that ends."""
        events: list[Event] = []
        if text := self._buffered.pop((index, False), ""):
            events.append(PartDelta(index=index, text=text))
        if text := self._buffered.pop((index, True), ""):
            events.append(CallDelta(index=index, text=text))
        return events


def _change_message(message: Message, change: Callable[[str], str]) -> Message:
    return replace(message, parts=tuple(_change_part(part, change) for part in message.parts))


def _change_part(part: Part, change: Callable[[str], str]) -> Any:
    match part:
        case Text() | Thinking():
            text = change(part.text)
            return part if text == part.text else replace(part, text=text)
        case ToolCall():
            arguments = _change_json(part.arguments, change)
            return part if arguments == part.arguments else replace(part, arguments=arguments, raw=None)
        case ToolResult(content=str() as content):
            return replace(part, content=change(content))
        case ToolResult():
            parts: Any = part.content
            return replace(part, content=tuple(_change_part(each, change) for each in parts))
        case _:
            return part


def _change_json(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if is_object(value):
        return {name: _change_json(item, change) for name, item in value.items()}
    return [_change_json(item, change) for item in value] if is_list(value) else value


def _texts(request: Request) -> list[str]:
    texts: list[str] = []

    def add(text: str) -> str:
        texts.append(text)
        return text

    system = request.system
    texts += [system] if isinstance(system, str) else [text.text for text in system or ()]
    for message in request.messages:
        _change_message(message, add)
    return texts


def _is_card(text: str) -> bool:
    """Whether the digits have the check digit of a card number."""
    digits = [int(letter) for letter in text if letter.isdigit()][::-1]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
