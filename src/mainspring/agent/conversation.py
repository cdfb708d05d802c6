"""Conversations of one agent with many users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Unpack

from mainspring.messages import to_messages
from mainspring.type_variables import AgentOutputT, DefaultOutput, ExactDepsT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mainspring.agent.options import RunOptions, StreamOptions
    from mainspring.loop import Approve, CoreAgent, Deny, PendingCalls, Plugin, Prompt, RunHandle, RunResult
    from mainspring.messages import AgentMessage
    from mainspring.policies.budgets import Ledger
    from mainspring.policies.compaction import CompactionResult
    from mainspring.sessions import Session


class Conversation(DefaultOutput, Generic[ExactDepsT, AgentOutputT]):
    """A conversation of an agent, which serves many of them at the same time. `Agent.conversation` creates it.

    It has its own messages, budgets, grants, and plugins, and shares the model, the tools, and the servers of its agent. It is cheap
    to create: its plugins are created with its first run.

    Args:
        create: Creates the agent of the conversation alone.
        deps: The dependencies of its runs.
        session: Storage of the conversation.
        history: Its earlier messages.
        ledger: A `Ledger` that conversations share.
        plugs: Further plugins.

    Attributes:
        deps: The dependencies of its runs.
    """

    __slots__ = ("_agent", "_create", "_history", "_ledger", "_plugs", "_session", "deps")

    def __init__(
        self,
        create: Callable[[dict[str, Any]], Any],
        deps: ExactDepsT,
        *,
        session: Session | None = None,
        history: str | Iterable[AgentMessage] = (),
        ledger: Ledger | None = None,
        plugs: Iterable[Plugin] = (),
    ) -> None:
        self.deps = deps
        self._create = create
        self._session = session
        self._history = to_messages(history if isinstance(history, str) else list(history))
        self._ledger = ledger
        self._plugs = tuple(plugs)
        self._agent: Any = None  # an `Agent`, which imports this module
        if session is not None:  # which has messages, and may be in use
            self._get_agent()

    @property
    def agent(self) -> CoreAgent:
        """The agent of this conversation alone, for everything else: `CoreAgent.on`, `CoreAgent.subscribe`, and so on."""
        return self._get_agent()

    def _get_agent(self) -> Any:
        if self._agent is None:
            self._agent = self._create(
                {"messages": self._history, "plugs": self._plugs, "session": self._session, "ledger": self._ledger}
            )
            self._history = []
        return self._agent

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The history so far."""
        return tuple(self._history) if self._agent is None else self._agent.messages

    @property
    def running(self) -> bool:
        """Return True if a run is in progress or about to begin."""
        return self._agent is not None and self._agent.running

    @property
    def ledger(self) -> Ledger:
        """The spending of the current run; between runs, of this conversation."""
        return self._get_agent().ledger

    @property
    def pending(self) -> PendingCalls | None:
        """The tool calls of a paused run that wait for approval."""
        return None if self._agent is None else self._agent.pending

    async def run(self, prompt: Prompt = "", **options: Unpack[RunOptions]) -> RunResult[AgentOutputT]:
        """Run until the agent stops; see `Agent.run`."""
        return await self._get_agent().run(prompt, deps=self.deps, **options)

    def stream(
        self, prompt: Prompt = "", *, subagents: bool = False, **options: Unpack[StreamOptions]
    ) -> RunHandle[AgentOutputT]:
        """Run and stream the events; see `Agent.stream`."""
        return self._get_agent().stream(prompt, subagents=subagents, deps=self.deps, **options)

    def run_sync(self, prompt: Prompt = "", **options: Unpack[RunOptions]) -> RunResult[AgentOutputT]:
        """Run to the end and block until then; see `Agent.run_sync`."""
        return self._get_agent().run_sync(prompt, deps=self.deps, **options)

    def steer(self, message: str | AgentMessage) -> None:
        """Queue a steering message: the run gets it at the next tool boundary and skips the remaining tool calls."""
        self.agent.steer(message)

    def follow_up(self, message: str | AgentMessage) -> None:
        """Queue a follow-up message: the run gets it when it would stop."""
        self.agent.follow_up(message)

    def abort(self, reason: str = "aborted") -> None:
        """Abort the run, if any. Safe to call from any thread."""
        if self._agent is not None:
            self._agent.abort(reason)

    def answer(self, answers: Approve | Deny | Mapping[str, Approve | Deny]) -> None:
        """Approve or deny tool calls of a paused run; see `Agent.answer`."""
        self.agent.answer(answers)

    async def compact(self, instructions: str = "") -> CompactionResult | None:
        """Compact the older part of the conversation now, between runs; see `Agent.compact`."""
        return await self._get_agent().compact(instructions)

    async def shutdown(self, reason: str = "exit") -> None:
        """Notify handlers of `session:shutdown` that the conversation is closed in this process; shared MCP servers stay connected."""
        if self._agent is not None:
            await self._agent.shutdown(reason)
