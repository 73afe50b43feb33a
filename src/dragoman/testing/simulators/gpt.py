"""GPT by the Responses API."""

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from dragoman.http import HttpRequest
from dragoman.testing.script import EncodedAnswer, json_answer
from dragoman.testing.simulators.base import (
    HistoryStep,
    ProviderCall,
    Rule,
    Simulator,
    Violation,
    member,
    number_of,
)
from dragoman.testing.simulators.schemas import OPENAI_STRICT, schema_problems
from dragoman.testing.simulators.seals import digest
from dragoman.types import JsonObject, Opaque, Part, Text, Thinking, ToolCall, is_list, is_object
from dragoman.wires.common.json import objects, text_of

_FIELDS = frozenset(
    "model input instructions background context_management conversation include max_output_tokens max_tool_calls "
    "metadata moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options "
    "prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text "
    "tool_choice tools top_logprobs top_p truncation user client_metadata".split()
)
_COUNTED = frozenset(
    "model input instructions tools tool_choice parallel_tool_calls reasoning text truncation conversation "
    "previous_response_id personality".split()
)
"""The fields of a request for a token count."""
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_PREFIXES = {"reasoning": "rs", "function_call": "fc", "message": "msg", "custom_tool_call": "ctc"}
_CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_OUTPUTS = {output: call for call, output in _CALLS.items()}
_MODEL_SIDE = frozenset({"reasoning", "function_call", "custom_tool_call"})
_THINKS_BY_DEFAULT = r"o[134]|gpt-5(-|$)(?!chat)|gpt-5\.[5-9]|gpt-[6-9]"
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_MAX_ID = 64
_TRIGGER = "compaction_trigger"
_ENCRYPTED = "reasoning.encrypted_content"


class GptSimulator(Simulator):
    """GPT, by the Responses API. It compacts by a `compaction_trigger` and by `/responses/compact`.

    >>> gpt = GptSimulator("Hello!")
    >>> gpt.model().generate("hi").text
    'Hello!'
    """

    PROVIDER: ClassVar = "openai-responses"
    WIRE: ClassVar = "openai_responses"
    MODEL: ClassVar = "gpt-5.6"
    COUNT_PATH: ClassVar = "/responses/input_tokens"

    def is_thinking(self, call: ProviderCall, /) -> bool:
        return _is_thinking(call)

    def sign(self, parts: list[Part], call: ProviderCall, /) -> tuple[list[Part], frozenset[str]]:
        if _items(call.body)[-1:] == [{"type": _TRIGGER}]:
            return [Opaque(wire=self.WIRE, data=self._compaction(call.body))], frozenset()
        has_summary = bool(member(call.body, "reasoning").get("summary"))
        include = call.body.get("include")
        is_encrypted = is_list(include) and _ENCRYPTED in include
        signed: list[Part] = []
        marks: set[str] = set()
        for part in parts:
            number = f"{len(self.requests):06d}{len(signed)}"
            match part:
                case Thinking():
                    text = part.text if has_summary else ""
                    mark = "gAAAA" + self.seals.seal({"n": number, "text": digest(part.text)})
                    item = {"id": f"rs_{number}"}
                    if is_encrypted:
                        item["encrypted_content"] = mark
                        marks.add(mark)
                    signed.append(Thinking(text=text, redacted=not text, extra={self.WIRE: item}))
                case ToolCall():
                    extra = {**part.extra.get(self.WIRE, {}), "id": f"fc_{number}"}
                    signed.append(msgspec.structs.replace(part, extra={self.WIRE: extra}))
                case Text():
                    signed.append(Text(text=part.text, extra={self.WIRE: {"item": {"id": f"msg_{number}"}}}))
                case _:
                    signed.append(part)
        return signed, frozenset(marks)

    def steps(self, body: JsonObject, /) -> Iterator[HistoryStep]:
        keys: list[str] = []
        marks: set[str] = set()
        for item in [*_items(body), {}]:
            kind, is_message = item.get("type"), item.get("role") == "assistant"
            if kind not in _MODEL_SIDE and not is_message:
                if keys:
                    yield HistoryStep(tuple(keys), frozenset(marks))
                keys, marks = [], set()
            if kind == "reasoning":
                marks.add(text_of(item.get("encrypted_content")))
            elif kind in _CALLS:
                keys.append(text_of(item.get("call_id")))
            elif is_message:
                keys += _texts(item)

    def check_count(self, body: JsonObject, /) -> Iterator[Violation]:
        for name in sorted(body.keys() - _COUNTED):
            yield Violation(f"Unknown parameter: '{name}'.", name, "unknown_parameter")

    def encode_count(self, tokens: int, /) -> JsonObject:
        return {"object": "response.input_tokens", "input_tokens": tokens}

    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        error = {"message": violation.message, "type": "invalid_request_error"}
        return {"error": {**error, "param": violation.param, "code": violation.code}}

    def remember(self, id: str, call: ProviderCall, /) -> None:
        if call.body.get("store", True):
            self._known_steps[_stored_key(id)] = frozenset()

    def _compaction(self, body: JsonObject) -> JsonObject:
        mark = "gAAAA" + self.seals.seal({"summary": digest(body.get("input"))})
        return {"id": f"cmp_{len(self.http)}", "type": "compaction", "encrypted_content": mark}

    def other_paths(self, http: HttpRequest, /) -> EncodedAnswer | None:
        if not http.path.partition("?")[0].endswith("/responses/compact"):
            return None
        try:
            body = msgspec.json.decode(http.body, type=JsonObject)
        except msgspec.MsgspecError:
            return None
        call = ProviderCall(text_of(body.get("model")), body, dict(http.headers), self.seals, self._known_steps)
        for rule in (Rule("items", _item_forms), Rule("reasoning", _reasoning), Rule("pairs", _pairs)):
            for violation in rule.check(call):
                return self._refuse(rule.name, violation)
        users = [item for item in _items(body) if item.get("role") == "user"]
        output = [*users, self._compaction(body)]
        usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 3}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12}
        head = {"id": f"resp_cmp{len(self.http)}", "object": "response.compaction", "created_at": 1_794_900_000}
        return json_answer(200, {**head, "output": output, "usage": usage})


def _is_thinking(call: ProviderCall) -> bool:
    effort = member(call.body, "reasoning").get("effort")
    return re.match(_THINKS_BY_DEFAULT, call.model) is not None if effort is None else effort != "none"


def _items(body: JsonObject) -> list[JsonObject]:
    input = body.get("input")
    return [{"role": "user", "content": input}] if isinstance(input, str) else objects(input)


def _texts(item: JsonObject) -> list[str]:
    content = item.get("content")
    return [content] if isinstance(content, str) else [text_of(part.get("text")) for part in objects(content)]


# Rules ----------------------------------------------------------------------------------------------------------------


def _key(call: ProviderCall) -> Iterator[Violation]:
    if "authorization" not in call.headers:
        yield Violation("You didn't provide an API key.", status=401, code="missing_api_key")


def _fields(call: ProviderCall) -> Iterator[Violation]:
    for name in sorted(call.body.keys() - _FIELDS):
        yield Violation(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if not call.body.get("model") and not call.body.get("prompt"):
        yield Violation("Missing required parameter: 'model'.", "model", "missing_required_parameter")
    for name in ("temperature", "top_p"):
        if call.body.get(name, 1) not in (1, None) and _is_thinking(call):
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            yield Violation(message, name, "unsupported_parameter")
    tokens = call.body.get("max_output_tokens")
    if tokens is not None and number_of(tokens) < 16:
        yield Violation(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got "
            f"{tokens} instead.",
            "max_output_tokens",
            "integer_below_min_value",
        )
    effort = member(call.body, "reasoning").get("effort")
    if effort is not None and effort not in _EFFORTS:
        message = f"Unsupported value: '{effort}' is not supported with the '{call.model}' model."
        yield Violation(message, "reasoning.effort", "unsupported_value")


def _user(call: ProviderCall) -> Iterator[Violation]:
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        yield from _length(name, call.body.get(name))


def _length(where: str, value: object) -> Iterator[Violation]:
    if isinstance(value, str) and len(value) > _MAX_ID:
        yield Violation(
            f"Invalid '{where}': string too long. Expected a string with maximum length {_MAX_ID}, but got a string "
            f"with length {len(value)} instead.",
            where,
            "string_above_max_length",
        )


def _item_forms(call: ProviderCall) -> Iterator[Violation]:
    seen: set[str] = set()
    for i, item in enumerate(_items(call.body)):
        kind, id = text_of(item.get("type") or "message"), item.get("id")
        if isinstance(id, str):
            prefix = _PREFIXES.get(kind)
            if prefix is not None and not id.startswith(prefix):
                message = f"Invalid 'input[{i}].id': '{id}'. Expected an ID that begins with '{prefix}'."
                yield Violation(message, f"input[{i}].id", "invalid_value")
            if id in seen:
                message = f"Duplicate item found with id {id}. Remove duplicate items from your input and try again."
                yield Violation(message)
            seen.add(id)
            yield from _length(f"input[{i}].id", id)
        yield from _length(f"input[{i}].call_id", item.get("call_id"))
        if kind in _CALLS and not _NAME.fullmatch(text_of(item.get("name"))):
            yield _pattern(f"input[{i}].name")
        yield from _content(i, item)


def _pattern(where: str) -> Violation:
    message = f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern "
    return Violation(f"{message}'^[a-zA-Z0-9_-]+$'.", where, "invalid_value")


def _content(i: int, item: JsonObject) -> Iterator[Violation]:
    role = item.get("role")
    if role is not None and role not in ("user", "assistant", "system", "developer"):
        values = "'assistant', 'system', 'developer', and 'user'"
        yield Violation(f"Invalid value: '{role}'. Supported values are: {values}.", f"input[{i}]", "invalid_value")
    allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for j, part in enumerate(objects(item.get("content")) if role is not None else ()):
        kind = part.get("type")
        where = f"input[{i}].content[{j}]"
        if kind not in allowed:
            values = " and ".join(f"'{name}'" for name in allowed)
            message = f"Invalid value: '{kind}'. Supported values are: {values}."
            yield Violation(message, where, "invalid_value")
        if kind == "input_image" and not isinstance(part.get("image_url", ""), str):
            yield Violation(f"Invalid type for '{where}.image_url': expected a string.", where, "invalid_type")


def _reasoning(call: ProviderCall) -> Iterator[Violation]:
    items = _items(call.body)
    is_stored = call.body.get("store", True)
    for i, item in enumerate(items):
        if item.get("type") not in ("reasoning", "compaction"):
            continue
        id, mark = item.get("id"), item.get("encrypted_content")
        if mark is None and not is_stored:
            yield Violation(
                f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with "
                "`store` set to true, or remove this item from your input.",
                "input",
                status=404,
            )
        if mark is not None and call.seals.open(text_of(mark).removeprefix("gAAAA")) is None:
            yield Violation(
                f"The encrypted content {text_of(mark)[:16]}... could not be verified. Reason: Encrypted content could "
                "not be decrypted or parsed.",
                code="invalid_encrypted_content",
            )
        if item.get("type") == "reasoning":
            follower = items[i + 1] if i + 1 < len(items) else {}
            if not follower or follower.get("role", "assistant") != "assistant" or follower.get("type") in _OUTPUTS:
                message = f"Item '{id}' of type 'reasoning' was provided without its required following item."
                yield Violation(message, "input")


def _trigger(call: ProviderCall) -> Iterator[Violation]:
    for i, item in enumerate(_items(call.body)[:-1]):
        if item.get("type") == _TRIGGER:
            yield Violation("A compaction_trigger must be the last item of the input.", f"input[{i}]", "invalid_value")


def _reasoning_of_calls(call: ProviderCall) -> Iterator[Violation]:
    """A call whose item id is known needs the reasoning item that led to it."""
    present = {text_of(item.get("encrypted_content")) for item in _items(call.body)}
    for item in _items(call.body):
        if item.get("type") in _CALLS and item.get("id") is not None:
            expected = call.known_steps.get(text_of(item.get("call_id")), frozenset())
            if not expected <= present:
                kind = item["type"]
                message = f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item."
                yield Violation(message, "input")


def _refers(call: ProviderCall) -> bool:
    """Whether the input refers to items that the provider stored."""
    return any(item.get("type") == "item_reference" for item in _items(call.body))


def _pairs(call: ProviderCall) -> Iterator[Violation]:
    if call.body.get("previous_response_id") or call.body.get("conversation") or _refers(call):
        return
    open_calls: dict[str, str] = {}
    for item in _items(call.body):
        kind, id = text_of(item.get("type")), text_of(item.get("call_id"))
        if kind in _CALLS:
            open_calls[id] = kind
        elif kind in _OUTPUTS and open_calls.pop(id, None) != _OUTPUTS[kind]:
            name = _OUTPUTS[kind].replace("_", " ")
            yield Violation(f"No tool call found for {name} output with call_id {id}.", "input")
    for id, kind in open_calls.items():
        yield Violation(f"No tool output found for {kind.replace('_', ' ')} {id}.", "input")


def _tools(call: ProviderCall) -> Iterator[Violation]:
    tools = objects(call.body.get("tools"))
    for i, tool in enumerate(tools):
        if tool.get("type") != "function":
            continue
        name = text_of(tool.get("name"))
        if not _NAME.fullmatch(name):
            yield _pattern(f"tools[{i}].name")
        yield from _length(f"tools[{i}].name", name)
        schema = tool.get("parameters")
        if is_object(schema) and tool.get("strict"):
            for violation in schema_problems(schema, OPENAI_STRICT):
                message = f"Invalid schema for function '{name}': {violation}"
                yield Violation(message, f"tools[{i}].parameters", "invalid_function_parameters")
    choice = call.body.get("tool_choice")
    if choice not in (None, "auto", "none") and not is_list(call.body.get("tools")):
        yield Violation("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")


def _format(call: ProviderCall) -> Iterator[Violation]:
    format = member(member(call.body, "text"), "format")
    schema = format.get("schema")
    if format.get("type") == "json_schema" and format.get("strict") and is_object(schema):
        for violation in schema_problems(schema, OPENAI_STRICT):
            message = f"Invalid schema for response_format '{format.get('name')}': {violation}"
            yield Violation(message, "text.format.schema", "invalid_json_schema")


def _stored_key(id: object) -> str:
    return f"response {id}"


def _stored(call: ProviderCall) -> Iterator[Violation]:
    id = call.body.get("previous_response_id")
    if id is not None and _stored_key(id) not in call.known_steps:
        message = f"Previous response with id '{id}' not found."
        yield Violation(message, "previous_response_id", "previous_response_not_found")


GptSimulator.RULES = (
    Rule("key", _key),
    Rule("fields", _fields),
    Rule("length of ids", _user, is_reported=True),
    Rule("items", _item_forms),
    Rule("stored responses", _stored),
    Rule("reasoning", _reasoning),
    Rule("reasoning of calls", _reasoning_of_calls),
    Rule("pairs", _pairs),
    Rule("compaction", _trigger),
    Rule("tools", _tools),
    Rule("output schema", _format),
)
