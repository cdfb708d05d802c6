"""One conversation over lines: requests become commands of a chat, its events become lines."""

from __future__ import annotations

import asyncio

from mainspring import __version__
from mainspring.app.server.rpc.protocol import (
    PROTOCOL,
    Close,
    Complete,
    Error,
    GetStatus,
    Hello,
    ListCommands,
    Reply,
    Request,
    RpcLine,
    Told,
    read_request,
    write_line,
)
from mainspring.app.server.running import OpenChats
from mainspring.app.server.stdio import MOST, LineTooLongError, Wire
from mainspring.errors import MainspringError
from mainspring.runtime.chat import Chat, ChatOptions

_LAST_SECONDS = 1.0
"""How long the last events may take to be read, when the other side has ended its own."""


async def serve_rpc(wire: Wire, chats: OpenChats, options: ChatOptions) -> None:
    """Serve one program to its end.

    Raises:
        ConfigError: If something is wrong with options or settings.
        SessionError: If the session to go on with cannot be opened.
        BrokenPipeError: If nobody reads any more.
    """
    await _send(wire, Hello(PROTOCOL, __version__, MOST))
    try:
        async with chats.open(options) as chat:
            telling = asyncio.ensure_future(_tell(wire, chat))
            listening = asyncio.ensure_future(_listen(wire, chat))
            try:
                await asyncio.wait((telling, listening), return_when=asyncio.FIRST_COMPLETED)
                await chat.stop()
                await asyncio.wait((telling,), timeout=_LAST_SECONDS)
            finally:
                for task in (telling, listening):
                    task.cancel()
                await asyncio.wait((telling, listening))
            for task in (telling, listening):
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error
    except MainspringError as error:
        await _send(wire, Error("not_opened", str(error)))
        raise


async def _tell(wire: Wire, chat: Chat) -> None:
    count = 0
    async for event in chat.events():  # the chat joins what waits while the other side is slow
        count += 1
        await _send(wire, Told(count, event))


async def _listen(wire: Wire, chat: Chat) -> None:
    while True:
        try:
            line = await wire.line()
        except LineTooLongError as error:
            await _send(wire, Error("too_long", str(error)))
            continue
        if line is None:
            return
        request = read_request(line)
        if isinstance(request, Error):
            await _send(wire, request)
            continue
        await _send(wire, await _do(chat, request))
        if isinstance(request.command, Close):
            return


async def _do(chat: Chat, request: Request) -> RpcLine:
    match request.command:
        case GetStatus():
            return Reply(request.id, status=chat.status)
        case Complete(line=line):
            return Reply(request.id, candidates=await chat.completions(line))
        case ListCommands():
            return Reply(request.id, commands=dict(sorted(chat.command_names.items())))
        case Close():
            return Reply(request.id)
        case command:
            receipt = await chat.send(command)
            if receipt.refused:
                return Error("refused", receipt.refused, request.id)
            return Reply(request.id, receipt.id)


async def _send(wire: Wire, line: RpcLine) -> None:
    await wire.send(write_line(line))
