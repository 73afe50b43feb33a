"""A request of an RSGI server (granian) in, the app's answer out; a client that hangs up cancels its call."""

import asyncio
from typing import Any

from dragoman.gateway.app import App
from dragoman.http import HttpRequest

PATIENCE = 0.05
"""Seconds before we ask whether the client is still there: most calls pay nothing for it."""


class Rsgi:
    """The app as granian wants it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """One request."""
        body = await protocol()
        query = scope.query_string
        http = HttpRequest(
            method=scope.method,
            path=f"{scope.path}?{query}" if query else scope.path,
            headers=dict(scope.headers.items()),
            body=body,
        )
        watch = _Watch(protocol)
        try:
            answer = await self._app.answer(http)
            if isinstance(answer.body, bytes):
                protocol.response_bytes(answer.status, answer.headers, answer.body)
            else:
                await answer.body(protocol.response_stream(answer.status, answer.headers).send_bytes)
        except asyncio.CancelledError:
            if not watch.is_gone:
                raise
            protocol.response_empty(499, [])
        finally:
            watch.end()


class _Watch:
    """Cancels the task that it was made in when the client hangs up."""

    def __init__(self, protocol: Any) -> None:
        self.is_gone = False
        self._protocol = protocol
        self._task = asyncio.current_task()
        self._waiting: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._begin)

    def end(self) -> None:
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _begin(self) -> None:
        self._waiting = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        await self._protocol.client_disconnect()
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()
