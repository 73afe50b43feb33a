"""The options of embeddings: each member of a client's request is carried, noticed or refused, at every provider."""

import json
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Quirks, Target
from dragoman.types import Embeddings, Usage
from dragoman.types.data_urls import decode_base64
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.embedding_forms import FORMS, check_numbers, encode_vectors, read_options
from dragoman.wires.common.server_endpoints import Embed
from tests.support.batch import for_all

VECTORS = Embeddings(vectors=((1.0, -2.0),), usage=Usage(input=3))
ANSWERED = {"encoding_format": "base64", "embedding_types": ["base64"]}
"""Members that say in which form the client wants the answer: the server half does it, whatever the target sends."""
OPENAI: dict[str, Any] = {
    "input": [[1, 2]],
    "dimensions": 8,
    "encoding_format": "base64",
    "user": "u",
    # Of servers that imitate it: Mistral, Voyage, Jina, NVIDIA, OpenRouter, vLLM.
    "output_dimension": 8,
    "output_dtype": "int8",
    "metadata": {"a": "b"},
    "input_type": "query",
    "truncation": False,
    "task": "code.query",
    "late_chunking": True,
    "embedding_type": "float",
    "normalized": True,
    "truncate": "END",
    "provider": {"order": ["openai"]},
    "truncate_prompt_tokens": 5,
    "priority": 1,
}
COHERE: dict[str, Any] = {
    "texts": ["b"],
    "inputs": [{"content": [{"type": "text", "text": "b"}]}],
    "images": ["data:image/gif;base64,AA=="],
    "input_type": "clustering",
    "embedding_types": ["base64"],
    "output_dimension": 8,
    "max_tokens": 5,
    "truncate": "START",
    "priority": 1,
}
GOOGLE: dict[str, Any] = {
    "taskType": "RETRIEVAL_QUERY",
    "task_type": "QUESTION_ANSWERING",
    "title": "Ships",
    "outputDimensionality": 8,
    "output_dimensionality": 8,
}
VERTEX: dict[str, Any] = {**GOOGLE, "mimeType": "text/plain", "autoTruncate": True, "documentOcr": True}
OLLAMA: dict[str, Any] = {"truncate": False, "options": {"num_ctx": 9}, "keep_alive": "5m", "dimensions": 8}
CLOUD = "/v1/projects/p/locations/l/publishers/google/models"
CONTENT: dict[str, Any] = {"content": {"parts": [{"text": "a"}]}}
CLIENTS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "openai": ("openai_chat", "/v1/embeddings", {"model": "m", "input": "a"}, OPENAI),
    "cohere": ("openai_chat", "/v2/embed", {"model": "m", "texts": ["a"]}, COHERE),
    "google": ("google", "/v1beta/models/m:embedContent", CONTENT, GOOGLE),
    "vertex": ("google", f"{CLOUD}/m:embedContent", CONTENT, {"embedContentConfig": VERTEX}),
    "ollama": ("ollama", "/api/embed", {"model": "m", "input": "a"}, OLLAMA),
    "ollama-old": ("ollama", "/api/embeddings", {"model": "m", "prompt": "a"}, {"options": {}, "keep_alive": 0}),
}


def test_the_members_of_the_packages_are_all_tried() -> None:
    from google.genai.types import EmbedContentConfig
    from ollama._types import EmbeddingsRequest, EmbedRequest
    from openai.types import EmbeddingCreateParams

    assert EmbeddingCreateParams.__annotations__.keys() - {"model"} <= OPENAI.keys()
    assert EmbedRequest.model_fields.keys() - {"model", "input"} <= OLLAMA.keys()
    assert EmbeddingsRequest.model_fields.keys() - {"model", "prompt"} <= OLLAMA.keys()
    names = {_camel(name) for name in EmbedContentConfig.model_fields}
    assert names - {"httpOptions", "audioTrackExtraction"} <= VERTEX.keys()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def members() -> dict[str, tuple[str, str, Any]]:
    found: dict[str, tuple[str, str, Any]] = {}
    for client, (_, _, _, fields) in CLIENTS.items():
        inner = fields.get("embedContentConfig")
        for name, value in (inner or fields).items():
            nested = (client, "embedContentConfig", {name: value})
            found[f"{client} {name}"] = nested if inner else (client, name, value)
    return found


def decode(client: str, body: dict[str, Any]) -> Embed:
    wire, path, _, _ = CLIENTS[client]
    name = path.replace("/m:", "/{model}:").replace("/p/", "/{project}/").replace("/l/", "/{location}/")
    name = name.replace("/google/", "/{publisher}/")
    served = next(each for each in wires.get(wire).server_endpoints if each.route.path == name)
    found = served.decode(HttpRequest(method="POST", path=path, body=json.dumps(body).encode()))
    assert isinstance(found, Embed)
    return found


def targets() -> dict[str, Target]:
    place = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "ANTHROPIC_FOUNDRY_RESOURCE": "r"}
    place |= {"FOREMAN_HOST": "http://x", "DRAGOMAN_BASE_URL": "http://x"}
    env = {**place, "AZURE_OPENAI_ENDPOINT": "https://x", "AZURE_AI_ENDPOINT": "https://x"}
    found = {name: record.target("m", env=env) for name, record in PROVIDERS.items()}
    kinds: tuple[Literal["texts", "single"], ...] = ("texts", "single")
    for kind in kinds:
        bedrock = found["bedrock"]
        found[f"bedrock-{kind}"] = replace(bedrock, quirks=Quirks(embeddings=kind))
    return found


TARGETS = targets()


@for_all("member", members())
@pytest.mark.parametrize("name", TARGETS)
def test_no_member_is_lost_silently(name: str, member: tuple[str, str, Any]) -> None:
    client, field, value = member
    plain = CLIENTS[client][2]
    target = TARGETS[name]
    encode = wires.get(target.wire).endpoints.encode_embeddings
    try:
        before = encode(decode(client, plain).texts, EmbeddingOptions(), target)
    except Unsupported:
        return  # it does not embed
    try:
        embed = decode(client, {**plain, field: value})
        after = encode(embed.texts, embed.options, target)
    except (InvalidRequest, Unsupported):
        return
    if field in ANSWERED:
        assert embed.vector_formats
        return
    assert embed.ignored_fields == ()
    assert json.loads(after.body) != json.loads(before.body) or after.notices or not value


@pytest.mark.parametrize(
    ("target", "options", "fields"),
    [
        ("openai", {"user": "u"}, {"user": "u"}),
        ("mistral", {}, {"output_dimension": 8}),
        ("cohere", {"purpose": "query"}, {"input_type": "search_query", "output_dimension": 8, "texts": ["a"]}),
        ("cohere", {}, {"input_type": "search_document", "embedding_types": ["float"]}),
        ("voyage", {"purpose": "document", "truncate": "none"}, {"input_type": "document", "truncation": False}),
        ("jina", {"purpose": "clustering", "truncate": "end"}, {"task": "separation", "truncate": True}),
        ("nvidia", {"purpose": "document", "truncate": "start"}, {"input_type": "passage", "truncate": "START"}),
        ("openrouter", {"purpose": "query"}, {"input_type": "search_query", "dimensions": 8}),
        ("ollama", {"truncate": "none"}, {"truncate": False, "dimensions": 8}),
        ("perplexity", {}, {"dimensions": 8}),
        ("bedrock-texts", {"purpose": "query", "truncate": "end"}, {"input_type": "search_query", "truncate": "END"}),
    ],
)
def test_an_option_has_the_name_of_each_provider(target: str, options: Any, fields: dict[str, Any]) -> None:
    to = TARGETS[target]
    http = wires.get(to.wire).endpoints.encode_embeddings(["a"], EmbeddingOptions(dimensions=8, **options), to)
    body = json.loads(http.body)
    assert {name: body.get(name) for name in fields} == fields
    assert http.notices == ()


def test_each_text_of_vertex_has_its_purpose() -> None:
    options = EmbeddingOptions(purpose="document", truncate="none", extra={"google": {"title": "Ships"}})
    to = TARGETS["vertex"]
    body = json.loads(wires.get("google").endpoints.encode_embeddings(["a"], options, to).body)
    assert body == {
        "instances": [{"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": "Ships"}],
        "parameters": {"autoTruncate": False},
    }


def test_nova_has_a_purpose_and_cuts_nothing() -> None:
    to = TARGETS["bedrock-single"]
    encode = wires.get("bedrock").endpoints.encode_embeddings
    params = json.loads(encode(["a"], EmbeddingOptions(), to).body)["singleEmbeddingParams"]
    assert params == {"embeddingPurpose": "GENERIC_INDEX", "text": {"truncationMode": "NONE", "value": "a"}}
    options = EmbeddingOptions(purpose="query", truncate="end", dimensions=8)
    params = json.loads(encode(["a"], options, to).body)["singleEmbeddingParams"]
    assert (params["embeddingPurpose"], params["text"]["truncationMode"]) == ("GENERIC_RETRIEVAL", "END")
    assert params["embeddingDimension"] == 8


def test_what_a_provider_has_no_field_for_is_noticed() -> None:
    options = EmbeddingOptions(purpose="similarity", truncate="start", user="u", extra={"google": {"title": "Ships"}})
    http = wires.get("ollama").endpoints.encode_embeddings(["a"], options, TARGETS["ollama"])
    assert [(notice.kind, notice.what) for notice in http.notices] == [
        ("dropped", "purpose"),
        ("dropped", "truncate"),
        ("dropped", "user"),
        ("dropped", "title"),
    ]
    assert "ollama has no field for similarity" in http.notices[0].why


def test_options_are_read_under_every_name() -> None:
    assert read_options("w", {"input_type": "passage", "truncation": True}) == EmbeddingOptions(
        purpose="document", truncate="end"
    )
    assert read_options("w", {"output_dimension": 4}) == EmbeddingOptions(dimensions=4)
    kept = {"output_dimension": 4, "input_type": "poem", "truncate": 7, "user": 3}
    assert read_options("w", {**kept, "task": None}, 8) == EmbeddingOptions(dimensions=8, extra={"w": kept})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("dimensions", 0, "dimensions must be an int >= 1"),
        ("purpose", "poem", "purpose must be one of query, document"),
        ("truncate", True, "truncate must be one of start, end, none"),
    ],
)
def test_a_wrong_option_is_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        EmbeddingOptions(**{field: value})


def test_vectors_of_bytes_are_packed_as_bytes() -> None:
    embed = decode("openai", {"model": "m", "input": "a", "encoding_format": "base64", "output_dtype": "int8"})
    assert embed.vector_formats == ("base64_int8",)
    assert decode_base64(encode_vectors([(1.0, -2.0)], "base64_int8")[0]) == b"\x01\xfe"
    assert decode_base64(encode_vectors([(255.0,)], "base64_uint8")[0]) == b"\xff"
    for vector in ((0.5,), (300.0,), (-200.0,)):
        with pytest.raises(Unsupported, match="the target sent floats: output_dtype must be float, got int8") as caught:
            encode_vectors([vector], "base64_int8")
        assert caught.value.param == "output_dtype"


@pytest.mark.parametrize(
    ("name", "dtype", "is_refused"),
    [
        ("voyage", "int8", False),
        ("perplexity", "int8", False),
        ("ollama", "int8", True),
        ("ollama", "ubinary", True),
        ("bedrock", "uint8", True),
        ("google", "float", False),
    ],
)
def test_bytes_that_a_target_is_not_asked_for_are_refused_before_the_call(
    name: str, dtype: str, *, is_refused: bool
) -> None:
    embed = decode("openai", {"model": "m", "input": "a", "encoding_format": "base64", "output_dtype": dtype})
    target = TARGETS[name]
    form = wires.get(target.wire).endpoints.embedding_form(target)
    if not is_refused:
        check_numbers(embed.vector_formats, embed.options, form, target)
        return
    with pytest.raises(Unsupported, match=f"^{name}: output_dtype must be float, got .*{dtype}.*; leave it out$"):
        check_numbers(embed.vector_formats, embed.options, form, target)


def test_a_target_that_takes_no_unknown_fields_is_not_asked_for_bytes() -> None:
    options = EmbeddingOptions(extra={"openai_chat": {"output_dtype": "int8"}})
    target = replace(TARGETS["openai"], quirks=Quirks(accepts_unknown_fields=False))
    with pytest.raises(Unsupported, match="openai: output_dtype must be float"):
        check_numbers(("base64_int8",), options, FORMS[None], target)
    http = wires.get("openai_chat").endpoints.encode_embeddings(["a"], options, target)
    assert "output_dtype" not in json.loads(http.body)
    assert [(notice.kind, notice.what) for notice in http.notices] == [("dropped", "output_dtype")]


@pytest.mark.parametrize(
    ("name", "sent"),
    [("cohere", "search_document"), ("bedrock-texts", "search_document"), ("bedrock-single", "GENERIC_INDEX")],
)
def test_a_purpose_that_a_provider_lacks_is_sent_as_its_default(name: str, sent: str) -> None:
    embed = decode("google", {**CONTENT, "taskType": "SEMANTIC_SIMILARITY"})
    target = TARGETS[name]
    for options in (embed.options, EmbeddingOptions(purpose="similarity")):
        http = wires.get(target.wire).endpoints.encode_embeddings(["a"], options, target)
        body = json.loads(http.body)
        assert sent in (body.get("singleEmbeddingParams") or body).values()
        why = f"{target.wire}: {target.provider} has no field for similarity; sent as document"
        assert [(each.kind, each.what, each.why) for each in http.notices] == [("changed", "purpose", why)]


def test_a_form_of_another_wire_is_not_used() -> None:
    target = replace(TARGETS["openai"], quirks=Quirks(embeddings="single"))
    endpoints = wires.get("openai_chat").endpoints
    assert endpoints.batch_size(target) == 2048
    assert endpoints.encode_embeddings(["a"], EmbeddingOptions(), target).path.endswith("/embeddings")
    assert endpoints.decode_embeddings(b'{"data":[{"embedding":[1.0]}]}', target).vectors == ((1.0,),)


# Clients of Cohere ----------------------------------------------------------------------------------------------------


def served(path: str) -> Any:
    return next(each for each in wires.get("openai_chat").server_endpoints if each.route.path == path)


@pytest.mark.parametrize(
    ("path", "types", "answer", "kind"),
    [
        ("/v1/embed", None, [[1.0, -2.0]], "embeddings_floats"),
        ("/v1/embed", ["float"], {"float": [[1.0, -2.0]]}, "embeddings_by_type"),
        ("/v2/embed", None, {"float": [[1.0, -2.0]]}, "embeddings_by_type"),
        ("/v2/embed", ["base64", "float"], {"base64": ["AACAPwAAAMA="], "float": [[1.0, -2.0]]}, "embeddings_by_type"),
    ],
)
def test_clients_of_cohere_get_the_form_they_want(path: str, types: Any, answer: Any, kind: str) -> None:
    body = {"model": "m", "texts": ["a"], "embedding_types": types}
    embed = served(path).decode(HttpRequest(method="POST", path=path, body=json.dumps(body).encode()))
    found = json.loads(served(path).encode(embed, VECTORS).body)
    assert (found["embeddings"], found["response_type"]) == (answer, kind)
    assert found["meta"]["billed_units"] == {"input_tokens": 3}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"texts": ["a"]}, "model"),
    ({"model": "m"}, "texts"),
    (
        {"model": "m", "texts": ["a"], "inputs": [{"content": []}]},
        "inputs must be absent if there are texts, got both; send one",
    ),
    ({"model": "m", "images": ["x"]}, "images must be absent, got 1; send texts"),
    ({"model": "m", "texts": ["a"], "embedding_types": ["int8"]}, "must be float or base64, got int8"),
    ({"model": "m", "texts": ["a"], "embedding_types": []}, "must be float or base64, got none"),
    ({"model": "m", "inputs": [{"content": [{"type": "image_url"}]}]}, r"inputs\[0\].content must be a list"),
    ({"model": "m", "inputs": [{"content": "a"}]}, r"inputs\[0\].content must be a list"),
    ({"model": "m", "inputs": [{"content": ["a"]}]}, r"inputs\[0\].content must be a list"),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_what_clients_of_cohere_cannot_embed_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(DragomanError, match=said):
        served("/v2/embed").decode(HttpRequest(method="POST", path="/v2/embed", body=json.dumps(fields).encode()))


def test_inputs_of_texts_are_texts() -> None:
    inputs = [{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    http = HttpRequest(method="POST", path="/v2/embed", body=json.dumps({"model": "m", "inputs": inputs}).encode())
    assert served("/v2/embed").decode(http).texts == ("a\nb",)


def test_a_client_may_say_top_k() -> None:
    body = {"model": "m", "query": "q", "documents": ["a", "b"], "top_k": 1}
    found = served("/v1/rerank").decode(HttpRequest(method="POST", path="/v1/rerank", body=json.dumps(body).encode()))
    assert (found.top, found.ignored_fields) == (1, ())


@pytest.mark.parametrize(
    ("target", "url", "body"),
    [
        ("voyage", "https://api.voyageai.com/v1/rerank", {"model": "m", "query": "q", "documents": ["a"], "top_k": 1}),
        ("jina", "https://api.jina.ai/v1/rerank", {"model": "m", "query": "q", "documents": ["a"], "top_n": 1}),
        ("tei", "http://localhost:8080/rerank", {"query": "q", "texts": ["a"]}),
    ],
)
def test_documents_are_ranked_in_the_form_of_each(target: str, url: str, body: dict[str, Any]) -> None:
    to = TARGETS[target]
    http = wires.get(to.wire).endpoints.encode_rerank("q", ["a"], 1, to)
    assert (http.url, json.loads(http.body)) == (url, body)


def test_every_form_says_how_many_texts_it_takes() -> None:
    endpoints = wires.get("openai_chat").endpoints
    sizes = {name: endpoints.batch_size(TARGETS[name]) for name in ("openai", "cohere", "mistral", "voyage", "tei")}
    assert sizes == {"openai": 2048, "cohere": 96, "mistral": 256, "voyage": 1000, "tei": 32}
    assert wires.get("ollama").endpoints.batch_size(TARGETS["ollama"]) == 2048
    assert all(form.max_texts > 0 for form in FORMS.values())


@pytest.mark.parametrize("name", ["voyage", "jina", "tei"])
def test_a_provider_without_chats_refuses_them(name: str) -> None:
    from dragoman import user
    from dragoman.types import Request

    with pytest.raises(Unsupported, match="does not answer prompts; use it with embed or rerank"):
        wires.get("openai_chat").client.encode_request(Request(messages=(user("hi"),)), TARGETS[name])


def test_texts_of_google_must_have_the_same_options() -> None:
    route = "/v1beta/models/{model}:batchEmbedContents"
    endpoint = next(each for each in wires.get("google").server_endpoints if each.route.path == route)
    requests = [{**CONTENT, "title": "Ships"}, {**CONTENT, "title": "Tides"}]
    http = HttpRequest(
        method="POST", path=route.replace("{model}", "m"), body=json.dumps({"requests": requests}).encode()
    )
    with pytest.raises(InvalidRequest, match="must have the same options in all requests"):
        endpoint.decode(http)
    predict = next(each for each in wires.get("google").server_endpoints if each.route.path.endswith("{model}:predict"))
    instances = [{"content": "a", "title": "Ships"}, {"content": "b", "task_type": "CLUSTERING"}]
    http = HttpRequest(method="POST", path=f"{CLOUD}/m:predict", body=json.dumps({"instances": instances}).encode())
    with pytest.raises(InvalidRequest, match="instances must have the same options, got several; send one body"):
        predict.decode(http)
