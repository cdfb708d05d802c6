"""The chat: one conversation with a person, whatever shows it. Commands go in, events come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, CommandReceipt
from mainspring.app.chat.completion import Completer
from mainspring.app.chat.dispatcher import CommandDispatcher
from mainspring.app.chat.events import ChatEvent, Refused
from mainspring.app.chat.message_queue import create_queued_message
from mainspring.app.chat.options import ChatOptions
from mainspring.app.chat.runs import RunController, start_plan
from mainspring.app.chat.session_control import SessionController
from mainspring.app.chat.slash.registry import COMMANDS, SlashCommands
from mainspring.app.chat.state import ChatState
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
        self._state = room = ChatState(options, tuple(COMMANDS))
        self._runs = RunController(room)
        self._switching = SessionController(room)
        self._slashes = SlashCommands(room, self._runs, self._switching)
        self._completion = Completer(room, self._slashes)
        self._dispatcher = CommandDispatcher(room, self._runs, self._switching, self._slashes)
        self._queue_task: asyncio.Task[None] | None = None
        self._save_task: asyncio.Task[None] | None = None
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
        room = chat._state
        await room.tasks.__aenter__()
        try:
            await room.enter(options.ask)
            await chat._start()
            yield chat
        finally:
            try:
                await _finish_despite_cancel(chat._close())
            finally:
                # The error of the block is not the group's: it must come out as it is.
                await room.tasks.__aexit__(None, None, None)
                room.outbox.close()

    async def _start(self) -> None:
        room, ask = self._state, self._state.options.ask
        await self._switching.opened()
        self._queue_task = room.spawn(self._dispatcher.command_queue.work())
        self._save_task = room.spawn(self._save())
        if ask.execute is not None:
            start_plan(room, self._runs, ask.execute)
        elif ask.prompt.strip() or ask.piped.strip():
            parts = [part for part in (ask.prompt, ask.piped) if part.strip()]
            self._runs.begin(create_queued_message("\n\n".join(parts)))

    async def _save(self) -> None:
        """Keep what waits with the session, whenever it changes."""
        room = self._state
        while not room.closing:
            await room.waiting.wait_changed()
            await room.waiting.save(room.conversation.session)

    async def _close(self) -> None:
        room = self._state
        room.closing = True
        self._runs.abort("the chat is closed")
        room.questions.cancel_all()
        self._dispatcher.stop_shells("the chat is closed")
        if self._queue_task is not None:
            self._queue_task.cancel()
        await self._runs.ended()
        room.waiting.changed()  # so that the last state is stored, by whoever waits for changes
        if self._save_task is not None:
            await asyncio.wait((self._save_task,))
        await room.close()

    # --- what a front end uses --------------------------------------------------------------------------------------

    async def send(self, command: ChatCommand) -> CommandReceipt:
        """Hand in a command. Returns at once; what comes of it is told by events. Commands take effect in order.

        What cannot be taken changes nothing: the receipt says why, and so does a `Refused` event.
        """
        self._count += 1
        id = f"c{self._count}"
        refused = "the chat is closed" if self._state.closing else ""
        if not refused:
            id, refused = self._dispatcher.take(id, command)
        if refused:
            self._state.tell(Refused(id, str(type(command).__struct_config__.tag), refused))
        return CommandReceipt(id, refused)

    def events(self) -> AsyncIterator[ChatEvent]:
        """Everything that happens, in order, from the beginning; for one reader. Ends when the chat is closed.

        A slow reader loses nothing: pieces of text that wait are joined, and so is progress.
        """
        return self._state.outbox

    @property
    def status(self) -> Status:
        """How it stands."""
        return self._state.status()

    @property
    def busy(self) -> bool:
        """Whether a run or a command goes on, or one is about to."""
        return self._state.running or self._dispatcher.busy

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as the model has it: prompts, answers, calls and results, from the last summary on."""
        return tuple([m for m in self._state.conversation.agent.messages if isinstance(m, Message)])

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
        extensions = self._state.conversation.agent.extensions
        return {s.key: s.description for s in extensions.runner.shortcuts} if extensions is not None else {}

    def kill_all(self) -> None:
        """Force every program of the conversation to end, at once: for a signal handler, where nothing can be awaited."""
        self._state.conversation.env.kill_all()

    async def stop(self) -> None:
        """End the events, so that their reader leaves the block. Safe to call twice."""
        self._state.outbox.close()


async def _finish_despite_cancel(closing: Coroutine[Any, Any, None]) -> None:
    """Close what must be closed though this task is being cancelled; that comes behind it."""
    task = asyncio.ensure_future(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
