"""What a target would get: the request, to the byte, and whether it could be sent."""

import msgspec

from dragoman.engine.attempt import build_request
from dragoman.engine.failover import ChainOptions
from dragoman.engine.prompt_caches import has_points
from dragoman.engine.uploads import explain_files
from dragoman.errors import DragomanError
from dragoman.http import HttpRequest
from dragoman.media import find_media
from dragoman.targets.target import Target
from dragoman.types import Notice, Request
from dragoman.wires.common.caching import find_breakpoints, needs_caching


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The request that one target would get, with its keys redacted, and whether it could be sent.

    >>> from dragoman import Registry
    >>> Registry(env={}).model("groq/llama").explain("hello")[0].reason
    'no key; set GROQ_API_KEY'
    """

    target: str
    request: HttpRequest | None
    """None if the target cannot take the request; `reason` says why."""
    notices: tuple[Notice, ...]
    """What would be dropped or changed for this target."""
    ready: bool
    reason: str | None = None
    """Why the target is not ready, or why there is no request to show."""
    cache: tuple[str, ...] = ()
    """Where the request tells the provider to cache the prompt: `system[0] (1h)`, `the end of the prompt`, …"""


def explain_target(request: Request, target: Target, chain_options: ChainOptions, /) -> Explanation:
    """The explanation for one target."""
    missing = target.lacks_key
    media = find_media(request, target.capabilities) if chain_options.fetch_images else None
    if media is not None and media.urls:
        why = "images by URL are fetched when the call is made"
        return Explanation(target=target.name, request=None, notices=(), ready=not missing, reason=why)
    try:
        http = build_request(request, target)
    except DragomanError as error:
        return Explanation(target=target.name, request=None, notices=(), ready=False, reason=error.message)
    remedy = f"set {' or '.join(target.key_names)}" if target.key_names else "pass api_key="
    reason = f"no key; {remedy}" if missing else None
    return Explanation(
        target=target.name,
        request=http.redacted(),
        notices=http.notices + explain_files(request, target),
        ready=not missing,
        reason=reason,
        cache=_cache_places(http, request, target),
    )


def _cache_places(http: HttpRequest, request: Request, target: Target) -> tuple[str, ...]:
    if target.quirks.caching == "contents" and has_points(request):
        return ("up to the last cache point, in a cachedContent that is made when the call is made",)
    return cache_places(http) if needs_caching(request) else ()


def cache_places(http: HttpRequest, /) -> tuple[str, ...]:
    """Where a request tells the provider to cache the prompt.

    >>> cache_places(HttpRequest(method="POST", path="/", body=b'{"messages":[],"cache_control":{"type":"ephemeral"}}'))
    ('the end of the prompt',)
    """
    return find_breakpoints(msgspec.json.decode(http.body))
