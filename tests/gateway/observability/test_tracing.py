import importlib
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from dragoman.errors import Overloaded
from dragoman.gateway.observability.tracing import Operation, Tracing
from dragoman.gateway.store.base import UsageRow
from dragoman.types import Finish, Request, Response, Usage, assistant, user


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider)


def row(**facts: Any) -> UsageRow:
    fields: dict[str, Any] = {"id": "req_1", "started_at": 0.0, "model": "fast", "target": "google/gemini"}
    fields |= {"outcome": "served", **facts}
    return UsageRow(**fields)


def only(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, dict[str, Any]]:
    (span,) = exporter.get_finished_spans()
    return span, dict(span.attributes or {})


def test_a_span_follows_the_conventions(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    request = Request(messages=(user("secret words"),), max_tokens=50, temperature=0.5, schema={}, stream=True)
    usage = Usage(input=5, output=2, cache_read=1, reasoning=1)
    response = Response(
        message=assistant("secret answer"), finish=Finish(reason="stop"), usage=usage, id="resp_1", model="gemini-3"
    )
    span = traces.begin("fast", request, {})
    span.end(
        row(stream=True, time_to_first_token=0.25, input=5, output=2, cache_read=1, status=200, attempts=1), response
    )
    found, attributes = only(exporter)
    assert (found.name, found.kind, found.status.status_code) == ("chat fast", SpanKind.CLIENT, StatusCode.UNSET)
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "fast",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.output.type": "json",
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.model": "gemini-3",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 1,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "http.response.status_code": 200,
        "dragoman.request.id": "req_1",
        "dragoman.target": "google/gemini",
        "dragoman.attempts": 1,
    }


def test_every_attribute_is_one_of_the_conventions(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    conventions = importlib.import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for name, value in vars(conventions).items() if name.startswith("GEN_AI_")}
    request = Request(max_tokens=5, temperature=1.0, top_p=0.5, top_k=3, seed=7, schema={}, stream=True)
    usage = Usage(input=5, output=2, cache_read=1, cache_write=1, reasoning=1)
    response = Response(message=assistant("x"), finish=Finish(reason="stop"), usage=usage, id="1", model="m")
    traces.begin("fast", request, {}).end(
        row(stream=True, time_to_first_token=0.1, input=5, output=2, cache_read=1), response
    )
    _, attributes = only(exporter)
    assert {name for name in attributes if name.startswith("gen_ai.")} <= known


def test_spans_have_no_content_and_no_keys(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    request = Request(system="secret words", messages=(user("secret words"),))
    error = Overloaded("busy, said sk-proj-12345678")
    span = traces.begin("sk-proj-12345678", request, {"authorization": "Bearer sk-proj-12345678"})
    span.end(row(outcome="failed", target=None), error=error)
    found, _ = only(exporter)
    assert "secret" not in found.to_json()
    assert "12345678" not in found.to_json()


REQUIRED = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}
"""What the conventions want of every span of an inference or of embeddings (2026-11)."""


@pytest.mark.parametrize("operation", ["chat", "embeddings"])
@pytest.mark.parametrize("outcome", ["served", "failed", "client_disconnected"])
def test_whatever_became_of_it_a_span_has_what_is_required(
    traces: Tracing, exporter: InMemorySpanExporter, operation: Operation, outcome: str
) -> None:
    traces.begin("fast", Request(), {}, operation, provider="google").end(row(outcome=outcome, target=None))
    _, attributes = only(exporter)
    assert attributes.keys() >= REQUIRED
    assert attributes["gen_ai.provider.name"] == "gcp.gemini"
    assert ("error.type" in attributes) is (outcome != "served")


def test_a_conversation_is_named(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    traces.begin("fast", Request(top_k=3), {}, conversation="c1").end(row())
    _, attributes = only(exporter)
    assert attributes["gen_ai.conversation.id"] == "c1"
    assert isinstance(attributes["gen_ai.request.top_k"], float)


def test_an_error_is_named(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    traces.begin("fast", Request(), {}).end(row(outcome="failed"), error=Overloaded("busy"))
    found, attributes = only(exporter)
    assert attributes["error.type"] == "Overloaded"
    assert (found.status.status_code, found.status.description) == (StatusCode.ERROR, None)


def test_a_disconnected_client_has_its_own_error_type(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    traces.begin("fast", Request(), {}).end(row(outcome="client_disconnected"))
    assert only(exporter)[1]["error.type"] == "client_disconnected"


def test_a_span_belongs_to_the_trace_of_its_client(traces: Tracing, exporter: InMemorySpanExporter) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traces.begin("fast", Request(), {"traceparent": parent}).end(row())
    found, _ = only(exporter)
    assert found.parent is not None
    assert f"{found.parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_without_a_provider_nothing_is_kept(exporter: InMemorySpanExporter) -> None:
    Tracing().begin("fast", Request(), {}).end(row())
    assert exporter.get_finished_spans() == ()
