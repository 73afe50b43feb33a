"""Calls every public function, constructor and method with wrong values, one parameter at a time, by its signature.

The public modules are searched for what there is to call; nothing is listed by hand except what is left out, with its
reason. A right value of a parameter is known by its name. A call with a wrong value either succeeds, because some odd
values are fine, or it raises an error of our tree: on one line, with the parameter in `param`, and without a secret.
"""

import asyncio
import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple, cast, get_args

import msgspec
from PIL import Image as Pillow

import dragoman
from dragoman import (
    Agent,
    Capabilities,
    DragomanError,
    Finish,
    InvalidRequest,
    Provider,
    Quirks,
    Registry,
    Request,
    Response,
    SetupError,
    Target,
    Tool,
    Toolbox,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from dragoman.agents.agent import AgentOptions
from dragoman.engine.call_options import CallOptions
from dragoman.http import Head, HttpRequest
from dragoman.targets.pools import DeploymentPool
from dragoman.testing import FaultyServer, OllamaSimulator, Simulator, Tape
from dragoman.types.structs import Value

MODULES = ("dragoman", "dragoman.codec", "dragoman.errors", "dragoman.events", "dragoman.http", "dragoman.media",
           "dragoman.testing", "dragoman.wires")  # fmt: skip
"""The public modules."""
SECRET = "sk-proj-0123456789abcdef"
SECONDS = 20
"""A call that takes longer hangs."""


# Wrong values ---------------------------------------------------------------------------------------------------------


class OwnError(Exception):
    """Raised by a function of the caller."""


class ReprCalled(Exception):
    """Raised by the repr of an object of the caller: the library must not call it."""


class Hostile:
    """An object that cannot be shown, compared or hashed."""

    def __repr__(self) -> str:
        raise ReprCalled

    __str__ = __repr__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ReprCalled


class Weird:
    """An object of the caller's own."""


def own_function(*_: Any, **__: Any) -> Any:
    raise OwnError


def two_numbers() -> Iterator[int]:
    yield 1
    yield 2


def endless() -> Iterator[int]:
    """Numbers without end; an error after so many that nobody can have wanted them."""
    yield from range(300_000)
    raise EndlessRead


class EndlessRead(Exception):
    """Raised by an iterator that was read without end."""


def cyclic_list() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def cyclic_dict() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "1.5": lambda: 1.5,
    "huge": lambda: 10**400,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "empty text": lambda: "",
    "text": lambda: "no such thing",
    "secret": lambda: SECRET,
    "surrogate": lambda: "\ud800",
    "secret surrogate": lambda: f"{SECRET}\ud800",
    "nul": lambda: "a\x00b",
    "line break": lambda: "a\nb",
    "bytes": lambda: b"\xff",
    "empty list": list,
    "list": lambda: [1, None],
    "nan in a list": lambda: [float("nan")],
    "surrogate in a list": lambda: ["\ud800"],
    "hostile in a list": lambda: [Hostile()],
    "nested": lambda: [["a"], {"b": 1}],
    "cyclic list": cyclic_list,
    "dict": lambda: {"a": 1},
    "dict of text": lambda: {"a": "x"},
    "surrogate in a dict": lambda: {"a": "\ud800"},
    "surrogate key": lambda: {"\ud800": "a"},
    "hostile in a dict": lambda: {"a": Hostile()},
    "nan in a dict": lambda: {"a": float("nan")},
    "cyclic dict": cyclic_dict,
    "int keys": lambda: {1: 2},
    "typo in a message": lambda: [{"role": "user", "contnet": "hi"}],
    "typo in a block": lambda: [{"role": "user", "content": [{"type": "txt", "text": "hi"}]}],
    "object": Weird,
    "hostile": Hostile,
    "class": lambda: Weird,
    "function": lambda: own_function,
    "generator": two_numbers,
    "endless": endless,
    "message": lambda: user("hi"),
    "tool": lambda: Tool(name="t"),
    "exception": lambda: ValueError("x"),
    "complex": lambda: 1j,
    "set": lambda: {1},
    "empty picture": lambda: Pillow.new("RGB", (0, 0)),
}
FEW = ("True", "nan", "surrogate", "hostile", "list", "dict")
"""The values for the options of functions that pass them on to others, which are tried with all values."""


# Right values ---------------------------------------------------------------------------------------------------------


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def nothing(*_: object) -> None:
    """A resolver that knows no name, and an observer."""


MODEL = "demo/any"
TARGET = Target(provider="demo", model="any", wire="openai_chat", base_url="demo://demo")
RESPONSE = Response(message=assistant("hi"), finish=Finish(reason="stop"))
HTTP = HttpRequest(method="POST", path="/v1/chat/completions", body=b'{"model":"m","messages":[]}')
RIGHT: dict[str, Any] = {
    "model": MODEL,
    "spec": MODEL,
    "prompt": "hi",
    "output_type": int,
    "texts": "hi",
    "text": "aGk=",
    "mime": "image/png",
    "data": b"[]",
    "role": "user",
    "id": "call_1",
    "name": "tide",
    "wire": "openai_chat",
    "value": user("hi"),
    "url": "data:image/gif;base64,R0lGODlh",
    "type": int,
    "messages": [user("hi")],
    "tools": [],
    "reason": "stop",
    "message": assistant("hi"),
    "finish": Finish(reason="stop"),
    "scheme": "mine",
    "stores": ("vs_1",),
    "tool": "web_search",
    "provider": "openai",
    "resolver": nothing,
    "observer": nothing,
    "env": {},
    "config": {},
    "tables": {},
    "events": [],
    "response": RESPONSE,
    "function": double,
    "description": "d",
    "token": "a",
    "logprob": -1.0,
    "output": None,
    "hint": int,
    "hooks": dragoman.Hooks(),
    "call": ToolCall(id="call_1", name="double", arguments={"number": 1}),
    "result": ToolResult(id="call_1", content="hi"),
    "results": ToolResult(id="call_1", content="hi"),
    "kind": "info",
    "what": "seed",
    "why": "not supported",
    "usd": 0.5,
    "source": "a list",
    "date": "2026-11-09",
    "target": MODEL,
    "outcome": "served",
    "vectors": ((0.5,),),
    "score": 0.5,
    "query": "ships",
    "documents": ["a", "b"],
    "image": Pillow.new("RGB", (2, 2)),
    "server": "python -m nothing",
    "method": "POST",
    "path": "/v1/chat/completions",
    "body": {"message": {"content": "hi"}, "done": True},
    "status": 200,
    "base_url": "http://127.0.0.1:1",
    "requests": [],
    "retry": True,
    "fail_over": True,
    "count_failure": True,
    "http": HTTP,
    "head": Head(status=200),
    "size": 3,
    "error": DragomanError("no"),
    "defect": "missing_index",
    "answer": "hi",
    "lines": "hi",
    "parts": "hi",
    "count": 3,
    "policy": None,
    "request": Request(messages=(user("hi"),)),
    "index": 0,
    "part": dragoman.Text(text="hi"),
    "previous": "a/b",
    "now": 0.0,
    "number": 1,
    "tape": Tape(),
    "simulator": OllamaSimulator(),
    "capabilities": Capabilities(),
    "rows": ["hi"],
}
"""By parameter: a right value."""
RIGHT_FOR: dict[str, dict[str, Any]] = {
    "Ranking": {"documents": (dragoman.RankedDocument(index=0, score=0.5),)},
    "Image": {"url": "https://example.org/a.png"},
    "Document.from_url": {"url": "https://example.org/a.pdf"},
    "Opaque": {"data": {}},
    "McpServer": {"url": "https://example.org/mcp"},
    "Token": {"value": "k"},
    "messages_from": {"wire": "openai_chat"},
    "codec.decode_tool_calls": {"wire": "ollama"},
    "http.decode_duration": {"text": "6m0s"},
    "Agent().as_tool": {"name": "t"},
    "Registry().target": {"name": MODEL},
    "Registry().provider": {"name": "groq"},
    "Registry().alias": {"name": "fast"},
    "Registry().set_capabilities": {"name": "groq"},
    "Restarted": {"target": "a/b"},
    "Call": {"target": "a/b"},
    "media.measure": {"data": b"GIF89a"},
    "media.check_readable": {"part": dragoman.Audio(data=b"a", mime="audio/wav")},
    "wires.get": {"name": "ollama"},
    "Registry().add_provider": {"provider": None},
    "testing.Recorder().save": {"path": os.devnull},
    "Audio.from_path": {"path": os.devnull},
    "Toolbox.from_mcp": {"server": [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]},
}
"""By case: right values that differ from those of the same name."""
for _method in ("from_path",):
    for _kind in ("Image", "Document", "File"):
        RIGHT_FOR[f"{_kind}.{_method}"] = {"path": __file__}


# What is left out -----------------------------------------------------------------------------------------------------

_MADE_BY_US = "only the library makes it; users read it"
_STREAM = "a model or an agent starts it"
_PER_EVENT = "decoders make many of them for each answer, and a check would take time; dump and fold refuse"
_SOCKET = "opens a socket or a file, and takes nothing from the user"
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("AgentStream", "AsyncAgentStream", "AsyncStream", "AsyncTypedStream", "Stream"), _STREAM),
    **dict.fromkeys(("TypedStream", "Model"), _STREAM),
    **dict.fromkeys(("CooldownStarted", "Explanation", "Finding", "Findings", "HookFailed", "Parsed"), _MADE_BY_US),
    **dict.fromkeys(("Result", "Step", "StepFinished", "StepStarted", "TargetHealth", "Context"), _MADE_BY_US),
    **dict.fromkeys(("TextDelta", "ThinkingDelta", "ToolCallDelta", "ToolFinished", "ToolStarted"), _MADE_BY_US),
    **dict.fromkeys(("CallDelta", "PartDelta", "PartEnded", "PartStarted", "Started", "Finished"), _PER_EVENT),
    **dict.fromkeys(("Ping", "Restarted", "Assembler"), _PER_EVENT),
    **dict.fromkeys(("testing.Loss", "testing.Refusal", "testing.RecordedExchange", "testing.Tape"), _MADE_BY_US),
    **dict.fromkeys(("testing.Rule", "testing.Violation", "testing.Simulator"), "for subclasses, in Python's own way"),
    "instrument": "tests/io/test_telemetry.py: it needs an extra",
    "default_registry": "takes nothing",
    "Health": "chains call it for each attempt; Registry checks its policy",
    "OutputType": "schema_of and extract call it",
    **dict.fromkeys(
        ("media.MediaCache", "media.FittedRequest", "media.RequestMedia", "media.ImageHeader"), _MADE_BY_US
    ),
    "testing.refused_url": "takes nothing",
    "events.check_open": "the Assembler calls it",
    "errors.explain_validation": "takes an error of msgspec",
    "HealthPolicy().cooldown": "chains call it for each failure",
    "wires.Wire": "for authors of wires, in Python's own way",
    "Registry().close": _SOCKET,
    "Toolbox().close": _SOCKET,
    "Toolbox().aclose": _SOCKET,
    "Model().plan": "the engine's own values",
    "Model().driver": "a property",
    "Registry().driver": "a property",
}
"""By case or class: why it is not tried."""
_PER_REQUEST = "calls come here for each request, and a wrapper takes time"
_FOR_AUTHORS = "for authors of wires, in Python's own way"
PYTHONS_NAMES: dict[str, str] = {
    **dict.fromkeys(("Registry().connection", "Registry().provider", "Registry().target"), _PER_REQUEST),
    **dict.fromkeys(("Registry().targets", "Provider().target", "DeploymentPool().spec"), _PER_REQUEST),
    **dict.fromkeys(("Call", "fold", "to_events"), _PER_REQUEST),
    **dict.fromkeys(("errors", "http", "media", "wires"), _FOR_AUTHORS),
    **dict.fromkeys(("testing.as_response", "testing.wire_of", "testing.ReplayMiss"), _FOR_AUTHORS),
    **dict.fromkeys(
        (f"testing.{kind}().add" for kind in ("FaultyServer", "Scripted", "SimulatorServer")), _FOR_AUTHORS
    ),
    **dict.fromkeys(("TokenCount", "ToolChoice"), "a type of Python's own"),
    "Toolbox().aexecute": "a wrapper of an async function looks like a blocking one",
    "DragomanError().annotate": "takes any name",
}
"""By case or module: why a wrong name of a parameter is Python's TypeError. The constructors of errors are such, too."""
TRANSPORT_METHODS = frozenset({"answer", "send", "asend", "open", "aopen", "wait"})
"""Methods of `dragoman.testing` that the driver calls, and no user."""
SIMULATOR_METHODS = frozenset({"model", "registry", "serve"})
"""The methods of a simulator that users call; subclasses define the others."""
FREE_JSON = frozenset({"extra", "data", "schema", "parameters", "rate_limits"})
"""Parameters that hold any JSON and are not searched when a value is made; `dump` refuses what JSON cannot express."""


# Cases ----------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One function, and how to call it."""

    name: str
    function: Callable[[Mapping[str, Any]], Any]
    right: Mapping[str, Any]
    """Right values of the required parameters."""
    parameters: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Parameters behind `**options`."""


def cases() -> Iterator[Case]:
    """Everything public that can be called."""
    for name, value in public():
        if name in LEFT_OUT:
            continue
        if inspect.isclass(value):
            yield case(name, value)
            if not issubclass(value, DragomanError) or value is DragomanError:  # the others have the same methods
                yield from _methods(name, value)
        elif inspect.isroutine(value):
            yield case(name, value)


def public() -> Iterator[tuple[str, Any]]:
    """The names of the public modules and their values, each value once."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        prefix = "" if module is dragoman else f"{module_name.rpartition('.')[2]}."
        for name in _names(module):
            value = getattr(module, name)
            if callable(value) and id(value) not in seen and not get_args(value):
                seen.add(id(value))
                yield f"{prefix}{name}", value


def _names(module: ModuleType) -> list[str]:
    if (names := getattr(module, "__all__", None)) is not None:
        return sorted(names)
    own = f"{module.__name__}."
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and f"{getattr(value, '__module__', '')}.".startswith(own)
    ]


def _methods(name: str, kind: Any) -> Iterator[Case]:
    for method, value in inspect.getmembers(kind):
        if method.startswith("_") or method in dir(msgspec.Struct) or isinstance(value, property):
            continue
        if inspect.ismethod(value):
            full = f"{name}.{method}"
            if full not in LEFT_OUT:
                yield case(full, value)
        elif inspect.isfunction(value):
            full = f"{name}().{method}"
            is_hook = issubclass(kind, Simulator) and method not in SIMULATOR_METHODS
            is_of_driver = name.startswith("testing.") and method in TRANSPORT_METHODS
            is_left_out = full in LEFT_OUT or is_hook or is_of_driver
            if not is_left_out and _parameters(value):
                yield case(full, _bound(name, kind, method), value)


OBJECTS: dict[str, Callable[[], Any]] = {
    "Registry": lambda: Registry(env={}),
    "Agent": lambda: Agent(Registry(env={}).model(MODEL)),
    "Toolbox": lambda: Toolbox(dragoman.tool(double)),
    "Provider": lambda: Provider(name="box", wire="ollama", base_url="http://box"),
}
"""How to make the object of a method, if right values of its required parameters are not enough."""


def _bound(name: str, kind: type, method: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        make = OBJECTS.get(name)
        if make is None:
            own = case(name, kind)
            made = own.function(own.right)
        else:
            made = make()
        try:
            return getattr(made, method)(*args, **kwargs)
        finally:
            close(made)

    return call


FIELDS = {
    "Registry().add_provider": (*Provider.__struct_fields__, "like"),
    "Registry().set_capabilities": (*Capabilities.__struct_fields__, *Quirks.__struct_fields__),
    "Registry().add_pool": tuple(
        name for name in DeploymentPool.__struct_fields__ if name not in ("name", "providers", "fallbacks")
    ),
}
"""By case: the names that its `**fields` take."""
RECORD = {"name": "box", "wire": "ollama", "base_url": "http://box"}
RECORDS: dict[str, dict[str, Any]] = {
    "Registry().add_provider": RECORD,
    "Registry().add_pool": {"name": "box", "targets": ["groq/x"]},
}
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
_OPTIONS: dict[str, type] = {"CallOptions": CallOptions, "AgentOptions": AgentOptions}


def case(name: str, function: Callable[..., Any], described: Any = None) -> Case:
    """The case of one function."""
    parameters = _parameters(described or function)
    is_error = inspect.isclass(function) and issubclass(function, BaseException)
    own = {"message": "no"} if is_error else RIGHT_FOR.get(name, {})
    right = {
        parameter.name: own[parameter.name] if parameter.name in own else RIGHT[parameter.name]
        for parameter in parameters
        if parameter.name in own or (parameter.default is parameter.empty and parameter.kind not in _VARIADIC)
    }
    options = next(
        (tuple(kind.__annotations__) for p in parameters for key, kind in _OPTIONS.items() if key in str(p.annotation)),
        (),
    )
    options = FIELDS.get(name, options)
    names = tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD)

    def call(arguments: Mapping[str, Any]) -> Any:
        named = dict(arguments)
        first = [named.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in named]
        rest = [named.pop(p.name) for p in parameters if p.kind is p.VAR_POSITIONAL and p.name in named]
        return function(*first, *rest, **named)

    return Case(name, call, {**right, **RECORDS.get(name, {})}, names, options)


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except ValueError:  # a type of Python itself
        return []
    return [parameter for parameter in found if parameter.name not in ("self", "cls")]


ALL_OPTIONS = frozenset({*FIELDS, "generate", "Registry().model", "Agent", "Agent().run"})
"""Cases whose options are tried with all values."""


def trials(tried: Case) -> Iterator[tuple[str, str, Any]]:
    """Parameters, and wrong values with their names."""
    for parameter in tried.parameters:
        for label, make in WRONG.items():
            yield parameter, label, make()
    for option in tried.options:
        for label in WRONG if tried.name in ALL_OPTIONS else FEW:
            yield option, label, WRONG[label]()


# Outcomes -------------------------------------------------------------------------------------------------------------

OTHER_NAMES = {
    "model": {"spec"},
    "spec": {"model"},
    "url": {"data"},  # an Image has one of them
    "type": {"data"},  # the data may be wrong for the type, or the type for the data
}
"""Other names under which an error may name a parameter."""
LISTS_OF_PROBLEMS = frozenset({"Registry().load_config", "Registry().load_tables"})
"""Functions whose errors list all problems of a file, a line each."""


def outcome(tried: Case, parameter: str, value: Any) -> str | None:
    """What is wrong with the call, or None; within `time_limits`."""
    try:
        with _limit(SECONDS):
            return _problem_of_value(call(tried, {parameter: value}), parameter)
    except OwnError:
        return None
    except DragomanError as error:
        return None if _is_own(error) else _problem_of_error(error, tried, parameter)
    except Exception as error:  # noqa: BLE001 - this is what the test looks for
        return f"{type(error).__name__}: {_text(error)}"


def call(tried: Case, arguments: Mapping[str, Any]) -> Any:
    """The result of a call with right values, but for these; a stream is read to its end."""
    result = tried.function({**tried.right, **arguments})
    if inspect.iscoroutine(result):
        result = asyncio.run(_await(result))
    _consume(result)
    return result


def _problem_of_error(error: DragomanError, tried: Case, parameter: str) -> str | None:
    text, shown = str(error), f"{type(error).__name__}: {str(error)!r}"
    if SECRET in text or "0123456789" in text:
        return f"shows a secret: {shown}"
    if not _names_parameter(error.param, parameter):
        return f"param is {error.param!r}: {shown}"
    if isinstance(error, dragoman.WireError):
        return None  # the body of a provider is wrong in the words of its wire
    if "\n" in text and tried.name not in LISTS_OF_PROBLEMS:
        return f"has several lines: {shown}"
    if not any(word in text for word in ("must ", "unknown ", "not an option", "has no ", "cannot be read")):
        return f"does not say what to write: {shown}"
    if not isinstance(error, InvalidRequest | SetupError | dragoman.InvalidTool):
        return f"is of another kind: {shown}"
    return None


def _names_parameter(param: str | None, parameter: str) -> bool:
    names = {parameter, *OTHER_NAMES.get(parameter, ())}
    return param is not None and (param in names or any(param.startswith((f"{name}.", f"{name}[")) for name in names))


def _is_own(error: BaseException | None) -> bool:
    """Whether a function of the caller raised it."""
    while error is not None:
        text = _text(error)
        if isinstance(error, OwnError) or "OwnError" in text or "no key from a function" in text:
            return True
        error = error.__cause__
    return False


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except ReprCalled:
        return "(it cannot be shown)"


def _is_plain_tuple(value: Any) -> bool:
    return type(value) is tuple


def _problem_of_value(result: Any, parameter: str) -> str | None:
    """Whether an accepted value can be written and read again."""
    values: list[Any] = list(result) if _is_plain_tuple(result) else [result]
    for value in values:
        if isinstance(value, Value) and isinstance(value, msgspec.Struct):
            try:
                data = dragoman.dump(value)
                dragoman.load(data, type(value))
            except DragomanError as error:
                return None if parameter in FREE_JSON else f"is accepted, but cannot be written: {error}"
    return None


@contextmanager
def time_limits() -> Generator[None]:
    """In this block, a call that hangs raises TimeoutError, also from a loop that never ends."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    old = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, old)


@contextmanager
def _limit(seconds: float) -> Generator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


async def _await(result: Any) -> Any:
    return await result


def close(made: object) -> None:
    """Close the socket of a server."""
    if isinstance(made, FaultyServer):
        with made:
            pass


def _consume(result: Any) -> None:
    close(result)
    if isinstance(result, dragoman.Stream | dragoman.TypedStream | dragoman.AgentStream):
        for _ in cast("Iterable[Any]", result):
            pass
    elif isinstance(result, dragoman.AsyncStream | dragoman.AsyncTypedStream | dragoman.AsyncAgentStream):
        asyncio.run(_aconsume(result))


async def _aconsume(result: Any) -> None:
    async for _ in result:
        pass
