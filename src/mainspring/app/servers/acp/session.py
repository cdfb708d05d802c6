"""A session of an ACP client: its chat, the updates for the client, and the running prompt."""

from __future__ import annotations

import asyncio
import binascii
import logging
import os
import uuid
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from urllib.parse import unquote, urlsplit

from acp import Client, RequestError, schema
from msgspec.structs import replace

from mainspring.app.chat import Chat, ChatOptions, parse_line
from mainspring.app.chat.commands import Abort, Attachment, ChatCommand, Prompt, RemoveQueued, Shell
from mainspring.app.chat.events import (
    ChatEvent,
    CommandEnd,
    CommandRejected,
    QuestionRequest,
    QuestionResult,
    QueueChange,
    ReplayEnd,
    error_hint,
)
from mainspring.app.servers.acp.client_environment import ClientFiles, ClientTerminals
from mainspring.app.servers.acp.session_updates import (
    SessionConfig,
    SessionUpdateEncoder,
    agent_message,
    available_commands,
)
from mainspring.app.servers.acp.tool_calls import PermissionRequester
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.app.workspace.file_mentions import is_attachable
from mainspring.errors import MainspringError
from mainspring.events import AgentEnd, AgentStart, ApprovalRequest, ApprovalResult, MessageEnd
from mainspring.lazy import lazy_re
from mainspring.messages import Message
from mainspring.redaction import redact_environment

PromptBlock = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def parse_prompt(blocks: Sequence[PromptBlock], cwd: str) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text and the attachments of a prompt. A link to a file becomes a mention, so permission rules decide whether it is attached.
    A link to anything that cannot be attached stays a link.

    Args:
        blocks: The prompt.
        cwd: The folder of the session.

    Raises:
        RequestError: If a block cannot be used; the whole prompt is rejected then.
    """
    text: list[str] = []
    attached: list[Attachment] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                text.append(block.text)
            case schema.ImageContentBlock():
                attached.append(
                    Attachment(media_type=_image(block.mime_type), data=_decode_base64(block.data, "an image"))
                )
            case schema.ResourceContentBlock():
                text.append(_link_text(block.uri, block.name, cwd))
            case schema.EmbeddedResourceContentBlock():
                attached.append(_embedded_attachment(block.resource, cwd))
            case _:
                raise RequestError.invalid_params({"details": "Audio is not supported. Send text or images."})
    return "".join(text), tuple(attached)


def path_from_uri(uri: str) -> str | None:
    """Return the path of a ``file:`` URI, or ``None`` for any other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
        return None
    return unquote(parts.path) or None


def _mention(uri: str, cwd: str) -> str:
    path = path_from_uri(uri)
    if path is None:
        return uri
    inside = os.path.relpath(path, cwd)
    return path if inside.startswith("..") else inside


def _link_text(uri: str, name: str, cwd: str) -> str:
    """Return a mention that attaches the file, or the text of a link to anything that cannot be attached."""
    target = path_from_uri(uri)
    if target is None:
        return f" {name} ({uri}) " if name and name != uri else f" {uri} "
    path, lines = _mention(uri, cwd), _lines_of(uri)
    if '"' in path or "\n" in path or not is_attachable(target):
        return f" {'./' * path.startswith('@')}{path}{lines} "
    return f' @"{path}"{lines} '


_LINES = lazy_re(r"L(\d+)(?:(?:-L?|:)(\d+))?")
"""The lines of a selection in the fragment of a URI: ``L5``, ``L5:9`` (Zed), ``L5-9``, or ``L5-L9``."""


def _lines_of(uri: str) -> str:
    """Return the lines that a URI selects, in words, or an empty string."""
    found = _LINES.fullmatch(urlsplit(uri).fragment) if path_from_uri(uri) else None
    if found is None:
        return ""
    first, last = found[1], found[2] or found[1]
    return f" (line {first})" if first == last else f" (lines {first}-{last})"


def _embedded_attachment(resource: schema.TextResourceContents | schema.BlobResourceContents, cwd: str) -> Attachment:
    name = _mention(resource.uri, cwd)
    if isinstance(resource, schema.TextResourceContents):
        return Attachment(media_type="text/plain", text=resource.text, name=name + _lines_of(resource.uri))
    kind = resource.mime_type or ""
    if not kind.startswith("image/"):
        reason = f"{name} is {kind or 'of an unknown kind'}. Send text, images, or a link to the file."
        raise RequestError.invalid_params({"details": reason})
    return Attachment(media_type=_image(kind), data=_decode_base64(resource.blob, name), name=name)


def _image(kind: str) -> str:
    if not kind.startswith("image/"):
        raise RequestError.invalid_params(
            {"details": f"An image must have a media type such as image/png, not {kind[:80]!r}."}
        )
    return kind


def _decode_base64(data: str, subject: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError.invalid_params({"details": f"The data of {subject} is not valid base64."}) from None


AcpStopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


_STATUSES: dict[str, AcpStopReason] = {
    "max_turns": "max_turn_requests",
    "max_seconds": "max_turn_requests",
    "max_cost": "max_turn_requests",
    "max_total_tokens": "max_tokens",
    "aborted": "cancelled",
}
_STOP_REASONS: dict[str, AcpStopReason] = {"max_tokens": "max_tokens", "refusal": "refusal"}


class PromptTurn:
    """A running prompt.

    Args:
        chat: The chat.
        id: ID of the prompt or slash command in the chat.

    Attributes:
        cancelled: Whether the client has cancelled it.
    """

    def __init__(self, chat: Chat, id: str) -> None:
        self._chat = chat
        self._id = id
        self._has_started = False
        self._barrier = ""
        self._stopped = ""
        self._done: asyncio.Future[AcpStopReason] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def wait(self) -> AcpStopReason:
        """Wait for the stop reason.

        Raises:
            RequestError: If The run failed..
        """
        return await self._done

    def end(self, reason: AcpStopReason) -> None:
        """Complete the prompt with a stop reason."""
        if not self._done.done():
            self._done.set_result("cancelled" if self.cancelled else reason)

    def fail(self, why: str, hint: str = "") -> None:
        """Fail the prompt with an error."""
        if self.cancelled:
            self.end("cancelled")
        elif not self._done.done():
            self._done.set_exception(RequestError(-32603, why, {"hint": hint} if hint else None))

    async def cancel(self) -> None:
        """Mark the prompt as cancelled; the chat has already been asked to stop the run."""
        self.cancelled = True
        if not self._has_started and not self._barrier:
            await self._chat.send(RemoveQueued(self._id))

    async def on_event(self, event: ChatEvent) -> None:
        """Update the prompt's state from an event, after the event was sent to the client."""
        match event:
            case MessageEnd(message=Message(role="user", id=id)) | AgentStart(run_id=id) if id == self._id:
                self._has_started = True
            case MessageEnd(message=Message(role="assistant", stop_reason=reason) as message) if message.text:
                self._stopped = reason or ""
            case AgentEnd() if self._has_started:
                self._finished(event)
            case CommandEnd(id=id) if id == self._id:
                self._has_started = True
                if not self._chat.status.running:  # its run may have ended already, and be reported after this event
                    self._barrier = (await self._chat.send(RemoveQueued("-"))).id
            case CommandRejected(id=id) if id == self._barrier:
                if not self._chat.status.running:
                    self.end("end_turn")
            case QueueChange(items=items) if self.cancelled and not self._has_started:
                if all(item.id != self._id for item in items):
                    self.end("cancelled")
            case _:
                pass

    def _finished(self, event: AgentEnd) -> None:
        if event.status in ("error", "no_output"):
            message = event.error.message if event.error else "The run failed."
            self.fail(message, error_hint(event.error))
        else:
            self.end(_STATUSES.get(event.status) or _STOP_REASONS.get(self._stopped, "end_turn"))


_log = logging.getLogger("mainspring.acp")


class AcpSession:
    """One session of a client.

    Args:
        client: The editor.
        capabilities: Capabilities of the editor.
        cwd: The project folder.
        additional_folders: Additional folders of the workspace; the first prompt lists them for the model.
        id: Session ID that the client uses. Defaults to the ID of the stored session, once it exists.
        hold_notifications: Callback that receives the ID before the first update, if the client does not know the ID yet.
        cancel_requests: Callback that a task calls when it no longer waits for the response of the editor.

    Attributes:
        id: Session ID that the client uses.
        buffers: Open files of the editor.
        terminals: Terminals of the editor, if it offers them.
        choices: Options that the client can choose.
    """

    def __init__(
        self,
        client: Client,
        capabilities: schema.ClientCapabilities,
        cwd: str,
        additional_folders: Sequence[str] = (),
        *,
        id: str = "",
        hold_notifications: Callable[[str], None] | None = None,
        cancel_requests: Callable[[], Awaitable[None]],
    ) -> None:
        self.id = id
        self.cwd = cwd
        self.buffers = ClientFiles(client, capabilities.fs or schema.FileSystemCapabilities())
        self.buffers.session = id
        self.terminals = ClientTerminals(client) if capabilities.terminal else None
        self.choices = SessionConfig()
        self._additional_folders = tuple(additional_folders)
        self._client = client
        self._asking = PermissionRequester(
            client, cancel_requests, forms=bool(capabilities.elicitation and capabilities.elicitation.form), cwd=cwd
        )
        self._updates = SessionUpdateEncoder(cwd, self.choices, self.terminals)
        self._hold_notifications = hold_notifications
        self._chat: Chat | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._replayed = asyncio.Event()
        self._closed = asyncio.Event()
        self._turn: PromptTurn | None = None
        self._prompting = asyncio.Lock()
        self._cancels = 0
        self._sent: set[str] = set()
        self._changes: dict[str, asyncio.Future[str]] = {}
        self._questions: dict[str, asyncio.Task[None]] = {}

    @property
    def chat(self) -> Chat:
        """Return the chat."""
        assert self._chat is not None, "The session is not open."
        return self._chat

    # --- lifecycle --------------------------------------------------------------------------------------------------

    async def run(self, chats: ChatRegistry, options: ChatOptions) -> None:
        """Open the chat, send its events as updates until it is stopped, and close it."""
        try:
            async with chats.open(options) as chat:
                self._chat = chat
                self.id = self.id or chat.status.session_id or uuid.uuid4().hex
                self.buffers.session = self.id
                if self.terminals is not None:
                    self.terminals.session = self.id
                if self._hold_notifications is not None:
                    self._hold_notifications(self.id)
                await self.choices.load_models(chat)
                self._opened.set_result(None)
                async with asyncio.TaskGroup() as tasks:
                    await self._listen(chat, tasks)
        except BrokenPipeError:
            pass  # the client disconnected
        except Exception as error:  # an error in one session must not affect the others
            if self._opened.done():
                _log.exception("a session failed")
            else:
                self._opened.set_exception(error)
        finally:
            self._closed.set()
            self._replayed.set()
            if not self._opened.done():
                self._opened.cancel()
            if self._turn is not None:
                self._turn.end("cancelled")
            for future in self._changes.values():
                future.cancel()

    async def _listen(self, chat: Chat, tasks: asyncio.TaskGroup) -> None:
        try:
            async for event in chat.events():
                for update in self._updates.encode(event) if self._should_send(event) else ():
                    await self._client.session_update(session_id=self.id, update=update)
                await self._on_event(event, tasks)
        finally:
            for task in self._questions.values():
                task.cancel()

    async def wait_opened(self, *, replayed: bool = False) -> None:
        """Wait until the session is open and, with ``replayed``, until its history was replayed.

        Raises:
            RequestError: If the session cannot be opened.
        """
        try:
            await self._opened
        except (MainspringError, OSError, ValueError) as error:
            raise RequestError.invalid_params({"details": redact_environment(str(error))}) from error
        if replayed:
            await self._replayed.wait()
        await self._client.session_update(session_id=self.id, update=available_commands(self.chat))

    async def stop(self) -> None:
        """Stop the session and its run; the stored session is preserved."""
        if self._chat is not None:
            await self._chat.stop()

    async def wait_closed(self) -> None:
        """Wait until the session is closed."""
        await self._closed.wait()

    # --- requests of the client -------------------------------------------------------------------------------------

    async def prompt(self, blocks: list[PromptBlock]) -> AcpStopReason:
        """Run a prompt or a slash command, and wait for its end. A prompt right after a cancellation waits for the end of the cancelled one.

        Raises:
            RequestError: If another prompt is running, if this prompt cannot be used, or if the run fails.
        """
        if self._turn is not None and not self._turn.cancelled:
            raise RequestError(-32600, "A prompt is already running in this session. Cancel it, or wait for its end.")
        cancels = self._cancels
        async with self._prompting:
            return "cancelled" if self._cancels != cancels else await self._run_prompt(blocks)

    async def _run_prompt(self, blocks: list[PromptBlock]) -> AcpStopReason:
        text, attachments = parse_prompt(blocks, self.cwd)
        command = parse_line(text, attachments, known=self.chat.command_names)
        if isinstance(command, Shell) or attachments:  # an editor has its own terminals
            command = Prompt(text, attachments)
        if isinstance(command, Prompt) and self._additional_folders:
            command, self._additional_folders = _with_folders(command, self._additional_folders), ()
        receipt = await self.chat.send(command)
        if receipt.refused and isinstance(command, Prompt):
            raise RequestError.invalid_params({"details": receipt.refused})
        if receipt.refused:
            await self._client.session_update(session_id=self.id, update=agent_message(receipt.refused))
            return "end_turn"
        self._sent.add(receipt.id)
        self._turn = turn = PromptTurn(self.chat, receipt.id)
        try:
            return await turn.wait()
        finally:
            self._turn = None

    async def cancel(self) -> None:
        """Stop the run, and forget a prompt that waits for its end."""
        self._cancels += 1
        turn = self._turn
        if turn is not None:
            turn.cancelled = True
        await self.chat.send(Abort("Cancelled by the user in the editor"))
        if turn is not None:
            await turn.cancel()

    async def apply_command(self, command: ChatCommand) -> None:
        """Run a command and wait until it takes effect.

        Raises:
            RequestError: If the command fails.
        """
        receipt = await self.chat.send(command)
        reason = receipt.refused
        if not reason:
            self._changes[receipt.id] = future = asyncio.get_running_loop().create_future()
            try:
                reason = await future
            finally:
                del self._changes[receipt.id]
        if reason:
            raise RequestError.invalid_params({"details": reason})

    # --- events of the chat -----------------------------------------------------------------------------------------

    def _should_send(self, event: ChatEvent) -> bool:
        return not (isinstance(event, CommandEnd) and event.id in self._changes)

    async def _on_event(self, event: ChatEvent, tasks: asyncio.TaskGroup) -> None:
        match event:
            case ReplayEnd():
                self._replayed.set()
            case CommandEnd(id=id, error=error) if id in self._changes:
                self._changes[id].set_result(error)
            case ApprovalRequest() | QuestionRequest():
                self._questions[event.id] = tasks.create_task(self._ask(event))
            case ApprovalResult(id=id) | QuestionResult(id=id):
                if (task := self._questions.pop(id, None)) is not None:
                    task.cancel()
            case QueueChange(items=items, held=True):
                for item in items:
                    if (
                        item.id in self._sent
                    ):  # the client shows the prompt as stopped, so its queued text must not run later
                        await self.chat.send(RemoveQueued(item.id))
            case _:
                pass
        if self._turn is not None:
            await self._turn.on_event(event)

    async def _ask(self, event: ApprovalRequest | QuestionRequest) -> None:
        if isinstance(event, ApprovalRequest):
            await self.chat.send(await self._asking.request_approval(self.id, event))
        else:
            await self.chat.send(await self._asking.request_answer(self.id, event))


def _with_folders(prompt: Prompt, additional_folders: Sequence[str]) -> Prompt:
    """Add the list of additional folders to a prompt."""
    listed = "\n".join(additional_folders)
    text = f"The workspace has further folders, whose files may be read by absolute paths:\n{listed}"
    note = Attachment(media_type="text/plain", text=text, name="workspace folders")
    return replace(prompt, attachments=(note, *prompt.attachments))
