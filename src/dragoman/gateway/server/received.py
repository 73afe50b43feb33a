"""The bytes of a body or a message as they arrive, in blocks.

Neither of the simple ways holds about as much memory as there are bytes. A list of pieces takes ten times as much if a
client sends a few bytes at a time. A `bytearray` is moved as it grows: if many grow at the same time, each leaves
holes that fit nothing else, and 22 MiB of bodies took 40 MiB of the process. So small pieces are collected in a block
of `BLOCK` bytes, and a block that is full is never moved.
"""

BLOCK = 64 * 1024
"""Bytes of a block, at least."""


class ReceivedBytes:
    """Bytes that arrive in pieces of any size."""

    __slots__ = ("_blocks", "_last", "_size")

    def __init__(self) -> None:
        self._blocks: list[bytes | bytearray] = []
        self._last = bytearray()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes, /) -> None:
        """Some bytes have come."""
        self._size += len(data)
        if len(data) >= BLOCK:
            self._end_block()
            self._blocks.append(data)
            return
        self._last += data
        if len(self._last) >= BLOCK:
            self._end_block()

    def take(self) -> bytes:
        """All bytes; it is empty afterwards."""
        data = b"".join((*self._blocks, self._last))
        self.clear()
        return data

    def clear(self) -> None:
        """Forget all bytes."""
        self._blocks, self._last, self._size = [], bytearray(), 0

    def _end_block(self) -> None:
        if self._last:
            self._blocks.append(self._last)
            self._last = bytearray()
