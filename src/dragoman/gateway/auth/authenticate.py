"""Finds the API key of a request, wherever the clients of each dialect put it, and checks what it may do."""

import re
import time
from urllib.parse import parse_qs

from dragoman.errors import AuthFailed, InvalidRequest, ModelNotFound
from dragoman.gateway.auth.api_keys import Key, Keys
from dragoman.gateway.errors import Forbidden
from dragoman.http import HttpRequest

KEY_HEADERS = "Authorization: Bearer, x-api-key, x-goog-api-key, api-key, the key id of a signature of AWS, or ?key="
MAX_MODEL_NAME = 2048
"""Characters of a model's name."""


def identify(http: HttpRequest, keys: Keys, /) -> Key | None:
    """The key of a request; None if the gateway has no keys."""
    if not keys.all:
        return None
    plain = sent_key(http)
    if not plain:
        raise AuthFailed(f"no API key; send one as {KEY_HEADERS}")
    key = keys.check(plain)
    if key is None:
        raise AuthFailed("unknown API key")
    if (reason := key.refusal(time.time())) is not None:
        raise AuthFailed(reason)
    return key


def check_operator(key: Key | None, /) -> None:
    """Raise Forbidden if the key is not an operator's; a gateway without keys has only operators."""
    if key is not None and not key.may_view:
        raise Forbidden(f"key {key.id!r} is not an operator's; set its role to admin or viewer")


def sent_key(http: HttpRequest, /) -> str | None:
    """The key that a client sent, in plain text."""
    headers = http.headers
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    if kind == "AWS4-HMAC-SHA256" and (match := re.match(r"\s*Credential=([^/,\s]+)/", token)):
        # The signature cannot be verified: only the hash of a key is stored. So the id is the key.
        return match[1]
    key = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers.get("api-key")
    if key or "?" not in http.path:
        return key
    return next(iter(parse_qs(http.path.partition("?")[2]).get("key", ())), None)


def check_name(name: str, /) -> None:
    """Raise an error if a model's name is too long, or could not be logged or sent."""
    if len(name) > MAX_MODEL_NAME:  # before anything else: names are searched for keys, and cached
        raise ModelNotFound(f"model must have at most {MAX_MODEL_NAME} characters, got {len(name)}", fail_over=False)
    if not name.isprintable():
        raise InvalidRequest(f"model must have only printable characters, got {name[:200]!r}", param="model")


def check_model(key: Key | None, name: str, full: str = "", /) -> None:
    """Raise Forbidden if a key may not use a model; `name` may list several, and `full` has its provider."""
    if key is None or (full and "," not in full and key.may_use(full)):  # `*` of a pattern matches commas, too
        return
    if not all(key.may_use(element.strip()) for element in name.split(",")):
        raise Forbidden(f"key {key.id!r} may not use {name[:200]!r}")
