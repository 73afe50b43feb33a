"""HTTP requests to a target: its base URL, its key and its own headers."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.notices import NoticeCollector

GROWING = ("messages", "input", "contents")
"""The lists that grow with a conversation. Each is the last member of its body, so that the rest stays in its place."""


_POST = HttpRequest(method="POST", path="")


def post_request(
    target: Target, path: str, body: JsonObject, notices: NoticeCollector | None, /, **headers: str
) -> HttpRequest:
    """A POST of a JSON body to a path below the target's base URL; the list that grows comes last.

    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x/v1", api_key="k")
    >>> post_request(target, "/chat", {}, NoticeCollector("w")).url
    'https://x/v1/chat'
    """
    origin, prefix = target.origin_and_prefix
    if (hosting := target.hosting) is not None:
        path = hosting.to_path(path, target.model, stream=body.get("stream") is True)
        body = {**hosting.fields, **{field: value for field, value in body.items() if field not in hosting.without}}
    for name in GROWING:
        if name in body:
            body[name] = body.pop(name)
    return msgspec.structs.replace(
        _POST,
        origin=origin,
        path=prefix + path,
        headers={**headers, **target.json_headers},
        body=encode_json(body),
        notices=() if notices is None else notices.notices,
        secret=target.api_key,
    )


def get_request(target: Target, path: str, /, **headers: str) -> HttpRequest:
    """A GET of a path below the target's base URL."""
    origin, prefix = target.origin_and_prefix
    return HttpRequest(
        method="GET",
        origin=origin,
        path=prefix + path,
        headers={**headers, **target.auth_headers(), **target.headers},
        secret=target.api_key,
    )


def with_body(http: HttpRequest, suffix: str, body: JsonObject, /) -> HttpRequest:
    """The same request with a suffix to its path and another body.

    >>> with_body(HttpRequest(method="POST", path="/v1/messages"), "/count", {}).path
    '/v1/messages/count'
    """
    return msgspec.structs.replace(http, path=http.path + suffix, body=msgspec.json.encode(body))
