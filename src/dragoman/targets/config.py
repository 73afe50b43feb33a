"""A user's own words about providers in, records out: what `add_provider` takes, and the tables of a dragoman.toml."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dragoman import wires
from dragoman.errors import SetupError, redact
from dragoman.targets.dsn import did_you_mean
from dragoman.targets.model_families import override
from dragoman.targets.providers import Provider, clean_key, with_default_path, without_credentials
from dragoman.targets.target import Capabilities, Quirks
from dragoman.types import is_list, is_object

TABLES = ("providers", "aliases", "capabilities")
_VARIABLE = r"\$\{(\w+)(?::([^}]*))?\}"
_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_FIELDS = (*Provider.__struct_fields__, "like")


class ModelFacts(msgspec.Struct, frozen=True):
    """What is told of a provider or a model, over what is known of it.

    >>> ModelFacts({"max_images": 3}).over(Capabilities(), Quirks())[0].max_images
    3
    """

    capabilities: dict[str, Any] = {}
    quirks: dict[str, Any] = {}

    def over(self, capabilities: Capabilities, quirks: Quirks, /) -> tuple[Capabilities, Quirks]:
        """Limits and quirks with these facts laid over them."""
        return override(capabilities, self.capabilities), override(quirks, self.quirks)


class LibraryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a config says, checked.

    >>> LibraryConfig(providers={}, aliases={"fast": "groq/llama"}, facts={}).aliases
    {'fast': 'groq/llama'}
    """

    providers: dict[str, Provider]
    aliases: dict[str, str]
    facts: dict[str, ModelFacts]


def make_provider(
    fields: Mapping[str, Any], known: Mapping[str, Provider], record: Provider | None = None, /
) -> Provider:
    """The record that some fields tell; `like` names one to start from, whose key goes to its own place only.

    A base URL without a path has that of the record to start from, and counts more than its variables.

    >>> from dragoman.targets.providers import PROVIDERS
    >>> make_provider({"name": "box", "like": "vllm", "base_url": "http://box:8000/v1"}, PROVIDERS)
    Provider(box, wire=openai_chat, http://box:8000/v1)
    """
    told = dict(fields)
    _refuse_unknown("a provider has no", told, _FIELDS)
    like = told.pop("like", None)
    if like is not None:
        if like not in known:
            raise SetupError(f"like: {_unlike('provider', str(like), known)}")
        record = known[like]
    base = {} if record is None else _inherited(record, told)
    given = {field: told.pop(field) for field in ("capabilities", "quirks") if field in told}
    facts = [_table_of(given.get("capabilities", {})), _table_of(given.get("quirks", {}))]
    _refuse_unknown("no limit", facts[0], Capabilities.__struct_fields__)
    _refuse_unknown("no quirk", facts[1], Quirks.__struct_fields__)
    try:
        made = msgspec.convert({**base, **told}, Provider)
        capabilities, quirks = override(made.capabilities, facts[0]), override(made.quirks, facts[1])
    except msgspec.ValidationError as error:
        raise SetupError(f"a provider: {error}") from error
    path = record.default_path if record is not None and made.path is None else made.path
    return check_provider(msgspec.structs.replace(made, capabilities=capabilities, quirks=quirks), path or "")


def _inherited(record: Provider, told: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record; without what opens its place where another one at another place is made of it."""
    name = told.get("name", record.name)
    family = record.family if name == record.name else record.family or record.name
    is_elsewhere = name != record.name and "base_url" in told
    start = without_credentials(record) if is_elsewhere else record
    base: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(start, family=family, http_client=None))
    base["http_client"] = start.http_client
    if told.get("base_url"):
        base["base_url_names"] = ()
    if is_elsewhere:
        base["key_names"] = (f"{str(name).upper().replace('-', '_')}_API_KEY",)
    return base


def _table_of(told: Any) -> dict[str, Any]:
    """The facts of a table or a record."""
    table: Any = msgspec.to_builtins(told) if isinstance(told, Capabilities | Quirks) else told
    if not is_object(table):
        raise SetupError("not a table")
    return table


def check_provider(provider: Provider, path: str = "", /) -> Provider:
    """The same, when its name can be written in a spec, there is such a wire, and its place and headers can be used.

    `path` is for a place that tells none.

    >>> check_provider(Provider(name="own", wire="ollama", base_url="https://x"))
    Provider(own, wire=ollama, https://x)
    """
    if not provider.name or set(provider.name) & set("/, \t\n"):
        raise SetupError(f"{provider.name!r} cannot be a provider's name: it is empty, or has a slash, comma or blank")
    if provider.wire not in wires.NAMES:
        raise SetupError(f"{provider.name}: {_unlike('wire', provider.wire, wires.NAMES)}")
    try:
        return msgspec.structs.replace(
            provider,
            base_url=with_default_path(provider.base_url, path) if provider.base_url else "",
            api_key=clean_key(provider.api_key, "api_key") if provider.api_key else None,
            auth=_checked_auth(provider.auth),
            headers={name: _checked_header(name, value) for name, value in provider.headers.items()},
        )
    except SetupError as error:
        raise SetupError(f"{provider.name}: {error}") from None


def _checked_auth(auth: str) -> str:
    told = auth.strip()
    if not re.fullmatch(_HEADER, told):
        raise SetupError("auth is 'bearer', or the name of the header that takes the key as it is")
    return "bearer" if told.lower() == "bearer" else told


def _checked_header(name: str, value: str) -> str:
    """The value without the blanks around it; it is in no error, as it may be a key."""
    told = value.strip()
    if not re.fullmatch(_HEADER, name) or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", told):
        raise SetupError(f"header {name!r} cannot be sent: its name or value has a character that none may have")
    return told


def make_facts(told: Mapping[str, Any], /) -> ModelFacts:
    """The limits and quirks among some facts, each of the right type.

    >>> make_facts({"max_images": 3}).capabilities
    {'max_images': 3}
    """
    _refuse_unknown("no limit", told, (*Capabilities.__struct_fields__, *Quirks.__struct_fields__))
    facts = ModelFacts(
        {name: value for name, value in told.items() if name in Capabilities.__struct_fields__},
        {name: value for name, value in told.items() if name in Quirks.__struct_fields__},
    )
    problems = [why for name, value in told.items() if (why := _why_wrong(name, value)) is not None]
    if problems:
        raise SetupError("; ".join(problems))
    return facts


def _why_wrong(name: str, value: Any) -> str | None:
    """What is wrong with one fact, by itself."""
    fact = ModelFacts({name: value}) if name in Capabilities.__struct_fields__ else ModelFacts({}, {name: value})
    try:
        fact.over(Capabilities(), Quirks())
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


def decode_toml(text: str, /) -> dict[str, Any]:
    """The tables of a TOML text; an editor's mark at its start is none of it.

    >>> decode_toml("\\ufeffa = 1")
    {'a': 1}
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        if text.endswith(".toml") and "\n" not in text:
            raise SetupError(f"{text!r} is a path, and the config a text: pass Path({text!r})") from None
        raise SetupError(f"the config is not TOML: {error}") from error


def expand_variables(told: Any, env: Mapping[str, str], where: str, problems: list[str], /) -> Any:
    """The same with the values of variables in place of `${NAME}` and `${NAME:default}`, in every text.

    >>> expand_variables({"url": "http://${HOST:box}"}, {}, "", [])
    {'url': 'http://box'}
    """
    if is_object(told):
        return {
            key: expand_variables(value, env, f"{where}.{key}".lstrip("."), problems) for key, value in told.items()
        }
    if is_list(told):
        return [expand_variables(value, env, f"{where}[{index}]", problems) for index, value in enumerate(told)]
    if not isinstance(told, str):
        return told

    def value_of(found: re.Match[str]) -> str:
        name, default = found.groups()
        if name not in env and default is None:
            problems.append(f"{where}: no variable {name}; set it, or write ${{{name}:default}}")
        return env.get(name, default or "")

    return re.sub(_VARIABLE, value_of, told)


def read_config(
    config: Mapping[str, Any] | str,
    known: Mapping[str, Provider],
    /,
    *,
    aliases: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> LibraryConfig:
    """What a dragoman.toml says, as text or as its tables; all that is wrong with it is in one error.

    Tables of other names belong to others, as the gateway, and are left to them. `aliases` are those that there are
    already; `env` has the variables that it names, and without one their names stay as they are.

    >>> read_config('[aliases]\\nfast = "groq/llama"', {}).aliases
    {'fast': 'groq/llama'}
    """
    if isinstance(config, str):
        config = decode_toml(config)
    if not hasattr(config, "keys"):
        raise SetupError(f"the config is a text, its tables, or the Path of a file, no {type(config).__name__}")
    problems = [f"{name}: no such table{did_you_mean(name, TABLES)}" for name in config if name not in TABLES]
    problems = [problem for problem in problems if "did you mean" in problem]
    told = {name: config[name] for name in TABLES if name in config}
    if env is not None:
        told = expand_variables(told, env, "", problems)
    tables = {name: _table(name, told, problems) for name in TABLES}
    settings = LibraryConfig(
        providers=_read_providers(tables["providers"], known, problems),
        aliases=_read_aliases(tables["aliases"], aliases or {}, problems),
        facts=_read_facts(tables["capabilities"], problems),
    )
    if problems:
        raise config_error(problems)
    return settings


def config_error(problems: Iterable[str], /) -> SetupError:
    """The error that tells all problems of a config; a variable that it names may hold a key, which is not shown.

    >>> print(config_error(["aliases: not a table"]))
    the config is wrong:
    - aliases: not a table
    """
    return SetupError(redact("the config is wrong:\n" + "\n".join(f"- {problem}" for problem in problems)))


def _read_aliases(table: dict[str, Any], known: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for name, spec in table.items():
        try:
            aliases.update([check_alias(name, spec)])
        except SetupError as error:
            problems.append(f"aliases: {error}")
    problems += [f"aliases.{circle[0]}: {cycle_message(circle)}" for circle in _circles(aliases, {**known, **aliases})]
    return aliases


def _circles(names: Iterable[str], aliases: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The ways on which some of these names come back to themselves, each circle once."""
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for name in names:
        ways: list[tuple[str, ...]] = [(name,)]
        seen = {name}
        while ways:
            way = ways.pop()
            for element in map(str.strip, aliases[way[-1]].split(",")):
                if element == name:
                    found.setdefault(frozenset(way), (*way, name))
                elif element in aliases and element not in seen:
                    seen.add(element)
                    ways.append((*way, element))
    return list(found.values())


def cycle_message(way: Iterable[str], /) -> str:
    """The words for aliases that come back to themselves.

    >>> cycle_message(("a", "b", "a"))
    'aliases go in a circle: a -> b -> a'
    """
    return f"aliases go in a circle: {' -> '.join(way)}"


def _read_facts(table: dict[str, Any], problems: list[str]) -> dict[str, ModelFacts]:
    facts: dict[str, ModelFacts] = {}
    for name, told in table.items():
        try:
            facts[name] = make_facts(_table_of(told))
        except SetupError as error:
            problems.append(f"capabilities.{name}: {error}")
    return facts


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
                fields = _table_of(told)
                if fields.get("name", name) != name:
                    raise SetupError("name: a provider is called as its table is; leave it out")
                made[name] = make_provider({**fields, "name": name}, {**known, **made})
            except SetupError as error:
                problems.append(f"providers.{name}: {error}")
    return made


def _waits(name: str, told: Any, left: Mapping[str, Any]) -> bool:
    """Whether it is made like one that is not made yet."""
    return is_object(told) and told.get("like") != name and told.get("like") in left


def _unlike(what: str, told: str, known: Iterable[str]) -> str:
    """That there is none of this name; one that is like none is not shown: a variable may have put a key there."""
    if meant := did_you_mean(told, known):
        return f"no {what} {told!r}{meant}"
    return f"no such {what}; there are {', '.join(known)}"


def _refuse_unknown(what: str, told: Mapping[str, Any], known: Iterable[str]) -> None:
    known = tuple(known)
    if problems := [f"{what} {name!r}{did_you_mean(name, known)}" for name in told if name not in known]:
        raise SetupError("; ".join(problems))
