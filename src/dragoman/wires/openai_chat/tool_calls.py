"""Joins the fragments of tool calls in a Chat Completions stream."""

import msgspec

from dragoman.errors import Malformed
from dragoman.events import Assembler
from dragoman.types import JsonObject
from dragoman.wires.common.json import convert_tolerantly, encode_json
from dragoman.wires.openai_chat.parts import call_rest
from dragoman.wires.openai_chat.schema import COVERED, CUSTOM, NAME, ChatFunctionCall, ChatToolCall

_INPUT_HEAD = '{"input":"'


class ToolCallJoiner:
    """Joins fragments by their index; but servers reuse index 0, omit index or id, and repeat an id (seen 2026-08).

    A whole call that comes again, with the same index, id and arguments, is the same call.
    """

    def __init__(self, out: Assembler) -> None:
        self._out = out
        self._ids: list[str] = []
        self._by_id: dict[str, int] = {}
        """The last call of each id."""
        self._names: list[str] = []
        self._slots: dict[int, int] = {}
        self._inputs: set[int] = set()
        """The calls with free text. It is written as the argument `input`, so that its pieces go out as they come."""
        self._rests: dict[int, JsonObject] = {}
        self._ended: dict[int, str] = {}
        """The arguments of calls that have ended."""

    def read(self, data: JsonObject) -> bool:
        """Add a fragment, or a whole call; False if it repeats a call."""
        call = _convert(data)
        custom = call.custom if call.custom and (call.custom.name or call.custom.input) else None
        function = call.function or ChatFunctionCall()
        id, name = str(call.id or ""), (custom.name if custom else function.name) or ""
        text = None if custom else _text(function.arguments)
        slot = self._slot(call.index, id, name, text or "")
        if slot is None:
            return False
        rest = call_rest(data)
        if rest and self._out.call_deltas:
            self._out.add_call_fragment(slot, id=id, name=name)
            self._out.add_extra(slot, NAME, rest)
            rest = {}
        self._out.add_call_fragment(slot, id=id, name=name, text=text)
        if custom is not None:
            head = "" if slot in self._inputs else _INPUT_HEAD
            self._inputs.add(slot)
            self._out.add_call_fragment(slot, text=head + encode_json(custom.input or "").decode()[1:-1])
        if rest:
            self._out.count_characters(len(encode_json(rest)))
            self._rests.setdefault(slot, {}).update(rest)
        return True

    def finish(self, *, cut: bool) -> None:
        """Complete the calls; `cut` says that the length limit ended the response.

        Free text has no closing brace, so the last call with free text counts as the one that was cut.
        """
        for slot in self._inputs:
            self._out.add_call_fragment(slot, text='"' if cut and slot == len(self._ids) - 1 else '"}')
            self._out.add_extra(slot, COVERED, {"type": CUSTOM})
        for slot, rest in self._rests.items():
            self._out.add_extra(slot, NAME, rest)

    def _end_last(self) -> None:
        """End the last call, if another one starts and its arguments are complete: fragments go out one call by one."""
        slot = len(self._ids) - 1
        if slot >= 0 and slot not in self._inputs and self._out.is_open(slot) and self._out.call_is_complete(slot):
            self._ended[slot] = self._out.call_text(slot)
            self._out.close(slot)

    def _slot(self, index: int | None, id: str, name: str, text: str) -> int | None:
        """The call that a fragment belongs to; None if it repeats a whole call."""
        slot = self._find(id, name) if index is None else self._slots.get(index)
        if slot is None or self._is_new_call(slot, id, name, text):
            if slot is not None and index is not None and self._is_same_call(slot, id, text):
                return None
            if self._out.call_deltas:
                self._end_last()
            slot = len(self._ids)
            self._ids.append("")
            self._names.append("")
        elif slot in self._ended:
            if text.strip():
                raise Malformed(f"{NAME}: the stream continues the call {self._names[slot]}, which has ended")
            return None
        if index is not None:
            self._slots[index] = slot
        if id and not self._ids[slot]:
            self._ids[slot] = id
            self._by_id[id] = max(slot, self._by_id.get(id, slot))
        self._names[slot] = self._names[slot] or name
        return slot

    def _is_same_call(self, slot: int, id: str, text: str) -> bool:
        known = self._ended[slot] if slot in self._ended else self._out.call_text(slot)
        return bool(id) and id == self._ids[slot] and text == known

    def _find(self, id: str, name: str) -> int | None:
        """The call of a fragment without an index: that with its id, or the last if it has neither id nor name."""
        if id:
            return self._by_id.get(id)
        return None if name or not self._ids else len(self._ids) - 1

    def _is_new_call(self, slot: int, id: str, name: str, text: str) -> bool:
        """Whether a fragment starts another call. Later fragments have no name, or no text after a whole object."""
        if not name or not self._names[slot]:
            return False
        if name != self._names[slot] or (id and self._ids[slot] and id != self._ids[slot]):
            return True
        if slot in self._ended:
            return bool(text.strip())
        # The check parses the joined arguments, so it runs only if new arguments may start here.
        return text.lstrip()[:1] in ("{", "n") and self._out.call_is_complete(slot)


def _convert(data: JsonObject) -> ChatToolCall:
    try:
        return convert_tolerantly(data, ChatToolCall)
    except msgspec.ValidationError as error:
        raise Malformed(f"{NAME}: cannot decode a tool call: {error}") from error


def _text(arguments: str | JsonObject | None) -> str | None:
    return arguments if arguments is None or isinstance(arguments, str) else encode_json(arguments).decode()
