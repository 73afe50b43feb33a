"""A conversation that is decoded with the cache of a gateway is the same, and is sent in the same bytes."""

from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import wires
from dragoman.engine.attempt import build_request
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request
from dragoman.wires.common.item_cache import ItemCache, decode_with_cache
from tests.support.wires.conversations import CLIENTS, PROVIDERS, conversations

SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("dialect", CLIENTS)
@SETTINGS
@given(requests=conversations(may_be_empty=True, system_runs=True), providers=st.permutations(PROVIDERS))
def test_a_cached_request_is_the_same(dialect: str, requests: list[Request], providers: list[Target]) -> None:
    decode = wires.get(dialect).server.decode_request
    cached = partial(decode_with_cache, decode, ItemCache())
    bodies = [http for request in requests if isinstance(http := sent(request, CLIENTS[dialect]), HttpRequest)]
    for http in bodies:
        assert cached(http) == decode(http)
        for provider in providers[:2]:
            assert sent(cached(http)[1], provider) == sent(decode(http)[1], provider)
    # Nothing that was encoded has changed the values of the cache.
    assert [cached(http) for http in bodies] == [decode(http) for http in bodies]


def sent(request: Request, target: Target) -> HttpRequest | str:
    """What is sent to a target, or why nothing is."""
    try:
        return build_request(request, target)
    except (Unsupported, InvalidRequest) as error:
        return error.message
