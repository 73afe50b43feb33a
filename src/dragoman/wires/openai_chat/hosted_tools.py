"""Tools that a Chat Completions server runs: their definitions, and their calls in `executed_tools`, for both halves.

The protocol has no such tools; servers added them in their own ways. `Quirks.hosted_tools` says which type of tool a
target knows. Calls and results stand in the member `executed_tools` of a message, which some servers write.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.targets.target import Target
from dragoman.types import (
    Citation,
    CodeExecution,
    FileSearch,
    HostedCall,
    HostedResult,
    HostedTool,
    ImageGeneration,
    JsonObject,
    McpServer,
    Part,
    WebFetch,
    WebSearch,
    is_list,
    is_object,
)
from dragoman.types.hosted_tools import kind_of_tool
from dragoman.wires.common.citations import first_text, text_or_none
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.hosted_tools import (
    HostedEncoder,
    arguments_of,
    count_of,
    location_fields,
    note_options,
    read_location,
    texts_of,
)
from dragoman.wires.common.json import encode_json, object_of, objects, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.openai_chat.schema import COVERED

OPTIONS_FIELD = "web_search_options"
"""The field of a request that turns on the search of models that have it without a tool."""
EXECUTED = "executed_tools"
_DEFINITION = "definition"
_TOOLS = {
    "search": "web_search",
    "browser_search": "web_search",
    "visit": "web_fetch",
    "visit_website": "web_fetch",
    "python": "code_execution",
    "code_interpreter": "code_execution",
}
"""Our names of the tools, by those of servers."""
_TYPES = {"web_search": "search", "web_fetch": "visit_website", "code_execution": "python"}


def _types(target: Target) -> dict[str, str]:
    """The types of tools that a target runs, by our names."""
    return {kind: type for kind, _, type in (entry.partition("=") for entry in target.quirks.hosted_tools)}


# Definitions ----------------------------------------------------------------------------------------------------------


def hosted_encoder(target: Target) -> HostedEncoder:
    """Encodes the tools that a target runs, by the types that its record names."""

    def encode(tool: HostedTool, notices: NoticeCollector) -> JsonObject | None:
        kind = _types(target).get(kind_of_tool(tool))
        if kind is None:
            # A server that is not known may take the definition of its client.
            own = wire_extra(tool.extra, COVERED).get(_DEFINITION)
            return own if is_object(own) else None
        if kind in ("", OPTIONS_FIELD):
            note_options(tool, ("context_size", "location") if kind else (), notices)
            return {}
        options = _options(tool)
        if not target.quirks.hosted_tool_options:
            note_options(tool, _REQUIRED, notices)
            options = {name: value for name, value in options.items() if name in _REQUIRED_MEMBERS}
            return {"type": kind, **options}
        return {"type": kind, **({"parameters": options} if options else {})}

    return encode


_REQUIRED = ("stores", "name", "url", "token", "allowed_tools")
_REQUIRED_MEMBERS = ("vector_store_ids", "server_label", "server_url", "authorization", "allowed_tools")


def _options(tool: HostedTool) -> JsonObject:
    """The options of a tool, in the words that most servers have for them."""
    match tool:
        case WebSearch():
            place = tool.location
            fields: JsonObject = {
                "max_uses": tool.max_uses,
                "search_context_size": tool.context_size,
                "allowed_domains": [*tool.allowed_domains] or None,
                "excluded_domains": [*tool.blocked_domains] or None,
                "user_location": None if place is None else {"type": "approximate", **location_fields(place)},
            }
        case WebFetch():
            fields = {
                "max_uses": tool.max_uses,
                "allowed_domains": [*tool.allowed_domains] or None,
                "blocked_domains": [*tool.blocked_domains] or None,
            }
        case FileSearch():
            fields = {"vector_store_ids": [*tool.stores], "max_num_results": tool.max_results}
        case ImageGeneration():
            fields = {"size": tool.size, "quality": tool.quality, "output_format": tool.format}
        case McpServer():
            allowed = [*tool.allowed_tools] or None
            fields = {"server_label": tool.name, "server_url": tool.url, "authorization": tool.token}
            fields |= {"allowed_tools": allowed}
        case _:
            fields = {}
    return without_none(fields)


def search_options(tools: Iterable[object], target: Target) -> JsonObject:
    """The field that turns on the search of a model, if the request has a web search and the model takes the field."""
    search = next((tool for tool in tools if isinstance(tool, WebSearch)), None)
    if search is None or _types(target).get("web_search") != OPTIONS_FIELD:
        return {}
    place = search.location
    location = None if place is None else {"type": "approximate", "approximate": location_fields(place)}
    return {OPTIONS_FIELD: without_none({"search_context_size": search.context_size, "user_location": location})}


def decode_search_options(options: object) -> tuple[WebSearch, ...]:
    """The web search that a client turns on by a field."""
    if not is_object(options):
        return ()
    size, place = options.get("search_context_size"), object_of(options.get("user_location"))
    return (
        WebSearch(
            context_size=size if size in ("low", "medium", "high") else None,
            location=read_location(place.get("approximate")),
            extra={COVERED: {_DEFINITION: {}}},
        ),
    )


def decode_hosted_tool(data: JsonObject) -> HostedTool | None:
    """The tool of a definition that a server runs; None for other tools."""
    kind = str(data.get("type")).rpartition(":")[2]
    options = {**data, **object_of(data.get("parameters"))}
    extra = {COVERED: {_DEFINITION: data}}
    match kind:
        case "web_search" | "browser_search" | "web_search_preview":
            size = options.get("search_context_size")
            allowed = texts_of(options.get("allowed_domains"))
            return WebSearch(
                max_uses=count_of(options.get("max_uses")),
                allowed_domains=allowed,
                blocked_domains=() if allowed else texts_of(options.get("excluded_domains")),
                context_size=size if size in ("low", "medium", "high") else None,
                extra=extra,
            )
        case "web_fetch" | "visit_website":
            return WebFetch(max_uses=count_of(options.get("max_uses")), extra=extra)
        case "code_interpreter" | "code_execution":
            return CodeExecution(extra=extra)
        case "image_generation":
            return ImageGeneration(size=text_or_none(options.get("size")), extra=extra)
        case "file_search" if is_list(options.get("vector_store_ids")):
            return FileSearch(stores=texts_of(options["vector_store_ids"]), extra=extra)
        case "mcp" if str(options.get("server_url")).startswith("http"):
            name, token = str(options.get("server_label") or "mcp"), text_or_none(options.get("authorization"))
            allowed = texts_of(options.get("allowed_tools"))
            return McpServer(name=name, url=options["server_url"], token=token, allowed_tools=allowed, extra=extra)
        case _:
            return None


# Calls and results ----------------------------------------------------------------------------------------------------


class ExecutedTools:
    """Joins the entries of `executed_tools`, which a stream repeats as they grow, and reads each once."""

    def __init__(self) -> None:
        self._entries: dict[int, JsonObject] = {}
        self._seen: set[tuple[int, str]] = set()

    def add(self, entries: Iterable[Any]) -> None:
        for place, entry in enumerate(entries):
            if is_object(entry):
                index = entry.get("index")
                key = index if isinstance(index, int) else place
                self._entries[key] = {**self._entries.get(key, {}), **without_none(entry)}

    def take(self) -> Iterator[Part]:
        """The calls and results that were not taken yet."""
        for index, entry in sorted(self._entries.items()):
            for part in read_executed(index, entry):
                key = (index, type(part).__name__)
                if key not in self._seen:
                    self._seen.add(key)
                    yield part


def read_executed(index: int, entry: JsonObject) -> Iterator[Part]:
    """The call of an entry, and its result if it has one."""
    kind = str(entry.get("type") or "function")
    tool = _TOOLS.get(kind, kind)
    id = str(entry.get("id") or f"executed_{index}")
    name, server = text_or_none(entry.get("name")), text_or_none(entry.get("server_label"))
    yield HostedCall(id=id, tool=tool, arguments=arguments_of(entry.get("arguments")), name=name, server=server)
    results = entry.get("search_results")
    found = results.get("results") if is_object(results) else results
    sources = tuple(
        Citation(
            url=first_text(item, "url"),
            title=first_text(item, "title"),
            source=first_text(item, "file_id"),
            cited_text=first_text(item, "content", "snippet"),
        )
        for item in objects(found)
    )
    output = entry.get("output")
    if isinstance(output, str) or sources:
        content = output if isinstance(output, str) else ""
        yield HostedResult(id=id, tool=tool, content=content, sources=sources, is_error=entry.get("is_error") is True)


class ExecutedWriter:
    """Writes calls and results as entries of `executed_tools`."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def write(self, part: HostedCall | HostedResult) -> JsonObject:
        index = self._indexes.setdefault(part.id, len(self._indexes))
        head: JsonObject = {"index": index, "id": part.id, "type": _TYPES.get(part.tool, part.tool)}
        if isinstance(part, HostedCall):
            names = without_none({"name": part.name, "server_label": part.server})
            return {**head, **names, "arguments": encode_json(part.arguments).decode()}
        sources = [_write_source(source) for source in part.sources]
        failed = {"is_error": True} if part.is_error else {}
        return {**head, "output": part.content, "search_results": {"results": sources}, **failed}


def write_executed(parts: Iterable[HostedCall | HostedResult]) -> JsonObject:
    """The member `executed_tools` of a message."""
    writer = ExecutedWriter()
    entries: dict[int, JsonObject] = {}
    for part in parts:
        entry = writer.write(part)
        entries[entry["index"]] = {**entries.get(entry["index"], {}), **entry}
    return {EXECUTED: [*entries.values()]}


def _write_source(source: Citation) -> JsonObject:
    fields = {"title": source.title, "url": source.url, "file_id": source.source, "content": source.cited_text}
    return without_none(fields)
