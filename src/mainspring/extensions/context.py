"""What every handler of an extension knows of the agent it works in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.extensions.ui import UserInterface
from mainspring.loop.hooks import SystemTransform
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


class ContextUsage(Struct, frozen=True):
    """How full the model's window is.

    Attributes:
        tokens: Tokens of the conversation: what the provider told last, and an estimate for what was added since.
        window: Tokens of the model's window; ``None`` is unknown.
    """

    tokens: int
    window: int | None = None

    @property
    def share(self) -> float | None:
        """How much of the window is used, from 0 on; ``None`` where its size is unknown."""
        return self.tokens / self.window if self.window else None


class ExtensionContext:
    """The agent, as handlers see it.

    Attributes:
        ui: Asks and tells the person, if there is one.
    """

    def __init__(self, agent: CoreAgent, ui: UserInterface) -> None:
        self.ui = ui
        self._agent = agent
        self._system: str | None = None
        self._turn = 0

    @property
    def has_ui(self) -> bool:
        """Whether somebody can answer; if not, `ui` answers every question with no."""
        return self.ui.attended

    @property
    def cwd(self) -> str:
        """The project folder."""
        return self._agent.env.cwd

    @property
    def session_id(self) -> str:
        """Name of the session; empty where nothing is stored."""
        return self._agent.session_id

    @property
    def agent(self) -> CoreAgent:
        """The agent itself."""
        return self._agent

    def is_idle(self) -> bool:
        """Whether no run goes on."""
        return not self._agent.running

    def abort(self, reason: str = "aborted by an extension") -> None:
        """Stop the run; without one nothing happens. Safe from any thread."""
        self._agent.abort(reason)

    def get_context_usage(self) -> ContextUsage:
        """How full the model's window is."""
        agent = self._agent
        overhead = estimate_overhead(self.get_system_prompt(), agent.tools.specs)
        tokens = TokenEstimator().tokens(agent.messages, overhead=overhead)
        return ContextUsage(tokens, agent.model.info.context_window)

    def get_system_prompt(self) -> str:
        """The system prompt as the last request had it; before the first one, the agent's own."""
        return self._agent.context.system if self._system is None else self._system

    @property
    def turn(self) -> int:
        """The turn of the run, from 1 on; 0 before the first one."""
        return self._turn

    def record_request(self, hook: SystemTransform) -> None:
        """Remember what a request is made of. A handler that stands behind all others."""
        self._system, self._turn = hook.system, hook.turn
