"""Maps a provider's error to one of the errors of a call, by tables of codes, statuses and messages."""

import re
from typing import TYPE_CHECKING, Any

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestTooLarge,
    ServerFault,
)

if TYPE_CHECKING:
    from dragoman.types import Usage

_NO_CREDIT = {"retry": False}
_MODEL_MISTAKE = {"retry": True, "fail_over": True}
MALFORMED_CALLS = frozenset(
    "malformed_function_call unexpected_tool_call too_many_tool_calls malformed_tool_use tool_use_failed".split()
)
"""Codes and finish reasons for a tool call that the provider could not parse."""
_MALFORMED_ANSWERS = frozenset(
    "malformed_response missing_thought_signature malformed_model_output json_validate_failed".split()
)
MODEL_MISTAKES = MALFORMED_CALLS | _MALFORMED_ANSWERS
"""Codes and finish reasons for a mistake of the model: another try may help, and the target is healthy."""

_BY_CODE: dict[str, tuple[type[ProviderError], dict[str, bool]]] = {
    code: (kind, facts)
    for kind, facts, codes in (
        (AuthFailed, {}, "invalid_api_key authentication_error permission_error api_key_invalid unauthenticated"),
        (AuthFailed, {}, "permission_denied permissiondenied unauthorized authentication"),
        (RateLimited, {}, "rate_limit_exceeded rate_limit_error ratelimitreached ramp_limit_exceeded 1300 3505"),
        (RateLimited, {}, "too_many_requests"),
        (RateLimited, _NO_CREDIT, "quota_exceeded payment_required"),
        (RateLimited, _NO_CREDIT, "insufficient_quota billing_error billing_hard_limit_reached"),
        (RateLimited, _NO_CREDIT, "enforced_spend_limit_reached"),
        (RateLimited, _NO_CREDIT, "exceeded_current_quota_error 1113"),
        (RateLimited, _NO_CREDIT, "payment_method_required insufficient_balance credit_balance_too_low quota_per_day"),
        (Overloaded, {}, "overloaded_error unavailable unavailable_error capacity_exceeded queue_exceeded slow_down"),
        (Overloaded, {}, "insufficient_system_resource engine_overloaded_error service_unavailable"),
        (ContextTooLong, {}, "context_length_exceeded exceed_context_size_error too_many_prompt_tokens"),
        (ContextTooLong, {}, "model_context_window_exceeded string_above_max_length"),
        (Blocked, {}, "content_filter content_policy_violation responsibleaipolicyviolation bio_policy invalid_prompt"),
        (Blocked, {}, "misalignment_policy_violation image_content_policy_violation moderation_blocked"),
        (Blocked, {}, "safety recitation language prohibited_content spii blocklist content_blocked"),
        (Blocked, {}, "image_safety image_prohibited_content image_recitation image_other"),
        (ModelNotFound, {}, "model_not_found not_found_error deploymentnotfound invalid_model"),
        (ModelNotFound, {}, "resource_not_found_error"),
        (RequestTooLarge, {}, "request_too_large"),
    )
    for code in codes.split()
}
_BY_CODE.update((code, (BadRequest, _MODEL_MISTAKE)) for code in MODEL_MISTAKES)

_BY_STATUS: dict[int, tuple[type[ProviderError], dict[str, bool]]] = {
    **dict.fromkeys((301, 302, 303, 307, 308), (ServerFault, {"retry": False, "count_failure": False})),
    400: (BadRequest, {}),
    401: (AuthFailed, {}),
    402: (RateLimited, _NO_CREDIT),
    403: (AuthFailed, {}),
    404: (ModelNotFound, {}),
    405: (BadRequest, {}),
    410: (ModelNotFound, {}),
    413: (RequestTooLarge, {}),
    422: (BadRequest, {}),
    429: (RateLimited, {}),
    498: (Overloaded, {}),
    503: (Overloaded, {}),
    529: (Overloaded, {}),
}

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "invalid_request": 400,
    "parameter_unknown": 400,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "bad_request": 400,
    "badrequesterror": 400,
    "not_found": 404,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal": 500,
    "timeout_error": 504,
    "deadline_exceeded": 504,
}
"""The status for an error inside an HTTP 200 that has only a type."""

_BY_MESSAGE: tuple[tuple[type[ProviderError], str], ...] = (
    (
        ContextTooLong,
        r"context (length|window|size|limit)|maximum context"
        r"|exceeds? the (maximum|available|model'?s)[^.]{0,40}(token|context)"
        r"|prompt is too long|too many (input |prompt )?tokens|messages is too long|reduce the length of"
        r"|maximum (prompt|input) length|input is too long|token count of [\d,]+ exceeds|input tokens exceed",
    ),
    (AuthFailed, r"(incorrect|invalid) api.?key|api.?key (is )?(not valid|invalid|missing)"),
    (
        ModelNotFound,
        r"model [^.]{0,200}(not found|does not exist)|not a valid model|^invalid model|no such model"
        r"|supported api model names|model identifier is invalid",
    ),
    (
        Blocked,
        r"content (violates|management policy|policy)|blocked by (the )?content filter|flagged (for|by|as)"
        r"|safety (check|system)|moderation",
    ),
)
"""Used only for a 4xx without a known code."""

_OUT_OF_CREDIT = (
    r"credit balance is too low|insufficient (account )?(balance|credits?|funds)"
    r"|(run out of|out of|used all available|used all your|not enough|no) credits\b"
)
"""Anthropic sends a 400 without a code, xAI a 403 or a 429 (2026-08)."""

_COUNT = r"(?<![-\w.])(\d[\d,]{2,14})(?!\w)"
_LIMITS = (
    rf"> ?{_COUNT}",
    rf"{_COUNT} maximum",
    rf"(?:max|limit|allowed|available|context)(?:(?! by )\D){{0,60}}?{_COUNT}",
)
"""Patterns for the token limit in a message, the most reliable first."""


def is_stop_sequence(finish: str | None, /) -> bool:
    """Whether a finish reason says that a stop sequence ended the answer. Only Anthropic's models have one for that.

    >>> is_stop_sequence("stop_sequence"), is_stop_sequence("stop")
    (True, False)
    """
    return finish == "stop_sequence"


def model_mistake(word: object, /) -> str | None:
    """The mistake of the model that a finish reason reports; None if it reports no mistake.

    The text of such an answer may be the rest of a broken tool call. Gemini's endpoint for OpenAI's clients puts a
    phrase before the reason.

    >>> model_mistake("function_call_filter: MALFORMED_FUNCTION_CALL"), model_mistake("STOP")
    ('malformed_function_call', None)
    """
    mistake = word.rpartition(" ")[2].lower() if isinstance(word, str) else ""
    return mistake if mistake in MODEL_MISTAKES else None


def classify(
    message: str,
    /,
    *,
    status: int | None = None,
    codes: tuple[str | int | None, ...] = (),
    retry_after: float | None = None,
    tokens: int | None = None,
    limit: int | None = None,
    usage: "Usage | None" = None,
) -> ProviderError:
    """The error for a provider's error response: by code, then by status; by message if neither is specific.

    `codes` are the provider's code and type, the more specific first.

    >>> error = classify("busy", status=529, codes=("overloaded_error",))
    >>> type(error).__name__, error.retry, error.code
    ('Overloaded', True, 'overloaded_error')
    """
    names = [str(code) for code in codes if code not in (None, "")]
    if status is None or status < 400:
        status = next((known for name in names if (known := _status_of(name))), status)
    kind, policy = _kind(message, status, names)
    if status == 402 and retry_after is not None:
        policy = {}  # OpenRouter reserves credit for running requests and releases it (2026-08)
    code = next((name for name in names if name != str(status)), str(status) if names else None)
    facts: dict[str, Any] = {"status": status, "code": code, "retry_after": retry_after, "usage": usage, **policy}
    if kind is ContextTooLong:
        message_tokens, message_limit = _token_numbers(message)
        return ContextTooLong(message, tokens=tokens or message_tokens, limit=limit or message_limit, **facts)
    return kind(message, **facts)


def _token_numbers(message: str) -> tuple[int | None, int | None]:
    """The tokens of the prompt and the limit."""
    match = next((match for pattern in _LIMITS if (match := re.search(pattern, message, re.IGNORECASE))), None)
    if match is None:
        return None, None
    limit = _number(match[1])
    counts = [_number(count) for count in re.findall(_COUNT, message)]
    counts += [_number(a) + _number(b) for a, b in re.findall(rf"{_COUNT} \+ {_COUNT} >", message)]
    return (tokens if (tokens := max(counts)) > limit else None), limit


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _status_of(name: str) -> int | None:
    if len(name) == 3 and name.isdecimal() and 400 <= int(name) <= 599:
        return int(name)
    return _STATUS_OF_TYPE.get(name.lower())


def _kind(message: str, status: int | None, names: list[str]) -> tuple[type[ProviderError], dict[str, bool]]:
    for name in names:
        entry = _BY_CODE.get(name.lower())
        # Groq reports one request that exceeds the tokens per minute as a rate limit: waiting cannot help (2026-08).
        if entry and not (status == 413 and entry[0] is RateLimited):
            return entry
    is_refused = status is not None and 400 <= status < 500
    if is_refused and re.search(_OUT_OF_CREDIT, message, re.IGNORECASE):
        return RateLimited, _NO_CREDIT
    if is_refused and status not in (401, 402, 429):
        for kind, pattern in _BY_MESSAGE:
            if re.search(pattern, message, re.IGNORECASE):
                return kind, {}
    return _BY_STATUS.get(status or 0, (ServerFault, {}))
