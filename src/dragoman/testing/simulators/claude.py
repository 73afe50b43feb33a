"""Claude by the Messages API.

Facts of November 2026. The newest models bind a thinking block to the conversation before it: the signature has a hash
of the system prompt, the tools and the earlier messages.
"""

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import ClassVar

from dragoman.media.sniff import sniff
from dragoman.testing.simulators.base import (
    HistoryStep,
    ProviderCall,
    Rule,
    Simulator,
    Violation,
    member,
    number_of,
)
from dragoman.testing.simulators.schemas import ANTHROPIC, schema_problems
from dragoman.testing.simulators.seals import Seals, digest
from dragoman.types import JsonObject, Part, Thinking, ToolCall, is_list, is_object
from dragoman.types.data_urls import decode_base64
from dragoman.wires.common.json import objects, text_of

_FIELDS = frozenset(
    "model max_tokens messages system stop_sequences stream tools tool_choice output_config output_format thinking "
    "cache_control metadata service_tier speed inference_geo container diagnostics temperature top_p top_k "
    "context_management mcp_servers fallbacks thread betas".split()
)
_COUNTED = frozenset(
    "model messages system tools tool_choice thinking output_config output_format cache_control context_management "
    "mcp_servers speed betas".split()
)
"""The fields of a request for a token count."""
_NO_LIMIT = 1_000_000
_SYSTEM_INSIDE = r"claude-(opus-4-[89]|opus-5|fable-5|mythos-5|[a-z]+-5-5)"
_OLD = r"claude-([23]|[a-z]+-4(-[0-5]\b|-20|$))"
"""Models that take a prefill and know no adaptive thinking."""
_SAMPLING = rf"{_OLD}|claude-[a-z]+-4-6"
_ONE_OF_SAMPLING = r"claude-(opus-4-1|[a-z]+-4-[5-9])"
_BOUND = r"claude-((fable|mythos)-5-[12]|opus-5-5)"
"""Models that bind a thinking block to the conversation before it."""
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_THINKS_ALWAYS = r"claude-(fable|mythos|(opus|sonnet)-5-5)"
_THINKS_BY_DEFAULT = r"claude-[a-z]+-5"
_NO_FORCED_CALL = r"claude-((opus|sonnet)-5-5|(fable|mythos)-5-[12]|mythos-preview)"
_NO_ENABLED = r"claude-[a-z]+-(4-[789]|5)"
_OMITS_TEXT = _NO_ENABLED
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SIGNED_BY = {"thinking": "signature", "redacted_thinking": "data"}
_THINKING = (*_SIGNED_BY,)


def _is(model: str, pattern: str) -> bool:
    return re.match(pattern, model) is not None


class ClaudeSimulator(Simulator):
    """Claude, by the Messages API.

    >>> claude = ClaudeSimulator("Hello!")
    >>> claude.model().generate("hi").text
    'Hello!'
    """

    PROVIDER: ClassVar = "anthropic"
    WIRE: ClassVar = "anthropic"
    MODEL: ClassVar = "claude-opus-4-8"
    CALL_IDS: ClassVar = "toolu_{}"
    COUNT_PATH: ClassVar = "/messages/count_tokens"

    def is_thinking(self, call: ProviderCall, /) -> bool:
        return _is_thinking(call)

    def sign(self, parts: list[Part], call: ProviderCall, /) -> tuple[list[Part], frozenset[str]]:
        thinking = member(call.body, "thinking")
        omits = thinking.get("display", "omitted" if _is(call.model, _OMITS_TEXT) else "") == "omitted"
        prefix = _prefix(call.model, call.body, len(objects(call.body.get("messages"))))
        signed: list[Part] = []
        marks: list[str] = []
        calls = 0
        for part in parts:
            if isinstance(part, Thinking):
                text = "" if omits or part.redacted else part.text
                place = [len(marks), calls]
                seal = {"model": call.model, "text": digest(text), "prefix": prefix, "place": place}
                seal["n"] = digest([part.text, prefix])
                marks.append(self.seals.seal(seal))
                extra = {"anthropic": {"data" if part.redacted else "signature": marks[-1]}}
                signed.append(Thinking(text=text, redacted=part.redacted, extra=extra))
            else:
                signed.append(part)
            calls += isinstance(part, ToolCall)
        return signed, frozenset(marks)

    def steps(self, body: JsonObject, /) -> Iterator[HistoryStep]:
        dropped = {mark for _, _, mark in _mismatches(text_of(body.get("model")), body, self.seals)}
        for message in objects(body.get("messages")):
            if message.get("role") == "assistant":
                step = _step(message)
                yield step._replace(reasoning=step.reasoning - dropped)

    def check_count(self, body: JsonObject, /) -> Iterator[Violation]:
        for name in sorted(body.keys() - _COUNTED):
            yield Violation(f"{name}: Extra inputs are not permitted")

    def counted_body(self, body: JsonObject, /) -> JsonObject:
        return {**body, "max_tokens": _NO_LIMIT}

    def encode_count(self, tokens: int, /) -> JsonObject:
        return {"input_tokens": tokens}

    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        kinds = {401: "authentication_error", 404: "not_found_error"}
        error = {"type": kinds.get(violation.status, "invalid_request_error"), "message": violation.message}
        return {"type": "error", "error": error, "request_id": f"req_sim{len(self.http):06d}"}


def _is_thinking(call: ProviderCall) -> bool:
    match call.body.get("thinking"):
        case {"type": "disabled"}:
            return False
        case {"type": str()}:
            return True
        case _:
            return _is(call.model, _THINKS_BY_DEFAULT)


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _step(message: JsonObject) -> HistoryStep:
    blocks = _blocks(message)
    calls = [text_of(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
    marks = {_mark(block) for block in blocks if block.get("type") in _THINKING}
    return HistoryStep(tuple(calls or texts), frozenset(marks))


def _mark(block: JsonObject) -> str:
    """The signature of a block of thinking."""
    return text_of(block.get(_SIGNED_BY.get(text_of(block.get("type")), "")))


def _prefix(model: str, body: JsonObject, count: int) -> str:
    """What binds a block to the conversation before it; "" if the model does not bind its blocks to that."""
    if not _is(model, _BOUND):
        return ""
    messages = [
        [message.get("role"), _without_marks(_blocks(message))] for message in objects(body.get("messages"))[:count]
    ]
    return digest([_without_marks(body.get("system")), _without_marks(body.get("tools")), messages])


def _mismatches(model: str, body: JsonObject, seals: Seals) -> Iterator[tuple[int, int, str]]:
    """Blocks that are bound to another conversation: their places, and their signatures."""
    for i, message in enumerate(objects(body.get("messages"))):
        for j, block in enumerate(_blocks(message)):
            mark = _mark(block)
            seal = seals.open(mark) if block.get("type") in _THINKING else None
            if seal is not None and seal.get("prefix") and seal["prefix"] != _prefix(model, body, i):
                yield i, j, mark


def _without_marks(value: object) -> object:
    """A value without the breakpoints of the cache, which may move."""
    if is_object(value):
        return {key: _without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [_without_marks(item) for item in value] if is_list(value) else value


# Rules ----------------------------------------------------------------------------------------------------------------


def _key(call: ProviderCall) -> Iterator[Violation]:
    if not call.headers.keys() & {"x-api-key", "authorization"}:
        yield Violation("x-api-key header is required", status=401)
    if "anthropic-version" not in call.headers:
        yield Violation("anthropic-version: header is required")


def _fields(call: ProviderCall) -> Iterator[Violation]:
    for name in ("model", "max_tokens", "messages"):
        if name not in call.body:
            yield Violation(f"{name}: Field required")
    for name in sorted(call.body.keys() - _FIELDS):
        yield Violation(f"{name}: Extra inputs are not permitted")
    if not call.body.get("messages"):
        yield Violation("messages: at least one message is required")


def _roles(call: ProviderCall) -> Iterator[Violation]:
    messages = objects(call.body["messages"])
    takes_system = _is(call.model, _SYSTEM_INSIDE)
    for i, message in enumerate(messages):
        role = message.get("role")
        if role == "system" and not takes_system:
            yield Violation(
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not '
                '"system" as an input message role.'
            )
        elif role not in ("user", "assistant", "system"):
            yield Violation(f"messages.{i}.role: Input should be 'user' or 'assistant'")
    if messages[0].get("role") != "user":
        yield Violation('messages: first message must use the "user" role')
    for i, (before, message) in enumerate(pairwise(messages), 1):
        if message.get("role") == "system" and before.get("role") != "user":
            yield Violation(f"messages.{i}: a system message must follow a user message")
        if before.get("role") == "system" and message.get("role") != "assistant":
            yield Violation(f"messages.{i}: a system message must be last or be followed by an assistant message")
    if messages[-1].get("role") == "assistant" and not _is(call.model, _OLD):
        yield Violation(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _contents(call: ProviderCall) -> Iterator[Violation]:
    messages = objects(call.body["messages"])
    for i, message in enumerate(messages):
        blocks = _blocks(message)
        if not blocks and not (i == len(messages) - 1 and message.get("role") == "assistant"):
            yield Violation(
                f"messages.{i}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
        for j, block in enumerate(blocks):
            yield from _block(f"messages.{i}.content.{j}", block, message)
    system = call.body.get("system")
    if is_list(system) and any(not block.get("text") for block in objects(system)):
        yield Violation("system: text content blocks must be non-empty")


def _block(where: str, block: JsonObject, message: JsonObject) -> Iterator[Violation]:
    kind = block.get("type")
    if kind == "text" and not text_of(block.get("text")).strip():
        yield Violation("messages: text content blocks must be non-empty")
    if kind in ("tool_use", "thinking", "redacted_thinking") and message.get("role") != "assistant":
        yield Violation(f"{where}: `{kind}` blocks can only be in `assistant` messages")
    if kind == "tool_result" and message.get("role") != "user":
        yield Violation(f"{where}: `tool_result` blocks can only be in `user` messages")
    if kind == "tool_use" and not is_object(block.get("input")):
        yield Violation(f"{where}.tool_use.input: Input should be a valid dictionary")
    id = block.get({"tool_use": "id", "tool_result": "tool_use_id"}.get(text_of(kind), ""))
    if id is not None and not _ID.fullmatch(text_of(id)):
        name = "id" if kind == "tool_use" else "tool_use_id"
        yield Violation(f"{where}.{kind}.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind == "image":
        yield from _image(where, member(block, "source"))
    for k, inner in enumerate(objects(block.get("content")) if kind == "tool_result" else ()):
        yield from _block(f"{where}.tool_result.content.{k}", inner, message)


def _image(where: str, source: JsonObject) -> Iterator[Violation]:
    if source.get("type") == "url" and not text_of(source.get("url")).startswith("https://"):
        yield Violation(f"{where}.image.source.url.url: Only HTTPS URLs are supported.")
    if source.get("type") == "base64":
        mime = sniff(decode_base64(text_of(source.get("data"))))
        if mime != source.get("media_type"):
            yield Violation(
                f"{where}.image.source.base64.data: The image was specified using the {source.get('media_type')} media "
                f"type, but the image appears to be a {mime} image"
            )


def _pairs(call: ProviderCall) -> Iterator[Violation]:
    messages = objects(call.body["messages"])
    waiting: list[str] = []
    seen: set[str] = set()
    for i, message in enumerate([*messages, {}]):
        blocks = _blocks(message)
        results: list[str] = []
        for block in blocks:
            if block.get("type") != "tool_result":
                break
            results.append(text_of(block.get("tool_use_id")))
        missing = [id for id in waiting if id not in results]
        if missing:
            yield Violation(
                f"messages.{i - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        for j, block in enumerate(blocks):
            id = text_of(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and id not in waiting:
                yield Violation(
                    f"messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        if len(results) != len(set(results)):
            yield Violation(
                f"messages.{i}: each tool_use must have a single result. Found multiple `tool_result` blocks"
            )
        waiting = [text_of(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        if seen & set(waiting) or len(waiting) != len(set(waiting)):
            yield Violation(f"messages.{i}: `tool_use` ids must be unique")
        seen |= set(waiting)


def _signatures(call: ProviderCall) -> Iterator[Violation]:
    for i, message in enumerate(objects(call.body["messages"])):
        place = calls = 0
        for j, block in enumerate(_blocks(message)):
            kind = block.get("type")
            calls += kind == "tool_use"
            if kind in _THINKING:
                seal, name = call.seals.open(_mark(block)), _SIGNED_BY[text_of(kind)]
                if seal is None or seal.get("text") != digest(text_of(block.get("thinking"))):
                    yield Violation(f"messages.{i}.content.{j}: Invalid `{name}` in `{kind}` block")
                elif seal.get("place") != [place, calls]:
                    yield Violation(_MODIFIED.format(i, j))
                place += 1


_MODIFIED = (
    "messages.{}.content.{}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response."
)


def _loop(messages: list[JsonObject]) -> Iterator[tuple[int, JsonObject]]:
    """The assistant messages of the tool loop that the last message continues.

    Consecutive messages of the user are one turn.
    """
    turns = [(i, message) for i, message in enumerate(messages) if message.get("role") != "system"]
    for role, group in groupby(reversed(turns), key=lambda turn: turn[1].get("role")):
        run = [*group]
        if role == "user" and not any(b.get("type") == "tool_result" for _, m in run for b in _blocks(m)):
            return
        if role == "assistant":
            yield from run


def _thinking_in_loop(call: ProviderCall) -> Iterator[Violation]:
    if not _is_thinking(call):
        return
    for i, message in _loop(objects(call.body["messages"])):
        step = _step(message)
        for key in step.keys:
            if not call.known_steps.get(key, frozenset()) <= step.reasoning:
                yield Violation(_MODIFIED.format(i, 0))
        kind = next((block.get("type") for block in _blocks(message)), None)
        if member(call.body, "thinking").get("type") == "enabled" and kind not in _THINKING:
            yield Violation(
                f"messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When "
                "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the "
                "lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from "
                "previous turns. To avoid this requirement, disable `thinking`."
            )


def _binding(call: ProviderCall) -> Iterator[Violation]:
    binding = member(member(call.body, "thinking"), "block_binding")
    if binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    for i, j, _ in _mismatches(call.model, call.body, call.seals):
        yield Violation(
            f"messages.{i}.content.{j}: Invalid `signature` in `thinking` block: the block is bound to a different "
            "conversation"
        )


def _thinking_options(call: ProviderCall) -> Iterator[Violation]:
    thinking = member(call.body, "thinking")
    kind, model = thinking.get("type"), call.model
    if "block_binding" in thinking and _BINDING_BETA not in call.headers.get("anthropic-beta", ""):
        yield Violation(f"thinking.{kind}.block_binding: Extra inputs are not permitted")
    refused = {"enabled": _NO_ENABLED, "adaptive": _OLD, "disabled": _THINKS_ALWAYS}
    if kind in refused and _is(model, refused[kind]):
        yield Violation(f"thinking.type: `{kind}` is not supported for this model")
    if kind == "enabled":
        budget = number_of(thinking.get("budget_tokens"))
        if budget < 1024:
            yield Violation("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= number_of(call.body["max_tokens"]):
            yield Violation("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if call.body.get("temperature", 1) != 1:
            yield Violation("`temperature` may only be set to 1 when thinking is enabled.")
        if "top_k" in call.body:
            yield Violation("`top_k` must be unset when thinking is enabled.")
        if member(call.body, "tool_choice").get("type") in ("any", "tool"):
            yield Violation("Thinking may not be enabled when tool_choice forces tool use.")


def _sampling(call: ProviderCall) -> Iterator[Violation]:
    if not _is(call.model, _SAMPLING):
        for name in ("temperature", "top_p", "top_k"):
            if name in call.body and (name == "top_k" or call.body[name] != 1):
                yield Violation(f"`{name}` is deprecated for this model.")
    if "temperature" in call.body and "top_p" in call.body and _is(call.model, _ONE_OF_SAMPLING):
        yield Violation("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")


def _tools(call: ProviderCall) -> Iterator[Violation]:
    tools = objects(call.body.get("tools"))
    names = [text_of(tool.get("name")) for tool in tools]
    for i, tool in enumerate(tools):
        if tool.get("type", "custom") != "custom":
            continue
        if not _TOOL_NAME.fullmatch(names[i]):
            yield Violation(f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        schema = tool.get("input_schema")
        if not is_object(schema):
            yield Violation(f"tools.{i}.custom.input_schema: Field required")
        elif schema.get("type") != "object":
            yield Violation(f"tools.{i}.custom.input_schema.type: Input should be 'object'")
        elif tool.get("strict"):
            for message in schema_problems(schema, ANTHROPIC):
                yield Violation(f"tools.{i}.custom: {message}")
    if len(names) != len(set(names)):
        yield Violation("tools: Tool names must be unique.")
    choice = member(call.body, "tool_choice")
    if choice and not tools:
        yield Violation("tool_choice may only be specified while providing tools.")
    if choice.get("type") in ("any", "tool") and _is(call.model, _NO_FORCED_CALL):
        yield Violation("tool_choice: forced tool use is not supported for this model")
    if not tools and any(b.get("type") == "tool_use" for m in objects(call.body["messages"]) for b in _blocks(m)):
        yield Violation("Requests which include `tool_use` or `tool_result` blocks must define tools.")


def _output(call: ProviderCall) -> Iterator[Violation]:
    schema = member(member(call.body, "output_config"), "format").get("schema")
    if is_object(schema):
        for message in schema_problems(schema, ANTHROPIC):
            yield Violation(f"output_config.format.schema: {message}")


def _breakpoints(call: ProviderCall) -> Iterator[Violation]:
    count = _count_marks(call.body)
    if count > 4:
        yield Violation(f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")


def _count_marks(value: object) -> int:
    if is_object(value):
        return bool(value.get("cache_control")) + sum(map(_count_marks, value.values()))
    return sum(map(_count_marks, value)) if is_list(value) else 0


ClaudeSimulator.RULES = (
    Rule("key", _key),
    Rule("fields", _fields),
    Rule("roles", _roles),
    Rule("contents", _contents),
    Rule("pairs", _pairs),
    Rule("signatures", _signatures),
    Rule("thinking in a tool loop", _thinking_in_loop),
    Rule("binding to the conversation", _binding, is_reported=True),
    Rule("thinking options", _thinking_options),
    Rule("sampling", _sampling),
    Rule("tools", _tools),
    Rule("output schema", _output),
    Rule("cache breakpoints", _breakpoints),
)
