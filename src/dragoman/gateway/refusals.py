"""What the gateway itself says no to, as errors of the one tree: every dialect can say them."""

from dragoman.errors import AuthFailed, DragomanError, InvalidRequest, Overloaded, RequestError


class NoRoute(RequestError):
    """Nobody answers at that path.

    >>> NoRoute("nothing at /v2").http_status
    404
    """

    http_status = 404


class NotKept(RequestError):
    """An earlier answer is asked for that is not kept, or not for this key.

    >>> NotKept("no response 'resp_1' is kept here").http_status
    404
    """

    http_status = 404


class WrongMethod(RequestError):
    """The path is known, the method is not.

    >>> WrongMethod("POST only").http_status
    405
    """

    http_status = 405


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


class BodyTooSlow(InvalidRequest):
    """The body did not come in time.

    >>> BodyTooSlow("60 s").http_status
    408
    """

    http_status = 408


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
