"""Prompt caching: one intent in a request, written as each target has it.

The intent is `cache`, `cache_ttl`, and the cache points, which are marks in the `extra` of parts. A client of another
dialect has marks of its own in the `extra` of its wire (`cache_control`, `prompt_cache_breakpoint`, Converse's
`cachePoint`); they mean the same. `prepare_caching` turns all of them into the form of the target, again in `extra`,
where the encoder of the wire takes it from. What the request already has in the form of the target stays as it is.

Marks are placed stably: which of them are sent depends only on what stands before them, so that a longer conversation
begins with the bytes of the shorter one.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from dragoman.targets.target import Target
from dragoman.types import (
    AnyTool,
    Audio,
    CachePoint,
    Document,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.types.caching import CACHE, mark_of, read_ttl
from dragoman.wires.common.extra import VERBATIM, full_extra, wire_extra
from dragoman.wires.common.json import object_of
from dragoman.wires.common.notices import NoticeCollector

Caching: TypeAlias = Literal["blocks", "points", "key", "breakpoints", "contents", "verbatim"]
"""How a request marks what the target caches; see `Quirks.caching`. A wire that is `verbatim` carries our own marks."""

MAX_MARKS = 4
"""Marks in one request to Anthropic's models, with the one of the whole request (2026)."""
FIVE_MINUTES, HALF_HOUR, HOUR = 300, 1800, 3600
_FIELDS: dict[Caching, str] = {
    "blocks": "cache_control",
    "points": "cachePoint",
    "breakpoints": "prompt_cache_breakpoint",
}
_FOREIGN = tuple(_FIELDS.values())
CACHE_MARKS = frozenset(_FOREIGN)
"""The names of marks of all wires."""
_MARKED: dict[Caching, tuple[type, ...]] = {
    "blocks": (Text, Image, Document, ToolCall, ToolResult),
    "points": (Text, Image, Document, ToolCall, ToolResult),
    "breakpoints": (Text, Image, Document, Audio),
}
_KEY_TEXT = 4096
"""Characters of the system prompt and of the first message that the key of a conversation is made of."""


def prepare_caching(
    request: Request, target: Target, notices: NoticeCollector, own: Caching | None = None, /
) -> Request:
    """The request with its cache points in the form of the target; `own` is the form of a wire that always has one.

    >>> from dragoman.targets.providers import target
    >>> from dragoman.types import user
    >>> request = Request(messages=(user("long", CachePoint(), "short"),))
    >>> marked = prepare_caching(request, target("anthropic/x"), NoticeCollector("w"), "blocks")
    >>> marked.messages[0].parts[0].extra["anthropic"]
    {'cache_control': {'type': 'ephemeral'}}
    """
    if own == "verbatim":
        return request
    request, key = _take_options(request, target, notices)
    caching = target.quirks.caching or own
    if caching in _KINDS:
        request = _with_one_end(request, caching)
    writer = _Writer(request, target, caching, notices, marks_answers=own is not None)
    tools = writer.tools()
    system = writer.system()
    messages = tuple(map(writer.message, request.messages))
    request = replace(request, tools=tools, system=system, messages=messages)
    if own is not None:  # the encoder of the wire has a field for `cache`
        return request
    fields = _request_fields(request, target, caching, notices, key=key, is_marked=writer.is_marked_early)
    return _with_fields(request, target, fields)


def needs_caching(request: Request, /) -> bool:
    """Whether a request says anything about caching."""
    return bool(request.cache) or has_marks(request) or (bool(request.extra) and _has_options(request))


_OPTION_FIELDS = ("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "cache_control")
_DAY = 86400


def _has_options(request: Request) -> bool:
    return any(field in wire_extra(request.extra, wire) for wire in request.extra for field in _OPTION_FIELDS)


def _take_options(request: Request, target: Target, notices: NoticeCollector) -> tuple[Request, str | None]:
    """The request with the caching options of another dialect as its own, and the key of the conversation."""
    cache, ttl, key = request.cache, request.cache_ttl, None
    extra = dict(request.extra)
    for wire in request.extra:
        fields = wire_extra(request.extra, wire)
        own = {name: value for name, value in fields.items() if name in _OPTION_FIELDS}
        if not own or wire in (target.wire, target.wire + VERBATIM, target.provider):
            continue
        extra[wire] = {name: value for name, value in fields.items() if name not in _OPTION_FIELDS}
        for name in own:
            notices.add("info", f"{wire}: {name}", "became what this target has for prompt caching")
        options, control = object_of(own.get("prompt_cache_options")), object_of(own.get("cache_control"))
        time = _point(control or options).ttl
        if own.get("prompt_cache_retention") == "24h":
            time = _DAY
        ttl = time if ttl is None else ttl
        if isinstance(own.get("prompt_cache_key"), str):
            key = own["prompt_cache_key"]
        if cache is None and options.get("mode") != "explicit":
            cache = True
    return (request if extra == request.extra else replace(request, cache=cache, cache_ttl=ttl, extra=extra)), key


def _with_one_end(request: Request, caching: Caching | None) -> Request:
    """The request without `cache` if the last part has a mark that differs: providers refuse two marks at one place."""
    last = request.messages[-1].parts[-1:] if request.messages else ()
    point = read_mark(last[0].extra) if last and not isinstance(last[0], Opaque) else None
    if point is None or not request.cache:
        return request
    is_same = caching == "blocks" and point.ttl in (None, request.cache_ttl)
    return request if is_same else replace(request, cache=None)


def has_marks(request: Request, /) -> bool:
    """Whether a part, the system prompt or a tool has a cache point, in the form of any wire."""
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Opaque):
                if _is_point(part):
                    return True
            elif part.extra and read_mark(part.extra) is not None:
                return True
    texts = () if request.system is None or isinstance(request.system, str) else request.system
    return bool(texts or request.tools) and any(
        (_is_point(item) if isinstance(item, Opaque) else read_mark(item.extra) is not None)
        for item in (*texts, *request.tools)
    )


def read_mark(extra: dict[str, Any], /) -> CachePoint | None:
    """The cache point in the `extra` of a part: ours, or that of any wire.

    >>> read_mark({"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}})
    CachePoint(ttl=3600)
    """
    if not extra:
        return None
    if (point := mark_of(extra)) is not None:
        return point
    for fields in extra.values():
        if is_object(fields):
            for name in _FOREIGN:
                if is_object(mark := fields.get(name)):
                    return _point(mark)
    return None


def point_block(extra: dict[str, Any], wire: str, /) -> Opaque | None:
    """The cache point of a part as a block of its own: it follows the reference to the part, which has no `extra`.

    None if the part has no point, or has it in the form of the wire: then the reference has it, too.

    >>> point_block({"cache": {"ttl": 60}}, "anthropic").data
    {'cachePoint': {'type': 'default', 'ttl': 60}}
    """
    point = None if CACHE_MARKS & wire_extra(extra, wire).keys() else read_mark(extra)
    if point is None:
        return None
    ttl = {} if point.ttl is None else {"ttl": point.ttl}
    return Opaque(wire=CACHE, data={_FIELDS["points"]: {**_KINDS["points"], **ttl}}, is_optional=True)


def block_point(block: Opaque, /) -> CachePoint | None:
    """The cache point of a block that `point_block` made; None for other blocks."""
    return _point(object_of(block.data.get(_FIELDS["points"]))) if block.wire == CACHE and _is_point(block) else None


def _point(mark: JsonObject) -> CachePoint:
    """The cache point for a mark of a wire; a time that is not known is left to the provider."""
    ttl = mark.get("ttl")
    try:
        return CachePoint(None if ttl is None else read_ttl("ttl", ttl))
    except ValueError:
        return CachePoint()


def _is_point(part: object) -> bool:
    """Whether a part or a tool is a cache point of Converse, which is a block of its own."""
    return isinstance(part, Opaque) and part.data.keys() == {_FIELDS["points"]}


class _Writer:
    """Writes the marks of one request in the order of the prompt: tools, system, messages."""

    def __init__(
        self,
        request: Request,
        target: Target,
        caching: Caching | None,
        notices: NoticeCollector,
        *,
        marks_answers: bool,
    ) -> None:
        self._request = request
        self._wire = target.wire
        self._long = target.quirks.long_cache
        self._marks_answers = marks_answers
        self._caching: Caching | None = None if caching == "key" else caching
        self._field = _FIELDS.get(caching) if caching is not None else None
        self._notices = notices
        self._room = MAX_MARKS - (1 if request.cache else 0) - self._count_own()
        self._is_short = False
        """Whether a mark with a short time was written: a longer one must not follow it."""
        self.is_marked_early = False
        """Whether the tools, the system prompt or the first message have a mark."""

    def _count_own(self) -> int:
        """The marks that the client itself wrote in the form of the target."""
        if self._caching is None:
            return 0
        return sum(self._has_own(item) for item in _items(self._request))

    def _has_own(self, item: Part | AnyTool) -> bool:
        own = item.data if isinstance(item, Opaque) else wire_extra(item.extra, self._wire)
        return any(name in own for name in _FOREIGN) and (not isinstance(item, Opaque) or item.wire == self._wire)

    def _read(self, item: Part | AnyTool) -> CachePoint | None:
        """The cache point of an item, if it is not written in the form of the target."""
        if isinstance(item, Opaque):
            is_foreign = item.wire != self._wire and _is_point(item)
            return _point(object_of(item.data.get("cachePoint"))) if is_foreign else None
        return None if not item.extra or self._has_own(item) else read_mark(item.extra)

    def tools(self) -> tuple[AnyTool, ...]:
        """The tools with their marks."""
        tools: list[AnyTool] = []
        for tool in self._request.tools:
            point = self._read(tool)
            if point is None:
                tools.append(tool)
            elif isinstance(tool, Tool):
                tools += self._mark_tool(tool, point)
            elif tools and isinstance(last := tools[-1], Tool):
                tools[-1:] = self._mark_tool(last, point)
        return tuple(tools)

    def _mark_tool(self, tool: Tool, point: CachePoint) -> list[AnyTool]:
        self.is_marked_early = True
        if self._caching not in ("blocks", "points"):
            return [tool]  # the system prompt and the messages follow, so a later mark or the key covers the tools
        mark = self._mark(point)
        if mark is None:
            return [tool]
        if self._caching == "points":
            return [tool, Opaque(wire=self._wire, data={"cachePoint": mark})]
        return [replace(tool, extra=self._with_mark(tool.extra, mark))]

    def system(self) -> str | tuple[Text, ...] | None:
        """The system prompt with its marks."""
        system = self._request.system
        if system is None or isinstance(system, str):
            return system
        texts: list[Text] = []
        for text in system:
            point = self._read(text)
            self.is_marked_early |= point is not None
            mark = None if point is None else self._mark(point)
            texts.append(text if mark is None else replace(text, extra=self._with_mark(text.extra, mark)))
        return tuple(texts)

    def message(self, message: Message) -> Message:
        """A message with its marks."""
        is_first = message is self._request.messages[0]
        parts: list[Part] = []
        is_changed = False
        for part in message.parts:
            point = self._read(part)
            if isinstance(part, Opaque) and point is not None:
                is_changed = True
            else:
                parts.append(part)
            if point is not None:
                self.is_marked_early |= is_first
                is_changed |= self._mark_last(parts, message, point)
        return replace(message, parts=tuple(parts)) if is_changed else message

    def _mark_last(self, parts: list[Part], message: Message, point: CachePoint) -> bool:
        """Mark the last part that can have a mark; False if there is none."""
        kinds = _MARKED.get(self._caching, ()) if self._caching is not None else ()
        at = len(parts)
        while at and isinstance(parts[at - 1], Thinking):
            at -= 1
        part = parts[at - 1] if at else None
        is_input = message.role != "assistant" or self._marks_answers
        is_stored = isinstance(part, Opaque) and part.wire == self._wire and not _is_point(part)
        can_have = is_stored or (isinstance(part, kinds) if kinds else not isinstance(part, Opaque))
        if part is None or not can_have or (kinds and not is_input):
            self._notices.add("info", "cache point", "this part cannot have one; left out")
            return False
        mark = self._mark(point)
        if mark is None:
            return False
        if self._caching == "points":
            parts.insert(at, Opaque(wire=self._wire, data={"cachePoint": mark}))
        elif isinstance(part, Opaque):
            parts[at - 1] = replace(part, data={**part.data, str(self._field): mark})
        else:
            parts[at - 1] = replace(part, extra=self._with_mark(part.extra, mark))
        return True

    def _with_mark(self, extra: dict[str, Any], mark: JsonObject) -> dict[str, Any]:
        return {**extra, self._wire: {**wire_extra(extra, self._wire), str(self._field): mark}}

    def _mark(self, point: CachePoint) -> JsonObject | None:
        """The mark for a point; None if the target has none for it, with a notice."""
        ttl = self._request.cache_ttl if point.ttl is None else point.ttl
        match self._caching:
            case "contents":  # a plan has made it, or makes it now
                return None
            case None:
                why = "the provider decides itself what it caches" if self._field is None else "not supported"
                self._notices.add("info", "cache point", why)
                return None
            case "breakpoints":
                is_long = self._long is not None and ttl is not None and ttl > HALF_HOUR
                return {"mode": "explicit", **({"ttl": self._long} if is_long else {})}
            case _:
                if self._room <= 0:
                    why = f"at most {MAX_MARKS} are possible; the first ones are sent, so that they stay in place"
                    self._notices.add("info", "cache point", why)
                    return None
                self._room -= 1
                return {**_KINDS[self._caching], **self._short_or_long(ttl)}

    def _short_or_long(self, ttl: int | None) -> JsonObject:
        time = block_ttl(ttl, self._notices)
        if time.get("ttl") != "1h":
            self._is_short = True
        elif self._is_short:
            self._notices.add("info", "cache ttl", "1h became 5m: a longer time must not follow a shorter one")
            return {}
        return time


_KINDS: dict[Caching, JsonObject] = {"blocks": {"type": "ephemeral"}, "points": {"type": "default"}}


def _items(request: Request) -> Iterator[Part | AnyTool]:
    """All that may have a mark, in the order of the prompt."""
    yield from request.tools
    if request.system is not None and not isinstance(request.system, str):
        yield from request.system
    for message in request.messages:
        yield from message.parts


def block_ttl(ttl: int | None, notices: NoticeCollector, /) -> JsonObject:
    """The member `ttl` of a mark of Anthropic's models: they know five minutes and an hour.

    >>> block_ttl(3600, NoticeCollector("w")), block_ttl(None, NoticeCollector("w"))
    ({'ttl': '1h'}, {})
    """
    if ttl is None:
        return {}
    if ttl not in (FIVE_MINUTES, HOUR):
        notices.add("info", "cache ttl", f"{ttl} s became {'5m' if ttl < FIVE_MINUTES else '1h'}: there are 5m and 1h")
    return {"ttl": "5m"} if ttl <= FIVE_MINUTES else {"ttl": "1h"}


# Fields of the whole request ------------------------------------------------------------------------------------------


def _request_fields(
    request: Request,
    target: Target,
    caching: Caching | None,
    notices: NoticeCollector,
    *,
    key: str | None,
    is_marked: bool,
) -> JsonObject:
    """The target's fields for caching."""
    fields: JsonObject = {}
    if caching == "blocks" and request.cache:
        fields["cache_control"] = {"type": "ephemeral", **block_ttl(request.cache_ttl, notices)}
    if caching in ("key", "breakpoints") and (request.cache or is_marked):
        fields["prompt_cache_key"] = key or conversation_key(request)
    ttl = request.cache_ttl
    if ttl is not None and caching == "key" and ttl > HOUR:
        fields["prompt_cache_retention"] = "24h"
    if ttl is not None and caching == "breakpoints" and ttl > HALF_HOUR:
        if target.quirks.long_cache is None:
            notices.add("info", "cache ttl", f"{ttl} s became 30m: there is no other time")
        else:
            fields["prompt_cache_options"] = {"ttl": target.quirks.long_cache}
    return fields


def _with_fields(request: Request, target: Target, fields: JsonObject) -> Request:
    """The request with fields for its target in `extra`; those that the caller set win."""
    own = {**full_extra(request, target.wire), **wire_extra(request.extra, target.provider)}
    fields = {name: value for name, value in fields.items() if name not in own}
    if not fields:
        return request
    wire = {**wire_extra(request.extra, target.wire), **fields}
    return replace(request, extra={**request.extra, target.wire: wire})


def conversation_key(request: Request, /) -> str:
    """A key of a conversation, the same in every turn, so that the provider sends its requests to the same machines.

    >>> from dragoman.types import assistant, user
    >>> first = Request(messages=(user("hi"),))
    >>> conversation_key(first) == conversation_key(Request(messages=(user("hi"), assistant("hello"), user("bye"))))
    True
    """
    system = request.system or ""
    texts = [system if isinstance(system, str) else "\n".join(text.text for text in system)]
    texts += [message.text for message in request.messages[:1]]
    names = [tool.name for tool in request.tools if isinstance(tool, Tool)]
    content = "\0".join([*(text[:_KEY_TEXT] for text in texts), *names])
    return sha256(content.encode(errors="surrogatepass")).hexdigest()[:32]


# Where the breakpoints are --------------------------------------------------------------------------------------------


def find_breakpoints(body: object, /) -> tuple[str, ...]:
    """Where a body tells a provider to cache, in words.

    >>> find_breakpoints({"system": [{"text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]})
    ('system[0] (1h)',)
    """
    if not is_object(body):
        return ()
    places = [place for name in _ORDER if name in body for place in _places(body[name], name)]
    if is_object(mark := body.get("cache_control")):
        places.append("the end of the prompt" + _time(mark))
    if isinstance(name := body.get("cachedContent"), str):
        places.insert(0, f"before the request ({name})")
    if isinstance(key := body.get("prompt_cache_key"), str):
        places.append(f"as the provider decides, with the key {key}")
    return tuple(places)


_ORDER = ("tools", "toolConfig", "system", "instructions", "messages", "input", "contents")
_DEPTH = 6
"""Levels of lists and objects that are searched: marks stand no deeper."""


def _places(value: object, path: str, depth: int = _DEPTH) -> Iterator[str]:
    if not depth:
        return
    if is_list(value):
        for i, item in enumerate(value):
            yield from _places(item, f"{path}[{i}]", depth - 1)
    elif is_object(value):
        for name in _FOREIGN:
            if is_object(mark := value.get(name)):
                yield path + _time(mark)
        for key in ("content", "tools", "toolResult"):
            if key in value:
                yield from _places(value[key], f"{path}.{key}", depth - 1)


def _time(mark: JsonObject) -> str:
    return f" ({mark['ttl']})" if isinstance(mark.get("ttl"), str) else ""
