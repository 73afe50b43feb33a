"""The client half that all wires share: `WireClient` makes a `ClientHalf` of the functions in which wires differ."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, ProviderError, Unsupported
from dragoman.events import Event, fold
from dragoman.http import Head, HttpRequest
from dragoman.media import check_media
from dragoman.targets.target import Target
from dragoman.types import AnyTool, Extra, JsonObject, Opaque, Request, Response, Text, Tool, ToolResult
from dragoman.wires.common.caching import Caching, needs_caching, prepare_caching
from dragoman.wires.common.completions import encode_as_chat
from dragoman.wires.common.errors import decode_http_error
from dragoman.wires.common.framing import FrameDecoder, SseDecoder
from dragoman.wires.common.hosted_tools import HostedEncoder
from dragoman.wires.common.json import check_structure
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import supported_tools
from dragoman.wires.common.stream_decoder import (
    FramedStreamDecoder,
    ResponseDecoder,
    add_reported_usage,
    wrong_value_of_answer,
)
from dragoman.wires.common.think_tags import ThinkTagSplitter

ToolEncoder: TypeAlias = Callable[[list[Tool | Opaque], NoticeCollector], list[JsonObject]]


class WireClient:
    """A `ClientHalf` made of the functions in which wires differ."""

    def __init__(
        self,
        wire: str,
        /,
        *,
        encode_request: Callable[[Request, Target], HttpRequest],
        encode_tools: ToolEncoder,
        encode_result: Callable[[ToolResult], JsonObject],
        decoder: Callable[[Request | None], ResponseDecoder],
        framing: Callable[[], FrameDecoder] = SseDecoder,
        decode_error: Callable[[Head, bytes], ProviderError] = decode_http_error,
        thinking_extra: Extra | None = None,
        caching: Caching | None = None,
        encode_plain: Callable[[Request, Target], HttpRequest | None] | None = None,
        decode_plain: Callable[[bytes, Request | None, Target | None], Response | None] | None = None,
        encode_completion: Callable[[Request, Target], HttpRequest | None] | None = None,
        hosted_tool: HostedEncoder | None = None,
    ) -> None:
        self._encode_request = encode_request
        self.encode_result = encode_result
        self.decode_error = decode_error
        self._wire = wire
        self._encode_tools = encode_tools
        self._new_decoder = decoder
        self._framing = framing
        self._thinking_extra = thinking_extra
        """The extra of thinking in `<think>` tags; None if texts of this wire are never split."""
        self._caching: Caching | None = caching
        """How requests mark what a target caches, if all targets of this wire take the same marks."""
        self._hosted_tool = hosted_tool
        self._encode_plain = encode_plain
        """A fast path for a request that is only text, with few options; it returns None for any other request."""
        self._decode_plain = decode_plain
        """A fast path for a body that is only text, if the wire has one; it returns None for any other body."""
        self._encode_completion = encode_completion
        """Encodes a request that continues a text, if the wire has one; it returns None if the target does not."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        can, encode_plain = target.capabilities, None if request.extra else self._encode_plain
        # A text needs nothing else of a target, and none of the other steps.
        if encode_plain is not None and can.chats and (can.streaming or not request.stream):
            plain = encode_plain(request, target)
            if plain is not None:
                return plain
        if request.raw or request.suffix is not None:
            return self._encode_text(request, target)
        if request.tools or request.stream or request.schema is not None or not can.chats:
            check_capabilities(request, target)
        if not is_text_only(request):
            check_media(request, can)
        if not needs_caching(request):
            return self._encode_request(request, target)
        notices = NoticeCollector(self._wire, strict=request.strict)
        http = self._encode_request(prepare_caching(request, target, notices, self._caching), target)
        return msgspec.structs.replace(http, notices=notices.notices + http.notices) if notices.notices else http

    def _encode_text(self, request: Request, target: Target) -> HttpRequest:
        """A request that continues a text: as such if the target can do that, else as a chat."""
        http = None if self._encode_completion is None else self._encode_completion(request, target)
        return encode_as_chat(request, target, self.encode_request) if http is None else http

    def encode_tools(self, tools: tuple[AnyTool, ...], /) -> list[JsonObject]:
        notices = NoticeCollector(self._wire)
        return self._encode_tools(supported_tools(Request(tools=tools), notices, self._hosted_tool), notices)

    def decode_body(self, body: bytes, request: Request | None = None, target: Target | None = None, /) -> list[Event]:
        decoder = self._decoder(request, target, is_whole=True)
        try:
            decoder.read_body(body)
        except InvalidRequest as error:
            raise wrong_value_of_answer(error) from error
        except DragomanError as error:
            add_reported_usage(error, decoder.out)
            raise
        return decoder.out.take()

    def decode_response(self, body: bytes, request: Request | None = None, target: Target | None = None, /) -> Response:
        if self._decode_plain is not None:
            check_structure(body)
            try:
                plain = self._decode_plain(body, request, target)
            except InvalidRequest as error:
                raise wrong_value_of_answer(error) from error
            if plain is not None:
                return plain
        return fold(self.decode_body(body, request, target))

    def stream_decoder(self, request: Request | None = None, target: Target | None = None, /) -> FramedStreamDecoder:
        return FramedStreamDecoder(self._framing(), self._decoder(request, target))

    def _decoder(self, request: Request | None, target: Target | None, *, is_whole: bool = False) -> ResponseDecoder:
        decoder = self._new_decoder(request)
        if target is not None and target.quirks.think_tags and self._thinking_extra is not None:
            # A whole body loses no time. The text of a stream is held back, so thinking must be likely.
            tag, reasoning = target.quirks.think_tag, None if request is None else request.reasoning
            may_be_open = tag == "think" and (
                is_whole or (target.quirks.think_opened if reasoning is None else reasoning not in ("none", 0))
            )
            decoder.out.text_splitter = lambda is_first: ThinkTagSplitter(tag, may_be_open=may_be_open and is_first)
            decoder.out.thinking_extra = self._thinking_extra
        return decoder


def tool_by_tool(encode_tool: Callable[[Tool | Opaque, NoticeCollector], JsonObject], /) -> ToolEncoder:
    """Encodes tools one by one, for wires whose definitions do not depend on each other."""
    return lambda tools, notices: [encode_tool(tool, notices) for tool in tools]


def is_text_only(request: Request, /) -> bool:
    """Whether the messages are only text, as most are."""
    for message in request.messages:
        for part in message.parts:
            if type(part) is not Text:
                return False
    return True


def check_capabilities(request: Request, target: Target, /) -> None:
    """Raise Unsupported if the target only embeds, or lacks tools, structured output or streaming that are needed.

    Other capabilities are not checked here: a forced tool choice, a schema with `schema_mode="auto"` and reasoning are
    replaced by the nearest thing that the target has, with a notice; media are checked when they are made to fit.
    """
    capabilities = target.capabilities
    if not capabilities.chats:
        raise Unsupported("does not answer prompts; use it with embed or rerank")
    if not capabilities.tools and any(isinstance(tool, Tool | Opaque) for tool in request.tools):
        raise Unsupported("does not support tools")
    if request.schema is not None and not capabilities.structured and request.schema_mode == "native":
        raise Unsupported("does not support structured output")
    if request.stream and not capabilities.streaming:
        raise Unsupported("does not support streaming")
