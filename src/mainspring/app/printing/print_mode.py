"""Print mode: run one prompt, and print the response in the requested format.

Every outcome results in an output and an exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from mainspring.app.cli.console import Console, OutputError
from mainspring.app.cli.json_schema import SCHEMA_VERSION
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import chat_launch_options, run_command
from mainspring.app.cli.signals import GracefulShutdown
from mainspring.app.cli.stdin import FIRST_BYTE_SECONDS, StdinReader, hide_prompt_in_process_list
from mainspring.app.compose.conversation import OpenConversation, open_conversation
from mainspring.app.compose.plan_mode import build_plan_prompt, save_answer_as_plan
from mainspring.app.printing.output_schema import load_output_schema
from mainspring.app.printing.text_output import TextRenderer
from mainspring.app.providers.weights import ensure_weights
from mainspring.app.run.events import ModelIdentity, RunEventHandler, RunOutcome
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.file_mentions import attach_mentions, require_vision
from mainspring.cancellation import CancelToken, run_cancellable
from mainspring.errors import AgentAbortedError, AgentError, ConfigError
from mainspring.events import AgentEnd, AgentStart, AgentStats, Event, Notice
from mainspring.lazy import lazy_function
from mainspring.loop import Prompt, RunResult
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.prompt_tags import wrap_in_tag
from mainspring.run_options import RunOptions

if TYPE_CHECKING:
    from mainspring.app.printing.chat_commands import render_chat_command, resolve_slash_command
    from mainspring.app.workspace.command_registry import CommandInvocation
else:
    resolve_slash_command = lazy_function("mainspring.app.printing.chat_commands", "resolve_slash_command")
    render_chat_command = lazy_function("mainspring.app.printing.chat_commands", "render_chat_command")


_START_GRACE_SECONDS = 2.0


async def run_prompt(
    options: LaunchOptions,
    report: RunEventHandler,
    signal: CancelToken | None = None,
    *,
    on_ready: Callable[[OpenConversation], object] | None = None,
    on_model: Callable[[ModelIdentity, int], object] | None = None,
) -> RunOutcome:
    """Run a prompt.

    Args:
        options: Options of the run.
        report: Listener for all events. An exception that it raises stops the run and propagates.
        signal: Token that stops the run; the conversation so far is saved.
        on_ready: Callback that receives the conversation, once it is open.
        on_model: Callback that receives the model and the number of earlier messages, before its weights are downloaded.

    Returns:
        The outcome; a run that failed or was stopped has an outcome, too.

    Raises:
        ConfigError: If the run cannot start: options, settings, model, or files are invalid.
        SessionError: If the session to resume cannot be opened.
        PermissionDeniedError: If a file in the prompt may not be read.
        AgentAbortedError: If the run was stopped before it started.
    """
    signal = signal or CancelToken()
    try:
        call: CommandInvocation | None = None
        if options.prompt.lstrip().startswith("/"):
            options, call = await asyncio.to_thread(resolve_slash_command, options, report, os.environ)
        conversation = await run_cancellable(
            lambda: open_conversation(options, report, os.environ), signal, _START_GRACE_SECONDS
        )
        try:
            if on_ready is not None:
                on_ready(conversation)
            command = None
            if call is None and options.prompt.lstrip().startswith("/"):
                command = await render_chat_command(options.prompt, conversation, report)
            if command is not None and command.reply:
                if options.schema is not None:
                    raise ConfigError(f"{command.reply} No model was called, so --schema has no output.")
                return _build_outcome(conversation, RunResult(status="completed", text=command.reply), ())
            if command is not None and command.has_mentions:
                options, command = replace(options, prompt=command.text), None
            prompt = await build_prompt(options, conversation, report, call, command.text if command else "")
            if on_model is not None:
                name = replace(conversation.choice.name, notice=conversation.model_notice("command"))
                on_model(name, len(conversation.agent.messages))
            await ensure_weights(conversation.choice.model, report, signal, offline=options.place.offline)
            tools = command.tools if command else None
            return await run_once(conversation, prompt, report, signal, options.schema, tools)
        finally:
            await conversation.aclose(report)
    except asyncio.CancelledError:
        if not signal.cancelled:
            raise
        raise AgentAbortedError(signal.reason) from None


async def build_prompt(
    options: LaunchOptions,
    conversation: OpenConversation,
    report: RunEventHandler,
    call: CommandInvocation | None = None,
    command_text: str = "",
) -> Prompt:
    """Build the prompt for the model, with mentioned files, piped input, and the expansion of a command.

    Raises:
        ConfigError: If the prompt is empty, a file is missing, or the model does not accept a mentioned image.
        PermissionDeniedError: If a file may not be read.
    """
    parts: list[str] = []
    images: list[ImageBlock] = []
    if options.execute is not None:
        parts.append(build_plan_prompt(options.execute, conversation.env.cwd, report))
    reader = conversation.agent.tools.get("read_file")
    if call is not None:
        name = conversation.choice.name
        env, permissions = conversation.env, conversation.permissions
        text = await call.prompt(
            env, permissions, reader, plan=conversation.plan, provider=name.provider, model=name.id
        )
        parts.append(text)
    elif command_text:
        parts.append(command_text)
    elif options.prompt.strip():
        text, images = await attach_mentions(
            options.prompt, conversation.env, conversation.permissions, reader, lambda note: report(Notice(note))
        )
        parts.append(text)
    if options.piped.strip():
        parts.append(wrap_in_tag("stdin", options.piped) if parts else options.piped)
    if not parts:
        raise ConfigError('The prompt is empty. Add one, for example: mainspring -p "What is in this folder?"')
    text = "\n\n".join(parts)
    if not images:
        return text
    require_vision(conversation.choice.model.info, conversation.choice.name.spec)
    return [TextBlock(text), *images]


async def run_once(
    conversation: OpenConversation,
    prompt: Prompt,
    report: RunEventHandler,
    signal: CancelToken,
    schema: Mapping[str, Any] | None = None,
    tools: Sequence[str] | None = None,
) -> RunOutcome:
    """Run a prompt in a conversation; ``schema`` is the JSON Schema of the response, and ``tools`` names the only tools of the run."""
    agent, session = conversation.agent, conversation.session
    resumed = len(agent.messages)
    reported = 0

    def problems() -> None:
        nonlocal reported
        if session is not None:
            for problem in session.problems[reported:]:
                report(Notice(str(problem)))
            reported = len(session.problems)

    problems()
    started = time.monotonic()
    end: AgentEnd | None = None
    behavior = RunOptions() if schema is None else RunOptions(schema=schema)
    start: AgentStart | None = None
    options: dict[str, Any] = {"signal": signal, "behavior": behavior}
    if tools is not None:
        options["tools"] = agent.tools.subset([name for name in tools if agent.tools.get(name) is not None])
    run = agent.stream(prompt, subagents=True, **options)

    def report_start() -> None:
        # Reported when all tools are available, including those of MCP servers and skills.
        nonlocal start
        if start is not None:
            report(
                replace(
                    start,
                    version=SCHEMA_VERSION,
                    model=conversation.choice.name.spec,
                    session_id=session.id if session else "",
                    resumed=resumed,
                    cwd=conversation.env.cwd,
                    tools=tuple(t.name for t in agent.tools),
                )
            )
            start = None

    try:
        async with run:
            async for event in run:
                if isinstance(event, AgentStart):
                    start = event
                    continue
                report_start()
                if isinstance(event, AgentEnd):
                    end = event
                report(event)
        result = await run.result()
    except AgentError as error:
        end = end or AgentEnd("", (), "error", stats=AgentStats(seconds=time.monotonic() - started))
        result = _failed_result(end, error)
    report_start()
    problems()
    outcome = _build_outcome(conversation, result, end.denied if end else ())
    if schema is not None and (result.error is None or result.status == "no_output"):
        outcome = _with_structured_output(outcome, result)
    await save_answer_as_plan(
        conversation.plan, outcome.text, report, execute="`mainspring -c --execute`, and --allow for what it needs"
    )
    return outcome


def _failed_result(end: AgentEnd, error: AgentError) -> RunResult:
    """Return the result of a failed run, which counts only turns with a complete response."""
    responses = [m for m in end.messages if isinstance(m, Message) and m.role == "assistant"]
    turns = sum(m.stop_reason not in {"error", "aborted"} for m in responses)
    stats = replace(end.stats, turns=turns)
    result = RunResult.from_messages(end.messages, stats=stats, output_error=end.output_error)
    return replace(result, text=end.text or result.text).with_error(error)


def _with_structured_output(outcome: RunOutcome, result: RunResult) -> RunOutcome:
    """Return the outcome with the response as data, and the same data as JSON text."""
    if result.output_error:
        return replace(outcome, text=result.text or outcome.text, output_error=result.output_error)
    text = msgspec.json.format(msgspec.json.encode(result.output_or_none)).decode()
    return replace(outcome, text=text, output=result.output_or_none)


def _build_outcome(conversation: OpenConversation, result: RunResult, denied: tuple[str, ...]) -> RunOutcome:
    last = next((m for m in reversed(result.messages) if isinstance(m, Message) and m.role == "assistant"), None)
    if last is None and result.status == "denied":
        denied = (*denied, result.text)  # the prompt was denied
    handled = last is None and result.status == "completed"  # by a command of an extension
    return RunOutcome(
        status=result.status,
        text=result.text
        if handled or (last and not last.tool_uses)
        else "",  # text before a tool call is not the response
        model=conversation.choice.name,
        session_id=conversation.session.id if conversation.session else "",
        turns=result.turns,
        usage=result.usage,
        seconds=result.stats.seconds,
        stop_reason=result.stop_reason,
        denied=denied,
        error=result.error,
    )


class RunPrinter(Protocol):
    """Prints a run."""

    def on_model(self, model: ModelIdentity, resumed: int) -> None:
        """Print the model of a run that is about to start after ``resumed`` earlier messages."""
        ...

    def on_event(self, event: Event) -> None:
        """Print an event."""
        ...

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Print the outcome, and return the exit code. Called once, as the last method."""
        ...


def create_printer(form: str, console: Console) -> RunPrinter:
    """Create the printer of an ``--output`` format."""
    match form:
        case "json":
            return import_module("mainspring.app.printing.json_output").JsonRenderer(console)
        case "stream-json":
            return import_module("mainspring.app.printing.json_output").StreamJsonRenderer(console)
        case _:
            return TextRenderer(console)


_TEARDOWN_SECONDS = 5.0


def run_print_mode(given: argparse.Namespace, piped: StdinReader) -> int:
    """Run a prompt, and return the exit code."""
    return run_command(given, lambda console: _PrintRun(given, piped, console).run())


class _PrintRun:
    """A run in print mode."""

    def __init__(self, given: argparse.Namespace, piped: StdinReader, console: Console) -> None:
        self._args = given
        self._piped = piped
        self._console = console
        self._show: RunPrinter = create_printer(given.output, console)
        self._signal = CancelToken()
        self._interrupts = GracefulShutdown(self._signal, self._exit_now)
        self._conversation: OpenConversation | None = None
        self._has_finished = False

    def run(self) -> int:
        with self._interrupts:
            return asyncio.run(self._go())

    async def _go(self) -> int:
        try:
            outcome = await run_prompt(
                await self._options(),
                self._show.on_event,
                self._signal,
                on_ready=self._on_ready,
                on_model=self._show.on_model,
            )
        except (BrokenPipeError, OutputError):
            raise
        except (AgentAbortedError, KeyboardInterrupt):
            outcome = RunOutcome(status="aborted")
        except Exception as error:  # the outcome is printed in the requested format
            outcome = RunOutcome(status="error", error=error)
        self._has_finished = True
        code = self._show.finish(outcome, self._interrupts.number)
        self._console.close()
        self._exit_after_grace(code)
        return code

    async def _options(self) -> LaunchOptions:
        """Return the options of the run, including piped input.

        Raises:
            ConfigError: If the piped input cannot be used.
        """
        given = self._args
        own = "" if given.prompt in {None, STDIN_MARK} else _decode_argument(given.prompt)
        if own and given.owns_process:
            hide_prompt_in_process_list(str(given.prompt))
        piped = await asyncio.to_thread(self._read, not own and given.execute is None)
        return replace(
            chat_launch_options(given),
            prompt=own,
            piped=piped,
            schema=await asyncio.to_thread(load_output_schema, given.schema) if given.schema else None,
            execute=given.execute,
        )

    def _read(self, needed: bool) -> str:
        """Read piped input; if a prompt was given, only input that arrives soon."""
        piped = self._piped
        if not needed:
            if piped.is_terminal:
                return ""
            if not piped.wait_for_data():
                self._console.info(
                    f"Note: Ignoring stdin, because no input arrived within {FIRST_BYTE_SECONDS:g}s. "
                    "To wait for it, pipe the prompt itself (-p -)."
                )
                return ""
        elif piped.is_terminal:
            self._console.info("Reading the prompt from the terminal. End it with Ctrl-D.")
        if not piped.wait(stop=lambda: self._signal.cancelled):
            self._console.info("Waiting for the end of stdin...")
        return piped.text(stop=lambda: self._signal.cancelled)

    def _on_ready(self, conversation: OpenConversation) -> None:
        self._conversation = conversation

    def _exit_now(self, number: int) -> None:
        """Exit immediately: stop programs, and print the last line."""
        known = self._conversation
        if known is not None:
            known.env.kill_all()
        if not self._has_finished:
            self._has_finished = True
            session = known.session.id if known is not None and known.session is not None else ""
            model = known.choice.name if known is not None else None
            self._show.finish(RunOutcome(status="aborted", session_id=session, model=model), number)

    def _exit_after_grace(self, code: int) -> None:
        """Exit the process after a grace period, even if something blocks."""
        if self._args.owns_process:
            limit = threading.Timer(_TEARDOWN_SECONDS, os._exit, (code,))
            limit.daemon = True
            limit.start()


def _decode_argument(text: str) -> str:
    """Decode an argument; bytes that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
