"""Durable agents as an application uses them: what is misused is told, and how a run ended can be seen."""

import pytest

from mainspring import Agent
from mainspring.durable import DurableClient, DurableWorker, MemoryEngine
from mainspring.durable.steps import DurableSteps
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AuthenticationError, DurableError
from mainspring.testing import ScriptedModel


def make(steps: DurableSteps) -> Agent:
    return Agent(ScriptedModel(AuthenticationError("the key is wrong")), execution=MemoryEnv({}), steps=steps)


async def test_agents_that_were_not_entered_say_so_where_somebody_waits() -> None:
    agents = DurableWorker(MemoryEngine(), {"one": make})
    run = await agents.start("one", "go")
    with pytest.raises(
        TimeoutError, match=r"is not finished after 0.01s. It is waiting: no worker.*only inside `async with`"
    ):
        await run.result(timeout=0.01)


async def test_what_failed_in_a_run_that_is_done_is_told() -> None:
    async with DurableWorker(MemoryEngine(), {"one": make}) as agents:
        run = await agents.start("one", "go")
        assert (await run.result()).status == "error"
        info = await run.info()
    assert (info.state, info.error) == ("done", "AgentProviderError: the key is wrong")


@pytest.mark.parametrize("prompt", ["", "  ", []])
async def test_a_run_with_nothing_to_do_is_refused(prompt: str) -> None:
    runs = DurableClient(MemoryEngine())
    with pytest.raises(DurableError, match="The prompt is empty.|Nothing to run"):
        await runs.start("one", prompt)
    assert await runs.list() == []
