"""Errors of the gateway itself, and how every error is shown to a client.

They belong to the tree of `dragoman.errors`, so every dialect can encode them.
"""

import logging
import re
from collections.abc import Sequence

from dragoman.errors import (
    AuthFailed,
    ChainExhausted,
    DragomanError,
    Interrupted,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestError,
    ServerFault,
    SetupError,
    TransportError,
    WireError,
)
from dragoman.gateway.observability.access_log import traceback_text
from dragoman.http import redact_url
from dragoman.wires.common.errors import URL_PATTERN, is_out_of_credit, shorten

log = logging.getLogger("dragoman.gateway")


class NoRoute(RequestError):
    """The gateway has no such path."""

    http_status = 404


class NotStored(RequestError):
    """No response with this id is stored for this key."""

    http_status = 404


class NameNotFound(RequestError):
    """The admin API has nothing with this name."""

    http_status = 404


class NameTaken(RequestError):
    """The name of something new is in use."""

    http_status = 409


class UnknownPreviousResponse(RequestError):
    """A request continues from a response that is not stored for this key; the code is OpenAI's."""

    def __init__(self, message: str, /, *, field: str) -> None:
        super().__init__(message, code="previous_response_not_found", param=field)


class NoWebSocket(RequestError):
    """A client asked for a WebSocket; the status lets it try plain HTTP at once."""

    http_status = 426


class NoModelNamed(RequestError):
    """The request names neither a model nor a tier, and there is no default tier."""

    param = "model"


class WrongMethod(RequestError):
    """The path exists, but not for this method."""

    http_status = 405

    def __init__(self, message: str, /, *, methods: Sequence[str]) -> None:
        super().__init__(message)
        self.headers = (("allow", ", ".join(methods)),)


class Forbidden(AuthFailed):
    """The key is known, but may not do this."""

    http_status = 403


class BodyTooLarge(InvalidRequest):
    """The body is larger than `max_body`."""

    http_status = 413


class HeadTooLarge(InvalidRequest):
    """The headers are too large."""

    http_status = 431


class UnknownEncoding(InvalidRequest):
    """The body has a content-encoding that the gateway cannot read."""

    http_status = 415


class BodyTooSlow(InvalidRequest):
    """The body did not arrive within `body_timeout`."""

    http_status = 408


class Stopping(Overloaded):
    """The gateway is shutting down."""


class Busy(Overloaded):
    """`max_requests` requests are in progress."""


class AccountRefused(ServerFault):
    """A provider refused the key or the account of the gateway. Its operator can change that; the client cannot."""


class InternalFault(DragomanError):
    """A bug in the gateway."""


def to_dragoman_error(error: Exception, request_id: str, /) -> DragomanError:
    """The error itself if it is one of ours, or AccountRefused if it is about the key that the gateway has.

    Anything else is a bug: it goes to the log, and clients get no details. Afterwards the error has no traceback.
    """
    try:
        if isinstance(error, DragomanError) and not isinstance(error, SetupError):
            return _as_account_refused(error)
        if isinstance(error, RecursionError):
            return InvalidRequest("the body is nested too deep")
        # Not the message: it may quote the request.
        log.error("request %s failed: %s", request_id, traceback_text(error))
        return InternalFault("internal error; the log of the gateway has the details")
    finally:
        _drop_frames(error)


def _drop_frames(error: BaseException) -> None:
    """Remove the tracebacks of an error and of those that caused it.

    A frame of a traceback holds the error, which holds the traceback. So the body of the request, and what was made of
    it, would stay in memory until the next garbage collection, and many requests that fail would fill it.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]


def to_client_error(error: DragomanError, request_id: str, /) -> DragomanError:
    """The error as a client may see it: without addresses of providers, and with the id of the request.

    If a stream was interrupted, it has the type of what interrupted it.
    """
    cause = error.__cause__
    if isinstance(error, Interrupted) and isinstance(cause, DragomanError):
        # Not the cause itself: its message is the provider's, and may contain a key.
        error = type(cause)(
            error.message,
            provider=error.provider,
            model=error.model,
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
            retry=cause.retry,
        )
        error = _as_account_refused(error)
    message = error.message
    if isinstance(error, TransportError | WireError | Interrupted | ChainExhausted | ModelNotFound):
        message = re.sub(URL_PATTERN, "[address]", message)
    elif isinstance(error, ProviderError):
        message = re.sub(URL_PATTERN, _without_credentials, message)
    if not isinstance(error, RequestError | ChainExhausted):
        message = shorten(message)
    return error.annotate(message=message, request_id=request_id)


def _refuses_account(error: DragomanError) -> bool:
    """Whether a provider refused the key or the account of the gateway; errors of the gateway have no provider."""
    if error.provider is None:
        return False
    cause = error.__cause__ if isinstance(error, ChainExhausted) else None
    last = cause if isinstance(cause, RateLimited) else error
    return isinstance(error, AuthFailed) or is_out_of_credit(last)


def _as_account_refused(error: DragomanError) -> DragomanError:
    """AccountRefused if a provider refused the key or the account of the gateway; any other error as it is."""
    if not _refuses_account(error):
        return error
    # Not the provider's message if there is one target: it says "your key", and clients would take it for theirs.
    reason = (
        "the provider has no credit for the gateway"
        if isinstance(error, RateLimited)
        else "the provider refused the gateway's key"
    )
    target = f"{error.provider}/{error.model}" if error.model else error.provider
    message = error.message if isinstance(error, ChainExhausted) else f"{target}: {reason} (HTTP {error.status})"
    if error.status is None:
        message = f"{target}: the gateway has no key for this provider"
    refused = AccountRefused(
        message, provider=error.provider, model=error.model, status=error.status, usage=error.usage
    )
    refused.__cause__ = error
    return refused.annotate(attempts=error.attempts)


def _without_credentials(url: "re.Match[str]") -> str:
    return redact_url(url[0].replace("[redacted]@", ""))
