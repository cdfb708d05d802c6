"""Dispatches chat commands: runs them now, queues them, or rejects them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.chat.agent_settings import ModelSwitch, ModeSwitch
from mainspring.app.chat.command_results import CommandResult
from mainspring.app.chat.commands import (
    Abort,
    Answer,
    Approve,
    Background,
    ChatCommand,
    Compact,
    EditQueued,
    ExecutePlan,
    Fork,
    NewSession,
    Prompt,
    Queue,
    RemoveQueued,
    Rename,
    Resume,
    Rewind,
    SendQueued,
    SetMode,
    SetModel,
    SetThinking,
    Shell,
    Shortcut,
    Slash,
    Steer,
)
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.event_views import error_notice, format_error
from mainspring.app.chat.events import ChatEvent, CommandEnd, ShellEnd, ShellOutput, ShellStart, user_message_event
from mainspring.app.chat.message_queue import MessageQueue, create_queued_message
from mainspring.app.chat.questions import PendingQuestions
from mainspring.app.chat.runs import STOPPED_BY_USER, RunController
from mainspring.app.chat.session_control import SessionController
from mainspring.app.chat.shell_messages import ShellMessage
from mainspring.app.chat.slash_commands import SlashCommands
from mainspring.app.chat.status import StatusReporter
from mainspring.app.chat.tool_display import truncate_middle
from mainspring.app.compose.conversation import OpenConversation
from mainspring.cancellation import CancelToken
from mainspring.env import CapturedOutput, Job, OutputLimits, ProcessResult, StreamName
from mainspring.errors import ConfigError, ModelError
from mainspring.events import Notice, ToolExecutionEnd, ToolExecutionStart
from mainspring.messages import Message, utc_now
from mainspring.permissions.rules import COMMAND_TOOLS
from mainspring.sessions import MessageEntry
from mainspring.tools.support.background import BackgroundSwitch, MovableCommand, describe_status

_BUSY_MESSAGE = "A run is in progress. Stop it first."
_MAX_MODEL_OUTPUT = 16 << 10
"""Bytes of each end of an output that are added to the conversation."""
_SHELL_LIMITS = OutputLimits(head=_MAX_MODEL_OUTPUT, tail=_MAX_MODEL_OUTPUT)
_FULL_OUTPUT_LIMITS = OutputLimits(spool=True)

_PromptCommand = Prompt | Queue | Steer
_QueueCommand = EditQueued | RemoveQueued | SendQueued
_IdleOnlyCommand = Resume | Fork | Rewind | NewSession | Compact | ExecutePlan


class QueuedCommand(Struct, frozen=True):
    """A command that waits for the commands before it.

    Attributes:
        id: The ID of its receipt.
        name: Its name in `CommandEnd`.
        run: Runs it.
    """

    id: str
    name: str
    run: Callable[[], Awaitable[CommandResult | None]]


class CommandQueue:
    """Runs commands one at a time, in order. The current one can be cancelled.

    Args:
        publish: Publishes an event of the chat.
        on_idle: Called when no command is left.
    """

    def __init__(self, publish: Callable[[ChatEvent], None], on_idle: Callable[[], None]) -> None:
        self._publish = publish
        self._on_idle = on_idle
        self._commands: deque[QueuedCommand] = deque()
        self._has_commands = asyncio.Event()
        self._current: asyncio.Task[CommandResult | None] | None = None
        self._is_running = False

    @property
    def is_busy(self) -> bool:
        """Whether a command is running or queued."""
        return self._is_running or bool(self._commands)

    def enqueue(self, command: QueuedCommand) -> None:
        """Queue a command."""
        self._commands.append(command)
        self._has_commands.set()

    def cancel_current(self) -> None:
        """Cancel the running command."""
        if self._current is not None:
            self._current.cancel()

    async def run(self) -> None:
        """Run commands until cancelled."""
        while True:
            while self._commands:
                self._is_running = True
                await self._run_command(self._commands.popleft())
                self._is_running = False
                if not self._commands:
                    self._on_idle()
            self._has_commands.clear()
            await self._has_commands.wait()

    async def _run_command(self, command: QueuedCommand) -> None:
        result: CommandResult | None = None
        error = code = ""
        self._current = task = asyncio.ensure_future(command.run())
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:  # the chat is closing
            task.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            self._current = None
        try:
            result = task.result()
        except asyncio.CancelledError:
            error = "Stopped"
        except Exception as raised:  # a command must not end the chat
            error = format_error(raised)
            code = next((str(each.code) for each in (raised, raised.__cause__) if isinstance(each, ModelError)), "")
        self._publish(CommandEnd(command.id, command.name, result, error, code))


class ShellRunner:
    """Runs shell commands that the user types, which need no approval, and moves running commands to the background.

    Args:
        current: The conversation, whose environment runs them.
        runs: The run that sees their output.
        status: Measures the context that their output fills.
        publish: Publishes an event of the chat.
        tasks: The tasks of the chat.
        switch: Moves the running commands, also those of the agent.
    """

    def __init__(
        self,
        current: CurrentConversation,
        runs: RunController,
        status: StatusReporter,
        publish: Callable[[ChatEvent], None],
        tasks: asyncio.TaskGroup,
        switch: BackgroundSwitch,
    ) -> None:
        self._switch = switch
        self._current = current
        self._runs = runs
        self._status = status
        self._publish = publish
        self._tasks = tasks
        self._signals: dict[str, CancelToken] = {}
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether a command is running."""
        return bool(self._signals)

    async def attach(self, conversation: OpenConversation) -> None:
        """Let the user move a command of the agent as soon as its call is shown."""

        def on_start(event: ToolExecutionStart) -> None:
            if event.call.name in COMMAND_TOOLS:
                self._switch.announce(event.call.id)

        def on_end(event: ToolExecutionEnd) -> None:
            self._switch.withdraw(event.call.id)

        conversation.agent.bus.on(ToolExecutionStart, on_start)
        conversation.agent.bus.on(ToolExecutionEnd, on_end)

    async def wait_finished(self) -> None:
        """Wait until all commands have ended and their output is added to the conversation."""
        if self._running:
            await asyncio.wait(self._running)

    def start(self, id: str, command: Shell) -> str:
        """Start a command. Return why it is rejected, or an empty string."""
        if not command.line.strip():
            return "The shell command is empty."
        self._signals[id] = signal = CancelToken()
        self._switch.announce(id)
        task = self._tasks.create_task(self._run(id, command, signal))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return ""

    def move_all(self) -> str:
        """Move the running commands to the background. Return why that is rejected, or an empty string."""
        return "" if self._switch.move_all() else "No command is running."

    def abort(self, reason: str) -> None:
        """Abort all running commands."""
        for signal in self._signals.values():
            signal.cancel(reason)

    async def _run(self, id: str, command: Shell, signal: CancelToken) -> None:
        def on_output(_: object, data: bytes) -> None:
            self._publish(ShellOutput(id, data.decode("utf-8", "replace")))

        try:
            self._publish(ShellStart(id, command.line, command.tell))
            env, is_full = self._current.conversation.env, self._current.full_output
            limits = _FULL_OUTPUT_LIMITS if is_full else _SHELL_LIMITS

            async def run(stop: CancelToken, receive: Callable[[StreamName, bytes], object]) -> ProcessResult:
                return await env.run(command.line, on_output=receive, signal=stop, limits=limits)

            moving = MovableCommand(command.line, run, env.jobs, self._switch, id)
            result = await moving.run(on_output, signal, on_end=self._report_job)
            if isinstance(result, Job):
                await self._report_move(id, command, result)
                return
            output = _format_output(result)
            spool = result.spool if is_full and result.stdout.omitted + result.stderr.omitted else None
            shown = output if is_full else truncate_middle(output)[0]
            stopped = signal.cancelled
            self._publish(ShellEnd(id, result.exit_code, shown, spool or "", stopped))
            if stopped:  # so was the run, which would take the output into its queue
                await self._runs.wait_finished()
            if command.tell:
                model_output = _format_output(result, _MAX_MODEL_OUTPUT)
                await self._add_to_conversation(
                    ShellMessage(command.line, model_output, result.exit_code, stopped=stopped)
                )
        except OSError as error:
            self._publish(error_notice(error))
        finally:
            self._switch.withdraw(id)
            del self._signals[id]

    async def _report_move(self, id: str, command: Shell, job: Job) -> None:
        output = job.output.decode("utf-8", "replace")
        note = f"[moved to the background as {job.id}; "
        self._publish(ShellEnd(id, 0, f"{truncate_middle(output)[0]}{note}/jobs {job.id} shows its output]"))
        if command.tell:
            text = output[-_MAX_MODEL_OUTPUT:] + f"{note}jobs(action=read, id={job.id}) shows its output]"
            await self._add_to_conversation(ShellMessage(command.line, text))

    def _report_job(self, job: Job) -> None:
        if not job.was_reported:
            self._publish(Notice(f"{job.id}: {describe_status(job)}. Show its output with /jobs {job.id}."))

    async def _add_to_conversation(self, ran: ShellMessage) -> None:
        text = ran.to_text()
        agent, session = self._current.agent, self._current.session
        if self._runs.is_running:
            agent.steer(text)
            return
        message = Message.user(text, id=create_queued_message("").id, timestamp=utc_now())
        if session is not None and session.writable:
            session.journal.record(MessageEntry, message=message, source="given")
            session.journal.save_without_message = True
            await session.journal.flush()
        agent.context.messages.append(message)
        self._publish(user_message_event(text, "shell", id=message.id))
        self._status.measure()


def _format_output(result: ProcessResult, limit: int | None = None) -> str:
    """Return the stored output, at most ``limit`` bytes of each end of each stream."""
    parts = [_format_stream(stream, limit) for stream in (result.stdout, result.stderr)]
    return "\n".join([part.rstrip("\n") for part in parts if part])


def _format_stream(stream: CapturedOutput, limit: int | None) -> str:
    """Return an output with a mark where its middle is missing."""
    head, tail = stream.head, stream.tail
    if limit is not None and len(head) + len(tail) > 2 * limit:
        data = stream.data
        head, tail = data[:limit], data[-limit:]
    omitted = stream.total - len(head) - len(tail)
    if not omitted:
        return stream.text
    first, last = (data.decode("utf-8", "replace") for data in (head, tail))
    return f"{first}\n[... {omitted} bytes not shown ...]\n{last}"


class InputDispatcher:
    """Handles input of the user: prompts, changes of the message queue, and answers to questions.

    Args:
        current: The conversation.
        queue: The queued messages.
        questions: The questions that wait for the user.
        runs: Starts and steers runs.
        commands: Commands that a new run has to wait for.
    """

    def __init__(
        self,
        current: CurrentConversation,
        queue: MessageQueue,
        questions: PendingQuestions,
        runs: RunController,
        commands: CommandQueue,
    ) -> None:
        self._current = current
        self._queue = queue
        self._questions = questions
        self._runs = runs
        self._commands = commands

    def answer(self, answer: Approve | Answer) -> str:
        """Settle a question. Return why the answer is rejected, or an empty string."""
        return self._questions.resolve(answer)

    def send(self, id: str, command: _PromptCommand) -> tuple[str, str]:
        """Send or queue a message. Return its ID and, if it was rejected, the reason."""
        is_running = self._runs.is_running
        is_empty = not command.text.strip() and not command.attachments
        if is_empty and (is_running or self._current.agent.pending is None):
            return id, "The message is empty."
        is_steering = isinstance(command, Steer) and is_running
        message = create_queued_message(command.text, command.attachments, "steer" if is_steering else "queue")
        if is_steering:
            self._runs.steer(message)
        elif is_running:
            self._queue.add(message)
        else:
            self._queue.set_paused(False)
            if self._commands.is_busy:
                self._queue.add(message)
            else:
                self._runs.start(None if is_empty else message)
        return message.id, ""

    def change_queue(self, command: _QueueCommand) -> str:
        """Edit, remove, or send a queued message. Return why the command is rejected, or an empty string."""
        message = self._queue.find(command.id) if command.id or isinstance(command, SendQueued) else None
        if message is None:
            if not command.id:
                return "No queued messages."
            return f"No queued message {command.id!r}. It may already have been sent."
        match command:
            case EditQueued(text=text):
                if not text.strip():
                    return "The message is empty. Remove it from the queue instead."
                self._queue.edit(message.id, text)
            case RemoveQueued():
                self._queue.remove(message.id)
                self._current.agent.cancel_steering(message.id)
            case SendQueued() if self._runs.is_running:
                if message.kind == "queue":
                    self._queue.remove(message.id)
                    self._runs.steer(replace(message, kind="steer"))
            case SendQueued():
                self._queue.set_paused(False)
                if not self._commands.is_busy:
                    self._queue.remove(message.id)
                    self._runs.start(message, "queue")
        return ""


class CommandDispatcher:
    """Dispatches the commands of a client.

    Args:
        commands: Runs commands that change the conversation, in order.
        inputs: Handles input of the user.
        runs: Aborts runs and executes plans.
        shell: Runs shell commands.
        slash_commands: Runs slash commands and the shortcuts of extensions.
        sessions: Switches between sessions.
        models: Switches the model.
        mode: Switches the mode.
    """

    def __init__(
        self,
        commands: CommandQueue,
        inputs: InputDispatcher,
        runs: RunController,
        shell: ShellRunner,
        slash_commands: SlashCommands,
        sessions: SessionController,
        models: ModelSwitch,
        mode: ModeSwitch,
    ) -> None:
        self._commands = commands
        self._inputs = inputs
        self._runs = runs
        self._shell = shell
        self._slash_commands = slash_commands
        self._sessions = sessions
        self._models = models
        self._mode = mode

    def dispatch(self, id: str, command: ChatCommand) -> tuple[str, str]:
        """Dispatch a command. Return its ID and, if it was rejected, the reason."""
        match command:
            case Prompt() | Queue() | Steer():
                return self._inputs.send(id, command)
            case Approve() | Answer():
                return id, self._inputs.answer(command)
            case Abort():
                return id, self._abort(command)
            case EditQueued() | RemoveQueued() | SendQueued():
                return id, self._inputs.change_queue(command)
            case Slash(line=line):
                return id, self._run_slash_command(id, line)
            case Shell() | Background():
                return id, self._shell.start(id, command) if isinstance(command, Shell) else self._shell.move_all()
            case Shortcut(key=key):
                return id, self._press_shortcut(id, key)
            case _:
                return id, self._queue_change(id, command)

    def _abort(self, command: Abort) -> str:
        if command.child:
            is_aborted = self._runs.abort_subagent(command.child, command.reason)
            return "" if is_aborted else f"Subagent {command.child!r} is not running."
        self._runs.abort(command.reason)
        self._commands.cancel_current()
        self._shell.abort(command.reason or STOPPED_BY_USER)
        return ""

    def _run_slash_command(self, id: str, line: str) -> str:
        problem = self._slash_commands.find_problem(line)
        if not problem:
            name = line.strip()[1:].split(maxsplit=1)[0].lower()
            self._commands.enqueue(QueuedCommand(id, name, lambda: self._slash_commands.run(line)))
        return problem

    def _press_shortcut(self, id: str, key: str) -> str:
        run = self._slash_commands.find_shortcut(key)
        if run is None:
            return f"No extension has a shortcut for {key!r}."
        self._commands.enqueue(QueuedCommand(id, "shortcut", run))
        return ""

    def _queue_change(self, id: str, command: ChatCommand) -> str:
        """Queue a command that changes the conversation."""
        if isinstance(command, _IdleOnlyCommand):
            if self._runs.is_running:
                return _BUSY_MESSAGE
            idle_command = command

            async def run() -> CommandResult | None:
                if self._runs.is_running:  # a run started while the command was queued
                    raise ConfigError(_BUSY_MESSAGE)
                return await self._switch_session(idle_command)

        else:

            async def run() -> CommandResult | None:
                await self._apply_setting(command)
                return None

        self._commands.enqueue(QueuedCommand(id, str(type(command).__struct_config__.tag), run))
        return ""

    async def _apply_setting(self, command: ChatCommand) -> None:
        match command:
            case SetModel(model=model):
                self._models.switch(model)
            case SetThinking(level=level):
                self._models.set_thinking(level)
            case SetMode(mode=mode):
                self._mode.set(mode)
            case Rename(title=title):
                await self._sessions.rename(title)
            case _:
                pass

    async def _switch_session(self, command: _IdleOnlyCommand) -> CommandResult | None:
        match command:
            case ExecutePlan(plan=plan):
                self._runs.execute_plan(plan)
            case Resume(session=session):
                await self._sessions.resume(session)
            case Fork(entry=entry):
                await self._sessions.fork(entry)
            case Rewind():
                return await self._sessions.rewind(command)
            case NewSession():
                await self._sessions.start_new()
            case Compact(instructions=instructions):
                return await self._sessions.compact(instructions)
        return None
