"""Thinking that a server leaves in the text, between <think> tags."""

import json
import time
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Registry, assistant, user, wires
from dragoman.events import fold
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Quirks, Target
from dragoman.testing import FaultyServer
from dragoman.types import Part, Response, Text, Thinking, ToolCall
from dragoman.wires.common.think_tags import ThinkTagSplitter
from tests.support.wires.laws import obeys_grammar

CASES: dict[str, list[tuple[str, str]]] = {
    "Yes.": [("text", "Yes.")],
    "": [],
    " \n": [("text", " \n")],
    " Yes.": [("text", " Yes.")],
    "<think>Hm.</think>Yes.": [("thinking", "Hm."), ("text", "Yes.")],
    "\n<think>\nHm, \n hm.\n</think>\n\nYes. ": [("thinking", "Hm, \n hm."), ("text", "Yes. ")],
    "<think>\n\n</think>\n\nYes.": [("text", "Yes.")],
    "<think>a</think> <think>b</think> c": [("thinking", "a\n\nb"), ("text", "c")],
    "<think>a": [("thinking", "a")],
    "<think>a </thin": [("thinking", "a </thin")],
    "<think>a </think": [("thinking", "a </think")],
    "<think>a </b> < c</think>": [("thinking", "a </b> < c")],
    "<think>": [],
    "<think": [("text", "<think")],
    "<thinking>a</thinking>": [("text", "<thinking>a</thinking>")],
    " <": [("text", " <")],
    "<think>a</think> <": [("thinking", "a"), ("text", "<")],
    "So <think>a</think> be it": [("text", "So "), ("thinking", "a"), ("text", "be it")],
    "So <think>a, b": [("text", "So <think>a, b")],
    "So <think>a</": [("text", "So <think>a</")],
    "So <thi": [("text", "So <thi")],
    "`<think>` begins, `</think>` ends": [("text", "`<think>` begins, `</think>` ends")],
    "```\n<think>a</think>\n``` so": [("text", "```\n<think>a</think>\n``` so")],
    "`code` <think>a</think>b": [("text", "`code` "), ("thinking", "a"), ("text", "b")],
    "a </think> b": [("text", "a </think> b")],
}


def split(*pieces: str) -> list[tuple[str, str]]:
    """What becomes of the pieces; adjacent pieces of one kind are joined."""
    splitter = ThinkTagSplitter()
    found = [piece for text in pieces for piece in splitter.feed(text)] + splitter.end()
    assert all(text for _, text in found)
    return [(kind, "".join(text for _, text in group)) for kind, group in groupby(found, key=itemgetter(0))]


@pytest.mark.parametrize("text", CASES)
def test_a_text_is_split(text: str) -> None:
    assert split(text) == CASES[text]


@pytest.mark.parametrize("text", CASES)
def test_letter_by_letter_it_is_the_same(text: str) -> None:
    assert split(*text) == CASES[text]


TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "think>", "</", " ", "\n", "`", "a", "é", "<think", "</thin"])
).map("".join)


@given(TEXTS, st.lists(st.integers(0, 60)))
def test_any_cuts_give_the_same(text: str, cuts: list[int]) -> None:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert split(*pieces) == split(text)


def test_a_long_text_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        splitter, began = ThinkTagSplitter(), time.process_time()
        for text in ("<think>", *[" "] * count, *["<"] * count, "</think>", *[" "] * count, "a", *["<t"] * count):
            splitter.feed(text)
        return time.process_time() - began

    assert seconds(40_000) < 40 * max(seconds(4_000), 0.001)


# In an answer ---------------------------------------------------------------------------------------------------------

LOCAL = Target(provider="p", model="m", wire="openai_chat", base_url="https://x", quirks=Quirks(think_tags=True))
THOUGHT = Thinking(text="Hm.", extra={"openai_chat": {"fields": ["reasoning_content"]}})


def chat(*deltas: dict[str, Any], to: Target | None = LOCAL, step: int = 7) -> Response:
    frames: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"
    decoder = wires.get("openai_chat").client.stream_decoder(None, to)
    events = [event for i in range(0, len(data), step) for event in decoder.feed(data[i : i + step])]
    obeys_grammar(events)
    return fold(events)


def contents(text: str) -> list[dict[str, Any]]:
    return [{"content": letter} for letter in text]


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_stream_has_thinking_and_text(step: int) -> None:
    parts = chat(*contents("<think>Hm.</think>\n\nYes."), step=step).message.parts
    assert parts == (THOUGHT, Text(text="Yes."))


def test_a_body_has_thinking_and_text() -> None:
    choice = {"message": {"content": "<think>Hm.</think>\n\nYes."}, "finish_reason": "stop"}
    body = json.dumps({"choices": [choice]}).encode()
    client = wires.get("openai_chat").client
    assert fold(client.decode_body(body, None, LOCAL)).message.parts == (THOUGHT, Text(text="Yes."))
    assert fold(client.decode_body(body)).text == "<think>Hm.</think>\n\nYes."


def test_what_is_held_back_comes_before_the_part_that_follows_it() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "now", "arguments": "{}"}}
    held = chat({"content": "a <thi"}, {"tool_calls": [call]}).message.parts
    assert held == (Text(text="a <thi"), ToolCall(id="a", name="now"))
    first = chat({"content": "<thi"}, {"reasoning_content": "Hm."}, {"content": "Yes."}).message.parts
    assert first == (Text(text="<thi"), THOUGHT, Text(text="Yes."))


def test_every_choice_is_split_and_keeps_its_log_probabilities() -> None:
    logprobs = {"content": [{"token": "Yes", "logprob": -0.5}]}
    message = {"content": "<think>Hm.</think>Yes"}
    choices = [{"index": i, "message": message, "finish_reason": "stop", "logprobs": logprobs} for i in range(2)]
    response = fold(wires.get("openai_chat").client.decode_body(json.dumps({"choices": choices}).encode(), None, LOCAL))
    for choice in response.choices:
        thinking, text = choice.message.parts
        assert thinking == THOUGHT
        assert isinstance(text, Text)
        assert (text.text, [token.token for token in text.logprobs]) == ("Yes", ["Yes"])


def test_without_the_quirk_the_text_stays_as_it_is() -> None:
    assert chat(*contents("<think>Hm.</think>Yes."), to=None).text == "<think>Hm.</think>Yes."


def test_ollama_has_thinking_and_text() -> None:
    lines = [{"message": {"content": text}, "done": False} for text in ("<thi", "nk>Hm.</think", ">\nYes.")]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, {"done": True, "done_reason": "stop"}])
    decoder = wires.get("ollama").client.stream_decoder(None, LOCAL)
    assert fold(decoder.feed(data)).message.parts == (Thinking(text="Hm.", extra={"ollama": {}}), Text(text="Yes."))


LOCAL_RECORDS = ("ollama", "ollama-cloud", "foreman", "llama-swap", "llama-cpp", "vllm", "lmstudio")


@pytest.mark.parametrize("name", LOCAL_RECORDS)
def test_local_servers_have_the_quirk(name: str) -> None:
    assert PROVIDERS[name].quirks.think_tags
    assert not PROVIDERS["openai"].quirks.think_tags


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_of_a_local_server_gives_thinking_apart_and_sends_it_back(stream: bool) -> None:  # noqa: FBT001
    with FaultyServer("<think>Hm.</think>\n\nYes.", "Bye.") as server:
        registry = Registry(env={})
        registry.add_provider(name="box", like="vllm", base_url=server.base_url())
        model = registry.model("box/m")
        response = list(model.stream("Is it?"))[-1] if stream else model.generate("Is it?")
        assert isinstance(response, Response)
        assert (response.thinking, response.text) == ("Hm.", "Yes.")
        model.generate([user("Is it?"), response.message, user("Sure?")])
        assert server.requests[-1].messages[1].parts == (THOUGHT, Text(text="Yes."))


def test_a_part_of_the_users_history_is_not_split() -> None:
    part: Part = assistant("<think>Hm.</think>Yes.").parts[0]
    assert part == Text(text="<think>Hm.</think>Yes.")
