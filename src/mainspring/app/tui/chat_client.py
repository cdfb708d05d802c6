"""The chat that the command line asks for, loaded while people can type already."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from mainspring.app.cli.runner import chat_launch_options
from mainspring.app.tui.chat_port import ChatClient
from mainspring.app.workspace.paths import resolve_working_folder
from mainspring.errors import ConfigError

if TYPE_CHECKING:
    from mainspring.app.workspace.settings import Settings


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
