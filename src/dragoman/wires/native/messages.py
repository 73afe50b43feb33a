"""Decodes the messages of a native request, and collects problems such as calls without a result."""

from typing import Any

from dragoman.types import (
    SYSTEM_ROLES,
    Extra,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    is_object,
)
from dragoman.types.fast_constructors import new_call, new_message, new_result, new_text
from dragoman.wires.native.problems import ProblemCollector
from dragoman.wires.native.schema import (
    CALL_FIELDS,
    CALLED_FIELDS,
    CONTENT_PARTS,
    MESSAGE_FIELDS,
    REQUIRED_FIELDS,
    Content,
)

_WRONG_PART = "a message of this role cannot have such a part"


class NativeHistory:
    """The turns of a request; consecutive results are one turn."""

    def __init__(self, problems: ProblemCollector) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], dict[str, Any]]] = []
        self._problems = problems
        self._names: dict[str, str] = {}
        self._open_calls: dict[str, str] = {}

    def messages(self) -> tuple[Message, ...]:
        """The turns after the leading system messages."""
        return tuple(new_message(role=role, parts=tuple(parts), extra=extra) for role, parts, extra in self._turns)

    def read(self, messages: list[Any]) -> None:
        """Decode all messages of a request."""
        for i, data in enumerate(messages):
            self._message(data, f"messages[{i}]")
        for id, where in self._open_calls.items():
            self._problems.add(
                where, "unanswered_tool_call", f"the call {id!r} has no result; add a tool message for it"
            )

    def _message(self, data: Any, where: str) -> None:
        message: JsonObject | None = self._problems.read(data, JsonObject, where)
        if message is None:
            return
        role: Role | None = self._problems.read(message.get("role"), Role, f"{where}.role")
        if role is None:
            return
        fields = self._problems.read_object(message, MESSAGE_FIELDS[role], where, required=REQUIRED_FIELDS[role])
        extra: Extra = fields.get("extra") or {}
        if role == "tool":
            self._result(message, fields, where)
            return
        parts = self._content(fields, role, where)
        if role == "assistant":
            parts += self._calls(fields, where)
            if "content" not in fields and not parts:
                self._problems.add(f"{where}.content", "missing", "required if there are no tool_calls")
        if role in SYSTEM_ROLES and not self._turns and not extra:
            self.system += [part for part in parts if isinstance(part, Text)]
        else:
            self._turns.append((role, parts, extra))

    def _content(self, fields: dict[str, Any], role: str, where: str) -> list[Part]:
        content = fields.get("content")
        if content is None or (content == "" and role == "assistant"):
            return []
        if isinstance(content, str):
            return [new_text(text=content)]
        decoded = (self._part(data, CONTENT_PARTS[role], f"{where}.content[{i}]") for i, data in enumerate(content))
        return [part for part in decoded if part is not None]

    def _part(self, data: Any, kinds: tuple[type[Part], ...], where: str) -> Part | None:
        if is_object(data) and data.get("type") == "image" and data.get("data") is None and not data.get("url"):
            is_allowed = Image in kinds
            place, code = (where, "missing") if is_allowed else (f"{where}.type", "invalid_value")
            self._problems.add(place, code, "an image needs data or url" if is_allowed else _WRONG_PART)
            return None
        part: Part | None = self._problems.read(data, Content, where)
        if part is None:
            return None
        if not isinstance(part, kinds):
            self._problems.add(f"{where}.type", "invalid_value", _WRONG_PART)
            return None
        for name in sorted(data.keys() - {"type", *part.__struct_encode_fields__}):
            self._problems.add(f"{where}.{name}", "unknown_field", "unknown field for a part of this type")
        if not isinstance(part, Opaque):
            self._problems.read(part.extra, dict[str, dict[str, Any]], f"{where}.extra")
        return part

    def _calls(self, fields: dict[str, Any], where: str) -> list[Part]:
        calls: list[Part] = []
        for i, data in enumerate(fields.get("tool_calls") or ()):
            at = f"{where}.tool_calls[{i}]"
            outer = self._problems.read_object(data, CALL_FIELDS, at, required=("id", "function"))
            inner = self._problems.read_object(
                outer.get("function") or {}, CALLED_FIELDS, f"{at}.function", required=("name",)
            )
            id, name = outer.get("id") or "", inner.get("name") or ""
            if id in self._names:
                self._problems.add(f"{at}.id", "duplicate_tool_call", f"another call has the id {id!r}")
            elif id:
                self._names[id] = name
                self._open_calls[id] = at
            arguments: JsonObject = inner.get("arguments") or {}
            calls.append(new_call(id=id, name=name, arguments=arguments, extra=outer.get("extra") or {}))
        return calls

    def _result(self, data: dict[str, Any], fields: dict[str, Any], where: str) -> None:
        if "content" not in data:
            self._problems.add(f"{where}.content", "missing", "required; it may be null")
        id = fields.get("tool_call_id") or ""
        if id and id not in self._names:
            why = f"no earlier assistant message has a call {id!r}"
            self._problems.add(f"{where}.tool_call_id", "unknown_tool_call", why)
        elif id and self._open_calls.pop(id, None) is None:
            self._problems.add(
                f"{where}.tool_call_id", "duplicate_tool_result", f"the call {id!r} already has a result"
            )
        if not self._turns or self._turns[-1][0] != "tool":
            self._turns.append(("tool", [], {}))
        self._turns[-1][1].append(
            new_result(
                id=id,
                name=self._names.get(id, ""),
                content=data.get("content"),
                is_error=bool(fields.get("is_error")),
                extra=fields.get("extra") or {},
            )
        )
