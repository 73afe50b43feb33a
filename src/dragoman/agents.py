"""A model, tools and a prompt in, what came of it out: what users hold. Thin: it sets up a run and drives it."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

from msgspec.structs import replace

from dragoman.agent import Run, Settings
from dragoman.budget import Budget
from dragoman.call import Timeouts
from dragoman.chain import Options, Verdict
from dragoman.dispatch import Approve
from dragoman.drive import tell
from dragoman.errors import DragomanError, EmptyResponse, InvalidRequest, InvalidTool
from dragoman.events import Restarted
from dragoman.flow import Flow
from dragoman.form import Form
from dragoman.models import Asked, Model, model
from dragoman.prompts import Prompt
from dragoman.skills import Skill
from dragoman.steps import Result, RunEvent
from dragoman.streams import AsyncClosing, Closing, TextDelta, ThinkingDelta, View
from dragoman.tools import Context, HasTools, Toolish, gather, handler_of, tool, tool_of
from dragoman.typed import shaped
from dragoman.types import Message, Request, Response, Text, Tool, ToolCall

T = TypeVar("T")
Shown: TypeAlias = RunEvent | TextDelta | ThinkingDelta | Restarted
"""What a run shows while it goes on."""


class AgentOptions(TypedDict, total=False):
    """What an agent may be told beside its model. None is what there is without it; a limit that is None is off."""

    system: str | None
    tools: Iterable[Toolish] | Toolish | None
    """Functions, tools and toolboxes, or one of these."""
    skills: Iterable[Skill] | Skill | None
    terminal_tool: str | Toolish | None
    max_steps: int | Callable[[Result[Any]], Any] | None
    """Rounds of tools: 0 allows none, None any number."""
    parallel: bool
    on_event: Callable[[Any], object] | None
    approve: Approve | None
    steer: Callable[[], Any] | None
    compact: Callable[[tuple[Message, ...]], Any] | None
    budget: Budget | None
    timeout: float | Timeouts | None
    tool_error_limit: int | None
    """Rounds in a row that may give only errors; None or 0 is off."""
    repeat_limit: int | None
    """Rounds in a row that may be the same; None or 0 is off."""
    nudges: int | None
    """How often a model that says nothing is asked again."""
    repairs: int | None
    """How often an output that is not of its type is asked for again."""


class Agent(Generic[T]):
    """A model that is asked again and again, with the results of the tools that it calls, until it has an answer.

    >>> from dragoman import Registry, tool
    >>> @tool
    ... def tide(port: str) -> str:
    ...     "Tide height at a port."
    ...     return f"4.2 m in {port}"
    >>> agent = Agent(Registry(env={}).model("demo/any"), tools=[tide], system="Be brief.")
    >>> result = agent.run("What is the tide in Brest?")
    >>> result.output, len(result.steps)
    ('tide says: 4.2 m in Brest', 2)
    """

    @overload
    def __init__(self: "Agent[str]", model: Model | str, /, **options: Unpack[AgentOptions]) -> None: ...
    @overload
    def __init__(self, model: Model | str, /, *, output: type[T], **options: Unpack[AgentOptions]) -> None: ...
    @overload
    def __init__(
        self: "Agent[Any]", model: Model | str, /, *, output: Any, **options: Unpack[AgentOptions]
    ) -> None: ...
    def __init__(self, by: Model | str, /, *, output: Any = None, **options: Unpack[AgentOptions]) -> None:
        _check(options)
        self.model = model(by) if isinstance(by, str) else by
        self._options = options
        self._tools: tuple[Toolish, ...] = _several("tools", options.get("tools"))
        self._skills: tuple[Skill, ...] = _several("skills", options.get("skills"))
        self._form: Form[T] | None = None if output is None or output is str else Form(output)
        budget = options.get("budget") or Budget()
        if budget.money is not None and budget.price is None:
            from dragoman.prices import check_installed, price

            check_installed()
            budget = replace(budget, price=price)
        self._budget = budget

    def __repr__(self) -> str:
        """Its model."""
        return f"Agent({self.model.spec!r})"

    def run(self, prompt: Prompt, /, *, data: Any = None, **asked: Unpack[Asked]) -> Result[T]:
        """The result, blocking. `data` is what tools find in their Context."""
        stream = self._stream(prompt, data, asked, is_shown=False)
        try:
            for _ in stream:
                continue
        except (KeyboardInterrupt, SystemExit) as error:
            vars(error)["result"] = stream.result
            raise
        return stream.result

    async def arun(self, prompt: Prompt, /, *, data: Any = None, **asked: Unpack[Asked]) -> Result[T]:
        """The result, async. `data` is what tools find in their Context."""
        return await self._arun(prompt, data, asked, None)

    def stream(self, prompt: Prompt, /, *, data: Any = None, **asked: Unpack[Asked]) -> "AgentStream[T]":
        """What happens, as it happens, blocking; last comes the result."""
        return self._stream(prompt, data, asked, is_shown=True)

    def astream(self, prompt: Prompt, /, *, data: Any = None, **asked: Unpack[Asked]) -> "AsyncAgentStream[T]":
        """What happens, as it happens, async; last comes the result."""
        return self._astream(prompt, data, asked, None, is_shown=True)

    def as_tool(self, name: str, description: str, *, timeout: float | None = None) -> Tool:
        """The agent as a tool of another one: what it uses counts there, too, and it is cancelled with it.

        It runs async, in a blocking run on the loop of that run.
        """

        @tool(name=name, description=description, timeout=timeout)
        async def ask(prompt: str, context: Context) -> Any:
            """Ask another agent.

            Args:
                prompt: What it shall do, with all that it needs to know for it.
                context: The run that asks.
            """
            result = await self._arun(prompt, context.data, {}, context.spend)
            return result.output

        return tool_of(ask)

    # Setting up ------------------------------------------------------------------------------------------------------

    async def _arun(
        self, prompt: Prompt, data: Any, asked: Asked, spend: Callable[[Response], None] | None
    ) -> Result[T]:
        stream = self._astream(prompt, data, asked, spend, is_shown=False)
        try:
            async for _ in stream:
                continue
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            vars(error)["result"] = stream.result
            raise
        return stream.result

    def _stream(self, prompt: Prompt, data: Any, asked: Asked, *, is_shown: bool) -> "AgentStream[T]":
        run = self._run(prompt, data, asked, None, is_shown=is_shown)
        return AgentStream(run, self.model.driver.iterate(run.plan()), self._options.get("on_event"))

    def _astream(
        self, prompt: Prompt, data: Any, asked: Asked, spend: Callable[[Response], None] | None, *, is_shown: bool
    ) -> "AsyncAgentStream[T]":
        run = self._run(prompt, data, asked, spend, is_shown=is_shown)
        results: list[Result[T]] = []
        events = self.model.driver.aiterate(run.plan(), results.append)
        return AsyncAgentStream(run, events, results, self._options.get("on_event"))

    def _run(
        self,
        prompt: Prompt,
        data: Any,
        asked: Asked,
        spend: Callable[[Response], None] | None,
        *,
        is_shown: bool,
    ) -> Run[T]:
        is_watched = is_shown or self._options.get("on_event") is not None
        is_streamed = is_watched and all(target.limits.streaming for target in self.model.targets())
        system = self._options.get("system")
        given: Asked = asked if system is None else {"system": system, **asked}
        request, options = self.model.request(prompt, stream=is_streamed, **given)
        return Run(request.messages, self._settings(request), self._ask(options), data=data, spend=spend)

    def _ask(self, options: Options) -> Callable[[Request, float | None], Flow[Response]]:
        def ask(request: Request, seconds: float | None) -> Flow[Response]:
            limits = [limit for limit in (options.timeouts.total, seconds) if limit is not None]
            timeouts = replace(options.timeouts, total=min(limits, default=None))
            return self.model.plan(request, replace(options, timeouts=timeouts, classify=classify))

        def classify(error: DragomanError) -> Verdict | None:
            """A blank stop is the conversation's fault more than the target's: it is nudged, and benches nobody."""
            told = None if options.classify is None else options.classify(error)
            blank = Verdict(transient=False, advance=True, penalise=False) if isinstance(error, EmptyResponse) else None
            return told or blank

        return ask

    def _settings(self, request: Request) -> Settings[T]:
        """How the run goes; InvalidTool where two tools have one name, or one has nothing to run."""
        told = self._options
        own = [one for one in request.tools if isinstance(one, Tool)]
        tools = gather([*own, *self._tools, *self._skills])
        terminal, named = self._terminal(tools)
        tools = gather([*tools, *terminal])
        for one in tools:
            if one.name != named:
                handler_of(one)
        foreign = tuple(one for one in request.tools if not isinstance(one, Tool))
        request = replace(request, tools=(*tools, *foreign), system=_taught(request.system, self._skills))
        if self._form is not None and named is None:
            request = shaped(request, self._form, self.model.targets())
        timeout = told.get("timeout")
        limits = timeout if isinstance(timeout, Timeouts) else Timeouts(total=timeout)
        chosen: dict[str, Any] = {name: value for name, value in told.items() if name in _PASSED_ON}
        return Settings(
            request=request,
            tools=tools,
            form=self._form,
            terminal=named,
            budget=self._budget,
            step_timeout=limits.step,
            tool_timeout=limits.tool,
            total_timeout=limits.total,
            **chosen,
        )

    def _terminal(self, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], str | None]:
        """The tool whose call ends a run, where it is not among the others already, and its name."""
        given = self._options.get("terminal_tool")
        if given is None:
            return (), None
        if not isinstance(given, str):
            (one,) = gather([given])
            return (one,), one.name
        if any(one.name == given for one in tools):
            return (), given
        if self._form is None:
            raise InvalidTool(
                f"terminal_tool: there is no tool {given!r}; give the tool itself, or output= for its type"
            )
        return (Tool(name=given, description="Give the final answer.", parameters=self._form.schema),), given


_PASSED_ON = frozenset("max_steps parallel approve steer compact tool_error_limit repeat_limit nudges repairs".split())
"""What the plan takes as it is told."""


def _check(options: AgentOptions) -> None:
    """InvalidRequest where an option is none, or not what it can be."""
    if unknown := options.keys() - AgentOptions.__annotations__.keys():
        known = ", ".join(AgentOptions.__annotations__)
        raise InvalidRequest(f"an agent has no option {', '.join(sorted(unknown))}; there are output, {known}")
    for name, (can_be, wanted) in _CHECKS.items():
        given: Any = options.get(name)
        if given is not None and not can_be(given):
            raise InvalidRequest(f"{name}: {given!r} is not {wanted}; give that, or None")
    if inspect.iscoroutinefunction(options.get("on_event")):
        raise InvalidRequest("on_event is called and not awaited; give a plain function")


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _is_time(given: Any) -> bool:
    return isinstance(given, Timeouts) or (isinstance(given, int | float) and given > 0)


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "system": (lambda given: isinstance(given, str), "a text"),
    "max_steps": (lambda given: _is_count(given) or callable(given), "a number from 0 on, or a function"),
    "budget": (lambda given: isinstance(given, Budget), "a Budget"),
    "timeout": (_is_time, "a number of seconds above 0, or Timeouts"),
    **dict.fromkeys(("on_event", "approve", "steer", "compact"), (callable, "a function")),
    **dict.fromkeys(("tool_error_limit", "repeat_limit", "nudges", "repairs"), (_is_count, "a number from 0 on")),
}


def _several(name: str, given: Any) -> tuple[Any, ...]:
    """Some tools or skills, from some, one or none."""
    if given is None:
        return ()
    if isinstance(given, Tool | Skill | HasTools) or callable(given):
        return (given,)
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise InvalidRequest(f"{name}: {given!r} is none; give a list of {name}")
    return tuple(given)


def _taught(system: str | tuple[Text, ...] | None, skills: tuple[Skill, ...]) -> str | tuple[Text, ...] | None:
    """The system prompt with the instructions of the skills, in order, blank lines between them."""
    taught = [skill.instructions for skill in skills if skill.instructions]
    if isinstance(system, tuple):
        return (*system, *(Text(text=words) for words in taught))
    return "\n\n".join([*([system] if system else []), *taught]) or None


# What is shown --------------------------------------------------------------------------------------------------------


class _Items:
    """The events of a run as users like to see them."""

    def __init__(self, on_event: Callable[[Any], object] | None) -> None:
        self._view = View()
        self._observers = [on_event] if on_event is not None else []

    def item(self, event: Any) -> Shown | None:
        """What is shown of an event, and told to whoever asked for it; None for nothing."""
        item = event if isinstance(event, RunEvent) else self._view.item(event)
        if item is None or isinstance(item, ToolCall | Response):
            return None
        tell(self._observers, item)
        return item


class AgentStream(Closing, Generic[T]):
    """A run as it goes on: iterate it for what happens; the last item is the Result. Leaving it ends the run.

    >>> from dragoman import Registry
    >>> with Agent(Registry(env={}).model("demo/any")).stream("hello") as stream:
    ...     kinds = [type(item).__name__ for item in stream]
    >>> kinds[0], kinds[1], kinds[-2], kinds[-1]
    ('StepStarted', 'TextDelta', 'StepFinished', 'Result')
    """

    def __init__(
        self, run: Run[T], events: Generator[Any, None, Result[T]], on_event: Callable[[Any], object] | None
    ) -> None:
        self._run = run
        super().__init__(events)
        self._items = _Items(on_event)

    @property
    def result(self) -> Result[T]:
        """What there is by now; once the run is at its end, all of it."""
        return self._run.result

    def __iter__(self) -> Iterator[Shown | Result[T]]:
        """Steps, pieces of text, tools, and last the result."""
        for event in self._rest():
            if (item := self._items.item(event)) is not None:
                yield item
        yield self.result


class AsyncAgentStream(AsyncClosing, Generic[T]):
    """A run as it goes on, async: iterate it for what happens; the last item is the Result.

    >>> from dragoman import Registry
    >>> async def main() -> str:
    ...     async with Agent(Registry(env={}).model("demo/any")).astream("hello") as stream:
    ...         async for _ in stream:
    ...             continue
    ...     return stream.result.output
    >>> asyncio.run(main())[:6]
    'Hello!'
    """

    def __init__(
        self,
        run: Run[T],
        events: AsyncGenerator[Any, None],
        results: list[Result[T]],
        on_event: Callable[[Any], object] | None,
    ) -> None:
        self._run = run
        super().__init__(events, results)
        self._items = _Items(on_event)

    @property
    def result(self) -> Result[T]:
        """What there is by now; once the run is at its end, all of it."""
        return self._run.result

    async def __aiter__(self) -> AsyncIterator[Shown | Result[T]]:
        """Steps, pieces of text, tools, and last the result."""
        try:
            async for event in self._events:
                if (item := self._items.item(event)) is not None:
                    yield item
            yield self._ended()
        finally:
            await self._leave()
