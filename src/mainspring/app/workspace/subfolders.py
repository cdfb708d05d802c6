"""The plug that tells the model of instruction files in a subfolder, once it works there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.app.workspace.instructions import InstructionReader
from mainspring.loop.hooks import ContextCompacted, ToolPermit, ToolTransform
from mainspring.messages import TextBlock

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv
    from mainspring.loop import CoreAgent

_AS_LAST = 1000


class SubfolderInstructions:
    """Appends the instruction files of a subfolder to the first result of a call that touched something in it.

    Args:
        reader: Reads them.
        cwd: The folder to work in; what holds in it and above stands in the system prompt.
    """

    def __init__(self, reader: InstructionReader, cwd: str) -> None:
        self._reader = reader
        self._cwd = Path(cwd)
        self._touched: dict[str, tuple[ExecutionEnv, list[str]]] = {}
        self._told: set[str] = set()

    def install(self, agent: CoreAgent) -> None:
        """See `Plug`."""
        agent.bus.on(ToolPermit, self._permit)
        agent.bus.on(ToolTransform, self._transform, order=_AS_LAST)
        agent.bus.on(ContextCompacted, self._forget)

    def for_child(self) -> SubfolderInstructions:
        """A sub-agent has read nothing yet."""
        return SubfolderInstructions(self._reader, str(self._cwd))

    def reset(self) -> None:
        """See `Resets`."""
        self._told.clear()

    def _forget(self, hook: ContextCompacted) -> None:
        """What was told may be summed up: tell it again where it matters again."""
        self._told.clear()

    def _permit(self, hook: ToolPermit) -> None:
        if hook.tool.access is not None:
            paths = [a.resource for a in hook.tool.access(hook.input) if a.scope.startswith("fs-")]
            if paths:
                self._touched[hook.call_id] = (hook.env, paths)

    async def _transform(self, hook: ToolTransform) -> None:
        touched = self._touched.pop(hook.call_id, None)
        if touched is None or hook.result.is_error:
            return
        env, paths = touched
        folders: list[str] = []
        for path in paths:
            folders += await self._new_folders(env, path)
        if not folders:
            return
        self._told.update(folders)
        found = await self._reader.below(sorted(set(folders)))
        if not found.files:
            return
        text = "\n\n".join(["What holds in this folder:", *(file.block() for file in found.files)])
        output = hook.result.output
        joined = f"{output}\n\n{text}" if isinstance(output, str) else [*output, TextBlock(text)]
        hook.result = replace(hook.result, output=joined)

    async def _new_folders(self, env: ExecutionEnv, path: str) -> list[str]:
        """The folders between the working folder and a path whose files were not told yet."""
        try:
            real = Path(await env.realpath(path))
            is_folder = (await env.stat(str(real))).kind == "directory"
        except OSError:
            return []
        if not real.is_relative_to(self._cwd):
            return []
        parts = (real if is_folder else real.parent).relative_to(self._cwd).parts
        inner = [os.path.join(self._cwd, *parts[: i + 1]) for i in range(len(parts))]
        return [folder for folder in inner if folder not in self._told]
