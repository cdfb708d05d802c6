"""Services of the command for tools: stored todo lists, and notices when background commands end."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from mainspring import Agent, ToolContext, tool
from mainspring.app.compose.environment import enable_background_wakeups, tool_services
from mainspring.app.workspace.paths import UserPaths
from mainspring.env import LocalEnv
from mainspring.messages import Message
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools.builtin import shell, todo_read, todo_write


@pytest.fixture
def env(tmp_path: Path) -> LocalEnv:
    os.mkfifo(tmp_path / "go")
    return LocalEnv(tmp_path)


@pytest.mark.covers("BYD-21")
async def test_finished_background_command_wakes_the_agent(env: LocalEnv, tmp_path: Path) -> None:
    @tool
    async def release(ctx: ToolContext) -> str:
        """Release the command and wait for its end."""
        await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
        job = ctx.env.jobs.get("job1")
        assert job is not None
        await job.wait(120)
        return "released"

    model = ScriptedModel(
        ScriptedCall("shell", {"command": "read -r x < go; echo built", "background": True}),
        ScriptedCall("release", {}),
        "waiting for the build",
        "it is built",
    )
    agent = Agent(model, tools=[shell, release], execution=env)
    enable_background_wakeups(agent)

    result = await agent.run("build it")

    await env.aclose()
    assert result.text == "it is built"
    notices = [
        m for m in agent.messages if isinstance(m, Message) and m.role == "user" and m.text.startswith("The background")
    ]
    assert "has ended: exit 0" in notices[-1].text
    assert "built" in notices[-1].text


@pytest.mark.covers("OPT-02")
async def test_todo_files_are_private(env: LocalEnv, tmp_path: Path) -> None:
    home = tmp_path / "home"
    ctx = ToolContext(env=env, session_id="s1", extra=tool_services(UserPaths(home)))
    for status in ("pending", "completed"):  # a new file and a replaced file
        await todo_write(ctx, todos=[{"content": "read", "status": status}])

        file = home / "todos" / "s1.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "[x] read" in (await todo_read(ctx)).text
