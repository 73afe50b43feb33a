"""Counters, gauges and histograms, and their text format for Prometheus. The number of label values is bounded.

A request only leaves its row and its attempts. They are counted together when somebody reads the metrics, or when many
wait: most requests have the same labels, so their sums are added once for all of them.
"""

from bisect import bisect_left
from collections import Counter as Sums
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
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
_LABELS = attrgetter("dialect", "target", "outcome", "status", "key", "team", "stream", "cache")
_TOKENS = {kind: attrgetter(kind) for kind in ("input", "output", "cache_read")}
MAX_WAITING = 128
"""Rows that are counted at once: this takes a fraction of a millisecond."""
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
        self.add_all((amount,), *values)

    def add_all(self, amounts: Sequence[float], /, *values: str) -> None:
        """Count some values."""
        if not amounts:
            return
        series = self._values.get(values)
        if series is None:
            series = self._values[values] = [0] * (len(self._bounds) + 1), [0.0]
        counts, sums = series
        for amount in amounts:
            counts[bisect_left(self._bounds, amount)] += 1
        sums[0] += sum(amounts)

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
        self._waiting: list[UsageRow] = []
        """Requests that ended and are not counted yet. Most have the same labels, which are looked up once for all."""
        self._waiting_attempts: list[Attempt] = []
        self._targets: dict[str, str] = {}
        self._owners: dict[MetricLabel, dict[str, str]] = {}
        self.in_flight = 0
        """Requests in flight."""
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

    def request_started(self) -> None:
        self.in_flight += 1

    def record_attempt(self, attempt: Attempt, /) -> None:
        """Count an attempt, also one that was skipped."""
        self._waiting_attempts.append(attempt)

    def request_ended(self, row: UsageRow, /, *, was_started: bool = False) -> None:
        if was_started:
            self.in_flight -= 1
        self._waiting.append(row)
        if len(self._waiting) >= MAX_WAITING:
            self._count_waiting()

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        attempts, self._waiting_attempts = self._waiting_attempts, []
        for (name, outcome), count in Sums((attempt.target, attempt.outcome) for attempt in attempts).items():
            self._attempts.add(count, self._target(name), outcome)
        groups: dict[tuple[object, ...], list[UsageRow]] = {}
        for row in waiting:
            groups.setdefault(_LABELS(row), []).append(row)
        for rows in groups.values():
            self._count(rows)

    def _count(self, rows: list[UsageRow]) -> None:
        """Count some requests with the same labels."""
        first = rows[0]
        target, dialect = self._target(first.target), first.dialect or ""
        status = "" if first.status is None else str(first.status)
        owner = tuple(self._owner(label, getattr(first, label)) for label in self._owner_labels)
        self._requests.add(len(rows), dialect, target, first.outcome, status, *owner)
        self._duration.add_all([row.duration for row in rows if row.duration is not None], dialect, target)
        if first.stream:
            self._count_first_tokens(rows, target)
        for kind, get in _TOKENS.items():
            if count := sum([get(row) or 0 for row in rows]):
                self._tokens.add(count, target, kind, *owner)
        if first.cache is not None:
            self._cache.add(len(rows), first.cache)
        if cost := sum([row.cost or 0 for row in rows]):
            self._cost.add(cost / 1e9, target, *owner)

    def _count_first_tokens(self, rows: list[UsageRow], target: str) -> None:
        for row in rows:
            if row.time_to_first_token is None:
                continue
            self._first.add(row.time_to_first_token, target)
            if row.duration is not None and row.output is not None and row.output > 1:
                self._per_token.add((row.duration - row.time_to_first_token) / (row.output - 1), target)

    def lines(self, health: Mapping[str, TargetHealth], /, *, pending: int, lost: int) -> Lines:
        """All lines by metric, without the names, with the current health of targets."""
        self._count_waiting()
        self._cooldown.clear()
        for target, state in health.items():
            self._cooldown.set(int(not state.is_healthy), self._target(target))
        self._in_flight.set(self.in_flight)
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


def encode_metrics(workers: Mapping[str, Lines], /) -> bytes:
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
