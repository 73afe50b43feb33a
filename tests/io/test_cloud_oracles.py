"""The SDKs of clouds as oracles: for the same request they send what we send, to the same path with the same headers."""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from dragoman.errors import DragomanError
from dragoman.registry import Registry
from dragoman.types import Image, Message, Request, Tool, ToolCall, ToolResult, assistant, tool_results, user
from tests.support.recorder import Recorder, SentRequest

anthropic: Any = import_module("anthropic")
openai: Any = import_module("openai")
genai: Any = import_module("google.genai")
JWT = "eyJhbGciOi.eyJhdWQi.c2ln"
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDAT"
    b"x\x9cc```\x00\x00\x00\x04\x00\x01\xf6\x178U\x00\x00\x00\x00IEND\xaeB`\x82"
)
PNG_TEXT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
MESSAGES: tuple[Message, ...] = (
    user("When?", Image(data=PNG, mime="image/png")),
    assistant("I look.", CALL),
    tool_results(ToolResult(id="call_1", name="tide", content="04:12")),
)
TOOL = Tool(name="tide", description="A tide table", parameters=SCHEMA)
REQUEST = Request(
    system="Be brief.",
    messages=MESSAGES,
    tools=(TOOL,),
    tool_choice="required",
    max_tokens=300,
    temperature=0.5,
    stop=("END",),
)
VOLATILE = (
    r"user-agent|x-stainless-.*|x-amz-date|x-goog-api-client|amz-sdk-.*|accept.*|host|connection|content-length"
    r"|idempotency-key|x-amz-user-agent|x-client-request-id"
)
"""Headers that name the client or the moment."""


@pytest.fixture
def server() -> Iterator[Recorder]:
    with Recorder() as recorder:
        yield recorder


def headers(sent: SentRequest) -> dict[str, str]:
    found = {name: value for name, value in sent.headers.items() if not re.fullmatch(VOLATILE, name)}
    if found.get("anthropic-version") == "2026-10-21":
        # The SDK's own choice; this version refuses options that clouds take.
        found["anthropic-version"] = "2023-06-01"
    if (signature := found.get("authorization", "")).startswith("AWS4"):
        # The day, the signed headers and the signature differ, and tests of the signature are elsewhere.
        found["authorization"] = re.sub(r"/\d{8}/|, SignedHeaders.*", "/", signature)
        found.pop("x-amz-content-sha256", None)
    return found


def path(sent: SentRequest) -> str:
    """The path; `:` and `@` mean the same if they are escaped."""
    return re.sub(r"(?i)%(3a|40)", lambda match: unquote(match[0]), sent.path)


class Oracle(NamedTuple):
    """How one SDK sends the request, and our name for the same."""

    spec: str
    send: Callable[[str, bool], Any]
    """Sends the request to an origin, streamed or not."""
    env: dict[str, str]
    api_key: Any = None
    changes: Callable[[dict[str, Any]], None] | None = None
    """What the SDK's body has by its own choice."""
    own_headers: tuple[str, ...] = ()
    """Headers that only the SDK sends."""


ANTHROPIC: dict[str, Any] = {
    "system": "Be brief.",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "When?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_TEXT}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "call_1", "name": "tide", "input": {"port": "Brest"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "04:12"}]},
    ],
    "tools": [{"name": "tide", "description": "A tide table", "input_schema": SCHEMA}],
    "tool_choice": {"type": "any"},
    "max_tokens": 300,
    "stop_sequences": ["END"],
    "temperature": 0.5,
}
CLAUDE = "claude-haiku-4-5"
BEDROCK_CLAUDE = "eu.anthropic.claude-haiku-4-5-20251001-v1:0"
ARN = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-pro-v1:0"


def messages(client: Any, model: str, stream: bool) -> Any:  # noqa: FBT001
    # The SDK of 2026-11 sends no temperature of its own choice, so it goes through extra_body.
    arguments = {name: value for name, value in ANTHROPIC.items() if name != "temperature"}
    extra = {"temperature": ANTHROPIC["temperature"]}
    return client.messages.create(model=model, stream=stream, extra_body=extra, **arguments)


def with_version(version: str) -> Callable[[dict[str, Any]], None]:
    """The SDK of 2026-11 sends the version 2026-10-21; recorded requests have the cloud's own."""

    def change(body: dict[str, Any]) -> None:
        body["anthropic_version"] = version
        if body.get("stream") is False:
            del body["stream"]

    return change


def no_stream(body: dict[str, Any]) -> None:
    if body.get("stream") is False:
        del body["stream"]


AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "anything", "AWS_REGION": "eu-west-1"}
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}


def bedrock(origin: str) -> Any:
    config = import_module("botocore.config").Config(retries={"total_max_attempts": 1})
    return import_module("boto3").client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=origin,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="anything",
        config=config,
    )


CONVERSE: dict[str, Any] = {
    "system": [{"text": "Be brief."}],
    "messages": [
        {"role": "user", "content": [{"text": "When?"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]},
        {
            "role": "assistant",
            "content": [
                {"text": "I look."},
                {"toolUse": {"toolUseId": "call_1", "name": "tide", "input": {"port": "Brest"}}},
            ],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "04:12"}]}}]},
    ],
    "toolConfig": {
        "tools": [{"toolSpec": {"name": "tide", "description": "A tide table", "inputSchema": {"json": SCHEMA}}}],
        "toolChoice": {"any": {}},
    },
    "inferenceConfig": {"maxTokens": 300, "temperature": 0.5, "stopSequences": ["END"]},
}


def converse(origin: str, stream: bool) -> Any:  # noqa: FBT001
    client = bedrock(origin)
    return (client.converse_stream if stream else client.converse)(modelId=ARN, **CONVERSE)


def invoke(origin: str, stream: bool) -> Any:  # noqa: FBT001
    client = bedrock(origin)
    body = import_module("json").dumps({"anthropic_version": "bedrock-2023-05-31", **ANTHROPIC})
    send = client.invoke_model_with_response_stream if stream else client.invoke_model
    return send(modelId=BEDROCK_CLAUDE, body=body, contentType="application/json")


def bedrock_claude(**keys: str) -> Callable[[str, bool], Any]:
    def send(origin: str, stream: bool) -> Any:  # noqa: FBT001
        client = anthropic.AnthropicBedrock(base_url=origin, aws_region="eu-west-1", max_retries=0, **keys)
        return messages(client, BEDROCK_CLAUDE, stream)

    return send


def mantle_claude(origin: str, stream: bool) -> Any:  # noqa: FBT001
    client = anthropic.AnthropicBedrockMantle(
        base_url=f"{origin}/anthropic", aws_region="eu-west-1", api_key="bearer-1", max_retries=0
    )
    return messages(client, CLAUDE, stream)


def vertex_claude(origin: str, stream: bool) -> Any:  # noqa: FBT001
    client = anthropic.AnthropicVertex(
        base_url=f"{origin}/v1", region="europe-west4", project_id="p", access_token="token-1", max_retries=0
    )
    return messages(client, CLAUDE, stream)


def foundry(**keys: Any) -> Callable[[str, bool], Any]:
    def send(origin: str, stream: bool) -> Any:  # noqa: FBT001
        client = anthropic.AnthropicFoundry(base_url=f"{origin}/anthropic", max_retries=0, **keys)
        return messages(client, CLAUDE, stream)

    return send


CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "When?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_TEXT}"}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "04:12"},
    ],
    "tools": [{"type": "function", "function": {"name": "tide", "description": "A tide table", "parameters": SCHEMA}}],
    "tool_choice": "required",
    "max_completion_tokens": 300,
    "temperature": 0.5,
    "stop": ["END"],
}


def azure(**keys: Any) -> Callable[[str, bool], Any]:
    def send(origin: str, stream: bool) -> Any:  # noqa: FBT001
        client = openai.AzureOpenAI(azure_endpoint=origin, api_version="2024-10-21", max_retries=0, **keys)
        more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return client.chat.completions.create(model="my-gpt", **more, **CHAT)

    return send


def as_documented(body: dict[str, Any]) -> None:
    """The SDK writes a role that means nothing, and two names in another style, which means the same."""
    image = body["contents"][0]["parts"][1]["inlineData"]
    image["mimeType"] = image.pop("mime_type")
    assert body["systemInstruction"].pop("role") == "user"
    for tool in body["tools"]:
        for declaration in tool["functionDeclarations"]:
            declaration["parametersJsonSchema"] = declaration.pop("parameters_json_schema")


def vertex_gemini(origin: str, stream: bool) -> Any:  # noqa: FBT001
    types = import_module("google.genai.types")
    credentials = import_module("google.oauth2.credentials").Credentials(token="token-1")
    # The SDK's own choice is v1beta1; v1 has all that we send.
    options = types.HttpOptions(base_url=origin, api_version="v1", retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(
        vertexai=True, project="p", location="europe-west4", credentials=credentials, http_options=options
    )
    parts = types.Part
    call = types.FunctionCall(name="tide", args={"port": "Brest"})
    result = types.FunctionResponse(name="tide", response={"output": "04:12"})
    arguments = {
        "model": "gemini-2.5-pro",
        "contents": [
            types.Content(role="user", parts=[parts(text="When?"), parts.from_bytes(data=PNG, mime_type="image/png")]),
            types.Content(role="model", parts=[parts(text="I look."), parts(function_call=call)]),
            types.Content(role="user", parts=[parts(function_response=result)]),
        ],
        "config": types.GenerateContentConfig(
            system_instruction="Be brief.",
            tools=[
                types.Tool(
                    function_declarations=[
                        types.FunctionDeclaration(
                            name="tide", description="A tide table", parameters_json_schema=SCHEMA
                        )
                    ]
                )
            ],
            tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY")),
            max_output_tokens=300,
            temperature=0.5,
            stop_sequences=["END"],
        ),
    }
    if stream:
        return list(client.models.generate_content_stream(**arguments))
    return client.models.generate_content(**arguments)


ORACLES = {
    "converse": Oracle(f"bedrock/{ARN}", converse, AWS),
    "invoke": Oracle(f"bedrock-anthropic/{BEDROCK_CLAUDE}", invoke, AWS),
    "bedrock, signed": Oracle(
        f"bedrock-anthropic/{BEDROCK_CLAUDE}",
        bedrock_claude(aws_access_key="AKIDEXAMPLE", aws_secret_key="anything"),
        AWS,
        changes=with_version("bedrock-2023-05-31"),
        own_headers=("anthropic-version",),
    ),
    "bedrock, bearer": Oracle(
        f"bedrock-anthropic/{BEDROCK_CLAUDE}",
        bedrock_claude(api_key="bearer-1"),
        {"AWS_REGION": "eu-west-1"},
        "bearer-1",
        changes=with_version("bedrock-2023-05-31"),
        own_headers=("anthropic-version",),
    ),
    "mantle": Oracle(
        f"bedrock-mantle-anthropic/{CLAUDE}", mantle_claude, {"AWS_REGION": "eu-west-1"}, "bearer-1", changes=no_stream
    ),
    "vertex": Oracle(
        f"vertex-anthropic/{CLAUDE}",
        vertex_claude,
        GOOGLE,
        "token-1",
        changes=with_version("vertex-2023-10-16"),
        own_headers=("anthropic-version",),
    ),
    "foundry": Oracle(
        f"azure-anthropic/{CLAUDE}",
        foundry(api_key="key-1"),
        {"ANTHROPIC_FOUNDRY_RESOURCE": "r"},
        "key-1",
        changes=no_stream,
        own_headers=("api-key",),
    ),
    "foundry, Entra": Oracle(
        f"azure-anthropic/{CLAUDE}",
        foundry(azure_ad_token_provider=lambda: JWT),
        {"ANTHROPIC_FOUNDRY_RESOURCE": "r"},
        lambda: JWT,
        changes=no_stream,
    ),
    "azure": Oracle(
        "azure-deployments/my-gpt", azure(api_key="key-1"), {"AZURE_OPENAI_ENDPOINT": "https://x"}, "key-1"
    ),
    "azure, Entra": Oracle(
        "azure-deployments/my-gpt",
        azure(azure_ad_token_provider=lambda: JWT),
        {"AZURE_OPENAI_ENDPOINT": "https://x"},
        lambda: JWT,
    ),
    "vertexai": Oracle("vertex/gemini-2.5-pro", vertex_gemini, GOOGLE, "token-1", changes=as_documented),
}


def send_ours(oracle: Oracle, server: Recorder, *, stream: bool) -> SentRequest:
    registry = Registry(env=oracle.env)
    base_url = server.origin + urlsplit(registry.target(oracle.spec).base_url).path
    model = registry.model(oracle.spec, base_url=base_url, api_key=oracle.api_key, retries=0)
    arguments = {name: getattr(REQUEST, name) for name in ("system", "tools", "tool_choice", "max_tokens", "stop")}

    def send() -> None:
        if stream:
            list(model.stream(MESSAGES, temperature=0.5, **arguments))
        else:
            model.generate(MESSAGES, temperature=0.5, **arguments)

    with pytest.raises(DragomanError):
        send()
    registry.close()
    return server.last


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ORACLES)
def test_the_sdk_sends_the_same(name: str, stream: bool, server: Recorder) -> None:  # noqa: FBT001
    oracle = ORACLES[name]
    with pytest.raises(Exception, match="no"):
        oracle.send(server.origin, stream)
    (theirs,) = server.requests
    ours = send_ours(oracle, server, stream=stream)
    assert len(server.requests) == 2
    assert (ours.method, path(ours)) == (theirs.method, path(theirs))
    body = theirs.json
    if oracle.changes is not None:
        oracle.changes(body)
    assert ours.json == body
    expected = {name: value for name, value in headers(theirs).items() if name not in oracle.own_headers}
    assert headers(ours) == expected


# Whoever else signs requests ------------------------------------------------------------------------------------------


def test_claude_platform_on_aws(server: Recorder) -> None:
    keys = {"aws_access_key": "AKIDEXAMPLE", "aws_secret_key": "anything"}
    client = anthropic.AnthropicAWS(
        base_url=server.origin, aws_region="eu-west-1", workspace_id="wrkspc_1", max_retries=0, **keys
    )
    with pytest.raises(anthropic.BadRequestError):
        messages(client, CLAUDE, stream=False)
    registry = Registry(env=AWS)
    registry.add_provider(
        name="claude-aws",
        wire="anthropic",
        base_url=f"{server.origin}/v1",
        identity="aws",
        headers={"anthropic-workspace-id": "wrkspc_1"},
    )
    with pytest.raises(DragomanError):
        registry.model(f"claude-aws/{CLAUDE}", retries=0).generate(
            MESSAGES,
            system="Be brief.",
            tools=[TOOL],
            tool_choice="required",
            max_tokens=300,
            stop=["END"],
            temperature=0.5,
        )
    registry.close()
    theirs, ours = server.requests
    assert path(ours) == path(theirs) == "/v1/messages"
    body = theirs.json
    no_stream(body)
    assert ours.json == body
    expected = headers(theirs)
    # The host of the cloud names the service of the signature; this one is on loopback.
    expected["authorization"] = expected["authorization"].replace("aws-external-anthropic", "bedrock")
    assert headers(ours) == expected
