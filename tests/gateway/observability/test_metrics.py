import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.engine.health import Health, TargetHealth
from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.observability.metrics import MAX_VALUES, MAX_WAITING, Metrics
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.server.workers import Workers
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.store.base import UsageRow
from dragoman.gateway.store.memory import MemoryStore
from dragoman.types import Attempt
from tests.gateway.conftest import Clock
from tests.support.clock import slowness
from tests.support.gateway.usage import metrics_text


def row(**facts: Any) -> UsageRow:
    fields: dict[str, Any] = {"id": "r1", "started_at": 0.0, "model": "fast", "dialect": "openai_chat", "target": "a/x"}
    fields |= {"outcome": "served", "status": 200, **facts}
    return UsageRow(**fields)


def samples(metrics: Metrics, *fields: Any, **more: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return parsed(metrics_text(metrics, *fields, **more))


def parsed(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def named(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_what_ended_is_counted() -> None:
    metrics = Metrics()
    metrics.request_started()
    metrics.request_started()
    metrics.request_ended(
        row(duration=0.3, time_to_first_token=0.06, stream=True, input=5, output=2, cost=1_500_000), was_started=True
    )
    metrics.record_attempt(Attempt(target="a/x", outcome="served"))
    found = samples(metrics)
    labels = {"dialect": "openai_chat", "target": "a/x"}
    assert found[named("dragoman_requests_total", **labels, outcome="served", status="200")] == 1
    assert found[named("dragoman_request_duration_seconds_bucket", **labels, le="0.25")] == 0
    assert found[named("dragoman_request_duration_seconds_bucket", **labels, le="0.5")] == 1
    assert found[named("dragoman_request_duration_seconds_bucket", **labels, le="+Inf")] == 1
    assert found[named("dragoman_request_duration_seconds_sum", **labels)] == 0.3
    assert found[named("dragoman_time_to_first_token_seconds_count", target="a/x")] == 1
    assert found[named("dragoman_tokens_total", target="a/x", kind="output")] == 2
    assert found[named("dragoman_cost_dollars_total", target="a/x")] == 0.0015
    assert found[named("dragoman_attempts_total", target="a/x", outcome="served")] == 1
    assert found[named("dragoman_requests_in_flight")] == 1


def test_cooldowns_and_pending_rows_are_current() -> None:
    metrics = Metrics()
    found = samples(metrics, {"a/x": TargetHealth(state="cooldown"), "b/y": TargetHealth()}, pending=3)
    assert found[named("dragoman_target_cooldown", target="a/x")] == 1
    assert found[named("dragoman_target_cooldown", target="b/y")] == 0
    assert found[named("dragoman_usage_rows_pending")] == 3
    found = samples(metrics, {})
    assert named("dragoman_target_cooldown", target="a/x") not in found


def test_an_empty_gateway_is_read() -> None:
    families = list(text_string_to_metric_families(metrics_text(Metrics()).decode()))
    assert {family.type for family in families} == {"counter", "gauge", "histogram"}


@pytest.mark.parametrize("name", ['a/"quoted"', "a/back\\slash", "a/new\nline", "a/ü→"])
def test_any_name_can_be_a_label(name: str) -> None:
    metrics = Metrics()
    metrics.request_ended(row(target=name))
    labels = {"dialect": "openai_chat", "outcome": "served", "status": "200"}
    assert samples(metrics)[named("dragoman_requests_total", target=name, **labels)] == 1


def test_label_values_are_bounded() -> None:
    metrics = Metrics()
    for n in range(10 * MAX_VALUES):
        metrics.request_ended(
            row(target=f"a/{n}", duration=0.1, time_to_first_token=0.1, stream=True, input=1, output=1)
        )
        metrics.record_attempt(Attempt(target=f"b/{n}", outcome="failed"))
    found = samples(metrics)
    assert len({dict(labels).get("target") for _, labels in found}) <= MAX_VALUES + 2
    counts = [value for (name, _), value in found.items() if name == "dragoman_requests_total"]
    assert sum(counts) == 10 * MAX_VALUES


def test_each_worker_reports_the_metrics_of_all(opened: Callable[[], Store], clock: Clock) -> None:
    async def main() -> None:
        store = opened()
        both = [
            Accounting(store, workers=Workers(store, name=name, gateway="here", clock=clock), clock=clock)
            for name in "ab"
        ]
        for accounting in both:
            accounting.metrics.request_ended(row())
            accounting.metrics.request_ended(row())
            await accounting.sync()
        found = parsed(await both[0].scrape())
        labels = {"dialect": "openai_chat", "target": "a/x", "outcome": "served", "status": "200"}
        assert [found[named("dragoman_requests_total", worker=name, **labels)] for name in "ab"] == [2, 2]
        assert found[named("dragoman_requests_in_flight", worker="b")] == 0
        clock.now += 31
        found = parsed(await both[1].scrape())
        assert {dict(labels)["worker"] for _, labels in found} == {"b"}
        await store.aclose()

    asyncio.run(main())


def test_a_worker_alone_has_no_label_and_reports_its_cooldowns() -> None:
    async def main() -> None:
        store = MemoryStore()
        conditions = SharedHealthStore(store)
        Health(store=conditions).cool_down("aa/m", 10.0**12, "busy")
        found = parsed(await Accounting(store, shared_health=conditions).scrape())
        assert found[named("dragoman_target_cooldown", target="aa/m")] == 1

    asyncio.run(main())


def test_a_worker_whose_store_is_down_tells_of_itself() -> None:
    async def main() -> None:
        store = open_store("redis://127.0.0.1:1/0")
        found = parsed(await Accounting(store, workers=Workers(store, name="a")).scrape())
        assert found[named("dragoman_requests_in_flight", worker="a")] == 0
        await store.aclose()

    asyncio.run(main())


def test_a_request_costs_a_few_microseconds() -> None:
    metrics, each = Metrics(), row(duration=0.3, time_to_first_token=0.06, stream=True, input=5, output=2)
    began = time.process_time()
    for _ in range(2000):
        metrics.request_ended(each)
    assert (time.process_time() - began) / 2000 < 100e-6 * slowness()


def test_labels_of_keys_and_teams_are_a_choice_of_the_operator() -> None:
    metrics = Metrics(("key", "team"))
    metrics.request_ended(row(key="alice", team="research", output=3, cost=1_000_000_000))
    metrics.request_ended(row())
    found = samples(metrics)
    labels = {"dialect": "openai_chat", "target": "a/x", "outcome": "served", "status": "200"}
    assert found[named("dragoman_requests_total", **labels, key="alice", team="research")] == 1
    assert found[named("dragoman_requests_total", **labels, key="", team="")] == 1
    assert found[named("dragoman_cost_dollars_total", target="a/x", key="alice", team="research")] == 1
    assert found[named("dragoman_tokens_total", target="a/x", kind="output", key="alice", team="research")] == 3


def test_the_number_of_labels_is_bounded() -> None:
    metrics = Metrics(("key",))
    for number in range(MAX_VALUES + 5):
        metrics.request_ended(row(key=f"key{number}"))
    labels = {"dialect": "openai_chat", "target": "a/x", "outcome": "served", "status": "200"}
    assert samples(metrics)[named("dragoman_requests_total", **labels, key="other")] == 5


def test_the_time_per_token_is_measured() -> None:
    metrics = Metrics()
    metrics.request_ended(row(stream=True, duration=1.1, time_to_first_token=0.1, output=11))
    found = samples(metrics)
    assert found[named("dragoman_time_per_output_token_seconds_sum", target="a/x")] == pytest.approx(0.1)


def test_requests_that_wait_are_counted_when_somebody_looks_or_when_there_are_many() -> None:
    metrics = Metrics()
    for _ in range(MAX_WAITING + 5):
        metrics.request_started()
        metrics.record_attempt(Attempt(target="a/x", outcome="served"))
        metrics.request_ended(row(), was_started=True)
    total = MAX_WAITING + 5
    assert metrics.in_flight == 0
    assert f'dragoman_attempts_total{{target="a/x",outcome="served"}} {total}'.encode() in metrics_text(metrics)
    assert f" {total}\n".encode() in metrics_text(metrics).partition(b"dragoman_requests_total{")[2]
