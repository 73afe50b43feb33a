"""Typed output: every kind of type, through every wire, in every way, is the same value."""

import asyncio
import dataclasses
import json
from typing import Any

import msgspec
import pydantic
import pytest

from dragoman import (
    Finish,
    InvalidRequest,
    Model,
    OutputError,
    OutputType,
    Overloaded,
    Registry,
    Request,
    Response,
    Timeouts,
    Tool,
    ToolCall,
    Usage,
    assistant,
    dump,
    load,
    wires,
)
from dragoman.engine import typed_output
from dragoman.engine.failover import ChainOptions
from dragoman.engine.health import Health
from dragoman.events import PartDelta
from dragoman.schema.unstrict import NO_VALUE
from dragoman.testing import Scripted, ScriptLine
from tests.support import schema_rules
from tests.support.batch import for_all
from tests.support.output_types import KINDS, Bill, Weather, written
from tests.support.plans import Status, World, last_line, target

WAYS: dict[str, dict[str, bool]] = {
    "native": {},
    "tool": {"structured": False, "forced_choice": True},
    "instruction": {"structured": False, "tools": False},
}
TIDE = Tool(name="tide", description="The height of the water")
CALL = ToolCall(id="call_1", name="tide")


@dataclasses.dataclass
class Odd:
    name: str

    def __post_init__(self) -> None:
        if self.name == "x":
            raise LookupError("not x")


class Crew(pydantic.BaseModel):
    names: set[str]


def scripted(script: Scripted, wire: str = "openai_chat", **facts: Any) -> Model:
    registry = script.registry(wire)
    registry.set_capabilities("scripted", **facts)
    return registry.model("scripted/model", retries=0)


def line(text: str, way: str, *, finish: Finish | None = None) -> ScriptLine:
    """An answer, as a model gives it in a way."""
    if way == "tool":
        return ToolCall(id="call_1", name="final_answer", arguments=json.loads(text))
    answer = f"Here it is:\n```json\n{text}\n```\n" if way == "instruction" else text
    usage = Usage(input=10, output=5)
    return Response(message=assistant(answer), finish=finish or Finish(reason="stop"), usage=usage)


# Every kind, through every wire, in every way ------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wire", wires.NAMES)
@for_all("kind", KINDS.keys())
def test_every_kind_is_the_same_value_through_every_wire_in_every_way(kind: str, wire: str, way: str) -> None:
    hint, value = KINDS[kind]
    script = Scripted(line(written(hint, value), way))
    assert scripted(script, wire, **WAYS[way]).extract(hint, "Which?", max_repairs=0) == value
    request = script.requests[0]
    # The server half of the ollama wire reads the schema back from the system prompt.
    expected = {"native": (True, 0), "tool": (False, 1), "instruction": (wire == "ollama", 0)}[way]
    assert (request.schema is not None, len(request.tools)) == expected


@pytest.mark.parametrize("wire", wires.NAMES)
@for_all("kind", KINDS.keys())
def test_every_kind_grows_into_the_same_value(kind: str, wire: str) -> None:
    hint, value = KINDS[kind]
    script = Scripted(written(hint, value))
    with scripted(script, wire).stream_extract(hint, "Which?", max_repairs=0) as stream:
        *_, last = stream
    assert last == value == stream.parsed


@for_all("kind", KINDS.keys())
def test_the_demo_fills_every_kind(kind: str) -> None:
    hint, value = KINDS[kind]
    made = Registry(env={}).model("demo/any").extract(hint, "Which?", max_repairs=0)
    assert type(made) is type(value) or kind in ("literal", "optional", "union of scalars", "tagged struct", "union")


# What is sent ---------------------------------------------------------------------------------------------------------


def sent(wire: str, hint: Any) -> dict[str, Any]:
    script = Scripted(Overloaded("busy"))
    with pytest.raises(Overloaded):
        scripted(script, wire).extract(hint, "Which?", max_repairs=0)
    body: dict[str, Any] = json.loads(script.http[0].body)
    return body


@for_all("kind", KINDS.keys())
def test_what_openai_is_sent_is_strict(kind: str) -> None:
    form = sent("openai_chat", KINDS[kind][0])["response_format"]["json_schema"]
    assert form["strict"] is True
    assert schema_rules.openai(form["schema"]) == []
    assert sent("openai_responses", KINDS[kind][0])["text"]["format"]["schema"] == form["schema"]


@for_all("kind", KINDS.keys())
def test_what_anthropic_is_sent_is_in_its_subset(kind: str) -> None:
    body = sent("anthropic", KINDS[kind][0])
    assert schema_rules.anthropic(body["output_config"]["format"]["schema"]) == []


@for_all("kind", KINDS.keys())
def test_what_google_is_sent_is_in_its_subset(kind: str) -> None:
    body = sent("google", KINDS[kind][0])
    assert schema_rules.google(body["generationConfig"]["responseJsonSchema"]) == []


@pytest.mark.parametrize(
    ("rules", "schema"),
    [
        (schema_rules.openai, {"type": "array"}),
        (schema_rules.openai, {"type": "object", "properties": {"a": {}}, "additionalProperties": False}),
        (schema_rules.openai, {"type": "object", "properties": {}, "required": [], "default": {}}),
        (schema_rules.anthropic, {"type": "object"}),
        (schema_rules.anthropic, {"type": "array", "maxItems": 3}),
        (schema_rules.anthropic, {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}),
        (schema_rules.google, {"type": "string", "const": "a"}),
        (schema_rules.google, {"type": "boolean", "enum": [True]}),
        (schema_rules.google, {"$ref": "#/$defs/A", "description": "x", "$defs": {"A": {"type": "string"}}}),
        (
            schema_rules.google,
            {"$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}}, "$ref": "#/$defs/A"},
        ),
    ],
)
def test_each_rule_is_able_to_fail(rules: Any, schema: dict[str, Any]) -> None:
    assert rules(schema)


# Repairs --------------------------------------------------------------------------------------------------------------

GOOD = written(Bill, {"payee": "Ann", "total": 9.5})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wire", wires.NAMES)
def test_a_wrong_answer_is_asked_for_again_with_the_reasons(wire: str, way: str) -> None:
    script = Scripted(line('{"payee": 3, "total": -1, "note": null}', way), line(GOOD, way))
    response = scripted(script, wire, **WAYS[way]).generate("Bill?", output=Bill)
    assert response.parsed == {"payee": "Ann", "total": 9.5}
    first, second = script.requests
    *before, answer, repair = second.messages
    assert (tuple(before), answer.role, repair.role) == (first.messages, "assistant", "user")
    assert '$.payee: 3 is not of type "string"' in repair.text
    assert "$.total: -1 is less than the minimum of 0" in repair.text
    assert second.schema == first.schema
    (repaired,) = [notice for notice in response.notices if notice.kind == "repaired"]
    assert repaired.what == "answer"
    assert "max_repairs" not in repaired.why  # advice for an error, not for a success
    assert [attempt.outcome for attempt in response.attempts] == ["served", "served"]


def test_usage_is_that_of_all_tries() -> None:
    script = Scripted(line("{}", "native"), line(GOOD, "native"))
    assert scripted(script).generate("Bill?", output=Bill).usage == Usage(input=20, output=10)


def test_an_answer_that_stays_wrong_is_an_output_error_with_all_that_it_cost() -> None:
    script = Scripted(line("no", "native"), line('{"payee": "Ann"}', "native"))
    with pytest.raises(OutputError, match=r"does not match Bill: \$: \"total\" is a required property") as caught:
        scripted(script).extract(Bill, "Bill?")
    error = caught.value
    assert (error.text, error.reasons) == ('{"payee": "Ann"}', ('$: "total" is a required property',))
    assert (error.usage, len(error.attempts)) == (Usage(input=20, output=10), 2)
    assert (error.provider, error.model) == ("scripted", "model")


@pytest.mark.parametrize("max_repairs", [0, 1, 3])
def test_as_many_repairs_are_tried_as_are_wanted(max_repairs: int) -> None:
    script = Scripted("no", repeat=True)
    with pytest.raises(OutputError, match="not JSON"):
        scripted(script).extract(Bill, "Bill?", max_repairs=max_repairs)
    assert len(script.requests) == max_repairs + 1


def test_a_length_limit_is_named_as_the_cause() -> None:
    script = Scripted(line('{"payee": "An', "native", finish=Finish(reason="length")), repeat=True)
    with pytest.raises(OutputError, match=r"^the length limit cut the answer off; raise max_tokens") as caught:
        scripted(script).extract(Bill, "Bill?")
    assert "the length limit" in script.requests[1].messages[-1].text
    assert caught.value.reasons[1].startswith("$: not JSON")


def test_a_refusal_is_not_asked_for_again() -> None:
    script = Scripted(line("I cannot.", "native", finish=Finish(reason="blocked", raw="refusal")))
    with pytest.raises(OutputError, match=r"^the provider blocked the answer"):
        scripted(script, "anthropic").extract(Bill, "Bill?")


def test_what_failed_in_a_repair_has_what_was_paid_before() -> None:
    script = Scripted(line("no", "native"), Overloaded("busy"))
    with pytest.raises(Overloaded) as caught:
        scripted(script).extract(Bill, "Bill?")
    assert (caught.value.usage, len(caught.value.attempts)) == (Usage(input=10, output=5), 2)


def test_a_fault_before_any_answer_is_as_it_was() -> None:
    with pytest.raises(Overloaded) as caught:
        scripted(Scripted(Overloaded("busy"))).extract(Bill, "Bill?")
    assert (caught.value.usage, len(caught.value.attempts)) == (None, 1)


def test_a_validator_of_the_type_is_a_reason() -> None:
    text = written(*KINDS["pydantic"]).replace("2026-11-17T08:30:00Z", "noon")
    with pytest.raises(OutputError, match=r"\$\.at: Input should be a valid datetime"):
        scripted(Scripted(text)).extract(Weather, "Weather?", max_repairs=0)


def test_whatever_a_validator_raises_is_a_reason_and_repaired() -> None:
    model = Scripted('{"name": "x"}', '{"name": "y"}')
    assert scripted(model).extract(Odd, "?") == Odd("y")
    with pytest.raises(OutputError, match="the answer cannot be parsed: LookupError: not x"):
        scripted(Scripted('{"name": "x"}')).extract(Odd, "?", max_repairs=0)


def test_an_integer_may_be_told_with_a_point() -> None:
    assert scripted(Scripted('{"value": 5.0}')).extract(int, "?") == 5
    with pytest.raises(OutputError, match=r'5\.5 is not of type "integer"'):
        scripted(Scripted('{"value": 5.5}')).extract(int, "?", max_repairs=0)


def test_the_validators_own_error_is_the_cause() -> None:
    text = written(*KINDS["pydantic"]).replace("2026-11-17T08:30:00Z", "noon")
    with pytest.raises(OutputError) as caught:
        scripted(Scripted(text)).extract(Weather, "Weather?", max_repairs=0)
    assert isinstance(caught.value.__cause__, pydantic.ValidationError)


def test_repairs_share_the_deadline_of_the_call() -> None:
    world = World(Status(200, last_line("no")), Status(200, last_line("7")))
    plan = typed_output.run(Request(), OutputType[int](int), [target("aa/m")], Health(), ChainOptions(), max_repairs=1)
    world.now, world.perform = 100.0, slow(world)  # type: ignore[method-assign]  # each effect takes a second
    assert world.run(plan).parsed == 7
    first, second = (effect.total_timeout for effect in world.requests)
    assert (first or 0.0) - 1.0 > (second or 1000.0)


def slow(world: World) -> Any:
    perform = world.perform

    def slowly(effect: Any) -> Any:
        world.now += 1.0
        return perform(effect)

    return slowly


def test_no_deadline_is_none_for_repairs_too() -> None:
    world = World(Status(200, last_line("no")), Status(200, last_line("7")))
    options = ChainOptions(timeouts=Timeouts(total=None))
    plan = typed_output.run(Request(), OutputType[int](int), [target("aa/m")], Health(), options, max_repairs=1)
    assert world.run(plan).parsed == 7
    assert [effect.total_timeout for effect in world.requests] == [None, None]


def test_an_output_type_and_a_schema_are_one_too_many() -> None:
    with pytest.raises(InvalidRequest, match="schema must not be set together with an output type"):
        scripted(Scripted()).extract(Bill, "Bill?", schema={})


def test_a_schema_has_the_name_of_its_type_or_the_one_that_is_told() -> None:
    script = Scripted(GOOD, repeat=True)
    scripted(script).extract(Bill, "Bill?")
    scripted(script).extract(Bill, "Bill?", schema_name="invoice")
    assert [request.schema_name for request in script.requests] == ["bill", "invoice"]


@pytest.mark.parametrize(("strict", "known", "sent"), [(None, True, True), (None, False, None), (False, True, False)])
def test_a_schema_is_strict_where_the_target_knows_the_word(strict: Any, known: bool, sent: bool | None) -> None:  # noqa: FBT001
    script = Scripted(GOOD)
    response = scripted(script, strict=known).generate("Bill?", output=Bill, schema_strict=strict)
    assert (script.requests[0].schema_strict, response.notices) == (sent, ())


def test_a_response_can_be_saved_with_its_value() -> None:
    hint, value = KINDS["pydantic"]
    response = scripted(Scripted(written(hint, value))).generate("Weather?", output=Weather)
    assert json.loads(dump(response))["parsed"]["city"] == "Brest"
    assert load(dump(response), Response).text == response.text


# Ways, target by target -----------------------------------------------------------------------------------------------


def test_each_target_of_a_chain_is_asked_in_its_own_way() -> None:
    script = Scripted(Overloaded("busy"), Overloaded("busy"), line(GOOD, "instruction"))
    registry = script.registry()
    for model, way in (("a", "native"), ("b", "tool"), ("c", "instruction")):
        registry.set_capabilities(f"scripted/{model}", **WAYS[way])
    made = registry.model("scripted/a,scripted/b,scripted/c", retries=0).extract(Bill, "Bill?")
    assert made == {"payee": "Ann", "total": 9.5}
    native, tool, words = script.requests
    assert native.schema == OutputType(Bill).schema
    assert isinstance(tool.tools[0], Tool)
    assert (tool.schema, tool.tools[0].parameters, tool.tool_choice) == (None, OutputType(Bill).schema, "final_answer")
    assert words.schema is None
    assert '"payee"' in str(words.system)


def test_async_is_the_same() -> None:
    async def main() -> list[Any]:
        model = scripted(Scripted(GOOD, repeat=True))
        async with model.astream_extract(Bill, "Bill?") as stream:
            *_, last = [value async for value in stream]
            assert stream.response is not None
        return [
            await model.aextract(Bill, "Bill?"),
            (await model.agenerate("Bill?", output=Bill)).parsed,
            last,
            stream.parsed,
        ]

    assert asyncio.run(main()) == [{"payee": "Ann", "total": 9.5}] * 4


def test_an_async_stream_that_fails_has_no_value() -> None:
    async def main() -> None:
        async with scripted(Scripted("no")).astream_extract(Bill, "Bill?", max_repairs=0) as stream:
            with pytest.raises(OutputError):
                _ = [value async for value in stream]
            assert (stream.response, stream.parsed) == (None, None)

    asyncio.run(main())


# Tools beside -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_calls_come_before_the_answer(way: str) -> None:
    facts: dict[str, Any] = {**WAYS[way], "tools": True, "forced_choice": way == "tool"}
    model = scripted(Scripted(CALL, line(GOOD, way)), **facts)
    first = model.generate("Bill?", output=Bill, tools=[TIDE])
    assert (first.parsed, [call.name for call in first.tool_calls], first.finish.reason) == (
        None,
        ["tide"],
        "tool_calls",
    )
    second = model.generate("Bill?", output=Bill, tools=[TIDE])
    assert (second.parsed, second.finish.reason) == ({"payee": "Ann", "total": 9.5}, "stop")


def test_calls_are_no_value() -> None:
    with pytest.raises(OutputError, match="the model called tide instead of giving an answer") as caught:
        scripted(Scripted(CALL)).extract(Bill, "Bill?", tools=[TIDE])
    assert len(caught.value.attempts) == 1


@pytest.mark.parametrize(
    ("hint", "answer", "value"),
    [(set[str], {"value": ["a", "b", "a"]}, {"a", "b"}), (Crew, {"names": ["a", "a"]}, Crew(names={"a"}))],
)
def test_a_set_takes_what_comes_twice(hint: Any, answer: Any, value: object) -> None:
    assert scripted(Scripted(json.dumps(answer))).extract(hint, "?") == value


def test_what_is_not_told_is_unset() -> None:
    class Sparse(msgspec.Struct):
        a: int
        b: int | msgspec.UnsetType = msgspec.UNSET

    assert scripted(Scripted('{"a": 1, "b": null}')).extract(Sparse, "?") == Sparse(1)


def test_partial_values_begin_after_the_thinking() -> None:
    partials = typed_output.Partials(OutputType(list[str]))
    pieces = ["<thi", 'nk>{"value": ["x"]}', "</think>", '\n{"value": ["a', '<think>b"', "]}"]
    values = [partials.feed(PartDelta(index=0, text=text)) for text in pieces]
    assert [value for value in values if value is not NO_VALUE] == [["a"], ["a<think>b"]]
