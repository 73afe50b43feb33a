"""OpenTelemetry spans and metrics of requests, by the GenAI conventions, without content. Needs the extra `otel`.

OpenTelemetry itself sends the spans: run the gateway under `opentelemetry-instrument`, or set a tracer provider first.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from dragoman.errors import SetupError, redact
from dragoman.gateway.store.base import UsageRow
from dragoman.io.telemetry import MISSING, Measures, known, provider_name, request_attributes, response_attributes
from dragoman.types import Request, Response, Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import TracerProvider

Operation: TypeAlias = Literal["chat", "embeddings", "count_tokens", "rerank", "pass_through"]
"""The operation of a span. The conventions have a name only for the first two."""

_MEASURED = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
DEFAULT_PROVIDER = "dragoman"
"""The provider of a span whose target is not known: the attribute is required."""


class Tracing:
    """Starts a span for each request, and measures it when it ends."""

    def __init__(
        self, provider: "TracerProvider | None" = None, /, *, meter_provider: "MeterProvider | None" = None
    ) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError as error:
            raise SetupError(f"traces: {MISSING}") from error
        self._tracer = trace.get_tracer("dragoman", tracer_provider=provider)
        self._kind = trace.SpanKind.CLIENT
        self._extract = propagate.extract
        self._measures = Measures(meter_provider)

    def begin(
        self,
        model: str,
        request: Request,
        headers: Mapping[str, str],
        operation: Operation = "chat",
        /,
        *,
        provider: str = DEFAULT_PROVIDER,
        conversation: str | None = None,
    ) -> "RequestSpan":
        """Start a span. It continues the trace of the headers; `provider` is that of the first target."""
        model = redact(model)
        attributes = request_attributes(model, request) if operation == "chat" else {"gen_ai.request.model": model}
        attributes |= {"gen_ai.operation.name": operation, "gen_ai.provider.name": provider_name(provider)}
        if conversation is not None:
            attributes["gen_ai.conversation.id"] = redact(conversation)
        span = self._tracer.start_span(f"{operation} {model}", self._extract(dict(headers)), self._kind, attributes)
        return RequestSpan(span, self._measures, {name: attributes[name] for name in _MEASURED})


class RequestSpan:
    """The span of one request."""

    def __init__(self, span: "OtelSpan", measures: Measures, attributes: dict[str, Any]) -> None:
        self._span = span
        self._measures = measures
        self._attributes = attributes
        self._last_chunk: float | None = None

    def chunk(self, seconds: float, /) -> None:
        """A chunk was written, that many seconds after the start of the request."""
        if self._last_chunk is not None:
            self._measures.chunks.record(seconds - self._last_chunk, self._attributes)
        self._last_chunk = seconds

    def end(self, row: UsageRow, response: Response | None = None, /, *, error: BaseException | None = None) -> None:
        """End the span with the attributes of the response."""
        from opentelemetry.trace import Status, StatusCode

        if self._span.is_recording():
            self._span.set_attributes(_response_attributes(row, response))
            if row.outcome != "served":
                # Only the type: the message may quote the prompt.
                self._span.set_attribute("error.type", row.outcome if error is None else type(error).__name__)
                self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        self._measure(row, response, error)

    def _measure(self, row: UsageRow, response: Response | None, error: BaseException | None) -> None:
        attributes = dict(self._attributes)
        if row.target is not None:
            attributes["gen_ai.provider.name"] = provider_name(row.target.partition("/")[0])
        if response is not None and response.model:
            attributes["gen_ai.response.model"] = response.model
        if row.outcome != "served":
            attributes["error.type"] = row.outcome if error is None else type(error).__name__
        first = row.time_to_first_token if row.stream else None
        self._measures.record(attributes, row.duration or 0.0, first, Usage(input=row.input, output=row.output))


def _response_attributes(row: UsageRow, response: Response | None) -> dict[str, Any]:
    provider = None if row.target is None else row.target.partition("/")[0]
    usage = Usage() if response is None else response.usage
    usage = replace(usage, input=row.input, output=row.output, cache_read=row.cache_read)
    return response_attributes(response, usage) | known(
        [
            ("gen_ai.provider.name", provider and provider_name(provider)),
            ("gen_ai.response.time_to_first_chunk", row.time_to_first_token if row.stream else None),
            ("http.response.status_code", row.status),
            ("dragoman.request.id", row.id),
            ("dragoman.target", row.target),
            ("dragoman.attempts", row.attempts or None),
        ]
    )
