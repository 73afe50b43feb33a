"""The error that ends a chain in which no target answered.

It is a `ChainExhausted` and also of the class that the errors of all targets have in common, so that
`except RateLimited` works for one target and for several. Such classes are created when they are needed, and have the
name of the class that the errors share.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from dragoman.errors import ChainExhausted, DragomanError, Interrupted
from dragoman.types import Attempt, Usage, add_usage
from dragoman.wires.common.errors import copy_notes, shorten

_NOT_COPIED = frozenset({*vars(ChainExhausted("")), "partial", "__notes__"})
"""Attributes that are not copied from the last error."""


def exhausted(
    errors: Sequence[DragomanError],
    attempts: Sequence[Attempt],
    /,
    *,
    retry_after: float | None = None,
    kind: type[DragomanError] | None = None,
) -> ChainExhausted:
    """The error of a chain: it names every target and its reason, and has the attributes of the last error.

    >>> error = exhausted([Interrupted("cut")], [Attempt(target="aa/m", outcome="failed", error="Interrupted: cut")])
    >>> str(error), isinstance(error, Interrupted)
    ('no target answered: aa/m failed (Interrupted: cut)', True)
    """
    reasons = "; ".join(f"{each.target} {each.outcome} ({shorten(each.error or '')})" for each in attempts)
    last = errors[-1] if errors else None
    error = (exhausted_class(errors) if kind is None else _combined_class(kind))(
        f"no target answered: {reasons or 'the chain has no targets'}",
        attempts=tuple(attempts),
        provider=last.provider if last else None,
        model=last.model if last else None,
        status=last.status if last else None,
        code=last.code if last else None,
        retry_after=retry_after,
        usage=total_usage(errors),
    )
    if last is not None:
        error.annotate(request_id=last.request_id, rate_limits=dict(last.rate_limits))
    if last is not None and isinstance(error, type(last)):
        vars(error).update({name: value for name, value in vars(last).items() if name not in _NOT_COPIED})
    if isinstance(error, Interrupted):
        error.annotate(partial=next(old.partial for old in reversed(errors) if isinstance(old, Interrupted)))
    return copy_notes(error, errors)


def exhausted_class(errors: Sequence[DragomanError], /) -> type[ChainExhausted]:
    """A subclass of `ChainExhausted` and of the nearest class that all errors have in common.

    If events were emitted, it is a subclass of `Interrupted`.

    >>> from dragoman.errors import EmptyResponse, ProviderError, RateLimited, ServerFault
    >>> issubclass(exhausted_class([EmptyResponse("blank")]), EmptyResponse)
    True
    >>> issubclass(exhausted_class([RateLimited("slow"), ServerFault("boom")]), ProviderError)
    True
    """
    kinds = [type(error) for error in errors]
    if any(issubclass(kind, Interrupted) for kind in kinds):
        return _combined_class(Interrupted)
    shared = [kind for kind in kinds[0].__mro__ if all(issubclass(other, kind) for other in kinds)] if kinds else []
    return _combined_class(shared[0]) if shared and shared[0] is not DragomanError else ChainExhausted


def _combined_class(kind: type[DragomanError]) -> type[ChainExhausted]:
    return _create_class(kind)  # type: ignore[arg-type]  # mypy takes the hash of its instances for that of the class


@cache
def _create_class(kind: type[DragomanError]) -> type[ChainExhausted]:
    def reduce(error: ChainExhausted) -> tuple[Any, ...]:
        return _unpickle, (kind, error.message, vars(error))

    return type(
        kind.__name__,
        (ChainExhausted, kind),
        {"__doc__": kind.__doc__, "__reduce__": reduce, "http_status": kind.http_status, "__module__": kind.__module__},
    )


def _unpickle(kind: type[DragomanError], message: str, attributes: dict[str, Any]) -> ChainExhausted:
    error = _combined_class(kind)(message)
    vars(error).update(attributes)
    return error


def total_usage(errors: Sequence[DragomanError], /) -> Usage | None:
    """The usage of all errors together, as far as it is known.

    >>> total_usage([DragomanError("cut", usage=Usage(input=3)), DragomanError("cut", usage=Usage(input=4))]).input
    7
    """
    usages = [error.usage for error in errors if error.usage is not None]
    if len(usages) < 2:
        return usages[0] if usages else None
    return replace(add_usage(usages), source="partial")
