"""A request that is passed through: its key, its head, its bytes."""

from typing import Any

import pytest

from dragoman.engine.call_context import Timeouts
from dragoman.engine.effects import Emit, Now, Open, OpenResponse, Read, Sign
from dragoman.engine.pass_through import pass_through
from dragoman.errors import AuthFailed
from dragoman.http import Head, HttpRequest
from dragoman.targets.target import Target

HTTP = HttpRequest(method="POST", path="/v1/images", origin="https://x", body=b"{}")
TARGET = Target(provider="p", model="m", wire="openai_chat", base_url="https://x/v1", api_key="k")


def answer(status: int) -> OpenResponse:
    return OpenResponse(Head(status=status), None)


def test_the_head_comes_first_and_then_the_bytes() -> None:
    plan = pass_through(HTTP, TARGET, Timeouts(total=9, first_event=3))
    assert next(plan) == Now()
    opened: Any = plan.send(0.0)
    assert (type(opened), opened.request, opened.head_timeout, opened.total_timeout) == (Open, HTTP, 3, 9)
    head = plan.send(answer(418))
    assert isinstance(head, Emit)
    assert head.events == (Head(status=418),)
    assert isinstance(next(plan), Read)
    data = plan.send(b"abc")
    assert isinstance(data, Emit)
    assert data.events == (b"abc",)
    next(plan)
    with pytest.raises(StopIteration):
        plan.send(b"")


def test_a_key_that_can_be_renewed_is_renewed_once() -> None:
    target = Target(provider="p", model="m", wire="openai_chat", base_url="https://x/v1", credential=object())
    plan = pass_through(HTTP, target, Timeouts())
    effect: Any = next(plan)
    results: list[Any] = [0.0, 0.0, HttpRequest(method="POST", path="/", secret="one"), answer(401)]
    for result in results:
        effect = plan.send(result)
    assert type(effect) is Now
    effect = plan.send(0.0)
    assert (type(effect), effect.rejected) == (Sign, "one")
    assert type(plan.send(HttpRequest(method="POST", path="/", secret="two"))) is Open
    with pytest.raises(AuthFailed, match="p refused the request"):
        plan.send(answer(403))
