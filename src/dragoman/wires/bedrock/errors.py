"""Errors of Bedrock: the name of the exception decides, wherever it stands."""

import re

import msgspec

from dragoman.errors import DragomanError, ProviderError
from dragoman.http import Head
from dragoman.types import JsonObject, is_object
from dragoman.wires.bedrock.schema import EXCEPTIONS, STATUSES, TOO_LONG
from dragoman.wires.common.errors import context_error_message, error_from_json
from dragoman.wires.common.json import DECODE_ERRORS


def decode_error(head: Head, body: bytes, /) -> ProviderError:
    """The exception for an error response; its header or its body has the name."""
    data = _decode(body)
    name = head.header("x-amzn-errortype") or data.get("__type") or data.get("code") or ""
    return error_from_json(_facts(data, str(name)), _with_status(head, str(name)))


def decode_exception(name: str, body: bytes, /) -> ProviderError:
    """The exception for an error inside a stream."""
    return error_from_json(_facts(_decode(body), name), _with_status(Head(status=500), name))


def _decode(body: bytes) -> JsonObject:
    try:
        data = msgspec.json.decode(body)
    except DECODE_ERRORS:
        data = None
    return data if is_object(data) else {"message": body.decode("utf-8", "replace").strip()}


def _facts(data: JsonObject, name: str) -> JsonObject:
    message = data.get("message") or data.get("Message") or data.get("originalMessage")
    return {**data, **({"message": message} if message else {}), **({"code": _plain(name)} if name else {})}


def _plain(name: str) -> str:
    """`aws.protocols#ThrottlingException:http://…` is ThrottlingException."""
    return re.sub(r"^.*#|:.*$", "", name)


def _with_status(head: Head, name: str) -> Head:
    status = STATUSES.get(_plain(name).lower(), head.status)
    return head if status == head.status else msgspec.structs.replace(head, status=status)


def exception_name(error: DragomanError, /) -> str:
    """The name of the exception for an error."""
    if error.http_status == 403:
        return "AccessDeniedException"
    return next(name for kind, name in EXCEPTIONS if isinstance(error, kind))


def encode_error(error: DragomanError, /) -> JsonObject:
    """The body of an error."""
    return {"message": context_error_message(error, TOO_LONG), "__type": exception_name(error)}
