"""One prompt of a client, from what it says to why it stopped."""

from __future__ import annotations

import asyncio
from typing import Literal

from acp import RequestError

from mainspring.app.chat import Chat
from mainspring.app.chat.commands import RemoveQueued
from mainspring.app.chat.events import (
    AnswerEnd,
    ChatEvent,
    CommandDone,
    QueueChanged,
    Refused,
    RunFinished,
    RunStarted,
    UserText,
)

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]

_STATUSES: dict[str, StopReason] = {
    "max_turns": "max_turn_requests",
    "max_seconds": "max_turn_requests",
    "max_cost": "max_turn_requests",
    "max_tokens": "max_tokens",
    "aborted": "cancelled",
}
_ANSWERS: dict[str, StopReason] = {"max_tokens": "max_tokens", "refusal": "refusal"}


class Turn:
    """A prompt that goes on.

    Args:
        chat: The chat.
        id: What the chat knows the prompt, or the slash command, by.

    Attributes:
        cancelled: Whether the client has taken it back.
    """

    def __init__(self, chat: Chat, id: str) -> None:
        self._chat = chat
        self._id = id
        self._begun = False
        self._barrier = ""
        self._stopped = ""
        self._done: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def wait(self) -> StopReason:
        """Why it stopped.

        Raises:
            RequestError: If the run failed.
        """
        return await self._done

    def end(self, reason: StopReason) -> None:
        """It is over."""
        if not self._done.done():
            self._done.set_result("cancelled" if self.cancelled else reason)

    def fail(self, why: str, hint: str = "") -> None:
        """It is over because something failed."""
        if self.cancelled:
            self.end("cancelled")
        elif not self._done.done():
            self._done.set_exception(RequestError(-32603, why, {"hint": hint} if hint else None))

    async def cancel(self) -> None:
        """The client takes it back; the chat is told already to stop what runs."""
        self.cancelled = True
        if not self._begun and not self._barrier:
            await self._chat.send(RemoveQueued(self._id))

    async def hear(self, event: ChatEvent) -> None:
        """See what an event, which the client has been told of, means for it."""
        match event:
            case UserText(id=id) | RunStarted(id=id) if id == self._id:
                self._begun = True
            case AnswerEnd(stop_reason=reason):
                self._stopped = reason
            case RunFinished() if self._begun:
                self._finished(event)
            case CommandDone(id=id) if id == self._id:
                self._begun = True
                if not self._chat.status.running:  # what it has begun may be over already, and be told behind this
                    self._barrier = (await self._chat.send(RemoveQueued("-"))).id
            case Refused(id=id) if id == self._barrier:
                if not self._chat.status.running:
                    self.end("end_turn")
            case QueueChanged(items=items) if self.cancelled and not self._begun:
                if all(item.id != self._id for item in items):
                    self.end("cancelled")
            case _:
                pass

    def _finished(self, event: RunFinished) -> None:
        if event.status == "error":
            self.fail(event.error or "the run failed", event.hint)
        else:
            self.end(_STATUSES.get(event.status) or _ANSWERS.get(self._stopped, "end_turn"))
