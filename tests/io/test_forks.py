"""Forks are counted without a system call per request."""

import os

import pytest

from dragoman.gateway.request import new_request_id
from dragoman.io.forks import FORKS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_child(work: object) -> str:
    """What a function returns in a forked child."""
    assert callable(work)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(work()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


def test_a_child_counts_one_more_fork() -> None:
    before = FORKS.count
    assert in_child(lambda: FORKS.count) == str(before + 1)
    assert FORKS.count == before


def test_a_child_has_request_ids_of_its_own() -> None:
    prefix = slice(0, -8)
    assert in_child(new_request_id)[prefix] != new_request_id()[prefix]
    assert new_request_id()[prefix] == new_request_id()[prefix]
