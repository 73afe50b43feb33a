"""For people who test: a provider that follows a script, a recorder and a replayer, and servers that misbehave.

    Scripted("Hello!")                 in process: a transport, and `.model()` and `.registry()` that use it
    Server(Stall(10), "Hello!")        the same on a real socket of 127.0.0.1
    Recorder() / Replayer("tape.json") what was asked and answered, in canonical words, and again

A line of a script is an answer (text, a call, calls, a Message, a Response), an error of `dragoman.errors` as the wire
says it, or a fault: Cut, Stall, Break, Silence, Drop, Linger, Garbage, Inside, Bent, Raw.
"""

from dragoman.testing.fake_provider import Scripted
from dragoman.testing.faulty_server import Server, refused_url
from dragoman.testing.recording import Recorded, Recorder, Replayer, ReplayMiss, Tape
from dragoman.testing.script import (
    Bent,
    Break,
    Cut,
    Drop,
    Garbage,
    Inside,
    Line,
    Linger,
    Raw,
    Silence,
    Stall,
    as_response,
    wire_of,
)

__all__ = [
    "Bent",
    "Break",
    "Cut",
    "Drop",
    "Garbage",
    "Inside",
    "Line",
    "Linger",
    "Raw",
    "Recorded",
    "Recorder",
    "ReplayMiss",
    "Replayer",
    "Scripted",
    "Server",
    "Silence",
    "Stall",
    "Tape",
    "as_response",
    "refused_url",
    "wire_of",
]
