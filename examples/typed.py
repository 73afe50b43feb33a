"""Typed output: a value, a stream of partial values, and the repair of a wrong answer.

It runs on the `demo` provider: no key, no network.
"""

import enum
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated

import dragoman
from dragoman.testing import Scripted


class Sky(enum.Enum):
    CLEAR = "clear"
    GREY = "grey"


@dataclass
class Report:
    """The weather at a place, on a day."""

    place: Annotated[str, "The name of a town"]
    day: date
    sky: Sky
    degrees: float
    remarks: list[str] = field(default_factory=list[str])


def main() -> None:
    model = dragoman.model("demo/any")

    print("--- a value")
    print(model.extract(Report, "How was the weather in Brest?"))

    print("\n--- partial values, streamed")
    with model.stream_extract(Report, "How was the weather in Brest?") as stream:
        for value in stream:
            print(value)

    print("\n--- other types")
    print(model.extract(dict[str, int], "How many boats has each port?"))
    print(model.generate("Is it going to rain?", output=bool).parsed)

    print("\n--- a wrong answer: the model gets the reasons and answers again")
    good = '{"place": "Brest", "day": "2026-11-17", "sky": "grey", "degrees": 11, "remarks": null}'
    script = Scripted('{"place": "Brest", "sky": "wet"}', good)
    print(script.model().extract(Report, "How was the weather in Brest?"))
    print(script.requests[1].messages[-1].text)


if __name__ == "__main__":
    main()
