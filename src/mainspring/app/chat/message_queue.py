"""Queued messages of the user, which are saved with the session so that none is lost, and turning them into model messages."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.chat.commands import Attachment
from mainspring.app.chat.events import ChatEvent, QueueChange, user_message_event
from mainspring.app.chat.types import Queued
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.workspace.file_mentions import MentionReader, fit_image, require_vision
from mainspring.errors import AgentError, ConfigError, PermissionDeniedError
from mainspring.events import Event, MessageEnd, MessageSource, Notice
from mainspring.loop.hooks import BeforeInject
from mainspring.messages import AgentMessage, ContentBlock, Message, TextBlock, utc_now
from mainspring.permissions import PermissionDecision, PermissionRequest, Reply
from mainspring.permissions.plug import build_request
from mainspring.prompt_tags import INSTRUCTIONS_TAG, wrap_in_tag
from mainspring.sessions import CustomEntry, Session

QUEUE_ENTRY = "chat_queue"
"""Type of the session entry that stores the queue."""

MESSAGE_ID_PREFIX = "said-"
"""Prefix of the IDs of messages that the user typed."""

_MAX_STORED_BYTES = 4 << 20
"""Maximum size of the attachments that are stored with the queue."""

_ORDER_FIRST = -900


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A message that the user wants to send.

    Attributes:
        id: Its ID, which the message in the session has, too.
        text: The text.
        kind: See `Queued`.
        attachments: Its images and texts.
        command: The slash command that wrote it; empty for a message that the user typed.
        instructions: The instructions of that command, in addition to the text.
    """

    id: str
    text: str
    kind: Literal["steer", "queue"] = "queue"
    attachments: tuple[Attachment, ...] = ()
    command: str = ""
    instructions: str = ""

    def to_event(self, source: MessageSource) -> MessageEnd:
        """Return the event that it is sent."""
        return user_message_event(self.text, source, len(self.attachments), self.id, self.instructions)


AskUser = Callable[[PermissionRequest], Awaitable[Reply]]
"""Asks the user to approve a call."""

_INVALIDATED = QueuedMessage(id="", text="")


class MessageQueue:
    """The messages that are not sent yet, oldest first.

    Args:
        publish: Publishes an event of the chat.
        ask: Asks the user about a file that a message mentions.

    Attributes:
        paused: Whether the messages wait for the user, because a run was stopped or failed.
    """

    def __init__(self, publish: Callable[[ChatEvent], None], ask: AskUser) -> None:
        self._publish = publish
        self._ask = ask
        self._items: list[QueuedMessage] = []
        self._stored: dict[str, tuple[QueuedMessage, ...]] = {}  # by session
        self._sending: list[QueuedMessage] = []
        self._dirty = asyncio.Event()
        self.paused = False

    def __len__(self) -> int:
        return len(self._items)

    def find(self, id: str) -> QueuedMessage | None:
        """Return the message with an ID, or the first one for an empty ID."""
        return next((each for each in self._items if id in ("", each.id)), None)

    def add(self, message: QueuedMessage, *, first: bool = False) -> None:
        """Queue a message."""
        self._items.insert(0 if first else len(self._items), message)
        self.publish()

    def edit(self, id: str, text: str) -> None:
        """Replace the text of a queued message."""
        self._items = [replace(each, text=text) if each.id == id else each for each in self._items]
        self.publish()

    def remove(self, id: str) -> QueuedMessage | None:
        """Remove a message from the queue and return it."""
        message = self.find(id)
        if message is not None:
            self._items.remove(message)
            self.publish()
        return message

    def remove_next(self) -> QueuedMessage | None:
        """Remove the first message and return it, or None if the queue is paused or empty."""
        return None if self.paused or not self._items else self.remove(self._items[0].id)

    def mark_sending(self, message: QueuedMessage) -> None:
        """Mark a message as being sent. It stays stored in the session until `mark_sent`."""
        self._sending.append(message)
        self._dirty.set()

    def mark_sent(self, id: str) -> QueuedMessage | None:
        """Mark a message as sent. Return it, or None if it was not being sent."""
        message = next((each for each in self._sending if each.id == id), None)
        if message is not None:
            self._sending.remove(message)
            self._dirty.set()
        return message

    def requeue_steering(self) -> None:
        """Turn steering messages into queued ones after the run that they were for."""
        items = [replace(each, kind="queue") for each in self._items]
        if items != self._items:
            self._items = items
            self.publish()

    def set_paused(self, is_paused: bool) -> None:
        """Make the messages wait for the user, or not."""
        is_paused = is_paused and bool(self._items)
        if is_paused != self.paused:
            self.paused = is_paused
            self.publish()

    def publish(self) -> None:
        """Publish the queue, and have it saved."""
        self.paused = self.paused and bool(self._items)
        items = tuple([Queued(m.id, m.text, m.kind, len(m.attachments)) for m in self._items])
        self._publish(QueueChange(items, self.paused))
        self._dirty.set()

    # --- steering ---------------------------------------------------------------------------------------------------

    async def attach(self, conversation: OpenConversation, *, is_copy: bool) -> None:
        """Follow a conversation, and load the queue of its session.

        Args:
            conversation: The conversation.
            is_copy: Whether its session is a copy, whose stored queue belongs to the original.
        """
        conversation.agent.bus.subscribe(self._on_event)
        conversation.agent.on(BeforeInject, lambda hook: self._inject(hook, conversation), order=_ORDER_FIRST)
        session = conversation.session
        if session is not None:
            self._adopt(session, () if is_copy else await asyncio.to_thread(_load_queue, session))
            if is_copy:
                self.invalidate(session)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, Message) and event.message.role == "user":
            self.mark_sent(event.message.id)

    async def _inject(self, hook: BeforeInject, conversation: OpenConversation) -> None:
        """Build steering messages from the queue, since the user may have edited or removed them in the meantime."""
        messages: list[AgentMessage] = []
        for message in hook.messages:
            if not message.id.startswith(MESSAGE_ID_PREFIX):
                messages.append(message)
                continue
            queued = self.find(message.id)
            if queued is not None and queued.kind == "steer":
                self.remove(queued.id)
                self.mark_sending(queued)
                try:
                    built = await build_message(queued, conversation, self._ask, self._publish)
                except MessageNotSentError as error:  # it is tried again after the run, which then returns its text
                    self.mark_sent(queued.id)
                    self.add(replace(queued, kind="queue"))
                    self._publish(Notice(str(error), "warn"))
                    continue
                self._publish(queued.to_event("steer"))
                messages.append(built)
        hook.messages = messages

    # --- storing ----------------------------------------------------------------------------------------------------

    def _adopt(self, session: Session, stored: tuple[QueuedMessage, ...]) -> None:
        """Put the stored messages of a session before those that are queued now, and pause the queue."""
        known = {each.id for each in self._items}
        self._stored[session.id] = stored
        self._items = [*[each for each in stored if each.id not in known], *self._items]
        self.paused = bool(self._items)
        self._dirty.set()

    def invalidate(self, session: Session) -> None:
        """Have the queue stored again, because the session continues from an entry before the stored queue."""
        self._stored[session.id] = (_INVALIDATED,)
        self._dirty.set()

    async def wait_changed(self) -> None:
        """Wait for a change."""
        await self._dirty.wait()
        self._dirty.clear()

    async def save(self, session: Session | None, *, session_changed: bool = False) -> None:
        """Store the queue in a session if it changed; with ``session_changed`` as empty, since another session stores it now."""
        items = () if session_changed else (*self._sending, *self._items)
        if session is None or not session.writable or items == self._stored.get(session.id, ()):
            return
        self._stored[session.id] = items
        size = sum(len(a.data) for each in items for a in each.attachments)
        stored = items if size <= _MAX_STORED_BYTES else tuple([replace(each, attachments=()) for each in items])
        session.add_custom(QUEUE_ENTRY, msgspec.to_builtins(stored))
        await session.journal.flush()


def _load_queue(session: Session) -> tuple[QueuedMessage, ...]:
    """Return the messages that are stored in a session. Blocks."""
    entries = [e for e in session.entries() if isinstance(e, CustomEntry) and e.custom_type == QUEUE_ENTRY]
    data: Any = entries[-1].data if entries else None
    try:
        stored = msgspec.convert(data, tuple[QueuedMessage, ...]) if data else ()
    except msgspec.ValidationError:  # written by another version
        return ()
    sent = {message.id for message in session.messages}
    return tuple([replace(each, kind="queue") for each in stored if each.id not in sent])


def create_queued_message(text: str, attachments: tuple[Attachment, ...] = (), kind: str = "queue") -> QueuedMessage:
    """Create a message with a new ID."""
    return QueuedMessage(
        id=f"{MESSAGE_ID_PREFIX}{uuid.uuid4().hex[:12]}",
        text=text,
        kind="steer" if kind == "steer" else "queue",
        attachments=attachments,
    )


class MessageNotSentError(AgentError):
    """A message was not sent, because a file that it mentions or an image cannot be attached."""


async def build_message(
    queued: QueuedMessage, conversation: OpenConversation, ask: AskUser, publish: Callable[[Notice], object]
) -> Message:
    """Build the message for the model, with the files that the text mentions.

    Args:
        queued: The message.
        conversation: Its conversation.
        ask: Asks the user about a file that needs approval.
        publish: Publishes a notice about a file that is attached in part.

    Raises:
        MessageNotSentError: If a file cannot be attached.
    """

    async def ask_for_file(decision: PermissionDecision, path: str) -> bool:
        request = build_request(decision, {"path": path})
        reply = await ask(replace(request, call_id=f"{queued.id}:{path}", agent=conversation.agent.name))
        if reply.allow and reply.session:
            conversation.permissions.grant_for_session(decision)
        return reply.allow

    files = MentionReader(
        conversation.env,
        conversation.permissions,
        conversation.agent.tools.get("read_file"),
        ask=ask_for_file,
        with_images=True,
    )
    pasted = [a for a in queued.attachments if a.data and a.media_type.startswith("image/")]
    try:
        text = await files.attach(queued.text)
        if pasted or files.images:
            require_vision(conversation.choice.model.info, conversation.choice.name.spec)
        images = [await fit_image(a.name or "The pasted image", a.data) for a in pasted]
    except (ConfigError, PermissionDeniedError) as error:
        raise MessageNotSentError(f"The message was not sent. {error}") from error
    for note in files.notes:
        publish(Notice(note))
    if queued.instructions:
        text += "\n\n" + wrap_in_tag(INSTRUCTIONS_TAG, queued.instructions, line=queued.command)
    texts = [text, *[wrap_in_tag("file", a.text, path=a.name or "text") for a in queued.attachments if a.text]]
    blocks: list[ContentBlock] = [TextBlock("\n\n".join(filter(None, texts)))] if any(texts) else []
    blocks += [*images, *files.images]
    return Message.user(blocks, id=queued.id, timestamp=utc_now())
