"""Texts that were typed and not said yet. None is lost: they are kept with the session.

From a text that somebody typed to the message that a model gets.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.chat.commands import Attachment
from mainspring.app.chat.events import Notice, QueueChanged
from mainspring.app.chat.types import Queued
from mainspring.app.compose.conversation import Conversation
from mainspring.app.workspace.file_mentions import attach_mentions
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.messages import ContentBlock, ImageBlock, Message, TextBlock, utc_now
from mainspring.prompt_tags import wrap_in_tag
from mainspring.sessions import CustomEntry, Session

QUEUE_ENTRY = "chat_queue"
"""The entry of a session that holds what waits."""


_MAX_STORED_BYTES = 4 << 20
"""Bytes of attachments that are stored with texts that wait."""


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A text that somebody wants to have said.

    Attributes:
        id: What it is known by.
        text: The text.
        kind: See `Queued`.
        attachments: What comes with it.
    """

    id: str
    text: str
    kind: Literal["steer", "queue"] = "queue"
    attachments: tuple[Attachment, ...] = ()


_INVALIDATED = QueuedMessage(id="", text="")


class MessageQueue:
    """The texts that wait, oldest first.

    Args:
        tell: Is told whenever they change.

    Attributes:
        held: Whether they wait for a word of the user's, since a run did not end well.
    """

    def __init__(self, tell: Callable[[QueueChanged], None]) -> None:
        self._tell = tell
        self._items: list[QueuedMessage] = []
        self._stored: dict[str, tuple[QueuedMessage, ...]] = {}  # by session
        self._going: list[QueuedMessage] = []
        self._dirty = asyncio.Event()
        self.held = False

    @property
    def items(self) -> tuple[QueuedMessage, ...]:
        """All of them."""
        return tuple(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def find(self, id: str) -> QueuedMessage | None:
        """The one of that name; the first one for an empty name."""
        return next((each for each in self._items if id in ("", each.id)), None)

    def add(self, said: QueuedMessage, *, first: bool = False) -> None:
        """One more."""
        self._items.insert(0 if first else len(self._items), said)
        self.changed()

    def edit(self, id: str, text: str) -> bool:
        """Change one. Says whether it waits."""
        return self._put(id, lambda said: replace(said, text=text))

    def take(self, id: str) -> QueuedMessage | None:
        """Take one out."""
        said = self.find(id)
        if said is not None:
            self._items.remove(said)
            self.changed()
        return said

    def going(self, said: QueuedMessage) -> None:
        """It is about to be said; until it has `joined` the conversation it is stored as one that waits."""
        self._going.append(said)
        self._dirty.set()

    def joined(self, id: str) -> QueuedMessage | None:
        """It has been said."""
        said = next((each for each in self._going if each.id == id), None)
        if said is not None:
            self._going.remove(said)
            self._dirty.set()
        return said

    def next(self) -> QueuedMessage | None:
        """Take out the first, unless they are held."""
        return None if self.held or not self._items else self.take(self._items[0].id)

    def requeue_steering(self) -> None:
        """No run is there to be steered any more: what was to steer comes first in the queue."""
        items = [replace(each, kind="queue") for each in self._items]
        if items != self._items:
            self._items = items
            self.changed()

    def hold(self, held: bool) -> None:
        """Let them wait for the user, or not."""
        held = held and bool(self._items)
        if held != self.held:
            self.held = held
            self.changed()

    def _put(self, id: str, make: Callable[[QueuedMessage], QueuedMessage]) -> bool:
        for i, said in enumerate(self._items):
            if said.id == id:
                self._items[i] = make(said)
                self.changed()
                return True
        return False

    def changed(self) -> None:
        """Tell what waits."""
        self.held = self.held and bool(self._items)
        shown = tuple([Queued(s.id, s.text, s.kind, len(s.attachments)) for s in self._items])
        self._tell(QueueChanged(shown, self.held))
        self._dirty.set()

    # --- kept with the session --------------------------------------------------------------------------------------

    def load_from(self, session: Session) -> tuple[QueuedMessage, ...]:
        """What waits in a session since it was left. Blocks."""
        entries = [e for e in session.entries() if isinstance(e, CustomEntry) and e.custom_type == QUEUE_ENTRY]
        data: Any = entries[-1].data if entries else None
        try:
            found = msgspec.convert(data, tuple[QueuedMessage, ...]) if data else ()
        except msgspec.ValidationError:  # written by another version
            return ()
        said = {message.id for message in session.messages}
        return tuple([replace(each, kind="queue") for each in found if each.id not in said])

    def take_up(self, session: Session, stored: tuple[QueuedMessage, ...]) -> None:
        """Go on with what waits in a session, and with what waits here; it is held."""
        known = {each.id for each in self._items}
        self._stored[session.id] = stored
        self._items = [*[each for each in stored if each.id not in known], *self._items]
        self.held = bool(self._items)
        self._dirty.set()

    def elsewhere(self, session: Session) -> None:
        """The session goes on from another place: what is stored there is past, and what waits has to be stored anew."""
        self._stored[session.id] = (_INVALIDATED,)
        self._dirty.set()

    async def wait_changed(self) -> None:
        """Wait until something has changed."""
        await self._dirty.wait()
        self._dirty.clear()

    async def save(self, session: Session | None, *, moved: bool = False) -> None:
        """Store what waits, if that is not what is stored; ``moved``: it waits in another session from now on."""
        items = () if moved else (*self._going, *self._items)
        if session is None or not session.writable or items == self._stored.get(session.id, ()):
            return
        self._stored[session.id] = items
        size = sum(len(a.data) for each in items for a in each.attachments)
        kept = items if size <= _MAX_STORED_BYTES else tuple([replace(each, attachments=()) for each in items])
        session.custom(QUEUE_ENTRY, msgspec.to_builtins(kept))
        await session.journal.flush()


MESSAGE_ID_PREFIX = "said-"
"""How the ids of texts begin that somebody typed."""


def create_queued_message(text: str, attachments: tuple[Attachment, ...] = (), kind: str = "queue") -> QueuedMessage:
    """A text with a name of its own, by which its message is known in the session, too."""
    return QueuedMessage(
        id=f"{MESSAGE_ID_PREFIX}{uuid.uuid4().hex[:12]}",
        text=text,
        kind="steer" if kind == "steer" else "queue",
        attachments=attachments,
    )


async def build_message(said: QueuedMessage, conversation: Conversation, notice: Callable[[Notice], None]) -> Message:
    """The message, with the files that the text mentions. What cannot be attached is told, and the text stays as it is."""
    text = said.text
    reader = conversation.agent.tools.get("read_file")
    try:
        text = await attach_mentions(text, conversation.env, conversation.permissions, reader)
    except (ConfigError, PermissionDeniedError) as error:
        notice(Notice(f"nothing was attached: {error}", "warn"))
    texts = [text, *[wrap_in_tag("file", a.text, path=a.name or "text") for a in said.attachments if a.text]]
    blocks: list[ContentBlock] = [TextBlock("\n\n".join(filter(None, texts)))] if any(texts) else []
    blocks += [
        ImageBlock(a.media_type, base64.b64encode(a.data).decode())
        for a in said.attachments
        if a.data and a.media_type.startswith("image/")
    ]
    return Message.user(blocks, id=said.id, timestamp=utc_now())
