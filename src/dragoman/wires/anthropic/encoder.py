"""A Request and its Target in, the body of a Messages call out, with notices of what was bent on the way."""

import re
from typing import Any

from msgspec.structs import replace

from dragoman.http import HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.targets.target import Target
from dragoman.types import (
    Effort,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.wires.anthropic.parts import encode_block, encode_result, encode_tool, says_something
from dragoman.wires.anthropic.schema import (
    BETA,
    CHOICES,
    EFFORT_WORD,
    EPHEMERAL,
    MAX_TOKENS,
    MIN_BUDGET,
    NAME,
    SCHEMA_DIALECT,
    VERSION,
    WITHOUT_SAMPLING,
)
from dragoman.wires.common.extra import body_extra, wire_extra
from dragoman.wires.common.history import check_prompt, check_urls, merge_turns, repair, start_with_user
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import without_none
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    encode_options,
    max_tokens,
    parallel_tool_calls,
    requested_reasoning,
    supported_tools,
    to_budget,
    to_effort,
    tool_choice,
)


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The exact bytes for this target."""
    return _Encoder(request, target).post_request()


def encode_tools(tools: list[Tool | Opaque], notes: NoticeCollector) -> list[JsonObject]:
    """The definitions of some tools."""
    return [encode_tool(tool, notes) for tool in tools]


def encode_tool_result(result: ToolResult) -> JsonObject:
    """The block with the result of one call."""
    return encode_result(result, NoticeCollector(NAME))


class _Encoder:
    """One request on its way to one target."""

    def __init__(self, request: Request, target: Target) -> None:
        self.request = request
        self.target = target
        self.notes = NoticeCollector(NAME, strict=request.strict)
        self.extra = dict(body_extra(request, target, self.notes))
        history = repair(_with_system_turns(request, target, self.notes), self.notes)
        self.system = [text for text in history.system if says_something(text, self.notes)]
        check_urls(history.turns, target)
        self.turns = _turns(history.turns, target, self.notes)
        told = max_tokens(request, target, self.notes)
        self.max_tokens = (target.capabilities.max_output or MAX_TOKENS) if told is None else told
        self.output_config: JsonObject = {}
        self.thinking = {**self._thinking(), **_object(self.extra, "thinking")}

    def post_request(self) -> HttpRequest:
        """The bytes."""
        headers = {"anthropic-version": self.target.quirks.api_version or VERSION, **self._betas()}
        format = self._format()
        messages = [message for turn in self.turns for message in _encode_turn(turn, self.notes)]
        check_prompt(self.request, messages, self.target)
        body: JsonObject = {
            "model": self.target.model,
            "max_tokens": self.max_tokens,
            **({"system": _encode_system(self.system)} if self.system else {}),
            "messages": messages,
            **self._tools(),
            **self._sampling(),
            **self._rest(),
        }
        told = {
            "thinking": self.thinking if "type" in self.thinking else {},
            "output_config": {**self.output_config, **format, **_object(self.extra, "output_config")},
            "metadata": {**without_none({"user_id": self.request.user}), **_object(self.extra, "metadata")},
        }
        body.update((field, value) for field, value in told.items() if value)
        rest = {field: value for field, value in self.extra.items() if field not in told or not is_object(value)}
        return post_request(self.target, "/messages", {**body, **rest}, self.notes, **headers)

    def _betas(self) -> dict[str, str]:
        """The header of early features, which a caller puts into `extra` as the SDKs take them."""
        betas = self.extra.pop("betas", [])
        words = betas if is_list(betas) else str(betas).split(",")
        good = [str(word) for word in words if re.fullmatch(BETA, str(word))]
        if len(good) < len(words):
            self.notes.add("dropped", "betas", "a word of it is none")
        return {"anthropic-beta": ",".join(good)} if good else {}

    # Thinking ---------------------------------------------------------------------------------------------------------

    def _thinking(self) -> JsonObject:
        """Ours; nothing where the caller said it in the API's own words, unless the target does not know those."""
        quirks = self.target.quirks
        theirs, config = _object(self.extra, "thinking"), _object(self.extra, "output_config")
        verbatim = "type" in theirs or "effort" in config
        if verbatim and (self.request.reasoning is None or quirks.reasoning != "budget"):
            return {}
        for field, inner in (("thinking", theirs), ("output_config", config)):
            if inner:
                ours = ("type", "budget_tokens", "effort")
                self.extra[field] = {key: value for key, value in inner.items() if key not in ours}
        reasoning = requested_reasoning(self.request, self.target, self.notes)
        if reasoning is None:
            return {}
        return self._adaptive(reasoning or "none") if quirks.reasoning == "adaptive" else self._manual(reasoning)

    def _adaptive(self, reasoning: Effort | int) -> JsonObject:
        effort = to_effort(reasoning, self.target, self.notes)
        if effort == "none":
            return {"type": "disabled"}
        word = EFFORT_WORD[effort]
        if word != effort:
            self.notes.add("changed", "reasoning", f"it does not take {effort!r}, so it got {word!r}")
        self.output_config["effort"] = word
        return {"type": "adaptive"}

    def _manual(self, reasoning: Effort | int) -> JsonObject:
        asked = to_budget(reasoning)
        if not asked:
            return {"type": "disabled"}
        if _in_loop_without_thinking(self.turns):
            # 400: a final assistant message must start with a thinking block (seen 2025-12).
            self.notes.add("dropped", "reasoning", "it cannot begin in the middle of a tool loop")
            return {}
        budget = max(asked, MIN_BUDGET)
        if budget != asked:
            self.notes.add("changed", "reasoning", f"a budget is at least {MIN_BUDGET} tokens")
        return {"type": "enabled", "budget_tokens": self._fit_budget(budget)}

    def _fit_budget(self, budget: int) -> int:
        """A budget below max_tokens, which includes it: the one is lowered, or the other raised."""
        limit = self.max_tokens
        if budget < limit:
            return budget
        if self.request.max_tokens is None and self.target.capabilities.max_output is None:
            self.max_tokens = budget + MAX_TOKENS
            return budget
        if limit <= MIN_BUDGET:
            self.max_tokens = max(limit, 1) + MIN_BUDGET
            self.notes.add("changed", "max_tokens", f"thinking comes on top, so {limit} became {self.max_tokens}")
            return MIN_BUDGET
        lowered = max(MIN_BUDGET, limit - limit // 4)
        self.notes.add("changed", "reasoning", f"a budget is below max_tokens, so {budget} became {lowered}")
        return lowered

    @property
    def _is_manual(self) -> bool:
        return self.thinking.get("type") == "enabled"

    # The other options ------------------------------------------------------------------------------------------------

    def _tools(self) -> JsonObject:
        request, notes = self.request, self.notes
        own = supported_tools(request, notes)
        choice = tool_choice(request, self.target, own, notes)
        if not own:
            return {}
        if not self.target.quirks.strict and any(isinstance(tool, Tool) and tool.strict for tool in own):
            notes.add("dropped", "strict", "it has no such option")
            own = [replace(tool, strict=None) if isinstance(tool, Tool) else tool for tool in own]
        return {"tools": [encode_tool(tool, notes) for tool in own], **self._choice(choice)}

    def _choice(self, choice: str | None) -> JsonObject:
        parallel = parallel_tool_calls(self.request, self.target, self.notes)
        if choice is None and parallel is None:
            return {}
        kind = CHOICES.get(choice or "auto", "tool")
        if kind in ("any", "tool") and self._is_manual:
            self.notes.add(
                "changed", "tool_choice", "a call cannot be forced while it thinks, so the choice is its own"
            )
            kind = "auto"
        encoded: JsonObject = {"type": kind, **({"name": choice} if kind == "tool" else {})}
        if parallel is not None and kind != "none":
            encoded["disable_parallel_tool_use"] = not parallel
        return {"tool_choice": encoded}

    def _format(self) -> JsonObject:
        schema, notes = self.request.schema, self.notes
        if schema is None:
            return {}
        if schema and self.target.quirks.json_schema and self.target.capabilities.structured:
            fitted, notices = adapt(schema, SCHEMA_DIALECT, where="schema")
            notes.extend(*notices)
            return {"format": {"type": "json_schema", "schema": fitted}}
        notes.add("changed", "schema", "it cannot be enforced, so it is asked for in the system prompt")
        self.system.append(Text(text=json_instruction(schema)))
        return {}

    def _sampling(self) -> JsonObject:
        request, quirks = self.request, self.target.quirks
        takes = quirks.sampling and quirks.api_version not in WITHOUT_SAMPLING
        asked = (("temperature", request.temperature), ("top_p", request.top_p), ("top_k", request.top_k))
        told = [(name, value, name if takes else None) for name, value in asked if name not in self.extra]
        body = encode_options(told, self.extra, self.notes)
        for name in [name for name, value in body.items() if self._is_manual and not _goes_with_thinking(name, value)]:
            self.notes.add("dropped", name, "it does not go with thinking")
            del body[name]
        lone = quirks.temperature_excludes_top_p and "temperature" in body
        if lone and body.pop("top_p", None) is not None:
            self.notes.add("dropped", "top_p", "it is refused beside a temperature")
        if body.get("temperature", 0) > 1:
            self.notes.add("changed", "temperature", "it is at most 1")
            body["temperature"] = 1.0
        return body

    def _rest(self) -> JsonObject:
        request, notes = self.request, self.notes
        body: JsonObject = {}
        if stop := [word for word in request.stop if word.strip()]:
            body["stop_sequences"] = stop
        if len(stop) < len(request.stop):
            notes.add("dropped", "stop", "a stop sequence of white space is refused")
        if request.seed is not None:
            notes.add("dropped", "seed", "it has no such option")
        for field in request.metadata:
            notes.add("dropped", f"metadata: {field}", "it takes the user's id only")
        if request.cache:
            body["cache_control"] = EPHEMERAL
        if request.stream:
            body["stream"] = True
        return body


def _object(extra: JsonObject, field: str) -> JsonObject:
    value = extra.get(field)
    return value if is_object(value) else {}


def _goes_with_thinking(name: str, value: float) -> bool:
    return (name == "temperature" and value == 1) or (name == "top_p" and value >= 0.95)


# Messages -------------------------------------------------------------------------------------------------------------


def _with_system_turns(request: Request, target: Target, notes: NoticeCollector) -> Request:
    """System messages that stay where they are, for targets that take them there."""
    if not target.quirks.system_turns:
        return request
    messages: list[Message] = []
    for message in request.messages:
        if message.role == "system" and messages:
            blocks = [encode_block(part, notes) for part in message.parts if _instructs(part, notes)]
            if not blocks:
                continue
            kept = Opaque(wire=NAME, data={"role": "system", "content": blocks, **wire_extra(message.extra, NAME)})
            messages.append(Message(role="user", parts=(kept,)))
        else:
            messages.append(message)
    return replace(request, messages=tuple(messages))


def _instructs(part: Part, notes: NoticeCollector) -> bool:
    """Whether a part may stand in a system message."""
    if isinstance(part, Thinking | ToolCall | ToolResult):
        notes.add("dropped", "a part of a system message", "nobody thinks or calls there")
        return False
    return says_something(part, notes)


def _turns(turns: tuple[Message, ...], target: Target, notes: NoticeCollector) -> list[Message]:
    """Turns of user and assistant that alternate, begun by the user, each with something to say."""
    kept: list[Message] = []
    for turn in turns:
        parts = [part for part in turn.parts if says_something(part, notes)]
        if target.quirks.signed_thinking:
            parts = [part for part in parts if _is_signed(part, notes)]
        while parts and isinstance(parts[-1], Thinking):
            # 400: the final block in an assistant message cannot be `thinking` (seen 2025-12).
            notes.add("repaired", "thinking at the end of a message", "nothing follows it, so it was left out")
            parts.pop()
        if parts:
            role = "assistant" if turn.role == "assistant" else "user"
            kept.append(replace(turn, role=role, parts=tuple(parts)))
    return _trimmed(start_with_user(merge_turns(kept), notes), notes)


def _is_signed(part: Part, notes: NoticeCollector) -> bool:
    if not isinstance(part, Thinking) or part.redacted or "signature" in wire_extra(part.extra, NAME):
        return True
    notes.add("dropped", "thinking", "it has no signature")
    return False


def _trimmed(turns: list[Message], notes: NoticeCollector) -> list[Message]:
    """The last turn without white space at its end, where it is the assistant's and so a prefill."""
    last = turns[-1].parts[-1] if turns and turns[-1].role == "assistant" else None
    if not isinstance(last, Text) or last.text == last.text.rstrip():
        return turns
    notes.add("repaired", "the last message", "it may not end in white space, so that was left out")
    text = replace(last, text=last.text.rstrip())
    return [*turns[:-1], replace(turns[-1], parts=(*turns[-1].parts[:-1], text))]


def _in_loop_without_thinking(turns: list[Message]) -> bool:
    """Whether results were just given to calls that no thinking came before."""
    loop: list[Message] = []
    for turn in reversed(turns):
        if turn.role == "user" and not any(isinstance(part, ToolResult) for part in turn.parts):
            break
        loop.append(turn)
    return bool(loop) and loop[0].role == "user" and not isinstance(loop[-1].parts[0], Thinking)


def _encode_system(texts: list[Text]) -> str | list[JsonObject]:
    if len(texts) == 1 and NAME not in texts[0].extra:
        return texts[0].text
    return [{"type": "text", "text": text.text, **wire_extra(text.extra, NAME)} for text in texts]


def _encode_turn(turn: Message, notes: NoticeCollector) -> list[JsonObject]:
    """A turn as one message, or as several where messages that are kept as they came stand in it."""
    messages: list[JsonObject] = []
    blocks: list[JsonObject] = []
    for part in turn.parts:
        if isinstance(part, Opaque) and part.data.get("role") == "system":
            messages += [*_message(turn, blocks), part.data]
            blocks = []
        else:
            blocks.append(encode_block(part, notes))
    return [*messages, *_message(turn, blocks)]


def _message(turn: Message, blocks: list[JsonObject]) -> list[JsonObject]:
    if not blocks:
        return []
    plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and blocks[0]["type"] == "text"
    content: Any = blocks[0]["text"] if plain else blocks
    return [{"role": turn.role, "content": content, **wire_extra(turn.extra, NAME)}]
