"""Record what the HTTP service sends about a run: its own events, and the AG-UI events."""

from contextlib import aclosing
from typing import Any

from mainspring import Agent, Permissions
from mainspring.app.run_service.service import Factory
from mainspring.durable import DurableSteps, MemoryEngine
from mainspring.env import MemoryEnv
from mainspring.run_options import RunOptions
from mainspring.testing import ScriptedModel
from tests.golden.runs import PROMPT, RETRY, SUBAGENT, Run, look, note
from tests.unit.app.servers.http.harness import RunningServer, run_server


async def record_service(run: Run) -> dict[str, list[Any]]:
    """Run in the service, and return the events of both formats."""
    engine = MemoryEngine()
    async with run_server({"bot": make_factory(run.make_model())}, engine=engine) as server:
        id = await server.ann.start(PROMPT)
        await _control(server, id, run)
        if not run.resumed:
            return await _read_all(server, id)
    async with run_server({"bot": make_factory(ScriptedModel(*run.resumed))}, engine=engine) as server:
        return await _read_all(server, id)


def make_factory(model: ScriptedModel) -> Factory:
    """Return a factory of agents that pause for approvals."""

    def make_agent(steps: DurableSteps) -> Agent:
        return Agent(
            model,
            name="assistant",
            tools=[look, note],
            execution=MemoryEnv({}),
            permissions=Permissions(unattended="pause"),
            subagents=[SUBAGENT],
            behavior=RunOptions(retry=RETRY),
            steps=steps,
        )

    return make_agent


async def _control(server: RunningServer, id: str, run: Run) -> None:
    """Deny calls that need approval, and abort a run that hangs, unless it will be resumed."""
    async with aclosing(server.ann.follow(id)) as events:
        async for event in events:
            if event.name == "approval_request":
                await server.ann.post(f"v1/runs/{id}/deny", {"call_id": event.data["id"], "reason": "Not now."})
            elif event.name == "text_delta" and run.resumed:
                return
            elif event.name == "text_delta" and run.hangs:
                await server.ann.post(f"v1/runs/{id}/abort", {"reason": "enough"})


async def _read_all(server: RunningServer, id: str) -> dict[str, list[Any]]:
    """Read the events of a finished run from the first, in all formats.

    Events of foreign formats are recorded without their IDs, which number our own events.
    """
    own = [{"id": e.id, "event": e.name, "data": e.data} async for e in server.ann.follow(id)]
    ag_ui = [{"event": e.name, "data": e.data} async for e in server.ann.follow(id, "?format=ag-ui")]
    ui = [{"event": e.name, "data": e.data} async for e in server.ann.follow(id, "?format=ui-messages")]
    return {"sse": own, "ag-ui": ag_ui, "ui-messages": ui}
