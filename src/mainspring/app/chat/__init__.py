"""The chat engine: commands in, events out, and nothing that draws."""

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.app.chat.commands import command_of as command_of
    from mainspring.app.chat.engine import Chat as Chat
    from mainspring.app.chat.options import ChatOptions as ChatOptions

__all__, __getattr__ = exports(
    __name__,
    {
        "engine": "Chat",
        "commands": "command_of",
        "options": "ChatOptions",
    },
)
