"""Status, code and words of a failure in, one typed error with flat facts out.

DragomanError
 ├ RequestError      ours or the caller's, before a byte left:   Unsupported, InvalidRequest, InvalidTool
 ├ ProviderError     they answered, and the answer is no:        AuthFailed, RateLimited, Overloaded, ContextTooLong,
 │                                                              Blocked, ModelNotFound, BadRequest, ServerFault
 ├ WireError         their bytes broke the protocol:             Malformed, Truncated, TooLarge, MalformedToolCall
 ├ TransportError    no answer:                                  ConnectFailed, TimedOut, Reset
 ├ EmptyResponse     nothing in the answer
 ├ Interrupted       broke after events were shown; has .partial
 ├ OutputError       the text was not of the wanted type; has .text and .reasons
 ├ ToolLoop, MaxSteps, BudgetExceeded   the agent was stopped; has .result
 ├ StoreDown         what the gateway remembers cannot be reached
 └ ChainExhausted    every target failed or was skipped; has .attempts
SetupError           outside the tree: unknown provider or alias, alias cycle, malformed DSN
"""

import re
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dragoman.types import Attempt, Response, Usage


_KEY = (
    r"\b(?:sk|rk|gsk|csk|xai|hf|nvapi|tgp|pplx)[-_][-_A-Za-z0-9*.]{6,}"
    r"|\b(?:pk|key|fw|r8)[-_](?=[-_A-Za-z*.]*\d)[-_A-Za-z0-9*.]{6,}"
    r"|\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-)[-_A-Za-z0-9]{10,}"
    r"|\bAIza[-_A-Za-z0-9*]{8,}|\bAKIA[A-Z0-9]{8,}|\beyJ[-_A-Za-z0-9]{8,}\.[-_.A-Za-z0-9]+"
    r"|(?<=://)[^\s/@\"']+(?=@)"
    r"|(?i:(?<=bearer )|(?<=[?&]key=)|(?<=api[-_ ]key: )|(?<=api[-_ ]key=)|(?<=key provided: ))"
    r"(?=[^\s\"'&,;]*\d)[^\s\"'&,;]{6,}"
)
"""Keys as providers make them, what a URL has before its host, and what stands where a key does, with a digit."""


def redact(text: str, /) -> str:
    """The same with its keys blotted out: providers say keys back, and a URL may hold one.

    >>> redact("Incorrect API key provided: sk-proj-12345678")
    'Incorrect API key provided: [redacted]'
    """
    return re.sub(_KEY, "[redacted]", text)


class SetupError(Exception):
    """The set-up is wrong: an unknown provider or alias, a cycle, a malformed DSN.

    >>> str(SetupError("no provider 'grok'; did you mean 'groq'?"))
    "no provider 'grok'; did you mean 'groq'?"
    """


class DragomanError(Exception):
    """What every error of a call is, with the flat facts that decide what happens next.

    >>> DragomanError("no", provider="groq", status=503).status
    503
    """

    retry: bool = True
    """May the same target succeed when asked again?"""
    fail_over: bool = True
    """May another target succeed?"""
    count_failure: bool = True
    """Does it count against the target's health?"""
    http_status: ClassVar[int] = 500
    """What a server that was asked should answer."""
    attempts: "tuple[Attempt, ...]" = ()
    """Which targets were tried or skipped, where a chain was."""
    request_id: str | None = None
    """The id under which a gateway knows the request, where one was asked."""
    param: str | None = None
    """Which field of the request is wrong, where one is."""
    result: Any = None
    """What an agent had done by then, where one ran."""

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        usage: "Usage | None" = None,
        retry: bool | None = None,
        fail_over: bool | None = None,
        count_failure: bool | None = None,
    ) -> None:
        message = redact(message)
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.model = model
        self.status = status
        self.code = None if code is None else redact(code)
        self.retry_after = retry_after
        self.usage = usage
        self.retry = self.retry if retry is None else retry
        self.fail_over = self.fail_over if fail_over is None else fail_over
        self.count_failure = self.count_failure if count_failure is None else count_failure


class RequestError(DragomanError):
    """Wrong before a byte left.

    >>> RequestError("no messages").retry
    False
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 400


class Unsupported(RequestError):
    """The target cannot do what is asked; another may.

    >>> Unsupported("ollama: no documents").fail_over
    True
    """

    fail_over = True


class InvalidRequest(RequestError, ValueError):
    """The request, or a value of it, makes no sense to any target.

    >>> InvalidRequest("messages: missing").fail_over
    False
    """


class InvalidTool(RequestError):
    """A tool cannot be used as it is defined.

    >>> InvalidTool("two tools are called 'tide'").http_status
    400
    """


class ProviderError(DragomanError):
    """They answered, and the answer is no.

    >>> ProviderError("no", status=500).count_failure
    True
    """

    http_status = 502


class AuthFailed(ProviderError):
    """The key is wrong, or may not do this.

    >>> AuthFailed("bad key", status=401).fail_over
    False
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 401


class RateLimited(ProviderError):
    """Too many requests, or no credit left (then it is not transient).

    >>> RateLimited("slow down", retry_after=2.0).retry_after
    2.0
    """

    http_status = 429


class Overloaded(ProviderError):
    """They have no capacity now.

    >>> Overloaded("busy", status=529).retry
    True
    """

    http_status = 503


class ContextTooLong(ProviderError):
    """The prompt does not fit; `tokens` and `limit` where they were told.

    >>> ContextTooLong("too long", tokens=2009, limit=512).limit
    512
    """

    retry = False
    count_failure = False
    http_status = 400

    def __init__(self, message: str, *, tokens: int | None = None, limit: int | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.tokens = tokens
        self.limit = limit


class Blocked(ProviderError):
    """A content filter or policy refused.

    >>> Blocked("unsafe", status=400).fail_over
    False
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 400


class ModelNotFound(ProviderError):
    """They do not have that model; another target may.

    >>> ModelNotFound("gpt-9", status=404).fail_over
    True
    """

    retry = False
    count_failure = False
    http_status = 404


class BadRequest(ProviderError):
    """They say that the request is wrong.

    >>> BadRequest("temperature", status=400).retry
    False
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 400


class ServerFault(ProviderError):
    """Something broke on their side, or they said what nobody knows.

    >>> ServerFault("boom", status=500).retry
    True
    """


class WireError(DragomanError):
    """Their bytes broke the protocol.

    >>> WireError("?").http_status
    502
    """

    http_status = 502


class Malformed(WireError):
    """Bytes that are not what the protocol says.

    >>> Malformed("not JSON").count_failure
    True
    """


class Truncated(WireError):
    """A stream or body that ended before its end.

    >>> Truncated("no farewell").retry
    True
    """


class TooLarge(WireError):
    """More than the limit.

    >>> TooLarge("a line of 65 MiB").retry
    True
    """


class MalformedToolCall(WireError):
    """A call whose arguments are not a JSON object.

    >>> MalformedToolCall("no", id="call_1", name="tide", text="{").name
    'tide'
    """

    count_failure = False

    def __init__(self, message: str, *, id: str = "", name: str = "", text: str = "", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.id = id
        self.name = name
        self.text = text


class TransportError(DragomanError):
    """No answer.

    >>> TransportError("?").fail_over
    True
    """

    http_status = 502


class ConnectFailed(TransportError):
    """No connection: refused, unknown host, bad certificate.

    >>> ConnectFailed("refused").retry
    True
    """


class TimedOut(TransportError):
    """Nothing came in time.

    >>> TimedOut("first event").http_status
    504
    """

    http_status = 504


class Reset(TransportError):
    """The connection broke.

    >>> Reset("by peer").retry
    True
    """


class EmptyResponse(DragomanError):
    """Nothing in the answer.

    >>> EmptyResponse("blank").retry
    False
    """

    retry = False
    http_status = 502


class Interrupted(DragomanError):
    """Broke after events were shown; `partial` is the response so far.

    >>> Interrupted("cut").partial is None
    True
    """

    retry = False
    fail_over = False
    http_status = 502

    def __init__(self, message: str, *, partial: "Response | None" = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.partial = partial


class OutputError(DragomanError):
    """The text was not of the wanted type.

    >>> OutputError("no", text="4", reasons=("$: not an object",)).reasons[0]
    '$: not an object'
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 502

    def __init__(self, message: str, *, text: str = "", reasons: tuple[str, ...] = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.text = text
        self.reasons = reasons


class _AgentStopped(DragomanError):
    retry = False
    fail_over = False
    count_failure = False

    def __init__(self, message: str, *, result: object = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.result = result


class ToolLoop(_AgentStopped):
    """The agent went round in circles; `result` is what there was.

    >>> ToolLoop("three times the same call").result is None
    True
    """


class MaxSteps(_AgentStopped):
    """The agent had no steps left; `result` is what there was.

    >>> MaxSteps("10 steps").retry
    False
    """


class BudgetExceeded(_AgentStopped):
    """The agent used up its tokens, money or seconds; `result` is what there was.

    >>> BudgetExceeded("1200 of 1000 tokens").result is None
    True
    """


class StoreDown(DragomanError):
    """What the gateway remembers cannot be reached now.

    >>> StoreDown("redis: connection refused").http_status
    503
    """

    fail_over = False
    count_failure = False
    http_status = 503


class ChainExhausted(DragomanError):
    """Every target failed or was skipped; `attempts` says why each.

    >>> ChainExhausted("nobody answered").attempts
    ()
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 503

    def __init__(self, message: str, *, attempts: "tuple[Attempt, ...]" = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.attempts = attempts


_NO_CREDIT = {"retry": False}
_OTHER_MAY = {"fail_over": True}
_MODEL_SLIP = {"retry": True, "fail_over": True}

_BY_CODE: dict[str, tuple[type[ProviderError], dict[str, bool]]] = {
    code: (kind, facts)
    for kind, facts, codes in (
        (AuthFailed, {}, "invalid_api_key authentication_error permission_error api_key_invalid unauthenticated"),
        (AuthFailed, {}, "permission_denied permissiondenied unauthorized"),
        (RateLimited, {}, "rate_limit_exceeded rate_limit_error ratelimitreached ramp_limit_exceeded 1300 3505"),
        (RateLimited, _NO_CREDIT, "insufficient_quota billing_error billing_hard_limit_reached"),
        (RateLimited, _NO_CREDIT, "enforced_spend_limit_reached"),
        (RateLimited, _NO_CREDIT, "payment_method_required insufficient_balance credit_balance_too_low quota_per_day"),
        (Overloaded, {}, "overloaded_error unavailable unavailable_error capacity_exceeded queue_exceeded slow_down"),
        (Overloaded, {}, "insufficient_system_resource engine_overloaded_error"),
        (ContextTooLong, {}, "context_length_exceeded exceed_context_size_error too_many_prompt_tokens"),
        (ContextTooLong, {}, "model_context_window_exceeded string_above_max_length"),
        (Blocked, {}, "content_filter content_policy_violation responsibleaipolicyviolation bio_policy invalid_prompt"),
        (Blocked, {}, "misalignment_policy_violation image_content_policy_violation moderation_blocked"),
        (ModelNotFound, {}, "model_not_found not_found_error deploymentnotfound invalid_model"),
        (ModelNotFound, {}, "resource_not_found_error"),
        (BadRequest, _MODEL_SLIP, "tool_use_failed json_validate_failed"),
        (BadRequest, _OTHER_MAY, "request_too_large"),
    )
    for code in codes.split()
}

_BY_STATUS: dict[int, tuple[type[ProviderError], dict[str, bool]]] = {
    **dict.fromkeys((301, 302, 303, 307, 308), (ServerFault, {"retry": False, "count_failure": False})),
    400: (BadRequest, {}),
    401: (AuthFailed, {}),
    402: (RateLimited, _NO_CREDIT),
    403: (AuthFailed, {}),
    404: (ModelNotFound, {}),
    405: (BadRequest, {}),
    410: (ModelNotFound, {}),
    413: (BadRequest, _OTHER_MAY),
    422: (BadRequest, {}),
    429: (RateLimited, {}),
    498: (Overloaded, {}),
    503: (Overloaded, {}),
    529: (Overloaded, {}),
}

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
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
"""What a failure inside an HTTP 200 would have been, where only its type is told."""

_BY_PROSE: tuple[tuple[type[ProviderError], str], ...] = (
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
        r"|supported api model names",
    ),
    (Blocked, r"content (violates|management policy|policy)|flagged (for|by|as)|safety (check|system)|moderation"),
)
"""Prose is looked at only for a 4xx whose code says nothing."""

_COUNT = r"(?<![-\w.])(\d[\d,]{2,14})(?!\w)"
_MOST = (
    rf"> ?{_COUNT}",
    rf"{_COUNT} maximum",
    rf"(?:max|limit|allowed|available|context)(?:(?! by )\D){{0,60}}?{_COUNT}",
)
"""How the number of tokens is told that would have fitted, the most telling way first."""


def classify(
    message: str,
    /,
    *,
    status: int | None = None,
    codes: tuple[str | int | None, ...] = (),
    retry_after: float | None = None,
    tokens: int | None = None,
    limit: int | None = None,
) -> ProviderError:
    """The typed error of a provider's answer: by code, then status; by prose where these say nothing.

    `codes` are the provider's own words for it, most telling first (code, then type).

    >>> error = classify("busy", status=529, codes=("overloaded_error",))
    >>> type(error).__name__, error.retry, error.code
    ('Overloaded', True, 'overloaded_error')
    """
    words = [str(code) for code in codes if code not in (None, "")]
    if status is None or status < 400:
        status = next((known for word in words if (known := _status_of(word))), status)
    kind, facts = _kind(message, status, words)
    if status == 402 and retry_after is not None:
        facts = {}  # OpenRouter's budget in flight: it comes back (2026-08)
    code = next((word for word in words if word != str(status)), str(status) if words else None)
    flat: dict[str, Any] = {"status": status, "code": code, "retry_after": retry_after, **facts}
    if kind is ContextTooLong:
        told_tokens, told_limit = _token_numbers(message)
        return ContextTooLong(message, tokens=tokens or told_tokens, limit=limit or told_limit, **flat)
    return kind(message, **flat)


def _token_numbers(message: str) -> tuple[int | None, int | None]:
    """How many tokens there were, and how many would have fitted."""
    found = next((found for way in _MOST if (found := re.search(way, message, re.IGNORECASE))), None)
    if found is None:
        return None, None
    limit = _number(found[1])
    told = [_number(count) for count in re.findall(_COUNT, message)]
    told += [_number(a) + _number(b) for a, b in re.findall(rf"{_COUNT} \+ {_COUNT} >", message)]
    return (most if (most := max(told)) > limit else None), limit


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _status_of(word: str) -> int | None:
    if len(word) == 3 and word.isdecimal() and 400 <= int(word) <= 599:
        return int(word)
    return _STATUS_OF_TYPE.get(word.lower())


def _kind(message: str, status: int | None, words: list[str]) -> tuple[type[ProviderError], dict[str, bool]]:
    for word in words:
        found = _BY_CODE.get(word.lower())
        # Groq calls one request that is larger than a minute's tokens a rate limit: waiting cannot help (2026-08).
        if found and not (status == 413 and found[0] is RateLimited):
            return found
    if status is not None and 400 <= status < 500 and status not in (401, 402, 429):
        for kind, pattern in _BY_PROSE:
            if re.search(pattern, message, re.IGNORECASE):
                return kind, {}
    return _BY_STATUS.get(status or 0, (ServerFault, {}))
