"""The tag: state of a provider as a text that a client sends back without reading it.

A tag is `dragoman`, then base64 of one byte with version and flags, a MAC, and the state. The whole text is valid
base64, because some dialects declare their field as bytes. The length needs no padding, and both alphabets are read,
because clients decode and encode it again. The same state always gives the same tag. A tag belongs to the gateway
that has the secret, and to the API key of the client that it was made for.
"""

import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import blake2b
from hmac import compare_digest

import msgspec

PREFIX = "dragoman"
"""Eight characters: what follows starts at a boundary of base64."""
VERSION = 1
MAX_TAG = 1024 * 1024
"""Characters of a tag; a longer one is neither made nor read."""
MAX_STATE = 4 * MAX_TAG
"""Bytes of a state after decompression."""
_MAC_SIZE = 16
_STORED, _COMPRESSED, _PADDING = 0b1000, 0b0100, 0b0011
_URL_SAFE = str.maketrans("-_", "+/")


class TagContent(msgspec.Struct, frozen=True):
    """What a tag holds: a state, or the key under which the store has the state."""

    data: bytes
    is_stored: bool = False


def is_tag(value: object, /) -> bool:
    """Whether a value looks like a tag; only `TagKey.read` knows whether it is valid."""
    return isinstance(value, str) and value.startswith(PREFIX)


class TagKey:
    """Makes and reads the tags of one client."""

    def __init__(self, secret: bytes, owner: str | None, /) -> None:
        """`owner`: the id of the client's API key."""
        self._secret = secret
        self._owner = msgspec.json.encode(owner)

    def make(self, content: TagContent, /) -> str | None:
        """The tag of a content; None if it would be too long."""
        body, flags = content.data, _STORED if content.is_stored else 0
        small = zlib.compress(body, 6)
        if len(small) < len(body):
            body, flags = small, flags | _COMPRESSED
        padding = -(1 + _MAC_SIZE + len(body)) % 3
        head = bytes([VERSION << 4 | flags | padding])
        data = head + self._mac(head, body) + body + bytes(padding)
        if len(data) > MAX_TAG * 3 // 4 - len(PREFIX):
            return None
        return PREFIX + b64encode(data).decode()

    def read(self, tag: str, /) -> TagContent | None:
        """The content of a tag; None if it was changed, or if it is not a tag of this client and this gateway."""
        if len(tag) > MAX_TAG:
            return None
        try:
            data = b64decode(tag[len(PREFIX) :].rstrip().translate(_URL_SAFE), validate=True)
        except (Base64Error, ValueError):
            return None
        head, mac, body = data[:1], data[1 : 1 + _MAC_SIZE], data[1 + _MAC_SIZE :]
        if not head or head[0] >> 4 != VERSION:
            return None
        end = len(body) - (head[0] & _PADDING)
        body, padding = body[:end], body[end:]
        if any(padding) or not compare_digest(mac, self._mac(head, body)):
            return None
        if head[0] & _COMPRESSED:
            body = zlib.decompressobj().decompress(body, MAX_STATE)
        return TagContent(body, bool(head[0] & _STORED))

    def digest(self, *values: object, size: int = 16) -> str:
        """A digest of JSON values. Only this gateway can compute it, and it differs for each client.

        The order of members does not matter.
        """
        data = self._owner + msgspec.json.encode(values, order="deterministic")
        return blake2b(data, digest_size=size, key=self._secret).hexdigest()

    def _mac(self, head: bytes, body: bytes) -> bytes:
        mac = blake2b(head + self._owner + b"\0", digest_size=_MAC_SIZE, key=self._secret, person=b"dragoman tag")
        mac.update(body)
        return mac.digest()
