"""The forms of requests for embeddings: which names a provider has for what a user may say.

Most providers have OpenAI's form with a few names of their own. The numbers of texts are those of the
providers' pages of November 2026; Mistral answered to 257 texts: "Too many inputs in request, split into more batches",
and Jina's page has no number.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.errors import Unsupported
from dragoman.targets.target import Target
from dragoman.types import JsonObject
from dragoman.types.data_urls import encode_base64
from dragoman.types.embedding import EmbeddingOptions, EmbeddingPurpose, Truncation
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.json import without_none
from dragoman.wires.common.notices import NoticeCollector

T = TypeVar("T")
VectorFormat: TypeAlias = Literal["float", "base64", "base64_int8", "base64_uint8"]
"""How a client wants its vectors: as lists of numbers, or as base64 of floats or bytes."""
_CODES: Mapping[VectorFormat, str] = {"base64": "f", "base64_int8": "b", "base64_uint8": "B"}
"""The codes in `struct` of the numbers in base64."""
_DTYPE = "output_dtype"
"""The field with which a client asks for bytes."""
SIDES: Mapping[Truncation, Any] = {"none": "NONE", "start": "START", "end": "END"}
_FLAG: Mapping[Truncation, Any] = {"none": False, "end": True}
"""A flag says that a text is cut, and means its end."""
_SEARCH: Mapping[EmbeddingPurpose, str] = {
    "query": "search_query",
    "document": "search_document",
    "classification": "classification",
    "clustering": "clustering",
}


class EmbeddingForm(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one form; None or no entry means that it has no field for it."""

    name: str = "openai_chat"
    """The name of its fields in `EmbeddingOptions.extra`."""
    path: str = "/embeddings"
    is_at_host: bool = False
    """The path is below the host of the base URL, not below the base URL."""
    texts: str = "input"
    takes_tokens: bool = True
    dimensions: str | None = "dimensions"
    purpose: str | None = None
    purposes: Mapping[EmbeddingPurpose, str] = {}
    default_purpose: EmbeddingPurpose | None = None
    """For a form that requires one."""
    truncate: str | None = None
    truncations: Mapping[Truncation, Any] = {}
    user: bool = True
    """Whether it has a field for the user, by the name of the target's quirk."""
    number: str = "f"
    """The code in `struct` of the numbers of vectors in base64."""
    fixed: JsonObject = {}
    max_texts: int = 2048


_COHERE = EmbeddingForm(
    name="texts",
    path="/embed",
    texts="texts",
    takes_tokens=False,
    dimensions="output_dimension",
    purpose="input_type",
    purposes=_SEARCH,
    default_purpose="document",
    truncate="truncate",
    truncations=SIDES,
    user=False,
    fixed={"embedding_types": ["float"]},
    max_texts=96,
)
FORMS: Mapping[str | None, EmbeddingForm] = {
    None: EmbeddingForm(),
    "texts": _COHERE,
    "v2_texts": msgspec.structs.replace(_COHERE, path="/v2/embed", is_at_host=True),
    "output_dimension": EmbeddingForm(takes_tokens=False, dimensions="output_dimension", user=False, max_texts=256),
    # Its base URL has no version, and its vectors no other form than bytes.
    "int8": EmbeddingForm(path="/v1/embeddings", takes_tokens=False, user=False, number="b", max_texts=512),
    "input_type": EmbeddingForm(
        takes_tokens=False,
        dimensions="output_dimension",
        purpose="input_type",
        purposes={"query": "query", "document": "document"},
        truncate="truncation",
        truncations=_FLAG,
        user=False,
        max_texts=1000,
    ),
    "task": EmbeddingForm(
        takes_tokens=False,
        purpose="task",
        purposes={
            "query": "retrieval.query",
            "document": "retrieval.passage",
            "similarity": "text-matching",
            "classification": "classification",
            "clustering": "separation",
        },
        truncate="truncate",
        truncations=_FLAG,
        user=False,
        max_texts=512,
    ),
    "passage": EmbeddingForm(
        takes_tokens=False,
        purpose="input_type",
        purposes={"query": "query", "document": "passage"},
        truncate="truncate",
        truncations=SIDES,
    ),
    "search": EmbeddingForm(purpose="input_type", purposes=_SEARCH),
    "v1": EmbeddingForm(path="/v1/embeddings", max_texts=32),
}
"""By the quirk `embeddings` of a target on a wire of OpenAI."""
GOOGLE = EmbeddingForm(
    name="google",
    takes_tokens=False,
    dimensions="outputDimensionality",
    purpose="taskType",
    purposes={
        "query": "RETRIEVAL_QUERY",
        "document": "RETRIEVAL_DOCUMENT",
        "similarity": "SEMANTIC_SIMILARITY",
        "classification": "CLASSIFICATION",
        "clustering": "CLUSTERING",
    },
    user=False,
    max_texts=100,
)
GOOGLE_CLOUD = msgspec.structs.replace(GOOGLE, truncate="autoTruncate", truncations=_FLAG)
OLLAMA = EmbeddingForm(name="ollama", takes_tokens=False, truncate="truncate", truncations=_FLAG, user=False)
TITAN = EmbeddingForm(name="titan", takes_tokens=False, user=False, max_texts=1)
NOVA = EmbeddingForm(
    name="nova",
    takes_tokens=False,
    dimensions="embeddingDimension",
    purpose="embeddingPurpose",
    purposes={
        "query": "GENERIC_RETRIEVAL",
        "document": "GENERIC_INDEX",
        "classification": "CLASSIFICATION",
        "clustering": "CLUSTERING",
    },
    default_purpose="document",
    truncate="truncationMode",
    truncations=SIDES,
    user=False,
    max_texts=1,
)
_PURPOSES: dict[str, EmbeddingPurpose] = {
    word: purpose for form in (*FORMS.values(), GOOGLE, NOVA) for purpose, word in form.purposes.items()
}
_TRUNCATIONS: dict[str | bool, Truncation] = {
    "NONE": "none",
    "START": "start",
    "END": "end",
    False: "none",
    True: "end",
}
_PURPOSE_NAMES = ("input_type", "task", "taskType", "embeddingPurpose")
_TRUNCATE_NAMES = ("truncate", "truncation", "autoTruncate", "truncationMode")
_SIZE_NAME = "output_dimension"


def read_options(name: str, fields: JsonObject, dimensions: int | None = None, /) -> EmbeddingOptions:
    """The options in the fields of a client's request, under all the names that forms have.

    A field with a value that we have no word for stays as it is in `extra`, under the name of the form.

    >>> read_options("google", {"taskType": "RETRIEVAL_QUERY", "title": "Ships"}).extra
    {'google': {'title': 'Ships'}}
    """
    rest = without_none(fields)
    purpose = _take(rest, _PURPOSE_NAMES, _PURPOSES)
    truncate = _take(rest, _TRUNCATE_NAMES, _TRUNCATIONS)
    size = rest.get(_SIZE_NAME)
    if dimensions is None and isinstance(size, int) and size > 0:
        dimensions = rest.pop(_SIZE_NAME)
    user = rest.pop("user") if isinstance(rest.get("user"), str) else None
    return EmbeddingOptions(
        dimensions=dimensions, purpose=purpose, truncate=truncate, user=user, extra=make_extra(name, rest)
    )


def _take(fields: JsonObject, names: tuple[str, ...], words: Mapping[Any, T]) -> T | None:
    """Our word for the first field that has one; that field is removed."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | bool) and value in words:
            del fields[name]
            return words[value]
    return None


def encode_embedding_options(
    options: EmbeddingOptions, form: EmbeddingForm, target: Target, notices: NoticeCollector, /
) -> JsonObject:
    """The fields of a request in a form; a notice for each option that the form has no field for.

    >>> target = Target(provider="p", model="m", wire="ollama", base_url="http://x")
    >>> encode_embedding_options(EmbeddingOptions(truncate="none"), OLLAMA, target, NoticeCollector("ollama"))
    {'truncate': False}
    """
    body: JsonObject = {**form.fixed}
    purpose = _purpose(options, form, target, notices)
    user_field = target.quirks.user_field if form.user else None
    rows = (
        ("dimensions", options.dimensions, form.dimensions, options.dimensions),
        ("purpose", purpose, form.purpose, form.purposes.get(purpose) if purpose else None),
        ("truncate", options.truncate, form.truncate, form.truncations.get(options.truncate or "end")),
        ("user", options.user, user_field, options.user),
    )
    for option, value, field, word in rows:
        if value is not None and (field is None or word is None):
            notices.add("dropped", option, f"{target.provider} has no field for {value} in requests for embeddings")
        elif value is not None and field is not None:
            body[field] = word
    own = own_fields(options, form, target)
    for field in (field for fields in options.extra.values() if fields is not own for field in fields):
        notices.add("dropped", field, f"{target.provider} has no such field in requests for embeddings")
    return {**body, **own}


def _purpose(
    options: EmbeddingOptions, form: EmbeddingForm, target: Target, notices: NoticeCollector
) -> EmbeddingPurpose | None:
    """The purpose to send. A form that requires one gets its default for a purpose that it does not have."""
    purpose, default = options.purpose, form.default_purpose
    if purpose is None or default is None or purpose in form.purposes:
        return purpose or default
    notices.add("changed", "purpose", f"{target.provider} has no field for {purpose}; sent as {default}")
    return default


def own_fields(options: EmbeddingOptions, form: EmbeddingForm, target: Target, /) -> JsonObject:
    """The fields of a client's request that go to the target as they are.

    >>> target = Target(provider="p", model="m", wire="ollama", base_url="http://x")
    >>> own_fields(EmbeddingOptions(extra={"ollama": {"keep_alive": 0}}), OLLAMA, target)
    {'keep_alive': 0}
    """
    return options.extra.get(form.name, {}) if target.quirks.accepts_unknown_fields else {}


# Vectors --------------------------------------------------------------------------------------------------------------


def check_numbers(
    formats: Iterable[VectorFormat], options: EmbeddingOptions, form: EmbeddingForm, target: Target, /
) -> None:
    """Raise `Unsupported` if a client wants vectors of bytes, and the target is not asked for them.

    >>> target = Target(provider="p", model="m", wire="ollama", base_url="http://x")
    >>> check_numbers(["base64_int8"], EmbeddingOptions(), OLLAMA, target)
    Traceback (most recent call last):
        ...
    dragoman.errors.Unsupported: p: output_dtype must be float, got int8 or binary; leave it out
    """
    for format in formats:
        code = _CODES.get(format, "f")
        if code not in ("f", form.number) and _DTYPE not in own_fields(options, form, target):
            raise _no_bytes(f"{target.provider}: ", code)


def encode_vectors(vectors: Iterable[tuple[float, ...]], format: VectorFormat, /) -> list[Any]:
    """Vectors as a client wants them.

    >>> encode_vectors([(1.0, -1.0)], "base64_int8"), encode_vectors([(1.0, -1.0)], "float")
    (['Af8='], [[1.0, -1.0]])
    """
    code = _CODES.get(format)
    return [list(vector) if code is None else _pack(vector, code) for vector in vectors]


def _pack(vector: tuple[float, ...], code: str) -> str:
    numbers: Iterable[float] = vector
    if code != "f":
        least = -128 if code == "b" else 0
        if not all(float(number).is_integer() and least <= number <= least + 255 for number in vector):
            raise _no_bytes("the target sent floats: ", code)
        numbers = map(int, vector)
    return encode_base64(struct.pack(f"<{len(vector)}{code}", *numbers))


def _no_bytes(start: str, code: str) -> Unsupported:
    got = "int8 or binary" if code == "b" else "uint8 or ubinary"
    return Unsupported(f"{start}{_DTYPE} must be float, got {got}; leave it out", param=_DTYPE)
