"""Changes at run time: reads them from the store, makes them, and gives the app a new Runtime.

Requests never wait for the store: they use the Runtime that is there. A gateway applies its own changes at once. Five
times a second it checks for those of others: for a new version of one value. A store in memory belongs to one process,
so its state stays here.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest, SetupError, StoreDown
from dragoman.gateway.management.managed_state import (
    EMPTY,
    RECENT_CHANGES,
    Change,
    ManagedState,
    decode_state,
    encode_state,
)
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.store import Store, open_store
from dragoman.types import JsonObject

log = logging.getLogger("dragoman.gateway")

KEY = "managed"
AUDIT = "audit:"
INTERVAL = 0.2
"""Seconds between two checks of the store: a change must hold everywhere within a second, also if a gateway is busy."""
MAX_SWAPS = 50
OVERTAKEN = f"{MAX_SWAPS} changes of other gateways came first; try again"
LARGE = 64 * 1024
"""Bytes of a state that is decoded in a thread."""

Edit: TypeAlias = Callable[[ManagedState, Runtime], ManagedState]
"""Makes the new state from the current one and its Runtime; raises an error if the change is not possible."""
StateRead: TypeAlias = tuple[ManagedState, str | None]


class HasRuntime(Protocol):
    """The app."""

    runtime: Runtime


class ChangeNote(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit log says about a change."""

    actor: str
    action: str
    name: str
    fields: JsonObject = {}
    request_id: str | None = None


class Manager:
    """The run-time changes of one gateway process."""

    def __init__(self, app: HasRuntime, /, *, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._clock = clock
        self._lock = asyncio.Lock()
        self._version: str | None = None
        self.is_loaded = not app.runtime.store.is_shared
        """Whether the state of the store is known. Before that, no key can be checked."""

    @property
    def runtime(self) -> Runtime:
        """What holds now."""
        return self._app.runtime

    @property
    def _store(self) -> Store:
        return self._app.runtime.store

    async def load(self) -> Runtime:
        """Read the state if that has not happened yet; raises StoreDown if the store cannot be read."""
        async with self._lock:
            if not self.is_loaded:
                await self._refresh()
        return self._app.runtime

    async def run(self) -> None:
        """Follow the changes of other gateways, until cancelled."""
        while True:
            with suppress(StoreDown):  # the state stays as it is known; the next poll tries again
                await self.poll()
            await asyncio.sleep(INTERVAL)

    async def poll(self) -> None:
        """Apply the changes of other gateways since the last poll."""
        if self._store.is_shared and (not self.is_loaded or await self._store.version(KEY) != self._version):
            async with self._lock:
                await self._refresh()

    async def _refresh(self) -> None:
        state, version = await read_state(self._store)
        is_new = version != self._version
        self._version, self.is_loaded = version, True
        before = self._app.runtime
        if not is_new:
            return
        after = Runtime(before.base, before.env, before, managed=state)
        if before.keys.all and not after.keys.all:
            log.error("the store has lost all keys; the gateway goes on with those that it knows")
            return
        self._app.runtime = after
        for problem in after.problems:
            log.error("a change at run time does not fit the config and is left out: %s", problem)

    async def change(self, note: ChangeNote, edit: Edit, /) -> None:
        """Make a change and store it. If another gateway is faster, it is made again on top of that change."""
        if not self._store.is_shared and self._app.runtime.workers > 1:
            raise InvalidRequest(
                f"store must be shared by the {self._app.runtime.workers} workers of this gateway to change it at run "
                'time, got "memory"; set store = "sqlite:PATH" or "redis://HOST:PORT/DB"'
            )
        async with self._lock:
            for _ in range(MAX_SWAPS):
                before = self._app.runtime
                state, version = await self._current(before)
                current = before if state is before.managed else Runtime(before.base, before.env, before, managed=state)
                new, moved = _with_entry(edit(state, current), note, self._clock())
                after = Runtime(before.base, before.env, before, managed=new)
                if problems := [each for each in after.problems if each not in current.problems]:
                    raise InvalidRequest("; ".join(problems))
                _check_admins(current, after)
                if await self._write(new, moved, version):
                    if (now := self._app.runtime) is not before:  # the file was read again meanwhile
                        after = Runtime(now.base, now.env, now, managed=new)
                    self._app.runtime, self.is_loaded = after, True
                    return
        raise StoreDown(OVERTAKEN, retry_after=1.0)

    async def _current(self, runtime: Runtime) -> StateRead:
        if not self._store.is_shared:
            return runtime.managed, None
        state, version = await read_state(self._store)
        return (runtime.managed if version == self._version else state), version

    async def _write(self, new: ManagedState, moved: tuple[Change, ...], version: str | None) -> bool:
        if not self._store.is_shared:
            return True
        written = await _write_state(self._store, new, moved, version)
        if written is not None:
            self._version = written
        return written is not None

    async def note(self, note: ChangeNote, /) -> None:
        """Write an entry for a change that is not part of the state, such as a budget that was reset."""
        await self.change(note, lambda state, _runtime: state)

    async def audit(self, before: int, limit: int, /) -> tuple[Change, ...]:
        """Entries of the audit log with ids below `before`, newest first."""
        await self.poll()
        changes = self._app.runtime.managed.changes
        entries: list[Change] = []
        while changes:
            entries += [each for each in reversed(changes) if each.id < before]
            first = changes[0].id
            if len(entries) >= limit or first <= 1 or not self._store.is_shared:
                break
            stored = await self._store.read(f"{AUDIT}{first - RECENT_CHANGES}")
            changes = () if stored is None else _decode_changes(stored.value)
        return tuple(entries[:limit])


async def read_state(store: Store, /) -> StateRead:
    """The state in a store, and its version."""
    stored = await store.read(KEY)
    if stored is None:
        return EMPTY, None
    try:
        if len(stored.value) > LARGE:  # requests go on meanwhile
            return await asyncio.to_thread(decode_state, stored.value), stored.version
        return decode_state(stored.value), stored.version
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreDown(f"the run-time changes in the store are of a newer version, or damaged: {error}") from error


async def note_in_store(store: Store, note: ChangeNote, /) -> None:
    """Write an entry to the audit log of the gateways that share a store, for a change that a command made there."""
    for _ in range(MAX_SWAPS):
        state, version = await read_state(store)
        if await _write_state(store, *_with_entry(state, note, time.time()), version) is not None:
            return
    raise StoreDown(OVERTAKEN, retry_after=1.0)


def _with_entry(state: ManagedState, note: ChangeNote, now: float) -> tuple[ManagedState, tuple[Change, ...]]:
    """The state with an entry in the audit log, and the oldest entries that it has no room for."""
    revision, changes = state.revision + 1, state.changes
    moved = changes[:RECENT_CHANGES] if len(changes) >= 2 * RECENT_CHANGES else ()
    change = Change(id=revision, at=now, **msgspec.structs.asdict(note))
    return replace(state, revision=revision, changes=(*changes[len(moved) :], change)), moved


async def _write_state(store: Store, new: ManagedState, moved: tuple[Change, ...], version: str | None) -> str | None:
    """The version of the new state; None if another gateway changed it first."""
    if moved:  # it depends on the old state only, so it does not matter if another gateway writes the same
        await store.write(f"{AUDIT}{moved[0].id}", msgspec.json.encode(moved), ttl=None)
    return await store.write(KEY, encode_state(new), ttl=None, expects=version)


def has_stored_keys(url: str, /) -> bool:
    """Whether a store has keys that were made at run time; raises SetupError if it cannot be read."""

    async def read() -> ManagedState:
        store = open_store(url)
        try:
            return (await read_state(store))[0]
        finally:
            await store.aclose()

    try:
        return any(key is not None for key in asyncio.run(read()).keys.values())
    except StoreDown as error:
        raise SetupError(f"gateway.store must be readable, because it may have the keys of clients: {error}") from error


def _check_admins(before: Runtime, after: Runtime) -> None:
    """Refuse a change after which nobody can manage the gateway, or everybody can use it."""
    had_admin, has_keys = _has_admin(before) or not before.keys.all, before.keys.all or after.keys.all
    if has_keys and had_admin and not _has_admin(after):
        raise InvalidRequest(
            "the gateway must have a key with the role admin that does not expire; make one first, or nobody could "
            "manage the gateway",
            param="role",
        )


def _has_admin(runtime: Runtime) -> bool:
    return any(key.is_admin and key.expires_at is None and key.refusal(0.0) is None for key in runtime.keys.all)


_decode_changes = msgspec.json.Decoder(tuple[Change, ...]).decode
