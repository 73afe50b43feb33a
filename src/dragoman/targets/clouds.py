"""Provider records of clouds: Amazon Bedrock, Google Vertex AI, Microsoft Azure.

A cloud serves the protocols of others with its own paths (`Hosting`) and its own credentials (`identity`). Facts are of
November 2026, from the documents of the clouds and from the SDKs of Anthropic, OpenAI and Google.
"""

from msgspec.structs import replace

from dragoman.targets.provider import Provider
from dragoman.targets.target import Capabilities, Hosting, Quirks

_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")

# Amazon ---------------------------------------------------------------------------------------------------------------

_BEDROCK = Provider(
    name="bedrock",
    wire="bedrock",
    base_url="https://bedrock-runtime.{AWS_REGION|AWS_DEFAULT_REGION}.amazonaws.com",
    base_url_names=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
    key_names=("AWS_BEARER_TOKEN_BEDROCK",),
    identity="aws",
    # Few models enforce a schema (2026-11); a forced tool call works with all that have tools.
    capabilities=Capabilities(
        structured=False,
        audio=False,
        allowed_image_types=_IMAGES,
        max_images=20,
        max_image_bytes=3_750_000,
        max_image_side=8000,
        allowed_document_types=("application/*", "text/*"),
        max_document_bytes=4_500_000,
    ),
    quirks=Quirks(strict=False, result_media=True, batches="s3"),
)
_BEDROCK_ANTHROPIC = Provider(
    name="bedrock-anthropic",
    wire="anthropic",
    base_url=_BEDROCK.base_url,
    base_url_names=_BEDROCK.base_url_names,
    key_names=_BEDROCK.key_names,
    identity="aws",
    # Bedrock refuses `output_config.format` and `strict` for Claude 4.7 and later, and on its Messages API for all
    # (2026-08); a forced tool call works with all models.
    capabilities=Capabilities(
        structured=False,
        allowed_image_types=_IMAGES,
        max_images=20,
        max_image_bytes=3_750_000,
        max_image_side=8000,
        max_images_bytes=15_000_000,
        max_document_bytes=4_500_000,
        audio=False,
        # "Input tag 'web_search_20250305' [...] does not match any of the expected tags", of which none is hosted.
        hosted_tools=(),
    ),
    quirks=Quirks(recursive_schemas=False, strict=False, batches="s3"),
    hosting=Hosting(
        path="/model/{model}/invoke",
        stream_path="/model/{model}/invoke-with-response-stream",
        fields={"anthropic_version": "bedrock-2023-05-31"},
        without=("model", "stream"),
        betas_in_body=True,
    ),
    family="anthropic",
    family_prefix="anthropic.",
)
_INVOKE = Hosting(
    path="/model/{model}/invoke",
    stream_path="/model/{model}/invoke-with-response-stream",
    without=("model", "stream"),
    lists_models=False,
)
_MANTLE = Provider(
    name="bedrock-mantle",
    wire="openai_chat",
    base_url="https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/v1",
    key_names=_BEDROCK.key_names,
    identity="aws",
    capabilities=Capabilities(allowed_image_types=_IMAGES, documents=False, audio=False),
    quirks=Quirks(max_tokens_field="max_tokens", metadata=False, strict=False),
)

# Google ---------------------------------------------------------------------------------------------------------------

_LOCATION = "{GOOGLE_CLOUD_LOCATION|GOOGLE_CLOUD_REGION|CLOUD_ML_REGION:global}"
_PROJECT = "{GOOGLE_CLOUD_PROJECT|ANTHROPIC_VERTEX_PROJECT_ID|GCLOUD_PROJECT}"
_VERTEX_URL = f"https://{_LOCATION}-aiplatform.googleapis.com/v1/projects/{_PROJECT}/locations/{_LOCATION}"
_VERTEX_HOSTS = {
    "https://global-aiplatform.": "https://aiplatform.",
    "https://us-aiplatform.": "https://aiplatform.us.rep.",
    "https://eu-aiplatform.": "https://aiplatform.eu.rep.",
}
_VERTEX_TOKENS = ("GOOGLE_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN")

_VERTEX = Provider(
    name="vertex",
    wire="google",
    base_url=f"{_VERTEX_URL}/publishers/google",
    hosts=_VERTEX_HOSTS,
    key_names=_VERTEX_TOKENS,
    identity="google",
    capabilities=Capabilities(
        allowed_image_types=("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"),
        max_images=100,
        max_image_bytes=7_000_000,
        max_images_bytes=15_000_000,
        max_document_bytes=15_000_000,
        max_audio_bytes=15_000_000,
        video=True,
        video_urls=True,
    ),
    quirks=Quirks(caching="contents"),
    family="google",
)
_VERTEX_ANTHROPIC = Provider(
    name="vertex-anthropic",
    wire="anthropic",
    base_url=f"{_VERTEX_URL}/publishers/anthropic",
    hosts=_VERTEX_HOSTS,
    key_names=_VERTEX_TOKENS,
    identity="google",
    capabilities=Capabilities(
        allowed_image_types=_IMAGES,
        max_images=100,
        max_image_side=8000,
        max_image_bytes=3_750_000,
        many_images=20,
        many_images_side=2000,
        max_images_bytes=20_000_000,
        max_document_bytes=20_000_000,
        audio=False,
    ),
    quirks=Quirks(recursive_schemas=False),
    hosting=Hosting(
        path="/models/{model}:rawPredict",
        stream_path="/models/{model}:streamRawPredict",
        count_path="/models/count-tokens:rawPredict",
        fields={"anthropic_version": "vertex-2023-10-16"},
        without=("model",),
    ),
    family="anthropic",
)

# Microsoft ------------------------------------------------------------------------------------------------------------

_AZURE = Provider(
    name="azure",
    wire="openai_chat",
    base_url_names=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
    path="/openai/v1",
    key_names=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
    auth="api-key",
    identity="azure",
    capabilities=Capabilities(image_urls=True, allowed_image_types=_IMAGES, animated_images=False, documents=False),
    quirks=Quirks(call_id=".{1,40}", call_id_length=40, system_turns=True, batches="files"),  # as at OpenAI
    family="openai",
)

CLOUD_RECORDS = (
    _BEDROCK,
    _BEDROCK_ANTHROPIC,
    # The body of a model's maker. A model refuses members that it does not know; the usage is in the last event.
    replace(
        _BEDROCK,
        name="bedrock-openai",
        wire="openai_chat",
        capabilities=Capabilities(allowed_image_types=_IMAGES, documents=False, audio=False),
        quirks=Quirks(max_tokens_field="max_tokens", metadata=False, strict=False, user_field=None, stream_usage=False),
        hosting=_INVOKE,
    ),
    replace(
        _BEDROCK,
        name="bedrock-nova",
        quirks=replace(_BEDROCK.quirks, top_k=True, metadata=False, unsupported=("service_tier",)),
        hosting=replace(_INVOKE, fields={"schemaVersion": "messages-v1"}),
        family="bedrock",
    ),
    _MANTLE,
    replace(
        _MANTLE,
        name="bedrock-mantle-responses",
        wire="openai_responses",
        base_url=_MANTLE.base_url.replace("/v1", "/openai/v1"),
        quirks=Quirks(),
    ),
    replace(
        _MANTLE,
        name="bedrock-mantle-anthropic",
        wire="anthropic",
        base_url=_MANTLE.base_url.replace("/v1", "/anthropic/v1"),
        base_url_names=(),
        capabilities=_BEDROCK_ANTHROPIC.capabilities,
        quirks=replace(_BEDROCK_ANTHROPIC.quirks, batches=None),
        family="anthropic",
        family_prefix="anthropic.",
    ),
    _VERTEX,
    replace(
        _VERTEX,
        name="vertex-express",
        base_url="https://aiplatform.googleapis.com/v1/publishers/google",
        key_names=("VERTEX_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        identity=None,
    ),
    _VERTEX_ANTHROPIC,
    Provider(
        name="vertex-openai",
        wire="openai_chat",
        base_url=f"{_VERTEX_URL}/endpoints/openapi",
        hosts=_VERTEX_HOSTS,
        key_names=_VERTEX_TOKENS,
        identity="google",
        capabilities=Capabilities(image_urls=True, allowed_image_types=_IMAGES, documents=False, audio=False),
        quirks=Quirks(max_tokens_field="max_tokens", metadata=False, strict=False, user_field=None),
    ),
    _AZURE,
    replace(
        _AZURE,
        name="azure-responses",
        wire="openai_responses",
        quirks=Quirks(system_turns=True, batches="files", signed_thinking=True),
        capabilities=replace(
            _AZURE.capabilities, documents=True, allowed_document_types=("application/pdf",), audio=False
        ),
    ),
    replace(
        _AZURE,
        name="azure-deployments",
        path="/openai",
        # Its batches have no deployment in their path, and no model in their rows.
        quirks=replace(_AZURE.quirks, batches=None),
        hosting=Hosting(
            path="/deployments/{model}{path}?api-version={AZURE_OPENAI_API_VERSION|OPENAI_API_VERSION:2024-10-21}"
        ),
    ),
    replace(
        _AZURE,
        name="azure-ai",
        base_url_names=("AZURE_AI_ENDPOINT", "AZURE_INFERENCE_ENDPOINT"),
        key_names=("AZURE_AI_API_KEY", "AZURE_INFERENCE_CREDENTIAL"),
        path="/models",
        quirks=Quirks(max_tokens_field="max_tokens", metadata=False),
        # It has a route that describes the model of an endpoint, and none that lists models (2026-11).
        hosting=Hosting(path="{path}?api-version={AZURE_AI_API_VERSION:2024-05-01-preview}", lists_models=False),
        family=None,
    ),
    replace(
        _VERTEX_ANTHROPIC,
        name="azure-anthropic",
        base_url="https://{ANTHROPIC_FOUNDRY_RESOURCE}.services.ai.azure.com/anthropic/v1",
        base_url_names=("ANTHROPIC_FOUNDRY_BASE_URL",),
        key_names=("ANTHROPIC_FOUNDRY_API_KEY",),
        auth="x-api-key",
        identity="azure-foundry",
        hosting=None,
        hosts={},
    ),
)
