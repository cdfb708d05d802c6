"""A session of a real agent with a branch, an edit, an image, an error, and a secret."""

import asyncio
from pathlib import Path

import pytest

from mainspring import Agent, AgentError, Session
from mainspring.errors import ModelError
from mainspring.messages import Cost, ImageBlock, TextBlock, Usage
from mainspring.sessions import PairEntry
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools

KEY = "sk-ant-" + "api03-" + "Ab1" * 12
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def record_session(folder: Path, home: Path) -> str:
    """Run the conversation and return the ID of its session."""
    session = Session.create(folder, home=home, title="A <b>test</b> & more")
    model = ScriptedModel(
        Reply(
            "Let me look.", calls=[ScriptedCall("read_file", {"path": "app.py"})], thinking="First read, then change."
        ),
        Reply(calls=[ScriptedCall("edit", {"path": "app.py", "old_string": "one", "new_string": "two"})]),
        Reply(
            "Done: `x` is **two** now.\n\n```python\nx = 'two'\n```", usage=Usage(1200, 30, 800, cost=Cost(0.01, 0.02))
        ),
        Reply(calls=[ScriptedCall("shell", {"command": "exit 3"})]),
        Reply("It </script><script>alert(1)</script> failed.", usage=Usage(10, 5)),
        ModelError("the provider is on fire"),
        Reply("Another way."),
    )
    agent = Agent(model, execution=str(folder), tools=builtin_tools(), session=session)
    await agent.run([TextBlock("Change app.py"), ImageBlock("image/png", PIXEL)])
    await agent.run(f"Run it with {KEY}")
    with pytest.raises(AgentError):
        await agent.run("And once more")
    fork = next(e for e in session.entries() if isinstance(e, PairEntry))
    session.branch(fork.id, "another try")
    await agent.run("Do it differently")
    session.close()
    return session.id


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """Return the folder, the home, and the ID of the session."""
    root = tmp_path_factory.mktemp("export")
    folder, home = root / "project", root / "home"
    folder.mkdir()
    (folder / "app.py").write_text("x = 'one'\n", encoding="utf-8")
    return folder, home, asyncio.run(record_session(folder, home))
