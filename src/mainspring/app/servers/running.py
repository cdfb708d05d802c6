"""A server on standard input and output: until the other side leaves, or a signal comes."""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.cli.exit_codes import DONE
from mainspring.app.cli.interrupts import Interrupts
from mainspring.app.cli.runner import framed
from mainspring.app.servers.stdio import Wire, claimed_stdio, open_wire
from mainspring.cancellation import CancelToken

_TEARDOWN_SECONDS = 5.0
_SIGNALLED = 128

Work = Callable[[Wire, "OpenChats"], Awaitable[None]]
"""Serves one other side to its end."""


class OpenChats:
    """The chats of a server that are open, so that their programs end with the process even where there is no time to close them."""

    def __init__(self) -> None:
        self._chats: set[Chat] = set()

    @asynccontextmanager
    async def open(self, options: ChatOptions) -> AsyncGenerator[Chat]:
        """A chat, as by `Chat.open`."""
        chat: Chat | None = None
        try:
            async with Chat.open(options) as chat:
                self._chats.add(chat)
                yield chat
        finally:
            if chat is not None:
                self._chats.discard(chat)

    def kill_all(self) -> None:
        """Force their programs to end, at once."""
        for chat in list(self._chats):
            chat.kill_all()


def serve_stdio(options: argparse.Namespace, work: Work) -> int:
    """Serve; the exit code.

    Args:
        options: The command line.
        work: Speaks the protocol. It is cancelled by SIGINT, SIGTERM and SIGHUP.
    """
    return framed(options, lambda _: _serve(options, work))


def _serve(options: argparse.Namespace, work: Work) -> int:
    token, chats = CancelToken(), OpenChats()
    with claimed_stdio() as (given, out), Interrupts(token, lambda number: chats.kill_all()) as interrupts:
        asyncio.run(_until_the_end(token, given, out, lambda wire: work(wire, chats)))
        code = _SIGNALLED + interrupts.number if interrupts.number else DONE
        if options.owns_process:  # whatever may still hold the process, it ends soon
            limit = threading.Timer(_TEARDOWN_SECONDS, os._exit, (code,))
            limit.daemon = True
            limit.start()
        return code


async def _until_the_end(token: CancelToken, given: int, out: int, work: Callable[[Wire], Awaitable[None]]) -> None:
    async with open_wire(given, out) as wire:
        working = asyncio.ensure_future(work(wire))
        stopped = asyncio.ensure_future(token.wait())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, stopped):
                task.cancel()
            await asyncio.wait((working, stopped))
        if not working.cancelled() and (error := working.exception()) is not None:
            if not isinstance(error, BrokenPipeError):  # the other side has gone: nothing failed
                raise error
