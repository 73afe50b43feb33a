import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import wires
from dragoman.errors import Unsupported
from dragoman.targets.target import Capabilities, Target
from dragoman.types import (
    Audio,
    Citation,
    Document,
    Image,
    Message,
    Notice,
    Opaque,
    Part,
    Request,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.common.history import (
    UNAVAILABLE,
    History,
    as_system,
    calls_before,
    cannot_send,
    check_urls,
    error_text,
    fill_turns,
    fit_id,
    merge_turns,
    repair,
    result_media,
    split_error,
    start_with_user,
    system_texts,
)
from dragoman.wires.common.notices import NoticeCollector
from tests.support import values
from tests.support.work import calls_of

PICTURE = Image(data=b"\x89PNG", mime="image/png")


def call(id: str) -> ToolCall:
    return ToolCall(id=id, name="tide")


def result(id: str, content: str = "4.2 m") -> ToolResult:
    return ToolResult(id=id, name="tide", content=content)


def missing(id: str) -> ToolResult:
    return ToolResult(id=id, name="tide", content=UNAVAILABLE, is_error=True)


def mend(*messages: Message) -> tuple[tuple[Message, ...], list[tuple[str, str]]]:
    """The turns of a history that was repaired for Ollama, and what was noted."""
    notes = NoticeCollector("ollama")
    history = repair(Request(messages=messages), notes)
    return history.turns, [(notice.kind, notice.what) for notice in notes.notices]


def again(history: History) -> Request:
    return Request(messages=history.turns, system=history.system)


# Any history ----------------------------------------------------------------------------------------------------------

PARTS: st.SearchStrategy[Part] = (
    st.sampled_from("abcd").map(lambda text: Text(text=text))
    | values.IDS.map(call)
    | st.builds(result, values.IDS, st.sampled_from("1234"))
    | st.sampled_from(["ollama", "google"]).map(lambda wire: Opaque(wire=wire, data={}, is_optional=wire != "ollama"))
    | st.sampled_from(["ollama", "google"]).map(lambda wire: Thinking(text="?", extra={wire: {}}))
    | st.just(PICTURE)
)
ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant", "tool"])
SYSTEM_PARTS = PARTS.filter(lambda part: isinstance(part, Text | Thinking))
SYSTEM: st.SearchStrategy[Message] = values.tuples(SYSTEM_PARTS, most=4).map(lambda parts: Message("system", parts))
MESSAGES = st.builds(Message, role=ROLES, parts=values.tuples(PARTS, most=4)) | SYSTEM
HISTORIES = st.builds(Request, messages=values.tuples(MESSAGES, most=8), system=values.maybe(values.WORDS))


@given(HISTORIES)
def test_every_call_is_answered_exactly_once_right_after_it(request: Request) -> None:
    turns = repair(request, NoticeCollector("ollama")).turns
    for place, turn in enumerate(turns):
        if turn.role == "tool":
            assert turns[place - 1].role == "assistant"
            assert all(isinstance(part, ToolResult) for part in turn.parts)
            assert [answer.id for answer in turn.tool_results] == [call.id for call in turns[place - 1].tool_calls]
        else:
            assert not turn.tool_results
        if turn.tool_calls:
            assert turn.role == "assistant"
            assert turns[place + 1].role == "tool"


@given(HISTORIES)
def test_every_call_has_an_id_of_its_own(request: Request) -> None:
    ids = [call.id for turn in repair(request, NoticeCollector("ollama")).turns for call in turn.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@given(HISTORIES)
def test_no_turn_is_empty_or_of_the_system(request: Request) -> None:
    turns = repair(request, NoticeCollector("ollama")).turns
    assert all(turn.role in ("user", "assistant", "tool") for turn in turns)
    assert all(turn.parts or turn.role == "assistant" for turn in turns)
    assert not turns or turns[-1].parts


@given(HISTORIES)
def test_what_is_repaired_needs_no_repair(request: Request) -> None:
    history, notes = repair(request, NoticeCollector("ollama")), NoticeCollector("ollama")
    assert repair(again(history), notes) == history
    assert notes.notices == ()


@given(HISTORIES)
def test_every_text_is_kept_in_its_order(request: Request) -> None:
    def texts(messages: tuple[Message, ...]) -> list[Text]:
        return [part for message in messages for part in message.parts if isinstance(part, Text)]

    history = repair(request, NoticeCollector("ollama"))
    found = [message for message in request.messages if message.role != "system"]
    ours = [part for part in texts(history.turns) if not part.text.startswith(("<system>", "The result of"))]
    assert ours == texts(tuple(found))


@given(HISTORIES)
def test_no_result_is_told_twice_or_made_up(request: Request) -> None:
    given_results = [part for message in request.messages for part in message.tool_results]
    answers = [part for turn in repair(request, NoticeCollector("ollama")).turns for part in turn.tool_results]
    found = [answer for answer in answers if answer.content != UNAVAILABLE]
    assert len(found) <= len(given_results)
    assert all(any(answer.content == one.content for one in given_results) for answer in found)


# Each repair ----------------------------------------------------------------------------------------------------------


def test_a_sound_history_is_left_as_it_is() -> None:
    messages = (
        user("?"),
        assistant("Let me see.", call("a"), call("b")),
        tool_results(result("a"), result("b")),
        user("!"),
    )
    assert mend(*messages) == (messages, [])


def test_results_in_messages_of_their_own_are_one_turn() -> None:
    turns, notes = mend(assistant(call("a"), call("b")), tool_results(result("b", "2")), tool_results(result("a", "1")))
    assert turns == (assistant(call("a"), call("b")), tool_results(result("a", "1"), result("b", "2")))
    assert notes == []


def test_a_call_without_a_result_gets_an_error() -> None:
    assert mend(assistant(call("a")), user("well?")) == (
        (assistant(call("a")), tool_results(missing("a")), user("well?")),
        [("repaired", "call a")],
    )


def test_a_result_without_a_call_is_a_text() -> None:
    turns, notes = mend(user("?"), tool_results(result("a", "4.2 m")))
    assert turns == (user("?"), user("The result of tide (a) has no call in this conversation:\n4.2 m"))
    assert notes == [("changed", "result a")]


def test_a_result_before_its_call_is_a_text() -> None:
    turns, notes = mend(tool_results(result("a")), assistant(call("a")))
    assert turns[1:] == (assistant(call("a")), tool_results(missing("a")))
    assert notes == [("changed", "result a"), ("repaired", "call a")]


def test_a_second_result_is_a_text() -> None:
    turns, notes = mend(assistant(call("a")), tool_results(result("a", "1"), result("a", "2")))
    assert turns[:2] == (assistant(call("a")), tool_results(result("a", "1")))
    assert turns[2].text.endswith("\n2")
    assert notes == [("changed", "result a")]


def test_a_result_that_comes_late_is_put_behind_its_call() -> None:
    turns, notes = mend(assistant(call("a")), user("hurry"), tool_results(result("a")))
    assert turns == (assistant(call("a")), tool_results(result("a")), user("hurry"))
    assert notes == [("repaired", "result a")]


def test_a_result_in_a_message_of_the_user_stands_before_its_words() -> None:
    turns, notes = mend(assistant(call("a")), user("and?", result("a"), PICTURE))
    assert turns == (assistant(call("a")), tool_results(result("a")), user("and?", PICTURE))
    assert notes == []


def test_words_in_a_message_of_the_tool_are_the_users() -> None:
    turns, _ = mend(assistant(call("a")), Message(role="tool", parts=(result("a"), Text(text="see"))))
    assert turns == (assistant(call("a")), tool_results(result("a")), user("see"))


def test_a_result_beside_its_call_answers_it() -> None:
    turns, notes = mend(assistant("So", call("a"), result("a"), "done"))
    assert turns == (assistant("So", call("a"), "done"), tool_results(result("a")))
    assert notes == []


def test_a_call_of_the_user_is_left_out() -> None:
    assert mend(user("?", call("a"))) == ((user("?"),), [("dropped", "call a")])


def test_one_id_in_two_turns_is_two_ids() -> None:
    turns, notes = mend(
        assistant(call("a")), tool_results(result("a", "1")), assistant(call("a")), tool_results(result("a", "2"))
    )
    assert turns == (
        assistant(call("a")),
        tool_results(result("a", "1")),
        assistant(call("a_2")),
        tool_results(result("a_2", "2")),
    )
    assert notes == [("renamed", "call id a")]


def test_one_id_in_one_turn_is_two_ids_with_the_results_in_order() -> None:
    turns, _ = mend(assistant(call("a"), call("a")), tool_results(result("a", "1"), result("a", "2")))
    assert turns == (assistant(call("a"), call("a_2")), tool_results(result("a", "1"), result("a_2", "2")))


def test_a_result_is_of_the_latest_turn_that_waits() -> None:
    turns, _ = mend(assistant(call("a")), assistant(call("a")), tool_results(result("a")))
    assert turns == (
        assistant(call("a")),
        tool_results(missing("a")),
        assistant(call("a_2")),
        tool_results(result("a_2")),
    )


def test_a_new_id_does_not_change_if_another_call_has_it_later() -> None:
    turns, _ = mend(assistant(call("a"), call("a")), assistant(call("a_2")))
    assert [one.id for turn in turns for one in turn.tool_calls] == ["a", "a_2", "a_2_2"]


def test_a_result_after_the_next_answer_is_a_text_in_its_place() -> None:
    before = (assistant(call("a")), user("hurry"))
    first, _ = mend(*before)
    late = ToolResult(id="a", name="tide", content=(Text(text="4.2 m"), PICTURE))
    turns, notes = mend(*before, assistant("What?"), tool_results(late))
    assert turns[: len(first)] == first == (assistant(call("a")), tool_results(missing("a")), user("hurry"))
    assert turns[len(first) :] == (assistant("What?"), user("The result of tide (a) came late:\n4.2 m", PICTURE))
    assert ("changed", "result a") in notes


def test_calls_without_an_id_are_counted() -> None:
    turns, _ = mend(assistant(call(""), call("")), tool_results(result("", "1"), result("", "2")))
    assert turns[1] == tool_results(result("call_1", "1"), result("call_2", "2"))


def test_numbers_of_new_ids_go_on_beside_those_that_are_there() -> None:
    turns, _ = mend(assistant(*map(call, ("a", "a", "a_3", "a", "a"))))
    assert [one.id for one in turns[0].tool_calls] == ["a", "a_2", "a_3", "a_4", "a_5"]


def one_id(count: int) -> Callable[[], object]:
    """Work: as many calls of one id, and their results."""
    messages = (assistant(*[call("a")] * count), tool_results(*[result("a")] * count))
    return lambda: repair(Request(messages=messages), NoticeCollector("ollama"))


def test_ten_times_the_calls_of_one_id_are_ten_times_the_work() -> None:
    assert calls_of(one_id(2000)) < 11 * calls_of(one_id(200))


def test_a_result_gets_the_name_of_its_call() -> None:
    turns, _ = mend(assistant(call("a")), tool_results(ToolResult(id="a", content="4.2 m")))
    assert turns[1] == tool_results(result("a"))


def test_empty_messages_are_left_out() -> None:
    assert mend(user(), assistant(), Message(role="tool"), system(), user("?")) == ((user("?"),), [])


def test_thinking_and_optional_blocks_of_other_wires_are_left_out() -> None:
    block = Opaque(wire="google", data={"x": 1}, is_optional=True)
    theirs: tuple[Part, ...] = (Thinking(text="?", extra={"google": {}}), block)
    ours: tuple[Part, ...] = (Thinking(text="?", extra={"ollama": {}}), Opaque(wire="ollama", data={}))
    assert mend(assistant(*theirs, *ours), assistant(*theirs)) == (
        (assistant(*ours),),
        [("dropped", "thinking"), ("dropped", "google block (x)")],
    )


@pytest.mark.parametrize(
    "messages",
    [
        (user("a", Opaque(wire="google", data={"fileData": {}})),),
        (user("a"), assistant(Opaque(wire="google", data={"fileData": {}}))),
        (user("a"), tool_results(ToolResult(id="a", content=(Opaque(wire="google", data={"fileData": {}}),)))),
        (
            assistant(call("a")),
            tool_results(ToolResult(id="a", content=(Opaque(wire="google", data={"fileData": {}}),))),
        ),
        (system(Opaque(wire="google", data={"fileData": {}})),),
    ],
    ids=["user", "assistant", "result without a call", "result", "system"],
)
def test_a_block_of_another_wire_is_refused(messages: tuple[Message, ...]) -> None:
    with pytest.raises(Unsupported, match="ollama: cannot send a block of type 'fileData': only targets of the wire"):
        mend(*messages)


def test_optional_blocks_of_other_wires_in_a_result_are_left_out() -> None:
    theirs, ours = Opaque(wire="google", data={"x": 1}, is_optional=True), Opaque(wire="ollama", data={})
    mixed = ToolResult(id="a", name="tide", content=(theirs, Text(text="4.2 m"), ours, PICTURE))
    turns, notes = mend(assistant(call("a")), tool_results(mixed))
    assert turns[1].tool_results[0].content == (Text(text="4.2 m"), ours, PICTURE)
    assert notes == [("dropped", "google block (x)")]


def test_under_strict_a_loss_is_refused() -> None:
    with pytest.raises(Unsupported, match="thinking"):
        repair(Request(messages=(assistant(Thinking(text="?")),)), NoticeCollector("ollama", strict=True))


# System ---------------------------------------------------------------------------------------------------------------


def test_leading_system_messages_are_folded_and_later_ones_stay_in_their_place() -> None:
    notes = NoticeCollector("ollama")
    request = Request(system="a", messages=(system("b", "c"), user("?"), system("d")))
    history = repair(request, notes)
    assert [text.text for text in history.system] == ["a", "b", "c"]
    assert history.turns == (user("?"), user("<system>\nd\n</system>"))
    why = "ollama: sent as a user message in its place"
    assert notes.notices == (Notice(kind="changed", what="system message after the first turn", why=why),)


def test_a_system_message_with_other_parts_than_text_is_refused() -> None:
    with pytest.raises(Unsupported, match="cannot send an image in a system message: only text is supported"):
        mend(system("Be brief.", PICTURE))


def test_thinking_of_a_system_message_is_left_out() -> None:
    assert mend(system("Be brief.", Thinking(text="?"))) == ((), [("dropped", "part of a system message")])


@pytest.mark.parametrize(
    ("given_system", "texts"),
    [(None, ()), ("a", (Text(text="a"),)), ((Text(text="a"), Text(text="b")), (Text(text="a"), Text(text="b")))],
)
def test_a_system_prompt_is_texts(given_system: str | tuple[Text, ...] | None, texts: tuple[Text, ...]) -> None:
    assert system_texts(Request(system=given_system)) == texts


@pytest.mark.parametrize(
    ("texts", "plain"),
    [
        ((), None),
        ((Text(text="a"),), "a"),
        ((Text(text="a", extra={"anthropic": {}}),), (Text(text="a", extra={"anthropic": {}}),)),
        ((Text(text="a"), Text(text="b")), (Text(text="a"), Text(text="b"))),
    ],
)
def test_a_system_prompt_is_as_plain_as_can_be(texts: tuple[Text, ...], plain: str | tuple[Text, ...] | None) -> None:
    assert as_system(texts) == plain


# What providers want --------------------------------------------------------------------------------------------------


def test_turns_of_one_role_are_made_one() -> None:
    first = Message(role="user", parts=(Text(text="a"),), extra={"ollama": {"n": 1}})
    assert merge_turns([first, user("b"), assistant("c"), user("d")]) == [
        Message(role="user", parts=(Text(text="a"), Text(text="b")), extra={"ollama": {"n": 1}}),
        assistant("c"),
        user("d"),
    ]


@given(st.lists(MESSAGES, max_size=6))
def test_merged_turns_alternate_and_lose_nothing(turns: list[Message]) -> None:
    merged = merge_turns(turns)
    assert all(one.role != other.role for one, other in pairwise(merged))
    assert [part for turn in merged for part in turn.parts] == [part for turn in turns for part in turn.parts]


def test_the_user_begins() -> None:
    notes = NoticeCollector("google")
    assert start_with_user([assistant("hello")], notes) == [user("(The conversation begins.)"), assistant("hello")]
    assert [notice.kind for notice in notes.notices] == ["repaired"]


@pytest.mark.parametrize("turns", [[], [user("hello"), assistant("hello")]])
def test_where_the_user_begins_nothing_is_put_before(turns: list[Message]) -> None:
    notes = NoticeCollector("google")
    assert start_with_user(turns, notes) == turns
    assert notes.notices == ()


@pytest.mark.parametrize(("is_error", "text"), [(True, "ERROR: no"), (False, "no")])
def test_an_error_is_told_by_its_prefix(text: str, *, is_error: bool) -> None:
    assert error_text(ToolResult(id="a", content="no", is_error=is_error)) == text
    assert split_error(text) == ("no", is_error)


def test_pictures_and_documents_of_results_are_a_labelled_turn() -> None:
    document = Document(data=b"%PDF", mime="application/pdf")
    results = [
        ToolResult(id="a", name="map", content=(Text(text="x"), PICTURE, document)),
        result("b"),
        ToolResult(id="c", content=(PICTURE,)),
    ]
    assert result_media(results) == user(
        "From the result of map (a):", PICTURE, document, "From the result of the tool (c):", PICTURE
    )


def test_results_without_pictures_are_no_turn() -> None:
    assert result_media([result("a")]) is None


@given(st.text(), st.integers(5, 40))
def test_an_id_is_made_to_fit_always_in_the_same_way(id: str, length: int) -> None:
    pattern = f"[a-zA-Z0-9]{{{length}}}"
    fitted = fit_id(id, pattern, length, NoticeCollector("w"))
    assert re.fullmatch(pattern, fitted)
    assert fit_id(id, pattern, length, NoticeCollector("w")) == fitted
    assert fit_id(fitted, pattern, length, NoticeCollector("w")) == fitted


def test_an_id_that_was_changed_is_noted() -> None:
    notes = NoticeCollector("w")
    fit_id("call_1", "[a-z]{9}", 9, notes)
    fit_id("abcdefghi", "[a-z]{9}", 9, notes)
    assert notes.notices == (Notice(kind="renamed", what="call id call_1", why="w: must match [a-z]{9}"),)


@given(st.sets(st.text(), min_size=2, max_size=30))
def test_two_ids_are_made_two(ids: set[str]) -> None:
    assert len({fit_id(id, "[a-zA-Z0-9]{9}", 9, NoticeCollector("w")) for id in ids}) == len(ids)


@pytest.mark.parametrize(
    ("ids", "count"),
    [
        ((), 0),
        (("a", "b"), 2),
        (("call_1", "call_2"), 2),
        (("call_7", "b"), 7),
        (("call_007",), 7),
        (("call_x", "xcall_9", "call_" + "9" * 5000), 3),
    ],
)
def test_calls_are_counted_also_where_the_beginning_was_cut(ids: tuple[str, ...], count: int) -> None:
    assert calls_before(Request(messages=(user("?"), assistant(*map(call, ids))))) == count


def test_without_a_request_there_were_no_calls() -> None:
    assert calls_before(None) == 0


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Text(text="?"), "text"),
        (Image(url="https://example.org/a.png"), "an image"),
        (Image(data=b"GIF", mime="image/gif"), "an image (image/gif)"),
        (Audio(data=b"", mime="audio/wav"), "an audio file (audio/wav)"),
        (Document(data=b"", mime="application/pdf"), "a document (application/pdf)"),
        (Thinking(text="?"), "thinking"),
        (call("a"), "a tool call"),
        (result("a"), "a tool result"),
        (Opaque(wire="google", data={}), "a block of another provider"),
    ],
)
def test_a_part_that_cannot_be_carried_is_refused_by_name(part: Part, words: str) -> None:
    assert str(cannot_send(part, "w")) == f"w: cannot send {words}; use another target or send it as text"


def test_a_refusal_says_what_is_taken_where_that_is_known() -> None:
    assert str(cannot_send(call("a"), "w", takes="text")) == (
        "w: cannot send a tool call, only text; use another target or send it as text"
    )


# Pictures by URL ------------------------------------------------------------------------------------------------------

LINK = Image(url="https://example.org/a.png")


def fetching(*, image_urls: bool) -> Target:
    return Target(
        provider="p", model="m", wire="w", base_url="https://x", capabilities=Capabilities(image_urls=image_urls)
    )


@pytest.mark.parametrize("turn", [user(LINK), tool_results(ToolResult(id="a", content=(LINK,)))])
def test_a_picture_by_url_is_refused_where_it_cannot_be_fetched(turn: Message) -> None:
    with pytest.raises(Unsupported, match=r"^p/m: cannot fetch https://example.org/a.png"):
        check_urls([turn], fetching(image_urls=False))


def test_a_picture_by_url_is_for_a_target_that_fetches() -> None:
    check_urls([user(LINK)], fetching(image_urls=True))


def test_a_picture_of_bytes_is_for_every_target() -> None:
    check_urls([user(PICTURE)], fetching(image_urls=False))


def test_a_message_that_only_its_own_wire_understands_is_kept_there() -> None:
    silent = Message(role="assistant", extra={"openai_chat": {"audio": {"id": "audio_1"}}})
    assert repair(Request(messages=(user("a"), silent)), NoticeCollector("openai_chat")).turns[-1] == silent
    notes = NoticeCollector("ollama")
    assert repair(Request(messages=(user("a"), silent)), notes).turns == (user("a"),)
    assert [notice.what for notice in notes.notices] == ["openai_chat data of the assistant message"]


def test_what_only_another_wire_understands_of_a_part_is_told() -> None:
    notes = NoticeCollector("anthropic")
    signed = Text(text="4.2 m", extra={"google": {"thoughtSignature": "CiQB"}, "anthropic": {"citations": []}})
    repair(Request(messages=(user(signed),)), notes)
    assert [(notice.kind, notice.what) for notice in notes.notices] == [("dropped", "google data of the text part")]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([user("a"), assistant(), user("b")], ["a", "(no text)", "b"]),
        ([user("a"), assistant()], ["a"]),
        ([assistant(), user("b")], ["b"]),
        ([assistant("a"), Message(role="user")], ["a", "(no text)"]),
        ([assistant("a"), Message(role="user"), user("b")], ["a", "(no text)", "b"]),
        ([user("a"), Message(role="user"), assistant("b")], ["a", "b"]),
        ([user("a"), assistant(), assistant("b")], ["a", "b"]),
        ([assistant("a"), Message(role="user"), assistant(), user("b")], ["a", "(no text)", "(no text)", "b"]),
    ],
)
def test_an_empty_turn_gets_a_text_where_turns_would_join(turns: list[Message], expected: list[str]) -> None:
    assert [turn.text for turn in fill_turns(turns, NoticeCollector("google"))] == expected


def test_an_answer_of_which_nothing_is_left_stays_where_turns_alternate() -> None:
    silent = assistant(Thinking(text="?"))
    messages = (user("a"), silent, user("b"), silent)
    turns = repair(Request(messages=messages), NoticeCollector("google"), alternating=True).turns
    assert [turn.text for turn in turns] == ["a", "", "b"]
    assert [turn.text for turn in repair(Request(messages=messages), NoticeCollector("google")).turns] == ["a", "b"]


@pytest.mark.parametrize("wire", ["openai_responses", "google_interactions"])
@pytest.mark.parametrize(("cited", "lost"), [("4 m", 1), (None, 0)])
def test_a_cited_text_without_a_field_is_noticed(wire: str, cited: str | None, lost: int) -> None:
    text = Text(text="High.", citations=(Citation(title="Tides", cited_text=cited),))
    target = Target(provider="p", model="m", wire=wire, base_url="https://x")
    request = Request(messages=(user("How high?"), assistant(text), user("Why?")))
    notices = wires.get(wire).client.encode_request(request, target).notices
    assert [notice.what for notice in notices].count("cited text of citations") == lost
