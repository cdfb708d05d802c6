"""Handoffs: another agent continues the conversation, with its own prompt, tools, and model, in the same run.

The model hands off with a tool, `transfer_to_NAME`. The plugin reads handoffs from the results in the history, so that a session that is
opened again, and a durable run that is replayed, continue with the same agent. Limits, hooks, and the session are those of the run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.agent.guest_plugs import GuestPlugs
from mainspring.errors import ConfigError
from mainspring.events import AgentHandoff
from mainspring.loop import CoreAgent, Plugin
from mainspring.loop.hooks import (
    ContextTransform,
    SessionStart,
    ToolGate,
    ToolResultsAfter,
)
from mainspring.loop.policy import ORDER_SHORTEN_CONTEXT
from mainspring.loop.state import RunRedirect
from mainspring.mcp.tool_search import create_search_of
from mainspring.messages import AgentMessage, Message
from mainspring.models import ToolAliasModel
from mainspring.policies.compaction import is_summary
from mainspring.policies.disclosure import TOOL_SEARCH_NAME, Disclosure
from mainspring.policies.structured.options import OUTPUT_TOOL
from mainspring.subagents.plug import SPAWN_TOOL
from mainspring.threads import run_in_thread
from mainspring.tools import Tool, ToolContext, ToolRegistry, provider_tool_names
from mainspring.tools.builtin import present_plan
from mainspring.type_variables import AgentDepsT, AgentOutputT

if TYPE_CHECKING:
    from mainspring.models import ModelProvider
    from mainspring.policies.structured import StructuredOutput
    from mainspring.run_options import RunOptions
    from mainspring.tools.schema.output import OutputSchema

logger = logging.getLogger("mainspring")

InputFilter = Callable[[list[AgentMessage]], list[AgentMessage]]
"""Returns the messages that the other agent gets, from those before the handoff. The history itself stays unchanged."""

HANDOFF_SOURCE = "handoff"
"""Source of the tools that hand off; subagents do not get them."""

_RUN_OPTIONS = frozenset(
    "session memory skills subagents extensions callbacks steps ledger convert transform get_steering get_follow_up messages "
    "execution extra".split()
)
_RESPONSE_OPTIONS = frozenset(
    "schema max_output_retries max_output_tokens temperature thinking thinking_budget timeout tool_execution".split()
)
_PLUGIN_TOOLS = (SPAWN_TOOL, present_plan.name)
_GATE_ORDER = 0  # before the gate that accepts an output
_LAST_ORDER = 110  # after a session has stored the results
_FILTER_ORDER = ORDER_SHORTEN_CONTEXT - 50
_REMOVED = "The earlier messages could not be prepared for you. Ask the user for what you need."


class Successor(Struct, Generic[AgentOutputT], frozen=True):
    """An agent that continues the run of another one.

    Attributes:
        name: Its name.
        model: Its model.
        system: Its system prompt.
        tools: Its tools.
        behavior: Its options.
        tool_aliases: The aliases of its tools.
        output: Its output; ``None`` for the text of the response.
    """

    name: str
    model: ModelProvider
    system: str
    tools: ToolRegistry
    behavior: RunOptions
    tool_aliases: Mapping[str, str]
    output: StructuredOutput | None

    def with_options(self, given: Mapping[str, Any], settled: RunOptions, *, resumed: bool) -> Self:
        """Return the agent with the options of a run.

        Args:
            given: The options that the caller of the run passed.
            settled: Their behavior, with that of the agent that runs.
            resumed: Whether the handoff was in an earlier run: then the model, system prompt, and tools of the caller apply.
        """
        own = {name: given[name] for name in ("model", "system", "tools") if resumed and name in given}
        return replace(self, behavior=given["behavior"].merged_with(self.behavior).merged_with(settled), **own)

    def to_redirect(self) -> RunRedirect:
        """Return what the loop needs to continue as this agent."""
        aliases = provider_tool_names([t.name for t in self.tools], self.tool_aliases)
        model = ToolAliasModel(self.model, aliases) if aliases else self.model
        return RunRedirect(
            agent=self.name,
            model=model,
            system=self.system,
            tools=self.tools,
            behavior=self.behavior,
            aliases=aliases,
        )


class HandoffTarget(Protocol[AgentDepsT, AgentOutputT]):
    """An agent that can continue the run of another one: an `Agent`."""

    name: str
    behavior: RunOptions
    plugs: tuple[Plugin, ...]
    given_options: frozenset[str]

    @property
    def output_schema(self) -> OutputSchema | None:
        """The expected output; ``None`` for the text of the response."""
        ...

    async def prepare_successor(self, deps: AgentDepsT) -> Successor[AgentOutputT]:
        """Return what the run needs to continue as this agent."""
        ...


class HandoffHost(HandoffTarget[Any, Any], Protocol):
    """The agent that runs."""

    def redirect_run(self, to: Successor[Any], *, resumed: bool = False) -> None:
        """Continue the active run as another agent."""
        ...


class Handoff(Generic[AgentDepsT, AgentOutputT]):
    """An agent that can continue the conversation, with options; ``handoffs=[billing]`` is short for ``[Handoff(billing)]``.

    Args:
        agent: The other agent. Its name is part of the tool's name.
        description: When to hand off to it, for the model.
        input_filter: Function that returns the messages before the handoff that the other agent gets, for example
            `without_tool_calls`. The session keeps all messages. If it raises, the other agent gets none of them.
        can_return: Whether the other agent can hand the conversation back to the agent that runs.
    """

    def __init__(
        self,
        agent: HandoffTarget[AgentDepsT, AgentOutputT],
        description: str = "",
        *,
        input_filter: InputFilter | None = None,
        can_return: bool = False,
    ) -> None:
        self.agent = agent
        self.description = description
        self.input_filter = input_filter
        self.can_return = can_return

    @property
    def tool_name(self) -> str:
        """The name of the tool that hands off."""
        return _tool_name(self.agent.name)


def without_tool_calls(messages: list[AgentMessage]) -> list[AgentMessage]:
    """Return the messages without tool calls and their results: an input filter."""
    return [m for m in messages if not m.tool_calls and not m.tool_results]


class Handoffs(Plugin):
    """The plugin of the option ``handoffs``.

    Args:
        given: The agents, or handoffs.
        has_output_type: Whether the agent that runs has an ``output_type``.

    Raises:
        ConfigError: If only another agent has an output type, two agents have the same name, or an agent has an option that only a run can have.
    """

    def __init__(self, given: Iterable[Any], *, has_output_type: bool) -> None:
        self.own: list[Handoff[Any, Any]] = [h if isinstance(h, Handoff) else Handoff(h) for h in given]
        self._known: dict[str, Handoff[Any, Any]] = {}
        self._collect(self.own)
        typed = next((h.agent for h in self._known.values() if h.agent.output_schema is not None), None)
        if typed is not None and not has_output_type:  # a type checker knows only the type of the other agent then
            raise ConfigError(
                f"The agent {typed.name!r} of handoffs has an output type. Pass output_type to this agent, too: "
                "output_type=str if it answers in text."
            )
        self._active = self._start = ""  # names of tools; empty for the agent that runs
        self._prepared: dict[str, Successor[Any]] = {}
        self._disclosures: dict[str, Disclosure | None] = {}
        self._decided = ""
        self._prefix: tuple[str, list[AgentMessage]] = ("", [])

    def _collect(self, handoffs: Sequence[Handoff[Any, Any]]) -> None:
        for each in handoffs:
            if not isinstance(cast("object", each.agent), CoreAgent):
                raise ConfigError(f"handoffs contains {each.agent!r:.80}. Pass agents, or Handoff(agent, ...).")
            known = self._known.get(each.tool_name)
            if known is None:
                _check_target(each.agent)
                self._known[each.tool_name] = each
                for plug in each.agent.plugs:
                    self._collect(plug.own if isinstance(plug, Handoffs) else ())
            elif known.agent is not each.agent:
                raise ConfigError(
                    f"Two agents of handoffs are named {each.agent.name!r}. Name them: Agent(..., name=...)."
                )

    def install(self, agent: CoreAgent) -> None:
        """Offer the tools, and attach to the hooks of a run."""
        self._agent, self._host = agent, cast("HandoffHost", agent)
        self._start = _tool_name(agent.name)
        if self._start in self._known:
            raise ConfigError(
                f"An agent of handoffs has the name of this one, {agent.name!r}. Name them: Agent(..., name=...)."
            )
        agent.swaps_context = True
        for each in self.own:
            agent.tools.add(self._create_tool(each.tool_name, each.agent.name, each.description))
        for name, each in self._known.items():
            target = cast("CoreAgent", each.agent)
            guest = GuestPlugs(agent, target, target.name, self._is_active(name))
            self._disclosures[name] = guest.attach_disclosure()
        agent.on(SessionStart, self._on_session_start, order=_LAST_ORDER)
        agent.on(ToolGate, self._on_tool_gate, order=_GATE_ORDER)
        agent.on(ToolResultsAfter, self._on_tool_results, order=_LAST_ORDER)
        if any(each.input_filter for each in self._known.values()):
            agent.on(ContextTransform, self._on_context_transform, order=_FILTER_ORDER)

    def for_child(self) -> None:
        """Return ``None``: a subagent answers its parent."""

    def for_conversation(self) -> Handoffs:
        """Return the plugin for another conversation, with the same agents."""
        return Handoffs(self.own, has_output_type=True)

    def get_output_schema(self, name: str) -> OutputSchema | None:
        """Return the expected output of an agent, by its name."""
        handoff = self._known.get(_tool_name(name))
        return (handoff.agent if handoff else self._host).output_schema

    def _is_active(self, name: str) -> Callable[[], bool]:
        return lambda: self._active == name

    def _create_tool(self, name: str, agent: str, description: str) -> Tool:
        async def execute(arguments: dict[str, Any], ctx: ToolContext[Any]) -> str:
            self._prepared[name] = await self._prepare(name, ctx.deps)  # a failure is the result of the call
            return f"The conversation was handed over to {agent}, who continues it."

        return Tool(
            name=name,
            description=f"Hand the conversation over to {agent}, who answers in your place. {description}".strip(),
            input_schema={"type": "object", "properties": {}, "additionalProperties": False},
            execute=execute,
            label="Handoff",
            source=HANDOFF_SOURCE,
            access=lambda arguments: (),
        )

    # --- a run ------------------------------------------------------------------------------------------------------

    async def _on_session_start(self, hook: SessionStart) -> None:
        """Continue with the agent that answered last."""
        self._decided = ""
        self._set_active("")
        found = await self._find_last(self._agent.context.messages)
        if found:
            await self._switch(found, hook.deps, resumed=True)

    async def _find_last(self, messages: Sequence[AgentMessage]) -> str:
        """Return the agent to which the history was handed over last, also if a summary replaced that part of it."""
        found = next((name for m in reversed(messages) if (name := self._handed_to(m))), "")
        if not found and messages and is_summary(messages[0]):
            session = next((s for p in self._agent.plugs if (s := getattr(p, "session", None)) is not None), None)
            entries = await run_in_thread(session.entries) if session is not None else ()
            results = [m for e in entries if (m := getattr(e, "message", None)) is not None]
            found = next((name for m in reversed(results) if (name := self._handed_to(m))), "")
        return "" if found == self._start else found

    def _handed_to(self, message: AgentMessage) -> str:
        """Return the name of the first tool in a message with results that handed off; empty for none."""
        names = [r.name for r in message.tool_results if not r.is_error]
        return next((n for n in names if n in self._known or n == self._start), "")

    def _on_tool_gate(self, hook: ToolGate) -> None:
        """Allow one handoff or output for each response: the first one."""
        if hook.name not in self._known and hook.name not in (self._start, OUTPUT_TOOL):
            return
        if self._decided == hook.turn_id and not hook.approved:
            hook.block = "only one handoff or final answer is possible in a response"
        self._decided = hook.turn_id

    async def _on_tool_results(self, hook: ToolResultsAfter) -> None:
        name = self._handed_to(hook.results)
        if name:
            await self._switch("" if name == self._start else name, hook.deps)

    async def _prepare(self, name: str, deps: Any) -> Successor[Any]:
        agent = self._known[name].agent if name in self._known else self._host
        return await agent.prepare_successor(deps)

    async def _switch(self, name: str, deps: Any, *, resumed: bool = False) -> None:
        """Continue the run as another agent."""
        successor = self._prepared.pop(name or self._start, None) or await self._prepare(name, deps)
        before = self._active
        self._set_active(name)
        if name:
            handoff = self._known[name]
            others = [self._agent.tools.get(each) for each in _PLUGIN_TOOLS]
            kept = [
                t for t in others if t is not None and t.source == "builtin" and successor.tools.get(t.name) is None
            ]
            returning = [self._create_tool(self._start, self._agent.name, "")] if handoff.can_return else []
            tools = {t.name: t for t in (*successor.tools, *kept, *returning)}
            search, disclosure = tools.get(TOOL_SEARCH_NAME), self._disclosures[name]
            if search is not None and search.source == "builtin" and disclosure is not None:
                tools[TOOL_SEARCH_NAME] = create_search_of(disclosure)  # that of the agent finds its own tools
            successor = replace(successor, tools=ToolRegistry(tools.values()))
        self._host.redirect_run(successor, resumed=resumed)
        source = self._known[before].agent.name if before else self._agent.name
        model = f"{successor.model.provider}:{successor.model.model}"
        await self._agent.bus.notify(AgentHandoff(source, successor.name, model, resumed))

    def _set_active(self, name: str) -> None:
        self._active = name
        for plug in self._agent.plugs:
            if isinstance(plug, Disclosure):
                plug.is_suspended = bool(name)

    def _on_context_transform(self, hook: ContextTransform) -> None:
        """Apply the input filter to the messages before the handoff."""
        input_filter = self._known[self._active].input_filter if self._active else None
        if input_filter is None:
            return
        messages = hook.messages
        place = next((i for i in reversed(range(len(messages))) if self._handed_to(messages[i]) == self._active), 0)
        place -= 1  # the message with the call
        if place <= 0:
            return
        key = messages[place].id
        if self._prefix[0] != key or is_summary(messages[0]):
            try:
                self._prefix = key, list(input_filter(messages[:place]))
            except Exception:
                logger.exception("The input filter of the handoff to %s failed", self._known[self._active].agent.name)
                self._prefix = key, [Message.user(_REMOVED)]
        hook.messages = [*self._prefix[1], *messages[place:]]


def _check_target(agent: HandoffTarget[Any, Any]) -> None:
    """Reject options that only the agent that runs can have."""
    of_run = sorted(agent.given_options & _RUN_OPTIONS)
    limits = sorted(set(agent.behavior.given) - _RESPONSE_OPTIONS)
    for kind, names in (("options", of_run), ("options in its behavior", limits)):
        if names:
            raise ConfigError(
                f"The agent {agent.name!r} of handoffs has {kind} that belong to the whole run: {', '.join(names)}. "
                "Set them on the agent that you run."
            )


def _tool_name(agent: str) -> str:
    return f"transfer_to_{re.sub(r'[^A-Za-z0-9_-]+', '_', agent)}"
