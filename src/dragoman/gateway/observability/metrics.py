"""Counters, gauges and histograms, and their text format for Prometheus. The number of label values is bounded.

A request only leaves its row and its attempts. They are counted together when somebody reads the metrics, or when many
wait: ten sums one after the other, while their code is in the caches of the processor, cost half as much.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from dragoman.engine.health import TargetHealth
from dragoman.errors import redact
from dragoman.gateway.store.base import UsageRow
from dragoman.types import Attempt

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_VALUES = 200
"""Distinct targets, keys or teams; later ones are counted as `other`."""
MAX_VALUE = 200
OTHER = "other"
MAX_WAITING = 128
"""Rows and attempts that are counted at once: this takes a fraction of a millisecond."""
Lines: TypeAlias = dict[str, list[str]]
"""The lines of a worker by metric, without the name of the metric."""
MetricLabel: TypeAlias = Literal["key", "team"]
"""Labels that an operator may add."""
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Counter:
    """A sum for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.help = help
        self._labels = labels
        self._values: dict[tuple[str, ...], float] = {}

    def add(self, amount: float, /, *values: str) -> None:
        """Add to the sum of these label values."""
        self._values[values] = self._values.get(values, 0) + amount

    def value(self, *values: str) -> float:
        """The sum of these label values."""
        return self._values.get(values, 0)

    def lines(self) -> Iterator[str]:
        """The lines in Prometheus format, without the name."""
        for values, amount in self._values.items():
            yield f"{_labels(zip(self._labels, values, strict=True))} {amount:.17g}"


class Gauge(Counter):
    """A current value for each combination of labels."""

    kind = "gauge"

    def set(self, amount: float, /, *values: str) -> None:
        """Replace a value."""
        self._values[values] = amount

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()


class Histogram:
    """A histogram for each combination of labels."""

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: tuple[str, ...], bounds: tuple[float, ...] = SECONDS) -> None:
        self.name = name
        self.help = help
        self._labels = labels
        self._bounds = bounds
        self._values: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}

    def add(self, amount: float, /, *values: str) -> None:
        """Count a value."""
        series = self._values.get(values)
        if series is None:
            series = self._values[values] = [0] * (len(self._bounds) + 1), [0.0]
        counts, sums = series
        counts[bisect_left(self._bounds, amount)] += 1
        sums[0] += amount

    def lines(self) -> Iterator[str]:
        """The lines in Prometheus format, without the name."""
        for values, (counts, (total,)) in self._values.items():
            pairs = list(zip(self._labels, values, strict=True))
            running = 0
            for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                running += count
                yield f"_bucket{_labels([*pairs, ('le', bound)])} {running}"
            yield f"_sum{_labels(pairs)} {total:.17g}"
            yield f"_count{_labels(pairs)} {running}"


class Metrics:
    """All metrics of a gateway since its start."""

    def __init__(self, labels: tuple[MetricLabel, ...] = (), /) -> None:
        """`labels` are further ones of requests, tokens and costs. Each has a series for every key, or every team."""
        self._owner_labels = labels
        self._requests = Counter(
            "dragoman_requests_total", "Requests that ended.", ("dialect", "target", "outcome", "status", *labels)
        )
        self._duration = Histogram("dragoman_request_duration_seconds", "Duration of a request.", ("dialect", "target"))
        self._first = Histogram(
            "dragoman_time_to_first_token_seconds", "Time to the first event of a stream.", ("target",)
        )
        self._per_token = Histogram(
            "dragoman_time_per_output_token_seconds",
            "Mean time per token of a stream, after its first event.",
            ("target",),
            TOKEN_SECONDS,
        )
        self._tokens = Counter("dragoman_tokens_total", "Tokens, by kind.", ("target", "kind", *labels))
        self._cost = Counter("dragoman_cost_dollars_total", "Cost of requests with a known price.", ("target", *labels))
        self._attempts = Counter("dragoman_attempts_total", "Attempts of single targets.", ("target", "outcome"))
        self._cache = Counter("dragoman_cache_requests_total", "Requests that used the response cache.", ("result",))
        self._in_flight = Gauge("dragoman_requests_in_flight", "Requests in flight.")
        self._pending = Gauge("dragoman_usage_rows_pending", "Rows of the usage log that are not written yet.")
        self._lost = Gauge("dragoman_usage_rows_lost", "Rows of the usage log that were lost while the store was down.")
        self._cooldown = Gauge(
            "dragoman_target_cooldown", "Whether a target is on cooldown, disabled or on trial.", ("target",)
        )
        self._waiting: list[tuple[UsageRow, bool] | Attempt] = []
        """Requests that ended, and attempts, which are not counted yet."""
        self._targets: dict[str, str] = {}
        self._owners: dict[MetricLabel, dict[str, str]] = {}
        self._in_flight.set(0)
        self.families: tuple[Counter | Histogram, ...] = (
            self._requests,
            self._duration,
            self._first,
            self._per_token,
            self._tokens,
            self._cost,
            self._attempts,
            self._cache,
            self._in_flight,
            self._cooldown,
            self._pending,
            self._lost,
        )

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        self._count_waiting()
        return int(self._in_flight.value())

    def request_started(self) -> None:
        """Count a request that starts."""
        self._in_flight.add(1)

    def record_attempt(self, attempt: Attempt, /) -> None:
        """Count an attempt, also one that was skipped."""
        self._waiting.append(attempt)

    def request_ended(self, row: UsageRow, /, *, was_started: bool = False) -> None:
        """Count a request that has ended."""
        self._waiting.append((row, was_started))
        if len(self._waiting) >= MAX_WAITING:
            self._count_waiting()

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if isinstance(ended, Attempt):
                self._attempts.add(1, self._target(ended.target), ended.outcome)
            else:
                self._count(*ended)

    def _count(self, row: UsageRow, was_started: bool) -> None:  # noqa: FBT001 - as it was noted
        if was_started:
            self._in_flight.add(-1)
        target, dialect = self._target(row.target), row.dialect or ""
        status = "" if row.status is None else str(row.status)
        owner = tuple(self._owner(label, getattr(row, label)) for label in self._owner_labels)
        self._requests.add(1, dialect, target, row.outcome, status, *owner)
        if row.duration is not None:
            self._duration.add(row.duration, dialect, target)
        if row.time_to_first_token is not None and row.stream:
            self._first.add(row.time_to_first_token, target)
            if row.duration is not None and row.output is not None and row.output > 1:
                self._per_token.add((row.duration - row.time_to_first_token) / (row.output - 1), target)
        for kind, count in (("input", row.input), ("output", row.output), ("cache_read", row.cache_read)):
            if count:
                self._tokens.add(count, target, kind, *owner)
        if row.cache is not None:
            self._cache.add(1, row.cache)
        if row.cost:
            self._cost.add(row.cost / 1e9, target, *owner)

    def text(self, health: Mapping[str, TargetHealth] | None = None, /, *, pending: int = 0, lost: int = 0) -> bytes:
        """All metrics in Prometheus format."""
        return encode_text({"": self.lines(health or {}, pending=pending, lost=lost)})

    def lines(self, health: Mapping[str, TargetHealth], /, *, pending: int, lost: int) -> Lines:
        """All lines by metric, without the names, with the current health of targets."""
        self._count_waiting()
        self._cooldown.clear()
        for target, state in health.items():
            self._cooldown.set(int(not state.is_healthy), self._target(target))
        self._pending.set(pending)
        self._lost.set(lost)
        return {family.name: list(family.lines()) for family in self.families}

    def _target(self, name: str | None) -> str:
        return _bounded(name, self._targets)

    def _owner(self, label: MetricLabel, name: str | None) -> str:
        return _bounded(name, self._owners.setdefault(label, {}))


def _bounded(name: str | None, known: dict[str, str]) -> str:
    """The value of a label; names after the first `MAX_VALUES` are `other`."""
    if not name:
        return ""
    value = known.get(name)
    if value is None:
        if len(known) >= MAX_VALUES:
            return OTHER
        value = known[name] = redact(name)[:MAX_VALUE]
    return value


_HEADERS = {family.name: (family.help, family.kind) for family in Metrics().families}


def encode_text(workers: Mapping[str, Lines], /) -> bytes:
    """The metrics of one worker, or of several with a `worker` label, in Prometheus format."""
    text: list[str] = []
    for name, (help, kind) in _HEADERS.items():
        text += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
        for worker, families in workers.items():
            text += [name + (_with_worker(line, worker) if worker else line) for line in families.get(name, ())]
    return "".join(f"{line}\n" for line in text).encode()


def _with_worker(line: str, worker: str) -> str:
    suffix, _, rest = line.partition("{")
    return f'{suffix}{{worker="{_escape(worker)}"{"" if rest.startswith("}") else ","}{rest}'


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    labels = ",".join(f'{name}="{_escape(value)}"' for name, value in pairs)
    return f"{{{labels}}}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
