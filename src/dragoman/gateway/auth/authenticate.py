"""A request in, whose it is out: where clients of each dialect put their keys."""

from urllib.parse import parse_qs

from dragoman.errors import AuthFailed, InvalidRequest
from dragoman.gateway.auth.api_keys import Key, Keys
from dragoman.gateway.errors import Forbidden
from dragoman.http import HttpRequest

WAYS = "Authorization: Bearer, x-api-key, x-goog-api-key, or ?key="


def identify(http: HttpRequest, keys: Keys, /) -> Key | None:
    """The key of a request; None where the gateway has no keys, and so asks for none.

    >>> identify(HttpRequest(method="GET", path="/v1/models"), Keys()) is None
    True
    """
    if not keys.all:
        return None
    plain = presented(http)
    if not plain:
        raise AuthFailed(f"no key; send one as {WAYS}")
    key = keys.check(plain)
    if key is None:
        raise AuthFailed("the key is not known to this gateway")
    return key


def identify_operator(http: HttpRequest, keys: Keys, /) -> Key | None:
    """As `identify`, where only keys with `admin = true` may.

    >>> identify_operator(HttpRequest(method="GET", path="/metrics"), Keys()) is None
    True
    """
    key = identify(http, keys)
    if key is not None and not key.admin:
        raise Forbidden(f"the key {key.id!r} is no operator's; that takes admin = true in the config")
    return key


def presented(http: HttpRequest, /) -> str | None:
    """The key that a request has with it.

    >>> presented(HttpRequest(method="GET", path="/v1beta/models?key=k1"))
    'k1'
    """
    headers = http.headers
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    told = headers.get("x-api-key") or headers.get("x-goog-api-key")
    if told or "?" not in http.path:
        return told
    return next(iter(parse_qs(http.path.partition("?")[2]).get("key", ())), None)


def check_name(name: str, /) -> None:
    """Refuse what is no name of a model, before it stands in a log or is sent anywhere.

    >>> check_name("groq/llama")
    """
    if not name.isprintable():
        error = InvalidRequest(f"model: {name[:200]!r} has characters that no name has")
        error.param = "model"
        raise error


def check_model(key: Key | None, name: str, /) -> None:
    """Refuse what a key may not ask for.

    >>> check_model(None, "groq/llama")
    """
    if key is not None and not all(key.may_use(element.strip()) for element in name.split(",")):
        raise Forbidden(f"the key {key.id!r} may not ask for {name[:200]!r}")
