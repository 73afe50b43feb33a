"""The walk of one request through the package is short: few files, each once down and once up.

`pytest tests/test_walk.py -s` prints it; ARCHITECTURE.md shows it.
"""

from dragoman.testing import FaultyServer
from tests.support.walk import Walk, walk_of

LIBRARY = (22, 90)
"""Files, and changes from file to file, of a plain call."""


def within(walk: Walk, files: int, changes: int) -> None:
    print(f"\n{walk}")
    assert len(walk.files) <= files, walk
    assert walk.changes <= changes, walk


def test_a_library_call() -> None:
    with FaultyServer("Hello!", repeat=True) as server:
        model = server.model("anthropic")
        within(walk_of(lambda: model.generate("hi")), *LIBRARY)
