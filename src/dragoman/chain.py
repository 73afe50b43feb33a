"""A request and some targets in, the first good response out: skip, retry, go on. A plan."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from dragoman.call import Timeouts, call
from dragoman.errors import ChainExhausted, DragomanError, EmptyResponse, Interrupted, TimedOut
from dragoman.flow import Dice, Flow, Now, Observe, Sleep
from dragoman.health import Health
from dragoman.target import Target
from dragoman.types import Attempt, Request, Response

Outcome: TypeAlias = Literal["served", "failed", "skipped"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault means for what happens next.

    >>> Verdict(transient=True, advance=True, penalise=True).advance
    True
    """

    transient: bool
    advance: bool
    penalise: bool


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a chain behaves.

    >>> Options().retries
    1
    """

    retries: int = 1
    patience: float = 5.0
    """A wait that a provider asks for and that is longer than this benches it, where another target is left."""
    backoff: float = 0.25
    backoff_cap: float = 4.0
    advance_on_permanent: bool = False
    when_all_benched: Literal["fail", "probe"] = "fail"
    classify: Callable[[DragomanError], Verdict | None] | None = None
    timeouts: Timeouts = Timeouts()


def judge(error: DragomanError, options: Options, /) -> Verdict:
    """The verdict on a fault: the caller's, or what the error itself says.

    >>> judge(TimedOut("slow"), Options()).transient
    True
    """
    if options.classify is not None and (verdict := options.classify(error)) is not None:
        return verdict
    advance = error.advance or (options.advance_on_permanent and not isinstance(error, Interrupted))
    return Verdict(transient=error.transient, advance=advance, penalise=error.penalise)


def run(request: Request, targets: Sequence[Target], health: Health, options: Options, /) -> Flow[Response]:
    """Head to tail: the first target that answers."""
    return (yield from _Chain(request, targets, health, options).run())


class _Chain:
    def __init__(self, request: Request, targets: Sequence[Target], health: Health, options: Options) -> None:
        self._request = request
        self._targets = targets
        self._health = health
        self._options = options
        self._attempts: list[Attempt] = []
        self._errors: list[DragomanError] = []
        self._deadline: float | None = None

    def run(self) -> Flow[Response]:
        now: float = yield Now()
        total = self._options.timeouts.total
        self._deadline = None if total is None else now + total
        for index, target in enumerate(self._targets):
            now = yield Now()
            if not self._health.admit(target.name, now):
                yield from self._skip(target)
                continue
            others = len(self._targets) - index - 1
            response = yield from self._try(target, others)
            if response is not None:
                return response
        if len(self._attempts) == len(self._benched()) and self._options.when_all_benched == "probe":
            response = yield from self._try(self._soonest(), 0)
            if response is not None:
                return response
        raise (yield from self._exhausted())

    def _try(self, target: Target, others: int) -> Flow[Response | None]:
        """One target, with retries; None means go on, and what must stop is raised."""
        for retry in range(self._options.retries + 1):
            began: float = yield Now()
            if self._deadline is not None and began >= self._deadline:
                self._health.let_go(target.name)
                raise self._with_receipt(TimedOut("the deadline of the call has passed"))
            try:
                response = yield from call(self._request, target, self._options.timeouts, self._deadline)
            except DragomanError as error:
                wait = yield from self._failed(target, error, began, others, last=retry == self._options.retries)
                if wait is None:
                    return None
                yield Sleep(wait)
            except BaseException:
                self._health.let_go(target.name)
                raise
            else:
                ended: float = yield Now()
                self._health.served(target.name, ended - began)
                yield from self._note(target, "served", None, ended - began, response)
                return msgspec.structs.replace(response, attempts=tuple(self._attempts))
        return None

    def _failed(
        self, target: Target, error: DragomanError, began: float, others: int, *, last: bool
    ) -> Flow[float | None]:
        """Note a failure: seconds until the same target is tried again, None to go on; what must stop is raised."""
        now: float = yield Now()
        verdict = judge(error, self._options)
        yield from self._note(target, "failed", error, now - began, None)
        self._errors.append(error)
        benched = False
        if verdict.penalise:
            benched = self._health.failed(target.name, now, error.message)
        else:
            self._health.let_go(target.name)
        if not verdict.advance and not verdict.transient:
            raise self._with_receipt(error)
        if not verdict.transient or benched or last:
            return self._go_on(error, verdict)
        if error.retry_after is not None:
            return self._obey(target, error.retry_after, now, others, error)
        dice: float = yield Dice()
        return self._fit_deadline(dice * self._backoff(), now)

    def _go_on(self, error: DragomanError, verdict: Verdict) -> None:
        if not verdict.advance:
            raise self._with_receipt(error)

    def _obey(self, target: Target, wait: float, now: float, others: int, error: DragomanError) -> float | None:
        """A provider's own wish: bench it until then where it is long and another is left."""
        if wait > self._options.patience:
            self._health.rest(target.name, now + wait, error.message)
            return None
        return self._fit_deadline(wait, now)

    def _fit_deadline(self, wait: float, now: float) -> float | None:
        return None if self._deadline is not None and now + wait >= self._deadline else wait

    def _backoff(self) -> float:
        tries = len(self._errors) - 1
        return min(self._options.backoff_cap, self._options.backoff * 2 ** min(tries, 10))

    def _skip(self, target: Target) -> Flow[None]:
        condition = self._health.snapshot()[target.name]
        why = f"benched: {condition.reason}"
        attempt = Attempt(target=target.name, outcome="skipped", error=why)
        self._attempts.append(attempt)
        yield Observe(attempt)

    def _note(
        self, target: Target, outcome: Outcome, error: DragomanError | None, duration: float, response: Response | None
    ) -> Flow[None]:
        told = None if error is None else f"{type(error).__name__}: {error.message}"
        usage = response.usage if response is not None else error.usage if error is not None else None
        attempt = Attempt(target=target.name, outcome=outcome, error=told, duration=duration)
        if usage is not None:
            attempt = msgspec.structs.replace(attempt, usage=usage)
        self._attempts.append(attempt)
        yield Observe(attempt)

    def _benched(self) -> list[Target]:
        return [target for target in self._targets if self._health.until(target.name) is not None]

    def _soonest(self) -> Target:
        return min(self._targets, key=lambda target: self._health.until(target.name) or 0.0)

    def _with_receipt(self, error: DragomanError) -> DragomanError:
        error.attempts = tuple(self._attempts)
        return error

    def _exhausted(self) -> Flow[DragomanError]:
        now: float = yield Now()
        told = "; ".join(f"{attempt.target} {attempt.outcome} ({attempt.error})" for attempt in self._attempts)
        waits = [until - now for target in self._targets if (until := self._health.until(target.name)) is not None]
        soonest = max(0.0, min(waits)) if len(waits) == len(self._targets) else None
        last = self._errors[-1] if self._errors else None
        return exhausted_as(self._errors)(
            f"every target failed or was skipped: {told}",
            attempts=tuple(self._attempts),
            retry_after=soonest,
            status=last.status if last else None,
            code=last.code if last else None,
            usage=last.usage if last else None,
        )


def exhausted_as(errors: Sequence[DragomanError], /) -> type[ChainExhausted]:
    """The class of an exhausted chain: also that of its errors, where they are all of one.

    >>> issubclass(exhausted_as([EmptyResponse("blank")]), EmptyResponse)
    True
    """
    kinds = {type(error) for error in errors}
    if len(kinds) != 1:
        return ChainExhausted
    (kind,) = kinds
    return type(f"{kind.__name__}ByAll", (ChainExhausted, kind), {"__doc__": kind.__doc__})
