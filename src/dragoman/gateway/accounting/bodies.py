"""Stored bodies: what clients sent and got, for an operator who looks for a problem.

Nothing is stored unless the config has a table [bodies]. A body is deleted after its retention. Only admins read it.
"""

from typing import Annotated

import msgspec
from msgspec.structs import replace

from dragoman.errors import StoreDown, redact
from dragoman.gateway.store import Store
from dragoman.types import Request, Response
from dragoman.wires.base import Wire

PREFIX = "body:"
DAY = 86_400.0


class BodySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table [bodies]."""

    retention: Annotated[float, msgspec.Meta(gt=0, le=90 * DAY, title="seconds")] = DAY
    """Seconds until a body is deleted."""
    keys: tuple[str, ...] = ()
    """The names of the keys whose requests are stored; by default all requests are."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=10_000_000, title="bytes")] = 65_536
    """Bytes of one body that are stored; the rest is cut off."""


class StoredBodies(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sent and got, as text in its dialect. Secrets of known forms are removed."""

    request: str
    request_bytes: int
    """How long the request was; `request` is shorter if it was cut."""
    response: str | None
    """A stream is stored as one whole answer; null if there was none, or only a part of one."""
    response_bytes: int
    expires_at: float
    """In seconds since the epoch."""


class BodyRecord:
    """The bodies of one request."""

    def __init__(self, settings: BodySettings, wire: Wire | None, body: bytes, /) -> None:
        self._settings = settings
        self._wire = wire
        self._body = body

    async def write(self, store: Store, id: str, request: Request, response: Response | None, now: float, /) -> None:
        """Store the bodies of a request that has ended. A store that is down loses them."""
        answer = None
        if response is not None and self._wire is not None:
            answer = self._wire.server.encode_body(response, replace(request, stream=False)).body
        bodies = StoredBodies(
            request=self._cut(self._body),
            request_bytes=len(self._body),
            response=None if answer is None else self._cut(answer),
            response_bytes=len(answer or b""),
            expires_at=now + self._settings.retention,
        )
        try:
            await store.write(PREFIX + id, msgspec.json.encode(bodies), ttl=self._settings.retention)
        except StoreDown:
            return

    def _cut(self, body: bytes) -> str:
        return redact(body[: self._settings.max_bytes].decode(errors="replace"))


def body_record(settings: BodySettings, key: str | None, wire: Wire | None, body: bytes, /) -> BodyRecord | None:
    """Where the bodies of a request are collected; None if its key is not one of the settings."""
    if settings.keys and key not in settings.keys:
        return None
    return BodyRecord(settings, wire, body)


async def read_bodies(store: Store, id: str, /) -> StoredBodies | None:
    """The bodies of a request, or None."""
    stored = await store.read(PREFIX + id)
    return None if stored is None else msgspec.json.decode(stored.value, type=StoredBodies)
