"""Tools that Google runs: their definitions, and the parts of their calls and results, for the client and the server.

Code has parts of its own. A search has none: what was searched and found is in the grounding metadata of a candidate,
from which `read_grounding` makes a call and a result. They have nothing in `extra`'s entry for Google, because the text
has the metadata. Newer models have `toolCall` and `toolResponse` parts for all their tools.
"""

from collections.abc import Iterator, Sequence
from typing import Any

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
    Part,
    WebFetch,
    WebSearch,
    is_list,
    is_object,
)
from dragoman.wires.common.citations import first_text
from dragoman.wires.common.hosted_tools import (
    count_of,
    covered_tool,
    mark_unsupported,
    note_options,
    own_block,
    texts_of,
)
from dragoman.wires.common.json import encode_json, object_of, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.google.grounding import read_chunks, write_grounding
from dragoman.wires.google.schema import NAME, camel

_TOOLS = {
    "GOOGLE_SEARCH_WEB": "web_search",
    "GOOGLE_SEARCH_IMAGE": "web_search",
    "URL_CONTEXT": "web_fetch",
    "CODE_EXECUTION": "code_execution",
    "FILE_SEARCH": "file_search",
}
"""Our names of the tools, by the provider's types."""


# Definitions ----------------------------------------------------------------------------------------------------------


def encode_hosted_tool(tool: HostedTool, notices: NoticeCollector) -> JsonObject | None:
    """The definition of a tool that Google runs; {} if it is an option of the request, None if there is none for it."""
    match tool:
        case WebSearch():
            note_options(tool, ("blocked_domains",), notices)
            return {"googleSearch": {"excludeDomains": [*tool.blocked_domains]} if tool.blocked_domains else {}}
        case WebFetch():
            note_options(tool, (), notices)
            return {"urlContext": {}}
        case CodeExecution():
            return {"codeExecution": {}}
        case FileSearch():
            stores = {"fileSearchStoreNames": [*tool.stores], "topK": tool.max_results}
            return {"fileSearch": without_none(stores)}
        case ImageGeneration():
            note_options(tool, (), notices)
            return {}
        case _:
            return None


def decode_hosted_tool(name: str, value: Any) -> HostedTool | None:
    """The inverse of `encode_hosted_tool`, from one member of a tool; None for other tools."""
    options = camel(object_of(value))
    tool = _decode_tool(name, options, covered_tool(NAME, {name: value}))
    if tool is None:
        return None
    encoded = encode_hosted_tool(tool, NoticeCollector(NAME)) or {}
    return mark_unsupported(tool, NAME, options, next(iter(encoded.values())))


def _decode_tool(name: str, options: JsonObject, extra: Extra) -> HostedTool | None:
    match name:
        case "googleSearch":
            return WebSearch(blocked_domains=texts_of(options.get("excludeDomains")), extra=extra)
        case "googleSearchRetrieval" | "enterpriseWebSearch":
            return WebSearch(extra=extra)
        case "urlContext":
            return WebFetch(extra=extra)
        case "codeExecution":
            return CodeExecution(extra=extra)
        case "fileSearch" if is_list(options.get("fileSearchStoreNames")):
            stores = texts_of(options["fileSearchStoreNames"])
            return FileSearch(stores=stores, max_results=count_of(options.get("topK")), extra=extra)
        case _:
            return None


# Calls and results ----------------------------------------------------------------------------------------------------


def decode_hosted_part(fields: JsonObject, data: JsonObject) -> Part | None:
    """The call or result in a part; `data` is the part as it came."""
    match fields:
        case {"executableCode": inner} if is_object(inner):
            code = {"code": str(inner.get("code") or "")}
            return HostedCall(id=_id(inner), tool="code_execution", arguments=code, extra={NAME: data})
        case {"codeExecutionResult": inner} if is_object(inner):
            failed = inner.get("outcome") not in (None, "OUTCOME_OK")
            text = str(inner.get("output") or "")
            return HostedResult(id=_id(inner), tool="code_execution", content=text, is_error=failed, extra={NAME: data})
        case {"toolCall": inner} if is_object(inner):
            inner = camel(inner)
            kind, arguments = str(inner.get("toolType") or "tool"), inner.get("args")
            arguments = object_of(arguments)
            return HostedCall(id=_id(inner), tool=_TOOLS.get(kind, kind), arguments=arguments, extra={NAME: data})
        case {"toolResponse": inner} if is_object(inner):
            inner = camel(inner)
            kind, response = str(inner.get("toolType") or "tool"), inner.get("response")
            text = encode_json(response).decode() if response else ""
            return HostedResult(id=_id(inner), tool=_TOOLS.get(kind, kind), content=text, extra={NAME: data})
        case _:
            return None


def _id(data: JsonObject) -> str:
    return first_text(data, "id") or ""


def read_grounding(fields: JsonObject) -> Iterator[Part]:
    """The searches and fetches that the metadata of a text describes."""
    grounding, context = fields.get("groundingMetadata"), fields.get("urlContextMetadata")
    queries = texts_of(grounding.get("webSearchQueries")) if is_object(grounding) else ()
    if is_object(grounding) and queries:
        sources = tuple(source for source in read_chunks(grounding) if source.url)
        yield HostedCall(id="search", tool="web_search", arguments={"queries": [*queries]}, extra={NAME: {}})
        yield HostedResult(id="search", tool="web_search", sources=sources, extra={NAME: {}})
    pages = context.get("urlMetadata") if is_object(context) else None
    for number, page in enumerate(pages if is_list(pages) else ()):
        if is_object(page) and (url := first_text(camel(page), "retrievedUrl")):
            failed = "SUCCESS" not in str(camel(page).get("urlRetrievalStatus"))
            id = f"fetch_{number}"
            yield HostedCall(id=id, tool="web_fetch", arguments={"url": url}, extra={NAME: {}})
            source = (Citation(url=url),)
            yield HostedResult(id=id, tool="web_fetch", sources=source, is_error=failed, extra={NAME: {}})


def encode_hosted(part: HostedCall | HostedResult) -> JsonObject | None:
    """The part of a call or a result in an answer; None if it has none, as those of a search."""
    own = own_block(part, NAME)
    if own is not None:
        return own or None
    if part.tool != "code_execution":
        return None
    if isinstance(part, HostedCall):
        code = part.arguments.get("code")
        return {"executableCode": {"language": "PYTHON", "code": code if isinstance(code, str) else part.text}}
    outcome = "OUTCOME_FAILED" if part.is_error else "OUTCOME_OK"
    return {"codeExecutionResult": {"outcome": outcome, "output": part.content}}


def has_form(part: HostedCall | HostedResult) -> bool:
    """Whether an answer has a form for a call or a result: as a part, or in the metadata."""
    return part.tool in _WITH_FORM or own_block(part, NAME) is not None


_WITH_FORM = ("web_search", "web_fetch", "code_execution")


def answer_fields(parts: Sequence[Part]) -> JsonObject:
    """The metadata of searches, fetches and citations of another wire."""
    failed = {part.id for part in parts if isinstance(part, HostedResult) and part.is_error}
    pages = [
        {"retrievedUrl": part.arguments.get("url"), "urlRetrievalStatus": _FETCHED[part.id not in failed]}
        for part in parts
        if isinstance(part, HostedCall) and part.tool == "web_fetch" and NAME not in part.extra
    ]
    grounding = write_grounding(parts)
    return {
        **({"groundingMetadata": grounding} if grounding else {}),
        **({"urlContextMetadata": {"urlMetadata": pages}} if pages else {}),
    }


_FETCHED = {True: "URL_RETRIEVAL_STATUS_SUCCESS", False: "URL_RETRIEVAL_STATUS_ERROR"}
