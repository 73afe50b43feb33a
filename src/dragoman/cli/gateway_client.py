"""Calls of a running gateway, for the commands that work on one."""

import os
import ssl
from argparse import Namespace

import msgspec

from dragoman.engine.effects import Send
from dragoman.errors import ConnectFailed, DragomanError
from dragoman.http import HttpRequest, HttpResponse, split_base_url
from dragoman.io.transport import make_transport
from dragoman.targets.provider import clean_key
from dragoman.types import is_object

TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0


def call_gateway(
    arguments: Namespace, method: str, path: str, body: bytes = b"", /, *, max_answer: int = 1 << 20
) -> HttpResponse:
    """Call the gateway of `--gateway` with the key in DRAGOMAN_KEY; an answer with an error status raises."""
    base = arguments.gateway or os.environ.get("DRAGOMAN_GATEWAY") or "http://127.0.0.1:8080"
    origin, prefix = split_base_url(base)
    key = clean_key(os.environ.get("DRAGOMAN_KEY", ""), "DRAGOMAN_KEY")
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    request = HttpRequest(method=method, path=f"{prefix}{path}", origin=origin, headers=headers, body=body)
    try:
        response = make_transport().send(Send(request, TIMEOUT, CONNECT_TIMEOUT, max_answer))
    except ConnectFailed as error:
        if isinstance(error.__cause__, ssl.SSLError):
            hint = "set SSL_CERT_FILE to a PEM file with your own certificate authorities"
            raise ConnectFailed(f"{error}; {hint}") from error
        raise ConnectFailed(
            f"no gateway runs at {request.redacted().origin}; start one with dragoman serve, or pass --gateway URL"
        ) from error
    if response.status >= 300:
        hint = "; set DRAGOMAN_KEY to a key with the role admin" if response.status in (401, 403) else ""
        message = _message(response) or f"{request.redacted().url} answered {response.status}"
        raise DragomanError(f"{message}{hint}")
    return response


def _message(response: HttpResponse) -> str | None:
    """What the gateway says about an error."""
    try:
        answer = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        return None
    error = answer.get("error") if is_object(answer) else None
    message = error.get("message") if is_object(error) else None
    return message if isinstance(message, str) else None
