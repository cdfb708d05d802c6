"""Record what an agent of the library reports: callbacks, hooks, extension events, telemetry, and the event log."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics.export import HistogramDataPoint

from mainspring import Agent, AgentCallbacks, ExtensionAPI, Permissions
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.events import Event, TextDelta
from mainspring.extensions.events import EVENTS
from mainspring.loop.hooks import HOOKS
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
    for name in HOOKS:
        agent.on(name, _record_hook(name, hooks))
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


def _record_hook(name: str, records: list[Any]) -> Callable[[Any], None]:
    """Return a handler that records a hook with its texts and numbers that are not empty."""

    def record(hook: Any) -> None:
        fields = {f: getattr(hook, f, None) for f in _list_fields(type(hook))}
        simple = {f: value for f, value in fields.items() if value and isinstance(value, str | int | float)}
        records.append({"hook": name, **simple})

    return record


def _list_fields(kind: type) -> list[str]:
    """Return the names of the fields of a hook, sorted."""
    slots = {slot.lstrip("_") for base in kind.__mro__ for slot in getattr(base, "__slots__", ())}
    return sorted(slots - {"event", "gate", "kept", "when"})


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
