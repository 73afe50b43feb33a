import contextlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InvalidRequest, Malformed, MalformedToolCall, TooLarge
from dragoman.events import (
    MAX_OPEN,
    Assembler,
    CallDelta,
    Event,
    Finished,
    PartDelta,
    PartEnded,
    PartStarted,
    Ping,
    Restarted,
    Started,
    StreamEvent,
    fold,
    kind_of,
    to_events,
)
from dragoman.types import (
    UNKNOWN_USAGE,
    Finish,
    Image,
    Message,
    Notice,
    Response,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant,
)
from dragoman.types.arguments import arguments_text, parse_arguments, raw_arguments
from tests.support import values
from tests.support.work import calls_of, memory_of

STOP = Finish(reason="stop", raw="stop")
LENGTH = Finish(reason="length", raw="max_tokens")
INDEXES = st.integers(0, 3)
EVENTS: st.SearchStrategy[Event] = (
    st.builds(Started, id=values.maybe(values.WORDS), model=values.maybe(values.WORDS))
    | st.builds(PartStarted, index=INDEXES, kind=st.sampled_from(["text", "thinking", "tool_call"]), extra=values.EXTRA)
    | st.builds(PartDelta, index=INDEXES, text=values.WORDS)
    | st.builds(PartEnded, index=INDEXES, part=values.PARTS)
    | st.builds(Ping)
    | st.builds(Finished, finish=values.FINISHES, usage=values.USAGE, notices=values.tuples(values.NOTICES))
)


def follows_the_grammar(events: list[Event]) -> None:
    """Started ( PartStarted PartDelta* PartEnded | Ping )* Finished, and every part is what its deltas were."""
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    begun: list[tuple[str, list[str]]] = []
    ended: set[int] = set()
    for event in events[1:-1]:
        match event:
            case PartStarted():
                assert event.index == len(begun)
                begun.append((event.kind, []))
            case PartDelta():
                kind, pieces = begun[event.index]
                assert kind in ("text", "thinking")
                assert event.index not in ended
                assert event.text
                pieces.append(event.text)
            case PartEnded():
                kind, pieces = begun[event.index]
                assert kind == kind_of(event.part)
                assert event.index not in ended
                if pieces:
                    assert getattr(event.part, "text", None) == "".join(pieces)
                ended.add(event.index)
            case Ping():
                continue
            case _:
                raise AssertionError(f"{event} in the middle")
    assert ended == set(range(len(begun)))


# fold and unfold ------------------------------------------------------------------------------------------------------


@given(values.RESPONSES)
def test_what_is_unfolded_folds_to_the_same(response: Response) -> None:
    response = msgspec.structs.replace(
        response,
        message=Message(role="assistant", parts=response.message.parts),
        target=None,
        attempts=(),
        raw=None,
    )
    assert fold(to_events(response)) == response


@given(values.RESPONSES)
def test_what_is_unfolded_follows_the_grammar(response: Response) -> None:
    follows_the_grammar(to_events(response))


@given(EVENTS)
def test_an_event_decodes_as_it_was_encoded(event: Event) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@given(EVENTS)
def test_an_event_of_a_later_version_decodes(event: Event) -> None:
    data = {**msgspec.to_builtins(event), "later": 1}
    assert msgspec.convert(data, Event) == event


@given(st.lists(EVENTS, max_size=8))
def test_any_events_fold(events: list[Event]) -> None:
    assert fold(events).message.role == "assistant"


def test_parts_that_interleave_fold_by_their_index() -> None:
    events: list[Event] = [
        PartStarted(index=0, kind="text"),
        PartStarted(index=1, kind="tool_call"),
        PartEnded(index=1, part=ToolCall(id="a", name="tide")),
        PartEnded(index=0, part=Text(text="b")),
    ]
    assert fold(events).message == assistant("b", ToolCall(id="a", name="tide"))


def test_of_a_stream_that_broke_off_there_is_what_was_shown() -> None:
    events: list[Event] = [
        Started(id="msg_1", model="m", created=7),
        PartStarted(index=0, kind="thinking"),
        PartDelta(index=0, text="h"),
        PartDelta(index=0, text="m"),
        PartStarted(index=1, kind="text"),
        PartDelta(index=1, text="So"),
        PartStarted(index=2, kind="text"),
    ]
    assert fold(events) == Response(
        id="msg_1",
        model="m",
        created=7,
        message=assistant(Thinking(text="hm"), "So"),
        finish=Finish(reason="other"),
        usage=Usage(source="partial"),
    )


def test_what_came_before_a_new_start_is_void() -> None:
    events: list[StreamEvent] = [
        Started(id="msg_1"),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="void"),
        PartStarted(index=1, kind="text"),
        PartEnded(index=1, part=Text(text="void")),
        Finished(finish=STOP),
        Restarted(previous="aa/m1", target="bb/m2", why="Reset: by peer"),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="anew"),
    ]
    assert fold(events) == Response(
        message=assistant("anew"), finish=Finish(reason="other"), usage=Usage(source="partial")
    )


# The assembler --------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b"])
KINDS = st.sampled_from(["text", "thinking"])
JSON_PIECES = st.sampled_from(["", "{", '{"a": 1}', '"a"', ": ", "1", "}", "null", "[]", " "])
DEEDS: st.SearchStrategy[tuple[Any, ...]] = (
    st.tuples(st.just("start"), values.maybe(values.WORDS))
    | st.tuples(st.just("ping"))
    | st.tuples(st.just("open"), KEYS, KINDS)
    | st.tuples(st.just("delta"), KEYS, KINDS, values.WORDS)
    | st.tuples(st.just("add_extra"), KEYS)
    | st.tuples(st.just("close"), KEYS)
    | st.tuples(st.just("close_others"), KEYS)
    | st.tuples(st.just("add_part"), values.PARTS)
    | st.tuples(st.just("add_call_fragment"), KEYS, values.IDS, values.WORDS, JSON_PIECES)
    | st.tuples(st.just("finish"), values.FINISHES)
)


def do(out: Assembler, deed: tuple[Any, ...]) -> None:
    match deed:
        case ("start", id):
            out.start(id=id)
        case ("add_extra", key):
            out.add_extra(key, "ollama", {"seen": True})
        case ("add_call_fragment", key, id, name, text):
            out.add_call_fragment(key, id=id, name=name, text=text)
        case (name, *arguments):
            getattr(out, name)(*arguments)
        case _:
            raise AssertionError(deed)


@given(st.lists(DEEDS, max_size=20))
def test_whatever_a_wire_does_the_events_follow_the_grammar(deeds: list[tuple[Any, ...]]) -> None:
    out, events = Assembler(), list[Event]()
    for deed in (*deeds, ("finish", LENGTH)):
        with contextlib.suppress(Malformed, MalformedToolCall):
            do(out, deed)
        events += out.take()
    follows_the_grammar(events)


@given(st.lists(DEEDS, max_size=20))
def test_ids_of_calls_are_there_and_never_repeat(deeds: list[tuple[Any, ...]]) -> None:
    out = Assembler()
    for deed in (*deeds, ("finish", LENGTH)):
        with contextlib.suppress(Malformed, MalformedToolCall):
            do(out, deed)
    ids = [call.id for call in fold(out.take()).tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


def finished(out: Assembler, finish: Finish = STOP) -> Response:
    out.finish(finish)
    return fold(out.take())


def test_deltas_are_joined_by_their_key() -> None:
    out = Assembler()
    for key, text in (("a", "1"), ("b", "x"), ("a", "2"), ("b", "y")):
        out.delta(key, "text", text)
    assert finished(out).message == assistant("12", "xy")


def test_an_empty_delta_begins_nothing() -> None:
    out = Assembler()
    out.delta("a", "text", "")
    assert not out.is_open("a")
    assert finished(out).message.parts == ()


def test_another_kind_under_one_key_is_another_part() -> None:
    out = Assembler()
    out.delta("a", "thinking", "hm")
    out.delta("a", "text", "So")
    assert finished(out).message == assistant(Thinking(text="hm"), "So")


def test_a_part_begins_once() -> None:
    out = Assembler()
    out.open("a", "text", {"ollama": {"n": 1}})
    out.open("a", "text", {"ollama": {"n": 2}})
    assert finished(out).message.parts == (Text(text="", extra={"ollama": {"n": 1}}),)


def test_part_started_has_the_extra_that_is_known() -> None:
    out = Assembler()
    out.delta("a", "text", "hi", {"ollama": {"n": 1}})
    assert PartStarted(index=0, kind="text", extra={"ollama": {"n": 1}}) in out.take()


def test_notes_are_merged_into_a_part_and_a_call() -> None:
    out = Assembler()
    out.delta("a", "thinking", "hm")
    out.add_call_fragment("b", id="call_1", name="tide")
    for key in ("a", "b"):
        out.add_extra(key, "ollama", {"n": 1, "m": 1})
        out.add_extra(key, "ollama", {"n": 2})
    extra = {"ollama": {"n": 2, "m": 1}}
    assert finished(out).message == assistant(
        Thinking(text="hm", extra=extra), ToolCall(id="call_1", name="tide", extra=extra)
    )


MORE: list[Callable[[Assembler], object]] = [
    lambda out: out.add_extra("a", "ollama", {}),
    lambda out: out.call_is_complete("a"),
]


@pytest.mark.parametrize("deed", MORE)
def test_more_of_what_is_not_open_is_malformed(deed: Callable[[Assembler], object]) -> None:
    with pytest.raises(Malformed, match="'a', which is not open"):
        deed(Assembler())


def test_text_of_has_the_text_so_far() -> None:
    out = Assembler()
    assert out.text_of("a") == ""
    out.delta("a", "text", "1")
    out.delta("a", "text", "2")
    assert out.text_of("a") == "12"


def test_all_but_one_are_closed() -> None:
    out = Assembler()
    for key in ("a", "b", "c"):
        out.delta(key, "text", key)
    out.close_others("b")
    assert [key for key in ("a", "b", "c") if out.is_open(key)] == ["b"]


def test_closing_what_is_not_open_does_nothing() -> None:
    out = Assembler()
    out.close("a")
    assert out.take() == []


def test_a_ping_before_the_beginning_is_ignored() -> None:
    out = Assembler()
    out.ping()
    out.start()
    out.ping()
    assert out.take() == [Started(), Ping()]


def test_empty_fields_of_started_are_none() -> None:
    out = Assembler()
    out.start(id="", model="")
    out.start(id="late")
    assert out.take() == [Started()]


def test_nothing_follows_the_end() -> None:
    out = Assembler()
    out.finish(STOP)
    assert out.is_finished()
    out.take()
    out.ping()
    out.delta("a", "text", "late")
    out.add_part(Image(data=b"", mime="image/png"))
    out.finish(LENGTH)
    assert out.take() == []


def test_usage_and_notices_come_with_the_end() -> None:
    out = Assembler()
    out.usage = Usage(input=3)
    out.notices.append(Notice(kind="info", what="choices", why="two"))
    response = finished(out)
    assert (response.usage, response.notices) == (Usage(input=3), (Notice(kind="info", what="choices", why="two"),))


def test_usage_that_was_not_reported_is_unknown() -> None:
    assert finished(Assembler()).usage == UNKNOWN_USAGE


# Calls ----------------------------------------------------------------------------------------------------------------


def test_fragments_are_joined_by_their_key_and_seen_whole() -> None:
    out = Assembler()
    out.add_call_fragment(0, id="a", name="tide", text='{"port": ')
    out.add_call_fragment(1, id="b", name="now")
    assert out.has_calls is True
    out.add_call_fragment(0, id="ignored", name="ignored", text='"Brest"}')
    assert out.take() == []
    assert finished(out).tool_calls == (
        ToolCall(id="a", name="tide", arguments={"port": "Brest"}, raw='{"port": "Brest"}'),
        ToolCall(id="b", name="now"),
    )


def test_a_call_that_is_complete_is_seen_when_it_is_closed() -> None:
    out = Assembler()
    out.add_call_fragment(0, id="a", name="tide", text="{}")
    out.close(0)
    assert not out.is_open(0)
    assert out.has_calls is True
    assert PartEnded(index=0, part=ToolCall(id="a", name="tide")) in out.take()


def test_a_call_that_is_not_complete_stays_open_when_it_is_closed() -> None:
    out = Assembler()
    out.add_call_fragment(0, id="a", name="tide", text="{")
    out.close(0)
    assert out.is_open(0)


@pytest.mark.parametrize(
    ("pieces", "complete"),
    [
        ([], False),
        ([""], False),
        (["{"], False),
        (['{"a": "}', ""], False),
        (["{", "} "], True),
        (["{", "} ", "\n"], True),
        (["null"], True),
        (["[]"], False),
    ],
)
def test_a_call_is_complete_when_its_arguments_are(pieces: list[str], *, complete: bool) -> None:
    out = Assembler()
    out.add_call_fragment(0, name="tide")
    for piece in pieces:
        out.add_call_fragment(0, text=piece)
    assert out.call_is_complete(0) is complete


def test_calls_without_an_id_are_counted_over_the_conversation() -> None:
    out = Assembler(calls_before=2)
    for name in ("a", "b"):
        out.add_part(ToolCall(id="", name=name))
    assert [call.id for call in finished(out).tool_calls] == ["call_3", "call_4"]


def test_a_counted_id_is_not_one_that_was_given() -> None:
    out = Assembler()
    for port, id in enumerate(("call_2", "", "call_2")):
        out.add_part(ToolCall(id=id, name="tide", arguments={"port": port}))
    assert [call.id for call in finished(out).tool_calls] == ["call_2", "call_3", "call_4"]


@pytest.mark.parametrize("again", [{"port": "Brest"}, {}])
def test_a_call_that_comes_again_is_one_call(again: dict[str, Any]) -> None:
    out = Assembler()
    out.add_part(ToolCall(id="a", name="tide", arguments={"port": "Brest"}))
    out.add_part(ToolCall(id="a", name="tide", arguments=again))
    out.add_part(ToolCall(id="a", name="now"))
    response = finished(out)
    assert [(call.id, call.name) for call in response.tool_calls] == [("a", "tide"), ("call_2", "now")]
    assert [(notice.kind, notice.what) for notice in response.notices] == [("repaired", "tool call tide")]


@pytest.mark.parametrize("reason", ["stop", "other", "tool_calls"])
def test_where_calls_are_the_finish_is_tool_calls(reason: Any) -> None:
    out = Assembler()
    out.add_part(ToolCall(id="a", name="tide"))
    finish = Finish(reason=reason, raw="eos", extra={"ollama": {}})
    assert finished(out, finish).finish == Finish(reason="tool_calls", raw="eos", extra={"ollama": {}})


@pytest.mark.parametrize("reason", ["length", "blocked", "pause"])
def test_a_finish_that_says_more_than_calls_stays(reason: Any) -> None:
    out = Assembler()
    out.add_part(ToolCall(id="a", name="tide"))
    assert finished(out, Finish(reason=reason)).finish.reason == reason


@pytest.mark.parametrize("text", ["{", '{"a": 1', "[1]", '"a"', "1", "{}{}", "nul", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_not_an_object_are_malformed(text: str) -> None:
    out = Assembler()
    out.usage = Usage(input=3, output=2)
    out.add_call_fragment(0, id="a", name="tide", text=text)
    with pytest.raises(MalformedToolCall, match="arguments of tide") as caught:
        out.finish(STOP)
    error = caught.value
    assert (error.id, error.name, error.text, error.usage) == ("a", "tide", text, Usage(input=3, output=2))


def test_a_malformed_call_without_a_name_is_an_error() -> None:
    out = Assembler()
    out.add_call_fragment(0, text="{")
    with pytest.raises(MalformedToolCall, match=r"^arguments of a call are not a JSON object: \{$"):
        out.finish(STOP)


def test_a_malformed_call_is_raised_before_those_beside_it_are_shown() -> None:
    out = Assembler()
    for key, text in enumerate(("{}", "{", "{}")):
        out.add_call_fragment(key, id=str(key), name="tide", text=text)
    for _ in range(2):
        with pytest.raises(MalformedToolCall):
            out.finish(STOP)
    assert out.take() == [Started()]


def test_a_call_that_the_length_limit_cut_off_is_left_out_with_a_notice() -> None:
    out = Assembler()
    out.add_call_fragment(0, id="a", name="now")
    out.add_call_fragment(1, id="b", name="tide", text='{"port": "Br')
    response = finished(out, LENGTH)
    assert response.tool_calls == (ToolCall(id="a", name="now"),)
    why = 'the length limit cut its arguments off: {"port": "Br'
    assert response.notices == (Notice(kind="dropped", what="tool call tide", why=why),)


def test_a_notice_has_the_beginning_of_the_cut_off_arguments() -> None:
    out = Assembler()
    out.add_call_fragment(0, name="write", text="{" + "x" * 1000)
    [notice] = finished(out, LENGTH).notices
    assert notice.why == "the length limit cut its arguments off: {" + "x" * 199


def test_an_error_shows_the_beginning_of_the_arguments_and_has_them_all() -> None:
    out, text = Assembler(), "{" + "x" * 1000
    out.add_call_fragment(0, name="write", text=text)
    with pytest.raises(MalformedToolCall) as caught:
        out.finish(STOP)
    assert str(caught.value) == "arguments of write are not a JSON object: {" + "x" * 199
    assert caught.value.text == text


def test_a_call_that_was_cut_off_before_its_arguments_is_left_out() -> None:
    out = Assembler()
    out.add_call_fragment(0, id="a", name="tide", text="{}")
    out.add_call_fragment(1, id="b", name="tide")
    response = finished(out, LENGTH)
    assert [call.id for call in response.tool_calls] == ["a"]
    assert [notice.what for notice in response.notices] == ["tool call tide"]


# Arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n", "null", " null "])
def test_empty_arguments_are_an_empty_object(text: str) -> None:
    assert parse_arguments(text) == {}


@given(values.OBJECTS)
def test_arguments_are_read_as_they_were_written(arguments: dict[str, Any]) -> None:
    call = ToolCall(id="a", name="tide", arguments=arguments)
    assert parse_arguments(arguments_text(call)) == arguments


def test_numbers_beyond_64_bits_are_read_as_they_were_written() -> None:
    text = '{"n":123456789012345678901234567890}'
    arguments = parse_arguments(text)
    assert arguments is not None
    assert raw_arguments(text, arguments) is None


def test_the_providers_own_text_is_given_back() -> None:
    assert arguments_text(ToolCall(id="a", name="tide", arguments={"n": 1}, raw='{ "n": 1.0e0 }')) == '{ "n": 1.0e0 }'


def test_the_providers_own_text_is_left_where_the_arguments_were_changed() -> None:
    assert arguments_text(ToolCall(id="a", name="tide", arguments={"n": 2}, raw='{"n": 1}')) == '{"n":2}'


@pytest.mark.parametrize(("text", "raw"), [("", None), (" ", None), ('{"a":1}', None), ('{"a": 1}', '{"a": 1}')])
def test_only_text_that_differs_from_ours_is_kept(text: str, raw: str | None) -> None:
    assert raw_arguments(text, {"a": 1}) == raw


# Limits and linear work -----------------------------------------------------------------------------------------------


GROWTH: list[Callable[[Assembler, int], object]] = [
    lambda out, _: out.delta("a", "text", "xx"),
    lambda out, _: out.add_call_fragment("a", text="xx"),
    lambda out, n: out.add_call_fragment(n, id="xx"),
    lambda out, n: out.add_call_fragment(n, name="xx"),
    lambda out, _: out.count_characters(2),
]


@pytest.mark.parametrize("grow", GROWTH)
def test_what_never_ends_is_too_large(grow: Callable[[Assembler, int], object]) -> None:
    out = Assembler(limit=10)
    for number in range(5):
        grow(out, number)
    with pytest.raises(TooLarge, match=r"^the response has more than 10 characters$"):
        grow(out, 5)


def test_content_length_counts_incomplete_calls_too() -> None:
    out = Assembler()
    out.ping()
    out.delta("a", "text", "1234")
    out.add_call_fragment("b", text="{")
    assert out.content_length == 5


def fragments(count: int) -> Callable[[], object]:
    def work() -> None:
        out = Assembler()
        out.add_call_fragment(0, id="a", name="write", text='{"text": "')
        for _ in range(count):
            out.add_call_fragment(0, name="write", text="x" * 100)
            out.call_is_complete(0)
        out.add_call_fragment(0, text='"}')
        out.finish(STOP)
        assert len(fold(out.take()).tool_calls[0].arguments["text"]) == 100 * count

    return work


def deltas(count: int) -> Callable[[], object]:
    def work() -> None:
        out = Assembler()
        for _ in range(count):
            out.delta("a", "text", "x")
        out.finish(STOP)
        assert len(fold(out.take()).text) == count

    return work


def test_too_many_parts_that_do_not_end_are_too_large() -> None:
    out = Assembler()
    for number in range(MAX_OPEN):
        out.open(number, "text")
    with pytest.raises(TooLarge, match=r"^the response has more than 1000 open parts$"):
        out.open(MAX_OPEN, "text")


@pytest.mark.parametrize("work", [fragments, deltas])
def test_ten_times_the_pieces_are_ten_times_the_work(work: Callable[[int], Callable[[], object]]) -> None:
    assert calls_of(work(2000)) < 11 * calls_of(work(200))


def test_a_megabyte_in_ten_thousand_fragments_is_joined_once() -> None:
    """A join copies all pieces: no fragment may join them, although each asks whether the call is complete."""
    out = Assembler()
    out.add_call_fragment(0, id="a", name="write", text='{"text": "')
    for _ in range(10_000):
        out.add_call_fragment(0, text="x" * 100)

    def one_more() -> None:
        for _ in range(100):
            out.add_call_fragment(0, text="x")
            assert not out.call_is_complete(0)

    held, most = memory_of(one_more)
    assert most - held < 10_000
    out.add_call_fragment(0, text='"}')
    assert len(finished(out).tool_calls[0].arguments["text"]) == 10**6 + 100


@pytest.mark.parametrize("start", ['"{', " "])
def test_a_call_that_is_not_shown_yet_is_not_joined_at_each_fragment(start: str) -> None:
    out = Assembler()
    out.call_deltas = True
    out.add_call_fragment(0, id="a", name="write", text=start)
    for _ in range(10_000):
        out.add_call_fragment(0, text=" " * 100)

    def one_more() -> None:
        for _ in range(100):
            out.add_call_fragment(0, text=" ")

    held, most = memory_of(one_more)
    assert most - held < 10_000
    assert out.take() == []


@pytest.mark.parametrize(("text", "shown"), [(' {"a": 1}', True), (' "{}"', False)])
def test_the_first_character_says_whether_a_call_is_shown(text: str, *, shown: bool) -> None:
    """Also if it comes before the name of the call."""
    out = Assembler()
    out.call_deltas = True
    for piece in text[:2], text[2:4]:
        out.add_call_fragment(0, text=piece)
    out.add_call_fragment(0, id="a", name="tide", text=text[4:])
    pieces = [event.text for event in out.take() if isinstance(event, CallDelta)]
    assert pieces == ([text] if shown else [])
    assert finished(out).tool_calls[0].name == "tide"


def test_arguments_that_are_not_json_are_the_callers_mistake() -> None:
    call = ToolCall(id="call_1", name="tide", arguments={})
    call.arguments["port"] = "\ud800"
    with pytest.raises(InvalidRequest, match=r"arguments of tool call call_1 \(tide\) must be JSON"):
        arguments_text(call)


@pytest.mark.no_cover
def test_a_text_in_many_pieces_takes_little_memory() -> None:
    """A worker has many streams; a list of 50 000 short strings takes 3 MB."""
    out = Assembler()
    tracemalloc.start()
    try:
        for number in range(50_000):
            out.delta("t", "text", f"{number:05}")
            out.take()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 500_000
    assert out.text_of("t") == "".join(f"{number:05}" for number in range(50_000))
