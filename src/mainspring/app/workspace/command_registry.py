"""Find custom commands, and expand a prompt that calls one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import LaunchOptions, WorkspaceOptions
from mainspring.app.workspace.custom_commands.definition import (
    COMMANDS_FOLDER,
    MAX_COMMAND_FILES,
    CommandScope,
    CustomCommand,
    command_files,
    command_name,
    parse_command,
    read_command,
)
from mainspring.app.workspace.custom_commands.expansion import ExpandedPrompt, expand
from mainspring.app.workspace.file_mentions import ReadPolicy, read_attachments
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.paths import PROJECT_FOLDER, UserPaths, find_project_root
from mainspring.app.workspace.placeholders import placeholder_values
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.env import ExecutionEnv
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.events import Notice
from mainspring.lazy import lazy_re
from mainspring.permissions.engine import ToolCall
from mainspring.prompt_tags import wrap_in_tag
from mainspring.tools.builtin.shell import shell

if TYPE_CHECKING:
    from mainspring.policies.plan_mode import PlanMode

_SECONDS = 30.0
_MAX_OUTPUT_CHARS = 64 << 10
_NAME = lazy_re(r"[A-Za-z0-9][\w.:-]*")
_LINE = lazy_re(r"/((?:user:|project:)?[A-Za-z0-9][\w.:-]*)(?:\s+(.*))?", re.DOTALL)


class SkippedCommand(Struct, frozen=True):
    """A file that does not define a usable command.

    Attributes:
        path: File.
        reason: Reason why it is skipped.
        waits: Name of the command, if only trust is missing.
    """

    path: str
    reason: str
    waits: str = ""


class CommandInvocation(Struct, frozen=True):
    """A command and its arguments."""

    command: CustomCommand
    arguments: str = ""

    def expand(self, cwd: str, *, provider: str = "", model: str = "") -> ExpandedPrompt:
        """Expand the prompt with its arguments, without running commands or reading files.

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
        """Return the prompt, with the output of its commands and its files.

        Args:
            env: Environment for commands and files.
            permissions: Permissions. A deny rule prevents a command, and any rule can prevent reading a file.
            reader: Tool that reads files, to which rules apply.
            plan: Plan mode, in which only read-only commands run.
            provider: Provider name, for ``{{PROVIDER}}``.
            model: Model ID, for ``{{MODEL}}``.

        Raises:
            ConfigError: If an argument or a file is missing.
            PermissionDeniedError: If a rule or plan mode denies a command, or a rule denies reading a file.
        """
        expanded = self.expand(env.cwd, provider=provider, model=model)
        blocks = await read_attachments(expanded.files, env, permissions, reader)
        outputs = [await self._output(p.text, env, permissions, plan) for p in expanded.pieces if p.is_shell]
        return "\n\n".join([expanded.text(outputs), *blocks])

    async def _output(self, script: str, env: ExecutionEnv, permissions: ReadPolicy, plan: PlanMode | None) -> str:
        decision = await permissions.decide("shell", {"command": script}, env=env, definition=shell)
        if plan is not None and plan.state.active and decision.outcome != "deny":
            decision = await plan.judge_command(ToolCall("shell", {"command": script}, shell), env)
            if decision.outcome != "allow":
                raise PermissionDeniedError(
                    f"/{self.command.name} runs `{script}`, but plan mode only allows read-only commands: {decision.reason}"
                )
        if decision.outcome == "deny":
            raise PermissionDeniedError(f"/{self.command.name} runs `{script}`, which is denied: {decision.reason}")
        done = await env.run(script, env=decision.environment, timeout=_SECONDS)
        output = (done.stdout.text + done.stderr.text).rstrip()
        if len(output) > _MAX_OUTPUT_CHARS:
            output = f"{output[:_MAX_OUTPUT_CHARS]}\n[cut here: {len(output)} characters]"
        if done.timed_out:
            output += f"\n[ended after {_SECONDS:g} seconds]"
        elif done.exit_code:
            output += f"\n[exit code {done.exit_code}]"
        return wrap_in_tag("output", output, command=script.replace('"', "'"))


class CustomCommands:
    """The custom commands of a folder.

    If a user and a project command have the same name, the user's is used; ``/user:name`` and ``/project:name`` choose one explicitly.

    Args:
        commands: Commands.
        skipped: Skipped files.

    Attributes:
        skipped: Skipped files.
    """

    def __init__(self, commands: Collection[CustomCommand] = (), skipped: Collection[SkippedCommand] = ()) -> None:
        self._all = tuple(commands)
        self.skipped = tuple(skipped)
        ordered = sorted(self._all, key=lambda c: (c.name, c.scope != "user"))
        self._by_name = {c.name: c for c in reversed(ordered)}
        self._by_scope = {f"{c.scope}:{c.name}": c for c in ordered}

    @classmethod
    def find(cls, cwd: str, home: UserPaths | None, *, trusted: bool, reserved: Collection[str] = ()) -> CustomCommands:
        """Find ``*.md`` files in ``commands`` in the user's folder and in the project's ``.agent``. Blocking.

        Args:
            cwd: Working folder.
            home: User's folder.
            trusted: Whether the user trusts the project; otherwise, its commands are skipped.
            reserved: Names of built-in commands, which take precedence.
        """
        found: list[CustomCommand] = []
        skipped: list[SkippedCommand] = []
        root = find_project_root(cwd, COMMANDS_FOLDER, home)
        places: list[tuple[Path, CommandScope, bool]] = []
        if home is not None:
            places.append((home.root / COMMANDS_FOLDER, "user", True))
        if root is not None:
            places.append((root / PROJECT_FOLDER / COMMANDS_FOLDER, "project", trusted))
        for folder, scope, usable in places:
            files = command_files(folder)
            if len(files) > MAX_COMMAND_FILES:
                skipped.append(SkippedCommand(str(folder), f"only {MAX_COMMAND_FILES} files are read"))
            for path in files[:MAX_COMMAND_FILES]:
                name = command_name(path, folder)
                if not usable:
                    skipped.append(SkippedCommand(str(path), "the folder is not trusted. Run `mainspring trust`", name))
                    continue
                try:
                    command = parse_command(read_command(path), name, scope=scope, path=str(path))
                except (ConfigError, OSError) as error:
                    skipped.append(SkippedCommand(str(path), str(error)))
                    continue
                if _NAME.fullmatch(name) is None:
                    skipped.append(SkippedCommand(str(path), f"invalid command name: {name!r}"))
                    continue
                if name.startswith(("user:", "project:")):
                    skipped.append(SkippedCommand(str(path), f"/{name} conflicts with another file; rename the folder"))
                    continue
                found.append(command)
                if name in reserved:
                    skipped.append(
                        SkippedCommand(str(path), f"/{name} is a built-in command; use /{scope}:{name} instead")
                    )
                elif scope == "project" and any(c.name == name and c.scope == "user" for c in found):
                    skipped.append(
                        SkippedCommand(str(path), f"your own /{name} takes precedence; use /project:{name} instead")
                    )
        return cls(found, skipped)

    def __iter__(self) -> Iterator[CustomCommand]:
        """Iterate over the commands that their plain name calls, sorted by name."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> CustomCommand | None:
        """Return the command with a name, with or without slash and scope."""
        name = name.removeprefix("/")
        return self._by_name.get(name) or self._by_scope.get(name)

    def call(self, line: str) -> CommandInvocation | None:
        """Return the command that a line calls (``/name arguments``), or None."""
        match = _LINE.fullmatch(line.strip())
        command = self.get(match[1]) if match else None
        return None if match is None or command is None else CommandInvocation(command, match[2] or "")

    def find_untrusted(self, line: str) -> str:
        """Return the file of the command that a line would call if the folder were trusted, or an empty string."""
        match = _LINE.fullmatch(line.strip())
        name = match[1].removeprefix("project:") if match else ""
        return next((s.path for s in self.skipped if name and s.waits == name), "")

    def suggest(self, line: str, builtin: Collection[str] = ()) -> str:
        """Return the name that a line probably misspells, or an empty string."""
        match = _LINE.fullmatch(line.strip())
        near = difflib.get_close_matches(match[1], [*builtin, *self._by_name], 1, 0.75) if match else []
        return near[0] if near else ""


def is_command_line(line: str) -> bool:
    """Return True if a line could call a command, so that commands should be loaded."""
    return _LINE.fullmatch(line.strip()) is not None


def commands_root(cwd: str, home: UserPaths | None) -> Path:
    """Return the folder of the project whose commands can be used in a folder. Its commands require trust."""
    return find_project_root(cwd, COMMANDS_FOLDER, home) or Path(cwd)


class CommandList(Struct, frozen=True):
    """The custom commands of a folder, and the skipped files."""

    commands: tuple[CustomCommand, ...]
    skipped: tuple[SkippedCommand, ...]


def find_custom_commands(cwd: str, settings: Settings) -> CustomCommands:
    """Find the custom commands of a folder. Blocking."""
    return CustomCommands.find(
        cwd, settings.home, trusted=TrustStore(settings.home).covers(commands_root(cwd, settings.home))
    )


def list_commands(place: WorkspaceOptions) -> CommandList:
    """List the custom commands of a folder.

    Raises:
        ConfigError: If the settings are invalid.
    """
    found = find_custom_commands(*load_rules(place))
    return CommandList(tuple(found), found.skipped)


def show_command(name: str, arguments: str, place: WorkspaceOptions) -> str:
    """Return the prompt of a command with its arguments, including unexpanded commands. Runs nothing.

    Raises:
        ConfigError: If the command is unknown, or an argument is missing.
    """
    cwd, settings = load_rules(place)
    found = find_custom_commands(cwd, settings)
    command = found.get(name)
    if command is None:
        near = found.suggest(f"/{name.removeprefix('/')}")
        known = ", ".join(c.name for c in found) or "none. See docs/custom-commands.md to create one"
        hint = f"Did you mean {near!r}?" if near else f"Available commands: {known}"
        raise ConfigError(f"Unknown command: {name!r}. {hint}")
    return CommandInvocation(command, arguments).expand(cwd).text()


def resolve_command_call(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str], builtin: Collection[str] = ()
) -> tuple[LaunchOptions, CommandInvocation | None]:
    """Return the command that a prompt calls, if any, and the run options with the requirements of the command. Blocking.

    Args:
        options: Options of the run, with the prompt.
        report: Receives a notice about a prompt that probably should have called a command.
        environ: Environment variables.
        builtin: Names of built-in commands, which the prompt may call or misspell.

    Raises:
        ConfigError: If the settings are invalid.
    """
    if not is_command_line(options.prompt):
        return options, None
    found = find_custom_commands(*load_rules(options.place, {}, environ))
    call = found.call(options.prompt)
    if call is None:
        near, typed = found.suggest(options.prompt, builtin), options.prompt.split()[0]
        if waiting := found.find_untrusted(options.prompt):
            report(
                Notice(
                    f"Command {waiting} was sent as text, because the folder is not trusted. Run `mainspring trust` to use it."
                )
            )
        elif near and (near not in builtin or typed.lower() != f"/{near}"):
            report(Notice(f"Unknown command: {typed}. Did you mean /{near}? It was sent as text."))
        return options, None
    command = call.command
    rules = replace(options.rules, allow=(*options.rules.allow, *command.allow_rules))
    return (
        replace(
            options,
            rules=rules,
            tools=command.tool_names if options.tools is None else options.tools,
            model=command.model if options.model is None and options.provider is None else options.model,
        ),
        call,
    )
