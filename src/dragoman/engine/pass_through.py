"""A request to a path of a provider that no wire translates, such as images or speech: it goes through as it is."""

from dragoman.engine.attempt import check_key, sign_and_send
from dragoman.engine.call_context import Timeouts
from dragoman.engine.effects import Emit, Now, Open, OpenResponse, Plan, Read
from dragoman.errors import AuthFailed
from dragoman.http import HttpRequest
from dragoman.targets.target import Target

REFUSALS = frozenset((401, 402, 403))
"""Statuses about the key or the account that the request was sent with."""


def pass_through(http: HttpRequest, target: Target, timeouts: Timeouts, /) -> Plan[None]:
    """Send a request with the target's key. The first event is the head of the answer, the others are its bytes.

    A refusal of the key is an AuthFailed; a key that can be renewed is renewed once. Any other status is an answer.
    """
    check_key(target)
    now: float = yield Now()
    deadline = None if timeouts.total is None else now + timeouts.total

    def send(signed: HttpRequest) -> Plan[None]:
        response: OpenResponse = yield Open(
            signed,
            timeouts.total if timeouts.first_event is None else timeouts.first_event,
            timeouts.connect,
            total_timeout=timeouts.total,
            read_timeout=timeouts.max_read_timeout,
            transport=target.http_client,
        )
        if response.head.status in REFUSALS:
            raise AuthFailed(f"{target.provider} refused the request", status=response.head.status)
        yield Emit((response.head,), target.name)
        while data := (yield Read(response, timeouts.max_read_timeout)):
            yield Emit((data,), target.name)

    yield from sign_and_send(http, target, deadline, send)
