"""The messages of a native call in, turns out, with every call answered once; problems where they are not."""

from typing import Any

import msgspec

from dragoman.types import (
    Extra,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    ResultPart,
    Role,
    Text,
    ToolCall,
    ToolResult,
    is_list,
)
from dragoman.wires.common.json import encode_json
from dragoman.wires.native.problems import ProblemCollector
from dragoman.wires.native.schema import CALL, CALLED, MESSAGES, PARTS, REQUIRED, Content


class NativeHistory:
    """Messages to turns; results that follow each other are one."""

    def __init__(self, problems: ProblemCollector) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], dict[str, Any]]] = []
        self._problems = problems
        self._names: dict[str, str] = {}
        self._waiting: dict[str, str] = {}

    def messages(self) -> tuple[Message, ...]:
        """The turns, without the system messages that begin them."""
        return tuple(Message(role=role, parts=tuple(parts), extra=extra) for role, parts, extra in self._turns)

    def read(self, messages: list[Any]) -> None:
        """All messages of a request."""
        for i, data in enumerate(messages):
            self._message(data, f"messages[{i}]")
        for id, where in self._waiting.items():
            self._problems.add(where, "unanswered_tool_call", f"no message of a tool answers the call {id!r}")

    def _message(self, data: Any, where: str) -> None:
        told: JsonObject | None = self._problems.read(data, JsonObject, where)
        if told is None:
            return
        role: Role | None = self._problems.read(told.get("role"), Role, f"{where}.role")
        if role is None:
            return
        found = self._problems.members(told, MESSAGES[role], where, required=REQUIRED[role])
        extra: Extra = found.get("extra") or {}
        if role == "tool":
            self._result(told, found, where)
            return
        parts = self._content(found, role, where)
        if role == "assistant":
            parts += self._calls(found, where)
            if "content" not in found and not parts:
                self._problems.add(f"{where}.content", "missing", "it is required where there are no tool_calls")
        if role == "system" and not self._turns and not extra:
            self.system += [part for part in parts if isinstance(part, Text)]
        else:
            self._turns.append((role, parts, extra))

    def _content(self, found: dict[str, Any], role: str, where: str) -> list[Part]:
        content = found.get("content")
        if content is None or (content == "" and role == "assistant"):
            return []
        if isinstance(content, str):
            return [Text(text=content)]
        read = (self._part(data, PARTS[role], f"{where}.content[{i}]") for i, data in enumerate(content))
        return [part for part in read if part is not None]

    def _part(self, data: Any, kinds: tuple[type[Part], ...], where: str) -> Part | None:
        part: Part | None = self._problems.read(data, Content, where)
        if part is None:
            return None
        if not isinstance(part, kinds):
            self._problems.add(f"{where}.type", "invalid_value", "such a part has no place in this message")
            return None
        for name in sorted(data.keys() - {"type", *part.__struct_encode_fields__}):
            self._problems.add(f"{where}.{name}", "unknown_field", "a part of this type has no such field")
        if isinstance(part, Image) and part.data is None and not part.url:
            self._problems.add(where, "missing", "an image has its data, or a url")
        if not isinstance(part, Opaque):
            self._problems.read(part.extra, dict[str, dict[str, Any]], f"{where}.extra")
        return part

    def _calls(self, found: dict[str, Any], where: str) -> list[Part]:
        calls: list[Part] = []
        for i, data in enumerate(found.get("tool_calls") or ()):
            at = f"{where}.tool_calls[{i}]"
            outer = self._problems.members(data, CALL, at, required=("id", "function"))
            inner = self._problems.members(outer.get("function") or {}, CALLED, f"{at}.function", required=("name",))
            id, name = outer.get("id") or "", inner.get("name") or ""
            if id in self._names:
                self._problems.add(f"{at}.id", "duplicate_tool_call", f"another call has the id {id!r}")
            elif id:
                self._names[id] = name
                self._waiting[id] = at
            arguments: JsonObject = inner.get("arguments") or {}
            calls.append(ToolCall(id=id, name=name, arguments=arguments, extra=outer.get("extra") or {}))
        return calls

    def _result(self, data: dict[str, Any], found: dict[str, Any], where: str) -> None:
        if "content" not in data:
            self._problems.add(f"{where}.content", "missing", "it is required; null is a result, too")
        id = found.get("tool_call_id") or ""
        if id and id not in self._names:
            why = f"no earlier message of the assistant has a call {id!r}"
            self._problems.add(f"{where}.tool_call_id", "unknown_tool_call", why)
        elif id and self._waiting.pop(id, None) is None:
            self._problems.add(f"{where}.tool_call_id", "duplicate_tool_result", f"the call {id!r} is answered already")
        if not self._turns or self._turns[-1][0] != "tool":
            self._turns.append(("tool", [], {}))
        self._turns[-1][1].append(
            ToolResult(
                id=id,
                name=self._names.get(id, ""),
                content=_decode_content(data.get("content")),
                is_error=bool(found.get("is_error")),
                extra=found.get("extra") or {},
            )
        )


def _decode_content(content: Any) -> str | tuple[ResultPart, ...]:
    """A text as it is, a list of parts as parts, and any other JSON as its text."""
    if isinstance(content, str):
        return content
    if is_list(content) and content:
        try:
            return msgspec.convert(content, tuple[ResultPart, ...])
        except msgspec.ValidationError:
            return _as_text(content)
    return _as_text(content)


def _as_text(content: Any) -> str:
    return encode_json(content).decode()
