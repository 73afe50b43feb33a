"""What the app gives an adapter: status, headers, and a body that is there or will be written."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends some bytes of a stream on; raises or waits where the client is slow."""
Body: TypeAlias = bytes | Callable[[Write], Awaitable[None]]
"""All of it, or what writes it."""


class GatewayResponse(msgspec.Struct, frozen=True, eq=False):
    """One answer to one request.

    >>> GatewayResponse(200, [("content-type", "text/plain")], b"ok").status
    200
    """

    status: int
    headers: list[tuple[str, str]]
    body: Body
