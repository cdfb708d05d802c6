"""The chat: one conversation with a person, whatever shows it. Commands go in, events come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, Receipt
from mainspring.app.chat.completion import Completion
from mainspring.app.chat.dispatcher import Taking
from mainspring.app.chat.events import ChatEvent, Refused
from mainspring.app.chat.message_queue import said
from mainspring.app.chat.options import ChatOptions
from mainspring.app.chat.runs import Runs, begin_plan
from mainspring.app.chat.session_control import Switching
from mainspring.app.chat.slash.registry import COMMANDS, Slashes
from mainspring.app.chat.state import Room
from mainspring.app.chat.types import Status
from mainspring.messages import Message


class Chat:
    """One conversation with a person. Knows nothing of how it is shown.

    ```
    async with Chat.open(ChatOptions()) as chat:
        await chat.send(Prompt("Hello"))
        async for event in chat.events():
            ...
    ```
    """

    def __init__(self, options: ChatOptions) -> None:
        self._room = room = Room(options, tuple(COMMANDS))
        self._runs = Runs(room)
        self._switching = Switching(room)
        self._slashes = Slashes(room, self._runs, self._switching)
        self._completion = Completion(room, self._slashes)
        self._taking = Taking(room, self._runs, self._switching, self._slashes)
        self._lane: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._count = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, options: ChatOptions) -> AsyncGenerator[Chat]:
        """Open a chat; leaving the block stops what runs, saves what is queued and ends the events.

        Raises:
            ConfigError: If something is wrong with options or settings.
            SessionError: If the session to go on with cannot be opened.
        """
        chat = cls(options)
        room = chat._room
        await room.tasks.__aenter__()
        try:
            await room.enter(options.ask)
            await chat._begin()
            yield chat
        finally:
            try:
                await _to_its_end(chat._close())
            finally:
                # The error of the block is not the group's: it must come out as it is.
                await room.tasks.__aexit__(None, None, None)
                room.outbox.close()

    async def _begin(self) -> None:
        room, ask = self._room, self._room.options.ask
        await self._switching.opened()
        self._lane = room.spawn(self._taking.lane.work())
        self._saving = room.spawn(self._save())
        if ask.execute is not None:
            begin_plan(room, self._runs, ask.execute)
        elif ask.prompt.strip() or ask.piped.strip():
            parts = [part for part in (ask.prompt, ask.piped) if part.strip()]
            self._runs.begin(said("\n\n".join(parts)))

    async def _save(self) -> None:
        """Keep what waits with the session, whenever it changes."""
        room = self._room
        while not room.closing:
            await room.waiting.changed_since()
            await room.waiting.save(room.conversation.session)

    async def _close(self) -> None:
        room = self._room
        room.closing = True
        self._runs.abort("the chat is closed")
        room.questions.drop_all()
        self._taking.stop_shells("the chat is closed")
        if self._lane is not None:
            self._lane.cancel()
        await self._runs.ended()
        room.waiting.changed()  # so that the last state is stored, by whoever waits for changes
        if self._saving is not None:
            await asyncio.wait((self._saving,))
        await room.close()

    # --- what a front end uses --------------------------------------------------------------------------------------

    async def send(self, command: ChatCommand) -> Receipt:
        """Hand in a command. Returns at once; what comes of it is told by events. Commands take effect in order.

        What cannot be taken changes nothing: the receipt says why, and so does a `Refused` event.
        """
        self._count += 1
        id = f"c{self._count}"
        refused = "the chat is closed" if self._room.closing else ""
        if not refused:
            id, refused = self._taking.take(id, command)
        if refused:
            self._room.tell(Refused(id, str(type(command).__struct_config__.tag), refused))
        return Receipt(id, refused)

    def events(self) -> AsyncIterator[ChatEvent]:
        """Everything that happens, in order, from the beginning; for one reader. Ends when the chat is closed.

        A slow reader loses nothing: pieces of text that wait are joined, and so is progress.
        """
        return self._room.outbox

    @property
    def status(self) -> Status:
        """How it stands."""
        return self._room.status()

    @property
    def busy(self) -> bool:
        """Whether a run or a command goes on, or one is about to."""
        return self._room.running or self._taking.busy

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as the model has it: prompts, answers, calls and results, from the last summary on."""
        return tuple([m for m in self._room.conversation.agent.messages if isinstance(m, Message)])

    async def completions(self, line: str) -> tuple[Candidate, ...]:
        """Completions at the end of a line: names of commands, their arguments, and files after ``@``."""
        return await self._completion.complete(line)

    @property
    def command_names(self) -> dict[str, str]:
        """What can be typed behind a slash, each with a word about it."""
        return self._slashes.names()

    @property
    def shortcuts(self) -> dict[str, str]:
        """The keys on which extensions do something, each with a word about it."""
        extensions = self._room.conversation.agent.extensions
        return {s.key: s.description for s in extensions.runner.shortcuts} if extensions is not None else {}

    def kill_all(self) -> None:
        """Force every program of the conversation to end, at once: for a signal handler, where nothing can be awaited."""
        self._room.conversation.env.kill_all()

    async def stop(self) -> None:
        """End the events, so that their reader leaves the block. Safe to call twice."""
        self._room.outbox.close()


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    """Close what must be closed though this task is being cancelled; that comes behind it."""
    task = asyncio.ensure_future(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
