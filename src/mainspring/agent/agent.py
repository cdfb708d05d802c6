"""The public Agent: the core agent, with plugins created from options."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Unpack, cast

from msgspec.structs import replace

from mainspring.agent.lifecycle import AssistPlug, PreparedRun, SessionLifecycle
from mainspring.agent.options import (
    AgentOptions,
    RunOptions,
    StreamOptions,
    normalize_tools,
    validate_agent_options,
    validate_behavior,
    validate_run_options,
)
from mainspring.agent.plugs import (
    DisclosureOption,
    SubagentsOption,
    TokenRefreshPlug,
    bind_sampling,
    close_servers,
    configure_disclosure,
    disclosure_plugs,
    find_skill_activator,
    find_tool_search,
    mcp_plugs,
    skills_plugs,
    subagents_plug,
)
from mainspring.agent.policies import RunPolicies
from mainspring.env import ExecutionEnv, LocalEnv
from mainspring.errors import AgentAbortedError, AgentBusyError, AgentOutputError, ConfigError, ProviderConfigError
from mainspring.events import ContextCompacted, RunStatus
from mainspring.extensions.api import Extension
from mainspring.extensions.plug import Extensions
from mainspring.lazy import lazy_function
from mainspring.loop import CoreAgent, LoopOptions, Plugin, Prompt, RunHandle, RunResult, Steps
from mainspring.loop.hooks import Hooks
from mainspring.messages import AgentMessage, Message, convert_to_llm
from mainspring.models import ModelProvider, ModelRequest, ProviderConfig, ThinkingLevel, create_model, default_registry
from mainspring.models.auth.credentials import ApiKeyProvider, bind_provider
from mainspring.models.langchain.detect import adapt_model
from mainspring.models.port import with_api_key
from mainspring.policies.budgets import Ledger
from mainspring.policies.compaction import Compaction, CompactionResult, compact_history
from mainspring.run_options import RunOptions as Behavior
from mainspring.subagents import NestedSteps, ParentContext, SubagentRequest, SubagentRun, Subagents
from mainspring.tools import LazyTool, Tool

if TYPE_CHECKING:  # a caller that passes one has imported it
    from mainspring.agent.options import McpServersOption
    from mainspring.agent.plugs import SkillsOption
    from mainspring.callbacks import AgentCallbacks, CallbacksPlug
    from mainspring.mcp import McpConnector
    from mainspring.memory import Memory
    from mainspring.permissions import Permissions
    from mainspring.policies.structured import StructuredOutput
    from mainspring.sessions import Session
else:
    CallbacksPlug = lazy_function("mainspring.callbacks", "CallbacksPlug")
    StructuredOutput = lazy_function("mainspring.policies.structured", "StructuredOutput")

_ASIDE = (
    "This is a side question while the task continues. Answer it briefly from the conversation so far, without calling a tool. "
    "It does not change the task.\n\n"
)


class Agent(CoreAgent):
    """An agent: one conversation with a model that can use tools.

    ```python
    agent = Agent("openai:gpt-5-mini", system="Answer briefly.", tools=[forecast])
    result = await agent.run("What should I pack for Oslo?")
    ```

    Without ``permissions`` every call is allowed; the command-line program has its own defaults.

    Args:
        model: ``provider:model``, a model of the default provider, a `ModelProvider`, or a chat model of LangChain. ``None`` uses
            ``$AGENT_MODEL``.
        provider: Name of the provider, if ``model`` is only a model ID; or the `ModelProvider` itself.
        name: Name of the agent.
        system: System prompt.
        tools: Tools, or plain functions that become tools.
        behavior: Limits and options for all runs.
        execution: Environment of the tools: an `ExecutionEnv`, or a folder. Default: the current folder.
        session: Storage of the conversation. Default: only in memory.
        permissions: Permissions of the tools.
        memory: Memory of earlier conversations, read-only or writable; see `Memory`.
        skills: Skills that it can activate when a task needs them: folders of them, a `SkillsConfig`, or `Skills` with further
            options.
        tool_disclosure: Whether the model gets tools of MCP servers immediately (``eager``) or by name, until it searches for them
            (``lazy``); or a `Disclosure` with further options. A server's own setting takes precedence. Default: eager.
        mcp_servers: Servers of the Model Context Protocol whose tools it gets: a list of configurations, a mapping by name, or `Mcp`
            with further options.
        mcp_connector: Replacement for the official MCP SDK; for tests.
        subagents: Whether it may start subagents; or which kinds, or a `Subagents` with further options. Default: none.
        extensions: Functions that extend it, or an `Extensions` with further options.
        callbacks: Functions that are notified of its actions.
        plugs: Further plugins, after those of the options.
        hooks: Handlers for the agent's lifetime, by hook.
        messages: Initial history.
        steps: Side effects of runs; for durable engines, recording, and tests.
        ledger: The `ledger` of the agent whose run started this agent; spending is added to it, too.
        **options: Further options, see `AgentOptions`. ``tool_aliases``: the alias of a tool for the model, by the tool's own name.
            ``eager``: whether to prepare the first run now, in the background; see `warmup`. ``convert``, ``transform``: the
            conversion of the history for a request. ``get_steering``, ``get_follow_up``: functions that return messages for the next
            tool boundary, and for the end of a run. ``extra``: passed to every tool. ``get_api_key``: returns the API key of a
            provider by name, for each request, for example a token that expires.

    Raises:
        ConfigError: If no model is named, a tool name is taken, a hook is unknown, the folder does not exist, or an option has an
            invalid value.
        TypeError: If an option is unknown, or a function cannot be a tool.
    """

    behavior: Behavior

    def __init__(
        self,
        model: ModelProvider | str | None = None,
        *,
        provider: ModelProvider | str | None = None,
        name: str = "agent",
        system: str = "",
        tools: Iterable[Tool | LazyTool | Callable[..., Any]] = (),
        behavior: Behavior | None = None,
        execution: ExecutionEnv | str | os.PathLike[str] | None = None,
        session: Session | None = None,
        permissions: Permissions | None = None,
        memory: Memory | None = None,
        skills: SkillsOption | None = None,
        mcp_servers: McpServersOption | None = None,
        mcp_connector: McpConnector | None = None,
        tool_disclosure: DisclosureOption | None = None,
        subagents: SubagentsOption | None = None,
        extensions: Extensions | Iterable[Extension] | None = None,
        callbacks: AgentCallbacks | None = None,
        plugs: Iterable[Plugin] = (),
        hooks: Hooks | None = None,
        messages: str | Iterable[AgentMessage] = (),
        steps: Steps | None = None,
        ledger: Ledger | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        model, provider = adapt_model(model), adapt_model(provider)
        validate_agent_options(
            _NAMED_OPTIONS, options, model=model, provider=provider, name=name, system=system, tools=tools, execution=execution,
            subagents=subagents, extensions=extensions, callbacks=callbacks, plugs=plugs, hooks=hooks, messages=messages,
            steps=steps, ledger=ledger,
        )  # fmt: skip
        validate_behavior(behavior)
        installed: list[Plugin] = []
        if permissions is not None:
            installed.append(_check_plug(permissions, "permissions=Permissions(...)"))
        if session is not None:
            installed.append(
                _check_plug(
                    session.plug() if hasattr(session, "plug") else cast("Any", session), "session=Session.create()"
                )
            )
        if memory is not None:
            installed.append(_check_plug(memory, "memory=Memory(...)"))
        installed += skills_plugs(skills)
        installed += [
            _check_plug(plug, "plugs=[...], of objects with install(agent) and for_child()") for plug in plugs
        ]
        installed += mcp_plugs(mcp_servers, mcp_connector)
        installed += disclosure_plugs(tool_disclosure, installed)
        spawning = subagents_plug(subagents)
        if spawning is not None:
            installed.append(spawning)
        if extensions is not None:
            installed.append(extensions if isinstance(extensions, Extensions) else Extensions(extensions))
        if not any(isinstance(p, AssistPlug) for p in installed):
            installed.append(AssistPlug())
        installed.append(TokenRefreshPlug())
        if callbacks is not None:
            installed.append(CallbacksPlug(callbacks))
        self._subagents = next((p for p in installed if isinstance(p, Subagents)), None)
        if self._subagents is not None:
            self._subagents.bind_host(
                SubagentFactory(self, Agent, self._child_defaults, lambda: self._policies.over_limit())
            )
        self._run_model: ModelProvider | None = None
        core_options: dict[str, Any] = dict(options)
        self.get_api_key: ApiKeyProvider | None = core_options.pop("get_api_key", None)
        self._structured: StructuredOutput | None = None
        self.extensions = next((p for p in installed if isinstance(p, Extensions)), None)
        self._lifecycle = SessionLifecycle(self, self.extensions)
        super().__init__(
            self._use_key(_resolve_model(model, provider, self.get_api_key)),
            env=LocalEnv(execution or ".")
            if execution is None or isinstance(execution, str | os.PathLike)
            else execution,
            name=name,
            system=system,
            tools=normalize_tools(tools),
            behavior=behavior or Behavior(),
            plugs=installed,
            hooks=hooks,
            messages=messages,
            steps=steps,
            **core_options,
        )
        self._policies = RunPolicies(self, ledger)
        bind_sampling(self)

    @property
    def running(self) -> bool:
        """Return True if a run is in progress or about to begin."""
        return super().running or self._lifecycle.is_preparing

    def abort(self, reason: str = "aborted") -> None:
        """Abort the run, which raises AgentAbortedError. Does nothing without a run. Thread-safe."""
        self._lifecycle.abort(reason)
        super().abort(reason)

    async def shutdown(self, reason: str = "exit") -> None:
        """Notify handlers of `session:shutdown` that the session is closed in this process, and stop its MCP servers. This happens
        automatically when the process exits; a program that continues calls it when it no longer needs the agent.
        """
        try:
            await self._lifecycle.shutdown(reason)
        finally:
            await close_servers(self)

    @property
    def ledger(self) -> Ledger:
        """The spending of the current run, subagents included; between runs, of the whole conversation."""
        return self._policies.ledger

    @property
    def children(self) -> tuple[SubagentRun, ...]:
        """The subagents that run or wait; each can be stopped with its ``abort()``."""
        return self._subagents.children if self._subagents is not None else ()

    async def activate_skill(self, name: str) -> None:
        """Activate a skill: its text is added to the next or current run, and it is deactivated when that run ends. If it is activated
        again while active, it stays active for one more run.

        Raises:
            ConfigError: If the skill is unknown, it cannot be read, or too many are active.
            AgentError: If the agent has no skills.
        """
        await find_skill_activator(self.plugs).set_active(name)

    async def deactivate_skill(self, name: str) -> bool:
        """Deactivate a skill. Return True if it was active.

        Raises:
            AgentError: If the agent has no skills.
        """
        return await find_skill_activator(self.plugs).deactivate(name)

    def cancel_steering(self, id: str = "") -> tuple[AgentMessage, ...]:
        """Remove and return queued messages of `steer` that no run has processed yet; with ``id`` only the message of that ID."""
        waiting = self._steering.clear()
        cancelled = tuple([message for message in waiting if id in ("", message.id)])
        self._steering.put(*[message for message in waiting if id not in ("", message.id)])
        return cancelled

    async def compact(
        self,
        instructions: str = "",
        options: Compaction | None = None,
        on_problem: Callable[[str], object] | None = None,
    ) -> CompactionResult | None:
        """Compact the older part of the conversation now, between runs. A session keeps all of it.

        Args:
            instructions: Topics that the summary should focus on.
            options: Options of the compaction; the agent's own by default.
            on_problem: Called with the reason if the conversation is not compacted.

        Returns:
            The result; ``None`` if the history needs no summary, or if the summary failed (the history is then unchanged).

        Raises:
            AgentBusyError: While a run is in progress.
        """
        if self.running:
            raise AgentBusyError("This agent is running. Compact its conversation when the run has ended.")
        before = self.messages
        options = options or self.behavior.compaction
        compacted = await compact_history(before, self.model, options, instructions=instructions, on_problem=on_problem)
        if compacted is None:
            return None
        self.context.messages[:] = compacted[0]
        await self.bus.notify(ContextCompacted.from_messages("asked", before, self.messages))
        return compacted[1]

    async def ask_aside(self, question: str) -> Message:
        """Answer a question from the conversation so far, also during a run. The conversation stays unchanged.

        The model calls no tool. The usage in the response is not added to any budget.

        Raises:
            ModelError: If the call failed.
        """
        request = ModelRequest(
            [*convert_to_llm(self.messages), Message.user(f"{_ASIDE}{question}")],
            system=self.context.system,
            tools=self.tools.specs,  # unchanged, so that the provider's prompt cache applies
            tool_choice="none",
            thinking=self.thinking,
            session_id=self.session_id or None,
        )
        return (await self.model.complete(request)).message

    async def run(self, prompt: Prompt = "", **options: Unpack[RunOptions]) -> RunResult:
        """Run to the end; see `CoreAgent.run`. Options, each for this run only, are those of `RunOptions`."""
        return await super().run(prompt, **options)

    def stream(self, prompt: Prompt = "", *, subagents: bool = False, **options: Unpack[StreamOptions]) -> RunHandle:
        """Run and stream the events; see `CoreAgent.stream`. Options are those of `StreamOptions`."""
        validate_run_options(options)  # check now, not only when the result is awaited
        return super().stream(prompt, subagents=subagents, **options)

    def run_sync(self, prompt: Prompt = "", **options: Unpack[RunOptions]) -> RunResult:
        """Run to the end and block until then; see `run` for the options.

        Raises:
            RuntimeError: Inside a running event loop (a notebook, a web server): await `run` there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(prompt, options))
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
        tools: Iterable[Tool | LazyTool | Callable[..., Any]] | None = None,
        **options: Any,
    ) -> RunResult:
        model = adapt_model(model)
        validate_run_options({"model": model, "tools": tools, **options})
        validate_behavior(self.behavior)  # which may have been set since
        behavior = validate_behavior(behavior) or Behavior()
        if thinking is not None:
            validate_behavior(Behavior(thinking=thinking))
            behavior = Behavior(thinking=thinking).merged_with(behavior)
        request = self.model if model is None else self._use_key(_resolve_model(model, None, self.get_api_key))
        given = (
            None
            if tools is None
            else [await t.factory() if isinstance(t, LazyTool) else t for t in normalize_tools(tools)]
        )
        if super().running:
            return await super()._run(prompt)  # raises, and leaves the policies of the current run unchanged
        self._check_run()
        configure_disclosure(self, behavior.merged_with(self.behavior))
        if self._lifecycle.needed:
            entered = await self._prepare_run(prompt, options)
            if entered.result is not None:
                wants_text = behavior.merged_with(self.behavior).schema is None
                return entered.result if wants_text else self._without_output(entered.result)
            prompt, options = entered.prompt, entered.options
        settled = behavior.merged_with(self.behavior)
        offered = [*self.tools, *self._lazy] if given is None else given
        with ExitStack() as ending:
            self._structured = None
            if settled.schema is not None:
                self._structured = StructuredOutput(settled.schema, retries=settled.output_retries)
                ending.callback(self._structured.attach_to_bus(self.bus))
            ending.enter_context(self._policies.attached(settled, offered, request))
            self._run_model = request
            ending.callback(setattr, self, "_asked", None)
            return await super()._run(prompt, model=request, behavior=behavior, tools=given, **options)

    def _without_output(self, handled: RunResult) -> RunResult:
        """Return the result of a prompt that did not reach the model, although structured output was requested."""
        reason = f"The prompt did not reach the model: {handled.text}"
        self._result = result = replace(handled, output=None, output_error=reason)
        if result.status == "completed":
            raise AgentOutputError(f"{reason} Send another prompt, or run without a schema.")
        return result

    async def _prepare_run(self, prompt: Prompt, options: dict[str, Any]) -> PreparedRun:
        if self._lifecycle.is_preparing:
            raise AgentBusyError("This agent is already processing a prompt. Use another agent for a parallel run.")
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
        if self._structured is not None:
            result = self._structured.result(result)
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
        )

    async def _run_and_close(self, prompt: Prompt, options: RunOptions) -> RunResult:
        try:
            return await self.run(prompt, **options)
        finally:
            await close_servers(self)  # connections belong to this event loop, which ends now
            await self.model.aclose()


create_agent = Agent
"""Create an `Agent`."""

_NAMED_OPTIONS = ("model", *(Agent.__init__.__kwdefaults__ or ()))


def _check_plug(value: Any, expected: str) -> Plugin:
    if isinstance(value, type) or not isinstance(value, Plugin):
        raise ConfigError(f"{value!r:.80} is not a plugin. An agent takes {expected}.")
    return value


def _resolve_model(
    model: ModelProvider | str | None,
    provider: ModelProvider | str | None = None,
    get_api_key: ApiKeyProvider | None = None,
) -> ModelProvider:
    if provider is not None and not isinstance(provider, str):
        if model is not None:
            raise ConfigError("Pass either model or a ModelProvider as provider, not both.")
        return provider
    if isinstance(model, str) or model is None:
        try:
            return _create_model(model, provider)
        except ProviderConfigError as error:
            if get_api_key is None or error.reason != "missing_key":
                raise
            return _create_model(model, provider, bind_provider(get_api_key, error.provider or ""))
    if provider:
        raise ConfigError(f"The model already has the provider {model.provider}. Remove provider={provider!r}.")
    return model


def _create_model(model: str | None, provider: str | None, api_key: Any = None) -> ModelProvider:
    if provider:
        return default_registry().build(ProviderConfig(provider=provider, model=model, api_key=api_key))
    spec = (model or os.environ.get("AGENT_MODEL", "")).strip()
    if not spec:
        raise ConfigError(
            'No model. Pass one, for example Agent("openai:gpt-5-mini"), or set AGENT_MODEL=provider:model.'
        )
    return create_model(spec, api_key=api_key)


class SubagentFactory:
    """Creates subagents for an agent.

    Args:
        parent: The agent.
        make: The class of subagents: the public Agent, even if the parent has a custom class.
        child_defaults: Returns the values of the agent's run.
        reached_limit: Returns the limit that its run has reached, if any.
    """

    def __init__(
        self,
        parent: Agent,
        make: type[Agent],
        child_defaults: Callable[[], ParentContext],
        reached_limit: Callable[[], RunStatus | None],
    ) -> None:
        self.parent = parent
        self._make = make
        self.child_defaults = child_defaults
        self.reached_limit = reached_limit

    def create_subagent(self, request: SubagentRequest) -> Agent:
        """Create a subagent with the same environment and tool aliases, whose spending is added to the parent's."""
        parent = self.parent
        return self._make(
            request.model,
            name=request.name,
            system=request.system,
            tools=request.tools,
            behavior=request.behavior,
            execution=parent.env,
            plugs=request.plugs,
            ledger=parent.ledger,
            extra={k: v for k, v in parent.extra.items() if k != "spawn"},
            tool_aliases=parent.tool_aliases,
            get_api_key=parent.get_api_key if isinstance(request.model, str) else None,
            steps=parent.steps.for_child() if isinstance(parent.steps, NestedSteps) else None,
        )
