"""What the screen needs of a chat: the engine has it, and so has a double in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, CommandReceipt
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.types import Status


class ChatClient(Protocol):
    """A chat, as `mainspring.app.chat.engine.Chat` is one."""

    @property
    def status(self) -> Status:
        """How it stands."""
        ...

    @property
    def command_names(self) -> Mapping[str, str]:
        """What can be typed behind a slash, each with a word about it."""
        ...

    @property
    def shortcuts(self) -> Mapping[str, str]:
        """The keys on which extensions do something, each with a word about it."""
        ...

    async def send(self, command: ChatCommand) -> CommandReceipt:
        """Hand in a command."""
        ...

    def events(self) -> AsyncIterator[ChatEvent]:
        """Everything that happens."""
        ...

    async def completions(self, line: str) -> tuple[Candidate, ...]:
        """Completions at the end of a line."""
        ...

    async def stop(self) -> None:
        """End the events."""
        ...


ChatOpener = Callable[[], AbstractAsyncContextManager[ChatClient]]
"""Opens a chat; it is closed when the block is left."""
