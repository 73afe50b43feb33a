"""Tools that Google runs: their definitions, and the steps of their calls and results, for client and server."""

from typing import Any

from dragoman.types import (
    Citation,
    CodeExecution,
    FileSearch,
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
from dragoman.wires.common.citations import first_text, text_or_none
from dragoman.wires.common.hosted_tools import (
    arguments_of,
    block_extra,
    count_of,
    covered_tool,
    mark_unsupported,
    note_options,
    own_block,
    own_id,
    queries_of,
    texts_of,
)
from dragoman.wires.common.json import encode_json, objects, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.google_interactions.schema import NAME

_TOOLS = {
    "google_search": "web_search",
    "url_context": "web_fetch",
    "code_execution": "code_execution",
    "file_search": "file_search",
    "mcp_server_tool": "mcp",
    "google_maps": "google_maps",
    "retrieval": "retrieval",
}
"""Our names of the tools, by the beginning of the type of a step."""
_STEPS = {tool: name for name, tool in _TOOLS.items()}


def encode_hosted_tool(tool: HostedTool, notices: NoticeCollector) -> JsonObject | None:
    """The definition of a tool that Google runs; None if there is none for it."""
    match tool:
        case WebSearch():
            note_options(tool, (), notices)
            return {"type": "google_search"}
        case WebFetch():
            note_options(tool, (), notices)
            return {"type": "url_context"}
        case CodeExecution():
            return {"type": "code_execution"}
        case FileSearch():
            fields: JsonObject = {"file_search_store_names": [*tool.stores], "top_k": tool.max_results}
            return {"type": "file_search", **without_none(fields)}
        case McpServer():
            headers = {"Authorization": f"Bearer {tool.token}"} if tool.token else None
            allowed = [{"tools": [*tool.allowed_tools]}] if tool.allowed_tools else None
            fields = {"name": tool.name, "url": tool.url, "headers": headers, "allowed_tools": allowed}
            return {"type": "mcp_server", **without_none(fields)}
        case _:
            return None


def decode_hosted_tool(data: JsonObject) -> HostedTool | None:
    """The inverse of `encode_hosted_tool`; None for other tools."""
    tool = _decode_tool(data)
    return tool and mark_unsupported(tool, NAME, data, encode_hosted_tool(tool, NoticeCollector(NAME)))


def _decode_tool(data: JsonObject) -> HostedTool | None:
    extra = covered_tool(NAME, data)
    match data:
        case {"type": "google_search"}:
            return WebSearch(extra=extra)
        case {"type": "url_context"}:
            return WebFetch(extra=extra)
        case {"type": "code_execution"}:
            return CodeExecution(extra=extra)
        case {"type": "file_search", "file_search_store_names": [*_]}:
            stores = texts_of(data["file_search_store_names"])
            return FileSearch(stores=stores, max_results=count_of(data.get("top_k")), extra=extra)
        case {"type": "mcp_server", "name": str(name), "url": str(url)} if url.startswith("http"):
            headers = data.get("headers")
            bearer = first_text(headers, "Authorization", "authorization") if is_object(headers) else None
            token = (bearer or "").removeprefix("Bearer ") or None
            groups = data.get("allowed_tools")
            allowed = [group.get("tools") for group in objects(groups)]
            names = tuple(tool for group in allowed for tool in texts_of(group))
            return McpServer(name=name, url=url, token=token, allowed_tools=names, extra=extra)
        case _:
            return None


# Steps ----------------------------------------------------------------------------------------------------------------


def decode_hosted_step(data: JsonObject) -> HostedCall | HostedResult | None:
    """The call or the result of a step; None for other steps."""
    kind = str(data.get("type"))
    name, _, verb = kind.rpartition("_")
    if name not in _TOOLS or verb not in ("call", "result"):
        return None
    tool, id = _TOOLS[name], data.get("id" if verb == "call" else "call_id")
    if not isinstance(id, str):
        return None
    extra = block_extra(NAME, data, id)
    if verb == "call":
        is_mcp = tool == "mcp"
        return HostedCall(
            id=id,
            tool=tool,
            arguments=_arguments(data.get("arguments")),
            name=text_or_none(data.get("name")) if is_mcp else None,
            server=text_or_none(data.get("server_name")) if is_mcp else None,
            extra=extra,
        )
    content, sources = _read_result(data.get("result"))
    failed = data.get("is_error") is True
    return HostedResult(id=id, tool=tool, content=content, sources=tuple(sources), is_error=failed, extra=extra)


def _arguments(value: object) -> JsonObject:
    arguments = arguments_of(value)
    urls = texts_of(arguments.get("urls"))
    return {"url": urls[0]} if arguments.keys() == {"urls"} and len(urls) == 1 else arguments


def _read_result(result: Any) -> tuple[str, list[Citation]]:
    if isinstance(result, str):
        return result, []
    if not is_list(result):
        return encode_json(result).decode() if result else "", []
    items = [item for item in result if is_object(item)]
    sources = [
        Citation(url=first_text(item, "url"), title=first_text(item, "title"), cited_text=first_text(item, "snippet"))
        for item in items
        if text_or_none(item.get("url"))
    ]
    texts = [str(item["text"]) for item in items if text_or_none(item.get("text"))]
    if not sources and not texts and items:
        return encode_json(items).decode(), []
    return "\n".join(texts), sources


def encode_hosted(part: HostedCall | HostedResult) -> JsonObject | None:
    """The step of a call or a result in an answer; None if the API has none for it."""
    if (own := own_block(part, NAME)) is not None:
        return own or None
    step, id = _STEPS.get(part.tool), own_id(part.id)
    if step is None:
        return None
    if isinstance(part, HostedCall):
        return {"type": f"{step}_call", "id": id, **_call_fields(part)}
    failed = {"is_error": True} if part.is_error else {}
    return {"type": f"{step}_result", "call_id": id, **_result_fields(part), **failed}


def _call_fields(call: HostedCall) -> JsonObject:
    match call.tool:
        case "web_search":
            return {"arguments": {"queries": queries_of(call)}}
        case "web_fetch":
            url = call.arguments.get("url")
            return {"arguments": {"urls": [url] if isinstance(url, str) else []}}
        case "code_execution":
            code = call.arguments.get("code")
            return {"arguments": {"language": "python", "code": code if isinstance(code, str) else call.text}}
        case "mcp":
            return {"name": call.name or "", "server_name": call.server or "", "arguments": call.arguments}
        case _:
            return {}


def _result_fields(part: HostedResult) -> JsonObject:
    match part.tool:
        case "web_search":
            pages = [without_none({"url": source.url, "title": source.title}) for source in part.sources if source.url]
            return {"result": pages}
        case "web_fetch":
            status = "error" if part.is_error else "success"
            return {"result": [{"url": source.url, "status": status} for source in part.sources if source.url]}
        case "code_execution" | "mcp":
            return {"result": part.text}
        case _:
            return {}
