"""The context of an extension's handlers: the agent, and questions to the user."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from mainspring.loop.hooks import SystemTransform
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


logger = logging.getLogger("mainspring")


NoticeLevel = Literal["info", "warn", "error"]


_LEVELS: dict[str, int] = {"info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class UserInterface(Protocol):
    """A person at a terminal, in an editor or behind a web page; or nobody, as in `HeadlessUI`.

    Texts come from extensions and models: whoever shows them escapes control characters and interprets no markup. Questions
    are put one after the other.
    """

    @property
    def is_attended(self) -> bool:
        """Whether somebody can answer."""
        ...

    async def confirm(self, title: str, message: str = "") -> bool:
        """Whether they say yes; False without an answer."""
        ...

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """What they choose; ``None`` without an answer."""
        ...

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """What they write; ``None`` without an answer."""
        ...

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Tell them something. Returns at once."""
        ...


class NonInteractiveUI:
    """Nobody is there: every question is answered with no, at once. A `UserInterface`.

    Args:
        publish: Gets notices. Default: they go to the log.
    """

    def __init__(self, publish: Callable[[str, NoticeLevel], object] | None = None) -> None:
        self._notify = publish

    @property
    def is_attended(self) -> bool:
        """Nobody can answer."""
        return False

    async def confirm(self, title: str, message: str = "") -> bool:
        """No."""
        return False

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """No answer."""
        return None

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """No answer."""
        return None

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Hand it to ``tell``, or log it.

        Raises:
            ValueError: If there is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(f"there is no level {level!r}; there are {', '.join(_LEVELS)}")
        if self._notify is not None:
            self._notify(message, level)
        else:
            logger.log(_LEVELS[level], "%s", message)


class ContextUsage(Struct, frozen=True):
    """How full the model's window is.

    Attributes:
        tokens: Tokens of the conversation: what the provider told last, and an estimate for what was added since.
        window: Tokens of the model's window; ``None`` is unknown.
    """

    tokens: int
    window: int | None = None

    @property
    def used_fraction(self) -> float | None:
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
        return self.ui.is_attended

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
