"""What tools find in their context beside the environment: where lists are kept, whom to tell of an end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mainspring.app.workspace.paths import Home
from mainspring.env import LocalEnv
from mainspring.loop import CoreAgent
from mainspring.state_files import replace_text
from mainspring.tools.builtin.todos import TODOS, EnvTodos
from mainspring.tools.support.background import WAKE


def services(home: Home | None) -> dict[str, Any]:
    """For ``Agent(extra=...)``: lists of todos in the user's folder, by session."""
    return {} if home is None else {TODOS: EnvTodos(_OwnFiles(home.root, must_exist=False))}


class _OwnFiles(LocalEnv):
    """The user's folder: what is written there only its owner may read. Made with the first that is."""

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        target = Path(await self.realpath(path))

        def write() -> None:
            if parents:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_text(target, data.decode())

        await asyncio.to_thread(write)


def tell_of_ends(agent: CoreAgent) -> None:
    """Let a command that ends in the background become a message to the agent."""
    agent.extra = {**agent.extra, WAKE: agent.follow_up}
