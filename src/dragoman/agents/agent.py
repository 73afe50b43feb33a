"""`Agent`: the public interface to the tool loop. It checks the options, sets up a `Run` and drives it."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

from msgspec.structs import replace

from dragoman import api
from dragoman.agents.budget import Budget, check_prices, price
from dragoman.agents.events import Result, RunEvent
from dragoman.agents.loop import CallModel, LoopSettings, Run
from dragoman.engine.call_context import Timeouts
from dragoman.engine.call_options import CallOptions
from dragoman.engine.effects import Plan
from dragoman.engine.failover import ChainOptions
from dragoman.engine.typed_output import with_output_schema
from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.events import Restarted
from dragoman.io.driver import notify, short_traceback
from dragoman.io.stopper import Stopper
from dragoman.models import Model, Prompt
from dragoman.schema.output_type import OutputType, output_type_of
from dragoman.streaming import (
    AsyncClosableStream,
    ClosableStream,
    ItemConverter,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from dragoman.targets.dsn import did_you_mean
from dragoman.targets.option_hints import OPTION_HINTS, refuse_stream
from dragoman.tools.decorator import (
    NAME,
    Context,
    HasTools,
    ToolLike,
    gather,
    handler_of,
    is_tool_timeout,
    tool,
    tool_definitions,
    tool_of,
)
from dragoman.tools.executor import Approve
from dragoman.tools.skills import Skill
from dragoman.types import (
    HostedCall,
    HostedResult,
    HostedTool,
    Message,
    Opaque,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
)
from dragoman.types.checks import as_items, is_text, naming, wrong_value
from dragoman.types.fields import WRONG, read_text
from dragoman.types.parameters import missing_is_none, named_methods
from dragoman.wires.dicts import SdkValue, read_tools

T = TypeVar("T")
AgentStreamItem: TypeAlias = (
    RunEvent | TextDelta | ThinkingDelta | ToolCallDelta | HostedCall | HostedResult | Restarted
)
"""An item of an agent stream, besides the final Result."""
Spend: TypeAlias = Callable[[Response], None]


class AgentOptions(TypedDict, total=False):
    """The options of an agent. None means the default; for a limit it means no limit."""

    system: str | None
    """The system prompt."""
    tools: Iterable[ToolLike | HostedTool | Opaque | SdkValue] | ToolLike | HostedTool | Opaque | SdkValue | None
    """Functions, tools and toolboxes, or one of these; a dict must be a tool that the provider runs itself."""
    skills: Iterable[Skill] | Skill | None
    """Instructions for the system prompt, with the tools that they use."""
    terminal_tool: str | ToolLike | None
    """A call of this tool ends the run, and its arguments are the output. The tool itself does not run."""
    max_steps: int | Callable[[Result[Any]], Any] | None
    """How many steps may call tools: 0 allows none, None any number."""
    parallel: bool
    """Whether the calls of one step run in parallel."""
    on_event: Callable[[Any], object] | None
    """Called with each item that a stream has, except the Result, also in `run` and `arun`."""
    approve: Approve | None
    """Called before a tool runs; returns True, False, or the ToolResult that the model gets instead."""
    steer: Callable[[], Any] | None
    """Called before each step; returns messages to add."""
    compact: Callable[[tuple[Message, ...]], Any] | None
    """Called before each step; returns the messages to send instead of the whole transcript."""
    budget: Budget | None
    """Tokens, money and seconds of a run; checked between steps."""
    timeout: float | Timeouts | None
    """Seconds for the whole run, or Timeouts(total=, step=, tool=)."""
    tool_error_limit: int | None
    """Steps in a row whose results may all be errors; None or 0 has no limit."""
    repeat_limit: int | None
    """Steps in a row that may be identical; None or 0 has no limit."""
    max_empty_retries: int | None
    """How often an empty answer is retried."""
    max_repairs: int | None
    """How often an answer that does not fit the output type is retried."""


@named_methods("__init__", "run", "stream", "astream", "as_tool")
class Agent(Generic[T]):
    """Calls a model and the tools it asks for, until the model gives its answer.

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
    def __init__(self: "Agent[str]", model: Model | str, **options: Unpack[AgentOptions]) -> None: ...
    @overload
    def __init__(self, model: Model | str, *, output: type[T], **options: Unpack[AgentOptions]) -> None: ...
    @overload
    def __init__(self: "Agent[Any]", model: Model | str, *, output: Any, **options: Unpack[AgentOptions]) -> None: ...
    def __init__(self, model: Model | str, *, output: Any = None, **options: Unpack[AgentOptions]) -> None:
        _check(options)
        if not isinstance(model, str | Model):
            raise wrong_value("model", "a Model or a spec such as 'openai/gpt-5'", model)
        self.model = api.model(model) if isinstance(model, str) else model
        self._options = options
        tools = _as_tuple("tools", read_tools(options.get("tools")))
        self._tools: tuple[ToolLike, ...] = tuple(one for one in tools if not isinstance(one, HostedTool | Opaque))
        with naming("tools"):
            # Toolboxes were checked when they were made.
            gather([one for one in self._tools if not isinstance(one, HasTools)])
        self._provider_tools = tuple(one for one in tools if isinstance(one, HostedTool | Opaque))
        skills = _as_tuple("skills", options.get("skills"))
        for skill in skills:
            if not isinstance(skill, Skill):
                raise wrong_value("skills", "a Skill or a list of Skill", skill)
        self._skills: tuple[Skill, ...] = skills
        with naming("output"):
            is_plain = output is None or output is str
            self._output_type: OutputType[T] | None = None if is_plain else output_type_of(output, "output")
        budget = options.get("budget") or Budget()
        if budget.money is not None and budget.price is None:
            budget = replace(budget, price=price)
        self._budget = budget

    def __repr__(self) -> str:
        return f"Agent({self.model.spec!r})"

    def run(self, prompt: Prompt, *, data: Any = None, **options: Unpack[CallOptions]) -> Result[T]:
        """Run the agent and return the result. Tools find `data` in their Context."""
        stream = self._stream(prompt, data, options, is_watched=False)
        try:
            with short_traceback:
                for _ in stream:
                    continue
        except (KeyboardInterrupt, SystemExit) as error:
            vars(error)["result"] = stream.result
            raise
        return stream.result

    @missing_is_none
    async def arun(self, prompt: Prompt, *, data: Any = None, **options: Unpack[CallOptions]) -> Result[T]:
        """Run the agent and return the result, async. Tools find `data` in their Context."""
        with short_traceback:
            return await self._arun(prompt, data, options, None)

    def stream(self, prompt: Prompt, *, data: Any = None, **options: Unpack[CallOptions]) -> "AgentStream[T]":
        """Run the agent and iterate over its events; the last item is the result."""
        return self._stream(prompt, data, options, is_watched=True)

    def astream(self, prompt: Prompt, *, data: Any = None, **options: Unpack[CallOptions]) -> "AsyncAgentStream[T]":
        """Run the agent and iterate over its events, async; the last item is the result."""
        return self._astream(prompt, data, options, None, is_watched=True)

    def as_tool(self, name: str, description: str, *, timeout: float | None = None) -> Tool:
        """Return a tool that runs this agent. Its usage counts in the run that calls it, and it is cancelled with it.

        The tool is async, also within a blocking run.
        """
        if not is_text(name) or NAME.fullmatch(name) is None:
            raise wrong_value("name", "1 to 64 characters of a-z, A-Z, 0-9, _ and -", name)

        @tool(name=name, description=description, timeout=timeout)
        async def run_agent(prompt: str, context: Context) -> Any:
            """Run the agent.

            Args:
                prompt: The task, with everything that the agent needs to know.
                context: The context of the calling run.
            """
            result = await self._arun(prompt, context.data, {}, context.spend)
            return result.output

        return tool_of(run_agent)

    # Setting up ------------------------------------------------------------------------------------------------------

    async def _arun(self, prompt: Prompt, data: Any, options: CallOptions, spend: Spend | None) -> Result[T]:
        stream = self._astream(prompt, data, options, spend, is_watched=False)
        try:
            async for _ in stream:
                continue
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            vars(error)["result"] = stream.result
            raise
        return stream.result

    def _stream(self, prompt: Prompt, data: Any, options: CallOptions, *, is_watched: bool) -> "AgentStream[T]":
        run = self._run(prompt, data, options, None, is_watched=is_watched)
        return AgentStream(run, partial(self.model.driver.iterate, run.plan()), self._options.get("on_event"))

    def _astream(
        self, prompt: Prompt, data: Any, options: CallOptions, spend: Spend | None, *, is_watched: bool
    ) -> "AsyncAgentStream[T]":
        run = self._run(prompt, data, options, spend, is_watched=is_watched)
        results: list[Result[T]] = []
        start = partial(self.model.driver.aiterate, run.plan(), results.append)
        return AsyncAgentStream(run, start, results, self._options.get("on_event"))

    def _run(self, prompt: Prompt, data: Any, options: CallOptions, spend: Spend | None, *, is_watched: bool) -> Run[T]:
        refuse_stream(options)
        if misplaced := options.keys() & _AGENT_ONLY:
            name = min(misplaced)
            reason = f"unknown option {name!r}; it is an option of the agent: write Agent(…, {name}=…)"
            raise InvalidRequest(reason, param=name)
        if self._budget.price is price:
            check_prices(self.model.targets())
        is_watched = is_watched or self._options.get("on_event") is not None
        is_streamed = is_watched and all(target.capabilities.streaming for target in self.model.targets())
        system = self._options.get("system")
        call_options: CallOptions = options if system is None else {"system": system, **options}
        request, chain_options = self.model.request(prompt, stream=is_streamed, **call_options)
        return Run(request.messages, self._settings(request), self._call_model(chain_options), data=data, spend=spend)

    def _call_model(self, chain_options: ChainOptions) -> CallModel:
        def call_model(request: Request, seconds: float | None) -> Plan[Response]:
            limits = [limit for limit in (chain_options.timeouts.total, seconds) if limit is not None]
            timeouts = replace(chain_options.timeouts, total=min(limits, default=None))
            return self.model.plan(request, replace(chain_options, timeouts=timeouts))

        return call_model

    def _settings(self, request: Request) -> LoopSettings[T]:
        options = self._options
        request_tools = [one for one in request.tools if isinstance(one, Tool)]
        provider_tools = (
            *(one for one in request.tools if isinstance(one, HostedTool | Opaque)),
            *tool_definitions(self._provider_tools),
        )
        fallbacks = [one.fallback for one in provider_tools if isinstance(one, HostedTool) and one.fallback is not None]
        with naming("tools"):
            tools = gather([*request_tools, *self._tools, *self._skills])
        extra_tools, terminal = self._terminal(tools)
        tools = gather([*tools, *extra_tools])
        runnable = gather([*tools, *fallbacks])
        for one in runnable:
            if one.name != terminal:
                handler_of(one)  # raises InvalidTool if nothing can run it
        system = _with_instructions(request.system, self._skills)
        request = replace(request, tools=(*tools, *provider_tools), system=system)
        if self._output_type is not None and terminal is None:
            request = with_output_schema(request, self._output_type, self.model.targets())
        timeout = options.get("timeout")
        timeouts = timeout if isinstance(timeout, Timeouts) else Timeouts(total=timeout)
        loop_options: dict[str, Any] = {name: value for name, value in options.items() if name in _LOOP_OPTIONS}
        return LoopSettings(
            request=request,
            tools=runnable,
            output_type=self._output_type,
            terminal=terminal,
            budget=self._budget,
            step_timeout=timeouts.step,
            tool_timeout=timeouts.tool,
            total_timeout=timeouts.total,
            **loop_options,
        )

    def _terminal(self, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], str | None]:
        """Return the terminal tool, if it is not one of the other tools already, and its name."""
        terminal = self._options.get("terminal_tool")
        if terminal is None:
            return (), None
        if not isinstance(terminal, str):
            finals = gather([terminal])
            if len(finals) != 1:
                raise InvalidTool(f"terminal_tool must be one tool, got {len(finals)}", param="terminal_tool")
            return finals, finals[0].name
        if any(one.name == terminal for one in tools):
            return (), terminal
        if self._output_type is None:
            raise InvalidTool(
                f"terminal_tool must be a tool or the name of one of the tools, got {terminal!r}; "
                "pass the tool itself, or output= for its type",
                param="terminal_tool",
            )
        answer_tool = Tool(name=terminal, description="Give the final answer.", parameters=self._output_type.schema)
        return (answer_tool,), terminal


_LOOP_OPTIONS = frozenset(AgentOptions.__annotations__) & frozenset(LoopSettings.__struct_fields__) - {
    "tools",
    "budget",
}
"""Options that go into the LoopSettings unchanged."""
_AGENT_ONLY = {"output", *AgentOptions.__annotations__} - CallOptions.__annotations__.keys()
"""Options that a run cannot have."""


def _check(options: AgentOptions) -> None:
    if unknown := options.keys() - AgentOptions.__annotations__.keys():
        names = ("output", *AgentOptions.__annotations__)
        known = f"the options are {', '.join(names)}"
        hints = [hint for name in sorted(unknown) if (hint := _hint(name)) is not None]
        if not hints and (close := did_you_mean(min(unknown), names)):
            known = close.removeprefix("; ")
        reason = f"Agent has no option {', '.join(sorted(unknown))}; {'; '.join(hints) or known}"
        raise InvalidRequest(reason, param=min(unknown))
    for name, (is_valid, expected) in _CHECKS.items():
        value: Any = options.get(name)
        if value is not None and not is_valid(value):
            raise wrong_value(name, f"{expected} or None", value)
    if inspect.iscoroutinefunction(options.get("on_event")):
        reason = "on_event must be a plain function, got a coroutine function; it is not awaited"
        raise InvalidRequest(reason, param="on_event")


def _hint(name: str) -> str | None:
    """What to write instead of an option of other libraries, or of the model."""
    if name == "stream":
        return "call agent.stream(…) or agent.astream(…)"
    if name in CallOptions.__annotations__:
        return f"it is an option of the model: write Agent(dragoman.model('…', {name}=…)), or run(…, {name}=…)"
    return f"write {OPTION_HINTS[name]}" if name in OPTION_HINTS else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_timeout(value: Any) -> bool:
    return isinstance(value, Timeouts) or is_tool_timeout(value)


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "system": (lambda value: read_text(value) is not WRONG, "a str"),
    "parallel": (lambda value: isinstance(value, bool), "True, False"),
    "terminal_tool": (lambda value: isinstance(value, str | Tool | HasTools) or callable(value), "a tool, its name"),
    "max_steps": (lambda value: _is_count(value) or callable(value), "a number >= 0, a function"),
    "budget": (lambda value: isinstance(value, Budget), "a Budget"),
    "timeout": (_is_timeout, "seconds > 0, Timeouts"),
    **dict.fromkeys(("on_event", "approve", "steer", "compact"), (callable, "a function")),
    **dict.fromkeys(
        ("tool_error_limit", "repeat_limit", "max_empty_retries", "max_repairs"), (_is_count, "a number >= 0")
    ),
}


def _as_tuple(name: str, value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, Tool | HostedTool | Opaque | Skill | HasTools) or callable(value):
        return (value,)
    return as_items(name, value, f"a {name[:-1]} or a list of {name}")


def _with_instructions(
    system: str | tuple[Text, ...] | None, skills: tuple[Skill, ...]
) -> str | tuple[Text, ...] | None:
    """Append the instructions of the skills to the system prompt, separated by blank lines."""
    instructions = [skill.instructions for skill in skills if skill.instructions]
    if isinstance(system, tuple):
        return (*system, *(Text(text=text) for text in instructions))
    return "\n\n".join([*([system] if system else []), *instructions]) or None


# Streams --------------------------------------------------------------------------------------------------------------


class _ItemFilter:
    """Turns the events of a run into the items of a stream, and passes them to `on_event`."""

    def __init__(self, on_event: Callable[[Any], object] | None) -> None:
        self._converter = ItemConverter()
        self._observers = [on_event] if on_event is not None else []

    def item(self, event: Any) -> AgentStreamItem | None:
        item = event if isinstance(event, RunEvent) else self._converter.convert(event)
        if item is None or isinstance(item, ToolCall | Response):
            return None
        notify(self._observers, item)
        return item


class AgentStream(ClosableStream, Generic[T]):
    """A running agent. Iterate over it for the events; the last item is the Result.

    Leaving the loop ends the run. Inside a `with` block it does not: there, another loop continues.

    >>> from dragoman import Registry
    >>> with Agent(Registry(env={}).model("demo/any")).stream("hello") as stream:
    ...     kinds = [type(item).__name__ for item in stream]
    >>> kinds[0], kinds[1], kinds[-2], kinds[-1]
    ('StepStarted', 'TextDelta', 'StepFinished', 'Result')
    """

    def __init__(
        self,
        run: Run[T],
        start: Callable[[Stopper], Generator[Any, None, Result[T]]],
        on_event: Callable[[Any], object] | None,
    ) -> None:
        self._run = run
        super().__init__(start)
        self._items = _ItemFilter(on_event)

    @property
    def result(self) -> Result[T]:
        """The result so far; the whole result once the run is at its end."""
        return self._run.result

    def __iter__(self) -> Iterator[AgentStreamItem | Result[T]]:
        with short_traceback:
            for event in self._remaining_events():
                if (item := self._items.item(event)) is not None:
                    yield item
            yield self.result

    def text_deltas(self) -> Iterator[str]:
        """The pieces of the text of all steps as strings, and nothing else; the result is in `result`."""
        with short_traceback:
            for item in self:
                if isinstance(item, TextDelta):
                    yield item.text


class AsyncAgentStream(AsyncClosableStream, Generic[T]):
    """A running agent, async. Iterate over it for the events; the last item is the Result.

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
        start: Callable[[Stopper], AsyncGenerator[Any, None]],
        results: list[Result[T]],
        on_event: Callable[[Any], object] | None,
    ) -> None:
        self._run = run
        super().__init__(start, results)
        self._items = _ItemFilter(on_event)

    @property
    def result(self) -> Result[T]:
        """The result so far; the whole result once the run is at its end."""
        return self._run.result

    async def __aiter__(self) -> AsyncIterator[AgentStreamItem | Result[T]]:
        with short_traceback:
            try:
                async for event in self._events:
                    if (item := self._items.item(event)) is not None:
                        yield item
                yield self._final_result()
            finally:
                await self._loop_ended()

    async def text_deltas(self) -> AsyncIterator[str]:
        """As `AgentStream.text_deltas`, async."""
        with short_traceback:
            try:
                async for event in self._events:
                    if isinstance(item := self._items.item(event), TextDelta):
                        yield item.text
                self._final_result()
            finally:
                await self._loop_ended()
