import json
from typing import Any

import msgspec
import pytest

from dragoman import Request, user, wires
from dragoman.registry import Registry
from dragoman.targets.model_families import apply_families, families, override
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities, Quirks, Target

KNOWN = Registry(env={"AZURE_OPENAI_ENDPOINT": "https://x", "AWS_REGION": "us-east-1"})


def facts(name: str) -> dict[str, Any]:
    target: Target = KNOWN.target(name)
    return {**msgspec.structs.asdict(target.capabilities), **msgspec.structs.asdict(target.quirks)}


def test_every_entry_has_facts_of_the_right_names_and_types() -> None:
    for family in families():
        assert family.capabilities or family.quirks or family.bare or family.use in PROVIDERS, family.match
        assert family.capabilities.keys() <= set(Capabilities.__struct_fields__), family.match
        assert family.quirks.keys() <= set(Quirks.__struct_fields__), family.match
        override(Capabilities(), family.capabilities)
        override(Quirks(), family.quirks)


def test_every_entry_is_about_a_provider_and_a_wire_that_there_are() -> None:
    for family in families():
        assert family.match.split("/")[0] in PROVIDERS
        assert family.wire in (None, *wires.NAMES)


def test_an_unknown_model_has_the_facts_of_its_provider() -> None:
    capabilities, quirks = Capabilities(tools=False), Quirks(stop=False)
    assert apply_families("nobody/nothing", "ollama", capabilities, quirks) == (capabilities, quirks)


def test_a_fact_may_hold_on_one_wire_only() -> None:
    assert not facts("openai-chat/gpt-5.5")["reasoning_with_tools"]
    assert facts("openai-responses/gpt-5.5")["reasoning_with_tools"]
    assert not facts("openai-chat/gpt-6-astra")["tools"]
    assert facts("openai-responses/gpt-6-astra")["tools"]


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("openai/gpt-4o", "openai_chat"),
        ("openai/gpt-5", "openai_chat"),
        ("openai/gpt-5.3", "openai_chat"),
        ("openai/gpt-5.4-mini", "openai_responses"),
        ("openai/gpt-5.6-sol", "openai_responses"),
        ("openai/gpt-6-astra", "openai_responses"),
        ("openai/gpt-5.1-codex", "openai_responses"),
        ("openai/o3-pro", "openai_responses"),
        ("openai-chat/gpt-6-astra", "openai_chat"),
        ("openai-responses/gpt-4o", "openai_responses"),
        ("azure/gpt-5.6", "openai_chat"),
    ],
)
def test_the_wire_may_depend_on_the_model(name: str, wire: str) -> None:
    target = KNOWN.target(name)
    assert (target.name, target.wire) == (name, wire)


def test_a_server_at_another_place_keeps_the_wire_of_its_record() -> None:
    elsewhere = [
        Registry(env={"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}),
        Registry(env={}, base_url="http://127.0.0.1:8000/v1"),
        Registry(env={}),
    ]
    elsewhere[2].add_provider(name="openai", like="openai", base_url="http://127.0.0.1:8000/v1")
    assert {registry.target("openai/gpt-6-sol").wire for registry in elsewhere} == {"openai_chat"}
    own = Registry(env={})
    own.add_provider(name="openai", like="openai", api_key="sk-test-key")
    assert (own.target("openai/gpt-6-sol").wire, own.target("openai/gpt-6-sol").api_key) == (
        "openai_responses",
        "sk-test-key",
    )


def test_facts_hold_wherever_the_family_is_served() -> None:
    assert facts("gemini/gemini-3-flash")["reasoning"] == "level"
    assert facts("ollama-cloud/gpt-oss:120b")["reasoning"] == "level"


LEVELS = ("low", "medium", "high", "xhigh", "max")
THINKING = [
    # Anthropic, section 6: the form, and whether it can be off.
    ("claude-3-5-sonnet-20241022", "budget", None),
    ("claude-3-7-sonnet-20250219", "budget", None),
    ("claude-opus-4-20250514", "budget", None),
    ("claude-opus-4-1-20250805", "budget", None),
    ("claude-sonnet-4-5-20250929", "budget", None),
    ("claude-haiku-4-5", "budget", None),
    ("claude-opus-4-5-20251101", "budget", ("low", "medium", "high")),
    ("claude-opus-4-6", "adaptive", ("none", "low", "medium", "high", "max")),
    ("claude-sonnet-4-6", "adaptive", ("none", "low", "medium", "high", "max")),
    ("claude-opus-4-7", "adaptive", ("none", *LEVELS)),
    ("claude-opus-4-8", "adaptive", ("none", *LEVELS)),
    ("claude-sonnet-5", "adaptive", ("none", *LEVELS)),
    ("claude-opus-5", "adaptive", ("none", *LEVELS)),
    ("claude-opus-5-20260701", "adaptive", ("none", *LEVELS)),
    ("claude-fable-5", "adaptive", LEVELS),
    ("claude-mythos-5", "adaptive", LEVELS),
    ("claude-mythos-preview", "adaptive", LEVELS),
    ("claude-opus-5-5", "adaptive", LEVELS),
    ("claude-fable-5-1", "adaptive", LEVELS),
    ("claude-sonnet-5-5", "adaptive", LEVELS),
    ("claude-haiku-5-5", "adaptive", ("none", *LEVELS)),
]


@pytest.mark.parametrize(("model", "form", "efforts"), THINKING)
def test_claude_thinks_in_the_form_of_its_generation(model: str, form: str | None, efforts: Any) -> None:
    known = facts(f"anthropic/{model}")
    assert (known["reasoning"], known["efforts"]) == (form, efforts)


@pytest.mark.parametrize(
    ("model", "forced"),
    [
        ("claude-opus-5-5", False),
        ("claude-fable-5-1", False),
        ("claude-mythos-preview", False),
        ("claude-fable-5", True),
        ("claude-opus-5", True),
        ("claude-sonnet-5-5", False),
        ("claude-fable-5-2", False),
        ("claude-mythos-5-1", False),
        ("claude-mythos-5", True),
        ("claude-sonnet-5", True),
        ("claude-sonnet-4-5", True),
    ],
)
def test_claude_can_be_forced_unless_it_always_thinks(model: str, forced: bool) -> None:  # noqa: FBT001
    """The migration guides of Fable 5.1, Opus 5.5 and Sonnet 5.5 (2026-11)."""
    assert facts(f"anthropic/{model}")["forced_choice"] == forced


@pytest.mark.parametrize("model", ["fable-5-1", "mythos-5-2", "opus-5-5", "sonnet-5-5"])
def test_the_same_holds_on_bedrock(model: str) -> None:
    known = facts(f"bedrock/us.anthropic.claude-{model}")
    assert (known["forced_choice"], known["efforts"]) == (False, ("low", "medium", "high", "max"))


@pytest.mark.parametrize(
    ("model", "sampling"),
    [("claude-opus-4-6", True), ("claude-sonnet-4-5", True), ("claude-opus-4-7", False), ("claude-sonnet-5", False)],
)
def test_claude_takes_sampling_up_to_4_6(model: str, sampling: bool) -> None:  # noqa: FBT001
    assert facts(f"anthropic/{model}")["sampling"] == sampling
    assert facts(f"anthropic/{model}")["temperature_excludes_top_p"]


@pytest.mark.parametrize(
    ("model", "schema"),
    [
        ("claude-3-haiku-20240307", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-sonnet-4-0", False),
        ("claude-opus-4-1", False),
        ("claude-haiku-4-5", True),
        ("claude-opus-5-5", True),
    ],
)
def test_claude_takes_schemas_from_4_5_on(model: str, schema: bool) -> None:  # noqa: FBT001
    assert facts(f"anthropic/{model}")["json_schema"] == schema


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("claude-3-opus-20240229", 4096),
        ("claude-3-5-haiku-20241022", 8192),
        ("claude-3-7-sonnet-20250219", 64000),
        ("claude-opus-4-20250514", 32000),
        ("claude-opus-4-1", 32000),
        ("claude-sonnet-4-20250514", 64000),
        ("claude-sonnet-4-5", 64000),
        ("claude-haiku-4-5-20251001", 64000),
        ("claude-opus-4-5", 64000),
        ("claude-opus-4-6", 128000),
        ("claude-sonnet-4-6", 128000),
        ("claude-opus-4-8", 128000),
        ("claude-opus-5", 128000),
        ("claude-opus-5-5", 128000),
        ("claude-sonnet-5", 128000),
        ("claude-haiku-5-5", 128000),
        ("claude-fable-5-1", 128000),
        ("claude-mythos-5", 128000),
    ],
)
def test_claude_writes_up_to_its_limit(model: str, output: int) -> None:
    """The page of each model (2026-11)."""
    assert facts(f"anthropic/{model}")["context_window"] == (1000000 if output == 128000 else 200000)
    assert facts(f"anthropic/{model}")["max_output"] == output


def test_thinking_without_a_signature_is_refused_by_anthropic() -> None:
    assert facts("anthropic/claude-x")["signed_thinking"]


@pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4", "gpt-4-0613", "gpt-4-turbo", "gpt-4o-2024-05-13"])
def test_old_models_of_openai_take_a_tool_but_no_schema(model: str) -> None:
    """Schemas: gpt-4o-2024-08-06, gpt-4o-mini and later (reference.langchain.com, withStructuredOutput; 2026-11)."""
    known = facts(f"openai/{model}")
    assert not known["json_schema"]
    assert known["tools"]
    assert facts("openai/gpt-4o")["json_schema"]
    assert facts("openai/gpt-4.1")["json_schema"]


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
def test_openai_takes_a_temperature_only_if_it_does_not_think(wire: str) -> None:
    """From gpt-5.1 to 5.4 (github.com/vercel/ai/issues/10932); not from 5.5 on (github.com/BerriAI/litellm/pull/34599)."""
    cases: tuple[tuple[str, Any, bool], ...] = (
        ("gpt-5.1", None, True),
        ("gpt-5.1", "none", True),
        ("gpt-5.1", "low", False),
        ("gpt-5.2", 500, False),
        ("gpt-4o", "low", True),
    )
    for model, reasoning, takes in cases:
        request = Request(messages=(user("hi"),), temperature=0.2, top_logprobs=2, reasoning=reasoning)
        to = KNOWN.target(f"{wire}/{model}")
        encoded = wires.get(to.wire).client.encode_request(request, to)
        dropped = {notice.what for notice in encoded.notices} & {"temperature", "logprobs", "top_logprobs"}
        assert ("temperature" in json.loads(encoded.body), not dropped) == (takes, takes)


@pytest.mark.parametrize("model", ["gpt-5.1", "gpt-5.2", "gpt-5.4", "gpt-5.5", "gpt-5"])
def test_models_of_openai_that_think_take_no_penalties(model: str) -> None:
    """Even if they do not think now (LiteLLM's OpenAIGPT5Config and Vercel's AI SDK drop them; 2026-11)."""
    to = KNOWN.target(f"openai-chat/{model}")
    options: dict[str, Any] = {"frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": {"1": 2}}
    request = Request(messages=(user("hi"),), reasoning="none", **options)
    encoded = wires.get(to.wire).client.encode_request(request, to)
    assert not options.keys() & json.loads(encoded.body).keys()
    assert options.keys() <= {notice.what for notice in encoded.notices if notice.kind == "dropped"}


@pytest.mark.parametrize(
    ("model", "efforts", "sampling"),
    [
        ("o1", ("low", "medium", "high"), False),
        ("o3-2025-04-16", ("low", "medium", "high"), False),
        ("o4-mini", ("low", "medium", "high"), False),
        ("gpt-5", ("minimal", "low", "medium", "high"), False),
        ("gpt-5-mini", ("minimal", "low", "medium", "high"), False),
        ("gpt-5.1", ("none", "low", "medium", "high"), True),
        ("gpt-5.4-2026-03-05", ("none", "low", "medium", "high", "xhigh"), True),
        ("gpt-5.5", ("none", "low", "medium", "high", "xhigh"), False),
        ("gpt-5.6", ("none", "low", "medium", "high", "xhigh", "max"), False),
        ("gpt-5-codex", ("low", "medium", "high"), False),
        ("gpt-5-pro", ("high",), False),
        ("gpt-5.2-pro", ("medium", "high", "xhigh"), False),
        ("gpt-5.3-codex", ("low", "medium", "high", "xhigh"), False),
        ("gpt-5.1-codex-max", ("low", "medium", "high", "xhigh"), False),
        ("gpt-5.2-chat-latest", ("low", "medium", "high"), False),
        ("gpt-6-astra", LEVELS, False),
        ("gpt-6-sol", ("none", *LEVELS), False),
        ("gpt-6-sol-2026-09-22", ("none", *LEVELS), False),
        ("gpt-6-luna", ("none", *LEVELS), False),
        ("gpt-6.1-sol", LEVELS, False),
    ],
)
def test_openai_thinks_as_hard_as_the_family_can(model: str, efforts: Any, sampling: bool) -> None:  # noqa: FBT001
    """Up to gpt-5.2: ReasoningEffort in OpenAI's OpenAPI document. 5.3-codex, 5.4, 5.5: crate meerkat-core 0.6.25, by
    the live API. gpt-6: openai-language-model-capabilities.ts of Vercel's AI SDK (2026-11)."""
    known = facts(f"openai/{model}")
    assert (known["efforts"], known["sampling"], known["thinking"]) == (efforts, sampling, True)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest"])
def test_some_models_of_openai_do_not_think(model: str) -> None:
    assert not facts(f"openai/{model}")["thinking"]
    assert facts(f"openai/{model}")["sampling"]


@pytest.mark.parametrize(
    ("model", "stop"), [("o1", True), ("o3", False), ("o4-mini", False), ("gpt-5", False), ("gpt-4o", True)]
)
def test_openai_takes_no_stop_from_o3_on(model: str, stop: bool) -> None:  # noqa: FBT001
    assert facts(f"openai/{model}")["stop"] == stop


def test_only_audio_models_of_openai_take_audio() -> None:
    assert facts("openai/gpt-4o-audio-preview")["audio"]
    assert not facts("openai/gpt-4o")["audio"]


@pytest.mark.parametrize(
    ("model", "window", "output"),
    [
        ("gpt-6-astra", 1050000, 128000),
        ("gpt-6.1-sol", 1050000, 128000),
        ("gpt-5", 400000, 128000),
        ("gpt-4o-mini", 128000, 16384),
        ("gpt-4.1", 1047576, 32768),
        ("o3", 200000, 100000),
    ],
)
def test_openai_has_a_window(model: str, window: int, output: int) -> None:
    assert (facts(f"openai/{model}")["context_window"], facts(f"openai/{model}")["max_output"]) == (window, output)


def test_openai_chat_takes_no_thinking_back() -> None:
    assert facts("openai/gpt-5")["reasoning_replay_fields"] == ()
    assert facts("azure/gpt-5")["reasoning_replay_fields"] == ()


@pytest.mark.parametrize(
    ("model", "form", "efforts"),
    [
        ("gemini-2.5-pro", "budget", None),
        ("gemini-2.5-flash", "budget", None),
        ("gemini-3-pro-preview", "level", ("low", "high")),
        ("gemini-3-flash-preview", "level", ("minimal", "low", "medium", "high")),
        ("gemini-3.1-pro-preview", "level", ("low", "medium", "high")),
        ("gemini-3.5-flash", "level", ("minimal", "low", "medium", "high")),
        ("gemini-3.7-flash", "level", ("low", "medium", "high")),
        ("gemini-3.8-flash", "level", ("low", "medium", "high")),
    ],
)
def test_gemini_thinks_in_the_form_of_its_generation(model: str, form: str, efforts: Any) -> None:
    known = facts(f"google/{model}")
    assert (known["reasoning"], known["efforts"]) == (form, efforts)
    assert known["thought_signatures"] == known["result_media"] == known["schema_with_tools"] == (form == "level")
    assert (known["context_window"], known["max_output"]) == (1048576, 65536)


def test_gemini_2_0_does_not_think() -> None:
    assert not facts("google/gemini-2.0-flash")["thinking"]


def test_gpt_oss_takes_words_for_thinking_everywhere() -> None:
    for name in ("ollama/gpt-oss:20b", "groq/openai/gpt-oss-20b", "cerebras/gpt-oss-120b"):
        assert facts(name)["efforts"] == ("low", "medium", "high")


def test_llama_vision_sees_one_picture() -> None:
    assert facts("ollama/llama3.2-vision:11b")["max_images"] == 1


def test_deepseek_can_be_forced_while_it_does_not_think() -> None:
    assert facts("deepseek/deepseek-chat")["forced_choice"]
    assert not facts("deepseek/deepseek-v4-pro")["forced_choice"]


@pytest.mark.parametrize(
    ("model", "thinking", "efforts"),
    [
        ("grok-4", False, None),
        ("grok-4-fast", False, None),
        ("grok-4.3", True, ("none", "low", "medium", "high")),
        ("grok-4.5", True, ("low", "medium", "high")),
    ],
)
def test_grok_takes_effort_as_its_version_does(model: str, thinking: bool, efforts: Any) -> None:  # noqa: FBT001
    known = facts(f"xai/{model}")
    assert (known["thinking"], known["efforts"], known["stop"]) == (thinking, efforts, False)
