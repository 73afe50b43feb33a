"""The form of an operation of the admin API, and what its handler gets.

The table of all operations (`api.OPERATIONS`) is what the routes, the OpenAPI document and `dragoman admin` are made
from, so they cannot differ.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from dragoman.gateway.auth.api_keys import KeyRole
from dragoman.gateway.management.manager import ChangeNote, Edit, Manager
from dragoman.gateway.management.principal import Principal
from dragoman.gateway.request import RequestContext
from dragoman.gateway.runtime import Runtime
from dragoman.types import JsonObject

PREFIX = "/admin/api/"


class AdminOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of the admin API."""

    id: str
    """What it works on and what it does, such as `keys.create`; also the action in the audit log."""
    method: str
    path: str
    """After `PREFIX`; `{name}` is the name of what it works on."""
    summary: str
    role: KeyRole | None
    """The role that it needs; None is any key."""
    handle: "AdminHandler"
    result: Any
    """The type of the answer."""
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    status: int = 200
    content_type: str = "application/json"

    @property
    def has_name(self) -> bool:
        """Whether its path has a name."""
        return "{name}" in self.path


class AdminCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operation."""

    operation: AdminOperation
    context: RequestContext
    principal: Principal
    manager: Manager
    name: str = ""
    """The name in the path."""
    body: Any = None
    query: Any = None

    @property
    def runtime(self) -> Runtime:
        """What holds now, also after a change of this call."""
        return self.manager.runtime

    async def change(self, edit: Edit, fields: JsonObject | None = None, /, *, name: str = "") -> None:
        """Make a change, with an entry in the audit log. `fields` must not have secrets."""
        await self.manager.change(self._note(fields, name), edit)

    async def note(self, fields: JsonObject | None = None, /, *, name: str = "") -> None:
        """Write an entry in the audit log for a change that is not part of the state."""
        await self.manager.note(self._note(fields, name))

    def _note(self, fields: JsonObject | None, name: str) -> ChangeNote:
        return ChangeNote(
            actor=self.principal.name,
            action=self.operation.id,
            name=name or self.name,
            fields=fields or {},
            request_id=self.context.id,
        )


AdminHandler: TypeAlias = Callable[[AdminCall], Awaitable[Any]]


class Named(msgspec.Struct, frozen=True):
    """The name of what was deleted or reset."""

    name: str


H = TypeVar("H", bound=AdminHandler)


class AdminOperations(list[AdminOperation]):
    """The operations of one module: `add` decorates their handlers."""

    def add(self, id: str, method: str, path: str, role: KeyRole | None, /, **fields: Any) -> Callable[[H], H]:
        """Add an operation. The docstring of its handler is its summary, and what that returns is its result."""

        def decorate(handle: H) -> H:
            fields.setdefault("result", handle.__annotations__["return"])
            fields["summary"] = (handle.__doc__ or "").removesuffix(".")
            self.append(AdminOperation(id=id, method=method, path=path, role=role, handle=handle, **fields))
            return handle

        return decorate
