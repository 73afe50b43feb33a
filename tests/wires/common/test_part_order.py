"""The parts of a stream are written one after another."""

from dragoman.events import PartDelta, PartEnded, PartStarted
from dragoman.types import Text
from dragoman.wires.common.part_order import PartEvent, PartOrder


def write(event: PartEvent) -> bytes:
    match event:
        case PartStarted():
            return b"<%d" % event.index
        case PartEnded():
            return b"%d>" % event.index
        case _:
            return event.text.encode()


def test_a_later_part_waits_for_the_current_one() -> None:
    order = PartOrder(write)
    events: list[PartEvent] = [
        PartStarted(index=0, kind="text"),
        PartStarted(index=1, kind="text"),
        PartDelta(index=1, text="b"),
        PartDelta(index=0, text="a"),
        PartEnded(index=1, part=Text(text="b")),
        PartEnded(index=0, part=Text(text="a")),
    ]
    assert [order.feed(event) for event in events] == [b"<0", b"", b"", b"a", b"", b"0><1b1>"]
    assert order.cut(lambda: b"!") == b""


def test_what_waits_for_a_part_that_never_ends_is_written() -> None:
    order = PartOrder(write)
    order.feed(PartStarted(index=0, kind="tool_call"))
    order.feed(PartStarted(index=1, kind="text"))
    order.feed(PartEnded(index=1, part=Text(text="")))
    order.feed(PartStarted(index=2, kind="text"))
    assert order.cut(lambda: b"!") == b"!<11><2!"
    assert order.feed(PartStarted(index=3, kind="text")) == b"<3"
