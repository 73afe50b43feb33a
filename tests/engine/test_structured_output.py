"""A schema is request for in the surest way that a target has, and the answer is text, whichever way it came."""

import json
from typing import Any

import msgspec
import pytest

from dragoman import (
    Choice,
    Finish,
    Notice,
    Opaque,
    OutputType,
    Registry,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Unsupported,
    assistant,
    user,
)
from dragoman.engine.attempt import attempt
from dragoman.engine.call_context import CallContext
from dragoman.engine.structured_output import OutputForm, ToolOutputDecoder, choose_output_form
from dragoman.errors import Interrupted, MalformedToolCall
from dragoman.events import PartDelta, fold, to_events
from dragoman.targets.providers import target as provided
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.testing import Scripted
from tests.support.output_types import Leaf
from tests.support.plans import World, target

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ASK = Request(messages=(user("Which?"),), schema=SCHEMA)
TIDE = Tool(name="tide")


def able(*, quirks: Quirks | None = None, **capabilities: Any) -> Target:
    return target("aa/m", capabilities=Capabilities(**capabilities), quirks=quirks or Quirks())


def kinds(form: OutputForm) -> list[str]:
    return [notice.kind for notice in form.notices]


@pytest.mark.parametrize(
    "request_", [ASK, Request(), Request(schema={}), Request(schema=SCHEMA, tools=(TIDE,), tool_choice="required")]
)
def test_a_target_that_takes_schemas_gets_the_request_as_it_is(request_: Request) -> None:
    assert choose_output_form(request_, able()) == OutputForm(request=request_)


def test_else_the_answer_is_the_arguments_of_a_tool() -> None:
    form = choose_output_form(ASK, able(structured=False))
    assert (form.request.schema, form.request.tool_choice, form.tool) == (None, "final_answer", "final_answer")
    (tool,) = form.request.tools
    assert isinstance(tool, Tool)
    assert (tool.parameters, form.is_wrapped, kinds(form)) == (SCHEMA, False, ["renamed"])


@pytest.mark.parametrize("capabilities", [{"tools": False}, {"forced_choice": False}])
@pytest.mark.parametrize("system", [None, "Be brief.", (Text(text="Be brief."),)])
def test_else_it_is_asked_for_in_words(system: Any, capabilities: dict[str, Any]) -> None:
    request = Request(schema=SCHEMA, system=system)
    form = choose_output_form(request, able(structured=False, **capabilities))
    prompt = form.request.system
    text = prompt if isinstance(prompt, str) else "".join(part.text for part in prompt or ())
    assert text.startswith("Be brief." if system else "Answer with one JSON value")
    assert text.endswith('{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
    assert (form.request.schema, form.tool, kinds(form)) == (None, None, ["changed"])


def test_any_json_is_asked_for_in_words() -> None:
    form = choose_output_form(Request(schema={}), able(structured=False))
    assert str(form.request.system).endswith("no code fence.")


def test_strict_refuses_what_cannot_be_enforced() -> None:
    request = Request(schema=SCHEMA, strict=True)
    with pytest.raises(Unsupported, match="schema: ollama: cannot be enforced"):
        choose_output_form(request, able(structured=False, tools=False))
    assert choose_output_form(request, able(structured=False)).tool == "final_answer"


@pytest.mark.parametrize(("choice", "sent"), [(None, "required"), ("auto", "required"), ("none", "final_answer")])
def test_beside_tools_one_of_them_or_the_answer_is_called(choice: str | None, sent: str) -> None:
    form = choose_output_form(Request(schema=SCHEMA, tools=(TIDE,), tool_choice=choice), able(structured=False))
    assert (len(form.request.tools), form.request.tool_choice) == (2, sent)


def test_a_call_that_is_forced_takes_the_place_of_the_answer() -> None:
    form = choose_output_form(Request(schema=SCHEMA, tools=(TIDE,), tool_choice="tide"), able(structured=False))
    assert (form.request.tools, form.request.schema, kinds(form)) == ((TIDE,), None, ["info"])


def test_a_name_that_is_taken_is_not_used_twice() -> None:
    taken = (Tool(name="final_answer"), Opaque(wire="ollama", data={}))
    form = choose_output_form(Request(schema=SCHEMA, tools=taken), able(structured=False))
    assert form.tool == "final_answer_"


def test_a_target_whose_schemas_bear_no_tools_is_asked_by_a_tool() -> None:
    alone = Quirks(schema_with_tools=False)
    assert choose_output_form(ASK, able(quirks=alone)).tool is None
    beside = Request(schema=SCHEMA, tools=(TIDE,))
    assert choose_output_form(beside, able(quirks=alone)).tool == "final_answer"
    assert choose_output_form(beside, able(quirks=alone, forced_choice=False)) == OutputForm(request=beside)


def test_a_schema_that_comes_back_to_itself_is_asked_by_a_tool_where_it_must() -> None:
    tree = Request(schema=OutputType(Leaf).schema)
    flat = Quirks(recursive_schemas=False)
    assert choose_output_form(tree, able()).tool is choose_output_form(ASK, able(quirks=flat)).tool is None
    assert choose_output_form(tree, able(quirks=flat)).tool == "final_answer"
    assert choose_output_form(tree, able(quirks=flat, forced_choice=False)) == OutputForm(request=tree)
    assert choose_output_form(tree, provided("anthropic/x")).tool == "final_answer"


def test_a_schema_that_is_no_object_is_put_into_one() -> None:
    listed = {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "integer"}}}
    form = choose_output_form(Request(schema=listed), able(structured=False))
    (tool,) = form.request.tools
    assert isinstance(tool, Tool)
    assert tool.parameters == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {"A": {"type": "integer"}},
    }
    assert form.is_wrapped


# And back -------------------------------------------------------------------------------------------------------------


def restored(form: OutputForm, *parts: Any, reason: Any = "tool_calls") -> Response:
    response = Response(message=assistant(*parts), finish=Finish(reason=reason))
    return fold(ToolOutputDecoder(form).feed(to_events(response)))


def answer(raw: str | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(id="call_1", name="final_answer", arguments=arguments, raw=raw)


BY_TOOL = OutputForm(request=ASK, tool="final_answer")


def test_the_call_is_the_text_of_the_answer() -> None:
    response = restored(BY_TOOL, Thinking(text="Hm."), answer(a=1))
    assert (response.text, response.thinking, response.tool_calls) == ('{"a":1}', "Hm.", ())
    assert response.finish.reason == "stop"


def test_the_calls_of_further_answers_are_text_too() -> None:
    further = Choice(message=assistant(answer(a=2)), finish=Finish(reason="tool_calls"))
    response = Response(message=assistant(answer(a=1)), finish=Finish(reason="tool_calls"), other_choices=(further,))
    choices = fold(ToolOutputDecoder(BY_TOOL).feed(to_events(response))).choices
    assert [(choice.text, choice.finish.reason) for choice in choices] == [('{"a":1}', "stop"), ('{"a":2}', "stop")]


def test_the_providers_own_text_is_kept() -> None:
    assert restored(BY_TOOL, answer('{"a": 1}', a=1)).text == '{"a": 1}'


def test_what_was_put_into_an_object_comes_out_of_it() -> None:
    wrapped = OutputForm(request=ASK, tool="final_answer", is_wrapped=True)
    assert restored(wrapped, answer(value=[1])).text == "[1]"
    assert restored(wrapped, answer(other=[1])).text == '{"other":[1]}'


def test_an_answer_that_is_given_twice_is_said_once() -> None:
    assert restored(BY_TOOL, answer(a=1), answer(a=2)).text == '{"a":1}'


def test_other_calls_stay_calls() -> None:
    call = ToolCall(id="call_2", name="tide")
    response = restored(BY_TOOL, answer(a=1), call)
    assert (response.text, response.tool_calls, response.finish.reason) == ('{"a":1}', (call,), "tool_calls")
    assert restored(BY_TOOL, call).finish.reason == "tool_calls"


def test_a_length_limit_stays_one() -> None:
    assert restored(BY_TOOL, answer(a=1), reason="length").finish.reason == "length"


def test_what_was_not_asked_by_a_tool_is_left_alone() -> None:
    assert restored(OutputForm(request=ASK), answer(a=1)).tool_calls == (answer(a=1),)


@pytest.mark.parametrize("stream", [False, True])
def test_a_plain_schema_may_be_asked_for_in_any_way(stream: bool) -> None:  # noqa: FBT001
    script = Scripted(answer(a=1))
    registry = script.registry()
    registry.set_capabilities("scripted", structured=False)
    model = registry.model("scripted/m")
    if stream:
        *_, response = model.stream("Which?", schema=SCHEMA, schema_mode="auto")
    else:
        response = model.generate("Which?", schema=SCHEMA, schema_mode="auto")
    assert isinstance(response, Response)
    assert (response.text, response.finish.reason) == ('{"a":1}', "stop")
    assert response.notices == (
        Notice(kind="renamed", what="schema", why="openai_chat: sent as the parameters of a tool"),
    )


def test_a_plain_schema_is_left_to_a_target_that_knows_schemas() -> None:
    script = Scripted('{"a":1}')
    registry = script.registry()
    registry.set_capabilities("scripted/plain", structured=False)
    response = registry.model("scripted/plain, scripted/able").generate("Which?", schema=SCHEMA)
    assert response.target == "scripted/able"
    assert response.attempts[0].error == "Unsupported: does not support structured output"
    assert registry.health.get("scripted/plain").failures == 0


def test_every_provider_has_a_way() -> None:
    for name in ("openai", "anthropic", "google", "ollama", "deepseek", "groq"):
        assert choose_output_form(ASK, provided(f"{name}/x")) == OutputForm(request=ASK)


# Targets without schemas of their own ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        "anthropic/claude-3-haiku-20240307",
        "anthropic/claude-3-5-sonnet-latest",
        "anthropic/claude-3-7-sonnet-latest",
        "anthropic/claude-sonnet-4-20250514",
        "anthropic/claude-opus-4-1",
        "deepseek/deepseek-chat",
        "zai/glm-4.6",
    ],
)
def test_a_call_is_forced_before_words_are_tried(spec: str) -> None:
    [to] = Registry(env={}, api_key="k").model(spec).targets()
    form = choose_output_form(ASK, to)
    assert (form.tool, form.request.tool_choice, form.request.schema) == ("final_answer", "final_answer", None)
    assert choose_output_form(Request(schema={}), to).request.schema == {}  # any JSON: the JSON mode of the server


@pytest.mark.parametrize("spec", ["anthropic/claude-sonnet-4-5", "openai/gpt-4o", "google/gemini-2.5-pro"])
def test_a_target_with_schemas_gets_the_schema(spec: str) -> None:
    [to] = Registry(env={}, api_key="k").model(spec).targets()
    assert choose_output_form(ASK, to).tool is None


@pytest.mark.parametrize(
    ("spec", "reasoning", "tool"),
    [
        ("anthropic/claude-opus-4-1", "high", None),
        ("anthropic/claude-opus-4-1", "none", "final_answer"),
        ("anthropic/claude-3-5-sonnet-latest", "high", "final_answer"),  # it does not think
        ("deepseek/deepseek-chat", "high", None),
        ("deepseek/deepseek-reasoner", None, None),
        ("deepseek/deepseek-reasoner", "none", "final_answer"),
    ],
)
def test_no_call_is_forced_while_the_model_thinks(spec: str, reasoning: Any, tool: str | None) -> None:
    [to] = Registry(env={}, api_key="k").model(spec).targets()
    assert choose_output_form(msgspec.structs.replace(ASK, reasoning=reasoning), to).tool == tool


# Growing answers ------------------------------------------------------------------------------------------------------

CHAT = Target(
    provider="p", model="m", wire="openai_chat", base_url="http://p", capabilities=Capabilities(structured=False)
)


def chunk(*pieces: str, name: str = "final_answer", index: int = 0, finish: str | None = None) -> bytes:
    calls = [{"index": index, "id": f"c{index}", "function": {"name": name, "arguments": piece}} for piece in pieces]
    delta = {"tool_calls": calls} if calls else {}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n".encode()


def later(piece: str, index: int = 0) -> bytes:
    delta = {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()


DONE = b"data: [DONE]\n\n"
END = chunk(finish="tool_calls") + DONE


def streamed(*pieces: bytes, schema: Any = SCHEMA) -> tuple[World, Response]:
    world = World(list(pieces))
    request = Request(messages=(user("Which?"),), schema=schema, schema_mode="auto", stream=True)
    return world, world.run(attempt(request, CHAT, CallContext())).response


def test_the_arguments_of_a_tool_are_text_as_they_arrive() -> None:
    world, response = streamed(chunk('{"a"'), later(": 4"), later("2}"), END)
    deltas = [event.text for event in world.shown if isinstance(event, PartDelta)]
    assert deltas == ['{"a"', ": 4", "2}"]
    assert response.message.parts == (Text(text='{"a": 42}'),)
    assert response.finish.reason == "stop"
    assert fold(world.shown).text == response.text


def test_the_first_answer_counts_and_other_calls_stay_calls() -> None:
    tide = chunk('{"port": "Brest"}', name="tide", index=1)
    _, response = streamed(chunk('{"a": 1}'), tide, chunk('{"a": 2}', index=2), END)
    assert response.text == '{"a": 1}'
    assert [call.name for call in response.tool_calls] == ["tide"]
    assert response.finish.reason == "tool_calls"


def test_text_between_the_pieces_does_not_divide_the_answer() -> None:
    prose = b'data: {"choices": [{"index": 0, "delta": {"content": "So:"}}]}\n\n'
    _, response = streamed(chunk('{"a"'), prose, later(": 1}"), END)
    assert [part.text for part in response.message.parts if isinstance(part, Text)] == ['{"a": 1}', "So:"]


def test_an_answer_that_the_length_limit_cut_is_the_text_so_far() -> None:
    _, response = streamed(chunk('{"a": 4'), chunk(finish="length") + DONE)
    assert (response.text, response.finish.reason) == ('{"a": 4', "length")
    assert [notice.what for notice in response.notices] == ["schema"]


def test_an_answer_without_arguments_and_one_that_is_wrapped_come_whole() -> None:
    _, empty = streamed(chunk(""), END)
    assert (empty.text, empty.finish.reason) == ("{}", "stop")
    world, wrapped = streamed(chunk('{"value": '), later("42}"), END, schema={"type": "integer"})
    assert wrapped.text == "42"
    assert [event.text for event in world.shown if isinstance(event, PartDelta)] == ["42"]


def test_a_malformed_answer_breaks_the_stream() -> None:
    with pytest.raises(Interrupted) as caught:
        streamed(chunk("[4"), END)
    assert isinstance(caught.value.__cause__, MalformedToolCall)


CLAUDE = provided("anthropic/claude-3-haiku-20240307", api_key="k")


def test_the_input_of_an_anthropic_tool_is_text_as_it_arrives() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So:"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "final_answer", "input": {}},
        },
        *(
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in ("", '{"a"', ": 4", "2}")
        ),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    world = World([f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events])
    quirks = msgspec.structs.replace(CLAUDE.quirks, json_schema=False)
    request = Request(messages=(user("Which?"),), schema=SCHEMA, schema_mode="auto", stream=True)
    form = attempt(request, msgspec.structs.replace(CLAUDE, quirks=quirks), CallContext())
    response = world.run(form).response
    assert [event.text for event in world.shown if isinstance(event, PartDelta)] == ["So:", '{"a"', ": 4", "2}"]
    assert (response.text, response.finish.reason, response.tool_calls) == ('So:{"a": 42}', "stop", ())
