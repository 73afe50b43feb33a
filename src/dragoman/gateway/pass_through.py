"""Paths of a provider that no wire translates: images, speech, transcription, moderation, fine-tuning.

The client's bytes go to the provider and back as they are, with the gateway's key for the provider in place of the
client's. The limits of the client's key hold, and each request has a row in the usage log. It is off unless the table
[pass_through] names providers.

A provider may charge for things that have no tokens, so the cost of a request is known only if its answer reports
tokens. A key with a budget is refused, unless `allow_budgets` says that such requests need not count.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from dragoman.engine.deployment_limits import limit_requests
from dragoman.engine.effects import Emit
from dragoman.engine.pass_through import pass_through
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.auth.authenticate import check_model, check_name
from dragoman.gateway.catalog import TargetChoice
from dragoman.gateway.config import PassThroughSettings
from dragoman.gateway.errors import Forbidden, NoRoute
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.body_limits import decode_body
from dragoman.gateway.server.response import GatewayResponse, Write
from dragoman.http import Head, HttpRequest
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Request, Usage, is_object
from dragoman.wires.common.json import whole_number
from dragoman.wires.common.multipart import form_fields
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_chat import WIRE

DIALECT = WIRE
"""Errors of the gateway have the form of OpenAI, whose paths these are."""
PREFIX = "/providers/"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PATHS = {
    "images": "/v1/images/{id}",
    "audio": "/v1/audio/{id}",
    "moderations": "/v1/moderations",
    "fine_tuning": "/v1/fine_tuning/{id}",
}
"""Paths of OpenAI that go to a provider of the settings."""
_REQUEST_HEADERS = re.compile(r"content-type|accept|idempotency-key|range|(?:openai|anthropic)-[\w-]+")
_RESPONSE_HEADERS = re.compile(r"content-(?:type|disposition|range)|retry-after|accept-ranges")
_SAFE = "/:@!$&'()*+,;=~"
"""Characters of a path that need no escape, besides letters and digits."""
_ONE_MODEL = re.compile(r"(?:v\d\w*/)?(?:images/\w+|audio/\w+|moderations|embeddings|rerank|(?:chat/)?completions)")
"""Paths whose only model is the member `model` of the body; others may have one in the path, or in rows of a batch."""
_SANDBOX = (("content-security-policy", "sandbox"), ("x-content-type-options", "nosniff"))
"""A page in an answer must not run as a page of the gateway, whose dashboard has a key."""
_MULTIPART = "multipart/form-data"
_MAX_MODEL = 200
_FIRST_ERROR = 400
_MAX_USAGE_BODY = 1024 * 1024
"""Bytes of a JSON answer in which `usage` is looked for."""


def routes() -> tuple[Route, ...]:
    """The routes of the gateway for such paths."""
    paths = (f"{PREFIX}{{provider}}/{{id}}", *_PATHS.values())
    return tuple(Route(method=method, path=path) for path in paths for method in METHODS)


class PassThrough:
    """One request on its way through."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._provider, self._rest = _destination(context.http.path, context.runtime.config.pass_through)
        self._usage_body = bytearray()

    async def open(self) -> GatewayResponse:
        """Send the request; the response of the gateway begins with the head of the provider's answer."""
        context = self._context
        kind = context.http.headers.get("content-type", "").lower()
        model = ""
        if "json" in kind or kind.startswith(_MULTIPART):
            settings = context.runtime.config.gateway
            model = await decode_body(context.http, settings, _model_of, is_json=not kind.startswith(_MULTIPART))
        self._check_key(model)
        target = context.runtime.registry.target(f"{self._provider}/{model or 'none'}")
        context.model, context.operation = self._provider, "pass_through"
        context.choice = TargetChoice((target,), context.runtime.config.options)
        context.request = Request()
        record = context.record = await context.runtime.accounting.open(context)
        http = self._outgoing(target)
        options, loads = context.runtime.config.options, context.runtime.registry.health.loads
        plan = limit_requests(pass_through(http, target, options.timeouts), target, loads, options)
        emissions = context.runtime.registry.driver.aemissions(plan)
        head = cast("Head", (await anext(emissions)).events[0])
        headers = [(name, value) for name, value in head.headers.items() if _RESPONSE_HEADERS.fullmatch(name.lower())]
        headers += [*_SANDBOX, *context.response_headers(self._provider), *record.limit_headers]

        async def write_body(write: Write) -> None:
            await self._write(record, head, emissions, write)

        return GatewayResponse(head.status, headers, write_body)

    def _check_key(self, model: str) -> None:
        key, settings = self._context.key, self._context.runtime.config.pass_through
        # Without a model that is known for sure, the key must be allowed to use all of the provider's.
        is_known = model and _ONE_MODEL.fullmatch(self._rest.partition("?")[0])
        check_model(key, f"{self._provider}/{model if is_known else '*'}")
        if key is not None and key.has_budgets and not settings.allow_budgets:
            raise Forbidden(
                f"key {key.id!r} has a budget, and the cost of this path is not known; "
                "use another key, or set pass_through.allow_budgets"
            )

    def _outgoing(self, target: Target) -> HttpRequest:
        origin, prefix = target.origin_and_prefix
        rest, _, query = self._rest.partition("?")
        version = prefix.rpartition("/")[2]
        if version and rest.startswith(f"{version}/"):  # clients of OpenAI add the version to any base URL
            rest = rest.removeprefix(f"{version}/")
        if any(segment in (".", "..") for segment in rest.split("/")) or "\\" in rest or not rest.isprintable():
            raise InvalidRequest(f"path must not have '.' or '..' as a part, got {rest[:200]!r}")
        own = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "key"]
        path = f"{prefix}/{quote(rest, safe=_SAFE)}" + (f"?{urlencode(own)}" if own else "")
        http = self._context.http
        own_headers = {**target.auth_headers(), **target.headers}
        set_by_us = {name.lower() for name in own_headers}
        headers = {
            name: value
            for name, value in http.headers.items()
            if _REQUEST_HEADERS.fullmatch(name) and name not in set_by_us
        }
        return HttpRequest(
            method=http.method,
            origin=origin,
            path=path,
            headers={**headers, **own_headers},
            body=http.body,
            secret=target.api_key,
        )

    async def _write(
        self, record: RequestRecord, head: Head, emissions: AsyncGenerator[Emit, None], write: Write
    ) -> None:
        """Write the answer as it comes. If it breaks off, so does the response, so that nobody takes it for whole."""
        is_json = (head.header("content-type") or "").startswith("application/json")
        try:
            async with aclosing(emissions):
                async for emission in emissions:
                    for data in emission.events:
                        if is_json and len(self._usage_body) <= _MAX_USAGE_BODY:
                            self._usage_body += data
                        await write(data)
        except DragomanError as error:
            await record.fail(error)
            raise ConnectionResetError("the provider's answer broke off") from error
        except (ConnectionError, asyncio.CancelledError):
            await record.client_disconnected(self._provider)
            raise
        usage = _usage_of(bytes(self._usage_body))
        if head.status < _FIRST_ERROR:
            await record.finish("served", status=head.status, target=self._context.choice.targets[0].name, usage=usage)
        else:  # the name of the model may be anything, so it is not recorded
            await record.finish("failed", status=head.status, usage=usage)


def _destination(path: str, settings: PassThroughSettings) -> tuple[str, str]:
    """The provider of a path, and the path at the provider."""
    if path.startswith(PREFIX):
        provider, _, rest = path.removeprefix(PREFIX).partition("/")
        if provider not in settings.providers:
            raise NoRoute(f"no route for {path[:200]}; the setting pass_through.providers has no {provider[:100]!r}")
        return provider, rest
    rest = path.removeprefix("/v1/")
    name = re.split(r"[/?]", rest)[0]
    chosen: str | None = getattr(settings, name)
    if chosen is None:
        raise NoRoute(f"no route for {path[:200]}; the setting pass_through.{name} names no provider")
    return chosen, rest


def _model_of(http: HttpRequest) -> str:
    """The model that a body names, in JSON or in a form; empty if there is none."""
    name: object = None
    if http.headers.get("content-type", "").lower().startswith(_MULTIPART):
        names = {field.text for name, field in form_fields(http) if name == "model"}
        if len(names) > 1:
            raise InvalidRequest("model must be one field of the form, got several with different values")
        name = next(iter(names), None)
    elif http.body:
        name = _member(http.body, "model")
    if not isinstance(name, str):
        return ""
    check_name(name)
    return name[:_MAX_MODEL]


def _member(body: bytes, name: str) -> object:
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value.get(name) if is_object(value) else None


def _usage_of(body: bytes) -> Usage:
    usage = _member(body, "usage") if body else None
    if not is_object(usage):
        return UNKNOWN_USAGE
    counts: Mapping[str, Any] = usage
    sent = whole_number(counts.get("input_tokens", counts.get("prompt_tokens")))
    received = whole_number(counts.get("output_tokens", counts.get("completion_tokens")))
    return UNKNOWN_USAGE if sent is None and received is None else Usage(input=sent, output=received)
