"""OpenTelemetry spans of requests, after the GenAI semantic conventions, without content. Needs the extra `otel`.

OpenTelemetry itself sends the spans: run the gateway under `opentelemetry-instrument`, or set a tracer provider first.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dragoman.errors import SetupError, redact
from dragoman.gateway.store.base import UsageRow
from dragoman.types import Request, Response

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import TracerProvider

Operation: TypeAlias = Literal["chat", "embeddings", "count_tokens"]
"""The operation of a span. The conventions have no name for `count_tokens`."""

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Providers that have another name in the conventions (2026-11)."""
DEFAULT_PROVIDER = "dragoman"
"""The provider of a span whose target is not known: the attribute is required."""


class Tracing:
    """Starts a span for each request."""

    def __init__(self, provider: "TracerProvider | None" = None, /) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError as error:
            raise SetupError("traces: OpenTelemetry is missing; run pip install 'dragoman[otel]'") from error
        self._tracer = trace.get_tracer("dragoman", tracer_provider=provider)
        self._kind = trace.SpanKind.CLIENT
        self._extract = propagate.extract

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
        attributes = _request_attributes(model, request) if operation == "chat" else {"gen_ai.request.model": model}
        attributes |= {"gen_ai.operation.name": operation, "gen_ai.provider.name": PROVIDERS.get(provider, provider)}
        if conversation is not None:
            attributes["gen_ai.conversation.id"] = redact(conversation)
        return RequestSpan(
            self._tracer.start_span(f"{operation} {model}", self._extract(dict(headers)), self._kind, attributes)
        )


class RequestSpan:
    """The span of one request."""

    def __init__(self, span: "OtelSpan") -> None:
        self._span = span

    def end(self, row: UsageRow, response: Response | None = None, /, *, error: BaseException | None = None) -> None:
        """End the span with the attributes of the response."""
        from opentelemetry.trace import Status, StatusCode

        if self._span.is_recording():
            self._span.set_attributes(
                {name: value for name, value in _response_attributes(row, response) if value is not None}
            )
            if row.outcome != "served":
                # Only the type: the message may quote the prompt.
                self._span.set_attribute("error.type", row.outcome if error is None else type(error).__name__)
                self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


def _request_attributes(model: str, request: Request) -> dict[str, Any]:
    attributes = {
        "gen_ai.request.model": model,
        "gen_ai.request.stream": request.stream or None,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.top_k": None if request.top_k is None else float(request.top_k),
        "gen_ai.request.seed": request.seed,
        "gen_ai.output.type": None if request.schema is None else "json",
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _response_attributes(row: UsageRow, response: Response | None) -> list[tuple[str, Any]]:
    provider = None if row.target is None else row.target.partition("/")[0]
    usage = None if response is None else response.usage
    return [
        ("gen_ai.provider.name", provider and PROVIDERS.get(provider, provider)),
        ("gen_ai.response.id", response and response.id),
        ("gen_ai.response.model", response and response.model),
        ("gen_ai.response.finish_reasons", None if response is None else (response.finish.reason,)),
        ("gen_ai.response.time_to_first_chunk", row.time_to_first_token if row.stream else None),
        ("gen_ai.usage.input_tokens", row.input),
        ("gen_ai.usage.output_tokens", row.output),
        ("gen_ai.usage.cache_read.input_tokens", row.cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", usage and usage.cache_write),
        ("gen_ai.usage.reasoning.output_tokens", usage and usage.reasoning),
        ("http.response.status_code", row.status),
        ("dragoman.request.id", row.id),
        ("dragoman.target", row.target),
        ("dragoman.attempts", row.attempts or None),
    ]
