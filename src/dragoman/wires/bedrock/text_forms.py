"""The bodies that models of Bedrock take by InvokeModel to continue a text: each maker has its own names (2026-11)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.types import FinishReason, JsonObject, Usage, is_list, is_object
from dragoman.wires.common.invoke import METRICS, read_metrics
from dragoman.wires.common.json import whole_number

TEXT = "bedrock_text"
"""The key in `extra` of the members that `Request` and `Response` have no field for."""
GUARDRAIL, INTERVENED = "amazon-bedrock-guardrailAction", "INTERVENED"
"""What a guardrail did, and its word if it replaced the answer."""
_STOP: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "blocked": "stop",
    "pause": "stop",
    "other": "stop",
}


class TextForm(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one maker, for requests and answers."""

    prompt: str = "prompt"
    config: str | None = None
    """The member with the options; None if they are at the top level of the body."""
    options: Mapping[str, str]
    """The names of options, by the name in `Request`."""
    signs: frozenset[str] = frozenset()
    """Members that only this form has."""
    items: str | None = None
    """The list of answers in a whole body; None if the body itself is the answer."""
    chunk_items: str | None = None
    """The same in a chunk of a stream."""
    text: str
    reason: str
    counts: tuple[str, str] | None = None
    """The names of the counts of tokens of a whole body, of the prompt and of the answer."""
    chunk_counts: tuple[str, str] | None = None
    finished: str | None = None
    """The member of a chunk that says whether it is the last."""
    has_id: bool = False
    has_stream: bool = False
    """Whether the body of a request for a stream says so, too."""
    fields: Mapping[str, Any] = {}
    """Other members of a whole body."""
    words: Mapping[FinishReason, str]
    """Its words for finish reasons."""


FORMS = {
    "results": TextForm(
        prompt="inputText",
        config="textGenerationConfig",
        options={"max_tokens": "maxTokenCount", "temperature": "temperature", "top_p": "topP", "stop": "stopSequences"},
        signs=frozenset({"inputText", "textGenerationConfig"}),
        items="results",
        text="outputText",
        reason="completionReason",
        counts=("inputTextTokenCount", "tokenCount"),
        chunk_counts=("inputTextTokenCount", "totalOutputTextTokenCount"),
        words={**dict.fromkeys(_STOP, "FINISH"), "length": "LENGTH", "blocked": "CONTENT_FILTERED"},
    ),
    "completion": TextForm(
        options={
            "max_tokens": "max_tokens_to_sample",
            "temperature": "temperature",
            "top_p": "top_p",
            "top_k": "top_k",
            "stop": "stop_sequences",
        },
        signs=frozenset({"max_tokens_to_sample"}),
        text="completion",
        reason="stop_reason",
        fields={"type": "completion"},
        words={**dict.fromkeys(_STOP, "stop_sequence"), "length": "max_tokens"},
    ),
    "generation": TextForm(
        options={"max_tokens": "max_gen_len", "temperature": "temperature", "top_p": "top_p"},
        signs=frozenset({"max_gen_len"}),
        text="generation",
        reason="stop_reason",
        counts=("prompt_token_count", "generation_token_count"),
        chunk_counts=("prompt_token_count", "generation_token_count"),
        words=_STOP,
    ),
    "generations": TextForm(
        options={
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "p",
            "top_k": "k",
            "stop": "stop_sequences",
            "n": "num_generations",
        },
        signs=frozenset({"p", "k", "stop_sequences", "num_generations", "return_likelihoods", "truncate", "stream"}),
        items="generations",
        text="text",
        reason="finish_reason",
        finished="is_finished",
        has_id=True,
        has_stream=True,
        words={**dict.fromkeys(_STOP, "COMPLETE"), "length": "MAX_TOKENS", "blocked": "ERROR_TOXIC"},
    ),
    "outputs": TextForm(
        options={
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "top_k": "top_k",
            "stop": "stop",
        },
        items="outputs",
        chunk_items="outputs",
        text="text",
        reason="stop_reason",
        words=_STOP,
    ),
    "choices": TextForm(
        options={"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop"},
        items="choices",
        chunk_items="choices",
        text="text",
        reason="stop_reason",
        words=_STOP,
    ),
}
"""By the member of the answer that has the text: the value of the quirk `invoke_text`."""
ANY_FORM = "outputs"
"""The form of a request that has no sign of another."""
MEANINGS: dict[str, FinishReason] = {
    "FINISH": "stop",
    "STOP_CRITERIA_MET": "stop",
    "COMPLETE": "stop",
    "stop": "stop",
    "stop_sequence": "stop",
    "LENGTH": "length",
    "MAX_TOKENS": "length",
    "ERROR_LIMIT": "length",
    "length": "length",
    "max_tokens": "length",
    "CONTENT_FILTERED": "blocked",
    "ERROR_TOXIC": "blocked",
}


def form_of(body: JsonObject, /) -> str:
    """The name of the form of a request.

    >>> form_of({"prompt": "Once", "max_gen_len": 5}), form_of({"prompt": "Once"})
    ('generation', 'outputs')
    """
    return next((name for name, form in FORMS.items() if form.signs & body.keys()), ANY_FORM)


class TextPiece(msgspec.Struct, frozen=True):
    """What a whole body or a chunk says: texts with their finish reasons, counts, and other members."""

    texts: list[tuple[str, str | None]]
    usage: Usage | None
    is_last: bool
    rest: JsonObject


def read_piece(body: JsonObject, /) -> TextPiece | None:
    """Read a whole body or a chunk of any form; None if it has no such form.

    >>> read_piece({"generation": "a time", "stop_reason": "stop"}).texts
    [('a time', 'stop')]
    """
    for form in FORMS.values():
        for items, counts in ((form.items, form.counts), (form.chunk_items, form.chunk_counts)):
            found = [body] if items is None else body.get(items)
            if is_list(found) and found and all(is_object(item) and _has_text(item, form) for item in found):
                return _piece(body, form, items, found, counts)
    return None


def _has_text(item: JsonObject, form: TextForm) -> bool:
    return isinstance(item.get(form.text), str) or (form.finished is not None and form.finished in item)


def _piece(
    body: JsonObject, form: TextForm, items: str | None, found: list[JsonObject], counts: tuple[str, str] | None
) -> TextPiece:
    texts = [(str(item.get(form.text) or ""), _word(item.get(form.reason))) for item in found]
    usage = read_metrics(body)
    if usage is None and counts is not None:
        usage = Usage(
            input=whole_number(body.get(counts[0])), output=whole_number(found[0].get(counts[1], body.get(counts[1])))
        )
    is_last = METRICS in body or body.get(GUARDRAIL) == INTERVENED or any(word is not None for _, word in texts)
    known = {items, form.text, form.reason, form.finished, METRICS, "id", "index", "p", *(counts or ()), *form.fields}
    rest = {name: value for name, value in body.items() if name not in known and value is not None}
    return TextPiece(texts, usage, is_last, rest)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
