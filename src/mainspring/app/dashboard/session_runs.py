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
from mainspring.redaction import Redactor
from mainspring.sessions import JsonlStore, LogEvent, Transcript, TranscriptItem, read_events, read_transcript
from mainspring.sessions.jsonl_store import read_session_info

_MAX_LOGS = 150  # newest sessions to read
_RUNS_OUT_MS = 10 * 60 * 1000.0  # a run without an end counts as stopped after this time without an event
_SLACK_MS = 1000.0
_SPAWN = "spawn"
_SIDE_CALL_SUFFIX = " (beside)"


class _RunGroup:
    """A run with the runs of its subagents, which are in the same log between its start and its end."""

    def __init__(self, first: LogEvent) -> None:
        self.first = first
        self.events: list[LogEvent] = [first]
        self.end: LogEvent | None = None

    @property
    def last(self) -> float:
        """Return the time of the last event."""
        return _ms(self.events[-1].time)


class SavedRuns:
    """Runs of saved sessions; see `RunSource`. Parsed logs are cached until they grow.

    Args:
        home: The user's folder.
        environ: Environment variables whose keys are redacted.
    """

    def __init__(self, home: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._home = home
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
            group = next((g for groups in self._groups() for g in groups if g.first.run == requested), None)
            if group is None:
                return None
            summary, spans = self._summarize(group), _spans(group)
        transcript = self._transcript(group.first.session)
        if transcript is None:
            return RunDetail(summary=summary, spans=spans)
        until = (summary.end or time.time() * 1000) + _SLACK_MS
        items = [i for i in transcript.items if summary.start - _SLACK_MS <= _ms(i.when) <= until]
        _attach_messages(spans, items, group.first.run)
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
        first, end = group.first, group.end
        start = _ms(first.time)
        status = end.status if end is not None else "running"
        if end is None and time.time() * 1000 - group.last > _RUNS_OUT_MS:
            status = "unfinished"
        summary = Summary(
            id=f"session-{first.run}",
            run=first.run,
            source="session",
            title=self._title(first.session),
            place=first.project,
            session=first.session,
            start=start,
            end=_ms(end.time) if end is not None else group.last if status == "unfinished" else None,
            status=status,
        )
        return add_totals(summary, _spans(group))

    def _title(self, session: str) -> str:
        """Return the title of the session. An empty title is looked up again, because the first prompt may not be stored yet."""
        if not self._titles.get(session):
            found = next((self._home / "sessions").glob(f"*/{session}.jsonl"), None)
            try:
                info = read_session_info(found) if found is not None else None
            except OSError:
                info = None
            text = " ".join((info.title or info.preview).split()) if info is not None else ""
            self._titles[session] = self._redactor.text(text)[:120]
        return self._titles[session]

    def _transcript(self, session: str) -> Transcript | None:
        try:
            plain: Any = msgspec.to_builtins(read_transcript(JsonlStore(self._home), session))
        except (SessionError, OSError):
            return None
        return msgspec.convert(self._redactor.value(plain), Transcript)


def _group_runs(events: Iterable[LogEvent]) -> list[_RunGroup]:
    """Return the runs of a log. One process at a time writes a session, so a run that starts within another belongs to a subagent."""
    groups: list[_RunGroup] = []
    current: _RunGroup | None = None
    inner: set[str] = set()
    for event in events:
        if event.event == "run_start":
            own = current is not None and event.agent != current.first.agent
            if current is None or not own:
                current, inner = _RunGroup(event), set()
                groups.append(current)
                continue
            inner.add(event.run)
        if current is None or not event.run or (event.run != current.first.run and event.run not in inner):
            continue
        current.events.append(event)
        if event.event == "run_end" and event.run == current.first.run:
            current.end, current = event, None
    return groups


def _spans(group: _RunGroup) -> list[ViewSpan]:
    agents: dict[str, ViewSpan] = {}
    spans: list[ViewSpan] = []
    for number, event in enumerate(group.events):
        at = _ms(event.time)
        start = at - (event.seconds or 0.0) * 1000
        match event.event:
            case "run_start":
                name = event.agent or "agent"
                agents[event.run] = span = ViewSpan(id=event.run, name=f"agent {name}", kind="agent", start=at)
                spans.append(span)
            case "run_end":
                agent = agents.get(event.run)
                if agent is not None:
                    agent.end, agent.attributes = at, {"status": event.status, "turns": event.turn}
                    agent.error = event.error or ("aborted" if event.status == "aborted" else "")
            case "model_call" | "side_call":
                spans.append(_model_span(event, f"{event.run}-{number}", start, at))
            case "tool_call":
                spans.append(
                    ViewSpan(
                        id=f"{event.run}-{event.call or number}",
                        parent=event.run,
                        name=event.tool,
                        kind="tool",
                        start=start,
                        end=at,
                        error="" if event.status == "ok" else event.error or event.status,
                        call=event.call,
                        input=event.args,
                    )
                )
            case _:
                if event.run in agents:
                    facts = {
                        k: v for k, v in (("reason", event.reason), ("error", event.error), ("count", event.count)) if v
                    }
                    agents[event.run].events.append(ViewEvent(name=event.event, time=at, attributes=facts))
    _nest_subagents(group, agents, spans)
    return sorted(spans, key=lambda s: (s.start, s.kind != "agent"))


def _model_span(event: LogEvent, id: str, start: float, at: float) -> ViewSpan:
    usage = event.usage
    side = event.event == "side_call"
    return ViewSpan(
        id=id,
        parent=event.run,
        name=f"{event.reason}{_SIDE_CALL_SUFFIX}" if side else event.model or "model",
        kind="model",
        start=start,
        end=at,
        error=event.error,
        model=f"{event.provider}:{event.model}" if event.model else "",
        input_tokens=usage.prompt_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        cached_tokens=usage.cache_read if usage else 0,
        cost=event.cost,
        attributes={"turn": event.turn, "retries": event.retries, "stop reason": event.reason},
    )


def _nest_subagents(group: _RunGroup, agents: Mapping[str, ViewSpan], spans: Iterable[ViewSpan]) -> None:
    """Assign each subagent to the tool call that started it: the shortest enclosing `spawn` call without a subagent."""
    calls = sorted((s for s in spans if s.kind == "tool" and s.name == _SPAWN), key=lambda s: (s.end or 0.0) - s.start)
    nested: set[str] = set()
    for run, agent in agents.items():
        if run == group.first.run:
            continue
        agent.parent = group.first.run
        for call in calls:
            encloses = call.start - 5 <= agent.start and (agent.end or agent.start) <= (call.end or 0.0) + 5
            if encloses and call.id not in nested and call.parent != run:
                agent.parent = call.id
                nested.add(call.id)
                break


def _attach_messages(spans: Iterable[ViewSpan], items: Iterable[TranscriptItem], run: str) -> None:
    """Add messages to calls: results by call ID, responses by time and order."""
    answers = [i for i in items if i.kind == "assistant"]
    calls = {c.id: c for i in answers for c in i.calls}
    request: list[ViewSpan] = []
    for span in spans:
        call = calls.get(span.call) if span.kind == "tool" and span.call else None
        if call is not None:
            span.input, span.output = call.input, call.output
        elif span.kind == "model" and span.parent == run and not span.name.endswith(_SIDE_CALL_SUFFIX):
            request.append(span)
    # A failed call has a response only if a part of it was stored, so it is matched last.
    for span in sorted(request, key=lambda s: (bool(s.error), s.end or 0.0)):
        position = next((i for i in answers if span.start - 5 <= _ms(i.when) <= (span.end or 0.0) + 50), None)
        if position is not None:
            answers.remove(position)
            parts = [*filter(None, (position.thinking, position.text)), *[f"→ {c.name}" for c in position.calls]]
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
