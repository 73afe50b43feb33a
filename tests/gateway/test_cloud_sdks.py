"""The clients of clouds against a live gateway: they need another address and key, and nothing else."""

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from dragoman.errors import ContextTooLong, Overloaded, RateLimited
from dragoman.gateway.auth.api_keys import new_key
from dragoman.registry import Registry
from dragoman.testing import CloseAfter, FaultyServer
from dragoman.types import ToolCall
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.sdks import Anthropic, Google, OpenAIChat, Sdk, anthropic, genai, google, openai

KEY, HASH = new_key()


class Bedrock(Anthropic):
    """InvokeModel, by Anthropic's package. Its key is a bearer token."""

    def client(self) -> Any:
        return anthropic.AnthropicBedrock(base_url=self._url, api_key=KEY, aws_region="us-east-1", max_retries=0)

    def aclient(self) -> Any:
        return anthropic.AsyncAnthropicBedrock(base_url=self._url, api_key=KEY, aws_region="us-east-1", max_retries=0)

    def deltas(self, client: Any, model: str) -> Any:
        messages = [{"role": "user", "content": "hello"}]
        return client.messages.create(model=model, max_tokens=500, messages=messages, stream=True)

    def text(self, chunk: Any) -> str:
        return str(chunk.delta.text) if chunk.type == "content_block_delta" else ""


class SignedBedrock(Bedrock):
    """The same, with a signature: the id of the access key is the gateway's key."""

    def client(self) -> Any:
        return anthropic.AnthropicBedrock(**self._options())

    def aclient(self) -> Any:
        return anthropic.AsyncAnthropicBedrock(**self._options())

    def _options(self) -> dict[str, Any]:
        keys = {"aws_access_key": KEY, "aws_secret_key": "anything"}
        return {"base_url": self._url, "aws_region": "us-east-1", "max_retries": 0, **keys}


class Vertex(Bedrock):
    """Claude on Vertex AI."""

    def client(self) -> Any:
        return anthropic.AnthropicVertex(**self._options())

    def aclient(self) -> Any:
        return anthropic.AsyncAnthropicVertex(**self._options())

    def _options(self) -> dict[str, Any]:
        place = {"region": "europe-west4", "project_id": "p"}
        return {"base_url": f"{self._url}/v1", "access_token": KEY, "max_retries": 0, **place}


class VertexGemini(Google):
    """google-genai in its Vertex mode."""

    def client(self) -> Any:
        credentials = import_module("google.oauth2.credentials").Credentials(token=KEY)
        options = google.HttpOptions(base_url=self._url)
        return genai.Client(
            vertexai=True, project="p", location="europe-west4", credentials=credentials, http_options=options
        )


class Azure(OpenAIChat):
    """The openai package for Azure."""

    def client(self) -> Any:
        return openai.AzureOpenAI(**self._options())

    def aclient(self) -> Any:
        return openai.AsyncAzureOpenAI(**self._options())

    def _options(self) -> dict[str, Any]:
        return {"azure_endpoint": self._url, "api_key": KEY, "api_version": "2024-10-21", "max_retries": 0}


class Foundry(Anthropic):
    """Claude on Azure."""

    def client(self) -> Any:
        return anthropic.AnthropicFoundry(base_url=f"{self._url}/anthropic", api_key=KEY, max_retries=0)

    def aclient(self) -> Any:
        return anthropic.AsyncAnthropicFoundry(base_url=f"{self._url}/anthropic", api_key=KEY, max_retries=0)


KINDS: dict[str, type[Sdk]] = {
    kind.__name__: kind for kind in (Bedrock, SignedBedrock, Vertex, VertexGemini, Azure, Foundry)
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = record("up", upstream.base_url()) + '[chain]\nretries = 0\n[aliases]\nfast = "demo/any"\nup = "up/m"\n'
    config += f'[gateway]\nproviders = ["demo"]\n[keys.team]\nhash = "{HASH}"\n'
    with Gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


@pytest.fixture(params=[f"{name}, {how}" for name in KINDS for how in ("blocking", "async")])
def sdk(request: pytest.FixtureRequest, gateway: Gateway) -> Sdk:
    name, _, how = request.param.partition(", ")
    return KINDS[name](gateway.url, is_async=how == "async")


def test_an_answer_and_a_stream(sdk: Sdk) -> None:
    answer = sdk.talk("ask", "fast")
    assert answer.startswith("Hello!")
    seen: list[str] = []
    sdk.stream("fast", seen)
    assert "".join(seen) == answer


def test_tools_over_two_turns(sdk: Sdk, upstream: FaultyServer) -> None:
    upstream.add(ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"}), "It turns at six.")
    assert sdk.talk("tools", "up") == ("tide", {"place": "Kiel"}, "It turns at six.")


def test_a_model_with_a_slash(sdk: Sdk) -> None:
    assert sdk.talk("ask", "demo/any").startswith("Hello!")
    seen: list[str] = []
    sdk.stream("demo/any", seen)
    assert "".join(seen).startswith("Hello!")


def test_an_unknown_model_is_the_error_of_the_package(sdk: Sdk) -> None:
    with pytest.raises(sdk.errors) as caught:
        sdk.talk("ask", "nothing")
    assert "nothing" in str(caught.value)


# botocore's client, which boto3 wraps ---------------------------------------------------------------------------------


@pytest.fixture
def bedrock(gateway: Gateway) -> Iterator[Any]:
    # The id of the access key is the gateway's key. A bearer token works too, but botocore sends it only over TLS.
    client = (
        pytest.importorskip("botocore.session")
        .Session()
        .create_client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=gateway.url,
            aws_access_key_id=KEY,
            aws_secret_access_key="anything",
            config=pytest.importorskip("botocore.config").Config(retries={"total_max_attempts": 1}),
        )
    )
    yield client
    client.close()


def test_converse_and_converse_stream(bedrock: Any) -> None:
    messages = [{"role": "user", "content": [{"text": "hello"}]}]
    answer = bedrock.converse(modelId="fast", messages=messages)
    text = answer["output"]["message"]["content"][0]["text"]
    assert text.startswith("Hello!")
    events = list(bedrock.converse_stream(modelId="fast", messages=messages)["stream"])
    deltas = [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event]
    assert "".join(deltas) == text


def test_an_unknown_key_is_refused(gateway: Gateway) -> None:
    session: Any = pytest.importorskip("botocore.session")
    exceptions: Any = pytest.importorskip("botocore.exceptions")
    client = session.Session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=gateway.url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key=KEY,
    )
    with pytest.raises(exceptions.ClientError, match="unknown API key"):
        client.converse(modelId="fast", messages=[{"role": "user", "content": [{"text": "hello"}]}])
    client.close()


# What an engineer does with boto3 -------------------------------------------------------------------------------------

TOOLS = {"tools": [{"toolSpec": {"name": "tide", "inputSchema": {"json": {"type": "object"}}}}]}
ASK_PLAIN: dict[str, Any] = {"role": "user", "content": "hello"}
ASK: dict[str, Any] = {"role": "user", "content": [{"text": "hello"}]}


def test_converse_with_tools_over_two_turns(bedrock: Any, upstream: FaultyServer) -> None:
    upstream.add(ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"}), "It turns at six.")
    answer = bedrock.converse(modelId="up", messages=[ASK], toolConfig=TOOLS)
    assert answer["stopReason"] == "tool_use"
    message = answer["output"]["message"]
    (call,) = (block["toolUse"] for block in message["content"])
    assert (call["name"], call["input"]) == ("tide", {"place": "Kiel"})
    result = {"toolUseId": call["toolUseId"], "content": [{"json": {"high": "06:00"}}], "status": "success"}
    messages = [ASK, message, {"role": "user", "content": [{"toolResult": result}]}]
    answer = bedrock.converse(modelId="up", messages=messages, toolConfig=TOOLS)
    assert answer["output"]["message"]["content"] == [{"text": "It turns at six."}]
    assert set(answer["usage"]) >= {"inputTokens", "outputTokens", "totalTokens"}
    (sent,) = upstream.requests[-1].messages[-1].tool_results
    assert "06:00" in sent.text


def test_converse_stream_with_tools(bedrock: Any, upstream: FaultyServer) -> None:
    upstream.add(ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"}))
    events = list(bedrock.converse_stream(modelId="up", messages=[ASK], toolConfig=TOOLS)["stream"])
    (start,) = (event["contentBlockStart"]["start"] for event in events if "contentBlockStart" in event)
    assert start["toolUse"]["name"] == "tide"
    deltas = [event["contentBlockDelta"]["delta"]["toolUse"] for event in events if "contentBlockDelta" in event]
    assert json.loads("".join(delta["input"] for delta in deltas)) == {"place": "Kiel"}
    assert [event["messageStop"]["stopReason"] for event in events if "messageStop" in event] == ["tool_use"]
    assert "usage" in events[-1]["metadata"]


CLAUDE = json.dumps(
    {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]}
)


def test_invoke_model(bedrock: Any) -> None:
    answer = json.loads(bedrock.invoke_model(modelId="fast", body=CLAUDE)["body"].read())
    assert answer["content"][0]["text"].startswith("Hello!")
    stream = bedrock.invoke_model_with_response_stream(modelId="fast", body=CLAUDE)["body"]
    events = [json.loads(event["chunk"]["bytes"]) for event in stream]
    deltas = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(deltas) == answer["content"][0]["text"]


def _text(event: dict[str, Any]) -> str:
    """The text in a whole answer or in an event of a stream, of any maker."""
    match event:
        case {"output": {"message": {"content": [{"text": text}]}}}:
            return str(text)
        case {"contentBlockDelta": {"delta": {"text": text}}}:
            return str(text)
        case {"choices": [{"message": {"content": text}}]} | {"choices": [{"delta": {"content": text}}]}:
            return str(text)
        case {"results": [answer]} | {"generations": [answer]} | {"outputs": [answer]}:
            return str(answer.get("text") or answer.get("outputText") or "")
        case _:
            return str(
                next((event[name] for name in ("outputText", "completion", "generation", "text") if name in event), "")
            )


@pytest.mark.parametrize(
    ("body", "start"),
    [
        ({"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 99}}, "Hello!"),
        ({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 99}, "Hello!"),
        ({"inputText": "hi", "textGenerationConfig": {"maxTokenCount": 99}}, " and so on"),
        ({"prompt": "hi", "max_tokens_to_sample": 99}, " and so on"),
        ({"prompt": "hi", "max_gen_len": 99}, " and so on"),
        ({"prompt": "hi", "max_tokens": 99, "p": 0.5}, " and so on"),
        ({"prompt": "hi", "max_tokens": 99}, " and so on"),
    ],
)
def test_invoke_model_with_bodies_of_other_makers(bedrock: Any, body: dict[str, Any], start: str) -> None:
    answer = json.loads(bedrock.invoke_model(modelId="fast", body=json.dumps(body))["body"].read())
    assert _text(answer).startswith(start)
    stream = bedrock.invoke_model_with_response_stream(modelId="fast", body=json.dumps(body))["body"]
    events = [json.loads(event["chunk"]["bytes"]) for event in stream]
    assert "".join(map(_text, events)) == _text(answer)
    assert events[-1]["amazon-bedrock-invocationMetrics"]["outputTokenCount"] > 0


def test_invoke_model_embeds_and_ranks(bedrock: Any) -> None:
    def invoke(body: dict[str, Any]) -> Any:
        return json.loads(bedrock.invoke_model(modelId="fast", body=json.dumps(body))["body"].read())

    vector = invoke({"inputText": "grey ships"})["embedding"]
    assert invoke({"texts": ["grey ships"], "input_type": "search_query"})["embeddings"] == [vector]
    ranked = invoke({"query": "grey ships", "documents": ["a harbour", "grey ships"], "top_n": 1})["results"]
    assert [document["index"] for document in ranked] == [1]
    body = {"query": "grey ships", "documents": ["a harbour"], "api_version": 2, "max_tokens_per_doc": 9}
    headers = bedrock.invoke_model(modelId="fast", body=json.dumps(body))["ResponseMetadata"]["HTTPHeaders"]
    notices = [value for name, value in headers.items() if "notice" in name or "dropped" in name]
    assert "max_tokens_per_doc" in str(notices)
    assert "api_version" not in str(notices)


def test_an_unknown_body_of_invoke_model_is_refused(bedrock: Any) -> None:
    with pytest.raises(bedrock.exceptions.ValidationException, match="these fields: odd; see"):
        bedrock.invoke_model(modelId="fast", body=b'{"odd": 1}')
    with pytest.raises(bedrock.exceptions.ValidationException, match=r"these fields: x{40}; see"):
        bedrock.invoke_model(modelId="fast", body=json.dumps({"x" * 5000: 1}))


@pytest.mark.parametrize("provider", ["bedrock", "bedrock-anthropic", "bedrock-openai", "bedrock-nova"])
def test_dragoman_as_a_client_of_invoke_model(gateway: Gateway, provider: str) -> None:
    env = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": "anything"}
    registry = Registry(env={**env, "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": gateway.url})
    model = registry.model(f"{provider}/fast")
    answer = model.generate("hello")
    assert answer.text.startswith("Hello!")
    with model.stream("hello") as stream:
        assert "".join(stream.text_deltas()) == answer.text
    assert stream.response is not None
    assert stream.response.usage.output == answer.usage.output
    registry.close()


@pytest.mark.parametrize("operation", ["converse", "converse_stream"])
@pytest.mark.parametrize(
    ("model", "error", "name"),
    [
        ("nothing", None, "ResourceNotFoundException"),
        ("up", RateLimited("slow down"), "ThrottlingException"),
        ("up", Overloaded("busy"), "ServiceUnavailableException"),
        ("up", ContextTooLong("9000 tokens"), "ValidationException"),
    ],
)
def test_errors_have_the_names_of_botocore(
    bedrock: Any, upstream: FaultyServer, operation: str, model: str, error: Any, name: str
) -> None:
    if error is not None:
        upstream.add(error)
    with pytest.raises(getattr(bedrock.exceptions, name)):
        getattr(bedrock, operation)(modelId=model, messages=[ASK])


def test_an_error_inside_a_stream(bedrock: Any, upstream: FaultyServer) -> None:
    exceptions: Any = pytest.importorskip("botocore.exceptions")
    upstream.add(CloseAfter(400, "Hello there, this text is long enough to be cut."))
    stream = bedrock.converse_stream(modelId="up", messages=[ASK])["stream"]
    with pytest.raises(exceptions.EventStreamError):
        list(stream)
    stream.close()


def test_an_unknown_path_of_bedrock_has_an_error_of_aws(gateway: Gateway) -> None:
    status, _, body = gateway.post("/model/fast/translate", {}, authorization=f"Bearer {KEY}")
    assert status == 404
    assert json.loads(body)["message"] == "no route for /model/fast/translate"


# Endpoints besides generation -----------------------------------------------------------------------------------------


def test_clients_of_clouds_count_tokens(gateway: Gateway, bedrock: Any) -> None:
    messages = [{"role": "user", "content": "hello"}]
    assert (
        Vertex(gateway.url, is_async=False).client().messages.count_tokens(model="fast", messages=messages).input_tokens
        > 0
    )
    assert (
        Foundry(gateway.url, is_async=False)
        .client()
        .messages.count_tokens(model="fast", messages=messages)
        .input_tokens
        > 0
    )
    assert (
        VertexGemini(gateway.url, is_async=False)
        .client()
        .models.count_tokens(model="fast", contents="hello")
        .total_tokens
        > 0
    )
    assert bedrock.count_tokens(modelId="fast", input={"converse": {"messages": [ASK]}})["inputTokens"] > 0


COUNTED: list[dict[str, Any]] = [
    {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]},
    {"messages": [{"role": "user", "content": "hello"}]},
    {"schemaVersion": "messages-v1", "messages": [{"role": "user", "content": [{"text": "hello"}]}]},
]


@pytest.mark.parametrize("body", COUNTED)
def test_tokens_of_a_body_of_invoke_model_are_counted(bedrock: Any, body: dict[str, Any]) -> None:
    counted = {"invokeModel": {"body": json.dumps(body).encode()}}
    assert bedrock.count_tokens(modelId="fast", input=counted)["inputTokens"] > 0
    empty = {"invokeModel": {"body": json.dumps({**body, "messages": []}).encode()}}
    with pytest.raises(bedrock.exceptions.ValidationException, match="messages"):
        bedrock.count_tokens(modelId="fast", input=empty)


@pytest.mark.parametrize("body", [b"no JSON", b"[]", b'{"prompt": "hello"}'])
def test_tokens_of_other_bodies_are_refused(bedrock: Any, body: bytes) -> None:
    with pytest.raises(bedrock.exceptions.ValidationException, match="must have the member converse, or invokeModel"):
        bedrock.count_tokens(modelId="fast", input={"invokeModel": {"body": body}})


def test_stored_prompts_of_google_are_refused_in_its_form(gateway: Gateway) -> None:
    client, name = VertexGemini(gateway.url, is_async=False).client(), "projects/p/locations/l/cachedContents/1"
    for call in (
        lambda: client.caches.create(model="fast", config={"contents": ["hello"], "ttl": "60s"}),
        lambda: client.caches.get(name=name),
        lambda: client.caches.update(name=name, config={"ttl": "60s"}),
        lambda: client.caches.delete(name=name),
        lambda: list(client.caches.list()),
    ):
        with pytest.raises(import_module("google.genai.errors").ClientError) as caught:
            call()
        assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
        assert "send the whole prompt with each request" in str(caught.value)


def test_clients_of_clouds_list_models_and_embed(gateway: Gateway) -> None:
    google_client, azure = (
        VertexGemini(gateway.url, is_async=False).client(),
        Azure(gateway.url, is_async=False).client(),
    )
    assert "publishers/google/models/fast" in [model.name for model in google_client.models.list()]
    assert "fast" in [model.id for model in azure.models.list()]
    (embedding,) = google_client.models.embed_content(model="fast", contents="hello").embeddings
    assert embedding.values == azure.embeddings.create(model="fast", input="hello").data[0].embedding


def test_vertex_serves_models_of_other_publishers(gateway: Gateway) -> None:
    client = VertexGemini(gateway.url, is_async=False).client()
    assert client.models.count_tokens(model="demo/any", contents="hello").total_tokens > 0
    assert client.models.get(model="demo/any").name == "publishers/google/models/demo/any"
    (expected,) = client.models.embed_content(model="fast", contents="hello", config=SIZE).embeddings
    (embedding,) = client.models.embed_content(model="demo/any", contents="hello", config=SIZE).embeddings
    assert embedding.values == expected.values
    assert len(embedding.values) == 4


SIZE = {"output_dimensionality": 4}


def test_embed_content_of_vertex(gateway: Gateway) -> None:
    client = VertexGemini(gateway.url, is_async=False).client()
    (expected,) = client.models.embed_content(model="fast", contents="hello", config=SIZE).embeddings
    (embedding,) = client.models.embed_content(model="demo/maas", contents="hello", config=SIZE).embeddings
    assert embedding.values == expected.values


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_openai_package_for_vertex(gateway: Gateway, version: str) -> None:
    url = f"{gateway.url}/{version}/projects/p/locations/global/endpoints/openapi"
    client = openai.OpenAI(base_url=url, api_key=KEY, max_retries=0)
    messages = [{"role": "user", "content": "hello"}]
    for model in ("fast", "demo/any"):
        answer = client.chat.completions.create(model=model, messages=messages)
        assert answer.choices[0].message.content.startswith("Hello!")
    chunks = list(client.chat.completions.create(model="fast", messages=messages, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices).startswith("Hello!")
    assert "fast" in [model.id for model in client.models.list()]


PLACE = "/v1/projects/p/locations/global/publishers"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{PLACE}/anthropic/models/nothing:rawPredict", {"max_tokens": 9, "messages": [ASK_PLAIN]}),
        ("/model/nothing/invoke", {"max_tokens": 9, "messages": [ASK_PLAIN]}),
        (f"{PLACE}/google/models/nothing:generateContent", {"contents": [{"parts": [{"text": "a"}]}]}),
    ],
)
def test_the_model_of_the_path_wins(gateway: Gateway, path: str, body: dict[str, Any]) -> None:
    status, _, text = gateway.post(path, {"model": "fast", **body}, authorization=f"Bearer {KEY}")
    assert (status, b"nothing" in text) == (404, True)


def test_a_deployment_of_azure_with_a_token(gateway: Gateway) -> None:
    client = openai.AzureOpenAI(
        azure_endpoint=gateway.url,
        azure_deployment="fast",
        azure_ad_token_provider=lambda: KEY,
        api_version="2024-10-21",
        max_retries=0,
    )
    messages = [{"role": "user", "content": "hello"}]
    answer = client.chat.completions.create(model="fast", messages=messages)
    assert answer.choices[0].message.content.startswith("Hello!")
