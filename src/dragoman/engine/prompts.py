"""A prompt in, as users like to write one, its messages out."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from dragoman.errors import InvalidRequest
from dragoman.types import Message, Part, Text, user

Prompt: TypeAlias = str | Message | Part | Iterable[Message | Part | str]


def as_messages(prompt: Prompt, /) -> tuple[Message, ...]:
    """The messages of a prompt: a string, a message, a part, or a list of these.

    >>> as_messages(["What is this?", Text(text="Be brief.")])[0].text
    'What is this?Be brief.'
    """
    if isinstance(prompt, str):
        return (Message(role="user", parts=(Text(text=prompt),)),)
    if isinstance(prompt, Message):
        return (prompt,)
    if isinstance(prompt, Part):
        return (user(prompt),)
    given = _listed(prompt)
    messages = [item for item in given if isinstance(item, Message)]
    parts = [item for item in given if isinstance(item, Part | str)]
    if messages and parts:
        raise InvalidRequest("a prompt is messages, or parts and strings, but no mixture of both")
    if not given:
        raise InvalidRequest("a prompt without any message; it is at least a string, a message or a part")
    return tuple(messages) or (user(*parts),)


def is_several(given: object, /) -> bool:
    """Whether it is a list or its like: a mapping and bytes can be walked through, too, and are none.

    >>> is_several(["a"]), is_several({"a": 1})
    (True, False)
    """
    return hasattr(given, "__iter__") and not isinstance(given, str | bytes | bytearray | Mapping)


def _listed(prompt: Any) -> list[Any]:
    if not is_several(prompt):
        raise _no_prompt(prompt)
    given = list(prompt)
    for item in given:
        if not isinstance(item, Message | Part | str):
            raise _no_prompt(item)
    return given


def _no_prompt(given: object) -> InvalidRequest:
    """What is wrong with it, and how to write it; what it says is not told: it may be long, and private."""
    why = f"a prompt is a string, a message, a part, or a list of these, and no {type(given).__name__}"
    if not isinstance(given, Mapping):
        return InvalidRequest(why)
    return InvalidRequest(
        f'{why}; write {{"role": "user", "content": "hi"}} as dragoman.user("hi"), and so with dragoman.assistant and '
        "dragoman.system; dragoman.load reads what dragoman.dump wrote"
    )
