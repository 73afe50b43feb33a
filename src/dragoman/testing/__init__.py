"""Test your own code: scripted and simulated providers, a recorder and a replayer, and a server that misbehaves.

    Scripted("Hello!")                      in process: a transport with `.model()` and `.registry()`
    FaultyServer(StallAfter(10), "Hello!")  the same on a real socket of 127.0.0.1
    Recorder() / Replayer("tape.json")      save real exchanges to a file, and answer from that file
    ClaudeSimulator(), GptSimulator(), ...  providers that refuse what the real ones refuse

A line of a script is one of these:

- an answer: a text, a tool call, a tuple of tool calls, a Message, or a Response
- an answer that is streamed word by word: Paced
- an error of `dragoman.errors`, which is sent as the wire writes it
- a fault: CloseAfter, CloseAtOnce, StallAfter, ResetAfter, NoResponse, KeepOpen, InvalidBody, ErrorInside200,
  DefectiveAnswer, RawResponse

`assert_prefix_stable(requests)` checks that each request of a conversation begins with the bytes of the one before.
"""

from dragoman.testing.fake_provider import Scripted
from dragoman.testing.faulty_server import FaultyServer, refused_url
from dragoman.testing.prefix import assert_prefix_stable
from dragoman.testing.recording import RecordedExchange, Recorder, Replayer, ReplayMiss, Tape
from dragoman.testing.script import (
    CloseAfter,
    CloseAtOnce,
    DefectiveAnswer,
    ErrorInside200,
    InvalidBody,
    KeepOpen,
    NoResponse,
    Paced,
    RawResponse,
    ResetAfter,
    ScriptLine,
    StallAfter,
    as_response,
    wire_of,
)
from dragoman.testing.simulators import (
    ClaudeSimulator,
    DeepSeekSimulator,
    GeminiSimulator,
    GptSimulator,
    KimiSimulator,
    Loss,
    OllamaSimulator,
    Refusal,
    Rule,
    Simulator,
    SimulatorServer,
    Violation,
)

__all__ = [
    "ClaudeSimulator",
    "CloseAfter",
    "CloseAtOnce",
    "DeepSeekSimulator",
    "DefectiveAnswer",
    "ErrorInside200",
    "FaultyServer",
    "GeminiSimulator",
    "GptSimulator",
    "InvalidBody",
    "KeepOpen",
    "KimiSimulator",
    "Loss",
    "NoResponse",
    "OllamaSimulator",
    "Paced",
    "Violation",
    "RawResponse",
    "RecordedExchange",
    "Recorder",
    "Refusal",
    "ReplayMiss",
    "Replayer",
    "ResetAfter",
    "Rule",
    "ScriptLine",
    "Scripted",
    "Simulator",
    "SimulatorServer",
    "StallAfter",
    "Tape",
    "as_response",
    "assert_prefix_stable",
    "refused_url",
    "wire_of",
]
