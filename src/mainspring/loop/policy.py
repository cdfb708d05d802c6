"""What a policy works with during a run, and the order of the handlers of all policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from mainspring.loop.agent import CoreAgent
from mainspring.loop.hooks import Hooks
from mainspring.messages import AgentMessage, ToolDefinition
from mainspring.models import ModelProvider
from mainspring.models.profile import ModelProfile
from mainspring.tools import LazyTool, Tool

# The order on the bus. An application's handlers have 0 by default, a session has 100.
ORDER_RAW_RESULTS = -1000  # sees a tool's output before any handler changes it
ORDER_COMPACTION = -300  # a compacted history is the input of all other handlers
ORDER_SHORTEN_CONTEXT = -200  # tail, then stale reads: before any other transform of the context
ORDER_REQUEST_DEFAULTS = -100  # thinking and cache: before an application's own `turn:before`
ORDER_TOOL_BUDGETS = 20  # the gates after those of the application
ORDER_CACHED_CALLS = 30
ORDER_GUARDS = 50  # before a session records the start of a tool
ORDER_READ_TRACKING = 80  # after an application's transforms of results
ORDER_PERSIST = 90  # stores the output with the changes of all other handlers
ORDER_SPENDING = 95  # other handlers may still spend something

PolicyHandlers = Iterator[tuple[int, Hooks]]
"""The handlers of a policy for one run, each with its order on the bus."""

StateT = TypeVar("StateT")


class PolicyContext:
    """What a policy works with during one run.

    Attributes:
        agent: The agent.
        model: The model of the run.
        tools: The tools of the run.
        offered_tools: Returns the tools that the next request would offer.
    """

    def __init__(
        self,
        agent: CoreAgent,
        model: ModelProvider,
        tools: Iterable[Tool | LazyTool],
        offered_tools: Callable[[], Sequence[ToolDefinition]],
        states: dict[object, Any],
        session_states: dict[object, Any],
    ) -> None:
        self.agent = agent
        self.model = model
        self.tools = tuple(tools)
        self.offered_tools = offered_tools
        self._messages = agent.context.messages
        self._states = states
        self._session_states = session_states

    def history(self) -> list[AgentMessage]:
        """Return the history; it grows with the conversation."""
        return self._messages

    def conversation_state(self, kind: type[StateT], create: Callable[[], StateT], key: object = None) -> StateT:
        """Return the object of a kind that lives as long as the conversation, and create it if needed.

        Args:
            kind: Its class; a conversation has one of each.
            create: Creates it.
            key: Options that it depends on; other options create a new one.
        """
        stored = self._states.get(kind)
        if stored is None or stored[0] != key:
            stored = self._states[kind] = (key, create())
        return stored[1]

    def session_state(self, kind: type[StateT], create: Callable[[], StateT]) -> StateT:
        """Return the object of a kind that lives as long as the session, and create it if needed. All agents of it share it."""
        if kind not in self._session_states:
            self._session_states[kind] = create()
        return self._session_states[kind]

    def provider_manages_context(self) -> bool:
        """Return True if the host removes old tool results itself; it knows its cache, and the exact number of tokens."""
        profile = getattr(self.model, "profile", None)
        return isinstance(profile, ModelProfile) and profile.messages.context_management is not None
