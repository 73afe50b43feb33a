"""Checks of the values that users pass.

The constructors of the vocabulary test the types of their fields themselves, because decoders build these values too.
Only a value that fails the test comes here, to be converted or refused with an error that names the parameter.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, TypeGuard, cast

from msgspec.structs import force_setattr

from dragoman.errors import DragomanError, InvalidRequest, RequestError, SetupError

_MAX_SHOWN = 40
_MAX_BITS = 64
MAX_ITEMS = 100_000
"""Items that are read from an iterable of the user, which may have no end."""


def wrong_value(parameter: str, expected: str, value: object, hint: str = "", /) -> InvalidRequest:
    """The error for a wrong value.

    >>> str(wrong_value("temperature", "a number >= 0", "hot"))
    "temperature must be a number >= 0, got 'hot'"
    """
    suffix = f"; {hint}" if hint else ""
    return InvalidRequest(f"{parameter} must be {expected}, got {shown(value)}{suffix}", param=parameter)


def check_type(parameter: str, value: object, kind: type, /) -> None:
    """Refuse a value that is not of this class.

    >>> check_type("text", 3, str)
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: text must be a str, got 3
    """
    if not isinstance(value, kind):
        name = kind.__name__
        raise wrong_value(parameter, f"an {name}" if name[0] in "AEIOaeio" else f"a {name}", value)


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
        if isinstance(error, RequestError | SetupError):
            name_parameter(error, self._parameter)


def name_parameter(error: DragomanError, parameter: str, /) -> None:
    """Add the name of the caller's parameter to an error about what is inside of it."""
    if not is_path_of(error.param, parameter):
        prefix = "" if error.message.startswith(parameter) else f"{parameter}: "
        error.annotate(message=f"{prefix}{error.message}", param=parameter)


def is_path_of(path: str | None, parameter: str, /) -> bool:
    """Whether a path names a parameter, or something inside of it.

    >>> is_path_of("messages[0].parts", "messages"), is_path_of("text", "messages")
    (True, False)
    """
    return path is not None and (path == parameter or path.startswith((f"{parameter}.", f"{parameter}[")))


def as_text(parameter: str, value: object, hint: str = "", /) -> str:
    """The value as an exact str, because JSON encoders refuse subclasses. It must be possible to write it as UTF-8."""
    if not isinstance(value, str):
        raise wrong_value(parameter, "a str", value, hint)
    text = str.__str__(value)
    if not text.isascii() and not is_encodable(text):
        expected = "a str of characters that UTF-8 can write"
        raise InvalidRequest(f"{parameter} must be {expected}, got half of a surrogate pair in it", param=parameter)
    return text


def as_texts(parameter: str, value: Any, /) -> tuple[str, ...]:
    """One text, or each of several, as a tuple.

    >>> as_texts("stop", "a"), as_texts("stop", ["a", "b"])
    (('a',), ('a', 'b'))
    """
    expected = "a str or a list of str"
    items = (value,) if isinstance(value, str) else as_items(parameter, value, expected)
    for item in items:
        if not isinstance(item, str):
            raise wrong_value(parameter, expected, item)
    return tuple([as_text(parameter, item) for item in items])


def as_bytes(parameter: str, value: Any, hint: str = "", /) -> bytes:
    """The value as bytes."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if not isinstance(value, memoryview):
        raise wrong_value(parameter, "bytes", value, hint)
    return value.tobytes()


def as_object(parameter: str, value: Any, hint: str = "", /) -> dict[str, Any]:
    """The value as a dict with str keys."""
    if not is_mapping(value) or not all(isinstance(key, str) and is_encodable(key) for key in value):
        raise wrong_value(parameter, "a dict with str keys", value, hint)
    return {**value}


def as_items(parameter: str, value: Any, expected: str, hint: str = "", /) -> tuple[Any, ...]:
    """The items of a list or another iterable."""
    if isinstance(value, str | bytes | bytearray) or is_mapping(value) or not _is_iterable(value):
        raise wrong_value(parameter, expected, value, hint)
    items: tuple[Any, ...] = tuple(islice(cast("Iterable[Any]", value), MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        raise InvalidRequest(f"{parameter} must be {expected}, got more than {MAX_ITEMS} items", param=parameter)
    return items


def _is_iterable(value: object) -> bool:
    # A class may define __iter__ for its instances.
    return not isinstance(value, type) and hasattr(value, "__iter__")


def is_text(value: object, /) -> bool:
    """Whether a value is a str, whatever its annotation says."""
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


def is_writable(value: object, depth: int = 20, /) -> bool:
    """Whether all texts in a value can be written as UTF-8. What is nested deeper than `depth` is not looked at.

    >>> is_writable({"a": ["b"]}), is_writable(["\\ud800"])
    (True, False)
    """
    if isinstance(value, str):
        return is_encodable(value)
    if is_mapping(value):
        items: list[object] = [*value, *value.values()]
    else:
        items = [*cast("list[object]", value)] if isinstance(value, list | tuple) else []
    return depth == 0 or all(is_writable(item, depth - 1) for item in items)


def is_mapping(value: object, /) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a dict or another mapping."""
    return isinstance(value, Mapping)


def check_texts(value: Any, names: tuple[str, ...], /, *, required: bool = False) -> None:
    """Check the texts of a value, which may be None unless they are required, and its extra."""
    for name in names:
        text = getattr(value, name)
        if text is None and not required:
            continue
        if type(text) is not str or not text.isascii():
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
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value.bit_length() >= _MAX_BITS
        or (least is not None and value < least)
    ):
        raise wrong_value(parameter, "an int" if least is None else f"an int >= {least}", value)


def check_choice(parameter: str, value: object, choices: Collection[str], /) -> None:
    """Refuse a value that is not one of some strings.

    >>> check_choice("role", "bot", ("user", "assistant"))
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: role must be one of user, assistant, got 'bot'
    """
    if not isinstance(value, str) or value not in choices:
        raise wrong_value(parameter, f"one of {', '.join(choices)}", value)
