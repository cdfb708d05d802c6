"""The chat engine: one conversation with a user, independent of how it is shown. Commands go in, events come out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from mainspring.app.chat.agent_settings import ModelSwitch, ModeSwitch
from mainspring.app.chat.approvals import ApprovalManager
from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, CommandReceipt
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.dispatcher import CommandDispatcher, CommandQueue, InputDispatcher, ShellRunner
from mainspring.app.chat.event_stream import EventBuffer
from mainspring.app.chat.event_views import AgentEventView
from mainspring.app.chat.events import ChatEvent, CommandRejected, QueueChange
from mainspring.app.chat.message_queue import MessageQueue, create_queued_message
from mainspring.app.chat.project_commands import ProjectCommands
from mainspring.app.chat.prompt_sources import CustomCommandPrompts, McpPrompts, PromptSource, SkillPrompts
from mainspring.app.chat.questions import PendingQuestions, UserPrompter
from mainspring.app.chat.runs import RunController
from mainspring.app.chat.session_commands import InfoCommands, SessionCommands
from mainspring.app.chat.session_control import ConversationOpener, SessionController
from mainspring.app.chat.settings_commands import AgentCommands, PermissionCommands, WorkspaceCommands
from mainspring.app.chat.slash_commands import CommandRegistry, Completer, SlashCommands
from mainspring.app.chat.status import StatusReporter
from mainspring.app.chat.types import Status
from mainspring.app.compose.client_services import ClientServices
from mainspring.app.run.options import LaunchOptions
from mainspring.env import EditorBuffers, TerminalProvider
from mainspring.messages import Message
from mainspring.models import ModelProvider
from mainspring.sessions import Transcript
from mainspring.tools.interaction import INTERACTION_KEY
from mainspring.tools.support.background import BACKGROUND_KEY, BackgroundSwitch
from mainspring.tools.support.editing.review import APPROVE_HUNK


class ChatOptions(Struct, frozen=True, kw_only=True):
    """Options of a chat.

    Attributes:
        ask: Model, session, rules, limits, and folder, as for a run; its prompt is the first message, if it has one.
        environ: Environment variables.
        attended: Whether a user can answer. Otherwise, what needs approval is denied with a reason.
        replay: Whether the events of a resumed session are published.
        model: A model in place of the one that settings select, for tests and applications.
        make_model: Makes a model from its name in place of the settings, for tests and applications.
        exporters: Renders a transcript for ``/export``, by file extension; ``jsonl`` is always available.
        buffers: The open files of an editor, with unsaved changes; tools read and write through them.
        terminals: Terminals of the editor, which run commands unless a sandbox or a limit must apply.
        mcp_servers: Further MCP servers, as decoded JSON of an ``mcp.json``; they override those of the settings.
        prompt_sources: Further prompts by name.
        full_output: Whether events contain the output of tools and commands in full, for a client in this process.
            Otherwise, long output loses its middle, with a mark.
    """

    ask: LaunchOptions = LaunchOptions(prompt="")
    environ: Mapping[str, str] = os.environ
    attended: bool = True
    replay: bool = True
    model: ModelProvider | None = None
    make_model: Callable[[str], ModelProvider] | None = None
    exporters: Mapping[str, Callable[[Transcript], str]] = {}
    buffers: EditorBuffers | None = None
    terminals: TerminalProvider | None = None
    mcp_servers: Any = None
    prompt_sources: tuple[PromptSource, ...] = ()
    full_output: bool = False


class Chat:
    """A conversation with a user. Creates the parts of the chat and connects them.

    ```
    async with Chat.open(ChatOptions()) as chat:
        await chat.send(Prompt("Hello"))
        async for event in chat.events():
            ...
    ```
    """

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._events = EventBuffer()
        self._switch = BackgroundSwitch()
        self._tasks = asyncio.TaskGroup()
        self._current = current = CurrentConversation(full_output=options.full_output)
        self._queue = MessageQueue(self._publish, lambda request: self._approvals.ask(request))
        self._questions = PendingQuestions(self._publish, attended=options.attended)
        view = AgentEventView(
            self._publish,
            current.tool_label,
            self._publish_status,
            load_output=current.load_output if options.full_output else None,
            on_spending=lambda message, usage, is_stored: self._status.add_spending(message, usage, is_stored),
        )
        models = ModelSwitch(current, options.make_model, self._publish_status)
        mode = ModeSwitch(current, self._publish_status)
        self._approvals = ApprovalManager(
            self._questions, current.tool_label, view.is_subagent, self._publish, mode.save_change
        )
        self._status = StatusReporter(current, mode, self._queue, view, lambda: self._runs.is_running, self._publish)
        self._runs = RunController(
            current,
            self._queue,
            self._approvals,
            mode,
            self._status,
            self._publish,
            self._tasks,
            options.ask.place.offline,
        )
        self._shell = ShellRunner(current, self._runs, self._status, self._publish, self._tasks, self._switch)
        self._registry = CommandRegistry()
        custom_commands = CustomCommandPrompts(current, self._registry.reserved_names)
        self._opener = ConversationOpener(
            options.environ,
            current,
            models,
            self._queue,
            self._status,
            self._client_services,
            self._publish,
            (view, models, self._approvals, self._runs, self._shell, mode, custom_commands),
        )
        self._sessions = SessionController(
            options.ask, current, self._opener, self._queue, mode, self._status, self._publish
        )
        mcp_prompts = McpPrompts(current)
        sources = (custom_commands, SkillPrompts(current), mcp_prompts, *options.prompt_sources)
        self._slash_commands = SlashCommands(
            self._registry, sources, mcp_prompts, current, models, self._runs, self._publish
        )
        self._add_commands(models, mode)
        self._completer = Completer(current, self._slash_commands)
        self._commands = CommandQueue(self._publish, self._runs.start_next_queued)
        self._dispatcher = CommandDispatcher(
            self._commands,
            InputDispatcher(current, self._queue, self._questions, self._runs, self._commands),
            self._runs,
            self._shell,
            self._slash_commands,
            self._sessions,
            models,
            mode,
        )
        self._command_task: asyncio.Task[None] | None = None
        self._save_task: asyncio.Task[None] | None = None
        self._command_count = 0

    def _add_commands(self, models: ModelSwitch, mode: ModeSwitch) -> None:
        options, current = self._options, self._current
        launch, environ = options.ask, options.environ
        for group in (
            InfoCommands(current, self._status, self._runs, self._slash_commands),
            SessionCommands(self._sessions, current, launch.place, environ, options.exporters),
            AgentCommands(models, mode, self._runs, current, launch, environ),
            PermissionCommands(current, self._approvals, mode, launch, environ),
            WorkspaceCommands(current, launch, environ),
            ProjectCommands(current, self._runs.start_or_queue),
        ):
            self._registry.add(group.commands())

    def _client_services(self) -> ClientServices:
        options = self._options
        prompter = UserPrompter(self._questions, self._publish)
        return ClientServices(
            ask=self._approvals.ask,
            ui=prompter,
            extra={
                INTERACTION_KEY: prompter,
                APPROVE_HUNK: self._approvals.review_hunk,
                BACKGROUND_KEY: self._switch,
            },
            reserved_commands=self._registry.reserved_names(),
            tools=("ask_user",),
            model=options.model,
            buffers=options.buffers,
            terminals=options.terminals,
            servers=options.mcp_servers,
        )

    def _publish(self, event: ChatEvent) -> None:
        self._events.publish(event)
        if isinstance(event, QueueChange):
            self._status.publish()

    def _publish_status(self) -> None:
        self._status.publish()

    @classmethod
    @asynccontextmanager
    async def open(cls, options: ChatOptions) -> AsyncGenerator[Chat]:
        """Open a chat. Leaving the block stops what is running, saves the queue, and ends the events.

        Raises:
            ConfigError: If an option or a setting is invalid.
            SessionError: If the session cannot be opened.
        """
        chat = cls(options)
        await chat._tasks.__aenter__()
        try:
            await chat._start()
            yield chat
        finally:
            try:
                await _finish_despite_cancel(chat._close())
            finally:
                # The group gets no error of the block: it would wrap the error in an exception group.
                await chat._tasks.__aexit__(None, None, None)
                chat._events.close()

    async def _start(self) -> None:
        launch = self._options.ask
        await self._sessions.open_first(replay=self._options.replay)
        self._command_task = self._tasks.create_task(self._commands.run())
        self._save_task = self._tasks.create_task(self._save_queue())
        if launch.execute is not None:
            self._runs.execute_plan(launch.execute)
        elif launch.prompt.strip() or launch.piped.strip():
            parts = [part for part in (launch.prompt, launch.piped) if part.strip()]
            self._runs.start(create_queued_message("\n\n".join(parts)))

    async def _save_queue(self) -> None:
        """Save the message queue with the session whenever it changes."""
        while not self._runs.is_closed:
            await self._queue.wait_changed()
            await self._queue.save(self._current.session)

    async def _close(self) -> None:
        reason = "The chat was closed"
        self._runs.close(reason)
        self._questions.cancel_all()
        self._shell.abort(reason)
        if self._command_task is not None:
            self._command_task.cancel()
        await self._runs.wait_finished()
        await self._shell.wait_finished()
        self._queue.publish()  # so that the last state is saved
        if self._save_task is not None:
            await asyncio.wait((self._save_task,))
        await self._opener.close()

    # --- for clients ------------------------------------------------------------------------------------------------

    async def send(self, command: ChatCommand) -> CommandReceipt:
        """Send a command. Returns immediately; results arrive as events. Commands are processed in order.

        A rejected command changes nothing: the receipt and a `CommandRejected` event contain the reason.
        """
        self._command_count += 1
        id = f"c{self._command_count}"
        problem = "The chat is closed." if self._runs.is_closed else ""
        if not problem:
            id, problem = self._dispatcher.dispatch(id, command)
        if problem:
            self._publish(CommandRejected(id, str(type(command).__struct_config__.tag), problem))
        return CommandReceipt(id, problem)

    def events(self) -> AsyncIterator[ChatEvent]:
        """Return all events in order, from the beginning, for one reader. They end when the chat is closed.

        A slow reader misses no result: pieces of text that it has not read yet are joined, and progress is shortened.
        """
        return self._events

    @property
    def status(self) -> Status:
        """The status now."""
        return self._status.status()

    @property
    def busy(self) -> bool:
        """Whether a run or a command is in progress or about to start."""
        return self._runs.is_running or self._commands.is_busy or self._shell.is_busy

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as the model sees it: prompts, responses, tool calls, and results since the last compaction."""
        return tuple([m for m in self._current.agent.messages if isinstance(m, Message)])

    async def completions(self, line: str) -> tuple[Candidate, ...]:
        """Return completions of the end of a line: command names, their arguments, and files after ``@``."""
        return await self._completer.complete(line)

    @property
    def command_names(self) -> dict[str, str]:
        """All names that can be typed after a slash, each with a summary."""
        return self._slash_commands.names()

    @property
    def shortcuts(self) -> dict[str, str]:
        """The keys of extensions, each with a description."""
        return {shortcut.key: shortcut.description for shortcut in self._current.extension_shortcuts}

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """The background commands that are running; they end with the chat."""
        return self._current.running_jobs

    def kill_all(self) -> None:
        """Kill all programs of the conversation. For signal handlers, which cannot await."""
        self._current.conversation.env.kill_all()

    async def stop(self) -> None:
        """End the events, so that their reader leaves the block. Calling it again has no effect."""
        self._events.close()


async def _finish_despite_cancel(cleanup: Coroutine[Any, Any, None]) -> None:
    """Run cleanup to completion even if this task is cancelled, then propagate the cancellation."""
    task = asyncio.ensure_future(cleanup)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
