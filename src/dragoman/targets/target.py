"""Target: one model at one provider, with its Capabilities and its Quirks."""

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec

from dragoman.http import split_base_url
from dragoman.targets.pools import DeploymentLimits, DeploymentPool
from dragoman.types import Effort, HostedKind
from dragoman.types.structs import SetupStruct

Identity: TypeAlias = Literal["aws", "azure", "azure-foundry", "google"]
"""A cloud with credentials of its own: roles, profiles, tokens that expire. Foundry has another audience of tokens."""
_ENTRA = r"eyJ[\w-]+\.[\w-]+\.[\w-]*"
"""The form of a token of Microsoft Entra; keys of Azure have no dots."""
S3_HASH = "x-amz-content-sha256"
"""The header with the hash of the body. S3 requires it, and no other service has it."""
_S3_URI = r"^s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9](?:/[-!_*'().a-z0-9A-Z]+)*/?$(?!\n)"
_ROLE = r"^arn:aws[^:]*:iam::[0-9]*:role/\S+$(?!\n)"
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
RareOption: TypeAlias = Literal[
    "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "n", "service_tier", "verbosity"
]
_Mime: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[^\s/]+/[^\s/]+$(?!\n)", description="MIME types such as image/png")
]


class Capabilities(SetupStruct, frozen=True, kw_only=True, omit_defaults=True):
    """What a target can do. None means unknown, which is treated as no limit."""

    tools: bool = True
    """Takes tools."""
    structured: bool = True
    """Supports structured output with a JSON Schema."""
    streaming: bool = True
    """Can stream its answer."""
    chats: bool = True
    """Answers prompts. If False, it only embeds and ranks texts."""
    forced_choice: bool = True
    """Can be forced to call a tool."""
    thinking: bool = True
    """Can think before it answers."""
    documents: bool = True
    """Takes documents."""
    audio: bool = True
    """Takes audio."""
    uploads: bool = False
    """Stores files that requests refer to by an id."""
    compaction: bool = False
    """Compacts a conversation itself, by a `compaction_trigger` of the Responses API."""
    hosted_tools: tuple[HostedKind, ...] | None = None
    """The tools that the provider runs itself; None means those that its wire has a form for."""
    image_urls: bool = False
    """Fetches images by their URL."""
    document_urls: bool = False
    """Fetches documents by their URL."""
    video: bool = False
    """Takes videos: documents with a type such as video/mp4."""
    video_urls: bool = False
    """Fetches videos by their URL."""
    max_images: _Count | None = None
    """Images in one request; 0 if it takes none."""
    max_image_bytes: _Size | None = None
    """Bytes of one image before base64. If a provider counts the base64, use three quarters of its limit."""
    max_images_bytes: _Size | None = None
    """Bytes of all images together before base64."""
    max_image_side: _Size | None = None
    """Pixels of the longer side."""
    many_images: _Count | None = None
    """A request with more images than this is limited to `many_images_side`."""
    many_images_side: _Size | None = None
    """Pixels of the longer side if there are many images."""
    allowed_image_types: tuple[_Mime, ...] = ()
    """MIME types of images; empty means unknown."""
    animated_images: bool = True
    """Takes animated images."""
    allowed_document_types: tuple[_Mime, ...] = ("application/pdf", "text/*")
    """MIME types of documents."""
    max_document_bytes: _Size | None = None
    """Bytes of one document before base64."""
    max_audio_bytes: _Size | None = None
    """Bytes of one audio part before base64."""
    context_window: _Size | None = None
    """Tokens of prompt and answer together."""
    max_output: _Size | None = None
    """Tokens of the answer."""


class Quirks(SetupStruct, frozen=True, kw_only=True, omit_defaults=True):
    """How a target differs from the plain form of its wire: known facts, never guessed from the name of a model."""

    max_tokens_field: str | None = None
    """The field for `max_tokens`; None is the wire's own."""
    seed_field: str | None = "seed"
    """The field for `seed`; None if it is not supported."""
    required_choice: str = "required"
    """The value of tool_choice that forces any tool call."""
    named_choice: bool = True
    """tool_choice can name a tool."""
    parallel_tool_calls: bool = True
    """The option `parallel_tool_calls` is supported."""
    stream_usage: bool = True
    """`stream_options.include_usage` is supported and needed for the usage of a stream."""
    user_field: str | None = "user"
    """The field for `user`; None if it is not supported."""
    metadata: bool = True
    """The option `metadata` is supported."""
    stop: bool = True
    """The option `stop` is supported."""
    top_k: bool = False
    """The option `top_k` is supported."""
    sampling: bool = True
    """The options `temperature`, `top_p` and `top_k` are supported, and penalties, `logit_bias` and `logprobs`."""
    sampling_with_reasoning: bool = True
    """These options are also supported while the model thinks."""
    unsupported: tuple[RareOption, ...] = ()
    """Options of the wire that are not supported."""
    json_schema: bool = True
    """Structured output takes a schema; False if it only has a plain JSON mode."""
    call_id: str | None = None
    """A regular expression that tool call ids must match completely."""
    call_id_length: int = 9
    """Length of the ids that replace those that do not match `call_id`."""
    reasoning: Literal["effort", "object", "switch", "budget", "adaptive", "level", "think"] | None = None
    """The form of the field for `reasoning`; None is the wire's own."""
    efforts: tuple[Effort, ...] | None = None
    """The supported values of `reasoning`; None means all."""
    min_budget: _Count | None = None
    """The smallest number of thinking tokens, besides 0."""
    max_budget: _Count | None = None
    """The largest number of thinking tokens."""
    thinking_off: bool = True
    """Thinking can be turned off with a budget of 0."""
    hidden_thinking: bool = False
    """The text of thinking comes only if the request asks for it."""
    bound_thinking: bool = False
    """Thinking is bound to the conversation before it. Such models think if the request does not say otherwise."""
    api_version: str | None = None
    """The version header of the API; None is the wire's own."""
    system_turns: bool = False
    """System messages may be inside the history."""
    temperature_excludes_top_p: bool = False
    """A request may have `temperature` or `top_p`, not both."""
    signed_thinking: bool = False
    """Thinking in the history needs its signature, or its encrypted content."""
    thought_signatures: bool = False
    """The first tool call of a step in the history needs its thought signature."""
    completions: str | None = None
    """The path that continues a plain text, on the wire `openai_chat`; None if there is none."""
    invoke_text: Literal["results", "completion", "generation", "generations", "outputs", "choices"] | None = None
    """On the wire `bedrock`, the member of an answer of InvokeModel that has the continued text; it tells the form of
    the whole body. None if the model does not continue texts."""
    fill_in: str | None = None
    """The path that fills the gap between a text and a suffix, on the wire `openai_chat`; None if there is none."""
    embeddings: (
        Literal[
            "texts", "v2_texts", "output_dimension", "int8", "input_type", "task", "passage", "search", "v1", "single"
        ]
        | None
    ) = None
    """The form of an embeddings request: None is the wire's own, `texts` Cohere's (`v2_texts` below the host),
    `output_dimension` Mistral's, `int8` Perplexity's (vectors of bytes), `input_type` Voyage's, `task` Jina's,
    `passage` NVIDIA's, `search` OpenRouter's, `v1` OpenAI's below a base URL without a version, `single` Nova's."""
    batches: Literal["files", "jobs", "inline", "s3"] | None = None
    """How it runs batches: with `files` as OpenAI, `jobs` as Mistral, `inline` as Anthropic and Google, `s3` as Bedrock
    with the `batch_storage` of its record; None if not."""
    rerank: str | None = None
    """The path that ranks documents, on the wire `openai_chat`; None if there is none."""
    rerank_form: Literal["top_k", "texts"] | None = None
    """The form of a request to rank documents: None is Cohere's, `top_k` Voyage's, `texts` that of Text Embeddings
    Inference, which ranks with the model that it was started with."""
    rerank_at_host: bool = False
    """The path of `rerank` is below the host of the base URL, not below the base URL."""
    rerank_version: int | None = None
    """On the wire `bedrock`, the `api_version` that a request to rank documents must have; None if it must not."""
    result_media: bool = False
    """A tool result may have images and documents."""
    schema_with_tools: bool = True
    """A schema and tools may be in the same request."""
    recursive_schemas: bool = True
    """A schema may refer to itself."""
    strict: bool = True
    """The strict flag of tools and schemas is supported."""
    reasoning_with_tools: bool = True
    """`reasoning` and tools may be in the same request."""
    user_after_tool: bool = True
    """A user message may follow a tool result."""
    forced_choice_with_thinking: bool = True
    """A call can be forced while the model thinks."""
    think_tags: bool = False
    """The text of an answer may have thinking in `<think>` tags, or in those of `think_tag`."""
    think_tag: Literal["think", "reasoning"] = "think"
    """With `think_tags`: the name of the tag."""
    think_opened: bool = False
    """With `think_tags`: the prompt ends with `<think>`, so the text before `</think>` is thinking. A stream gives no
    text before its end is known."""
    empty_prompt: bool = False
    """A request may have a system prompt and an empty text as its only message."""
    accepts_unknown_fields: bool = True
    """Fields of the wire that the vocabulary does not have may be sent, from `extra`."""
    client_tools: bool = True
    """Knows the tools of its wire that the client runs, besides functions; False to send them as functions."""
    hosted_tools: tuple[str, ...] = ()
    """On Chat Completions, the provider's own tools, as `web_search=browser_search`: our name, and the type that
    requests it. The type is empty if the model has the tool without a request, and `web_search_options` if a field of
    that name requests it."""
    hosted_tool_options: bool = False
    """With `hosted_tools`: options stand in `parameters`."""
    reasoning_replay_fields: tuple[str, ...] | None = None
    """The fields in which earlier thinking is sent back; None is the field in which it came."""
    caching: Literal["blocks", "points", "key", "breakpoints", "contents"] | None = None
    """How a request marks what the target caches: `cache_control` of blocks, `cachePoint` between blocks,
    `prompt_cache_key`, this and `prompt_cache_breakpoint` of parts, or `cachedContents` that are made before. None is
    the wire's own form, or none if the provider decides."""
    long_cache: str | None = None
    """The longer time that a `prompt_cache_breakpoint` can have, such as "12h"; None if there is one time only."""
    calls_need_reasoning: bool = False
    """An assistant message with tool calls must have `reasoning_content`, also if another model made the calls."""


class Hosting(SetupStruct, frozen=True, kw_only=True, omit_defaults=True):
    """How a cloud serves the protocol of another provider: with other paths, and with other fields in the body.

    >>> Hosting(path="/deployments/{model}{path}?api-version=1").to_path("/chat/completions", "gpt", stream=False)
    '/deployments/gpt/chat/completions?api-version=1'
    """

    path: str = "{path}"
    """The path below the base URL: `{path}` is the wire's own, `{model}` the model."""
    stream_path: str | None = None
    """The same for a request that asks for a stream; None is `path`."""
    count_path: str | None = None
    """The path that counts tokens, on the wire `anthropic`; None if there is none."""
    fields: Mapping[str, Any] = {}
    """Fields that are added to the body."""
    without: tuple[str, ...] = ()
    """Fields that are removed from the body."""
    lists_models: bool = True
    """Whether it lists models, on the wires of OpenAI; with the query of `path`."""
    betas_in_body: bool = False
    """Whether the names of beta features are in the body, not in a header, on the wire `anthropic`."""

    def to_path(self, path: str, model: str, *, stream: bool) -> str:
        """The path of the cloud for a path of the wire."""
        template = (self.stream_path if stream else None) or self.path
        return template.replace("{path}", path).replace("{model}", quote(model, safe=""))


class BatchStorage(SetupStruct, frozen=True, kw_only=True, omit_defaults=True):
    """The storage through which a cloud gets the rows of batches and gives their results."""

    uri: Annotated[str, msgspec.Meta(pattern=_S3_URI, description="s3://bucket or s3://bucket/folder")]
    """The folder in S3, `s3://bucket/folder`."""
    role: Annotated[str, msgspec.Meta(pattern=_ROLE, description="the ARN of a role, arn:aws:iam::…:role/…")]
    """The ARN of the role with which the cloud reads and writes the folder."""
    s3_url: str | None = None
    """Another address of S3, which has the bucket in its paths; None is that of the region."""
    jobs_url: str | None = None
    """Another address of the API that runs the jobs; None is that of the region."""

    @property
    def folder(self) -> tuple[str, str]:
        """The bucket, and the folder with a slash at its end."""
        bucket, _, folder = self.uri.removeprefix("s3://").strip("/").partition("/")
        return bucket, f"{folder}/" if folder else ""


class Target(SetupStruct, frozen=True, kw_only=True, dict=True):
    """One model at one provider. Its repr does not show the key.

    A registry keeps its targets, so what depends on a target alone is made once, and not for each call.

    >>> Target(provider="groq", model="llama", wire="openai_chat", base_url="https://x/v1", api_key="k")
    Target(groq/llama)
    """

    provider: str
    model: str
    wire: str
    base_url: str
    api_key: str | None = None
    auth: str = "bearer"
    """`bearer`, or the name of the header that holds the key."""
    identity: Identity | None = None
    """The cloud whose own credentials are used if there is no key."""
    needs_key: bool = False
    key_names: tuple[str, ...] = ()
    """Environment variables that may hold the key."""
    headers: Mapping[str, str] = {}
    capabilities: Capabilities = Capabilities()
    quirks: Quirks = Quirks()
    hosting: Hosting | None = None
    """How a cloud serves the wire; None if it is served as its maker does."""
    http_client: object = None
    """The transport for its requests; None is the driver's own."""
    credential: Any = None
    """A `Credential` that signs the requests, instead of `api_key`."""
    batch_storage: BatchStorage | str | None = None
    """Where the rows of batches are stored, if the provider wants them in a storage of its user; a text says what is
    wrong with it."""
    deployment_limits: DeploymentLimits | None = None
    """What it may get at most, from this process or from all gateways that share a store."""
    pool: DeploymentPool | None = None
    """The pool that it is a deployment of, in this chain."""
    price_name: str | None = None
    """The provider whose prices hold, at any base URL. None: its own prices, at its own addresses only."""
    like_name: str | None = None
    """The provider that its own was made like: that one's prices hold, at that one's addresses only."""

    @cached_property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"

    @property
    def lacks_key(self) -> bool:
        """Whether it needs a key and has none."""
        return self.needs_key and not self.api_key and self.credential is None

    @cached_property
    def origin_and_prefix(self) -> tuple[str, str]:
        """The base URL in two parts: scheme and host, and the path before those of the wire."""
        return split_base_url(self.base_url)

    @cached_property
    def json_headers(self) -> Mapping[str, str]:
        """The headers of a request with a JSON body: its type, the key, and the target's own. Copy before a change."""
        return {"content-type": "application/json", **self.auth_headers(), **self.headers}

    def auth_headers(self) -> dict[str, str]:
        """The headers with the key and with the user and password of the base URL; empty without them.

        >>> Target(provider="box", model="m", wire="ollama", base_url="http://me:secret@box").auth_headers()
        {'authorization': 'Basic bWU6c2VjcmV0'}
        """
        headers = {}
        if self.api_key:
            is_bearer = self.auth == "bearer"
            if not is_bearer and self.identity in ("azure", "azure-foundry"):
                # Azure takes its keys in a header of their own, and tokens only as bearer tokens.
                is_bearer = re.fullmatch(_ENTRA, self.api_key) is not None
            headers = {"authorization": f"Bearer {self.api_key}"} if is_bearer else {self.auth: self.api_key}
        if "@" in self.base_url and (user := urlsplit(self.base_url).netloc.rpartition("@")[0]):
            login = unquote_to_bytes(user)
            login += b"" if b":" in login else b":"  # without a password, it must end with a colon
            headers["authorization"] = f"Basic {b64encode(login).decode()}"
        return headers

    def __repr__(self) -> str:
        return f"Target({self.name})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        return [("name", self.name)]
