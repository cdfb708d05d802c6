"""What the agent of the command is told before it begins: the system prompt with its layers, and instruction files on the way."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from mainspring.app.compose.system_prompt import system_prompt
from mainspring.app.providers.select_model import Choice
from mainspring.app.run.events import Notice, Reporter
from mainspring.app.workspace.instructions import InstructionReader
from mainspring.app.workspace.paths import repository_of
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.subfolders import SubfolderInstructions
from mainspring.app.workspace.trust import TrustStore
from mainspring.env import ExecutionEnv
from mainspring.loop import Plug
from mainspring.permissions import Permissions
from mainspring.tools.builtin.read_file import read_file


class Guidance(Struct, frozen=True):
    """The system prompt, and the plugs that tell more later."""

    system: str
    plugs: tuple[Plug, ...] = ()


async def guidance(
    env: ExecutionEnv,
    settings: Settings,
    choice: Choice,
    permissions: Permissions,
    report: Reporter,
    *,
    small: bool,
    alone: bool,
) -> Guidance:
    """Put together what the agent is told.

    Args:
        env: Where it works.
        settings: The settings.
        choice: Who answers.
        permissions: Decides which files may be read.
        report: Is told what was cut and left out.
        small: Whether the model is a small one, which gets no more than the user wrote.
        alone: Whether there is nobody to ask.
    """
    cwd = env.cwd
    name, config = choice.name, settings.config

    @cache
    def rules() -> Permissions:  # made for the first file, since most folders have none
        return Permissions(rules=permissions.engine.rules, root=str(reader.root))  # the repository is the project, too

    async def is_allowed(path: str) -> bool:
        call: dict[str, Any] = {"path": path}
        here = await permissions.decide("read_file", call, env=env, definition=read_file)
        there = await rules().decide("read_file", call, env=env, definition=read_file)
        return here.outcome != "deny" and there.outcome == "allow"

    reader = InstructionReader(
        config.instructions,
        cwd,
        settings.home,
        trusted=all(map(TrustStore(settings.home).covers, {cwd, str(repository_of(Path(cwd)) or cwd)})),
        allowed=is_allowed,
    )
    reads = config.instructions.enabled and not small
    files = ""
    if reads:
        found = await reader.at_start()
        files = found.part()
        for note in found.notes:
            report(Notice(note))
    system = system_prompt(
        cwd,
        date.today(),
        instructions=config.agent.system_prompt,
        alone=alone,
        small=small,
        model=name,
        layer=config.providers.get(name.provider).system_prompt,
        files=files,
    )
    return Guidance(system, (SubfolderInstructions(reader, cwd),) if reads else ())
