"""Checks that each request of a conversation begins with the bytes of the one before.

Providers cache a prompt by its beginning, and some sign their thinking over it. If a byte of an earlier turn moves, the
cache is lost, and with it money and time.
"""

import json
import re
from collections.abc import Iterable

from dragoman.http import HttpRequest
from dragoman.types import is_object
from dragoman.types.checks import as_items, wrong_value
from dragoman.types.parameters import named_parameters

_LISTS = ("messages", "input", "contents")
_END = re.compile(rb"\]\s*\}\s*\Z")
_INNER_END = re.compile(rb"\]\s*\}\s*\]\s*\}\s*\Z")
"""The end of a list in the last item of the list."""
_MORE = re.compile(rb"\s*,")
_CONTEXT = 40
"""Bytes that a message shows before and after the first one that moved."""


@named_parameters
def assert_prefix_stable(requests: Iterable[HttpRequest | bytes]) -> None:
    """Raise AssertionError if a request does not begin with the bytes of the one before it.

    The requests are those of one conversation, in order: HTTP requests or their bodies. All bytes count up to the end
    of the list that grows (`messages`, `input`, `contents`), so this list must be the last member, and everything
    before it must stay the same. If the content of its last item is a list, this list may grow, too: providers that
    refuse two messages of the user in a row get both in one.

    >>> first = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    >>> assert_prefix_stable([first, first.replace(b"]", b',{"role":"assistant","content":"hello"}]')])
    """
    bodies = [_body(request) for request in as_items("requests", requests, _EXPECTED)]
    starts = [_start(body, f"request {number}") for number, body in enumerate(bodies, 1)]
    for number in range(1, len(bodies)):
        if not _is_longer(bodies[number - 1], bodies[number]):
            _check(starts[number - 1], bodies[number], number + 1)


_EXPECTED = "a list of HttpRequest or bytes"


def _body(request: object) -> bytes:
    if isinstance(request, HttpRequest):
        return request.body
    if not isinstance(request, bytes):
        raise wrong_value("requests", _EXPECTED, request)
    return request


def _start(body: bytes, what: str) -> bytes:
    """The body up to the end of its list."""
    try:
        members: object = json.loads(body)
    except ValueError as error:
        raise AssertionError(f"the body of {what} must be JSON: {error}") from error
    name = next(reversed(members), None) if is_object(members) else None
    end = _END.search(body)
    if name not in _LISTS or end is None:
        raise AssertionError(f"the last member of {what} must be one of the lists {', '.join(_LISTS)}, got {name!r}")
    return body[: end.start()]


def _is_longer(body: bytes, next_body: bytes) -> bool:
    """Whether only the content of the last item is longer."""
    end = _INNER_END.search(body)
    if end is None or not next_body.startswith(body[: end.start()]):
        return False
    return _MORE.match(next_body, end.start()) is not None


def _check(start: bytes, body: bytes, number: int) -> None:
    if body.startswith(start):
        return
    place = next(
        (i for i, (old, new) in enumerate(zip(start, body, strict=False)) if old != new), min(len(start), len(body))
    )
    old, new = _excerpt(start, place), _excerpt(body, place)
    raise AssertionError(
        f"request {number} must begin with the bytes of request {number - 1}, but byte {place} moved:\n"
        f"  request {number - 1}: {old}\n"
        f"  request {number}: {new}\n"
        f"{' ' * (len(f'  request {number}: ') + len(_excerpt(body[:place], place)))}^"
    )


def _excerpt(data: bytes, place: int) -> str:
    return data[max(0, place - _CONTEXT) : place + _CONTEXT].decode("utf-8", "replace")
