"""A chat with a scripted model, and a reader of its events."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.chat.commands import Approve, ChatCommand, CommandReceipt, Prompt, Slash
from mainspring.app.chat.events import ChatEvent, CommandEnd, is_user_message
from mainspring.app.run.options import LaunchOptions, WorkspaceOptions
from mainspring.events import AgentEnd, ApprovalRequest, MessageEnd
from mainspring.messages import Message
from mainspring.testing import ScriptedModel

E = TypeVar("E", bound=ChatEvent)
SECONDS = 120.0


class Reader:
    """Reads events, and finds some of them.

    Attributes:
        chat: The chat.
        seen: The events read so far.
        model: The scripted model.
    """

    def __init__(self, chat: Chat, model: ScriptedModel) -> None:
        self.chat = chat
        self.model = model
        self.seen: list[ChatEvent] = []

    async def send(self, command: ChatCommand) -> CommandReceipt:
        return await self.chat.send(command)

    async def next(self) -> ChatEvent:
        event = await asyncio.wait_for(anext(self.chat.events()), SECONDS)
        self.seen.append(event)
        return event

    async def until(self, kind: type[E], fits: Callable[[E], bool] = lambda _: True) -> E:
        """Read on to the next event of a kind."""
        while True:
            event = await self.next()
            if isinstance(event, kind) and fits(event):
                return event

    async def run(self, text: str, answer: Approve | None = None) -> AgentEnd:
        """Send a prompt, answer every approval the same way, and wait for the end of the run."""
        await self.send(Prompt(text))
        while True:
            event = await self.next()
            if isinstance(event, ApprovalRequest) and answer is not None:
                await self.send(msgspec.structs.replace(answer, id=event.id))
            elif isinstance(event, AgentEnd):
                return event

    async def slash(self, line: str) -> CommandEnd:
        """Run a slash command."""
        receipt = await self.send(Slash(line))
        assert receipt.accepted, receipt.refused
        return await self.until(CommandEnd, lambda done: done.id == receipt.id)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one type."""
        return [event for event in self.seen if isinstance(event, kind)]

    async def until_user(self, text: str | None = None) -> MessageEnd:
        """Read on to the next message of the user."""
        return await self.until(MessageEnd, lambda e: is_user_message(e) and text in (None, e.message.text))

    def users(self) -> list[MessageEnd]:
        """Return the messages of the user."""
        return [event for event in self.of(MessageEnd) if is_user_message(event)]

    def responses(self) -> list[str]:
        """Return the texts of the responses."""
        return [event.message.text for event in self.of(MessageEnd) if not is_user_message(event)]

    def reasoning(self) -> list[str]:
        """Return the reasoning of the responses."""
        return [event.message.thinking for event in self.of(MessageEnd) if isinstance(event.message, Message)]

    def kinds(self) -> list[str]:
        """Return the type names of the events."""
        return [type(event).__name__ for event in self.seen]


@asynccontextmanager
async def chatting(folder: Path, home: Path, *script: Any, **options: Any) -> AsyncGenerator[Reader]:
    """Open a chat in a folder; ``script`` is the responses of the model, or the model itself."""
    model = script[0] if len(script) == 1 and isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    ask = options.pop("ask", {})
    chat_options = ChatOptions(
        ask=LaunchOptions(**{"prompt": "", "place": WorkspaceOptions(cwd=str(folder), offline=True), **ask}),
        environ={"MAINSPRING_HOME": str(home / ".agent"), "HOME": str(home), "PATH": "/usr/bin:/bin"},
        **{"model": model, **options},
    )
    async with Chat.open(chat_options) as chat:
        yield Reader(chat, model)
