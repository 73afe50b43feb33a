"""Drives plans by hand: next(), send() and throw() against a scripted world. No socket, no clock, no sleep."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dragoman.engine.effects import (
    Claim,
    Compute,
    Effect,
    Emit,
    Fetch,
    Job,
    JobGroup,
    JobResult,
    NextResult,
    Now,
    Observe,
    Open,
    OpenResponse,
    Plan,
    Random,
    Read,
    Recall,
    RecallAll,
    Remember,
    Send,
    Sign,
    Sleep,
    StartJobs,
    StartPlans,
)
from dragoman.http import Head, HttpResponse
from dragoman.targets.target import Capabilities, Target

T = TypeVar("T")


class Wait(NamedTuple):
    """Time that passes before the next thing happens."""

    seconds: float


class Status(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes = b"{}"
    headers: dict[str, str] = {}


Piece: TypeAlias = bytes | Exception | Wait
Script: TypeAlias = Status | Exception | Sequence[Piece]
"""What happens at one request: an answer, a failure, or what comes of a stream, piece by piece."""


def target(name: str, **changes: Any) -> Target:
    """A target of the ollama wire: its bodies and lines are the shortest."""
    provider, _, model = name.partition("/")
    facts: dict[str, Any] = {"capabilities": Capabilities(documents=False), **changes}
    return Target(provider=provider, model=model, wire="ollama", base_url=f"http://{provider}", **facts)


def last_line(text: str, **more: object) -> bytes:
    """A whole answer, and the last line of a streamed one."""
    return json.dumps({"message": {"content": text}, "done": True, "done_reason": "stop", **more}).encode() + b"\n"


def line(text: str, **message: object) -> bytes:
    """A piece of a streamed answer."""
    return json.dumps({"message": {"content": text, **message}, "done": False}).encode() + b"\n"


OK = Status(200, last_line("fine"))
EMPTY = Status(200, last_line(""))


class World:
    """Answers the effects of a plan and records them. Scripts are used in order; `by` has those of single targets."""

    def __init__(self, *scripts: Script, now: float = 100.0, random_number: float = 1.0, **by: list[Script]) -> None:
        self.now = now
        self.random_number = random_number
        self.scripts = list(scripts)
        self.by = by
        self.requests: list[Send | Open] = []
        self.reads: list[float | None] = []
        self.slept: list[float] = []
        self.shown: list[Any] = []
        self.observed: list[Any] = []
        self.pictures: dict[str, bytes | Exception] = {}
        self.fetched: list[Fetch] = []
        self.computed = 0
        self.jobs: list[tuple[Job, ...]] = []

    @property
    def hosts(self) -> list[str]:
        """The providers that were called, in order."""
        return [effect.request.origin.removeprefix("http://") for effect in self.requests]

    def run(self, plan: Plan[T], pending: Effect | None = None) -> T:
        """The plan's result; `pending` is the effect that `until` returned."""
        answer: Any = None if pending is None else self.perform(pending)
        failure: Exception | None = None
        while True:
            try:
                effect = plan.send(answer) if failure is None else plan.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = failure = None
            try:
                answer = self.perform(effect)
            except Exception as error:  # noqa: BLE001 - as a driver does: the plan decides
                failure = error

    def until(self, plan: Plan[Any], kind: type[Effect]) -> Effect:
        """Run until the plan asks for something of a kind; that is left unanswered."""
        answer: Any = None
        while not isinstance(effect := plan.send(answer), kind):
            answer = self.perform(effect)
        return effect

    def perform(self, effect: Effect) -> Any:
        match effect:
            case Now():
                return self.now
            case Random():
                return self.random_number
            case Sleep():
                self.slept.append(effect.seconds)
                self.now += effect.seconds
            case Send() | Open():
                return self.answer(effect)
            case Sign():
                return effect.target.credential.sign(effect)
            case Read():
                self.reads.append(effect.timeout)
                return self.read(effect.response.handle)
            case Emit():
                self.shown += effect.events
            case Observe():
                self.observed.append(effect.what)
            case Compute():
                self.computed += 1
                return effect.function(lambda: False)
            case Fetch():
                self.fetched.append(effect)
                found = self.pictures[effect.url]
                if isinstance(found, Exception):
                    raise found
                return found
            case Recall() | RecallAll() | Remember() | Claim():
                return None
            case StartJobs():
                self.jobs.append(effect.jobs)
                return JobGroup([(number, self.outcome(job)) for number, job in enumerate(effect.jobs)])
            case StartPlans():
                jobs = [Job(partial(self.run, plan)) for plan in effect.plans]
                return JobGroup([(number, self.outcome(job)) for number, job in enumerate(jobs)])
            case NextResult():
                return effect.group.handle.pop(0)
        return None

    def outcome(self, job: Job) -> JobResult:
        """A job, run on the spot; what it takes is what the clock says."""
        began = self.now
        try:
            return JobResult(value=job.function(), duration=self.now - began)
        except Exception as error:  # noqa: BLE001 - as a driver does
            return JobResult(error=error, duration=self.now - began)

    def answer(self, effect: Send | Open) -> HttpResponse | OpenResponse:
        self.requests.append(effect)
        host = self.hosts[-1]
        script = self.by[host].pop(0) if host in self.by else self.scripts.pop(0)
        match script:
            case Status():
                head = Head(status=script.status, headers=script.headers)
                if isinstance(effect, Send):
                    return HttpResponse(status=script.status, headers=script.headers, body=script.body)
                return OpenResponse(head, iter([script.body]))
            case Exception():
                raise script
            case _:
                return OpenResponse(Head(status=200), iter(script))

    def read(self, pieces: Iterator[Piece]) -> bytes:
        for piece in pieces:
            match piece:
                case Wait():
                    self.now += piece.seconds
                case Exception():
                    raise piece
                case bytes():
                    return piece
        return b""
