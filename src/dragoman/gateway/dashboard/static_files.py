"""The static files of the dashboard. Each is read once and sent with a strict Content-Security-Policy."""

from functools import cache
from pathlib import Path

from dragoman.gateway.server.response import GatewayResponse

PAGE = "index.html"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FILES = (
    "style.css",
    "dashboard.js",
    "forms.js",
    "holders.js",
    "markdown.js",
    "models.js",
    "overview.js",
    "parts.js",
    "playground.js",
    "plots.js",
    "range.js",
    "requests.js",
    "snippets.js",
    "system.js",
    "usage.js",
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from other origins, nothing inline, no embedding in frames."""
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-cache"),
)


def file(name: str, /) -> GatewayResponse:
    """The response for one file."""
    kind = TYPES[name[name.rindex(".") :]]
    return GatewayResponse(200, [("content-type", f"{kind}; charset=utf-8"), *HEADERS], read(name))


def page(*, needs_key: bool) -> GatewayResponse:
    """The page. If it knows that it needs a key, its first request is not one that is refused."""
    response = file(PAGE)
    mark = b'<html lang="en" data-needs-key>' if needs_key else b'<html lang="en">'
    return GatewayResponse(response.status, response.headers, read(PAGE).replace(b'<html lang="en">', mark, 1))


@cache
def read(name: str, /) -> bytes:
    """The bytes of a file."""
    return (Path(__file__).parent / "static" / name).read_bytes()
