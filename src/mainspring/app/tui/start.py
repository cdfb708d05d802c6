"""``mainspring`` in a terminal: the screen at once, the agent as soon as it is loaded, the terminal as it was in the end."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.app.cli.console import Console
from mainspring.app.cli.frame import framed, place_of, rules_of
from mainspring.app.tui.guard import TerminalGuard
from mainspring.app.tui.history import HistoryFile, history_of
from mainspring.app.tui.look import Look, locale_encoding, look_of
from mainspring.app.tui.signals import Signals
from mainspring.runtime.home import user_home, working_folder
from mainspring.runtime.options import AskOptions, Confinement

if TYPE_CHECKING:
    from mainspring.app.tui.port import ChatPort
    from mainspring.app.tui.session import Session
    from mainspring.runtime.settings import Settings


def run(options: argparse.Namespace) -> int:
    """Show the screen until the user leaves; the exit code."""
    return framed(options, lambda console: _Start(options, console).go())


class _Start:
    """One session from its first row to its last."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._options = options
        self._console = console
        self._session: Session | None = None
        self._cwd, warning = working_folder(options.cwd, os.environ)
        if warning:
            console.say(f"note: {warning}")

    def go(self) -> int:
        encoding = locale_encoding(os.environ)
        look = look_of(os.environ, encoding)
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None and not look.utf8:
            reconfigure(encoding=encoding, errors="replace")
        if look.dumb:
            return import_module("mainspring.app.tui.line_mode").run(self._open, look)
        with TerminalGuard(sys.stdin.fileno()) as guard:
            guard.quiet()
            self._session = session = self._new_session(look)
            number = asyncio.run(_until_left(session, guard))
        if session.failure is not None:
            raise session.failure
        self._farewell(session)
        return 128 + number if number else 0

    def _new_session(self, look: Look) -> Session:
        create_input = import_module("prompt_toolkit.input").create_input
        session = import_module("mainspring.app.tui.session").Session
        home = user_home(os.environ)
        history = history_of(home.root, Path(self._cwd)) if home else HistoryFile(Path(os.devnull))
        return session(self._open, look, sys.stdout, create_input(sys.stdin), history, os.environ)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[ChatPort]:
        """Load the engine while people can type already, and open the chat."""
        settings = await asyncio.to_thread(self._settings)
        if self._session is not None:
            self._follow(settings, self._session)
        engine = await asyncio.to_thread(import_module, "mainspring.runtime.chat.engine")
        options = import_module("mainspring.runtime.chat.options").ChatOptions
        async with engine.Chat.open(options(ask=ask_options(self._options))) as chat:
            yield chat

    def _settings(self) -> Settings:
        return import_module("mainspring.runtime.settings.load").load_settings(self._cwd, environ=os.environ)

    def _follow(self, settings: Settings, session: Session) -> None:
        """Show things as the settings want it."""
        config = settings.config
        told = config.notifications
        session.notify_by(told.when, told.ways, told.command, told.after_seconds)
        if config.ui.theme != "auto":
            session.restyle(look_of(os.environ, locale_encoding(os.environ), config.ui.theme))
        if config.ui.keys:
            session.set_keys(config.ui.keys)

    def _farewell(self, session: Session) -> None:
        status = session.status
        if status is not None and status.session_id and status.tokens:
            self._console.say(f"go on with: mainspring -c, or --session {status.session_id}")


async def _until_left(session: Session, guard: TerminalGuard) -> int:
    """Show the session; the signal that ended it, or 0."""
    loop = asyncio.get_running_loop()
    with Signals(lambda: loop.call_soon_threadsafe(session.leave), guard.restore) as signals:
        await session.run()
    return signals.number


def ask_options(given: argparse.Namespace) -> AskOptions:
    """What the command line says about the conversation."""
    return AskOptions(
        prompt="",
        place=place_of(given),
        model=given.model,
        system=given.system,
        tools=given.tools,
        continued=given.continued,
        session=given.session,
        session_id=given.session_id,
        fork=given.fork,
        save=not given.no_session,
        max_turns=given.max_turns,
        max_seconds=given.max_seconds,
        max_cost=given.max_cost,
        max_total_tokens=given.max_tokens,
        max_output_tokens=given.max_output_tokens,
        rules=rules_of(given),
        on_deny=given.on_deny,
        sandbox=Confinement(layer=given.sandbox, network=given.sandbox_network),
        plan=given.plan,
    )
