"""Traces and metrics reach a collector by OTLP, as a gateway under `opentelemetry-instrument` sends them."""

import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import PATIENCE, Gateway, chat

METRICS = {
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_per_output_chunk",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.client.token.usage",
}
KEY = "dgm-alice-000000000000000000000000"


class Collector(ThreadingHTTPServer):
    """Keeps the spans and the names of metrics that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: dict[str, dict[str, Any]] = {}
        self.metrics: set[str] = set()
        self.authorization: str | None = None
        self.changed = threading.Condition()

    def wait_for(self, has: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(has, PATIENCE), (self.spans, self.metrics)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector: Any = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        with collector.changed:
            collector.authorization = self.headers["authorization"]
            if self.path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            collector.spans[span.name] = {item.key: item.value for item in span.attributes}
            elif self.path == "/v1/metrics":
                for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metrics in group.scope_metrics:
                        collector.metrics |= {metric.name for metric in metrics.metrics}
            collector.changed.notify_all()
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class InstrumentedGateway(Gateway):
    """Runs under `opentelemetry-instrument`."""

    program = (str(Path(sys.executable).parent / "opentelemetry-instrument"), sys.executable)


def test_spans_and_metrics_reach_a_collector(collector: Collector, tmp_path: Path) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20cGs6c2s=",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "all",
    }
    config = f'[gateway]\nproviders = ["demo"]\ntraces = true\n[keys.alice]\nhash = "{hash_key(KEY)}"\n'
    with InstrumentedGateway(tmp_path, config, env=env) as gateway:
        body = {**chat("demo/any", stream=True, text="secret words"), "max_tokens": 50}
        assert gateway.post("/v1/chat/completions", body, authorization=f"Bearer {KEY}")[0] == 200
        collector.wait_for(lambda: "chat demo/any" in collector.spans)
        collector.wait_for(lambda: collector.metrics >= METRICS)
    span = collector.spans["chat demo/any"]
    # What Langfuse and other tools read: the model, the usage, the time to the first chunk.
    assert span["gen_ai.operation.name"].string_value == "chat"
    assert span["gen_ai.provider.name"].string_value == "demo"
    assert span["gen_ai.request.model"].string_value == "demo/any"
    assert span["gen_ai.request.max_tokens"].int_value == 50
    assert span["gen_ai.usage.output_tokens"].int_value > 0
    assert span["gen_ai.response.time_to_first_chunk"].double_value > 0
    assert "secret words" not in str(span)
    assert collector.authorization == "Basic cGs6c2s="
