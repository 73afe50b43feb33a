"""Keeps the secrets of providers' tables out of answers and of the audit log.

A secret is shown as `(set)`. A client may send that back: it stands for the secret that is there. `${VARIABLE}` is
shown, because it is only the name of a secret.
"""

import re
from typing import Any

from dragoman.errors import InvalidRequest
from dragoman.http import SENSITIVE_NAME
from dragoman.types import is_list, is_object

HIDDEN = "(set)"
_PLAIN_FIELDS = frozenset({"auth", "key_names", "needs_key"})
"""Fields of a provider whose names look like those of secrets."""
_HEADERS = "headers"
_MIN_SECRET = 16
"""Characters of a header's value that may be a secret, as in tapes."""


def hide_secrets(value: Any, name: str = "", table: str = "", /) -> Any:
    """A table without its secrets. `name` and `table` are those of the value and of the table that it is in.

    >>> hide_secrets({"like": "openai", "api_key": "sk-1234567890", "headers": {"x-token": "${TOKEN}"}})
    {'like': 'openai', 'api_key': '(set)', 'headers': {'x-token': '${TOKEN}'}}
    """
    if is_object(value):
        return {field: hide_secrets(inner, field, name) for field, inner in value.items()}
    if is_list(value):
        return [hide_secrets(inner, name, table) for inner in value]
    return HIDDEN if isinstance(value, str) and value and _is_secret(name, value, table) else value


def restore_secrets(new: Any, old: Any, where: str = "", /) -> Any:
    """The table with the secrets that `(set)` stands for; InvalidRequest if there is none.

    >>> restore_secrets({"api_key": "(set)", "like": "groq"}, {"api_key": "sk-1234567890"})
    {'api_key': 'sk-1234567890', 'like': 'groq'}
    """
    if is_object(new):
        before = old if is_object(old) else {}
        return {
            field: restore_secrets(inner, before.get(field), f"{where}.{field}".lstrip("."))
            for field, inner in new.items()
        }
    if is_list(new):
        items = old if is_list(old) else []
        if HIDDEN in new and len(new) < len(items):  # which of them is left out?
            raise InvalidRequest(
                f"{where} must have all {len(items)} values if one of them is {HIDDEN!r}, got {len(new)}; "
                "send the secrets that stay",
                param=where,
            )
        padded = [*items, *([None] * len(new))]
        return [restore_secrets(inner, padded[index], f"{where}[{index}]") for index, inner in enumerate(new)]
    if new != HIDDEN:
        return new
    if not isinstance(old, str):
        raise InvalidRequest(f"{where} must be a secret, got {HIDDEN!r}, and none is stored; send it", param=where)
    return old


def has_secrets(value: Any, /) -> bool:
    """Whether a table has a secret itself, not only the name of a variable."""
    return bool(hide_secrets(value) != value)


def _is_secret(name: str, value: str, table: str) -> bool:
    if re.fullmatch(r"\$\{\w+(?::)?\}", value) or name in _PLAIN_FIELDS:
        return False
    if table == _HEADERS and len(value) >= _MIN_SECRET:  # whatever its name is
        return True
    return bool(re.search(SENSITIVE_NAME, name.lower())) or "@" in value.partition("://")[2]
