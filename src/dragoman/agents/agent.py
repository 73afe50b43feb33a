"""A model, tools and a prompt in, what came of it out: what users hold. Thin: it sets up a run and drives it."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

from msgspec.structs import replace

from dragoman.agents.budget import Budget
from dragoman.agents.events import Result, RunEvent
from dragoman.agents.loop import LoopSettings, Run
from dragoman.api import model
from dragoman.engine.attempt import Timeouts
from dragoman.engine.effects import Plan
from dragoman.engine.failover import ChainOptions, ErrorPolicy
from dragoman.engine.typed import shaped
from dragoman.errors import DragomanError, EmptyResponse, InvalidRequest, InvalidTool
from dragoman.events import Restarted
from dragoman.io.driver import tell
from dragoman.models import CallOptions, Model, Prompt
from dragoman.schema.output_type import OutputType
from dragoman.streaming import AsyncClosing, Closing, TextDelta, ThinkingDelta, View
from dragoman.tools.decorator import Context, HasTools, ToolLike, gather, handler_of, tool, tool_of
from dragoman.tools.executor import Approve
from dragoman.tools.skills import Skill
from dragoman.types import Message, Request, Response, Text, Tool, ToolCall

T = TypeVar("T")
Shown: TypeAlias = RunEvent | TextDelta | ThinkingDelta | Restarted
"""What a run shows while it goes on."""


class AgentOptions(TypedDict, total=False):
    """What an agent may be told beside its model. None is what there is without it; a limit that is None is off."""

    system: str | None
    tools: Iterable[ToolLike] | ToolLike | None
    """Functions, tools and toolboxes, or one of these."""
    skills: Iterable[Skill] | Skill | None
    terminal_tool: str | ToolLike | None
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
    max_repairs: int | None
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
    def __init__(self: "Agent[str]", model: Model | str, /, **chain_options: Unpack[AgentOptions]) -> None: ...
    @overload
    def __init__(self, model: Model | str, /, *, output: type[T], **chain_options: Unpack[AgentOptions]) -> None: ...
    @overload
    def __init__(
        self: "Agent[Any]", model: Model | str, /, *, output: Any, **chain_options: Unpack[AgentOptions]
    ) -> None: ...
    def __init__(self, by: Model | str, /, *, output: Any = None, **chain_options: Unpack[AgentOptions]) -> None:
        _check(chain_options)
        self.model = model(by) if isinstance(by, str) else by
        self._chain_options = chain_options
        self._tools: tuple[ToolLike, ...] = _several("tools", chain_options.get("tools"))
        self._skills: tuple[Skill, ...] = _several("skills", chain_options.get("skills"))
        self._form: OutputType[T] | None = None if output is None or output is str else OutputType(output)
        budget = chain_options.get("budget") or Budget()
        if budget.money is not None and budget.price is None:
            from dragoman.agents.prices import check_installed, price

            check_installed()
            budget = replace(budget, price=price)
        self._budget = budget

    def __repr__(self) -> str:
        """Its model."""
        return f"Agent({self.model.spec!r})"

    def run(self, prompt: Prompt, /, *, data: Any = None, **options: Unpack[CallOptions]) -> Result[T]:
        """The result, blocking. `data` is what tools find in their Context."""
        stream = self._stream(prompt, data, options, is_shown=False)
        try:
            for _ in stream:
                continue
        except (KeyboardInterrupt, SystemExit) as error:
            vars(error)["result"] = stream.result
            raise
        return stream.result

    async def arun(self, prompt: Prompt, /, *, data: Any = None, **options: Unpack[CallOptions]) -> Result[T]:
        """The result, async. `data` is what tools find in their Context."""
        return await self._arun(prompt, data, options, None)

    def stream(self, prompt: Prompt, /, *, data: Any = None, **options: Unpack[CallOptions]) -> "AgentStream[T]":
        """What happens, as it happens, blocking; last comes the result."""
        return self._stream(prompt, data, options, is_shown=True)

    def astream(self, prompt: Prompt, /, *, data: Any = None, **options: Unpack[CallOptions]) -> "AsyncAgentStream[T]":
        """What happens, as it happens, async; last comes the result."""
        return self._astream(prompt, data, options, None, is_shown=True)

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
        self, prompt: Prompt, data: Any, options: CallOptions, spend: Callable[[Response], None] | None
    ) -> Result[T]:
        stream = self._astream(prompt, data, options, spend, is_shown=False)
        try:
            async for _ in stream:
                continue
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            vars(error)["result"] = stream.result
            raise
        return stream.result

    def _stream(self, prompt: Prompt, data: Any, options: CallOptions, *, is_shown: bool) -> "AgentStream[T]":
        run = self._run(prompt, data, options, None, is_shown=is_shown)
        return AgentStream(run, self.model.driver.iterate(run.plan()), self._chain_options.get("on_event"))

    def _astream(
        self,
        prompt: Prompt,
        data: Any,
        options: CallOptions,
        spend: Callable[[Response], None] | None,
        *,
        is_shown: bool,
    ) -> "AsyncAgentStream[T]":
        run = self._run(prompt, data, options, spend, is_shown=is_shown)
        results: list[Result[T]] = []
        events = self.model.driver.aiterate(run.plan(), results.append)
        return AsyncAgentStream(run, events, results, self._chain_options.get("on_event"))

    def _run(
        self,
        prompt: Prompt,
        data: Any,
        options: CallOptions,
        spend: Callable[[Response], None] | None,
        *,
        is_shown: bool,
    ) -> Run[T]:
        is_watched = is_shown or self._chain_options.get("on_event") is not None
        is_streamed = is_watched and all(target.capabilities.streaming for target in self.model.targets())
        system = self._chain_options.get("system")
        given: CallOptions = options if system is None else {"system": system, **options}
        request, chain_options = self.model.request(prompt, stream=is_streamed, **given)
        return Run(request.messages, self._settings(request), self._ask(chain_options), data=data, spend=spend)

    def _ask(self, chain_options: ChainOptions) -> Callable[[Request, float | None], Plan[Response]]:
        def ask(request: Request, seconds: float | None) -> Plan[Response]:
            limits = [limit for limit in (chain_options.timeouts.total, seconds) if limit is not None]
            timeouts = replace(chain_options.timeouts, total=min(limits, default=None))
            return self.model.plan(request, replace(chain_options, timeouts=timeouts, classify=classify))

        def classify(error: DragomanError) -> ErrorPolicy | None:
            """A blank stop is the conversation's fault more than the target's: it is nudged, and benches nobody."""
            told = None if chain_options.classify is None else chain_options.classify(error)
            blank = (
                ErrorPolicy(retry=False, fail_over=True, count_failure=False)
                if isinstance(error, EmptyResponse)
                else None
            )
            return told or blank

        return ask

    def _settings(self, request: Request) -> LoopSettings[T]:
        """How the run goes; InvalidTool where two tools have one name, or one has nothing to run."""
        told = self._chain_options
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
        return LoopSettings(
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
        given = self._chain_options.get("terminal_tool")
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


def _check(chain_options: AgentOptions) -> None:
    """InvalidRequest where an option is none, or not what it can be."""
    if unknown := chain_options.keys() - AgentOptions.__annotations__.keys():
        known = ", ".join(AgentOptions.__annotations__)
        raise InvalidRequest(f"an agent has no option {', '.join(sorted(unknown))}; there are output, {known}")
    for name, (can_be, wanted) in _CHECKS.items():
        given: Any = chain_options.get(name)
        if given is not None and not can_be(given):
            raise InvalidRequest(f"{name}: {given!r} is not {wanted}; give that, or None")
    if inspect.iscoroutinefunction(chain_options.get("on_event")):
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
    **dict.fromkeys(("tool_error_limit", "repeat_limit", "nudges", "max_repairs"), (_is_count, "a number from 0 on")),
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
