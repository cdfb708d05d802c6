"""The plugin with the tool that starts subagents, and their limits.

The parent receives the events of a subagent, and the parent's gates apply to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from mainspring.errors import AgentError, ConfigError, ToolError, check_option_names, describe_failure
from mainspring.events import ErrorInfo, RunStatus, SubagentEnd, SubagentStart
from mainspring.events.base import SubagentStats
from mainspring.loop import Plugin, RunResult
from mainspring.loop.hooks import (
    BeforeSpawn,
    Handler,
    Hook,
    McpToolGate,
    PermissionCheck,
    SessionStart,
    SubagentIdentity,
    ToolGate,
    TurnBefore,
)
from mainspring.run_options import RunOptions
from mainspring.subagents.definition import AgentDefinition
from mainspring.subagents.run import (
    DEFAULT_NAME,
    NestedSteps,
    SpawnOptions,
    SubagentCounter,
    SubagentHost,
    SubagentRequest,
    SubagentResult,
    SubagentRun,
    inherited_behavior,
    select_tools,
)
from mainspring.text import pluralize
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult, to_tool_result

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from mainspring.cancellation import CancelToken
    from mainspring.loop import CoreAgent
    from mainspring.loop.hooks import HookBus


SPAWN_TOOL = "spawn"
"""The name of the tool that starts a subagent."""
_T = TypeVar("_T")


_DESCRIPTION = (
    "Start a subagent: a separate agent that works on one task and returns its final answer. It begins with an empty "
    "conversation and sees nothing of this one, so the task must contain everything it needs to know, and what to answer with. Use it "
    "for work whose steps need not be seen here. Several calls in one reply run side by side."
)
_MAX_DESCRIPTION_CHARS = 400  # characters of a kind's description; every request contains all of them
_STATUS_NOTES = {
    "max_turns": "it reached its limit of turns",
    "max_total_tokens": "it reached its limit of tokens",
    "max_cost": "it reached its limit of cost",
    "max_seconds": "it reached its limit of time",
    "denied": "a call was denied",
    "paused": "it stopped at a call that the user must approve",
    "aborted": "it was stopped",
    "error": "it failed",
    "no_output": "it did not return the requested output",
}


def create_spawn_tool(subagents: Subagents) -> Tool:
    """Create the tool for one agent.

    Its text depends only on the definitions, so requests stay identical byte for byte.
    """

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        ctx.metadata(title=_title(arguments))
        result = await subagents.spawn(
            arguments["task"], arguments.get("agent", ""), tools=arguments.get("tools"), signal=ctx.signal
        )
        return to_parent_result(result, _title(arguments), subagents.max_result_chars)

    return Tool(
        name=SPAWN_TOOL,
        description=_description(subagents),
        input_schema=_schema(subagents),
        execute=execute,
        label="Subagent",
        source="builtin",
        access=lambda arguments: (),  # the tool itself accesses nothing; each call of the subagent is checked separately
    )


def to_parent_result(result: SubagentResult, title: str, max_characters: int) -> ToolResult:
    """Create the result for the parent's model, with statistics for applications."""
    stats = result.stats
    output = result.output_or_none
    returned = ToolResult(output=result.text) if output is None else to_tool_result(output, SPAWN_TOOL)
    answer = returned.text
    text = _truncate_middle(answer, max_characters)
    done = result.status == "completed"
    if not done:
        reason = _STATUS_NOTES.get(result.status, result.status) + (
            f" ({describe_failure(result.error)})" if result.error is not None else ""
        )
        text = (
            f"[The subagent did not finish: {reason}.{' What it had so far:' if text.strip() else ''}]\n{text}".rstrip()
        )
    elif not text.strip():
        calls = sum(stats.tool_counts.values())
        text = f"[The subagent ended without an answer, after {pluralize(stats.turns, 'turn')} and {pluralize(calls, 'tool call')}.]"
    failed = result.error is not None or not answer.strip()
    block = returned if text == answer else ToolResult(output=text)  # the first one has the value, too
    block.title, block.is_error = title, failed
    block.code = ToolErrorCode.UNKNOWN if failed else None
    block.metadata = {
        "child_id": stats.child_id,
        "agent": stats.child,
        "depth": stats.depth,
        "status": result.status,
        "turns": stats.turns,
        "tokens": stats.usage.total_tokens,
        "cost": stats.usage.cost.total if stats.usage.cost else None,
        "seconds": stats.seconds,
        "tool_counts": dict(stats.tool_counts),
    }
    return block


def _truncate_middle(text: str, limit: int) -> str:
    """Truncate a long text in the middle: the end contains the conclusion."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail]}\n[… {len(text) - limit} characters left out …]\n{text[-tail:] if tail else ''}"


def _title(arguments: dict[str, Any]) -> str:
    task = " ".join(str(arguments["task"]).split())
    name = arguments.get("agent")
    return f"{name}: {task[:80]}" if name else task[:80]


def _description(subagents: Subagents) -> str:
    if not subagents.definitions:
        return _DESCRIPTION
    lines = [_line(d.name, d.description) for d in subagents.definitions.values()]
    return f"{_DESCRIPTION}\n\nKinds, for `agent` (without it, one with the same tools as you):\n" + "\n".join(lines)


def _line(name: str, description: str) -> str:
    text = " ".join(description.split())
    if len(text) > _MAX_DESCRIPTION_CHARS:
        text = text[: _MAX_DESCRIPTION_CHARS - 1] + "…"
    return f"- {name}: {text}" if text else f"- {name}"


def _schema(subagents: Subagents) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "task": {"type": "string", "minLength": 1, "description": "What to do, with all that must be known for it."}
    }
    if subagents.definitions:
        kinds = list(subagents.definitions)
        properties["agent"] = {"type": "string", "enum": kinds, "description": "The kind of subagent."}
    properties["tools"] = {
        "type": "array",
        "items": {"type": "string"},
        "description": "The only tools it may use, by name. Default: all that its kind has.",
    }
    return {"type": "object", "properties": properties, "required": ["task"], "additionalProperties": False}


GATE_HOOKS: tuple[type[Hook], ...] = (ToolGate, McpToolGate, PermissionCheck)
"""The hooks that can deny a call: those of the caller apply in its subagents, too."""

_FORWARD_ORDER = 5  # after the subagent's own handlers, before the gates of its policies
_LIMIT_ORDER = 96  # after handlers that may still spend something


def forward_events(
    child: SubagentRun, agent: CoreAgent, parent: CoreAgent, reached_limit: Callable[[], RunStatus | None]
) -> None:
    """Forward the events and hooks of ``agent`` to ``parent``, apply the parent's gates and limits.

    A hook is forwarded if the parent handles those of its subagents now; gates always are, since a gate may be added at any time.
    """
    identity = SubagentIdentity(child.id, child.name, child.depth)
    agent.bus.forward_to(parent.bus, identity)
    forward = _forward_hook(identity, parent.bus)
    for kind in {*GATE_HOOKS, *parent.bus.hooks_of_subagents}:
        agent.on(kind, forward, order=_FORWARD_ORDER)
        agent.on(kind, forward, order=_FORWARD_ORDER, subagents=True)
    # Gates that an application adds to its agent also apply to subagents; no events report this. Gates of the parent's policies and
    # plugins do not: policies depend on the parent's history, and `for_child` creates a plugin for each subagent.
    for gate in GATE_HOOKS:
        agent.on(gate, apply_gates_of(gate, parent), order=_FORWARD_ORDER - 1)

    def stop(hook: TurnBefore) -> None:
        hook.stop = hook.stop or reached_limit()

    agent.on(TurnBefore, stop, order=_LIMIT_ORDER)


def _forward_hook(identity: SubagentIdentity, bus: HookBus) -> Handler[Any]:
    def forward(hook: Hook) -> Awaitable[None] | None:
        if not hook.child_id:  # a nested subagent's own hook keeps its identity
            hook.subagent = identity
        return bus.start_of_subagent(hook)

    return forward


def mark_plugin_handler(handler: Callable[[Any], Any], *, is_of_plugin: bool) -> None:
    """Mark a function that calls a handler of a plugin: a subagent has the plugin itself, so `apply_gates_of` does not call it."""
    vars(handler)["is_of_plugin"] = is_of_plugin


def apply_gates_of(gate: type[Hook], agent: CoreAgent) -> Handler[Any]:
    """Return a handler that calls the gates which an application added to another agent."""

    def added_by_application(order: int, handler: Handler[Any]) -> bool:
        is_of_plugin = getattr(handler, "is_of_plugin", getattr(handler, "__self__", None) in agent.plugs)
        return order < _FORWARD_ORDER and not is_of_plugin

    async def apply_gate(hook: Hook) -> None:
        if agent.bus.has(gate):
            await agent.bus.emit(hook, only=added_by_application)

    return apply_gate


_MAX_DEPTH = 3
"""Maximum nesting depth of subagents."""


_DEFAULT_DEFINITION = AgentDefinition(name=DEFAULT_NAME)


class Subagents(Plugin):
    """Lets an agent start subagents, with the tool ``spawn`` or the method `spawn`.

    A subagent starts with only its task. It inherits its parent's model, system prompt, tools, aliases, plugins (in their form for
    subagents), environment, and behavior, unless restricted; never more. Its spending is added to its parent's run immediately, and
    it makes no more model calls when a limit of its parent is reached. When the parent's run ends, its subagents end.

    Args:
        definitions: Kinds of subagents. A plain subagent, with everything the parent has, can always be started.
        depth: Nesting depth of subagents: 1 (they cannot start subagents) to 3.
        concurrency: Maximum number of subagents that run in parallel for one parent; others wait.
        limit: Maximum number of subagents that one run of the outermost agent may start, on all levels together.
        max_characters: Maximum length of a response before it is truncated in the middle for the parent.
        spawn: Whether the model and the tools of the agent may start subagents. If not, the limits apply only to agents that are
            tools of the agent, see `Agent.as_tool`.

    Raises:
        ConfigError: If two definitions have the same name, or a number is invalid.
    """

    def __init__(
        self,
        definitions: Iterable[AgentDefinition] = (),
        *,
        depth: int = 1,
        concurrency: int = 3,
        limit: int = 50,
        max_characters: int = 50_000,
        spawn: bool = True,
    ) -> None:
        if not 1 <= depth <= _MAX_DEPTH:
            raise ConfigError(f"Subagents: depth must be from 1 to {_MAX_DEPTH}, not {depth}.")
        if concurrency < 1 or limit < 1 or max_characters < 1:
            raise ConfigError("Subagents: concurrency, limit, and max_characters must be at least 1.")
        self.definitions: dict[str, AgentDefinition] = {}
        definitions = list(definitions)
        for each in definitions:
            if not isinstance(cast("object", each), AgentDefinition):
                raise ConfigError(f"Subagents must be AgentDefinition(...), not {each!r:.80}.")
        for each in sorted(definitions, key=lambda d: d.name):
            if each.name in self.definitions:
                raise ConfigError(f"Two kinds of subagents are named {each.name!r}. Rename one of them.")
            self.definitions[each.name] = each
        self.max_depth = depth
        self.max_parallel = concurrency
        self.max_result_chars = max_characters
        self.offers_spawn = spawn
        self.depth = 0
        self._counter = SubagentCounter(limit)
        self._parent: Subagents | None = None
        self._host: SubagentHost | None = None
        self._agent: CoreAgent | None = None
        self._children: dict[str, SubagentRun] = {}
        self._finished: list[SubagentStats] = []
        self._semaphore: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    # --- as a plugin ------------------------------------------------------------------------------------------------

    def bind_host(self, host: SubagentHost) -> None:
        """Set the host that creates the subagents.

        The agent calls this before it installs its plugins.

        Raises:
            ConfigError: If a host is already set: one plugin serves one agent.
        """
        if self._host is not None:
            raise ConfigError("This Subagents belongs to another agent. Create one for each agent.")
        self._host = host

    def install(self, agent: CoreAgent) -> None:
        """Offer the tool."""
        if self._host is None:
            raise ConfigError("Subagents need an Agent that creates them. Use Agent(..., subagents=Subagents(...)).")
        self._agent = agent
        agent.bus.on(SessionStart, self._on_session_start)
        if self.offers_spawn:
            agent.tools.add(create_spawn_tool(self))
            agent.extra = {**agent.extra, "spawn": self.spawn}

    def join(self, above: Subagents) -> None:
        """Share the counter and the limits of another agent, which has started this one."""
        self._counter, self._parent = above._counter, above
        self.max_depth += above.depth + 1 - self.depth
        self.depth = above.depth + 1

    def for_child(self) -> Plugin | None:
        """Return the plugin for a subagent if another level is allowed; all levels share the counter."""
        if self.depth + 1 >= self.max_depth or not self.offers_spawn:
            return None
        child = Subagents(
            self.definitions.values(),
            depth=self.max_depth,
            concurrency=self.max_parallel,
            max_characters=self.max_result_chars,
        )
        child.depth = self.depth + 1
        child._counter, child._parent = self._counter, self
        return child

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation, with its own subagents and counter."""
        return Subagents(
            self.definitions.values(),
            depth=self.max_depth,
            concurrency=self.max_parallel,
            limit=self._counter.limit,
            max_characters=self.max_result_chars,
            spawn=self.offers_spawn,
        )

    @property
    def stats(self) -> tuple[SubagentStats, ...]:
        """Return the statistics of the last run's subagents in the order in which they finished."""
        return tuple(self._finished)

    def _on_session_start(self, hook: SessionStart) -> None:
        self._finished = []
        if self.depth == 0:
            self._counter.started = 0

    # --- subagents --------------------------------------------------------------------------------------------------

    @property
    def children(self) -> tuple[SubagentRun, ...]:
        """Return the subagents that run or wait, in the order in which they were started."""
        return tuple(self._children.values())

    @overload
    async def spawn(
        self, task: str, agent: str = "", *, output_type: TypeForm[_T], **options: Unpack[SpawnOptions]
    ) -> SubagentResult[_T]: ...
    @overload
    async def spawn(
        self, task: str, agent: str = "", *, output_type: Any = None, **options: Unpack[SpawnOptions]
    ) -> SubagentResult: ...
    async def spawn(
        self, task: str, agent: str = "", *, output_type: Any = None, **options: Unpack[SpawnOptions]
    ) -> SubagentResult[Any]:
        """Run a subagent to its end.

        Args:
            task: Its task; it has no other information.
            agent: The name of a definition; empty for a plain subagent.
            output_type: The type of its output, as for an agent. Default: that of the definition, else the text.
            **options: See `SpawnOptions`.

        Returns:
            Its result. A failed subagent does not raise; see ``error``.

        Raises:
            ToolError: If it cannot be started: unknown definition or tool, or too many subagents.
        """
        if output_type not in (None, str):
            behavior = options.get("behavior") or RunOptions()
            options["behavior"] = RunOptions(schema=output_type).merged_with(behavior)
        child, request = self._request(task, agent, options)
        assert self._host is not None
        return await self._start(
            child, partial(self._host.create_subagent, request), request.deps, options.get("signal")
        )

    async def call(
        self, agent: Any, name: str, task: str, *, deps: Any, signal: CancelToken | None
    ) -> SubagentResult[Any]:
        """Run a conversation of another agent as a subagent, to its end.

        Args:
            agent: The other agent.
            name: Its name.
            task: Its task.
            deps: Its dependencies.
            signal: Aborts it when set.

        Raises:
            ToolError: If the task is empty, or there are too many subagents.
        """
        assert self._host is not None
        _check_task(task)
        child = self._counter.register(name, task, self.depth + 1)
        return await self._start(child, partial(self._host.create_conversation, agent, child.id), deps, signal)

    async def _start(
        self, child: SubagentRun, create: Callable[[], CoreAgent], deps: Any, signal: CancelToken | None
    ) -> SubagentResult[Any]:
        """Run a subagent when a slot is free."""
        remove = signal.on_cancel(lambda: child.abort(signal.reason or "aborted")) if signal else None
        self._children[child.id] = child
        try:
            async with self._slot():
                return await self._run(child, create, deps)
        finally:
            del self._children[child.id]
            if remove is not None:
                remove()

    def _request(self, task: str, name: str, options: SpawnOptions) -> tuple[SubagentRun, SubagentRequest]:
        """Return the request and the run for a subagent."""
        assert self._host is not None
        check_option_names("spawn", options, SpawnOptions.__optional_keys__)
        _check_task(task)
        definition = self.definitions.get(name) if name else _DEFAULT_DEFINITION
        if definition is None:
            known = ", ".join(self.definitions) or "none; omit `agent` for a plain subagent"
            raise ToolError(f"Unknown kind of subagent: {name!r}. Known kinds: {known}.")
        parent = self._host.child_defaults()
        # The client runs its own tools after the parent's run has ended, which is too late for a subagent.
        server_tools = [t for t in parent.tools if t.source not in ("client", "handoff")]
        tools = select_tools(server_tools, definition, self._canonical_names(options.get("tools")))
        behavior = options.get("behavior") or RunOptions()
        child = self._counter.register(name, task, self.depth + 1)
        system, model = options.get("system"), options.get("model")
        return child, SubagentRequest(
            name=child.id,
            model=model or definition.model or parent.model,
            system=next(s for s in (system, definition.system, parent.system) if s is not None),
            tools=[t for t in tools if t.name != SPAWN_TOOL],
            behavior=behavior.merged_with(definition.behavior).merged_with(inherited_behavior(parent)),
            plugs=_child_plugs(parent.plugs, any(t.name == SPAWN_TOOL for t in tools)),
            deps=options.get("deps", parent.deps),
        )

    def _canonical_names(self, names: Sequence[str] | None) -> list[str] | None:
        """Return the canonical names of tools: a model may know them by an alias."""
        assert self._agent is not None
        own = {alias: name for name, alias in self._agent.tool_aliases.items()}
        return None if names is None else [own.get(name, name) for name in names]

    async def _run(self, child: SubagentRun, create: Callable[[], CoreAgent], deps: Any) -> SubagentResult:
        """Create and run the subagent, and return the result for its parent."""
        assert self._agent is not None
        bus = self._agent.bus
        running: asyncio.Future[RunResult] | None = None
        result: RunResult | None = None
        status: RunStatus = "error"
        error: BaseException | None = None
        try:
            if child.signal.cancelled:
                status = "aborted"
                raise AgentError(f"The subagent was stopped before it began: {child.signal.reason}")
            child.agent = agent = create()
            forward_events(child, agent, self._agent, self.reached_limit)
            if bus.has(BeforeSpawn):
                before = await bus.emit(BeforeSpawn(child.id, child.name, child.depth, child.task, agent))
                child.task = before.task
                if before.block:
                    status = "denied"
                    raise AgentError(f"Blocked: {before.block if isinstance(before.block, str) else 'not allowed'}")
            await bus.notify(SubagentStart(child.id, child.name, child.task, child.depth))
            running = asyncio.ensure_future(self._run_agent(child, agent, deps))
            result = ended = await asyncio.shield(running)
            status, error = ended.status, ended.error
        except asyncio.CancelledError as stopped:
            status, error = "aborted", stopped
            if running is not None and child.agent is not None:
                if isinstance(self._agent.steps, NestedSteps):
                    running.cancel()  # Do not record an abort: the subagent resumes when its parent resumes.
                result = await _stop_gracefully(child, running, child.agent.behavior.abort_grace)
            raise
        except Exception as failed:  # a failure of a subagent never ends its parent
            error = failed
        finally:
            if child.agent is not None and self._host is not None:
                await self._host.close(child.agent)
            stats = child.stats(result, status)
            self._finished.append(stats)
            self._agent.add_usage(stats.usage, SPAWN_TOOL)
            await bus.notify(_end_event(child, stats, result, error))
        text, output = (result.text, result.output_or_none) if result else ("", None)
        return SubagentResult(text=text, output_or_none=output, status=status, stats=stats, error=error)

    async def _run_agent(self, child: SubagentRun, agent: CoreAgent, deps: Any) -> RunResult:
        def run() -> Awaitable[RunResult]:
            task = () if agent.pending is not None else child.task
            return agent.run(task, signal=child.signal, raise_errors=False, deps=deps)

        steps = self._agent.steps if self._agent is not None else None
        return await (
            steps.run_subagent(agent, child.id, run, child.signal) if isinstance(steps, NestedSteps) else run()
        )

    def reached_limit(self) -> RunStatus | None:
        """Return the limit that the run of this agent, or of an agent above it, has reached."""
        reached = self._host.reached_limit() if self._host is not None else None
        above = self._parent
        return reached or (above.reached_limit() if above is not None else None)

    def _slot(self) -> asyncio.Semaphore:
        """Return the semaphore for parallel subagents.

        One per event loop, since each run may have its own.
        """
        loop = asyncio.get_running_loop()
        if self._semaphore is None or self._semaphore[0] is not loop:
            self._semaphore = (loop, asyncio.Semaphore(self.max_parallel))
        return self._semaphore[1]


def _check_task(task: str) -> None:
    if not task.strip():
        raise ToolError("The task is empty. It must contain everything that the subagent needs to know.")


def _child_plugs(plugs: Iterable[Plugin], may_spawn: bool) -> list[Plugin]:
    children = (p.for_child() for p in plugs if may_spawn or not isinstance(p, Subagents))
    return [p for p in children if p is not None]


def _end_event(
    child: SubagentRun, stats: SubagentStats, result: RunResult | None, error: BaseException | None
) -> SubagentEnd:
    return SubagentEnd(
        child.id,
        child.name,
        child.task,
        child.depth,
        stats,
        text=result.text if result is not None else "",
        error=None if error is None else ErrorInfo.from_exception(error),
        exception=error,
    )


async def _stop_gracefully(child: SubagentRun, running: asyncio.Future[RunResult], grace: float) -> RunResult | None:
    """Abort a subagent whose parent is being aborted. It gets a grace period to end cleanly."""
    child.abort("its parent was aborted")
    try:
        await asyncio.wait((running,), timeout=grace + 0.5)
    finally:
        running.cancel()
    return running.result() if running.done() and not running.cancelled() and running.exception() is None else None
