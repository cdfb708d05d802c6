"""Slash commands about sessions, and those that show facts about the conversation."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mainspring.agent.plugs import offered_tool_specs
from mainspring.app.chat.command_results import Choice, Clipboard, CommandResult, Fields, Picker, Screen, Table, Text
from mainspring.app.chat.commands import Rewind
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.prompt_sources import SKILL_PREFIX, find_mcp_plug, list_skills
from mainspring.app.chat.runs import RunController
from mainspring.app.chat.session_control import SessionController
from mainspring.app.chat.slash_commands import SlashCommand, SlashCommands
from mainspring.app.chat.status import OTHER_CALLS, StatusReporter
from mainspring.app.chat.tool_display import one_line
from mainspring.app.run.events import format_spent
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.run.tool_summaries import summarize_tool
from mainspring.app.workspace.saved_sessions import create_export_path, export_jsonl, export_transcript
from mainspring.app.workspace.session_summaries import SessionSummary, describe_session, summarize_session
from mainspring.errors import ConfigError
from mainspring.messages import Cost, Message, Usage, utc_now
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead
from mainspring.sessions import SessionInfo, Transcript
from mainspring.sessions.history import prompt_preview

_REWIND_USAGE = "Use /rewind [N | ENTRY | undo | list] [files | conversation] [preview] [force]."
_REWIND_TITLES = {
    "both": "Rewind to before",
    "files": "Rewind the files to before",
    "conversation": "Edit an earlier prompt (not its files)",
}
_REWIND_FLAGS = ("files", "conversation", "both", "preview", "force", "list")

_NO_PROMPTS = "(no prompts yet)"
"""Label of a session without prompts."""
_NO_SESSIONS = "No sessions in this folder yet. List those of all folders with /sessions all."
_NO_SESSIONS_ANYWHERE = "No sessions yet. Send a message to start one."


class SessionCommands:
    """Commands that list, resume, fork, rewind, name, export, compact, and clear sessions.

    Args:
        sessions: Switches between sessions.
        current: The conversation.
        place: The folder and the home directory, for exports.
        environ: Environment variables.
        exporters: Renders a transcript, by the extension of the file.
    """

    def __init__(
        self,
        sessions: SessionController,
        current: CurrentConversation,
        place: WorkspaceOptions,
        environ: Mapping[str, str],
        exporters: Mapping[str, Callable[[Transcript], str]],
    ) -> None:
        self._sessions = sessions
        self._current = current
        self._place = place
        self._environ = environ
        self._exporters = exporters

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands."""
        return (
            SlashCommand(
                name="sessions",
                summary="List the sessions of this folder, or of all folders",
                arguments="[all]",
                run=self._run_sessions,
            ),
            SlashCommand(
                name="resume",
                summary="Resume another session",
                arguments="[SESSION]",
                run=self._run_resume,
                complete=self._complete_ids,
                needs_idle=True,
            ),
            SlashCommand(name="tree", summary="Show the session with all its branches", run=self._run_tree),
            SlashCommand(
                name="fork",
                summary="Continue in a copy of the session",
                arguments="[ENTRY]",
                run=self._run_fork,
                needs_idle=True,
            ),
            SlashCommand(
                name="rewind",
                summary="Rewind the conversation and the files to before a prompt",
                arguments="[N | ENTRY | undo | list] [files | conversation] [preview] [force]",
                run=self._run_rewind,
                complete=self._complete_rewind_points,
                needs_idle=True,
            ),
            SlashCommand(
                name="name", summary="Show or change the title of the session", arguments="[TITLE]", run=self._run_name
            ),
            SlashCommand(
                name="clear",
                summary="Start a new conversation; the current session stays saved",
                run=self._run_clear,
                needs_idle=True,
            ),
            SlashCommand(name="new", summary="Same as /clear", run=self._run_clear, needs_idle=True),
            SlashCommand(
                name="compact",
                summary="Compact the conversation",
                arguments="[WHAT TO KEEP]",
                run=self._sessions.compact,
                needs_idle=True,
            ),
            SlashCommand(
                name="export", summary="Save the conversation to a file", arguments="[FILE]", run=self._run_export
            ),
        )

    async def _run_sessions(self, arguments: str) -> CommandResult:
        return await self._pick_session(everywhere=arguments.strip() in ("all", "--all"))

    async def _run_resume(self, arguments: str) -> CommandResult | None:
        if not arguments.strip():
            return await self._pick_session(everywhere=False)
        await self._sessions.resume(arguments.strip())
        return None

    async def _pick_session(self, *, everywhere: bool) -> Picker:
        session, now = self._current.session, utc_now()
        choices: list[Choice] = []
        for info, summary in await asyncio.to_thread(self._summarize_sessions, everywhere):
            facts = (describe_session(info, summary, now), info.id, info.problem, info.cwd if everywhere else "")
            choices.append(
                Choice(
                    label=one_line(info.title or info.preview or _NO_PROMPTS, 80),
                    line=f"/resume {info.id}",
                    detail="; ".join(filter(None, facts)),
                    current=session is not None and info.id == session.id,
                    preview=summary.preview,
                )
            )
        return Picker("Sessions", tuple(choices), _NO_SESSIONS_ANYWHERE if everywhere else _NO_SESSIONS)

    def _summarize_sessions(self, everywhere: bool) -> list[tuple[SessionInfo, SessionSummary]]:
        infos = self._sessions.list_sessions(everywhere=everywhere)
        return [(info, summarize_session(info)) for info in infos]

    async def _complete_ids(self) -> Sequence[tuple[str, str]]:
        infos = await asyncio.to_thread(self._sessions.list_sessions)
        return [(info.id, one_line(info.title or info.preview, 60)) for info in infos if not info.problem]

    async def _run_tree(self, _: str) -> CommandResult:
        transcript = await self._sessions.read_transcript()
        depth: dict[str | None, int] = {None: 0}
        children: dict[str | None, int] = {}
        choices: list[Choice] = []
        for item in transcript.items:
            children[item.parent] = children.get(item.parent, 0) + 1
            depth[item.id] = depth.get(item.parent, 0) + (1 if children[item.parent] > 1 else 0)
            if item.kind in ("user", "assistant", "compaction", "branch"):
                calls = ", ".join(call.name for call in item.calls)
                label = f"{item.kind}: {one_line(prompt_preview(item.text) or calls or item.kind, 80)}"
                choices.append(Choice(label, f"/fork {item.id}", item.label, item.active, depth[item.id]))
        return Picker("Branches", tuple(choices), "No messages yet.")

    async def _run_fork(self, arguments: str) -> None:
        await self._sessions.fork(arguments.strip())

    async def _run_rewind(self, arguments: str) -> CommandResult:
        words = arguments.split()
        flags = {word for word in words if word in _REWIND_FLAGS}
        targets = [word for word in words if word not in flags]
        if len(targets) > 1 or len(flags & {"files", "conversation", "both"}) > 1:
            raise ConfigError(_REWIND_USAGE)
        what = "files" if "files" in flags else "conversation" if "conversation" in flags else "both"
        if not words or "list" in flags:
            return await self._pick_prompt(what)
        target = targets[0] if targets else ""
        return await self._sessions.rewind(Rewind(target, what, preview="preview" in flags, force="force" in flags))

    async def _pick_prompt(self, what: str) -> Picker:
        prompts = await self._sessions.prompts()
        suffix = "" if what == "both" else f" {what}"
        choices = [
            Choice(one_line(prompt_preview(item.text), 80), f"/rewind {number}{suffix}", f"{item.when:%H:%M}")
            for number, (item, _) in enumerate(prompts, 1)
        ]
        return Picker(_REWIND_TITLES[what], tuple(choices), "No prompts to rewind yet.")

    async def _complete_rewind_points(self) -> Sequence[tuple[str, str]]:
        prompts = await self._sessions.prompts()
        points = [(str(number), one_line(prompt_preview(item.text), 60)) for number, (item, _) in enumerate(prompts, 1)]
        return [*points, ("undo", "Undo the last rewind")]

    async def _run_name(self, arguments: str) -> CommandResult:
        title = arguments.strip()
        if not title:
            session = self._current.session
            title = session.title if session is not None else ""
            return Text(
                f'The session is named "{title}".' if title else "The session has no name. Set it with /name TITLE."
            )
        await self._sessions.rename(title)
        return Text(f'Session renamed to "{title}".')

    async def _run_clear(self, _: str) -> None:
        await self._sessions.start_new()

    async def _run_export(self, arguments: str) -> CommandResult:
        session = self._current.require_session()
        await session.journal.flush()
        file = arguments.strip() or create_export_path(
            f"{session.id}.{next(iter(self._exporters), 'jsonl')}", self._environ
        )
        extension = posixpath.splitext(file)[1].lstrip(".").lower()
        render = self._exporters.get(extension)
        if render is not None:
            transcript = await asyncio.to_thread(export_transcript, session.location, self._place, self._environ)
            data = render(transcript).encode("utf-8", "replace")
        elif extension == "jsonl":
            lines = await asyncio.to_thread(export_jsonl, session.location, self._place, self._environ)
            data = b"\n".join(lines) + b"\n"
        else:
            known = ", ".join(f".{each}" for each in (*self._exporters, "jsonl"))
            raise ConfigError(f"Unknown format: {file}. End the file name with {known}.")
        path = await asyncio.to_thread(_write_new_file, self._current.cwd, file, data)
        return Text(f"Saved to {path}")


def _write_new_file(cwd: str, name: str, data: bytes) -> str:
    path = os.path.join(cwd, os.path.expanduser(name))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # an export never overwrites a file
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


class InfoCommands:
    """Commands that show facts: help, context, cost, tools, telemetry, skills, and servers; also ``/btw``, ``/copy``, and ``/quit``.

    Args:
        current: The conversation.
        status: The figures of the chat.
        runs: Loads skills and servers before the first run.
        commands: All slash commands, for ``/help``.
    """

    def __init__(
        self, current: CurrentConversation, status: StatusReporter, runs: RunController, commands: SlashCommands
    ) -> None:
        self._current = current
        self._status = status
        self._runs = runs
        self._commands = commands

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands."""
        return (
            SlashCommand(name="help", summary="List the commands", arguments="[COMMAND]", run=self._run_help),
            SlashCommand(name="context", summary="Show what fills the context window", run=self._run_context),
            SlashCommand(name="cost", summary="Show the cost so far and the limits", run=self._run_cost),
            SlashCommand(
                name="btw",
                summary="Ask a side question about the conversation, which stays unchanged",
                arguments="QUESTION",
                run=self._run_side_question,
            ),
            SlashCommand(name="copy", summary="Copy a response to the clipboard", arguments="[N]", run=self._run_copy),
            SlashCommand(name="tools", summary="List the tools of the agent", run=self._run_tools),
            SlashCommand(name="telemetry", summary="Show where traces and metrics are sent", run=self._run_telemetry),
            SlashCommand(name="skills", summary="List the skills", run=self._run_skills),
            SlashCommand(name="mcp", summary="List the MCP servers and their state", run=self._run_mcp),
            SlashCommand(name="quit", summary="Exit", run=self._run_quit),
            SlashCommand(name="exit", summary="Same as /quit", run=self._run_quit),
        )

    async def _run_help(self, arguments: str) -> CommandResult:
        requested = arguments.strip().removeprefix("/")
        rows = self._commands.describe()
        if requested:
            rows = [row for row in rows if row[0] == f"/{requested}"]
            if not rows:
                raise ConfigError(f"Unknown command: /{requested}. List all commands with /help.")
        return Table(("command", "arguments", "description"), tuple(rows), "Commands")

    async def _run_context(self, _: str) -> CommandResult:
        agent, status = self._current.agent, self._status.status()
        estimator = TokenEstimator()
        messages = [m for m in agent.messages if isinstance(m, Message)]
        parts = {
            "system prompt": estimate_overhead(agent.context.system, ()),
            "tools": estimate_overhead("", offered_tool_specs(agent)),
            "tool results": estimator.tokens([m for m in messages if m.tool_results]),
            "messages": estimator.tokens([m for m in messages if not m.tool_results]),
        }
        window, total = status.context_window, status.context_used
        size = f"{window:,}" if window else "an unknown number of"
        fields = [("used", f"{format_bar(total, window)}{total:,} of {size} tokens")]
        fields += [
            (name, f"{format_bar(tokens, window or total)}{tokens:,}") for name, tokens in _scale(parts, total).items()
        ]
        if window:
            free = max(window - total, 0)
            fields.append(("free", f"{format_bar(free, window)}{free:,}"))
        return Fields((*fields, ("message count", f"{len(messages)}")), "Context")

    async def _run_cost(self, _: str) -> CommandResult:
        status, spending = self._status.status(), self._status.spending
        rows = [_usage_row(name, usage) for name, usage in spending.by_model.items()]
        known = sum(spending.by_model.values(), Usage.zero())
        if (missing := status.tokens - known.total_tokens) > 0:
            rows.append((OTHER_CALLS, "", "", "", f"{missing:,}", ""))
        cost = self._status.ledger.cost  # It includes calls that no row names.
        spent = replace(known, cost=Cost(output=cost)) if cost else known
        rows.append(
            (*_usage_row("total", spent)[:4], f"{max(status.tokens, known.total_tokens):,}", format_spent(spent))
        )
        rows += [(f"{scope} limit", "", "", "", "", limit) for scope, limit in self._list_limits()]
        return Table(("model", "in", "out", "cached", "tokens", "cost"), tuple(rows), "Cost")

    def _list_limits(self) -> list[tuple[str, str]]:
        """Return the limits of a run and of the session."""
        behavior = self._current.agent.behavior
        limits: list[tuple[str, str]] = []
        for scope, budget in (("run", behavior), ("session", behavior.session_budget)):
            if budget is None:
                continue
            if budget.max_cost is not None:
                limits.append((scope, f"${budget.max_cost:.2f}"))
            if budget.max_total_tokens is not None:
                limits.append((scope, f"{budget.max_total_tokens:,} tokens"))
            if budget.max_turns is not None:
                limits.append((scope, f"{budget.max_turns:,} model calls"))
            if budget.max_seconds is not None:
                limits.append((scope, f"{budget.max_seconds:g} seconds"))
        return limits or [("run", "none")]

    async def _run_side_question(self, arguments: str) -> CommandResult:
        """Answer from the messages so far, without tools. Neither the question nor the answer joins the conversation."""
        question, agent = arguments.strip(), self._current.agent
        if not question:
            raise ConfigError("Use /btw QUESTION, for example: /btw Which files did you change?")
        answer = await agent.ask_aside(question)
        self._status.add_spending(answer, answer.usage, is_stored=False)
        text = answer.text.strip() or "The model did not answer in text. Ask again, or send the question as a message."
        return Text(text, f"Side question: {one_line(question, 80)}", markdown=True)

    async def _run_copy(self, arguments: str) -> CommandResult:
        number = arguments.strip() or "1"
        responses = [
            m.text
            for m in reversed(self._current.agent.messages)
            if isinstance(m, Message) and m.role == "assistant" and m.text
        ]
        if not responses:
            raise ConfigError("No response to copy yet.")
        if not number.isdecimal() or not 1 <= int(number) <= len(responses):
            raise ConfigError(f"Unknown response: {number}. Use 1 (the latest) to {len(responses)}.")
        return Clipboard(responses[int(number) - 1])

    async def _run_tools(self, _: str) -> CommandResult:
        registry = self._current.agent.tools
        active = set(registry.active)
        rows = [
            (
                tool.name,
                tool.label or tool.name,
                tool.source,
                "" if tool.name in active else "off",
                summarize_tool(tool),
            )
            for tool in registry
        ]
        return Table(("tool", "shown as", "from", "state", "description"), tuple(rows), "Tools")

    async def _run_telemetry(self, _: str) -> CommandResult:
        config = self._current.conversation.settings.config.telemetry
        if not config.enabled:
            return Text("Telemetry is off; nothing is sent. Enable it with telemetry.enabled in your settings.")
        return Fields(
            (
                ("state", "on"),
                ("endpoint", config.endpoint or "set by the variables of OpenTelemetry"),
                ("prompts and responses", "sent" if config.enable_sensitive_data else "not sent"),
                ("names", config.span_names),
            ),
            "Telemetry",
        )

    async def _run_skills(self, _: str) -> CommandResult:
        await self._runs.warm_up()
        rows = [(f"/{SKILL_PREFIX}{name}", description) for name, description in list_skills(self._current)]
        return Table(("skill", "description"), tuple(rows), "Skills", "No skills found.")

    async def _run_mcp(self, _: str) -> CommandResult:
        await self._runs.warm_up()
        plug = find_mcp_plug(self._current)
        sources = [tool.source for tool in self._current.agent.tools]
        rows = [
            (server.name, server.status, str(sources.count(f"mcp:{server.name}")), str(server.error or ""))
            for server in (plug.servers if plug is not None else ())
        ]
        empty = "No MCP servers yet. Add one with `mainspring mcp add`."
        return Table(("server", "state", "tools", "problem"), tuple(rows), "MCP servers", empty)

    async def _run_quit(self, _: str) -> CommandResult:
        return Screen("quit")


_BAR_COLUMNS = 10


def format_bar(part: int, total: int) -> str:
    """Return the share of a total as a bar and a percentage; empty if the total is unknown."""
    if not total:
        return ""
    share = min(part / total, 1.0)
    filled = round(share * _BAR_COLUMNS) or int(part > 0)
    return f"{'█' * filled}{'░' * (_BAR_COLUMNS - filled)} {share:4.0%} "


def _scale(parts: Mapping[str, int], total: int) -> dict[str, int]:
    """Scale estimated parts, so that they add up to the total that the provider reported."""
    estimated = sum(parts.values())
    scaled = {name: part * total // estimated if estimated else 0 for name, part in parts.items()}
    largest = max(scaled, key=lambda name: scaled[name])
    scaled[largest] += total - sum(scaled.values())
    return scaled


def _usage_row(name: str, usage: Usage) -> tuple[str, ...]:
    counts = (usage.prompt_tokens, usage.output_tokens, usage.cache_read, usage.total_tokens)
    return (name, *[f"{count:,}" for count in counts], format_spent(usage))
