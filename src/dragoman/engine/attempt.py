"""One attempt: check the request, choose how JSON is requested, make the media fit, encode, send, decode."""

from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import Compute, Fetch, Now, Plan, Send, Sign
from dragoman.engine.exchange import MAX_BODY, Completed, exchange, time_left
from dragoman.engine.structured_output import OutputForm, choose_output_form
from dragoman.errors import AuthFailed, DragomanError, ModelNotFound, Unsupported
from dragoman.http import MIN_SECRET, HttpRequest, HttpResponse, redact_url
from dragoman.media import RequestMedia, find_media, has_result_media
from dragoman.targets.target import Target
from dragoman.types import Notice, Request, ToolCall, ToolResult
from dragoman.types.json_size import count_values
from dragoman.wires.common.client_half import check_capabilities, is_text_only
from dragoman.wires.common.notices import NoticeCollector

FETCH_TIMEOUT = 15.0
"""Seconds to fetch one image."""
HEAVY_MESSAGES = 1000
"""A request with more messages is encoded outside the event loop: 10 000 take about 0.1 s."""
HEAVY_VALUES = 5000
"""JSON values in tool call arguments above which encoding runs outside the event loop."""
HEAVY_TEXT = 64 * 1024
"""Characters in tool results above which encoding runs outside the event loop."""
T = TypeVar("T")
Encode: TypeAlias = Callable[[Request, Target], HttpRequest]


def attempt(request: Request, target: Target, call: CallContext, /) -> Plan[Completed]:
    """Send one request to one target. If the request is streamed, the plan emits events.

    >>> from dragoman.targets.providers import target
    >>> plan = attempt(Request(), target("ollama/x"), CallContext())
    >>> next(plan), plan.send(0.0).request.url
    (Now(), 'http://localhost:11434/api/chat')
    """
    try:
        check_key(target)
        notices = call.notices
        if call.adapt is not None:
            request, changes = call.adapt(request, target)
            notices += changes
        output = OutputForm(request=request) if request.schema is None else _checked_output_form(request, target)
        client = wires.get(target.wire).client
        if len(output.request.messages) <= HEAVY_MESSAGES and is_text_only(output.request):
            http = client.encode_request(output.request, target)
        else:
            http = yield from encode_with_media(output.request, target, call, client.encode_request)
        if notices or output.notices:
            http = _add_notices(notices + output.notices, http)
        if call.change_http is not None:
            http = yield from call.change_http(http)
    except DragomanError as error:
        annotate_error(error, target)
        raise
    if target.credential is not None:
        return (
            yield from sign_and_send(
                http, target, call.deadline, lambda signed: exchange(signed, output, target, client, call)
            )
        )
    try:
        return (yield from exchange(http, output, target, client, call))
    except DragomanError as error:
        annotate_error(error, target, http)
        raise


def _checked_output_form(request: Request, target: Target) -> OutputForm:
    """How JSON is requested. A schema that must be native is refused here; the wire refuses all else that it must."""
    check_capabilities(request, target)
    return choose_output_form(request, target)


def sign_and_send(
    http: HttpRequest, target: Target, deadline: float | None, send: Callable[[HttpRequest], Plan[T]], /
) -> Plan[T]:
    """Sign a request if the target has a credential, and send it.

    If the server rejects the key, fetch a new key and send it once more.
    """
    if target.credential is None:
        with annotate_errors(target, http):
            return (yield from send(http))
    signed = yield from _sign(http, target, deadline)
    try:
        with annotate_errors(target, signed):
            return (yield from send(signed))
    except AuthFailed as error:
        if not can_renew_key(error):
            raise
        again = yield from _sign(http, target, deadline, signed.secret)
        if again.secret == signed.secret:
            raise
    with annotate_errors(target, again):
        return (yield from send(again))


def send_extra_request(http: HttpRequest, target: Target, call: CallContext, /) -> Plan[HttpResponse]:
    """Send a request other than the call itself, such as an upload; raises its error."""

    def send(signed: HttpRequest) -> Plan[HttpResponse]:
        now: float = yield Now()
        response: HttpResponse = yield Send(
            signed, time_left(call.deadline, now), call.timeouts.connect, limit=MAX_BODY, transport=target.http_client
        )
        if response.status >= 300:
            raise wires.get(target.wire).client.decode_error(response, response.body)
        return response

    if http.origin != target.origin_and_prefix[0]:
        return (yield from send(http))  # an address of its own for the upload: it needs no key
    return (yield from sign_and_send(http, target, call.deadline, send))


def can_renew_key(error: AuthFailed, /) -> bool:
    """Whether another key may help: the status is 401, or the code says that the key has expired.

    >>> can_renew_key(AuthFailed("no", status=403)), can_renew_key(AuthFailed("no", status=401))
    (False, True)
    """
    return error.status == 401 or "expiredtoken" in (error.code or "").lower()


def _sign(http: HttpRequest, target: Target, deadline: float | None, rejected: str | None = None) -> Plan[HttpRequest]:
    now: float = yield Now()
    with annotate_errors(target):
        signed: HttpRequest = yield Sign(http, target, rejected, time_left(deadline, now))
    return signed


def build_request(request: Request, target: Target, /) -> HttpRequest:
    """The HTTP request for a target, without I/O and also without an API key."""
    with annotate_errors(target):
        output = _checked_output_form(request, target)
        encode = wires.get(target.wire).client.encode_request
        try:
            http = _encode_without_io(output.request, target, CallContext(), encode)
        except Unsupported:
            if not has_result_media(request):
                raise
            http = _encode_without_io(output.request, target, CallContext(degrade_tool_media=True), encode)
        return _add_notices(output.notices, http)


def _encode_without_io(request: Request, target: Target, call: CallContext, encode: Encode) -> HttpRequest:
    media = _checked_media(request, target, call)
    return encode(request, target) if media is None else _fit_and_encode(media, target, encode)


# Checks ---------------------------------------------------------------------------------------------------------------


def check_key(target: Target, /) -> None:
    """Raise AuthFailed if a target needs an API key and has none.

    >>> check_key(Target(provider="p", model="m", wire="w", base_url="https://x", needs_key=True))
    Traceback (most recent call last):
        ...
    dragoman.errors.AuthFailed: no API key; pass api_key=
    """
    if target.lacks_key:
        variables = f"set {' or '.join(target.key_names)} or " if target.key_names else ""
        raise AuthFailed(f"no API key; {variables}pass api_key=", fail_over=True)


# Media and encoding ---------------------------------------------------------------------------------------------------


def encode_with_media(request: Request, target: Target, call: CallContext, encode: Encode, /) -> Plan[HttpRequest]:
    """Fetch images if `fetch_images` is set, adapt the media to the target, then encode."""
    media = _checked_media(request, target, call)
    is_heavy = _is_heavy(request) or (media is not None and media.is_heavy)
    if media is not None and call.fetch_images:
        yield from _fetch_images(media, call)

    def run(stop: Callable[[], bool] = lambda: False) -> HttpRequest:
        return encode(request, target) if media is None else _fit_and_encode(media, target, encode, stop)

    if not is_heavy:
        return run()
    now: float = yield Now()
    http: HttpRequest = yield Compute(run, time_left(call.deadline, now))
    return http


def _is_heavy(request: Request) -> bool:
    """Whether the encoding takes long. This looks at a few thousand values at most."""
    if len(request.messages) > HEAVY_MESSAGES:
        return True
    values_left, characters_left = HEAVY_VALUES, HEAVY_TEXT
    for message in request.messages:
        for part in message.parts:
            if type(part) is ToolCall:
                values_left -= count_values(part.arguments, values_left)
            elif type(part) is ToolResult:
                characters_left -= len(part.text)
            if values_left <= 0 or characters_left <= 0:
                return True
    return False


def _checked_media(request: Request, target: Target, call: CallContext) -> RequestMedia | None:
    """The media of a request, if it has any; raises Unsupported for what the target cannot take."""
    degrade = call.degrade_tool_media
    media = find_media(request, target.capabilities, call.media_cache, degrade_tool_media=degrade)
    if media is not None:
        media.check()
    return media


def _fetch_images(media: RequestMedia, call: CallContext) -> Plan[None]:
    """Fetch the images that the target cannot fetch itself, and put them into the cache."""
    for url in media.urls:
        result = yield from _fetch_image(url, call)
        call.media_cache.add(url, result)
        if isinstance(result, Unsupported) and media.requires(url):
            raise result


def _fetch_image(url: str, call: CallContext) -> Plan[bytes | Unsupported]:
    now: float = yield Now()
    timeout = time_left(call.deadline, now, FETCH_TIMEOUT)
    if call.media_cache.room <= 0:
        return Unsupported(
            f"cannot fetch {redact_url(url)}: the images of this call are larger than the limit in total"
        )
    try:
        data: bytes = yield Fetch(url, timeout or FETCH_TIMEOUT, call.media_cache.room)
    except Unsupported as error:
        return error
    return data


def _fit_and_encode(
    media: RequestMedia, target: Target, encode: Encode, stop: Callable[[], bool] = lambda: False
) -> HttpRequest:
    reason: Unsupported | None = None
    while True:
        fitted = media.fit(stop, reason=reason)
        notices = NoticeCollector(target.name, strict=fitted.request.strict)
        for notice in fitted.notices:
            notices.add(notice.kind, notice.what, notice.why)
        try:
            return _add_notices(notices.notices, encode(fitted.request, target))
        except Unsupported as error:
            if not media.degrade_tool_media or reason is not None:
                raise
            reason = error  # the wire cannot send media in tool results: send notes instead


def _add_notices(notices: tuple[Notice, ...], http: HttpRequest) -> HttpRequest:
    return replace(http, notices=notices + http.notices) if notices else http


# Errors ---------------------------------------------------------------------------------------------------------------


class annotate_errors:  # noqa: N801 - used like a function, as contextlib's are
    """Calls `annotate_error` for the errors that leave its block.

    >>> with annotate_errors(Target(provider="p", model="m", wire="w", base_url="https://x")):
    ...     raise Unsupported("does not support tools")
    Traceback (most recent call last):
        ...
    dragoman.errors.Unsupported: p/m: does not support tools
    """

    def __init__(self, target: Target, http: HttpRequest | None = None) -> None:
        self._target = target
        self._http = http

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, DragomanError):
            annotate_error(error, self._target, self._http)


def annotate_error(error: DragomanError, target: Target, http: HttpRequest | None = None, /) -> None:
    """Add the provider and the model to an error, and the URL to a 404. Remove API keys from its message.

    Without `http`, nothing was sent yet: the error does not count against the target.
    """
    message, code = error.message, error.code
    if http is not None and error.status == 404 and isinstance(error, ModelNotFound):
        message = f"{message} (at {redact_url(http.url)})"
    own = [target.api_key] if target.api_key and len(target.api_key) >= MIN_SECRET else []
    for key in (*own, *(http.sent_secrets if http is not None else ())):
        message = message.replace(key, "[redacted]")
        code = code and code.replace(key, "[redacted]")
    error.annotate(
        message=message,
        code=code,
        provider=error.provider or target.provider,
        model=error.model or target.model,
        count_failure=http is not None and error.count_failure,
        prefix="" if message.startswith((f"{target.name}:", f"{target.provider}:")) else f"{target.name}: ",
    )
