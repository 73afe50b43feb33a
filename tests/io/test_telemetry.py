"""OpenTelemetry spans and metrics of calls: names, attributes, and no content without consent."""

import json
import sys
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from dragoman import (
    Document,
    Image,
    InvalidRequest,
    Overloaded,
    Registry,
    SetupError,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    instrument,
    tool_results,
    user,
)
from dragoman.io.telemetry import CONTENT_VARIABLE
from dragoman.testing import FaultyServer, Scripted

SEMCONV = "opentelemetry.semconv._incubating"
gen_ai_attributes: Any = import_module(f"{SEMCONV}.attributes.gen_ai_attributes")
gen_ai_metrics: Any = import_module(f"{SEMCONV}.metrics.gen_ai_metrics")


class Collected:
    """A registry whose spans and metrics are collected in memory."""

    def __init__(self, http_client: object = None, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracers = tracers
        meters = MeterProvider([self._metrics], shutdown_on_exit=False)
        self.registry = Registry(env={}, api_key="k", http_client=http_client)
        instrument(self.registry, tracer_provider=tracers, meter_provider=meters, **options)

    def spans(self) -> tuple[ReadableSpan, ...]:
        return tuple(self._spans.get_finished_spans())

    def attributes(self) -> dict[str, Any]:
        (span,) = self.spans()
        return dict(span.attributes or {})

    def points(self, name: str) -> list[Any]:
        data: Any = self._metrics.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def test_a_call_is_a_span_by_the_conventions() -> None:
    collected = Collected()
    response = collected.registry.model("demo/overloaded, demo/any", retries=0).generate("secret words", max_tokens=50)
    (span,) = collected.spans()
    assert (span.name, span.kind, span.status.status_code) == ("chat overloaded", SpanKind.CLIENT, StatusCode.UNSET)
    assert collected.attributes() == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "demo",
        "gen_ai.request.model": "overloaded",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.response.id": response.id,
        "gen_ai.response.model": "any",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": response.usage.input,
        "gen_ai.usage.output_tokens": response.usage.output,
        "dragoman.target": "demo/any",
        "dragoman.attempts": 2,
    }
    names = [name for name in dir(gen_ai_attributes) if name.startswith("GEN_AI_")]
    official = {str(getattr(gen_ai_attributes, name)) for name in names}
    assert {name for name in collected.attributes() if name.startswith("gen_ai.")} <= official


def test_the_options_of_a_request_are_attributes() -> None:
    collected = Collected()
    model = collected.registry.model("demo/any")
    options: Any = {"temperature": 0.2, "top_p": 0.9, "top_k": 5, "seed": 3, "n": 2, "stop": ["END"], "max_tokens": 9}
    model.generate("hi", frequency_penalty=0.5, presence_penalty=-0.5, schema={}, **options)
    model.generate("hi", n=1)
    several, one = (dict(span.attributes or {}) for span in collected.spans())
    wanted = {
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 5.0,
        "gen_ai.request.seed": 3,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.frequency_penalty": 0.5,
        "gen_ai.request.presence_penalty": -0.5,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.choice.count": 2,
        "gen_ai.output.type": "json",
        "gen_ai.response.finish_reasons": ("stop", "stop"),
    }
    assert {name: several.get(name) for name in wanted} == wanted
    assert not {name for name in one if name.startswith("gen_ai.request.")} - {"gen_ai.request.model"}


def test_a_span_and_its_metrics_name_the_server_that_answered() -> None:
    collected = Collected()
    with FaultyServer(Overloaded("busy"), "Hello!") as server:
        for name in ("a", "b"):
            collected.registry.add_provider(name=name, like="vllm", base_url=server.base_url())
        collected.registry.alias("chain", "a/m, b/m")
        collected.registry.model("chain", retries=0).generate("hi")
    (duration,) = collected.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION)
    for attributes in (collected.attributes(), dict(duration.attributes)):
        assert attributes["gen_ai.provider.name"] == "b"
        assert (attributes["server.address"], attributes["server.port"]) == ("127.0.0.1", server.port)


def test_the_span_has_the_parent_of_its_caller() -> None:
    collected = Collected()
    with collected.tracers.get_tracer("test").start_as_current_span("mine"):
        collected.registry.model("demo/any").generate("hi")
    child, parent = collected.spans()
    assert child.parent is not None
    assert parent.context is not None
    assert child.parent.span_id == parent.context.span_id


def test_metrics_by_the_conventions() -> None:
    collected = Collected()
    stream = collected.registry.model("demo/any").stream("hi")
    list(stream)
    response = stream.response
    assert response is not None
    (duration,) = collected.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION)
    (first,) = collected.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK)
    tokens = collected.points(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE)
    (chunk,) = collected.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK)
    assert duration.count == first.count == 1
    assert chunk.count >= 1
    assert chunk.sum <= duration.sum
    assert first.sum <= duration.sum
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "demo",
        "gen_ai.request.model": "any",
        "gen_ai.response.model": "any",
    }
    assert {point.attributes["gen_ai.token.type"]: point.sum for point in tokens} == {
        "input": response.usage.input,
        "output": response.usage.output,
    }
    assert collected.attributes()["gen_ai.response.time_to_first_chunk"] == pytest.approx(first.sum)


def test_a_failure_has_its_type_alone() -> None:
    collected = Collected()
    with pytest.raises(Overloaded):
        collected.registry.model("demo/overloaded", retries=0).generate("secret words")
    (span,) = collected.spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert collected.attributes()["error.type"] == "Overloaded"
    (duration,) = collected.points("gen_ai.client.operation.duration")
    assert duration.attributes["error.type"] == "Overloaded"
    assert collected.points("gen_ai.client.token.usage") == []


def test_no_content_without_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTENT_VARIABLE, raising=False)
    collected = Collected()
    collected.registry.model("demo/any").generate("secret words", system="secret rules")
    assert "secret" not in str(collected.attributes())


TALK = [
    user("secret words", Image(url="https://x/a.png"), Document(data=b"%PDF-1.4", mime="application/pdf")),
    assistant(Thinking(text="hm"), ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})),
    tool_results(ToolResult(id="call_1", name="tide", content="4.2 m")),
]


@pytest.mark.parametrize("system", ["Be brief.", (Text(text="Be brief."),)])
def test_content_by_consent(monkeypatch: pytest.MonkeyPatch, system: Any) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, "True")
    collected = Collected(Scripted("4.2 m."))
    collected.registry.model("openai/gpt-5").generate(TALK, system=system)
    attributes = collected.attributes()
    assert json.loads(attributes["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "secret words"},
                {"type": "image"},
                {"type": "document", "mime_type": "application/pdf"},
            ],
        },
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "call_1", "name": "tide", "arguments": {"port": "Brest"}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "4.2 m"}]},
    ]
    assert json.loads(attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "4.2 m."}], "finish_reason": "stop"}
    ]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SetupError, match=r"OpenTelemetry is missing; run pip install 'dragoman\[otel\]'"):
        instrument(Registry(env={}))


@pytest.mark.parametrize("name", ["registry", "tracer_provider", "meter_provider", "content"])
def test_a_wrong_argument_is_named(name: str) -> None:
    arguments: Any = {name: 5}
    with pytest.raises(InvalidRequest, match=f"^{name} must be "):
        instrument(**arguments)


def test_without_a_registry_it_is_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(env={})
    monkeypatch.setattr("dragoman.api.default_registry", lambda: registry)
    hooks = instrument()
    assert registry.hooks == (hooks,)
