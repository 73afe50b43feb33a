"""Every recorded call of an endpoint besides generation: decoded as a server, encoded as a client; its answer, too."""

from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import Head
from dragoman.targets.providers import target
from dragoman.targets.target import Target
from dragoman.wires.common.server_endpoints import CountTokens, Embed, ListModels, ShowModel
from dragoman.wires.google.schema import camel
from tests.support.corpus.endpoints import EndpointCall, endpoint_calls
from tests.support.corpus.errors import expected_error
from tests.support.corpus.exchanges import FOLDER
from tests.support.corpus.rules import level

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded exchanges at {FOLDER}")
EMBEDDINGS, COUNTS, MODELS = (endpoint_calls(kind) for kind in ("embeddings", "count-tokens", "models"))
CALLS = {**EMBEDDINGS, **COUNTS, **MODELS}
REFUSED = {id: call for id, call in CALLS.items() if call.status >= 400}
NOT_TAKEN = {"images": "images must be absent"}
"""Members of requests that a provider took and that we refuse, with a part of the reason."""


def home(call: EndpointCall, model: str) -> Target:
    base_url = "https://example.org" if call.provider in ("azure", "azure-deployments", "bedrock") else None
    return target(f"{call.provider}/{model}", api_key="k", base_url=base_url)


@pytest.mark.parametrize("call", EMBEDDINGS.values(), ids=lambda call: call.id)
def test_embeddings_survive(call: EndpointCall) -> None:
    to = home(call, call.path.split("/")[3] if call.provider == "azure-deployments" else "m")
    wire = wires.get(to.wire)
    served = call.server(to.wire)
    if (why := next((why for member, why in NOT_TAKEN.items() if member in call.asked), None)) is not None:
        with pytest.raises(InvalidRequest, match=why):
            served.decode(call.http)
        return
    try:
        embed = served.decode(call.http)
    except InvalidRequest:
        assert call.status == 400, "the provider took it"
        return
    assert isinstance(embed, Embed)
    assert embed.ignored_fields == ()
    if call.provider != "azure-deployments":
        to = home(call, embed.model)
    http = wire.endpoints.encode_embeddings(embed.texts, embed.options, to)
    assert http.notices == ()
    assert leveled(call.provider, msgspec.json.decode(http.body)) == leveled(call.provider, call.asked)
    if call.status >= 400:
        return
    answer = wire.endpoints.decode_embeddings(call.body, to)
    assert len(answer.vectors) == len(embed.texts)
    if embed.options.dimensions is not None:
        assert {len(vector) for vector in answer.vectors} == {embed.options.dimensions}
    response = served.encode(embed, answer).body
    again = wire.endpoints.decode_embeddings(response)
    assert again.vectors == answer.vectors
    if to.wire != "google":  # its answers have no usage
        assert again.usage.input == answer.usage.input
    wants_base64 = call.asked.get("encoding_format") == "base64"
    assert (b'"embedding":"' in response) == wants_base64


def leveled(provider: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body without differences of form: one text or a list of one, nulls, defaults, and the form of the answer."""
    body = {name: value for name, value in body.items() if value is not None}
    if provider == "google":
        requests = body.get("requests") or [body]
        return {"requests": [camel(request) for request in requests]}
    # What the gateway answers as the client wants it.
    body.pop("encoding_format", None)
    if provider == "cohere":
        return {"embedding_types": ["float"], **body}
    if provider == "azure-deployments":  # the path has it
        body.pop("model")
    texts = body["input"]
    is_one = isinstance(texts, str) or all(isinstance(item, int) for item in texts)
    return {**body, "input": [texts] if is_one else texts}


@pytest.mark.parametrize("call", COUNTS.values(), ids=lambda call: call.id)
def test_token_counts_survive(call: EndpointCall) -> None:
    to = home(call, "m")
    wire, served = wires.get(to.wire), call.server(to.wire)
    try:
        asked = served.decode(call.http)
    except InvalidRequest:
        assert call.status == 400, "the provider took it"
        return
    assert isinstance(asked, CountTokens)
    assert asked.model == call.model
    http = wire.endpoints.encode_tokens(asked.request, home(call, asked.model))
    body, recorded = msgspec.json.decode(http.body), call.asked
    if "tool_choice" in {notice.what for notice in http.notices}:
        # A model that thinks may be forced to call a tool only where nothing is generated.
        body.pop("tool_choice")
        recorded.pop("tool_choice")
    if call.provider == "google":
        inner = {"model": f"models/{call.model}", **call.asked.get("generateContentRequest", call.asked)}
        sent = body["generateContentRequest"]
        assert level(to.wire, sent) == level(to.wire, inner)
    else:
        assert level(to.wire, body) == level(to.wire, recorded)
    if call.status < 400:
        count = wire.endpoints.decode_tokens(call.body)
        assert count > 0
        assert wire.endpoints.decode_tokens(served.encode(asked, count).body) == count


@pytest.mark.parametrize("call", [call for call in MODELS.values() if call.status < 400], ids=lambda call: call.id)
def test_models_survive(call: EndpointCall) -> None:
    to = home(call, "m")
    wire = wires.get(to.wire)
    answer = msgspec.json.decode(call.body)
    if "object" in answer and answer["object"] == "model":
        served = call.server(to.wire)
        assert served.decode(call.http) == ShowModel(answer["id"])
        (model,) = wire.endpoints.decode_models(msgspec.json.encode([answer]))
        assert wire.endpoints.decode_models(msgspec.json.encode([msgspec.json.decode(served.encode(None, model).body)]))
        return
    found = wire.endpoints.decode_models(call.body)
    listed = answer.get("data") or answer["models"]
    assert [model.id for model in found] == [item.get("id") or item["name"] for item in listed]
    assert wire.endpoints.encode_models(to).path.partition("?")[0].endswith(call.path.rpartition("/")[2])
    served = next(
        each
        for each in wire.server_endpoints
        if each.route.method == "GET" and each.route.path.endswith(("/models", "/tags")) and "{" not in each.route.path
    )
    again = wire.endpoints.decode_models(served.encode(ListModels(), found).body)
    assert [model.id for model in again] == [model.id for model in found]


@pytest.mark.parametrize("call", REFUSED.values(), ids=lambda call: call.id)
def test_an_error_of_an_endpoint_is_typed(call: EndpointCall) -> None:
    error = wires.get(home(call, "m").wire).client.decode_error(
        Head(status=call.status, headers=call.headers), call.body
    )
    kind, facts = expected_error(call)
    assert type(error) is kind
    assert error.status == call.status
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error)
