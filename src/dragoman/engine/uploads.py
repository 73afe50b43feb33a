"""Files of a request: uploaded once to a target that stores files, and referred to by their id.

What was uploaded is noted in an index, by the hash of the content and by the account. An id that the provider no longer
knows is dropped from the index, and the file is uploaded again. A target that stores no files gets the bytes.
"""

from hashlib import sha256
from typing import cast

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.attempt import annotate_errors, check_key, send_extra_request
from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import Now, Plan, Recall, Remember, RemoteCopy, Sleep
from dragoman.engine.exchange import Completed
from dragoman.engine.prompt_caches import cached_attempt
from dragoman.errors import BadRequest, ModelNotFound, ProviderError, RequestTooLarge, TimedOut
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Message, Notice, Part, Request
from dragoman.types.files import file_name, is_file
from dragoman.wires.base import WireFiles
from dragoman.wires.common.caching import point_block
from dragoman.wires.common.uploads import Media, NextUpload, Uploaded

MAX_STEPS = 300
"""Requests of one upload: a long video is processed for minutes."""
_REFUSALS = (BadRequest, ModelNotFound, RequestTooLarge)
"""Errors of an upload after which the bytes may still be accepted in the request itself."""


class Resolved(msgspec.Struct, frozen=True):
    """A request with references in place of its files, and what they refer to."""

    request: Request
    notices: tuple[Notice, ...] = ()
    recalled: dict[str, str] = {}
    """The ids that came from the index, with their keys there."""


def has_files(request: Request, /) -> bool:
    """Whether a request has files."""
    return any(is_file(part) for message in request.messages for part in message.parts)


def resolve_files(request: Request, target: Target, call: CallContext, /) -> Plan[Resolved]:
    """Upload the files of a request that are not stored yet, and refer to all of them by their ids."""
    files = wires.get(target.wire).files
    if files is None or not target.capabilities.uploads or not has_files(request):
        return Resolved(request)
    notices: list[Notice] = []
    recalled: dict[str, str] = {}
    messages: list[Message] = []
    is_changed = False
    for message in request.messages:
        parts: list[Part] = []
        for part in message.parts:
            if not is_file(part):
                parts.append(part)
                continue
            media = cast("Media", part)
            id = yield from _store(media, files, target, call, notices, recalled)
            if id is None:
                parts.append(part)
                continue
            is_changed = True
            parts.append(files.refer(media, id))
            if (point := point_block(media.extra, target.wire)) is not None:
                parts.append(point)
        messages.append(replace(message, parts=tuple(parts)))
    if not is_changed:
        return Resolved(request, tuple(notices))
    return Resolved(files.complete(replace(request, messages=tuple(messages))), tuple(notices), recalled)


def attempt_with_files(request: Request, target: Target, call: CallContext, /) -> Plan[Completed]:
    """Make an attempt with the files of the request stored at its target, if there are any and it stores files.

    If the provider no longer knows one of them, it is uploaded again, and the request is sent again.
    """
    if not (target.capabilities.uploads and has_files(request)):
        return cached_attempt(request, target, call)
    return _attempt(request, target, call)


def _attempt(request: Request, target: Target, call: CallContext) -> Plan[Completed]:
    with annotate_errors(target):
        check_key(target)
    resolved = yield from resolve_files(request, target, call)
    try:
        return (
            yield from cached_attempt(resolved.request, target, replace(call, notices=call.notices + resolved.notices))
        )
    except ProviderError as error:
        gone = [key for id, key in resolved.recalled.items() if _names(error, id)]
        if not gone:
            raise
    for key in gone:
        yield Remember(key, None)
    resolved = yield from resolve_files(request, target, call)
    return (yield from cached_attempt(resolved.request, target, replace(call, notices=call.notices + resolved.notices)))


def _names(error: ProviderError, id: str) -> bool:
    """Whether an error is about a stored file: Google answers 403 if a file has expired."""
    return error.status in (400, 403, 404) and id.rpartition("/")[2] in error.message


def _store(
    part: Media,
    files: WireFiles,
    target: Target,
    call: CallContext,
    notices: list[Notice],
    recalled: dict[str, str],
) -> Plan[str | None]:
    """The id of a stored file; None if the bytes are to be sent."""
    http = files.start(part, target)
    if http is None:
        return None
    key = file_key(part, target)
    copy: RemoteCopy | None = yield Recall(key)
    if copy is not None:
        recalled[copy.id] = key
        return copy.id
    try:
        uploaded = yield from _upload(http, part, files, target, call)
    except _REFUSALS as error:
        why = f"{target.name}: the upload was refused, so the bytes are sent ({error.message})"
        notices.append(Notice(kind="info", what=f"file {file_name(part)}", why=why))
        return None
    yield Remember(key, RemoteCopy(uploaded.id, uploaded.seconds))
    return uploaded.id


def file_key(part: Media, target: Target, /) -> str:
    """The key of a file in the index: its content and type, and the account that it is stored for."""
    account = f"{target.provider}\0{target.base_url}\0{target.api_key or ''}\0{part.mime}"
    return f"file:{sha256(account.encode()).hexdigest()[:32]}:{sha256(part.data or b'').hexdigest()}"


def _upload(http: HttpRequest, part: Media, files: WireFiles, target: Target, call: CallContext) -> Plan[Uploaded]:
    for _ in range(MAX_STEPS):
        response = yield from send_extra_request(http, target, call)
        step = files.follow(response, part, target)
        if not isinstance(step, NextUpload):
            return step
        if step.wait:
            now: float = yield Now()
            if call.deadline is not None and now + step.wait >= call.deadline:
                break
            yield Sleep(step.wait)
        http = step.http
    raise TimedOut(f"{target.name}: the provider did not process the file {file_name(part)} in time")


def explain_files(request: Request, target: Target, /) -> tuple[Notice, ...]:
    """Notices for the files that would be uploaded."""
    files = wires.get(target.wire).files
    if files is None or not target.capabilities.uploads:
        return ()
    parts = [cast("Media", part) for message in request.messages for part in message.parts if is_file(part)]
    why = f"{target.name}: uploaded once when the call is made, and then used by its id; shown here with its bytes"
    names = [file_name(part) for part in parts if files.start(part, target) is not None]
    return tuple(Notice(kind="info", what=f"file {name}", why=why) for name in names)
