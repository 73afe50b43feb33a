"""Files for clients of a server: what OpenAI's and Anthropic's endpoints for files have in common."""

from collections.abc import Callable, Sequence
from urllib.parse import parse_qs

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.media.sniff import sniff
from dragoman.types import JsonObject
from dragoman.types.media_files import UNKNOWN_TYPE, guess_type
from dragoman.wires.common.multipart import FormField, base_name, decode_form
from dragoman.wires.common.request_body import missing_field
from dragoman.wires.common.server_endpoints import (
    FileContent,
    FileQuery,
    Route,
    ServerEndpoint,
    StoredFile,
    UploadedFile,
    json_response,
    path_parameter,
)

HOUR, DAY = 3600, 86400
_GENERIC_TYPES = frozenset({"", UNKNOWN_TYPE})


def file_endpoints(
    start: str,
    header: str | None,
    *,
    decode_upload: Callable[[dict[str, FormField]], UploadedFile],
    decode_list: Callable[[HttpRequest], object],
    encode_file: Callable[[StoredFile], JsonObject],
    encode_list: Callable[..., HttpResponse],
    encode_dropped: Callable[[StoredFile], JsonObject],
) -> tuple[ServerEndpoint, ...]:
    """The five endpoints of a dialect, below the path `start`."""
    all_files, one, content = (Route(method=method, path=start + path, header=header) for method, path in _ROUTES[:3])
    create, drop = (Route(method=method, path=start + path, header=header) for method, path in _ROUTES[3:])
    return (
        ServerEndpoint(
            create,
            lambda http: FileQuery("create", file=decode_upload(decode_form(http))),
            lambda _, file: json_response(encode_file(file)),
            is_json=False,
        ),
        ServerEndpoint(all_files, lambda http: FileQuery("list", options=decode_list(http)), encode_list),
        ServerEndpoint(
            one,
            lambda http: FileQuery("fetch", path_parameter(one, http)),
            lambda _, file: json_response(encode_file(file)),
        ),
        ServerEndpoint(
            content,
            lambda http: FileQuery("content", path_parameter(content, http)),
            lambda _, found: _encode_content(found),
        ),
        ServerEndpoint(
            drop,
            lambda http: FileQuery("drop", path_parameter(drop, http)),
            lambda _, file: json_response(encode_dropped(file)),
        ),
    )


_ROUTES = (("GET", ""), ("GET", "/{id}"), ("GET", "/{id}/content"), ("POST", ""), ("DELETE", "/{id}"))


def uploaded_file(
    fields: dict[str, FormField], /, *, purpose: str = "user_data", seconds: int | None = None
) -> UploadedFile:
    """The field `file` of a form.

    >>> fields = {"file": FormField(data=b"GIF89a", filename="a.bin")}
    >>> uploaded_file(fields).mime
    'image/gif'
    """
    field = fields.get("file")
    if field is None:
        raise missing_field("file")
    if not field.data:
        raise InvalidRequest("file must have content, got an empty one", param="file")
    name = base_name(field.filename) or "unnamed"
    mime = (field.mime or "").partition(";")[0].strip().lower()
    # Clients often send no type, or the type of any bytes.
    mime = (guess_type(name) if mime in _GENERIC_TYPES else mime) or UNKNOWN_TYPE
    return UploadedFile(data=field.data, name=name, mime=sniff(field.data) or mime, purpose=purpose, seconds=seconds)


def whole_seconds(fields: dict[str, FormField], name: str, /, *, days: int) -> int | None:
    """A number of seconds from an hour to some days; None if the field is absent."""
    field = fields.get(name)
    if field is None:
        return None
    text = field.text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and HOUR <= int(text) <= days * DAY):
        raise InvalidRequest(
            f"{name} must be a number of seconds from {HOUR} to {days * DAY}, got {text[:20]!r}", param=name
        )
    return int(text)


def query_members(http: HttpRequest, /) -> dict[str, list[str]]:
    """The members of the query of a request."""
    return parse_qs(http.path.partition("?")[2])


def read_limit(query: dict[str, list[str]], default: int, most: int, /) -> int:
    """The member `limit` of a query."""
    text = query.get("limit", [str(default)])[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and 1 <= int(text) <= most):
        raise InvalidRequest(f"limit must be a number from 1 to {most}, got {text[:20]!r}", param="limit")
    return int(text)


def files_after(files: Sequence[StoredFile], id: str, param: str, /) -> Sequence[StoredFile]:
    """The files after one of them; all if there is no id."""
    if not id:
        return files
    ids = [file.id for file in files]
    if id not in ids:
        raise InvalidRequest(f"{param} must be the id of a file in the list, got {id[:200]!r}", param=param)
    return files[ids.index(id) + 1 :]


def _encode_content(content: FileContent) -> HttpResponse:
    # Never the type that the client gave: a browser must not run a page that somebody uploaded.
    headers = {
        "content-type": UNKNOWN_TYPE,
        "content-disposition": "attachment",
        "x-content-type-options": "nosniff",
    }
    return HttpResponse(headers=headers, body=content.data)
