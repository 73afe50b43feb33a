"""Status, headers and body of an answer that is no in, a typed error out; an error in, OpenAI's words for it out."""

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
    classify,
)
from dragoman.http import MAX_WAIT, Head, decode_duration, redact_url, retry_after
from dragoman.types import (
    JsonObject,
    is_list,
    is_object,
)

E = TypeVar("E", bound=DragomanError)
_ANY = msgspec.json.Decoder()
MAX_MESSAGE = 2000
"""Characters of a message that are kept: some servers say the whole prompt back."""
MAX_QUOTED = 500
"""Characters of a provider's words that are told on."""
MAX_DEPTH = 8
"""Envelopes that are opened."""


def decode_http_error(head: Head, body: bytes, /) -> ProviderError:
    """The typed error of an HTTP answer.

    >>> type(decode_http_error(Head(status=404), b'{"error": "model not found"}')).__name__
    'ModelNotFound'
    """
    try:
        data = _ANY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        data = body[:MAX_MESSAGE].decode("utf-8", "replace").strip()
    return error_from_json(data, head)


def error_from_json(data: object, head: Head | None = None, /) -> ProviderError:
    """The typed error that some JSON stands for; without a head it came inside a 200.

    >>> error = error_from_json({"error": {"type": "overloaded_error", "message": "busy"}})
    >>> type(error).__name__, str(error)
    ('Overloaded', 'busy')
    """
    facts = _flat(data)
    message = _moved(head) or _message(facts)[:MAX_MESSAGE] or (f"HTTP {head.status}" if head else "no reason told")
    codes = tuple(facts.get(key) for key in ("reason", "error_code", "code", "inner_code", "status", "type"))
    told = _whole(facts.get("status_code") or facts.get("raw_status_code"))
    return classify(
        message,
        status=head.status if head and (head.status >= 400 or told is None) else told,
        codes=tuple(code for code in codes if isinstance(code, str | int) and not isinstance(code, bool)),
        retry_after=_retry_after(facts, head),
        tokens=_whole(facts.get("n_prompt_tokens")),
        limit=_whole(facts.get("n_ctx")),
    )


def shorten(text: str, most: int = MAX_QUOTED, /) -> str:
    """The beginning of somebody's words, for those who asked for something else.

    >>> shorten("a long story", 7)
    'a long…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def copy_notes(error: E, others: Iterable[DragomanError], /) -> E:
    """The same with the notes of others, each once: a traceback shows them, and no client of a gateway is told.

    >>> old = DragomanError("no picture")
    >>> old.add_note("fetch_images=True lets dragoman fetch it.")
    >>> copy_notes(DragomanError("no target answered"), [old, old]).__notes__
    ['fetch_images=True lets dragoman fetch it.']
    """
    for note in dict.fromkeys(note for other in others for note in getattr(other, "__notes__", ())):
        error.add_note(note)
    return error


def is_out_of_credit(error: DragomanError, /) -> bool:
    """Whether there is no credit left: a limit that does not pass. A chain at its end is never asked again as it is.

    >>> is_out_of_credit(RateLimited("pay", retry=False)), is_out_of_credit(RateLimited("slow down"))
    (True, False)
    """
    return isinstance(error, RateLimited) and not error.retry and not isinstance(error, ChainExhausted)


def context_error_message(error: DragomanError, words: str, /) -> str:
    """The message of an error; before that of a full context the words by which a dialect's clients know it.

    >>> context_error_message(ContextTooLong("9000 tokens"), "prompt is too long")
    'prompt is too long: 9000 tokens'
    """
    is_known = not isinstance(error, ContextTooLong) or words in error.message.lower()
    return error.message if is_known else f"{words}: {error.message}"


URL_PATTERN = r"(?i)\b[a-z][a-z0-9+.-]*://(?:\[[^\s\]]*\]|[^\s\"'<>)\[\]])+"
"""An address in words; brackets are those of a number, or of what was blotted out."""
_NO_CREDIT = "insufficient_quota"
_OPENAI_WORDS = {403: ("permission_error", "permission_denied"), 429: ("rate_limit_error", "rate_limit_exceeded")}
"""Type and code of what a status says."""
_OPENAI_CODES: tuple[tuple[type[DragomanError], str], ...] = (
    (AuthFailed, "invalid_api_key"),
    (Overloaded, "slow_down"),
    (ContextTooLong, "context_length_exceeded"),
    (Blocked, "content_filter"),
    (ModelNotFound, "model_not_found"),
)
"""The code of an error as OpenAI has it, whatever the provider that made it called it."""
_OPENAI_CODE = r"(?!.*_error$)[a-z][a-z0-9_]*"
"""The form of OpenAI's codes: Google's words are capitals, and those of other protocols the types of errors."""


def encode_openai_error(error: DragomanError, /) -> JsonObject:
    """The refusal as OpenAI words it, with its own code where it has one.

    >>> encode_openai_error(Overloaded("busy"))
    {'message': 'busy', 'type': 'server_error', 'param': None, 'code': 'slow_down'}
    """
    own = error.code if error.code and re.fullmatch(_OPENAI_CODE, error.code) else None
    code = next((word for cls, word in _OPENAI_CODES if isinstance(error, cls)), own)
    kind = "invalid_request_error" if error.http_status < 500 else "server_error"
    kind, code = _OPENAI_WORDS.get(error.http_status, (kind, code))
    if is_out_of_credit(error):
        kind = code = _NO_CREDIT
    return {"message": error.message, "type": kind, "param": error.param, "code": code}


def _flat(data: object, depth: int = 0) -> dict[str, Any]:
    """The innermost object that says something, with what those around it say: in envelopes, lists and strings."""
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
            said = _flat(inner, depth + 1)
            told = (key, *_WORDS) if _says(said) else (key,)
            around = {name: value for name, value in data.items() if name not in told}
            return _google_details({**around, **said})
    return data


_ENVELOPES = ("error", "fault", "errors", "detail")
_ALWAYS = ("error", "fault", "errors")
"""Those that hold what was wrong, whatever they hold; `detail` may be a sentence, or FastAPI's list of places."""
_WORDS = ("message", "msg", "detail", "description", "title")


def _says(facts: dict[str, Any]) -> bool:
    return any(facts.get(word) for word in _WORDS)


def _google_details(facts: dict[str, Any]) -> dict[str, Any]:
    """The same with what an error's `details`, `innererror` and `metadata` tell, where they are there."""
    more: dict[str, Any] = {}
    details = facts.get("details")
    for detail in details if is_list(details) else [details]:
        if is_object(detail):
            more.update({key: detail[key] for key in ("reason", "retryDelay", "error_code") if key in detail})
            # A quota of Google's that is full for the day tells a delay all the same (2026-09).
            if "PerDay" in str(detail.get("violations")):
                return {**facts, **more, "reason": "quota_per_day"}
    inner = facts.get("innererror")
    if is_object(inner):
        more["inner_code"] = inner.get("code")
    return {**facts, **more}


def _moved(head: Head | None) -> str:
    """Where a redirect points to; its body is a page for people."""
    if head is None or not 300 <= head.status < 400 or not (place := head.header("location")):
        return ""
    return f"HTTP {head.status} to {redact_url(place)}, which is not followed; is the base URL right?"


def _message(facts: dict[str, Any]) -> str:
    value = next((facts[word] for word in _WORDS if facts.get(word)), None)
    if value is None:
        return ""
    if is_object(value):
        value = next((value[word] for word in _WORDS if value.get(word)), value)
    text = value if isinstance(value, str) else _places(value)
    metadata = facts.get("metadata")
    raw = metadata.get("raw") if is_object(metadata) else None
    return f"{text}: {raw}" if isinstance(raw, str) else text


def _places(value: object) -> str:
    """FastAPI's list of what is wrong where, without the input that it says back; other things as JSON."""
    found = [item for item in value if is_object(item) and "msg" in item] if is_list(value) else []
    if found:
        return "; ".join(f"{_place(item.get('loc'))}: {item['msg']}" for item in found)
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "its reason is nested too deeply to be told"


def _place(loc: object) -> str:
    return ".".join(map(str, loc)) if is_list(loc) else "$"


def _retry_after(facts: dict[str, Any], head: Head | None) -> float | None:
    if head is not None and (seconds := retry_after(head)) is not None:
        return seconds
    delay = facts.get("retryDelay")
    seconds = decode_duration(delay) if isinstance(delay, str) else None
    return None if seconds is None else min(MAX_WAIT, seconds)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def error_headers(error: DragomanError, /) -> dict[str, str]:
    """The headers of a refusal.

    >>> error_headers(DragomanError("slow down", retry_after=1.5))
    {'content-type': 'application/json', 'retry-after': '2'}
    """
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    return headers
