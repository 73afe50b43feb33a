"""Errors of providers as exceptions, and exceptions as OpenAI's error objects.

Servers wrap errors in many ways: `{"error": {...}}`, lists, JSON inside of strings, FastAPI's `detail`, Google's
`details`. `error_from_json` flattens all of them to one object and lets `classify` choose the class.
"""

import math
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from dragoman.errors import (
    AuthFailed,
    Blocked,
    ChainExhausted,
    ContextTooLong,
    DragomanError,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
)
from dragoman.http import MAX_WAIT, Head, decode_duration, redact_url, retry_after
from dragoman.types import JsonObject, Usage, is_list, is_object
from dragoman.wires.common.classify import classify
from dragoman.wires.common.content_filters import describe_filter_error
from dragoman.wires.common.json import DECODE_ERRORS, whole_number

E = TypeVar("E", bound=DragomanError)
_ANY = msgspec.json.Decoder()
MAX_PROVIDER_MESSAGE = 2000
"""Characters of a message that are kept: some servers repeat the whole prompt in it."""
MAX_ERROR = 2 * 1024 * 1024
"""Bytes of an error that is read as JSON."""
MAX_QUOTED = 500
"""Characters of a provider's message that another message quotes."""
MAX_DEPTH = 8
"""Levels of nesting that are flattened."""


def decode_http_error(head: Head, body: bytes, /) -> ProviderError:
    """The exception for an HTTP error response.

    >>> type(decode_http_error(Head(status=404), b'{"error": "model not found"}')).__name__
    'ModelNotFound'
    """
    error = error_from_json(_decode_json(body), head)
    word = (head.header("x-should-retry") or "").lower()
    # OpenAI and Anthropic say it, and their SDKs obey (2026-11). A rate limit without a retry would be one of credit.
    if word == "true" or (word == "false" and not isinstance(error, RateLimited)):
        error.annotate(retry=word == "true")
    return error


def _decode_json(body: bytes) -> Any:
    """The JSON of a body, also after a byte order mark or in the form of a stream; else its text."""
    if len(body) > MAX_ERROR:
        return body[:MAX_PROVIDER_MESSAGE].decode("utf-8", "replace").strip()
    lines = body.removeprefix(b"\xef\xbb\xbf").splitlines()
    frame = next((line[5:] for line in lines if line.startswith(b"data:")), None)
    for text in (body, b"\n".join(line for line in lines if not line.startswith(b":")) if frame is None else frame):
        try:
            return _ANY.decode(text)
        except DECODE_ERRORS:
            continue
    return body[:MAX_PROVIDER_MESSAGE].decode("utf-8", "replace").strip()


def error_from_json(data: object, head: Head | None = None, /, *, usage: Usage | None = None) -> ProviderError:
    """The exception for an error as JSON; `head` is None if the error came inside a response with status 200.

    >>> error = error_from_json({"error": {"type": "overloaded_error", "message": "busy"}})
    >>> type(error).__name__, str(error)
    ('Overloaded', 'busy')
    """
    facts = _flat(data)
    message = (
        _redirect(head) or _message(facts)[:MAX_PROVIDER_MESSAGE] or (f"HTTP {head.status}" if head else "no message")
    )
    codes = tuple(facts.get(key) for key in _CODES)
    status = whole_number(facts.get("status_code") or facts.get("raw_status_code"))
    return classify(
        message,
        status=head.status if head and (head.status >= 400 or status is None) else status,
        codes=tuple(code for code in codes if isinstance(code, str | int) and not isinstance(code, bool)),
        retry_after=_retry_after(facts, head),
        tokens=whole_number(facts.get("n_prompt_tokens")),
        limit=whole_number(facts.get("n_ctx")),
        usage=usage,
    )


def shorten(text: str, limit: int = MAX_QUOTED, /) -> str:
    """The text, cut to at most `limit` characters.

    >>> shorten("a long story", 7)
    'a long…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def copy_notes(error: E, others: Iterable[DragomanError], /) -> E:
    """Add the notes of other errors, each once. A traceback shows them; clients of a gateway do not see them.

    >>> old = DragomanError("no picture")
    >>> old.add_note("fetch_images=True lets dragoman fetch it.")
    >>> copy_notes(DragomanError("no target answered"), [old, old]).__notes__
    ['fetch_images=True lets dragoman fetch it.']
    """
    for note in dict.fromkeys(note for other in others for note in getattr(other, "__notes__", ())):
        error.add_note(note)
    return error


def is_out_of_credit(error: DragomanError, /) -> bool:
    """Whether the account has no credit: a rate limit that waiting does not lift.

    >>> is_out_of_credit(RateLimited("pay", retry=False)), is_out_of_credit(RateLimited("slow down"))
    (True, False)
    """
    return isinstance(error, RateLimited) and not error.retry and not isinstance(error, ChainExhausted)


def context_error_message(error: DragomanError, phrase: str, /) -> str:
    """The message of an error; that of `ContextTooLong` starts with the phrase that clients of a dialect look for.

    >>> context_error_message(ContextTooLong("9000 tokens"), "prompt is too long")
    'prompt is too long: 9000 tokens'
    """
    has_phrase = not isinstance(error, ContextTooLong) or phrase in error.message.lower()
    return error.message if has_phrase else f"{phrase}: {error.message}"


URL_PATTERN = r"(?i)\b[a-z][a-z0-9+.-]*://(?:\[[^\s\]]*\]|[^\s\"'<>)\[\]])+"
"""A URL inside of a text; brackets enclose an IPv6 address or a redacted part."""
_NO_CREDIT = "insufficient_quota"
_OPENAI_BY_STATUS = {403: ("permission_error", "permission_denied"), 429: ("rate_limit_error", "rate_limit_exceeded")}
"""OpenAI's type and code for a status."""
_OPENAI_CODES: tuple[tuple[type[DragomanError], str], ...] = (
    (AuthFailed, "invalid_api_key"),
    (Overloaded, "slow_down"),
    (ContextTooLong, "context_length_exceeded"),
    (Blocked, "content_filter"),
    (ModelNotFound, "model_not_found"),
)
"""OpenAI's code for a class of errors, whatever the provider's own code is."""
_OPENAI_CODE = r"(?!.*_error$)[a-z][a-z0-9_]*"
"""The form of OpenAI's codes; Google's are uppercase, and those of other protocols end in `_error`."""


def encode_openai_error(error: DragomanError, /) -> JsonObject:
    """The error object of OpenAI's protocols.

    >>> encode_openai_error(Overloaded("busy"))
    {'message': 'busy', 'type': 'server_error', 'param': None, 'code': 'slow_down'}
    """
    own = error.code if error.code and re.fullmatch(_OPENAI_CODE, error.code) else None
    code = next((code for kind, code in _OPENAI_CODES if isinstance(error, kind)), own)
    kind = "invalid_request_error" if error.http_status < 500 else "server_error"
    kind, code = _OPENAI_BY_STATUS.get(error.http_status, (kind, code))
    if is_out_of_credit(error):
        kind = code = _NO_CREDIT
    return {"message": error.message, "type": kind, "param": error.param, "code": code}


def _flat(data: object, depth: int = 0) -> dict[str, Any]:
    """The innermost object of nested envelopes, lists and strings, with the members of the objects around it."""
    if is_list(data):
        return _flat(data[0], depth + 1) if data and depth < MAX_DEPTH else {}
    if isinstance(data, str):
        try:
            inner = _ANY.decode(data) if depth < MAX_DEPTH else None
        except (msgspec.MsgspecError, RecursionError):
            inner = None
        return (_flat(inner, depth + 1) if is_object(inner) or is_list(inner) else {}) or {"message": data}
    if not is_object(data):
        return {}
    for key in _ENVELOPES:
        inner = data.get(key)
        if depth < MAX_DEPTH and (inner if key in _ALWAYS else is_object(inner)):
            inside = _flat(inner, depth + 1)
            replaced = (key, *_MESSAGES) if _has_message(inside) else (key,)
            around = {name: value for name, value in data.items() if name not in replaced}
            return _with_details({**around, **inside})
    # Proxies write the error object of their provider into the message (2026-10).
    if isinstance(text := data.get("message"), str) and re.match(r'\s*\{\s*"(type|error)"', text):
        inside = _flat(text, depth + 1)
        return {**data, **{name: value for name, value in inside.items() if value is not None}}
    return data


_ENVELOPES = ("error", "fault", "errors", "detail")
_ALWAYS = ("error", "fault", "errors")
"""Envelopes of any type of value; `detail` may also be a sentence, or FastAPI's list of errors."""
_CODES = ("reason", "error_code", "code", "inner_code", "errorcode", "status", "type")
"""Members with a code, the more specific first."""
_MESSAGES = ("message", "msg", "detail", "description", "title", "faultstring")


def _has_message(facts: dict[str, Any]) -> bool:
    return any(facts.get(key) for key in _MESSAGES)


def _with_details(facts: dict[str, Any]) -> dict[str, Any]:
    """Add the reason, the delay and the codes that Google, Azure and others put into nested objects."""
    more: dict[str, Any] = {}
    details = facts.get("details")
    for detail in details if is_list(details) else [details]:
        if is_object(detail):
            more.update({key: detail[key] for key in ("reason", "retryDelay", "error_code") if key in detail})
            # Google sends a short retryDelay even if the quota of the day is used up (2026-09).
            if "PerDay" in str(detail.get("violations")):
                return {**facts, **more, "reason": "quota_per_day"}
    for key in ("innererror", "inner_error"):
        inner = facts.get(key)
        if is_object(inner):
            more["inner_code"] = inner.get("code")
    return {**facts, **more}


def _redirect(head: Head | None) -> str:
    """The message for a redirect, whose body is HTML."""
    if head is None or not 300 <= head.status < 400 or not (location := head.header("location")):
        return ""
    return f"HTTP {head.status} to {redact_url(location)}, which is not followed; check the base URL"


def _message(facts: dict[str, Any]) -> str:
    value = next((facts[key] for key in _MESSAGES if facts.get(key)), None)
    if value is None:
        return ""
    if is_object(value):
        value = next((value[key] for key in _MESSAGES if value.get(key)), value)
    text = value if isinstance(value, str) else _message_from_json(value)
    metadata = facts.get("metadata")
    raw = metadata.get("raw") if is_object(metadata) else None
    text = f"{text}: {raw}" if isinstance(raw, str) else text
    filters = describe_filter_error(facts)
    return f"{text} (content filter: {filters})" if filters else text


def _message_from_json(value: object) -> str:
    """The message for FastAPI's list of validation errors, without the input that it repeats; else the JSON itself."""
    errors = [item for item in value if is_object(item) and "msg" in item] if is_list(value) else []
    if errors:
        return "; ".join(f"{_location(item.get('loc'))}: {item['msg']}" for item in errors)
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "the error message is nested too deeply"


def _location(loc: object) -> str:
    return ".".join(map(str, loc)) if is_list(loc) else "$"


def _retry_after(facts: dict[str, Any], head: Head | None) -> float | None:
    if head is not None and (seconds := retry_after(head)) is not None:
        return seconds
    delay = facts.get("retryDelay")
    seconds = decode_duration(delay) if isinstance(delay, str) else None
    return None if seconds is None else min(MAX_WAIT, seconds)


def error_headers(error: DragomanError, /) -> dict[str, str]:
    """The headers of an error response.

    >>> error_headers(DragomanError("slow down", retry_after=1.5))
    {'content-type': 'application/json', 'retry-after': '2'}
    """
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    return headers
