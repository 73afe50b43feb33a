"""Checks of the values that users pass.

The constructors of the vocabulary test the types of their fields themselves, because decoders build these values too.
Only a value that fails the test comes here, to be converted or refused with an error that names the parameter.
"""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, TypeGuard

from msgspec.structs import force_setattr

from dragoman.errors import InvalidRequest, RequestError, SetupError

_MAX_SHOWN = 40
_MAX_BITS = 128


def wrong_value(parameter: str, expected: str, value: object, hint: str = "", /) -> InvalidRequest:
    """The error for a wrong value.

    >>> str(wrong_value("temperature", "a number >= 0", "hot"))
    "temperature must be a number >= 0, got 'hot'"
    """
    suffix = f"; {hint}" if hint else ""
    return InvalidRequest(f"{parameter} must be {expected}, got {shown(value)}{suffix}", param=parameter)


def shown(value: object, /) -> str:
    """A value in an error message: itself if it is a number or a short text, else its type.

    >>> shown(3), shown("a"), shown([1])
    ('3', "'a'", 'list')
    """
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        # Python refuses to write ints of more than 4300 digits.
        return repr(value) if value.bit_length() <= _MAX_BITS else f"an int of {value.bit_length()} bits"
    if isinstance(value, str) and len(value) <= _MAX_SHOWN:
        return repr(str.__str__(value))
    return type(value).__name__


class naming:  # noqa: N801 - used like a function, as contextlib's are
    """Adds the name of the caller's parameter to errors about what is inside of it.

    >>> with naming("prompt"):
    ...     raise wrong_value("parts", "a str", 3)
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: prompt: parts must be a str, got 3
    """

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, RequestError | SetupError) and error.param != self._parameter:
            prefix = "" if error.message.startswith(self._parameter) else f"{self._parameter}: "
            error.annotate(message=f"{prefix}{error.message}", param=self._parameter)


def as_text(parameter: str, value: object, hint: str = "", /) -> str:
    """The value as an exact str: JSON encoders refuse subclasses."""
    if not isinstance(value, str):
        raise wrong_value(parameter, "a str", value, hint)
    return str.__str__(value)


def as_bytes(parameter: str, value: Any, hint: str = "", /) -> bytes:
    """The value as bytes."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if not isinstance(value, memoryview):
        raise wrong_value(parameter, "bytes", value, hint)
    return value.tobytes()


def as_object(parameter: str, value: Any, hint: str = "", /) -> dict[str, Any]:
    """The value as a dict with str keys."""
    if not is_mapping(value) or not all(isinstance(key, str) for key in value):
        raise wrong_value(parameter, "a dict with str keys", value, hint)
    return {**value}


def as_items(parameter: str, value: Any, expected: str, hint: str = "", /) -> tuple[Any, ...]:
    """The items of a list or another iterable."""
    if isinstance(value, str | bytes | bytearray) or is_mapping(value) or not hasattr(value, "__iter__"):
        raise wrong_value(parameter, expected, value, hint)
    return tuple(value)


def is_text(value: object, /) -> bool:
    """Whether a value is a str, whatever its annotation says.

    >>> is_text("a"), is_text(b"a")
    (True, False)
    """
    return isinstance(value, str)


def is_encodable(text: str, /) -> bool:
    """Whether a text can be written as UTF-8: it has no half of a surrogate pair.

    >>> is_encodable("\\ud800")
    False
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_mapping(value: object, /) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a dict or another mapping."""
    return isinstance(value, Mapping)


def check_texts(value: Any, names: tuple[str, ...], /, *, required: bool = False) -> None:
    """Check the texts of a value, which may be None unless they are required, and its extra."""
    for name in names:
        text = getattr(value, name)
        if type(text) is not str and (text is not None or required):
            force_setattr(value, name, as_text(name, text))
    if type(value.extra) is not dict:
        set_extra(value)


def set_extra(value: Any, /) -> None:
    """Convert the extra of a value to a dict."""
    force_setattr(value, "extra", as_object("extra", {} if value.extra is None else value.extra))


def check_flag(parameter: str, value: object, /) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool):
        raise wrong_value(parameter, "True or False", value)


def check_whole_number(parameter: str, value: object, /, *, least: int | None = 0) -> None:
    """Refuse a value that is not an int, or below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise wrong_value(parameter, "an int" if least is None else f"an int >= {least}", value)


def check_choice(parameter: str, value: object, choices: Collection[str], hint: str = "", /) -> None:
    """Refuse a value that is not one of some strings.

    >>> check_choice("role", "bot", ("user", "assistant"))
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: role must be one of user, assistant, got 'bot'
    """
    if not isinstance(value, str) or value not in choices:
        raise wrong_value(parameter, f"one of {', '.join(choices)}", value, hint)
