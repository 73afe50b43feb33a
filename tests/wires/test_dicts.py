"""Messages and tools as dicts and objects of other SDKs."""

import base64
import json
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Any

import anthropic.types
import openai.types.chat
import pytest
from google.genai import types as genai

from dragoman import (
    Agent,
    DragomanError,
    Image,
    InvalidRequest,
    InvalidTool,
    Message,
    Opaque,
    Registry,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    WebSearch,
    assistant,
    dump,
    messages_from,
    system,
    tool_results,
    tools_from,
    user,
)
from dragoman.testing import Scripted
from dragoman.types.base import to_plain

PNG = base64.b64encode(b"\x89PNG").decode()
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}
TALK = (
    system("Be brief."),
    user("What is the tide?"),
    assistant(CALL),
    tool_results(ToolResult(id="call_1", name="tide", content="4.2 m")),
)
FORMS: dict[str, list[Any]] = {
    "openai_chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the tide?"},
        openai.types.chat.ChatCompletionMessage.model_validate(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "type": "function",
                        "id": "call_1",
                        "function": {"name": "tide", "arguments": '{"port":"Brest"}'},
                    }
                ],
            }
        ),
        {"role": "tool", "tool_call_id": "call_1", "content": "4.2 m"},
    ],
    "openai_responses": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "What is the tide?"}]},
        {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": '{"port":"Brest"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"},
    ],
    "anthropic": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the tide?"},
        {
            "role": "assistant",
            "content": [
                anthropic.types.ToolUseBlock(type="tool_use", id="call_1", name="tide", input={"port": "Brest"})
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "4.2 m"}]},
    ],
    "ollama": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the tide?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "function": {"name": "tide", "arguments": {"port": "Brest"}}}],
        },
        {"role": "tool", "tool_name": "tide", "tool_call_id": "call_1", "content": "4.2 m"},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "What is the tide?"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "call_1", "name": "tide", "input": {"port": "Brest"}}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "4.2 m"}]}}]},
    ],
    "google_interactions": [
        {"type": "user_input", "content": [{"type": "text", "text": "What is the tide?"}]},
        {"type": "thought", "signature": "c2ln"},
        {"type": "function_call", "id": "call_1", "name": "tide", "arguments": {"port": "Brest"}},
        {"type": "function_result", "call_id": "call_1", "result": "4.2 m"},
    ],
    "google": [
        genai.Content(role="user", parts=[genai.Part(text="What is the tide?")]),
        {
            "role": "model",
            "parts": [{"functionCall": {"id": "call_1", "name": "tide", "args": {"port": "Brest"}}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "call_1", "name": "tide", "response": {"output": "4.2 m"}}}],
        },
    ],
}


def meaning(messages: tuple[Message, ...]) -> list[Any]:
    """Roles and contents, without what a wire adds for itself."""
    return [
        (
            message.role,
            message.text,
            [(call.name, call.arguments) for call in message.tool_calls],
            [(result.name, result.text) for result in message.tool_results],
        )
        for message in messages
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_is_the_same_in_every_form(form: str) -> None:
    expected = TALK if FORMS[form][0] == FORMS["anthropic"][0] else TALK[1:]
    assert meaning(messages_from(FORMS[form])) == meaning(expected)
    wire: Any = form
    assert messages_from(FORMS[form], wire=wire) == messages_from(FORMS[form])


def test_what_dump_wrote_is_read_too() -> None:
    plain: Any = to_plain(TALK)
    assert messages_from(plain) == TALK


def test_our_messages_stand_among_dicts() -> None:
    mixed: list[Any] = [
        user("hi"),
        {"role": "assistant", "content": "ho"},
        user("he"),
        {"role": "user", "content": "ha"},
    ]
    assert messages_from(mixed) == (user("hi"), assistant("ho"), user("he"), user("ha"))
    assert messages_from(user("hi")) == messages_from({"role": "user", "content": "hi"}) == (user("hi"),)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/a.png"}}, Image(url="https://x/a.png")),
        ({"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}, Image(url="https://x/a.png")),
        ({"type": "image", "data": PNG, "mimeType": "image/png"}, Image(data=b"\x89PNG", mime="image/png")),
        ({"type": "input_image", "image_url": "https://x/a.png"}, Image(url="https://x/a.png")),
        ({"type": "thinking", "thinking": "hm", "signature": "s"}, Thinking(text="hm")),
        ({"type": "web_search_tool_result"}, Opaque(wire="anthropic", data={"type": "web_search_tool_result"})),
    ],
)
def test_the_blocks_of_a_message_tell_its_form(block: Any, part: Any) -> None:
    (message,) = messages_from([{"role": "user", "content": [{"type": "text", "text": "see"}, block]}])
    assert message.text == "see"
    found: Any = message.parts[1]
    assert type(found) is type(part)
    for name in ("data", "url", "mime", "text"):
        assert getattr(found, name, None) == getattr(part, name, None)


def test_a_cache_mark_stays_with_anthropic() -> None:
    block = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
    (message,) = messages_from([{"role": "user", "content": [block]}])
    (text,) = message.parts
    assert isinstance(text, Text)
    assert text.extra == {"anthropic": {"cache_control": {"type": "ephemeral"}}}


def test_two_forms_in_one_list_are_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        messages_from([FORMS["openai_chat"][3], FORMS["anthropic"][3]])
    assert str(refused.value) == (
        "messages must have the form of one SDK, got several (openai_chat: messages[0] has tool_call_id; anthropic: "
        "messages[1] has a content block of type 'tool_result'); pass wire= to messages_from"
    )


WRONG_MESSAGES: list[tuple[Any, str]] = [
    (5, "messages must be a list of dicts such as"),
    ("hi", "messages must be a list of dicts such as"),
    (["hi"], r"messages\[0\] must be a dict with a role, or a Message, got 'hi'"),
    ([{"type": "text", "text": "hi"}], r"messages\[0\] must be a dict with a role"),
    ([{"role": "bot", "content": "hi"}], r"messages\[0\].role must be one of system, developer, user"),
    ([{"role": "bot", "parts": []}], "role must be one of system, developer"),
    ([{"role": "user", "content": 5}], r"messages\[0\].content must be"),
    (
        [{"role": "user", "content": object()}],
        "messages must be a list of dicts.*it must have JSON values, got object",
    ),
    ([{"role": "user", "parts": [{"type": "text"}]}], "parts has a block of type 'text' that cannot be read"),
]


@pytest.mark.parametrize(("messages", "words"), WRONG_MESSAGES)
def test_wrong_messages_are_refused(messages: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        messages_from(messages)


def test_an_unknown_form_is_refused() -> None:
    wire: Any = "cohere"
    with pytest.raises(InvalidRequest, match="wire must be one of openai_chat, openai_responses, anthropic, google"):
        messages_from([], wire=wire)
    with pytest.raises(InvalidRequest, match="wire must be one of openai_chat"):
        tools_from([], wire=wire)


# Tools ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "tide", "description": "Tides", "parameters": SCHEMA}},
        {"type": "function", "name": "tide", "description": "Tides", "parameters": SCHEMA},
        {"name": "tide", "description": "Tides", "parameters": SCHEMA},
        {"name": "tide", "description": "Tides", "input_schema": SCHEMA},
        {"name": "tide", "description": "Tides", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
        {"toolSpec": {"name": "tide", "description": "Tides", "inputSchema": {"json": SCHEMA}}},
        {"functionDeclarations": [{"name": "tide", "description": "Tides", "parametersJsonSchema": SCHEMA}]},
        Tool(name="tide", description="Tides", parameters=SCHEMA),
    ],
)
def test_a_tool_is_the_same_in_every_form(tool: Any) -> None:
    for tools in (tool, [tool]):
        (found,) = tools_from(tools)
        assert isinstance(found, Tool)
        assert (found.name, found.description, found.parameters) == ("tide", "Tides", SCHEMA)


@pytest.mark.parametrize(
    ("tool", "wire"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "anthropic"),
        ({"type": "web_search"}, "openai_responses"),
        ({"googleSearch": {}}, "google"),
        ({"type": "google_search"}, "google_interactions"),
    ],
)
def test_the_web_search_of_a_provider_is_one_of_the_vocabulary(tool: Any, wire: Any) -> None:
    assert (
        tools_from([tool]) == tools_from([tool], wire=wire) == (WebSearch(extra={f"{wire}.verbatim": {"tool": tool}}),)
    )
    assert tools_from(tools_from([tool])) == tools_from([tool])


WRONG_TOOLS: list[tuple[Any, str]] = [
    (5, "tools must be a list of tool definitions, got 5"),
    (["tide"], r"tools\[0\] must be a tool definition, got 'tide'"),
    ([{}], r"tools\[0\] must be a tool definition of a known SDK, got a dict with no field; pass wire= to tools_from"),
    ([{"title": "tide"}], "got a dict with 'title'"),
    ([Tool(name="a"), {"type": "function", "function": {}}], r"tools\[1\].function.name is required"),
    ([{"type": "function", "function": {"name": object()}}], "it must have JSON values"),
]


@pytest.mark.parametrize(("tools", "words"), WRONG_TOOLS)
def test_wrong_tools_are_refused(tools: Any, words: str) -> None:
    with pytest.raises(DragomanError, match=words):
        tools_from(tools)


# In calls -------------------------------------------------------------------------------------------------------------


def test_calls_take_dicts() -> None:
    scripted = Scripted("4.2 m.", "4.2 m.")
    tools = [{"type": "function", "function": {"name": "tide", "parameters": SCHEMA}}]
    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    model = scripted.model()
    assert model.generate(FORMS["openai_chat"][1:], tools=tools, system=blocks).text == "4.2 m."
    assert model.request("hi", tools=tools[0])[0].tools == tools_from(tools)
    assert model.request(MappingProxyType(FORMS["openai_chat"][1]), tools=[Tool(name="ebb")])[0].messages == TALK[1:2]
    request = scripted.requests[0]
    assert meaning(request.messages) == meaning(TALK[1:])
    assert request.tools == tools_from(tools)
    (tool,) = tools
    assert "".join(model.stream(FORMS["anthropic"][1:], tools=[tool, Tool(name="ebb")]).text_deltas()) == "4.2 m."
    assert meaning(scripted.requests[1].messages) == meaning(TALK[1:])


def test_the_blocks_of_a_system_prompt_keep_their_fields() -> None:
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    model = Registry(env={"ANTHROPIC_API_KEY": "k"}).model("anthropic/claude-sonnet-5")
    for blocks in (block, [block]):
        request, _ = model.request("hi", system=blocks)
        assert request.system == (
            Text(text="Be brief.", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}}),
        )
    with pytest.raises(InvalidRequest, match="system must be a str or a list of Text, got 5"):
        model.request("hi", system=5)  # type: ignore[arg-type]


def test_an_agent_takes_dicts() -> None:
    def tide(port: str) -> str:
        """Tide height at a port."""
        return f"4.2 m in {port}"

    search = {"type": "web_search_20250305", "name": "web_search"}
    scripted = Scripted(CALL, "4.2 m.")
    agent = Agent(scripted.model("anthropic"), tools=[tide, search])
    assert agent.run([{"role": "user", "content": "What is the tide?"}]).output == "4.2 m."
    assert scripted.requests[0].tools[1:] == (WebSearch(extra={"anthropic.verbatim": {"tool": search}}),)
    with pytest.raises(InvalidTool, match="ebb: the tool has no handler"):
        Agent(scripted.model(), tools={"name": "ebb", "description": "Ebb", "input_schema": SCHEMA}).run("hi")


ANTHROPIC_ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"type": "text", "text": "ho"}], (Text("ho"),)),
        (
            [{"type": "text", "text": "ho"}, {"type": "tool_use", "id": "1", "name": "tide", "input": {"a": 1}}],
            (Text("ho"), ToolCall(id="1", name="tide", arguments={"a": 1})),
        ),
    ],
)
def test_a_whole_answer_of_anthropic_is_a_message(content: Any, expected: tuple[Any, ...]) -> None:
    answer = anthropic.types.Message.model_validate({**ANTHROPIC_ANSWER, "content": content})
    for given in (answer, answer.model_dump()):
        messages = messages_from([{"role": "user", "content": "hi"}, given])
        assert messages == (user("hi"), assistant(*expected))


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ({"choices": []}, "pass its choices[0].message"),
        ({"candidates": []}, "pass its candidates[0].content"),
        ({"output": []}, "pass its output, which is a list"),
        ({"output": {"message": {}}, "stopReason": "end_turn"}, "pass its output.message"),
        ({"message": {}}, "pass its message"),
        ({"content": "hi"}, "put content into {'role': 'user', 'content': …}"),
    ],
)
def test_another_whole_answer_is_refused_with_what_to_pass(answer: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        messages_from([answer])
    assert str(refused.value).endswith(f"got dict; {hint}")


def test_an_object_that_is_not_json_is_refused() -> None:
    broken: Any = SimpleNamespace(model_dump=5)
    with pytest.raises(InvalidRequest, match="it must have JSON values, got SimpleNamespace"):
        messages_from([broken])
    assert dump(user("hi"))


# What users write by mistake ------------------------------------------------------------------------------------------

CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
TOOL_USE: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "tide", "input": {}}
CALL_ITEM = {"type": "function_call", "call_id": "c", "name": "tide", "arguments": "{}"}
RESULTS: dict[str, Callable[[object], list[dict[str, Any]]]] = {
    "openai_chat": lambda value: [
        {"role": "assistant", "tool_calls": [CHAT_CALL]},
        {"role": "tool", "tool_call_id": "c", "content": value},
    ],
    "anthropic": lambda value: [
        {"role": "assistant", "content": [TOOL_USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": value}]},
    ],
    "openai_responses": lambda value: [CALL_ITEM, {"type": "function_call_output", "call_id": "c", "output": value}],
}


@pytest.mark.parametrize("value", [{"metres": 4.2}, [1, 2], [{"metres": 4.2}], 4.2, True, {}])
@pytest.mark.parametrize("form", RESULTS)
def test_the_result_of_a_tool_is_any_json_value(form: str, value: object) -> None:
    result = messages_from(RESULTS[form](value))[1].parts[0]
    assert isinstance(result, ToolResult)
    assert json.loads(result.text) == value


@pytest.mark.parametrize("content", ["4.2 m", None, [{"type": "text", "text": "4.2 m"}], ["4.2 m"]])
def test_content_of_a_result_stays_as_it_is(content: object) -> None:
    result = messages_from([{"role": "tool", "tool_call_id": "c", "content": content}])[0].parts[0]
    assert isinstance(result, ToolResult)
    assert result.text == ("" if content is None else "4.2 m")


def test_an_item_that_model_dump_wrote_has_no_nulls() -> None:
    dumped = {**CALL_ITEM, "id": "fc", "async_": None, "caller": None, "status": None}
    assert messages_from([dumped]) == messages_from([{**CALL_ITEM, "id": "fc"}])


def test_messages_of_pydantic_ai_are_refused_with_what_to_write() -> None:
    message = {"parts": [{"content": "hi", "part_kind": "user-prompt"}], "kind": "request"}
    with pytest.raises(InvalidRequest, match=r"messages\[0\] must be a message .* as user\(…\), assistant\(…\)"):
        messages_from([message])
