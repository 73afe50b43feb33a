"""What the demo finds with the tools that it runs itself: a web search and a fetch, without a network."""

import re
from collections.abc import Iterable

from dragoman.types import AnyTool, Citation, HostedCall, HostedResult, Part, Text, WebFetch, WebSearch

_URL = re.compile(r"https?://[^\s\"'<>)]+")
_WORD = re.compile(r"[\w-]{3,}")
_SITE = "https://demo.example"


def hosted_parts(tools: Iterable[AnyTool], prompt: str, /) -> list[Part]:
    """The calls of the demo's own tools for a prompt, with their results.

    >>> [part.text for part in hosted_parts([WebSearch()], "tide at Brest")][1]
    '[1] tide at Brest: https://demo.example/tide-brest (“A page of the demo about tide at Brest.”)'
    """
    parts: list[Part] = []
    for tool in tools if prompt.strip() else ():
        if isinstance(tool, WebFetch) and (url := _URL.search(prompt)):
            page = Citation(url=url[0], title="A page of the demo")
            parts.append(HostedCall(id="demo_fetch", tool="web_fetch", arguments={"url": url[0]}))
            text = f"The demo has no network, so this stands for the page at {url[0]}."
            parts.append(HostedResult(id="demo_fetch", tool="web_fetch", content=text, sources=(page,)))
        elif isinstance(tool, WebSearch):
            query = " ".join(prompt.split())[:80].rstrip("?.! ")
            parts.append(HostedCall(id="demo_search", tool="web_search", arguments={"query": query}))
            parts.append(HostedResult(id="demo_search", tool="web_search", sources=(_found(tool, query),)))
    return parts


def _found(tool: WebSearch, query: str) -> Citation:
    site = f"https://{tool.allowed_domains[0]}" if tool.allowed_domains else _SITE
    slug = "-".join(word.lower() for word in _WORD.findall(query)) or "search"
    return Citation(url=f"{site}/{slug}", title=query, cited_text=f"A page of the demo about {query}.")


def cite(text: str, parts: Iterable[Part], /) -> Text:
    """The text of an answer; it cites what the tools found.

    >>> cite("At six.", hosted_parts([WebSearch()], "tide")).citations[0].url
    'https://demo.example/tide'
    """
    sources = [source for part in parts if isinstance(part, HostedResult) for source in part.sources]
    citations = [
        Citation(url=source.url, title=source.title, start=0, end=len(text), cited_text=source.cited_text)
        for source in sources
    ]
    return Text(text=text, citations=tuple(citations) if text else ())
