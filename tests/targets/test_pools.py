from typing import Any

import pytest

from dragoman import Registry, SetupError, Usage
from dragoman.targets.pools import DeploymentPool, bind_fallbacks, check_fallbacks, make_pool, share_of
from dragoman.targets.prices import cost_of, target_cost


def names(registry: Registry, spec: str) -> list[str]:
    return [target.name for target in registry.targets(spec)]


def test_a_pool_of_targets_is_used_by_its_name() -> None:
    registry = Registry(env={})
    registry.add_pool("gpt", targets=["east/gpt-5", "west/gpt-5"])
    registry.add_provider(name="east", like="openai", api_key="k1")
    registry.add_provider(name="west", like="openai", api_key="k2")
    targets = registry.targets("gpt, anthropic/claude")
    assert [(target.name, target.pool and target.pool.name) for target in targets] == [
        ("east/gpt-5", "gpt"),
        ("west/gpt-5", "gpt"),
        ("anthropic/claude", None),
    ]


def test_a_pool_of_keys_takes_the_name_of_its_provider_and_any_model() -> None:
    registry = Registry(env={})
    registry.add_pool("openai", api_keys=["sk-1", "sk-2"])
    targets = registry.targets("openai/gpt-4o")
    assert [(target.name, target.api_key) for target in targets] == [
        ("openai-1/gpt-4o", "sk-1"),
        ("openai-2/gpt-4o", "sk-2"),
    ]


def test_a_pool_of_targets_is_not_a_provider() -> None:
    registry = Registry(env={})
    registry.add_pool("gpt", targets=["groq/x"])
    with pytest.raises(SetupError, match="unknown provider 'gpt'"):
        registry.targets("gpt/x")


def test_a_target_that_was_named_before_the_pool_keeps_its_place() -> None:
    registry = Registry(env={})
    registry.add_pool("both", targets=["groq/x", "demo/any"])
    targets = registry.targets("demo/any, both")
    assert [(target.name, target.pool is None) for target in targets] == [("demo/any", True), ("groq/x", False)]


def test_a_table_of_members_has_weights() -> None:
    pool, _ = make_pool("gpt", {"targets": {"a/m": 3, "b/m": 1}, "weights": {"b": 2}})
    assert (pool.targets, pool.weights) == (("a/m", "b/m"), {"a/m": 3, "b/m": 1, "b": 2})
    assert share_of(pool, "a", "a/m").weight == 3


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "one of targets, providers and api_keys"),
        ({"targets": ["a/m"], "providers": ["a"]}, "one of targets, providers and api_keys"),
        ({"targets": []}, "at least one deployment"),
        ({"targets": ["m"]}, "targets must be like provider/model, got 'm'"),
        ({"targets": {"a/m": "x"}}, "targets must be a list of names, or a table of names and weights >= 0, got 'x'"),
        ({"providers": ["a/m"]}, "providers must be names of providers, got 'a/m'"),
        ({"targets": ["a/m"], "weights": {"b": 1}}, "weights must name deployments of the pool, got 'b'"),
        ({"targets": ["a/m"], "costs": {"b/m": 1}}, "costs must name deployments of the pool, got 'b/m'"),
        ({"targets": ["a/m"], "order": "best"}, "order must be one of in_order, weighted"),
        ({"targets": ["a/m"], "fallbacks": {"sad": "x"}}, "fallbacks must be"),
        ({"targets": ["a/m"], "fallbacks": {"timed_out": " "}}, "fallbacks.timed_out must be a spec"),
        ({"targets": ["a/m"], "like": "openai"}, "like must not be set without api_keys"),
        ({"api_keys": []}, "api_keys must be a list of 1 to 100 keys"),
    ],
)
def test_a_wrong_pool_is_refused_with_the_reason(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(SetupError, match=problem.replace("(", r"\(")):
        make_pool("gpt", fields)


@pytest.mark.parametrize("name", ["", "a/b", "a b", 5, "a,b", "a*"])
def test_the_name_of_a_pool_is_a_word(name: object) -> None:
    with pytest.raises(SetupError, match="the name of a pool must be"):
        make_pool(name, {"targets": ["a/m"]})


def test_all_problems_of_a_config_are_listed() -> None:
    with pytest.raises(SetupError) as caught:
        Registry(env={}).load_config('[pools.a]\ntarget = ["a/m"]\n[pools.b]\nproviders = ["x/y"]\n[pools]\nc = 1')
    assert "pools.a: unknown pool field 'target'; did you mean 'targets'?" in str(caught.value)
    assert "pools.b: providers must be names of providers" in str(caught.value)
    assert "pools.c: must be a table, got int" in str(caught.value)


def test_a_config_defines_pools_limits_and_keys() -> None:
    registry = Registry(env={"KEY": "sk-3"})
    registry.load_config("""
[providers.east]
like = "openai"
api_key = "sk-1"
deployment_limits = { requests_per_minute = 60, concurrent = 2 }
[pools.acme]
like = "openai"
api_keys = ["sk-2", "${KEY}"]
affinity = "conversation"
[pools.gpt]
targets = ["east/gpt-5", "acme-1/gpt-5"]
order = "cheapest"
[aliases]
any = "gpt, acme/gpt-5"
""")
    limits = registry.target("east/gpt-5").deployment_limits
    assert limits is not None
    assert (limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent) == (60, None, 2)
    assert names(registry, "any") == ["east/gpt-5", "acme-1/gpt-5", "acme-2/gpt-5"]
    assert registry.targets("acme/m")[1].api_key == "sk-3"
    assert registry.pools["gpt"].order == "cheapest"


def test_limits_are_not_inherited_by_another_account() -> None:
    registry = Registry(env={})
    registry.add_provider(name="a", like="openai", deployment_limits={"concurrent": 1})
    registry.add_provider(name="b", like="a")
    registry.add_provider(name="a", like="a", api_key="k")
    assert registry.target("b/m").deployment_limits is None
    assert registry.target("a/m").deployment_limits is not None


def test_an_unknown_limit_is_refused() -> None:
    with pytest.raises(SetupError, match="unknown limit 'concurent'; did you mean 'concurrent'"):
        Registry(env={}).add_provider(name="a", like="openai", deployment_limits={"concurent": 1})


def test_a_deployment_has_the_prices_of_the_provider_that_it_is_like() -> None:
    registry = Registry(env={})
    registry.add_provider(name="a", like="openai", api_key="k")
    registry.add_provider(name="b", like="a", base_url="https://proxy.example/v1", api_key="k")
    a, b = registry.target("a/gpt-4o"), registry.target("b/gpt-4o")
    usage = Usage(input=1, output=1)
    assert target_cost(a, usage) == cost_of("openai", "gpt-4o", usage) is not None
    assert target_cost(b, usage) is None
    registry.add_provider(name="b", price_name="openai")
    assert target_cost(registry.target("b/gpt-4o"), usage) == target_cost(a, usage)


def test_fallbacks_are_found_when_they_are_needed() -> None:
    def given() -> list[str]:
        return ["own"]

    bound = bind_fallbacks({"timed_out": "a/m", "overloaded": given}, lambda spec: [spec, "found"])
    assert (bound["timed_out"](), bound["overloaded"]()) == (["a/m", "found"], ["own"])
    assert DeploymentPool(name="p", providers=("a", "b")).spec("m") == "a/m,b/m"


def test_fallbacks_by_kinds_of_error_are_taken() -> None:
    check_fallbacks({"context_too_long": "demo/any", "content_filter": "demo/other"})
