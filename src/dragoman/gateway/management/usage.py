"""Operations on the usage log: sums by time and group, pages of requests, and both as CSV."""

import csv
import io
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, cast

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.gateway.accounting.bodies import StoredBodies, read_bodies
from dragoman.gateway.accounting.usage import AttemptRecord
from dragoman.gateway.errors import Forbidden, NameNotFound
from dragoman.gateway.management.operations import AdminCall, AdminOperations
from dragoman.gateway.server.response import GatewayResponse, Write
from dragoman.gateway.store.base import NANODOLLARS, UsageRow
from dragoman.gateway.store.usage_queries import (
    GROUPS,
    Grain,
    RowsQuery,
    SumsQuery,
    SumsResult,
    UsageBucket,
    UsageGroup,
)

OPERATIONS = AdminOperations()
CSV = "text/csv; charset=utf-8"

DAY = 86_400
MAX_RANGES: Final[dict[Grain, int]] = {"minute": 2 * DAY, "hour": 92 * DAY, "day": 400 * DAY, "total": 400 * DAY}
MAX_EXPORT = 1_000_000
"""Rows of one CSV file."""
EXPORT_PAGE = 1000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests: those that started from `since` on and before `until`, with these names.

    A time is seconds since the epoch, ISO 8601 with a time zone, or how long ago, such as `90m`, `24h` or `7d`.
    """

    since: str = "24h"
    until: str = "0s"
    key: str | None = None
    team: str | None = None
    model: str | None = None
    target: str | None = None
    user: str | None = None

    def times(self, now: float, /) -> tuple[float, float]:
        """The two times; raises InvalidRequest."""
        first, last = _moment("since", self.since, now), _moment("until", self.until, now)
        if first >= last:
            raise InvalidRequest("since must be before until", param="since")
        return first, last

    def names(self) -> dict[UsageGroup, str]:
        """The filters by name."""
        names: dict[UsageGroup, str | None] = {group: getattr(self, group) for group in GROUPS}
        return {group: name for group, name in names.items() if name is not None}


class UsageSumsQuery(Range, frozen=True, kw_only=True):
    """Which sums."""

    by: Grain = "day"
    group: str = ""
    """Names by which to group, separated by commas: key, team, model, target, user."""

    def groups(self) -> tuple[UsageGroup, ...]:
        """The groups; raises InvalidRequest."""
        names = tuple(dict.fromkeys(name.strip() for name in self.group.split(",") if name.strip()))
        if unknown := [name for name in names if name not in GROUPS]:
            raise InvalidRequest(f"group must be of {', '.join(GROUPS)}, got {unknown[0][:40]!r}", param="group")
        return cast("tuple[UsageGroup, ...]", names)


class RequestsFilter(Range, frozen=True, kw_only=True):
    """Which requests."""

    status: Annotated[int, msgspec.Meta(ge=100, le=599)] = 0
    """The HTTP status; by default any."""
    outcome: str | None = None
    """`served`, `failed`, `refused`, `client_disconnected` or `unknown`."""
    dialect: str | None = None


class RequestsPageQuery(RequestsFilter, frozen=True, kw_only=True):
    """Which page of requests, newest first."""

    before: str = ""
    """The `next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class UsageSums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the usage log, oldest first; of the same time, those with most requests first."""

    since: float
    """In seconds since the epoch, as `until`; both are widened to whole minutes or hours."""
    until: float
    by: Grain
    group: tuple[UsageGroup, ...]
    buckets: tuple[UsageBucket, ...]
    totals: tuple[UsageBucket, ...]
    """The same for the whole time: one sum for each group, those with most requests first."""
    truncated: bool
    """Whether something is missing, because it is too much for one answer: use a shorter range or fewer groups."""


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the usage log."""

    id: str
    started_at: float
    """In seconds since the epoch."""
    key: str | None
    team: str | None
    user: str | None
    model: str
    """The name that the client sent."""
    target: str | None
    dialect: str | None
    stream: bool
    status: int | None
    outcome: str
    input: int | None
    output: int | None
    cache_read: int | None
    estimated: bool
    cost: int | None
    """Billionths of a dollar."""
    duration: float | None
    time_to_first_token: float | None
    attempts: int
    cache: str | None
    """What the response cache did: `hit`, `miss`, `refresh` or `skipped`; null if the request did not use it."""
    losses: dict[str, int]
    """What the target did not get as the client sent it: how often, by the kind of the notice."""
    attempt_details: tuple[AttemptRecord, ...] = ()
    """Only of one request, and only if this worker answered it not long ago."""


class RequestsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of requests, newest first."""

    requests: tuple[RequestView, ...]
    next: str | None
    """The value of `before` for the next page; null if this is the last one."""


# Handlers -------------------------------------------------------------------------------------------------------------


@OPERATIONS.add("usage.sums", "GET", "usage/sums", None, query=UsageSumsQuery)
async def _sums(call: AdminCall) -> UsageSums:
    """Sums of requests, tokens and costs by time and group; a key without a role sees its own."""
    query: UsageSumsQuery = call.query
    first, last = query.times(time.time())
    if last - first > (longest := MAX_RANGES[query.by]):
        raise InvalidRequest(
            f"since must be at most {longest // DAY} days before until for by = {query.by}; use a coarser one",
            param="since",
        )
    filters = query.names() | _own_key(call, query)
    sums = SumsQuery(first=first, last=last, grain=query.by, groups=query.groups(), filters=filters).whole()
    await call.runtime.accounting.usage_log.flush()
    result: SumsResult = await call.runtime.store.sums(sums)
    return UsageSums(
        since=sums.first,
        until=sums.last,
        by=query.by,
        group=sums.groups,
        buckets=result.buckets,
        totals=result.totals,
        truncated=result.truncated,
    )


@OPERATIONS.add("usage.sums-csv", "GET", "usage/sums.csv", None, query=UsageSumsQuery, content_type=CSV, result=str)
async def _sums_csv(call: AdminCall) -> GatewayResponse:
    """The same sums as CSV."""
    sums = await _sums(call)
    counts = [name for name in UsageBucket.__struct_fields__ if name not in ("start", *GROUPS)]
    header = ["start", *sums.group, *(name if name != "cost" else "dollars" for name in counts)]

    async def lines() -> AsyncIterator[list[Sequence[Any]]]:
        yield [
            [_iso(each.start), *(getattr(each, group) for group in sums.group), *_cells(each, counts)]
            for each in sums.buckets
        ]

    return _csv("usage.csv", header, lines)


@OPERATIONS.add("usage.requests", "GET", "usage/requests", None, query=RequestsPageQuery)
async def _requests(call: AdminCall) -> RequestsPage:
    """Requests of the usage log, newest first; a key without a role sees its own."""
    query: RequestsPageQuery = call.query
    rows = msgspec.structs.replace(_rows_query(call, query), limit=query.limit, before=_cursor(query.before))
    await call.runtime.accounting.usage_log.flush()
    page = await call.runtime.store.find_rows(rows)
    next = None if page.next is None else f"{page.next[0]!r},{page.next[1]}"
    return RequestsPage(requests=tuple(map(_view, page.rows)), next=next)


@OPERATIONS.add(
    "usage.requests-csv", "GET", "usage/requests.csv", None, query=RequestsFilter, content_type=CSV, result=str
)
async def _requests_csv(call: AdminCall) -> GatewayResponse:
    """The same requests as CSV, all pages."""
    query = msgspec.structs.replace(_rows_query(call, call.query), limit=EXPORT_PAGE)
    await call.runtime.accounting.usage_log.flush()
    store = call.runtime.store
    fields = [name for name in UsageRow.__struct_fields__ if name != "losses"]
    header = [name if name != "cost" else "dollars" for name in fields]

    async def lines() -> AsyncIterator[list[Sequence[Any]]]:
        page_query, count = query, 0
        while count < MAX_EXPORT:
            page = await store.find_rows(page_query)
            yield [_cells(row, fields) for row in page.rows]
            count += len(page.rows)
            if page.next is None:
                return
            page_query = msgspec.structs.replace(page_query, before=page.next)

    return _csv("requests.csv", header, lines)


@OPERATIONS.add("usage.request", "GET", "usage/requests/{name}", None)
async def _request(call: AdminCall) -> RequestView:
    """One request, with its attempts if this worker knows them."""
    await call.runtime.accounting.usage_log.flush()
    row = await call.runtime.store.row(call.name)
    principal = call.principal
    owned = {key.id for key in call.runtime.keys.all if principal.owns(key)}
    if row is None or not (principal.may_view or row.key in owned):
        raise NameNotFound(f"there is no request {call.name[:200]!r}; rows are kept for 90 days")
    details = call.runtime.accounting.recent.attempts(row.id)
    return msgspec.structs.replace(_view(row), attempt_details=details)


@OPERATIONS.add("usage.bodies", "GET", "usage/requests/{name}/bodies", "admin")
async def _bodies(call: AdminCall) -> StoredBodies:
    """What the client of one request sent and got, if the config has a table [bodies]."""
    bodies = await read_bodies(call.runtime.store, call.name)
    if bodies is None:
        why = "bodies are stored only if the config has a table [bodies]" if call.runtime.config.bodies is None else ""
        raise NameNotFound(f"there are no bodies of the request {call.name[:200]!r}; {why or 'they may be deleted'}")
    return bodies


# Helpers --------------------------------------------------------------------------------------------------------------


def _own_key(call: AdminCall, query: Range) -> dict[UsageGroup, str]:
    """A filter for who may not see everything: one of their own keys."""
    principal = call.principal
    if principal.may_view or principal.key is None:
        return {}
    name = query.key or principal.key.id
    if not any(key.id == name and principal.owns(key) for key in call.runtime.keys.all):
        raise Forbidden(f"{principal.name!r} may not see the usage of the key {name[:64]!r}")
    return {"key": name}


def _rows_query(call: AdminCall, query: RequestsFilter) -> RowsQuery:
    first, last = query.times(time.time())
    names = (*GROUPS, "outcome", "dialect")
    values: dict[str, str | None] = {name: getattr(query, name) for name in names}
    filters = {name: value for name, value in values.items() if value is not None}
    filters |= {str(name): value for name, value in _own_key(call, query).items()}
    return RowsQuery(first=first, last=last, filters=filters, status=query.status or None)


def _moment(name: str, text: str, now: float) -> float:
    if ago := re.fullmatch(r"(\d{1,9})([smhdw])", text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = float(text) if re.fullmatch(r"\d{1,12}(\.\d+)?", text) else datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if isinstance(moment, datetime):
        moment = None if moment.tzinfo is None or moment.year > 9000 else moment.timestamp()
    if moment is None:
        expected = "seconds since the epoch, a time such as 2027-01-31T00:00:00Z, or how long ago, such as 24h"
        raise InvalidRequest(f"{name} must be {expected}, got {text[:40]!r}", param=name)
    return moment


def _cursor(text: str) -> tuple[float, str] | None:
    if not text:
        return None
    moment, comma, id = text.partition(",")
    if not comma or not re.fullmatch(r"\d{1,12}(\.\d+)?(e[+-]?\d{1,3})?", moment):
        raise InvalidRequest(f"before must be the next of a page, got {text[:40]!r}", param="before")
    return float(moment), id


def _view(row: UsageRow) -> RequestView:
    fields = UsageRow.__struct_fields__
    return RequestView(**{name: getattr(row, name) for name in RequestView.__struct_fields__ if name in fields})


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _cells(value: msgspec.Struct, fields: Iterable[str]) -> list[Any]:
    return [_cell(name, getattr(value, name)) for name in fields]


def _cell(name: str, value: Any) -> Any:
    match name, value:
        case "cost", int():
            return f"{value / NANODOLLARS:.9f}"
        case "started_at", float():
            return _iso(value)
        case _:
            return value


def _csv(name: str, header: Sequence[str], lines: Callable[[], AsyncIterator[list[Sequence[Any]]]]) -> GatewayResponse:
    """A CSV file, written page by page."""

    async def body(write: Write) -> None:
        await write(_encode_lines([header]))
        async for page in lines():
            if page:
                await write(_encode_lines(page))

    headers = [("content-type", CSV), ("content-disposition", f'attachment; filename="{name}"')]
    return GatewayResponse(200, [*headers, ("cache-control", "no-store")], body)


def _encode_lines(lines: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([map(_safe, line) for line in lines])
    return text.getvalue().encode()


def _safe(value: Any) -> Any:
    """A cell that a spreadsheet does not take for a formula: clients choose the names of models and users."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
