"""Skills: instructions for an agent together with their tools. `clock` and `calc` are included."""

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from msgspec.structs import force_setattr

from dragoman.tools.decorator import ToolLike, as_tool_list, gather, tool
from dragoman.tools.skills.arithmetic import evaluate
from dragoman.types.checks import naming
from dragoman.types.fields import check_struct
from dragoman.types.structs import CheckedStruct

__all__ = ["Skill", "calc", "clock"]


class Skill(CheckedStruct, frozen=True, kw_only=True):
    """Instructions that are appended to the system prompt, and tools that are added to the other tools."""

    name: str
    instructions: str = ""
    tools: tuple[ToolLike, ...] = ()

    def __post_init__(self) -> None:
        check_struct(self, without="tools")
        with naming("tools"):
            force_setattr(self, "tools", tuple(as_tool_list(self.tools)))
            gather(self.tools)


def clock(now: Callable[[], datetime] | None = None) -> Skill:
    """Return a skill that tells the time. `now` is the clock; it returns a datetime with a time zone.

    >>> skill = clock(lambda: datetime(2026, 11, 17, 9, 30, tzinfo=UTC))
    >>> skill.tools[0](zone="Europe/Paris")
    '2026-11-17T10:30:00+01:00 (Tuesday)'
    """

    @tool
    def current_time(zone: str = "UTC") -> str:
        """The date and time now.

        Args:
            zone: A time zone by its IANA name, such as Europe/Paris.
        """
        try:
            tz = UTC if zone == "UTC" else ZoneInfo(zone)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"no time zone {zone!r}; use an IANA name such as Europe/Paris") from error
        moment = (datetime.now(UTC) if now is None else now()).astimezone(tz)
        return f"{moment.isoformat(timespec='seconds')} ({moment:%A})"

    instructions = "You do not know the time: call current_time before you write about now, today or how long ago."
    return Skill(name="clock", instructions=instructions, tools=(current_time,))


def calc() -> Skill:
    """Return a skill that calculates with decimal numbers.

    >>> calc().tools[0]("0.1 + 0.2")
    '0.3'
    """

    @tool
    def calculate(expression: str) -> str:
        """The value of an arithmetic expression.

        Args:
            expression: Numbers, + - * / // % ** and parentheses, pi, e, and the functions abs, ceil, floor, max, min,
                round and sqrt.
        """
        return evaluate(expression)

    instructions = "You are bad at arithmetic: call calculate for every calculation, even a small one, and trust it."
    return Skill(name="calc", instructions=instructions, tools=(calculate,))
