"""Batches that a server runs for its clients: what is stored of them, and what clients ask for."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from dragoman.types import JsonObject

BatchRowOutcome: TypeAlias = Literal["succeeded", "errored", "canceled", "expired"]


class BatchInputRow(msgspec.Struct, frozen=True):
    """One request of a batch."""

    custom_id: str
    body: msgspec.Raw


class BatchRowResult(msgspec.Struct, frozen=True, kw_only=True, rename={"outcome": "fate"}):
    """What became of one request of a batch. In the store, a field that got a new name keeps the old one."""

    custom_id: str
    outcome: BatchRowOutcome
    status: int = 0
    request_id: str = ""
    body: msgspec.Raw = msgspec.Raw(b"null")


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"outcomes": "fates"}):
    """A batch that a server runs. In the store, a field that got a new name keeps the old one."""

    id: str
    wire: str
    """The dialect of its client."""
    endpoint: str
    """The path of its requests."""
    created: int
    """In Unix seconds, as all times here."""
    expires: int
    state: Literal["running", "canceling", "ended"] = "running"
    total: int = 0
    outcomes: dict[str, int] = {}
    """How many requests have ended, by what became of them."""
    canceled_at: int | None = None
    ended_at: int | None = None
    metadata: dict[str, str] = {}
    input_file: str | None = None
    output_file: str | None = None
    error_file: str | None = None
    problems: list[JsonObject] = []
    """Why it was refused."""

    def count(self, *outcomes: BatchRowOutcome) -> int:
        """How many requests ended like this."""
        return sum(self.outcomes.get(outcome, 0) for outcome in outcomes)


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that a client creates: with its rows, or with the id of a file that has them."""

    wire: str
    endpoint: str
    rows: tuple[BatchInputRow, ...] = ()
    input_file: str | None = None
    read_rows: Callable[[bytes], tuple[tuple[BatchInputRow, ...], list[JsonObject]]] | None = None
    """Reads the rows of the file; returns them, and what is wrong with the file."""
    metadata: dict[str, str] = {}


class BatchPage(msgspec.Struct, frozen=True):
    """A part of a list of batches."""

    batches: tuple[StoredBatch, ...]
    has_more: bool = False


class BatchQuery(msgspec.Struct, frozen=True):
    """Create, read, list, cancel or delete batches.

    The result of `list` is a `BatchPage`, of others a `StoredBatch`. The results themselves are encoded one by one, as
    tuples with one `BatchRowResult`: those of a batch may be many.
    """

    action: Literal["create", "fetch", "list", "cancel", "drop", "results"]
    wire: str
    id: str = ""
    new: NewBatch | None = None
    after: str = ""
    limit: int = 20
