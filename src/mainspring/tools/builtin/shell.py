"""`shell`: run a script."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from mainspring.env import Job, OutputLimits, ProcessResult, StreamName, explain
from mainspring.env.protocol import ScriptTerminal
from mainspring.env.variables import NONINTERACTIVE_VARIABLES
from mainspring.lazy import lazy_re
from mainspring.tools.support.background import (
    BACKGROUND_KEY,
    TailBuffer,
    TerminalText,
    describe_follow_up,
    job_metadata,
    run_movable,
    split_limit,
    start_background,
)
from mainspring.tools.support.paths import failure
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

_MAX_BYTES = 32_768
DEFAULT_TIMEOUT = 120
_MAX_TIMEOUT = 3600
TERMINAL = "terminal"
"""Metadata key of a running call: ID of the editor terminal in which the script runs."""


_CHANGES_FOLDER = lazy_re(r"(?:^|[;&|({\s])(?:cd|pushd)\s")


class _OutputCollector:
    """Collector that cleans output as it arrives and stores the end of the output."""

    def __init__(self, ctx: ToolContext, limit: int) -> None:
        self._ctx = ctx
        self._screens: dict[StreamName, TerminalText] = {"stdout": TerminalText(), "stderr": TerminalText()}
        self.tails: dict[StreamName, TailBuffer] = {"stdout": TailBuffer(limit), "stderr": TailBuffer(limit)}
        self._limit = limit

    def feed(self, stream: StreamName, data: bytes) -> None:
        self._add(stream, self._screens[stream].feed(data))

    def _add(self, stream: StreamName, text: str) -> None:
        if text:
            self.tails[stream].feed(text)
            self._ctx.update(text)

    def append_raw(self, data: bytes) -> None:
        """Process output that an editor terminal has already displayed, without an update."""
        self.tails["stdout"].feed(self._screens["stdout"].feed(data))

    def texts(self) -> tuple[str, str]:
        for stream, screen in self._screens.items():
            self._add(stream, screen.finish())
        out, err = self.tails["stdout"], self.tails["stderr"]
        out_limit, error_room = split_limit(out.total, err.total, self._limit)
        return out.text(out_limit) if out_limit else "", err.text(error_room) if error_room else ""


async def _run_in_editor_terminal(
    ctx: ToolContext, command: str, timeout: float, limits: OutputLimits
) -> ProcessResult | None:
    """Run the script in a terminal of the user's editor.

    Return ``None`` if no such terminal is available.
    """
    if not isinstance(ctx.env, ScriptTerminal):
        return None
    return await ctx.env.run_in_terminal(
        command,
        env={**NONINTERACTIVE_VARIABLES, **ctx.environment},
        timeout=timeout,
        signal=ctx.signal,
        limits=limits,
        on_open=lambda id: ctx.metadata(metadata={TERMINAL: id}),
    )


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    command: str = arguments["command"]
    timeout = float(arguments.get("timeout") or DEFAULT_TIMEOUT)
    limit = int(arguments.get("max_bytes", _MAX_BYTES))
    if not command.strip():
        return failure(ToolErrorCode.VALIDATION_ERROR, "The command is empty. Give a bash script to run.")
    if rejected := find_nul_redirect(command):
        return failure(ToolErrorCode.VALIDATION_ERROR, rejected)
    if arguments.get("background"):
        return await start_background(ctx, command, arguments.get("timeout"), limit)
    collector = _OutputCollector(ctx, limit)
    limits = OutputLimits(head=0, tail=limit or _MAX_BYTES, spool=True)
    try:
        shown = await _run_in_editor_terminal(ctx, command, timeout, limits)
    except OSError as e:
        text = f"The editor does not report the result of the command: {explain(e)}. Check its effects before you run it again."
        return failure(ToolErrorCode.IO_ERROR, text)
    if shown is not None:
        collector.append_raw(shown.stdout.data)
        return _report(arguments, ctx, timeout, shown, collector)
    return await _run_here(arguments, ctx, timeout, collector, limits)


async def _run_here(
    arguments: dict[str, Any], ctx: ToolContext, timeout: float, collector: _OutputCollector, limits: OutputLimits
) -> ToolResult:
    """Run the command in the agent's environment, not in a terminal of the editor."""
    command: str = arguments["command"]
    try:
        if BACKGROUND_KEY in ctx.extra:
            result = await run_movable(ctx, command, timeout, collector.feed, limits)
        else:
            result = await ctx.env.run(
                command,
                env={**NONINTERACTIVE_VARIABLES, **ctx.environment},
                timeout=timeout,
                on_output=collector.feed,
                signal=ctx.signal,
                limits=limits,
            )
    except asyncio.CancelledError:
        if not ctx.is_aborted:
            raise
        return _interrupted(arguments, collector)  # The output so far is all that the model learns of the command.
    except OSError as e:
        about = f" {e.filename}:" if e.filename else ""
        return failure(ToolErrorCode.IO_ERROR, f"The command could not be started:{about} {explain(e)}.")
    if isinstance(result, Job):
        out, err = collector.texts()
        note = f"[the user moved the command to the background as {result.id}. {describe_follow_up(ctx, result)}]"
        shown = "\n".join(filter(None, (out.rstrip("\n"), err.rstrip("\n"), note)))
        return ToolResult(output=shown, title=f"{result.id} in the background", metadata=job_metadata(result))
    return _report(arguments, ctx, timeout, result, collector)


def _interrupted(arguments: dict[str, Any], collector: _OutputCollector) -> ToolResult:
    """Return the output of a command that the end of the run stopped."""
    texts = [text if text.endswith("\n") else f"{text}\n" for text in collector.texts() if text]
    return ToolResult(
        output="".join(texts) + "[interrupted: the run was stopped, and this command with it; the output is partial]",
        title=_title(arguments),
        metadata={"cancelled": True},
        is_error=True,
        code=ToolErrorCode.UNKNOWN,
    )


def _title(arguments: dict[str, Any]) -> str:
    return arguments.get("description") or "$ " + arguments["command"].strip().split("\n", 1)[0][:120]


def _report(
    arguments: dict[str, Any], ctx: ToolContext, timeout: float, result: ProcessResult, collector: _OutputCollector
) -> ToolResult:
    out, err = collector.texts()
    with_metadata = bool(arguments.get("metadata", True))
    parts = [out]
    if err:
        parts.append(f"[stderr]\n{err}" if with_metadata else err)
    truncated = out.startswith("…(") or err.startswith("…(")
    milliseconds = round(result.seconds * 1000)
    notes = _notes(result, timeout, milliseconds, truncated)
    if with_metadata:
        again = "; the next call starts there again" if _CHANGES_FOLDER.search(arguments["command"]) else ""
        notes += [f"[in {ctx.env.cwd}{again}]", f"(exit {result.exit_code}, {milliseconds}ms)"]
    text = "".join([p if p.endswith("\n") or not p else p + "\n" for p in parts])
    output = (text + "\n".join(notes)) if notes else "".join(parts)
    return ToolResult(
        output=output,
        title=_title(arguments),
        metadata={
            "exit_code": result.exit_code,
            "signal": result.signal,
            "milliseconds": milliseconds,
            "cwd": ctx.env.cwd,
            "timed_out": result.timed_out,
            "cancelled": result.cancelled,
            "stdout_bytes": result.stdout.total,
            "stderr_bytes": result.stderr.total,
            "truncated": truncated,
            "spool": result.spool,
            "survivors": list(result.survivors),
        },
        is_error=result.timed_out or result.cancelled,
        code=ToolErrorCode.TIMEOUT if result.timed_out else ToolErrorCode.UNKNOWN if result.cancelled else None,
    )


def _notes(result: ProcessResult, timeout: float, milliseconds: int, truncated: bool) -> list[str]:
    notes: list[str] = []
    if result.spool and truncated:
        total = result.stdout.total + result.stderr.total
        notes.append(f"[full output, {total} bytes: {result.spool}]")
    if result.timed_out:
        notes.append(
            f"[timed out: stopped after {milliseconds}ms with everything it had started; the limit was {timeout:g}s. "
            "The output is partial. Give a longer timeout, or start it with background=true.]"
        )
    elif result.cancelled:
        notes.append("[cancelled: stopped with everything it had started; the output is partial]")
    elif result.overflowed:
        notes.append("[stopped: it wrote more output than is allowed; send output to a file, or less of it]")
    elif result.swarmed:
        notes.append("[stopped with everything it had started: it had more processes than are allowed here]")
    elif result.signal:
        notes.append(f"[ended by {result.signal}]")
    if result.survivors and not result.timed_out:
        pids = ", ".join(map(str, result.survivors))
        more = f"; further output goes to {result.spool}" if result.spool else ""
        notes.append(f"[still running in the background: pid {pids}{more}; kill it when it is no longer needed]")
    elif result.survivors:
        notes.append(f"[could not be ended: pid {', '.join(map(str, result.survivors))}]")
    return notes


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return [Access("shell-run", str(arguments.get("command", "")))]


shell = Tool(
    name="shell",
    description=(
        "Run a bash script. Every call starts a new shell in the project folder: cd and variables do not carry over. It "
        "has no terminal and no input, so use flags that avoid prompts. Returns stdout, stderr (the last 32 KiB; the rest "
        "in a file), exit code and duration. For servers and long work use background; jobs controls those."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The script."},
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": _MAX_TIMEOUT,
                "default": DEFAULT_TIMEOUT,
                "description": "Seconds until it is stopped.",
            },
            "background": {
                "type": "boolean",
                "default": False,
                "description": "Return immediately and let it run; no time limit unless given.",
            },
            "description": {"type": "string", "description": "What it does, in a few words, for the user."},
            "max_bytes": {
                "type": "integer",
                "minimum": 0,
                "default": _MAX_BYTES,
                "description": "Most bytes of output to return, from its end; 0: all.",
            },
            "metadata": {
                "type": "boolean",
                "default": True,
                "description": "Whether to add exit code, duration and a label for stderr.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Shell",
    source="builtin",
    concurrency_safe=False,
    access=_access,
)
"""Run a script in the project folder."""


_QUOTED = lazy_re(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_TO_NUL = lazy_re(r">[>|&]?[ \t]*nul(?=[\s;&|<>)]|$)", re.IGNORECASE)


_NUL_MESSAGE = (
    "The command was not run: in bash `> NUL` makes a file of that name, which on Windows cannot be deleted. Write /dev/null to throw "
    "output away, or ./NUL if you do mean a file."
)


def find_nul_redirect(script: str) -> str:
    """Return the reason why a script that redirects output to ``NUL``, as on Windows, is not run; empty if it does not.

    Text in quotes and here-documents is ignored.
    """
    to_nul = "<<" not in script and _TO_NUL.search(_QUOTED.sub("''", script))
    return _NUL_MESSAGE if to_nul else ""
