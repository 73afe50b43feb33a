"""`scheme://[token@]host[:port][/path]` in, the provider that it defines out."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.targets.providers import Provider, clean_key, with_default_path, without_credentials

PREFIX = "LLM_"
FORM = "scheme://[token@]host[:port][/path]"


def variable_of(name: str, /) -> str:
    """The variable that may define a provider of that name.

    >>> variable_of("my-box")
    'LLM_MY_BOX'
    """
    return PREFIX + name.upper().replace("-", "_")


def decode_dsn(name: str, dsn: object, schemes: Mapping[str, Provider], /) -> Provider:
    """The provider of that name: after the record of the scheme, but at this place and as this token says.

    The value is in no error: it may hold a key. A scheme's own key, client and secret headers do not count here, so
    that none goes to a place that it was not made for.

    >>> from dragoman.targets.providers import PROVIDERS
    >>> decode_dsn("box", "ollama+http://box:11434", PROVIDERS)
    Provider(box, wire=ollama, http://box:11434)
    """
    where = variable_of(name)
    scheme, separator, rest = (dsn if isinstance(dsn, str) else "").strip().partition("://")
    token, at, place = rest.partition("@")
    host, slash, path = (place if at else rest).rstrip("/").partition("/")
    if not separator or not scheme or not host or host.startswith(":"):
        raise SetupError(f"{where} is malformed; write {FORM}")
    kind, plus, transport = scheme.lower().partition("+")
    if kind not in schemes or (plus and transport not in ("http", "https")):
        raise SetupError(f"{where}: {_no_scheme(scheme, kind, schemes)}")
    record = schemes[kind]
    try:
        base_url = with_default_path(f"{_transport(record, transport)}://{host}{slash}{path}", record.default_path)
        key = clean_key(token, "its token") if at else None
    except SetupError as error:
        raise SetupError(f"{where}: {error}") from None
    return replace(
        without_credentials(record),
        name=name,
        base_url=base_url,
        needs_key=False,
        api_key=key,
        family=record.family or record.name,
    )


def _no_scheme(scheme: str, kind: str, schemes: Mapping[str, Provider]) -> str:
    """What is wrong with a scheme. One that is like none is not shown: somebody may have put a key there."""
    if kind in ("http", "https"):
        return f"{kind} does not say what is spoken there; write openai+{kind}://…, or another of {', '.join(schemes)}"
    if meant := did_you_mean(kind, schemes):
        return f"no scheme {scheme!r}{meant}"
    return f"no such scheme; there are {', '.join(schemes)}"


def _transport(record: Provider, told: str) -> str:
    """https, but where the scheme says otherwise; what is embedded stays so."""
    own = record.base_url.partition("://")[0]
    if told or own not in ("", "http", "https"):
        return told or own
    return "http" if record.plain_http else "https"


def did_you_mean(name: str, known: Iterable[str], /) -> str:
    """What somebody may have meant, as the end of an error's message.

    >>> did_you_mean("grok", ["groq", "openai"])
    "; did you mean 'groq'?"
    """
    spelled = {one.lower(): one for one in sorted(known)}
    close = [spelled[match] for match in get_close_matches(name.lower(), spelled, n=3)]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
