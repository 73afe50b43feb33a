"""Mutated requests to every route: never a 5xx, an error in the log or a stall. `make fuzz` sends more of them."""

import asyncio

import pytest

from tests.support.gateway.route_fuzz import RouteFuzzer, find

REQUESTS = 3000


def test_no_request_breaks_the_gateway() -> None:
    _, findings = asyncio.run(find(RouteFuzzer(), iter(range(REQUESTS))))
    assert not findings, "\n".join(map(str, findings))


def test_every_route_gets_requests() -> None:
    fuzzer = RouteFuzzer()
    paths = {route.path for route, _ in fuzzer.routes}
    assert {fuzzer.case(number).route.path for number in range(len(fuzzer.routes))} == paths


def test_a_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer = RouteFuzzer()

    def crash(_: object) -> object:
        raise KeyError("crash")

    monkeypatch.setattr(fuzzer.app, "_find", crash)
    _, findings = asyncio.run(find(fuzzer, iter(range(5))))
    assert "KeyError" in findings[0].problem
