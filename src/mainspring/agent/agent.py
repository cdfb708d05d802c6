"""The public Agent: the core agent, with plugins created from options."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, Unpack, cast, overload

from msgspec.structs import replace

from mainspring.agent.conversation import Conversation
from mainspring.agent.lifecycle import PreparedRun, SessionLifecycle
from mainspring.agent.options import (
    AgentOptions,
    ConversationOptions,
    RunOptions,
    StreamOptions,
    add_output_type,
    normalize_tools,
    resolve_model,
    validate_agent_options,
    validate_behavior,
    validate_deps,
    validate_run_options,
)
from mainspring.agent.outputs import ExpectedOutput
from mainspring.agent.plugs import (
    INHERITED_OPTIONS,
    bind_sampling,
    close_servers,
    configure_disclosure,
    conversation_plugs,
    create_plugs,
    find_tool_search,
    to_environment,
)
from mainspring.agent.policy_agent import PolicyAgent
from mainspring.errors import (
    AgentAbortedError,
    AgentBusyError,
    AgentOutputError,
    attribute_error,
    check_option_names,
)
from mainspring.lazy import lazy_class, lazy_function
from mainspring.loop import LoopOptions, Prompt, RunHandle, RunResult
from mainspring.models import (
    ModelProvider,
    ThinkingLevel,
)
from mainspring.models.auth.credentials import ApiKeyProvider
from mainspring.models.langchain.detect import adapt_model
from mainspring.models.port import with_api_key
from mainspring.run_options import RunOptions as Behavior
from mainspring.tools import LazyTool, RunContext, ToolRegistry
from mainspring.tools.tool import AGENT_SOURCE
from mainspring.type_variables import AgentDepsT, AgentOutputT, DefaultOutput, ExactDepsT, ExactOutputT

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from mainspring.agent.as_tool import AgentTool, create_agent_tool
    from mainspring.agent.handoffs import Handoff, Handoffs, Successor
    from mainspring.agent.subagent_factory import SubagentFactory
    from mainspring.env.scoped import scope_environment
    from mainspring.extensions.plug import Extensions
    from mainspring.policies.structured.partial import PartialOutput
    from mainspring.policies.structured.plug import validator_takes_context
    from mainspring.subagents import NestedSteps, ParentContext, SubagentRun, Subagents
    from mainspring.tools.schema.output import OutputSchema, call_function
    from mainspring.tools.toolset import ToolSource
else:
    scope_environment = lazy_function("mainspring.env.scoped", "scope_environment")
    Extensions = lazy_class("mainspring.extensions.plug", "Extensions")
    NestedSteps = lazy_class("mainspring.subagents.run", "NestedSteps")
    ParentContext = lazy_class("mainspring.subagents.run", "ParentContext")
    Subagents = lazy_class("mainspring.subagents.plug", "Subagents")
    create_agent_tool = lazy_function("mainspring.agent.as_tool", "create_agent_tool")
    Handoffs = lazy_function("mainspring.agent.handoffs", "Handoffs")
    Successor = lazy_function("mainspring.agent.handoffs", "Successor")
    SubagentFactory = lazy_function("mainspring.agent.subagent_factory", "SubagentFactory")
    PartialOutput = lazy_function("mainspring.policies.structured.partial", "PartialOutput")
    call_function = lazy_function("mainspring.tools.schema.output", "call_function")
    validator_takes_context = lazy_function("mainspring.policies.structured.plug", "validator_takes_context")

SystemPrompt = str | Callable[[RunContext[ExactDepsT]], str] | Callable[[RunContext[ExactDepsT]], Awaitable[str]]
"""A system prompt: text, or a function of the context, sync or async, that returns it at the start of each run."""


_NO_RUN_OPTIONS: tuple[dict[str, Any], Behavior] = {}, Behavior()


class Agent(PolicyAgent, DefaultOutput, Generic[AgentDepsT, AgentOutputT]):
    """An agent: one conversation with a model that can use tools. ``Agent[Deps, Output]`` is typed from end to end.

    ```python
    agent = Agent("openai:gpt-5-mini", system="Answer briefly.", tools=[forecast])
    result = await agent.run("What should I pack for Oslo?")   # result.output: str

    reporter = Agent("openai:gpt-5-mini", deps_type=Db, output_type=Report)
    result = await reporter.run("Sales in May?", deps=db)      # result.output: Report
    ```

    Without ``permissions`` every call is allowed; the command-line program has its own defaults.

    Args:
        model: ``provider:model``, a model of the default provider, a `ModelProvider`, or a chat model of LangChain. ``None`` uses
            ``$AGENT_MODEL``.
        deps_type: Type of the dependencies. Each run then needs ``deps=...``, which tools, system prompts, validators, and hooks
            find in their context. The type of ``deps`` is checked if it is a class.
        output_type: Type of the output: any type that JSON can express (a msgspec struct, a dataclass, a `TypedDict`, a pydantic
            model, an enum, a `Literal`, a list, ``A | B``, ...), an output function (its arguments are the schema, its result is
            the output), a list of those, or a JSON Schema. Default: the text of the response.
        system: System prompt: text, or a function of the `RunContext` that returns it at the start of each run.
        tools: Tools, `Toolset`s, or plain functions that become tools.
        handoffs: Agents to which the model can hand the conversation over, or `Handoff` objects with options. The
            output of a run is that of the agent that answers.
        **options: Further options, see `AgentOptions`.

    Raises:
        ConfigError: If no model is named, a tool name is taken, a hook is unknown, the folder does not exist, or an option has an
            invalid value.
        TypeError: If an option is unknown, or a function cannot be a tool.
    """

    _is_conversation = False

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(self, "Agent", name)

    @overload
    def __init__(
        self,
        model: ModelProvider | str | None = None,
        *,
        deps_type: TypeForm[AgentDepsT] = None,
        output_type: TypeForm[AgentOutputT] = ...,
        system: SystemPrompt[AgentDepsT] = "",
        tools: Iterable[ToolSource[AgentDepsT]] = (),
        handoffs: Iterable[Handoff[AgentDepsT, AgentOutputT] | Agent[AgentDepsT, AgentOutputT]] = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: ModelProvider | str | None = None,
        *,
        deps_type: TypeForm[AgentDepsT] = None,
        output_type: Callable[..., Awaitable[AgentOutputT]],
        system: SystemPrompt[AgentDepsT] = "",
        tools: Iterable[ToolSource[AgentDepsT]] = (),
        handoffs: Iterable[Handoff[AgentDepsT, AgentOutputT] | Agent[AgentDepsT, AgentOutputT]] = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: ModelProvider | str | None = None,
        *,
        deps_type: TypeForm[AgentDepsT] = None,
        output_type: Callable[..., AgentOutputT]
        | Sequence[Callable[..., AgentOutputT] | Callable[..., Awaitable[AgentOutputT]]],
        system: SystemPrompt[AgentDepsT] = "",
        tools: Iterable[ToolSource[AgentDepsT]] = (),
        handoffs: Iterable[Handoff[AgentDepsT, AgentOutputT] | Agent[AgentDepsT, AgentOutputT]] = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[ExactDepsT, Any],
        model: ModelProvider | str | None = None,
        *,
        deps_type: TypeForm[ExactDepsT] = None,
        output_type: Mapping[str, Any],
        system: SystemPrompt[ExactDepsT] = "",
        tools: Iterable[ToolSource[ExactDepsT]] = (),
        handoffs: Iterable[Handoff[ExactDepsT, Any] | Agent[ExactDepsT, Any]] = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(
        self,
        model: ModelProvider | str | None = None,
        *,
        deps_type: Any = None,
        output_type: Any = ...,
        system: SystemPrompt[Any] = "",
        tools: Iterable[Any] = (),
        handoffs: Iterable[Any] = (),
        **options: Unpack[AgentOptions],
    ) -> None:
        model, provider = adapt_model(model), adapt_model(options.get("provider"))
        validate_agent_options(options, model=model, provider=provider, system=system, tools=tools)
        self.given_options = frozenset(options)
        self._deps_type: Any = None if deps_type is type(None) else deps_type
        self._system_function = None if isinstance(system, str) else system
        self._output = ExpectedOutput()
        is_typed, output_type = output_type is not ..., str if output_type is ... else output_type
        behavior = add_output_type(output_type, options.pop("behavior", None))
        if output_type is not str:
            self._output.get_schema(behavior.schema)  # so that an invalid type is an error here
        installed = create_plugs(options)
        self._handoffs: Handoffs | None = Handoffs(handoffs, has_output_type=is_typed) if handoffs else None
        if self._handoffs is not None:
            installed.append(self._handoffs)
        self._above: Subagents | None = None
        self._subagents = next((p for p in installed if isinstance(p, Subagents)), None)
        if self._subagents is not None:
            self._bind_subagents(self._subagents)
        self.extensions = next((p for p in installed if isinstance(p, Extensions)), None)
        self._run_model: ModelProvider | None = None
        self._run_options: tuple[dict[str, Any], Behavior] = _NO_RUN_OPTIONS
        self._lifecycle = SessionLifecycle(self, self.extensions)
        self.get_api_key: ApiKeyProvider | None = options.pop("get_api_key", None)
        ledger = options.pop("ledger", None)
        options.pop("provider", None)
        env = to_environment(options.pop("execution", None))
        every: dict[str, Any] = {**options, "tools": normalize_tools(tools or ())}
        self._inherited = {name: value for name, value in every.items() if name in INHERITED_OPTIONS}
        super().__init__(
            self._use_key(resolve_model(model, provider, self.get_api_key, needs_key=False)),
            env=env,
            system=system if isinstance(system, str) else "",
            behavior=behavior,
            plugs=installed,
            ledger=ledger,
            **every,
        )
        bind_sampling(self)
        self.extra = {**self.extra, "call_agent": self._prepare_subagents}

    def _bind_subagents(self, subagents: Subagents) -> None:
        subagents.bind_host(SubagentFactory(self, Agent, self._child_defaults, lambda: self._policies.over_limit()))

    def _prepare_subagents(self) -> Subagents:
        """Return the plugin that runs agents which are tools."""
        if self._subagents is None:
            self._subagents = Subagents(spawn=False)
            self._bind_subagents(self._subagents)
            self._subagents.install(self)
            self.plugs = (*self.plugs, self._subagents)
            if self._above is not None:
                self._subagents.join(self._above)
        return self._subagents

    def join(self, parent: Agent[Any, Any]) -> None:
        """Run as a subagent of another agent: share its limits, the number of its subagents, and its servers."""
        self._is_conversation = True
        self._above = parent._subagents
        if self._subagents is not None and self._above is not None:
            self._subagents.join(self._above)

    @property
    def running(self) -> bool:
        """Return True if a run is in progress or about to begin."""
        return super().running or self._lifecycle.is_preparing

    def abort(self, reason: str = "aborted") -> None:
        """Abort the run, which raises AgentAbortedError. Does nothing without a run. Thread-safe."""
        self._lifecycle.abort(reason)
        super().abort(reason)

    @overload
    def conversation(
        self: Agent[None, AgentOutputT], *, deps: None = None, **options: Unpack[ConversationOptions]
    ) -> Conversation[None, AgentOutputT]: ...
    @overload
    def conversation(
        self: Agent[ExactDepsT, AgentOutputT], *, deps: ExactDepsT, **options: Unpack[ConversationOptions]
    ) -> Conversation[ExactDepsT, AgentOutputT]: ...
    def conversation(self, *, deps: Any = None, **options: Unpack[ConversationOptions]) -> Conversation[Any, Any]:
        """Create a separate conversation with this agent, for example for each user of a server.

        Args:
            deps: The dependencies of its runs, of the agent's ``deps_type``.
            **options: See `ConversationOptions`.

        Raises:
            ConfigError: If the dependencies have the wrong type, or the session is of another conversation.
        """
        validate_deps(deps, self._deps_type)
        check_option_names("conversation", options, ConversationOptions.__optional_keys__)
        return Conversation(self.create_counterpart, deps, **options)

    @overload
    def as_tool(
        self: Agent[None, AgentOutputT], name: str = "", description: str = ""
    ) -> AgentTool[object, AgentOutputT]: ...
    @overload
    def as_tool(self, name: str = "", description: str = "") -> AgentTool[AgentDepsT, AgentOutputT]: ...
    def as_tool(self, name: str = "", description: str = "") -> AgentTool[Any, Any]:
        """Create a tool that runs this agent for one task, for ``tools`` of another agent.

        Each call is a separate conversation, which is not stored. It runs as a subagent of the agent that calls: under the limits,
        permissions, and gates of that agent in addition to its own, with the same dependencies, and in the same environment unless
        this one has its own ``execution``. Its output is the result of the call.

        Args:
            name: Name of the tool. Default: that of this agent.
            description: Purpose of the tool, for the model.

        Raises:
            ConfigError: If the name is not a valid tool name.
        """
        return create_agent_tool(self, name or self.name, description)

    def create_counterpart(self, options: dict[str, Any]) -> Agent[Any, Any]:
        """Create the agent of another conversation: it shares the model, tools, servers, and the handlers of the application.

        Args:
            options: Options that replace those of this agent, and further ``plugs``.
        """
        inherited = {
            **self._inherited,
            "execution": scope_environment(self.env),
            "steps": self.steps.for_child() if isinstance(self.steps, NestedSteps) else None,
        }
        options = {**inherited, **options, "plugs": [*conversation_plugs(self.plugs), *options["plugs"]]}
        agent: Agent[Any, Any] = Agent(
            self.model,
            system=self._system_function or self.context.system,
            behavior=self.behavior,
            **cast("Any", options),
        )
        agent._is_conversation = True
        agent._handoffs = cast("Any", next((p for p in agent.plugs if type(p) is type(self._handoffs)), None))
        agent._deps_type, agent._output, agent.get_api_key = self._deps_type, self._output.copy(), self.get_api_key
        for register in self.registrations or ():
            register(agent)
        return agent

    async def shutdown(self, reason: str = "exit") -> None:
        """Notify handlers of `session:shutdown` that the session is closed in this process, and stop its MCP servers, and those of
        agents of ``handoffs`` and `as_tool`. This happens automatically when the process exits; a program that continues calls it when
        it no longer needs the agent. A server that another agent still needs is started again.
        """
        try:
            await self._lifecycle.shutdown(reason)
        finally:
            await close_servers([self] if self._is_conversation else self.with_other_agents())

    @property
    def other_agents(self) -> Sequence[Agent[Any, Any]]:
        """The agents to which this one can hand over, and those that are its tools."""
        targets: list[Any] = [handoff.agent for handoff in self._handoffs.own] if self._handoffs is not None else []
        return [*targets, *(cast("Any", tool).agent for tool in self.tools if tool.source == AGENT_SOURCE)]

    @property
    def children(self) -> tuple[SubagentRun, ...]:
        """The subagents that run or wait; each can be stopped with its ``abort()``."""
        return self._subagents.children if self._subagents is not None else ()

    @overload
    def output_validator(
        self: Agent[ExactDepsT, ExactOutputT],
        validator: Callable[[RunContext[ExactDepsT], ExactOutputT], Awaitable[ExactOutputT]],
        /,
    ) -> Callable[[RunContext[ExactDepsT], ExactOutputT], Awaitable[ExactOutputT]]: ...
    @overload
    def output_validator(
        self: Agent[ExactDepsT, ExactOutputT],
        validator: Callable[[RunContext[ExactDepsT], ExactOutputT], ExactOutputT],
        /,
    ) -> Callable[[RunContext[ExactDepsT], ExactOutputT], ExactOutputT]: ...
    @overload
    def output_validator(
        self: Agent[Any, ExactOutputT], validator: Callable[[ExactOutputT], Awaitable[ExactOutputT]], /
    ) -> Callable[[ExactOutputT], Awaitable[ExactOutputT]]: ...
    @overload
    def output_validator(
        self: Agent[Any, ExactOutputT], validator: Callable[[ExactOutputT], ExactOutputT], /
    ) -> Callable[[ExactOutputT], ExactOutputT]: ...
    def output_validator(self, validator: Callable[..., Any], /) -> Callable[..., Any]:
        """Register a function that checks or replaces each output: ``@agent.output_validator``.

        It takes the output, or the `RunContext` and the output, and returns the output. It is sync or async. Raise `ToolError` to
        reject the output: the model gets the text, and tries again up to ``max_output_retries`` times. Another exception ends
        the run as an `AgentOutputError`.

        Raises:
            ConfigError: If it takes another number of arguments.
        """
        validator_takes_context(validator)
        self._output.validators.append(validator)
        return validator

    @overload
    async def run(
        self: Agent[None, AgentOutputT], prompt: Prompt = "", *, deps: None = None, **options: Unpack[RunOptions]
    ) -> RunResult[AgentOutputT]: ...
    @overload
    async def run(
        self, prompt: Prompt = "", *, deps: AgentDepsT, **options: Unpack[RunOptions]
    ) -> RunResult[AgentOutputT]: ...
    async def run(self, prompt: Prompt = "", *, deps: Any = None, **options: Unpack[RunOptions]) -> RunResult[Any]:
        """Run to the end; see `CoreAgent.run`.

        Args:
            prompt: The user's message.
            deps: The dependencies, of the agent's ``deps_type``.
            **options: Options for this run only, see `RunOptions`.
        """
        return await super().run(prompt, deps=deps, **options)

    @overload
    def stream(
        self: Agent[None, AgentOutputT],
        prompt: Prompt = "",
        *,
        subagents: bool = False,
        deps: None = None,
        **options: Unpack[StreamOptions],
    ) -> RunHandle[AgentOutputT]: ...
    @overload
    def stream(
        self, prompt: Prompt = "", *, subagents: bool = False, deps: AgentDepsT, **options: Unpack[StreamOptions]
    ) -> RunHandle[AgentOutputT]: ...
    def stream(
        self, prompt: Prompt = "", *, subagents: bool = False, deps: Any = None, **options: Unpack[StreamOptions]
    ) -> RunHandle[Any]:
        """Run and stream the events; see `CoreAgent.stream`, and `run` for the options."""
        validate_run_options(options)  # check now, not only when the result is awaited
        validate_deps(deps, self._deps_type)
        run: RunHandle[Any] = super().stream(prompt, subagents=subagents, deps=deps, **options)
        schema = (options.get("behavior") or Behavior()).merged_with(self.behavior).schema
        find = self._handoffs.get_output_schema if self._handoffs is not None else None
        run.create_output_reader = lambda: PartialOutput(self._output.get_schema(schema), find).read
        return run

    @overload
    def run_sync(
        self: Agent[None, AgentOutputT], prompt: Prompt = "", *, deps: None = None, **options: Unpack[RunOptions]
    ) -> RunResult[AgentOutputT]: ...
    @overload
    def run_sync(
        self, prompt: Prompt = "", *, deps: AgentDepsT, **options: Unpack[RunOptions]
    ) -> RunResult[AgentOutputT]: ...
    def run_sync(self, prompt: Prompt = "", *, deps: Any = None, **options: Unpack[RunOptions]) -> RunResult[Any]:
        """Run to the end and block until then; see `run` for the options.

        Raises:
            RuntimeError: Inside a running event loop (a notebook, a web server): await `run` there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(prompt, {"deps": deps, **options}))
        raise RuntimeError(
            "An event loop is already running. Use `await agent.run(...)` instead of `agent.run_sync(...)`."
        )

    async def _run(
        self,
        prompt: Prompt,
        *,
        model: ModelProvider | str | None = None,
        thinking: ThinkingLevel | None = None,
        behavior: LoopOptions | None = None,
        tools: Iterable[ToolSource] | None = None,
        deps: Any = None,
        **options: Any,
    ) -> RunResult:
        model = adapt_model(model)
        validate_deps(deps, self._deps_type)
        validate_run_options({"model": model, "tools": tools, **options})
        validate_behavior(self.behavior)  # which may have been set since
        behavior = validate_behavior(behavior) or Behavior()
        if thinking is not None:
            validate_behavior(Behavior(thinking=thinking))
            behavior = Behavior(thinking=thinking).merged_with(behavior)
        request = self.model if model is None else self._use_key(resolve_model(model, None, self.get_api_key))
        given = (
            None
            if tools is None
            else [await t.factory() if isinstance(t, LazyTool) else t for t in normalize_tools(tools)]
        )
        if super().running:
            return await super()._run(prompt)  # raises, and leaves the policies of the current run unchanged
        self._check_run()
        configure_disclosure(self, behavior.merged_with(self.behavior))
        if self._system_function is not None and options.get("system") is None:
            self.context.system = await call_function(self._system_function, self._create_context(deps))
        if self._lifecycle.needed:
            entered = await self._prepare_run(prompt, {**options, "deps": deps})
            if entered.result is not None:
                wants_text = behavior.merged_with(self.behavior).schema is None
                return entered.result if wants_text else self._without_output(entered.result)
            prompt, options = entered.prompt, entered.options
        settled = behavior.merged_with(self.behavior)
        offered = [*self.tools, *self._lazy] if given is None else given
        values = {"behavior": behavior, "system": options.get("system"), "model": model and request}
        values["tools"] = None if given is None else ToolRegistry(given)
        self._run_options = {name: value for name, value in values.items() if value is not None}, settled
        with ExitStack() as ending:
            ending.callback(self._output.detach)
            self._output.attach(self._output.create_check(settled), self.bus, self._create_context)
            ending.enter_context(self._policies.attached(settled, offered, request))
            self._run_model = request
            ending.callback(setattr, self, "_asked", None)
            return await super()._run(
                prompt, model=request, behavior=behavior, tools=given, **{"deps": deps, **options}
            )

    async def prepare_successor(self, deps: AgentDepsT) -> Successor[AgentOutputT]:
        """Return what the run of another agent needs to continue as this one; see `Handoff`."""
        validate_deps(deps, self._deps_type)
        await self.warmup(wait_for_late=False)
        system = self.context.system
        if self._system_function is not None:
            system = await call_function(self._system_function, self._create_context(deps))
        tools, aliases, output = self.context.tools, self.tool_aliases, self._output.create_check(self.behavior)
        return Successor(self.name, self.model, system, tools, self.behavior, aliases, output)

    def redirect_run(self, to: Successor[Any], *, resumed: bool = False) -> None:
        """Continue the active run as another agent, under the limits and hooks of this one; see `Successor.with_options`."""
        assert self._current.redirect is not None
        given, settled = self._run_options
        to = to.with_options(given, settled, resumed=resumed)
        self._run_model = to.model
        if given["behavior"].schema is None:
            self._output.attach(to.output, self.bus, self._create_context)
        self._current.redirect(to.to_redirect())

    @property
    def output_schema(self) -> OutputSchema | None:
        """The expected output; ``None`` for the text of the response."""
        return self._output.get_schema(self.behavior.schema)

    def _without_output(self, handled: RunResult) -> RunResult:
        """Return the result of a prompt that did not reach the model, although structured output was requested."""
        reason = f"The prompt did not reach the model: {handled.text}"
        self._result = result = replace(handled, output_or_none=None, output_error=reason)
        if result.status == "completed":
            raise AgentOutputError(f"{reason} Send another prompt, or run without a schema.")
        return result

    async def _prepare_run(self, prompt: Prompt, options: dict[str, Any]) -> PreparedRun:
        if self._lifecycle.is_preparing:
            raise AgentBusyError
        self._result = None
        try:
            entered = await self._lifecycle.prepare_run(prompt, options)
        except AgentAbortedError:
            self._result = RunResult(status="aborted")
            raise
        self._result = entered.result
        return entered

    def _use_key(self, model: ModelProvider) -> ModelProvider:
        return model if self.get_api_key is None else with_api_key(model, self.get_api_key)

    def _finalize_result(self, result: RunResult) -> RunResult:
        """Return the result with the additions of policies and subagents."""
        result = self._output.add_to(result)
        if self._subagents is not None:
            result = replace(result, stats=replace(result.stats, children=self._subagents.stats))
        return result

    def _child_defaults(self) -> ParentContext:
        """Return the values that a subagent started now inherits, unless it is restricted."""
        tools, own = self._current.tools, find_tool_search(self.plugs)
        return ParentContext(
            model=self._run_model or self.model,
            system=self._current.system,
            tools=[t for name in tools.active if (t := tools.get(name)) is not None and t is not own],
            behavior=cast("Behavior", self._config.behavior) if self._config else self.behavior,
            plugs=self.active_plugs,
            deps=self._config.deps if self._config else None,
        )

    async def _run_and_close(self, prompt: Prompt, options: dict[str, Any]) -> RunResult:
        try:
            return await self.run(prompt, **options)
        finally:
            await close_servers(
                self.with_other_agents(), shared=True
            )  # connections belong to this event loop, which ends now
            await self.model.aclose()


create_agent = Agent
"""Create an `Agent`."""
