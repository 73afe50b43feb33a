"""Refuses requests that a target cannot take, before they are encoded."""

from dragoman.errors import Unsupported
from dragoman.media import check_media
from dragoman.targets.target import Target
from dragoman.types import Request, Text


def check_encodable(request: Request, target: Target, /) -> None:
    """Raise Unsupported for anything in a request that the capabilities of the target forbid.

    A call makes media fit before it encodes the request. A caller who uses a wire alone has to do that, or gets an
    error here.
    """
    check_capabilities(request, target)
    for message in request.messages:
        for part in message.parts:
            if type(part) is not Text:
                check_media(request, target.capabilities)
                return


def check_capabilities(request: Request, target: Target, /) -> None:
    """Raise Unsupported if the target lacks tools, structured output or streaming and the request needs it.

    Other capabilities are not checked here: a forced tool choice, a schema with `schema_mode="auto"` and reasoning are
    replaced by the nearest thing that the target has, with a notice; media are checked when they are made to fit.
    """
    capabilities = target.capabilities
    if request.tools and not capabilities.tools:
        raise Unsupported("does not support tools")
    if request.schema is not None and not capabilities.structured and request.schema_mode == "native":
        raise Unsupported("does not support structured output")
    if request.stream and not capabilities.streaming:
        raise Unsupported("does not support streaming")
