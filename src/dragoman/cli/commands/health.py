"""`dragoman health`: the targets of a running gateway and their state."""

import os
from argparse import Namespace

import msgspec

from dragoman.cli import terminal
from dragoman.engine.effects import Send
from dragoman.errors import ConnectFailed, DragomanError
from dragoman.http import HttpRequest, split_base_url
from dragoman.io.transport import make_transport
from dragoman.targets.provider import clean_key
from dragoman.types import JsonObject, is_object

TIMEOUT = 10.0
MAX_REPORT = 1 << 20


def run(arguments: Namespace, /) -> int:
    """Print the health report of a gateway."""
    report = fetch_report(arguments)
    if arguments.json:
        terminal.write_json(report)
        return 0
    rows = [(name, *_columns(target)) for name, target in _targets(report).items()]
    terminal.write_table(rows)
    if not rows:
        terminal.note("The gateway has not called any target yet.")
    return 0


def fetch_report(arguments: Namespace, /) -> JsonObject:
    """Fetch `/health` of a running gateway."""
    base = arguments.gateway or os.environ.get("DRAGOMAN_GATEWAY") or "http://127.0.0.1:8080"
    origin, path = split_base_url(base)
    key = clean_key(os.environ.get("DRAGOMAN_KEY", ""), "DRAGOMAN_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    request = HttpRequest(method="GET", path=f"{path}/health", origin=origin, headers=headers)
    try:
        http_response = make_transport().send(Send(request, TIMEOUT, TIMEOUT, MAX_REPORT))
    except ConnectFailed as error:
        raise ConnectFailed(
            f"no gateway runs at {request.redacted().origin}; start one with dragoman serve, or pass --gateway URL"
        ) from error
    try:
        report = msgspec.json.decode(http_response.body)
    except msgspec.DecodeError:
        report = None
    if http_response.status != 200 or not is_object(report):
        hint = "; set DRAGOMAN_KEY to an admin key" if http_response.status in (401, 403) else ""
        raise DragomanError(f"{request.redacted().url} answered {http_response.status}{hint}")
    return report


def target_states(arguments: Namespace, /) -> dict[str, str]:
    """Each target that a gateway has called, with its state as text."""
    return {name: " ".join(_columns(target)).strip() for name, target in _targets(fetch_report(arguments)).items()}


def _targets(report: JsonObject) -> dict[str, JsonObject]:
    targets = report.get("targets")
    return {name: target for name, target in targets.items() if is_object(target)} if is_object(targets) else {}


def _columns(target: JsonObject) -> tuple[str, str, str]:
    remaining, latency = target.get("seconds_left"), target.get("last_latency")
    is_out = target.get("state") != "healthy" and remaining is not None
    detail = f"for {remaining} s: {target.get('reason')}" if is_out else ""
    return str(target.get("state", "?")), "" if latency is None else f"{latency:.2f} s", detail
