"""The port of hooks: what a hook sees, and what it may do.

A hook is a subclass of `Hook`. Its methods may be coroutine functions or plain functions, which run in a thread. They
have `timeout` seconds each. What happens if one fails or takes too long, `on_failure` of the config says.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from dragoman.errors import RequestError
from dragoman.events import Event
from dragoman.gateway.webhooks import Webhooks
from dragoman.http import SENSITIVE_NAME
from dragoman.registry import Registry
from dragoman.types import Notice, Request, Response

OnHookFailure: TypeAlias = Literal["refuse", "continue"]
NOTE_HEADER = "x-dragoman-note-"


class Refused(RequestError):
    """A hook refused a request or an answer."""

    http_status = 403


class HookServices(msgspec.Struct, frozen=True, eq=False):
    """What hooks may use."""

    registry: Registry
    webhooks: Webhooks


class HookCall:
    """One request, as hooks see it."""

    __slots__ = ("data", "dialect", "headers", "id", "key", "model", "notes", "notices", "request", "team")

    def __init__(
        self,
        request: Request,
        /,
        *,
        id: str = "",
        model: str = "",
        dialect: str = "",
        key: str | None = None,
        team: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.request = request
        """The request. `before` may replace it."""
        self.id = id
        self.model = model
        """The model that the client named."""
        self.dialect = dialect
        self.key = key
        """The id of the client's key."""
        self.team = team
        self.headers: Mapping[str, str] = headers or {}
        """The headers of the request, by their lower-case names, without keys and cookies."""
        self.notices: list[Notice] = []
        self.notes: dict[str, str] = {}
        self.data: dict[Any, Any] = {}
        """A place for values of a hook, from `before` to `after`."""

    def note(self, name: str, value: str, /) -> None:
        """Add a header `X-Dragoman-Note-<name>` to the response. For a stream, only `before` can."""
        if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name):
            raise ValueError(f"name must be 1 to 64 letters, digits or -, got {name!r}")
        self.notes[name.lower()] = value

    def notice(self, what: str, why: str, /) -> None:
        """Say in the response that something was changed. For a stream, only `before` can."""
        self.notices.append(Notice(kind="changed", what=what, why=why))


def safe_headers(headers: Mapping[str, str], /) -> dict[str, str]:
    """Headers by their lower-case names, without those that may have a key."""
    return {name.lower(): value for name, value in headers.items() if not re.search(SENSITIVE_NAME, name.lower())}


class Hook:
    """The base class of hooks: each method does nothing.

    >>> class Polite(Hook):
    ...     def before(self, call: HookCall) -> None:
    ...         if "please" not in call.request.messages[-1].text:
    ...             raise Refused("say please")
    """

    settings_type: ClassVar[Any] = dict[str, Any]
    """The type of the settings in the config: a msgspec Struct, by which they are checked."""
    quick_methods: ClassVar[frozenset[str]] = frozenset()
    """Plain methods that take less than a millisecond: they run in the event loop, without a thread."""

    def __init__(self, settings: Any, services: HookServices, /) -> None:
        self.settings = settings
        self.services = services

    def before(self, call: HookCall, /) -> Any:
        """The request comes. Set `call.request` to change it, raise `Refused` to refuse it."""

    def after(self, call: HookCall, response: Response, /) -> Any:
        """The answer is complete. Return another one to change it, raise `Refused` to hold it back.

        A stream is already with the client: then the result is ignored.
        """

    def on_events(self, call: HookCall, events: Sequence[Event], /) -> Any:
        """Some events of a stream arrived. Return other ones to change them."""

    def on_error(self, call: HookCall, error: Exception, /) -> Any:
        """The call failed."""
