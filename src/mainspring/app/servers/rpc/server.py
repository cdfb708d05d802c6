"""One chat over lines: requests become commands of the chat, its events become lines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.servers.rpc.protocol import (
    PROTOCOL,
    Close,
    Complete,
    Error,
    EventLine,
    GetMessages,
    GetStatus,
    Hello,
    ListCommands,
    ListModels,
    ListSessions,
    Reply,
    Request,
    RpcLine,
    SavedSession,
    read_request,
)
from mainspring.app.servers.stdio import MAX_LINE_BYTES, ChatRegistry
from mainspring.app.workspace.saved_sessions import list_saved_sessions
from mainspring.errors import MainspringError
from mainspring.events import encode
from mainspring.line_transport import LineTooLongError, LineTransport
from mainspring.redaction import redact_environment

_FLUSH_SECONDS = 1.0
"""Maximum number of seconds to deliver the last events after the client has ended its input."""


async def serve_rpc(wire: LineTransport, chats: ChatRegistry, options: ChatOptions) -> None:
    """Serve one client until it disconnects.

    Raises:
        ConfigError: If options or settings are invalid.
        SessionError: If the session to resume cannot be opened.
        BrokenPipeError: If the client closed the connection.
    """
    await _send(wire, Hello(PROTOCOL, __version__, MAX_LINE_BYTES))
    try:
        async with chats.open(options) as chat:
            telling = asyncio.ensure_future(_send_events(wire, chat))
            listening = asyncio.ensure_future(_read_requests(wire, chat, options))
            try:
                await asyncio.wait((telling, listening), return_when=asyncio.FIRST_COMPLETED)
                await chat.stop()
                await asyncio.wait((telling,), timeout=_FLUSH_SECONDS)
            finally:
                for task in (telling, listening):
                    task.cancel()
                await asyncio.wait((telling, listening))
            for task in (telling, listening):
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error
    except MainspringError as error:
        await _send(wire, Error("not_opened", redact_environment(str(error))))
        raise


async def _send_events(wire: LineTransport, chat: Chat) -> None:
    count = 0
    async for event in chat.events():  # the chat merges queued events while the client is slow
        count += 1
        await _send(wire, EventLine(count, datetime.now(UTC), event))


async def _read_requests(wire: LineTransport, chat: Chat, options: ChatOptions) -> None:
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
        await _send(wire, await _handle(chat, options, request))
        if isinstance(request.command, Close):
            return


async def _handle(chat: Chat, options: ChatOptions, request: Request) -> RpcLine:
    match request.command:
        case GetStatus() | GetMessages() | Complete() | ListCommands() | ListModels() | ListSessions() | Close() as own:
            try:
                return replace(await _answer(chat, options, own), id=request.id)
            except MainspringError as error:
                return Error("refused", redact_environment(str(error)), request.id)
        case command:
            receipt = await chat.send(command)
            if receipt.refused:
                return Error("refused", receipt.refused, request.id)
            return Reply(request.id, receipt.id)


async def _answer(
    chat: Chat,
    options: ChatOptions,
    command: GetStatus | GetMessages | Complete | ListCommands | ListModels | ListSessions | Close,
) -> Reply:
    """Return the immediate reply to a query, without its ID."""
    match command:
        case GetStatus():
            return Reply(None, status=chat.status)
        case GetMessages():
            return Reply(None, messages=chat.messages)
        case Complete(line=line):
            return Reply(None, candidates=await chat.completions(line))
        case ListCommands():
            return Reply(None, commands=dict(sorted(chat.command_names.items())))
        case ListModels():
            found = await chat.completions("/model ")
            return Reply(None, models={candidate.text: candidate.detail for candidate in found})
        case ListSessions(everywhere=everywhere):
            return Reply(None, sessions=await asyncio.to_thread(_sessions, options, everywhere))
        case Close():
            return Reply(None)


def _sessions(options: ChatOptions, everywhere: bool) -> tuple[SavedSession, ...]:
    """Return the saved sessions. Blocking."""
    found = list_saved_sessions(options.ask.place, everywhere=everywhere, environ=options.environ)
    return tuple([SavedSession(i.id, i.title or i.preview, i.cwd, i.updated) for i in found if not i.problem])


async def _send(wire: LineTransport, line: RpcLine) -> None:
    await wire.send(encode(line))
