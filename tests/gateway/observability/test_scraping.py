"""The Prometheus parser reads the metrics of a running gateway, of all its workers, with bounded labels."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from dragoman.gateway.observability.metrics import MAX_VALUES
from dragoman.testing import refused_url
from tests.support.gateway.dialects import app_of, post, send_request
from tests.support.gateway.live import Gateway, chat, record

COUNT = 20


def families(text: bytes) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def total(family: Metric, **labels: str) -> float:
    return sum(sample.value for sample in family.samples if labels.items() <= sample.labels.items())


@pytest.mark.parametrize("workers", [1, 2])
def test_metrics_of_all_workers_are_scraped_together(tmp_path: Path, workers: int) -> None:
    config = f'[gateway]\nstore = "sqlite:{tmp_path}/store.db"\n[chain]\nretries = 0\n'
    config += f'[aliases]\ndemo = "demo/any"\n{record("away", refused_url())}'
    with Gateway(tmp_path, config, workers=workers) as gateway:
        for n in range(COUNT):
            assert gateway.post("/v1/chat/completions", chat("demo/any", stream=n % 2 == 0))[0] == 200
        gateway.post("/v1/messages", {**chat("away/m"), "max_tokens": 5})

        def is_told() -> bool:
            found = families(gateway.get("/metrics")[1])
            served = total(found["dragoman_requests"], target="demo/any", outcome="served", status="200")
            return served == COUNT and total(found["dragoman_requests"], outcome="failed", dialect="anthropic") == 1

        gateway.wait_until(is_told)
        found = families(gateway.get("/metrics")[1])
    assert found["dragoman_request_duration_seconds"].type == "histogram"
    assert total(found["dragoman_requests_in_flight"]) == 0
    assert total(found["dragoman_attempts"], target="away/m", outcome="failed") == 1
    buckets = [
        sample for sample in found["dragoman_time_to_first_token_seconds"].samples if sample.name.endswith("_count")
    ]
    assert sum(sample.value for sample in buckets) == COUNT / 2
    workers_seen = {sample.labels.get("worker") for family in found.values() for sample in family.samples}
    assert (None in workers_seen) == (workers == 1)


def test_names_that_clients_make_up_do_not_grow_what_is_read() -> None:
    app = app_of("[gateway]\nlog = false\n")

    async def many() -> Iterable[Metric]:
        for n in range(2 * MAX_VALUES):
            await send_request(app, post("/v1/chat/completions", json.dumps(chat(f"demo/made-up-{n}")).encode()))
        return families(await app.runtime.accounting.scrape()).values()

    for family in asyncio.run(many()):
        values = {value for sample in family.samples for name, value in sample.labels.items() if name == "target"}
        assert len(values) <= MAX_VALUES + 2
