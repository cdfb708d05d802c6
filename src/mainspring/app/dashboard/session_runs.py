"""Runs of saved sessions for the viewer: timing from their event logs, messages from the sessions."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.servers.viewer.model import RunDetail, Summary, ViewEvent, ViewSpan, add_totals
from mainspring.errors import SessionError
from mainspring.events import (
    AgentEnd,
    AgentStart,
    ContextCompacted,
    ErrorInfo,
    Event,
    MessageEnd,
    ModelCallRetry,
    ToolExecutionEnd,
    UsageUpdate,
)
from mainspring.messages import Message, Usage
from mainspring.redaction import Redactor
from mainspring.sessions import (
    JsonlStore,
    LogLine,
    SessionInfo,
    SessionStore,
    Transcript,
    TranscriptItem,
    read_events,
    read_transcript,
)
from mainspring.sessions.jsonl_store import read_session_info
from mainspring.sessions.log_lines import SessionShutdown

_MAX_LOGS = 150  # newest sessions to read
_RUNS_OUT_MS = 10 * 60 * 1000.0  # a run without an end counts as stopped after this time without an event
_SLACK_MS = 1000.0
_SPAWN = "spawn"


class _RunGroup:
    """A run with the runs of its subagents, which are in the same log between its start and its end."""

    def __init__(self, line: LogLine, start: AgentStart) -> None:
        self.start = start
        self.lines: list[LogLine] = [line]
        self.end: AgentEnd | None = None

    @property
    def last(self) -> float:
        """Return the time of the last event."""
        return _ms(self.lines[-1].time)


class SavedRuns:
    """Runs of saved sessions; see `RunSource`. Parsed logs are cached until they grow.

    Args:
        home: The user's folder.
        environ: Environment variables whose keys are redacted.
        store: The sessions (default: the files in the user's folder).
    """

    def __init__(self, home: Path, environ: Mapping[str, str] = os.environ, store: SessionStore | None = None) -> None:
        self._home = home
        self._store = store or JsonlStore(home)
        self._redactor = Redactor.of(environ)
        self._cached_groups: dict[Path, tuple[tuple[int, int], list[_RunGroup]]] = {}
        self._titles: dict[str, str] = {}
        self._busy = threading.Lock()  # two pages can be open, and each request runs in a thread

    def runs(self) -> list[Summary]:
        """Return the runs of the most recently used sessions."""
        with self._busy:
            return [self._summarize(group) for groups in self._groups() for group in groups]

    def run(self, id: str) -> RunDetail | None:
        """Return one run with its messages."""
        requested = id.removeprefix("session-")
        with self._busy:
            group = next((g for groups in self._groups() for g in groups if g.start.run_id == requested), None)
            if group is None:
                return None
            summary, spans = self._summarize(group), _spans(group)
        transcript = self._transcript(group.start.session_id)
        if transcript is None:
            return RunDetail(summary=summary, spans=spans)
        until = (summary.end or time.time() * 1000) + _SLACK_MS
        items = [i for i in transcript.items if summary.start - _SLACK_MS <= _ms(i.when) <= until]
        _attach_messages(spans, items)
        return RunDetail(summary=summary, spans=spans, messages=[_message(i) for i in items])

    def _groups(self) -> Iterable[list[_RunGroup]]:
        files: list[tuple[float, Path, tuple[int, int]]] = []
        for file in (self._home / "logs").glob("*.jsonl"):
            try:
                status = file.stat()
            except OSError:
                continue
            if not file.stem.endswith(".1"):
                files.append((status.st_mtime, file, (status.st_mtime_ns, status.st_size)))
        newest = sorted(files, reverse=True)[:_MAX_LOGS]
        for _, file, state in newest:
            if file not in self._cached_groups or self._cached_groups[file][0] != state:
                self._cached_groups[file] = (state, _group_runs(read_events(file.stem, home=self._home)))
            yield self._cached_groups[file][1]
        for deleted in self._cached_groups.keys() - {file for _, file, _ in newest}:
            del self._cached_groups[deleted]

    def _summarize(self, group: _RunGroup) -> Summary:
        first, end = group.start, group.end
        start = _ms(group.lines[0].time)
        status = end.status if end is not None else "running"
        if end is None and time.time() * 1000 - group.last > _RUNS_OUT_MS:
            status = "unfinished"
        summary = Summary(
            id=f"session-{first.run_id}",
            run=first.run_id,
            source="session",
            title=self._title(first.session_id),
            place=first.cwd,
            session=first.session_id,
            start=start,
            end=None if status == "running" else group.last,
            status=status,
        )
        return add_totals(summary, _spans(group))

    def _title(self, session: str) -> str:
        """Return the title of the session. An empty title is looked up again, because the first prompt may not be stored yet."""
        if not self._titles.get(session):
            try:
                info = self._find_info(session)
            except (SessionError, OSError):
                info = None
            text = " ".join((info.title or info.preview).split()) if info is not None else ""
            self._titles[session] = self._redactor.text(text)[:120]
        return self._titles[session]

    def _find_info(self, session: str) -> SessionInfo | None:
        if isinstance(self._store, JsonlStore):  # A list would read all sessions.
            found = next(self._store.root.glob(f"*/{session}.jsonl"), None)
            return read_session_info(found) if found is not None else None
        return next((info for info in self._store.list() if info.id == session), None)

    def _transcript(self, session: str) -> Transcript | None:
        try:
            plain: Any = msgspec.to_builtins(read_transcript(self._store, session))
        except (SessionError, OSError):
            return None
        return msgspec.convert(self._redactor.value(plain), Transcript)


def _group_runs(lines: Iterable[LogLine]) -> list[_RunGroup]:
    """Return the runs of a log. One process at a time writes a session, so a run that starts within another belongs to a subagent."""
    groups: list[_RunGroup] = []
    current: _RunGroup | None = None
    inner: set[str] = set()
    for line in lines:
        event, run_id = line.event, line.run_id
        if isinstance(event, AgentStart):
            if current is None or event.agent == current.start.agent:
                current, inner = _RunGroup(line, event), set()
                groups.append(current)
                continue
            inner.add(run_id)
        if current is None or not run_id or (run_id != current.start.run_id and run_id not in inner):
            continue
        if isinstance(event, SessionShutdown):
            continue
        current.lines.append(line)
        if isinstance(event, AgentEnd) and run_id == current.start.run_id:
            current.end, current = event, None
    return groups


def _spans(group: _RunGroup) -> list[ViewSpan]:
    agents: dict[str, _AgentSpans] = {}
    for number, line in enumerate(group.lines):
        if isinstance(line.event, AgentStart):
            agents[line.run_id] = _AgentSpans(line.event, _ms(line.time))
        elif line.run_id in agents:
            agents[line.run_id].add(line, number)
    spans = [span for agent in agents.values() for span in (agent.span, *agent.inner)]
    _nest_subagents(group, {run: agent.span for run, agent in agents.items()}, spans)
    return sorted(spans, key=lambda s: (s.start, s.kind != "agent"))


class _AgentSpans:
    """The span of a run, and those of its calls."""

    def __init__(self, start: AgentStart, at: float) -> None:
        self.span = ViewSpan(id=start.run_id, name=f"agent {start.agent or 'agent'}", kind="agent", start=at)
        self.inner: list[ViewSpan] = []
        self._model = start.model
        self._turns = 0
        self._retries = 0

    def add(self, line: LogLine, number: int) -> None:
        """Add an event of the run."""
        at, id = _ms(line.time), f"{line.run_id}-{number}"
        match line.event:
            case AgentEnd() as end:
                self.span.end, self.span.attributes = at, {"status": end.status, "turns": end.stats.turns}
                self.span.error = _error(end.error) or ("aborted" if end.status == "aborted" else "")
            case MessageEnd(message=Message() as message):
                self._turns += 1
                model = f"{message.provider}:{message.model}" if message.model else self._model
                at = _ms(message.timestamp)
                span = self._add_model_span(id, message.model or "model", at, line.event.seconds, message.usage)
                span.model, span.error = model, _error(line.event.error) or message.error or ""
                span.attributes = {
                    "turn": self._turns,
                    "retries": self._retries,
                    "stop reason": message.stop_reason or "",
                }
                self._retries = 0
            case UsageUpdate() as side:
                self._add_model_span(id, f"{side.purpose} (beside)", at, 0.0, side.usage)
            case ToolExecutionEnd(call=call, result=result, status=status, seconds=seconds):
                self.inner.append(
                    ViewSpan(
                        id=f"{line.run_id}-{call.id or number}",
                        parent=line.run_id,
                        name=call.name,
                        kind="tool",
                        start=at - seconds * 1000,
                        end=at,
                        error="" if status == "ok" else result.text or status,
                        call=call.id,
                        input=call.input,
                    )
                )
            case ModelCallRetry() as retry:
                self._retries += 1
                self._add_event(retry, at, {"error": _error(retry.error), "count": retry.attempt})
            case ContextCompacted() as compacted:
                self._add_event(compacted, at, {"reason": compacted.reason})
            case _:
                pass

    def _add_model_span(self, id: str, name: str, at: float, seconds: float, usage: Usage | None) -> ViewSpan:
        usage = usage or Usage.zero()
        span = ViewSpan(
            id=id,
            parent=self.span.id,
            name=name,
            kind="model",
            start=at - seconds * 1000,
            end=at,
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cache_read,
            cost=usage.cost.total if usage.cost else None,
        )
        self.inner.append(span)
        return span

    def _add_event(self, event: Event, at: float, attributes: dict[str, Any]) -> None:
        self.span.events.append(ViewEvent(name=event.type, time=at, attributes=attributes))


def _error(error: ErrorInfo | None) -> str:
    return "" if error is None else f"{error.type}: {error.message}" if error.type else error.message


def _nest_subagents(group: _RunGroup, agents: Mapping[str, ViewSpan], spans: Iterable[ViewSpan]) -> None:
    """Assign each subagent to the tool call that started it: the shortest enclosing `spawn` call without a subagent."""
    calls = sorted((s for s in spans if s.kind == "tool" and s.name == _SPAWN), key=lambda s: (s.end or 0.0) - s.start)
    nested: set[str] = set()
    for run, agent in agents.items():
        if run == group.start.run_id:
            continue
        agent.parent = group.start.run_id
        for call in calls:
            encloses = call.start - 5 <= agent.start and (agent.end or agent.start) <= (call.end or 0.0) + 5
            if encloses and call.id not in nested and call.parent != run:
                agent.parent = call.id
                nested.add(call.id)
                break


def _attach_messages(spans: Iterable[ViewSpan], items: Iterable[TranscriptItem]) -> None:
    """Add messages to calls: results by call ID, responses by their time, which the log and the session both contain."""
    answers = {_ms(i.when): i for i in items if i.kind == "assistant"}
    calls = {c.id: c for i in answers.values() for c in i.calls}
    for span in spans:
        if span.kind == "tool" and span.call in calls:
            span.input, span.output = calls[span.call].input, calls[span.call].output
        elif span.kind == "model" and span.end in answers:
            answer = answers[span.end]
            parts = [*filter(None, (answer.thinking, answer.text)), *[f"→ {c.name}" for c in answer.calls]]
            span.output = "\n".join(parts) or None


def _message(item: TranscriptItem) -> dict[str, Any]:
    calls = [{"name": c.name, "input": c.input, "failed": c.is_error} for c in item.calls]
    kind = item.kind if item.kind in {"user", "assistant"} else "system"
    return {
        "kind": kind,
        "when": _ms(item.when),
        "text": item.text,
        "model": item.model,
        "error": item.error,
        "calls": calls,
    }


def _ms(time: datetime) -> float:
    return time.timestamp() * 1000
