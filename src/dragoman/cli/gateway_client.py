"""Calls of a running gateway, for the commands that work on one."""

import os
import socket
import ssl
import time
from argparse import Namespace
from urllib.parse import urlsplit

import msgspec

from dragoman.cli.gateway_config import gateway_url
from dragoman.engine.effects import Send
from dragoman.errors import ConnectFailed, DragomanError
from dragoman.gateway.server.start_checks import is_loopback
from dragoman.http import HttpRequest, HttpResponse, split_base_url
from dragoman.io.transport import make_transport
from dragoman.targets.provider import clean_key
from dragoman.types import is_object

TIMEOUT = 60.0
START_WAIT = 3.0
START_CHECK = 0.1
"""Seconds to wait for a gateway that starts, and between two checks."""
CONNECT_TIMEOUT = 10.0


def call_gateway(
    arguments: Namespace, method: str, path: str, body: bytes = b"", /, *, max_answer: int = 1 << 20
) -> HttpResponse:
    """Call the gateway of `--gateway` with the key in DRAGOMAN_KEY; an answer with an error status raises."""
    origin, prefix = split_base_url(gateway_url(arguments))
    key = clean_key(os.environ.get("DRAGOMAN_KEY", ""), "DRAGOMAN_KEY")
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    request = HttpRequest(method=method, path=f"{prefix}{path}", origin=origin, headers=headers, body=body)
    try:
        response = make_transport().send(Send(request, TIMEOUT, CONNECT_TIMEOUT, max_answer))
    except ConnectFailed as error:
        if isinstance(error.__cause__, ssl.SSLError):
            hint = (
                "set SSL_CERT_FILE to a PEM file with your own certificate authorities, "
                "and DRAGOMAN_GATEWAY to the URL with the name of the certificate"
            )
            raise ConnectFailed(f"{error}; {hint}") from error
        raise ConnectFailed(
            f"no gateway runs at {request.redacted().origin}; start one with dragoman serve, or pass --gateway URL"
        ) from error
    if response.status >= 300:
        kind = "with the role admin" if path.startswith("/admin/") else "of this gateway"
        hint = f"; set DRAGOMAN_KEY to a key {kind}" if response.status in (401, 403) else ""
        message = _message(response) or f"{request.redacted().url} answered {response.status}"
        if response.status == 401 and not key:
            message = f"the gateway at {request.redacted().origin} needs a key"
        raise DragomanError(f"{message}{hint}")
    return response


def wait_for_gateway(arguments: Namespace, /) -> None:
    """Wait for a moment if no gateway listens on this machine yet: `dragoman serve &` may still be starting."""
    parts = urlsplit(gateway_url(arguments))
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if parts.hostname is None or not is_loopback(parts.hostname):
        return
    end = time.monotonic() + START_WAIT
    while True:
        try:
            socket.create_connection((parts.hostname, port), CONNECT_TIMEOUT).close()
        except OSError:
            if time.monotonic() >= end:
                return
            time.sleep(START_CHECK)
        else:
            return


def _message(response: HttpResponse) -> str | None:
    """What the gateway says about an error."""
    try:
        answer = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        return None
    error = answer.get("error") if is_object(answer) else None
    message = error.get("message") if is_object(error) else None
    return message if isinstance(message, str) else None
