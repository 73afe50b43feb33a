"""Request contexts without an HTTP request, for tests of the accounting."""

from collections.abc import Mapping, Sequence
from functools import cache

from dragoman import wires
from dragoman.engine.failover import ChainOptions
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.catalog import TargetChoice
from dragoman.gateway.config import Config
from dragoman.gateway.request import RequestContext
from dragoman.gateway.runtime import Runtime
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request


@cache
def runtime() -> Runtime:
    return Runtime(Config(), {})


def context_of(
    id: str,
    *,
    model: str = "fast",
    request: Request | None = None,
    key: Key | None = None,
    dialect: str | None = None,
    targets: Sequence[Target] = (),
    headers: Mapping[str, str] | None = None,
) -> RequestContext:
    context = RequestContext(runtime(), HttpRequest(method="POST", path="/", headers=dict(headers or {})))
    context.id = context.usage_id = id
    context.model = model
    context.request = request or Request()
    context.key = key
    context.wire = None if dialect is None else wires.get(dialect)
    context.choice = TargetChoice(tuple(targets), ChainOptions())
    return context
