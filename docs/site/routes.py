"""Makes the page of the HTTP API: every route of a gateway, from its table of routes."""

import re

from markdown import table

from dragoman.gateway.app import App, RouteHandler
from dragoman.gateway.config import decode_config
from dragoman.gateway.management.api import OPERATIONS
from dragoman.gateway.management.operations import PREFIX
from dragoman.gateway.runtime import Runtime
from dragoman.wires.common.server_endpoints import Route

DIALECTS = {
    "openai_chat": "OpenAI Chat Completions and related APIs",
    "openai_responses": "OpenAI Responses",
    "anthropic": "Anthropic Messages",
    "google": "Google Gemini",
    "google_interactions": "Google Interactions",
    "bedrock": "Amazon Bedrock Converse",
    "ollama": "Ollama",
    "native": "The native dialect",
}
"""The heading of each wire. A wire without an entry fails the build."""

PURPOSES: tuple[tuple[str, str, str], ...] = (
    (r"POST .*(count_tokens|countTokens|count-tokens|count-tokens:rawPredict|input_tokens)", "count tokens", "gateway"),
    (r"POST .*(/embed|/embeddings|:embedContent|:batchEmbedContents|:predict)", "embed texts", "gateway"),
    (r"POST .*/rerank", "rank documents", "gateway"),
    (r"POST /model/{model}/invoke", "generate an answer, embed texts or rank documents, by the body", "clouds"),
    (r"\w+ .*/cachedContents(/{id})?", "refused: the gateway stores no prompts", "caching"),
    (r"POST .*/files", "upload a file", "files"),
    (r"GET .*/files", "list files", "files"),
    (r"GET .*/files/{id}", "describe a file", "files"),
    (r"GET .*/files/{id}/content", "read a file", "files"),
    (r"DELETE .*/files/{id}", "delete a file", "files"),
    (r"POST .*/batches", "create a batch", "batches"),
    (r"GET .*/batches", "list batches", "batches"),
    (r"GET .*/batches/{id}", "describe a batch", "batches"),
    (r"POST .*/batches/{id}/cancel", "cancel a batch", "batches"),
    (r"GET .*/batches/{id}/results", "read the results of a batch", "batches"),
    (r"DELETE .*/batches/{id}", "delete a batch", "batches"),
    (r"GET .*/chat/completions", "list stored answers", "gateway"),
    (r"GET .*/(chat/completions|responses|interactions)/{id}", "read a stored answer", "gateway"),
    (r"POST .*/chat/completions/{id}", "change the metadata of a stored answer", "gateway"),
    (r"DELETE .*/(chat/completions|responses|interactions)/{id}", "delete a stored answer", "gateway"),
    (r"GET .*/{id}/(messages|input_items)", "list the input of a stored answer", "gateway"),
    (r"POST .*/responses/compact", "compact a conversation", "conversations"),
    (r"POST .*/(responses|interactions)/{id}/cancel", "cancel an answer in the background", "conversations"),
    (r"POST .*/conversations", "create a conversation", "conversations"),
    (r"GET .*/conversations/{id}", "describe a conversation", "conversations"),
    (r"POST .*/conversations/{id}", "change the metadata of a conversation", "conversations"),
    (r"DELETE .*/conversations/{id}", "delete a conversation", "conversations"),
    (r"GET .*/conversations/{id}/items", "list the items of a conversation", "conversations"),
    (r"POST .*/conversations/{id}/items", "add items to a conversation", "conversations"),
    (r"GET .*/items/{item}", "read an item", "conversations"),
    (r"DELETE .*/items/{item}", "delete an item", "conversations"),
    (r"GET .*(/models|/tags)", "list models", "gateway"),
    (r"GET .*/models/{model}|POST /api/show", "describe a model", "gateway"),
    (r"GET /api/version", "the version of Ollama that the gateway stands for", "gateway"),
    (r"GET /api/ps", "an empty list of running models", "gateway"),
    (r"GET /native/openapi.json", "the schema of the native dialect", "native"),
    (r"GET /native/docs", "the native dialect as a page", "native"),
    (r"[A-Z]+ (/providers/|/v1/(images|audio|moderations|fine_tuning)).*", "pass on to a provider", "gateway"),
    (r"GET /health/live", "whether the process runs", "operating"),
    (r"GET /health/ready", "whether it takes requests", "operating"),
    (r"GET /health", "the health of the targets", "operating"),
    (r"GET /metrics", "metrics for Prometheus", "operating"),
    (r"GET /", "the dashboard", "dashboard"),
    (r"GET /dashboard/.*", "a file of the dashboard", "dashboard"),
    (r"GET .*/openapi.json", "the schema of the admin API", "admin-api"),
)
"""Pattern of a route, its purpose, and the page that explains it. A route without an entry fails the build."""


def http_api_page() -> str:
    """The Markdown of the page."""
    chapters: dict[str, dict[tuple[str, str, str, str], list[str]]] = {}
    for route, endpoint in App(Runtime(decode_config("", {}), {})).table():
        purpose, page = _purpose(route, endpoint)
        key = "no" if endpoint.is_public else "yes"
        chapter = chapters.setdefault(_chapter(route, endpoint), {})
        chapter.setdefault((route.path, purpose, page, key), []).append(route.method)
    lines = [
        "# HTTP API",
        "",
        "Every route of a gateway. The requests and answers of a dialect are those of its provider; "
        "[fidelity](../docs/fidelity.md) lists the exceptions. *Key* says whether the route needs an API key if "
        "the gateway has keys. If two dialects have the same path, the headers of the client or the body decide.",
        "",
    ]
    for chapter in sorted(chapters, key=_ORDER.index):
        rows = (
            (
                " ".join(f"`{method}`" for method in dict.fromkeys(methods)),
                f"`{path}`{'{.long}' if len(path) > _LONG else ''}",
                purpose,
                f"[{page}](../docs/{page}.md)",
                key,
            )
            for (path, purpose, page, key), methods in chapters[chapter].items()
        )
        lines += [f"## {chapter}", "", *table(("method", "path", "purpose", "page", "key"), rows)]
    return "\n".join(lines)


_LONG = 45
"""Characters: a longer path may break, so that the other columns fit the page."""
_PASSED, _GATEWAY, _ADMIN = "Other paths of a provider", "The gateway itself", "Admin API"
_ORDER = [*DIALECTS.values(), _PASSED, _GATEWAY, _ADMIN]


def _chapter(route: Route, handler: RouteHandler) -> str:
    if route.path.startswith(PREFIX):
        return _ADMIN
    if handler.wire is None:
        return _GATEWAY
    return _PASSED if _purpose(route, handler)[0] == "pass on to a provider" else DIALECTS[handler.wire.name]


def _purpose(route: Route, handler: RouteHandler) -> tuple[str, str]:
    """What a route is for, and the page that explains it."""
    for operation in OPERATIONS:
        if (route.method, route.path) == (operation.method, PREFIX + operation.path):
            return operation.summary.rstrip("."), "admin-api"
    line = f"{route.method} {route.path}"
    for pattern, purpose, page in PURPOSES:
        if re.fullmatch(pattern, line):
            return purpose, page
    if handler.wire is None or route not in handler.wire.server.routes:
        raise LookupError(f"{line} has no purpose; add it to PURPOSES in {__file__}")
    return "generate an answer", "native" if handler.wire.name == "native" else "gateway"
