"""The body of a request: when its connection reads on."""

import asyncio

import pytest

from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.server.body_limits import BodyMemory
from dragoman.gateway.server.request_body import MAX_UNREAD, RequestBody

LIMITS = GatewaySettings()


class Connection:
    """A connection that notes only whether it reads."""

    is_reading = True

    def pause(self) -> None:
        self.is_reading = False

    def resume(self) -> None:
        self.is_reading = True

    def invite_body(self) -> None:
        raise AssertionError("no client waits for it")


@pytest.mark.parametrize("is_complete", [True, False], ids=["complete before it is read", "in two pieces"])
def test_a_connection_reads_on_after_a_large_body_so_that_it_notices_a_client_that_leaves(*, is_complete: bool) -> None:
    connection, piece = Connection(), b"x" * (MAX_UNREAD + 1)
    body = RequestBody(connection, {"content-length": str(2 * len(piece))}, LIMITS)

    async def read() -> bytes:
        body.feed(piece)
        assert not connection.is_reading
        reading = asyncio.ensure_future(body.read(BodyMemory().request(LIMITS)))
        if not is_complete:
            await asyncio.sleep(0)
        body.feed(piece)
        body.end()
        return await reading

    assert asyncio.run(read()) == 2 * piece
    assert connection.is_reading
