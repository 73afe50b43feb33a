"""The compaction items that we make: the summary of an earlier conversation, and what its user said."""

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject, Part, Text
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.json import DECODE_ERRORS, encode_json
from dragoman.wires.common.request_body import MAX_INNER_OBJECTS, check_inner_json
from dragoman.wires.openai_responses.schema import COVERED

ITEM = "compaction"
OWN = "dragoman-summary-"
"""How the content of our items of all versions begins."""
PREFIX = f"{OWN}2."
"""How the content of our items begins; the rest is a `CompactedConversation` in base64."""
INTRODUCTION = "Summary of the conversation so far:"
MAX_OBJECTS = 3 * MAX_INNER_OBJECTS
"""Objects and lists in an item: a message has two more of them here than it may have in the request of a client."""
MAX_VALUES = 10 * MAX_INNER_OBJECTS
"""Values in the messages of all items of a request."""
_SUMMARY = "summary"


class CompactedConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an item of ours holds."""

    summary: str
    user: list[JsonObject] = []
    """The messages of the user, as items. They are here because the SDK's type of a compacted conversation has no place
    for them, although OpenAI sends them before its item (2026-11)."""

    @property
    def text(self) -> Text:
        """The summary for a model, with a mark that it is one."""
        return Text(text=f"{INTRODUCTION}\n\n{self.summary}", extra={COVERED: {_SUMMARY: True}})

    def content(self) -> str:
        """The `encrypted_content` of the item."""
        return PREFIX + encode_base64(encode_json(self))


_decode = msgspec.json.Decoder(CompactedConversation).decode


def is_own(item: JsonObject) -> bool:
    """Whether an item is a compaction of ours, of any version; no provider can read it."""
    content = item.get("encrypted_content")
    return item.get("type") == ITEM and isinstance(content, str) and content.startswith(OWN)


def is_summary(part: Part) -> bool:
    """Whether a part is the summary of a compaction of ours.

    >>> is_summary(CompactedConversation("Of tides.").text), is_summary(Text("Of tides."))
    (True, False)
    """
    return isinstance(part, Text) and _SUMMARY in wire_extra(part.extra, COVERED)


def read_compaction(item: JsonObject, where: str) -> CompactedConversation | None:
    """What a compaction item of ours holds; None for any other item, and if we cannot read it.

    >>> content = CompactedConversation("Of tides.").content()
    >>> read_compaction({"type": "compaction", "encrypted_content": content}, "input[0]").summary
    'Of tides.'
    """
    content = str(item.get("encrypted_content"))
    if not is_own(item) or not content.startswith(PREFIX):
        return None
    try:
        data = decode_base64(content[len(PREFIX) :])
    except InvalidRequest:
        return None
    check_inner_json(data, where, objects=MAX_OBJECTS)
    try:
        return _decode(data)
    except DECODE_ERRORS:
        return None
