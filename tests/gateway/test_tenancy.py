"""Nobody reads, changes, continues or deletes what another key stored, by any id, at any endpoint that takes one."""

import asyncio
import json
from typing import Any

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.http import HttpRequest

ANN, BEN = "dgm-ann-000000000000000000000000", "dgm-ben-000000000000000000000000"
CONFIG = f"""
[gateway]
providers = ["demo"]
[cache]
[keys.ann]
hash = "{hash_key(ANN)}"
[keys.ben]
hash = "{hash_key(BEN)}"
"""
SECRET = "the tide is at noon"
ASK = [{"role": "user", "content": SECRET}]
MISSING = {400, 403, 404}


class Client:
    """Sends requests with a key."""

    def __init__(self, app: App, key: str) -> None:
        self._app = app
        self._key = key

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        every = {"authorization": f"Bearer {self._key}", "content-type": "application/json", "host": "localhost"}
        http = HttpRequest(method=method, path=path, headers={**every, **headers}, body=data)
        response = await self._app.answer(http)
        if isinstance(response.body, bytes):
            return response.status, response.body.decode()
        pieces: list[bytes] = []

        async def write(piece: bytes) -> None:
            pieces.append(piece)

        await response.body(write)
        return response.status, b"".join(pieces).decode()

    async def create(self, path: str, body: Any, **headers: str) -> str:
        status, text = await self.ask("POST", path, body, **headers)
        assert status == 200, (path, text)
        return str(json.loads(text)["id"])


def upload(content: str, purpose: str) -> tuple[bytes, dict[str, str]]:
    parts = [('name="purpose"', purpose), ('name="file"; filename="a.jsonl"', content)]
    text = "".join(f"--b\r\ncontent-disposition: form-data; {head}\r\n\r\n{value}\r\n" for head, value in parts)
    return f"{text}--b--\r\n".encode(), {"content-type": "multipart/form-data; boundary=b"}


async def store_all(ann: Client) -> dict[str, str]:
    """Something of each kind, by kind."""
    row = {
        "custom_id": "r",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "demo/any", "messages": ASK},
    }
    body, headers = upload(json.dumps(row), "batch")
    ids = {"file": await ann.create("/v1/files", body, **headers)}
    batch = {"input_file_id": ids["file"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    ids["batch"] = await ann.create("/v1/batches", batch)
    message = {"custom_id": "r", "params": {"model": "demo/any", "max_tokens": 9, "messages": ASK}}
    ids["message_batch"] = await ann.create("/v1/messages/batches", {"requests": [message]})
    ids["chat"] = await ann.create("/v1/chat/completions", {"model": "demo/any", "messages": ASK, "store": True})
    ids["response"] = await ann.create("/v1/responses", {"model": "demo/any", "input": SECRET})
    ids["background"] = await ann.create("/v1/responses", {"model": "demo/any", "input": SECRET, "background": True})
    ids["conversation"] = await ann.create("/v1/conversations", {"items": [{"type": "message", **ASK[0]}]})
    _, items = await ann.ask("GET", f"/v1/conversations/{ids['conversation']}/items")
    ids["item"] = json.loads(items)["data"][0]["id"]
    return ids


def attacks(ids: dict[str, str]) -> list[tuple[str, str, Any]]:
    file, batch, chat, conversation = (ids[kind] for kind in ("file", "batch", "chat", "conversation"))
    found: list[tuple[str, str, Any]] = [
        ("GET", f"/v1/files/{file}/content", None),
        ("POST", f"/v1/batches/{batch}/cancel", {}),
        ("POST", f"/v1/messages/batches/{ids['message_batch']}/cancel", {}),
        ("GET", f"/v1/messages/batches/{ids['message_batch']}/results", None),
        ("GET", f"/v1/messages/batches/{batch}", None),
        ("GET", f"/v1/chat/completions/{chat}/messages", None),
        ("POST", f"/v1/chat/completions/{chat}", {"metadata": {"a": "b"}}),
        ("GET", f"/v1/chat/completions?after={chat}", None),
        ("POST", f"/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
        ("GET", f"/v1/conversations/{conversation}/items", None),
        ("POST", f"/v1/conversations/{conversation}/items", {"items": [{"type": "message", **ASK[0]}]}),
        ("GET", f"/v1/conversations/{conversation}/items/{ids['item']}", None),
        ("DELETE", f"/v1/conversations/{conversation}/items/{ids['item']}", None),
        ("POST", "/v1/responses", {"model": "demo/any", "input": "go on", "conversation": conversation}),
        ("POST", "/v1/batches", {"input_file_id": file, "endpoint": "/v1/embeddings", "completion_window": "24h"}),
    ]
    for path, id in (("files", file), ("chat/completions", chat), ("conversations", conversation)):
        found += [("GET", f"/v1/{path}/{id}", None), ("DELETE", f"/v1/{path}/{id}", None)]
    for kind in ("response", "background"):
        found += [("GET", f"/v1/responses/{ids[kind]}{end}", None) for end in ("", "/input_items", "?stream=true")]
        found += [("POST", f"/v1/responses/{ids[kind]}/cancel", {}), ("DELETE", f"/v1/responses/{ids[kind]}", None)]
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
            found.append(("POST", path, {"model": "demo/any", "input": "go on", "previous_response_id": ids[kind]}))
    document = {"type": "document", "source": {"type": "file", "file_id": file}}
    message = {"role": "user", "content": [document]}
    found.append(("POST", "/v1/messages", {"model": "demo/any", "max_tokens": 9, "messages": [message]}))
    part = {"type": "input_file", "file_id": file}
    found.append(("POST", "/v1/responses", {"model": "demo/any", "input": [{"role": "user", "content": [part]}]}))
    return [*found, ("GET", f"/v1/batches/{batch}", None), ("DELETE", f"/v1/messages/batches/{batch}", None)]


def test_no_id_of_another_key_works_anywhere() -> None:
    async def run() -> None:
        app = App(Runtime(decode_config(CONFIG), {}))
        ann, ben = Client(app, ANN), Client(app, BEN)
        ids = await store_all(ann)
        for method, path, body in attacks(ids):
            status, text = await ben.ask(method, path, body)
            assert status in MISSING, (method, path, status, text)
            assert SECRET not in text, (method, path)
        for path in ("files", "batches", "chat/completions", "messages/batches"):
            status, text = await ben.ask("GET", f"/v1/{path}")
            assert (status, json.loads(text)["data"]) == (200, []), path
        own = [("files", "file"), ("batches", "batch"), ("chat/completions", "chat"), ("conversations", "conversation")]
        own += [("responses", "response"), ("responses", "background"), ("messages/batches", "message_batch")]
        for path, kind in own:
            assert (await ann.ask("GET", f"/v1/{path}/{ids[kind]}"))[0] == 200, kind
        _, text = await ann.ask("GET", f"/v1/batches/{ids['batch']}")
        assert json.loads(text)["status"] in ("in_progress", "completed")
        await app.close()

    asyncio.run(run())
