"""What happens around runs of the public Agent: the conversation is opened, the prompt is looked at, and at last it is over."""

from __future__ import annotations

import asyncio
import atexit
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.loop import RunResult
from mainspring.loop.hooks import BeforeRun, Hook, PromptSubmitted, SessionClosed, SessionOpen
from mainspring.loop.hooks.session import SessionOpenReason
from mainspring.messages import AgentMessage, Message, TextBlock, to_messages

if TYPE_CHECKING:
    from mainspring.extensions import Extensions
    from mainspring.loop import CoreAgent, LoopContext, Prompt

_HOOKS: tuple[type[Hook], ...] = (SessionOpen, PromptSubmitted, BeforeRun, SessionClosed)
_EXIT_TIMEOUT_SECONDS = 5.0
"""Seconds that handlers get when the process ends without having closed the conversation."""


class PreparedRun(Struct, frozen=True):
    """What comes in.

    Attributes:
        prompt: What the run begins with.
        options: The options of the run.
        result: How it ended already; then no run begins.
    """

    prompt: Prompt
    options: dict[str, Any]
    result: RunResult | None = None


class SessionLifecycle:
    """Fires the hooks around the runs of an agent. Without a handler of one of them it does nothing.

    Args:
        agent: The agent.
        extensions: Its extensions; async ones are loaded before the first prompt is looked at.
    """

    def __init__(self, agent: CoreAgent, extensions: Extensions | None) -> None:
        self._agent = agent
        self._extensions = extensions
        self._signal: CancelToken | None = None
        self._open: LoopContext | None = None
        self._at_exit = False

    @property
    def busy(self) -> bool:
        """Whether a prompt is being looked at."""
        return self._signal is not None

    def abort(self, reason: str) -> None:
        """Let a prompt that is being looked at not become a run."""
        if self._signal is not None:
            self._signal.cancel(reason)

    @property
    def needed(self) -> bool:
        """Whether anybody has to be asked."""
        bus, extensions = self._agent.bus, self._extensions
        return (extensions is not None and extensions.waiting) or any(map(bus.has, _HOOKS))

    async def enter(self, prompt: Prompt, options: dict[str, Any]) -> PreparedRun:
        """Open the conversation if it is not open, and ask about the prompt.

        Raises:
            AgentAbortedError: If it was aborted meanwhile.
        """
        agent = self._agent
        self._signal = signal = options.get("signal") or CancelToken()
        options = {**options, "signal": signal}
        try:
            async with cancel_scope(signal):
                if self._extensions is not None and self._extensions.waiting:
                    await agent.warmup()
                await self._opened()
                messages = to_messages(prompt)
                asked, ended = await self._asked(messages)
                if ended is not None:
                    return PreparedRun(prompt, options, ended)
                added = await self._before(_text(asked), options)
            if added and not asked and agent.context.pending is not None:
                agent.steer(added[0])  # calls wait for their results; whatever is said comes behind them
                for message in added[1:]:
                    agent.steer(message)
                added = []
            return PreparedRun([*asked, *added] if added or asked is not messages else prompt, options)
        finally:
            self._signal = None

    async def _opened(self) -> None:
        agent = self._agent
        if self._open is agent.context:
            return
        reason: SessionOpenReason = "resume" if agent.context.messages else "startup"
        if self._open is not None:
            await self._fire(SessionClosed(agent.session_id, "reset"))
            reason = "reset"
        self._open = agent.context
        await self._fire(SessionOpen(agent.session_id, reason))
        if not self._at_exit:
            self._at_exit = True
            leave = partial(_shutdown_at_exit, weakref.ref(self))
            atexit.register(leave)
            weakref.finalize(self, atexit.unregister, leave).atexit = False  # many agents come and go in one process

    async def _asked(self, messages: list[AgentMessage]) -> tuple[list[AgentMessage], RunResult | None]:
        """The messages as handlers of `input` want them, or how it ended."""
        text = _text(messages)
        if not text or not self._agent.bus.has(PromptSubmitted):
            return messages, None
        hook = PromptSubmitted(text)
        await self._agent.bus.emit(hook)
        if hook.block:
            reason = f"Blocked: {hook.block}" if isinstance(hook.block, str) else "Blocked: this prompt is not allowed"
            return messages, RunResult(status="denied", text=reason, output=reason)
        if hook.handled:
            return messages, RunResult(status="completed", text=hook.reply, output=hook.reply)
        return (messages if hook.text == text else _replace_user_text(messages, hook.text)), None

    async def _before(self, prompt: str, options: dict[str, Any]) -> list[AgentMessage]:
        """Ask handlers of `agent:before`; what they add."""
        agent = self._agent
        if not agent.bus.has(BeforeRun):
            return []
        own = options.get("system")
        hook = BeforeRun(prompt, agent.context.system if own is None else own)
        given = hook.system
        await agent.bus.emit(hook)
        if hook.system != given:
            options["system"] = hook.system
        return hook.messages

    async def shutdown(self, reason: str = "exit") -> None:
        """Tell that the conversation is over, if it was opened; a second time tells nothing."""
        if self._open is not None:
            self._open = None
            await self._fire(SessionClosed(self._agent.session_id, reason))

    async def _fire(self, hook: Hook) -> None:
        if self._agent.bus.has(type(hook)):
            await self._agent.bus.emit(hook)


def _shutdown_at_exit(entrance: weakref.ref[SessionLifecycle]) -> None:
    """The process ends: tell it to a conversation that nobody closed."""
    left = entrance()
    if left is not None:
        with suppress(TimeoutError):
            asyncio.run(asyncio.wait_for(left.shutdown("exit"), _EXIT_TIMEOUT_SECONDS))


def _last_user_message_index(messages: list[AgentMessage]) -> int | None:
    """The place of the last message in which the user says something."""
    for i in range(len(messages) - 1, -1, -1):
        message = messages[i]
        if isinstance(message, Message) and message.role == "user" and message.text.strip():
            return i
    return None


def _text(messages: list[AgentMessage]) -> str:
    """What the user says."""
    at = _last_user_message_index(messages)
    message = messages[at] if at is not None else None
    return message.text if isinstance(message, Message) else ""


def _replace_user_text(messages: list[AgentMessage], text: str) -> list[AgentMessage]:
    """The same messages, in which the user says something else; images stay."""
    at = _last_user_message_index(messages)
    message = messages[at] if at is not None else None
    assert isinstance(message, Message)
    others = [b for b in message.content if not isinstance(b, TextBlock)]
    said = replace(message, content=(TextBlock(text), *others))
    return [said if i == at else m for i, m in enumerate(messages)]
