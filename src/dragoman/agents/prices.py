"""A response in, what it cost in dollars out, by the prices of the package genai-prices."""

from importlib import import_module

from dragoman.errors import SetupError, Unsupported
from dragoman.types import Response


def price(response: Response, /) -> float:
    """What a response cost; Unsupported where no price of its model is known, SetupError without the package.

    >>> from dragoman.types import Finish, Usage, assistant
    >>> usage = Usage(input=1_000_000, output=0)
    >>> answer = Response(message=assistant("hi"), finish=Finish(reason="stop"), target="openai/gpt-4o", usage=usage)
    >>> price(answer) > 0
    True
    """
    check_installed()
    from genai_prices import Usage, calc_price

    provider, _, model = (response.target or "").partition("/")
    used = response.usage
    counted = Usage(
        input_tokens=used.input,
        output_tokens=used.output,
        cache_read_tokens=used.cache_read,
        cache_write_tokens=used.cache_write,
    )
    for place in (provider, None):
        try:
            return float(calc_price(counted, model, provider_id=place).total_price)
        except (LookupError, ValueError):
            continue
    raise Unsupported(f"{response.target}: no price is known; pass Budget(price=…) with a function of the response")


def check_installed() -> None:
    """SetupError where the package is not there."""
    try:
        import_module("genai_prices")
    except ImportError as error:
        why = "a budget of money needs prices; pip install 'dragoman[prices]', or pass Budget(price=…)"
        raise SetupError(why) from error
