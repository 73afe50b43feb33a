"""What all provider simulators share: a table of rules, a refusal in the provider's own form, and signed answers.

A simulator reads the JSON of a request, not our own decoding of it, and checks it against its rules in order. The first
rule that is broken refuses the request. Otherwise a reply function makes the answer, the simulator signs the reasoning
in it as the provider does, and the server half of the wire writes it, plain or streamed.

Some losses are accepted by a real provider without an error: the answer is only worse. They are in `losses`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import ClassVar, NamedTuple, TypeAlias, Unpack, cast

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.demo.answers import answer as demo_answer
from dragoman.engine.call_options import CallOptions
from dragoman.errors import DragomanError
from dragoman.events import to_events
from dragoman.http import HttpRequest
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.estimates import prompt_tokens
from dragoman.targets.providers import PROVIDERS
from dragoman.testing.fake_provider import InProcessProvider
from dragoman.testing.faulty_server import FaultyServer
from dragoman.testing.script import (
    Answer,
    EncodedAnswer,
    as_response,
    base_path,
    json_answer,
    render_events,
    split_words,
    wire_of,
)
from dragoman.testing.simulators.seals import Seals
from dragoman.types import JsonObject, Message, Part, Request, Response, Text, Thinking, ToolCall, is_object
from dragoman.types.checks import as_text, naming, wrong_value
from dragoman.types.parameters import named_methods
from dragoman.wires.common.json import object_of
from dragoman.wires.common.server_endpoints import CountTokens

Reply: TypeAlias = Callable[[Request], Answer]
"""Makes the answer to a request: a text, tool calls, a message or a response."""


class Violation(NamedTuple):
    """What is wrong with a request, in the words of the provider."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400


class Rule(NamedTuple):
    """One rule of a provider."""

    name: str
    check: "Callable[[ProviderCall], Iterable[Violation]]"
    is_reported: bool = False
    """Whether the rule is known only from reports of users, not from the provider's documentation or a recording."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a simulator refused."""

    rule: str
    violation: Violation
    is_reported: bool
    """Whether the rule is known only from reports of users."""

    def __str__(self) -> str:
        return f"{self.rule}{' (reported)' if self.is_reported else ''}: {self.violation.message}"


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Reasoning that did not come back. The provider accepts the request, but its answer is worse."""

    request: int
    """The number of the request, from 0."""
    step: str
    """The id of the tool call, or the text, that the reasoning led to."""

    def __str__(self) -> str:
        return f"request {self.request}: the reasoning before {self.step!r} did not come back"


class HistoryStep(NamedTuple):
    """One step of the model in a history: the ids of its tool calls or its text, and the reasoning that came back."""

    keys: tuple[str, ...]
    reasoning: frozenset[str]
    is_placeholder: bool = False
    """Whether the client sent a value that only skips the check."""


class ProviderCall(NamedTuple):
    """A request as a provider reads it."""

    model: str
    body: JsonObject
    headers: dict[str, str]
    seals: Seals
    known_steps: dict[str, frozenset[str]]
    """The reasoning of earlier answers, by the id of a call or the text that it led to."""


@named_methods("__init__")
class Simulator(InProcessProvider):
    """A provider that checks requests as strictly as the real one, in process or on a socket of 127.0.0.1.

    Subclasses set the class variables and define `sign`, `steps` and `encode_refusal`.
    """

    PROVIDER: ClassVar[str]
    """The name of the provider's record."""
    WIRE: ClassVar[str]
    MODEL: ClassVar[str]
    """The model, if you name none."""
    RULES: ClassVar[tuple[Rule, ...]]
    CALL_IDS: ClassVar[str] = "call_{}"
    """The form of the ids of tool calls."""
    COUNT_PATH: ClassVar[str | None] = None
    """How the path for token counts ends; None if the provider has none."""

    def __init__(
        self, *lines: Answer, reply: Reply | None = None, model: str | None = None, delay: float = 0.0
    ) -> None:
        """`lines` are answers in order, `reply` makes all answers; without both, the answers are those of the demo.

        With `delay`, a server streams word by word, with so many seconds after each.
        """
        self.requests: list[Request] = []
        """The accepted requests so far, decoded."""
        self.http: list[HttpRequest] = []
        """All requests so far as HTTP, with keys redacted."""
        self.bodies: list[bytes] = []
        """The bodies of the accepted requests."""
        self.refusals: list[Refusal] = []
        self.losses: list[Loss] = []
        if model is not None:
            as_text("model", model)
        if reply is not None and not callable(reply):
            raise wrong_value("reply", "a function or None", reply)
        self.model_name = model or self.MODEL
        self.seals = Seals(f"{self.PROVIDER} account")
        with naming("lines"):
            self._lines = [as_response(line) for line in lines]
        self._reply = reply or self._from_script
        seconds: object = delay
        if not isinstance(seconds, int | float) or seconds < 0:
            raise wrong_value("delay", "a number of seconds", delay)
        self._delay = seconds
        self._calls = 0
        self._known_steps: dict[str, frozenset[str]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec})"

    @property
    def spec(self) -> str:
        """The target: `provider/model`."""
        return f"{self.PROVIDER}/{self.model_name}"

    def registry(self) -> Registry:
        """Return a registry that sends the requests for this provider here."""
        registry = Registry(env={}, http_client=self)
        base_url = f"http://{self.PROVIDER}.invalid{base_path(self.WIRE)}"
        record = replace(PROVIDERS[self.PROVIDER], wire=self.WIRE, base_url=base_url, api_key="sk-test-key")
        registry.add_provider(replace(record, price_name=self.PROVIDER))
        return registry

    def model(self, /, **options: Unpack[CallOptions]) -> Model:
        """Return a model of this provider."""
        return self.registry().model(self.spec, **options)

    def serve(self) -> "SimulatorServer":
        """Return a server on 127.0.0.1 for a `with` block."""
        return SimulatorServer(self)

    # What a provider defines ------------------------------------------------------------------------------------------

    @abstractmethod
    def sign(self, parts: list[Part], call: ProviderCall, /) -> tuple[list[Part], frozenset[str]]:
        """Return the parts of an answer as the provider sends them, and its reasoning by the marks that it carries."""

    @abstractmethod
    def steps(self, body: JsonObject, /) -> Iterator[HistoryStep]:
        """Return the model's steps in the history of a request."""

    @abstractmethod
    def is_thinking(self, call: ProviderCall, /) -> bool:
        """Return whether the model thinks before it answers this request."""

    @abstractmethod
    def encode_refusal(self, violation: Violation, /) -> JsonObject:
        """Return the body of an error."""

    def remember(self, _id: str, _call: ProviderCall, /) -> None:
        """Note the id of an answer, if the provider stores it."""

    def check_count(self, _body: JsonObject, /) -> Iterator[Violation]:
        """Return what is wrong with a request for a token count, besides the rules of generation."""
        yield from ()

    def counted_body(self, body: JsonObject, /) -> JsonObject:
        """Return the body for generation whose tokens a request wants to count."""
        return body

    def encode_count(self, _tokens: int, /) -> JsonObject:
        """Return the answer to a request for a token count."""
        return {}

    def other_paths(self, _http: HttpRequest, /) -> EncodedAnswer | None:
        """Answer a request that is not for generation; None if there is no such path."""
        return None

    # One request ------------------------------------------------------------------------------------------------------

    def answer(self, http: HttpRequest, /) -> EncodedAnswer:
        with self._lock:
            self.http.append(http.redacted())
            wire = wire_of(http)
            is_count = self.COUNT_PATH is not None and http.path.partition("?")[0].endswith(self.COUNT_PATH)
            if not is_count and (wire is None or wire.name != self.WIRE):
                return self.other_paths(http) or self._refuse("path", Violation("Not Found", status=404))
            try:
                body = msgspec.json.decode(http.body)
            except msgspec.DecodeError as error:
                return self._refuse("json", Violation(f"the body is not JSON: {error}"))
            if not is_object(body):
                return self._refuse("json", Violation("the body is not a JSON object"))
            return self._count(http, body) if is_count else self._generate(http, body)

    def _generate(self, http: HttpRequest, body: JsonObject) -> EncodedAnswer:
        wire = wires.get(self.WIRE)
        model, request, error = str(body.get("model", "")), Request(), None
        try:
            model, request = wire.server.decode_request(http)
        except DragomanError as decode_error:
            error = decode_error
        call = self._call(http, model, body)
        if (refusal := self._check(call, error)) is not None:
            return refusal
        self._note_losses(body)
        self.requests.append(request)
        self.bodies.append(http.body)
        response = self._answered(request, call)
        if not self._delay:
            return render_events(to_events(response), wire, request)
        return replace(render_events(split_words(to_events(response)), wire, request), delay=self._delay)

    def _count(self, http: HttpRequest, body: JsonObject) -> EncodedAnswer:
        """Count tokens. The rules are those of generation; nothing is answered or noted."""
        for violation in self.check_count(body):
            return self._refuse("token count", violation)
        body = self.counted_body(body)
        model, request, error = str(body.get("model", "")), Request(), None
        for endpoint in wires.get(self.WIRE).server_endpoints:
            if endpoint.route.path.endswith(self.COUNT_PATH or ""):
                try:
                    counted = cast("CountTokens", endpoint.decode(replace(http, body=msgspec.json.encode(body))))
                    model, request = counted.model, counted.request
                except DragomanError as decode_error:
                    error = decode_error
        if (refusal := self._check(self._call(http, model, body), error)) is not None:
            return refusal
        return json_answer(200, self.encode_count(prompt_tokens(request)))

    def _call(self, http: HttpRequest, model: str, body: JsonObject) -> ProviderCall:
        headers = {name.lower(): value for name, value in http.headers.items()}
        return ProviderCall(model, body, headers, self.seals, self._known_steps)

    def _check(self, call: ProviderCall, error: DragomanError | None) -> EncodedAnswer | None:
        """The refusal of a request that breaks a rule, or that cannot be decoded."""
        for rule in self.RULES:
            for violation in rule.check(call):
                return self._refuse(rule.name, violation, is_reported=rule.is_reported)
        return None if error is None else self._refuse("form", Violation(str(error)))

    def _refuse(self, rule: str, violation: Violation, *, is_reported: bool = False) -> EncodedAnswer:
        self.refusals.append(Refusal(rule=rule, violation=violation, is_reported=is_reported))
        return json_answer(violation.status, self.encode_refusal(violation))

    def _note_losses(self, body: JsonObject) -> None:
        number = len(self.requests)
        for step in self.steps(body):
            for key in step.keys:
                if step.is_placeholder or not self._known_steps.get(key, frozenset()) <= step.reasoning:
                    self.losses.append(Loss(request=number, step=key))
                    break

    def _from_script(self, request: Request) -> Answer:
        number = len(self.requests) - 1
        if number < len(self._lines):
            return self._lines[number]
        return demo_answer(request, self.model_name)

    def _answered(self, request: Request, call: ProviderCall) -> Response:
        response = as_response(self._reply(request))
        parts: list[Part] = [self._with_id(p) if isinstance(p, ToolCall) else p for p in response.message.parts]
        thinks = self.is_thinking(call)
        if not thinks:
            parts[:] = [part for part in parts if not isinstance(part, Thinking)]
        elif not any(isinstance(part, Thinking) for part in parts):
            parts.insert(0, Thinking(text=f"Step {len(self.requests)}."))
        parts, reasoning = self.sign(parts, call)
        for key in _keys(parts):
            self._known_steps[key] = reasoning
        message = Message(role="assistant", parts=tuple(parts))
        id = f"sim_{len(self.requests):08d}"
        self.remember(id, call)
        return replace(response, id=id, model=call.model, message=message, created=1_794_900_000)

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._calls += 1
        return replace(call, id=self.CALL_IDS.format(f"{self._calls:08d}"))


def _keys(parts: Iterable[Part]) -> list[str]:
    calls = [part.id for part in parts if isinstance(part, ToolCall)]
    return calls or [part.text for part in parts if isinstance(part, Text) and part.text]


@named_methods("__init__")
class SimulatorServer(FaultyServer):
    """A simulator on a socket of 127.0.0.1."""

    def __init__(self, simulator: Simulator, /) -> None:
        if not isinstance(simulator, Simulator):
            raise wrong_value("simulator", "a Simulator", simulator)
        super().__init__()
        self.simulator = simulator

    @property
    def url(self) -> str:
        """The base URL for clients of this provider."""
        return self.base_url(self.simulator.WIRE)

    def _next(self, http: HttpRequest) -> EncodedAnswer:
        return self.simulator.answer(http)


# Reading JSON that may have any form ----------------------------------------------------------------------------------


def member(value: JsonObject, name: str, /) -> JsonObject:
    """A member that is an object; {} for anything else."""
    return object_of(value.get(name))


def number_of(value: object, /) -> float:
    """A number, or 0 for anything else."""
    return value if isinstance(value, int | float) else 0
