"""The operation that reads the audit log."""

from typing import Annotated

import msgspec

from dragoman.gateway.management.managed_state import Change
from dragoman.gateway.management.operations import AdminCall, AdminOperations

OPERATIONS = AdminOperations()

MAX_ID = 10**15


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries to read, newest first."""

    before: Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)] = MAX_ID
    """Only entries with smaller ids: the `next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the audit log."""

    changes: tuple[Change, ...]
    next: int | None
    """The value of `before` for the next page; null if this is the last one."""


@OPERATIONS.add("audit.list", "GET", "audit", "viewer", query=AuditQuery)
async def _read(call: AdminCall) -> AuditPage:
    """Read the audit log: who changed what and when."""
    query: AuditQuery = call.query
    changes = await call.manager.audit(query.before, query.limit)
    is_last = len(changes) < query.limit or changes[-1].id == 1
    return AuditPage(changes=changes, next=None if is_last else changes[-1].id)
