"""Tools that the provider runs: their definitions, and the items of their calls, for both halves.

An item is a call and, once it is complete, its result. The item is in the `extra` of the call; the result has an empty
one, because the item says all of it.
"""

from collections.abc import Iterable
from typing import Any, Literal

from dragoman.types import (
    Citation,
    CodeExecution,
    Extra,
    FileSearch,
    HostedCall,
    HostedResult,
    HostedTool,
    ImageGeneration,
    JsonObject,
    McpServer,
    Part,
    WebSearch,
    is_object,
)
from dragoman.wires.common.citations import first_text, text_or_none
from dragoman.wires.common.hosted_tools import (
    arguments_of,
    block_extra,
    count_of,
    covered_tool,
    location_fields,
    mark_unsupported,
    note_options,
    own_block,
    own_id,
    queries_of,
    read_location,
    texts_of,
)
from dragoman.wires.common.json import encode_json, object_of, objects, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.openai_responses.schema import NAME

_SEARCH_TOOLS = ("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11")
_SIZES: tuple[Literal["low", "medium", "high"], ...] = ("low", "medium", "high")
_FORMATS: tuple[Literal["png", "jpeg", "webp"], ...] = ("png", "jpeg", "webp")


# Definitions ----------------------------------------------------------------------------------------------------------


def encode_hosted_tool(tool: HostedTool, notices: NoticeCollector) -> JsonObject | None:
    """The definition of a tool that the provider runs; None if there is none for it."""
    match tool:
        case WebSearch():
            note_options(tool, ("allowed_domains", "context_size", "location"), notices)
            filters = {"allowed_domains": [*tool.allowed_domains]} if tool.allowed_domains else None
            place = tool.location
            location = None if place is None else {"type": "approximate", **location_fields(place)}
            fields: JsonObject = {
                "filters": filters,
                "search_context_size": tool.context_size,
                "user_location": location,
            }
            return {"type": "web_search", **without_none(fields)}
        case CodeExecution():
            return {"type": "code_interpreter", "container": {"type": "auto"}}
        case FileSearch():
            stores = {"type": "file_search", "vector_store_ids": [*tool.stores]}
            return {**stores, **without_none({"max_num_results": tool.max_results})}
        case ImageGeneration():
            fields = {"size": tool.size, "quality": tool.quality, "output_format": tool.format}
            return {"type": "image_generation", **without_none(fields)}
        case McpServer():
            fields = {"authorization": tool.token, "allowed_tools": [*tool.allowed_tools] or None}
            head = {"type": "mcp", "server_label": tool.name, "server_url": tool.url}
            return {**head, **without_none(fields), "require_approval": "never"}
        case _:
            return None


def decode_hosted_tool(data: JsonObject) -> HostedTool | None:
    """The inverse of `encode_hosted_tool`; None for other tools."""
    tool = _decode_tool(data)
    options = data
    if isinstance(tool, McpServer):
        # Without the member, each call needs an approval.
        options = {"require_approval": "always", **data, "allowed_tools": [*tool.allowed_tools]}
    return tool and mark_unsupported(tool, NAME, options, encode_hosted_tool(tool, NoticeCollector(NAME)))


def _decode_tool(data: JsonObject) -> HostedTool | None:
    extra = covered_tool(NAME, data)
    match data:
        case {"type": str(kind)} if kind in _SEARCH_TOOLS:
            size = data.get("search_context_size")
            return WebSearch(
                allowed_domains=texts_of(object_of(data.get("filters")).get("allowed_domains")),
                context_size=next((word for word in _SIZES if word == size), None),
                location=read_location(data.get("user_location")),
                extra=extra,
            )
        case {"type": "code_interpreter"}:
            return CodeExecution(extra=extra)
        case {"type": "file_search", "vector_store_ids": [*_]}:
            stores = texts_of(data["vector_store_ids"])
            return FileSearch(stores=stores, max_results=count_of(data.get("max_num_results")), extra=extra)
        case {"type": "image_generation"}:
            quality, format = data.get("quality"), data.get("output_format")
            return ImageGeneration(
                size=text_or_none(data.get("size")),
                quality=next((word for word in _SIZES if word == quality), None),
                format=next((word for word in _FORMATS if word == format), None),
                extra=extra,
            )
        case {"type": "mcp", "server_label": str(name), "server_url": str(url)} if url.startswith("http"):
            allowed = data.get("allowed_tools")
            names = allowed.get("tool_names") if is_object(allowed) else allowed
            token = text_or_none(data.get("authorization"))
            return McpServer(name=name, url=url, token=token, allowed_tools=texts_of(names), extra=extra)
        case _:
            return None


# Calls and results ----------------------------------------------------------------------------------------------------


def decode_hosted_item(item: JsonObject) -> list[Part] | None:
    """The call of an item, and its result if it has one; None for other items."""
    read = _READERS.get(str(item.get("type")))
    if read is None:
        return None
    tool, arguments, content, sources, is_error = read(item)
    id = str(item.get("id") or "")
    extra = block_extra(NAME, item, id)
    is_mcp = tool == "mcp"
    call = HostedCall(
        id=id,
        tool=tool,
        arguments=arguments,
        name=text_or_none(item.get("name")) if is_mcp else None,
        server=text_or_none(item.get("server_label")) if is_mcp else None,
        extra=extra,
    )
    if not content and not sources and not is_error:
        return [call]
    mark: Extra = {NAME: {}} if extra else {}
    result = HostedResult(id=id, tool=tool, content=content, sources=tuple(sources), is_error=is_error, extra=mark)
    return [call, result]


def _web_search(item: JsonObject) -> tuple[str, JsonObject, str, list[Citation], bool]:
    action = object_of(item.get("action"))
    failed = item.get("status") == "failed"
    sources = objects(action.get("sources"))
    pages = [Citation(url=first_text(source, "url"), title=first_text(source, "title", "name")) for source in sources]
    known = ("query", "queries", "url", "pattern")
    arguments = {name: action[name] for name in known if action.get(name)}
    tool = "web_fetch" if action.get("type") in ("open_page", "find_in_page") else "web_search"
    return tool, arguments, "", pages, failed


def _code(item: JsonObject) -> tuple[str, JsonObject, str, list[Citation], bool]:
    logs = [str(output.get("logs") or output.get("url") or "") for output in objects(item.get("outputs"))]
    code = {"code": item["code"]} if isinstance(item.get("code"), str) and item["code"] else {}
    return "code_execution", code, "\n".join(filter(None, logs)), [], item.get("status") == "failed"


def _file_search(item: JsonObject) -> tuple[str, JsonObject, str, list[Citation], bool]:
    files = [
        Citation(
            source=first_text(result, "file_id"),
            title=first_text(result, "filename"),
            cited_text=first_text(result, "text"),
        )
        for result in objects(item.get("results"))
    ]
    queries = [*texts_of(item.get("queries"))]
    return "file_search", {"queries": queries} if queries else {}, "", files, item.get("status") == "failed"


def _mcp(item: JsonObject) -> tuple[str, JsonObject, str, list[Citation], bool]:
    output, error = item.get("output"), item.get("error")
    texts = [output if isinstance(output, str) else ""]
    if error:
        texts.append(error if isinstance(error, str) else encode_json(error).decode())
    return "mcp", arguments_of(item.get("arguments")), "\n".join(filter(None, texts)), [], bool(error)


def _other_search(item: JsonObject) -> tuple[str, JsonObject, str, list[Citation], bool]:
    """A search of a provider besides OpenAI, such as one in posts; it has the arguments of its own function."""
    return str(item["type"]).removesuffix("_call"), arguments_of(item.get("arguments")), "", [], False


_READERS = {
    "web_search_call": _web_search,
    "code_interpreter_call": _code,
    "file_search_call": _file_search,
    "mcp_call": _mcp,
    "x_search_call": _other_search,
}


def encode_hosted_call(call: HostedCall, result: HostedResult | None) -> JsonObject | None:
    """The item of a call with its result; None if the API has none for it."""
    if (own := own_block(call, NAME)) is not None:
        return own
    item: JsonObject = {"id": own_id(call.id), "status": "failed" if result and result.is_error else "completed"}
    text = "" if result is None else result.content
    match call.tool:
        case "web_search":
            queries = queries_of(call)
            result_sources = () if result is None else result.sources
            sources = [{"type": "url", "url": source.url} for source in result_sources if source.url]
            query: JsonObject = {"type": "search", "query": next(iter(queries), ""), "queries": queries or None}
            action = without_none({**query, "sources": sources or None})
            return {"type": "web_search_call", **item, "action": action}
        case "web_fetch":
            action = {"type": "open_page", "url": str(call.arguments.get("url") or "")}
            return {"type": "web_search_call", **item, "action": action}
        case "code_execution":
            outputs = [{"type": "logs", "logs": text}] if result is not None else None
            code = call.arguments.get("code")
            code = code if isinstance(code, str) else call.text
            return {"type": "code_interpreter_call", **item, "code": code, "container_id": "", "outputs": outputs}
        case "file_search":
            results = [_file_result(source) for source in (() if result is None else result.sources)]
            return {"type": "file_search_call", **item, "queries": queries_of(call), "results": results or None}
        case "mcp":
            names = {"name": call.name or "", "server_label": call.server or ""}
            error = text if result is not None and result.is_error else None
            more: dict[str, Any] = {"output": None if error else text, "error": error}
            return {"type": "mcp_call", **item, **names, "arguments": encode_json(call.arguments).decode(), **more}
        case _:
            return None


def _file_result(source: Citation) -> JsonObject:
    return without_none({"file_id": source.source, "filename": source.title, "text": source.cited_text})


def joined_hosted(parts: Iterable[Part]) -> Iterable[Part | tuple[HostedCall, HostedResult | None]]:
    """The parts; each call of a tool that the provider ran is together with its result, if that comes next."""
    waiting: HostedCall | None = None
    for part in parts:
        if waiting is not None:
            is_answer = isinstance(part, HostedResult) and part.id == waiting.id
            yield waiting, part if isinstance(part, HostedResult) and is_answer else None
            waiting = None
            if is_answer:
                continue
        if isinstance(part, HostedCall):
            waiting = part
        else:
            yield part
    if waiting is not None:
        yield waiting, None
