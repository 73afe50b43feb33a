"""Every recorded exchange: decoded, encoded again, decoded again; cut in every way; errors typed."""

import contextlib
import re
from itertools import accumulate
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest

from dragoman import Registry, wires
from dragoman.engine.exchange import decode_answer
from dragoman.errors import DragomanError, InvalidRequest, ProviderError, Unsupported
from dragoman.events import Event, fold
from dragoman.http import Head, HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.types import Request, Response
from dragoman.wires.common.invoke import WHOLE_PATH
from dragoman.wires.common.server_endpoints import Embed, Rerank
from tests.support.batch import grouped
from tests.support.corpus.errors import expected_error
from tests.support.corpus.exchanges import (
    FOLDER,
    OWN_TEST,
    Exchange,
    InvokedEndpoint,
    by_folder,
    exchanges,
    invoked_endpoints,
    not_loaded,
)
from tests.support.corpus.rules import level
from tests.support.wires import laws

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded exchanges at {FOLDER}")
HOME = {
    "anthropic": "anthropic",
    "bedrock": "bedrock",
    "google": "google",
    "google_interactions": "google-interactions",
    "ollama": "ollama",
    "openai_chat": "openai",
    "openai_responses": "openai-responses",
}


ANSWERED = [exchange for exchange in exchanges() if exchange.status < 400]
REFUSED = [exchange for exchange in exchanges() if exchange.status >= 400]
STREAMED = [exchange for exchange in ANSWERED if exchange.streamed]
QUESTION = [exchange for exchange in exchanges() if exchange.request is not None]
CHATS = [exchange for exchange in QUESTION if not exchange.is_text]
TEXTS = [exchange for exchange in QUESTION if exchange.is_text]


@pytest.mark.parametrize("reason", sorted(reason for reason in not_loaded() if not reason.endswith(OWN_TEST)))
def test_recordings_that_are_not_loaded(reason: str) -> None:
    ids = not_loaded()[reason]
    assert "unknown" not in reason, ids
    pytest.skip(f"{len(ids)} recordings: {reason}")


def test_every_recording_is_loaded_or_has_a_reason() -> None:
    left_out = [id for ids in not_loaded().values() for id in ids]
    files = sum(1 for _ in FOLDER.glob("*/*.json"))
    assert len(exchanges()) + len(left_out) == files
    endpoints = {f"bedrock-invoke/{recording.id}" for recording in invoked_endpoints()}
    assert {id for id in left_out if id.startswith("bedrock-invoke/")} == endpoints


@grouped(by_folder(ANSWERED))
def test_a_response_survives(exchange: Exchange) -> None:
    wire = wires.get(exchange.wire)
    events, error = decode(exchange)
    assert (error is not None) == ("stream-error" in exchange.features)
    if error is not None:
        assert isinstance(error, ProviderError)
        return
    laws.obeys_grammar(events)
    response = fold(events)
    request = decoded_request(exchange)
    answer = exchange.server.encode_body(response, request)
    back = fold(wire.client.decode_body(answer.body))
    if exchange.form == "text":
        # The counts of some whole bodies are in headers.
        back = decode_answer(answer, request, home_of(exchange, exchange.model), wire.client)
    assert view(back) == view(response)
    if not exchange.streamed:
        assert back.message == response.message
        return
    encoder = exchange.server.stream_encoder(request)
    data = b"".join(encoder.feed(event) for event in events)
    again, error = laws.read(wire.client.stream_decoder(), [data])
    assert error is None
    assert view(fold(again)) == view(response)
    assert fold(again).message == response.message


TAGGED = [each for each in ANSWERED if each.form == "chat" and "gpt-oss" in each.model]


@pytest.mark.parametrize("exchange", TAGGED, ids=lambda exchange: exchange.id)
def test_thinking_between_tags_is_apart(exchange: Exchange) -> None:
    to = invoked(f"bedrock-openai/{exchange.model}")
    client = wires.get(exchange.wire).client
    if exchange.streamed:
        events, error = laws.read(client.stream_decoder(None, to), [exchange.body])
        assert error is None
    else:
        events = client.decode_body(exchange.body, None, to)
    found = fold(events)
    assert found.thinking
    assert "reasoning>" not in found.thinking + found.text
    back = fold(client.decode_body(exchange.server.encode_body(found, decoded_request(exchange)).body, None, to))
    assert view(back) == view(found)


def decode(exchange: Exchange) -> tuple[list[Event], DragomanError | None]:
    client = wires.get(exchange.wire).client
    if exchange.streamed:
        return laws.read(client.stream_decoder(), [exchange.body])
    try:
        return client.decode_body(exchange.body), None
    except DragomanError as error:
        return [], error


def target_of(home: str, model: str) -> Target:
    # What a target can do depends on the model; those of the recordings can do what they were sent.
    if home != "bedrock":
        plain = target(f"{home}/{model}", api_key="k")
        system_turns = home == "anthropic" or plain.quirks.system_turns
        return msgspec.structs.replace(plain, quirks=msgspec.structs.replace(plain.quirks, system_turns=system_turns))
    plain = target(f"{home}/{model}", api_key="k", base_url="https://bedrock")
    structured = msgspec.structs.replace(plain.capabilities, structured=True)
    quirks = msgspec.structs.replace(plain.quirks, strict=True, system_turns=True)
    return msgspec.structs.replace(plain, capabilities=structured, quirks=quirks)


INVOKED_BY = {"messages": "bedrock-anthropic", "converse": "bedrock-nova", "chat": "bedrock-openai", "text": "bedrock"}


def home_of(exchange: Exchange, model: str) -> Target:
    """The target that the recording called."""
    if exchange.form is None:
        return target_of(HOME[exchange.wire], model)
    plain = invoked(f"{INVOKED_BY[exchange.form]}/{model}")
    quirks = msgspec.structs.replace(
        plain.quirks, strict=True, sampling=True, system_turns=True, temperature_excludes_top_p=False
    )
    return msgspec.structs.replace(plain, quirks=quirks)


def invoked(spec: str) -> Target:
    """A target of Bedrock, with what is known about its model."""
    return Registry(env={"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "k"}).target(spec)


PATH_SAYS_IT = ("model", "stream")
"""Members of a body of InvokeModel that repeat the path, which alone decides. They are not sent, because a gateway may
call another model than the client named; that they agree with the path is asserted."""


def without_envelope(exchange: Exchange, body: dict[str, Any]) -> dict[str, Any]:
    """A body of InvokeModel without what the path says, too, and with the version that Nova takes if none is said."""
    said = (body.get("model", exchange.model), body.get("stream", exchange.is_stream_asked))
    assert said == (exchange.model, exchange.is_stream_asked)
    version = {"schemaVersion": "messages-v1"} if exchange.form == "converse" else {}
    return {**version, **{name: value for name, value in body.items() if name not in PATH_SAYS_IT}}


def decoded_request(exchange: Exchange) -> Request:
    http = HttpRequest(method="POST", path=exchange.path, body=msgspec.json.encode(exchange.request or {}))
    return exchange.server.decode_request(http)[1]


def view(response: Response) -> dict[str, object]:
    """What a response means, whatever form it came in."""
    usage = response.usage
    return {
        "id": response.id,
        "model": response.model,
        "created": response.created,
        "text": response.text,
        "thinking": response.thinking,
        "calls": [(call.id, call.name, call.arguments) for call in response.tool_calls],
        "finish": response.finish.reason,
        # Open Responses requires numbers, so unknown counts are 0 there.
        "usage": msgspec.structs.replace(
            usage, cache_read=usage.cache_read or 0, cache_write=usage.cache_write or 0, reasoning=usage.reasoning or 0
        ),
    }


@grouped(by_folder(STREAMED))
def test_a_stream_reads_the_same_however_it_is_cut(exchange: Exchange) -> None:
    client = wires.get(exchange.wire).client
    whole = laws.read(client.stream_decoder(), [exchange.body])
    ways = laws.random_splits(exchange.body, 4, seed=len(exchange.body))
    if exchange.chunk_lengths:
        ways.append(laws.split(exchange.body, [*accumulate(exchange.chunk_lengths)]))
    for pieces in ways:
        events, error = laws.read(client.stream_decoder(), pieces)
        assert events == whole[0]
        assert type(error) is type(whole[1])


WRITTEN: tuple[tuple[str, str], ...] = (
    (r"\n", r"\r\n"),
    (r"\n", r"\r"),
    (r"\A", "\ufeff"),
    (r"\A", r"\n: hello\n\n"),
    (r"\n\n", r"\n\n: keep-alive\n\n"),
    (r"\n\n", r"\n\ndata:\n\n"),
    (r"(?m)^(data|event): ", r"\1:"),
    (r"(?m)^data: ", r"id: 7\nretry: 100\ndata: "),
)
"""Ways in which the same events may be written: what is put in place of what."""


@grouped(by_folder([exchange for exchange in STREAMED if exchange.kind == "sse"]))
def test_a_stream_reads_the_same_however_it_is_written(exchange: Exchange) -> None:
    client = wires.get(exchange.wire).client
    plain = re.sub(r"\r\n?", "\n", exchange.body.decode())
    whole = laws.read(client.stream_decoder(), [plain.encode()])
    for found, put in WRITTEN:
        events, error = laws.read(client.stream_decoder(), [re.sub(found, put, plain).encode()])
        assert events == whole[0]
        assert type(error) is type(whole[1])


@grouped(by_folder(STREAMED))
def test_a_cut_stream_is_truncated_or_a_prefix(exchange: Exchange) -> None:
    client = wires.get(exchange.wire).client
    whole, error = laws.read(client.stream_decoder(), [exchange.body])
    for cut in range(0, len(exchange.body), max(1, len(exchange.body) // 40)):
        events, cut_error = laws.read(client.stream_decoder(), [exchange.body[:cut]])
        assert events == whole[: len(events)]
        assert cut_error is not None or (error is None and events == whole)


@grouped(by_folder(CHATS))
def test_a_request_survives(exchange: Exchange) -> None:
    assert exchange.request is not None
    wire = wires.get(exchange.wire)
    http = HttpRequest(method=exchange.method, path=exchange.path, body=msgspec.json.encode(exchange.request))
    try:
        model, request = exchange.server.decode_request(http)
        sent = wire.client.encode_request(request, home_of(exchange, model or "m"))
    except (InvalidRequest, Unsupported):
        assert exchange.status in (400, 422), "the provider took it"
        return
    body = msgspec.json.decode(sent.body)
    asked = exchange.request
    if "model" in asked:
        assert model == asked["model"]
    else:
        body.pop("model", None)
    if exchange.form is not None:
        assert (model, request.stream) == (exchange.model, exchange.is_stream_asked)
        assert sent.path == quote(unquote(exchange.path))
        body, asked = (without_envelope(exchange, each) for each in (body, asked))
        if "stream_options" in asked:
            assert body["stream_options"] == asked["stream_options"]
    assert level(exchange.wire, body) == level(exchange.wire, asked)


@grouped(by_folder(TEXTS))
def test_a_text_to_continue_survives(exchange: Exchange) -> None:
    assert exchange.request is not None
    try:
        exchange.server.check(exchange.model, decoded_request(exchange))
    except InvalidRequest:
        assert exchange.status == 400, "the provider took it"
        return
    home = home_of(exchange, exchange.model)
    if exchange.form is not None:
        sent = wires.get(exchange.wire).client.encode_request(decoded_request(exchange), home)
        assert sent.path == quote(unquote(exchange.path))
        assert without_defaults(msgspec.json.decode(sent.body)) == without_defaults(exchange.request)
        return
    quirks = msgspec.structs.replace(home.quirks, completions="/completions", fill_in="/completions", top_k=True)
    home = msgspec.structs.replace(home, quirks=quirks)
    sent = wires.get(exchange.wire).client.encode_request(decoded_request(exchange), home)
    body = msgspec.json.decode(sent.body)
    assert level(exchange.wire, unified(body)) == level(exchange.wire, unified(exchange.request))


def unified(body: dict[str, Any]) -> dict[str, Any]:
    """A body of `/completions` or `/api/generate` without differences of form: nulls, defaults, a chat of one turn."""
    body = without_defaults(body)
    if messages := body.pop("messages", None):
        body["prompt"] = messages[-1]["content"]
    # Ollama streams unless told otherwise, and the others the other way round.
    body.pop("stream", None)
    body.pop("stream_options", None)
    return {name: value for name, value in body.items() if value not in ({}, "")}


def without_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """A body without members that say nothing: null, an empty text, list or object, and false."""
    inner = {
        name: without_defaults(value) if name in ("options", "textGenerationConfig") else value
        for name, value in body.items()
    }
    return {name: value for name, value in inner.items() if value is not False and value not in (None, "", [], {})}


@pytest.mark.parametrize("recording", invoked_endpoints(), ids=lambda recording: recording.id)
def test_embeddings_and_rankings_of_invoke_model(recording: InvokedEndpoint) -> None:
    """Decoded as a server, encoded again as a client; the answer decoded, encoded again, decoded again."""
    wire = wires.get("bedrock")
    body = msgspec.json.decode(recording.http.body)
    there = [each for each in wire.server_endpoints if each.route.path == WHOLE_PATH]
    served = next(each for each in there if each.route.accepts and each.route.accepts(body))
    asked = served.decode(recording.http)
    to = invoked(f"bedrock/{recording.model}")
    answer: Any
    if isinstance(asked, Rerank):
        sent = wire.endpoints.encode_rerank(asked.query, asked.documents, asked.top, to)
        answer = wire.endpoints.decode_rerank(recording.answer)
        assert wire.endpoints.decode_rerank(served.encode(asked, answer).body) == answer
    else:
        assert isinstance(asked, Embed)
        sent = wire.endpoints.encode_embeddings(asked.texts, asked.options, to)
        answer = wire.endpoints.decode_embeddings(recording.answer, to)
        again = wire.endpoints.decode_embeddings(served.encode(asked, answer).body, to)
        assert again.vectors == answer.vectors
        assert len(answer.vectors[0]) == (asked.options.dimensions or len(answer.vectors[0]))
    assert unquote(sent.path) == unquote(recording.http.path)
    assert not sent.notices
    # The type of the numbers is always said; that of the other models is the default of Cohere, too.
    types = {"embedding_types": ["float"]} if "texts" in body else {}
    assert msgspec.json.decode(sent.body) == {**types, **body}


@grouped(by_folder(QUESTION))
def test_a_request_is_taken_by_every_wire_or_refused_with_a_reason(exchange: Exchange) -> None:
    if exchange.status in (400, 404, 422):
        return
    for home in HOME.values():
        to = target_of(home, "m")
        with contextlib.suppress(Unsupported):
            assert wires.get(to.wire).client.encode_request(decoded_request(exchange), to).body


@grouped(by_folder(REFUSED))
def test_an_error_is_typed(exchange: Exchange) -> None:
    error = wires.get(exchange.wire).client.decode_error(
        Head(status=exchange.status, headers=exchange.headers), exchange.body
    )
    kind, facts = expected_error(exchange)
    assert type(error) is kind
    assert error.status == exchange.status
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error)
