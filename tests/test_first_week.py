"""What users of other libraries type first: their names of options, their tool choices, calls without a prompt."""

import asyncio
import json
from typing import Any

import pytest

import dragoman
from dragoman import Agent, Image, InvalidRequest, Registry, SetupError, Tool, ToolResult, system, tool_results, user
from dragoman.engine.call_options import CallOptions
from dragoman.gateway.request import notice_headers
from dragoman.targets.option_hints import OPTION_HINTS
from dragoman.testing import FaultyServer, RawResponse, Scripted
from dragoman.types import Notice

TIDE = Tool(name="tide")


# Options of other libraries ------------------------------------------------------------------------------------------

MIGRANTS = (
    "max_completion_tokens response_format extra_body extra_headers stop_sequences thinking reasoning_effort api_base "
    "num_retries messages functions function_call max_retries request_timeout instructions output_type"
).split()


@pytest.mark.parametrize("name", sorted({*MIGRANTS, *OPTION_HINTS} - {"model"}))
def test_an_option_of_another_library_is_refused_with_what_to_write(name: str) -> None:
    option: Any = {name: 1}
    for call in (
        lambda: dragoman.generate("demo/any", "hi", **option),
        lambda: dragoman.stream("demo/any", "hi", **option),
        lambda: dragoman.model("demo/any", **option),
        lambda: Registry(env={}).model("demo/any").count_tokens("hi", **option),
    ):
        with pytest.raises(InvalidRequest) as refused:
            call()
        assert str(refused.value) == f"unknown option {name!r}; write {OPTION_HINTS[name]}"
        assert refused.value.param == name


def test_stream_and_model_are_refused_with_what_to_write() -> None:
    options: Any = {"stream": True}, {"model": "demo/any"}
    with pytest.raises(InvalidRequest, match=r"^stream is not an option; call stream\(\) or astream\(\)"):
        dragoman.model("demo/any", **options[0])
    with pytest.raises(InvalidRequest, match=r"^unknown option 'model'; write the spec first"):
        dragoman.model("demo/any").generate("hi", **options[1])


def test_a_list_of_fallbacks_is_refused_with_the_spec_to_write() -> None:
    options: Any = {"fallbacks": ["openai/gpt-5"]}
    with pytest.raises(
        SetupError, match=r"fallbacks must be a dict .*, got list; to try other targets after any error, write"
    ) as no:
        dragoman.generate("demo/any", "hi", **options)
    assert no.value.param == "fallbacks"


def test_no_hint_names_an_option_that_exists() -> None:
    known = {*CallOptions.__annotations__}
    assert known.isdisjoint(OPTION_HINTS)


@pytest.mark.parametrize("name", ["instructions", "system_prompt", "output_type", "deps_type"])
def test_an_agent_says_what_to_write_too(name: str) -> None:
    option: Any = {name: "x"}
    with pytest.raises(InvalidRequest) as refused:
        Agent("demo/any", **option)
    assert str(refused.value) == f"Agent has no option {name}; write {OPTION_HINTS[name]}"
    with pytest.raises(InvalidRequest, match="Agent has no option colour; the options are output, system, "):
        Agent("demo/any", colour=1)  # type: ignore[call-overload]
    typo: Any = {"toolz": []}
    with pytest.raises(InvalidRequest, match=r"Agent has no option toolz; did you mean 'tools'\?") as refused:
        Agent("demo/any", **typo)
    assert refused.value.param == "toolz"


def test_an_agent_says_how_to_stream() -> None:
    option: Any = {"stream": True}
    with pytest.raises(InvalidRequest, match=r"^Agent has no option stream; call agent\.stream\(…\) or agent\.astr"):
        Agent("demo/any", **option)
    with pytest.raises(InvalidRequest, match=r"^stream is not an option; call stream\(\) or astream\(\)") as refused:
        Agent("demo/any").run("hi", **option)
    assert refused.value.param == "stream"


@pytest.mark.parametrize("name", ["retries", "temperature", "api_key"])
def test_an_agent_says_where_an_option_of_the_model_belongs(name: str) -> None:
    option: Any = {name: 0}
    with pytest.raises(InvalidRequest) as refused:
        Agent("demo/any", **option)
    where = f"write Agent(dragoman.model('…', {name}=…)), or run(…, {name}=…)"
    assert str(refused.value) == f"Agent has no option {name}; it is an option of the model: {where}"
    assert refused.value.param == name
    assert Agent(dragoman.model("demo/any", retries=0)).run("hi", retries=0).output


# Calls without a prompt ----------------------------------------------------------------------------------------------

MESSAGES = [{"role": "user", "content": "hi"}]
METHODS = ("generate", "agenerate", "stream", "astream", "explain", "count_tokens", "acount_tokens")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("of_model", [True, False])
def test_messages_instead_of_a_prompt_are_refused_with_what_to_write(name: str, of_model: bool) -> None:  # noqa: FBT001
    function = getattr(dragoman.model("demo/any") if of_model else dragoman, name)
    first = {} if of_model else {"model": "demo/any"}

    def call(**options: Any) -> None:
        result = function(**first, **options)
        if asyncio.iscoroutine(result):
            asyncio.run(result)

    with pytest.raises(InvalidRequest, match=r"^unknown option 'messages'; write the messages in place of the prompt"):
        call(messages=MESSAGES)
    with pytest.raises(InvalidRequest, match=r"^prompt must be .*, got None; pass it after the model") as refused:
        call()
    assert refused.value.param == "prompt"


def test_a_model_in_place_of_a_spec_is_refused_with_what_to_write() -> None:
    model: Any = dragoman.model("demo/any")
    with pytest.raises(SetupError, match=r"got Model; call its methods, such as model\.generate\(prompt\)$"):
        dragoman.generate(model, "hi")


def test_a_response_in_a_history_is_refused_with_what_to_write() -> None:
    history: Any = [user("a"), dragoman.generate("demo/any", "a"), user("b")]
    with pytest.raises(InvalidRequest, match=r"^prompt must be .*, got Response; write response\.message$"):
        dragoman.generate("demo/any", history)


def test_a_message_is_made_from_parts_or_from_one_list_of_them() -> None:
    assert user(["a", "b"]) == user("a", "b")
    assert user([{"type": "text", "text": "a"}]) == user("a")
    assert system(("a",)) == system("a")
    result = ToolResult(id="1", content="4.2 m")
    assert tool_results([result]) == tool_results(result)
    wrong: Any = ["a"], [["b"]], [1]
    for parts in ((wrong[0], wrong[0]), (wrong[1],), (wrong[2],)):
        with pytest.raises(InvalidRequest, match=r"^parts must be a str, a part "):
            user(*parts)


# Tool choices of other SDKs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("any", "required"),
        ({"type": "function", "function": {"name": "tide"}}, "tide"),
        ({"type": "function", "name": "tide"}, "tide"),
        ({"type": "tool", "name": "tide"}, "tide"),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["tide"]}}, "tide"),
        ({"allowed_tools": {"mode": "any", "tools": ["tide"]}}, "tide"),
        ({"function_calling_config": {"mode": "ANY"}}, "required"),
        ({"tool": {"name": "tide"}}, "tide"),
        ({"any": {}}, "required"),
    ],
)
def test_the_tool_choice_of_another_sdk_is_read(choice: Any, expected: str) -> None:
    script = Scripted("a", "b")
    script.model().generate("hi", tools=[TIDE], tool_choice=choice)
    script.model(tool_choice=choice).generate("hi", tools=[TIDE])
    assert [request.tool_choice for request in script.requests] == [expected, expected]


def test_a_tool_may_have_the_name_any_and_a_choice_may_forbid_parallel_calls() -> None:
    script = Scripted("a", "b")
    script.model().generate("hi", tools=[Tool(name="any")], tool_choice="any")
    choice = {"type": "any", "disable_parallel_tool_use": True}
    script.model().generate("hi", tools=[TIDE], tool_choice=choice)
    first, second = script.requests
    assert (first.tool_choice, first.parallel_tool_calls) == ("any", None)
    assert (second.tool_choice, second.parallel_tool_calls) == ("required", False)


@pytest.mark.parametrize(
    "choice",
    [
        True,
        3,
        TIDE,
        ["tide"],
        {},
        {"type": "allowed_tools"},
        {"type": 3},
        {"type": ["tool"]},
        {"function": {}},
        {"type": "custom", "custom": {"name": "tide"}},
        {"type": "tool"},
        {"functionCallingConfig": 3},
        {"allowed_tools": 3},
        {"x": object()},
        {"type": "tool", "name": "ebb"},
    ],
)
def test_another_tool_choice_is_refused_by_name(choice: Any) -> None:
    with pytest.raises(InvalidRequest, match="tool_choice must be 'auto', 'none', 'required' or ") as refused:
        dragoman.generate("demo/any", "hi", tools=[TIDE], tool_choice=choice)
    assert refused.value.param == "tool_choice"


# Explanations and images ---------------------------------------------------------------------------------------------


def test_explain_shows_a_typed_answer_as_it_is_sent() -> None:
    script = Scripted('{"value": 3}')
    assert script.model().extract(int, "How many?") == 3
    (sent,) = script.requests
    explained, by_tool = dragoman.explain("openai/gpt-4o, deepseek/deepseek-chat", "How many?", output=int)
    assert explained.request is not None
    assert by_tool.request is not None
    body = json.loads(explained.request.body)
    assert body["response_format"]["json_schema"]["schema"] == sent.schema
    assert body["response_format"]["json_schema"]["name"] == sent.schema_name
    assert sent.schema == json.loads(by_tool.request.body)["tools"][0]["function"]["parameters"]
    with pytest.raises(InvalidRequest, match="output"):
        dragoman.explain("demo/any", "hi", output=3)


def test_explain_says_that_an_image_is_fetched_later() -> None:
    image = Image.from_url("https://example.org/a.png")
    (explained,) = dragoman.explain("ollama/llava", ["What is it?", image], fetch_images=True)
    assert explained.request is None
    assert explained.reason == "images by URL are fetched when the call is made"


def test_an_image_by_url() -> None:
    url = "https://example.org/a.png"
    assert Image.from_url(url, detail="low") == Image(url=url, detail="low")
    assert Image.from_url("data:image/gif;base64,R0lGODlh") == Image(data=b"GIF89a", mime="image/gif")
    assert Image.from_url("data:;base64,R0lGODlh", mime="image/gif").mime == "image/gif"
    wrong: Any = 3
    with pytest.raises(InvalidRequest, match=r"^url must be a str, got 3$"):
        Image.from_url(wrong)
    with pytest.raises(InvalidRequest, match=r"^url: data must be base64") as refused:
        Image.from_url("data:image/png;base64,@@")
    assert refused.value.param == "url"


# Notices -------------------------------------------------------------------------------------------------------------


def test_a_notice_stands_once_in_a_response() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    choice = {"message": {"tool_calls": [call, call, call]}, "finish_reason": "tool_calls"}
    body = json.dumps({"choices": [choice]}).encode()
    with FaultyServer(RawResponse(headers={"content-type": "application/json"}, body=body)) as server:
        registry = Registry(env={})
        registry.add_provider(name="box", like="vllm", base_url=server.base_url())
        response = registry.model("box/m").generate("hi", tools=[TIDE], service_tier="flex")
    whats = [notice.what for notice in response.notices]
    assert sorted(whats) == ["service_tier", "tool call tide"]


def test_a_notice_stands_once_in_the_headers() -> None:
    notice = Notice(kind="dropped", what="n", why="not supported")
    other = Notice(kind="dropped", what="seed", why="not supported")
    values = [value for _, value in notice_headers((notice, other, notice))]
    assert values == ["dropped n: not supported", "dropped seed: not supported"]
