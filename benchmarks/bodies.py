"""CPU time to encode a request and to decode its answer, in both directions."""

import json

from benchmarks.clock import per_call
from benchmarks.samples import REQUEST, RESPONSE, TARGETS
from benchmarks.table import Section, us
from dragoman import wires
from dragoman.wires.base import Wire


def bodies() -> Section:
    """A request with a system prompt, four messages and two tools; an answer with text and a tool call."""
    rows = [row for name in TARGETS for row in _rows(wires.get(name))]
    heads = ("", "encode_request", "decode_body", "decode_request", "encode_body", "all four")
    return Section("(d) one call: a request of 4 messages and 2 tools, and its answer", heads, rows)


def _rows(wire: Wire) -> list[tuple[str, ...]]:
    target = TARGETS[wire.name]
    body, http = wire.server.encode_body(RESPONSE).body, wire.client.encode_request(REQUEST, target)
    request, answer = json.loads(http.body), json.loads(body)
    ours = (
        per_call(lambda: wire.client.encode_request(REQUEST, target)),
        per_call(lambda: wire.client.decode_body(body)),
        per_call(lambda: wire.server.decode_request(http)),
        per_call(lambda: wire.server.encode_body(RESPONSE)),
    )
    plain = (
        per_call(lambda: json.dumps(request)),
        per_call(lambda: json.loads(body)),
        per_call(lambda: json.loads(http.body)),
        per_call(lambda: json.dumps(answer)),
    )
    return [
        (wire.name, *map(us, ours), us(sum(ours))),
        ("  json.dumps, json.loads", *map(us, plain), us(sum(plain))),
    ]
