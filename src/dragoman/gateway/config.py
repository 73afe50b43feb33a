"""The config of a gateway, read from dragoman.toml.

    [gateway]                               where it listens, and its limits: the fields of `GatewaySettings`
    [chain], [timeouts]                     retries, max_retry_after ...; total, connect, first_event, idle
    [tiers.simple]                          models = { "groq/llama" = 1, "openai/gpt" = 5 }; order = "weighted"
    [providers.x] [aliases] [capabilities]  as in the library
    [keys.alice]                            an API key, by its hash, and its limits
    [teams.research]                        limits that the keys of a team share

`${VAR}` and `${VAR:default}` in any text are replaced by environment variables. All problems of a file are reported in
one error.
"""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from dragoman.engine.call_context import Timeouts
from dragoman.engine.failover import ChainOptions
from dragoman.errors import SetupError
from dragoman.gateway.accounting.bodies import BodySettings
from dragoman.gateway.accounting.quotas import WhenDown
from dragoman.gateway.auth.api_keys import Key, LimitHolder, Team
from dragoman.gateway.catalog import Tier
from dragoman.gateway.hooks.settings import HookSettings, read_hook
from dragoman.gateway.observability.alerts import AlertSettings
from dragoman.gateway.observability.metrics import MetricLabel
from dragoman.gateway.response_cache import CacheSettings
from dragoman.gateway.store import open_store
from dragoman.gateway.validation import describe_mismatch
from dragoman.registry import Registry
from dragoman.targets import config as settings
from dragoman.targets.dsn import PREFIX
from dragoman.targets.providers import OTHER_NAMES, PROVIDERS
from dragoman.types import is_list, is_object

S = TypeVar("S", bound=msgspec.Struct)
H = TypeVar("H", bound=LimitHolder)

FILE = "dragoman.toml"
TABLES = (
    "gateway",
    "chain",
    "cache",
    "bodies",
    "hooks",
    "alerts",
    "pass_through",
    "timeouts",
    "tiers",
    "keys",
    "teams",
    *settings.TABLES,
)
CHAIN_FIELDS = frozenset(
    (
        "retries",
        "max_retry_after_with_fallback",
        "max_retry_after",
        "backoff",
        "backoff_cap",
        "fail_over_on_permanent",
        "when_all_cooling_down",
        "affinity",
        "fallbacks",
    )
)
"""Fields of ChainOptions in [chain]; the others belong to a tier or to one call."""
_TIER_FIELDS = ("models", "order", "weights", "affinity")
_TIER_SETTINGS = _TIER_FIELDS[1:]
MIN_REASONING_KEY = 32
_NOT_SETTINGS = ("id", "team_record", "created_at")

PositiveInt: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=86_400, title="seconds")]
Timeout: TypeAlias = Annotated[float, msgspec.Meta(ge=0, title="seconds")]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table [gateway]."""

    host: str = "127.0.0.1"
    """The address at which it listens: `127.0.0.1` for this machine only, `0.0.0.0` for all addresses."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8080
    """The port at which it listens."""
    workers: PositiveInt = 1
    """Processes that answer requests."""
    tls_certificate: str | None = None
    """A PEM file with the certificate and those that signed it; None for plain HTTP."""
    tls_key: str | None = None
    """A PEM file with the key of the certificate, if it is not in the same file."""
    store: str = "memory"
    """`memory`, `sqlite:PATH` or `redis://...`."""
    providers: tuple[str, ...] = ()
    """Providers that clients may use besides those of the other tables."""
    host_names: tuple[str, ...] = ()
    """Names with a dot by which clients reach a gateway without keys; addresses and `localhost` always work."""
    origins: tuple[str, ...] = ()
    """Origins whose web pages may use the gateway (CORS), such as `https://app.example.com`; `*` is any."""
    max_body: PositiveInt = 32 * 1024 * 1024
    """Bytes of a request body, decompressed."""
    max_body_memory: PositiveInt = 256 * 1024 * 1024
    """Bytes of all request bodies that a worker holds."""
    max_file_storage: PositiveInt = 128 * 1024 * 1024
    """Bytes of all files that one key stores; one file fits into `max_body`."""
    max_depth: PositiveInt = 128
    """Levels of nested JSON in a request."""
    max_objects: PositiveInt = 20_000
    """JSON objects and lists in a request."""
    max_requests: PositiveInt = 1000
    """Requests in progress, per worker."""
    body_timeout: Seconds = 60.0
    """Seconds for a client to send its body."""
    write_timeout: Seconds = 60.0
    """Seconds in which a client must read something of a stream, or it is disconnected."""
    ping: Seconds = 15.0
    """Seconds of silence after which a stream gets a ping."""
    rates_when_down: WhenDown = "open"
    """While the store is down: whether requests of keys with a rate limit pass (`open`) or fail (`closed`)."""
    budgets_when_down: WhenDown = "closed"
    """The same for requests of keys with a budget."""
    answer_tokens: PositiveInt | None = None
    """Tokens to reserve if a request has no max_tokens; by default the most that its targets can answer."""
    log: bool = True
    """One line of JSON per request, without its content."""
    traces: bool = False
    """OpenTelemetry spans and metrics, through the providers of the process."""
    metric_labels: tuple[MetricLabel, ...] = ()
    """Further labels of requests, tokens and costs in /metrics: `key`, `team`."""
    reasoning_key: str | None = None
    """A secret that protects the reasoning state in the hands of clients; without it, the store has one."""
    drain: Annotated[float, msgspec.Meta(ge=0, le=86_400, title="seconds")] = 0.0
    """Seconds after SIGTERM in which requests are still answered, but /health/ready fails."""
    grace: PositiveInt = 30
    """Seconds for requests in progress to finish after SIGTERM."""

    def __repr__(self) -> str:
        return f"GatewaySettings({self.host}:{self.port})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        return [("host", self.host), ("port", self.port)]


class PassThroughSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table [pass_through]: paths of providers that are not translated."""

    providers: tuple[str, ...] = ()
    """Providers whose other paths clients may use, under `/providers/NAME/`."""
    images: str | None = None
    """The provider that gets `/v1/images/…`."""
    audio: str | None = None
    """The provider that gets `/v1/audio/…`: speech and transcription."""
    moderations: str | None = None
    """The provider that gets `/v1/moderations`."""
    fine_tuning: str | None = None
    """The provider that gets `/v1/fine_tuning/…`."""
    allow_budgets: bool = False
    """Whether keys with a budget may use these paths, whose cost is mostly not known."""


DEFAULT_OPTIONS = ChainOptions(max_retry_after=5.0, when_all_cooling_down="shed")
"""Shorter waits than in the library: clients get Retry-After instead of an open connection."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The checked config of a gateway."""

    gateway: GatewaySettings = GatewaySettings()
    options: ChainOptions = DEFAULT_OPTIONS
    tiers: dict[str, Tier] = {}
    keys: tuple[Key, ...] = ()
    teams: tuple[Team, ...] = ()
    cache: CacheSettings | None = None
    """None if there is no table [cache]."""
    hooks: tuple[HookSettings, ...] = ()
    alerts: AlertSettings | None = None
    """None if there is no table [alerts]."""
    pass_through: PassThroughSettings = PassThroughSettings()
    bodies: BodySettings | None = None
    """None if there is no table [bodies]."""
    tables: dict[str, Any] = {}
    """The tables that the registry reads itself."""
    providers: frozenset[str] = frozenset()
    """Providers that clients may use."""
    source: dict[str, Any] = {}
    """All tables as they were read; their variables are not expanded."""

    def __repr__(self) -> str:
        # Without the tables, which have the keys of providers.
        return f"Config({self.gateway.host}:{self.gateway.port})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("gateway", self.gateway)]


def decode_config(text: str, env: Mapping[str, str] | None = None, /) -> Config:
    """The config in a TOML text; raises SetupError with all problems."""
    return decode_tables(settings.decode_toml(text), env or {})


def decode_gateway_settings(text: str, env: Mapping[str, str] | None = None, /) -> GatewaySettings:
    """Only the table [gateway] of a config, for commands that call a gateway: they need no keys of providers."""
    problems: list[str] = []
    table = settings.expand_variables(settings.decode_toml(text).get("gateway", {}), env or {}, "gateway", problems)
    gateway = _read(GatewaySettings, table, "gateway", problems)
    if problems:
        raise settings.config_error(dict.fromkeys(problems))
    return gateway


def decode_tables(source: dict[str, Any], env: Mapping[str, str], /) -> Config:
    """The config in the tables of a file; raises SetupError with all problems."""
    problems: list[str] = []
    tables: dict[str, Any] = settings.expand_variables(source, env, "", problems)
    unset = len(problems)  # what is wrong at these places otherwise only follows from the missing variable
    problems += [settings.unknown_table(name, TABLES) for name in tables if name not in TABLES]
    timeouts = _read(Timeouts, tables.get("timeouts", {}), "timeouts", problems)
    options = _read(
        ChainOptions,
        tables.get("chain", {}),
        "chain",
        problems,
        only=CHAIN_FIELDS,
        max_retry_after=DEFAULT_OPTIONS.max_retry_after,
        when_all_cooling_down=DEFAULT_OPTIONS.when_all_cooling_down,
        timeouts=timeouts,
    )
    gateway = _read(GatewaySettings, tables.get("gateway", {}), "gateway", problems)
    config = Config(
        gateway=gateway,
        options=options,
        tiers=_read_tiers(tables.get("tiers", {}), problems),
        keys=_read_keys(tables.get("keys", {}), problems),
        teams=tuple(_read_holders(Team, tables.get("teams", {}), "teams", problems)),
        cache=_read(CacheSettings, tables["cache"], "cache", problems) if "cache" in tables else None,
        hooks=_read_hooks(tables.get("hooks", {}), problems),
        alerts=_read_alerts(tables["alerts"], problems) if "alerts" in tables else None,
        pass_through=_read(PassThroughSettings, tables.get("pass_through", {}), "pass_through", problems),
        bodies=_read(BodySettings, tables["bodies"], "bodies", problems) if "bodies" in tables else None,
        source=source,
        tables={name: tables[name] for name in settings.TABLES if name in tables},
    )
    _check_store("gateway", gateway.store, problems)
    if config.cache is not None:
        _check_cache(config.cache, gateway, problems)
    _check_teams(config, problems)
    _check_origins(gateway.origins, problems)
    _check_reasoning_key(gateway.reasoning_key, problems)
    providers = _check_names(config, env, problems)
    if problems:
        places = {_place(problem) for problem in problems[:unset]}
        others = [problem for problem in problems[unset:] if _place(problem) not in places]
        empty = dict(settings.empty_variables(source, env))
        named = [
            f"{problem}; the variable {empty[place]} is empty" if (place := _place(problem)) in empty else problem
            for problem in others
        ]
        raise settings.config_error(dict.fromkeys((*problems[:unset], *named)))
    return msgspec.structs.replace(config, providers=providers)


def _place(problem: str) -> str:
    """The setting that a problem is about."""
    return problem.split(" ", 1)[0].rstrip(":")


def configure_registry(registry: Registry, config: Config, /) -> None:
    """Add the providers, aliases and tiers of a config to a registry."""
    registry.load_tables(config.tables)
    for name, tier in config.tiers.items():
        registry.alias(name, tier.spec)


def _read(
    struct: type[S], table: Any, where: str, problems: list[str], /, *, only: Collection[str] = (), **defaults: Any
) -> S:
    values = {**defaults, **_read_fields(struct, table, where, problems, only)}
    try:
        return struct(**values)
    except (SetupError, TypeError) as error:
        problems.append(f"{where}.{error}" if str(error).startswith(struct.__struct_fields__) else f"{where}: {error}")
        return struct(**defaults)


def _read_fields(
    struct: type[msgspec.Struct], table: Any, where: str, problems: list[str], only: Collection[str] = ()
) -> dict[str, Any]:
    """The fields of a table. Each is checked by itself, so that all problems are found."""
    fields = {name: type for name, type in _field_types(struct).items() if not only or name in only}
    values: dict[str, Any] = {}
    if not is_object(table):
        problems.append(f"{where} must be a table")
        table = {}
    for name, value in table.items():
        if name not in fields:
            problems.append(f"{where}: {settings.unknown_name('setting', name, fields)}")
            continue
        # The fields of Timeouts have no limits in their types: it checks them itself, and allows None.
        type = Timeout if struct is Timeouts else fields[name]
        try:
            values[name] = msgspec.convert(value, type, strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            problems.append(f"{where}.{name}{describe_mismatch(error, value, type)}")
    return values


@cache
def _field_types(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def _subtables(tables: Any, where: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    if not is_object(tables):
        problems.append(f"{where} must be a table")
        return {}
    problems += [f"{where}.{name} must be a table" for name, value in tables.items() if not is_object(value)]
    return {name: value for name, value in tables.items() if is_object(value)}


def _read_tiers(tables: Any, problems: list[str]) -> dict[str, Tier]:
    tiers: dict[str, Tier] = {}
    for name, table in _subtables(tables, "tiers", problems).items():
        where = f"tiers.{name}"
        problems += [
            f"{where}: {settings.unknown_name('setting', field, _TIER_FIELDS)}"
            for field in table
            if field not in _TIER_FIELDS
        ]
        models = table.get("models")
        own = {name: value for name, value in table.items() if name in _TIER_SETTINGS}
        own.setdefault("order", "in_order" if is_list(models) else "weighted")
        try:
            costs = _read_costs(models, f"{where}.models")
            _, spec = settings.check_alias(name, ",".join(costs))
        except SetupError as error:
            problems.append(str(error))
            _read(Tier, own, where, problems, only=_TIER_SETTINGS, spec="")
            continue
        tiers[name] = _read(Tier, own, where, problems, only=_TIER_SETTINGS, spec=spec, costs=costs)
    return tiers


def _read_costs(models: Any, where: str) -> dict[str, float]:
    """The models of a tier and what they cost; those of a list cost the same."""
    if is_list(models) and all(isinstance(model, str) for model in models):
        models = dict.fromkeys(models, 1)
    if not is_object(models) or not models:
        raise SetupError(f'{where} must be a list such as ["groq/llama"], or a table of models and their costs')
    costs: dict[str, float] = {}
    for model, cost in models.items():
        try:
            costs[model] = msgspec.convert(cost, float)
        except msgspec.ValidationError as error:
            raise SetupError(f"{where}.{model}{describe_mismatch(error, cost, float)}") from None
    return costs


def _read_keys(tables: Any, problems: list[str]) -> tuple[Key, ...]:
    keys: dict[str, Key] = {}
    for key in _read_holders(Key, tables, "keys", problems, hash=""):
        if key.hash in keys:
            problems.append(f"keys.{key.id}.hash is also the hash of keys.{keys[key.hash].id}; every key needs its own")
        keys[key.hash] = key
    return tuple(keys.values())


def _read_holders(struct: type[H], tables: Any, kind: str, problems: list[str], /, **defaults: Any) -> list[H]:
    """Keys or teams: the name of each table is its id."""
    fields = tuple(name for name in struct.__struct_fields__ if name not in _NOT_SETTINGS)
    holders: list[H] = []
    for name, table in _subtables(tables, kind, problems).items():
        where = f"{kind}.{name}"
        values: dict[str, Any] = {**defaults, **_read_fields(struct, table, where, problems, fields)}
        try:
            holders.append(struct(id=name, **values))
        except ValueError as error:
            problems.append(f"{where}.{error}" if str(error).startswith(fields) else f"{where}: {error}")
    return holders


def _check_teams(config: Config, problems: list[str]) -> None:
    teams = [team.id for team in config.teams]
    problems += [
        f"keys.{key.id}.team: {settings.unknown_name('team', key.team, teams)}"
        for key in config.keys
        if key.team is not None and key.team not in teams
    ]


def _check_store(table: str, url: str, problems: list[str]) -> None:
    try:
        open_store(url)
    except SetupError as error:
        problems.append(f"{table}.{error}")


def _read_hooks(tables: Any, problems: list[str]) -> tuple[HookSettings, ...]:
    hooks: list[HookSettings] = []
    for name, table in _subtables(tables, "hooks", problems).items():
        try:
            hooks.append(read_hook(name, table))
        except SetupError as error:
            text = str(error)
            problems.append(
                f"hooks.{name}.{text}" if text.split(" ", maxsplit=1)[0] in table else f"hooks.{name}: {text}"
            )
    return tuple(hooks)


def _read_alerts(table: Any, problems: list[str]) -> AlertSettings | None:
    values: dict[str, Any] = {"url": "", **_read_fields(AlertSettings, table, "alerts", problems)}
    try:
        return AlertSettings(**values)
    except ValueError as error:
        problems.append(f"alerts.{error}")
        return None


def _check_cache(cache: CacheSettings, gateway: GatewaySettings, problems: list[str]) -> None:
    _check_store("cache", cache.store, problems)
    if cache.store.startswith("sqlite:") and cache.store == gateway.store:
        problems.append("cache.store must be another file than gateway.store: the oldest values of a cache are deleted")


def _check_origins(origins: tuple[str, ...], problems: list[str]) -> None:
    problems += [
        f'gateway.origins must be "*" or like "https://app.example.com", without a path, got {origin!r}'
        for origin in origins
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[a-z0-9._:\[\]-]+", origin)
    ]


def _check_reasoning_key(key: str | None, problems: list[str]) -> None:
    if key is not None and len(key) < MIN_REASONING_KEY:
        problems.append(
            f"gateway.reasoning_key must have at least {MIN_REASONING_KEY} characters, got {len(key)}; "
            "make one with: openssl rand -hex 32"
        )


def _check_names(config: Config, env: Mapping[str, str], problems: list[str]) -> frozenset[str]:
    """The providers that clients may use; a name that refers to nothing is a problem."""
    registry = Registry(env=env)
    try:
        configure_registry(registry, config)
    except SetupError as error:
        head, *lines = str(error).split("\n- ")
        problems += lines or [head]
        _fill_names(registry, config)
    providers = {*config.gateway.providers, *_table(config, "providers")}
    providers |= {other for name in tuple(providers) for other in OTHER_NAMES.get(name, ())}
    for name in registry.aliases():
        try:
            providers |= {target.provider for target in registry.targets(name)}
        except SetupError as error:
            problems.append(f"{'tiers' if name in config.tiers else 'aliases'}.{name}: {error}")
    _check_pools(registry, config, problems)
    uses = [(name, "gateway.providers") for name in config.gateway.providers]
    uses += [(name.partition("/")[0], f"capabilities.{name}") for name in _table(config, "capabilities")]
    through = config.pass_through
    uses += [(name, "pass_through.providers") for name in through.providers]
    single = {field: getattr(through, field) for field in ("images", "audio", "moderations", "fine_tuning")}
    uses += [(name, f"pass_through.{field}") for field, name in single.items() if name is not None]
    for name, where in uses:
        try:
            registry.provider(name)
        except SetupError as error:
            problems.append(f"{where}: {error}")
    return frozenset(providers) if providers or registry.pools else _from_environment(env)


def _check_pools(registry: Registry, config: Config, problems: list[str]) -> None:
    """Check that the deployments of pools and the targets of fallbacks are known."""
    fallbacks = [(f"chain.fallbacks.{kind}", spec) for kind, spec in config.options.fallbacks.items()]
    for name, table in _table(config, "pools").items():
        if (pool := registry.pools.get(name)) is None:
            continue
        if pool.targets and name in registry.aliases():
            problems.append(f"pools.{name}: an alias or a tier has the same name; choose another one")
        fallbacks.append((f"pools.{name}", pool.spec("any")))
        own: dict[str, Any] = table.get("fallbacks", {})
        fallbacks += [(f"pools.{name}.fallbacks.{kind}", spec) for kind, spec in own.items()]
    for where, spec in fallbacks:
        try:
            registry.targets(spec)
        except SetupError as error:
            problems.append(f"{where}: {error}")


def _fill_names(registry: Registry, config: Config) -> None:
    """Add the names of a config that is wrong elsewhere, so that references to them are checked, too."""
    for name in _table(config, "providers"):
        with suppress(SetupError):  # reported already
            registry.add_provider(name=name, like="demo")
    specs = {**_table(config, "aliases"), **{name: tier.spec for name, tier in config.tiers.items()}}
    for name, spec in specs.items():
        with suppress(SetupError):
            registry.alias(name, spec)


def _table(config: Config, name: str) -> dict[str, Any]:
    table = config.tables.get(name)
    return table if is_object(table) else {}


def _from_environment(env: Mapping[str, str]) -> frozenset[str]:
    """The demo, the providers that a variable defines, and those whose keys are set."""
    defined = {name[len(PREFIX) :].lower() for name in env if name.startswith(PREFIX) and name != PREFIX}
    keyed = {name for name, record in PROVIDERS.items() if any(env.get(key) for key in record.key_names)}
    return frozenset({"demo", *defined, *keyed})
