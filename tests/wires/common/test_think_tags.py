"""Thinking that a server leaves in the text, between <think> tags."""

import json
import time
from base64 import b64encode
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman import Registry, assistant, user, wires
from dragoman.events import fold
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Quirks, Target
from dragoman.testing import FaultyServer
from dragoman.types import JsonObject, Part, Request, Response, Text, Thinking, ToolCall
from dragoman.wires.common.event_stream import encode_event
from dragoman.wires.common.think_tags import ThinkTag, ThinkTagSplitter
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


OPENED: dict[str, list[tuple[str, str]]] = {
    "Hm.</think>Yes.": [("thinking", "Hm."), ("text", "Yes.")],
    "\nHm, \n hm.\n</think>\n\nYes. ": [("thinking", "Hm, \n hm."), ("text", "Yes. ")],
    "a </think> b": [("thinking", "a"), ("text", "b")],
    "</think>Yes.": [("text", "Yes.")],
    "\n</think>\n": [],
    "a</think>b</think>c": [("thinking", "a"), ("text", "b</think>c")],
    "a</think><think>b</think>c": [("thinking", "a\n\nb"), ("text", "c")],
    "a `</think>` b</think>c": [("thinking", "a `</think>` b"), ("text", "c")],
    "a `<think>` b</think>c": [("thinking", "a `<think>` b"), ("text", "c")],
    "Use `</think>` to end": [("text", "Use `</think>` to end")],
    "a </thin": [("text", "a </thin")],
    ' {"a": "</think>"}': [("text", ' {"a": "</think>"}')],
    '["</think>"]': [("text", '["</think>"]')],
    'a {"b": 1}</think>{"b": 2}': [("thinking", 'a {"b": 1}'), ("text", '{"b": 2}')],
}
"""Texts of models whose prompt ends with `<think>`. Other texts are split as usual."""


JOINED: dict[str, list[tuple[str, str]]] = {
    "<reasoning>So </reasoning><reasoning> it is.</reasoning>Yes.": [("thinking", "So  it is."), ("text", "Yes.")],
    "<reasoning>a\n</reasoning>\n<reasoning>b</reasoning>\n\nYes. ": [("thinking", "a\nb"), ("text", "Yes. ")],
    "<reasoning></reasoning>Yes.": [("text", "Yes.")],
    "<reasoning>a </reason": [("thinking", "a </reason")],
    "So <reasoning> a</reasoning> be it": [("text", "So "), ("thinking", " a"), ("text", "be it")],
    "So <reasoning>a": [("text", "So <reasoning>a")],
    "`<reasoning>` begins, `</reasoning>` ends": [("text", "`<reasoning>` begins, `</reasoning>` ends")],
    "<think>a</think>b": [("text", "<think>a</think>b")],
}
"""Texts of Bedrock, which puts each piece of a stream between tags."""


def split(*pieces: str, may_be_open: bool = False, tag: ThinkTag = "think") -> list[tuple[str, str]]:
    """What becomes of the pieces; adjacent pieces of one kind are joined."""
    splitter = ThinkTagSplitter(tag, may_be_open=may_be_open)
    found = [piece for text in pieces for piece in splitter.feed(text)] + splitter.end()
    assert all(text for _, text in found)
    return [(kind, "".join(text for _, text in group)) for kind, group in groupby(found, key=itemgetter(0))]


@pytest.mark.parametrize("text", CASES)
def test_a_text_is_split(text: str) -> None:
    assert split(text) == CASES[text]


@pytest.mark.parametrize("text", CASES)
def test_letter_by_letter_it_is_the_same(text: str) -> None:
    assert split(*text) == CASES[text]


@pytest.mark.parametrize("text", CASES.keys() | OPENED.keys())
def test_thinking_that_the_prompt_opened_ends_at_its_tag(text: str) -> None:
    expected = OPENED.get(text) or CASES.get(text) or []
    assert split(text, may_be_open=True) == expected
    assert split(*text, may_be_open=True) == expected
    for cut in range(len(text)):
        assert split(text[:cut], text[cut:], may_be_open=True) == expected


@pytest.mark.parametrize("text", JOINED)
def test_blocks_of_reasoning_are_one_thinking(text: str) -> None:
    assert split(*text, tag="reasoning") == JOINED[text]
    for cut in range(len(text) + 1):
        assert split(text[:cut], text[cut:], tag="reasoning") == JOINED[text]


TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "think>", "</", " ", "\n", "`", "a", "é", "<think", "</thin"])
).map("".join)


@given(TEXTS, st.lists(st.integers(0, 60)))
def test_any_cuts_give_the_same(text: str, cuts: list[int]) -> None:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert split(*pieces) == split(text)
    assert split(*pieces, may_be_open=True) == split(text, may_be_open=True)
    renamed = [piece.replace("think", "reasoning") for piece in pieces]
    assert split(*renamed, tag="reasoning") == split("".join(renamed), tag="reasoning")


@given(TEXTS.map(lambda text: text.replace("`", "")))
def test_only_a_lone_end_makes_a_difference(text: str) -> None:
    before, end, _ = text.partition("</think>")
    if "<think>" in before or not end:
        assert split(text, may_be_open=True) == split(text)


@pytest.mark.no_cover
@pytest.mark.parametrize("may_be_open", [True, False])
def test_a_long_text_takes_linear_time(may_be_open: bool) -> None:  # noqa: FBT001
    def seconds(count: int) -> float:
        splitter, began = ThinkTagSplitter(may_be_open=may_be_open), time.process_time()
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


GPT_OSS = Registry(env={"AWS_REGION": "eu-west-1"}).target("bedrock-openai/openai.gpt-oss-120b-1:0")


@pytest.mark.parametrize("reasoning", [None, "high"])
def test_gpt_oss_on_bedrock_has_thinking_and_text(reasoning: Any) -> None:
    deltas = ["", "<reasoning>Greet", "ings,</reasoning>", "<reasoning> friend.</reasoning>", "Hello!"]
    frames: list[Any] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in deltas]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks = [json.dumps({"bytes": b64encode(json.dumps(frame).encode()).decode()}).encode() for frame in frames]
    data = b"".join(encode_event("chunk", chunk) for chunk in chunks)
    asked, expected = Request(reasoning=reasoning), ("Greetings, friend.", "Hello!")
    for step in (1, 50, len(data)):
        decoder = wires.get("openai_chat").client.stream_decoder(asked, GPT_OSS)
        events = [event for i in range(0, len(data), step) for event in decoder.feed(data[i : i + step])]
        events += decoder.end()
        obeys_grammar(events)
        assert (fold(events).thinking, fold(events).text) == expected
    choice = {"message": {"content": "".join(deltas)}, "finish_reason": "stop"}
    whole = wires.get("openai_chat").client.decode_response(json.dumps({"choices": [choice]}).encode(), asked, GPT_OSS)
    assert (whole.thinking, whole.text) == expected
    lone = {"message": {"content": "a</reasoning>b"}, "finish_reason": "stop"}
    body = json.dumps({"choices": [lone]}).encode()
    assert wires.get("openai_chat").client.decode_response(body, asked, GPT_OSS).text == "a</reasoning>b"


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


HELD_BACK = (LOCAL, Request(reasoning="high"))
"""A stream whose text is held back until it is known that it is no thinking."""
TOKENS = {"content": [{"token": "Yes", "logprob": -0.5}]}
CITED = [{"type": "url_citation", "url_citation": {"url": "https://a.example", "start_index": 0, "end_index": 3}}]


@pytest.mark.parametrize("content", ["Yes", "<think>Hm.</think>Yes", "<", "<think>"])
@pytest.mark.parametrize("ending", [{}, {"reasoning_content": "Hm."}, {"refusal": "No."}])
def test_text_that_is_held_back_keeps_its_log_probabilities_and_citations(content: str, ending: Any) -> None:
    message = {"content": content, "annotations": CITED}
    choices = [{"index": i, "message": message, "finish_reason": "stop", "logprobs": TOKENS} for i in range(2)]
    client = wires.get("openai_chat").client
    whole = fold(client.decode_body(json.dumps({"choices": choices}).encode(), None, LOCAL))
    deltas = [{"content": content, "annotations": CITED}, *([ending] if ending else [])]
    chunks: list[JsonObject] = [
        {"choices": [{"delta": delta, "logprobs": TOKENS if "content" in delta else None}]} for delta in deltas
    ]
    end: JsonObject = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, end]) + "data: [DONE]\n\n"
    decoder = client.stream_decoder(HELD_BACK[1], HELD_BACK[0])
    streamed = fold([*decoder.feed(data.encode()), *decoder.end()])
    for response in (*(replace(whole, message=choice.message) for choice in whole.choices), streamed):
        texts = [part for part in response.message.parts if isinstance(part, Text) and part.text != "No."]
        kept = [(tuple(token.token for token in text.logprobs), len(text.citations)) for text in texts]
        assert kept == ([(("Yes",), 1)] if content != "<think>" else [])


FOLLOWING: list[JsonObject] = [
    {},
    {"tool_calls": [{"function": {"name": "tide", "arguments": {}}}]},
    {"images": ["R0lGODlhAQABAA=="]},
    {"thinking": "Hm."},
]


@pytest.mark.parametrize("following", FOLLOWING)
@pytest.mark.parametrize("is_done", [True, False])
def test_ollamas_text_that_is_held_back_keeps_its_log_probabilities(following: Any, is_done: bool) -> None:  # noqa: FBT001
    tokens = TOKENS["content"]
    first = {"message": {"content": "Yes"}, "logprobs": tokens, "done": False}
    last = {"message": {"content": "", **following}, "done": True, "done_reason": "stop"}
    decoder = wires.get("ollama").client.stream_decoder(HELD_BACK[1], HELD_BACK[0])
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in (first, last))
    one = {"message": {"content": "Yes", **following}, "logprobs": tokens, "done": is_done, "done_reason": "stop"}
    whole = fold(wires.get("ollama").client.decode_body(json.dumps(one).encode(), None, LOCAL))
    for response in (fold(decoder.feed(lines)), whole):
        texts = [part for part in response.message.parts if isinstance(part, Text)]
        assert [(text.text, [token.token for token in text.logprobs]) for text in texts] == [("Yes", ["Yes"])]


def test_without_the_quirk_the_text_stays_as_it_is() -> None:
    assert chat(*contents("<think>Hm.</think>Yes."), to=None).text == "<think>Hm.</think>Yes."


def test_ollama_has_thinking_and_text() -> None:
    lines = [{"message": {"content": text}, "done": False} for text in ("<thi", "nk>Hm.</think", ">\nYes.")]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, {"done": True, "done_reason": "stop"}])
    decoder = wires.get("ollama").client.stream_decoder(None, LOCAL)
    assert fold(decoder.feed(data)).message.parts == (Thinking(text="Hm.", extra={"ollama": {}}), Text(text="Yes."))


OPEN = replace(LOCAL, quirks=Quirks(think_tags=True, think_opened=True))


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_stream_may_have_only_the_end_tag(step: int) -> None:
    parts = chat(*contents("Hm.\n</think>\n\nYes."), to=OPEN, step=step).message.parts
    assert parts == (THOUGHT, Text(text="Yes."))
    assert chat(*contents("Yes."), to=OPEN, step=step).message.parts == (Text(text="Yes."),)
    apart = chat({"reasoning_content": "Hm."}, *contents("a</think>b"), to=OPEN, step=step).message.parts
    assert apart == (THOUGHT, Text(text="a</think>b"))


@pytest.mark.parametrize(
    ("reasoning", "to", "is_split"),
    [(None, LOCAL, False), ("high", LOCAL, True), (2048, LOCAL, True), ("none", OPEN, False), (0, OPEN, False)],
)
def test_a_stream_is_held_back_if_thinking_is_likely(reasoning: Any, to: Target, is_split: bool) -> None:  # noqa: FBT001
    frames: list[Any] = [{"choices": [{"delta": {"content": letter}}]} for letter in "Hm.</think>Yes."]
    frames.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    data = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"
    decoder = wires.get("openai_chat").client.stream_decoder(Request(reasoning=reasoning), to)
    assert (fold(decoder.feed(data)).text == "Yes.") == is_split


def test_a_body_may_have_only_the_end_tag() -> None:
    body = json.dumps({"choices": [{"message": {"content": "Hm.</think>Yes."}, "finish_reason": "stop"}]}).encode()
    client = wires.get("openai_chat").client
    assert fold(client.decode_body(body, None, LOCAL)).message.parts == (THOUGHT, Text(text="Yes."))
    assert client.decode_response(body, None, LOCAL).message.parts == (THOUGHT, Text(text="Yes."))
    assert fold(client.decode_body(body)).text == "Hm.</think>Yes."


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen/QwQ-32B", "qwen3-4b-thinking-2507"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_model_whose_template_opens_the_thinking(model: str, stream: bool) -> None:  # noqa: FBT001
    with FaultyServer("Hm.</think>\n\nYes.") as server:
        registry = Registry(env={})
        registry.add_provider(name="box", like="vllm", base_url=server.base_url())
        called = registry.model(f"box/{model}")
        if stream:
            answer = called.stream("Is it?")
            assert "".join(answer.text_deltas()) == "Yes."
            response = answer.response
        else:
            response = called.generate("Is it?")
        assert response is not None
        assert (response.thinking, response.text) == ("Hm.", "Yes.")


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
