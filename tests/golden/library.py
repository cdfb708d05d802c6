"""Record what an agent of the library reports: callbacks, hooks, extension events, telemetry, and the event log."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics.export import HistogramDataPoint

from mainspring import Agent, AgentCallbacks, ExtensionAPI, Permissions
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.events import (
    Event,
    MessageEnd,
    SubagentEnd,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    TurnStart,
    UsageUpdate,
)
from mainspring.extensions.events import EVENTS
from mainspring.loop.hooks import HOOK_NAMES, Hook, ToolCallHook
from mainspring.run_options import RunOptions
from mainspring.sessions import Session, SessionEventLog, SessionPlug
from mainspring.telemetry import Tracing
from tests.golden.normalize import to_data
from tests.golden.runs import PROMPT, RETRY, SUBAGENT, Run, look, note
from tests.unit.sessions.harness import QUICK
from tests.unit.telemetry.recorder import Recorder


async def record_library(run: Run, folder: Path) -> dict[str, list[Any]]:
    """Run an agent, and return what it reports, by format."""
    callbacks, hooks, extension_events = list[Any](), list[Any](), list[Any]()
    telemetry = Recorder(sensitive=True, content="both")
    session = Session.create(str(folder), home=folder / "home", options=QUICK)
    agent = Agent(
        run.make_model(),
        name="assistant",
        system="Answer briefly.",
        tools=[look, note],
        execution=MemoryEnv({}),
        permissions=Permissions(deny=["note"]),
        subagents=[SUBAGENT],
        behavior=RunOptions(retry=RETRY),
        callbacks=_record_callbacks(callbacks),
        extensions=[_record_extension_events(extension_events)],
        plugs=[SessionPlug(session), SessionEventLog(session), Tracing(telemetry.telemetry)],
    )
    recorder = _HookRecorder(hooks)
    agent.bus.on(TurnStart, recorder.set_turn)
    for name in HOOK_NAMES:
        agent.on(name, recorder.make_handler(name))
    if run.hangs:
        agent.bus.subscribe(lambda event: _abort_at_text(agent, event))
    try:
        await agent.run(PROMPT)
    except AgentAbortedError:
        pass
    await agent.shutdown()
    session.close()
    log = SessionEventLog(session).path
    assert log is not None
    return {
        "callbacks": callbacks,
        "hooks": hooks,
        "extensions": extension_events,
        "telemetry": list(_read_telemetry(telemetry)),
        "event-log": [json.loads(line) for line in log.read_text().splitlines()],
    }


def _abort_at_text(agent: Agent, event: Event) -> None:
    if isinstance(event, TextDelta):
        agent.abort("enough")


def _record_callbacks(records: list[Any]) -> AgentCallbacks:
    """Return callbacks that record their arguments."""

    def make(name: str) -> Callable[..., None]:
        # The last argument of `on_trace` is an event of the library, which callbacks pass on unchanged.
        last = 2 if name == "on_trace" else None
        return lambda *arguments: records.append({"callback": name, "arguments": to_data(arguments[:last])})

    names = [name for name in AgentCallbacks.__struct_fields__ if name != "on_permission_request"]
    callbacks: dict[str, Any] = {name: make(name) for name in names}
    return AgentCallbacks(**callbacks)


class _HookRecorder:
    """Records hooks and events by the names that handlers use, with their texts and numbers that are not empty.

    Every name must keep its place in the order, and handlers must be able to get the same values, whether the name belongs to a
    hook or to an event. The ID of a turn is in `TurnStart`, and not in each event of a response.
    """

    def __init__(self, records: list[Any]) -> None:
        self._records = records
        self._turn_id = ""

    def set_turn(self, event: TurnStart) -> None:
        self._turn_id = event.turn_id

    def make_handler(self, name: str) -> Callable[[Any], None]:
        """Return a handler that records what it gets."""

        def record(hook: Any) -> None:
            fields = self._read_fields(name, hook)
            simple = {f: value for f, value in sorted(fields.items()) if value and isinstance(value, str | int | float)}
            self._records.append({"hook": name, **simple})

        return record

    def _read_fields(self, name: str, hook: Hook | Event) -> dict[str, Any]:
        match hook:
            case SubagentEvent():
                return {"child": hook.id.rpartition("-")[0], "child_id": hook.id, "depth": hook.depth}
            case SubagentEnd(id=child_id, name=child, task=task, text=text, depth=depth):
                identity = {"child": child, "child_id": child_id, "depth": depth}
                return {**identity, "status": hook.stats.status, "task": task, "text": text}
            case ThinkingDelta():
                return {"thinking": hook.text, "turn_id": self._turn_id}
            case TextDelta() | MessageEnd():
                return {"text": hook.text, "turn_id": self._turn_id}
            case UsageUpdate():
                return {"turn": hook.turn, "purpose": hook.purpose}
            case Hook():
                identity = {"child": hook.child, "child_id": hook.child_id, "depth": hook.depth}
                if name.startswith("child:"):
                    return identity
                names = {"reason", "run_id"} if name == "agent:abort" else _list_fields(hook)
                return {f: getattr(hook, f, None) for f in names} | identity
            case _:
                raise AssertionError(f"no scripted run has {name}")


def _list_fields(hook: Hook) -> set[str]:
    """Return the names of the fields of a hook, without those that only some of its names report."""
    slots = {slot.lstrip("_") for base in type(hook).__mro__ for slot in getattr(base, "__slots__", ())}
    return slots - _ADDED.get(hook.event, set()) - ({"source"} if isinstance(hook, ToolCallHook) else set())


_ADDED = {"session:start": {"system"}, "session:end": {"reason"}}
"""Fields that hooks got from those that are another name of them now, such as `agent:abort`."""


def _record_extension_events(records: list[Any]) -> Callable[[ExtensionAPI], None]:
    """Return an extension that records every event."""

    def make(name: str) -> Callable[[Any], None]:
        return lambda event: records.append({"event": name, "data": to_data(event)})

    def extend(api: ExtensionAPI) -> None:
        for name in EVENTS:
            api.on(name, make(name))

    return extend


def _read_telemetry(recorder: Recorder) -> Iterator[Any]:
    """Yield spans with their parents, then events, then metrics."""
    for span in recorder.spans:
        yield {
            "span": span.name,
            "parent": recorder.parent_of(span),
            "kind": span.kind.name,
            "status": span.status.status_code.name,
            "attributes": to_data(span.attributes or {}),
            "events": [{"name": e.name, "attributes": to_data(e.attributes or {})} for e in span.events],
        }
    for event in recorder.events:
        yield {"log": event.event_name, "attributes": to_data(event.attributes or {}), "body": event.body}
    for name, points in recorder.metrics.items():
        for point in points:
            value = {"count": point.count} if isinstance(point, HistogramDataPoint) else {"value": point.value}
            yield {"metric": name, "attributes": to_data(point.attributes), **value}
