"""The SQL of the usage queries.

A row is JSON, so its fields are read with `json_extract`; the index on the time keeps that to the rows of the range.
Queries run on a connection of their own, so that requests never wait for them.
"""

import sqlite3
from collections.abc import Iterator

from dragoman.gateway.store.base import UsageRow, decode_row
from dragoman.gateway.store.usage_queries import (
    COUNTS,
    GROUPS,
    MAX_BUCKETS,
    MEASURES,
    SECONDS,
    BucketName,
    RowsPage,
    RowsQuery,
    SumsQuery,
    SumsResult,
    hour_name,
    hour_of,
    ledger_counts,
    make_result,
    page_of,
    row_latencies,
    slot_of,
)

_NAMES = ", ".join(GROUPS)
HOURS_TABLE = (
    f"CREATE TABLE IF NOT EXISTS hours (hour INTEGER, {', '.join(f'{name} TEXT' for name in GROUPS)}, "
    f"{', '.join(f'{name} INTEGER' for name in COUNTS)}, PRIMARY KEY (hour, {_NAMES})) WITHOUT ROWID;"
)
"""Hourly sums. A name that a request does not have is empty text, because a primary key has no NULL."""
LATENCIES_TABLE = (
    f"CREATE TABLE IF NOT EXISTS latencies (hour INTEGER, {', '.join(f'{name} TEXT' for name in GROUPS)}, "
    f"measure INTEGER, slot INTEGER, count INTEGER, PRIMARY KEY (hour, {_NAMES}, measure, slot)) WITHOUT ROWID;"
)
"""How often each latency was seen in an hour: see `row_latencies`."""
_ADD = (
    f"INSERT INTO hours VALUES ({', '.join('?' * (1 + len(GROUPS) + len(COUNTS)))}) "  # noqa: S608 - no foreign text
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in COUNTS)}"
)
_ADD_LATENCY = (
    f"INSERT INTO latencies VALUES ({', '.join('?' * (3 + len(GROUPS)))}, 1) "  # noqa: S608 - no foreign text
    "ON CONFLICT DO UPDATE SET count = count + 1"
)
_ROW_FIELDS = {name: f"json_extract(json, '$.{name}')" for name in (*GROUPS, "status", "outcome", "dialect")}
_OUTCOME = _ROW_FIELDS["outcome"]
_FIRST = "json_extract(json, '$.first')"
_DURATION = "CAST(ROUND(json_extract(json, '$.duration') * 1000) AS INTEGER)"
_ROW_COUNTS = {
    "requests": "1",
    "served": f"{_OUTCOME} = 'served'",
    "failed": f"{_OUTCOME} = 'failed'",
    "refused": f"{_OUTCOME} = 'refused'",
    "disconnected": f"{_OUTCOME} IN ('client_disconnected', 'hung_up')",
    "unknown": f"{_OUTCOME} IS NULL",
    "input": "json_extract(json, '$.input')",
    "output": "json_extract(json, '$.output')",
    "cache_read": "json_extract(json, '$.cache_read')",
    "cost": "json_extract(json, '$.cost')",
    "unpriced": f"{_OUTCOME} = 'served' AND json_extract(json, '$.cost') IS NULL",
    "milliseconds": f"CASE WHEN {_OUTCOME} = 'served' THEN {_DURATION} END",
    "streams": f"{_FIRST} IS NOT NULL",
    "first_milliseconds": f"CAST(ROUND({_FIRST} * 1000) AS INTEGER)",
}
"""What a row adds to each of COUNTS. The default of a field is not in its JSON: an unknown outcome is NULL."""
_ROW_TIMES = (f"CASE WHEN {_OUTCOME} = 'served' THEN json_extract(json, '$.duration') END", _FIRST)
"""The times of each of MEASURES."""
_ROWS = "(SELECT id, moment, row, CAST(row AS TEXT) AS json FROM rows WHERE moment >= ? AND moment < ?)"


def add_to_hour(db: sqlite3.Connection, row: UsageRow, /) -> None:
    """Add a finished row to the sums and the times of its hour."""
    _add_counts(db, row)
    _add_latencies(db, row)


def _add_counts(db: sqlite3.Connection, row: UsageRow) -> None:
    db.execute(_ADD, (hour_of(row), *_names(row), *ledger_counts(row)))


def _add_latencies(db: sqlite3.Connection, row: UsageRow) -> None:
    for measure, slot in row_latencies(row):
        db.execute(_ADD_LATENCY, (hour_of(row), *_names(row), measure, slot))


def _names(row: UsageRow) -> list[str]:
    return [name or "" for name in hour_name(row)]


def fill_hours(db: sqlite3.Connection, /) -> None:
    """Make the hourly sums, and the times, of a file that was written before there were any."""
    for table, fill in (("hours", _add_counts), ("latencies", _add_latencies)):
        if db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608 - a name of this module
            for (row,) in db.execute("SELECT row FROM rows WHERE settled = 1").fetchall():
                fill(db, decode_row(row))


def select_sums(db: sqlite3.Connection, query: SumsQuery, /) -> SumsResult:
    """The sums of a query."""
    if query.grain == "minute":
        db.create_function("slot_of", 1, slot_of, deterministic=True)
    counts, latencies = _select_buckets(db, query, SECONDS.get(query.grain))
    if len(counts) <= MAX_BUCKETS:
        return make_result(query, counts, latencies)
    # The buckets are not complete, so the totals are not their sum.
    return make_result(query, counts, latencies, totals=_select_buckets(db, query, None))


def _select_buckets(
    db: sqlite3.Connection, query: SumsQuery, step: int | None
) -> tuple[dict[BucketName, list[int]], dict[BucketName, dict[tuple[int, int], int]]]:
    """Counts and times by group, and by steps of so many seconds: one more than an answer may have, if there are."""
    is_fine = query.grain == "minute"
    names = _ROW_COUNTS if is_fine else {name: name for name in COUNTS}
    columns = [f"COALESCE(SUM({names[name]}), 0)" for name in COUNTS]
    buckets = _select(db, query, step, "hours", columns, "1", limit=MAX_BUCKETS + 1)
    counts = {bucket: numbers for bucket, numbers in buckets if numbers[0]}
    latencies: dict[BucketName, dict[tuple[int, int], int]] = {}
    for measure in range(len(MEASURES)):
        slot, count = (f"slot_of({_ROW_TIMES[measure]})", "COUNT(*)") if is_fine else ("slot", "SUM(count)")
        where = f"{_ROW_TIMES[measure]} IS NOT NULL" if is_fine else f"measure = {measure}"
        times = _select(db, query, step, "latencies", [slot, count], where, is_by_first=True)
        for bucket, numbers in times:
            if bucket in counts:  # their number is limited
                latencies.setdefault(bucket, {})[measure, numbers[0]] = numbers[1]
    return counts, latencies


def _select(
    db: sqlite3.Connection,
    query: SumsQuery,
    step: int | None,
    table: str,
    columns: list[str],
    condition: str,
    *,
    limit: int = -1,
    is_by_first: bool = False,
) -> Iterator[tuple[BucketName, list[int]]]:
    """Numbers by bucket, and by the first number if `is_by_first`; from single rows if the query is by minute."""
    is_fine = query.grain == "minute"
    moment, source = ("moment", _ROWS) if is_fine else ("hour", f"(SELECT * FROM {table} WHERE hour >= ? AND hour < ?)")  # noqa: S608
    fields = _ROW_FIELDS if is_fine else {name: f"NULLIF({name}, '')" for name in GROUPS}
    start = str(float(query.first)) if step is None else f"CAST({moment} / {step} AS INTEGER) * {step}"
    size = 1 + len(query.groups)
    first_group = 2 if step is None else 1  # by its position: SQLite does not group by a constant
    places = ", ".join(map(str, range(first_group, size + 1 + is_by_first)))
    where = " AND ".join([condition, *(f"{fields[group]} = ?" for group in query.filters)])
    selected = ", ".join([start, *(fields[group] for group in query.groups), *columns])
    text = f"SELECT {selected} FROM {source} WHERE {where}"  # noqa: S608 - only names of this module
    text += f" GROUP BY {places}" if places else ""
    text += f" ORDER BY 1, {size + 1} DESC LIMIT {limit}"
    rows = db.execute(text, [query.first, query.last, *query.filters.values()])
    return (((float(row[0]), tuple(row[1:size])), list(row[size:])) for row in rows)


def select_rows(db: sqlite3.Connection, query: RowsQuery, /) -> RowsPage:
    """A page of rows."""
    parameters: list[float | str] = [query.first, query.last]
    conditions = [f"{_ROW_FIELDS[name]} = ?" for name in query.filters]
    parameters += query.filters.values()
    if query.filters.get("outcome") == "unknown":
        conditions[[*query.filters].index("outcome")] = f"COALESCE({_OUTCOME}, 'unknown') = ?"
    if query.status is not None:
        conditions.append(f"{_ROW_FIELDS['status']} = ?")
        parameters.append(query.status)
    if query.before is not None:
        conditions.append("(moment, id) < (?, ?)")
        parameters += query.before
    where = " AND ".join(conditions) or "1"
    text = f"SELECT row FROM {_ROWS} WHERE {where} ORDER BY moment DESC, id DESC LIMIT {query.limit + 1}"  # noqa: S608
    return page_of([decode_row(row) for (row,) in db.execute(text, parameters)], query)


def select_row(db: sqlite3.Connection, id: str, /) -> UsageRow | None:
    """One row."""
    stored = db.execute("SELECT row FROM rows WHERE id = ?", (id,)).fetchone()
    return None if stored is None else decode_row(stored[0])
