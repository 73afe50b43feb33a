from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import InvalidRequest
from dragoman.types import (
    Attempt,
    Audio,
    Document,
    Finish,
    Image,
    Message,
    Notice,
    NoticeKind,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    dump,
    load,
    system,
    tool_results,
    user,
)
from dragoman.types.checks import check_choice, check_flag
from dragoman.types.data_urls import decode_base64, encode_base64, split_data_url
from tests.support import values

CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
RESULT = ToolResult(id="call_1", name="tide", content="4.2 m")
PNG = b"\x89PNG\r\n\x1a\nrest"


# Serialisation --------------------------------------------------------------------------------------------------------


@given(st.lists(values.MESSAGES, max_size=4))
def test_a_transcript_loads_as_it_was_dumped(messages: list[Message]) -> None:
    assert load(dump(messages)) == tuple(messages)


@given(values.MESSAGES)
def test_a_message_decodes_as_it_was_dumped(message: Message) -> None:
    assert msgspec.json.decode(dump(message), type=Message) == message


@given(values.REQUESTS)
def test_a_request_decodes_as_it_was_dumped(request: Request) -> None:
    assert msgspec.json.decode(dump(request), type=Request) == request


@given(values.RESPONSES)
def test_a_response_decodes_as_it_was_dumped(response: Response) -> None:
    assert msgspec.json.decode(dump(response), type=Response) == response


@given(st.lists(values.MESSAGES, min_size=1, max_size=3), values.WORDS.map("later_".__add__), values.JSON)
def test_a_transcript_of_a_later_version_loads(messages: list[Message], name: str, value: Any) -> None:
    data = [dict(message, **{name: value}) for message in msgspec.json.decode(dump(messages))]
    for message in data:
        message["parts"] = [dict(part, **{name: value}) for part in message.get("parts", ())]
    assert load(msgspec.json.encode(data)) == tuple(messages)


def test_a_transcript_of_the_first_version_loads() -> None:
    saved = (
        b'[{"role":"system","parts":[{"type":"text","text":"Be brief."}]},'
        b'{"role":"user","parts":[{"type":"image","data":"iVBOR","mime":"image/png"}]},'
        b'{"role":"assistant","parts":[{"type":"thinking","text":"?","extra":{"anthropic":{"signature":"s"}}},'
        b'{"type":"tool_call","id":"call_1","name":"tide","arguments":{"port":"Brest"}}]},'
        b'{"role":"tool","parts":[{"type":"tool_result","id":"call_1","name":"tide","content":"4.2 m"}]}]'
    ).replace(b"iVBOR", b"iVBORw==")
    assert load(saved) == (
        system("Be brief."),
        user(Image(data=b"\x89PNG", mime="image/png")),
        assistant(Thinking(text="?", extra={"anthropic": {"signature": "s"}}), CALL),
        tool_results(RESULT),
    )


def test_each_part_is_tagged_with_its_kind() -> None:
    assert msgspec.json.decode(dump(user("hello")))["parts"] == [{"type": "text", "text": "hello"}]


def test_a_handler_is_not_saved() -> None:
    request = Request(tools=(Tool(name="now", handler=print),))
    assert msgspec.json.decode(dump(request), type=Request) == Request(tools=(Tool(name="now"),))


def test_what_is_not_json_is_refused_by_name() -> None:
    with pytest.raises(
        InvalidRequest,
        match=r"^value must be one that JSON can express: it must be JSON, a struct or a pydantic model, got object$",
    ):
        dump(Message(role="user", extra={"ollama": object()}))


def test_a_generator_of_messages_is_dumped() -> None:
    assert load(dump(user(word) for word in ("a", "b"))) == (user("a"), user("b"))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'[{"role":"bard"}]', b'[{"role":"user","parts":[{"type":"x"}]}]', b"\xff"]
)
def test_what_is_no_transcript_is_invalid(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^data must be the JSON of a list of messages: "):
        load(data)


def test_a_transcript_that_is_nested_too_deeply_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match=r"^data must be the JSON of a list of messages: "):
        load(b'[{"role":"user","extra":{"w":' + b"[" * 100_000)


# Messages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "role"), [(system, "system"), (user, "user"), (assistant, "assistant")])
def test_words_and_parts_make_a_message_in_order(make: Any, role: str) -> None:
    assert make("a", CALL, "b") == Message(role=role, parts=(Text(text="a"), CALL, Text(text="b")))  # type: ignore[arg-type]  # a word of Role


def test_results_make_a_message_of_the_tool() -> None:
    assert tool_results(RESULT, RESULT) == Message(role="tool", parts=(RESULT, RESULT))


class TestMessage:
    MESSAGE: ClassVar = assistant(Thinking(text="hm"), "a", CALL, Thinking(text="!"), "b", RESULT)

    def test_text_is_all_text(self) -> None:
        assert self.MESSAGE.text == "ab"

    def test_thinking_is_all_thinking(self) -> None:
        assert self.MESSAGE.thinking == "hm!"

    def test_tool_calls_are_the_calls(self) -> None:
        assert self.MESSAGE.tool_calls == (CALL,)

    def test_tool_results_are_the_results(self) -> None:
        assert self.MESSAGE.tool_results == (RESULT,)

    def test_a_response_shows_its_message(self) -> None:
        response = Response(message=self.MESSAGE, finish=Finish(reason="stop"))
        assert (response.text, response.thinking, response.tool_calls) == ("ab", "hm!", (CALL,))


def test_a_result_of_words_has_one_text() -> None:
    assert RESULT.parts == (Text(text="4.2 m"),)


def test_the_text_of_a_result_is_that_of_its_texts() -> None:
    parts = (Text(text="a"), Image(data=PNG, mime="image/png"), Text(text="b"))
    assert ToolResult(id="call_1", content=parts).text == "a\nb"


@pytest.mark.parametrize(
    "parts",
    [(), ("",), (" \n\t",), ("", " "), (Thinking(text="only thought"),), (Thinking(text="hm"), " ")],
    ids=repr,
)
def test_nothing_and_white_space_are_empty(parts: tuple[Part | str, ...]) -> None:
    assert Response(message=assistant(*parts), finish=Finish(reason="stop")).is_empty


@pytest.mark.parametrize(
    "part",
    [
        "a",
        CALL,
        Image(data=PNG, mime="image/png"),
        Document(data=b"%PDF", mime="application/pdf"),
        Audio(data=b"RIFF", mime="audio/wav"),
        Opaque(wire="anthropic", data={"type": "server_tool_use"}),
    ],
    ids=repr,
)
def test_words_calls_and_other_content_are_not_empty(part: Part | str) -> None:
    assert not Response(message=assistant(" ", part), finish=Finish(reason="stop")).is_empty


@pytest.mark.parametrize(
    ("kind", "loss"),
    [("dropped", True), ("changed", True), ("repaired", False), ("renamed", False), ("info", False)],
)
def test_only_what_is_dropped_or_changed_is_a_loss(kind: NoticeKind, *, loss: bool) -> None:
    assert Notice(kind=kind, what="seed", why="no seed").loss is loss


def test_an_option_is_changed_in_a_copy() -> None:
    request = Request(temperature=0.0)
    assert msgspec.structs.replace(request, temperature=None) != request
    assert request.temperature == 0.0


def test_unset_differs_from_zero() -> None:
    assert dump(Request(temperature=0.0, max_tokens=0)) == b'{"temperature":0.0,"max_tokens":0}'


# Pictures and base64 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.png", PNG, "image/png"),
        ("wrong.png", b"\xff\xd8\xff\xe0JFIF", "image/jpeg"),
        ("a", b"GIF89a", "image/gif"),
        ("a.webp", b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        ("a.bmp", b"BM", "image/bmp"),
        ("a.nothing_known", b"?", "application/octet-stream"),
    ],
)
def test_a_picture_is_of_the_type_that_its_bytes_say_or_its_name(
    tmp_path: Path, name: str, data: bytes, mime: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert Image.from_path(str(path), detail="low") == Image(data=data, mime=mime, detail="low")


def test_a_picture_is_read_from_base64() -> None:
    assert Image.from_base64("aGk=", mime="image/png", detail="high") == Image(
        data=b"hi", mime="image/png", detail="high"
    )


def test_a_picture_is_read_from_a_data_url() -> None:
    assert Image.from_data_url("data:image/gif;base64,R0lG", detail="low") == Image(
        data=b"GIF", mime="image/gif", detail="low"
    )


@given(st.binary(max_size=64))
def test_base64_is_read_as_it_was_written(data: bytes) -> None:
    assert decode_base64(encode_base64(data)) == data


@given(st.binary(max_size=64))
def test_base64_is_read_url_safe_without_padding_and_in_lines(data: bytes) -> None:
    text = encode_base64(data).replace("+", "-").replace("/", "_").rstrip("=")
    assert decode_base64("\r\n ".join(text)) == data


@pytest.mark.parametrize("text", ["A", "a?b", "é", "data:image/png"])
def test_what_is_not_base64_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^text: data must be base64, got another text; encode the bytes$"):
        Image.from_base64(text, mime="image/png")


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,aGk=",
        "DATA:image/PNG;BASE64,aGk=",
        "data:image/png;charset=utf-8;base64,aGk",
        "data:image/png ;base64,aGk%3D",
    ],
)
def test_a_data_url_is_read_in_all_its_spellings(url: str) -> None:
    assert split_data_url(url) == ("image/png", b"hi")


@pytest.mark.parametrize("url", ["https://example.org/a.png", "data:image/png,hi", "data:image/png;base64", ""])
def test_what_is_not_a_base64_data_url_is_invalid(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^url must be data:<type>;base64,<data>, got another text$"):
        Image.from_data_url(url)


def test_a_data_url_of_what_is_not_base64_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match=r"^data must be base64, got another text; encode the bytes$"):
        Image.from_data_url("data:image/png;base64,a?b")


# In pydantic models ---------------------------------------------------------------------------------------------------


class Chat(pydantic.BaseModel):
    messages: list[Message]
    part: Part | None = None
    request: Request | None = None
    response: Response | None = None


@settings(max_examples=30)
@given(st.lists(values.MESSAGES, max_size=2), values.PARTS, values.REQUESTS, values.RESPONSES)
def test_values_survive_a_pydantic_model_as_json(
    messages: list[Message], part: Part, request: Request, response: Response
) -> None:
    chat = Chat(messages=messages, part=part, request=request, response=response)
    assert Chat.model_validate_json(chat.model_dump_json()) == chat


def test_a_pydantic_model_takes_values_as_they_are() -> None:
    message = user("hello")
    assert Chat(messages=[message]).messages[0] is message


def test_a_pydantic_model_takes_plain_data() -> None:
    data = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}]}
    assert Chat.model_validate(data).messages == [user("hello")]


def test_a_pydantic_model_gives_plain_data() -> None:
    parts = ({"type": "image", "data": "aGk=", "mime": "image/png"},)
    chat = Chat(messages=[user(Image(data=b"hi", mime="image/png"))])
    assert chat.model_dump(exclude_unset=True) == {"messages": [{"role": "user", "parts": parts}]}


def test_a_pydantic_model_says_where_a_value_is_wrong() -> None:
    with pytest.raises(pydantic.ValidationError, match=r"messages\.0\n.*'judge' - at `\$\.role`"):
        Chat.model_validate({"messages": [{"role": "judge"}]})


def test_a_pydantic_model_has_a_json_schema() -> None:
    items = {"type": "object", "title": "Message"}
    assert Chat.model_json_schema()["properties"]["messages"] == {"type": "array", "items": items, "title": "Messages"}


@pytest.mark.parametrize(
    "value",
    [
        Tool(name="now"),
        Usage(input=1),
        Finish(reason="stop"),
        Notice(kind="info", what="a", why="b"),
        Attempt(target="groq/llama", outcome="served"),
        RESULT,
        CALL,
        Opaque(wire="ollama", data={}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_value_is_a_pydantic_field(value: msgspec.Struct) -> None:
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(type(value))
    assert adapter.validate_json(adapter.dump_json(value)) == value


def test_one_stop_sequence_may_be_given_as_it_is() -> None:
    assert Request(stop="END").stop == ("END",)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_any_value_is_read_back_as_its_kind() -> None:
    request = Request(messages=(user("a"),), seed=7)
    assert load(dump(request), Request) == request
    assert load(dump(user("a")), Message) == user("a")


def test_what_is_no_such_value_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="data must be the JSON of a Request: "):
        load(b"[]", Request)


# Values of other types ------------------------------------------------------------------------------------------------


class ReadOnly(Mapping[str, Any]):
    """A mapping that is not a dict."""

    def __init__(self, **items: Any) -> None:
        self._items = items

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Text, {"text": "a"}),
        (Thinking, {"text": "a"}),
        (ToolCall, {"id": "c", "name": "n"}),
        (ToolResult, {"id": "c", "content": "6"}),
        (Image, {"data": PNG}),
        (Message, {"role": "user"}),
    ],
)
def test_an_extra_may_be_any_mapping(kind: Any, fields: dict[str, Any]) -> None:
    assert kind(**fields, extra=ReadOnly(openai_chat={"a": 1})).extra == {"openai_chat": {"a": 1}}
    assert type(kind(**fields, extra=ReadOnly()).extra) is dict
    assert kind(**fields, extra=None).extra == {}


def test_arguments_may_be_any_mapping_or_none() -> None:
    arguments: Any = ReadOnly(port="Brest")
    assert ToolCall(id="c", name="n", arguments=arguments).arguments == {"port": "Brest"}
    nothing: Any = None
    assert ToolCall(id="c", name="n", arguments=nothing).arguments == {}


@pytest.mark.parametrize("data", [bytearray(PNG), memoryview(PNG)])
def test_data_may_be_any_bytes(data: Any) -> None:
    assert type(Image(data=data).data) is bytes
    assert Image(data=data).data == PNG


def test_flags_and_raw_arguments_are_checked() -> None:
    wrong: Any = 1
    for make in (
        lambda: Thinking(text="a", redacted=wrong),
        lambda: ToolResult(id="c", content="6", is_error=wrong),
        lambda: ToolCall(id="c", name="n", raw=wrong),
    ):
        with pytest.raises(InvalidRequest):
            make()


def test_a_handler_is_not_dumped() -> None:
    tool = Tool(name="now", handler=lambda: "6")
    assert msgspec.json.decode(dump(Request(tools=(tool,))))["tools"][0].get("handler") is None


def test_an_extra_with_a_model_is_dumped_as_json() -> None:
    class Port(pydantic.BaseModel):
        name: str

    assert b'{"name":"Brest"}' in dump(Text(text="a", extra={"x": {"y": Port(name="Brest")}}))
    with pytest.raises(InvalidRequest, match="it must be JSON, a struct or a pydantic model"):
        dump(Text(text="a", extra={"x": {"y": object()}}))


def test_checks_pass_what_is_right() -> None:
    check_flag("stream", True)  # noqa: FBT003 - the value is what is checked
    check_choice("role", "user", ("user", "assistant"))
