"""Results of content filters, which some servers run on prompts and answers.

A result has one member per category: `{"hate": {"filtered": false, "severity": "safe"}, "jailbreak": {"detected": true,
"filtered": false}}`. A stream sends results again and again; the worst of each category counts. What is safe is
left out; the rest becomes a notice, or a part of the message of an error.
"""

from collections.abc import Iterable

from dragoman.types import JsonObject, Notice, is_list, is_object

_SEVERITIES = ("safe", "low", "medium", "high")
_MAX_WORDS = 500
"""Characters of a description: categories may have any name, and there may be any number of them."""


def merge_results(known: JsonObject, new: object, /) -> JsonObject:
    """The worst result of each category.

    >>> merge_results({"hate": {"severity": "high"}}, {"hate": {"severity": "safe"}, "sexual": {"severity": "low"}})
    {'hate': {'severity': 'high'}, 'sexual': {'severity': 'low'}}
    """
    if not is_object(new):
        return known
    worse = {name: value for name, value in new.items() if name not in known or _rank(value) > _rank(known[name])}
    return {**known, **worse} if worse else known


def prompt_results(results: object, /) -> JsonObject:
    """The results for a whole prompt, which has one set of results for its text and one for each image.

    >>> prompt_results([{"prompt_index": 0, "content_filter_results": {"hate": {"severity": "low"}}}])
    {'hate': {'severity': 'low'}}
    """
    merged: JsonObject = {}
    for result in results if is_list(results) else ():
        if is_object(result):
            merged = merge_results(merged, result.get("content_filter_results"))
    return merged


def describe_results(results: object, /) -> str:
    """What the filters found; "" if everything is safe.

    >>> describe_results({"hate": {"filtered": True, "severity": "high"}, "jailbreak": {"detected": False}})
    'hate: high, filtered'
    """
    words = [
        f"{name}: {', '.join(findings)}"
        for name, result in (results.items() if is_object(results) else ())
        if (findings := _findings(name, result))
    ]
    return "; ".join(words)[:_MAX_WORDS]


def is_filtered(results: JsonObject, /) -> bool:
    """Whether a filter removed something.

    >>> is_filtered({"hate": {"filtered": True}}), is_filtered({"jailbreak": {"detected": True, "filtered": False}})
    (True, False)
    """
    return any(_rank(result)[0] for result in results.values())


def filter_notices(prompt: object, answer: object, /) -> Iterable[Notice]:
    """The notices about a prompt and its answer.

    >>> [notice.what for notice in filter_notices({"hate": {"severity": "low"}}, {})]
    ['content filter of the prompt']
    """
    for what, results in (("prompt", prompt), ("answer", answer)):
        if words := describe_results(results):
            yield Notice(kind="info", what=f"content filter of the {what}", why=words)


def describe_filter_error(facts: JsonObject, /) -> str:
    """What the filters found, for an error that has their results; "" for other errors.

    >>> describe_filter_error({"innererror": {"content_filter_result": {"violence": {"severity": "medium"}}}})
    'violence: medium'
    """
    merged = prompt_results(facts.get("content_filters"))
    for place in (facts, facts.get("innererror"), facts.get("inner_error")):
        if is_object(place):
            for name in ("content_filter_result", "content_filter_results"):
                merged = merge_results(merged, place.get(name))
    return describe_results(merged)


def _findings(name: str, result: object) -> list[str]:
    if name == "error":
        return ["the filter did not run"]
    is_filtered, is_detected, severity = _rank(result)
    findings = ((_SEVERITIES[severity], severity > 0), ("detected", is_detected), ("filtered", is_filtered))
    words = [word for word, is_found in findings if is_found]
    details = result.get("details") if is_object(result) else None
    if not words and is_object(details) and details.get("error"):
        words.append("the filter did not run")
    return words


def _rank(result: object) -> tuple[bool, bool, int]:
    """Whether something was removed, whether something was found, and how severe it is."""
    if is_list(result):  # one item per list of words, in older versions
        return any(is_object(item) and item.get("filtered") is True for item in result), False, 0
    if not is_object(result):
        return False, False, 0
    severity = result.get("severity")
    level = _SEVERITIES.index(severity) if severity in _SEVERITIES else 0
    return result.get("filtered") is True, result.get("detected") is True, level
