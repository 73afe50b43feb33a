"""Pools, limits and fallbacks behind the gateway; the engine has the laws (tests/engine/test_routing.py)."""

import json

import pytest

from dragoman.errors import SetupError
from dragoman.gateway.accounting.pricing import Prices, price_names
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.registry import Registry
from dragoman.types import Usage
from tests.support.gateway.dialects import app_of, hello, post, request_of, send_blocking

POOL = """
[providers.east]
like = "demo"
[providers.west]
like = "demo"
[pools.acme]
providers = ["east", "west"]
order = "in_order"
[pools.duo]
targets = ["east/overloaded", "west/any"]
order = "in_order"
"""


def ask(config: str, model: str, times: int = 1) -> list[tuple[int, str | None]]:
    app = app_of(config)
    seen = [send_blocking(app, request_of("openai_chat", model, hello())) for _ in range(times)]
    return [(each.status, each.headers.get("x-dragoman-target")) for each in seen]


def test_a_client_uses_a_pool_by_its_name() -> None:
    assert ask(POOL, "duo") == [(200, "west/any")]


def test_a_client_uses_a_pool_of_providers_with_a_model() -> None:
    assert ask(POOL, "acme/any") == [(200, "east/any")]


def test_pools_are_in_the_list_of_models() -> None:
    assert "duo" in [model.id for model in app_of(POOL).runtime.catalog.models()]


def test_a_limit_of_a_deployment_moves_requests_to_the_next() -> None:
    limited = POOL.replace('like = "demo"', 'like = "demo"\ndeployment_limits = { requests_per_minute = 2 }', 1)
    assert ask(limited, "acme/any", 3) == [(200, "east/any"), (200, "east/any"), (200, "west/any")]


def test_if_all_deployments_are_at_their_limit_the_client_gets_429_and_the_wait() -> None:
    limited = POOL.replace('like = "demo"', 'like = "demo"\ndeployment_limits = { requests_per_minute = 1 }')
    app = app_of(limited)
    seen = [send_blocking(app, request_of("openai_chat", "acme/any", hello())) for _ in range(3)]
    assert [each.status for each in seen] == [200, 200, 429]
    assert 50 < float(seen[-1].headers["retry-after"]) <= 61


def test_a_tier_has_weights_and_affinity() -> None:
    config = decode_config("""
[tiers.simple]
models = ["demo/any", "demo/empty"]
order = "least_busy"
affinity = "conversation"
weights = { "demo/any" = 3 }
""")
    tier = config.tiers["simple"]
    assert (tier.order, tier.affinity, tier.weights) == ("least_busy", "conversation", {"demo/any": 3.0})


def test_a_fallback_of_the_chain_answers_a_kind_of_error() -> None:
    config = '[chain]\nretries = 0\nfallbacks = { overloaded = "demo/any" }\n[gateway]\nproviders = ["demo"]'
    assert ask(config, "demo/overloaded") == [(200, "demo/any")]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ('[chain]\nfallbacks = { sad = "demo/any" }', "chain.fallbacks must be by kind of error, one of context_too"),
        ('[chain]\nfallbacks = { timed_out = "nowhere/x" }', "chain.fallbacks.timed_out: unknown provider 'nowhere'"),
        ('[pools.a]\nproviders = ["nowhere"]', "pools.a: unknown provider 'nowhere'"),
        (
            '[pools.a]\ntargets = ["demo/any"]\nfallbacks = { timed_out = "no/x" }',
            "pools.a.fallbacks.timed_out: unknown",
        ),
        ('[pools.a]\ntargets = ["demo/any"]\n[aliases]\na = "demo/any"', "pools.a: an alias or a tier has the same"),
    ],
)
def test_a_mistake_is_reported_with_its_place(config: str, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(config)
    assert problem in str(caught.value)


@pytest.mark.parametrize("order", ["least_busy", "fastest", "weighted"])
def test_a_conversation_keeps_its_deployment(order: str) -> None:
    app = app_of(POOL.replace('order = "in_order"', f'order = "{order}"'))
    body = {"model": "acme/any", "messages": [{"role": "user", "content": "hello"}], "conversation_id": "c1"}
    http = post("/native/v1/chat/completions", json.dumps(body).encode())
    targets = {send_blocking(app, http).headers["x-dragoman-target"] for _ in range(8)}
    assert len(targets) == 1


def test_an_account_of_a_provider_has_its_prices() -> None:
    registry = Registry(env={})
    registry.add_provider(name="mine", like="openai", api_key="k")
    registry.add_provider(name="proxy", like="openai", base_url="https://llm.example/v1", api_key="k")
    registry.add_provider(name="priced", like="proxy", price_name="openai", api_key="k")
    prices = Prices()
    prices.names = price_names(registry)
    usage = Usage(input=1000, output=1000)
    assert prices.names == {"mine": "openai", "proxy": None, "priced": "openai"}
    assert prices.cost("mine/gpt-4o", usage) == prices.cost("openai/gpt-4o", usage) != 0
    assert prices.cost("proxy/gpt-4o", usage) is None
    assert prices.cost("priced/gpt-4o", usage) == prices.cost("openai/gpt-4o", usage)


def test_the_price_list_is_read_only_if_a_provider_has_prices() -> None:
    def prices_of(base_url: str, more: str = "") -> Prices:
        config = f'[providers.mine]\nlike = "openai"\nbase_url = "{base_url}"\napi_key = "k"\n{more}'
        return Runtime(decode_config(config), {"OPENAI_API_KEY": "k"}).accounting.prices

    other, own = prices_of("https://llm.example/v1"), prices_of("https://eu.api.openai.com/v1")
    pool = prices_of("https://llm.example/v1", '[pools.gpt]\ntargets = ["openai/gpt-4o", "mine/gpt-4o"]\n')
    assert (other.must_load, own.must_load, pool.must_load) == (False, True, True)
    own.load()
    assert not own.must_load
