"""Google's form of log probabilities: the tokens of an answer, and the likely tokens at each place, in two lists."""

import math
from collections.abc import Iterable

from dragoman.types import JsonObject, TokenLogprob, is_list, is_object
from dragoman.types.fast_constructors import new_logprob
from dragoman.wires.common.json import object_of, whole_number, without_none
from dragoman.wires.google.schema import camel


def read_logprobs_result(result: object) -> list[TokenLogprob]:
    """The tokens of a `logprobsResult`; items without a token or a number are left out."""
    data = camel(object_of(result))
    places = [_candidates(place) for place in _items(data.get("topCandidates"))]
    tokens: list[TokenLogprob] = []
    for index, item in enumerate(_items(data.get("chosenCandidates"))):
        others = tuple(other for each in (places[index] if index < len(places) else ()) if (other := _read(each)))
        if (token := _read(item, others)) is not None:
            tokens.append(token)
    return tokens


def _items(value: object) -> list[object]:
    return value if is_list(value) else []


def _candidates(place: object) -> list[object]:
    return _items(place.get("candidates")) if is_object(place) else []


def _read(item: object, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob | None:
    fields = camel(object_of(item))
    text, number = fields.get("token"), fields.get("logProbability", 0.0)
    if not isinstance(text, str) or isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not math.isfinite(number):
        return None
    return new_logprob(token=text, logprob=float(number), id=whole_number(fields.get("tokenId")), top=top)


def write_logprobs_result(tokens: Iterable[TokenLogprob]) -> JsonObject:
    """The inverse of `read_logprobs_result`."""
    chosen = list(tokens)
    result: JsonObject = {"chosenCandidates": [_write(token) for token in chosen]}
    if any(token.top for token in chosen):
        result["topCandidates"] = [{"candidates": [_write(other) for other in token.top]} for token in chosen]
    return result


def _write(token: TokenLogprob) -> JsonObject:
    return without_none({"token": token.token, "tokenId": token.id, "logProbability": token.logprob})
