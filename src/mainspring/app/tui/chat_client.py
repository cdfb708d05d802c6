"""The chat as the terminal sees it, and opening it while the user can already type."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, CommandReceipt
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.types import Status
from mainspring.app.cli.runner import chat_launch_options
from mainspring.app.workspace.paths import resolve_working_folder
from mainspring.errors import ConfigError

if TYPE_CHECKING:
    from mainspring.app.workspace.settings import Settings


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


def resolve_folder(options: argparse.Namespace) -> tuple[str, str]:
    """The folder to work in, and what is to be said about it.

    Raises:
        ConfigError: If there is no such folder.
    """
    try:
        return resolve_working_folder(options.cwd, os.environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {options.cwd}: there is no folder {error}") from None


@asynccontextmanager
async def open_chat(
    options: argparse.Namespace, cwd: str, seen: Callable[[Settings], object]
) -> AsyncGenerator[ChatClient]:
    """Load settings and the engine beside, and open the chat.

    Args:
        options: The command line.
        cwd: The folder to work in.
        seen: Is told the settings.

    Raises:
        ConfigError: If settings or options are wrong.
        SessionError: If the session to go on with cannot be opened.
    """
    load = await asyncio.to_thread(import_module, "mainspring.app.workspace.settings.load")
    seen(await asyncio.to_thread(load.load_settings, cwd, environ=os.environ))
    engine = await asyncio.to_thread(import_module, "mainspring.app.chat.engine")
    chat_options = engine.ChatOptions
    forms = import_module("mainspring.app.export.formats").EXPORTERS
    async with engine.Chat.open(chat_options(ask=chat_launch_options(options), exporters=forms)) as chat:
        yield chat
