"""Approval requests of several subagents at the same time."""

import asyncio
from typing import Any, cast

import pytest

from mainspring.durable.approvals import PendingApprovals
from mainspring.durable.records import decode
from mainspring.events import ApprovalRequest
from mainspring.messages import ToolUseBlock

pytestmark = pytest.mark.covers("BYD-31")


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
    await asyncio.wait_for(asyncio.gather(first, second), 5)
    assert [call.agent for call in log.pending] == ["one", "two"]
