"""OpenTelemetry spans and metrics of calls, by the GenAI semantic conventions (2026-11). Needs the extra `otel`.

`instrument` adds hooks to a registry. OpenTelemetry itself sends what they record: set a tracer provider and a meter
provider, or run the program under `opentelemetry-instrument`. Contents of messages are recorded only on request.
"""

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import DragomanError, SetupError, redact
from dragoman.events import PartDelta, StreamEvent
from dragoman.io.hooks import Call, Hooks
from dragoman.types import JsonObject, Message, Part, Request, Response, Text, Thinking, ToolCall, ToolResult, Usage
from dragoman.types.checks import check_flag, wrong_value

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from dragoman.registry import Registry

PROVIDER_NAMES = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google-interactions": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
    "xai-responses": "x_ai",
}
"""Providers that have another name in the conventions (2026-11)."""
MISSING = "OpenTelemetry is missing; run pip install 'dragoman[otel]'"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the conventions that allows contents."""
_SPAN = "dragoman.span"
_LAST_CHUNK = "dragoman.last_chunk"
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_CHUNK_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_PORTS = {"http": 80, "https": 443}
_TOKENS = tuple(4**power for power in range(14))
"""The boundaries of the histograms, as the conventions advise."""


# Attributes -----------------------------------------------------------------------------------------------------------


def provider_name(provider: str, /) -> str:
    """The name of a provider in the conventions.

    >>> provider_name("google"), provider_name("groq")
    ('gcp.gemini', 'groq')
    """
    return PROVIDER_NAMES.get(provider, provider)


def request_attributes(model: str, request: Request, /) -> dict[str, Any]:
    """The attributes of a request, without content.

    >>> request_attributes("fast", Request(top_k=5))
    {'gen_ai.request.model': 'fast', 'gen_ai.request.top_k': 5.0}
    """
    return known(
        [
            ("gen_ai.request.model", model),
            ("gen_ai.request.stream", request.stream or None),
            ("gen_ai.request.max_tokens", request.max_tokens),
            ("gen_ai.request.temperature", request.temperature),
            ("gen_ai.request.top_p", request.top_p),
            ("gen_ai.request.top_k", None if request.top_k is None else float(request.top_k)),
            ("gen_ai.request.frequency_penalty", request.frequency_penalty),
            ("gen_ai.request.presence_penalty", request.presence_penalty),
            ("gen_ai.request.stop_sequences", request.stop or None),
            ("gen_ai.request.seed", request.seed),
            ("gen_ai.request.choice.count", None if request.n == 1 else request.n),
            ("gen_ai.output.type", None if request.schema is None else "json"),
        ]
    )


def response_attributes(response: Response | None, usage: Usage, /) -> dict[str, Any]:
    """The attributes of a response and its usage, without content.

    >>> response_attributes(None, Usage(input=3))
    {'gen_ai.usage.input_tokens': 3}
    """
    return known(
        [
            ("gen_ai.response.id", response and response.id),
            ("gen_ai.response.model", response and response.model),
            ("gen_ai.response.finish_reasons", response and [each.finish.reason for each in response.choices]),
            ("gen_ai.usage.input_tokens", usage.input),
            ("gen_ai.usage.output_tokens", usage.output),
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
            ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write),
            ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
        ]
    )


def known(attributes: Iterable[tuple[str, Any]], /) -> dict[str, Any]:
    """The attributes that have a value."""
    return {name: value for name, value in attributes if value is not None}


# Instrumentation ------------------------------------------------------------------------------------------------------


def instrument(
    registry: "Registry | None" = None,
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
    content: bool | None = None,
) -> Hooks:
    """Record a span and metrics for every call of a registry; returns the hooks that do this.

    Without a registry, it is the default one. Without providers, those of the process are used. `content=True` also
    records the messages, as does the variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT of the environment if
    it is `true`.

    >>> from dragoman import Registry
    >>> registry = Registry(env={})
    >>> hooks = instrument(registry)
    >>> registry.hooks == (hooks,)
    True
    """
    from dragoman.api import default_registry
    from dragoman.registry import Registry

    registry = default_registry() if registry is None else registry
    if not isinstance(registry, Registry):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_value("registry", "a Registry or None", registry)
    for name, provider, method in (
        ("tracer_provider", tracer_provider, "get_tracer"),
        ("meter_provider", meter_provider, "get_meter"),
    ):
        if provider is not None and not hasattr(provider, method):
            raise wrong_value(name, "a provider of OpenTelemetry or None", provider)
    if content is not None:
        check_flag("content", content)
    else:
        content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() == "true"
    recorder = _Recorder(tracer_provider, meter_provider, content=content)
    hooks = Hooks(before=recorder.before, after=recorder.after, on_error=recorder.on_error, on_event=recorder.on_event)
    registry.add_hooks(hooks)
    return hooks


class _Recorder:
    """Starts and ends the span of each call, and records its metrics."""

    def __init__(
        self, tracer_provider: "TracerProvider | None", meter_provider: "MeterProvider | None", *, content: bool
    ) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise SetupError(MISSING) from error
        self._tracer = trace.get_tracer("dragoman", tracer_provider=tracer_provider)
        self._kind = trace.SpanKind.CLIENT
        self._error_status = trace.Status(trace.StatusCode.ERROR)
        self._measures = Measures(meter_provider)
        self._has_content = content

    def before(self, call: Call) -> None:
        model = _model_of(call.target)
        attributes = _base_attributes(call, call.target) | request_attributes(model, call.request)
        if self._has_content:
            attributes |= known(_input_content(call.request))
        call.data[_SPAN] = self._tracer.start_span(f"chat {model}", kind=self._kind, attributes=attributes)

    def after(self, call: Call, response: Response) -> None:
        span: Span = call.data.pop(_SPAN)
        target = response.target or call.target
        attributes = _base_attributes(call, target) | response_attributes(response, response.usage)
        attributes |= known(
            [
                ("gen_ai.response.time_to_first_chunk", call.time_to_first_content),
                ("dragoman.target", target),
                ("dragoman.attempts", len(response.attempts) or None),
            ]
        )
        if self._has_content:
            output = [{**_message(response.message), "finish_reason": response.finish.reason}]
            attributes["gen_ai.output.messages"] = _json(output)
        span.set_attributes(attributes)
        span.end()
        self._measure(call, target, response.usage, {"gen_ai.response.model": response.model or _model_of(target)})

    def on_error(self, call: Call, error: DragomanError) -> None:
        span: Span = call.data.pop(_SPAN)
        # Only the type: the message may quote the prompt.
        kind = {"error.type": type(error).__name__}
        usage = error.usage or Usage()
        span.set_attributes({**response_attributes(None, usage), **kind})
        span.set_status(self._error_status)
        span.end()
        self._measure(call, call.target, usage, kind)

    def on_event(self, call: Call, event: StreamEvent) -> None:
        if not isinstance(event, PartDelta):
            return
        now = time.monotonic()
        last: float | None = call.data.get(_LAST_CHUNK)
        call.data[_LAST_CHUNK] = now
        if last is not None:
            attributes = {**_base_attributes(call, call.target), "gen_ai.request.model": _model_of(call.target)}
            self._measures.chunks.record(now - last, attributes)

    def _measure(self, call: Call, target: str, usage: Usage, more: dict[str, str]) -> None:
        attributes = {**_base_attributes(call, target), "gen_ai.request.model": _model_of(call.target), **more}
        self._measures.record(attributes, call.duration, call.time_to_first_content, usage)


class Measures:
    """The metrics of the conventions."""

    def __init__(self, provider: "MeterProvider | None" = None, /) -> None:
        from opentelemetry import metrics

        meter = metrics.get_meter("dragoman", meter_provider=provider)

        def histogram(name: str, unit: str, text: str, bounds: tuple[float, ...]) -> "Histogram":
            return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        self._durations = histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS)
        self._first_chunks = histogram(
            "gen_ai.client.operation.time_to_first_chunk", "s", "Time to receive the first chunk.", _SECONDS
        )
        self.chunks = histogram(
            "gen_ai.client.operation.time_per_output_chunk",
            "s",
            "Time between two chunks, after the first one.",
            _CHUNK_SECONDS,
        )
        self._tokens = histogram(
            "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", _TOKENS
        )

    def record(self, attributes: dict[str, Any], duration: float, first: float | None, usage: Usage, /) -> None:
        """Measure a call that has ended; `first` is the time to its first chunk, if it is a stream."""
        self._durations.record(duration, attributes)
        if first is not None:
            self._first_chunks.record(first, attributes)
        for kind, count in (("input", usage.input), ("output", usage.output)):
            if count is not None:
                self._tokens.record(count, {**attributes, "gen_ai.token.type": kind})


def _base_attributes(call: Call, target: str) -> dict[str, Any]:
    names = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider_name(target.partition("/")[0])}
    url = urlsplit(call.base_urls.get(target, ""))
    if url.hostname is None or url.scheme not in _PORTS:
        return names
    return {**names, "server.address": url.hostname, "server.port": url.port or _PORTS[url.scheme]}


def _model_of(target: str) -> str:
    return redact(target.partition("/")[2])


# Content --------------------------------------------------------------------------------------------------------------


def _input_content(request: Request) -> Iterable[tuple[str, str | None]]:
    system = request.system
    texts = [system] if isinstance(system, str) else [text.text for text in system or ()]
    blocks = [{"type": "text", "content": text} for text in texts]
    yield "gen_ai.system_instructions", _json(blocks) if blocks else None
    yield "gen_ai.input.messages", _json([_message(message) for message in request.messages])


def _message(message: Message) -> JsonObject:
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Part) -> JsonObject:
    """A part in the form of the conventions. Media are only named: they are too large for a span."""
    match part:
        case Text():
            return {"type": "text", "content": part.text}
        case Thinking():
            return {"type": "reasoning", "content": part.text}
        case ToolCall():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.arguments}
        case ToolResult():
            return {"type": "tool_call_response", "id": part.id, "response": part.text}
        case _:
            return {"type": type(part).__name__.lower(), **known([("mime_type", getattr(part, "mime", None))])}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
