"""Evaluates arithmetic expressions with decimals. It has its own small parser, because `eval` would run any code."""

import re
from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)

_MAX_LENGTH = 1_000
_MAX_DEPTH = 50
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([a-z]+)|(\*\*|//|[-+*/%^(),]))")
_EXACT = Context(prec=60, Emax=9_999, Emin=-9_999, traps=[InvalidOperation, DivisionByZero, Overflow])
_NAMES = {
    "pi": Decimal("3.14159265358979323846264338327950288419716939937510582097494"),
    "e": Decimal("2.71828182845904523536028747135266249775724709369995957496697"),
}


def _round(value: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-int(places)), rounding=ROUND_HALF_EVEN, context=_EXACT)


def _floor(value: Decimal) -> Decimal:
    return value.to_integral_value(rounding=ROUND_FLOOR, context=_EXACT)


def _ceiling(value: Decimal) -> Decimal:
    return value.to_integral_value(rounding=ROUND_CEILING, context=_EXACT)


_FUNCTIONS: dict[str, Callable[..., Decimal]] = {
    "abs": _EXACT.abs,
    "ceil": _ceiling,
    "floor": _floor,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "round": _round,
    "sqrt": _EXACT.sqrt,
}
_SUMS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {"+": _EXACT.add, "-": _EXACT.subtract}
_PRODUCTS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "//": lambda left, right: _floor(_EXACT.divide(left, right)),
    "%": lambda left, right: _EXACT.subtract(left, _EXACT.multiply(_floor(_EXACT.divide(left, right)), right)),
}


def evaluate(expression: str, /) -> str:
    """Return the value of an expression as text. Raises ValueError if it is invalid.

    >>> evaluate("2 * (3 + 4) ** 2 - 1 / 4")
    '97.75'
    """
    if len(expression) > _MAX_LENGTH:
        raise ValueError(f"the expression has more than {_MAX_LENGTH} characters")
    parser = _Parser(expression)
    try:
        value = parser.parse()
    except DecimalException as error:
        raise ValueError(_PROBLEMS.get(type(error), "the value does not exist")) from error
    except TypeError as error:
        raise ValueError("a function has the wrong number of arguments") from error
    plain = value.normalize(_EXACT)
    return f"{plain:f}" if -30 < plain.adjusted() < 60 else f"{plain}"


_PROBLEMS: dict[type, str] = {DivisionByZero: "division by zero", Overflow: "the value is too large"}


class _Parser:
    """Recursive descent: a sum of products of powers of atoms."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._kind, self._token = "", ""
        self._next()

    def parse(self) -> Decimal:
        value = self._sum()
        if self._kind:
            raise self._syntax_error()
        return value

    def _next(self) -> None:
        """Go to the next token. At the end, its kind is empty."""
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            self._kind, self._token = ("?", self._text[self._at :]) if self._text[self._at :].strip() else ("", "")
            return
        self._at = token.end()
        self._kind = ("", "number", "name", "mark")[token.lastindex or 0]
        self._token = token[token.lastindex or 0]

    def _accept(self, *marks: str) -> str | None:
        word = self._token
        if self._kind != "mark" or word not in marks:
            return None
        self._next()
        return word

    def _sum(self) -> Decimal:
        value = self._product()
        while mark := self._accept(*_SUMS):
            value = _SUMS[mark](value, self._product())
        return value

    def _product(self) -> Decimal:
        value = self._sign()
        while mark := self._accept(*_PRODUCTS):
            value = _PRODUCTS[mark](value, self._sign())
        return value

    def _sign(self) -> Decimal:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("the expression is nested too deeply")
        mark = self._accept("+", "-")
        value = self._power() if mark is None else self._sign()
        self._depth -= 1
        return _EXACT.minus(value) if mark == "-" else value

    def _power(self) -> Decimal:
        value = self._atom()
        return _EXACT.power(value, self._sign()) if self._accept("**", "^") else value

    def _atom(self) -> Decimal:
        kind, word = self._kind, self._token
        if kind == "number":
            self._next()
            return _EXACT.create_decimal(word)
        if kind == "name":
            self._next()
            return self._named(word)
        if self._accept("("):
            value = self._sum()
            self._close()
            return value
        raise self._syntax_error()

    def _named(self, name: str) -> Decimal:
        if name in _NAMES:
            return _NAMES[name]
        if name not in _FUNCTIONS or self._accept("(") is None:
            raise ValueError(f"{name!r} is unknown; the names are {', '.join([*_NAMES, *_FUNCTIONS])}")
        values = [self._sum()]
        while self._accept(","):
            values.append(self._sum())
        self._close()
        return _FUNCTIONS[name](*values)

    def _close(self) -> None:
        if self._accept(")") is None:
            raise self._syntax_error()

    def _syntax_error(self) -> ValueError:
        return ValueError(f"unexpected {self._token[:20]!r}" if self._kind else "the expression ends too early")
