"""One run of the agent for one call of a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from mainspring.app.server.running import OpenChats
from mainspring.runtime.chat import Chat, ChatOptions
from mainspring.runtime.chat.commands import Answer, Approve, Prompt
from mainspring.runtime.chat.events import (
    ApprovalAsked,
    ChatEvent,
    ChildStarted,
    QuestionAsked,
    Retrying,
    RunFinished,
    ToolStarted,
)
from mainspring.runtime.chat.words import Decision

Decide = Callable[[ApprovalAsked], Awaitable[Decision]]
"""Asks the user about a call."""

Progress = Callable[[str], Awaitable[None]]
"""Is told what happens."""


class Runs:
    """Opens chats in tasks of their own: a call that is cancelled leaves its block at once, and its chat still ends in order.

    Args:
        tasks: Where they live.
        chats: Where they are known.
    """

    def __init__(self, tasks: asyncio.TaskGroup, chats: OpenChats) -> None:
        self._tasks = tasks
        self._chats = chats
        self._left: set[asyncio.Event] = set()

    def stop(self) -> None:
        """End all of them."""
        for left in self._left:
            left.set()

    @asynccontextmanager
    async def open(self, options: ChatOptions) -> AsyncGenerator[Chat]:
        """A chat for as long as a block lasts.

        Raises:
            ConfigError: If something is wrong with options or settings.
            SessionError: If the session to go on with cannot be opened.
        """
        opened: asyncio.Future[Chat] = asyncio.get_running_loop().create_future()
        left = asyncio.Event()
        self._left.add(left)
        task = self._tasks.create_task(self._live(options, opened, left))
        try:
            yield await opened
        finally:
            left.set()
        await asyncio.wait((task,))  # what is on disk is complete before the call is answered

    async def _live(self, options: ChatOptions, opened: asyncio.Future[Chat], left: asyncio.Event) -> None:
        try:
            async with self._chats.open(options) as chat:
                if not opened.cancelled():
                    opened.set_result(chat)
                    await left.wait()
                await chat.stop()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
        finally:
            self._left.discard(left)


async def run_to_end(chat: Chat, prompt: str, decide: Decide | None, progress: Progress) -> RunFinished | None:
    """Say something, and answer what is asked meanwhile.

    Args:
        chat: The chat.
        prompt: What is said.
        decide: Asks the user about calls; without it nobody is asked.
        progress: Is told what happens.

    Returns:
        How the run ended; ``None`` if the chat was closed before.
    """
    receipt = await chat.send(Prompt(prompt))
    if receipt.refused:
        return RunFinished("error", error=receipt.refused)
    async for event in chat.events():
        match event:
            case ApprovalAsked():
                decision = await decide(event) if decide is not None else "deny"
                await chat.send(Approve(event.id, decision))
            case QuestionAsked(id=id):
                await chat.send(Answer(id, declined=True))
            case RunFinished():
                return event
            case _ if text := in_words(event):
                await progress(text)
            case _:
                pass
    return None


def in_words(event: ChatEvent) -> str:
    """What an event says to somebody who waits; empty where it says nothing."""
    match event:
        case ToolStarted(display=display, summary=summary):
            return f"{display} {summary}".strip()
        case ChildStarted(name=name, task=task):
            return f"{name}: {' '.join(task.split())[:120]}"
        case Retrying(reason=reason, delay=delay):
            return f"{reason}; trying again in {delay:g} s"
        case _:
            return ""
