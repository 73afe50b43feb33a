"""Rows that are added up together give the same sums as row by row."""

from collections import Counter
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.store.base import UsageRow, row_counts
from dragoman.gateway.store.row_sums import sum_rows
from dragoman.gateway.store.usage_queries import COUNTS, HourName, hour_name, hour_of, ledger_counts, row_latencies

NUMBERS = st.none() | st.integers(0, 10**15)
SECONDS = st.none() | st.floats(0, 10**6)
ROWS = st.lists(
    st.builds(
        UsageRow,
        id=st.just("req_1"),
        started_at=st.sampled_from((1_794_873_599.9, 1_794_873_600.0, 1_794_877_199.0, 1_794_877_200.0)),
        key=st.sampled_from((None, "alice")),
        model=st.sampled_from(("fast", "groq/llama")),
        target=st.sampled_from((None, "groq/llama")),
        user=st.sampled_from((None, "u1")),
        outcome=st.sampled_from(("served", "served", "failed", "refused", "client_disconnected", "other")),
        input=NUMBERS,
        output=NUMBERS,
        cache_read=NUMBERS,
        cost=NUMBERS,
        duration=SECONDS,
        time_to_first_token=SECONDS,
    )
)


@given(ROWS)
def test_the_sums_of_a_write_are_those_of_its_rows(rows: list[UsageRow]) -> None:
    hours: dict[tuple[int, HourName], list[int]] = {}
    times: dict[tuple[int, HourName], Counter[tuple[int, int]]] = {}
    days: dict[tuple[str, str | None, str, str | None], Counter[str]] = {}
    for row in rows:
        hour = hours.setdefault((hour_of(row), hour_name(row)), [0] * len(COUNTS))
        hour[:] = map(add, hour, ledger_counts(row))
        times.setdefault((hour_of(row), hour_name(row)), Counter()).update(row_latencies(row))
        days.setdefault((row.day, row.key, row.model, row.target), Counter()).update(row_counts(row))

    hours_together: dict[tuple[int, HourName], list[int]] = {}
    times_together: dict[tuple[int, HourName], Counter[tuple[int, int]]] = {}
    days_together: dict[tuple[str, str | None, str, str | None], Counter[str]] = {}
    for each in sum_rows(rows):
        key, _, model, target, _ = each.name
        hour = hours_together.setdefault((each.hour, each.name), [0] * len(COUNTS))
        hour[:] = map(add, hour, each.counts)
        times_together.setdefault((each.hour, each.name), Counter()).update(each.latencies)
        days_together.setdefault((each.day, key, model, target), Counter()).update(each.day_counts)

    assert hours_together == hours
    assert times_together == times
    assert days_together == days
