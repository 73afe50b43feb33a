"""Parts that a dialect cannot express: a stream learns of them after its headers, so its last event says it."""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from dragoman.testing import FaultyServer
from dragoman.types import Finish, Opaque, Response, Usage, assistant
from tests.support.gateway.live import Gateway, record

boto3: Any = import_module("boto3")
PROMPT = "When does the tide turn?"
LOST = "response part (opaque)"
ANSWER = Response(
    id="answer_1",
    model="m",
    created=1_794_900_000,
    message=assistant("At six.", Opaque(wire="other", data={"type": "chart"})),
    finish=Finish(reason="stop"),
    usage=Usage(input=12, output=7),
)
MODEL = "up/m"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("lost")
    with FaultyServer(ANSWER, repeat=True) as upstream:
        config = record("up", upstream.base_url("native"), "native") + '[gateway]\nproviders = ["demo"]\n'
        with Gateway(folder, config) as running:
            yield running


def chat(url: str) -> Any:
    messages: Any = [{"role": "user", "content": PROMPT}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        last: Any = [*client.chat.completions.create(model=MODEL, messages=messages, stream=True)][-1]
    return last.notices


def completions(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        last: Any = [*client.completions.create(model=MODEL, prompt=PROMPT, stream=True)][-1]
    return last.notices


def responses(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        last: Any = [*client.responses.create(model=MODEL, input=PROMPT, stream=True)][-1]
    return last.response.notices


def messages(url: str) -> Any:
    prompt: Any = [{"role": "user", "content": PROMPT}]
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        events = [*client.messages.create(model=MODEL, max_tokens=50, messages=prompt, stream=True)]
    (last,) = [event for event in events if event.type == "message_delta"]
    end: Any = last
    return end.notices


def google(url: str) -> Any:
    """By hand: the package reads `finishMessage` of Vertex AI only."""
    client: Any = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    last: Any = [*client.models.generate_content_stream(model=MODEL, contents=PROMPT)][-1]
    client.close()
    assert last.candidates[0].finish_reason == "STOP"
    answer = post(
        f"{url}/v1beta/models/{MODEL}:streamGenerateContent?alt=sse", {"contents": [{"parts": [{"text": PROMPT}]}]}
    )
    message = json.loads(answer.split(b"data: ")[-1])["candidates"][0]["finishMessage"]
    kind, _, rest = message.partition(" ")
    what, _, why = rest.partition(": ")
    return [{"kind": kind, "what": what, "why": why}]


def post(url: str, body: Any) -> bytes:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})  # noqa: S310 - loopback
    with urlopen(request) as answer:  # noqa: S310 - loopback
        return bytes(answer.read())


def bedrock(url: str) -> Any:
    keys = {"aws_access_key_id": "AKID", "aws_secret_access_key": "secret"}
    client: Any = boto3.client("bedrock-runtime", endpoint_url=url, region_name="us-east-1", **keys)
    answer = client.converse_stream(modelId=MODEL, messages=[{"role": "user", "content": [{"text": PROMPT}]}])
    (stop,) = [event["messageStop"] for event in answer["stream"] if "messageStop" in event]
    client.close()
    return stop["additionalModelResponseFields"]["notices"]


def ollama(url: str) -> Any:
    """By hand: the models of the package leave out members that they do not know."""
    answer = post(f"{url}/api/chat", {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}]})
    return json.loads(answer.splitlines()[-1])["notices"]


CLIENTS: dict[str, Callable[[str], Any]] = {
    "openai_chat": chat,
    "completions": completions,
    "openai_responses": responses,
    "anthropic": messages,
    "google": google,
    "bedrock": bedrock,
    "ollama": ollama,
}


@pytest.mark.parametrize("dialect", CLIENTS)
def test_the_last_event_of_a_stream_says_what_is_lost(gateway: Gateway, dialect: str) -> None:
    notices = CLIENTS[dialect](gateway.url)
    assert len(notices) == 1, notices
    (notice,) = notices
    assert (notice["kind"], notice["what"]) == ("dropped", LOST)
    assert notice["why"].endswith("not supported")


def test_the_log_counts_what_a_stream_lost(gateway: Gateway) -> None:
    chat(gateway.url)
    gateway.wait_until(lambda: '"losses":{"dropped":1}' in gateway.log.read_text())
    lines = [json.loads(line) for line in gateway.log.read_text().splitlines() if '"stream":true' in line]
    assert {line["losses"]["dropped"] for line in lines} == {1}


def test_what_the_headers_say_is_not_said_again(gateway: Gateway) -> None:
    body = {"model": "demo/any", "messages": [{"role": "user", "content": PROMPT}], "stream": True, "seed": 3}
    _, headers, answer = gateway.post("/v1/chat/completions", {**body, "logit_bias": {"1": 1}})
    assert "logit_bias" in headers["x-dragoman-notice"]
    assert b"notices" not in answer
