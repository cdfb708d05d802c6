"""What several sub-agents ask at once."""

import asyncio
from typing import Any, cast

import pytest

from mainspring.durable.approvals import PendingApprovals
from mainspring.durable.feed import Asked, WaitingCall
from mainspring.durable.records import decode
from mainspring.messages import ToolUseBlock

pytestmark = pytest.mark.covers("BYD-31")


class Slow:
    """A log whose first write takes until it is let go, as writes in threads may."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.pending = Asked(0, ())

    async def publish(self, name: str, value: bytes) -> None:
        self.begun += 1
        if self.begun == 1:
            await self.go.wait()
        self.pending = decode(value, Asked)


def asked(agent: str) -> Asked:
    return Asked(1, (WaitingCall(ToolUseBlock(f"{agent}/c", "write", {}), agent=agent, number=1),), agent)


async def test_what_is_asked_last_is_what_stands_though_a_write_before_was_slow() -> None:
    log = Slow()
    questions = PendingApprovals(cast("Any", log))
    first = asyncio.ensure_future(questions.ask(asked("one")))
    second = asyncio.ensure_future(questions.ask(asked("two")))
    for _ in range(5):
        await asyncio.sleep(0)  # both have come as far as they can
    log.go.set()
    await asyncio.wait_for(asyncio.gather(first, second), 5)
    assert [call.agent for call in log.pending.calls] == ["one", "two"]
