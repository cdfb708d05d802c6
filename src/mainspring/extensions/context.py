"""The context that handlers of an extension receive: the agent and the user interface."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from mainspring.loop.hooks import SystemTransform
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.messages import Message


logger = logging.getLogger("mainspring")


NoticeLevel = Literal["info", "warn", "error"]


_LEVELS: dict[str, int] = {"info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class UserInterface(Protocol):
    """A user at a terminal, in an editor, or at a web page.

    `NonInteractiveUI` if no user is available.

    Texts come from extensions and models: a front end escapes control characters and interprets no markup. Questions are asked
    one after the other.
    """

    @property
    def is_attended(self) -> bool:
        """Return True if a user can answer."""
        ...

    async def confirm(self, title: str, message: str = "") -> bool:
        """Ask a yes/no question; return False without an answer."""
        ...

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """Ask the user to choose an option; return ``None`` without an answer."""
        ...

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """Ask the user for text; return ``None`` without an answer."""
        ...

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Notify the user. Returns immediately."""
        ...


class NonInteractiveUI:
    """A `UserInterface` without a user: it declines every question immediately.

    Args:
        publish: Receives notices. Default: they are logged.
    """

    def __init__(self, publish: Callable[[str, NoticeLevel], object] | None = None) -> None:
        self._publish = publish

    @property
    def is_attended(self) -> bool:
        """Return False."""
        return False

    async def confirm(self, title: str, message: str = "") -> bool:
        """Return False."""
        return False

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """Return ``None``."""
        return None

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """Return ``None``."""
        return None

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Pass the notice to ``publish``, or log it.

        Raises:
            ValueError: If the level is unknown.
        """
        if level not in _LEVELS:
            raise ValueError(f"Unknown level: {level!r}. Use one of {', '.join(_LEVELS)}.")
        if self._publish is not None:
            self._publish(message, level)
        else:
            logger.log(_LEVELS[level], "%s", message)


_RECENT_MESSAGES = 8
"""Number of last messages among which the last response is."""


class ContextUsage(Struct, frozen=True):
    """Usage of the model's window.

    Attributes:
        tokens: Tokens of the conversation: the last reported usage plus an estimate of later messages.
        window: Tokens of the model's window; ``None`` if unknown.
    """

    tokens: int
    window: int | None = None

    @property
    def used_fraction(self) -> float | None:
        """Used share of the window, from 0; ``None`` if its size is unknown."""
        return self.tokens / self.window if self.window else None


class ExtensionContext:
    """The context that handlers of an extension receive.

    Attributes:
        ui: The user interface, which asks and notifies the user.
    """

    def __init__(self, agent: CoreAgent, ui: UserInterface) -> None:
        self.ui = ui
        self._agent = agent
        self._system: str | None = None
        self._turn = 0
        self._response: tuple[object, Message] | None = None

    @property
    def has_ui(self) -> bool:
        """Return True if a user can answer. Otherwise, `ui` declines every question."""
        return self.ui.is_attended

    @property
    def cwd(self) -> str:
        """The project folder."""
        return self._agent.env.cwd

    @property
    def session_id(self) -> str:
        """ID of the session; empty if the session is not stored."""
        return self._agent.session_id

    @property
    def agent(self) -> CoreAgent:
        """The agent itself."""
        return self._agent

    def is_idle(self) -> bool:
        """Return True if no run is in progress."""
        return not self._agent.running

    def abort(self, reason: str = "aborted by an extension") -> None:
        """Abort the run; does nothing without a run. Thread-safe."""
        self._agent.abort(reason)

    def get_context_usage(self) -> ContextUsage:
        """Return the usage of the model's window."""
        agent = self._agent
        overhead = estimate_overhead(self.get_system_prompt(), agent.tools.specs)
        messages = agent.messages
        if self._response is not None and self._response[0] is agent.context:
            response = self._response[1]
            if all(m.id != response.id for m in messages[-_RECENT_MESSAGES:]):
                messages = (*messages, response)  # a handler of `turn_end` runs before the response joins the history
        tokens = TokenEstimator().tokens(messages, overhead=overhead)
        return ContextUsage(tokens, agent.model.info.context_window)

    def get_system_prompt(self) -> str:
        """Return the system prompt of the last request; before the first request, that of the agent."""
        return self._agent.context.system if self._system is None else self._system

    @property
    def turn(self) -> int:
        """The turn of the run, from 1; 0 before the first turn."""
        return self._turn

    def record_request(self, hook: SystemTransform) -> None:
        """Record the system prompt and the turn of a request. This handler must run after all others."""
        self._system, self._turn, self._response = hook.system, hook.turn, None

    def record_response(self, response: Message) -> None:
        """Record the response of a turn that ends, which joins the history after its handlers."""
        is_complete = response.stop_reason not in ("error", "aborted")
        self._response = (self._agent.context, response) if is_complete else None
