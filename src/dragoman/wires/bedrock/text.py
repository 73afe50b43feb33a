"""InvokeModel with a model that continues a text, as a client and as a server; the names are in `text_forms`."""

from functools import cache
from math import inf
from typing import Any

import msgspec

from dragoman.errors import DragomanError, Unsupported
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted
from dragoman.http import HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import Finish, FinishReason, JsonObject, Message, Part, Request, Response, Text
from dragoman.types.requests import MAX_CHOICES
from dragoman.wires.base import StreamEncoder
from dragoman.wires.bedrock.text_forms import ANY_FORM, FORMS, MEANINGS, TEXT, TextForm, form_of
from dragoman.wires.common.aws_errors import encode_aws_error
from dragoman.wires.common.completions import read_prompts
from dragoman.wires.common.extra import VERBATIM, body_extra, full_extra, request_extra, wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.http import post_request
from dragoman.wires.common.invoke import invoke_path
from dragoman.wires.common.json import encode_json, object_of, without_none
from dragoman.wires.common.notices import NoticeCollector, encode_notices
from dragoman.wires.common.options import encode_options, encode_rare_options, finish_word, max_tokens
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    make_request,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route

_FORM = "form"
_BOUNDS = (
    ("temperature", "temperature", 0, 5),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_tokens", 0, inf),
    ("n", "num_generations", 1, MAX_CHOICES),
)


# Client half ----------------------------------------------------------------------------------------------------------


def encode_text(request: Request, target: Target) -> HttpRequest | None:
    """The call of InvokeModel that continues a text; None if the form of the model's body is not known."""
    form = FORMS.get(target.quirks.invoke_text or "")
    if form is None or request.suffix is not None:
        return None
    prompts = read_prompts(request)
    if len(prompts) != 1 or not isinstance(prompts[0], str):
        raise Unsupported("takes one text in a request; send one request for each", param="prompt")
    notices = NoticeCollector(target.wire, strict=request.strict)
    own = {name: value for name, value in full_extra(request, TEXT).items() if name != _FORM}
    others = {name: fields for name, fields in request.extra.items() if not name.startswith(TEXT)}
    extra = {**body_extra(msgspec.structs.replace(request, extra=others), target, notices), **own}
    names = form.options
    options = encode_options(
        (
            ("temperature", request.temperature, names.get("temperature")),
            ("top_p", request.top_p, names.get("top_p")),
            ("top_k", request.top_k, names.get("top_k")),
            ("stop", list(request.stop) or None, names.get("stop")),
            ("max_tokens", max_tokens(request, target, notices), names.get("max_tokens")),
            ("seed", request.seed, None),
            ("user", request.user, None),
            ("metadata", request.metadata or None, None),
            ("reasoning", None if request.reasoning in ("none", 0) else request.reasoning, None),
        ),
        extra,
        notices,
    )
    options |= encode_rare_options(request, target, {"n": names["n"]} if "n" in names else {}, extra, notices)
    if form.config is not None:
        config = extra.pop(form.config, None)
        options = {form.config: {**options, **object_of(config)}}
    path = invoke_path(target.model, stream=bool(request.stream))
    streaming = {"stream": True} if form.has_stream and request.stream else {}
    return post_request(target, path, {form.prompt: prompts[0], **options, **streaming, **extra}, notices)


# Server half ----------------------------------------------------------------------------------------------------------


_TYPES: dict[str, Any] = {
    "temperature": float | None,
    "top_p": float | None,
    "top_k": int | None,
    "max_tokens": int | None,
    "stop": list[str] | None,
    "n": int | None,
}


@cache
def _options_type(form: str) -> type[msgspec.Struct]:
    """The options of a form, with its names, so that an error names what the client wrote."""
    names = FORMS[form].options
    fields = [(name, _TYPES[name], None) for name in names]
    return msgspec.defstruct("TextOptions", fields, rename=dict(names))


def _read_options(form: str, data: object, where: str) -> tuple[dict[str, Any], JsonObject]:
    """The options of a body, by the names in `Request`, and its other members."""
    options, rest = read_fields(_options_type(form), data, where)
    return msgspec.structs.asdict(options), rest


class _Prompt(msgspec.Struct):
    prompt: str | None = None


class TextServer:
    """Decodes what models that continue a text take, and answers as they do."""

    has_citations = False
    routes: tuple[Route, ...] = ()  # InvokeServer has them

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body = decode_request_json(http)
        name = form_of(body)
        form = FORMS[name]
        rest = without_none(body)
        prompt, _ = read_fields(_Prompt, {"prompt": rest.pop(form.prompt, None)}, "body")
        if prompt.prompt is None:
            raise missing_field(form.prompt)
        if form.config is None:
            options, rest = _read_options(name, rest, "body")
        else:
            options, more = _read_options(name, rest.pop(form.config, {}), form.config)
            rest |= {form.config: more} if more else {}
        rest.pop("stream", None)  # the path says it
        return "", make_request(
            _BOUNDS,
            messages=(Message(role="user", parts=(Text(text=prompt.prompt),)),),
            raw=True,
            stop=tuple(options.pop("stop", None) or ()),
            extra=request_extra(TEXT, rest, {_FORM: name}),
            **options,
        )

    def check(self, model: str, request: Request, /) -> None:
        if not model:
            raise missing_field("modelId")
        check_bounds(request, _BOUNDS)
        read_prompts(request)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        form = _form(request)
        answers = [_answer(form, choice.message.text, choice.finish) for choice in response.choices]
        body: JsonObject = {**form.fields, **without_none({"id": response.id if form.has_id else None})}
        body |= answers[0] if form.items is None else {form.items: answers}
        if form.counts is not None:
            count, number = form.counts
            body |= without_none({count: response.usage.input})
            (answers[0] if form.items else body).update(without_none({number: response.usage.output}))
        return HttpResponse(body=encode_json({**body, **wire_extra(response.finish.extra, TEXT)}))

    def supports_part(self, part: Part, /) -> bool:
        return isinstance(part, Text)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return encode_aws_error(error)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return _TextStreamEncoder(_form(request))


def _form(request: Request | None) -> TextForm:
    name = None if request is None else wire_extra(request.extra, TEXT + VERBATIM).get(_FORM)
    return FORMS.get(str(name), FORMS[ANY_FORM])


def _answer(form: TextForm, text: str, finish: Finish | None) -> JsonObject:
    reason = None if finish is None else finish_word(finish, _meanings(form), form.words)
    return {form.text: text, form.reason: reason}


def _meanings(form: TextForm) -> dict[str, FinishReason]:
    """The words of this form; the raw word of another must not be taken over."""
    return {word: MEANINGS[word] for word in form.words.values()}


class _TextStreamEncoder:
    """Writes chunks, as server-sent events."""

    content_type = "text/event-stream"

    def __init__(self, form: TextForm) -> None:
        self._form = form
        self._hidden: set[int] = set()
        """The indexes of parts that are not text."""
        self._streamed: set[int] = set()

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartStarted(kind=kind) if kind != "text":
                self._hidden.add(event.index)
                return b""
            case PartDelta() if event.index not in self._hidden:
                self._streamed.add(event.index)
                return self._chunk(event.text, None)
            case PartEnded(part=Text(text=text)) if text and event.index not in self._streamed:
                return self._chunk(text, None)
            case Finished():
                counts = self._form.chunk_counts
                usage = dict(zip(counts, (event.usage.input, event.usage.output), strict=True)) if counts else {}
                more = {**wire_extra(event.finish.extra, TEXT), **encode_notices(event.notices)}
                return self._chunk("", event.finish, **without_none(usage), **more)
            case _:
                return b""

    def _chunk(self, text: str, finish: Finish | None, **more: object) -> bytes:
        form = self._form
        answer = _answer(form, text, finish)
        chunk = answer if form.chunk_items is None else {form.chunk_items: [answer]}
        if form.finished is not None:
            chunk = {**without_none(chunk), form.finished: finish is not None}
        return encode_sse(encode_json({**chunk, **more}))
