"""`dragoman translate`: convert a file from one dialect to another, offline."""

import sys
from argparse import Namespace

from msgspec.structs import replace

from dragoman.cli import terminal
from dragoman.cli.defaults import open_registry
from dragoman.cli.input_files import read_bytes
from dragoman.cli.parser import UsageError
from dragoman.cli.translation import CANONICAL, RequestPayload, StreamPayload, Translation, decode, encode
from dragoman.targets.target import Target


def run(arguments: Namespace, /) -> int:
    """Translate one file or stdin."""
    target = _target(arguments)
    data = read_bytes(arguments.file)
    if not data.strip():
        raise UsageError(f"{'stdin' if arguments.file == '-' else arguments.file} is empty")
    model = "model" if target is None else target.model
    payload = decode(data, arguments.source, kind=arguments.kind, model=model, status=arguments.status)
    if isinstance(payload, RequestPayload) and arguments.stream:
        payload = RequestPayload(payload.model, replace(payload.request, stream=True))
    result = encode(payload, arguments.target, target=target if isinstance(payload, RequestPayload) else None)
    _write(result, as_json=arguments.json)
    error = payload.error if isinstance(payload, StreamPayload) else None
    if error is not None:
        terminal.fail(f"the stream ends with an error: {terminal.describe_error(error)}")
    return 0 if error is None else 1


def _target(arguments: Namespace) -> Target | None:
    if arguments.model is None:
        return None
    if arguments.target == CANONICAL:
        raise UsageError("-m cannot be used with --to canonical, which has no target")
    target = open_registry(arguments).targets(arguments.model)[0]
    if target.wire != arguments.target:
        raise UsageError(f"{target.name} speaks {target.wire}; use --to {target.wire}")
    return target


def _write(result: Translation, *, as_json: bool) -> None:
    if as_json:
        text = result.data.decode("utf-8", "replace")
        terminal.write_json({"request_line": result.request_line, "data": text, "notices": result.notices})
        return
    if result.request_line is not None:
        terminal.note(result.request_line)
    terminal.note_notices(result.notices)
    sys.stdout.buffer.write(result.data)
    sys.stdout.flush()
