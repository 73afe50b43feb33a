"""Batches of a provider: submit rows as one job, watch it, read its results, cancel it.

A job is created once: the request is not sent again after an error, because it may have arrived. `find` looks for the
job then, and after a crash. All other requests are repeated after errors that may pass.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.effects import Plan
from dragoman.engine.endpoints import endpoint_deadline, send_endpoint
from dragoman.engine.failover import ChainOptions
from dragoman.errors import Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.wires.common.batches import Batches, EncodedRow, ProviderJob, RowResult

T = TypeVar("T")
CLOCK_SKEW = 300.0
"""Seconds that the clock of a provider may differ from ours."""


def batches_of(target: Target, /) -> Batches | None:
    """How a target runs batches; None if it has none."""
    return wires.get(target.wire).batches.get(target.quirks.batches or "")


def submit(rows: Sequence[EncodedRow], token: str, target: Target, options: ChainOptions, /) -> Plan[ProviderJob]:
    """Create a job with some rows."""
    batches = _batches(target)
    file: str | None = None
    if (upload := batches.encode_upload(rows, token, target)) is not None:
        file = yield from _send(upload, batches.decode_upload, target, options)
    http = batches.encode_job(rows, file, token, target)
    return (yield from _send(http, batches.decode_job, target, replace(options, retries=0)))


def fetch(id: str, target: Target, options: ChainOptions, /) -> Plan[ProviderJob]:
    """The state of a job."""
    batches = _batches(target)
    return (yield from _send(batches.encode_fetch(id, target), batches.decode_job, target, options))


def cancel(id: str, target: Target, options: ChainOptions, /) -> Plan[None]:
    """Cancel a job. It goes on for a while; rows that were answered before keep their results."""
    yield from _send(_batches(target).encode_cancel(id, target), lambda _: None, target, options)


def find(
    token: str, size: int, since: float, known: Collection[str], target: Target, options: ChainOptions, /
) -> Plan[ProviderJob | None]:
    """The job with a token. Where jobs have none, the only one of this size that is not older and not known."""
    batches = _batches(target)
    jobs = yield from _send(batches.encode_list(target), batches.decode_list, target, options)
    named = [job for job in jobs if job.token == token]
    if named:
        return named[0]
    like = [
        job
        for job in jobs
        if job.token is None
        and job.total == size
        and job.id not in known
        and job.created is not None
        and job.created >= since - CLOCK_SKEW
    ]
    return like[0] if len(like) == 1 else None


def results(job: ProviderJob, target: Target, options: ChainOptions, /) -> Plan[list[RowResult]]:
    """The results of a job that has ended."""
    batches = _batches(target)
    rows: list[RowResult] = []
    for place in job.results:
        rows += yield from _send(
            batches.encode_results(place, target), lambda body: [*batches.decode_results(body)], target, options
        )
    return rows


def _batches(target: Target) -> Batches:
    if (batches := batches_of(target)) is None:
        raise Unsupported(f"{target.name}: has no batches")
    return batches


def _send(http: HttpRequest, decode: Callable[[bytes], T], target: Target, options: ChainOptions) -> Plan[T]:
    deadline = yield from endpoint_deadline(options)
    return (yield from send_endpoint(lambda: http, decode, target, options, deadline))
