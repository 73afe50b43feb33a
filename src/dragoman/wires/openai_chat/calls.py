"""Calls and fragments of calls in, whole calls out, however a server tells them apart."""

import msgspec

from dragoman.errors import Malformed
from dragoman.events import Assembler
from dragoman.types import JsonObject
from dragoman.wires.common.json import convert_tolerantly, encode_json
from dragoman.wires.openai_chat.parts import call_rest
from dragoman.wires.openai_chat.schema import NAME, ChatFunctionCall, ChatToolCall


class ToolCallJoiner:
    """Joins fragments by their index. Servers reuse index 0, leave index or id out, and repeat an id (seen 2026-08)."""

    def __init__(self, out: Assembler) -> None:
        self._out = out
        self._ids: list[str] = []
        self._names: list[str] = []
        self._at: dict[int, int] = {}
        self._inputs: dict[int, list[str]] = {}
        self._rests: dict[int, JsonObject] = {}

    def read(self, data: JsonObject) -> None:
        """More of a call."""
        call = _convert(data)
        custom = call.custom if call.custom and (call.custom.name or call.custom.input) else None
        function = call.function or ChatFunctionCall()
        id, name = str(call.id or ""), (custom.name if custom else function.name) or ""
        text = None if custom else _text(function.arguments)
        slot = self._slot(call.index, id, name, text or "")
        self._out.fragment(slot, id=id, name=name, text=text)
        if custom is not None:
            self._inputs.setdefault(slot, []).append(custom.input or "")
            self._out.spend(len(custom.input or ""))
        if rest := call_rest(data):
            self._out.spend(len(encode_json(rest)))
            self._rests.setdefault(slot, {}).update(rest)

    def finish(self, *, cut: bool) -> None:
        """Free text has no end of its own, so of calls that take it the last is the one that a length limit cut."""
        for slot, pieces in self._inputs.items():
            text = encode_json({"input": "".join(pieces)}).decode()
            self._out.fragment(slot, text=text[:-1] if cut and slot == len(self._ids) - 1 else text)
            self._out.note(slot, NAME, {"type": "custom"})
        for slot, rest in self._rests.items():
            self._out.note(slot, NAME, rest)

    def _slot(self, index: int | None, id: str, name: str, text: str) -> int:
        slot = self._last_of(id, name) if index is None else self._at.get(index)
        if slot is None or self._begins(slot, id, name, text):
            slot = len(self._ids)
            self._ids.append("")
            self._names.append("")
        if index is not None:
            self._at[index] = slot
        self._ids[slot] = self._ids[slot] or id
        self._names[slot] = self._names[slot] or name
        return slot

    def _last_of(self, id: str, name: str) -> int | None:
        """The call that a fragment without an index goes on with: that of its id, or the last if it says nothing."""
        same = [slot for slot, known in enumerate(self._ids) if (known == id if id else not name)]
        return same[-1] if same else None

    def _begins(self, slot: int, id: str, name: str, text: str) -> bool:
        """Whether this is another call. A fragment never has a name; one that follows a whole object has no text."""
        if not name or not self._names[slot]:
            return False
        if name != self._names[slot] or (id and self._ids[slot] and id != self._ids[slot]):
            return True
        # Looked at only where new arguments may begin, as the joined ones are read for it.
        return text.lstrip()[:1] in ("{", "n") and self._out.call_is_complete(slot)


def _convert(data: JsonObject) -> ChatToolCall:
    try:
        return convert_tolerantly(data, ChatToolCall)
    except msgspec.ValidationError as error:
        raise Malformed(f"{NAME}: a call is not what the protocol says: {error}") from error


def _text(arguments: str | JsonObject | None) -> str | None:
    return arguments if arguments is None or isinstance(arguments, str) else encode_json(arguments).decode()
