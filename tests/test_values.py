"""Values are checked when they are made: wrong ones are refused with the parameter and what to give."""

import base64
import datetime as dt
import inspect
from collections import UserDict
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import UNSET, Struct
from PIL import Image as Pillow

import dragoman
from dragoman import wires
from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.events import Event, PartDelta, fold, to_events
from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Document,
    Finish,
    Image,
    Message,
    Opaque,
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
    tool_results,
    user,
)
from dragoman.types.checks import check_whole_number, shown
from dragoman.types.fast_constructors import new_text
from dragoman.types.parameters import NamedParameters, missing_is_none, named_methods
from tests.support.images import picture

B64 = base64.b64encode(b"hi").decode()


class Word(StrEnum):
    TIDE = "tide"


def test_a_method_that_is_called_with_an_unknown_name_says_so() -> None:
    @named_methods("at")
    class Tide:
        def at(self, port: str) -> str:
            return port

    assert Tide().at(port="Brest") == "Brest"
    with pytest.raises(InvalidRequest, match=r"Tide\.at has no parameter prt; did you mean port\?"):
        Tide().at(prt="Brest")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def test_a_missing_value_is_none_and_the_signature_still_requires_it() -> None:
    @missing_is_none
    def tide(port: str, hour: int = 12) -> tuple[str | None, int]:
        return port, hour

    assert tide() == (None, 12)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    assert tide("Brest", hour=6) == ("Brest", 6)
    assert str(inspect.signature(tide)) == "(port: str, hour: int = 12) -> tuple[str | None, int]"


# Tool results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"metres": 4.2}, '{"metres":4.2}'),
        ([1, "b", None], '[1,"b",null]'),
        ([], "[]"),
        ({}, "{}"),
        (None, "null"),
        (True, "true"),
        (4.2, "4.2"),
        (Word.TIDE, "tide"),
        ([{"type": "unknown"}], '[{"type":"unknown"}]'),
        ([{"type": "text"}], '[{"type":"text"}]'),
        ([{"type": "text", "text": "a"}, 3], '[{"type":"text","text":"a"},3]'),
        ({"type": "text", "text": "a"}, '{"type":"text","text":"a"}'),
    ],
)
def test_a_tool_result_may_be_any_json_value(content: object, text: str) -> None:
    result = ToolResult(id="call_1", content=content)
    assert (result.content, type(result.content)) == (text, str)
    assert load(dump([tool_results(result)])) == (tool_results(result),)


PARTS: list[tuple[Any, tuple[object, ...]]] = [
    ([Text(text="a")], (Text(text="a"),)),
    (Text(text="a"), (Text(text="a"),)),
    (["See:", Image(data=b"hi")], (Text(text="See:"), Image(data=b"hi"))),
    # MCP
    ([{"type": "text", "text": "a"}], (Text(text="a"),)),
    ([{"type": "image", "data": B64, "mimeType": "image/png"}], (Image(data=b"hi", mime="image/png"),)),
    (
        [{"type": "audio", "data": B64, "mimeType": "audio/wav"}],
        (Text(text="[audio of type audio/wav, not supported in a tool result]"),),
    ),
    ([{"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}], (Text(text="a"),)),
    (
        [{"type": "resource", "resource": {"uri": "file:///a", "mimeType": "application/pdf", "blob": B64}}],
        (Document(data=b"hi", mime="application/pdf"),),
    ),
    (
        [{"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/gif", "blob": B64}}],
        (Image(data=b"hi", mime="image/gif"),),
    ),
    ([{"type": "resource_link", "uri": "file:///a", "name": "a.txt"}], (Text(text="[a.txt: file:///a]"),)),
    # Anthropic
    (
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}}],
        (Image(data=b"hi", mime="image/png"),),
    ),
    ([{"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}], (Image(url="https://x/a.png"),)),
    (
        [{"type": "document", "source": {"type": "text", "data": "a"}, "title": "b"}],
        (Document(data=b"a", mime="text/plain", name="b"),),
    ),
    (
        [{"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}],
        (Document(data=b"", mime="application/pdf", url="https://x/a.pdf"),),
    ),
    # OpenAI
    ([{"type": "input_text", "text": "a"}], (Text(text="a"),)),
    (
        [{"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}}],
        (Image(url="https://x/a.png", detail="low"),),
    ),
    ([{"type": "input_image", "image_url": f"data:image/gif;base64,{B64}"}], (Image(data=b"hi", mime="image/gif"),)),
    # dump
    ([{"type": "document", "data": B64, "mime": "text/plain"}], (Document(data=b"hi", mime="text/plain"),)),
    ([{"type": "opaque", "wire": "google", "data": {}}], (Opaque(wire="google", data={}),)),
]


@pytest.mark.parametrize(("content", "parts"), PARTS)
def test_a_tool_result_reads_parts_and_the_blocks_of_others(content: Any, parts: tuple[object, ...]) -> None:
    assert ToolResult(id="call_1", content=content).content == parts


BROKEN: list[dict[str, Any]] = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "!"}},
    {"type": "image", "data": "!", "mimeType": "image/png"},
    {"type": "audio", "data": "!", "mime_type": "audio/wav"},
    {"type": "document", "data": "!", "mime": "text/plain"},
    {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/gif", "blob": "!"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,!"}},
]


@pytest.mark.parametrize("block", BROKEN)
def test_media_that_are_not_base64_are_refused(block: dict[str, Any]) -> None:
    made: dict[str, Callable[[], object]] = {
        "content": lambda: ToolResult(id="call_1", content=[{"type": "text", "text": "a"}, block]),
        "parts": lambda: user(block),
    }
    for parameter, make in made.items():
        with pytest.raises(InvalidRequest, match=rf"^{parameter} must have media in base64, got a block of") as caught:
            make()
        assert caught.value.param == parameter


def test_json_that_only_looks_like_media_is_a_result() -> None:
    assert ToolResult(id="call_1", content=[{"type": "image", "data": "!"}]).content == '[{"type":"image","data":"!"}]'


def test_objects_of_an_sdk_are_blocks_too() -> None:
    from mcp.types import ImageContent, TextContent

    blocks = [TextContent(type="text", text="a"), ImageContent(type="image", data=B64, mime_type="image/png")]
    assert ToolResult(id="call_1", content=blocks).content == (Text(text="a"), Image(data=b"hi", mime="image/png"))


@pytest.mark.parametrize("content", [b"a", object(), {"a": object()}, [Text(text="a"), ToolCall(id="1", name="b")]])
def test_what_cannot_be_the_content_of_a_result_is_refused(content: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^content must be text, parts.* or any JSON value") as caught:
        ToolResult(id="call_1", content=content)
    assert caught.value.param == "content"


# Messages -------------------------------------------------------------------------------------------------------------

BLOCKS: list[tuple[Any, object]] = [
    ("a", Text(text="a")),
    ({"type": "text", "text": "a"}, Text(text="a")),
    ({"type": "audio", "data": B64, "mimeType": "audio/wav"}, Audio(data=b"hi", mime="audio/wav")),
    (
        {"type": "thinking", "thinking": "a", "signature": "b"},
        Thinking(text="a", extra={"anthropic": {"signature": "b"}}),
    ),
    ({"type": "thinking", "thinking": "a"}, Thinking(text="a", extra={"anthropic": {}})),
    ({"type": "thinking", "text": "a"}, Thinking(text="a")),
    ({"type": "tool_use", "id": "1", "name": "b", "input": {}}, ToolCall(id="1", name="b")),
    ({"type": "tool_call", "id": "1", "name": "b", "arguments": {}}, ToolCall(id="1", name="b")),
    ({"type": "tool_result", "tool_use_id": "1", "content": [1]}, ToolResult(id="1", content="[1]")),
    ({"type": "tool_result", "id": "1", "name": "b", "is_error": True}, ToolResult(id="1", name="b", is_error=True)),
]


@pytest.mark.parametrize(("block", "part"), BLOCKS)
def test_a_message_reads_strings_and_blocks(block: Any, part: object) -> None:
    assert user(block).parts == (part,)
    assert Message(role="user", parts=block).parts == (part,)
    assert Message(role="user", parts=[block]).parts == (part,)
    assert Message(role="user", parts=iter([block])).parts == (part,)


def test_developer_is_a_role() -> None:
    message = Message(role="developer", parts="Be brief.")
    assert load(dump([message])) == (message,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "bot"}, "role must be one of system, developer, user, assistant, tool, got 'bot'"),
        ({"role": None}, "role must be one of system, developer, user, assistant, tool, got None"),
        ({"role": ["user"]}, "role must be one of system, developer, user, assistant, tool, got list"),
        ({"parts": 3}, "parts must be a str, a part (Text, Image, Document, …) or a list of these, got 3"),
        ({"parts": [3]}, "parts must be a str, a part (Text, Image, Document, …) or a list of these, got 3"),
        ({"parts": b"a"}, "parts must be a str, a part (Text, Image, Document, …) or a list of these, got bytes"),
        ({"parts": {"a": 1}}, "parts must be a str, a part (Text, Image, Document, …) or a list of these, got dict"),
        (
            {"parts": [user("a")]},
            "parts must be a str, a part (Text, Image, Document, …) or a list of these, got Message; "
            'put it into a list of its own, such as [dragoman.user("hi")]',
        ),
        (
            {"parts": [{"type": "image", "source": 3}]},
            "parts has a block of type 'image' that cannot be read; pass a part such as Text",
        ),
        (
            {"parts": {"type": "hologram"}},
            "parts has a block of type 'hologram' that cannot be read; pass a part such as Text",
        ),
        ({"extra": 3}, "extra must be a dict with str keys, got 3"),
    ],
)
def test_a_wrong_message_is_refused_with_what_to_give(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Message(**cast("Any", {"role": "user", **fields}))
    assert str(caught.value) == message
    assert caught.value.param == next(iter(fields))


# Parts, calls and tools -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Text, {"text": 3}, "text must be a str, got 3"),
        (Text, {"text": "a", "extra": []}, "extra must be a dict with str keys, got list"),
        (Thinking, {"text": None}, "text must be a str, got None"),
        (Thinking, {"text": "a", "redacted": "no"}, "redacted must be True or False, got 'no'"),
        (Image, {}, "data must be bytes, or url must be a URL, got neither; or use Image.from_path"),
        (
            Image,
            {"data": "iVBORw0KGgo="},
            "data must be bytes, got 'iVBORw0KGgo='; use Image.from_path, Image.from_base64 or Image.from_pil",
        ),
        (Image, {"url": 3}, "url must be a str, got 3"),
        (Image, {"data": b"a", "mime": 3}, "mime must be a str, got 3"),
        (Document, {"data": "a", "mime": "text/plain"}, "data must be bytes, got 'a'; use Document.from_path"),
        (Document, {"data": b"a", "mime": None}, "mime must be a str, got None; such as application/pdf"),
        (Audio, {"data": None, "mime": "audio/wav"}, "data must be bytes, got None; use Audio.from_path"),
        (Audio, {"data": b"a", "mime": 3}, "mime must be a str, got 3; such as audio/wav"),
        (ToolCall, {"id": 3, "name": "a"}, "id must be a str, got 3"),
        (ToolCall, {"id": "a", "name": None}, "name must be a str, got None"),
        (ToolCall, {"id": "a", "name": "b", "raw": 3}, "raw must be a str, got 3"),
        (
            ToolCall,
            {"id": "a", "name": "b", "arguments": [1]},
            "arguments must be a dict with str keys, got list; or pass its JSON text",
        ),
        (
            ToolCall,
            {"id": "a", "name": "b", "arguments": "[1]"},
            "arguments must be a JSON object or its text, got list",
        ),
        (
            ToolCall,
            {"id": "a", "name": "b", "arguments": "{a"},
            "arguments must be a JSON object or its text, got '{a'; JSON is malformed: object keys must be strings (byte 1)",
        ),
        (ToolResult, {"id": 3}, "id must be a str, got 3"),
        (ToolResult, {"id": "a", "is_error": 1}, "is_error must be True or False, got 1"),
        (Opaque, {"wire": 3, "data": {}}, "wire must be a str, got 3"),
        (Opaque, {"wire": "a", "data": []}, "data must be a dict with str keys, got list"),
        (Tool, {"name": None}, "name must be a str, got None"),
        (Tool, {"name": "a", "description": 3}, "description must be a str, got 3"),
        (
            Tool,
            {"name": "a", "parameters": "object"},
            "parameters must be a dict with str keys, got 'object'; pass a JSON Schema, or make the tool with @tool",
        ),
        (Tool, {"name": "a", "strict": "yes"}, "strict must be True or False, got 'yes'"),
        (Tool, {"name": "a", "handler": 3}, "handler must be a function, got 3"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_give(kind: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        kind(**fields)
    assert str(caught.value) == message


def test_arguments_may_be_json_text() -> None:
    call = ToolCall(id="call_1", name="tide", arguments='{"port": "Brest"}')
    assert (call.arguments, call.raw) == ({"port": "Brest"}, '{"port": "Brest"}')
    assert ToolCall(id="call_1", name="tide", arguments='{"port":"Brest"}').raw is None
    assert ToolCall(id="call_1", name="tide", arguments=" ") == ToolCall(id="call_1", name="tide", arguments=None)


def test_bytes_of_any_kind_and_subclasses_of_str_become_plain() -> None:
    view: Any = memoryview(b"hi")
    assert Image(data=view).data == b"hi"
    assert Document(data=view, mime=Word.TIDE).mime == "tide"
    assert Audio(data=view, mime=Word.TIDE).mime == "tide"
    parts = (Text(text=Word.TIDE), Thinking(text=Word.TIDE), Text(text="a", extra=None))  # type: ignore[arg-type]
    assert [type(part.text) for part in parts] == [str, str, str]
    call = ToolCall(id=Word.TIDE, name=Word.TIDE, raw=Word.TIDE, extra=None)
    assert {type(call.id), type(call.name), type(call.raw)} == {str}
    assert type(Tool(name=Word.TIDE).name) is str
    assert type(Request(system=Word.TIDE).system) is str


# Requests -------------------------------------------------------------------------------------------------------------

NOW = Tool(name="now")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": "hi"}, "messages must be a list of Message, got 'hi'; such as [dragoman.user(\"hi\")]"),
        ({"messages": [3]}, 'messages must be a list of Message, got 3; such as [dragoman.user("hi")]'),
        ({"messages": {}}, 'messages must be a list of Message, got dict; such as [dragoman.user("hi")]'),
        ({"system": 3}, "system must be a str, a part (Text, Image, Document, …) or a list of these, got 3"),
        ({"system": [Image(url="https://x")]}, "system must be a str or a list of Text, got Image"),
        ({"tools": [print]}, "tools must be a list of Tool, got builtin_function_or_method; pass functions to the "
         "methods of a model"),
        ({"tools": [NOW, NOW]}, "tools must have unique names, but two are named 'now'; rename one"),
        ({"tool_choice": 3}, "tool_choice must be a str, got 3"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls must be True or False, got 'no'"),
        ({"schema": "object"}, "schema must be a dict with str keys, got 'object'"),
        ({"schema_name": None}, "schema_name must be a str, got None"),
        ({"schema_mode": "always"}, "schema_mode must be one of native, auto, got 'always'"),
        ({"temperature": "hot"}, "temperature must be a number, got 'hot'"),
        ({"temperature": True}, "temperature must be a number, got True"),
        ({"top_k": 1.5}, "top_k must be an int, got 1.5"),
        ({"max_tokens": "5"}, "max_tokens must be an int, got '5'"),
        ({"stop": 3}, "stop must be a str or a list of str, got 3"),
        ({"stop": [3]}, "stop must be a str or a list of str, got 3"),
        ({"seed": True}, "seed must be an int, got True"),
        ({"metadata": None}, "metadata must be a dict with str keys, got None"),
        ({"stream": 1}, "stream must be True or False, got 1"),
        (
            {"reasoning": "hihg"},
            "reasoning must be one of none, minimal, low, medium, high, xhigh, max, or a number of tokens, got 'hihg'",
        ),
        (
            {"reasoning": True},
            "reasoning must be one of none, minimal, low, medium, high, xhigh, max, or a number of tokens, got True",
        ),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_request_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidRequest, InvalidTool)) as caught:
        Request(**fields)
    assert str(caught.value) == message
    assert caught.value.param == next(iter(fields))


def test_fields_of_a_request_are_converted() -> None:
    class Number(float):
        pass

    fields: dict[str, Any] = {
        "messages": user("hi"),
        "stop": iter(["a", Word.TIDE]),
        "tools": [NOW, Opaque(wire="a", data={})],
        "temperature": Number(1.5),
        "system": ["Be", Text(text="brief.")],
        "user": Word.TIDE,
    }
    request = Request(**fields)
    assert request == Request(
        messages=(user("hi"),),
        stop=("a", "tide"),
        tools=(NOW, Opaque(wire="a", data={})),
        temperature=1.5,
        system=(Text(text="Be"), Text(text="brief.")),
        user="tide",
    )
    assert type(request.temperature) is float
    assert Request(stop=None).stop == ()  # type: ignore[arg-type]


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.pdf", b"%PDF", "application/pdf"),
        ("a.md", b"# a", "text/markdown"),
        ("a.csv", b"a,b", "text/csv"),
        ("unknown", b"text", "text/plain"),
        ("unknown", b"\xff", "application/octet-stream"),
    ],
)
def test_a_document_of_a_file(tmp_path: Path, name: str, data: bytes, mime: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert Document.from_path(tmp_path / name) == Document(data=data, mime=mime, name=name)
    assert Document.from_path(str(tmp_path / name), name="b").name == "b"


def test_audio_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.MP3").write_bytes(b"ID3")
    assert Audio.from_path(tmp_path / "a.MP3") == Audio(data=b"ID3", mime="audio/mpeg")


def test_a_document_of_a_url() -> None:
    document = Document.from_url("https://example.org/bills/a.pdf?key=1#page")
    assert document == Document(
        data=b"", mime="application/pdf", name="a.pdf", url="https://example.org/bills/a.pdf?key=1#page"
    )
    assert Document.from_url("https://example.org/").name is None
    assert Document.from_url(f"data:text/plain;base64,{B64}") == Document(data=b"hi", mime="text/plain")


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.mp4", b"\0\0\0\x18ftypmp42", "audio/mp4"),
        ("a.webm", b"?", "audio/webm"),
        ("a.pcm16", b"\0\0", "application/octet-stream"),
    ],
)
def test_a_file_of_sound_has_no_video_type(tmp_path: Path, name: str, data: bytes, mime: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert Audio.from_path(tmp_path / name).mime == mime


def test_a_file_without_sound_is_no_audio(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b")
    with pytest.raises(InvalidRequest, match=r"^path must be an audio file, got 'text/csv'; use Document\.from_path"):
        Audio.from_path(tmp_path / "a.csv")


@pytest.mark.parametrize("make", [Image.from_path, Document.from_path, Audio.from_path])
@pytest.mark.parametrize("path", [3, None, b"a", "a\0b"])
def test_a_path_must_be_one(make: Any, path: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^path must be a str or a Path, got "):
        make(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Document.from_url, "url must be a str, got 3"),
        (Image.from_data_url, "url must be a str, got 3"),
        (Image.from_pil, "image must be a Pillow image, got 3"),
        (partial(Image.from_base64, mime="image/png"), "text must be a str, got 3"),
    ],
)
def test_what_an_image_or_document_is_made_of_is_checked(make: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(3)
    assert str(caught.value) == message


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "F", "YCbCr"])
def test_a_pillow_image_is_a_part(mode: str) -> None:
    (part,) = user(Pillow.new(mode, (3, 2))).parts
    assert isinstance(part, Image)
    assert part.mime == "image/png"
    assert ToolResult(id="call_1", content=Pillow.new(mode, (3, 2))).content == (part,)
    assert ToolResult(id="call_1", content=["See:", Pillow.new(mode, (3, 2))]).content == (Text(text="See:"), part)


def test_a_pillow_image_of_a_jpeg_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(picture(mime="image/jpeg"))
    with Pillow.open(tmp_path / "a.jpg") as image:
        assert Image.from_pil(image).mime == "image/jpeg"


def test_a_pillow_image_that_cannot_be_read_is_refused() -> None:
    truncated = picture(mime="image/jpeg")[:-40]
    with (
        Pillow.open(BytesIO(truncated)) as image,
        pytest.raises(InvalidRequest, match=r"^image must be a Pillow image that"),
    ):
        Image.from_pil(image)


def test_a_prompt_may_have_pillow_images() -> None:
    registry = dragoman.Registry(env={})
    answer = registry.model("demo/any").generate(["What is this?", Pillow.new("RGB", (3, 2))])
    assert "3" in answer.text


# dump and load --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        3,
        "a",
        b"a",
        {"a": 1},
        [3],
        None,
        PartDelta(index="0", text="a"),  # type: ignore[arg-type]
        [PartDelta(index=0, text=5)],  # type: ignore[arg-type]
        Text(text="a", extra={"ollama": [object()]}),
        Text(text="a", extra={"ollama": "\ud800"}),
    ],
)
def test_dump_never_writes_what_load_refuses(value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^value must be "):
        dump(value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), r"^data must be bytes or a str, got 3$"),
        ((b"[]", 3), r"^type must be a type of dragoman, such as Request, got 3$"),
        (("\ud800",), r"^data must be the JSON of a list of messages: "),
        ((b'[{"role":"user","parts":[{"type":"image"}]}]',), r"^data must be the JSON of a list of messages: .*url"),
    ],
)
def test_load_refuses_what_it_cannot_read(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        load(*arguments)


def test_whole_numbers_are_checked() -> None:
    check_whole_number("a", 3)
    check_whole_number("a", -3, least=None)
    for number in (True, 1.5, None, -1):
        with pytest.raises(InvalidRequest, match=r"^a must be an int >= 0, got "):
            check_whole_number("a", number)
    with pytest.raises(InvalidRequest, match=r"^a must be an int, got 1.5"):
        check_whole_number("a", 1.5, least=None)


def test_a_long_or_private_value_is_not_shown() -> None:
    assert shown("a" * 50) == "str"
    assert shown(UserDict[str, int]()) == "UserDict"
    assert shown(OSError()) == "OSError"


def test_the_total_of_a_usage() -> None:
    assert Usage(input=3, output=4, cache_read=2).total == 7
    assert Usage(input=3).total == 3
    assert Usage(output=0).total == 0
    assert Usage(reasoning=3).total is None


# On every wire --------------------------------------------------------------------------------------------------------

CONTENTS: list[tuple[Any, list[str]]] = [
    ("noon", ["noon"]),
    ({"metres": 4.2}, ["metres", "4.2"]),
    ([1, {"a": None}], ["[1,", "null"]),
    (None, ["null"]),
    (12, ["12"]),
    (Text(text="noon"), ["noon"]),
    ([{"type": "text", "text": "noon"}, {"type": "text", "text": "tide"}], ["noon", "tide"]),
    ([{"type": "resource_link", "name": "chart", "uri": "file:///a"}], ["chart", "file:///a"]),
]


@pytest.mark.parametrize("wire", wires.NAMES)
@pytest.mark.parametrize(("content", "words"), CONTENTS)
def test_a_tool_result_reaches_every_wire(wire: str, content: Any, words: list[str]) -> None:
    call = ToolCall(id="call_1", name="now", arguments='{"zone": "UTC"}')
    result = ToolResult(id="call_1", name="now", content=content)
    target = Target(provider="p", model="m", wire=wire, base_url="https://x", api_key="k")
    history = Request(
        messages=(Message(role="developer", parts="Be brief."), user("?"), assistant(call), tool_results(result))
    )
    body = wires.get(wire).client.encode_request(history, target).body.decode().replace("\\", "")
    assert [word for word in [*words, "UTC", "Be brief."] if word not in body] == []


@pytest.mark.parametrize("text", ["null", "", " "])
def test_arguments_of_a_call_may_be_missing_in_their_text(text: str) -> None:
    assert ToolCall(id="a", name="b", arguments=text).arguments == {}


def test_arguments_are_json_when_they_are_made() -> None:
    call = ToolCall(id="a", name="b", arguments={"on": dt.date(2026, 11, 17), "n": 1})
    assert call.arguments == {"on": "2026-11-17", "n": 1}
    for wrong in ({"a": object()}, {"a": {"b": 1}, "c": {object()}}, {1: 2}):
        with pytest.raises(InvalidRequest, match=r"^arguments must be") as caught:
            ToolCall(id="a", name="b", arguments=cast("Any", wrong))
        assert caught.value.param == "arguments"


def nested(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [{"a": value}]
    return value


@pytest.mark.parametrize("levels", [1, 3, 9])
def test_arguments_are_checked_at_every_level(levels: int) -> None:
    right = {"a": nested({"text": "Brest", "word": "café", "n": [1, 2.5, None, True]}, levels)}
    assert ToolCall(id="a", name="b", arguments=right).arguments is right
    endless: list[object] = []
    endless.append(endless)
    for wrong in (float("nan"), {1: 2}, {"é": object()}, "\ud800", endless):
        with pytest.raises(InvalidRequest, match=r"^arguments"):
            ToolCall(id="a", name="b", arguments={"a": nested(wrong, levels)})


def test_a_list_that_cannot_be_read_again_is_not_written() -> None:
    with pytest.raises(InvalidRequest, match=r"^value must be a list of values of one type, got Message, Request$"):
        dump([user("a"), Request()])
    events = to_events(Response(message=assistant("a"), finish=Finish(reason="stop")))
    assert load(dump(events), list[Event]) == events


@pytest.mark.parametrize("wrong", [None, 0, UNSET, [3], "now"])
def test_tools_of_a_request_are_checked(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^tools must be a list of Tool"):
        Request(tools=wrong)


def test_events_must_be_iterable() -> None:
    with pytest.raises(InvalidRequest, match=r"^events must be a list of events, got 3$"):
        fold(cast("Any", 3))


@pytest.mark.parametrize("path", ["\ud800", "a\0b"])
def test_a_path_must_be_one_that_can_exist(path: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^path must be a str or a Path"):
        Document.from_path(path)


# Names of parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (Message, {"role": "user", "content": "hi"}, "Message has no parameter content; write parts="),
        (Text, {"content": "hi"}, "Text has no parameter content; write text="),
        (ToolResult, {"tool_call_id": "a", "content": "b"}, "ToolResult has no parameter tool_call_id; write id="),
        (ToolCall, {"id": "a", "name": "b", "input": {}}, "ToolCall has no parameter input; write arguments="),
        (Tool, {"name": "a", "input_schema": {}}, "Tool has no parameter input_schema; write parameters="),
        (Image, {"data": b"a", "media_type": "image/png"}, "Image has no parameter media_type; write mime="),
        (Image, {"urls": "https://x"}, "Image has no parameter urls; did you mean url?"),
        (Finish, {"raeson": "stop"}, "Finish has no parameter raeson; did you mean reason?"),
        (Opaque, {"zzz": 1}, "Opaque has no parameter zzz; it must be one of wire, data, is_optional"),
        (Text, {}, "text must be passed to Text, got nothing; write text="),
        (
            partial(cast("Any", Text), "a", {}, (), (), 1),
            {},
            "Text must be called with names, got too many values without; write text=",
        ),
        (partial(cast("Any", Text), "a"), {"text": "b"}, "text must be passed once, got it by position and by name"),
    ],
)
def test_a_wrong_name_of_a_parameter_has_a_hint(make: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(**fields)
    assert str(caught.value) == message


def test_a_type_error_of_another_cause_stays() -> None:
    class Own(Struct, metaclass=NamedParameters):
        def __post_init__(self) -> None:
            raise TypeError("of the caller's own")

    with pytest.raises(TypeError, match="of the caller's own"):
        Own()


def test_values_that_decoders_make_share_nothing() -> None:
    new_text("a").extra["x"] = 1
    user("a").extra["x"] = 1
    assert new_text("a") == Text("a")
    assert user("a") == Message("user", "a")
