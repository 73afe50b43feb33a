"""The official SDKs and plain json, reading the same bytes from memory; None if an SDK is not installed."""

import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Read = Callable[[list[bytes]], int]
"""Reads the pieces of a stream, and returns the number of events."""


def plain_json(pieces: list[bytes]) -> int:
    """The lower bound: parse every line of JSON, and drop the result."""
    return sum(1 for piece in pieces if _parse(piece))


def _parse(piece: bytes) -> bool:
    if piece[:1] == b"\0":  # a binary frame: JSON between headers and a checksum of four bytes
        text = piece[piece.rfind(b"event{") + 5 : -4]
    else:
        line = next((line for line in piece.split(b"\n") if line[:6] == b"data: " or line[:1] == b"{"), b"")
        text = line.removeprefix(b"data: ")
    return text[:1] == b"{" and bool(json.loads(text))


def sdk(wire: str) -> tuple[str, Read | None]:
    """The SDK of a wire's own provider, and a function that reads a stream with it."""
    name, reader = _SDKS.get(wire, ("", None))
    return name, reader if reader is not None and find_spec(name) else None


def _client(module: str, kind: str, library: str, pieces: list[bytes]) -> Any:
    """A client of an SDK that always receives these pieces; `library` is the HTTP client it uses."""
    http: Any = import_module(library)

    def answer(_: object) -> Any:
        return http.Response(200, headers={"content-type": "text/event-stream"}, content=iter(pieces))

    make = getattr(import_module(module), kind)
    transport = http.MockTransport(answer)
    if module == "ollama":
        return make(host="http://localhost", transport=transport)
    return make(api_key="k", http_client=http.Client(transport=transport))


def _openai_chat(pieces: list[bytes]) -> int:
    client = _client("openai", "OpenAI", "httpx2", pieces)
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
    return sum(1 for _ in stream)


def _openai_responses(pieces: list[bytes]) -> int:
    client = _client("openai", "OpenAI", "httpx2", pieces)
    return sum(1 for _ in client.responses.create(model="m", input="?", stream=True))


def _anthropic(pieces: list[bytes]) -> int:
    client = _client("anthropic", "Anthropic", "httpx2", pieces)
    messages = [{"role": "user", "content": "?"}]
    return sum(1 for _ in client.messages.create(model="m", messages=messages, max_tokens=1, stream=True))


def _ollama(pieces: list[bytes]) -> int:
    client = _client("ollama", "Client", "httpx", pieces)
    return sum(1 for _ in client.chat(model="m", messages=[{"role": "user", "content": "?"}], stream=True))


_SDKS: dict[str, tuple[str, Read]] = {
    "anthropic": ("anthropic", _anthropic),
    "ollama": ("ollama", _ollama),
    "openai_chat": ("openai", _openai_chat),
    "openai_responses": ("openai", _openai_responses),
}
