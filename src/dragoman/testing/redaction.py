"""Removes what a request sent as a secret from what is recorded of its answer.

Some providers repeat a key or a header in an answer or in an error, as it was sent or encoded. The recorder knows what
it sent, so it looks for these texts, whatever their shape.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

import msgspec

from dragoman.http import HttpRequest

REDACTED = "[redacted]"
MIN_VALUE = 16
"""Characters of a header's value that is taken for a secret, whatever the name of the header says."""
_PUBLIC = frozenset({"accept", "accept-encoding", "accept-language", "anthropic-beta", "anthropic-version",
                     "content-length", "content-type", "host", "openai-beta", "user-agent"})  # fmt: skip
"""Headers whose values are not secret, and may be a part of a normal answer."""
_MIN_ENCODED = 8
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')


def sent_texts(http: HttpRequest, /) -> list[str]:
    """The secrets of a request, and the values of all other headers that may be one, in every form, the longest first.

    >>> texts = sent_texts(HttpRequest(method="POST", path="/", headers={"x-tenant": "acme-0123456789"}))
    >>> texts, len(sent_texts(HttpRequest(method="POST", path="/", headers={"x-tenant": "acme-0123456789-east"}))) > 1
    ([], True)
    """
    texts = set(http.sent_secrets)
    for name, value in http.headers.items():
        if name.lower() not in _PUBLIC:
            texts |= {text for text in (value.strip(), *re.split(r"[\s;,]+", value)) if len(text) >= MIN_VALUE}
    return sorted({form for text in texts for form in _forms(text)}, key=len, reverse=True)


def _forms(text: str) -> Iterator[str]:
    """A text as it is, in hexadecimal, in base64 (alone or inside a longer text), in a URL, in HTML and in JSON."""
    yield text
    for data in {text.encode(), text.encode("latin-1", "ignore")}:
        yield from (data.hex(), data.hex().upper())
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(data).decode()
            for before in range(3):
                inner = encode(bytes(before) + data).decode()[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
                if len(inner) >= _MIN_ENCODED:
                    yield inner
    for url in (quote(text, safe=""), quote(text), quote_plus(text)):
        yield from (url, re.sub("%..", lambda match: match[0].lower(), url))
    yield from (escape(text), escape(text, quote=False), msgspec.json.encode(text)[1:-1].decode())
    for signs in (text, re.sub("[A-Za-z0-9]", "", text)):  # more than is needed: every character, or all but these
        for form in ("%{:02X}", "%{:02x}", "\\u{:04x}", "\\u{:04X}", "&#{};", "&#x{:x};", "&#x{:X};"):
            yield "".join(form.format(ord(sign)) if sign in signs else sign for sign in text)


def redact_text(text: str, secrets: Iterable[str], /) -> str:
    """The text without the secrets."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def redact_json(data: bytes, secrets: Iterable[str], /) -> bytes:
    """The JSON without the secrets in its strings; a number that has the same digits stays.

    >>> redact_json(b'{"key": "sk-123456", "size": 123456}', ["123456"])
    b'{"key": "sk-[redacted]", "size": 123456}'
    """
    encoded = [form for secret in secrets if (form := msgspec.json.encode(secret)[1:-1]) in data]
    if not encoded:
        return data

    def redact(string: re.Match[bytes]) -> bytes:
        text = string[0]
        for form in encoded:
            text = text.replace(form, REDACTED.encode())
        return text

    return _STRING.sub(redact, data)
