"""A user's own words about providers in, records out: what `add_provider` takes, and the tables of a dragoman.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dragoman import wires
from dragoman.dsn import nearest
from dragoman.errors import SetupError
from dragoman.families import overlaid
from dragoman.http import split_base_url
from dragoman.providers import Provider
from dragoman.target import Limits, Quirks
from dragoman.types import is_object

TABLES = ("providers", "aliases", "limits")
_FIELDS = (*Provider.__struct_fields__, "like")


class Facts(msgspec.Struct, frozen=True):
    """What is told of a provider or a model, over what is known of it.

    >>> Facts({"max_images": 3}).over(Limits(), Quirks())[0].max_images
    3
    """

    limits: dict[str, Any] = {}
    quirks: dict[str, Any] = {}

    def over(self, limits: Limits, quirks: Quirks, /) -> tuple[Limits, Quirks]:
        """Limits and quirks with these facts laid over them."""
        return overlaid(limits, self.limits), overlaid(quirks, self.quirks)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a config says, checked.

    >>> Settings(providers={}, aliases={"fast": "groq/llama"}, facts={}).aliases
    {'fast': 'groq/llama'}
    """

    providers: dict[str, Provider]
    aliases: dict[str, str]
    facts: dict[str, Facts]


def make_provider(fields: Mapping[str, Any], known: Mapping[str, Provider], /) -> Provider:
    """The record that some fields tell; `like` names one to start from, whose key goes to its own place only.

    >>> from dragoman.providers import PROVIDERS
    >>> make_provider({"name": "box", "like": "vllm", "base_url": "http://box:8000/v1"}, PROVIDERS)
    Provider(box, wire=openai_chat, http://box:8000/v1)
    """
    told = dict(fields)
    _refuse_unknown("a provider has no", told, _FIELDS)
    like = told.pop("like", None)
    base: dict[str, Any] = {}
    if like is not None:
        if like not in known:
            raise SetupError(f"like: no provider {like!r}{nearest(str(like), known)}")
        base = _inherited(known[like], told)
    given = {field: told.pop(field) for field in ("limits", "quirks") if field in told}
    facts = [_table_of(given.get("limits", {})), _table_of(given.get("quirks", {}))]
    _refuse_unknown("no limit", facts[0], Limits.__struct_fields__)
    _refuse_unknown("no quirk", facts[1], Quirks.__struct_fields__)
    try:
        record = msgspec.convert({**base, **told}, Provider)
        limits, quirks = overlaid(record.limits, facts[0]), overlaid(record.quirks, facts[1])
    except msgspec.ValidationError as error:
        raise SetupError(f"a provider: {error}") from error
    return checked(msgspec.structs.replace(record, limits=limits, quirks=quirks))


def _inherited(record: Provider, told: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record; without its key where another one at another place is made of it."""
    base: dict[str, Any] = msgspec.to_builtins(record)
    base["family"] = record.family or record.name
    name = told.get("name", record.name)
    if name != record.name and "base_url" in told:
        base.update(api_key=None, base_url_names=(), key_names=(f"{str(name).upper().replace('-', '_')}_API_KEY",))
    return base


def _table_of(told: Any) -> dict[str, Any]:
    """The facts of a table or a record."""
    table: Any = msgspec.to_builtins(told) if isinstance(told, Limits | Quirks) else told
    if not is_object(table):
        raise SetupError("not a table")
    return table


def checked(provider: Provider, /) -> Provider:
    """The same, when its name can be written in a spec, there is such a wire, and its place is whole.

    >>> checked(Provider(name="own", wire="ollama", base_url="https://x"))
    Provider(own, wire=ollama, https://x)
    """
    if not provider.name or set(provider.name) & set("/, \t\n"):
        raise SetupError(f"{provider.name!r} cannot be a provider's name: it is empty, or has a slash, comma or blank")
    if provider.wire not in wires.NAMES:
        raise SetupError(f"{provider.name}: no wire {provider.wire!r}; there are {', '.join(wires.NAMES)}")
    if provider.base_url:
        split_base_url(provider.base_url)
    return provider


def make_facts(told: Mapping[str, Any], /) -> Facts:
    """The limits and quirks among some facts, each of the right type.

    >>> make_facts({"max_images": 3}).limits
    {'max_images': 3}
    """
    _refuse_unknown("no limit", told, (*Limits.__struct_fields__, *Quirks.__struct_fields__))
    facts = Facts(
        {name: value for name, value in told.items() if name in Limits.__struct_fields__},
        {name: value for name, value in told.items() if name in Quirks.__struct_fields__},
    )
    problems = [why for name, value in told.items() if (why := _why_wrong(name, value)) is not None]
    if problems:
        raise SetupError("; ".join(problems))
    return facts


def _why_wrong(name: str, value: Any) -> str | None:
    """What is wrong with one fact, by itself."""
    fact = Facts({name: value}) if name in Limits.__struct_fields__ else Facts({}, {name: value})
    try:
        fact.over(Limits(), Quirks())
    except msgspec.ValidationError as error:
        return f"a limit: {error}"
    return None


def check_alias(name: str, spec: object, /) -> tuple[str, str]:
    """A bare name and what it stands for.

    >>> check_alias(" fast ", "groq/llama")
    ('fast', 'groq/llama')
    """
    if "/" in name or "," in name or not name.strip():
        raise SetupError(f"{name!r} cannot be an alias: it is empty, or has a slash or a comma")
    if not isinstance(spec, str) or not all(element.strip() for element in spec.split(",")):
        raise SetupError(f"alias {name!r}: a spec is a text without empty elements, as 'groq/llama, fast'")
    return name.strip(), spec


def read_config(config: Mapping[str, Any] | str, known: Mapping[str, Provider], /) -> Settings:
    """What a dragoman.toml says, as text or as its tables; all that is wrong with it is in one error.

    Tables of other names belong to others, as the gateway, and are left to them.

    >>> read_config('[aliases]\\nfast = "groq/llama"', {}).aliases
    {'fast': 'groq/llama'}
    """
    if isinstance(config, str):
        try:
            config = tomllib.loads(config)
        except tomllib.TOMLDecodeError as error:
            raise SetupError(f"the config is not TOML: {error}") from error
    problems = [f"{name}: no such table{nearest(name, TABLES)}" for name in config if name not in TABLES]
    problems = [problem for problem in problems if "did you mean" in problem]
    tables = {name: _table(name, config, problems) for name in TABLES}
    providers = _read_providers(tables["providers"], known, problems)
    aliases: dict[str, str] = {}
    facts: dict[str, Facts] = {}
    for name, spec in tables["aliases"].items():
        try:
            aliases.update([check_alias(name, spec)])
        except SetupError as error:
            problems.append(f"aliases: {error}")
    for name, told in tables["limits"].items():
        try:
            facts[name] = make_facts(_table_of(told))
        except SetupError as error:
            problems.append(f"limits.{name}: {error}")
    if problems:
        raise SetupError("the config is wrong:\n" + "\n".join(f"- {problem}" for problem in problems))
    return Settings(providers=providers, aliases=aliases, facts=facts)


def _table(name: str, config: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    table = config.get(name, {})
    if is_object(table):
        return table
    problems.append(f"{name}: not a table")
    return {}


def _read_providers(table: dict[str, Any], known: Mapping[str, Provider], problems: list[str]) -> dict[str, Provider]:
    """Each after the one that it is like, whatever their order."""
    made: dict[str, Provider] = {}
    left = dict(table)
    while left:
        ready = [name for name, told in left.items() if not _waits(name, told, left)] or list(left)
        for name in ready:
            told = left.pop(name)
            try:
                made[name] = make_provider({"name": name, **_table_of(told)}, {**known, **made})
            except SetupError as error:
                problems.append(f"providers.{name}: {error}")
    return made


def _waits(name: str, told: Any, left: Mapping[str, Any]) -> bool:
    """Whether it is made like one that is not made yet."""
    return is_object(told) and told.get("like") != name and told.get("like") in left


def _refuse_unknown(what: str, told: Mapping[str, Any], known: Iterable[str]) -> None:
    known = tuple(known)
    if problems := [f"{what} {name!r}{nearest(name, known)}" for name in told if name not in known]:
        raise SetupError("; ".join(problems))
