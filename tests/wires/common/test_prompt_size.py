"""Whether a prompt has more text than the reported tokens can hold."""

import time
import tracemalloc

import pytest

from dragoman.types import Request, Text, Usage, user
from dragoman.wires.common.prompt_size import is_cut_prompt, is_longer


@pytest.mark.parametrize(
    ("request_", "tokens", "is_cut"),
    [
        pytest.param(Request(system="ab" * 6000), 999, True, id="one character more than fits"),
        pytest.param(Request(system="ab" * 6000), 1000, False, id="as many as fit"),
        pytest.param(Request(system="a" * 100_000), 10, False, id="one run"),
        pytest.param(Request(messages=50_000 * (user(Text("a")),)), 10, False, id="a run in many texts"),
        pytest.param(Request(messages=50_000 * (user(Text("ab")),)), 8000, True, id="many short texts"),
        pytest.param(Request(system=(Text("ab" * 3000), Text("cd" * 3000))), 999, True, id="several system texts"),
        pytest.param(Request(system="a" * 3_000_000 + "bc" * 3000), 10, False, id="the rest of a very long prompt"),
    ],
)
def test_a_prompt_is_compared_with_its_tokens(request_: Request, tokens: int, *, is_cut: bool) -> None:
    assert is_longer(request_, tokens) is is_cut


@pytest.mark.parametrize(
    ("usage", "is_cut"),
    [
        (Usage(input=10), True),
        (Usage(input=0, cache_read=10), True),
        (Usage(input=10, cache_read=1000), False),
        (Usage(input=0), False),
        (Usage(input=None, cache_read=10), False),
    ],
)
def test_only_a_server_that_counts_the_prompt_shows_a_cut(usage: Usage, *, is_cut: bool) -> None:
    assert is_cut_prompt(Request(system="ab" * 6000), usage) is is_cut


def test_a_very_long_prompt_is_not_copied() -> None:
    request = Request(messages=(user("aabbccdd" * 4_000_000),))
    tracemalloc.start()
    started = time.process_time()
    try:
        assert not is_longer(request, 1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert time.process_time() - started < 5
