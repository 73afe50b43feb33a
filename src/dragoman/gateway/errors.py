"""What the gateway itself says no to, as errors of the one tree: every dialect can say them."""

from collections.abc import Sequence

from dragoman.errors import AuthFailed, DragomanError, InvalidRequest, Overloaded, RequestError

MAX_HEADERS = 64 * 1024
"""Bytes that the head of a request may have."""
MAX_DRAINED = 64 * 1024 * 1024
"""Bytes beyond the limit that are read for nothing: many clients hear no answer before all of their body is sent."""


class NoRoute(RequestError):
    """Nobody answers at that path.

    >>> NoRoute("nothing at /v2").http_status
    404
    """

    http_status = 404


class NotStored(RequestError):
    """An earlier answer is asked for that is not kept, or not for this key.

    >>> NotStored("no response 'resp_1' is kept here").http_status
    404
    """

    http_status = 404


class UnknownPreviousResponse(RequestError):
    """A request goes on from an earlier answer that is not kept, or not for this key; OpenAI's own code for it.

    >>> UnknownPreviousResponse("no response 'resp_1' is kept here").code
    'previous_response_not_found'
    """

    param = "previous_response_id"

    def __init__(self, message: str, /) -> None:
        super().__init__(message, code="previous_response_not_found")


class NoModelNamed(RequestError):
    """Neither a model nor a tier is named, and there is none for those who name none.

    >>> NoModelNamed("say which").param
    'model'
    """

    param = "model"


class WrongMethod(RequestError):
    """The path is known, the method is not; the headers say which are.

    >>> WrongMethod("POST only", methods=("POST",)).headers
    (('allow', 'POST'),)
    """

    http_status = 405

    def __init__(self, message: str, /, *, methods: Sequence[str]) -> None:
        super().__init__(message)
        self.headers = (("allow", ", ".join(methods)),)


class Forbidden(AuthFailed):
    """The key is known, and may not do this.

    >>> Forbidden("no model 'groq/*' for this key").http_status
    403
    """

    http_status = 403


class BodyTooLarge(InvalidRequest):
    """More bytes than the gateway takes.

    >>> BodyTooLarge("40 MiB").http_status
    413
    """

    http_status = 413


class HeadTooLarge(InvalidRequest):
    """More bytes of headers than the gateway takes.

    >>> HeadTooLarge("200 kB").http_status
    431
    """

    http_status = 431


class UnknownEncoding(InvalidRequest):
    """The body was packed in a way that the gateway does not read.

    >>> UnknownEncoding("br").http_status
    415
    """

    http_status = 415


class BodyTooSlow(InvalidRequest):
    """The body did not come in time.

    >>> BodyTooSlow("60 s").http_status
    408
    """

    http_status = 408


class Stopping(Overloaded):
    """The gateway finishes what it has, and takes nothing more.

    >>> Stopping("stopping").http_status
    503
    """


class Busy(Overloaded):
    """As many requests are under way as the gateway bears.

    >>> Busy("1000 requests are under way", retry_after=1.0).http_status
    503
    """


class InternalFault(DragomanError):
    """A mistake of our own.

    >>> InternalFault("the gateway failed").http_status
    500
    """
