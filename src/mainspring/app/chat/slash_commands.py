"""Slash commands: what a command is, the registry of built-in ones, running a typed line, and completing it."""

from __future__ import annotations

import difflib
import posixpath
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from mainspring.app.chat.agent_settings import ModelSwitch
from mainspring.app.chat.command_results import Candidate, CommandResult, Text
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.message_queue import create_queued_message
from mainspring.app.chat.prompt_sources import McpPrompts, PromptSource, RenderedPrompt
from mainspring.app.chat.runs import RunController, RunOverrides
from mainspring.app.workspace.file_mentions import format_mention
from mainspring.errors import ConfigError, MainspringError
from mainspring.events import Notice
from mainspring.lazy import lazy_re

MAX_CANDIDATES = 50
"""Maximum number of completions."""

_MAX_FILES = 20_000
_CACHE_SECONDS = 5.0
_MENTION = lazy_re(r'(?:^|(?<=[\s(\["\'{]))@(?:"([^"\n]*)|([^\s"]*))$')
_REMOTE_PREFIXES = ("mcp:", "skill:")
"""Prefixes of names that are known only after their source was asked."""

_ELSEWHERE = {
    "agents": "The agent starts subagents when it needs them; the status line counts them.",
    "doctor": "Run `mainspring check` in a shell.",
    "hooks": "List them with `mainspring hooks` in a shell.",
    "login": "Run `mainspring login` in a shell.",
    "logout": "Run `mainspring logout` in a shell.",
    "status": "The status line shows the model and the mode; use /context, /cost, or /config.",
    "stats": "Use /cost.",
    "usage": "Use /cost.",
}
"""What to do in place of commands that other agents have."""

_INPUT_FORMS = (
    ("?", "", "Show this help"),
    ("# NOTE", "", "Add a note to the memory"),
    ("!COMMAND", "", "Run a shell command and add its output to the conversation"),
    ("!!COMMAND", "", "Run a shell command without showing it to the agent"),
    ("@PATH", "", "Attach a file"),
)
"""Prompts that users can type in addition to slash commands."""


class SlashCommand(Struct, frozen=True, kw_only=True, eq=False):
    """A built-in command, typed as ``/name arguments``.

    Attributes:
        name: The name without the slash.
        summary: One line that describes the command.
        run: Runs the command with the text after its name.
        arguments: The arguments, as shown to the user: ``[MODEL]``.
        complete: Returns possible arguments, each with a description.
        needs_idle: Whether the command is not available during a run.
        replaceable: Whether a command of the user, a trusted project, or an extension with this name is run instead.
    """

    name: str
    summary: str
    run: Callable[[str], Awaitable[CommandResult | None]]
    arguments: str = ""
    complete: Callable[[], Awaitable[Sequence[tuple[str, str]]]] | None = None
    needs_idle: bool = False
    replaceable: bool = False


class CommandRegistry:
    """The built-in commands of a chat, sorted by name."""

    def __init__(self) -> None:
        self._commands: dict[str, SlashCommand] = {}

    def add(self, commands: Iterable[SlashCommand]) -> None:
        """Register commands."""
        found = [*self._commands.values(), *commands]
        self._commands = {command.name: command for command in sorted(found, key=lambda c: c.name)}

    def get(self, name: str) -> SlashCommand | None:
        """Return the command with a name."""
        return self._commands.get(name)

    def reserved_names(self) -> tuple[str, ...]:
        """Return the names that no other command can have."""
        return tuple([command.name for command in self if not command.replaceable])

    def __iter__(self) -> Iterator[SlashCommand]:
        return iter(self._commands.values())


class SlashCommands:
    """Runs what the user types after a slash: a built-in command, a command of an extension, or a prompt by name.

    Args:
        registry: The built-in commands.
        sources: The prompts by name.
        mcp_prompts: The source of them that has to be refreshed.
        current: The conversation.
        models: Makes the model that a prompt asks for.
        runs: Starts runs with prompts.
        publish: Publishes an event of the chat.
    """

    def __init__(
        self,
        registry: CommandRegistry,
        sources: Sequence[PromptSource],
        mcp_prompts: McpPrompts,
        current: CurrentConversation,
        models: ModelSwitch,
        runs: RunController,
        publish: Callable[[ChatEvent], None],
    ) -> None:
        self.registry = registry
        self._sources = sources
        self._mcp_prompts = mcp_prompts
        self._current = current
        self._models = models
        self._runs = runs
        self._publish = publish

    async def refresh(self) -> None:
        """Request the prompts of MCP servers again."""
        await self._mcp_prompts.refresh()

    def names(self) -> dict[str, str]:
        """Return all names that can be typed after a slash, each with its summary."""
        names = self._other_names()
        return names | {c.name: c.summary for c in self.registry if not (c.replaceable and c.name in names)}

    def _other_names(self) -> dict[str, str]:
        """Return the names of prompts and of commands of extensions, each with its summary."""
        names = {prompt.name: prompt.summary for source in self._sources for prompt in source.list_prompts()}
        return names | {command.name: command.description for command in self._current.extension_commands}

    def find_builtin(self, name: str) -> SlashCommand | None:
        """Return the built-in command with a name, unless another command replaces it."""
        command = self.registry.get(name)
        return None if command is not None and command.replaceable and name in self._other_names() else command

    def describe(self) -> list[tuple[str, str, str]]:
        """Return all that can be typed: the command, its arguments, and its summary."""
        rows = [(f"/{c.name}", c.arguments, c.summary) for c in self.registry if self.find_builtin(c.name)]
        rows += [(f"/{c.name}", "", c.description) for c in self._current.extension_commands]
        rows += [(f"/{p.name}", p.arguments, p.summary) for source in self._sources for p in source.list_prompts()]
        return [*rows, *_INPUT_FORMS]

    def find_problem(self, line: str) -> str:
        """Return why a line cannot be run as a command now, or an empty string."""
        if unknown := self._find_unknown(line):
            return "" if self._has_input_handlers else unknown
        command = self.find_builtin(split_command_line(line)[0])
        return _find_busy_problem(command) if command is not None and self._runs.is_running else ""

    def _find_unknown(self, line: str) -> str:
        """Return that a line is an unknown command, or an empty string."""
        name = split_command_line(line)[0]
        names = self.names()
        if name in names or name.startswith(_REMOTE_PREFIXES):
            return ""
        if name in _ELSEWHERE:
            return f"Unknown command: /{name}. {_ELSEWHERE[name]} The text was not sent to the agent."
        near = difflib.get_close_matches(name, names, 5, 0.5)
        near.sort(key=lambda each: sorted(each) != sorted(name))  # swapped letters are the likeliest mistake
        hint = f"Did you mean /{near[0]}?" if near else "List all commands with /help."
        return f"Unknown command: /{name}. {hint} The text was not sent to the agent."

    @property
    def _has_input_handlers(self) -> bool:
        """Whether a handler of `input` may expand or handle an unknown command, for example an alias."""
        extensions = self._current.agent.extensions
        return extensions is not None and (extensions.has_pending or extensions.runner.has_handlers("input"))

    async def run(self, line: str) -> CommandResult | None:
        """Run a line.

        Raises:
            MainspringError: If the command fails.
            Exception: If the command of an extension raises it.
        """
        name, arguments = split_command_line(line)
        command = self.find_builtin(name)
        if command is not None:
            if self._runs.is_running and (problem := _find_busy_problem(command)):
                raise ConfigError(problem)
            return await command.run(arguments)
        extensions = self._current.agent.extensions
        if extensions is not None:
            if extensions.has_pending:
                await extensions.prepare()
            output = await extensions.runner.run_command(f"/{line.strip().removeprefix('/')}")
            if output is not None:
                return Text(output) if output else None
        for source in self._sources:
            prompt = await source.render(name, arguments)
            if prompt is not None:
                self._send(prompt)
                return None
        unknown = self._find_unknown(line) or f"Unknown command: /{name}. List all commands with /help."
        if not self._has_input_handlers:
            raise ConfigError(unknown)
        self._runs.start_or_queue(create_queued_message(line.strip()), RunOverrides(unknown_command=unknown))
        return None

    def find_shortcut(self, key: str) -> Callable[[], Awaitable[None]] | None:
        """Return what an extension runs for a key, or None if no extension uses the key."""
        extensions = self._current.agent.extensions
        if extensions is None or all(key != shortcut.key for shortcut in self._current.extension_shortcuts):
            return None
        runner = extensions.runner

        async def press() -> None:
            await runner.run_shortcut(key)

        return press

    def _send(self, prompt: RenderedPrompt) -> None:
        if prompt.notice:
            self._publish(Notice(prompt.notice))
        if not prompt.text.strip():
            return
        model = self._models.create(prompt.model) if prompt.model else None
        overrides = RunOverrides(model=model, tools=prompt.tools, allow=prompt.allow)
        self._runs.start_or_queue(create_queued_message(prompt.text), overrides)


class Completer:
    """Completes the line that the user types.

    Args:
        current: The conversation, whose files are offered.
        commands: The slash commands.
    """

    def __init__(self, current: CurrentConversation, commands: SlashCommands) -> None:
        self._current = current
        self._commands = commands
        self._walks: dict[str, tuple[float, tuple[str, ...], bool]] = {}

    async def complete(self, line: str) -> tuple[Candidate, ...]:
        """Return completions of the end of a line, an exact match first."""
        mention = _MENTION.search(line)
        if mention is not None:
            typed = mention[1] if mention[1] is not None else mention[2]
            matches = _rank_matches(typed, [(path, "") for path in await self._list_paths(typed)])
            is_quoted = mention[1] is not None
            return tuple([Candidate(_complete_mention(path, is_quoted), mention.start()) for path, _ in matches])
        if not line.startswith("/"):
            return ()
        name, space, typed = line[1:].partition(" ")
        if not space:
            if name.startswith("mcp:"):
                await self._commands.refresh()
            matches = _rank_matches(name, sorted(self._commands.names().items()))
            return tuple([Candidate(f"/{each}", 0, detail) for each, detail in matches])
        command = self._commands.find_builtin(name.lower())
        if command is None or command.complete is None:
            return ()
        try:
            offered = await command.complete()
        except MainspringError:  # for example, the conversation is not saved
            return ()
        start = len(line) - len(typed.lstrip())
        return tuple([Candidate(each, start, detail) for each, detail in _rank_matches(typed.strip(), offered)])

    async def _list_paths(self, typed: str) -> tuple[str, ...]:
        """Return the files and folders of the project that are not ignored.

        In a project with too many files, the deepest are missing, except those of the folder that the user typed.
        """
        cwd = self._current.conversation.env.cwd
        paths, is_truncated = await self._walk(cwd)
        folder = posixpath.normpath(typed.rpartition("/")[0])
        if not is_truncated or folder.startswith((".", "/")):
            return paths
        try:
            below, _ = await self._walk(posixpath.join(cwd, folder))
        except OSError:
            return paths
        return tuple(dict.fromkeys((*paths, *(f"{folder}/{path}" for path in below))))

    async def _walk(self, folder: str) -> tuple[tuple[str, ...], bool]:
        """Return the paths in a folder, and whether some are missing. Cached for a few seconds, since each key asks again."""
        now = time.monotonic()
        self._walks = {each: found for each, found in self._walks.items() if now - found[0] < _CACHE_SECONDS}
        if folder not in self._walks:
            walk = await self._current.conversation.env.walk(folder, limit=_MAX_FILES)
            paths = tuple([f"{entry.path}/" if entry.kind == "directory" else entry.path for entry in walk.entries])
            self._walks[folder] = (time.monotonic(), paths, walk.truncated)
        _, paths, is_truncated = self._walks[folder]
        return paths, is_truncated


def _complete_mention(path: str, is_quoted: bool) -> str:
    """Return the mention of a path. The quotes of a folder stay open, since a name in it can follow."""
    text = format_mention(path)
    if is_quoted and text == f"@{path}":
        text = f'@"{path}"'
    return text.removesuffix('"') if path.endswith("/") and text.startswith('@"') else text


def _find_busy_problem(command: SlashCommand) -> str:
    return f"/{command.name} is not available while the agent is working. Stop it first." if command.needs_idle else ""


def _rank_matches(typed: str, offered: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the offers that match: exact ones, then those that start with the text, then those that contain it."""
    prefix = "./" if typed.startswith("./") else ""
    requested = typed.removeprefix("./").lower()
    ranks: list[tuple[int, int, str, str]] = []
    for text, detail in offered:
        lower = text.lower()
        last = lower.rstrip("/").rpartition("/")[2]
        if lower == requested:
            rank = 0
        elif lower.startswith(requested):
            rank = 1
        elif last.startswith(requested):
            rank = 2
        elif requested in lower:
            rank = 3
        else:
            continue
        ranks.append((rank, lower.count("/"), text, detail))
    return [(prefix + text, detail) for _, _, text, detail in sorted(ranks, key=lambda r: r[:3])[:MAX_CANDIDATES]]


def split_command_line(line: str) -> tuple[str, str]:
    """Split a command line into its name and its arguments."""
    name, *rest = line.strip().removeprefix("/").split(maxsplit=1) or [""]
    return name.lower(), rest[0] if rest else ""
