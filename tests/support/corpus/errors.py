"""The class and attributes that a recorded error must get, according to the documentation of the providers."""

import re
from typing import Any

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFault,
)
from tests.support.corpus.endpoints import EndpointCall
from tests.support.corpus.exchanges import Exchange

BY_STATUS: dict[int, type[ProviderError]] = {
    400: BadRequest,
    401: AuthFailed,
    402: RateLimited,
    403: AuthFailed,
    404: ModelNotFound,
    422: BadRequest,
    429: RateLimited,
    500: ServerFault,
    501: ServerFault,
    503: Overloaded,
}
BY_WORDS: tuple[tuple[str, type[ProviderError]], ...] = (
    (r"exceed_context_size_error|too_many_prompt_tokens|exceeds the maximum number of tokens", ContextTooLong),
    (r"API_KEY_INVALID|Incorrect API key", AuthFailed),
    (
        r"model_not_found|invalid_model|not a valid model ID|model identifier is invalid|supported API model names",
        ModelNotFound,
    ),
    (r"Content violates usage guidelines", Blocked),
)
FACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"insufficient_quota|PAYMENT_METHOD_REQUIRED", {"retry": False, "fail_over": True}),
    (r"tool_use_failed", {"retry": True, "fail_over": True, "count_failure": False}),
    (r'"n_ctx":512', {"tokens": 2009, "limit": 512}),
    (r"1250074", {"tokens": 1250074, "limit": 1048576}),
    (r'n_ctx\\":32768', {"tokens": 120021, "limit": 32768}),
    (r'"retryDelay":"48s"', {"retry_after": 48.0}),
)


def expected_error(exchange: Exchange | EndpointCall) -> tuple[type[ProviderError], dict[str, Any]]:
    """What the answer says."""
    text = exchange.body.decode()
    kind = next((kind for words, kind in BY_WORDS if re.search(words, text)), BY_STATUS[exchange.status])
    nothing: dict[str, Any] = {}
    facts = next((facts for words, facts in FACTS if re.search(words, text)), nothing)
    if "retry-after" in exchange.headers and exchange.status >= 429:
        facts = {**facts, "retry_after": float(exchange.headers["retry-after"])}
    return kind, facts
