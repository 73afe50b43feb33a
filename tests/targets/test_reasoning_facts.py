"""What models think with is data: forms, efforts, budgets, and whether their thinking is hidden."""

import json
from typing import Any, get_args

import pytest

from dragoman import Effort, Registry, Tool

REGISTRY = Registry(
    env={
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_API_KEY": "k",
        "GEMINI_API_KEY": "k",
        "AWS_REGION": "us-east-1",
        "AWS_BEARER_TOKEN_BEDROCK": "k",
    }
)


def sent(spec: str, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """The body for a target, and what its notices are about."""
    (explanation,) = REGISTRY.model(spec).explain("hi", **options)
    assert explanation.request is not None, explanation.reason
    return json.loads(explanation.request.body), [notice.what for notice in explanation.notices if notice.loss]


ADAPTIVE = [
    "claude-opus-4-6",
    "claude-sonnet-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-opus-5",
]


@pytest.mark.parametrize("model", ADAPTIVE)
def test_claude_with_adaptive_thinking_is_sent_no_temperature_and_no_top_k(model: str) -> None:
    body, lost = sent(f"anthropic/{model}", reasoning="high", temperature=0.5, top_k=5)
    assert body["thinking"]["type"] == "adaptive"
    assert body.keys().isdisjoint({"temperature", "top_k"})
    assert {"temperature", "top_k"} <= set(lost)


def test_claude_without_thinking_is_sent_both() -> None:
    body, lost = sent("anthropic/claude-opus-4-6", temperature=0.5, top_k=5)
    assert (body["temperature"], body["top_k"], lost) == (0.5, 5, [])


def test_a_forced_call_is_not_sent_while_claude_thinks() -> None:
    tool = Tool(name="t", description="d")
    body, lost = sent("anthropic/claude-opus-4-6", reasoning="low", tools=[tool], tool_choice="required")
    assert (body["tool_choice"]["type"], lost) == ("auto", ["tool_choice"])


@pytest.mark.parametrize(
    ("model", "display"),
    [
        ("claude-opus-4-6", None),
        ("claude-opus-4-7", "summarized"),
        ("claude-opus-4-8", "summarized"),
        ("claude-sonnet-5", "summarized"),
        ("claude-haiku-5-5", "summarized"),
        ("claude-fable-5-1", "summarized"),
        ("claude-mythos-preview", "summarized"),
    ],
)
def test_claude_is_asked_to_show_its_thinking_if_it_hides_it(model: str, display: str | None) -> None:
    assert sent(f"anthropic/{model}", reasoning="high")[0]["thinking"].get("display") == display
    assert "thinking" not in sent(f"anthropic/{model}")[0]
    hidden = {"anthropic": {"thinking": {"display": "omitted"}}}
    assert sent(f"anthropic/{model}", reasoning="high", extra=hidden)[0]["thinking"]["display"] == "omitted"


def test_older_claude_has_a_budget() -> None:
    for model in ("claude-sonnet-4-5", "claude-opus-4-5-20251101", "claude-haiku-4-5"):
        assert sent(f"anthropic/{model}", reasoning=2000)[0]["thinking"] == {"type": "enabled", "budget_tokens": 2000}


def test_claude_at_bedrock_follows_the_same_rules() -> None:
    body, lost = sent("bedrock/us.anthropic.claude-opus-4-7-v1:0", reasoning="high", temperature=0.5, top_k=5)
    fields = body["additionalModelRequestFields"]
    assert fields["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert "top_k" not in fields
    assert set(lost) == {"temperature", "top_k"}
    body, lost = sent("bedrock/us.anthropic.claude-opus-4-6-v1:0", reasoning="high", temperature=0.5)
    assert (body["additionalModelRequestFields"]["thinking"], lost) == ({"type": "adaptive"}, ["temperature"])


@pytest.mark.parametrize(
    ("model", "reasoning", "budget", "lost"),
    [
        ("gemini-2.5-pro", "none", 128, ["reasoning"]),
        ("gemini-2.5-pro", 0, 128, ["reasoning"]),
        ("gemini-2.5-pro", 100, 128, ["reasoning"]),
        ("gemini-2.5-pro", 40_000, 32_768, ["reasoning"]),
        ("gemini-2.5-pro", 30_000, 30_000, []),
        ("gemini-2.5-pro", "max", 32_768, []),
        ("gemini-2.5-flash", "none", 0, []),
        ("gemini-2.5-flash", 0, 0, []),
        ("gemini-2.5-flash", 1, 1, []),
        ("gemini-2.5-flash", 30_000, 24_576, ["reasoning"]),
        ("gemini-2.5-flash", "max", 24_576, []),
        ("gemini-2.5-flash-lite", 0, 0, []),
        ("gemini-2.5-flash-lite", 100, 512, ["reasoning"]),
        ("gemini-2.5-flash-lite-preview-09-2025", 512, 512, []),
    ],
)
def test_a_budget_is_what_the_model_takes(model: str, reasoning: Any, budget: int, lost: list[str]) -> None:
    body, notices = sent(f"google/{model}", reasoning=reasoning)
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == budget
    assert notices == lost


@pytest.mark.parametrize("effort", get_args(Effort))
@pytest.mark.parametrize(
    "spec",
    [
        "openai/gpt-5",
        "openai/gpt-5.6",
        "openai/o3",
        "openai-responses/gpt-5",
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-opus-4-7",
        "anthropic/claude-fable-5-1",
        "google/gemini-2.5-pro",
        "google/gemini-3-flash",
        "ollama/gpt-oss:20b",
        "ollama/qwen3",
        "bedrock/us.anthropic.claude-opus-4-6-v1:0",
        "groq/openai/gpt-oss-120b",
        "mistral/magistral-medium",
        "deepseek/deepseek-chat",
        "vllm/m",
    ],
)
def test_every_effort_is_sent_or_becomes_another_one_with_a_notice(spec: str, effort: str) -> None:
    plain, _ = sent(spec)
    body, lost = sent(spec, reasoning=effort)
    assert body != plain or effort == "none" or lost == ["reasoning"]
    assert set(lost) <= {"reasoning"}


@pytest.mark.parametrize(
    ("spec", "options", "lost"),
    [
        ("openai/gpt-4o", {"verbosity": "low"}, ["verbosity"]),
        ("openai/gpt-5.1", {"verbosity": "low"}, []),
        ("openai-responses/gpt-5", {"verbosity": "low"}, []),
        ("openai/o3", {"logprobs": True, "frequency_penalty": 1}, ["frequency_penalty", "logprobs"]),
        ("openai/gpt-4o", {"logprobs": True, "frequency_penalty": 1, "n": 2, "logit_bias": {5: 1}}, []),
        ("google/gemini-2.5-flash", {"frequency_penalty": 1, "logprobs": True, "n": 2}, ["frequency_penalty"]),
        ("google/gemini-3-flash", {"logprobs": True}, ["logprobs"]),
        ("groq/llama-3.3-70b-versatile", {"n": 2, "service_tier": "flex"}, ["n"]),
        ("mistral/mistral-large", {"logit_bias": {"5": 1}, "n": 2, "presence_penalty": 1}, ["logit_bias"]),
        ("xai/grok-4.5", {"presence_penalty": 1}, ["presence_penalty"]),
        ("vllm/m", {"n": 2, "top_logprobs": 2, "service_tier": "flex"}, ["service_tier"]),
    ],
)
def test_what_a_model_takes_is_data(spec: str, options: dict[str, Any], lost: list[str]) -> None:
    assert sent(spec, **options)[1] == lost
