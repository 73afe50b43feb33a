"""Clients that send back nothing but role, content and tool calls: the store has the reasoning of their answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.reasoning.step_keys import StepKeys
from dragoman.gateway.reasoning.tag import TagKey
from dragoman.gateway.runtime import Runtime
from dragoman.testing import DeepSeekSimulator, GptSimulator, KimiSimulator, Simulator, assert_prefix_stable
from dragoman.types import Message, Request, Text, Thinking, ToolCall, assistant, user
from tests.gateway.test_long_conversations import SIMULATORS, Cell, Conversation, Plan
from tests.support.gateway.agent_clients import FORGETFUL_CLIENTS
from tests.support.gateway.dialects import BASES, post, send_request

TURNS = 16
PLAN = Plan(turns=TURNS, images=(3, 18), system=9, restart=13, compaction=21)
"""It ends before the compaction."""
CELLS = [Cell(client, provider) for client in FORGETFUL_CLIENTS for provider in SIMULATORS]
each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)


def losses(conversation: Conversation) -> list[str]:
    return [str(loss) for loss in conversation.simulator.losses]


def check(conversation: Conversation) -> None:
    asyncio.run(conversation.run())
    assert [str(refusal) for refusal in conversation.simulator.refusals] == []
    assert [answer for answer in conversation.statuses if answer[0] != 200] == []
    assert len(conversation.statuses) == TURNS
    assert losses(conversation) == []
    assert_prefix_stable(conversation.simulator.bodies)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@each_cell
def test_no_reasoning_is_lost_without_a_store(cell: Cell, tmp_path: Path, *, stream: bool) -> None:
    check(Conversation(cell, tmp_path, stream=stream, has_store=False, plan=PLAN._replace(restart=None)))


@each_cell
def test_no_reasoning_is_lost_through_a_restart_with_a_store(cell: Cell, tmp_path: Path) -> None:
    check(Conversation(cell, tmp_path, stream=True, has_store=True, plan=PLAN))


@pytest.mark.parametrize("provider", ["deepseek", "kimi"])
def test_after_a_restart_without_a_store_a_blank_stands_for_it(provider: str, tmp_path: Path) -> None:
    conversation = Conversation(Cell("bare-chat", provider), tmp_path, stream=False, has_store=False, plan=PLAN)
    asyncio.run(conversation.run())
    assert [str(refusal) for refusal in conversation.simulator.refusals] == []
    assert losses(conversation) != []


# Who gets it ----------------------------------------------------------------------------------------------------------

CALL = ToolCall(id="x", name="tide", arguments={"port": "Brest"})
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}
]
QUESTION = {"role": "user", "content": "How high is the tide?"}


def thinking(text: str) -> Message:
    return Message(role="assistant", parts=(Thinking(text=text), CALL))


def gateway(simulator: Simulator, more: str = "") -> App:
    provider, base = simulator.PROVIDER, BASES.get(simulator.WIRE, "/v1")
    record = f'like = "{provider}"\nbase_url = "http://{provider}.invalid{base}"\napi_key = "k"\n'
    runtime = Runtime(decode_config(f"[gateway]\nlog = false\n{more}[providers.{provider}]\n{record}"), {})
    runtime.registry.transport = simulator
    return App(runtime)


def ask(app: App, messages: list[Any], key: str | None = None, model: str = "deepseek/deepseek-v4-pro") -> Any:
    body = json.dumps({"model": model, "messages": messages, "tools": TOOLS}).encode()
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    seen = asyncio.run(send_request(app, post("/v1/chat/completions", body, **headers)))
    assert seen.status == 200, seen.body
    return json.loads(seen.body)["choices"][0]["message"]


def bare(message: Any) -> list[Any]:
    """What such a client sends next: the calls, with the same ids, and their results."""
    calls = [{name: call[name] for name in ("id", "type", "function")} for call in message["tool_calls"]]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "4"} for call in calls]
    return [QUESTION, {"role": "assistant", "content": None, "tool_calls": calls}, *results]


def test_two_clients_with_the_same_call_ids_share_nothing() -> None:
    keys = "".join(f'[keys.{name}]\nhash = "{hash_key(name * 8)}"\n' for name in ("alice", "bob"))
    simulator = KimiSimulator(reply=lambda _: thinking(f"secret {len(simulator.requests)}"))
    app = gateway(simulator, keys)
    model = "moonshot/kimi-k2.6"
    first = ask(app, [QUESTION], "alice" * 8, model)
    ask(app, bare(first), "bob" * 8, model)
    assert b"secret" not in simulator.bodies[-1]
    ask(app, bare(first), "alice" * 8, model)
    assert b"secret 1" in simulator.bodies[-1]


class KimiThatCountsAnew(KimiSimulator):
    CALL_IDS = "functions.tide:0{0:.0}"


def test_numbered_ids_of_two_conversations_are_told_apart() -> None:
    simulator = KimiThatCountsAnew(thinking("first"), thinking("second"), "At six.", "At seven.")
    app, model = gateway(simulator), "moonshot/kimi-k2.6"
    one = ask(app, [QUESTION], model=model)
    two = ask(app, [{"role": "user", "content": "And tomorrow?"}], model=model)
    assert two["tool_calls"] == one["tool_calls"]
    ask(app, bare(one), model=model)
    assert b"first" in simulator.bodies[-1]
    assert b"second" not in simulator.bodies[-1]


def test_another_account_gets_none_of_it() -> None:
    simulator = DeepSeekSimulator(thinking("secret"), "At six.")
    other = '[providers.other]\nlike = "deepseek"\nbase_url = "http://deepseek.invalid/v1"\napi_key = "k2"\n'
    app = gateway(simulator, other)
    ask(app, bare(ask(app, [QUESTION])), model="other/deepseek-v4-pro")
    assert b"secret" not in simulator.bodies[-1]


def test_what_a_client_sends_itself_is_not_replaced() -> None:
    simulator = DeepSeekSimulator(thinking("mine"), "At six.")
    app = gateway(simulator)
    messages = bare(ask(app, [QUESTION]))
    messages[1]["reasoning_content"] = "my own"
    ask(app, messages)
    assert b"my own" in simulator.bodies[-1]


class GptWithRandomIds(GptSimulator):
    CALL_IDS = "call_9f8e7d6c5b4a39281706{}"


def test_a_client_that_changes_a_result_before_an_answer_loses_nothing() -> None:
    simulator = GptWithRandomIds(
        reply=lambda request: thinking("") if len(request.messages) < 4 else assistant("At six.")
    )
    app, model = gateway(simulator), "openai-responses/gpt-5.6"
    messages = bare(ask(app, [QUESTION], model=model))
    second = ask(app, messages, model=model)
    messages[-1]["content"] = "[cleared]"
    messages += bare(second)[1:]
    ask(app, messages, model=model)
    assert simulator.losses == []
    assert simulator.bodies[-1].count(b'"encrypted_content":"') == 2


# Names ----------------------------------------------------------------------------------------------------------------

KEY = TagKey(b"k" * 32, None)


def names(request: Request, *calls: ToolCall, dialect: str = "openai_chat", text: str = "Yes.") -> tuple[str, ...]:
    return StepKeys(KEY, dialect, request).of(len(request.messages), calls, text)


def test_an_answer_without_calls_has_the_name_of_its_whole_conversation() -> None:
    first = Request(messages=(user("hi"), assistant("Hello."), user("Go on")))
    again = Request(messages=(user("hi"), assistant(Thinking(text="Hm."), Text(text="Hello.")), user("Go on")))
    assert names(first) == names(again)
    for other in (
        Request(messages=(user("ho"), assistant("Hello."), user("Go on"))),
        Request(messages=first.messages, system="Be brief."),
        Request(messages=(user("hi"), user("Hello."), user("Go on"))),
    ):
        assert names(other) != names(first)


@pytest.mark.parametrize(
    ("id", "is_unique"),
    [
        ("toolu_01A09q90qw90lq917835lq9", True),
        ("8f14e45f-ceea-467f-a0e6-3d2f7b1c9e55", True),
        ("call_00_JrlpnxQ0pnLuYYAFNiOz", True),
        ("functions.get_weather_forecast:0", False),
        ("functions.tide2weatherforecast:0", False),
        ("call_1", False),
        ("12345678901234567890", False),
        ("", False),
    ],
)
def test_only_an_id_that_is_random_is_a_name_alone(id: str, is_unique: bool) -> None:  # noqa: FBT001
    call = ToolCall(id=id, name="tide2weatherforecast")
    one, other = (names(Request(messages=(user(text),)), call) for text in ("a", "b"))
    assert (one == other) is is_unique


def test_the_order_of_arguments_and_the_form_of_numbers_do_not_matter() -> None:
    request = Request(messages=(user("hi"),))
    calls = [ToolCall(id="call_1", name="tide", arguments=each) for each in ({"a": 1.0, "b": 2}, {"b": 2, "a": 1})]
    assert names(request, calls[0], dialect="ollama") == names(request, calls[1], dialect="ollama")


def test_the_names_of_an_answer_do_not_depend_on_which_was_named_first() -> None:
    request = Request(messages=(user("one"), assistant("two"), user("three"), assistant("four"), user("five")))
    forwards, backwards = StepKeys(KEY, "openai_chat", request), StepKeys(KEY, "openai_chat", request)
    first, last = forwards.of(1, (), "two"), forwards.of(3, (), "four")
    assert (backwards.of(3, (), "four"), backwards.of(1, (), "two")) == (last, first)
    assert first != last
