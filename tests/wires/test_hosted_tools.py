"""Tools that providers run: their definitions, calls and results, on every wire and between the wires."""

import json
from typing import Any

import pytest

from dragoman import codec, wires
from dragoman.errors import InvalidRequest, InvalidTool, Unsupported
from dragoman.events import fold, to_events
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Target
from dragoman.types import (
    Citation,
    CodeExecution,
    FileSearch,
    Finish,
    HostedCall,
    HostedResult,
    HostedTool,
    ImageGeneration,
    Location,
    McpServer,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    WebFetch,
    WebSearch,
    assistant,
    dump,
    load,
    user,
)
from dragoman.wires.common.hosted_tools import arguments_of, queries_of
from tests.support.wires import laws
from tests.support.wires.content import target_of

SEARCH = WebSearch(
    max_uses=2,
    allowed_domains=("example.org",),
    context_size="low",
    location=Location(city="Brest", region="Brittany", country="FR", timezone="Europe/Paris"),
)
SERVER = McpServer(name="wiki", url="https://mcp.example.org/x", token="hidden", allowed_tools=("ask",))
TOOLS: tuple[HostedTool, ...] = (
    SEARCH,
    WebSearch(blocked_domains=("example.org",)),
    WebFetch(max_uses=1, allowed_domains=("example.org",)),
    WebFetch(blocked_domains=("example.org",)),
    CodeExecution(),
    FileSearch(stores=("vs_1",), max_results=3),
    ImageGeneration(size="1024x1024", quality="low", format="png"),
    SERVER,
    McpServer(name="wiki", url="https://mcp.example.org/x"),
)
PLACE = {"type": "approximate", "city": "Brest", "region": "Brittany", "country": "FR", "timezone": "Europe/Paris"}


def at(wire: str, **more: Any) -> Target:
    if not more:
        return target_of(wire)
    return Target(provider="up", model="m", wire=wire, base_url="https://up.invalid/v1", **more)


def sent(request: Request, where: Target) -> Any:
    return json.loads(wires.get(where.wire).client.encode_request(request, where).body)


@pytest.mark.parametrize(
    ("wire", "tool", "definition"),
    [
        (
            "anthropic",
            SEARCH,
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "max_uses": 2,
                "allowed_domains": ["example.org"],
                "user_location": PLACE,
            },
        ),
        (
            "anthropic",
            WebFetch(max_uses=1),
            {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 1, "citations": {"enabled": True}},
        ),
        ("anthropic", CodeExecution(), {"type": "code_execution_20250825", "name": "code_execution"}),
        (
            "openai_responses",
            SEARCH,
            {
                "type": "web_search",
                "filters": {"allowed_domains": ["example.org"]},
                "search_context_size": "low",
                "user_location": PLACE,
            },
        ),
        ("openai_responses", CodeExecution(), {"type": "code_interpreter", "container": {"type": "auto"}}),
        (
            "openai_responses",
            FileSearch(stores="vs_1", max_results=3),
            {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3},
        ),
        ("openai_responses", ImageGeneration(quality="low"), {"type": "image_generation", "quality": "low"}),
        (
            "openai_responses",
            SERVER,
            {
                "type": "mcp",
                "server_label": "wiki",
                "server_url": "https://mcp.example.org/x",
                "authorization": "hidden",
                "allowed_tools": ["ask"],
                "require_approval": "never",
            },
        ),
        ("google", WebSearch(blocked_domains=["a.org"]), {"googleSearch": {"excludeDomains": ["a.org"]}}),
        ("google", WebSearch(), {"googleSearch": {}}),
        ("google", WebFetch(), {"urlContext": {}}),
        ("google", CodeExecution(), {"codeExecution": {}}),
        ("google", FileSearch(stores=["s"]), {"fileSearch": {"fileSearchStoreNames": ["s"]}}),
        ("google_interactions", WebSearch(), {"type": "google_search"}),
        ("google_interactions", WebFetch(), {"type": "url_context"}),
        ("google_interactions", CodeExecution(), {"type": "code_execution"}),
        (
            "google_interactions",
            FileSearch(stores=["s"], max_results=2),
            {"type": "file_search", "file_search_store_names": ["s"], "top_k": 2},
        ),
        (
            "google_interactions",
            SERVER,
            {
                "type": "mcp_server",
                "name": "wiki",
                "url": "https://mcp.example.org/x",
                "headers": {"Authorization": "Bearer hidden"},
                "allowed_tools": [{"tools": ["ask"]}],
            },
        ),
        ("bedrock", WebSearch(), {"systemTool": {"name": "nova_grounding"}}),
        ("bedrock", CodeExecution(), {"systemTool": {"name": "nova_code_interpreter"}}),
        ("native", WebSearch(max_uses=2), {"type": "web_search", "max_uses": 2}),
    ],
)
def test_a_tool_has_the_form_of_its_wire(wire: str, tool: HostedTool, definition: Any) -> None:
    assert codec.encode_definitions([tool], wire) == [definition]


def test_an_mcp_server_of_anthropic_stands_in_a_field_of_its_own() -> None:
    client = wires.get("anthropic").client
    http = client.encode_request(Request(messages=(user("?"),), tools=(SERVER,)), at("anthropic"))
    body = json.loads(http.body)
    server = {"type": "url", "url": "https://mcp.example.org/x", "name": "wiki", "authorization_token": "hidden"}
    assert body["mcp_servers"] == [server]
    assert body["tools"] == [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "wiki",
            "default_config": {"enabled": False},
            "configs": {"ask": {"enabled": True}},
        }
    ]
    assert http.headers["anthropic-beta"] == "mcp-client-2025-11-20"


@pytest.mark.parametrize(
    "older",
    [
        {"mcp_servers": [{"type": "url", "url": "https://m.example", "name": "w", "authorization_token": "t"}]},
        {
            "mcp_servers": [
                {
                    "type": "url",
                    "url": "https://m.example",
                    "name": "w",
                    "tool_configuration": {"allowed_tools": ["ask"]},
                },
                {"type": "url", "url": "ws://other", "name": "x"},
            ],
            "tools": [
                {"type": "mcp_toolset", "mcp_server_name": "w", "configs": {"ask": {"enabled": True}}},
                {"type": "mcp_toolset", "mcp_server_name": "x"},
            ],
        },
        {
            "mcp_servers": [{"type": "url", "url": "https://m.example", "name": "w"}],
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "w", "configs": {"ask": {"enabled": True}}}],
        },
    ],
)
def test_the_mcp_servers_of_a_client_of_anthropic_go_to_any_wire_that_has_them(older: dict[str, Any]) -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "?"}], **older}
    request = decoded("anthropic", "/v1/messages", body)
    own = sent(request, at("anthropic"))
    assert own["mcp_servers"] == older["mcp_servers"]
    assert own.get("tools") == older.get("tools")
    found = [tool for tool in sent(request, at("openai_responses"))["tools"] if tool["type"] == "mcp"]
    assert [tool["server_url"] for tool in found] == ["https://m.example"]
    with pytest.raises(Unsupported, match="ollama/m: does not have MCP servers; use another target, or McpServer"):
        sent(request, at("ollama"))


def decoded(wire: str, path: str, body: Any) -> Request:
    http = HttpRequest(method="POST", path=path, body=json.dumps(body).encode())
    return wires.get(wire).server.decode_request(http)[1]


def test_image_generation_is_an_option_of_google() -> None:
    body = sent(Request(messages=(user("?"),), tools=(ImageGeneration(),)), at("google"))
    assert body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert "tools" not in body


CHAT: list[tuple[str, HostedTool, dict[str, Any]]] = [
    ("groq", WebSearch(), {"tools": [{"type": "browser_search"}]}),
    ("groq", CodeExecution(), {"tools": [{"type": "code_interpreter"}]}),
    (
        "openrouter",
        SEARCH,
        {
            "tools": [
                {
                    "type": "openrouter:web_search",
                    "parameters": {
                        "max_uses": 2,
                        "search_context_size": "low",
                        "allowed_domains": ["example.org"],
                        "user_location": PLACE,
                    },
                }
            ]
        },
    ),
    ("openrouter", WebFetch(), {"tools": [{"type": "openrouter:web_fetch"}]}),
    (
        "openrouter",
        ImageGeneration(size="1x1"),
        {"tools": [{"type": "openrouter:image_generation", "parameters": {"size": "1x1"}}]},
    ),
    (
        "perplexity",
        SEARCH,
        {
            "web_search_options": {
                "search_context_size": "low",
                "user_location": {
                    "type": "approximate",
                    "approximate": {k: v for k, v in PLACE.items() if k != "type"},
                },
            }
        },
    ),
    ("perplexity", WebSearch(), {"web_search_options": {}}),
]


@pytest.mark.parametrize(("provider", "tool", "fields"), CHAT)
def test_a_chat_server_has_the_tools_of_its_record(provider: str, tool: HostedTool, fields: dict[str, Any]) -> None:
    body = sent(Request(messages=(user("?"),), tools=(tool,)), target(f"{provider}/m", api_key="k"))
    assert {name: body.get(name) for name in ("tools", "web_search_options") if name in body} == fields


def test_a_chat_server_may_take_files_and_mcp_servers() -> None:
    from dragoman.targets.target import Quirks

    quirks = Quirks(hosted_tools=("file_search=file_search", "mcp=mcp", "code_execution="))
    tools = (FileSearch(stores=("vs_1",), max_results=3), SERVER, CodeExecution())
    body = sent(Request(messages=(user("?"),), tools=tools), at("openai_chat", quirks=quirks))
    assert body["tools"][0] == {"type": "file_search", "vector_store_ids": ["vs_1"]}
    assert body["tools"][1]["authorization"] == "hidden"
    assert len(body["tools"]) == 2


def test_an_option_that_a_wire_does_not_have_is_a_notice() -> None:
    client = wires.get("google").client
    notices = client.encode_request(Request(messages=(user("?"),), tools=(SEARCH,)), at("google")).notices
    assert {notice.what for notice in notices} == {
        "web_search: max_uses",
        "web_search: allowed_domains",
        "web_search: context_size",
        "web_search: location",
    }
    assert all(notice.kind == "dropped" for notice in notices)


# Clients --------------------------------------------------------------------------------------------------------------

CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "?"}]}),
    "bedrock": ("/model/m/converse", {"messages": [{"role": "user", "content": [{"text": "?"}]}]}),
    "google": ("/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [{"text": "?"}]}]}),
    "google_interactions": ("/v1beta/interactions", {"model": "m", "input": "?"}),
    "native": ("/native/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "?"}]}),
    "openai_chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "?"}]}),
    "openai_responses": ("/v1/responses", {"input": "?"}),
}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: type(tool).__name__)
@pytest.mark.parametrize("wire", [name for name in CLIENTS if name != "openai_chat"])
def test_the_definition_of_a_client_goes_back_to_its_own_wire_unchanged(wire: str, tool: HostedTool) -> None:
    try:
        body = sent(Request(messages=(user("?"),), tools=(tool,)), at(wire))
    except Unsupported:
        return
    if "tools" not in str(body):
        return
    request = decoded(wire, CLIENTS[wire][0], {"model": "m", **body} if wire not in ("bedrock", "google") else body)
    assert [type(each) for each in request.tools] == [type(tool)]
    assert sent(request, at(wire)) == body


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "web_search"}, WebSearch),
        ({"type": "browser_search"}, WebSearch),
        (
            {
                "type": "x:web_search",
                "parameters": {"max_uses": 2, "allowed_domains": ["a"], "search_context_size": "low"},
            },
            WebSearch,
        ),
        ({"type": "x:web_search", "parameters": {"excluded_domains": ["a"], "max_uses": 0}}, WebSearch),
        ({"type": "visit_website"}, WebFetch),
        ({"type": "code_interpreter"}, CodeExecution),
        ({"type": "image_generation", "size": "1x1"}, ImageGeneration),
        ({"type": "file_search", "vector_store_ids": ["v"]}, FileSearch),
        ({"type": "mcp", "server_label": "w", "server_url": "https://m", "authorization": "t"}, McpServer),
    ],
)
def test_a_chat_client_may_use_the_type_of_any_server(data: Any, kind: type) -> None:
    request = decoded(
        "openai_chat", CLIENTS["openai_chat"][0], {"model": "m", "tools": [data], **CLIENTS["openai_chat"][1]}
    )
    assert [type(tool) for tool in request.tools] == [kind]
    assert sent(request, at("openai_chat"))["tools"] == [data]


@pytest.mark.parametrize(
    "options", [{}, {"search_context_size": "low", "user_location": {"approximate": {"city": "B"}}}]
)
def test_a_chat_client_may_turn_on_a_search_by_a_field(options: Any) -> None:
    body = {"model": "m", "web_search_options": options, **CLIENTS["openai_chat"][1]}
    request = decoded("openai_chat", CLIENTS["openai_chat"][0], body)
    assert sent(request, at("openai_chat"))["web_search_options"] == options
    assert sent(request, at("anthropic"))["tools"][0]["type"] == "web_search_20250305"
    assert decoded("openai_chat", CLIENTS["openai_chat"][0], {**body, "web_search_options": 3}).tools == ()


@pytest.mark.parametrize(
    ("wire", "tool"),
    [
        ("openai_responses", {"type": "file_search"}),
        ("openai_responses", {"type": "mcp", "server_label": "w", "connector_id": "c"}),
        ("google", {"fileSearch": {}}),
        ("google", {"googleMaps": {}}),
        ("google_interactions", {"type": "file_search"}),
        ("google_interactions", {"type": "google_maps"}),
        ("anthropic", {"type": "tool_search_tool_regex_20251119", "name": "s"}),
    ],
)
def test_a_tool_without_a_word_stays_as_it_is(wire: str, tool: Any) -> None:
    path, body = CLIENTS[wire]
    request = decoded(wire, path, {"model": "m", **body, "tools": [tool]})
    assert sent(request, at(wire))["tools"] == [tool]


def test_a_search_of_an_older_client_of_google_is_a_web_search() -> None:
    path, body = CLIENTS["google"]
    request = decoded(
        "google",
        path,
        {**body, "tools": [{"googleSearchRetrieval": {}}, {"fileSearch": {"fileSearchStoreNames": ["s"], "topK": 2}}]},
    )
    assert [type(tool) for tool in request.tools] == [WebSearch, FileSearch]


# Targets without the tool ---------------------------------------------------------------------------------------------


def test_a_target_without_the_tool_refuses_it() -> None:
    request = Request(messages=(user("?"),), tools=(WebSearch(),))
    with pytest.raises(
        Unsupported, match=r"ollama/m: does not have web search; use another target, or WebSearch\(fallb"
    ):
        sent(request, at("ollama"))
    with pytest.raises(Unsupported, match="does not have web search"):
        sent(request, at("anthropic", capabilities=Capabilities(hosted_tools=("code_execution",))))
    with pytest.raises(Unsupported, match="ollama: does not have image generation"):
        codec.encode_definitions([ImageGeneration()], "ollama")


def test_a_fallback_stands_in_for_it() -> None:
    def search(query: str) -> str:
        """Search the web."""
        return query

    for fallback in (search, Tool(name="search", description="Search.")):
        request = Request(messages=(user("?"),), tools=(WebSearch(fallback=fallback),))
        http = wires.get("ollama").client.encode_request(request, at("ollama"))
        assert json.loads(http.body)["tools"][0]["function"]["name"] == "search"
        assert [(notice.kind, notice.what) for notice in http.notices] == [("info", "tool web_search")]
        assert sent(request, at("anthropic"))["tools"][0]["name"] == "web_search"
    no_tools = at("openai_chat", capabilities=Capabilities(tools=False))
    with pytest.raises(Unsupported, match="does not have web search"):
        sent(Request(messages=(user("?"),), tools=(WebSearch(fallback=search),)), no_tools)


def test_a_fallback_has_a_name_of_its_own() -> None:
    with pytest.raises(InvalidTool, match="tools must have unique names, but two are named 'a'"):
        Request(tools=(Tool(name="a"), WebSearch(fallback=Tool(name="a"))))


def test_a_tool_survives_storage() -> None:
    request = Request(tools=(*TOOLS, WebSearch(fallback=Tool(name="a", description="b"))))
    assert load(dump(request), Request) == request


# Calls and results ----------------------------------------------------------------------------------------------------

FOUND = (Citation(url="https://example.org/tides", title="Tides"),)
SEARCHED = (
    HostedCall(id="s1", tool="web_search", arguments={"query": "tide at Brest"}),
    HostedResult(id="s1", tool="web_search", sources=FOUND),
)
FETCHED = (
    HostedCall(id="f1", tool="web_fetch", arguments={"url": "https://example.org/tides"}),
    HostedResult(id="f1", tool="web_fetch", content="It turns at six.", sources=FOUND),
)
RUN = (
    HostedCall(id="c1", tool="code_execution", arguments={"code": "print(6)"}),
    HostedResult(id="c1", tool="code_execution", content="6"),
)
ASKED = (
    HostedCall(id="m1", tool="mcp", arguments={"port": "Brest"}, name="ask", server="wiki"),
    HostedResult(id="m1", tool="mcp", content="Six."),
)
FILES = (
    HostedCall(id="v1", tool="file_search", arguments={"queries": ["tide"]}),
    HostedResult(id="v1", tool="file_search", sources=(Citation(source="file_1", title="a.txt", cited_text="Six."),)),
)
FAILED = (
    HostedCall(id="s2", tool="web_search", arguments={"query": "x"}),
    HostedResult(id="s2", tool="web_search", is_error=True),
)
BROKEN = (
    HostedCall(id="c2", tool="code_execution", arguments={"code": "x"}),
    HostedResult(id="c2", tool="code_execution", content="NameError", is_error=True),
)
NOT_FETCHED = (
    HostedCall(id="f2", tool="web_fetch", arguments={"url": "https://example.org"}),
    HostedResult(id="f2", tool="web_fetch", is_error=True),
)
LONE = (HostedCall(id="s3", tool="web_search", arguments={"query": "y"}),)
SAID: dict[str, tuple[HostedCall | HostedResult, ...]] = {
    "search": SEARCHED, "fetch": FETCHED, "code": RUN, "mcp": ASKED, "files": FILES,
    "failed": FAILED, "broken": BROKEN, "not fetched": NOT_FETCHED, "lone": LONE,
}  # fmt: skip
CITED = Text(text="At six.", citations=(Citation(url="https://example.org/tides", title="Tides", start=0, end=7),))
FORMS = {
    "anthropic": {"search", "fetch", "code", "mcp", "failed", "broken", "not fetched", "lone"},
    "bedrock": {"search", "code", "failed", "broken", "lone"},
    "google": {"search", "fetch", "code", "failed", "broken", "not fetched", "lone"},
    "google_interactions": {"search", "fetch", "code", "mcp", "files", "failed", "broken", "not fetched", "lone"},
    "native": {*SAID},
    "ollama": set[str](),
    "openai_chat": {*SAID},
    "openai_responses": {"search", "fetch", "code", "mcp", "files", "failed", "broken", "not fetched", "lone"},
}
"""What the answers of a dialect have a form for."""


def answer(*parts: Any) -> Response:
    return Response(id="r1", model="m", created=1, message=assistant(*parts), finish=Finish(reason="stop"))


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("wire", wires.NAMES)
def test_a_client_gets_the_calls_and_results_of_any_provider(wire: str, name: str) -> None:
    found, client, server = SAID[name], wires.get(wire).client, wires.get(wire).server
    response = answer(*found, CITED)
    supported = all(server.supports_part(part) for part in found)
    assert supported == (name in FORMS[wire])
    whole = fold(client.decode_body(server.encode_body(response, Request()).body))
    encoder = server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in to_events(response))
    events, error = laws.read(client.stream_decoder(Request(stream=True)), [data])
    assert error is None
    for got in (whole, fold(events)):
        hosted = [part for part in got.message.parts if isinstance(part, HostedCall | HostedResult)]
        assert got.text == "At six."
        calls = [part for part in found if isinstance(part, HostedCall)] if supported else []
        assert {part.tool for part in hosted if isinstance(part, HostedCall)} == {call.tool for call in calls}
        if wire != "ollama":
            (cited,) = [part for part in got.message.parts if isinstance(part, Text) and part.text]
            assert [each.url for each in cited.citations][:1] == ["https://example.org/tides"]


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("wire", [wire for wire in wires.NAMES if wire != "native"])
def test_calls_and_results_of_another_wire_are_texts_in_the_history(wire: str, name: str) -> None:
    request = Request(messages=(user("?"), assistant(*SAID[name], CITED), user("And tomorrow?")))
    http = wires.get(wire).client.encode_request(request, at(wire))
    text = json.dumps(json.loads(http.body), ensure_ascii=False)
    for part in SAID[name]:
        assert json.dumps(part.text, ensure_ascii=False)[1:-1] in text or part.text in text
    assert "https://example.org/tides" in text
    assert {notice.what for notice in http.notices if notice.kind == "changed"} >= {f"hosted call {SAID[name][0].tool}"}


@pytest.mark.parametrize("wire", ["anthropic", "openai_responses", "google_interactions", "bedrock"])
def test_a_block_that_the_gateway_wrote_is_not_taken_for_one_of_the_provider(wire: str) -> None:
    server, client = wires.get(wire).server, wires.get(wire).client
    seen = fold(client.decode_body(server.encode_body(answer(*SEARCHED, CITED), Request()).body))
    request = Request(messages=(user("?"), seen.message, user("!")))
    body = json.dumps(sent(request, at(wire)))
    assert "hosted_dragoman_" not in body
    assert "tide at Brest" in body


# Bits -----------------------------------------------------------------------------------------------------------------


def test_a_call_is_a_line_of_text() -> None:
    assert HostedCall(id="1", tool="mcp", server="wiki", name="ask", arguments={"a": 1, "b": 2}).text == (
        'mcp/wiki/ask: {"a":1,"b":2}'
    )
    assert HostedCall(id="1", tool="code_execution").text == "code_execution"
    found = (Citation(document_index=1), Citation(source="f"))
    assert HostedResult(id="1", tool="file_search", content="a", sources=found).text == "a\n[1] document 2\n[2] f"


def test_arguments_may_be_text() -> None:
    assert (arguments_of("[1]"), arguments_of(None), arguments_of("")) == ({"input": "[1]"}, {}, {})
    assert queries_of(HostedCall(id="1", tool="web_search")) == []


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: WebSearch(max_uses=0), "max_uses must be an int >= 1, got 0"),
        (lambda: WebSearch(allowed_domains=["a"], blocked_domains=["b"]), "blocked_domains must be empty"),
        (lambda: McpServer(name="a", url="ftp://x"), "url must be an https URL"),
        (lambda: WebSearch(fallback=3), "fallback must be a function or a Tool, got 3"),
        (lambda: FileSearch(stores=["a"], max_results=0), "max_results must be an int >= 1"),
    ],
)
def test_a_wrong_option_is_refused(make: Any, match: str) -> None:
    with pytest.raises(InvalidRequest, match=match):
        make()


def test_an_mcp_server_does_not_show_its_token() -> None:
    server = McpServer(name="w", url="https://me:pw@m.example/x?key=1", token="hidden")
    assert repr(server) == "McpServer(name='w', url='https://m.example/x')"
    assert server.__rich_repr__() == [("name", "w"), ("url", "https://m.example/x")]


# What providers and clients may write otherwise -----------------------------------------------------------------------


def body_of(wire: str, *items: Any) -> Response:
    bodies: dict[str, Any] = {
        "anthropic": {"id": "a", "model": "m", "content": items, "stop_reason": "end_turn"},
        "bedrock": {"output": {"message": {"content": items}}, "stopReason": "end_turn"},
        "google": {"candidates": [{"finishReason": "STOP", **(items[0] if items else {})}]},
        "google_interactions": {"status": "completed", "steps": items},
        "openai_chat": {"choices": [{"message": items[0], "finish_reason": "stop"}]},
        "openai_responses": {"id": "r", "status": "completed", "output": items},
    }
    return wires.get(wire).client.decode_response(json.dumps(bodies[wire]).encode())


@pytest.mark.parametrize(
    ("wire", "item"),
    [
        ("anthropic", {"type": "server_tool_use", "name": "web_search"}),
        ("anthropic", {"type": "web_search_tool_result", "content": []}),
        ("google_interactions", {"type": "google_search_call"}),
    ],
)
def test_a_block_without_its_id_stays_as_it_is(wire: str, item: Any) -> None:
    (part,) = body_of(wire, item).message.parts
    assert part == Opaque(wire=wire, data=item)


def test_other_forms_of_results() -> None:
    source = {"type": "content", "content": "Six."}
    page = {"type": "web_fetch_result", "url": "https://x", "content": {"type": "document", "source": source}}
    block = {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": page}
    (part,) = body_of("anthropic", block).message.parts
    assert isinstance(part, HostedResult)
    assert part.content == "Six."
    result = {"toolUseId": "h", "type": "nova_grounding_result", "content": [{"text": "Six."}, {"json": {"a": 1}}, 7]}
    response = body_of("bedrock", {"toolResult": result})
    (part,) = response.message.parts
    assert isinstance(part, HostedResult)
    assert (part.tool, part.content) == ("web_search", 'Six.\n{"json":{"a":1}}')
    body = json.loads(wires.get("bedrock").server.encode_body(response).body)
    assert body["output"]["message"]["content"] == [{"toolResult": result}]


def test_a_search_besides_those_of_the_vocabulary_has_its_own_name() -> None:
    item = {"type": "x_search_call", "id": "x1", "status": "completed", "arguments": '{"query":"tide"}'}
    response = body_of("openai_responses", item)
    (part,) = response.message.parts
    assert part == HostedCall(id="x1", tool="x_search", arguments={"query": "tide"}, extra={"openai_responses": item})
    foreign = answer(HostedCall(id="x1", tool="x_search", arguments={"query": "tide"}))
    for wire in ("openai_responses", "google_interactions"):
        server = wires.get(wire).server
        assert not server.supports_part(foreign.message.parts[0])
        assert b"tide" not in server.encode_body(foreign, Request()).body
    assert b"hosted" not in wires.get("openai_responses").server.encode_body(answer(SEARCHED[1]), Request()).body


def test_an_odd_page_of_google_is_left_out() -> None:
    pages = {"urlMetadata": [7, {"urlRetrievalStatus": "X"}, {"retrieved_url": "https://x"}]}
    response = body_of("google", {"content": {"parts": [{"text": "Six."}]}, "urlContextMetadata": pages})
    calls = [part for part in response.message.parts if isinstance(part, HostedCall)]
    assert [call.arguments for call in calls] == [{"url": "https://x"}]


def test_places_of_google_are_bytes() -> None:
    text = "Ébb at six. Ébb at six."
    segments: list[Any] = [
        {"segment": {"endIndex": 12, "text": "Ébb at six."}, "groundingChunkIndices": [0, 7]},
        {"segment": {"startIndex": 1, "endIndex": 3, "text": "at six"}, "groundingChunkIndices": [0]},
        {"groundingChunkIndices": [0]},
        7,
    ]
    notes = {"groundingChunks": [{"web": {"uri": "https://x"}}, 7], "groundingSupports": segments}
    response = body_of("google", {"content": {"parts": [{"text": text}]}, "groundingMetadata": notes})
    (part, *_) = response.message.parts
    assert isinstance(part, Text)
    assert [(each.start, each.end) for each in part.citations] == [(0, 11), (4, 10), (None, None)]


def test_spans_of_cohere_are_citations() -> None:
    sources = [{"type": "document", "id": "d1", "document": {"title": "Tides", "snippet": "Six.", "url": "https://x"}}]
    spans: list[Any] = [
        {"start": 0, "end": 3, "text": "At ", "sources": sources},
        {"start": 3, "end": 6, "text": "six", "sources": []},
    ]
    response = body_of("openai_chat", {"role": "assistant", "content": "At six.", "citations": spans})
    (part,) = response.message.parts
    assert isinstance(part, Text)
    first = Citation(url="https://x", title="Tides", source="d1", start=0, end=3, cited_text="Six.")
    assert part.citations == (first, Citation(start=3, end=6))


@pytest.mark.parametrize("wire", ["anthropic", "bedrock"])
def test_a_citation_of_a_document_has_its_place(wire: str) -> None:
    citation = Citation(
        title="a.pdf", document_index=1, cited_text="Six.", source_unit="pages", source_start=2, source_end=3
    )
    server, client = wires.get(wire).server, wires.get(wire).client
    response = answer(Text(text="At six.", citations=(citation, Citation(title="b.txt", document_index=0))))
    seen = fold(client.decode_body(server.encode_body(response).body))
    (part,) = seen.message.parts
    assert isinstance(part, Text)
    assert part.citations[0] == citation
    assert part.citations[1].document_index == 0


def test_a_file_is_an_annotation() -> None:
    response = answer(Text(text="At six.", citations=(Citation(source="file_1", title="a.txt", document_index=2),)))
    body = json.loads(wires.get("openai_responses").server.encode_body(response, Request()).body)
    note = {"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 2}
    assert body["output"][0]["content"][0]["annotations"] == [note]


def test_a_source_that_stands_in_the_text_is_not_repeated() -> None:
    text = Text(text="See https://x.", citations=(Citation(url="https://x"),))
    http = wires.get("ollama").client.encode_request(Request(messages=(user("?"), assistant(text))), at("ollama"))
    assert json.loads(http.body)["messages"][1]["content"] == "See https://x."
    assert http.notices == ()


def test_what_a_chat_client_sends_back_is_read() -> None:
    path, body = CLIENTS["openai_chat"]
    note = {
        "type": "url_citation",
        "url_citation": {"url": "https://x", "title": "X", "start_index": 0, "end_index": 3},
    }
    entry = {"index": 0, "type": "search", "arguments": '{"query":"tide"}', "output": "Six."}
    said = {"role": "assistant", "content": "At six.", "annotations": [note], "executed_tools": [entry, 7]}
    request = decoded("openai_chat", path, {"model": "m", "messages": [*body["messages"], said, *body["messages"]]})
    call, result, text = request.messages[1].parts
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert isinstance(text, Text)
    assert (call.arguments, result.content, text.citations[0].url) == ({"query": "tide"}, "Six.", "https://x")
    assert sent(request, at("openai_chat"))["messages"][1]["annotations"] == [note]
    assert "https://x" in json.dumps(sent(request, at("ollama")))
    silent = {**said, "content": None, "executed_tools": 7}
    request = decoded("openai_chat", path, {"model": "m", "messages": [*body["messages"], silent]})
    assert request.messages[1].parts == ()


def test_a_block_of_the_system_prompt_may_be_left_out() -> None:
    point = Opaque(wire="bedrock", data={"x": {}}, is_optional=True)
    request = Request(messages=(Message(role="system", parts=(point, Text(text="Be brief."))), user("?")))
    assert sent(request, at("ollama"))["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_tool_of_the_input_that_only_one_provider_has_is_a_notice_elsewhere() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [{"type": "new_tool"}]}
    request = decoded(
        "openai_responses", "/v1/responses", {"model": "m", "input": [item, {"role": "user", "content": "?"}]}
    )
    assert sent(request, at("openai_responses"))["input"][0] == item
    assert "tools" not in sent(request, at("openai_responses"))
    notices = wires.get("ollama").client.encode_request(request, at("ollama")).notices
    assert "dropped" in {notice.kind for notice in notices}


def test_a_context_of_a_document_is_a_text_before_it_elsewhere() -> None:
    path, body = CLIENTS["anthropic"]
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    document = {"type": "document", "source": source, "context": "A bill."}
    request = decoded("anthropic", path, {"model": "m", **body, "messages": [{"role": "user", "content": [document]}]})
    assert sent(request, at("anthropic"))["messages"][0]["content"] == [document]
    content = sent(request, at("openai_responses"))["input"][0]["content"]
    assert content[0] == {"type": "input_text", "text": "A bill."}


def test_is_optional_must_be_a_flag() -> None:
    wrong: Any = 1
    with pytest.raises(InvalidRequest, match="is_optional must be True or False, got 1"):
        Opaque(wire="w", data={}, is_optional=wrong)
    with pytest.raises(InvalidRequest, match="fallback must be a function or a Tool, got dict"):
        WebSearch(fallback={"a": 1})


def test_a_citation_that_the_gateway_wrote_is_not_taken_for_one_of_anthropic() -> None:
    path, body = CLIENTS["anthropic"]
    own = {
        "type": "web_search_result_location",
        "cited_text": "",
        "title": "X",
        "url": "https://x",
        "encrypted_index": "",
    }
    said = {"role": "assistant", "content": [{"type": "text", "text": "At six.", "citations": [own]}]}
    request = decoded(
        "anthropic", path, {"model": "m", **body, "messages": [*body["messages"], said, *body["messages"]]}
    )
    answered = sent(request, at("anthropic"))["messages"][1]
    assert answered == {"role": "assistant", "content": "At six.\n\nSources:\n[1] X: https://x"}


def test_other_tools_of_bedrock_stay_as_they_are() -> None:
    tool = {"systemTool": {"name": "other"}}
    path, body = CLIENTS["bedrock"]
    request = decoded("bedrock", path, {**body, "toolConfig": {"tools": [tool]}})
    assert sent(request, at("bedrock"))["toolConfig"]["tools"] == [tool]


def test_a_request_of_which_nothing_is_left_is_refused() -> None:
    thought = Request(messages=(Message(role="user", parts=(Thinking(text="?"),)),))
    for wire in [name for name in wires.NAMES if name != "native"]:  # native carries all
        with pytest.raises(Unsupported, match="messages must contain a supported part"):
            sent(thought, at(wire))


def test_annotations_without_a_text_are_left_alone() -> None:
    path, body = CLIENTS["openai_chat"]
    call = {"id": "c", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    note = {"type": "url_citation", "url_citation": {"url": "https://x"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call], "annotations": [note]}
    request = decoded("openai_chat", path, {"model": "m", "messages": [*body["messages"], said]})
    assert [type(part) for part in request.messages[1].parts] == [ToolCall]


def at_bedrock(spec: str) -> bytes:
    target = Registry(env={"AWS_REGION": "eu-west-1"}).target(spec)
    request = Request(messages=(user("hi"),), tools=(WebSearch(),), max_tokens=9)
    return wires.get(target.wire).client.encode_request(request, target).body


def test_models_of_amazon_search_at_bedrock() -> None:
    assert b"nova_grounding" in at_bedrock("bedrock/us.amazon.nova-premier-v1:0")


@pytest.mark.parametrize(
    "spec",
    [
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/meta.llama3-70b-instruct-v1:0",
        "bedrock-anthropic/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_other_models_do_not_search_at_bedrock(spec: str) -> None:
    with pytest.raises(Unsupported, match="does not have web search"):
        at_bedrock(spec)


@pytest.mark.parametrize("sources", [7, True, "x", None, [None, {"url": "https://a.example"}]])
def test_a_search_with_odd_sources_is_read(sources: object) -> None:
    item = {
        "type": "web_search_call",
        "id": "w",
        "status": "completed",
        "action": {"type": "search", "sources": sources},
    }
    body = json.dumps({"id": "r", "status": "completed", "output": [item]}).encode()
    (call, *results) = fold(wires.get("openai_responses").client.decode_body(body)).message.parts
    assert isinstance(call, HostedCall)
    assert len(results) == (1 if isinstance(sources, list) else 0)


LOST: list[tuple[str, dict[str, Any], str, set[str]]] = [
    (
        "openai_responses",
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}},
        "anthropic",
        {"code_execution: file_ids"},
    ),
    ("openai_responses", {"type": "code_interpreter", "container": "cntr_1"}, "google", {"code_execution: container"}),
    ("openai_responses", {"type": "code_interpreter", "container": {"type": "auto"}}, "anthropic", set()),
    (
        "openai_responses",
        {"type": "web_search", "user_location": {"type": "approximate", "city": "Brest", "region": None}},
        "anthropic",
        set(),
    ),
    (
        "openai_responses",
        {"type": "image_generation", "background": "auto", "quality": "high", "output_format": "jpeg", "n": 2},
        "google",
        {"image_generation: quality", "image_generation: format", "image_generation: n"},
    ),
    (
        "openai_responses",
        {"type": "mcp", "server_label": "tides", "server_url": "https://mcp.example", "headers": {"x-team": "auto"}},
        "anthropic",
        {"mcp: headers", "mcp: require_approval"},
    ),
    (
        "openai_responses",
        {
            "type": "mcp",
            "server_label": "tides",
            "server_url": "https://mcp.example",
            "require_approval": "never",
            "allowed_tools": {"tool_names": ["tide"]},
        },
        "anthropic",
        set(),
    ),
    (
        "anthropic",
        {"type": "web_fetch_20260318", "name": "web_fetch", "max_content_tokens": 900, "citations": {"enabled": False}},
        "google",
        {"web_fetch: max_content_tokens"},
    ),
    (
        "anthropic",
        {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"], "cache_control": {"a": 1}},
        "openai_responses",
        set(),
    ),
    (
        "google",
        {"googleSearch": {"timeRangeFilter": {"startTime": "2026-01-01T00:00:00Z"}, "excludeDomains": ["a.example"]}},
        "anthropic",
        {"web_search: timeRangeFilter"},
    ),
    (
        "google_interactions",
        {"type": "google_search", "search_types": ["web_search", "image_search"]},
        "anthropic",
        {"web_search: search_types"},
    ),
    ("google_interactions", {"type": "google_search", "search_types": ["web_search"]}, "anthropic", set()),
    (
        "openai_responses",
        {"type": "web_search", "external_web_access": True, "search_content_types": ["text"]},
        "anthropic",
        set(),
    ),
    (
        "openai_responses",
        {"type": "web_search", "external_web_access": False},
        "anthropic",
        {"web_search: external_web_access"},
    ),
    (
        "openai_responses",
        {
            "type": "file_search",
            "vector_store_ids": ["a"],
            "ranking_options": {"ranker": "auto", "score_threshold": 0},
        },
        "google",
        set(),
    ),
    (
        "openai_responses",
        {
            "type": "file_search",
            "vector_store_ids": ["a"],
            "ranking_options": {"ranker": "auto", "score_threshold": 0.5},
        },
        "google",
        {"file_search: ranking_options"},
    ),
]


@pytest.mark.parametrize(("origin", "tool", "home", "lost"), LOST)
def test_what_another_wire_cannot_say_of_a_tool_has_a_notice(
    origin: str, tool: dict[str, Any], home: str, lost: set[str]
) -> None:
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "anthropic": ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}),
        "google": ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "?"}]}]}),
        "google_interactions": ("/v1beta/interactions", {"input": "?"}),
        "openai_responses": ("/v1/responses", {"input": "?"}),
    }
    path, body = bodies[origin]
    http = HttpRequest(method="POST", path=path, body=json.dumps({"model": "m", **body, "tools": [tool]}).encode())
    _, request = wires.get(origin).server.decode_request(http)
    homes = {"openai_responses": "openai-responses"}
    sent = wires.get(home).client.encode_request(request, target(f"{homes.get(home, home)}/m", api_key="k"))
    assert {notice.what for notice in sent.notices if notice.what.partition(":")[1]} == lost
    own = {"google_interactions": "google-interactions", **homes}.get(origin, origin)
    back = wires.get(origin).client.encode_request(request, target(f"{own}/m", api_key="k"))
    assert [notice for notice in back.notices if notice.loss] == []
    assert json.loads(back.body)["tools"] == [tool]


def test_a_function_that_only_code_was_to_call_has_a_notice() -> None:
    tool = {"name": "tide", "input_schema": {"type": "object"}, "allowed_callers": ["code_execution_20260521"]}
    for callers, notices in ((tool["allowed_callers"], ["tool tide"]), (["direct"], [])):
        body = {"model": "m", "max_tokens": 900, "messages": [{"role": "user", "content": "?"}]}
        data = json.dumps({**body, "tools": [{**tool, "allowed_callers": callers}]}).encode()
        _, request = wires.get("anthropic").server.decode_request(
            HttpRequest(method="POST", path="/v1/messages", body=data)
        )
        sent = wires.get("openai_chat").client.encode_request(request, target("openai/m", api_key="k"))
        assert [notice.what for notice in sent.notices if notice.loss] == notices
