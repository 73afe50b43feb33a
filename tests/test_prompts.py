"""The forms of a prompt that users may write, and the errors for others."""

from types import MappingProxyType
from typing import Any

import pytest

from dragoman import Image, InvalidRequest, Opaque, Registry, Text, Unsupported, assistant, system, user
from dragoman.models import as_messages


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ("hi", (user("hi"),)),
        (user("hi"), (user("hi"),)),
        (Text(text="hi"), (user("hi"),)),
        (["see", Image(url="https://x/a.png")], (user("see", Image(url="https://x/a.png")),)),
        ([user("hi"), assistant("ho"), user("he")], (user("hi"), assistant("ho"), user("he"))),
        ((user("hi") for _ in range(1)), (user("hi"),)),
    ],
)
def test_a_prompt_has_many_forms(prompt: Any, messages: tuple[Any, ...]) -> None:
    assert as_messages(prompt) == messages


def test_a_mixture_of_messages_and_parts_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="got a mixture"):
        as_messages([user("hi"), "ho"])


@pytest.mark.parametrize("prompt", [[], (), iter(())])
def test_a_prompt_without_any_message_is_refused(prompt: Any) -> None:
    with pytest.raises(InvalidRequest, match="prompt must have at least one message"):
        as_messages(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        {"role": "user", "content": "hi"},
        [{"role": "user", "content": "hi"}],
        [{"type": "text", "text": "hi"}],
        {"type": "text", "text": "hi"},
        MappingProxyType({"role": "user", "content": "hi"}),
    ],
)
def test_messages_and_parts_may_be_dicts(prompt: Any) -> None:
    assert as_messages(prompt) == (user("hi"),)


def test_dicts_and_messages_may_be_in_one_list() -> None:
    assert as_messages([user("hi"), {"role": "assistant", "content": "ho"}]) == (user("hi"), assistant("ho"))
    with pytest.raises(InvalidRequest, match="got a mixture"):
        as_messages([{"role": "user", "content": "hi"}, {"type": "text", "text": "ho"}])


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        (None, "None"),
        (b"x", "bytes"),
        ([None], "None"),
        ([["a"]], "list"),
        (5, "5"),
        ([b"x"], "bytes"),
    ],
)
def test_a_value_that_is_not_a_prompt_is_refused(prompt: Any, kind: str) -> None:
    with pytest.raises(InvalidRequest, match=f"prompt must be a str, Message, Part, or a list of these, got {kind}"):
        as_messages(prompt)


@pytest.mark.parametrize("spec", ["anthropic/m", "google/m"])
@pytest.mark.parametrize("prompt", ["", Text(text=""), [system("Be brief.")]])
def test_a_prompt_of_which_nothing_is_left_is_refused(spec: str, prompt: Any) -> None:
    registry = Registry(env={}, api_key="k")
    with pytest.raises(InvalidRequest, match=f"{spec}: messages must contain a non-empty text"):
        registry.model(spec).generate(prompt)


@pytest.mark.parametrize("spec", ["google/m", "openai/m", "openai-responses/m", "ollama/m"])
@pytest.mark.parametrize("prompt", ["", Text(text=""), [user("")]])
def test_an_empty_prompt_beside_a_system_prompt_is_sent_where_the_provider_takes_it(spec: str, prompt: Any) -> None:
    [target] = Registry(env={}, api_key="k").model(spec).explain(prompt, system="Be brief.")
    assert target.request is not None


def test_an_empty_prompt_of_gemini_is_an_empty_text() -> None:
    model = Registry(env={}, api_key="k").model("google/m")
    [target] = model.explain("", system="Be brief.")
    assert target.request is not None
    assert b'"contents":[{"role":"user","parts":[{"text":""}]}]' in target.request.body
    for prompt in ([system("Be brief.")], user(Opaque(wire="openai_responses", data={}))):
        assert model.explain(prompt, system="Be brief.")[0].request is None


@pytest.mark.parametrize("spec", ["anthropic/m", "google/m"])
def test_an_empty_prompt_without_a_system_prompt_is_refused(spec: str) -> None:
    assert Registry(env={}, api_key="k").model(spec).explain("")[0].request is None


def test_a_prompt_of_which_one_target_leaves_nothing_goes_to_the_next() -> None:
    assert Registry(env={}, api_key="k").model("anthropic/m, demo/any").generate("").target == "demo/any"


def test_a_prompt_that_only_another_wire_can_say_is_unsupported() -> None:
    other = Opaque(wire="openai_responses", data={"type": "mcp_approval_response"})
    with pytest.raises(Unsupported, match="only targets of the wire openai_responses take it"):
        Registry(env={}, api_key="k").model("anthropic/m").generate(user(other))
