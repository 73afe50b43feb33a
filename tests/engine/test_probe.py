"""probe.py: what a server does is found by asking it, and becomes facts that can be kept."""

import asyncio
import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dragoman
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.engine.failover import ChainOptions
from dragoman.engine.probe import Findings, probe
from dragoman.errors import AuthFailed, ConnectFailed, Overloaded, RateLimited, ServerFault
from dragoman.http import Head
from dragoman.targets.target import Target
from tests.support.plans import Status, World

NO_RETRIES = ChainOptions(retries=0)
Answerer = Callable[[dict[str, Any]], Status]


class Server(World):
    """A compatible server that answers each body by a function."""

    def __init__(self, answers: Answerer) -> None:
        super().__init__()
        self._answers = answers
        self.bodies: list[dict[str, Any]] = []

    def answer(self, effect: Send | Open) -> Any:
        body = json.loads(effect.request.body)
        self.bodies.append(body)
        status = self._answers(body)
        if isinstance(effect, Open) and status.status == 200:
            return OpenResponse(Head(status=200), self._streamed(status.body, usage="stream_options" in body))
        self.scripts = [status]
        return super().answer(effect)

    def _streamed(self, body: bytes, *, usage: bool) -> Iterator[bytes]:
        whole = json.loads(body)
        choice = {"index": 0, "delta": whole["choices"][0]["message"], "finish_reason": "stop"}
        yield b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        if usage and "usage" in whole:
            yield b"data: " + json.dumps({"choices": [], "usage": whole["usage"]}).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"


def message(text: str | None, *calls: tuple[str, dict[str, Any]]) -> Status:
    listed = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": listed} if listed else {})}
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    return Status(
        200, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()
    )


def refused(words: str, status: int = 400) -> Status:
    return Status(status, json.dumps({"error": {"message": words}}).encode())


def able(body: dict[str, Any]) -> Status:
    """Supports everything."""
    if body.get("tools"):
        match body.get("tool_choice"):
            case {"function": {"name": name}}:
                return message(None, (name, {"city": "Paris"}))
            case "required":
                return message(None, ("weather", {"city": "Paris"}))
            case _ if "Rome" in json.dumps(body) and body.get("parallel_tool_calls") is not False:
                return message(None, ("weather", {"city": "Paris"}), ("weather", {"city": "Rome"}))
            case _:
                return message(None, ("weather", {"city": "Paris"}))
    if body.get("response_format"):
        return message('{"shade": "qualm", "count": 2}')
    return message("It is red." if "image_url" in json.dumps(body) else "Hello.")


def box() -> Target:
    return dragoman.Registry(env={"LLM_BOX": "vllm+http://box/v1"}).target("box/m")


def outcomes(found: Findings) -> dict[str, str]:
    return {finding.question: finding.outcome for finding in found.findings}


def ask(answers: Answerer) -> Findings:
    return Server(answers).run(probe(box(), NO_RETRIES))


def test_an_able_server_is_found_able() -> None:
    found = ask(able)
    assert set(outcomes(found).values()) == {"yes"}
    assert found.facts == {
        "streaming": True,
        "stream_usage": True,
        "tools": True,
        "forced_choice": True,
        "named_choice": True,
        "parallel_tool_calls": True,
        "structured": True,
    }


def without(word: str, fallback: Status) -> Answerer:
    return lambda body: fallback if word in json.dumps(body) else able(body)


@pytest.mark.parametrize(
    ("answers", "fact"),
    [
        (without('"tools"', refused("tools are not supported")), {"tools": False}),
        (without('"tools"', refused("tools need a template", 500)), {"tools": False}),
        (without('"tool_choice": "required"', message("Hello.")), {"forced_choice": False}),
        (without('"tool_choice": {', refused("only auto, none and required")), {"named_choice": False}),
        (without('"parallel_tool_calls"', refused("unknown field")), {"parallel_tool_calls": False}),
        (without("response_format", message("The sea is wide.")), {"structured": False}),
        (without("response_format", message('{"shade": "blue", "count": 1}')), {"structured": False}),
        (without("image_url", refused("no vision")), {"max_images": 0}),
        (without('"stream": true', refused("no streams")), {"streaming": False}),
        (without("stream_options", refused("unknown field")), {"stream_usage": False}),
    ],
)
def test_what_a_server_cannot_do_is_a_fact(answers: Answerer, fact: dict[str, Any]) -> None:
    facts = ask(answers).facts
    assert {name: facts[name] for name in fact} == fact


def test_a_server_that_tells_no_usage_in_streams_is_found_out() -> None:
    def answers(body: dict[str, Any]) -> Status:
        status = able(body)
        whole = json.loads(status.body)
        whole.pop("usage")
        return Status(200, json.dumps(whole).encode())

    assert ask(answers).facts["stream_usage"] is False


def test_a_model_that_did_not_use_a_tool_leaves_it_open() -> None:
    found = ask(without('"tools"', message("I do not know.")))
    assert outcomes(found)["tools"] == "unclear"
    assert outcomes(found)["forced choice"] == "no"
    assert "tools" not in found.facts


def test_what_follows_from_a_no_is_not_asked() -> None:
    server = Server(without('"tools"', refused("tools are not supported")))
    found = server.run(probe(box(), NO_RETRIES))
    assert [outcomes(found)[name] for name in ("tools", "forced choice", "named choice", "parallel calls")] == [
        "no"
    ] * 4
    assert sum("tools" in body for body in server.bodies) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(401, AuthFailed), (429, RateLimited), (503, Overloaded)], ids=["key", "rate", "busy"]
)
def test_what_says_nothing_of_the_server_is_raised(status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        ask(without('"tools"', refused("no", status)))


def test_a_server_that_does_not_answer_at_all_is_raised() -> None:
    world = World(refused("no such thing"))
    with pytest.raises(dragoman.BadRequest):
        world.run(probe(box(), NO_RETRIES))
    with pytest.raises(ConnectFailed):
        World(ConnectFailed("nobody there")).run(probe(box(), NO_RETRIES))


def test_an_outage_on_the_way_is_raised_and_no_fact() -> None:
    counter = iter(range(100))
    with pytest.raises(ServerFault):
        ask(lambda body: able(body) if next(counter) < 2 else refused("boom", 500))


def test_a_fault_that_passes_says_nothing_of_the_feature() -> None:
    faults = iter([refused("boom", 500)])
    found = ask(lambda body: next(faults, able(body)) if body.get("tools") else able(body))
    assert found == ask(able)


def test_calls_that_were_never_made_were_not_switched_off() -> None:
    found = ask(without('"parallel_tool_calls"', message("I would rather not.")))
    assert outcomes(found)["parallel calls switched off"] == "unclear"
    assert "parallel_tool_calls" not in found.facts


def test_what_is_thought_of_a_target_is_asked_all_the_same() -> None:
    registry = dragoman.Registry(env={"LLM_BOX": "vllm+http://box/v1"})
    registry.set_capabilities("box/m", tools=False, structured=False, max_images=0, streaming=False, stream_usage=False)
    found = Server(able).run(probe(registry.target("box/m"), NO_RETRIES))
    assert set(outcomes(found).values()) == {"yes"}


def test_facts_can_be_kept_in_a_config() -> None:
    found = ask(without("image_url", refused("no vision")))
    registry = dragoman.Registry(env={"LLM_BOX": "vllm+http://box/v1"})
    registry.set_capabilities(found.target, **found.facts)
    assert registry.target("box/m").capabilities.max_images == 0
    other = dragoman.Registry(env={"LLM_BOX": "vllm+http://box/v1"})
    other.load_config(found.toml)
    assert other.target("box/m") == registry.target("box/m")
    assert tomllib.loads(found.toml)["capabilities"]["box/m"] == found.facts


def test_demo_is_found_to_be_as_it_is_blocking_and_async() -> None:
    found = dragoman.probe("demo/any")
    assert asyncio.run(dragoman.aprobe("demo/any")) == found
    assert {name: outcome for name, outcome in outcomes(found).items() if outcome != "yes"} == {
        "parallel calls": "no",  # it calls each tool once
        "images": "unclear",  # it tells their size and type
    }
