"""The tables of the results."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.gateway.measure import CONNECTIONS, LONG_CONNECTIONS, MANY, STREAMS, Cost, ServerResult
from benchmarks.gateway.servers import WIRES
from benchmarks.table import ABSENT, Section, mb, ms, us

Rounds = list[ServerResult]
NONE = "none in time"
"""Shown if no answer came before the time was over."""


def sections(results: dict[str, list[ServerResult | None]]) -> list[Section]:
    """The best of the rounds, because other work on the machine only slows a server down."""
    known = {name: [one for one in rounds if one is not None] for name, rounds in results.items()}
    tables: list[Section] = []
    for wire, title in WIRES.items():
        tables += [_rates(known, wire, title), _latencies(known, wire, title), _cpu(known, wire, title)]
    return [*tables, _streams(known), _sizes(known), _long(known), _summary(known)]


OURS = "dragoman"


def _long(known: dict[str, Rounds]) -> Section:
    heads = ("", *(f"{head}: {wire}" for wire in WIRES for head in ("requests/s", "CPU a request")))
    rows: list[tuple[str, ...]] = []
    for name, rounds in known.items():
        cells: list[str] = []
        for wire in rounds[0].long if rounds else ():
            costs = [one.long[wire] for one in rounds]
            cells += [f"{max(cost.load.rate for cost in costs):,.0f}", ms(min(cost.per_answer for cost in costs))]
        rows.append((name, *(cells or (ABSENT,))))
    return Section(f"requests of 400 kB, 60 tools and 200 messages, {LONG_CONNECTIONS} connections", heads, rows)


@dataclass(frozen=True)
class _Measure:
    """One line of the summary."""

    name: str
    value: Callable[[ServerResult], float | None]
    show: Callable[[float], str]
    is_rate: bool = False
    """Whether more is better."""


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def _measures(direct: Rounds) -> list[_Measure]:
    def added(one: ServerResult, part: float) -> float | None:
        base = min(each.low_rate["openai"].quantile(part) for each in direct)
        return one.low_rate["openai"].quantile(part) - base

    def crossing(one: ServerResult) -> float | None:
        return one.calls["anthropic"][16].per_answer if "anthropic" in one.calls else None

    def crossing_chunk(one: ServerResult) -> float | None:
        return one.streams["anthropic"].per_chunk if "anthropic" in one.streams else None

    return [
        _Measure("requests/s, 64 connections", lambda one: one.calls["openai"][64].load.rate, _rate, is_rate=True),
        _Measure("requests/s, 1 connection", lambda one: one.calls["openai"][1].load.rate, _rate, is_rate=True),
        _Measure("CPU a request, 16 connections", lambda one: one.calls["openai"][16].per_answer, us),
        _Measure("the same, crossing wires", crossing, us),
        _Measure("added p50 at 10 requests/s", lambda one: added(one, 0.5), ms_fine),
        _Measure("added p99 at 10 requests/s", lambda one: added(one, 0.99), ms_fine),
        _Measure("chunks/s, 16 streams", lambda one: one.streams["openai"].chunk_rate, _rate, is_rate=True),
        _Measure("first delta, one stream", lambda one: one.first_delta["openai"], ms_fine),
        _Measure("CPU a chunk", lambda one: one.streams["openai"].per_chunk, us),
        _Measure("the same, crossing wires", crossing_chunk, us),
        _Measure("CPU a request of 400 kB", lambda one: one.long["openai"].per_answer, us),
        _Measure("start-up", lambda one: one.startup, ms),
        _Measure("RSS when up", lambda one: one.idle, mb),
        _Measure(f"RSS, {MANY} streams", lambda one: one.peak, mb),
    ]


def _summary(known: dict[str, Rounds]) -> Section:
    """The best round of each server, and how many times ours it is."""
    servers = {name: rounds for name, rounds in known.items() if name != "direct" and rounds}
    rows: list[tuple[str, ...]] = []
    for measure in _measures(known["direct"]):
        best: dict[str, float] = {}
        for name, rounds in servers.items():
            values = [value for value in map(measure.value, rounds) if value is not None]
            if values:
                best[name] = (max if measure.is_rate else min)(values)
        ours = best.get(OURS)
        rows.append((measure.name, *(_with_ratio(best.get(name), ours, measure.show) for name in servers)))
    return Section("summary: the best round, and how many times ours", ("", *servers), rows)


def _with_ratio(value: float | None, ours: float | None, show: Callable[[float], str]) -> str:
    if value is None:
        return ""
    return f"{show(value)} {value / ours:6.2f}" if ours else show(value)


def _rates(known: dict[str, Rounds], wire: str, title: str) -> Section:
    heads = ("", *(f"{count} connections" for count in CONNECTIONS))
    rows = _rows(known, wire, lambda cost: f"{cost.load.rate:,.0f}", key=lambda cost: -cost.load.rate)
    return Section(f"requests/s: {title}", heads, rows)


def _latencies(known: dict[str, Rounds], wire: str, title: str) -> Section:
    direct = {
        count: min((one.calls["openai"][count] for one in known["direct"]), key=_p50).load for count in CONNECTIONS
    }

    def show(cost: Cost, count: int) -> str:
        if not cost.load.latencies:
            return NONE
        p50, p99 = (cost.load.quantile(part) - direct[count].quantile(part) for part in (0.5, 0.99))
        return f"{ms_fine(p50)} {ms_fine(p99):>10}"

    heads = ("", *(f"{count}: p50, p99" for count in CONNECTIONS))
    rows = [
        (name, *(show(min((one.calls[wire][count] for one in rounds), key=_p50), count) for count in CONNECTIONS))
        for name, rounds in known.items()
        if name != "direct" and rounds and wire in rounds[0].calls
    ]
    return Section(f"added latency: {title}", heads, rows)


def _cpu(known: dict[str, Rounds], wire: str, title: str) -> Section:
    heads = ("", *(f"{count} connections" for count in CONNECTIONS))
    rows = _rows(
        known, wire, lambda cost: us(cost.per_answer) if cost.load.latencies else NONE, key=lambda cost: cost.per_answer
    )
    return Section(f"CPU time a request: {title}", heads, [row for row in rows if row[0] != "direct"])


def _streams(known: dict[str, Rounds]) -> Section:
    heads = ("", *(f"{head}: {wire}" for wire in WIRES for head in ("chunks/s", "CPU a chunk")))
    rows: list[tuple[str, ...]] = []
    for name, rounds in known.items():
        cells: list[str] = []
        for wire in rounds[0].streams if rounds else ():
            costs = [one.streams[wire] for one in rounds]
            cells += [f"{max(cost.chunk_rate for cost in costs):,.0f}", us(min(cost.per_chunk for cost in costs))]
        rows.append((name, *(cells or (ABSENT,))))
    return Section(f"streams, {STREAMS} at once", heads, rows)


def _sizes(known: dict[str, Rounds]) -> Section:
    heads = ("", "start-up", "RSS when up", f"RSS, {MANY} streams", "answered", "chunks/s")
    rows: list[tuple[str, ...]] = []
    for name, rounds in known.items():
        if not rounds:
            rows.append((name, ABSENT))
            continue
        best = max(rounds, key=lambda one: one.many.chunk_rate)
        up = "" if best.startup is None else ms(min(one.startup or 0.0 for one in rounds))
        answered = f"{len(best.many.load.latencies)}"
        rows.append((name, up, mb(best.idle), mb(best.peak), answered, f"{best.many.chunk_rate:,.0f}"))
    return Section("start-up and memory", heads, rows)


def _rows(
    known: dict[str, Rounds], wire: str, show: Callable[[Cost], str], *, key: Callable[[Cost], float]
) -> list[tuple[str, ...]]:
    """One row per server, with the best round for each number of connections."""
    return [
        (name, *(show(min((one.calls[wire][count] for one in rounds), key=key)) for count in CONNECTIONS))
        if rounds
        else (name, ABSENT)
        for name, rounds in known.items()
        if not rounds or wire in rounds[0].calls
    ]


def _p50(cost: Cost) -> float:
    return cost.load.quantile(0.5)


def ms_fine(seconds: float) -> str:
    """Milliseconds with two digits."""
    return f"{seconds * 1e3:.2f} ms"
