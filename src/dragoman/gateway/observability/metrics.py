"""Requests that ended in, the text that Prometheus reads out. A few additions a request; label values are bounded."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from dragoman.engine.health import TargetHealth
from dragoman.errors import redact
from dragoman.gateway.store.base import UsageRow
from dragoman.types import Attempt

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_VALUES = 200
"""Different values of one label; what comes later is counted as `other`."""
MAX_VALUE = 200
OTHER = "other"
Lines: TypeAlias = dict[str, list[str]]
"""Lines of a worker by family, without the family's name."""
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Counter:
    """Sums by labels.

    >>> requests = Counter("dragoman_requests_total", "Requests.", ("target",))
    >>> requests.add(1, "groq/llama")
    >>> list(requests.lines())
    ['{target="groq/llama"} 1']
    """

    kind = "counter"

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.help = help
        self._labels = labels
        self._values: dict[tuple[str, ...], float] = {}

    def add(self, amount: float, /, *values: str) -> None:
        """Add to the sum of some label values."""
        self._values[values] = self._values.get(values, 0) + amount

    def value(self, *values: str) -> float:
        """The sum of some label values."""
        return self._values.get(values, 0)

    def lines(self) -> Iterator[str]:
        """What Prometheus reads, after the name."""
        for values, amount in self._values.items():
            yield f"{_labels(zip(self._labels, values, strict=True))} {amount:.17g}"


class Gauge(Counter):
    """Values by labels, as they are now.

    >>> gauge = Gauge("dragoman_requests_in_flight", "Requests that are being answered.")
    >>> gauge.put(3)
    >>> list(gauge.lines())
    ['{} 3']
    """

    kind = "gauge"

    def put(self, amount: float, /, *values: str) -> None:
        """Put a value in the place of the last one."""
        self._values[values] = amount

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()


class Histogram:
    """How many values were at most so large, by labels.

    >>> times = Histogram("dragoman_seconds", "Time.", ("target",), (0.1, 1.0))
    >>> times.add(0.5, "groq/llama")
    >>> list(times.lines())[1:3]
    ['_bucket{target="groq/llama",le="1.0"} 1', '_bucket{target="groq/llama",le="+Inf"} 1']
    """

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: tuple[str, ...], bounds: tuple[float, ...] = SECONDS) -> None:
        self.name = name
        self.help = help
        self._labels = labels
        self._bounds = bounds
        self._values: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}

    def add(self, amount: float, /, *values: str) -> None:
        """Count a value."""
        found = self._values.get(values)
        if found is None:
            found = self._values[values] = [0] * (len(self._bounds) + 1), [0.0]
        counts, sums = found
        counts[bisect_left(self._bounds, amount)] += 1
        sums[0] += amount

    def lines(self) -> Iterator[str]:
        """What Prometheus reads, after the name."""
        for values, (counts, (total,)) in self._values.items():
            pairs = list(zip(self._labels, values, strict=True))
            running = 0
            for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                running += count
                yield f"_bucket{_labels([*pairs, ('le', bound)])} {running}"
            yield f"_sum{_labels(pairs)} {total:.17g}"
            yield f"_count{_labels(pairs)} {running}"


class Metrics:
    """What a gateway has done since it was started.

    >>> metrics = Metrics()
    >>> metrics.request_ended(UsageRow(id="r1", moment=0.0, model="fast", target="groq/llama", outcome="served", status=200))
    >>> b'dragoman_requests_total{dialect="",target="groq/llama",outcome="served",status="200"} 1' in metrics.text()
    True
    """

    def __init__(self) -> None:
        labels = ("dialect", "target", "outcome", "status")
        self._requests = Counter("dragoman_requests_total", "Requests that ended.", labels)
        self._duration = Histogram("dragoman_request_duration_seconds", "From request to end.", ("dialect", "target"))
        self._first = Histogram("dragoman_time_to_first_token_seconds", "To the first piece of a stream.", ("target",))
        self._tokens = Counter("dragoman_tokens_total", "Tokens that providers counted.", ("target", "kind"))
        self._cost = Counter("dragoman_cost_dollars_total", "Cost, where the price is known.", ("target",))
        self._attempts = Counter("dragoman_attempts_total", "Tries of single targets.", ("target", "outcome"))
        self._in_flight = Gauge("dragoman_requests_in_flight", "Requests that are being answered.")
        self._pending = Gauge("dragoman_usage_rows_pending", "Rows of usage that wait for a store that is down.")
        self._lost = Gauge("dragoman_usage_rows_lost", "Rows of usage that found no place while the store was down.")
        self._cooldown = Gauge("dragoman_target_cooldown", "Whether a target is benched or probed.", ("target",))
        self._targets: dict[str, str] = {}
        self._in_flight.put(0)
        self.families: tuple[Counter | Histogram, ...] = (
            self._requests,
            self._duration,
            self._first,
            self._tokens,
            self._cost,
            self._attempts,
            self._in_flight,
            self._cooldown,
            self._pending,
            self._lost,
        )

    @property
    def in_flight(self) -> int:
        """Requests that are being answered."""
        return int(self._in_flight.value())

    def request_started(self) -> None:
        """A request began."""
        self._in_flight.add(1)

    def record_attempt(self, attempt: Attempt, /) -> None:
        """A target was tried, or skipped."""
        self._attempts.add(1, self._target(attempt.target), attempt.outcome)

    def request_ended(self, row: UsageRow, /, *, was_started: bool = False) -> None:
        """A request ended."""
        if was_started:
            self._in_flight.add(-1)
        target, dialect = self._target(row.target), row.dialect or ""
        status = "" if row.status is None else str(row.status)
        self._requests.add(1, dialect, target, row.outcome, status)
        if row.duration is not None:
            self._duration.add(row.duration, dialect, target)
        if row.time_to_first_token is not None and row.stream:
            self._first.add(row.time_to_first_token, target)
        for kind, count in (("input", row.input), ("output", row.output), ("cache_read", row.cache_read)):
            if count:
                self._tokens.add(count, target, kind)
        if row.cost:
            self._cost.add(row.cost / 1e9, target)

    def text(
        self, conditions: Mapping[str, TargetHealth] | None = None, /, *, pending: int = 0, lost: int = 0
    ) -> bytes:
        """All of it, with the health of targets as it is now."""
        return encode_text({"": self.lines(conditions or {}, pending=pending, lost=lost)})

    def lines(self, conditions: Mapping[str, TargetHealth], /, *, pending: int, lost: int) -> Lines:
        """All lines by family, without their names."""
        self._cooldown.clear()
        for target, condition in conditions.items():
            self._cooldown.put(int(not condition.is_healthy), self._target(target))
        self._pending.put(pending)
        self._lost.put(lost)
        return {family.name: list(family.lines()) for family in self.families}

    def _target(self, name: str | None) -> str:
        if not name:
            return ""
        known = self._targets.get(name)
        if known is None:
            if len(self._targets) >= MAX_VALUES:
                return OTHER
            known = self._targets[name] = redact(name)[:MAX_VALUE]
        return known


_HEADS = {family.name: (family.help, family.kind) for family in Metrics().families}


def encode_text(workers: Mapping[str, Lines], /) -> bytes:
    """What Prometheus reads, of one worker or of several, told apart by a label.

    >>> b'dragoman_requests_in_flight{worker="7"} 3' in encode_text({"7": {"dragoman_requests_in_flight": ["{} 3"]}})
    True
    """
    text: list[str] = []
    for name, (help, kind) in _HEADS.items():
        text += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
        for worker, families in workers.items():
            text += [name + (_at(line, worker) if worker else line) for line in families.get(name, ())]
    return "".join(f"{line}\n" for line in text).encode()


def _at(line: str, worker: str) -> str:
    """A line with the label of its worker."""
    suffix, _, rest = line.partition("{")
    return f'{suffix}{{worker="{_escaped(worker)}"{"" if rest.startswith("}") else ","}{rest}'


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{told}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
