"""Anthropic's tools that the client runs: bash, text editor, computer, memory.

The provider defines them by a type and a date, and its models know their schemas. For other wires they are functions
with the published schemas; calls have the same form everywhere. The definition stays in `extra` for this wire.
"""

import re
from typing import Any

from dragoman.types import JsonObject, Text, Tool
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.common.extra import VERBATIM, wire_extra

COVERED = NAME + VERBATIM
"""The key of the `extra` of a tool or text with the form of this wire."""

_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "integer"}
_POINT: JsonObject = {"type": "array", "items": _NUMBER}
_EDIT: JsonObject = {
    "path": _TEXT,
    "file_text": {**_TEXT, "description": "For create: the content of the file."},
    "old_str": {**_TEXT, "description": "For str_replace: the text to replace. It must occur exactly once."},
    "new_str": {**_TEXT, "description": "For str_replace: the new text."},
    "insert_line": {**_NUMBER, "description": "For insert: the line after which to insert; 0 is the beginning."},
    "insert_text": {**_TEXT, "description": "For insert: the text."},
    "view_range": {**_POINT, "description": "For view: the first and the last line; -1 is the end."},
}
_ACTIONS = (
    "key type mouse_move left_click left_click_drag right_click middle_click double_click triple_click screenshot "
    "cursor_position left_mouse_down left_mouse_up scroll hold_key wait zoom"
).split()


def _commands(required: list[str], *commands: str, **more: JsonObject) -> JsonObject:
    command = {"type": "string", "enum": [*commands]}
    return {"type": "object", "properties": {"command": command, **_EDIT, **more}, "required": required}


_TOOLS: dict[str, tuple[str, JsonObject]] = {
    "bash": (
        "Run a command in a bash session that stays open. With restart, start the session again.",
        {"type": "object", "properties": {"command": _TEXT, "restart": {"type": "boolean"}}},
    ),
    "text_editor": (
        "View, create and edit text files.",
        _commands(["command", "path"], "view", "create", "str_replace", "insert"),
    ),
    "memory": (
        "Read and write files under /memories, which stay between conversations. Look there before you begin.",
        _commands(
            ["command"],
            *("view", "create", "str_replace", "insert", "delete", "rename"),
            old_path={**_TEXT, "description": "For rename."},
            new_path={**_TEXT, "description": "For rename."},
        ),
    ),
    "computer": (
        "Use a computer by mouse and keyboard, and take screenshots.",
        {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": _ACTIONS},
                "coordinate": {**_POINT, "description": "x and y in pixels."},
                "start_coordinate": {**_POINT, "description": "For left_click_drag."},
                "text": {**_TEXT, "description": "For type: the text; for key and hold_key: the keys."},
                "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
                "scroll_amount": _NUMBER,
                "duration": {"type": "number", "description": "Seconds, for hold_key and wait."},
                "region": {"type": "array", "items": _NUMBER, "description": "For zoom: x1, y1, x2, y2."},
            },
            "required": ["action"],
        },
    ),
}
"""What each tool is for, and its schema, as in the provider's documentation (2026-11)."""


def decode_client_tool(data: JsonObject) -> Tool | None:
    """The function for a tool that the client runs; None for other tools."""
    kind, name = re.fullmatch(r"(bash|text_editor|memory|computer)_\d{8}", str(data.get("type"))), data.get("name")
    if kind is None or not isinstance(name, str):
        return None
    description, parameters = _TOOLS[kind[1]]
    if kind[1] == "computer":
        description += f" The screen has {data.get('display_width_px')} x {data.get('display_height_px')} pixels."
    return Tool(name=name, description=description, parameters=parameters, extra={COVERED: {"tool": data}})


def own_definition(tool: Tool) -> JsonObject | None:
    """The definition of such a tool for this wire; None for other tools."""
    return wire_extra(tool.extra, COVERED).get("tool")


def decode_tool_reference(data: JsonObject) -> Text | None:
    """A tool that a client's search found, as a text for other wires, which offer all tools from the start."""
    name = data.get("tool_name")
    if not isinstance(name, str):
        return None
    extra: dict[str, Any] = {COVERED: {"block": data}}
    return Text(text=f"A tool that can be called now: {name}", extra=extra)


def own_block(text: Text) -> JsonObject | None:
    """The block of such a text for this wire; None for other texts."""
    return wire_extra(text.extra, COVERED).get("block") if text.extra else None
