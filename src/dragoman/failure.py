"""Status, headers and body of an answer that is no in, a typed error out: every shape that servers use for it."""

import re
from typing import Any

import msgspec

from dragoman.errors import ProviderError, classify
from dragoman.http import Head, decode_duration, retry_after
from dragoman.types import is_list, is_object

_KEY = re.compile(r"\b(?:sk|pk|gsk|xai|AIza|key|hf|nvapi|csk|tgp)[-_][-_A-Za-z0-9*.]{6,}|AIza[-_A-Za-z0-9*]{8,}")
_ANY = msgspec.json.Decoder()


def decode_failure(head: Head, body: bytes, /) -> ProviderError:
    """The typed error of an HTTP answer.

    >>> type(decode_failure(Head(status=404), b'{"error": "model not found"}')).__name__
    'ModelNotFound'
    """
    try:
        data = _ANY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        data = body[:500].decode("utf-8", "replace").strip()
    return read_failure(data, head)


def read_failure(data: object, head: Head | None = None, /) -> ProviderError:
    """The typed error that some JSON stands for; without a head it came inside a 200.

    >>> error = read_failure({"error": {"type": "overloaded_error", "message": "busy"}})
    >>> type(error).__name__, str(error)
    ('Overloaded', 'busy')
    """
    facts = _flat(data)
    message = _KEY.sub("[redacted]", _message(facts)) or (f"HTTP {head.status}" if head else "no reason told")
    codes = tuple(facts.get(key) for key in ("reason", "error_code", "code", "inner_code", "status", "type"))
    told = facts.get("status_code") or facts.get("raw_status_code")
    return classify(
        message,
        status=head.status if head else told if isinstance(told, int) else None,
        codes=tuple(code for code in codes if isinstance(code, str | int) and not isinstance(code, bool)),
        retry_after=_retry_after(facts, head),
        tokens=_whole(facts.get("n_prompt_tokens")),
        limit=_whole(facts.get("n_ctx")),
    )


def _flat(data: object) -> dict[str, Any]:
    """The innermost object that says something: under `error` or `fault`, in a list, or as JSON in a string."""
    if is_list(data):
        return _flat(data[0]) if data else {}
    if isinstance(data, str):
        try:
            inner = _ANY.decode(data)
        except msgspec.MsgspecError:
            return {"message": data}
        return _flat(inner) if is_object(inner) else {"message": data}
    if not is_object(data):
        return {}
    for key in ("error", "fault"):
        if data.get(key):
            inner = _flat(data[key])
            return _google_details({**data, **inner} if "message" in inner else inner)
    return data


def _google_details(facts: dict[str, Any]) -> dict[str, Any]:
    """The same with what an error's `details`, `innererror` and `metadata` tell, where they are there."""
    more: dict[str, Any] = {}
    details = facts.get("details")
    for detail in details if is_list(details) else [details]:
        if is_object(detail):
            more.update({key: detail[key] for key in ("reason", "retryDelay", "error_code") if key in detail})
    inner = facts.get("innererror")
    if is_object(inner):
        more["inner_code"] = inner.get("code")
    return {**facts, **more}


def _message(facts: dict[str, Any]) -> str:
    for key in ("message", "msg", "detail", "description"):
        value = facts.get(key)
        if value:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            break
    else:
        return ""
    metadata = facts.get("metadata")
    raw = metadata.get("raw") if is_object(metadata) else None
    return f"{text}: {raw}" if isinstance(raw, str) else text


def _retry_after(facts: dict[str, Any], head: Head | None) -> float | None:
    if head is not None and (seconds := retry_after(head)) is not None:
        return seconds
    delay = facts.get("retryDelay")
    return decode_duration(delay) if isinstance(delay, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
