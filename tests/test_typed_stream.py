"""Values that grow: each holds all that the one before it held, none breaks a constraint, the last is whole."""

import json
import sys
from itertools import pairwise
from types import FrameType
from typing import Annotated, Any, Literal

import annotated_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import OutputError, OutputType, Restarted
from dragoman.engine.typed_output import Partials
from dragoman.events import PartDelta, PartEnded, PartStarted, Ping, StreamEvent
from dragoman.schema.partial_json import PartialJson
from dragoman.schema.unstrict import NO_VALUE
from dragoman.schema.validate import validate
from dragoman.testing import Scripted
from dragoman.types import JsonObject, Text, is_list, is_object
from tests.support.output_types import KINDS, Bill, Port, Unit, written


def grows(before: Any, after: Any) -> bool:
    """Whether a value has all that another had."""
    if is_object(before) and is_object(after):
        return all(key in after and grows(item, after[key]) for key, item in before.items())
    if is_list(before) and is_list(after):
        return len(before) <= len(after) and all(map(grows, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return before == after and type(before) is type(after)


def partial(schema: Any) -> Any:
    """A schema without what only a whole value can satisfy."""
    if is_list(schema):
        return [partial(item) for item in schema]
    if not is_object(schema):
        return schema
    absent = {"required", "minItems", "minProperties", "prefixItems", "uniqueItems"}
    names = {"oneOf": "anyOf"}
    return {names.get(key, key): partial(item) for key, item in schema.items() if key not in absent}


def values(hint: Any, text: str, size: int = 1) -> list[Any]:
    partials = Partials(OutputType(hint))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    partial_values = [partials.feed(PartDelta(index=0, text=piece)) for piece in pieces]
    return [value for value in partial_values if value is not NO_VALUE]


@pytest.mark.no_cover
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_values_only_grow_and_break_no_constraint(kind: str, size: int) -> None:
    hint, value = KINDS[kind]
    form = OutputType[Any](hint)
    text = written(hint, value)
    partial_values = values(hint, text, size)
    whole = form.converter.convert(json.loads(text))
    for before, after in zip(partial_values, [*partial_values[1:], whole], strict=True):
        assert grows(before, after), (before, after)
        assert validate(before, partial(form.type_schema)) == ()


def test_free_text_grows_and_all_else_comes_whole() -> None:
    hint = dict[Literal["a"], int] | list[Unit | int | str]
    assert values(list[str], '{"value":["ab","c"]}') == [[], [""], ["a"], ["ab"], ["ab", ""], ["ab", "c"]]
    assert values(list[Unit], '{"value":["kelvin"]}') == [[], ["kelvin"]]
    assert values(list[int], '{"value":[12,3]}') == [[], [12], [12, 3]]
    assert values(Annotated[str, annotated_types.MinLen(2)], '{"value":"ab"}') == ["ab"]
    assert values(hint, '{"value":["ke"]}')[-1] == ["ke"]


def test_an_entry_of_a_map_comes_whole() -> None:
    assert values(dict[str, str], '{"value":[{"key":"a","value":"bc"}]}') == [{}, {"a": "bc"}]


def test_what_stands_around_the_object_is_no_part_of_it() -> None:
    assert values(Bill, 'Sure!\n```json\n{"payee":"A"}\n``` {"payee":"B"}')[-1] == {"payee": "A"}


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ('{"payee":"a\\u00e9\\ud83d\\ude00\\n\\"b"}', 'aé😀\n"b'),
        ('{"payee":"a\\ud83dxxxxxxxxxxxxx"}', "a"),
        ('{"payee":"a\\u12"}', "a"),
        ('{"payee":"ab\x01c"}', "ab"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_escapes_are_read_whole_or_end_the_growth(text: str, last: str, size: int) -> None:
    partial_values = [value["payee"] for value in values(Bill, text, size) if "payee" in value]
    assert all(last.startswith(value) for value in partial_values)
    assert size == 100 or partial_values[-1] in (last, last[:-1])


@pytest.mark.parametrize(
    "text", ['{"payee": x}', '{"payee": "a", "total": 1.2.3, "note": "b"}', '{"payee": nul, "total": 1}']
)
def test_what_is_no_json_ends_the_growth(text: str) -> None:
    assert all(value.keys() <= {"payee"} for value in values(Bill, text))


def test_only_the_answer_is_read() -> None:
    partials = Partials(OutputType(Bill))
    thinking: list[StreamEvent] = [
        PartStarted(index=0, kind="thinking"),
        PartDelta(index=0, text='{"payee":"no'),
        Ping(),
    ]
    assert [partials.feed(event) for event in thinking] == [NO_VALUE] * 3
    assert partials.feed(PartDelta(index=1, text='{"payee":"yes')) == {"payee": "yes"}
    assert partials.feed(PartEnded(index=1, part=Text(text="x"))) is NO_VALUE


def test_nothing_is_shown_of_what_starts_over() -> None:
    partials = Partials(OutputType(Bill))
    assert partials.feed(PartDelta(index=0, text='{"payee":"A')) == {"payee": "A"}
    assert partials.feed(Restarted(previous="a/m", target="b/m", why="cut")) is NO_VALUE
    assert partials.feed(PartDelta(index=0, text='{"payee":"B')) is NO_VALUE


def test_what_was_shown_is_not_changed_afterwards() -> None:
    partials = Partials(OutputType(list[list[int]]))
    first = partials.feed(PartDelta(index=0, text='{"value":[[1,'))
    assert first == [[1]]
    assert partials.feed(PartDelta(index=0, text="2],[3]]}")) == [[1, 2], [3]]
    assert first == [[1]]


def test_a_repaired_answer_is_shown_at_its_end_only() -> None:
    hint, value = KINDS["dataclass"]
    script = Scripted('{"name":"Brest"}', written(hint, value))
    with script.model().stream_extract(Port, "Which?") as stream:
        *partial_values, last = stream
    assert (partial_values[-1], last) == ({"name": "Brest"}, value)
    assert [request.stream for request in script.requests] == [True, False]


def test_leaving_early_ends_the_stream() -> None:
    hint, value = KINDS["dataclass"]
    stream = Scripted(written(hint, value)).model().stream_extract(Port, "Which?")
    with stream:
        next(iter(stream))
    assert (stream.response, stream.parsed) == (None, None)
    with pytest.raises(StopIteration):
        next(stream._events)  # pyright: ignore[reportPrivateUsage]  # it is closed


def test_a_wrong_answer_raises_at_the_end() -> None:
    stream = Scripted("no").model().stream_extract(Port, "Which?", max_repairs=0)
    with pytest.raises(OutputError):
        list(stream)


def test_iterating_again_gives_the_value() -> None:
    stream = Scripted('{"value": 3}').model().stream_extract(int, "Which?")
    assert (list(stream)[-1], list(stream)) == (3, [3])


@pytest.mark.no_cover
def test_the_work_is_linear_in_the_length_of_the_stream() -> None:
    def work(items: int) -> int:
        """How many functions are called, ours and C's."""
        text = json.dumps({"value": [{"payee": "x" * 20, "total": 1.5, "note": None}] * items})
        calls = 0

        def count(frame: FrameType, event: str, what: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            values(list[Bill], text, 4)
        finally:
            sys.setprofile(None)
        return calls

    assert work(320) < 8 * work(40) * 1.5


@pytest.mark.no_cover
@pytest.mark.parametrize("hint", [str, list[str]])
def test_what_is_shown_is_linear_in_the_length_of_the_stream(hint: Any) -> None:
    def total_size(length: int) -> int:
        value: Any = "x" * length if hint is str else ["x" * 10] * (length // 10)
        return sum(len(json.dumps(value)) for value in values(hint, json.dumps({"value": value}), 4))

    assert total_size(16_000) < 8 * total_size(2_000) * 1.5


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=5), below, max_size=4),
    max_leaves=20,
)


@given(
    value=st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    ascii_only=st.booleans(),
)
def test_any_json_in_any_pieces_is_read_as_it_is(value: JsonObject, cuts: list[int], ascii_only: bool) -> None:  # noqa: FBT001
    text = json.dumps(value, ensure_ascii=ascii_only)
    prefix, partial_values = PartialJson({"type": "object"}), list[Any]()
    for start, end in pairwise([0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]):
        prefix.feed(text[start:end])
        partial_values.append(prefix.value)
    assert prefix.value == value
    assert all(before is NO_VALUE or grows(before, after) for before, after in pairwise(partial_values))


def test_a_prefix_of_nothing_is_nothing() -> None:
    prefix = PartialJson({"type": "object"})
    prefix.feed("no")
    assert prefix.value is NO_VALUE
