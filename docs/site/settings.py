"""Makes the page of the settings: every table of `dragoman.toml`, from the structs that read it."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from markdown import cell_code, field_texts, table
from types_text import toml_type, toml_value

from dragoman.engine.call_context import Timeouts
from dragoman.engine.failover import ChainOptions
from dragoman.gateway import config
from dragoman.gateway.accounting.bodies import BodySettings
from dragoman.gateway.auth.api_keys import Key, KeyBudget, Team
from dragoman.gateway.catalog import Tier
from dragoman.gateway.hooks.moderation import ModerationSettings
from dragoman.gateway.hooks.redaction import RedactionSettings
from dragoman.gateway.hooks.settings import HookSettings
from dragoman.gateway.hooks.webhook import WebhookSettings
from dragoman.gateway.observability.alerts import AlertSettings
from dragoman.gateway.response_cache import CacheSettings
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.pools import DeploymentLimits, DeploymentPool
from dragoman.targets.provider import Provider
from dragoman.targets.target import BatchStorage, Capabilities, Hosting, Quirks

Row = tuple[str, str, str, str]


class Table(NamedTuple):
    """One table of the file: its struct, and what of the struct is not in the file."""

    heading: str
    text: str
    struct: type[msgspec.Struct] | None = None
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    first: tuple[Row, ...] = ()
    """Settings that are not fields of the struct."""
    defaults: dict[str, str] = {}
    """Defaults that are not those of the struct."""


_OWN_TABLES = ("capabilities", "quirks", "hosting", "batch_storage", "deployment_limits")
LIKE: Row = (
    "`like`",
    "text",
    "the provider of this name",
    "The known provider to start from, such as `vllm`; required for a new name without `wire`.",
)
TABLES = (
    Table(
        "[gateway]", "Where the gateway listens, and its limits: [gateway](../docs/gateway.md).", config.GatewaySettings
    ),
    Table(
        "[chain]",
        "Retries and failover of every request of a gateway: [chains](../docs/chains.md). In the library, these are "
        "[options of a call](api/calls.md#calloptions), and some defaults differ.",
        ChainOptions,
        only=tuple(name for name in ChainOptions.__struct_fields__ if name in config.CHAIN_FIELDS),
        defaults={
            "max_retry_after": "`5`; in the library `60`",
            "when_all_cooling_down": '`"shed"`; in the library `"try"`',
        },
    ),
    Table(
        "[timeouts]",
        "Time limits of every request of a gateway, in seconds; `inf` means no limit: [chains](../docs/chains.md).",
        Timeouts,
        without=("step", "tool"),
    ),
    Table(
        "[health]",
        "When a target goes on cooldown; times are in seconds: [health](../docs/chains.md#health).",
        HealthPolicy,
    ),
    Table(
        "[providers.NAME]",
        "A provider of your own, or changes to a known one: [configuration](../docs/configuration.md#dragomantoml).",
        Provider,
        without=("name", "http_client", "credential", "like_name", *_OWN_TABLES),
        first=(LIKE,),
        defaults={"wire": "that of `like`", "base_url": "that of `like`"},
    ),
    Table("[providers.NAME.capabilities]", "What the models of a provider take.", Capabilities),
    Table("[providers.NAME.quirks]", "How a server differs from its protocol.", Quirks),
    Table(
        "[providers.NAME.deployment_limits]",
        "What each model of a provider may get at most: [routing](../docs/routing.md).",
        DeploymentLimits,
    ),
    Table(
        "[providers.NAME.batch_storage]",
        "Where Bedrock finds the rows of [batches](../docs/batches.md).",
        BatchStorage,
    ),
    Table("[providers.NAME.hosting]", "How a cloud serves the protocol of another provider.", Hosting),
    Table(
        '[capabilities."PROVIDER/MODEL"]',
        "The same facts for one model, or for all models of a provider (`[capabilities.PROVIDER]`): "
        "all names of [capabilities](#providersnamecapabilities) and [quirks](#providersnamequirks).",
    ),
    Table(
        "[aliases]",
        'Each line gives a name to a spec: `fast = "groq/llama-3.3-70b-versatile, openai/gpt-5-mini"`.',
    ),
    Table(
        "[pools.NAME]",
        "Deployments behind one name: [routing](../docs/routing.md). A pool has `targets`, `providers` or `api_keys`.",
        DeploymentPool,
        without=("name",),
        first=(
            ("`api_keys`", "list of texts", "`[]`", "Several keys of one provider; each becomes a deployment."),
            ("`like`", "text", "the provider of this name", "With `api_keys`: the provider that the keys belong to."),
        ),
    ),
    Table(
        "[tiers.NAME]",
        "A class of models that clients can ask for: [gateway](../docs/gateway.md).",
        Tier,
        without=("spec", "costs"),
        first=(
            ("`models`", "list of texts, or table of numbers", "required", "The models; in a table, with their costs."),
        ),
        defaults={"order": '`"weighted"`; `"in_order"` if `models` is a list'},
    ),
    Table(
        "[keys.NAME]",
        "A key of a client, with its limits: [keys](../docs/operating.md#keys).",
        Key,
        without=("id", "team_record", "created_at"),
    ),
    Table(
        "[teams.NAME]",
        "Limits that the keys of a team share, in addition to their own.",
        Team,
        without=("id",),
    ),
    Table("[[keys.NAME.budgets]], [[teams.NAME.budgets]]", "One budget of a key or a team.", KeyBudget),
    Table(
        "[cache]",
        "Answers for equal requests: [response cache](../docs/response-cache.md). Without it, nothing is cached.",
        CacheSettings,
    ),
    Table(
        "[hooks.NAME]",
        "Code that sees each request: [hooks](../docs/hooks.md). These settings are those of every hook; "
        "the others belong to the hook that `use` names.",
        HookSettings,
        without=("name", "own"),
    ),
    Table('[hooks.NAME] with use = "redaction"', "Personal data is replaced.", RedactionSettings),
    Table(
        '[hooks.NAME] with use = "moderation"',
        "Another model decides what is allowed.",
        ModerationSettings,
        defaults={"policy": "a policy of the package"},
    ),
    Table('[hooks.NAME] with use = "webhook"', "Calls are reported to a URL.", WebhookSettings),
    Table(
        "[bodies]",
        "Requests and answers are stored for the operator: [dashboard](../docs/dashboard.md). Without this table, no "
        "body is stored.",
        BodySettings,
    ),
    Table(
        "[alerts]",
        "Messages to the operator: [hooks](../docs/hooks.md). Without this table, no message is sent.",
        AlertSettings,
    ),
    Table(
        "[pass_through]",
        "Paths of providers that are not translated: [gateway](../docs/gateway.md).",
        config.PassThroughSettings,
    ),
)


def settings_page() -> str:
    """The Markdown of the page."""
    known = {table.heading.strip("[]").partition(".")[0] for table in TABLES}
    missing = set(config.TABLES) - known
    if missing:
        raise LookupError(f"the tables {sorted(missing)} have no entry in TABLES of {__file__}")
    lines = [
        "# Settings",
        "",
        "Every table of `dragoman.toml`, with types and defaults. [Configuration](../docs/configuration.md) explains "
        "where the file is read; `NAME` stands for a name of yours. *Not set* means that you leave the line out. The "
        "library reads `[providers]`, `[pools]`, `[aliases]`, `[capabilities]` and `[health]`; the gateway reads all.",
        "",
    ]
    for each in TABLES:
        lines += [f"## {each.heading}", "", each.text, ""]
        if each.struct is not None:
            lines += table(("setting", "type", "default", ""), rows(each))
    return "\n".join(lines)


def rows(each: Table, /) -> Iterator[Row]:
    """The settings of a table. Each must have a text."""
    assert each.struct is not None
    yield from each.first
    texts = field_texts(each.struct)
    for field in msgspec.structs.fields(each.struct):
        if field.name in each.without or (each.only and field.name not in each.only):
            continue
        if not texts.get(field.name):
            raise LookupError(f"{each.struct.__name__}.{field.name} has no text below it")
        default = each.defaults.get(field.name) or _default(field)
        text = re.sub(r"\bNone\b", "*not set*", texts[field.name])  # a TOML file has no None
        yield f"`{field.name}`", toml_type(field.type), default, text


def _default(field: Any) -> str:
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return "not set" if value is None else cell_code(toml_value(value))
