"""Mutated requests to every route: never a 5xx, an error in the log or a stall. `make fuzz` sends more of them."""

import asyncio
import json

import pytest

from dragoman.http import HttpRequest
from tests.support.gateway.route_fuzz import KEY, RouteFuzzer, find

REQUESTS = 3000


def test_no_request_breaks_the_gateway() -> None:
    _, findings = asyncio.run(find(RouteFuzzer(), iter(range(REQUESTS))))
    assert not findings, "\n".join(map(str, findings))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"model": "demo/any", "input": [{"type": {"type": "x"}, "id": "a"}]}),
        ("/v1beta/models/demo/any:streamGenerateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
    ],
    ids=["the type of an item is an object", "a stream of Gemini that is a JSON list"],
)
def test_what_the_fuzzer_found(path: str, body: object) -> None:
    fuzzer = RouteFuzzer()
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json", "host": "localhost"}
    http = HttpRequest(method="POST", path=path, headers=headers, body=json.dumps(body).encode())
    finding = asyncio.run(fuzzer.run(fuzzer.case(0)._replace(http=http)))
    assert finding is None, str(finding)


def test_every_route_gets_requests() -> None:
    fuzzer = RouteFuzzer()
    paths = {route.path for route, _ in fuzzer.routes}
    assert {fuzzer.case(number).route.path for number in range(len(fuzzer.routes))} == paths


def test_a_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer = RouteFuzzer()

    def crash(_: object) -> object:
        raise KeyError("crash")

    monkeypatch.setattr(fuzzer.app, "_find_route", crash)
    _, findings = asyncio.run(find(fuzzer, iter(range(5))))
    assert "KeyError" in findings[0].problem
