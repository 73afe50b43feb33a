"""A file of one dialect in, the same in another one out; what was bent is said on stderr."""

import sys
from argparse import Namespace

from msgspec.structs import replace

from dragoman.cli import terminal as screen
from dragoman.cli.defaults import open_registry
from dragoman.cli.input_files import read_bytes
from dragoman.cli.parser import UsageError
from dragoman.cli.translation import CANONICAL, Streamed, TranslatedRequest, Translation, read, write
from dragoman.targets.target import Target


def run(arguments: Namespace, /) -> int:
    """Translate one file, or what is piped in."""
    target = _target(arguments)
    data = read_bytes(arguments.file)
    if not data.strip():
        raise UsageError(f"nothing in {'stdin' if arguments.file == '-' else arguments.file}")
    named = "model" if target is None else target.model
    said = read(data, arguments.source, kind=arguments.kind, model=named, status=arguments.status)
    if isinstance(said, TranslatedRequest) and arguments.stream:
        said = TranslatedRequest(said.model, replace(said.request, stream=True))
    made = write(said, arguments.target, target=target if isinstance(said, TranslatedRequest) else None)
    _show(made, as_json=arguments.json)
    broken = said.error if isinstance(said, Streamed) else None
    if broken is not None:
        screen.fail(f"the stream ends with an error: {screen.told(broken)}")
    return 0 if broken is None else 1


def _target(arguments: Namespace) -> Target | None:
    if arguments.model is None:
        return None
    if arguments.target == CANONICAL:
        raise UsageError("-m is who a request is fitted to, and canonical is fitted to nobody")
    target = open_registry(arguments).targets(arguments.model)[0]
    if target.wire != arguments.target:
        raise UsageError(f"{target.name} speaks {target.wire}; write --to {target.wire}")
    return target


def _show(made: Translation, *, as_json: bool) -> None:
    if as_json:
        text = made.data.decode("utf-8", "replace")
        screen.write_json({"place": made.place, "data": text, "notices": made.notices})
        return
    if made.place is not None:
        screen.note(made.place)
    screen.note_notices(made.notices)
    sys.stdout.buffer.write(made.data)
    sys.stdout.flush()
