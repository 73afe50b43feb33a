"""A dragoman.toml and the environment in, a checked Config out; all that is wrong with it is in one error.

    [gateway]                         where it listens, and what it bears: the fields of `Gateway`
    [chain], [timeouts]               how targets are asked: retries, patience … and total, connect, first_event, idle
    [tiers.simple]                    models = { "groq/llama" = 1, "openai/gpt" = 5 }; order = "weighted" or "given"
    [providers.x] [aliases] [capabilities]  as in the library
    [keys.alice]                      who may ask, by the hash of a key

`${VAR}` and `${VAR:default}` stand for variables in every text.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from dragoman.engine.call_context import Timeouts
from dragoman.engine.failover import ChainOptions
from dragoman.errors import SetupError
from dragoman.gateway.accounting.quotas import WhenDown
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.catalog import Tier
from dragoman.gateway.store import open_store
from dragoman.registry import Registry
from dragoman.targets import config as settings
from dragoman.targets.dsn import PREFIX, did_you_mean
from dragoman.targets.providers import PROVIDERS
from dragoman.types import is_list, is_object

S = TypeVar("S", bound=msgspec.Struct)

FILE = "dragoman.toml"
TABLES = ("gateway", "chain", "timeouts", "tiers", "keys", *settings.TABLES)
_CHAIN = frozenset(
    "retries max_retry_after_with_fallback max_retry_after backoff backoff_cap fail_over_on_permanent when_all_cooling_down".split()
)  # what is left of Options belongs to a tier, or to one call
_OF_A_KEY = tuple(name for name in Key.__struct_fields__ if name != "id")


Some: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway listens, and what it bears.

    >>> Gateway().port
    8080
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8080
    workers: Some = 1
    store: str = "memory"
    """`memory`, `sqlite:PATH` or `redis://…`."""
    providers: tuple[str, ...] = ()
    """Providers that clients may name beside those of the other tables."""
    max_body: Some = 32 * 1024 * 1024
    max_depth: Some = 128
    """Levels of JSON inside JSON."""
    max_requests: Some = 1000
    """Requests under way, in one worker."""
    body_timeout: Seconds = 60.0
    """Seconds until the body of a request must be there."""
    ping: Seconds = 15.0
    """Seconds of silence after which a stream says that it lives."""
    rates_when_down: WhenDown = "open"
    budgets_when_down: WhenDown = "closed"
    """What becomes of limits while the store cannot be asked."""
    answer_tokens: Some | None = None
    """Tokens that are reserved for an answer whose length its client leaves open; by default as many as it may have."""
    log: bool = True
    """One line of JSON a request, without what was said."""
    traces: bool = False
    """OpenTelemetry spans, by the provider that the process has set up."""
    drain: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    """Seconds after SIGTERM for which all is answered still, but /health/ready says no: balancers go elsewhere."""
    grace: Some = 30
    """Seconds that requests under way may take after SIGTERM."""


PATIENT = ChainOptions(max_retry_after=5.0)
"""A client hears of a longer wait at once, by Retry-After, and need not keep its connection open for it."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All that a gateway is told.

    >>> decode_config("").gateway.port
    8080
    """

    gateway: Gateway = Gateway()
    options: ChainOptions = PATIENT
    tiers: dict[str, Tier] = {}
    keys: tuple[Key, ...] = ()
    tables: dict[str, Any] = {}
    """What the registry reads itself."""
    providers: frozenset[str] = frozenset()
    """Providers that clients may name."""


def decode_config(text: str, env: Mapping[str, str] | None = None, /) -> Config:
    """The config of a TOML text.

    >>> decode_config('[gateway]\\nport = "${PORT:8123}"').gateway.port
    8123
    """
    env = env or {}
    problems: list[str] = []
    told: dict[str, Any] = settings.expand_variables(settings.decode_toml(text), env, "", problems)
    problems += [settings.unknown_table(name, TABLES) for name in told if name not in TABLES]
    timeouts = _read(Timeouts, told.get("timeouts", {}), "timeouts", problems)
    options = _read(
        ChainOptions,
        told.get("chain", {}),
        "chain",
        problems,
        only=_CHAIN,
        max_retry_after=PATIENT.max_retry_after,
        timeouts=timeouts,
    )
    tables = {name: told[name] for name in settings.TABLES if name in told}
    gateway = _read(Gateway, told.get("gateway", {}), "gateway", problems)
    config = Config(
        gateway=gateway,
        options=options,
        tiers=_read_tiers(told.get("tiers", {}), problems),
        keys=_read_keys(told.get("keys", {}), problems),
        tables=tables,
    )
    _check_store(gateway.store, problems)
    providers = _check_names(config, env, problems)
    if problems:
        raise settings.config_error(dict.fromkeys(problems))
    return msgspec.structs.replace(config, providers=providers)


def fill(registry: Registry, config: Config, /) -> None:
    """Tell a registry what the names of a config stand for.

    >>> registry = Registry(env={})
    >>> fill(registry, decode_config('[aliases]\\nfast = "demo/any"'))
    >>> registry.targets("fast")
    [Target(demo/any)]
    """
    registry.load_tables(config.tables)
    for name, tier in config.tiers.items():
        registry.alias(name, tier.spec)


def _read(
    shape: type[S], table: Any, where: str, problems: list[str], /, *, only: Collection[str] = (), **more: Any
) -> S:
    """A table as a value."""
    values = {**more, **_read_fields(shape, table, where, problems, only)}
    try:
        return shape(**values)
    except (SetupError, TypeError) as error:
        problems.append(f"{where}: {error}")
        return shape(**more)


def _read_fields(
    shape: type[msgspec.Struct], table: Any, where: str, problems: list[str], only: Collection[str] = ()
) -> dict[str, Any]:
    """A table's fields, each checked by itself, so that all problems are found."""
    fields = {field.name: field.type for field in msgspec.structs.fields(shape) if not only or field.name in only}
    values: dict[str, Any] = {}
    if not is_object(table):
        problems.append(f"{where}: not a table")
        table = {}
    for name, value in table.items():
        if name not in fields:
            problems.append(f"{where}.{name}: no such setting{did_you_mean(name, fields)}")
            continue
        try:
            values[name] = msgspec.convert(value, fields[name], strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            problems.append(f"{where}.{name}: {error}")
    return values


def _tables(told: Any, where: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    if not is_object(told):
        problems.append(f"{where}: not a table")
        return {}
    problems += [f"{where}.{name}: not a table" for name, value in told.items() if not is_object(value)]
    return {name: value for name, value in told.items() if is_object(value)}


def _read_tiers(told: Any, problems: list[str]) -> dict[str, Tier]:
    tiers: dict[str, Tier] = {}
    for name, table in _tables(told, "tiers", problems).items():
        where = f"tiers.{name}"
        models = table.get("models")
        rest = {key: value for key, value in table.items() if key != "models"}
        try:
            costs = msgspec.convert(dict.fromkeys(models, 1) if is_list(models) else models or {}, dict[str, float])
            if not costs:
                raise SetupError("there are none")
            _, spec = settings.check_alias(name, ",".join(costs))
        except (msgspec.ValidationError, SetupError, TypeError) as error:
            problems.append(f"{where}.models: {error}")
            continue
        order = "given" if is_list(models) else "weighted"
        tiers[name] = _read(Tier, {"order": order, **rest}, where, problems, only=("order",), spec=spec, costs=costs)
    return tiers


def _read_keys(told: Any, problems: list[str]) -> tuple[Key, ...]:
    keys: dict[str, Key] = {}
    for name, table in _tables(told, "keys", problems).items():
        where = f"keys.{name}"
        values: dict[str, Any] = {"hash": "", **_read_fields(Key, table, where, problems, _OF_A_KEY)}
        try:
            key = Key(id=name, **values)
        except ValueError as error:
            problems.append(f"{where}.{error}" if str(error).startswith(_OF_A_KEY) else f"{where}: {error}")
            continue
        if key.hash in keys:
            problems.append(f"{where}.hash: it is that of keys.{keys[key.hash].id}")
        keys[key.hash] = key
    return tuple(keys.values())


def _check_store(url: str, problems: list[str]) -> None:
    try:
        open_store(url)
    except SetupError as error:
        problems.append(f"gateway.{error}")


def _check_names(config: Config, env: Mapping[str, str], problems: list[str]) -> frozenset[str]:
    """The providers that are named; a name that stands for nothing is a problem."""
    registry = Registry(env=env)
    try:
        fill(registry, config)
    except SetupError as error:
        head, *lines = str(error).split("\n- ")
        problems += lines or [head]
        _fill_names(registry, config)
    named = {*config.gateway.providers, *_table(config, "providers")}
    for name in registry.aliases():
        try:
            named |= {target.provider for target in registry.targets(name)}
        except SetupError as error:
            problems.append(f"{'tiers' if name in config.tiers else 'aliases'}.{name}: {error}")
    places = [(name, "gateway.providers") for name in config.gateway.providers]
    for name, place in (
        *places,
        *((name.partition("/")[0], f"capabilities.{name}") for name in _table(config, "capabilities")),
    ):
        try:
            registry.provider(name)
        except SetupError as error:
            problems.append(f"{place}: {error}")
    return frozenset(named) or _from_environment(env)


def _fill_names(registry: Registry, config: Config) -> None:
    """Tell a registry the names of a config that is wrong elsewhere, so that what they stand for is checked, too."""
    for name in _table(config, "providers"):
        with suppress(SetupError):  # told by those who read the record
            registry.add_provider(name=name, like="demo")
    specs = {**_table(config, "aliases"), **{name: tier.spec for name, tier in config.tiers.items()}}
    for name, spec in specs.items():
        with suppress(SetupError):
            registry.alias(name, spec)


def _table(config: Config, name: str) -> dict[str, Any]:
    table = config.tables.get(name)
    return table if is_object(table) else {}


def _from_environment(env: Mapping[str, str]) -> frozenset[str]:
    """The demo, those that a variable defines, and those whose keys are there."""
    defined = {name[len(PREFIX) :].lower() for name in env if name.startswith(PREFIX) and name != PREFIX}
    keyed = {name for name, record in PROVIDERS.items() if any(env.get(key) for key in record.key_names)}
    return frozenset({"demo", *defined, *keyed})
