"""Where a request goes, as whom, and what is known of the place: Target, Limits, Quirks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from dragoman.types import Effort

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Mime: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\s/]+/[^\s/]+$")]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a target can do. None means: not known, so not limited.

    >>> Capabilities(max_images=0).max_images
    0
    """

    tools: bool = True
    structured: bool = True
    streaming: bool = True
    forced_choice: bool = True
    thinking: bool = True
    documents: bool = True
    audio: bool = True
    image_urls: bool = False
    max_images: _Count | None = None
    max_image_bytes: _Size | None = None
    """Of the image itself: where a provider counts its base64, three quarters of what it says."""
    max_images_bytes: _Size | None = None
    """Of all images together: where they have more, the small ones keep theirs, and the large ones share the rest."""
    max_image_side: _Size | None = None
    """Pixels."""
    many_images: _Count | None = None
    """With more images than these, each keeps to `many_images_side`."""
    many_images_side: _Size | None = None
    allowed_image_types: tuple[_Mime, ...] = ()
    """Empty where not known."""
    animated_images: bool = True
    allowed_document_types: tuple[_Mime, ...] = ("application/pdf", "text/*")
    max_document_bytes: _Size | None = None
    max_audio_bytes: _Size | None = None
    context_window: _Size | None = None
    max_output: _Size | None = None


class Quirks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a target's dialect differs from its wire's plain form. Facts, never guessed from a model's name.

    >>> Quirks(max_tokens_field="max_tokens").named_choice
    True
    """

    max_tokens_field: str | None = None
    seed_field: str | None = "seed"
    required_choice: str = "required"
    named_choice: bool = True
    parallel_tool_calls: bool = True
    stream_usage: bool = True
    user_field: str | None = "user"
    metadata: bool = True
    stop: bool = True
    top_k: bool = False
    sampling: bool = True
    json_schema: bool = True
    call_id: str | None = None
    """A regular expression that call ids must match whole."""
    call_id_length: int = 9
    reasoning: Literal["effort", "object", "switch", "budget", "adaptive", "level", "think"] | None = None
    """The form in which thinking is asked for; None is the wire's own."""
    efforts: tuple[Effort, ...] | None = None
    """The words that the target takes; None is all."""
    api_version: str | None = None
    system_turns: bool = False
    """A system message may stand inside the history."""
    temperature_excludes_top_p: bool = False
    """A temperature and top_p together are refused."""
    signed_thinking: bool = False
    """Thinking without a signature is refused."""
    thought_signatures: bool = False
    """The first call of a step is refused without a thought signature."""
    embeddings: Literal["texts", "output_dimension"] | None = None
    """How vectors are asked for: None is the wire's own way, `texts` Cohere's, else the field of their size."""
    result_media: bool = False
    """A tool's result may hold pictures and documents."""
    schema_with_tools: bool = True
    """A schema of the answer may be asked for beside tools."""
    recursive_schemas: bool = True
    """A schema of the answer may come back to itself."""
    strict: bool = True
    """The strict flag of tools and schemas is known."""
    reasoning_with_tools: bool = True
    """A model that has tools may think."""
    user_after_tool: bool = True
    """A user's message may follow a tool's result."""
    accepts_unknown_fields: bool = True
    """Fields for which there is no word of ours are known, as far as they are of the wire."""
    reasoning_replay_fields: tuple[str, ...] | None = None
    """The fields in which earlier thinking is taken back; None is wherever it came in."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one provider. Its repr shows no key.

    >>> Target(provider="groq", model="llama", wire="openai_chat", base_url="https://x/v1", api_key="k")
    Target(groq/llama)
    """

    provider: str
    model: str
    wire: str
    base_url: str
    api_key: str | None = None
    auth: str = "bearer"
    """`bearer`, or the name of the header that takes the key as it is."""
    needs_key: bool = False
    key_names: tuple[str, ...] = ()
    """The environment variables that may hold the key."""
    headers: Mapping[str, str] = {}
    capabilities: Capabilities = Capabilities()
    quirks: Quirks = Quirks()
    http_client: object = None
    """Who sends its requests, where that is not the driver's own transport."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"

    def auth_headers(self) -> dict[str, str]:
        """The header that says who asks; none without a key."""
        if not self.api_key:
            return {}
        return {"authorization": f"Bearer {self.api_key}"} if self.auth == "bearer" else {self.auth: self.api_key}

    def __repr__(self) -> str:
        """Without the key."""
        return f"Target({self.name})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """As `repr`: msgspec's own would show the key."""
        return [("name", self.name)]
