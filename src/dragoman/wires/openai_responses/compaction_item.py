"""Reads the compaction items that we made: the summary of an earlier conversation."""

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject
from dragoman.types.data_urls import decode_base64

ITEM = "compaction"
OWN = "dragoman-summary-"
"""How the content of our items of all versions begins."""
PREFIX = f"{OWN}1."
"""How the content of our items begins; the rest is the summary in base64."""
INTRODUCTION = "Summary of the conversation so far:"


def is_own(item: JsonObject) -> bool:
    """Whether an item is a compaction of ours, of any version; no provider can read it.

    >>> is_own({"type": "compaction", "encrypted_content": "gAAAA..."})
    False
    """
    content = item.get("encrypted_content")
    return item.get("type") == ITEM and isinstance(content, str) and content.startswith(OWN)


def read_summary(item: JsonObject) -> str | None:
    """The text for the model of a compaction item of ours; None for any other item, and if we cannot read it.

    >>> read_summary({"type": "compaction", "encrypted_content": "gAAAA..."}) is None
    True
    """
    content = str(item.get("encrypted_content"))
    if not is_own(item) or not content.startswith(PREFIX):
        return None
    try:
        summary = decode_base64(content[len(PREFIX) :]).decode()
    except (InvalidRequest, UnicodeDecodeError):
        return None
    return f"{INTRODUCTION}\n\n{summary}"
