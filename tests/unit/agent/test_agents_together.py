"""Several agents in one process: side by side, in threads, in a notebook; and tools that are unaware of observers."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from mainspring import Agent, Message, RunOptions, create_agent, tool
from mainspring.callbacks import AgentCallbacks
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.events import ToolExecutionEnd
from mainspring.permissions import Permissions
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Access
from mainspring.tools.builtin import builtin_tools

SEVERAL = """
import asyncio, sys, warnings
warnings.simplefilter("error")
from mainspring import Agent, tool
from mainspring.testing import ScriptedCall as Call, ScriptedModel; from mainspring.env.memory import MemoryEnv

@tool
def double(n: int) -> int:
    '''Double a number.'''
    return 2 * n

def made(n):
    return Agent(ScriptedModel(Call("double", {"n": n}), f"answer {n}", "again"), tools=[double], execution=MemoryEnv({}))

one = made(1)
assert one.run_sync("go").text == "answer 1"        # a loop of its own
assert one.run_sync("go").text == "again"           # and another one
agents = [made(n) for n in range(50)]

async def all_of_them():
    asyncio.get_running_loop().slow_callback_duration = 60  # debug mode reports a slow machine, too
    return await asyncio.gather(*(a.run("go") for a in agents))

for n, result in enumerate(asyncio.run(all_of_them(), debug=True)):
    assert (result.text, result.messages[2].tool_results[0].text) == (f"answer {n}", str(2 * n))

async def notebook():
    asyncio.get_running_loop().slow_callback_duration = 60
    try:
        agents[0].run_sync("go")
    except RuntimeError as error:
        assert "await agent.run(" in str(error)
    else:
        raise AssertionError("run_sync worked inside a loop")

asyncio.run(notebook(), debug=True)
"""


@pytest.mark.covers("BYD-16")
def test_one_process_runs_many_agents_without_output() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", SEVERAL], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.covers("BYD-16")
def test_agents_in_threads_run_independently_and_can_be_aborted() -> None:
    def make_agent(n: int) -> Agent:
        return Agent(ScriptedModel(f"answer {n}"), execution=MemoryEnv({}))

    texts: dict[int, str] = {}

    def work(n: int) -> None:
        texts[n] = make_agent(n).run_sync("go").text

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {n: f"answer {n}" for n in range(8)}

    begun = threading.Event()
    slow = Agent(ScriptedModel(Reply("slow", delay=60)), execution=MemoryEnv({}))
    slow.subscribe(lambda event: begun.set() if event.type == "turn_start" else None)
    stopper = threading.Thread(target=lambda: (begun.wait(), slow.abort("from outside")))
    stopper.start()
    with pytest.raises(AgentAbortedError, match="from outside"):
        slow.run_sync("go")
    stopper.join()


@pytest.mark.covers("TDF-19")
async def test_permissions_and_events_need_no_code_in_the_tool() -> None:
    ran: list[str] = []

    @tool(access=lambda args: [Access("fs-write", args["path"])])
    async def scribble(path: str) -> str:
        """Write a file without permission checks or events."""
        ran.append(path)
        return "written"

    script = [ScriptedCall("scribble", {"path": "a"}, "1"), ScriptedCall("scribble", {"path": "b"}, "2")]
    observed: list[ToolExecutionEnd] = []
    agent = Agent(
        ScriptedModel(script, "done"),
        tools=[scribble],
        execution=MemoryEnv({}),
        permissions=Permissions(allow=["scribble(a)"], deny=["scribble(b)"]),
    )
    agent.subscribe(lambda event: observed.append(event) if isinstance(event, ToolExecutionEnd) else None)
    await agent.run("go")
    assert ran == ["a"]
    assert {e.call.id: e.result.is_error for e in observed} == {"1": False, "2": True}


async def test_errors_for_the_model_have_the_names_that_it_knows() -> None:
    @tool
    async def look(key: str) -> str:
        """Look something up."""
        return key

    calls = [ScriptedCall("find", {}), ScriptedCall("fnd", {"key": "a"}), *[ScriptedCall("find", {"key": "b"})] * 2]
    agent = Agent(
        ScriptedModel(*calls, "done"),
        tools=[look],
        execution=MemoryEnv({}),
        tool_aliases={"look": "find"},
        behavior=RunOptions(tool_budgets={"look": 2}),
    )
    await agent.run("go")
    texts = [r.text for m in agent.messages if isinstance(m, Message) for r in m.tool_results]
    assert texts[0].startswith('Validation error: tool "find": ')
    assert texts[1:] == [
        "Unknown tool: fnd. Did you mean find?",
        "b",
        "Blocked: find has had its 2 calls in this run; continue without it",
    ]


@pytest.mark.covers("TDF-20")
async def test_callbacks_report_every_built_in_tool() -> None:
    tools = builtin_tools()
    assert len({t.name for t in tools}) == len(tools) >= 8
    observed: list[Any] = []
    agent = Agent(
        ScriptedModel([ScriptedCall(t.name, {}, f"c{i}") for i, t in enumerate(tools)], "done"),
        tools=tools,
        execution=MemoryEnv({}),
        callbacks=AgentCallbacks(on_tool_start=lambda span, name, args: observed.append(name)),
    )
    await agent.run("go")
    assert observed == [t.name for t in tools]


@pytest.mark.covers("AGT-09")
async def test_create_agent_returns_an_agent_and_supports_eager_warmup() -> None:
    agent = create_agent(ScriptedModel("hi"), execution=MemoryEnv({}), eager=True)
    assert isinstance(agent, Agent)
    await asyncio.gather(agent.warmup(), agent.warmup())
    assert (await agent.run("go")).text == "hi"
