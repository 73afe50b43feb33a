"""Records of clouds: addresses by region, project and deployment."""

import json

import pytest

from dragoman import wires
from dragoman.errors import SetupError, Unsupported
from dragoman.registry import Registry
from dragoman.types import Request, user

AWS = {"AWS_REGION": "eu-west-1"}
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "p"}
AZURE = {"AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com/"}


def url(spec: str, env: dict[str, str], *, stream: bool = False) -> str:
    target = Registry(env=env, api_key="k").target(spec)
    request = Request(messages=(user("hi"),), stream=stream)
    return wires.get(target.wire).client.encode_request(request, target).url


@pytest.mark.parametrize(
    ("spec", "env", "expected"),
    [
        ("bedrock/m", AWS, "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse"),
        ("bedrock-anthropic/m", AWS, "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/invoke"),
        ("bedrock-mantle/m", AWS, "https://bedrock-mantle.eu-west-1.api.aws/v1/chat/completions"),
        ("bedrock-mantle-responses/m", AWS, "https://bedrock-mantle.eu-west-1.api.aws/openai/v1/responses"),
        ("bedrock-mantle-anthropic/m", AWS, "https://bedrock-mantle.eu-west-1.api.aws/anthropic/v1/messages"),
        (
            "vertex/gemini-x",
            GOOGLE,
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/gemini-x:generateContent",
        ),
        (
            "vertex/gemini-x",
            {**GOOGLE, "GOOGLE_CLOUD_LOCATION": "us-central1"},
            "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/publishers/google/models/gemini-x:generateContent",
        ),
        (
            "vertex-anthropic/c",
            {**GOOGLE, "CLOUD_ML_REGION": "eu"},
            "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/models/c:rawPredict",
        ),
        (
            "vertex-openai/google/gemini-x",
            GOOGLE,
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi/chat/completions",
        ),
        ("vertex-express/g", {}, "https://aiplatform.googleapis.com/v1/publishers/google/models/g:generateContent"),
        ("azure/gpt", AZURE, "https://res.openai.azure.com/openai/v1/chat/completions"),
        ("azure-responses/gpt", AZURE, "https://res.openai.azure.com/openai/v1/responses"),
        (
            "azure-deployments/my-gpt",
            AZURE,
            "https://res.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
        ),
        (
            "azure-deployments/my-gpt",
            {**AZURE, "OPENAI_API_VERSION": "2025-03-01-preview"},
            "https://res.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=2025-03-01-preview",
        ),
        (
            "azure-ai/DeepSeek-R1",
            {"AZURE_AI_ENDPOINT": "https://res.services.ai.azure.com"},
            "https://res.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
        ),
        (
            "azure-anthropic/claude-x",
            {"ANTHROPIC_FOUNDRY_RESOURCE": "res"},
            "https://res.services.ai.azure.com/anthropic/v1/messages",
        ),
    ],
)
def test_the_address(spec: str, env: dict[str, str], expected: str) -> None:
    assert url(spec, env) == expected


def test_the_address_of_a_stream() -> None:
    assert url("bedrock-anthropic/m", AWS, stream=True).endswith("/model/m/invoke-with-response-stream")
    assert url("vertex-anthropic/m", GOOGLE, stream=True).endswith("/models/m:streamRawPredict")


@pytest.mark.parametrize(
    ("spec", "variable"),
    [("bedrock-mantle/m", "AWS_REGION"), ("vertex/g", "GOOGLE_CLOUD_PROJECT"), ("azure/g", "AZURE")],
)
def test_a_missing_variable_is_named(spec: str, variable: str) -> None:
    with pytest.raises(SetupError, match=variable):
        Registry(env={}).target(spec)


@pytest.mark.parametrize(
    ("spec", "header"),
    [
        ("azure/g", "api-key"),
        ("azure-anthropic/g", "x-api-key"),
        ("vertex-express/g", "x-goog-api-key"),
        ("vertex/g", "authorization"),
        ("bedrock/g", "authorization"),
    ],
)
def test_the_header_of_the_key(spec: str, header: str) -> None:
    env = {**AWS, **GOOGLE, **AZURE, "ANTHROPIC_FOUNDRY_RESOURCE": "r"}
    assert list(Registry(env=env, api_key="k").target(spec).auth_headers()) == [header]


JWT = "eyJhbGciOi.eyJhdWQi.c2ln-_"


@pytest.mark.parametrize(
    "spec", ["azure/g", "azure-responses/g", "azure-deployments/g", "azure-ai/g", "azure-anthropic/g"]
)
def test_a_token_of_entra_is_a_bearer_token(spec: str) -> None:
    env = {**AZURE, "ANTHROPIC_FOUNDRY_RESOURCE": "r", "AZURE_AI_ENDPOINT": "https://x"}
    assert Registry(env=env, api_key=JWT).target(spec).auth_headers() == {"authorization": f"Bearer {JWT}"}


def test_the_token_of_the_environment() -> None:
    env = {**AZURE, "AZURE_OPENAI_AD_TOKEN": JWT}
    assert Registry(env=env).target("azure/g").auth_headers() == {"authorization": f"Bearer {JWT}"}


def test_a_token_of_the_environment_needs_no_form() -> None:
    env = {**AZURE, "AZURE_OPENAI_AD_TOKEN": "opaque"}
    assert Registry(env=env).target("azure/g").auth_headers() == {"authorization": "Bearer opaque"}
    for registry in (Registry(env=env, api_key="k"), Registry(env={**env, "AZURE_OPENAI_API_KEY": "k"})):
        assert registry.target("azure/g").auth_headers() == {"api-key": "k"}
    (target,) = Registry(env=env).model("azure/g", api_key="k").targets()
    assert target.auth_headers() == {"api-key": "k"}


def test_models_of_azure_are_listed_with_a_version() -> None:
    env = {**AZURE, "OPENAI_API_VERSION": "2025-03-01-preview", "AZURE_AI_ENDPOINT": "https://x"}
    registry = Registry(env=env, api_key="k")
    urls = {
        name: wires.get("openai_chat").endpoints.encode_models(registry.target(f"{name}/g")).url
        for name in ("azure", "azure-deployments")
    }
    assert urls == {
        "azure": "https://res.openai.azure.com/openai/v1/models",
        "azure-deployments": "https://res.openai.azure.com/openai/models?api-version=2025-03-01-preview",
    }
    with pytest.raises(Unsupported, match="azure-ai: listing models is not supported"):
        wires.get("openai_chat").endpoints.encode_models(registry.target("azure-ai/g"))


def test_a_token_of_another_provider_is_in_its_own_header() -> None:
    target = Registry(env={}, api_key=JWT).target("vertex-express/g")
    assert target.auth_headers() == {"x-goog-api-key": JWT}


def test_the_family_of_a_model_on_a_cloud() -> None:
    registry = Registry(env={**AWS, **GOOGLE}, api_key="k")
    own = registry.target("anthropic/claude-opus-4-8").quirks.reasoning
    assert own is not None
    assert registry.target("bedrock-anthropic/us.anthropic.claude-opus-4-8").quirks.reasoning == own
    assert registry.target("vertex-anthropic/claude-opus-4-8@20260101").quirks.reasoning == own


def test_a_deployment_is_the_model_of_the_body_too() -> None:
    target = Registry(env=AZURE, api_key="k").target("azure-deployments/my-gpt")
    http = wires.get(target.wire).client.encode_request(Request(messages=(user("hi"),)), target)
    assert json.loads(http.body)["model"] == "my-gpt"


@pytest.mark.parametrize("provider", ["bedrock", "bedrock-anthropic", "bedrock-mantle-anthropic"])
def test_structured_output_of_bedrock_is_a_forced_call(provider: str) -> None:
    model = Registry(env=AWS, api_key="k").model(f"{provider}/us.anthropic.claude-sonnet-5-v1:0")
    (explained,) = model.explain("hi", output=dict[str, int])
    assert explained.request is not None
    body = json.loads(explained.request.body)
    assert "output_config" not in body
    assert "outputConfig" not in body
    choice = body.get("tool_choice") or body["toolConfig"]["toolChoice"]
    assert choice["tool" if provider == "bedrock" else "type"]
