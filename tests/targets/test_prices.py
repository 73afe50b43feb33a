"""The price list of the package, and the costs that it gives."""

from datetime import date
from importlib.metadata import version

import msgspec
import pytest
from genai_prices import Usage as Counts
from genai_prices import calc_price

from dragoman import Cost, Registry, Usage
from dragoman.agents.budget import price
from dragoman.gateway.accounting.pricing import Prices
from dragoman.targets.prices import cost_of, is_official, price_list
from dragoman.testing import Scripted
from dragoman.types import Finish, Response, add_costs, assistant
from tests.support.price_list import FILE
from tests.support.price_list import price_list as fresh_list

MODELS = [
    ("openai", "gpt-5"),
    ("openai-responses", "gpt-4o-mini"),
    ("openai", "gpt-5.5"),
    ("anthropic", "claude-sonnet-5"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("google", "gemini-2.5-pro"),
    ("groq", "openai/gpt-oss-20b"),
    ("xai", "grok-4.3"),
    ("mistral", "mistral-small-latest"),
    ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("openrouter", "openai/gpt-5-mini"),
    ("azure", "gpt-4o"),
]


@pytest.mark.parametrize(("provider", "model"), MODELS)
@pytest.mark.parametrize("tokens", [1000, 250_000])
def test_costs_are_those_of_the_source(provider: str, model: str, tokens: int) -> None:
    usage = Usage(input=tokens, output=500, cache_read=100, cache_write=50)
    found = cost_of(provider, model, usage)
    counts = Counts(input_tokens=tokens, output_tokens=500, cache_read_tokens=100, cache_write_tokens=50)
    names = {"openai-responses": "openai", "bedrock": "aws", "xai": "x-ai"}
    expected = calc_price(counts, model, provider_id=names.get(provider, provider)).total_price
    assert found is not None
    assert found.usd == pytest.approx(float(expected))


def test_the_list_names_its_source_and_its_age() -> None:
    listed = price_list()
    assert listed.source.startswith("genai-prices ")
    assert date(2026, 11, 1) <= date.fromisoformat(listed.date)


def test_the_list_is_that_of_the_installed_package() -> None:
    """Regenerate it with `python -m tests.support.price_list` if this fails."""
    if version("genai-prices") in price_list().source:
        written = msgspec.json.decode(FILE.read_bytes())
        assert written == fresh_list(date.fromisoformat(written["date"]))


@pytest.mark.parametrize(
    ("provider", "model"), [("ollama", "qwen3"), ("demo", "any"), ("openai", "nothing-of-the-kind")]
)
def test_an_unknown_price_gives_no_cost(provider: str, model: str) -> None:
    assert cost_of(provider, model, Usage(input=1, output=1)) is None


def test_only_the_usual_tier_has_a_known_price() -> None:
    usage = Usage(input=1, output=1)
    assert cost_of("openai", "gpt-5", usage, "flex") is None
    assert cost_of("openai", "gpt-5", usage, "default") == cost_of("openai", "gpt-5", usage) is not None


def test_an_unknown_usage_gives_no_cost() -> None:
    assert cost_of("openai", "gpt-5", Usage(source="unknown")) is None


def test_a_response_has_its_cost() -> None:
    answer = Response(message=assistant("4.2 m"), finish=Finish(reason="stop"), usage=Usage(input=1_000_000, output=0))
    scripted = Scripted(answer, answer, "4.2")
    registry = Registry(env={}, api_key="k", http_client=scripted)
    response = registry.model("openai/gpt-4o").generate("What is the tide?")
    assert response.cost == Cost(usd=2.5, source=price_list().source, date=price_list().date)
    assert price(response) == 2.5
    assert registry.model("ollama/qwen3").generate("What is the tide?").cost is None


def test_repairs_count_in_the_cost() -> None:
    usage = Usage(input=1_000_000, output=0)
    wrong, right = (
        Response(message=assistant(text), finish=Finish(reason="stop"), usage=usage)
        for text in ('{"value": "high"}', '{"value": 4}')
    )
    registry = Registry(env={}, api_key="k", http_client=Scripted(wrong, right))
    parsed = registry.model("openai/gpt-4o").generate("What is the tide?", output=int)
    assert parsed.parsed == 4
    assert parsed.cost is not None
    assert parsed.cost.usd == 5.0


def test_costs_are_added_only_if_all_are_known() -> None:
    one = Cost(usd=1.0, source="a", date="2026-11-09")
    assert add_costs([one, one]) == Cost(usd=2.0, source="a", date="2026-11-09")
    assert add_costs([one, None]) is add_costs([]) is None


def _not_installed(_name: str) -> None:
    return None


def test_the_gateway_uses_the_list_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.accounting.pricing.find_spec", _not_installed)
    prices = Prices()
    prices.load()
    assert prices.cost("openai/gpt-4o", Usage(input=1_000_000)) == 2_500_000_000
    assert prices.cost("demo/any", Usage(input=1)) is None


@pytest.mark.parametrize(
    ("base_url", "is_known"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://proxy.example/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("https://api.openai.com.example/v1", False),
        ("https://notopenai.com/v1", False),
    ],
)
def test_a_price_holds_only_at_the_providers_own_address(base_url: str, is_known: bool) -> None:  # noqa: FBT001
    answer = Response(message=assistant("4.2 m"), finish=Finish(reason="stop"), usage=Usage(input=1_000_000, output=0))
    by_registry = Registry(env={}, api_key="k", http_client=Scripted(answer), base_url=base_url).model("openai/gpt-4o")
    registry = Registry(env={}, api_key="k", http_client=Scripted(answer, answer))
    stream = registry.model("openai/gpt-4o", base_url=base_url).stream("What is the tide?")
    responses = [
        by_registry.generate("What is the tide?"),
        registry.model("openai/gpt-4o").generate("What is the tide?", base_url=base_url),
        list(stream)[-1],
    ]
    for response in responses:
        assert isinstance(response, Response)
        assert (response.cost is not None) == is_known


def test_a_cloud_has_its_price_in_every_region() -> None:
    env = {
        "AWS_REGION": "eu-west-1",
        "GOOGLE_CLOUD_PROJECT": "p",
        "AZURE_OPENAI_ENDPOINT": "https://a.openai.azure.com",
    }
    for spec in ("bedrock/amazon.nova-lite-v1:0", "vertex/gemini-2.5-pro", "azure/gpt-4o"):
        target = Registry(env=env).target(spec)
        assert cost_of(target.provider, target.model, Usage(input=1), base_url=target.base_url) is not None
    assert is_official("my-own", "https://proxy.example")
