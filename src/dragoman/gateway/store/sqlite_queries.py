"""The SQL of the usage queries.

A row is JSON, so its fields are read with `json_extract`; the index on the time keeps that to the rows of the range.
Queries run on a connection of their own, so that requests never wait for them.
"""

import sqlite3

from dragoman.gateway.store.base import UsageRow, decode_row
from dragoman.gateway.store.usage_queries import (
    COUNTS,
    GROUPS,
    MAX_BUCKETS,
    SECONDS,
    RowsPage,
    RowsQuery,
    SumsQuery,
    SumsResult,
    hour_name,
    hour_of,
    ledger_counts,
    make_bucket,
    page_of,
)

_NAMES = ", ".join(GROUPS)
HOURS_TABLE = (
    f"CREATE TABLE IF NOT EXISTS hours (hour INTEGER, {', '.join(f'{name} TEXT' for name in GROUPS)}, "
    f"{', '.join(f'{name} INTEGER' for name in COUNTS)}, PRIMARY KEY (hour, {_NAMES})) WITHOUT ROWID;"
)
"""Hourly sums. A name that a request does not have is empty text, because a primary key has no NULL."""
_ADD = (
    f"INSERT INTO hours VALUES ({', '.join('?' * (1 + len(GROUPS) + len(COUNTS)))}) "  # noqa: S608 - no foreign text
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in COUNTS)}"
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
_ROWS = "(SELECT id, moment, row, CAST(row AS TEXT) AS json FROM rows WHERE moment >= ? AND moment < ?)"


def add_to_hour(db: sqlite3.Connection, row: UsageRow, /) -> None:
    """Add a finished row to the sum of its hour."""
    db.execute(_ADD, (hour_of(row), *(name or "" for name in hour_name(row)), *ledger_counts(row)))


def fill_hours(db: sqlite3.Connection, /) -> None:
    """Make the hourly sums of a file that was written before there were any."""
    has_hours = db.execute("SELECT 1 FROM hours LIMIT 1").fetchone()
    if has_hours is None:
        for (row,) in db.execute("SELECT row FROM rows WHERE settled = 1").fetchall():
            add_to_hour(db, decode_row(row))


def select_sums(db: sqlite3.Connection, query: SumsQuery, /) -> SumsResult:
    """The sums of a query."""
    is_fine = query.grain == "minute"
    moment, source = ("moment", _ROWS) if is_fine else ("hour", "(SELECT * FROM hours WHERE hour >= ? AND hour < ?)")
    fields = _ROW_FIELDS if is_fine else {name: f"NULLIF({name}, '')" for name in GROUPS}
    counts = _ROW_COUNTS if is_fine else {name: name for name in COUNTS}
    parameters: list[float | str] = [query.first, query.last]
    if query.grain == "total":
        start = str(float(query.first))
    else:
        step = SECONDS[query.grain]
        start = f"CAST({moment} / {step} AS INTEGER) * {step}"
    columns = [
        start,
        *(fields[group] for group in query.groups),
        *(f"COALESCE(SUM({counts[name]}), 0)" for name in COUNTS),
    ]
    first_group = 2 if query.grain == "total" else 1  # by its place: a constant is not grouped by
    groups = ", ".join(map(str, range(first_group, 2 + len(query.groups))))
    where = " AND ".join(f"{fields[group]} = ?" for group in query.filters) or "1"
    parameters += query.filters.values()
    text = f"SELECT {', '.join(columns)} FROM {source} WHERE {where}"  # noqa: S608 - only names of this module
    text += f" GROUP BY {groups}" if groups else " HAVING COUNT(*) > 0"
    text += f" ORDER BY 1, {2 + len(query.groups)} DESC LIMIT {MAX_BUCKETS + 1}"
    found = db.execute(text, parameters).fetchall()
    size = 1 + len(query.groups)
    buckets = [
        make_bucket(float(row[0]), dict(zip(query.groups, row[1:size], strict=True)), row[size:])
        for row in found[:MAX_BUCKETS]
    ]
    return SumsResult(buckets=tuple(buckets), truncated=len(found) > MAX_BUCKETS)


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
    found = db.execute("SELECT row FROM rows WHERE id = ?", (id,)).fetchone()
    return None if found is None else decode_row(found[0])
