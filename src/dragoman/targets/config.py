"""The library's tables of a dragoman.toml: [providers], [pools], [aliases], [capabilities], [health], and their checks.

`read_config` collects every problem of a config and raises them together. The functions that check one value are also
used by `Registry.add_provider`, `alias` and `set_capabilities`. Errors never show a value that may be a key.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dragoman import wires
from dragoman.errors import InvalidRequest, SetupError, explain_validation, redact
from dragoman.targets.dsn import did_you_mean
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.model_families import override
from dragoman.targets.pools import DeploymentLimits, DeploymentPool, make_pool
from dragoman.targets.provider import Provider, clean_key, with_default_path, without_credentials
from dragoman.targets.providers import OTHER_NAMES, with_other_names
from dragoman.targets.target import BatchStorage, Capabilities, Quirks
from dragoman.types import is_list, is_object
from dragoman.types.base import prepare
from dragoman.types.checks import is_mapping, is_text, is_writable, naming, shown

TABLES = ("providers", "pools", "aliases", "capabilities", "health")
RENAMED = {
    "advance_on_permanent": "fail_over_on_permanent",
    "limits": "capabilities",
    "lone_temperature": "temperature_excludes_top_p",
    "longest_wait": "max_retry_after",
    "other_fields": "accepts_unknown_fields",
    "patience": "max_retry_after_with_fallback",
    "replayed": "reasoning_replay_fields",
    "schema_way": "schema_mode",
    "when_all_benched": "when_all_cooling_down",
}
"""Names of version 0.1 that changed."""
_OTHER_NAMES = {
    "api_base": "base_url",
    "endpoint": "base_url",
    "key": "api_key",
    "token": "api_key",
    "type": "like",
    "url": "base_url",
}
"""Names of other libraries that no similar name helps with."""
_VARIABLE = r"\$\{(\w+)(?::([^}]*))?\}"
_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_FIELDS = (*(name for name in Provider.__struct_fields__ if name != "like_name"), "like")
_OWN_TABLES: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("deployment_limits", "limit", DeploymentLimits),
    ("batch_storage", "field", BatchStorage),
)
_POOL_FIELDS = (*(name for name in DeploymentPool.__struct_fields__ if name != "name"), "api_keys", "like")


class ModelFacts(msgspec.Struct, frozen=True):
    """Capabilities and quirks that override those of a provider or a model.

    >>> ModelFacts({"max_images": 3}).over(Capabilities(), Quirks())[0].max_images
    3
    """

    capabilities: dict[str, Any] = {}
    quirks: dict[str, Any] = {}

    def over(self, capabilities: Capabilities, quirks: Quirks, /) -> tuple[Capabilities, Quirks]:
        """The records with these facts in place of theirs."""
        return override(capabilities, self.capabilities), override(quirks, self.quirks)


class LibraryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The checked content of the tables."""

    providers: dict[str, Provider]
    aliases: dict[str, str]
    facts: dict[str, ModelFacts]
    health: HealthPolicy | None = None
    """None if there is no table [health]."""
    pools: dict[str, DeploymentPool] = {}


# Values ---------------------------------------------------------------------------------------------------------------


def make_provider(
    fields: Mapping[str, Any], known: Mapping[str, Provider], record: Provider | None = None, /
) -> Provider:
    """A provider from its fields. They override `record`, or the provider that `like` names.

    A known name without `wire` is like itself. A base URL without a path gets the path of that record, and overrides
    its environment variables. Credentials of the record are not copied to a provider of another name and base URL.

    >>> from dragoman.targets.providers import PROVIDERS
    >>> make_provider({"name": "box", "like": "vllm", "base_url": "http://box:8000/v1"}, PROVIDERS)
    Provider(box, wire=openai_chat, http://box:8000/v1)
    """
    own = dict(fields)
    _refuse_unknown("provider field", own, _FIELDS)
    _refuse_unwritable(own)
    like = own.pop("like", _own_like(own, known) if record is None else None)
    if like is not None:
        if not isinstance(like, str) or like not in known:
            reason = _unknown("provider", like, known) if isinstance(like, str) else "must be the name of a provider"
            raise SetupError(f"like: {reason}", param="like")
        record = known[like]
    if record is None and "wire" not in own:
        raise SetupError("like is required: the provider whose protocol it speaks, such as openai-chat", param="like")
    base = {} if record is None else _inherited(record, own)
    with naming("capabilities"):
        capabilities = _table_of("capabilities", own.pop("capabilities", {}))
        _refuse_unknown("capability", capabilities, Capabilities.__struct_fields__)
    with naming("quirks"):
        quirks = _table_of("quirks", own.pop("quirks", {}))
        _refuse_unknown("quirk", quirks, Quirks.__struct_fields__)
    for name, what, kind in _OWN_TABLES:
        if own.get(name) is not None:
            with naming(name):
                own[name] = _table_of(name, own[name])
                _refuse_unknown(what, own[name], kind.__struct_fields__)
                _check_table(kind, own[name])
    try:
        provider = msgspec.convert({**base, **own}, Provider)
        provider = msgspec.structs.replace(
            provider,
            capabilities=override(provider.capabilities, capabilities),
            quirks=override(provider.quirks, quirks),
        )
    except msgspec.ValidationError as error:
        where, reason = explain_validation(error)
        raise SetupError(f"provider{where} {reason}", param=where.removeprefix(".")) from error
    path = record.default_path if record is not None and provider.path is None else provider.path
    return check_provider(provider, path or "")


def _check_table(kind: type[msgspec.Struct], table: Mapping[str, Any]) -> None:
    """Let a struct check its fields: its texts name what it expects."""
    try:
        kind(**table)
    except InvalidRequest as error:  # a field is missing
        raise SetupError(error.message, param=error.param) from None


def _own_like(fields: Mapping[str, Any], known: Mapping[str, Provider]) -> str | None:
    name = fields.get("name")
    return name if isinstance(name, str) and name in known and "wire" not in fields else None


def _inherited(record: Provider, own: Mapping[str, Any]) -> dict[str, Any]:
    """The fields to start from: those of a record, without its credentials if the new provider is another server."""
    name = own.get("name", record.name)
    is_new = name != record.name
    family = record.family or record.name if is_new else record.family
    like_name = record.like_name or record.name if is_new else record.like_name
    is_other_server = is_new and "base_url" in own
    start = without_credentials(record) if is_other_server else record
    base: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(
            start,
            family=family,
            like_name=like_name,
            http_client=None,
            credential=None,
            deployment_limits=None if is_new else record.deployment_limits,
        )
    )
    base |= {"http_client": start.http_client, "credential": None if own.get("api_key") else start.credential}
    if own.get("base_url"):
        base["base_url_names"] = ()
    if is_other_server:
        base["key_names"] = (f"{str(name).upper().replace('-', '_')}_API_KEY",)
    return base


def _table_of(name: str, value: Any) -> dict[str, Any]:
    table: Any = msgspec.to_builtins(value) if isinstance(value, Capabilities | Quirks | DeploymentLimits) else value
    if not is_object(table) or not all(isinstance(key, str) for key in list[Any](table)):
        raise SetupError(_not_a_table(name, value), param=name or None)
    return table


def check_provider(provider: Provider, path: str = "", /) -> Provider:
    """The provider with a clean base URL, key and headers, or SetupError. `path` is for a base URL without a path.

    >>> check_provider(Provider(name="own", wire="ollama", base_url="https://x"))
    Provider(own, wire=ollama, https://x)
    """
    if not isinstance(provider, Provider):
        raise SetupError(f"provider must be a Provider or its name, got {type(provider).__name__}", param="provider")
    if not provider.name or set(provider.name) & set("/, \t\n"):
        reason = f"name must be a provider's name without slash, comma and blank, got {shown(provider.name)}"
        raise SetupError(reason, param="name")
    if provider.wire not in wires.NAMES:
        raise SetupError(f"{provider.name}: {_unknown('wire', provider.wire, wires.NAMES)}", param="wire")
    try:
        return msgspec.structs.replace(
            provider,
            base_url=with_default_path(provider.base_url, path) if provider.base_url else "",
            api_key=clean_key(provider.api_key, "api_key") if provider.api_key else None,
            auth=_check_auth(provider.auth),
            headers={name: check_header(name, value) for name, value in provider.headers.items()},
        )
    except SetupError as error:
        raise SetupError(f"{provider.name}: {error}", param=error.param) from None


def _check_auth(auth: str) -> str:
    name = auth.strip()
    if not re.fullmatch(_HEADER, name):
        raise SetupError("auth must be 'bearer' or the name of the header that holds the key", param="auth")
    return "bearer" if name.lower() == "bearer" else name


def check_header(name: str, value: str, /) -> str:
    """The value of a header without blanks around it; SetupError if it cannot be sent.

    >>> check_header("x-team", " a ")
    'a'
    """
    text = value.strip()
    if not re.fullmatch(_HEADER, name) or re.search(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]", text):
        reason = f"header {shown(name)} must have a name and a value that can be sent, got a character that cannot"
        raise SetupError(reason, param="headers")
    return text


def make_facts(facts: Mapping[str, Any], /) -> ModelFacts:
    """Checked capabilities and quirks."""
    _refuse_unknown("capability", facts, (*Capabilities.__struct_fields__, *Quirks.__struct_fields__))
    _refuse_unwritable(facts)
    problems = {name: problem for name, value in facts.items() if (problem := _check_fact(name, value)) is not None}
    if problems:
        raise SetupError("; ".join(problems.values()), param=next(iter(problems)))
    return ModelFacts(
        {name: value for name, value in facts.items() if name in Capabilities.__struct_fields__},
        {name: value for name, value in facts.items() if name in Quirks.__struct_fields__},
    )


def _refuse_unwritable(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if not is_writable(value):
            raise SetupError(f"{name} must be text that UTF-8 can write, got half of a surrogate pair", param=name)


def _check_fact(name: str, value: Any) -> str | None:
    fact = ModelFacts({name: value}) if name in Capabilities.__struct_fields__ else ModelFacts({}, {name: value})
    try:
        fact.over(Capabilities(), Quirks())
    except msgspec.ValidationError as error:
        path, reason = explain_validation(error)
        return f"{path.removeprefix('.')} {reason}"
    return None


def find_alias(name: str, aliases: Mapping[str, str], /) -> str | None:
    """The alias of a name: its own, or else the longest one with a `*` that matches it; None if there is none.

    >>> find_alias("claude-haiku-4-5", {"claude-*": "groq/big", "claude-haiku-*": "groq/small"})
    'claude-haiku-*'
    """
    if name in aliases:
        return name
    matching = [alias for alias in aliases if "*" in alias and _matches(name, alias)]
    return max(matching, key=len, default=None)


def _matches(name: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def check_alias(name: str, spec: object, /) -> tuple[str, str]:
    """The name and the spec of an alias, or SetupError."""
    if not is_text(name) or "/" in name or "," in name or not name.strip() or not name.isprintable():
        raise SetupError(
            f"the name of an alias must be a text without slash, comma, line break, got {shown(name)}", param="name"
        )
    if not isinstance(spec, str) or not spec.isprintable() or not all(each.strip() for each in spec.split(",")):
        expected = "a str such as 'groq/llama, fast', without empty elements"
        raise SetupError(f"alias {name!r}: spec must be {expected}, got {shown(spec)}", param="spec")
    return name.strip(), spec


# Configs --------------------------------------------------------------------------------------------------------------


def decode_toml(text: str, /) -> dict[str, Any]:
    """The tables of a TOML text, which may start with a byte order mark.

    >>> decode_toml("\\ufeffa = 1")
    {'a': 1}
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        if text.endswith(".toml") and "\n" not in text:
            raise SetupError(f"config must be TOML text, got a path; pass Path({text!r})", param="config") from None
        raise SetupError(f"config must be valid TOML; {error}", param="config") from error


def expand_variables(value: Any, env: Mapping[str, str], where: str, problems: list[str], /) -> Any:
    """A value with `${NAME}` and `${NAME:default}` replaced in every text.

    >>> expand_variables({"url": "http://${HOST:box}"}, {}, "", [])
    {'url': 'http://box'}
    """
    if is_object(value):
        return {key: expand_variables(item, env, f"{where}.{key}".lstrip("."), problems) for key, item in value.items()}
    if is_list(value):
        return [expand_variables(item, env, f"{where}[{index}]", problems) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        if name not in env and default is None:
            problems.append(f"{where}: variable {name} is not set; set it, or write ${{{name}:default}}")
        return env.get(name, default or "")

    return re.sub(_VARIABLE, value_of, value)


def empty_variables(value: Any, env: Mapping[str, str], where: str = "", /) -> Iterator[tuple[str, str]]:
    """The places of texts that are one variable which is set and empty, each with the name of the variable.

    >>> list(empty_variables({"keys": {"a": {"hash": "${A_HASH}"}}}, {"A_HASH": ""}))
    [('keys.a.hash', 'A_HASH')]
    """
    if is_object(value):
        for key, item in value.items():
            yield from empty_variables(item, env, f"{where}.{key}".lstrip("."))
    elif isinstance(value, str) and (match := re.fullmatch(_VARIABLE, value)) and env.get(match[1]) == "":
        yield where, match[1]


def read_config(
    config: Mapping[str, Any] | str,
    known: Mapping[str, Provider],
    /,
    *,
    aliases: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> LibraryConfig:
    """The tables of a dragoman.toml, given as text or as tables. One SetupError lists all problems.

    Other tables, such as [gateway], are ignored. `aliases` are those that exist already. Without `env`, variables are
    not expanded.

    >>> read_config('[aliases]\\nfast = "groq/llama"', {}).aliases
    {'fast': 'groq/llama'}
    """
    if isinstance(config, str):
        config = decode_toml(config)
    if not is_mapping(config) or not all(isinstance(name, str) for name in config):
        reason = f"config must be a Path, a TOML text or its tables, got {type(config).__name__}"
        raise SetupError(reason, param="config")
    misspelled = [name for name in config if name not in TABLES and (name in RENAMED or did_you_mean(name, TABLES))]
    problems = [unknown_table(name, TABLES) for name in misspelled]
    tables: dict[str, Any] = {name: config[name] for name in TABLES if name in config}
    if env is not None:
        tables = expand_variables(tables, env, "", problems)
    for name, table in tables.items():
        if not is_object(table):
            problems.append(_not_a_table(name, table))
            tables[name] = {}
    pools, accounts = _read_pools(tables.get("pools", {}), problems)
    result = LibraryConfig(
        providers=_read_providers({**tables.get("providers", {}), **accounts}, known, problems),
        pools=pools,
        aliases=_read_aliases(tables.get("aliases", {}), aliases or {}, problems),
        facts=_read_facts(tables.get("capabilities", {}), problems),
        health=_read_health(tables["health"], problems) if "health" in tables else None,
    )
    if problems:
        raise config_error(problems)
    return result


def unknown_table(name: str, known: Iterable[str], /) -> str:
    """The problem of a table that nothing reads.

    >>> unknown_table("limits", TABLES), unknown_table("alias", TABLES)
    ('limits: the table is now called [capabilities]', "alias: unknown table; did you mean 'aliases'?")
    """
    if name in RENAMED:
        return f"{name}: the table is now called [{RENAMED[name]}]"
    return f"{name}: unknown table{did_you_mean(name, known)}"


def config_error(problems: Iterable[str], /) -> SetupError:
    """The error for all problems of a config. Keys are redacted: a variable may have put one in a wrong place.

    >>> print(config_error(["aliases must be a table, got int"]))
    invalid config:
    - aliases must be a table, got int
    """
    text = redact("invalid config:\n" + "\n".join(f"- {problem}" for problem in problems))
    return SetupError(text, param="config")


def _not_a_table(name: str, value: object) -> str:
    return f"{name} must be a table, got {type(value).__name__}".lstrip()


def _read_aliases(table: dict[str, Any], known: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for name, spec in table.items():
        try:
            aliases.update([check_alias(name, spec)])
        except SetupError as error:
            problems.append(f"aliases: {error}")
    problems += [f"aliases.{cycle[0]}: {cycle_message(cycle)}" for cycle in _cycles(aliases, {**known, **aliases})]
    return aliases


def _cycles(names: Iterable[str], aliases: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The paths on which these names come back to themselves, each cycle once."""
    cycles: dict[frozenset[str], tuple[str, ...]] = {}
    for name in names:
        paths: list[tuple[str, ...]] = [(name,)]
        seen = {name}
        while paths:
            path = paths.pop()
            for element in map(str.strip, aliases[path[-1]].split(",")):
                if element == name:
                    cycles.setdefault(frozenset(path), (*path, name))
                elif element in aliases and element not in seen:
                    seen.add(element)
                    paths.append((*path, element))
    return list(cycles.values())


def cycle_message(path: Iterable[str], /) -> str:
    """The message for an alias that refers to itself.

    >>> cycle_message(("a", "b", "a"))
    'aliases form a cycle: a -> b -> a'
    """
    return f"aliases form a cycle: {' -> '.join(path)}"


def _read_facts(table: dict[str, Any], problems: list[str]) -> dict[str, ModelFacts]:
    facts: dict[str, ModelFacts] = {}
    for name, value in table.items():
        try:
            facts[name] = make_facts(_table_of("", value))
        except SetupError as error:
            problems.append(f"capabilities.{name}: {error}")
    return facts


def _read_health(table: dict[str, Any], problems: list[str]) -> HealthPolicy:
    types = {field.name: field.type for field in msgspec.structs.fields(HealthPolicy)}
    policy = HealthPolicy()
    for name, value in table.items():
        if name not in types:
            problems.append(f"health: {unknown_name('setting', name, types)}")
            continue
        try:  # a text is the value of a variable
            number = msgspec.convert(value, types[name], strict=not isinstance(value, str))
            policy = HealthPolicy(**{**msgspec.structs.asdict(policy), name: number})
        except msgspec.ValidationError:
            problems.append(f"health.{name} must be a number, got {type(value).__name__}")
        except SetupError as error:
            problems.append(f"health.{error}")
    return policy


def _read_providers(table: dict[str, Any], known: Mapping[str, Provider], problems: list[str]) -> dict[str, Provider]:
    """Every provider after the one that it is like, in whatever order the table has them."""
    providers: dict[str, Provider] = {}
    others: dict[str, Provider] = {}
    remaining = dict(table)
    while remaining:
        ready = [name for name, value in remaining.items() if not _waits(name, value, remaining)] or list(remaining)
        for name in ready:
            try:
                fields = _table_of("", remaining.pop(name))
                if fields.get("name", name) != name:
                    raise SetupError("name must be the name of the table; leave it out")
                providers[name] = make_provider({**fields, "name": name}, {**known, **others, **providers})
                others |= {record.name: record for record in with_other_names(providers[name])}
            except SetupError as error:
                problems.append(f"providers.{name}: {error}")
    return providers


def _read_pools(
    table: dict[str, Any], problems: list[str]
) -> tuple[dict[str, DeploymentPool], dict[str, dict[str, Any]]]:
    """The pools, and the tables of the providers that their keys define."""
    pools: dict[str, DeploymentPool] = {}
    accounts: dict[str, dict[str, Any]] = {}
    for name, value in table.items():
        try:
            fields = _table_of("", value)
            _refuse_unknown("pool field", fields, _POOL_FIELDS)
            pools[name], own = make_pool(name, fields)
            accounts |= own
        except SetupError as error:
            problems.append(f"pools.{name}: {error}")
    return pools, accounts


def check_pool_fields(fields: Mapping[str, Any], /) -> None:
    """Refuse a name that is not a field of a pool."""
    _refuse_unknown("pool field", fields, _POOL_FIELDS)


def _waits(name: str, fields: Any, remaining: Mapping[str, Any]) -> bool:
    if not is_object(fields):
        return False
    # A table may leave out the key if another record of the same account has it.
    main = next((main for main, names in OTHER_NAMES.items() if name in names), None)
    return any(like != name and like in remaining for like in (fields.get("like"), main))


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A name that resembles no other is not shown: a variable may have put a key there."""
    if hint := did_you_mean(name, known):
        return f"unknown {what} {name!r}{hint}"
    return f"unknown {what}; use one of {', '.join(known)}"


def unknown_name(what: str, name: str, known: Collection[str], /) -> str:
    """The message for a name that is not known: its new name, or the nearest one.

    >>> unknown_name("setting", "patience", ["max_retry_after_with_fallback"])
    "'patience' is now called 'max_retry_after_with_fallback'"
    """
    if RENAMED.get(name) in known:
        return f"{name!r} is now called {RENAMED[name]!r}"
    other = _OTHER_NAMES.get(name)
    hint = f"; did you mean {other!r}?" if other in known else did_you_mean(name, known)
    return f"unknown {what} {name!r}{hint}"


def _refuse_unknown(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = tuple(known)
    problems = {name: unknown_name(what, name, known) for name in names if name not in known}
    if problems:
        raise SetupError("; ".join(problems.values()), param=next(iter(problems)))


prepare(Provider, Capabilities, Quirks)
