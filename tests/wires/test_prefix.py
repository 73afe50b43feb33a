"""The prefix law: what is sent in one turn is, byte for byte, the beginning of what is sent in the next."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.engine.attempt import build_request
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.testing import assert_prefix_stable
from dragoman.types import Request
from tests.support.wires.conversations import CLIENTS, PROVIDER_TARGETS, conversations, through_gateway

JOINING = "bedrock"
"""A dialect whose clients write messages of the user that follow each other as one."""
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("provider", PROVIDER_TARGETS, ids=lambda provider: provider.name)
@SETTINGS
@given(requests=conversations(may_be_empty=True, system_runs=True))
def test_a_turn_is_the_beginning_of_the_next(provider: Target, requests: list[Request]) -> None:
    assert_prefix_stable(_built(lambda request: build_request(request, provider), requests))


@pytest.mark.parametrize("provider", PROVIDER_TARGETS, ids=lambda provider: provider.name)
@SETTINGS
@given(requests=conversations(), dialect=st.sampled_from([name for name in CLIENTS if name != JOINING]))
def test_the_law_holds_for_every_client(provider: Target, requests: list[Request], dialect: str) -> None:
    assert_prefix_stable(_built(lambda request: through_gateway(request, dialect, provider), requests))


@pytest.mark.parametrize("provider", PROVIDER_TARGETS, ids=lambda provider: provider.name)
@SETTINGS
@given(requests=conversations(asks_again=False))
def test_the_law_holds_for_clients_that_join_messages(provider: Target, requests: list[Request]) -> None:
    assert_prefix_stable(_built(lambda request: through_gateway(request, JOINING, provider), requests))


def _built(build: Callable[[Request], HttpRequest], requests: list[Request]) -> list[HttpRequest]:
    try:
        return [build(request) for request in requests]
    except (Unsupported, InvalidRequest):
        assume(condition=False)  # an image for a model that takes none, or nothing but white space
        raise
