"""What the command gives to tools: lists that stay, and news of commands that end in the background."""

import asyncio
import os
from pathlib import Path

import pytest

from mainspring import Agent, ToolContext, tool
from mainspring.env import LocalEnv
from mainspring.messages import Message
from mainspring.runtime.services import tell_of_ends
from mainspring.testing import Call, ScriptedModel
from mainspring.tools.builtin import shell


@pytest.fixture
def env(tmp_path: Path) -> LocalEnv:
    os.mkfifo(tmp_path / "go")
    return LocalEnv(tmp_path)


@pytest.mark.covers("BYD-21")
async def test_a_command_that_ends_in_the_background_wakes_the_agent(env: LocalEnv, tmp_path: Path) -> None:
    @tool
    async def release(ctx: ToolContext) -> str:
        """Let the command go on, and see it end."""
        await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
        job = ctx.env.jobs.get("job1")
        assert job is not None
        await job.wait(10)
        return "released"

    model = ScriptedModel(
        Call("shell", {"command": "read -r x < go; echo built", "background": True}),
        Call("release", {}),
        "waiting for the build",
        "it is built",
    )
    agent = Agent(model, tools=[shell, release], execution=env)
    tell_of_ends(agent)

    result = await agent.run("build it")

    await env.aclose()
    assert result.text == "it is built"
    news = [
        m for m in agent.messages if isinstance(m, Message) and m.role == "user" and m.text.startswith("The background")
    ]
    assert "has ended: exit 0" in news[-1].text
    assert "built" in news[-1].text
