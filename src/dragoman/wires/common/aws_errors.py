"""Errors of Amazon Bedrock, on every wire: the name of the exception decides, wherever it stands."""

import re

import msgspec

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestError,
    TimedOut,
)
from dragoman.http import Head, HttpResponse
from dragoman.types import JsonObject, is_object
from dragoman.wires.common.errors import context_error_message, decode_http_error, error_from_json, error_headers
from dragoman.wires.common.json import DECODE_ERRORS, encode_json

EXCEPTIONS: tuple[tuple[type[DragomanError], str], ...] = (
    (AuthFailed, "UnrecognizedClientException"),
    (Overloaded, "ServiceUnavailableException"),
    (RateLimited, "ThrottlingException"),
    (ModelNotFound, "ResourceNotFoundException"),
    (TimedOut, "ModelTimeoutException"),
    (RequestError, "ValidationException"),
    (BadRequest, "ValidationException"),
    (ContextTooLong, "ValidationException"),
    (Blocked, "ValidationException"),
    (DragomanError, "InternalServerException"),
)
STATUSES = {
    "accessdeniedexception": 403,
    "expiredtoken": 401,
    "expiredtokenexception": 401,
    "incompletesignatureexception": 401,
    "internalserverexception": 500,
    "invalidclienttokenid": 401,
    "invalidsignatureexception": 401,
    "missingauthenticationtokenexception": 401,
    "modelerrorexception": 500,
    "modelnotreadyexception": 503,
    "modelstreamerrorexception": 500,
    "modeltimeoutexception": 408,
    "requesttimetooskewed": 403,
    "resourcenotfoundexception": 404,
    "servicequotaexceededexception": 429,
    "serviceunavailableexception": 503,
    "throttlingexception": 429,
    "unrecognizedclientexception": 401,
    "validationexception": 400,
}
"""The HTTP status that an exception means, also inside a stream. AWS sends 403 for keys that are not valid."""
SKEWED = "RequestTimeTooSkewed"
_SKEW = r"(?i)^signature (expired|not yet current)"
"""The beginning of the message if the clock of the client is wrong, with the name InvalidSignatureException."""
_XML_CODE = rb"<Error>\s*<Code>(\w+)</Code>"
"""The name of an error of S3."""
TOO_LONG = "input is too long for requested model"
"""The phrase by which clients recognise a full context."""


def decode_error(head: Head, body: bytes, /) -> ProviderError:
    """The exception for an error response; its header or its body has the name."""
    data = _decode(body)
    name = head.header("x-amzn-errortype") or data.get("__type") or data.get("code") or ""
    return error_from_json(_facts(data, str(name)), _with_status(head, str(name), data))


def decode_hosted_error(head: Head, body: bytes, /) -> ProviderError:
    """The exception for an error response of a protocol that Bedrock may serve: a header tells whether it is AWS's.

    S3, which has the rows of batches, has no such header, but XML.
    """
    is_aws = head.header("x-amzn-errortype") or re.search(_XML_CODE, body)
    return decode_error(head, body) if is_aws else decode_http_error(head, body)


def decode_exception(name: str, body: bytes, /) -> ProviderError:
    """The exception for an error inside a stream."""
    data = _decode(body)
    return error_from_json(_facts(data, name), _with_status(Head(status=500), name, data))


def _decode(body: bytes) -> JsonObject:
    try:
        data = msgspec.json.decode(body)
    except DECODE_ERRORS:
        data = None
    if is_object(data):
        return data
    text = body.decode("utf-8", "replace").strip()
    if code := re.search(_XML_CODE, body):
        message = re.search(r"<Message>([^<]*)", text)
        return {"message": message[1] if message else text, "code": code[1].decode()}
    return {"message": text}


def _facts(data: JsonObject, name: str) -> JsonObject:
    message, original = data.get("message") or data.get("Message"), data.get("originalMessage")
    if isinstance(original, str) and original:
        # What the model itself said, which Bedrock passes on.
        message = original if not isinstance(message, str) or message in original else f"{message}: {original}"
    if isinstance(message, str) and (_plain(name) == SKEWED or re.search(_SKEW, message)):
        message = f"{message}; check the clock of this computer"
    return {**data, **({"message": message} if message else {}), **({"code": _plain(name)} if name else {})}


def _plain(name: str) -> str:
    """`aws.protocols#ThrottlingException:http://…` is ThrottlingException."""
    return re.sub(r"^.*#|:.*$", "", name)


def _with_status(head: Head, name: str, data: JsonObject) -> Head:
    status = STATUSES.get(_plain(name).lower(), head.status)
    original = data.get("originalStatusCode")
    if status >= 500 and isinstance(original, int) and 400 <= original <= 599:
        status = original  # the model's own answer, which Bedrock passes on as ModelErrorException
    return head if status == head.status else msgspec.structs.replace(head, status=status)


def exception_name(error: DragomanError, /) -> str:
    """The name of the exception for an error."""
    if error.http_status == 403:
        return "AccessDeniedException"
    return next(name for kind, name in EXCEPTIONS if isinstance(error, kind))


def encode_error(error: DragomanError, /) -> JsonObject:
    """The body of an error."""
    return {"message": context_error_message(error, TOO_LONG), "__type": exception_name(error)}


def encode_aws_error(error: DragomanError, /) -> HttpResponse:
    """The error response."""
    headers = {**error_headers(error), "x-amzn-errortype": exception_name(error)}
    return HttpResponse(status=error.http_status, headers=headers, body=encode_json(encode_error(error)))
