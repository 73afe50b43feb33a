"""The compaction items that we make: the summary of an earlier conversation, and what its user said."""

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.wires.common.json import DECODE_ERRORS, encode_json

ITEM = "compaction"
OWN = "dragoman-summary-"
"""How the content of our items of all versions begins."""
PREFIX = f"{OWN}2."
"""How the content of our items begins; the rest is a `CompactedConversation` in base64."""
INTRODUCTION = "Summary of the conversation so far:"


class CompactedConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an item of ours holds."""

    summary: str
    user: list[JsonObject] = []
    """The messages of the user, as items. They are here because the SDK's type of a compacted conversation has no place
    for them, although OpenAI sends them before its item (2026-11)."""

    @property
    def text(self) -> str:
        """The summary for a model."""
        return f"{INTRODUCTION}\n\n{self.summary}"

    def content(self) -> str:
        """The `encrypted_content` of the item."""
        return PREFIX + encode_base64(encode_json(self))


_decode = msgspec.json.Decoder(CompactedConversation).decode


def is_own(item: JsonObject) -> bool:
    """Whether an item is a compaction of ours, of any version; no provider can read it.

    >>> is_own({"type": "compaction", "encrypted_content": "gAAAA..."})
    False
    """
    content = item.get("encrypted_content")
    return item.get("type") == ITEM and isinstance(content, str) and content.startswith(OWN)


def read_compaction(item: JsonObject) -> CompactedConversation | None:
    """What a compaction item of ours holds; None for any other item, and if we cannot read it.

    >>> content = CompactedConversation("Of tides.").content()
    >>> read_compaction({"type": "compaction", "encrypted_content": content}).summary
    'Of tides.'
    """
    content = str(item.get("encrypted_content"))
    if not is_own(item) or not content.startswith(PREFIX):
        return None
    try:
        return _decode(decode_base64(content[len(PREFIX) :]))
    except (InvalidRequest, *DECODE_ERRORS):
        return None
