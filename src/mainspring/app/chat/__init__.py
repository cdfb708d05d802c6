"""The chat engine, for front ends: commands in, events out."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.app.chat.commands import parse_line as parse_line
    from mainspring.app.chat.engine import Chat as Chat
    from mainspring.app.chat.engine import ChatOptions as ChatOptions

lazy_exports(
    __name__,
    {
        "engine": "Chat ChatOptions",
        "commands": "parse_line",
    },
)
