"""The event log of a session: calls, their duration, and their cost, for reports and troubleshooting.

It contains no conversation: no prompts, responses, or tool outputs. Arguments of calls are shortened and redacted. Of a call that
touches a sensitive path, only the path is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from mainspring.events import ContextCompacted, Event, ModelRetry, ToolExecutionEnd, UsageUpdate
from mainspring.lazy import lazy_re
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    BeforeToolRun,
    MessagesAdded,
    RunPaused,
    SessionClosed,
    SessionEnd,
    SessionOpen,
    SessionStart,
    ToolFailed,
    TurnAfter,
    TurnBefore,
)
from mainspring.messages import Usage, utc_now
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.redaction import Redactor
from mainspring.sessions.paths import allow_blocking_writes, event_log_path, rotated_log_path
from mainspring.sessions.session import HomeOrStore, Session, resolve_store
from mainspring.sessions.store import SessionStore
from mainspring.state_files import make_private_folder
from mainspring.text import fold, truncate_end

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.tools import Tool


logger = logging.getLogger("mainspring.sessions")
logger.addHandler(logging.NullHandler())


_MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a log. Then it replaces the older log. Each can contain about 15,000 calls."""


_MAX_QUEUED = 2000  # maximum number of lines that wait for a slow disk; more are only counted


class EventLogFile:
    """Writes lines. Errors are reported once to the program's log, and the run continues.

    Writing a line takes microseconds. Slower work (creating or rotating the file) happens in `rotate`, in a thread. Earlier lines wait
    in memory.

    Args:
        path: The file. Created with access for its owner only.
        limit: Bytes at which it is rotated.
    """

    def __init__(self, path: Path, limit: int = _MAX_BYTES) -> None:
        self.path = path
        self.dropped_lines = 0
        self._limit = limit
        self._fd: int | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._has_partial_line = False
        self._busy = False
        self._warned = False

    def __del__(self) -> None:
        self._close()

    def append(self, line: bytes) -> None:
        """Append a line, given without its end."""
        if len(self._waiting) >= _MAX_QUEUED:
            self.dropped_lines += 1
            return
        self._waiting.append(line)
        if self._fd is not None and not self._busy:
            self._write()

    async def rotate(self, *, make: bool = False) -> None:
        """Rotate the file if it is too large.

        Args:
            make: Whether to create a missing file.
        """
        is_due = make if self._fd is None else self._size >= self._limit
        if self._busy or not is_due:
            return
        self._busy = True
        try:
            await asyncio.to_thread(self._reopen)
        finally:
            self._busy = False
        self._write()

    def close(self) -> None:
        """Write waiting lines and close the file. Blocks."""
        if self._fd is not None:
            self._write()
        self._close()

    def _reopen(self) -> None:
        try:
            if self._fd is not None:
                self._close()
                os.replace(self.path, rotated_log_path(self.path))
            make_private_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._fd = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
            self._has_partial_line = self._size > 0 and not _ends_with_newline(self.path)
            allow_blocking_writes(self._fd)
        except OSError as error:
            self._warn(error)

    def _write(self) -> None:
        """Write all waiting lines in one call. Lines that do not fit on a full disk count as lost."""
        if self._fd is None or not self._waiting:
            return
        lines, self._waiting = self._waiting, []
        data = b"%s%s\n" % (b"\n" if self._has_partial_line else b"", b"\n".join(lines))
        written = 0
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            self._warn(error)
        self._size += written
        self._has_partial_line = written < len(data) and (written > 0 or self._has_partial_line)
        if written < len(data):
            self.dropped_lines += len(lines)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("cannot log events to %s (%s); the run continues", self.path, error.strerror or error)

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


EventName = Literal[
    "open", "run_start", "model_call", "side_call", "retry", "tool_call", "compaction", "pause", "run_end", "shutdown", "lost"
]  # fmt: skip
"""The type of an event.

``side_call`` is a model call outside the conversation (a summary, a title); ``lost`` counts events that could not be
written.
"""


CallStatus = Literal["ok", "error", "denied", "not_run"]
"""The outcome of a tool call.

``denied``: by rules or the user. ``not_run``: for other reasons (invalid arguments, unknown tool, the run was stopped)."""


_ORDER = 200
"""After the session and all other plugins: the log records final outcomes."""


_TEXT = 300  # maximum characters of an error
_LARGE = 1 << 18  # characters of an error that are checked for secrets
_ARGUMENT = 200  # maximum characters of an argument
_MAX_ARGUMENTS = 200  # maximum words of a command; a longer command is not analyzed and not logged
_DENIALS = ("Permission denied: ", "Blocked: ")
_WORDS = lazy_re(r"[\s'\"=<>|;&(){}`:,]+")


class LogEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A logged event.

    Attributes:
        event: The type.
        time: Time in UTC.
        session: ID of the session.
        project: Its folder.
        run: ID of the run.
        agent: Name of the agent or subagent.
        turn: Number of the model call in its run, from 1.
        provider: The provider.
        model: The model.
        usage: Tokens of the call or of the whole run, and their cost by kind.
        cost: US dollars. ``None`` if the price is unknown.
        retries: Number of retries of the call.
        tool: Name of the tool.
        call: ID of the call.
        args: Its arguments, shortened and redacted.
        status: Outcome of the run or the call.
        seconds: Duration.
        reason: Why the model stopped, the history was replaced, or the conversation was opened or closed.
        error: The error, redacted.
        count: Number of lost events, or of calls that wait for an answer.
    """

    event: EventName
    time: datetime
    session: str
    project: str = ""
    run: str = ""
    agent: str = ""
    turn: int = 0
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    cost: float | None = None
    retries: int = 0
    tool: str = ""
    call: str = ""
    args: dict[str, Any] = {}
    status: str = ""
    seconds: float | None = None
    reason: str = ""
    error: str = ""
    count: int = 0


class SessionEventLog(Plugin):
    """Logs the events of an agent and its subagents.

    The file is created with the first message of a run and appended to later.

    Args:
        session: The conversation.
        limit: Maximum bytes of the file. A larger file is rotated and replaces the previously rotated one.
        redactor: Redacts secrets. By default, knows the secrets in the environment.
        clock: Returns the time.
    """

    def __init__(
        self,
        session: Session,
        *,
        limit: int = _MAX_BYTES,
        redactor: Redactor | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        home = folder_of_store(session.store)
        self._file = None if home is None else EventLogFile(event_log_path(home, session.id), limit)
        self._whose = {"session": session.id, "project": session.cwd}
        self._redactor = redactor or Redactor.of()
        self._clock = clock
        self._options: dict[str, Any] = {"limit": limit, "redactor": self._redactor, "clock": clock}
        self._session = session
        self._child = False
        self._begun = False
        self._told_lost = 0
        self._run: dict[str, Any] = {}
        self._started: set[str] = set()
        self._errors: dict[str, BaseException] = {}
        self._retries = 0
        self._run_at = self._turn_at = 0.0

    @property
    def path(self) -> Path | None:
        """The file. ``None`` if the session is in memory only."""
        return self._file.path if self._file else None

    def install(self, agent: CoreAgent) -> None:
        """See `Plugin`."""
        if self._file is None:
            return
        self._agent = agent
        if not self._child:
            self._session.on_close.append(self.close)
            agent.on(SessionOpen, self._on_session_open, order=_ORDER)
            agent.on(SessionClosed, lambda hook: self.close(hook.reason), order=_ORDER)
        agent.on(SessionStart, self._on_session_start, order=_ORDER)
        agent.on(MessagesAdded, self._on_session_turns, order=_ORDER)
        agent.on(TurnBefore, self._on_turn_before, order=_ORDER)
        agent.on(TurnAfter, self._on_turn_after, order=_ORDER)
        agent.on(UsageUpdate, self._on_usage, order=_ORDER)
        agent.on(BeforeToolRun, self._on_tool_start, order=_ORDER)
        agent.on(ToolFailed, self._on_tool_error, order=_ORDER)
        agent.on(ContextCompacted, self._on_context_compacted, order=_ORDER)
        agent.on(RunPaused, self._on_run_pause, order=_ORDER)
        agent.on(SessionEnd, self._end, order=_ORDER)
        agent.bus.subscribe(self._on_event)

    def for_child(self) -> Plugin:
        """Return this log: events of a subagent are logged under its name."""
        child = SessionEventLog(self._session, **self._options)
        child._file, child._child = self._file, True
        return child

    def close(self, reason: str = "exit") -> None:
        """Log that the conversation was closed in this process.

        Blocks. The second call does nothing.
        """
        if self._file is None or not self._begun:
            return
        self._begun = False
        self._log("shutdown", reason=reason)
        self._file.close()

    # --- a run ------------------------------------------------------------------------------------------------------

    def _on_session_open(self, hook: SessionOpen) -> None:
        self._log("open", reason=hook.reason)

    def _on_session_start(self, hook: SessionStart) -> None:
        self._run = {"run": hook.run_id, "agent": hook.agent}
        self._run_at, self._retries = time.monotonic(), 0
        self._started.clear()
        self._errors.clear()
        self._log("run_start", reason="resume" if hook.resumed else "")

    async def _on_session_turns(self, _: MessagesAdded) -> None:
        assert self._file is not None
        self._begun = True
        await self._file.rotate(make=True)

    async def _end(self, hook: SessionEnd) -> None:
        assert self._file is not None
        self._log(
            "run_end",
            turn=hook.turns,
            usage=hook.usage,
            cost=_cost(hook.usage),
            status=hook.status,
            seconds=self._seconds_since(self._run_at),
            error=self._error_text(hook.error),
        )
        await self._file.rotate()

    def _on_context_compacted(self, hook: ContextCompacted) -> None:
        self._log("compaction", reason=hook.reason)

    def _on_run_pause(self, hook: RunPaused) -> None:
        self._log("pause", count=len(hook.reasons))

    # --- model calls ------------------------------------------------------------------------------------------------

    def _on_turn_before(self, _: TurnBefore) -> None:
        self._turn_at, self._retries = time.monotonic(), 0

    async def _on_turn_after(self, hook: TurnAfter) -> None:
        assert self._file is not None
        message = hook.message
        self._log(
            "model_call",
            turn=hook.turn,
            provider=message.provider or self._agent.model.provider,
            model=message.model or self._agent.model.model,
            usage=hook.usage,
            cost=_cost(hook.usage),
            retries=self._retries,
            status="error" if hook.error else "ok",
            seconds=self._seconds_since(self._turn_at),
            reason=message.stop_reason or "",
            error=self._error_text(hook.error),
        )
        await self._file.rotate()

    def _on_usage(self, hook: UsageUpdate) -> None:
        if hook.purpose:
            self._log("side_call", turn=hook.turn, usage=hook.usage, cost=_cost(hook.usage), reason=hook.purpose)

    # --- tool calls -------------------------------------------------------------------------------------------------

    def _on_tool_start(self, hook: BeforeToolRun) -> None:
        if not hook.block:
            self._started.add(hook.call_id)

    def _on_tool_error(self, hook: ToolFailed) -> None:
        self._errors[hook.call_id] = hook.error

    def _on_event(self, event: Event) -> None:
        if type(event) is ModelRetry:
            self._retries += 1
            self._log("retry", error=self._error_text(event.exception), count=event.attempt)
        elif type(event) is ToolExecutionEnd:
            self._log_call(event)

    def _log_call(self, event: ToolExecutionEnd) -> None:
        call, result = event.call, event.result
        ran = call.id in self._started
        self._started.discard(call.id)
        raised = self._errors.pop(call.id, None)
        status: CallStatus = "error" if result.is_error else "ok"
        error = self._error_text(raised)
        if not ran and result.is_error:
            status = "denied" if result.text.startswith(_DENIALS) else "not_run"
            error = self._redact_line(result.text)
        args, sensitive = redact_call_arguments(self._agent.tools.get(call.name), call.input, self._whose["project"])
        self._log(
            "tool_call",
            tool=call.name,
            call=call.id,
            args=self._redact_arguments(args),
            status=status,
            seconds=round(event.seconds, 6),
            error="" if sensitive and ran else error,
        )

    # --- writing ----------------------------------------------------------------------------------------------------

    def _log(self, event: EventName, **fields: Any) -> None:
        assert self._file is not None
        lost = self._file.dropped_lines
        if lost > self._told_lost and event != "lost":
            self._told_lost = lost
            self._log("lost", count=lost)
        log_event = LogEvent(event=event, time=self._clock(), **self._whose, **self._run, **fields)
        self._file.append(msgspec.json.encode(log_event, enc_hook=str))

    def _seconds_since(self, start: float) -> float:
        return round(time.monotonic() - start, 6)

    def _error_text(self, error: BaseException | None) -> str:
        return "" if error is None else self._redact_line(f"{type(error).__name__}: {error}")

    def _redact_line(self, text: str) -> str:
        """Return the first line, redacted and truncated."""
        return truncate_end(self._redactor.text(text[:_LARGE]).partition("\n")[0], _TEXT)

    def _redact_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Redact and truncate arguments."""
        clean = self._redactor.value(msgspec.to_builtins(args, enc_hook=str))
        return {name: _truncate(value) if isinstance(value, str) else value for name, value in clean.items()}


def folder_of_store(store: SessionStore) -> Path | None:
    """Return the folder of a store. ``None`` for a store in memory."""
    folder = store.blobs_folder
    return None if folder is None else Path(folder).parent


def read_events(session: Session | str, *, home: HomeOrStore | None = None) -> list[LogEvent]:
    """Read the events of a session, oldest first.

    Empty if nothing was logged. Unreadable lines are skipped.

    Args:
        session: The session, or its full ID.
        home: See `Session.create`.
    """
    folder = folder_of_store(session.store if isinstance(session, Session) else resolve_store(home))
    if folder is None:
        return []
    path = event_log_path(folder, session.id if isinstance(session, Session) else session)
    return [event for file in (rotated_log_path(path), path) for event in _events(file)]


def iter_all_events(*, home: HomeOrStore | None = None) -> Iterator[LogEvent]:
    """Iterate over the events of all sessions, for reports by day, project, model, or session.

    Those of each session are in order.

    Args:
        home: See `Session.create`.
    """
    folder = folder_of_store(resolve_store(home))
    if folder is not None:
        for file in sorted((folder / "logs").glob("*.jsonl"), key=lambda f: (f.stem.removesuffix(".1"), -len(f.stem))):
            yield from _events(file)


def _events(file: Path) -> Iterator[LogEvent]:
    decoder = msgspec.json.Decoder(LogEvent)
    try:
        with file.open("rb") as lines:
            for line in lines:
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
    except FileNotFoundError:
        return


def redact_call_arguments(tool: Tool | None, given: Mapping[str, Any], project: str) -> tuple[dict[str, Any], bool]:
    """Return the shortened arguments of a call, and whether it touches a sensitive path.

    Then only the path is included.
    """
    paths, sensitive = _sensitive_arguments(tool, given, project)
    if sensitive:
        return {name: v if v in paths else _size(v) for name, v in given.items()}, True
    return _flat(given), False


def _sensitive_arguments(tool: Tool | None, mapping: Mapping[str, Any], project: str) -> tuple[set[object], bool]:
    try:
        touched = tool.access(dict(mapping)) if tool is not None and tool.access is not None else ()
    except Exception:  # noqa: BLE001 - the tool's own code may raise on invalid arguments
        return set(), True
    paths = {a.resource for a in touched if a.scope.startswith("fs-")}
    words = {w for a in touched if a.scope == "shell-run" for w in _WORDS.split(a.resource)}
    return set(paths), len(words) > _MAX_ARGUMENTS or any(_is_sensitive(path, project) for path in (*paths, *words))


def _is_sensitive(path: str, project: str) -> bool:
    full = os.path.normpath(os.path.join(project, os.path.expanduser(path)))
    inside = full.removeprefix(os.path.join(project, ""))
    return bool(_PATHS.reason(_parts(full), _parts(inside), changes=False))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(fold(part) for part in path.split(os.sep) if part)


def _size(value: object) -> str:
    return f"({len(value)} characters)" if isinstance(value, str) else "(left out)"


def _flat(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values.

    Long ones are cut well after the logged part, so that no key is cut in two before redaction.
    """
    out: dict[str, Any] = {}
    for name, value in mapping.items():
        if not isinstance(value, str | int | float | bool | None):
            value = msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
        out[name] = value[: _ARGUMENT * 4] if isinstance(value, str) else value
    return out


def _truncate(text: str) -> str:
    return text if len(text) <= _ARGUMENT else f"{text[: _ARGUMENT // 2]}…"


def _cost(usage: Usage) -> float | None:
    return usage.cost.total if usage.cost else None


_PATHS = SensitivePaths.default()
