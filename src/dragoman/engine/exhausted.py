"""The errors and attempts of a chain in, the one error that ends it out: also of the class that they have in common."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from dragoman.errors import ChainExhausted, DragomanError, Interrupted
from dragoman.types import Attempt, Usage, add_usage
from dragoman.wires.common.errors import copy_notes, shorten

_FLAT = frozenset({*vars(ChainExhausted("")), "partial", "__notes__"})
"""The facts that an exhausted chain has of its own."""


def exhausted(
    errors: Sequence[DragomanError],
    attempts: Sequence[Attempt],
    /,
    *,
    retry_after: float | None = None,
    kind: type[DragomanError] | None = None,
) -> ChainExhausted:
    """The error of a chain that is at its end: it names every target and why, and has the last error's own facts.

    >>> error = exhausted([Interrupted("cut")], [Attempt(target="aa/m", outcome="failed", error="Interrupted: cut")])
    >>> str(error), isinstance(error, Interrupted)
    ('no target answered: aa/m failed (Interrupted: cut)', True)
    """
    told = "; ".join(f"{one.target} {one.outcome} ({shorten(one.error or '')})" for one in attempts)
    last = errors[-1] if errors else None
    error = (exhausted_as(errors) if kind is None else _also(kind))(
        f"no target answered: {told or 'there is none'}",
        attempts=tuple(attempts),
        provider=last.provider if last else None,
        model=last.model if last else None,
        status=last.status if last else None,
        code=last.code if last else None,
        retry_after=retry_after,
        usage=paid(errors),
    )
    if last is not None and isinstance(error, type(last)):
        vars(error).update({name: value for name, value in vars(last).items() if name not in _FLAT})
    if isinstance(error, Interrupted):
        error.partial = next(old.partial for old in reversed(errors) if isinstance(old, Interrupted))
    return copy_notes(error, errors)


def exhausted_as(errors: Sequence[DragomanError], /) -> type[ChainExhausted]:
    """The class of an exhausted chain: also the nearest that all its errors have in common.

    Where events were shown and voided by nothing, it is also an interruption.

    >>> from dragoman.errors import EmptyResponse, ProviderError, RateLimited, ServerFault
    >>> issubclass(exhausted_as([EmptyResponse("blank")]), EmptyResponse)
    True
    >>> issubclass(exhausted_as([RateLimited("slow"), ServerFault("boom")]), ProviderError)
    True
    """
    kinds = [type(error) for error in errors]
    if any(issubclass(kind, Interrupted) for kind in kinds):
        return _also(Interrupted)
    shared = [kind for kind in kinds[0].__mro__ if all(issubclass(other, kind) for other in kinds)] if kinds else []
    return _also(shared[0]) if shared and shared[0] is not DragomanError else ChainExhausted


def _also(kind: type[DragomanError]) -> type[ChainExhausted]:
    return _made(kind)  # type: ignore[arg-type]  # mypy takes the hash of its instances for that of the class


@cache
def _made(kind: type[DragomanError]) -> type[ChainExhausted]:
    def reduce(error: ChainExhausted) -> tuple[Any, ...]:
        return _revive, (kind, error.message, vars(error))

    return type(
        f"{kind.__name__}ByAll",
        (ChainExhausted, kind),
        {"__doc__": kind.__doc__, "__reduce__": reduce, "http_status": kind.http_status, "__module__": __name__},
    )


def _revive(kind: type[DragomanError], message: str, facts: dict[str, Any]) -> ChainExhausted:
    """One that was pickled: its class is made when it is needed."""
    error = _also(kind)(message)
    vars(error).update(facts)
    return error


def paid(errors: Sequence[DragomanError], /) -> Usage | None:
    """What all failures together used, as far as it was told.

    >>> paid([DragomanError("cut", usage=Usage(input=3)), DragomanError("cut", usage=Usage(input=4, output=1))]).input
    7
    """
    usages = [error.usage for error in errors if error.usage is not None]
    if len(usages) < 2:
        return usages[0] if usages else None
    return replace(add_usage(usages), source="partial")
