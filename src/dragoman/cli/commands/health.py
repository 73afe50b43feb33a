"""`dragoman health`: the targets of a running gateway and their state."""

from argparse import Namespace

import msgspec

from dragoman.cli import terminal
from dragoman.cli.gateway_client import call_gateway
from dragoman.errors import DragomanError
from dragoman.types import JsonObject, is_object


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
    http_response = call_gateway(arguments, "GET", "/health")
    try:
        report = msgspec.json.decode(http_response.body)
    except msgspec.DecodeError:
        report = None
    if not is_object(report):
        raise DragomanError("the answer is not a health report; set --gateway to the URL of a dragoman gateway")
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
