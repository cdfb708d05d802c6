"""The custom commands that can be used somewhere: found, called by a line, turned into a prompt.

Custom commands: which there are, and what becomes of a prompt that calls one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.run.events import Notice, RunEventHandler
from mainspring.app.run.options import LaunchOptions, WorkspaceOptions
from mainspring.app.workspace.custom_commands.definition import CustomCommand, Scope, parse_command
from mainspring.app.workspace.custom_commands.expansion import ExpandedPrompt, expand
from mainspring.app.workspace.custom_commands.files import (
    COMMANDS,
    MAX_FILES,
    command_files,
    command_name,
    read_command,
)
from mainspring.app.workspace.file_mentions import ReadPolicy, read_attachments
from mainspring.app.workspace.load import load
from mainspring.app.workspace.paths import PROJECT_FOLDER, UserPaths, find_project_root
from mainspring.app.workspace.placeholders import placeholder_values
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.env import ExecutionEnv
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.lazy import lazy_re
from mainspring.permissions.engine import ToolCall
from mainspring.prompt_tags import wrap_in_tag
from mainspring.tools.builtin.shell import shell

if TYPE_CHECKING:
    from mainspring.policies.plan_mode import PlanMode

_SECONDS = 30.0
_LONGEST_OUTPUT = 64 << 10
_NAME = lazy_re(r"[A-Za-z0-9][\w.:-]*")
_LINE = lazy_re(r"/((?:user:|project:)?[A-Za-z0-9][\w.:-]*)(?:\s+(.*))?", re.DOTALL)


class SkippedCommand(Struct, frozen=True):
    """A file that gives no command, and why.

    Attributes:
        path: The file.
        reason: Why.
        waits: The name it would have, where only trust is missing.
    """

    path: str
    reason: str
    waits: str = ""


class CommandInvocation(Struct, frozen=True):
    """A command and what it is called with."""

    command: CustomCommand
    arguments: str = ""

    def expansion(self, cwd: str, *, provider: str = "", model: str = "") -> ExpandedPrompt:
        """The prompt with its arguments; nothing is run and no file is read.

        Raises:
            ConfigError: If an argument is missing.
        """
        values = placeholder_values(cwd, date.today(), provider=provider, model=model)
        return expand(self.command, self.arguments, values)

    async def prompt(
        self,
        env: ExecutionEnv,
        permissions: ReadPolicy,
        reader: Any,
        *,
        plan: PlanMode | None = None,
        provider: str = "",
        model: str = "",
    ) -> str:
        """The prompt: commands in it are run, files attached.

        Args:
            env: Where commands run and files lie.
            permissions: A rule that denies keeps a command from running, and any rule a file from being read.
            reader: The tool that reads files, for the rules about it.
            plan: Plan mode; while it is on, only commands that read run.
            provider: Name of the provider, for ``{{PROVIDER}}``.
            model: Id of the model, for ``{{MODEL}}``.

        Raises:
            ConfigError: If an argument or a file is missing.
            PermissionDeniedError: If a rule or plan mode does not let a command run, or a rule does not let a file be read.
        """
        made = self.expansion(env.cwd, provider=provider, model=model)
        blocks = await read_attachments(made.files, env, permissions, reader)
        outputs = [await self._output(p.text, env, permissions, plan) for p in made.pieces if p.is_shell]
        return "\n\n".join([made.text(outputs), *blocks])

    async def _output(self, script: str, env: ExecutionEnv, permissions: ReadPolicy, plan: PlanMode | None) -> str:
        decision = await permissions.decide("shell", {"command": script}, env=env, definition=shell)
        if plan is not None and plan.state.active and decision.outcome != "deny":
            decision = await plan.judge_command(ToolCall("shell", {"command": script}, shell), env)
            if decision.outcome != "allow":
                raise PermissionDeniedError(
                    f"/{self.command.name} runs `{script}`, but in plan mode only commands that read run: {decision.reason}"
                )
        if decision.outcome == "deny":
            raise PermissionDeniedError(f"/{self.command.name} runs `{script}`, which is denied: {decision.reason}")
        done = await env.run(script, env=decision.environment, timeout=_SECONDS)
        said = (done.stdout.text + done.stderr.text).rstrip()
        if len(said) > _LONGEST_OUTPUT:
            said = f"{said[:_LONGEST_OUTPUT]}\n[cut here: {len(said)} characters]"
        if done.timed_out:
            said += f"\n[ended after {_SECONDS:g} seconds]"
        elif done.exit_code:
            said += f"\n[exit code {done.exit_code}]"
        return wrap_in_tag("output", said, command=script.replace('"', "'"))


class CustomCommands:
    """The custom commands that can be used in a folder.

    The user's command wins over a project's of the same name; ``/user:name`` and ``/project:name`` call the one that is meant.

    Args:
        commands: The commands.
        skipped: Files that give none, and why.

    Attributes:
        skipped: The same.
    """

    def __init__(self, commands: Collection[CustomCommand] = (), skipped: Collection[SkippedCommand] = ()) -> None:
        self._all = tuple(commands)
        self.skipped = tuple(skipped)
        ordered = sorted(self._all, key=lambda c: (c.name, c.scope != "user"))
        self._by_name = {c.name: c for c in reversed(ordered)}
        self._by_scope = {f"{c.scope}:{c.name}": c for c in ordered}

    @classmethod
    def find(cls, cwd: str, home: UserPaths | None, *, trusted: bool, reserved: Collection[str] = ()) -> CustomCommands:
        """Look for them: ``*.md`` below ``commands`` in the user's folder and in the project's ``.agent``. Blocking.

        Args:
            cwd: The folder to work in.
            home: The user's folder.
            trusted: Whether the user trusts the project; without that its commands are listed as skipped.
            reserved: Names of built-in commands, which win.
        """
        found: list[CustomCommand] = []
        skipped: list[SkippedCommand] = []
        root = find_project_root(cwd, COMMANDS, home)
        places: list[tuple[Path, Scope, bool]] = []
        if home is not None:
            places.append((home.root / COMMANDS, "user", True))
        if root is not None:
            places.append((root / PROJECT_FOLDER / COMMANDS, "project", trusted))
        for folder, scope, usable in places:
            files = command_files(folder)
            if len(files) > MAX_FILES:
                skipped.append(SkippedCommand(str(folder), f"only {MAX_FILES} files are looked at"))
            for path in files[:MAX_FILES]:
                name = command_name(path, folder)
                if not usable:
                    skipped.append(SkippedCommand(str(path), "the folder is not trusted: mainspring trust", name))
                    continue
                try:
                    command = parse_command(read_command(path), name, scope=scope, path=str(path))
                except (ConfigError, OSError) as error:
                    skipped.append(SkippedCommand(str(path), str(error)))
                    continue
                if _NAME.fullmatch(name) is None:
                    skipped.append(SkippedCommand(str(path), f"{name!r} is no name for a command"))
                    continue
                if name.startswith(("user:", "project:")):
                    skipped.append(
                        SkippedCommand(str(path), f"/{name} is the command of another file; rename the folder")
                    )
                    continue
                found.append(command)
                if name in reserved:
                    skipped.append(SkippedCommand(str(path), f"/{name} is built in; call this one /{scope}:{name}"))
                elif scope == "project" and any(c.name == name and c.scope == "user" for c in found):
                    skipped.append(SkippedCommand(str(path), f"your own /{name} wins; call this one /project:{name}"))
        return cls(found, skipped)

    def __iter__(self) -> Iterator[CustomCommand]:
        """The commands that are called by their plain name, sorted."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> CustomCommand | None:
        """The command of a name, with or without its slash and scope."""
        name = name.removeprefix("/")
        return self._by_name.get(name) or self._by_scope.get(name)

    def call(self, line: str) -> CommandInvocation | None:
        """The command that a line calls (``/name arguments``); ``None`` if it calls none."""
        match = _LINE.fullmatch(line.strip())
        command = self.get(match[1]) if match else None
        return None if match is None or command is None else CommandInvocation(command, match[2] or "")

    def find_untrusted(self, line: str) -> str:
        """The file that a line would call if the user trusted the folder; empty if there is none."""
        match = _LINE.fullmatch(line.strip())
        name = match[1].removeprefix("project:") if match else ""
        return next((s.path for s in self.skipped if name and s.waits == name), "")

    def suggest(self, line: str) -> str:
        """The name that a line probably means but misspells; empty if there is none."""
        match = _LINE.fullmatch(line.strip())
        near = difflib.get_close_matches(match[1], self._by_name, 1, 0.75) if match else []
        return near[0] if near else ""


def is_command_line(line: str) -> bool:
    """Whether a line could call a command: then it is worth looking for them."""
    return _LINE.fullmatch(line.strip()) is not None


def commands_root(cwd: str, home: UserPaths | None) -> Path:
    """Return the folder of the project whose commands can be used in a folder. The user has to trust this one."""
    return find_project_root(cwd, COMMANDS, home) or Path(cwd)


class CommandList(Struct, frozen=True):
    """The custom commands of a folder, and files that give none."""

    commands: tuple[CustomCommand, ...]
    skipped: tuple[SkippedCommand, ...]


def find_custom_commands(cwd: str, settings: Settings) -> CustomCommands:
    """The custom commands that can be used in a folder. Blocking."""
    return CustomCommands.find(
        cwd, settings.home, trusted=TrustStore(settings.home).covers(commands_root(cwd, settings.home))
    )


def list_commands(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> CommandList:
    """The custom commands that can be used here.

    Raises:
        ConfigError: If the settings are broken.
    """
    found = find_custom_commands(*load(place, {}, environ))
    return CommandList(tuple(found), found.skipped)


def show_command(name: str, arguments: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> str:
    """The prompt that a command makes of its arguments, with the commands in it as they would be run. Runs nothing.

    Raises:
        ConfigError: If there is no such command, or an argument is missing.
    """
    cwd, settings = load(place, {}, environ)
    found = find_custom_commands(cwd, settings)
    command = found.get(name)
    if command is None:
        near = found.suggest(f"/{name.removeprefix('/')}")
        known = ", ".join(c.name for c in found) or "none here; docs/custom-commands.md says how to write one"
        hint = f"did you mean {near!r}?" if near else f"there are {known}"
        raise ConfigError(f"there is no command {name!r}; {hint}")
    return CommandInvocation(command, arguments).expansion(cwd).text()


def resolve_command_call(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str]
) -> tuple[LaunchOptions, CommandInvocation | None]:
    """The command that a prompt calls, if it calls one, and the options of the run with what the command asks for. Blocking.

    Raises:
        ConfigError: If the settings are broken.
    """
    if not is_command_line(options.prompt):
        return options, None
    found = find_custom_commands(*load(options.place, {}, environ))
    call = found.call(options.prompt)
    if call is None:
        near = found.suggest(options.prompt)
        if waiting := found.find_untrusted(options.prompt):
            report(
                Notice(
                    f"{waiting} is a command of a folder that is not trusted (mainspring trust): it is taken as text"
                )
            )
        elif near:
            report(
                Notice(f"there is no command {options.prompt.split()[0]}; did you mean /{near}? It is taken as text")
            )
        return options, None
    command = call.command
    rules = replace(options.rules, allow=(*options.rules.allow, *command.allowed))
    return (
        replace(
            options,
            rules=rules,
            tools=command.tool_names if options.tools is None else options.tools,
            model=command.model if options.model is None and options.provider is None else options.model,
        ),
        call,
    )
