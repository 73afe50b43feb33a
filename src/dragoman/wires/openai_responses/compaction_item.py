"""Reads the compaction items that we made: the summary of an earlier conversation."""

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject
from dragoman.types.data_urls import decode_base64

ITEM = "compaction"
PREFIX = "dragoman-summary-1."
"""How the content of our items begins; the rest is the summary in base64."""
INTRODUCTION = "Summary of the conversation so far:"


def read_summary(item: JsonObject) -> str | None:
    """The text for the model of a compaction item of ours; None for any other item.

    >>> read_summary({"type": "compaction", "encrypted_content": "gAAAA..."}) is None
    True
    """
    content = item.get("encrypted_content")
    if item.get("type") != ITEM or not isinstance(content, str) or not content.startswith(PREFIX):
        return None
    try:
        summary = decode_base64(content[len(PREFIX) :]).decode()
    except (InvalidRequest, UnicodeDecodeError) as error:
        raise InvalidRequest(
            "encrypted_content of a compaction item must be as this server wrote it; compact the conversation again",
            param="input",
        ) from error
    return f"{INTRODUCTION}\n\n{summary}"
