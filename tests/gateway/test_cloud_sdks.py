"""The clients of clouds against a live gateway: they need another address and key, and nothing else."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from dragoman.gateway.auth.api_keys import new_key
from dragoman.testing import FaultyServer
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
