"""Gemini 3 by generateContent."""

import re
from collections.abc import Iterator
from typing import ClassVar

from dragoman.testing.simulators.base import (
    HistoryStep,
    ProviderCall,
    Rule,
    Simulator,
    Violation,
    member,
)
from dragoman.testing.simulators.schemas import GOOGLE_OPENAPI, schema_problems
from dragoman.testing.simulators.seals import digest
from dragoman.types import JsonObject, Part, Text, Thinking, ToolCall, is_object
from dragoman.wires.common.json import objects, text_of

PLACEHOLDERS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that Google accepts for calls that no Gemini model made. They cost quality, so each is a loss."""
_FIELDS = frozenset(
    "contents systemInstruction system_instruction tools toolConfig tool_config safetySettings safety_settings "
    "generationConfig generation_config cachedContent cached_content labels serviceTier service_tier store "
    "continuationToken continuation_token model".split()
)
_WHOLE = "generateContentRequest"
"""The field of a request for a token count that has a whole request for generation."""
_PART_DATA = frozenset(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse "
    "inline_data file_data function_call function_response executable_code code_execution_result videoMetadata".split()
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")


class GeminiSimulator(Simulator):
    """Gemini 3, by generateContent.

    >>> gemini = GeminiSimulator("Hello!")
    >>> gemini.model().generate("hi").text
    'Hello!'
    """

    PROVIDER: ClassVar = "google"
    WIRE: ClassVar = "google"
    MODEL: ClassVar = "gemini-3-flash-preview"
    CALL_IDS: ClassVar = "{}"
    COUNT_PATH: ClassVar = ":countTokens"

    def is_thinking(self, _call: ProviderCall, /) -> bool:
        return True  # Gemini 3 always thinks, also at the minimal level

    def sign(self, parts: list[Part], call: ProviderCall, /) -> tuple[list[Part], frozenset[str]]:
        shows = member(member(call.body, "generationConfig"), "thinkingConfig").get("includeThoughts")
        thoughts = digest([part.text for part in parts if isinstance(part, Thinking)])
        parts = [part for part in parts if shows or not isinstance(part, Thinking)]
        # A signature is on the first call of a step; without calls it is on the last part.
        calls = [i for i, part in enumerate(parts) if isinstance(part, ToolCall)]
        place = calls[0] if calls else len(parts) - 1
        marks: set[str] = set()
        signed: list[Part] = []
        for i, part in enumerate(parts):
            extra: JsonObject = {"id": part.id} if isinstance(part, ToolCall) else {}
            if i == place:
                mark = self.seals.seal({"part": _identity(part), "thoughts": thoughts, "n": len(self.requests)})
                extra["thoughtSignature"] = mark
                marks.add(mark)
            signed.append(_with_extra(part, extra) if extra else part)
        return signed, frozenset(marks)

    def steps(self, body: JsonObject, /) -> Iterator[HistoryStep]:
        # The signature of a text may come back, too, but Google does not check it.
        for content in objects(body.get("contents")):
            if content.get("role") == "model":
                parts = objects(content.get("parts"))
                functions = [member(part, "functionCall") for part in parts if "functionCall" in part]
                calls = [text_of(function.get("id") or function.get("name")) for function in functions]
                marks = {text_of(part.get("thoughtSignature")) for part in parts}
                spelled = frozenset(map(_standard_base64, marks))
                yield HistoryStep(tuple(calls), spelled, is_placeholder=bool(marks & {*PLACEHOLDERS}))

    def check_count(self, body: JsonObject, /) -> Iterator[Violation]:
        for name in sorted(body.keys() - {"contents", _WHOLE}):
            yield Violation(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
        if "contents" in body and _WHOLE in body:
            yield Violation("Only one of `contents` and `generate_content_request` can be set.")

    def counted_body(self, body: JsonObject, /) -> JsonObject:
        return member(body, _WHOLE) or body

    def encode_count(self, tokens: int, /) -> JsonObject:
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}

    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
        status = names.get(violation.status, "INVALID_ARGUMENT")
        return {"error": {"code": violation.status, "message": violation.message, "status": status}}


def _standard_base64(mark: str) -> str:
    """A signature as Google writes it: it is bytes, and the SDKs send them back in the alphabet for URLs."""
    standard = mark.translate(_STANDARD).rstrip("=")
    return standard + "=" * (-len(standard) % 4)


_STANDARD = str.maketrans("-_", "+/")


def _identity(part: Part) -> str:
    match part:
        case ToolCall():
            return digest([part.name, part.arguments])
        case Text():
            return digest(part.text)
        case _:
            return ""


def _with_extra(part: Part, extra: JsonObject) -> Part:
    match part:
        case ToolCall():
            return ToolCall(id=part.id, name=part.name, arguments=part.arguments, extra={"google": extra})
        case Text():
            return Text(text=part.text, extra={"google": extra})
        case _:
            return part


def _parts(content: JsonObject) -> list[JsonObject]:
    return objects(content.get("parts"))


def _has(content: JsonObject, kind: str) -> bool:
    return any(kind in part for part in _parts(content))


# Rules ----------------------------------------------------------------------------------------------------------------


def _key(call: ProviderCall) -> Iterator[Violation]:
    if not call.headers.keys() & {"x-goog-api-key", "authorization"}:
        yield Violation("Method doesn't allow unregistered callers. Please use API Key.", status=403)


def _fields(call: ProviderCall) -> Iterator[Violation]:
    for name in sorted(call.body.keys() - _FIELDS):
        yield Violation(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    if not objects(call.body.get("contents")):
        yield Violation("* GenerateContentRequest.contents: contents is not specified\n")


def _contents(call: ProviderCall) -> Iterator[Violation]:
    contents = objects(call.body["contents"])
    for i, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model", "function"):
            yield Violation("Please use a valid role: user, model.")
        if not _parts(content):
            yield Violation(f"* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.\n")
        for j, part in enumerate(_parts(content)):
            if not part.keys() & _PART_DATA:
                where = f"GenerateContentRequest.contents[{i}].parts[{j}].data"
                yield Violation(f"* {where}: required oneof field 'data' must have one initialized field\n")
            response = part.get("functionResponse")
            if is_object(response) and not is_object(response.get("response")):
                where = f"contents[{i}].parts[{j}].function_response.response"
                kind = "type.googleapis.com/google.protobuf.Struct"
                yield Violation(f"Invalid value at '{where}' ({kind}), \"{response.get('response')}\"")


def _turns(call: ProviderCall) -> Iterator[Violation]:
    before: JsonObject = {}
    contents = [content for content in objects(call.body["contents"]) if _parts(content)]
    if _has(contents[0], "functionCall"):
        yield Violation(_CALL_TURN)
    for content in [*contents, {}]:
        calls = [part for part in _parts(before) if "functionCall" in part]
        results = [part for part in _parts(content) if "functionResponse" in part]
        if calls and not results:
            yield Violation(
                "Please ensure that function call turn is immediately followed by a function response turn."
                if content
                else "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if results and not calls:
            yield Violation("Please ensure that function response turn comes immediately after a function call turn.")
        if calls and results:
            yield from _same_calls(calls, results)
        before = content


_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)


def _same_calls(calls: list[JsonObject], results: list[JsonObject]) -> Iterator[Violation]:
    if len(calls) != len(results):
        yield Violation(
            "Please ensure that the number of function response parts is equal to the number of function call parts of "
            "the function call turn."
        )
    ids = {text_of(member(part, "functionCall").get("id")) for part in calls}
    for part in results:
        id = text_of(member(part, "functionResponse").get("id"))
        if id and id not in ids:
            yield Violation(
                f"Function response id `{id}` does not match any function call id of the function call turn."
            )


def _current_turn(contents: list[JsonObject]) -> int:
    """Where the current turn starts: at the last user content that is not only function responses."""
    for i in range(len(contents) - 1, -1, -1):
        if contents[i].get("role", "user") != "model" and not _has(contents[i], "functionResponse"):
            return i
    return 0


def _signatures(call: ProviderCall) -> Iterator[Violation]:
    contents = objects(call.body["contents"])
    start = _current_turn(contents)
    for i, content in enumerate(contents):
        calls = [(j, part) for j, part in enumerate(_parts(content)) if "functionCall" in part]
        if calls and i > start and not calls[0][1].get("thoughtSignature"):
            name = text_of(member(calls[0][1], "functionCall").get("name"))
            yield Violation(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{name}` , position {i + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )
        for part in _parts(content):
            yield from _signature(call, part)


def _signature(call: ProviderCall, part: JsonObject) -> Iterator[Violation]:
    mark = part.get("thoughtSignature")
    if mark is None or mark in PLACEHOLDERS:
        return
    seal = call.seals.open(text_of(mark))
    if seal is None:
        yield Violation("Thought signature is not valid.")
        return
    function = member(part, "functionCall")
    here = digest([function.get("name"), member(function, "args")]) if function else digest(text_of(part.get("text")))
    # A stream may end with an empty text part that carries the signature of the text before it.
    if (seal.get("part") != here and text_of(part.get("text")) != "") or (function and seal.get("part") != here):
        yield Violation("Thought signature is not valid.")


def _options(call: ProviderCall) -> Iterator[Violation]:
    config = member(call.body, "generationConfig")
    thinking = member(config, "thinkingConfig")
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield Violation("You can only set only one of thinking budget and thinking level.")
    level = thinking.get("thinkingLevel")
    if level is not None and text_of(level).lower() not in _LEVELS:
        yield Violation(f"Invalid value at 'generation_config.thinking_config.thinking_level', \"{level}\"")
    if "responseSchema" in config and "responseJsonSchema" in config:
        yield Violation("response_schema and response_json_schema cannot both be set.")
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        yield Violation("response_json_schema requires response_mime_type application/json.")


def _tools(call: ProviderCall) -> Iterator[Violation]:
    functions = [f for tool in objects(call.body.get("tools")) for f in objects(tool.get("functionDeclarations"))]
    for i, function in enumerate(functions):
        if not _NAME.fullmatch(text_of(function.get("name"))):
            yield Violation(
                f"* GenerateContentRequest.tools[0].function_declarations[{i}].name: Invalid function name. Must start "
                "with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons "
                "(:) or dashes (-), with a maximum length of 128.\n"
            )
        if "parameters" in function and "parametersJsonSchema" in function:
            yield Violation("parameters and parameters_json_schema cannot both be set.")
        schema = function.get("parameters")
        if is_object(schema):
            for message in schema_problems(schema, GOOGLE_OPENAPI):
                yield Violation(f"Invalid JSON payload received. {message}")
    names = [function.get("name") for function in functions]
    if len(names) != len(set(map(str, names))):
        yield Violation("Duplicate function declaration found.")
    config = member(member(call.body, "toolConfig"), "functionCallingConfig")
    if config and not call.body.get("tools"):
        yield Violation("Function calling config is set without function_declarations.")
    if config.get("allowedFunctionNames") and text_of(config.get("mode")).upper() not in ("ANY", "VALIDATED"):
        yield Violation("Allowed function names can only be set when the mode is ANY or VALIDATED.")


GeminiSimulator.RULES = (
    Rule("key", _key),
    Rule("fields", _fields),
    Rule("contents", _contents),
    Rule("turns", _turns),
    Rule("thought signatures", _signatures),
    Rule("options", _options),
    Rule("tools", _tools),
)
