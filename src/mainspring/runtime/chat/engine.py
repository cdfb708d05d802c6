"""The chat: one conversation with a person, whatever shows it. Commands go in, events come out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainspring.runtime.chat.commands import ChatCommand, Receipt
from mainspring.runtime.chat.events import ChatEvent
from mainspring.runtime.chat.options import ChatOptions
from mainspring.runtime.chat.shown import Candidate
from mainspring.runtime.chat.words import Status


class Chat:
    """One conversation with a person. Knows nothing of how it is shown.

    ```
    async with Chat.open(ChatOptions()) as chat:
        await chat.send(Prompt("Hello"))
        async for event in chat.events():
            ...
    ```
    """

    @classmethod
    @asynccontextmanager
    async def open(cls, options: ChatOptions) -> AsyncIterator[Chat]:
        """Open a chat; leaving the block stops what runs, saves what is queued and ends the events.

        Raises:
            ConfigError: If something is wrong with options or settings.
            SessionError: If the session to go on with cannot be opened.
        """
        yield cls()

    async def send(self, command: ChatCommand) -> Receipt:
        """Hand in a command. Returns at once; what comes of it is told by events. Commands take effect in order.

        What cannot be taken changes nothing: the receipt says why, and so does a `Refused` event.
        """
        raise NotImplementedError

    def events(self) -> AsyncIterator[ChatEvent]:
        """Everything that happens, in order, from the beginning; for one reader. Ends when the chat is closed.

        A slow reader loses nothing: pieces of text that wait are joined, and so is progress.
        """
        raise NotImplementedError

    @property
    def status(self) -> Status:
        """How it stands."""
        raise NotImplementedError

    async def complete(self, line: str) -> tuple[Candidate, ...]:
        """Completions at the end of a line: names of commands, their arguments, and files after ``@``."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the events, so that their reader leaves the block. Safe to call twice."""
        raise NotImplementedError
