"""Log probabilities of tokens, in the form that OpenAI and Ollama share."""

import math
from collections.abc import Iterable

from dragoman.types import JsonObject, TokenLogprob, is_list, is_object
from dragoman.types.fast_constructors import new_logprob
from dragoman.wires.common.json import whole_number


def read_logprobs(items: object, /) -> list[TokenLogprob]:
    """The tokens of a list in OpenAI's form, which Ollama has, too; items without a token or a number are left out.

    >>> read_logprobs([{"token": "a", "logprob": -1, "top_logprobs": []}])[0].logprob
    -1.0
    """
    tokens = [_read_token(item) for item in items] if is_list(items) else []
    return [token for token in tokens if token is not None]


def _read_token(item: object) -> TokenLogprob | None:
    if not is_object(item):
        return None
    text, number, data = item.get("token"), item.get("logprob"), item.get("bytes")
    if not isinstance(text, str) or isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not math.isfinite(number):
        return None
    return new_logprob(
        token=text,
        logprob=float(number),
        id=whole_number(item.get("token_id")),
        bytes=_read_bytes(data),
        top=tuple(read_logprobs(item.get("top_logprobs"))),
    )


def _read_bytes(data: object) -> tuple[int, ...] | None:
    if not is_list(data) or not all(isinstance(byte, int) and 0 <= byte < 256 for byte in data):
        return None
    return tuple(data)


def write_logprobs(tokens: Iterable[TokenLogprob], /) -> list[JsonObject]:
    """The inverse of `read_logprobs`.

    >>> write_logprobs((TokenLogprob(token="a", logprob=-1.0),))
    [{'token': 'a', 'logprob': -1.0, 'bytes': None, 'top_logprobs': []}]
    """
    return [{**_write_token(token), "top_logprobs": [_write_token(other) for other in token.top]} for token in tokens]


def _write_token(token: TokenLogprob) -> JsonObject:
    data = None if token.bytes is None else list(token.bytes)
    return {"token": token.token, "logprob": token.logprob, "bytes": data}
