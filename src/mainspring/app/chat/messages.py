"""From a text that somebody typed to the message that a model gets."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable

from mainspring.app.chat.commands import Attachment
from mainspring.app.chat.events import Notice
from mainspring.app.chat.message_queue import Said
from mainspring.app.compose.conversation import Conversation
from mainspring.app.workspace.file_mentions import attach
from mainspring.attachments import delimited
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.messages import ContentBlock, ImageBlock, Message, TextBlock, utc_now

SAID = "said-"
"""How the ids of texts begin that somebody typed."""


def said(text: str, attachments: tuple[Attachment, ...] = (), kind: str = "queue") -> Said:
    """A text with a name of its own, by which its message is known in the session, too."""
    return Said(
        id=f"{SAID}{uuid.uuid4().hex[:12]}",
        text=text,
        kind="steer" if kind == "steer" else "queue",
        attachments=attachments,
    )


async def message_of(said: Said, conversation: Conversation, notice: Callable[[Notice], None]) -> Message:
    """The message, with the files that the text mentions. What cannot be attached is told, and the text stays as it is."""
    text = said.text
    reader = conversation.agent.tools.get("read_file")
    try:
        text = await attach(text, conversation.env, conversation.permissions, reader)
    except (ConfigError, PermissionDeniedError) as error:
        notice(Notice(f"nothing was attached: {error}", "warn"))
    texts = [text, *[delimited("file", a.text, path=a.name or "text") for a in said.attachments if a.text]]
    blocks: list[ContentBlock] = [TextBlock("\n\n".join(filter(None, texts)))] if any(texts) else []
    blocks += [
        ImageBlock(a.media_type, base64.b64encode(a.data).decode())
        for a in said.attachments
        if a.data and a.media_type.startswith("image/")
    ]
    return Message.user(blocks, id=said.id, timestamp=utc_now())
