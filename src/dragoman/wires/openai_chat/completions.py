"""`/completions`: the model continues a text, or fills a gap in one. Older than Chat Completions, and still in use.

A prompt is a user message; `raw` says that it is not a chat. Fields that Chat Completions does not have are in the
`extra` of their own name, so that a target which gets the prompt as a chat does not get them.
"""

from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.http import HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import Choice, JsonObject, Message, Opaque, Part, Request, Response, Text, TokenLogprob, is_object
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.completions import TOKENS, check_answers, read_prompts
from dragoman.wires.common.errors import encode_openai_error
from dragoman.wires.common.extra import body_extra, full_extra, request_extra, wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import NoticeCollector, encode_notices
from dragoman.wires.common.options import OptionField, encode_options, encode_rare_options, max_tokens
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    make_request,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_chat.encoder import encode_stream
from dragoman.wires.openai_chat.schema import COMPLETIONS, NAME, RARE_FIELDS, CompletionRequest, write_usage
from dragoman.wires.openai_chat.server import BOUNDS, OpenAIChatServer, deployment
from dragoman.wires.openai_chat.server_endpoints import decode_texts
from dragoman.wires.openai_chat.stream_encoder import encode_filters, encode_finish, encode_prompt_filters

_BOUNDS = tuple((name, field, 0 if name == "max_tokens" else low, high) for name, field, low, high in BOUNDS)
_RARE_FIELDS = {name: field for name, field in RARE_FIELDS.items() if name not in ("service_tier", "verbosity")}
_NEUTRAL: JsonObject = {"echo": False, "best_of": 1, "suffix": ""}
"""Values that are the default, so that dropping them changes nothing."""


# Client half ----------------------------------------------------------------------------------------------------------


def encode_completion(request: Request, target: Target) -> HttpRequest | None:
    """The request for the path that continues a text, or that fills a gap; None if the target has none."""
    path = target.quirks.completions if request.suffix is None else target.quirks.fill_in
    if path is None:
        return None
    prompts = read_prompts(request)
    notices = NoticeCollector(NAME, strict=request.strict)
    own = full_extra(request, COMPLETIONS)
    if not target.quirks.accepts_unknown_fields:
        for field in wire_extra(request.extra, COMPLETIONS):
            notices.add("dropped", field, "not supported")
            del own[field]
    others = {name: fields for name, fields in request.extra.items() if not name.startswith(COMPLETIONS)}
    extra = {**body_extra(replace(request, extra=others), target, notices), **own}
    stream_options = extra.pop("stream_options", None)
    body: JsonObject = {
        "model": target.model,
        "prompt": prompts[0] if len(prompts) == 1 else prompts,
        **without_none({"suffix": request.suffix}),
        **_encode_options(request, target, extra, notices),
        **encode_stream(request, target, stream_options),
    }
    return post_request(target, path, {**body, **extra}, notices)


def _encode_options(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    quirks = target.quirks
    options: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature"),
        ("top_p", request.top_p, "top_p"),
        ("top_k", request.top_k, "top_k" if quirks.top_k else None),
        ("seed", request.seed, quirks.seed_field),
        ("stop", list(request.stop) or None, "stop"),
        ("max_tokens", max_tokens(request, target, notices), "max_tokens"),
        ("user", request.user, quirks.user_field),
        ("metadata", request.metadata or None, None),
        ("reasoning", None if request.reasoning in ("none", 0) else request.reasoning, None),
    )
    body = encode_options(options, extra, notices)
    rare = encode_rare_options(request, target, _RARE_FIELDS, extra, notices)
    if rare.pop("logprobs", None):
        rare["logprobs"] = rare.pop("top_logprobs", 0)
    return {**body, **rare}


# Server half ----------------------------------------------------------------------------------------------------------


class OpenAICompletionsServer(OpenAIChatServer):
    """Serves `/completions`."""

    has_citations = False
    routes = (
        Route(method="POST", path="/v1/completions"),
        Route(method="POST", path="/openai/v1/completions"),
        Route(method="POST", path="/openai/deployments/{model}/completions"),
    )

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, rest = read_fields(CompletionRequest, decode_request_json(http), "body")
        if body.prompt is None:
            raise missing_field("prompt")
        extra = without_none(rest)
        covered = {name: extra.pop(name) for name in [*extra] if extra[name] == _NEUTRAL.get(name, ...)}
        if is_object(extra.get("stream_options")) and extra["stream_options"].keys() <= {"include_usage"}:
            covered["stream_options"] = extra.pop("stream_options")
        if isinstance(body.prompt, list) and len(body.prompt) == 1:
            covered["prompt"] = body.prompt
        if body.suffix == "":
            covered["suffix"] = ""
        prompts = decode_texts(body.prompt, "prompt")
        check_answers(len(prompts))  # each takes more memory than it has bytes
        return body.model or deployment(http) or "", make_request(
            _BOUNDS,
            messages=tuple(map(_decode_prompt, prompts)),
            raw=True,
            suffix=body.suffix or None,
            temperature=body.temperature,
            top_p=body.top_p,
            top_k=body.top_k,
            max_tokens=body.max_tokens,
            stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
            seed=body.seed,
            frequency_penalty=body.frequency_penalty,
            presence_penalty=body.presence_penalty,
            logit_bias=body.logit_bias,
            logprobs=None if body.logprobs is None else True,
            top_logprobs=body.logprobs or None,
            n=body.n,
            user=body.user,
            stream=bool(body.stream),
            extra=request_extra(COMPLETIONS, extra, covered),
        )

    def check(self, model: str, request: Request, /) -> None:
        if not model:
            raise missing_field("model")
        check_bounds(request, _BOUNDS)
        read_prompts(request)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        start = _prompt_length(request)
        body = {
            "id": response.id or "",
            "object": "text_completion",
            "created": response.created or 0,
            "model": response.model or "",
            "choices": [_encode_choice(index, choice, start) for index, choice in enumerate(response.choices)],
            "usage": write_usage(response.usage),
            **encode_prompt_filters(response.finish),
        }
        return HttpResponse(body=encode_json(body))

    def supports_part(self, part: Part, /) -> bool:
        return isinstance(part, Text)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return CompletionStreamEncoder(request)


def _decode_prompt(prompt: str | tuple[int, ...]) -> Message:
    """The message of one prompt: a text, or a list of tokens."""
    if isinstance(prompt, str):
        return Message(role="user", parts=(Text(text=prompt),))
    return Message(role="user", parts=(Opaque(wire=NAME, data={"type": TOKENS, TOKENS: [*prompt]}),))


def _prompt_length(request: Request | None) -> int:
    """The characters before the answer: offsets of its tokens begin there, unless it repeats the prompt."""
    if request is None or not request.messages or full_extra(request, COMPLETIONS).get("echo"):
        return 0
    return len(request.messages[0].text)


def _encode_choice(index: int, choice: Choice, start: int) -> JsonObject:
    texts = [part for part in choice.message.parts if isinstance(part, Text)]
    return {
        "text": "".join(part.text for part in texts),
        "index": index,
        "logprobs": _write_logprobs([token for part in texts for token in part.logprobs], start),
        "finish_reason": encode_finish(choice.finish, is_refused=False),
        **encode_filters(choice.finish),
    }


def _write_logprobs(tokens: list[TokenLogprob], start: int) -> JsonObject | None:
    """The inverse of `read_choice_logprobs`, in the form of this API; None if there are none."""
    if not tokens:
        return None
    offsets: list[int] = []
    for token in tokens:
        offsets.append(start)
        start += len(token.token)
    tops = [{other.token: other.logprob for other in token.top} for token in tokens]
    return {
        "text_offset": offsets,
        "token_logprobs": [token.logprob for token in tokens],
        "tokens": [token.token for token in tokens],
        "top_logprobs": tops if any(tops) else None,
    }


class CompletionStreamEncoder:
    """A `StreamEncoder` that writes chunks of `/completions`."""

    content_type = "text/event-stream"

    def __init__(self, request: Request) -> None:
        options = full_extra(request, COMPLETIONS).get("stream_options")
        self._usage_chunk = is_object(options) and bool(options.get("include_usage"))
        self._head: JsonObject = {"id": "", "object": "text_completion", "created": 0, "model": ""}
        self._start = _prompt_length(request)
        self._hidden: set[int] = set()
        """The indexes of parts that are not text."""
        self._streamed: set[int] = set()

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartDelta() if event.index in self._hidden:
                return b""
            case PartDelta():
                self._streamed.add(event.index)
                return self._chunk({"text": event.text, "index": 0, "logprobs": None, "finish_reason": None})
            case PartStarted(kind=kind) if kind != "text":
                self._hidden.add(event.index)
                return b""
            case PartEnded(part=Text() as text):
                return self._text_ended(event.index, text)
            case Started():
                self._head.update(id=event.id or "", created=event.created or 0, model=event.model or "")
                return b""
            case Finished():
                return self._finished(event)
            case Ping():
                return b": ping\n\n"
            case DragomanError():
                return encode_sse(encode_json({"error": encode_openai_error(event)}))
            case _:
                return b""

    def _chunk(self, choice: JsonObject, **more: object) -> bytes:
        return encode_sse(encode_json({**self._head, "choices": [choice], **more}))

    def _text_ended(self, index: int, text: Text) -> bytes:
        """The chunk with what came without deltas: log probabilities, or the whole text."""
        rest = "" if index in self._streamed else text.text
        if not rest and not text.logprobs:
            return b""
        logprobs = _write_logprobs([*text.logprobs], self._start)
        self._start += len(text.text)
        return self._chunk({"text": rest, "index": 0, "logprobs": logprobs, "finish_reason": None})

    def _finished(self, event: Finished) -> bytes:
        others = [_encode_choice(index, choice, 0) for index, choice in enumerate(event.other_choices, 1)]
        tokens = write_usage(event.usage)
        finish = encode_finish(event.finish, is_refused=False)
        last: JsonObject = {"text": "", "index": 0, "logprobs": None, "finish_reason": finish}
        last |= encode_filters(event.finish)
        filters = {**encode_prompt_filters(event.finish), **encode_notices(event.notices)}
        if self._usage_chunk:
            usage = encode_sse(encode_json({**self._head, "choices": [], "usage": tokens}))
            end = self._chunk(last, **filters) + usage
        else:
            end = self._chunk(last, **filters, **({"usage": tokens} if tokens else {}))
        return b"".join(map(self._chunk, others)) + end + encode_sse(b"[DONE]")
