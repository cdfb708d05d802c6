"""The event log of a session: calls, their duration, and their cost, for reports and troubleshooting.

It contains no conversation: no prompts, responses, or tool outputs. Arguments of calls are shortened and redacted. Of a call that
touches a sensitive path, only the path is logged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from mainspring.events import Event, ModelRetry, ToolExecutionEnd
from mainspring.lazy import lazy_re
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    BeforeToolRun,
    ContextCompacted,
    MessagesAdded,
    RunPaused,
    SessionClosed,
    SessionEnd,
    SessionOpen,
    SessionStart,
    ToolFailed,
    TurnAfter,
    TurnBefore,
    UsageUpdate,
)
from mainspring.messages import Usage, utc_now
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.redaction import Redactor
from mainspring.sessions.event_log_file import MAX_BYTES, EventLogFile
from mainspring.sessions.paths import event_log_path, rotated_log_path
from mainspring.sessions.session import HomeOrStore, Session, resolve_store
from mainspring.sessions.store import SessionStore
from mainspring.text import fold

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.tools import Tool

EventName = Literal[
    "open", "run_start", "model_call", "side_call", "retry", "tool_call", "compaction", "pause", "run_end", "shutdown", "lost"
]  # fmt: skip
"""The type of an event. ``side_call`` is a model call outside the conversation (a summary, a title); ``lost`` counts events that
could not be written."""

CallStatus = Literal["ok", "error", "denied", "not_run"]
"""The outcome of a tool call: ``denied`` by rules or the user, ``not_run`` for other reasons (invalid arguments, unknown tool, the
run was stopped)."""

ORDER = 200
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
    """Logs the events of an agent and its subagents. The file is created with the first message of a run and appended to later.

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
        limit: int = MAX_BYTES,
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
            self._session.closing.append(self.close)
            agent.on(SessionOpen, self._opened, order=ORDER)
            agent.on(SessionClosed, lambda hook: self.close(hook.reason), order=ORDER)
        agent.on(SessionStart, self._begin, order=ORDER)
        agent.on(MessagesAdded, self._joined, order=ORDER)
        agent.on(TurnBefore, self._asking, order=ORDER)
        agent.on(TurnAfter, self._answered, order=ORDER)
        agent.on(UsageUpdate, self._on_usage, order=ORDER)
        agent.on(BeforeToolRun, self._starting, order=ORDER)
        agent.on(ToolFailed, self._failed, order=ORDER)
        agent.on(ContextCompacted, self._compacted, order=ORDER)
        agent.on(RunPaused, self._paused, order=ORDER)
        agent.on(SessionEnd, self._end, order=ORDER)
        agent.bus.observe(self._observe)

    def for_child(self) -> Plugin:
        """Return this log: events of a subagent are logged under its name."""
        child = SessionEventLog(self._session, **self._options)
        child._file, child._child = self._file, True
        return child

    def close(self, reason: str = "exit") -> None:
        """Log that the conversation was closed in this process. Blocks. The second call does nothing."""
        if self._file is None or not self._begun:
            return
        self._begun = False
        self._put("shutdown", reason=reason)
        self._file.close()

    # --- a run ------------------------------------------------------------------------------------------------------

    def _opened(self, hook: SessionOpen) -> None:
        self._put("open", reason=hook.reason)

    def _begin(self, hook: SessionStart) -> None:
        self._run = {"run": hook.run_id, "agent": hook.agent}
        self._run_at, self._retries = time.monotonic(), 0
        self._started.clear()
        self._errors.clear()
        self._put("run_start", reason="resume" if hook.resumed else "")

    async def _joined(self, _: MessagesAdded) -> None:
        assert self._file is not None
        self._begun = True
        await self._file.settle(make=True)

    async def _end(self, hook: SessionEnd) -> None:
        assert self._file is not None
        self._put(
            "run_end",
            turn=hook.turns,
            usage=hook.usage,
            cost=_cost(hook.usage),
            status=hook.status,
            seconds=self._since(self._run_at),
            error=self._told(hook.error),
        )
        await self._file.settle()

    def _compacted(self, hook: ContextCompacted) -> None:
        self._put("compaction", reason=hook.reason)

    def _paused(self, hook: RunPaused) -> None:
        self._put("pause", count=len(hook.reasons))

    # --- model calls ------------------------------------------------------------------------------------------------

    def _asking(self, _: TurnBefore) -> None:
        self._turn_at, self._retries = time.monotonic(), 0

    async def _answered(self, hook: TurnAfter) -> None:
        assert self._file is not None
        message = hook.message
        self._put(
            "model_call",
            turn=hook.turn,
            provider=message.provider or self._agent.model.provider,
            model=message.model or self._agent.model.model,
            usage=hook.usage,
            cost=_cost(hook.usage),
            retries=self._retries,
            status="error" if hook.error else "ok",
            seconds=self._since(self._turn_at),
            reason=message.stop_reason or "",
            error=self._told(hook.error),
        )
        await self._file.settle()

    def _on_usage(self, hook: UsageUpdate) -> None:
        if hook.purpose:
            self._put("side_call", turn=hook.turn, usage=hook.usage, cost=_cost(hook.usage), reason=hook.purpose)

    # --- tool calls -------------------------------------------------------------------------------------------------

    def _starting(self, hook: BeforeToolRun) -> None:
        if not hook.block:
            self._started.add(hook.call_id)

    def _failed(self, hook: ToolFailed) -> None:
        self._errors[hook.call_id] = hook.error

    def _observe(self, event: Event) -> None:
        if type(event) is ModelRetry:
            self._retries += 1
            self._put("retry", error=self._told(event.error), count=event.attempt)
        elif type(event) is ToolExecutionEnd:
            self._call(event)

    def _call(self, event: ToolExecutionEnd) -> None:
        call, result = event.call, event.result
        ran = call.id in self._started
        self._started.discard(call.id)
        raised = self._errors.pop(call.id, None)
        status: CallStatus = "error" if result.is_error else "ok"
        error = self._told(raised)
        if not ran and result.is_error:
            status = "denied" if result.text.startswith(_DENIALS) else "not_run"
            error = self._redact_line(result.text)
        args, sensitive = redact_call_arguments(self._agent.tools.get(call.name), call.input, self._whose["project"])
        self._put(
            "tool_call",
            tool=call.name,
            call=call.id,
            args=self._redact_arguments(args),
            status=status,
            seconds=round(event.seconds, 6),
            error="" if sensitive and ran else error,
        )

    # --- writing ----------------------------------------------------------------------------------------------------

    def _put(self, event: EventName, **fields: Any) -> None:
        assert self._file is not None
        lost = self._file.lost
        if lost > self._told_lost and event != "lost":
            self._told_lost = lost
            self._put("lost", count=lost)
        made = LogEvent(event=event, time=self._clock(), **self._whose, **self._run, **fields)
        self._file.put(msgspec.json.encode(made, enc_hook=str))

    def _since(self, start: float) -> float:
        return round(time.monotonic() - start, 6)

    def _told(self, error: BaseException | None) -> str:
        return "" if error is None else self._redact_line(f"{type(error).__name__}: {error}")

    def _redact_line(self, text: str) -> str:
        """Return the first line, redacted and truncated."""
        line = self._redactor.text(text[:_LARGE]).partition("\n")[0]
        return line if len(line) <= _TEXT else f"{line[:_TEXT]}…"

    def _redact_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Redact and truncate arguments."""
        clean = self._redactor.value(msgspec.to_builtins(args, enc_hook=str))
        return {name: _cut(value) if isinstance(value, str) else value for name, value in clean.items()}


def folder_of_store(store: SessionStore) -> Path | None:
    """Return the folder of a store. ``None`` for a store in memory."""
    folder = store.blobs_folder
    return None if folder is None else Path(folder).parent


def read_events(session: Session | str, *, home: HomeOrStore | None = None) -> list[LogEvent]:
    """Read the events of a session, oldest first. Empty if nothing was logged. Unreadable lines are skipped.

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
    """Iterate over the events of all sessions, for reports by day, project, model, or session. Those of each session are in order.

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
    """Return the shortened arguments of a call, and whether it touches a sensitive path. Then only the path is included."""
    paths, sensitive = _sensitive_arguments(tool, given, project)
    if sensitive:
        return {name: v if v in paths else _size(v) for name, v in given.items()}, True
    return _flat(given), False


def _sensitive_arguments(tool: Tool | None, given: Mapping[str, Any], project: str) -> tuple[set[object], bool]:
    try:
        touched = tool.access(dict(given)) if tool is not None and tool.access is not None else ()
    except Exception:  # noqa: BLE001 - the tool's own code, on arguments that may not fit: then nothing is known of them
        return set(), True
    paths = {a.resource for a in touched if a.scope.startswith("fs-")}
    words = {w for a in touched if a.scope == "shell-run" for w in _WORDS.split(a.resource)}
    return set(paths), len(words) > _MAX_ARGUMENTS or any(_is_sensitive(path, project) for path in (*paths, *words))


def _is_sensitive(path: str, project: str) -> bool:
    full = os.path.normpath(os.path.join(project, os.path.expanduser(path)))
    inside = full.removeprefix(os.path.join(project, ""))
    return bool(_PATHS.why(_parts(full), _parts(inside), changes=False))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(fold(part) for part in path.split(os.sep) if part)


def _size(value: object) -> str:
    return f"({len(value)} characters)" if isinstance(value, str) else "(left out)"


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values. Long ones are cut well after the logged part, so that no key is cut in two before redaction."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(value, str | int | float | bool | None):
            value = msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
        out[name] = value[: _ARGUMENT * 4] if isinstance(value, str) else value
    return out


def _cut(text: str) -> str:
    return text if len(text) <= _ARGUMENT else f"{text[: _ARGUMENT // 2]}…"


def _cost(usage: Usage) -> float | None:
    return usage.cost.total if usage.cost else None


_PATHS = SensitivePaths.standard()
