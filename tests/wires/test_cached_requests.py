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
from dragoman.types import Message, Request, Text, Tool, ToolCall, ToolResult
from dragoman.wires.common.item_cache import CachedRequest, ItemCache, decode_with_cache
from tests.support.wires.conversations import CLIENTS, PROVIDER_TARGETS, conversations

SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("dialect", CLIENTS)
@SETTINGS
@given(requests=conversations(may_be_empty=True, system_runs=True), providers=st.permutations(PROVIDER_TARGETS))
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


CONVERSATION = Request(
    messages=(
        Message(role="user", parts=(Text(text="How high is the tide?"),)),
        Message(role="assistant", parts=(ToolCall(id="call_1", name="tide", arguments={"port": "Brest"}),)),
        Message(role="tool", parts=(ToolResult(id="call_1", name="tide", content="4.2 m"),)),
        Message(role="assistant", parts=(Text(text="4.2 m."),)),
        Message(role="user", parts=(Text(text="And now?"),)),
    ),
    tools=(Tool(name="tide", parameters={"type": "object", "properties": {"port": {"type": "string"}}}),),
)
CACHED: dict[str, tuple[str, ...]] = {
    **{dialect: ("messages", "tools") for dialect in CLIENTS if dialect != "native"},
    "bedrock": ("messages",),
    "google_interactions": ("tools",),
}


@pytest.mark.parametrize("dialect", CACHED)
def test_a_second_request_has_the_values_of_the_first(dialect: str) -> None:
    http = sent(CONVERSATION, CLIENTS[dialect])
    assert isinstance(http, HttpRequest)
    decode = wires.get(dialect).server.decode_request
    # Not decode_with_cache, which decodes without a cache if this fails.
    cached = CachedRequest(**{name: getattr(http, name) for name in http.__struct_fields__}, cache=ItemCache())
    first, second = decode(cached)[1], decode(cached)[1]
    assert first == second == decode(http)[1]
    assert (first.tools[0] is second.tools[0]) == ("tools" in CACHED[dialect])
    for i in (0, 3):
        assert (first.messages[i].parts[0] is second.messages[i].parts[0]) == ("messages" in CACHED[dialect])


def sent(request: Request, target: Target) -> HttpRequest | str:
    """What is sent to a target, or why nothing is."""
    try:
        return build_request(request, target)
    except (Unsupported, InvalidRequest) as error:
        return error.message
