"""Signatures of reasoning that a simulator can check later without remembering them."""

import hashlib
import hmac

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.types.json_values import plain_numbers


class Seals:
    """Signs small JSON values with the key of one account.

    >>> seals = Seals("one account")
    >>> seals.open(seals.seal({"n": 1}))
    {'n': 1}
    >>> Seals("another account").open(seals.seal({"n": 1})) is None
    True
    """

    def __init__(self, account: str, /) -> None:
        self._key = account.encode()

    def seal(self, value: JsonObject, /) -> str:
        """Return a value as an opaque text."""
        data = msgspec.json.encode(value)
        return encode_base64(self._mac(data) + data)

    def open(self, text: str, /) -> JsonObject | None:
        """Return the value of an opaque text; None if it is changed or was not made for this account."""
        try:
            data = decode_base64(text)
        except InvalidRequest:
            return None
        mac, data = data[:16], data[16:]
        if not hmac.compare_digest(mac, self._mac(data)):
            return None
        value: JsonObject = msgspec.json.decode(data)
        return value

    def _mac(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")[:16]


def digest(value: object, /) -> str:
    """A short hash of a JSON value. The order of members does not matter, and 1.0 is 1, as JavaScript writes it.

    >>> digest({"a": 1, "b": [2.0]}) == digest({"b": [2], "a": 1})
    True
    """
    return hashlib.sha256(msgspec.json.encode(plain_numbers(value), order="sorted")).hexdigest()[:24]
