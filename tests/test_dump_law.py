"""`dump` never writes what `load` refuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import (
    Audio,
    Choice,
    Document,
    DragomanError,
    Finish,
    Image,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    dump,
    load,
)

TEXTS = st.text(st.characters(), max_size=5)
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | TEXTS
    | st.binary(max_size=3)
    | st.just(object())
    | st.just(lambda: 1),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(TEXTS | st.integers(), inner, max_size=2)
        | st.tuples(inner)
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=4,
)
KINDS: tuple[type[Any], ...] = (
    Audio,
    Choice,
    Document,
    Finish,
    Image,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
GOOD: dict[str, Any] = {
    "text": "a",
    "data": b"x",
    "mime": "image/png",
    "role": "user",
    "id": "i",
    "name": "n",
    "wire": "openai_chat",
    "token": "t",
    "logprob": -1.0,
    "message": Message(role="assistant", parts="hi"),
    "finish": Finish(reason="stop"),
    "reason": "stop",
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_is_written_can_be_read(kind: type[Any], data: st.DataObject) -> None:
    required = {name: GOOD[name] for name in kind.__struct_fields__ if name in GOOD}
    if kind is Opaque:
        required["data"] = {}
    names = data.draw(st.lists(st.sampled_from(kind.__struct_fields__), max_size=3, unique=True))
    try:
        value = kind(**{**required, **{name: data.draw(ODD, label=name) for name in names}})
        written = dump(value)
    except DragomanError:
        return
    loaded = load(written, kind)
    assert load(dump(loaded), kind) == loaded
    if kind is Message:
        assert len(load(dump([value]))) == 1
