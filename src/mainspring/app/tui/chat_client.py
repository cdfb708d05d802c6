"""The chat as the terminal sees it, and opening it while the user can already type."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, CommandReceipt, Slash, parse_line
from mainspring.app.chat.events import ChatEvent, QueueChange, StatusChange
from mainspring.app.chat.types import Queued, Status
from mainspring.app.cli.arguments import PICK_SESSION
from mainspring.app.cli.runner import chat_launch_options
from mainspring.app.workspace.paths import resolve_working_folder
from mainspring.errors import ConfigError

if TYPE_CHECKING:
    from mainspring.app.workspace.settings import Settings


class ChatClient(Protocol):
    """What the screen uses of a chat: implemented by `mainspring.app.chat.engine.Chat`, and by a double in tests."""

    @property
    def status(self) -> Status:
        """The status now."""
        ...

    @property
    def command_names(self) -> Mapping[str, str]:
        """All names that can be typed after a slash, each with a summary."""
        ...

    @property
    def shortcuts(self) -> Mapping[str, str]:
        """The keys of extensions, each with a description."""
        ...

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """The background commands that are running; they end with the chat."""
        ...

    async def send(self, command: ChatCommand) -> CommandReceipt:
        """Send a command."""
        ...

    def events(self) -> AsyncIterator[ChatEvent]:
        """Return all events."""
        ...

    async def completions(self, line: str) -> tuple[Candidate, ...]:
        """Return completions of the end of a line."""
        ...

    async def stop(self) -> None:
        """End the events."""
        ...


ChatOpener = Callable[[], AbstractAsyncContextManager[ChatClient]]
"""Opens a chat, and closes it when the block is left."""

_EVENTS_PER_YIELD = 50
"""Number of events after which other tasks run, so that keys are handled during a long replay."""


class ChatConnection:
    """The chat of a screen: sends commands, also those typed before it is open, and knows its status and message queue.

    Args:
        open_chat: Opens the chat.
        on_reject: Called with a command that the chat rejected.

    Attributes:
        status: The status; None before the chat is open.
        queued: The queued messages.
        is_held: Whether the queued messages wait for the user.
    """

    def __init__(self, open_chat: ChatOpener, on_reject: Callable[[ChatCommand], None]) -> None:
        self._open_chat = open_chat
        self._on_reject = on_reject
        self._chat: ChatClient | None = None
        self._commands: asyncio.Queue[ChatCommand] = asyncio.Queue()
        self.status: Status | None = None
        self.queued: tuple[Queued, ...] = ()
        self.is_held = False

    @property
    def is_open(self) -> bool:
        """Whether the chat is open."""
        return self._chat is not None

    @property
    def command_names(self) -> Collection[str]:
        """The names that can be typed after a slash."""
        return self._chat.command_names if self._chat is not None else ()

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """The background commands that are running."""
        return self._chat.running_jobs if self._chat is not None else ()

    def send(self, command: ChatCommand) -> None:
        """Send a command as soon as the chat is open."""
        self._commands.put_nowait(command)

    async def complete(self, line: str) -> tuple[Candidate, ...]:
        """Return completions of the end of a line."""
        return await self._chat.completions(line) if self._chat is not None else ()

    async def run(self, on_open: Callable[[ChatClient], None], on_event: Callable[[ChatEvent], None]) -> None:
        """Open the chat and pass on its events until they end.

        Raises:
            Exception: If the chat cannot be opened or fails.
        """
        async with self._open_chat() as chat:
            self._chat = chat
            self.status = chat.status
            on_open(chat)
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send_all(chat))
                count = 0
                async for event in chat.events():
                    self._update(event)
                    on_event(event)
                    count += 1
                    if count % _EVENTS_PER_YIELD == 0:
                        await asyncio.sleep(0)
                sending.cancel()

    def _update(self, event: ChatEvent) -> None:
        match event:
            case StatusChange(status=status):
                self.status = status
            case QueueChange(items=items, held=held):
                self.queued, self.is_held = items, held
            case _:
                pass

    async def _send_all(self, chat: ChatClient) -> None:
        while True:
            command = await self._commands.get()
            receipt = await chat.send(command)
            if receipt.refused:
                self._on_reject(command)

    async def stop(self) -> None:
        """End the events of an open chat."""
        if self._chat is not None:
            await self._chat.stop()


def first_commands(options: argparse.Namespace) -> list[ChatCommand]:
    """Return the commands that a command line sends to its chat: the list of sessions, or the first prompt."""
    picked: list[ChatCommand] = [Slash("/resume")] if options.session == PICK_SESSION else []
    return [*picked, parse_line(options.message)] if options.message is not None else picked


def resolve_folder(options: argparse.Namespace) -> tuple[str, str]:
    """Return the working folder and a warning about it.

    Raises:
        ConfigError: If the folder does not exist.
    """
    try:
        return resolve_working_folder(options.cwd, os.environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {options.cwd}: {error} is not a folder.") from None


@asynccontextmanager
async def open_chat(
    options: argparse.Namespace, cwd: str, on_settings: Callable[[Settings], object]
) -> AsyncGenerator[ChatClient]:
    """Load settings and the engine in threads, and open the chat.

    Args:
        options: The command line.
        cwd: The working folder.
        on_settings: Called with the settings.

    Raises:
        ConfigError: If a setting or an option is invalid.
        SessionError: If the session cannot be opened.
    """
    load = await asyncio.to_thread(import_module, "mainspring.app.workspace.settings.load")
    on_settings(await asyncio.to_thread(load.load_settings, cwd, environ=os.environ))
    engine = await asyncio.to_thread(import_module, "mainspring.app.chat.engine")
    chat_options = engine.ChatOptions
    exporters = import_module("mainspring.app.export.formats").EXPORTERS
    async with engine.Chat.open(
        chat_options(ask=chat_launch_options(options), exporters=exporters, full_output=True)
    ) as chat:
        yield chat
