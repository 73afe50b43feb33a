"""The recorded calls of endpoints besides generation: embeddings, token counts and lists of models."""

import functools
import re
from typing import Any, NamedTuple

import msgspec

from dragoman import wires
from dragoman.http import HttpRequest
from dragoman.wires.common.server_endpoints import ServerEndpoint
from tests.support.corpus.exchanges import ENDPOINTS, FOLDER

HOMES: tuple[tuple[str, str], ...] = (
    (r"^/model/", "bedrock"),
    (r"v1beta/", "google"),
    (r"/v1/messages/|anthropic", "anthropic"),
    (r"/input_tokens", "openai-responses"),
    (r"/api/tags", "ollama"),
    (r"/v[12]/embed ", "cohere"),
    (r"/openai/deployments/", "azure-deployments"),
    (r"azure", "azure"),
    (r"^/api/v1/", "openrouter"),
    (r"groq", "groq"),
    (r"mistral", "mistral"),
    (r"pplx", "perplexity"),
    (r"llamacpp", "llama-cpp"),
    (r"deepseek", "deepseek"),
)
"""What in the path, the model or the place of a recording tells whose it is; the others have the form of OpenAI."""


class EndpointCall(NamedTuple):
    """One recorded call and its answer."""

    id: str
    kind: str
    provider: str
    model: str
    http: HttpRequest
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def asked(self) -> dict[str, Any]:
        """The body of the request."""
        found: dict[str, Any] = msgspec.json.decode(self.http.body or b"{}")
        return found

    @property
    def path(self) -> str:
        """The path without its query, as a client of ours would send it."""
        return self.http.path.partition("?")[0].removeprefix("/api" if self.provider == "openrouter" else "")

    def server(self, wire: str) -> ServerEndpoint:
        """The endpoint of the server half for its path."""
        header = {"anthropic": "anthropic-version"}.get(wire)
        return next(
            endpoint
            for endpoint in wires.get(wire).server_endpoints
            if endpoint.route.method == self.http.method
            and endpoint.route.header in (None, header)
            and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", endpoint.route.path), self.path)
        )


@functools.cache
def endpoint_calls(kind: str) -> dict[str, EndpointCall]:
    """The recordings of one of the folders `ENDPOINTS`, by their ids."""
    found = (_read(msgspec.json.decode(path.read_bytes())) for path in sorted(FOLDER.glob("*/*.json")))
    return {call.id: call for call in found if call is not None and call.kind == kind}


def _read(data: dict[str, Any]) -> EndpointCall | None:
    if data["wire"] not in ENDPOINTS:
        return None
    request, response = data["request"], data["response"]
    path = re.sub("^//", "/", request["path"])
    clues = f"{path} {data['model']} {data['source']['path']} {data['id']}"
    return EndpointCall(
        id=data["id"],
        kind=data["wire"],
        provider=next((home for clue, home in HOMES if re.search(clue, clues)), "openai"),
        model=data["model"] or "",
        http=HttpRequest(
            method=request["method"], path=path, body=msgspec.json.encode(request["body"]) if request["body"] else b""
        ),
        status=response["status"],
        headers=response.get("headers") or {},
        body=msgspec.json.encode(response["body"]),
    )
