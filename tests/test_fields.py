"""Fields that are checked by their annotations, and JSON of users' values."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

import msgspec
import pytest

from dragoman import (
    Attempt,
    Budget,
    ChainOptions,
    Embeddings,
    ErrorPolicy,
    InvalidRequest,
    InvalidTool,
    Message,
    Registry,
    Response,
    SetupError,
    Skill,
    Text,
    Thinking,
    Token,
    TokenCount,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    fold,
    load,
    messages_from,
    tool,
    user,
)
from dragoman.errors import DragomanError, explain_validation
from dragoman.events import PartDelta, Ping
from dragoman.types.base import dump_model, encode_unknown
from dragoman.types.checks import MAX_ITEMS, as_items, is_writable, name_parameter
from dragoman.types.data_urls import check_url
from dragoman.types.fields import WRONG, check_struct, field_kind
from dragoman.types.json_values import encode_value, not_json, plain_numbers

T = TypeVar("T")
FIVE: Any = 5
FIVES: Any = [5]
WRONG_EVENT = PartDelta(index=0, text=FIVE)


def late(function: Any, *args: Any, **kwargs: Any) -> Callable[[], object]:
    """A call that is made later, with arguments that type checkers do not see."""
    return lambda: function(*args, **kwargs)


class Named(Protocol):
    name: str


class Number(int):
    """An int of its own class."""


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "expected"),
    [
        (str, "a", 3, "a str"),
        (str, "é", "\ud800", "a str"),
        (int, -(2**63), 2**64, "an int"),
        (int, Number(3), True, "an int"),
        (float, 3, float("inf"), "a finite number"),
        (float, 2.5, "3", "a finite number"),
        (bool, True, 1, "True or False"),
        (bytes, b"", "", "bytes"),
        (None, None, 0, "None"),
        (int | None, None, "", "an int or None"),
        (Literal["a", "b"], "a", "c", "one of a, b"),
        (Literal["a", "b"], "b", ["a"], "one of a, b"),
        (tuple[int, ...], (1,), ("1",), "a list of int"),
        (tuple[tuple[float, ...], ...], ((0.5,),), ((None,),), "a list of lists of finite numbers"),
        (list[str], ["a"], ("a",), "a list of str"),
        (list[str], [], [3], "a list of str"),
        (dict[str, Any], {"a": object()}, {1: 2}, "a dict with str keys"),
        (Mapping[str, str], {"a": "b"}, {"a": 1}, "a dict of str"),
        (dict[str, int], {"a": 1}, [], "a dict with str keys and int"),
        (Callable[[int], int], len, 3, "a function"),
        (Usage, Usage(), {}, "a Usage"),
        (Attempt | None, None, 1, "an Attempt or None"),
        (ChainOptions, ChainOptions(), 1, "ChainOptions"),
        (Annotated[int, msgspec.Meta(ge=1)], 1, 0, "an int >= 1"),
        (Annotated[int, msgspec.Meta(ge=1)], 1, "1", "an int >= 1"),
        (Annotated[str, msgspec.Meta(pattern="^a")], "ab", "ba", "a text that matches ^a"),
        (Annotated[str, msgspec.Meta(pattern="^a", description="an a")], "a", 3, "an a"),
    ],
)
def test_an_annotation_says_what_a_field_may_hold(hint: Any, right: Any, wrong: Any, expected: str) -> None:
    kind = field_kind(hint)
    assert kind.expected == expected
    assert kind.read(right) == right
    assert kind.read(wrong) is WRONG


@pytest.mark.parametrize("hint", [Any, object, T, Named])
def test_some_annotations_take_everything(hint: Any) -> None:
    value = object()
    assert field_kind(hint).read(value) is value


def test_a_list_becomes_a_tuple_and_a_tuple_stays() -> None:
    class Words(msgspec.Struct, frozen=True):
        words: tuple[str, ...] = ()
        other: int = 0

        def __post_init__(self) -> None:
            check_struct(self, SetupError, without="other")

    given: Any = ["a"]
    kept = ("a", "b")
    assert Words(given).words == ("a",)
    assert Words(kept).words is kept
    assert Words(other=given).other is given
    with pytest.raises(SetupError, match=r"^words must be a list of str, got list$") as caught:
        Words(FIVES)
    assert caught.value.param == "words"


@pytest.mark.parametrize(
    ("make", "param"),
    [
        (late(Usage, input=True), "input"),
        (late(Response, message=assistant("a"), finish="stop"), "finish"),
        (late(Embeddings, vectors=[["a"]]), "vectors"),
        (late(Embeddings, vectors=(["a"],)), "vectors"),
        (late(Embeddings, vectors=(), target=3), "target"),
        (late(TokenLogprob, token="a", logprob=float("nan")), "logprob"),
        (late(TokenLogprob, token="\ud800", logprob=-1.0), "token"),
        (late(TokenLogprob, token="a", logprob=-1.0, bytes=("a",)), "bytes"),
        (late(TokenLogprob, token="a", logprob=-1.0, bytes=[300.5]), "bytes"),
        (late(TokenLogprob, token="a", logprob=-1.0, top=[3]), "top"),
        (late(TokenCount, 3, is_estimate="no"), "is_estimate"),
        (late(TokenCount, "3"), "count"),
        (late(Budget, tokens="x"), "tokens"),
        (late(Budget, seconds=[]), "seconds"),
        (late(ErrorPolicy, retry=1, fail_over=True, count_failure=True), "retry"),
        (late(ChainOptions, retries=1.5), "retries"),
        (late(ChainOptions, retries=True), "retries"),
        (late(ChainOptions, retries=float("inf")), "retries"),
        (late(ChainOptions, classify=5), "classify"),
        (late(ChainOptions, costs=5), "costs"),
        (late(ChainOptions, costs={"demo/any": "x"}), "costs"),
        (late(ChainOptions, fetch_images="no"), "fetch_images"),
        (late(Token, value="sk-1", expires_at="x"), "expires_at"),
        (late(Token, value=3), "value"),
        (late(Token, value="é"), "value"),
        (late(Skill, name="a", tools=[3]), "tools"),
        (late(Registry(env={}).add_resolver, 5), "resolver"),
        (late(Registry(env={}).observe, 5), "observer"),
        (late(Registry(env={}).add_provider, name="a", like=[]), "like"),
        (late(Registry(env={}).add_provider, name="a", like="groq", headers={"a": "\ud800"}), "headers"),
        (late(Registry(env={}).add_provider, name="a", like="groq", headers={1: "a"}), "headers"),
        (late(Registry(env={}).set_capabilities, "groq", tools="\ud800"), "tools"),
        (late(ToolResult, id="a", content=len), "content"),
        (late(ToolResult, id="a", content={"a": float("nan")}), "content"),
        (late(ToolResult, id="a", content=b"a"), "content"),
        (late(ToolCall, id="a", name="b", arguments={"a": [float("inf")]}), "arguments"),
        (late(ToolCall, id="a", name="b", arguments={"\ud800": 1}), "arguments"),
        (late(ToolCall, id="\ud800", name="b"), "id"),
        (late(fold, [5]), "events"),
        (late(fold, [WRONG_EVENT]), "events"),
        (late(user, "\ud800"), "parts"),
    ],
)
def test_a_value_is_checked_when_it_is_made(make: Callable[[], object], param: str) -> None:
    with pytest.raises(DragomanError, match=r"must |unknown ") as caught:
        make()
    assert caught.value.param == param


def test_an_embedding_may_have_whole_numbers_and_lists() -> None:
    vectors: Any = [[1, 0.5]]
    assert Embeddings(vectors=vectors).vectors == ((1, 0.5),)
    logprob = TokenLogprob(token="a", logprob=-1.0, id=3, bytes=(97,), top=())
    assert TokenLogprob(token="é", logprob=-1, top=(logprob,)).top == (logprob,)


def test_events_without_content_fold_to_nothing() -> None:
    assert fold([Ping()]).text == ""


def test_the_natural_parameters_may_be_positional() -> None:
    assert Message("user", "hi") == user("hi")
    assert Message("user", [Text("a"), Thinking("b")]) == user(Text(text="a"), Thinking(text="b"))


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([{"role": "user", "contnet": "hi"}], "messages[0]"),
        ([{"role": "user"}], "messages[0]"),
        ([{"role": "user", "content": [{"type": "txt", "text": "hi"}]}], "messages[0].content[0].type"),
    ],
)
def test_a_typo_in_a_dict_is_named(messages: Any, param: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^messages\[0\].* must .*, got ") as caught:
        messages_from(messages)
    assert caught.value.param == param


def test_a_role_may_be_of_a_class_of_its_own() -> None:
    class Roles(StrEnum):
        USER = "user"

    role: Any = Roles.USER
    assert type(Message(role, "hi").role) is str


def test_a_type_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"^type must be a type of dragoman") as caught:
        late(load, b"{}", Usage | Attempt)()
    assert caught.value.param == "type"


# JSON -----------------------------------------------------------------------------------------------------------------


def test_what_json_would_change_is_refused() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    for value, reason in (
        ({"a": (float("nan"),)}, "got nan in it"),
        ({"a": [{1: 2}]}, "got the key 1 in it"),
        ([cyclic], "got list; JSON cannot express it: a list or dict that contains itself"),
        ({"a": len}, "got dict; JSON cannot express it: it must be JSON"),
        (Text, "got .*; JSON cannot express it"),
    ):
        with pytest.raises(InvalidRequest, match=f"^a must be JSON, {reason}"):
            encode_value("a", value, "JSON")
    assert encode_value("a", {"a": None, "b": [1]}, "JSON") == b'{"a":null,"b":[1]}'
    assert not_json({"a": ["b", 1.5]}) is None


def test_whole_numbers_are_written_without_a_point() -> None:
    value = {"a": [1.0, 1.5, -0.0, float("inf")], "b": {"c": 2.0}, "d": "1.0", "e": True, "f": None}
    expected = {"a": [1, 1.5, 0, float("inf")], "b": {"c": 2}, "d": "1.0", "e": True, "f": None}
    assert repr(plain_numbers(value)) == repr(expected)


def test_a_handler_is_left_out_and_another_object_is_refused() -> None:
    assert encode_unknown(len) is None
    for value in (object(), Text):
        with pytest.raises(TypeError, match="it must be JSON, a struct or a pydantic model"):
            dump_model(value)


# Checks ---------------------------------------------------------------------------------------------------------------


def test_an_iterable_without_end_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=f"^a must be a list, got more than {MAX_ITEMS} items$"):
        as_items("a", iter(int, 1), "a list")
    with pytest.raises(InvalidRequest, match=r"^a must be a list, got type$"):
        as_items("a", list, "a list")


def test_texts_that_cannot_be_written_are_found_at_any_usual_depth() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    assert is_writable(cyclic)
    assert not is_writable({"a": [("\ud800",)]})
    assert not is_writable({"\ud800": 1})


def test_a_name_is_added_once() -> None:
    error = InvalidRequest("text must be a str, got 3", param="text")
    name_parameter(error, "prompt")
    name_parameter(error, "prompt")
    assert (str(error), error.param) == ("prompt: text must be a str, got 3", "prompt")
    inner = InvalidRequest("messages[0] must have content", param="messages[0]")
    name_parameter(inner, "messages")
    assert inner.param == "messages[0]"


def test_the_key_of_a_dict_is_named_by_its_field() -> None:
    error = ValueError("Expected `str`, got `int` - at `key` in `$.headers`")
    assert explain_validation(error) == (".headers", "must be str, got int")


@pytest.mark.parametrize("url", ["https://example.org/a", "gs://bucket/a", "data:image/png;base64,aGk=", "s3://b/a"])
def test_a_url_has_a_scheme(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize("url", ["zzz", "", "file:///etc/passwd", "FILE:///a", "https: //a", "/a/b.png"])
def test_a_url_without_a_scheme_or_of_a_file_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^url must start with https://.*use from_path for a file$"):
        check_url(url)


def test_a_file_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    from dragoman import Document, Image

    for make in (Image.from_path, Document.from_path):
        with pytest.raises(InvalidRequest, match=r"^path must be a file that can be read, got ") as caught:
            make(tmp_path / "none.png")
        assert caught.value.param == "path"


# Tools ----------------------------------------------------------------------------------------------------------------


def test_lists_of_tools_are_read_to_a_depth() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(InvalidTool, match="got a list that contains itself"):
        Registry(env={}).model("demo/any", tools=cyclic)


def test_an_option_of_tool_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidTool, match="tool has no option nme; the options are name, description") as caught:
        late(tool, nme="a")()
    assert caught.value.param == "nme"


def test_one_tool_is_a_list_of_tools_for_a_skill() -> None:
    definition = Tool(name="now", description="The time", handler=lambda: "noon")
    given: Any = definition
    assert Skill(name="a", tools=given).tools == (definition,)
