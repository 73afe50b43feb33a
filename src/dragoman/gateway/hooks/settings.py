"""Reads the tables [hooks.NAME] of the config, and finds the classes that they name.

`use` is the name of a hook of this package, of an entry point in the group `dragoman.hooks`, or `module:Class`.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import msgspec

from dragoman.errors import SetupError, explain_validation
from dragoman.gateway.hooks.base import Hook, HookServices, OnHookFailure
from dragoman.gateway.hooks.run import BoundHook
from dragoman.targets.config import unknown_name
from dragoman.types.checks import shown

GROUP = "dragoman.hooks"
OWN = {"redaction": "redaction:Redaction", "moderation": "moderation:Moderation", "webhook": "webhook:WebhookHook"}


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that every hook has."""

    name: str
    """The name of the table."""
    use: str
    """The hook: `redaction`, `moderation`, `webhook`, the name of an entry point, or `module:Class`."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 5.0
    """Seconds for each of its methods."""
    on_failure: OnHookFailure = "refuse"
    """If it fails or is too slow: refuse the request, or continue without it."""
    keys: tuple[str, ...] = ("*",)
    """Patterns of the keys whose requests it sees."""
    models: tuple[str, ...] = ("*",)
    """Patterns of the models, as clients name them."""
    own: Any = None
    """The settings of the hook itself, as its type."""

    def __repr__(self) -> str:
        return f"HookSettings({self.name!r}, use={self.use!r})"


_COMMON = tuple(name for name in HookSettings.__struct_fields__ if name not in ("name", "own"))


def read_hook(name: str, table: Mapping[str, Any], /) -> HookSettings:
    """The settings of one hook; SetupError if they are wrong."""
    use = table.get("use")
    if not isinstance(use, str):
        raise SetupError(f"use must be a hook such as {', '.join(OWN)} or module:Class, got {shown(use)}")
    kind = find_hook(use)
    common = {field: value for field, value in table.items() if field in _COMMON}
    own = {field: value for field, value in table.items() if field not in _COMMON}
    fields = getattr(kind.settings_type, "__struct_fields__", None)
    if fields is not None and (unknown := [field for field in own if field not in fields]):
        raise SetupError(unknown_name("setting", unknown[0], (*_COMMON, *fields)))
    try:
        settings = msgspec.convert(own, kind.settings_type, strict=False)
        return msgspec.convert({**common, "name": name, "own": settings}, HookSettings)
    except msgspec.ValidationError as error:
        path, reason = explain_validation(error)
        reason = reason.removeprefix("is invalid: ") if reason.startswith("is invalid: ") else f"{path[1:]} {reason}"
        raise SetupError(reason) from None


def find_hook(use: str, /) -> type[Hook]:
    """The class of a hook."""
    if use in OWN:
        use = f"dragoman.gateway.hooks.{OWN[use]}"
    module, colon, name = use.partition(":")
    if colon:
        hook = _import(module, name)
    else:
        from importlib.metadata import entry_points

        entries = entry_points(group=GROUP, name=use)
        if not entries:
            known = sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})
            raise SetupError(f"{unknown_name('hook', use, known)}; there are {', '.join(known)}, or write module:Class")
        try:
            hook = next(iter(entries)).load()
        except (ImportError, AttributeError) as error:
            raise SetupError(f"use: the hook {use!r} cannot be imported: {error}") from error
    if not (isinstance(hook, type) and issubclass(hook, Hook)):
        raise SetupError(f"use must name a subclass of dragoman.gateway.hooks.base.Hook, got {shown(use)}")
    return hook


def _import(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        is_unknown = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        hint = "; install its package, or start with its folder in PYTHONPATH" if is_unknown else ""
        raise SetupError(f"use: {module}:{name} cannot be imported: {error}{hint}") from error


def make_hooks(settings: Sequence[HookSettings], services: HookServices, /) -> tuple[BoundHook, ...]:
    """The hooks of a config, in its order."""
    return tuple(
        BoundHook(
            each.name,
            find_hook(each.use)(each.own, services),
            timeout=each.timeout,
            on_failure=each.on_failure,
            keys=each.keys,
            models=each.models,
        )
        for each in settings
    )
