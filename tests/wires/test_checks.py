"""Each dialect refuses a request that it could not answer, and names its own field."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import InvalidRequest, Truncated, Unsupported
from dragoman.events import PartDelta, PartStarted, Started, to_events
from dragoman.targets.target import Capabilities, Target
from dragoman.types import (
    Audio,
    Choice,
    Citation,
    Document,
    Finish,
    JsonObject,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from dragoman.wires.base import ServerHalf, unsupported_parts
from dragoman.wires.ollama.generate import OllamaGenerateServer
from dragoman.wires.openai_chat.completions import OpenAICompletionsServer

HELLO = (user("hi"),)
WRONG: list[tuple[str, str, dict[str, Any], str]] = [
    ("anthropic", "", {"messages": HELLO}, "model"),
    ("anthropic", "m", {}, "messages"),
    ("anthropic", "m", {"messages": HELLO, "temperature": 1.5}, "temperature"),
    ("google", "m", {}, "contents"),
    ("google", "m", {"messages": HELLO, "max_tokens": 0}, "generationConfig.maxOutputTokens"),
    ("ollama", "", {"messages": HELLO}, "model"),
    ("openai_chat", "", {"messages": HELLO}, "model"),
    ("openai_chat", "m", {}, "messages"),
    ("openai_chat", "m", {"messages": HELLO, "max_tokens": 0}, "max_tokens"),
    ("openai_responses", "", {"messages": HELLO}, "model"),
    ("openai_responses", "m", {}, "input"),
    ("openai_responses", "m", {"messages": HELLO, "temperature": 2.5}, "temperature"),
]
RIGHT: list[tuple[str, dict[str, Any]]] = [
    *((name, {"messages": HELLO, "temperature": 0.5, "max_tokens": 1}) for name in wires.NAMES),
    ("openai_chat", {"system": "Be brief."}),
    ("openai_responses", {"extra": {"openai_responses": {"previous_response_id": "resp_1"}}}),
    ("ollama", {}),
]


@pytest.mark.parametrize(("name", "model", "fields", "param"), WRONG)
def test_a_wrong_request_is_refused(name: str, model: str, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        wires.get(name).server.check(model, Request(**fields))
    assert caught.value.param == param


@pytest.mark.parametrize(("name", "fields"), RIGHT)
def test_a_right_request_passes(name: str, fields: dict[str, Any]) -> None:
    wires.get(name).server.check("m", Request(**fields))


def test_an_error_of_google_names_the_field() -> None:
    body = wires.get("google").server.encode_error(InvalidRequest("contents is required", param="contents")).body
    violation = b'"fieldViolations":[{"field":"contents","description":"contents is required"}]'
    assert violation in body


@pytest.mark.parametrize("name", ["anthropic", "ollama", "openai_responses"])
def test_a_wire_without_audio_refuses_it_whatever_the_target_takes(name: str) -> None:
    target = Target(provider="p", model="m", wire=name, base_url="https://x")
    request = Request(messages=(user(Audio(data=b"x", mime="audio/wav")),))
    with pytest.raises(Unsupported):
        wires.get(name).client.encode_request(request, target)


def test_a_document_by_url_is_a_file_of_google() -> None:
    target = Target(
        provider="p", model="m", wire="google", base_url="https://x", capabilities=Capabilities(document_urls=True)
    )
    document = Document.from_url("https://example.org/a.pdf")
    body = msgspec.json.decode(
        wires.get("google").client.encode_request(Request(messages=(user(document),)), target).body
    )
    assert body["contents"][0]["parts"] == [
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf"}}
    ]


@pytest.mark.parametrize("name", wires.NAMES)
def test_a_dialect_has_a_place_for_text(name: str) -> None:
    assert wires.get(name).server.supports_part(Text(text="a"))
    assert not wires.get(name).server.supports_part(ToolResult(id="c", content="6"))


MARK = "example.org"
CITED = Text(text="Six.", citations=(Citation(url=f"https://{MARK}/tides", title="Tides", start=0, end=4),))
NO_CITATIONS = {"ollama"}
ALL_OPAQUE = {"native"}


@pytest.mark.parametrize("name", wires.NAMES)
@pytest.mark.parametrize("part", ["own", "foreign", "cited", "call", "both"])
def test_an_answer_contains_a_part_or_has_a_notice_of_it(name: str, part: str) -> None:
    data: JsonObject = {"type": "new", "mark": MARK}
    own, foreign = Opaque(wire=name, data=data), Opaque(wire="elsewhere", data=data)
    call = ToolCall(id="call_1", name="tide", arguments={"site": MARK})
    parts: dict[str, tuple[Part, ...]] = {
        "own": (own,),
        "foreign": (foreign,),
        "cited": (CITED,),
        "call": (call,),
        "both": (foreign, CITED),
    }
    dropped = [
        *(["response part (opaque)"] if foreign in parts[part] and name not in ALL_OPAQUE else ()),
        *(["citations"] if CITED in parts[part] and name in NO_CITATIONS else ()),
    ]
    wire = wires.get(name)
    answer = Response(id="r1", model="m", message=assistant(*parts[part]), finish=Finish(reason="stop"))
    notices = unsupported_parts(wire, answer.message.parts)
    assert notices == tuple(Notice(kind="dropped", what=what, why=f"{name}: not supported") for what in dropped)
    encoder = wire.server.stream_encoder(Request(stream=True))
    stream = b"".join(encoder.feed(event) for event in to_events(answer))
    for body in (wire.server.encode_body(answer, Request()).body, stream):
        assert (MARK.encode() in body) == (len(dropped) < len(parts[part]))


def test_the_parts_of_other_choices_count() -> None:
    other = Choice(message=assistant("At six.", Opaque(wire="other", data={})), finish=Finish(reason="stop"))
    (notice,) = unsupported_parts(wires.get("openai_chat"), (), [other])
    assert notice.what == "response part (opaque)"


@pytest.mark.parametrize("server", [OpenAICompletionsServer(), OllamaGenerateServer()])
def test_an_answer_that_continues_a_text_has_a_notice_instead_of_citations(server: ServerHalf) -> None:
    wire = next(wire for wire in map(wires.get, wires.NAMES) if type(server) in map(type, wire.other_servers))
    notices = unsupported_parts(replace(wire, server=server), [CITED])
    assert notices == (Notice(kind="dropped", what="citations", why=f"{wire.name}: not supported"),)
    answer = Response(id="r1", model="m", message=assistant(CITED), finish=Finish(reason="stop"))
    assert MARK.encode() not in server.encode_body(answer, Request(messages=HELLO)).body


def test_a_native_stream_without_an_end_is_truncated() -> None:
    decoder = wires.get("native").client.stream_decoder(Request(stream=True))
    decoder.feed(b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n')
    with pytest.raises(Truncated):
        decoder.feed(b"")


def test_each_delta_of_a_part_is_a_chunk() -> None:
    encoder = wires.get("openai_chat").server.stream_encoder(Request(stream=True))
    encoder.feed(Started(id="a", model="m"))
    encoder.feed(PartStarted(index=0, kind="text"))
    first, second = (encoder.feed(PartDelta(index=0, text=text)) for text in ("a", "b"))
    assert first.replace(b'"content":"a"', b'"content":"b"') == second


@pytest.mark.parametrize("name", wires.NAMES)
def test_every_wire_can_express_a_text(name: str) -> None:
    wire = wires.get(name)
    for half in (wire.server, *wire.other_servers):
        assert half.supports_part(Text(text="Six.")), half
