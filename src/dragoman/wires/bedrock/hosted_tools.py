"""Tools that Bedrock runs, and citations: definitions and blocks, for the client and the server."""

from dragoman.types import (
    Citation,
    CodeExecution,
    HostedCall,
    HostedResult,
    HostedTool,
    JsonObject,
    Part,
    Text,
    WebSearch,
    is_list,
    is_object,
)
from dragoman.types.citations import SourceUnit
from dragoman.wires.bedrock.schema import NAME
from dragoman.wires.common.citations import first_text
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.hosted_tools import (
    arguments_of,
    block_extra,
    covered_tool,
    note_options,
    own_block,
    own_id,
)
from dragoman.wires.common.json import encode_json, object_of, whole_number, without_none
from dragoman.wires.common.notices import NoticeCollector

_SEARCH, _CODE = "nova_grounding", "nova_code_interpreter"
_TOOLS = {_SEARCH: "web_search", _CODE: "code_execution"}
_NAMES = {tool: name for name, tool in _TOOLS.items()}
_PLACES: dict[str, SourceUnit] = {
    "documentChar": "characters",
    "documentPage": "pages",
    "documentChunk": "blocks",
    "searchResultLocation": "blocks",
}
_KINDS: dict[SourceUnit, str] = {"characters": "documentChar", "pages": "documentPage", "blocks": "documentChunk"}


def encode_hosted_tool(tool: HostedTool, notices: NoticeCollector) -> JsonObject | None:
    """The definition of a tool that Bedrock runs; None if there is none for it."""
    match tool:
        case WebSearch():
            note_options(tool, (), notices)
            return {"systemTool": {"name": _SEARCH}}
        case CodeExecution():
            return {"systemTool": {"name": _CODE}}
        case _:
            return None


def decode_hosted_tool(data: JsonObject) -> HostedTool | None:
    """The inverse of `encode_hosted_tool`; None for other tools."""
    extra = covered_tool(NAME, data)
    match data:
        case {"systemTool": {"name": "nova_grounding"}}:
            return WebSearch(extra=extra)
        case {"systemTool": {"name": "nova_code_interpreter"}}:
            return CodeExecution(extra=extra)
        case _:
            return None


# Calls and results ----------------------------------------------------------------------------------------------------


def decode_hosted_block(data: JsonObject) -> Part | None:
    """The call or the result of a tool that Bedrock ran; None for other blocks."""
    match data:
        case {"toolUse": {"type": _, "toolUseId": str(id), "name": str(name)} as call}:
            arguments = arguments_of(call.get("input"))
            tool = _TOOLS.get(name, name)
            return HostedCall(id=id, tool=tool, arguments=arguments, extra=block_extra(NAME, data, id))
        case {"toolResult": {"type": str(kind), "toolUseId": str(id)} as result}:
            name = kind.removesuffix("_result")
            failed = result.get("status") == "error"
            text = _text_of(result.get("content"))
            return HostedResult(
                id=id,
                tool=_TOOLS.get(name, name),
                content=text,
                is_error=failed,
                extra=block_extra(NAME, data, id),
            )
        case _:
            return None


def _text_of(content: object) -> str:
    texts: list[str] = []
    for item in content if is_list(content) else ():
        if is_object(item):
            text = item.get("text")
            texts.append(text if isinstance(text, str) else encode_json(item).decode())
    return "\n".join(texts)


def encode_hosted(part: HostedCall | HostedResult) -> JsonObject | None:
    """The block of a call or a result in an answer; None if the API has none for it."""
    if (own := own_block(part, NAME)) is not None:
        return own or None
    id, name = own_id(part.id), _NAMES.get(part.tool)
    if name is None:
        return None
    if isinstance(part, HostedCall):
        return {"toolUse": {"toolUseId": id, "name": name, "input": part.arguments, "type": "server_tool_use"}}
    status = "error" if part.is_error else "success"
    content = [{"text": part.text}]
    return {"toolResult": {"toolUseId": id, "content": content, "status": status, "type": f"{name}_result"}}


# Citations ------------------------------------------------------------------------------------------------------------


def read_citations(citations: object) -> tuple[Citation, ...]:
    """The citations of a text block, or of its deltas."""
    return tuple(_read(item) for item in citations if is_object(item)) if is_list(citations) else ()


def _read(data: JsonObject) -> Citation:
    location = object_of(data.get("location"))
    kind = next(iter(location), "")
    place = object_of(location.get(kind))
    index = place.get("documentIndex", place.get("searchResultIndex"))
    return Citation(
        url=first_text(place, "url"),
        title=first_text(data, "title"),
        source=first_text(data, "source"),
        document_index=whole_number(index),
        cited_text=_text_of(data.get("sourceContent")) or None,
        source_unit=_PLACES.get(kind),
        source_start=whole_number(place.get("start")),
        source_end=whole_number(place.get("end")),
    )


def write_citations(text: Text) -> list[JsonObject]:
    """The citations of a text in an answer: its own, or those of another wire."""
    own = wire_extra(text.extra, NAME).get("citations")
    return [item for item in own if is_object(item)] if is_list(own) else [_write(each) for each in text.citations]


def _write(citation: Citation) -> JsonObject:
    if citation.url is not None:
        location: JsonObject = {"web": {"url": citation.url}}
    else:
        place = {"start": citation.source_start or 0, "end": citation.source_end or citation.source_start or 0}
        kind = _KINDS[citation.source_unit or "characters"]
        location = {kind: {"documentIndex": citation.document_index or 0, **place}}
    quote = [{"text": citation.cited_text}] if citation.cited_text else None
    fields = {"title": citation.title, "source": citation.source, "sourceContent": quote, "location": location}
    return without_none(fields)
