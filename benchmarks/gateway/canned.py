"""The answers of the upstream: whole ones and streams, for two wires, as HTTP bytes prepared in advance."""

from msgspec.structs import replace

from benchmarks.samples import RESPONSE, stream
from dragoman import wires
from dragoman.types import Finish, Usage, assistant

QUICK, SLOW, BRIEF = 200, 50, 6
"""Pieces of text in a stream."""
TOGETHER = 1
"""Pieces that a quick stream writes at once: each by itself, as providers do."""
AT_FIRST = 4
"""Pieces that a brief stream writes at once: on every wire, the first text is among the first four."""
PATHS = {b"/v1/chat/completions": "openai_chat", b"/v1/messages": "anthropic"}

_TEXT = assistant("The tide is high at half past four, so she can enter the harbour then.")
_USAGE = Usage(input=200_000, output=20)
"""As many tokens as the longest request may have: fewer would say that the prompt was cut."""
_ANSWER = replace(RESPONSE, message=_TEXT, finish=Finish(reason="stop"), usage=_USAGE)


def whole(wire: str) -> bytes:
    """An answer with one text."""
    body = wires.get(wire).server.encode_body(_ANSWER).body
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def pieces(wire: str, chunks: int, *, together: int) -> list[bytes]:
    """A stream: its head, then each event as one HTTP chunk, `together` of them in one piece."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    events = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in stream(wires.get(wire), chunks)]
    written = [b"".join(events[start : start + together]) for start in range(0, len(events), together)]
    return [head + written[0], *written[1:-1], written[-1] + b"0\r\n\r\n"]


MISSING = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
