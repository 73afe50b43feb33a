"""Requests that continue a plain text (`raw`) or fill a gap in one (`suffix`).

Each user message is one prompt. A target that cannot continue a text gets the prompt as a chat message, with a notice.
It gets no suffix and no tokens: their meaning would be lost, so these are refused.
"""

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Message, Opaque, Request, Text
from dragoman.types.requests import MAX_CHOICES
from dragoman.wires.common.notices import NoticeCollector

TOKENS = "tokens"
"""The member of an Opaque part with a prompt that the client has already turned into tokens."""


def read_prompts(request: Request, /) -> list[str | list[int]]:
    """The prompts of a request: texts, or lists of tokens.

    >>> from dragoman.types import user
    >>> read_prompts(Request(messages=(user("Once upon"),), raw=True))
    ['Once upon']
    """
    name = "raw" if request.suffix is None else "suffix"
    if request.system or request.tools or request.schema is not None:
        why = f"{name} must be left out with system, tools or a schema; put all text into the prompt"
        raise InvalidRequest(why, param=name)
    if not request.messages or any(message.role != "user" for message in request.messages):
        raise InvalidRequest(f"messages must be user messages with {name}; put all text into the prompt", param=name)
    check_answers(len(request.messages) * (request.n or 1))
    return [_prompt(message) for message in request.messages]


def check_answers(count: int, /) -> None:
    """Raise InvalidRequest if the prompts of a request ask for too many answers."""
    if count > MAX_CHOICES:
        raise InvalidRequest(
            f"prompt must ask for at most {MAX_CHOICES} answers; send several requests", param="prompt"
        )


def _prompt(message: Message) -> str | list[int]:
    match message.parts:
        case (Opaque(data={"tokens": [*tokens]}),):
            return tokens
        case parts if all(isinstance(part, Text) for part in parts):
            return message.text
        case _:
            raise Unsupported("takes only text as a prompt to continue", param="prompt")


def encode_as_chat(
    request: Request, target: Target, encode: Callable[[Request, Target], HttpRequest], /
) -> HttpRequest:
    """The request as a chat of one message, for a target that does not continue texts."""
    if request.suffix is not None:
        raise Unsupported("cannot fill a gap before a suffix", param="suffix")
    prompts = read_prompts(request)
    if len(prompts) > 1:
        raise Unsupported("takes one prompt in a request; send one request for each", param="prompt")
    if not isinstance(prompts[0], str):
        raise Unsupported("takes text as a prompt, not tokens", param="prompt")
    notices = NoticeCollector(target.wire, strict=request.strict)
    notices.add("changed", "raw", "the target does not continue texts; the prompt is sent as a chat message")
    http = encode(replace(request, raw=None), target)
    return replace(http, notices=(*notices.notices, *http.notices))
