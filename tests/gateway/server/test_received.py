"""Bytes that arrive in pieces take about as much memory as there are, and come out as they went in."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.server.received import BLOCK, ReceivedBytes


@given(st.lists(st.sampled_from([0, 1, 100, BLOCK - 1, BLOCK, BLOCK + 1]), max_size=8))
def test_all_bytes_come_out_in_order(sizes: list[int]) -> None:
    received = ReceivedBytes()
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    for piece in pieces:
        received.append(piece)
    assert len(received) == sum(sizes)
    assert received.take() == b"".join(pieces)
    assert len(received) == 0
    assert received.take() == b""


@pytest.mark.parametrize("size", [2, 1000, BLOCK - 1, BLOCK, 3 * BLOCK])
def test_pieces_of_any_size_take_about_as_much_memory_as_they_have_bytes(size: int) -> None:
    received, total = ReceivedBytes(), 2 * 1024 * 1024
    tracemalloc.start()
    try:
        for _ in range(0, total, size):
            received.append(b"x" * size)
        taken, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(received) >= total
    assert taken < 1.2 * len(received)
    assert most < 1.2 * len(received) + 2 * (BLOCK + size)
