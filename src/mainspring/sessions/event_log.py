"""The event log of a session: calls, their duration, and their cost, for reports and troubleshooting.

It contains no conversation: no prompts, responses, or tool outputs. Arguments of calls are shortened and redacted. Of a call that
touches a sensitive path, only the path is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring.errors import single_conversation_error
from mainspring.events import (
    AgentEnd,
    AgentStart,
    Envelope,
    Event,
    MessageEnd,
    ToolExecutionEnd,
    UsageUpdate,
    encode,
)
from mainspring.events.views import LOGGED_EVENTS, without_content
from mainspring.lazy import lazy_re
from mainspring.loop import Plugin
from mainspring.loop.hooks import SessionClosed, SessionOpen
from mainspring.messages import ToolUseBlock, utc_now
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.redaction import Redactor
from mainspring.sessions.home import HomeOrStore, resolve_store
from mainspring.sessions.log_lines import VERSION, LogLine, SessionOpened, SessionShutdown, decode_line
from mainspring.sessions.paths import allow_blocking_writes, event_log_path, rotated_log_path
from mainspring.sessions.session import Session
from mainspring.sessions.store import SessionStore
from mainspring.state_files import make_private_folder
from mainspring.text import fold, truncate_end

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.tools import Tool


logger = logging.getLogger("mainspring.sessions")
logger.addHandler(logging.NullHandler())


_MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a log. Then it replaces the older log. Each can contain about 10,000 calls."""


_MAX_QUEUED = 2000  # maximum number of lines that wait for a slow disk; more are only counted


class EventLogFile:
    """Writes lines. Errors are reported once to the program's log, and the run continues.

    Writing a line takes microseconds. Slower work (creating or rotating the file) happens in `rotate`, in a thread. Earlier lines wait
    in memory.

    Args:
        path: The file. Created with access for its owner only.
        limit: Bytes at which it is rotated.

    Attributes:
        count: Number of lines so far, including those that could not be written.
    """

    def __init__(self, path: Path, limit: int = _MAX_BYTES) -> None:
        self.path = path
        self.count = 0
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
        """Write all waiting lines in one call. Lines that do not fit on a full disk are lost."""
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


_ORDER = 200
"""After the session and all other plugins: the log records final outcomes."""


_TEXT = 300  # maximum characters of an error
_LARGE = 1 << 18  # characters of an error that are checked for secrets
_ARGUMENT = 200  # maximum characters of an argument
_MAX_ARGUMENTS = 200  # maximum words of a command; a longer command is not analyzed and not logged
_WORDS = lazy_re(r"[\s'\"=<>|;&(){}`:,]+")


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
        self._redactor = redactor or Redactor.of()
        self._clock = clock
        self._options: dict[str, Any] = {"limit": limit, "redactor": self._redactor, "clock": clock}
        self._session = session
        self._child = False
        self._begun = False
        self._opened: datetime | None = None
        self._run_id = ""

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
        for kind in LOGGED_EVENTS:
            agent.on(kind, self._on_event, order=_ORDER)
        agent.on(MessageEnd, self._on_message_end, order=_ORDER)
        agent.on(AgentEnd, self._on_agent_end, order=_ORDER)

    def for_child(self) -> Plugin:
        """Return this log: events of a subagent are logged under its name."""
        child = SessionEventLog(self._session, **self._options)
        child._file, child._child = self._file, True
        return child

    def for_conversation(self) -> Plugin:
        """Raise ConfigError: the data belong to one conversation."""
        raise single_conversation_error("SessionEventLog")

    def close(self, reason: str = "exit") -> None:
        """Log that the conversation was closed in this process.

        Blocks. The second call does nothing.
        """
        if self._file is None or not self._begun:
            return
        self._begun = False
        seconds = (self._clock() - self._opened).total_seconds() if self._opened else 0.0
        self._log(SessionShutdown(reason, max(0.0, seconds)))
        self._file.close()

    def _on_session_open(self, hook: SessionOpen) -> None:
        self._opened = self._clock()
        self._log(SessionOpened(hook.reason))

    def _on_event(self, event: Event) -> None:
        if type(event) is UsageUpdate and not event.purpose:
            return  # the usage of a turn is in its message
        logged = without_content(event, self._redact_line)
        match logged:
            case None:
                return
            case AgentStart():
                self._run_id = logged.run_id
                logged = replace(logged, session_id=self._session.id, cwd=self._session.cwd, version=VERSION)
            case ToolExecutionEnd():
                logged = self._redact_call(logged)
            case _:
                pass
        self._log(logged)

    async def _on_message_end(self, _: MessageEnd) -> None:
        assert self._file is not None
        self._begun = True
        await self._file.rotate(make=True)

    async def _on_agent_end(self, _: AgentEnd) -> None:
        assert self._file is not None
        await self._file.rotate()

    def _redact_call(self, event: ToolExecutionEnd) -> ToolExecutionEnd:
        call, result = event.call, event.result
        args, sensitive = redact_call_arguments(self._agent.tools.get(call.name), call.input, self._session.cwd)
        if sensitive and event.has_output:
            result = replace(result, content="")
        return replace(event, call=ToolUseBlock(call.id, call.name, self._redact_arguments(args)), result=result)

    def _log(self, event: Event) -> None:
        assert self._file is not None
        self._file.count += 1
        line = Envelope(self._file.count, self._clock(), event, run_id=self._run_id, session_id=self._session.id)
        self._file.append(encode(line))

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


def read_events(session: Session | str, *, home: HomeOrStore | None = None) -> list[LogLine]:
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
    return [line for file in (rotated_log_path(path), path) for line in _read_lines(file)]


def iter_all_events(*, home: HomeOrStore | None = None) -> Iterator[LogLine]:
    """Iterate over the events of all sessions, for reports by day, project, model, or session.

    Those of each session are in order.

    Args:
        home: See `Session.create`.
    """
    folder = folder_of_store(resolve_store(home))
    if folder is not None:
        for file in sorted((folder / "logs").glob("*.jsonl"), key=lambda f: (f.stem.removesuffix(".1"), -len(f.stem))):
            yield from _read_lines(file)


def _read_lines(file: Path) -> Iterator[LogLine]:
    try:
        with file.open("rb") as lines:
            for data in lines:
                line = decode_line(data)
                if line is not None:
                    yield line
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


_PATHS = SensitivePaths.default()
