"""Commands that take their turn: one after the other, each of them stoppable.

What a command of a front end comes to: taken at once, put in its turn, or refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.chat import commands as asked
from mainspring.app.chat.command_results import CommandResult
from mainspring.app.chat.commands import ChatCommand
from mainspring.app.chat.events import ChatEvent, CommandDone
from mainspring.app.chat.message_queue import create_queued_message
from mainspring.app.chat.runs import RunController, start_plan
from mainspring.app.chat.session_control import SessionController
from mainspring.app.chat.shell import run_shell
from mainspring.app.chat.slash.agent import set_thinking, switch_model
from mainspring.app.chat.slash.registry import SlashCommands
from mainspring.app.chat.slash.sessions import compact
from mainspring.app.chat.state import ChatState
from mainspring.cancellation import CancelToken
from mainspring.errors import ConfigError, MainspringError


class QueuedCommand(Struct, frozen=True):
    """A command that waits for its turn.

    Attributes:
        id: The receipt's.
        name: What it is called when it is done; empty where nothing is told of that.
        do: Does it.
    """

    id: str
    name: str
    do: Callable[[], Awaitable[CommandResult | None]]


class CommandQueue:
    """Does commands in the order in which they came.

    Args:
        tell: Is told what became of each.
        idle: Called when nothing waits any more.
    """

    def __init__(self, tell: Callable[[ChatEvent], None], idle: Callable[[], None]) -> None:
        self._tell = tell
        self._idle = idle
        self._waiting: deque[QueuedCommand] = deque()
        self._notify_waiter = asyncio.Event()
        self._current_task: asyncio.Task[CommandResult | None] | None = None
        self._now: QueuedCommand | None = None

    @property
    def busy(self) -> bool:
        """Whether a command is being done or waits."""
        return self._now is not None or bool(self._waiting)

    def put(self, work: QueuedCommand) -> None:
        """One more."""
        self._waiting.append(work)
        self._notify_waiter.set()

    def stop(self) -> bool:
        """Stop the one that is being done. Says whether there was one."""
        if self._current_task is not None and not self._current_task.done():
            self._current_task.cancel()
            return True
        return False

    async def work(self) -> None:
        """Do them, until this is cancelled."""
        while True:
            while self._waiting:
                self._now = self._waiting.popleft()
                await self._do(self._now)
                self._now = None
                if not self._waiting:
                    self._idle()
            self._notify_waiter.clear()
            await self._notify_waiter.wait()

    async def _do(self, work: QueuedCommand) -> None:
        shown: CommandResult | None = None
        error = ""
        self._current_task = task = asyncio.ensure_future(work.do())
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:  # the chat is being closed
            task.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            self._current_task = None
        try:
            shown = task.result()
        except asyncio.CancelledError:
            error = "stopped"
        except Exception as failed:  # whatever a command raises, the chat goes on
            known = isinstance(failed, MainspringError | OSError | ValueError)
            error = str(failed) if known and str(failed) else f"{type(failed).__name__}: {failed}"
        if work.name:
            self._tell(CommandDone(work.id, work.name, shown, error))


_BUSY_MESSAGE = "a run goes on; stop it first"
_PromptCommand = asked.Prompt | asked.Queue | asked.Steer
_QueueCommand = asked.EditQueued | asked.RemoveQueued | asked.SendQueued
_IdleOnlyCommand = asked.Resume | asked.Fork | asked.Rewind | asked.NewSession | asked.Compact | asked.ExecutePlan
"""What needs that no run goes on."""


class CommandDispatcher:
    """Takes commands.

    Args:
        room: The chat.
        runs: Its runs.
        switching: Its sessions.
        slashes: Its slash commands.
    """

    def __init__(
        self, room: ChatState, runs: RunController, switching: SessionController, slashes: SlashCommands
    ) -> None:
        self._room = room
        self._runs = runs
        self._switching = switching
        self._slashes = slashes
        self._shells: dict[str, CancelToken] = {}
        self.command_queue = CommandQueue(room.tell, runs.start_next_queued)

    @property
    def busy(self) -> bool:
        """Whether a command goes on, or one is about to."""
        return self.command_queue.busy or bool(self._shells)

    def stop_shells(self, reason: str) -> None:
        """Stop the shell commands that run."""
        for signal in self._shells.values():
            signal.cancel(reason)

    def take(self, id: str, command: ChatCommand) -> tuple[str, str]:
        """Take a command: what it is known by, and why not, if it is not taken."""
        match command:
            case asked.Prompt() | asked.Queue() | asked.Steer():
                return self._say(id, command)
            case asked.Approve() | asked.Answer():
                return id, self._room.questions.settle(command)
            case asked.Abort():
                return id, self._abort(command)
            case asked.EditQueued() | asked.RemoveQueued() | asked.SendQueued():
                return id, self._edit_queue(command)
            case asked.Slash(line=line):
                return id, self._slash(id, line)
            case asked.Shell():
                return id, self._shell(id, command)
            case asked.Shortcut(key=key):
                return id, self._shortcut(id, key)
            case _:
                return id, self._change(id, command)

    def _say(self, id: str, command: _PromptCommand) -> tuple[str, str]:
        room, waiting = self._room, self._room.waiting
        empty = not command.text.strip() and not command.attachments
        if empty and (room.running or room.conversation.agent.pending is None):
            return id, "there is nothing in it"
        steers = isinstance(command, asked.Steer)
        text = create_queued_message(command.text, command.attachments, "steer" if steers and room.running else "queue")
        if room.running:
            if steers:
                self._runs.steer(text)
            else:
                waiting.add(text)
        else:
            waiting.hold(False)
            if self.command_queue.busy:
                waiting.add(text)
            elif empty:
                self._runs.begin(None)
            else:
                self._runs.begin(text)
        return text.id, ""

    def _edit_queue(self, command: _QueueCommand) -> str:
        waiting = self._room.waiting
        found = waiting.find(command.id) if command.id or isinstance(command, asked.SendQueued) else None
        if found is None:
            return f"no text {command.id!r} waits; it may have been said meanwhile" if command.id else "nothing waits"
        match command:
            case asked.EditQueued(text=text):
                if not text.strip():
                    return "there is nothing in it; remove it instead"
                waiting.edit(found.id, text)
            case asked.RemoveQueued():
                waiting.take(found.id)
                self._room.conversation.agent.cancel_steering(found.id)
            case asked.SendQueued():
                if self._room.running:
                    if found.kind == "queue":
                        waiting.take(found.id)
                        self._runs.steer(replace(found, kind="steer"))
                else:
                    waiting.hold(False)
                    if not self.command_queue.busy:
                        waiting.take(found.id)
                        self._runs.begin(found, "queue")
        return ""

    def _abort(self, command: asked.Abort) -> str:
        if command.child:
            found = self._runs.abort_child(command.child, command.reason)
            return "" if found else f"no sub-agent {command.child!r} runs"
        self._runs.abort(command.reason)
        self.command_queue.stop()
        self.stop_shells(command.reason or "the user stopped it")
        return ""

    def _slash(self, id: str, line: str) -> str:
        refused = self._slashes.why_not(line)
        if not refused:
            self._enqueue(id, line.strip()[1:].split(maxsplit=1)[0].lower(), lambda: self._slashes.run(line))
        return refused

    def _shortcut(self, id: str, key: str) -> str:
        extensions = self._room.conversation.agent.extensions
        if extensions is None or all(key != shortcut.key for shortcut in extensions.runner.shortcuts):
            return f"nothing is on {key!r}"
        runner = extensions.runner

        async def press() -> None:
            await runner.run_shortcut(key)

        self._enqueue(id, "shortcut", press)
        return ""

    def _shell(self, id: str, command: asked.Shell) -> str:
        room = self._room
        if not command.line.strip():
            return "there is no command in it"
        self._shells[id] = signal = CancelToken()

        async def run() -> None:
            try:
                await run_shell(room, id, command.line, signal, tell=command.tell)
            except OSError as error:
                room.publish_error(error)
            finally:
                del self._shells[id]

        room.spawn(run())
        return ""

    def _change(self, id: str, command: ChatCommand) -> str:
        """What changes how the conversation goes on, in order."""
        room, idle = self._room, isinstance(command, _IdleOnlyCommand)
        if idle and room.running:
            return _BUSY_MESSAGE

        async def do() -> CommandResult | None:
            if idle and room.running:  # it began meanwhile
                raise ConfigError(_BUSY_MESSAGE)
            return await (self._elsewhere(command) if idle else self._apply_setting(command))

        self._enqueue(id, str(type(command).__struct_config__.tag), do)
        return ""

    async def _apply_setting(self, command: ChatCommand) -> CommandResult | None:
        match command:
            case asked.SetModel(model=model):
                switch_model(self._room, model)
            case asked.SetThinking(level=level):
                set_thinking(self._room, level)
            case asked.SetMode(mode=mode):
                self._room.set_mode(mode)
            case asked.Rename(title=title):
                await self._switching.rename(title)
            case _:
                pass
        return None

    async def _elsewhere(self, command: ChatCommand) -> CommandResult | None:
        switching = self._switching
        match command:
            case asked.ExecutePlan(plan=plan):
                start_plan(self._room, self._runs, plan)
            case asked.Resume(session=session):
                await switching.resume(session)
            case asked.Fork(entry=entry):
                await switching.fork(entry)
            case asked.Rewind():
                return await switching.rewind(command)
            case asked.NewSession():
                await switching.new()
            case asked.Compact(instructions=instructions):
                return await compact(self._slashes.seat, instructions)
            case _:
                pass
        return None

    def _enqueue(self, id: str, name: str, do: Callable[[], Awaitable[CommandResult | None]]) -> None:
        self.command_queue.put(QueuedCommand(id, name, do))
