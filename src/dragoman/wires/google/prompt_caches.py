"""Cached contents of Gemini: the beginning of a prompt, stored under a name that requests refer to."""

from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.errors import Malformed
from dragoman.http import HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import decode_json, encode_json, object_of, whole_number
from dragoman.wires.common.prompt_caches import CacheSplit, StoredPrompt
from dragoman.wires.google.encoder import cloud_of, locate

_ANY = msgspec.json.Decoder()
_CACHED = ("systemInstruction", "tools", "toolConfig")
"""What belongs to the beginning of every prompt; a request with a cached content must not repeat it."""


class GeminiCaches:
    """Makes, renews and deletes cached contents, at the Gemini API and at Vertex AI."""

    def split(
        self, whole: HttpRequest, beginning: HttpRequest | None, target: Target, ttl: int, /
    ) -> CacheSplit | None:
        """The request in two: what to cache, and the rest."""
        body = _object(whole.body)
        cached = [] if beginning is None else _items(_object(beginning.body), "contents")
        rest = _after(_items(body, "contents"), cached)
        place = _place(target)
        if not rest or place is None or "cachedContent" in body:
            return None
        base, resource = place
        content: JsonObject = {name: body[name] for name in _CACHED if name in body}
        content |= {"model": resource, **({"contents": cached} if cached else {})}
        key = sha256(encode_json(content)).hexdigest()
        create = post_request(base, "/cachedContents", {**content, "ttl": f"{ttl}s"}, None)
        others = {name: value for name, value in body.items() if name not in (*_CACHED, "contents")}
        return CacheSplit(key=key, create=create, whole=whole, rest={**others, "contents": rest})

    def use(self, split: CacheSplit, name: str, /) -> HttpRequest:
        """The rest of a request, which refers to a cached content."""
        return replace(split.whole, body=encode_json({"cachedContent": name, **split.rest}))

    def decode(self, response: HttpResponse, /) -> StoredPrompt:
        """The name of a cached content, and its tokens."""
        data = _object(response.body)
        name, usage = data.get("name"), data.get("usageMetadata")
        if not isinstance(name, str) or not name:
            raise Malformed("the response has no name of a cached content")
        return StoredPrompt(name, whole_number(usage.get("totalTokenCount")) if is_object(usage) else None)

    def renew(self, name: str, target: Target, ttl: int, /) -> HttpRequest:
        """The request that lets a cached content live longer."""
        base, _ = _place(target) or (target, "")
        path = _path(name, target)
        http = post_request(base, f"{path}?updateMask=ttl", {"ttl": f"{ttl}s"}, None)
        return replace(http, method="PATCH")

    def delete(self, name: str, target: Target, /) -> HttpRequest:
        """The request that deletes a cached content."""
        base, _ = _place(target) or (target, "")
        return replace(post_request(base, _path(name, target), {}, None), method="DELETE", body=b"")


def _object(body: bytes) -> JsonObject:
    data: Any = decode_json(_ANY, body)
    return object_of(data)


def _items(data: JsonObject, name: str) -> list[Any]:
    items = data.get(name)
    return items if is_list(items) else []


def _place(target: Target) -> tuple[Target, str] | None:
    """The target below whose base URL the caches are, and the name of the model; None if it has none."""
    cloud = cloud_of(target)
    if cloud is None:
        return target, locate(target)[1].removeprefix("/")
    if not cloud["place"]:
        return None
    base = replace(target, base_url=target.origin_and_prefix[0] + cloud["version"] + cloud["place"])
    return base, f"{cloud['place'].removeprefix('/')}/publishers/google/models/{target.model}"


def _path(name: str, target: Target) -> str:
    """The path of a cached content below the base URL; at Vertex AI its name has the project and the location."""
    cloud = cloud_of(target)
    place = "" if cloud is None else f"{cloud['place'] or ''}/".removeprefix("/")
    return "/" + name.removeprefix(place)


def _after(contents: list[Any], cached: list[Any]) -> list[Any]:
    """The contents after those that are cached; empty if they do not begin with them."""
    if not cached:
        return contents
    *before, last = cached
    at = len(before)
    if contents[:at] != before or len(contents) <= at:
        return []
    own, split = contents[at], _items(last, "parts")
    parts = _items(own, "parts")
    if own.get("role") != last.get("role") or parts[: len(split)] != split:
        return []
    remaining = parts[len(split) :]
    return [*([{**own, "parts": remaining}] if remaining else []), *contents[at + 1 :]]
