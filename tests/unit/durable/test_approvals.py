"""Approval requests of several subagents at the same time."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from mainspring import Agent, Permissions, tool
from mainspring.durable import DurableClient, DurableSteps, DurableWorker, MemoryEngine
from mainspring.durable.approvals import PendingApprovals
from mainspring.durable.records import decode
from mainspring.events import ApprovalRequest
from mainspring.messages import ToolUseBlock
from mainspring.testing import MemoryEnv, ScriptedCall, ScriptedModel

pytestmark = pytest.mark.covers("BYD-31")


class Receipt(msgspec.Struct):
    order: int


class SlowLog:
    """A log whose first write blocks until it is released, like a write in a thread."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.pending: tuple[ApprovalRequest, ...] = ()

    async def publish(self, name: str, value: bytes) -> None:
        self.begun += 1
        if self.begun == 1:
            await self.go.wait()
        self.pending = decode(value, tuple[ApprovalRequest, ...])


async def ask(questions: PendingApprovals, agent: str) -> None:
    call = ToolUseBlock(f"{agent}/c", "write", {})
    await questions.update(agent, [ApprovalRequest(call.id, call, agent=agent, number=1)], ())


async def test_slow_write_does_not_overwrite_a_later_request() -> None:
    log = SlowLog()
    questions = PendingApprovals(cast("Any", log))
    first = asyncio.ensure_future(ask(questions, "one"))
    second = asyncio.ensure_future(ask(questions, "two"))
    for _ in range(5):
        await asyncio.sleep(0)  # both requests have progressed as far as possible
    log.go.set()
    await asyncio.gather(first, second)
    assert [call.agent for call in log.pending] == ["one", "two"]


async def test_result_of_a_run_that_paused_names_the_agent_that_answered() -> None:
    def make(steps: DurableSteps) -> Agent[Any, Any]:
        @tool(requires_approval=True)
        def ship(order: int) -> str:
            """Ship an order."""
            return f"order {order} is on its way"

        shipping = Agent(shipping_model, name="shipping", tools=[ship], output_type=Receipt)
        permissions = Permissions(allow=["*"], unattended="pause")
        return Agent(
            front_model, name="front", output_type=str, handoffs=[shipping], permissions=permissions, steps=steps,
            execution=MemoryEnv({}),
        )  # fmt: skip

    front_model = ScriptedModel(ScriptedCall("transfer_to_shipping"))
    shipping_model = ScriptedModel(ScriptedCall("ship", {"order": 7}), ScriptedCall("__output__", {"order": 7}))
    engine = MemoryEngine()
    async with DurableWorker(engine, {"front": make}) as agents:
        run = await agents.start("front", "Ship order 7.")
        async for item in run.events():
            if isinstance(item.event, ApprovalRequest):
                break
    async with DurableClient(engine) as runs:
        [waiting] = await runs.run(run.id).pending()
        await runs.run(run.id).approve(waiting.id)
    async with DurableWorker(engine, {"front": make}) as agents:
        result = await agents.run(run.id).result(timeout=120)
    assert (result.agent, result.output_as(Receipt)) == ("shipping", Receipt(7))
    assert result.tool_results[-2].text == "order 7 is on its way"
