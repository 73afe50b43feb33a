"""Each rule of each simulator refuses what breaks it, in the provider's form; what was recorded as accepted passes."""

from collections.abc import Callable, Mapping
from typing import Any

import anthropic
import msgspec
import openai
import pytest
from google import genai
from google.genai import types
from google.genai.errors import ClientError
from msgspec.structs import replace

from dragoman import Agent, BadRequest, Registry, tool, wires
from dragoman.http import Head, HttpRequest
from dragoman.targets.providers import PROVIDERS
from dragoman.testing import (
    ClaudeSimulator,
    DeepSeekSimulator,
    GeminiSimulator,
    GptSimulator,
    KimiSimulator,
    OllamaSimulator,
    Simulator,
)
from dragoman.testing.simulators.base import ProviderCall
from dragoman.types import JsonObject, Message, Thinking, ToolCall, ToolResult, assistant, tool_results, user
from tests.support.batch import for_all, grouped
from tests.support.corpus.exchanges import FOLDER, Exchange, exchanges

SIMULATORS: dict[str, type[Simulator]] = {
    "anthropic": ClaudeSimulator,
    "google": GeminiSimulator,
    "openai-responses": GptSimulator,
    "deepseek": DeepSeekSimulator,
    "moonshot": KimiSimulator,
    "ollama": OllamaSimulator,
}
HEADERS = {
    "x-api-key": "k",
    "anthropic-version": "2023-06-01",
    "authorization": "Bearer k",
    "x-goog-api-key": "k",
}


@tool
def tide(port: str) -> str:
    """Say how high the tide is."""
    return f"4.2 m at {port}"


each_simulator = pytest.mark.parametrize("kind", SIMULATORS.values(), ids=SIMULATORS)


@each_simulator
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_tool_loop_of_the_library_is_accepted(kind: type[Simulator], *, stream: bool) -> None:
    simulator = kind(ToolCall(id="x", name="tide", arguments={"port": "Brest"}), "4.2 m")
    agent = Agent(simulator.model(reasoning="high"), tools=[tide])
    if stream:
        for _ in agent.stream("How high is the tide?"):
            pass
    else:
        agent.run("How high is the tide?")
    assert [str(refusal) for refusal in simulator.refusals] == []
    assert [str(loss) for loss in simulator.losses] == []
    assert len(simulator.requests) == 2


def claude_with_hidden_thinking() -> tuple[ClaudeSimulator, JsonObject]:
    """A simulator that has answered with hidden thinking and a thought between two calls, and the next request."""
    parts = (
        Thinking(text="", redacted=True),
        ToolCall(id="x", name="tide"),
        Thinking(text="Hm."),
        ToolCall(id="y", name="tide"),
    )
    simulator = ClaudeSimulator(Message(role="assistant", parts=parts), "4.2 m")
    model = simulator.model(reasoning="high", tools=[tide], retries=0)
    answer = model.generate("How high is the tide?")
    results = [ToolResult(id=call.id, content="4.2 m") for call in answer.tool_calls]
    model.generate([user("How high is the tide?"), answer.message, tool_results(*results)])
    return simulator, msgspec.json.decode(simulator.bodies[-1])


CHANGES: list[tuple[Callable[[list[JsonObject]], object], str | None]] = [
    (lambda blocks: None, None),
    (lambda blocks: blocks[0].update(data="ZHJhZ29tYW4="), "Invalid `data` in `redacted_thinking` block"),
    (lambda blocks: blocks.insert(1, blocks.pop(2)), "cannot be modified"),
    (lambda blocks: blocks.pop(0), "cannot be modified"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=["unchanged", "changed", "moved", "left out"])
def test_claude_checks_hidden_thinking_and_thoughts_between_calls(
    change: Callable[[list[JsonObject]], object], message: str | None
) -> None:
    simulator, body = claude_with_hidden_thinking()
    blocks = body["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["redacted_thinking", "tool_use", "thinking", "tool_use"]
    change(blocks)
    simulator.answer(HttpRequest(method="POST", path="/v1/messages", headers=HEADERS, body=msgspec.json.encode(body)))
    assert len(simulator.refusals) == (message is not None)
    assert all(str(message) in str(refusal) for refusal in simulator.refusals)


@pytest.mark.parametrize("include", [None, ["reasoning.encrypted_content"], "reasoning.encrypted_content"])
def test_gpt_encrypts_its_reasoning_only_if_the_request_includes_that(include: object) -> None:
    simulator = GptSimulator("Hello!")
    body = msgspec.json.encode({"model": simulator.model_name, "input": "hi", "include": include})
    answer = simulator.answer(HttpRequest(method="POST", path="/v1/responses", headers=HEADERS, body=body))
    assert (b"encrypted_content" in b"".join(answer.chunks)) == isinstance(include, list)


@each_simulator
def test_reasoning_that_does_not_come_back_is_refused_or_noted(kind: type[Simulator]) -> None:
    simulator = kind(ToolCall(id="x", name="tide", arguments={"port": "Brest"}), "4.2 m")
    model = simulator.model(reasoning="high", tools=[tide], retries=0)
    call = model.generate("How high is the tide?").tool_calls[0]
    bare = assistant(ToolCall(id=call.id, name=call.name, arguments=call.arguments))
    history = [user("How high is the tide?"), bare, tool_results(ToolResult(id=call.id, name="tide", content="4.2 m"))]
    try:
        model.generate(history)
    except BadRequest:
        assert simulator.refusals
    else:
        assert simulator.losses


@pytest.mark.parametrize("padding", ["=", ""], ids=["padded", "not padded"])
def test_gemini_compares_the_bytes_of_a_signature(padding: str) -> None:
    calls = tuple(ToolCall(id="x", name="tide", arguments={"port": f"{number}?>~ü"}) for number in range(3))
    simulator = GeminiSimulator(*calls, "4.2 m", "4.2 m", model="gemini-3-flash-preview")
    model = simulator.model(reasoning="high", tools=[tide], retries=0)
    path, history, marks = "", [user("How high is the tide?")], ""
    for _ in calls:
        response = model.generate(history)
        result = ToolResult(id=response.tool_calls[0].id, name="tide", content="4.2 m")
        history += [response.message, tool_results(result)]
    model.generate(history)
    body, path = msgspec.json.decode(simulator.bodies[-1]), simulator.http[-1].path
    for content in body["contents"]:
        for part in content["parts"]:
            if "thoughtSignature" in part:
                marks += part["thoughtSignature"]
                mark = part["thoughtSignature"].translate(str.maketrans("+/", "-_")).rstrip("=")
                part["thoughtSignature"] = mark + padding * (-len(mark) % 4)
    assert set(marks) & {"+", "/", "="}, "the signatures must have a letter that the alphabets write differently"
    assert send(simulator, path, body) == 200
    assert simulator.losses == []


@each_simulator
def test_it_answers_on_a_socket(kind: type[Simulator]) -> None:
    simulator = kind("Hello!")
    with simulator.serve() as server:
        registry = Registry(env={})
        registry.add_provider(replace(PROVIDERS[kind.PROVIDER], wire=kind.WIRE, base_url=server.url, api_key="k"))
        assert registry.model(simulator.spec).generate("hi").text == "Hello!"
        stream = registry.model(simulator.spec).stream("hi")
        assert all(stream)
        assert stream.response is not None
        registry.close()
    assert not simulator.refusals


# Rules ----------------------------------------------------------------------------------------------------------------


def body_of(kind: type[Simulator]) -> tuple[JsonObject, Simulator, str]:
    """The body of the second request of a tool loop with two parallel calls, as our own client writes it."""
    calls = (
        ToolCall(id="x", name="tide", arguments={"port": "Brest"}),
        ToolCall(id="y", name="tide", arguments={"port": "Cork"}),
    )
    simulator = kind(calls, "4.2 m")
    Agent(simulator.model(reasoning="high"), tools=[tide]).run("How high are the tides?")
    return msgspec.json.decode(simulator.bodies[1]), simulator, simulator.http[1].path


Change = Callable[[Any], object]


def _claude(**fields: Any) -> Change:
    return lambda body: body.update(fields)


def last_but_one(body: Any) -> Any:
    return body["messages"][-2]


BROKEN: Mapping[type[Simulator], Mapping[str, tuple[str, Change]]] = {
    ClaudeSimulator: {
        "fields": ("max_tokens: Field required", lambda b: b.pop("max_tokens")),
        "unknown field": ("fields: seed: Extra inputs are not permitted", _claude(seed=1)),
        "no messages": ("fields: messages: at least one", _claude(messages=[])),
        "role": ("roles: messages.0.role", lambda b: b["messages"][0].update(role="tool")),
        "system first": ("roles: messages: first message", lambda b: b["messages"].insert(0, {"role": "assistant"})),
        "system place": (
            "roles: messages.2: a system message must follow a user message",
            lambda b: b["messages"].insert(2, {"role": "system", "content": "Be brief."}),
        ),
        "system follower": (
            "must be last or be followed",
            lambda b: (
                b["messages"].insert(0, {"role": "user", "content": "a"})
                or b["messages"].insert(1, {"role": "system", "content": "Be brief."})
            ),
        ),
        "prefill": (
            "does not support assistant message prefill",
            lambda b: b["messages"].append({"role": "assistant", "content": "The"}),
        ),
        "empty text": ("text content blocks must be non-empty", lambda b: b["messages"][0].update(content="")),
        "empty message": ("all messages must have non-empty", lambda b: b["messages"][0].update(content=[])),
        "empty system": ("system: text content", _claude(system=[{"type": "text", "text": ""}])),
        "id": ("tool_use.id: String should match", lambda b: last_but_one(b)["content"][-1].update(id="functions.x:0")),
        "input": ("tool_use.input: Input should be", lambda b: last_but_one(b)["content"][-1].update(input="{}")),
        "side": ("can only be in `assistant`", lambda b: b["messages"][0].update(content=last_but_one(b)["content"])),
        "result side": (
            "can only be in `user`",
            lambda b: last_but_one(b).update(content=b["messages"][-1]["content"]),
        ),
        "missing result": (
            "ids were found without `tool_result` blocks immediately after: toolu_00000002",
            lambda b: b["messages"][-1]["content"].pop(),
        ),
        "text before results": (
            "ids were found without",
            lambda b: b["messages"][-1]["content"].insert(0, {"type": "text", "text": "so"}),
        ),
        "result without call": (
            "unexpected `tool_use_id` found",
            lambda b: b["messages"][-1]["content"].append({"type": "tool_result", "tool_use_id": "toolu_9"}),
        ),
        "result twice": (
            "single result",
            lambda b: b["messages"][-1]["content"].append(b["messages"][-1]["content"][0]),
        ),
        "same call id": (
            "`tool_use` ids must be unique",
            lambda b: b["messages"].extend([last_but_one(b), b["messages"][-1]]),
        ),
        "changed thinking": (
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            lambda b: last_but_one(b)["content"][0].update(thinking="I thought otherwise."),
        ),
        "changed signature": (
            "Invalid `signature`",
            lambda b: last_but_one(b)["content"][0].update(signature="ZHJhZ29tYW4="),
        ),
        "thinking twice": (
            "signatures: messages.1.content.1: `thinking` or `redacted_thinking` blocks in the latest",
            lambda b: last_but_one(b)["content"].insert(0, last_but_one(b)["content"][0]),
        ),
        "thinking after the call": (
            "cannot be modified",
            lambda b: last_but_one(b)["content"].append(last_but_one(b)["content"].pop(0)),
        ),
        "no thinking": ("cannot be modified", lambda b: last_but_one(b)["content"].pop(0)),
        "enabled": ("`enabled` is not supported", _claude(thinking={"type": "enabled", "budget_tokens": 2000})),
        "temperature": ("sampling: `temperature` is deprecated", _claude(temperature=0.5)),
        "tool name": ("tools.0.custom.name", lambda b: b["tools"][0].update(name="a.b")),
        "tool schema": ("input_schema: Field required", lambda b: b["tools"][0].pop("input_schema")),
        "tool schema type": ("input_schema.type", lambda b: b["tools"][0]["input_schema"].update(type="array")),
        "tool twice": ("Tool names must be unique", lambda b: b["tools"].append(b["tools"][0])),
        "no tools": ("must define tools", lambda b: b.pop("tools")),
        "choice without tools": (
            "may only be specified while providing tools",
            lambda b: b.pop("tools") and b.update(tool_choice={"type": "auto"}),
        ),
        "strict schema": (
            "additionalProperties",
            lambda b: (
                b["tools"][0].update(strict=True) or b["tools"][0]["input_schema"].update(additionalProperties=True)
            ),
        ),
        "output schema": (
            "For 'integer' type, property 'minimum' is not supported",
            _claude(output_config={"format": {"type": "json_schema", "schema": {"type": "integer", "minimum": 1}}}),
        ),
        "breakpoints": (
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
            _claude(system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}] * 5),
        ),
        "image type": (
            "appears to be a image/gif",
            lambda b: b["messages"][0].update(
                content=[
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "R0lGODlhAQABAAAAACw="},
                    }
                ]
            ),
        ),
        "image url": (
            "Only HTTPS URLs",
            lambda b: b["messages"][0].update(
                content=[{"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}]
            ),
        ),
    },
    GeminiSimulator: {
        "unknown field": ('Unknown name "seed": Cannot find field', lambda b: b.update(seed=1)),
        "no contents": ("contents is not specified", lambda b: b.update(contents=[])),
        "role": ("Please use a valid role: user, model.", lambda b: b["contents"][0].update(role="assistant")),
        "no parts": ("must not be empty", lambda b: b["contents"][0].update(parts=[])),
        "empty part": ("required oneof field 'data'", lambda b: b["contents"][0]["parts"].append({})),
        "response": (
            "Invalid value at 'contents[2].parts[0].function_response.response'",
            lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(response="4.2 m"),
        ),
        "call first": ("function call turn comes immediately after", lambda b: b["contents"].pop(0)),
        "no response": ("is immediately followed", lambda b: b["contents"][2].update(parts=[{"text": "hm"}])),
        "no response at the end": ("number of function response parts", lambda b: b["contents"].pop()),
        "response without call": (
            "function response turn comes immediately after",
            lambda b: b["contents"].append(b["contents"][2]),
        ),
        "fewer responses": ("number of function response parts", lambda b: b["contents"][2]["parts"].pop()),
        "response id": (
            "does not match any function call id",
            lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(id="other"),
        ),
        "no signature": (
            "Function call is missing a thought_signature in functionCall parts",
            lambda b: [part.pop("thoughtSignature", None) for part in b["contents"][1]["parts"]],
        ),
        "foreign signature": (
            "Thought signature is not valid.",
            lambda b: call_part(b).update(thoughtSignature="ZHJhZ29tYW4="),
        ),
        "moved signature": (
            "Function call is missing a thought_signature",
            lambda b: b["contents"][1]["parts"][-1].update(thoughtSignature=call_part(b).pop("thoughtSignature")),
        ),
        "changed call": ("Thought signature is not valid.", lambda b: call_part(b)["functionCall"].update(args={})),
        "level and budget": (
            "only one of thinking budget and thinking level",
            lambda b: b.update(generationConfig={"thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 0}}),
        ),
        "level": (
            "thinking_level",
            lambda b: b.update(generationConfig={"thinkingConfig": {"thinkingLevel": "huge"}}),
        ),
        "two schemas": (
            "cannot both be set",
            lambda b: b.update(generationConfig={"responseSchema": {}, "responseJsonSchema": {}}),
        ),
        "schema without type": (
            "requires response_mime_type",
            lambda b: b.update(generationConfig={"responseJsonSchema": {}}),
        ),
        "tool name": ("Invalid function name", lambda b: declaration(b).update(name="a b")),
        "two parameters": (
            "parameters and parameters_json_schema",
            lambda b: declaration(b).update(parameters={"type": "object"}, parametersJsonSchema={"type": "object"}),
        ),
        "schema": (
            'Unknown name "additionalProperties"',
            lambda b: (
                declaration(b).update(parameters={"type": "object", "additionalProperties": False})
                or declaration(b).pop("parametersJsonSchema", None)
            ),
        ),
        "tool twice": (
            "Duplicate function declaration",
            lambda b: b["tools"][0]["functionDeclarations"].append(declaration(b)),
        ),
        "mode without tools": (
            "without function_declarations",
            lambda b: b.pop("tools") and b.update(toolConfig={"functionCallingConfig": {"mode": "AUTO"}}),
        ),
        "names": (
            "Allowed function names",
            lambda b: b.update(toolConfig={"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["a"]}}),
        ),
    },
    GptSimulator: {
        "unknown field": ("Unknown parameter: 'seed'.", lambda b: b.update(seed=1)),
        "model": ("Missing required parameter: 'model'.", lambda b: b.pop("model")),
        "temperature": ("Unsupported parameter: 'temperature'", lambda b: b.update(temperature=0.5)),
        "few tokens": ("integer below minimum value", lambda b: b.update(max_output_tokens=5)),
        "effort": ("Unsupported value: 'huge'", lambda b: b.update(reasoning={"effort": "huge"})),
        "user": ("Invalid 'user': string too long", lambda b: b.update(user="u" * 65)),
        "call id": ("Invalid 'input[2].call_id': string too long", lambda b: b["input"][2].update(call_id="c" * 65)),
        "item id": ("Expected an ID that begins with 'fc'", lambda b: b["input"][2].update(id="toolu_1")),
        "item twice": ("Duplicate item found", lambda b: b["input"].insert(1, b["input"][1])),
        "role": ("Invalid value: 'tool'", lambda b: b["input"][0].update(role="tool")),
        "content kind": (
            "Supported values are: 'output_text' and 'refusal'",
            lambda b: b["input"].append({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        ),
        "name": ("Invalid 'input[2].name': string does not match", lambda b: b["input"][2].update(name="a.b")),
        "previous": (
            "Previous response with id 'resp_1' not found.",
            lambda b: b.update(previous_response_id="resp_1"),
        ),
        "changed reasoning": (
            "could not be verified",
            lambda b: b["input"][1].update(encrypted_content="gAAAAZHJhZ29tYW4="),
        ),
        "reasoning without content": ("Items are not persisted", lambda b: b["input"][1].pop("encrypted_content")),
        "reasoning alone": (
            "was provided without its required following item",
            lambda b: b["input"].append({**b["input"][1], "id": "rs_9"}),
        ),
        "call without reasoning": (
            "was provided without its required 'reasoning' item",
            lambda b: b["input"].pop(1) and b["input"][1].update(id="fc_1"),
        ),
        "output without call": (
            "No tool call found for function call output with call_id c9.",
            lambda b: b["input"].append({"type": "function_call_output", "call_id": "c9", "output": ""}),
        ),
        "call without output": ("No tool output found for function call call_00000002.", lambda b: b["input"].pop()),
        "trigger": ("must be the last item", lambda b: b["input"].insert(0, {"type": "compaction_trigger"})),
        "tool name": ("tools[0].name", lambda b: b["tools"][0].update(name="a.b")),
        "strict schema": (
            "Invalid schema for function 'tide': In context=(), 'required' is required to be supplied",
            lambda b: b["tools"][0].update(strict=True) or b["tools"][0]["parameters"].update(required=[]),
        ),
        "choice without tools": (
            "must be specified with 'tools'",
            lambda b: b.pop("tools") and b.update(tool_choice="required"),
        ),
        "format": (
            "Invalid schema for response_format 'a'",
            lambda b: b.update(
                text={"format": {"type": "json_schema", "name": "a", "strict": True, "schema": {"oneOf": []}}}
            ),
        ),
    },
    DeepSeekSimulator: {
        "no messages": ("messages must not be empty", lambda b: b.update(messages=[])),
        "role": ("unknown variant `developer`", lambda b: b["messages"][0].update(role="developer")),
        "image": (
            "messages[0]: unknown variant `image_url`, expected `text`",
            lambda b: b["messages"][0].update(content=[{"type": "image_url"}]),
        ),
        "no result": ("did not have response messages: call_00_00000002", lambda b: b["messages"].pop()),
        "result without call": ("must be a response to a preceding message", lambda b: b["messages"].pop(1)),
        "arguments": (
            "expected a string",
            lambda b: b["messages"][1]["tool_calls"][0]["function"].update(arguments={}),
        ),
        "no reasoning": (
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            lambda b: b["messages"][1].pop("reasoning_content"),
        ),
        "choice": ("Thinking mode does not support this tool_choice", lambda b: b.update(tool_choice="required")),
        "schema": (
            "This response_format type is unavailable now",
            lambda b: b.update(response_format={"type": "json_schema"}),
        ),
    },
    KimiSimulator: {
        "no reasoning": (
            "reasoning (reported): thinking is enabled but reasoning_content is missing in assistant tool call message",
            lambda b: b["messages"][1].pop("reasoning_content"),
        ),
        "empty": ("position 0 with role 'user' must not be empty", lambda b: b["messages"][0].update(content="")),
        "choice": ("incompatible with thinking", lambda b: b.update(tool_choice={"type": "function"})),
        "temperature": ("only 1 is allowed", lambda b: b.update(temperature=0.3)),
    },
    OllamaSimulator: {
        "model": ("model is required", lambda b: b.pop("model")),
        "format": ('invalid format: "xml"', lambda b: b.update(format="xml")),
        "think": ('invalid think value: "much"', lambda b: b.update(think="much")),
        "option": ('option "temperature" must be of type', lambda b: b.update(options={"temperature": "hot"})),
        "role": ("invalid role: developer", lambda b: b["messages"][0].update(role="developer")),
        "content": ("cannot unmarshal array", lambda b: b["messages"][0].update(content=[])),
        "image": ("illegal base64 data", lambda b: b["messages"][0].update(images=["data:image/png;base64,AA"])),
        "arguments": (
            "cannot unmarshal string",
            lambda b: b["messages"][1]["tool_calls"][0]["function"].update(arguments="{}"),
        ),
    },
}


def call_part(body: Any) -> Any:
    """The first call of the second content."""
    return next(part for part in body["contents"][1]["parts"] if "functionCall" in part)


def declaration(body: Any) -> Any:
    return body["tools"][0]["functionDeclarations"][0]


CASES = {f"{kind.__name__}-{name}": (kind, *case) for kind, cases in BROKEN.items() for name, case in cases.items()}


@for_all("case", CASES)
def test_a_broken_rule_is_refused(case: tuple[type[Simulator], str, Change]) -> None:
    kind, expected, change = case
    body, simulator, path = body_of(kind)
    assert send(simulator, path, body) == 200, "the request is right before it is changed"
    change(body)
    assert send(simulator, path, body) >= 400
    assert expected in str(simulator.refusals[0])


def send(simulator: Simulator, path: str, body: JsonObject, **headers: str) -> int:
    http = HttpRequest(method="POST", path=path, headers=headers or HEADERS, body=msgspec.json.encode(body))
    answer = simulator.answer(http)
    assert answer.status is not None
    if answer.status >= 400:
        client = wires.get(simulator.WIRE).client
        error = client.decode_error(Head(status=answer.status, headers=answer.headers), b"".join(answer.chunks))
        assert simulator.refusals[-1].violation.message.strip() in str(error)
    return answer.status


@each_simulator
@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages":7,"contents":7,"input":7}', b'{"messages":[7]}'])
def test_a_body_of_any_form_is_refused_or_answered(kind: type[Simulator], body: bytes) -> None:
    _, simulator, path = body_of(kind)
    status = simulator.answer(HttpRequest(method="POST", path=path, headers=HEADERS, body=body)).status
    assert status in (200, 400)


@each_simulator
def test_another_path_is_not_found(kind: type[Simulator]) -> None:
    assert kind().answer(HttpRequest(method="GET", path="/nowhere")).status == 404


@pytest.mark.parametrize("kind", [k for k in SIMULATORS.values() if k is not OllamaSimulator])
def test_a_request_needs_a_key(kind: type[Simulator]) -> None:
    body, simulator, path = body_of(kind)
    assert send(simulator, path, body, host="x") in (401, 403)


def test_a_new_model_binds_its_thinking_to_the_conversation() -> None:
    simulator = ClaudeSimulator(
        ToolCall(id="x", name="tide", arguments={"port": "Brest"}), "4.2 m", model="claude-opus-5-5"
    )
    Agent(simulator.model(reasoning="high"), tools=[tide], system="Be brief.").run("How high is the tide?")
    assert not simulator.refusals
    body = msgspec.json.decode(simulator.bodies[1])
    binding = body["thinking"].pop("block_binding")
    assert send(simulator, "/v1/messages", body) == 200
    body["messages"][0]["content"] = "How low is the tide?"
    assert send(simulator, "/v1/messages", body) == 400
    assert str(simulator.refusals[0]).startswith("binding to the conversation (reported): messages.1.content.0")
    body["thinking"]["block_binding"] = binding
    assert send(simulator, "/v1/messages", body) == 400
    assert "block_binding: Extra inputs are not permitted" in str(simulator.refusals[1])
    assert simulator.losses == []
    beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
    assert send(simulator, "/v1/messages", body, **HEADERS, **beta) == 200
    assert len(simulator.losses) == 1


def test_manual_thinking_has_its_own_rules() -> None:
    simulator = ClaudeSimulator("Hello!", model="claude-sonnet-4-5")
    simulator.model(reasoning=2000, max_tokens=4000).generate("hi")
    body = msgspec.json.decode(simulator.bodies[0])
    for name, value, expected in (
        ("thinking", {"type": "enabled", "budget_tokens": 100}, "greater than or equal to 1024"),
        ("thinking", {"type": "adaptive"}, "`adaptive` is not supported"),
        ("max_tokens", 1500, "`max_tokens` must be greater than"),
        ("temperature", 0.2, "may only be set to 1"),
        ("top_k", 5, "`top_k` must be unset"),
        ("tool_choice", {"type": "any"}, "Thinking may not be enabled when tool_choice forces"),
    ):
        assert send(simulator, "/v1/messages", {**body, name: value}) == 400
        assert expected in str(simulator.refusals[-1])


@pytest.mark.parametrize("more", [[], [{"role": "user", "content": "And tomorrow?"}]])
def test_messages_of_the_user_in_a_row_are_one_turn(more: list[JsonObject]) -> None:
    simulator = ClaudeSimulator(model="claude-sonnet-4-5")
    use: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {}}
    messages: list[JsonObject] = [
        {"role": "user", "content": "How high is the tide?"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4.2 m"}]},
        *more,
    ]
    tools: list[JsonObject] = [{"name": "tide", "input_schema": {"type": "object", "properties": {}}}]
    body: JsonObject = {"model": "claude-sonnet-4-5", "max_tokens": 4000, "tools": tools, "messages": messages}
    assert send(simulator, "/v1/messages", body) == 200
    thinking = {"type": "enabled", "budget_tokens": 2000}
    assert send(simulator, "/v1/messages", {**body, "thinking": thinking}) == 400
    assert "must start with a thinking block" in str(simulator.refusals[-1])


def test_a_compaction_comes_back_as_a_sealed_item() -> None:
    body, simulator, path = body_of(GptSimulator)
    http = HttpRequest(method="POST", path=path + "/compact", headers=HEADERS, body=msgspec.json.encode(body))
    answer = msgspec.json.decode(b"".join(simulator.answer(http).chunks))
    item = answer["output"][-1]
    assert item["type"] == "compaction"
    assert send(simulator, path, {**body, "input": answer["output"]}) == 200
    item["encrypted_content"] = "gAAAAchanged"
    assert send(simulator, path, {**body, "input": answer["output"]}) == 400


def test_a_stored_answer_can_be_continued() -> None:
    simulator = GptSimulator("4.2 m", "Yes.")
    body = {"model": "gpt-5.6", "input": "How high is the tide?"}
    assert send(simulator, "/v1/responses", body) == 200
    assert send(simulator, "/v1/responses", {**body, "previous_response_id": "sim_00000001", "store": False}) == 200
    assert send(simulator, "/v1/responses", {**body, "previous_response_id": "sim_00000002"}) == 400


# Recorded exchanges ---------------------------------------------------------------------------------------------------

SEALED = ("signature", "encrypted content", "Previous response")
"""What only the account that made it can check."""
ACCEPTED: dict[str, dict[str, dict[str, Any]]] = {}
for _exchange in exchanges():
    if _exchange.status < 300 and _exchange.request is not None and _exchange.folder in SIMULATORS:
        ACCEPTED.setdefault(_exchange.folder, {})[_exchange.id] = {"exchange": _exchange}


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded exchanges at {FOLDER}")
@grouped(ACCEPTED or {"none": {}})
def test_what_a_provider_accepted_is_accepted(exchange: Exchange) -> None:
    simulator = SIMULATORS[exchange.folder]()
    call = ProviderCall(exchange.model, exchange.request or {}, HEADERS, simulator.seals, {})
    problems = [problem.message for rule in simulator.RULES for problem in rule.check(call)]
    unexpected = [text for text in problems if not any(word in text for word in SEALED)]
    if "max_tokens: Field required" in unexpected or any("appears to be" in text for text in unexpected):
        return  # a request in OpenAI's form; an image that the recording replaced
    assert unexpected == []


# Token counts ---------------------------------------------------------------------------------------------------------

COUNTING = (ClaudeSimulator, GptSimulator, GeminiSimulator)


@pytest.mark.parametrize("kind", COUNTING)
def test_the_library_counts_tokens_with_a_simulator(kind: type[Simulator]) -> None:
    simulator = kind()
    count = simulator.model(tools=[tide], system="Be brief.").count_tokens("How high is the tide at Brest?")
    assert not count.is_estimate
    assert count > simulator.model().count_tokens("hi") > 0
    assert simulator.refusals == []
    assert simulator.requests == []


def test_the_official_clients_count_tokens_with_a_simulator() -> None:
    with (
        ClaudeSimulator().serve() as server,
        anthropic.Anthropic(api_key="k", base_url=server.url.removesuffix("/v1")) as claude,
    ):
        counted = claude.messages.count_tokens(model="claude-opus-4-8", messages=[{"role": "user", "content": "hi"}])
        assert counted.input_tokens > 0
        with pytest.raises(anthropic.BadRequestError) as refused:
            claude.messages.count_tokens(model="claude-opus-4-8", messages=[])
        assert refused.value.body["type"] == "error"  # type: ignore[index]
    with GptSimulator().serve() as server, openai.OpenAI(api_key="k", base_url=server.url) as gpt:
        assert gpt.responses.input_tokens.count(model="gpt-5.6", input="hi").input_tokens > 0
        with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'wrong'"):
            gpt.responses.input_tokens.count(model="gpt-5.6", input="hi", extra_body={"wrong": 1})
    with (
        GeminiSimulator().serve() as server,
        genai.Client(
            api_key="k", http_options=types.HttpOptions(base_url=server.url.removesuffix("/v1beta"))
        ) as gemini,
    ):
        assert gemini.models.count_tokens(model="gemini-3-pro", contents="hi").total_tokens
        with pytest.raises(ClientError, match="INVALID_ARGUMENT"):
            gemini.models.count_tokens(model="gemini-3-pro", contents=types.Content(role="robot"))
        gemini.close()


@pytest.mark.parametrize("kind", COUNTING)
@pytest.mark.parametrize("wrong", [{"wrong": 1}, {"messages": 7, "contents": 7, "input": 7}, {}])
def test_a_count_obeys_the_rules_of_generation(kind: type[Simulator], wrong: JsonObject) -> None:
    simulator = kind()
    path = f"/v1/models/{simulator.MODEL}{kind.COUNT_PATH}"
    assert send(simulator, path, wrong) == 400
    assert send(simulator, path, wrong, host="x") in (400, 401, 403)


def test_a_count_of_gemini_takes_one_of_two_forms() -> None:
    simulator = GeminiSimulator()
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    path = f"/v1beta/models/{simulator.MODEL}:countTokens"
    assert send(simulator, path, {"contents": contents}) == 200
    whole = {"model": f"models/{simulator.MODEL}", "contents": contents}
    assert send(simulator, path, {"generateContentRequest": whole}) == 200
    assert send(simulator, path, {"generateContentRequest": whole, "contents": contents}) == 400


def test_a_count_refuses_what_only_generation_takes() -> None:
    body = {"model": "claude-opus-4-8", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    simulator = ClaudeSimulator()
    assert send(simulator, "/v1/messages/count_tokens", body) == 400
    assert "max_tokens: Extra inputs" in str(simulator.refusals[0])
