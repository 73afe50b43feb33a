"""How a request of the Interactions API may differ in form after it was decoded and encoded again."""

from typing import Any

from dragoman.types import is_list, is_object
from tests.support.corpus.rules import Rule, without_nulls

Json = dict[str, Any]
DEFAULTS = (("stream", False), ("store", False))
CONTENTS = ("text", "image", "audio", "document", "video")


def _defaults(body: Json) -> Json:
    return {key: value for key, value in body.items() if (key, value) not in DEFAULTS}


def _steps(body: Json) -> Json:
    value = body.get("input")
    if isinstance(value, str):
        value = [{"type": "text", "text": value}]
    if is_object(value):
        value = [value]
    if not is_list(value) or not value:
        return body
    if all(item.get("type") in CONTENTS for item in value):
        value = [{"type": "user_input", "content": value}]
    return {**body, "input": value}


def _results(body: Json) -> Json:
    steps: list[Json] = []
    found: list[Json] = body.get("input") or []
    for step in found:
        content: Any = step.get("content") if step.get("type") == "user_input" else None
        results = [item for item in content or () if item.get("type") == "function_result"]
        others = [item for item in content or () if item.get("type") != "function_result"]
        steps += [*results, *([{**step, "content": others}] if others else [])] if results else [step]
    return {**body, "input": steps} if steps else body


def _turns(body: Json) -> Json:
    value = body.get("input")
    if not is_list(value):
        return body
    return {**body, "input": [step for item in value for step in _turn(item)]}


def _turn(item: Json) -> list[Json]:
    if "role" not in item:
        return [item]
    content = item["content"]
    content = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kind = "user_input" if item["role"] == "user" else "model_output"
    return [each if each["type"] == "function_call" else {"type": kind, "content": [each]} for each in content]


RULES = [
    Rule("null-is-absent", "null and a missing member mean the same to the API", without_nulls),
    Rule(
        "defaults",
        "a request is not a stream unless it says so; nothing is stored unless the caller sets store",
        _defaults,
    ),
    Rule("turns", "older versions of the API had turns with a role; they mean the same as steps", _turns),
    Rule("steps", "a text, a content and a list of contents mean the same as one step of the user", _steps),
    Rule("results", "a result among the contents of the user means the same as a step of its own", _results),
]
