"""DSNs: an environment variable such as LLM_BOX=ollama+http://box:11434 defines a provider.

The scheme names a provider record to start from; the rest says where the server is and which key to use.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.targets.provider import Provider, clean_key, with_default_path, without_credentials

PREFIX = "LLM_"
FORM = "scheme://[token@]host[:port][/path]"


def variable_of(name: str, /) -> str:
    """The variable that may define a provider of this name.

    >>> variable_of("my-box")
    'LLM_MY_BOX'
    """
    return PREFIX + name.upper().replace("-", "_")


def decode_dsn(name: str, dsn: object, schemes: Mapping[str, Provider], /) -> Provider:
    """The provider that a DSN defines.

    Errors do not show the DSN: it may hold a key. The key, client and secret headers of the scheme's record are not
    copied, so that they are never sent to another server.

    >>> from dragoman.targets.providers import PROVIDERS
    >>> decode_dsn("box", "ollama+http://box:11434", PROVIDERS)
    Provider(box, wire=ollama, http://box:11434)
    """
    variable = variable_of(name)
    scheme, separator, rest = (dsn if isinstance(dsn, str) else "").strip().partition("://")
    token, at, address = rest.partition("@")
    host, slash, path = (address if at else rest).rstrip("/").partition("/")
    if not separator or not scheme or not host or host.startswith(":"):
        raise SetupError(f"{variable} must be {FORM}")
    kind, plus, transport = scheme.lower().partition("+")
    if kind not in schemes or (plus and transport not in ("http", "https")):
        raise SetupError(f"{variable}: {_unknown_scheme(scheme, kind, schemes)}")
    record = schemes[kind]
    try:
        base_url = with_default_path(f"{_transport(record, transport)}://{host}{slash}{path}", record.default_path)
        key = clean_key(token, "its token") if at else None
    except SetupError as error:
        raise SetupError(f"{variable}: {error}") from None
    return replace(
        without_credentials(record),
        name=name,
        base_url=base_url,
        needs_key=False,
        api_key=key,
        family=record.family or record.name,
    )


def _unknown_scheme(scheme: str, kind: str, schemes: Mapping[str, Provider]) -> str:
    """A scheme that resembles no other is not shown: it may be a key."""
    if kind in ("http", "https"):
        return f"{kind} does not name a provider; write openai+{kind}://…, or another of {', '.join(schemes)}"
    if hint := did_you_mean(kind, schemes):
        return f"unknown scheme {scheme!r}{hint}"
    return f"unknown scheme; use one of {', '.join(schemes)}"


def _transport(record: Provider, transport: str) -> str:
    """The default is https, unless the scheme or the record says otherwise; the demo has a scheme of its own."""
    own = record.base_url.partition("://")[0]
    if transport or own not in ("", "http", "https"):
        return transport or own
    return "http" if record.plain_http else "https"


_MIN_SIMILARITY = 0.7
"""From 0 to 1; with 0.6, "nope" would suggest "openai"."""


def did_you_mean(name: str, known: Iterable[str], /) -> str:
    """A suggestion for the end of an error message; empty if no known name is similar.

    >>> did_you_mean("grok", ["groq", "openai"])
    "; did you mean 'groq'?"
    """
    spellings = {one.lower(): one for one in sorted(known)}
    close = [spellings[match] for match in get_close_matches(name.lower(), spellings, n=3, cutoff=_MIN_SIMILARITY)]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
