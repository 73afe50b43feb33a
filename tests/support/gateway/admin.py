"""Calls of the admin API of an app, without a socket."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.http import HttpRequest

ADMIN, ADMIN_HASH = new_key()
ROOT_CONFIG = f'[keys.root]\nhash = "{ADMIN_HASH}"\nrole = "admin"\n'


class Admin:
    """An app, and calls of it with the key of an admin."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def send(
        self, method: str, path: str, body: object = None, *, key: str | None = ADMIN, **headers: str
    ) -> tuple[int, Any]:
        """The status, and the decoded body."""
        sent = {"host": "localhost", "content-type": "application/json", **headers}
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.app.answer(HttpRequest(method=method, path=path, headers=sent, body=data))
        written = bytearray()
        if isinstance(response.body, bytes):
            written += response.body
        else:

            async def write(data: bytes) -> None:
                written.extend(data)

            await response.body(write)
        kind = dict(response.headers).get("content-type", "")
        return response.status, json.loads(written) if kind == "application/json" else written.decode()

    async def do(self, method: str, name: str, body: object = None, *, key: str | None = ADMIN) -> Any:
        """The decoded body of a call that must succeed."""
        status, answer = await self.send(method, f"/admin/api/{name}", body, key=key)
        assert status in (200, 201), answer
        return answer

    async def refused(self, method: str, name: str, body: object = None, *, key: str | None = ADMIN) -> tuple[int, str]:
        """The status and the message of a call that must not succeed."""
        status, answer = await self.send(method, f"/admin/api/{name}", body, key=key)
        assert status >= 400, answer
        return status, answer["error"]["message"]

    async def chat(self, key: str | None, model: str = "demo/any", **fields: Any) -> tuple[int, Any]:
        """A chat completion with a key."""
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
        return await self.send("POST", "/v1/chat/completions", body, key=key)


def app_of(config: str = ROOT_CONFIG, *, is_local: bool = True, env: dict[str, str] | None = None) -> App:
    return App(Runtime(decode_config(config, env or {}), env or {}), is_local=is_local)


@asynccontextmanager
async def running(
    config: str = ROOT_CONFIG, *, is_local: bool = True, env: dict[str, str] | None = None
) -> AsyncGenerator[Admin]:
    """An app with its background work."""
    app = app_of(config, is_local=is_local, env=env)
    background = asyncio.create_task(app.run())
    try:
        yield Admin(app)
    finally:
        background.cancel()
        await app.close()
