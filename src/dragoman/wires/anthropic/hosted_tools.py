"""Tools that Anthropic runs: their definitions, and the blocks of their calls and results, for client and server."""

import re
from collections.abc import Iterable
from typing import Any, Literal

from dragoman.types import (
    Citation,
    CodeExecution,
    HostedCall,
    HostedResult,
    HostedTool,
    JsonObject,
    McpServer,
    WebFetch,
    WebSearch,
    is_list,
    is_object,
)
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.common.citations import first_text, text_or_none
from dragoman.wires.common.hosted_tools import (
    block_extra,
    count_of,
    covered_tool,
    location_fields,
    mark_unsupported,
    note_options,
    own_block,
    own_id,
    query_of,
    read_location,
    texts_of,
)
from dragoman.wires.common.json import encode_json, object_of, without_none
from dragoman.wires.common.notices import NoticeCollector

_SEARCH, _FETCH, _CODE = "web_search_20250305", "web_fetch_20250910", "code_execution_20250825"
"""The versions that all models with these tools have (2026-11)."""
MCP_BETA = "mcp-client-2025-11-20"
_CODE_TOOLS = ("code_execution", "bash_code_execution", "text_editor_code_execution")
_TOOLS = {"web_search": "web_search", "web_fetch": "web_fetch", **dict.fromkeys(_CODE_TOOLS, "code_execution")}
"""Our names of the tools, by those of the provider."""


# Definitions ----------------------------------------------------------------------------------------------------------


def encode_hosted_tool(tool: HostedTool, notices: NoticeCollector) -> JsonObject | None:
    """The definition of a tool that the provider runs; None if there is none for it."""
    match tool:
        case WebSearch():
            note_options(tool, ("max_uses", "allowed_domains", "blocked_domains", "location"), notices)
            place = tool.location
            location = None if place is None else {"type": "approximate", **location_fields(place)}
            return {**_definition(_SEARCH, "web_search", tool), **without_none({"user_location": location})}
        case WebFetch():
            return {**_definition(_FETCH, "web_fetch", tool), "citations": {"enabled": True}}
        case CodeExecution():
            return {"type": _CODE, "name": "code_execution"}
        case McpServer():
            definition: JsonObject = {"type": "mcp_toolset", "mcp_server_name": tool.name}
            if tool.allowed_tools:
                configs = {name: {"enabled": True} for name in tool.allowed_tools}
                definition |= {"default_config": {"enabled": False}, "configs": configs}
            return definition
        case _:
            return None


def _definition(kind: str, name: str, tool: WebSearch | WebFetch) -> JsonObject:
    fields = {
        "max_uses": tool.max_uses,
        "allowed_domains": [*tool.allowed_domains] or None,
        "blocked_domains": [*tool.blocked_domains] or None,
    }
    return {"type": kind, "name": name, **without_none(fields)}


def encode_mcp_server(server: McpServer) -> JsonObject:
    """The entry of a server in the list `mcp_servers` of a request."""
    token = {"authorization_token": server.token} if server.token else {}
    return {"type": "url", "url": server.url, "name": server.name, **token}


def decode_mcp_servers(servers: object, tools: Iterable[JsonObject]) -> list[McpServer]:
    """The MCP servers of a request. The tool that names one stays as it is; older clients have none."""
    by_name = {tool.get("mcp_server_name"): tool for tool in tools if tool.get("type") == "mcp_toolset"}
    decoded: list[McpServer] = []
    for server in servers if is_list(servers) else ():
        match server:
            case {"name": str(name), "url": str(url)} if url.startswith("http"):
                tool = by_name.get(name, {})
                config = server.get("tool_configuration")
                allowed = texts_of(config.get("allowed_tools")) if is_object(config) else ()
                configs = tool.get("configs")
                if not allowed and is_object(configs):
                    allowed = tuple(name for name, own in configs.items() if is_object(own) and own.get("enabled"))
                token = text_or_none(server.get("authorization_token"))
                extra = covered_tool(NAME, tool)
                decoded.append(McpServer(name=name, url=url, token=token, allowed_tools=allowed, extra=extra))
            case _:
                continue
    return decoded


def decode_hosted_tool(data: JsonObject) -> HostedTool | None:
    """The inverse of `encode_hosted_tool`; None for other tools. An MCP server needs more than its tool."""
    tool = _decode_tool(data)
    return tool and mark_unsupported(tool, NAME, data, encode_hosted_tool(tool, NoticeCollector(NAME)))


def _decode_tool(data: JsonObject) -> HostedTool | None:
    kind = re.fullmatch(r"(web_search|web_fetch|code_execution)_\d{8}", str(data.get("type")))
    extra = covered_tool(NAME, data)
    if kind is None:
        return None
    if kind[1] == "code_execution":
        return CodeExecution(extra=extra)
    allowed = texts_of(data.get("allowed_domains"))
    limits: dict[str, Any] = {
        "max_uses": count_of(data.get("max_uses")),
        "allowed_domains": allowed,
        "blocked_domains": () if allowed else texts_of(data.get("blocked_domains")),
    }
    if kind[1] == "web_fetch":
        return WebFetch(**limits, extra=extra)
    return WebSearch(**limits, location=read_location(data.get("user_location")), extra=extra)


# Calls and results ----------------------------------------------------------------------------------------------------


def decode_call(data: JsonObject, _: str) -> HostedCall | None:
    """The call in a `server_tool_use` or `mcp_tool_use` block."""
    id, name, input = data.get("id"), data.get("name"), data.get("input")
    if not isinstance(id, str) or not isinstance(name, str):
        return None
    is_mcp = data.get("type") == "mcp_tool_use"
    return HostedCall(
        id=id,
        tool="mcp" if is_mcp else _TOOLS.get(name, name),
        arguments=object_of(input),
        name=name if is_mcp else None,
        server=text_or_none(data.get("server_name")) if is_mcp else None,
        extra=block_extra(NAME, data, id),
    )


def decode_hosted_result(data: JsonObject, _: str) -> HostedResult | None:
    """The result in a block whose type ends in `tool_result`."""
    id, content = data.get("tool_use_id"), data.get("content")
    if not isinstance(id, str):
        return None
    name = str(data["type"]).removesuffix("_tool_result")
    error = first_text(content, "error_message", "error_code") if is_object(content) else None
    text, sources = _read_content(content)
    return HostedResult(
        id=id,
        tool=_TOOLS.get(name, name),
        content=error or text,
        sources=tuple(sources),
        is_error=bool(error) or data.get("is_error") is True,
        extra=block_extra(NAME, data, id),
    )


def _read_content(content: object) -> tuple[str, list[Citation]]:
    """What a tool returned, as text and sources."""
    if isinstance(content, str):
        return content, []
    if is_list(content):
        blocks = [block for block in content if is_object(block)]
        sources = [_source(block) for block in blocks if block.get("type") == "web_search_result"]
        texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
        return "\n".join(texts), sources
    if not is_object(content):
        return "", []
    match content:
        case {"type": "web_fetch_result", "url": str(url)}:
            return _fetched(content.get("content")), [Citation(url=url, title=_title(content.get("content")))]
        case {"stdout": str(stdout)}:
            stderr = text_or_none(content.get("stderr"))
            code = content.get("return_code")
            failed = f"(return code {code})" if code not in (None, 0) else None
            return "\n".join(filter(None, (stdout.rstrip("\n"), stderr, failed))), []
        case {"content": str(text)}:
            return text, []
        case _:
            rest = {key: value for key, value in content.items() if key != "type"}
            return encode_json(rest).decode() if rest else "", []


def _source(block: JsonObject) -> Citation:
    return Citation(url=first_text(block, "url"), title=first_text(block, "title"))


def _fetched(document: Any) -> str:
    match document:
        case {"source": {"type": "text", "data": str(text)}}:
            return text
        case {"source": {"type": "content", "content": str(text)}}:
            return text
        case {"source": {"type": "content", "content": [*blocks]}}:
            return "\n".join(str(block.get("text") or "") for block in blocks if is_object(block))
        case _:
            return ""


def _title(document: Any) -> str | None:
    return first_text(document, "title") if is_object(document) else None


def encode_hosted(part: HostedCall | HostedResult) -> JsonObject | None:
    """The block of a call or a result in an answer; None if the API has none for it."""
    own = own_block(part, NAME)
    if own is not None:
        return own or None
    id = own_id(part.id)
    if isinstance(part, HostedCall):
        return _encode_call(part, id)
    match part.tool:
        case "web_search":
            content: Any = [_result(source) for source in part.sources if source.url]
            if part.is_error:
                content = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
            return {"type": "web_search_tool_result", "tool_use_id": id, "content": content}
        case "web_fetch":
            return {"type": "web_fetch_tool_result", "tool_use_id": id, "content": _fetch_result(part)}
        case "code_execution":
            outcome = {"stdout": "" if part.is_error else part.content, "stderr": part.content if part.is_error else ""}
            content = {"type": "code_execution_result", **outcome, "return_code": int(part.is_error), "content": []}
            return {"type": "code_execution_tool_result", "tool_use_id": id, "content": content}
        case "mcp":
            content = [{"type": "text", "text": part.text}]
            return {"type": "mcp_tool_result", "tool_use_id": id, "is_error": part.is_error, "content": content}
        case _:
            return None


def _encode_call(call: HostedCall, id: str) -> JsonObject | None:
    arguments: JsonObject = call.arguments
    name: Literal["web_search", "web_fetch", "code_execution"]
    match call.tool:
        case "web_search":
            name, arguments = "web_search", {"query": query_of(call)}
        case "web_fetch" | "code_execution":
            name = "web_fetch" if call.tool == "web_fetch" else "code_execution"
        case "mcp":
            names = {"name": call.name or "", "server_name": call.server or ""}
            return {"type": "mcp_tool_use", "id": id, **names, "input": arguments}
        case _:
            return None
    return {"type": "server_tool_use", "id": id, "name": name, "input": arguments, "caller": {"type": "direct"}}


def _result(source: Citation) -> JsonObject:
    head = {"type": "web_search_result", "url": source.url, "title": source.title or source.url}
    return {**head, "encrypted_content": "", "page_age": None}


def _fetch_result(part: HostedResult) -> JsonObject:
    if part.is_error:
        return {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
    page = next(iter(part.sources), Citation())
    source = {"type": "text", "media_type": "text/plain", "data": part.content}
    document = {"type": "document", "source": source, "title": page.title, "citations": None}
    return {"type": "web_fetch_result", "url": page.url or "", "content": document, "retrieved_at": None}
