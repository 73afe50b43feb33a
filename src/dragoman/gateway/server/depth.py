"""The bytes of some JSON in, whether it is nested too deeply out, without decoding it."""

import re

from dragoman.errors import InvalidRequest

_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[][{}]', re.DOTALL)
_STEPS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


def check_depth(body: bytes, most: int, /) -> None:
    """Refuse what is nested more deeply than `most`.

    >>> check_depth(b'{"a": [1, "[[[["]}', 2)
    """
    if body.count(b"{") + body.count(b"[") <= most:
        return
    depth = 0
    for bracket in _BRACKET.findall(body):
        depth += _STEPS.get(bracket, 0)
        if depth > most:
            raise InvalidRequest(f"the body is nested more than {most} levels deep")
