"""A chat that a test controls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, CommandReceipt
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.types import Status


class ScriptedChat:
    """Publishes the events of a test, and stores the commands it receives."""

    def __init__(self, react: "Callable[[ScriptedChat, ChatCommand], None] | None" = None) -> None:
        self.commands: list[ChatCommand] = []
        self.status = Status(model="openai:test", model_label="test", context_window=1000, cost=0.0)
        self.candidates: tuple[Candidate, ...] = ()
        self.command_names: dict[str, str] = {}
        self.shortcuts: dict[str, str] = {}
        self.running_jobs: tuple[str, ...] = ()
        self.refuse = ""
        self.got = asyncio.Event()
        self._events: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
        self._react = react

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[ScriptedChat]":
        yield self

    def publish(self, *events: ChatEvent) -> None:
        for event in events:
            self._events.put_nowait(event)

    async def send(self, command: ChatCommand) -> CommandReceipt:
        self.commands.append(command)
        self.got.set()
        if self._react is not None:
            self._react(self, command)
        return CommandReceipt(str(len(self.commands)), self.refuse)

    async def events(self) -> AsyncIterator[ChatEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    async def completions(self, line: str) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.text.startswith(line[c.start :]))

    async def stop(self) -> None:
        self._events.put_nowait(None)
