"""The errors of a call.

DragomanError
 ├ RequestError      the request is wrong, and was not sent
 │  └ Unsupported, InvalidRequest, InvalidTool
 ├ ProviderError     the provider answered with an error
 │  └ AuthFailed, RateLimited, Overloaded, ContextTooLong, Blocked, ModelNotFound,
 │    BadRequest (and RequestTooLarge, a BadRequest), ServerFault
 ├ WireError         the response broke the protocol
 │  └ Malformed, Truncated, TooLarge, MalformedToolCall
 ├ TransportError    there was no response
 │  └ ConnectFailed, Reset, TimedOut (also as ConnectTimeout and ReadTimeout)
 ├ EmptyResponse     the answer has no content
 ├ Interrupted       the stream broke after its first event; has .partial
 ├ OutputError       the answer does not fit the output type; has .text and .reasons
 ├ ToolLoop, MaxSteps, BudgetExceeded   the agent was stopped; has .result
 ├ StoreDown         the gateway cannot reach its store
 ├ SetupError        a provider, an alias, the config or an option of the chain is wrong
 └ ChainExhausted    every target failed or was skipped; has .attempts
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, Unpack

if TYPE_CHECKING:
    from dragoman.types import Attempt, Response, Usage


_KEY = (
    r"\b(?:sk|rk|gsk|csk|xai|hf|nvapi|tgp|pplx)[-_][-_A-Za-z0-9*.]{6,}"
    r"|\b(?:pk|key|fw|r8)[-_](?=[-_A-Za-z*.]*\d)[-_A-Za-z0-9*.]{6,}"
    r"|\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-)[-_A-Za-z0-9]{10,}"
    r"|\bAIza[-_A-Za-z0-9*]{8,}|\bAKIA[A-Z0-9]{8,}|\beyJ[-_A-Za-z0-9]{8,}\.[-_.A-Za-z0-9]+"
    r"|(?<=://)(?!\[token@)[^\s/@\"']+(?=@)"
    r"|(?i:(?<=bearer )|(?<=[?&]key=)|(?<=api[-_ ]key: )|(?<=api[-_ ]key=)|(?<=key provided: ))"
    r"(?=[^\s\"'&,;]*\d)[^\s\"'&,;]{6,}"
)
"""Matches the key formats of providers, the user part of a URL, and a text with a digit after `Bearer` and the like."""
MAX_ERROR_MESSAGE = 20_000
"""Characters of an error's message: it may quote what a client or a provider sent, and is searched for keys."""


def redact(text: str, /) -> str:
    """A text without keys: providers repeat them in error messages, and a URL may hold one.

    >>> redact("Incorrect API key provided: sk-proj-12345678")
    'Incorrect API key provided: [redacted]'
    """
    _check_text("text", text)
    return re.sub(_KEY, "[redacted]", text)


def explain_validation(error: Exception, /) -> tuple[str, str]:
    """The path of a field that msgspec refused, and what is wrong with it.

    >>> explain_validation(ValueError("Expected `int | null`, got `str` - at `$.port`"))
    ('.port', 'must be int, got str')
    """
    text = str(error).replace("`", "").replace(" - at key in $", " - at $")
    reason, _, path = text.partition(" - at $")
    for start, after in _VALIDATION_MESSAGES:
        if reason.startswith(start):
            rest = reason.removeprefix(start)
            return (path, f"{after}{rest.replace(' | null', '')}") if after[-1] == " " else (f"{path}.{rest}", after)
    return path, f"is invalid: {reason}"


_VALIDATION_MESSAGES = (
    ("Expected ", "must be "),
    ("Object missing required field ", "is required"),
    ("Object contains unknown field ", "is not a known field"),
    ("Invalid enum value ", "must be a known value, got "),
    ("Invalid value ", "must be a known value, got "),
)


class _ErrorFacts(TypedDict, total=False):
    """What `DragomanError.annotate` can change."""

    message: str
    provider: str | None
    model: str | None
    code: str | None
    retry_after: float | None
    usage: "Usage | None"
    retry: bool
    count_failure: bool
    attempts: "tuple[Attempt, ...]"
    request_id: str | None
    rate_limits: Mapping[str, str]
    param: str | None
    result: Any
    partial: "Response | None"
    limit_name: str | None


def _wrong(parameter: str, expected: str, value: object) -> "InvalidRequest":
    return InvalidRequest(f"{parameter} must be {expected}, got {type(value).__name__}", param=parameter)


def _check_text(parameter: str, value: object, *, optional: bool = False) -> None:
    if not isinstance(value, str) and not (optional and value is None):
        raise _wrong(parameter, "a str or None" if optional else "a str", value)


def _check_number(parameter: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise _wrong(parameter, "a number or None", value)


def _check_flag(parameter: str, value: object, expected: str = "True or False") -> None:
    if value is not True and value is not False:
        raise _wrong(parameter, expected, value)


class DragomanError(Exception):
    """The base of all errors of a call. Its attributes decide whether to retry, to fail over, or to stop."""

    retry: bool = True
    """Whether the same target may succeed if it is called again."""
    fail_over: bool = True
    """Whether another target may succeed."""
    count_failure: bool = True
    """Whether it counts against the health of the target."""
    http_status: ClassVar[int] = 500
    """The HTTP status with which a gateway answers its client for an error of this class."""
    attempts: "tuple[Attempt, ...]" = ()
    """The targets that were tried or skipped, if there was a chain."""
    request_id: str | None = None
    """The provider's id of the HTTP request, which its support asks for. To its clients, a gateway shows its own."""
    rate_limits: Mapping[str, str] = MappingProxyType({})
    """The provider's headers about rate limits, by their lower-case names."""
    param: str | None = None
    """The field of the request that is wrong, if it is known."""
    result: Any = None
    """The result so far, if an agent ran."""

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
        param: str | None = None,
        retry: bool | None = None,
        fail_over: bool | None = None,
        count_failure: bool | None = None,
    ) -> None:
        _check_text("message", message)
        _check_text("code", code, optional=True)
        _check_text("provider", provider, optional=True)
        _check_text("model", model, optional=True)
        _check_text("param", param, optional=True)
        _check_number("retry_after", retry_after)
        _check_number("status", status)
        for name, flag in (("retry", retry), ("fail_over", fail_over), ("count_failure", count_failure)):
            if flag is not None:
                _check_flag(name, flag, "True, False or None")
        if len(message) > MAX_ERROR_MESSAGE:
            message = f"{message[:MAX_ERROR_MESSAGE]}… ({len(message) - MAX_ERROR_MESSAGE} more characters)"
        message = redact(message)
        super().__init__(message)
        self.message = message
        """What is wrong, without the name of the target; of a provider, its own text."""
        self.provider = provider
        """The provider that was called; of a chain, the last one."""
        self.model = model
        """The model that was called; of a chain, the last one."""
        self.status = status
        """The HTTP status that the provider answered; None if there was no answer."""
        self.code = None if code is None else redact(code)
        """The provider's own code of the error."""
        self.retry_after = retry_after
        """Seconds after which the provider, or a cooldown, allows another try."""
        self.usage = usage
        """The tokens that failed attempts used, if the provider reported them."""
        if param is not None:
            self.param = param
        self.retry = self.retry if retry is None else retry
        self.fail_over = self.fail_over if fail_over is None else fail_over
        self.count_failure = self.count_failure if count_failure is None else count_failure

    @property
    def target(self) -> str | None:
        """The target that failed, such as `groq/llama`, as in `Attempt.target`. None if it is not known.

        >>> DragomanError("busy", provider="groq", model="llama").target
        'groq/llama'
        """
        return None if self.provider is None or self.model is None else f"{self.provider}/{self.model}"

    def annotate(self, *, prefix: str = "", **facts: Unpack[_ErrorFacts]) -> Self:
        """Add what is known only after the error was created. Only this method changes an error.

        >>> str(DragomanError("no key").annotate(prefix="openai/gpt-5: ", model="gpt-5"))
        'openai/gpt-5: no key'
        """
        _check_text("prefix", prefix)
        vars(self).update(facts)
        if prefix or "message" in facts:
            self.args = (f"{prefix}{self.message}",)
        return self


class SetupError(DragomanError):
    """The set-up is wrong: an unknown provider or alias, an alias cycle, an invalid config or provider variable.

    So is a wrong value of an option about retries, time limits or failover, such as `retries=-1` or `timeout=-1`.
    """

    retry = False
    fail_over = False
    count_failure = False


class RequestError(DragomanError):
    """The request is wrong; it was not sent.

    In a run of an agent, earlier steps were sent. One case is `Budget(money=)` after a target whose price is not known.
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 400


class Unsupported(RequestError):
    """The target does not support something in the request; another may."""

    fail_over = True


class InvalidRequest(RequestError, ValueError):
    """The request, or a value in it, is wrong for every target."""


class InvalidTool(RequestError):
    """The definition of a tool is wrong."""


class ProviderError(DragomanError):
    """The provider answered with an error."""

    http_status = 502


class AuthFailed(ProviderError):
    """There is no key, or it is wrong or does not allow this; another target may have a better one."""

    retry = False
    count_failure = False
    http_status = 401


class RateLimited(ProviderError):
    """Too many requests, or no credit (then `retry` is False)."""

    http_status = 429


class Overloaded(ProviderError):
    """The provider has no capacity now."""

    http_status = 503


class ContextTooLong(ProviderError):
    """The prompt does not fit; `tokens` and `limit` are set if the provider reports them."""

    retry = False
    count_failure = False
    http_status = 400

    def __init__(self, message: str, *, tokens: int | None = None, limit: int | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.tokens = tokens
        """The tokens of the prompt, if the provider reports them."""
        self.limit = limit
        """The most tokens that the model takes, if the provider reports it."""


class Blocked(ProviderError):
    """A content filter or policy refused."""

    retry = False
    fail_over = False
    count_failure = False
    http_status = 400


class ModelNotFound(ProviderError):
    """The provider does not have the model; another target may."""

    retry = False
    count_failure = False
    http_status = 404


class BadRequest(ProviderError):
    """The provider says that the request is wrong."""

    retry = False
    fail_over = False
    count_failure = False
    http_status = 400


class RequestTooLarge(BadRequest):
    """The request has more bytes or tokens than the provider takes at once; another target may take it."""

    fail_over = True
    http_status = 413


class ServerFault(ProviderError):
    """An error in the provider, or an error that is not known."""


class WireError(DragomanError):
    """The response broke the protocol."""

    http_status = 502


class Malformed(WireError):
    """The response is not valid for the protocol."""


class Truncated(WireError):
    """The connection closed before the response was complete."""


class TooLarge(WireError):
    """The response is larger than the limit."""


class MalformedToolCall(WireError):
    """A tool call whose arguments are not a JSON object."""

    count_failure = False

    def __init__(self, message: str, *, id: str = "", name: str = "", text: str = "", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.id = id
        """The id of the call."""
        self.name = name
        """The name of the tool."""
        self.text = text
        """The arguments as the model wrote them."""


class TransportError(DragomanError):
    """There was no response."""

    http_status = 502


class ConnectFailed(TransportError):
    """No connection: refused, unknown host, bad certificate."""


class TimedOut(TransportError):
    """The response took too long; `limit_name` is the time limit that has passed, if it is known."""

    http_status = 504

    def __init__(self, message: str, *, limit_name: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.limit_name = limit_name
        """The time limit that has passed, such as `first_event`; None if it is not known."""


class ConnectTimeout(TimedOut):
    """No connection was made in time."""


class ReadTimeout(TimedOut):
    """The server accepted the connection and sent nothing, or nothing more, in time.

    `has_head` says whether the head of the answer (its status and headers) had come.
    """

    def __init__(self, message: str, *, has_head: bool = False, **facts: Any) -> None:
        super().__init__(message, **facts)
        _check_flag("has_head", has_head)
        self.has_head = has_head
        """Whether the status and the headers of the answer had come."""


class Reset(TransportError):
    """The connection broke."""


class EmptyResponse(DragomanError):
    """The answer has no content. This is rarely the fault of the target, so its health stays."""

    retry = False
    count_failure = False
    http_status = 502


class Interrupted(DragomanError):
    """The stream broke after its first event; `partial` is the response so far."""

    retry = False
    fail_over = False
    http_status = 502

    def __init__(self, message: str, *, partial: "Response | None" = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.partial = partial
        """The response so far; `partial.text` is the text that arrived."""


class OutputError(DragomanError):
    """The answer does not fit the output type; `reasons` say why."""

    retry = False
    fail_over = False
    count_failure = False
    http_status = 502

    def __init__(self, message: str, *, text: str = "", reasons: tuple[str, ...] = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.text = text
        """The answer of the model."""
        self.reasons = reasons
        """Why it does not fit: a place and a reason each."""


class _AgentStopped(DragomanError):
    retry = False
    fail_over = False
    count_failure = False

    def __init__(self, message: str, *, result: object = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.result = result


class ToolLoop(_AgentStopped):
    """The agent repeated the same tool calls, or its tool calls only failed; `result` is the result so far."""


class MaxSteps(_AgentStopped):
    """The agent used all its steps; `result` is the result so far."""


class BudgetExceeded(_AgentStopped):
    """The agent used all its tokens, money or seconds; `result` is the result so far."""


class StoreDown(DragomanError):
    """The gateway cannot reach its store."""

    fail_over = False
    count_failure = False
    http_status = 503


class ChainExhausted(DragomanError):
    """Every target failed or was skipped; `attempts` says why.

    It is also of the class that the errors of all targets share, such as `RateLimited`. You can catch it as either. A
    traceback shows the name of the shared class.
    """

    retry = False
    fail_over = False
    count_failure = False
    http_status = 503

    def __init__(self, message: str, *, attempts: "tuple[Attempt, ...]" = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.attempts = attempts
