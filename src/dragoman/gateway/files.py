"""Files that clients upload, stored by owner and id.

An owner's list of files is one entry of the store, the content of each file another one. Uploads of one owner may run
at the same time, so every change of the list is a compare-and-swap. The content is written before the list names it,
and deleted after the list forgot it; what a crash leaves behind expires by itself.
"""

import time
from collections.abc import Callable
from secrets import token_hex
from typing import cast

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.gateway.errors import BodyTooLarge, NotStored
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import DAY, change_value, read_value, store_key
from dragoman.wires.common.server_endpoints import FileContent, FileQuery, StoredFile, UploadedFile

PREFIX = "file-dragoman"
"""The ids of files begin with it, so that they are not taken for ids of a provider."""
MAX_FILES = 1000
"""Files of one owner."""
MAX_BYTES = 128 * 1024 * 1024
"""Bytes of all files of one owner."""
FILE_TTL = 30 * DAY
"""Seconds until a file expires if its upload does not say when."""
_LIST_TTL = 100 * DAY
"""Longer than any file of the list is stored."""
_decode = msgspec.json.Decoder(tuple[StoredFile, ...]).decode
_FileList = tuple[StoredFile, ...]


class FileStore:
    """The files in a store. A file expires after thirty days if its upload does not say when."""

    def __init__(
        self,
        store: Store,
        /,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`max_bytes`: of all files of one owner."""
        self._store = store
        self._max_bytes = max_bytes
        self._clock = clock

    async def create(self, owner: str | None, new: UploadedFile, /) -> StoredFile:
        ttl, now = FILE_TTL if new.seconds is None else float(new.seconds), self._clock()
        file = StoredFile(
            id=f"{PREFIX}-{token_hex(16)}",
            name=new.name,
            mime=new.mime,
            size=len(new.data),
            created=int(now),
            expires=int(now + ttl),
            purpose=new.purpose,
        )
        self._check_space(await self.list(owner), file)
        key = store_key("file", owner, file.id)
        await self._store.write(key, new.data, ttl=ttl)
        try:
            await self._change(owner, lambda files: (file, *self._check_space(files, file)))
        except InvalidRequest:
            await self._store.delete(key)
            raise
        return file

    async def list(self, owner: str | None, /) -> _FileList:
        """The files of an owner, the newest first."""
        return self._live(await read_value(self._store, store_key("files", owner, ""), _decode))

    async def find(self, owner: str | None, id: str, /) -> StoredFile:
        """A file without its content; NotStored if the owner has none with this id."""
        for file in await self.list(owner):
            if file.id == id:
                return file
        raise _not_stored(id)

    async def read(self, owner: str | None, id: str, /) -> FileContent:
        """A file with its content."""
        file = await self.find(owner, id)
        entry = await self._store.read(store_key("file", owner, id))
        if entry is None:
            raise _not_stored(id)
        return FileContent(file, entry.value)

    async def delete(self, owner: str | None, id: str, /) -> StoredFile:
        file = await self.find(owner, id)
        await self._change(owner, lambda files: tuple(each for each in files if each.id != id))
        await self._store.delete(store_key("file", owner, id))
        return file

    async def run(self, owner: str | None, query: FileQuery, /) -> StoredFile | _FileList | FileContent:
        """Do what a client asks for."""
        match query.action:
            case "create":
                return await self.create(owner, cast("UploadedFile", query.file))
            case "list":
                return await self.list(owner)
            case "fetch":
                return await self.find(owner, query.id)
            case "content":
                return await self.read(owner, query.id)
            case "drop":
                return await self.delete(owner, query.id)

    async def _change(self, owner: str | None, change: Callable[[_FileList], _FileList]) -> None:
        key = store_key("files", owner, "")
        await change_value(
            self._store, key, _decode, lambda files: change(self._live(files)), name="files", ttl=_LIST_TTL
        )

    def _live(self, files: _FileList | None) -> _FileList:
        now = self._clock()
        return tuple(file for file in files or () if file.expires > now)

    def _check_space(self, files: _FileList, new: StoredFile) -> _FileList:
        used = sum(file.size for file in files)
        if used + new.size > self._max_bytes:
            raise BodyTooLarge(
                f"file must fit into the {self._max_bytes} bytes that a key may store, "
                f"got {new.size} bytes besides {used} of other files; delete some of them",
                param="file",
            )
        if len(files) >= MAX_FILES:
            raise InvalidRequest(f"a key may store at most {MAX_FILES} files; delete some of them", param="file")
        return files


def is_gateway_file(id: str, /) -> bool:
    """Whether an id is one of this gateway's files, and not a provider's."""
    return id.startswith(PREFIX)


def _not_stored(id: str) -> NotStored:
    return NotStored(f"no file {id[:200]!r}: it expired, was deleted, or belongs to another key; upload it again")
