"""Slash commands about the project and its background commands: ``/init``, ``/diff``, ``/review``, and ``/jobs``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mainspring.app.chat.command_results import Changes, Choice, CommandResult, Picker, Table, Text
from mainspring.app.chat.commands import Attachment
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.message_queue import QueuedMessage, create_queued_message
from mainspring.app.chat.runs import STOPPED_BY_USER, RunOverrides
from mainspring.app.chat.slash_commands import SlashCommand
from mainspring.app.workspace.git_changes import GitChanges
from mainspring.errors import ConfigError
from mainspring.events import FileDiff
from mainspring.text import pluralize
from mainspring.tools.support.background import TerminalText, describe_status

_INSTRUCTIONS = "AGENTS.md"
_KILL_SECONDS = 10.0
_READ_TOOLS = ("read_file", "grep", "glob", "list_files")
"""The tools of a review."""
_MAX_DIFF = 200_000
"""Characters of changes that a review gets; it reads the rest in the files."""

_INIT = """{file} has the instructions that a coding agent reads at the start of every session in this project.

Explore first: the README, the manifests of packages, the build, lint, and test configuration, CI workflows, the layout of the source, and \
existing instructions for agents (CLAUDE.md, GEMINI.md, .cursorrules, .cursor/rules, .github/copilot-instructions.md). Take over what is still true.

Then write {file} with these sections, each only if the project needs it:
- Commands: how to install, build, lint, format, and test, and how to run a single test. Take them from the configuration; never invent one.
- Architecture: the parts that one has to read several files to understand, and where a kind of change belongs.
- Conventions: the style and the rules of this project that differ from the usual.
- Pitfalls: what breaks easily, generated files, and files that must not be edited.

Keep it below 150 lines. Leave out what is obvious from the file names, general advice, and anything you did not verify in the files. End with \
a short summary of what you wrote."""
_IMPROVE = """

{file} exists. Read it first and improve it: keep what is true and specific, correct what the project contradicts, add what is missing, and \
remove what is obvious. Change it with edits, and summarize them."""
_REPLACE = """

{file} exists. Do not take it over: write it from scratch, and replace the file."""

_REVIEW = """The changes are attached. Do not change any file.

Read the surrounding code where you need it; the attached changes show only parts of the files. Report problems that the changes introduce, the most \
severe first: wrong behavior, missed cases, security, lost data, races, broken callers, and missing tests. For each: the file and line, what \
happens in which case, and how to fix it. Do not report style that a formatter handles, and nothing you did not verify. If you find no \
problem, report that. End with a verdict in one sentence."""


class ProjectCommands:
    """``/init``, ``/diff``, ``/review``, and ``/jobs``.

    Args:
        current: The conversation.
        start: Starts the runs that write instructions and review changes.
    """

    def __init__(self, current: CurrentConversation, start: Callable[[QueuedMessage, RunOverrides], object]) -> None:
        self._current = current
        self._start_run = start

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands."""
        return (
            SlashCommand(
                name="jobs",
                summary="List the background commands, show the output of one, or kill it",
                arguments="[JOB | kill JOB]",
                run=self._run_jobs,
                complete=self._complete_jobs,
            ),
            SlashCommand(
                name="init",
                summary=f"Write {_INSTRUCTIONS}, the instructions for agents in this project, or improve it",
                arguments="[improve | replace]",
                run=self._run_init,
                complete=self._complete_init,
                replaceable=True,
            ),
            SlashCommand(
                name="diff",
                summary="Show the uncommitted changes, or those of a branch or commit",
                arguments="[BRANCH | COMMIT]",
                run=self._run_diff,
                complete=self._complete_refs,
                replaceable=True,
            ),
            SlashCommand(
                name="review",
                summary="Review the uncommitted changes, or those of a branch or commit, without changing files",
                arguments="[BRANCH | COMMIT]",
                run=self._run_review,
                complete=self._complete_refs,
                replaceable=True,
            ),
        )

    async def _run_jobs(self, arguments: str) -> CommandResult:
        jobs, words = self._current.conversation.env.jobs, arguments.split()
        if not words:
            rows = [(job.id, describe_status(job), f"{job.total:,}", job.command) for job in jobs.all]
            empty = "No background commands. Press Ctrl-B to move a running command to the background."
            return Table(("job", "state", "bytes", "command"), tuple(rows), "Background commands", empty)
        job = jobs.get(words[-1])
        if job is None or len(words) > 2 or (len(words) == 2 and words[0] != "kill"):
            raise ConfigError(f"Unknown background command: {arguments.strip()}. List them with /jobs.")
        if words[0] == "kill":
            job.was_reported = True
            job.signal.cancel(STOPPED_BY_USER)
            await job.wait(_KILL_SECONDS)
            return Text(f"{job.id}: {describe_status(job)}")
        screen = TerminalText()
        text = screen.feed(job.output) + screen.finish()
        return Text(text.rstrip("\n") or "No output yet.", f"{job.id}: {describe_status(job)}")

    async def _complete_jobs(self) -> Sequence[tuple[str, str]]:
        jobs = self._current.conversation.env.jobs.all
        running = [(f"kill {job.id}", job.command) for job in jobs if job.running]
        return [*((job.id, job.command) for job in jobs), *running]

    async def _run_init(self, arguments: str) -> CommandResult | None:
        how, env = arguments.strip().lower(), self._current.conversation.env
        if how not in ("", "improve", "replace"):
            raise ConfigError("Use /init, /init improve, or /init replace.")
        try:
            await env.stat(_INSTRUCTIONS)
            is_there = True
        except OSError:
            is_there = False
        if is_there and not how:
            choices = (
                Choice("Improve it", "/init improve", "Keep what is true, correct and complete the rest"),
                Choice("Replace it", "/init replace", "Write it again from the project"),
            )
            return Picker(f"{_INSTRUCTIONS} exists", choices)
        instructions = _INIT + ((_IMPROVE if how != "replace" else _REPLACE) if is_there else "")
        verb = "Write" if not is_there else "Replace" if how == "replace" else "Improve"
        self._start(f"/init {how}", f"{verb} {_INSTRUCTIONS}.", instructions.format(file=_INSTRUCTIONS))
        return None

    async def _complete_init(self) -> Sequence[tuple[str, str]]:
        return [("improve", f"Improve {_INSTRUCTIONS}"), ("replace", f"Write {_INSTRUCTIONS} again")]

    async def _run_diff(self, arguments: str) -> CommandResult:
        _, what, diffs = await self._read_changes(arguments.strip())
        if not diffs:
            return Text(f"No changes in {what}.")
        lines = f"+{sum(diff.added for diff in diffs)} -{sum(diff.removed for diff in diffs)}"
        return Changes(f"{what[0].upper()}{what[1:]}: {pluralize(len(diffs), 'file')}, {lines}", diffs)

    async def _run_review(self, arguments: str) -> CommandResult | None:
        changes, what, diffs = await self._read_changes(arguments.strip())
        if not diffs and arguments.strip():
            return Text(f"No changes in {what}.")
        if not diffs:
            refs = await changes.refs()
            choices = [Choice(ref.name, f"/review {ref.name}", ref.subject) for ref in refs]
            return Picker("No uncommitted changes. Review", tuple(choices), "No uncommitted changes and no commits.")
        shown = [diff for diff in diffs if await self._can_show(f"{changes.top}/{diff.path}")]
        hidden = [diff.path for diff in diffs if diff not in shown]
        text = "\n".join(format_unified_diff(diff) for diff in shown)
        notes = [f"Not attached, since reading it needs approval: {path}" for path in hidden]
        if len(text) > _MAX_DIFF:
            cut = text.rfind("\n", 0, _MAX_DIFF) + 1
            notes.append(
                f"Only the first {cut:,} of {len(text):,} characters are attached. Read the rest in the files."
            )
            text = text[:cut]
        attachment = Attachment(media_type="text/plain", text=text, name="changes.diff")
        tools = tuple([name for name in _READ_TOOLS if self._current.agent.tools.get(name) is not None])
        instructions = "\n".join((_REVIEW, *notes))
        self._start(f"/review {arguments}", f"Review {what}.", instructions, attachment, tools=tools)
        return None

    def _start(
        self,
        line: str,
        text: str,
        instructions: str,
        *attachments: Attachment,
        tools: tuple[str, ...] | None = None,
    ) -> None:
        """Start a run whose message shows one line; its instructions are shown on request."""
        message = create_queued_message(text, attachments)
        self._start_run(replace(message, command=line.strip(), instructions=instructions), RunOverrides(tools=tools))

    async def _read_changes(self, name: str) -> tuple[GitChanges, str, tuple[FileDiff, ...]]:
        changes = await GitChanges.open(self._current.conversation.env)
        if not name:
            return changes, "the uncommitted changes", await changes.uncommitted()
        return changes, *await changes.of(name)

    async def _can_show(self, path: str) -> bool:
        """Return True if the agent may read a file without approval."""
        conversation = self._current.conversation
        decision = await conversation.permissions.decide(
            "read_file", {"path": path}, env=conversation.env, definition=conversation.agent.tools.get("read_file")
        )
        return decision.outcome == "allow"

    async def _complete_refs(self) -> Sequence[tuple[str, str]]:
        changes = await GitChanges.open(self._current.conversation.env)
        return [(ref.name, ref.subject) for ref in await changes.refs()]


def format_unified_diff(diff: FileDiff) -> str:
    """Return the change of a file as a unified diff."""
    old = "/dev/null" if diff.change == "create" else f"a/{diff.path}"
    new = "/dev/null" if diff.change == "delete" else f"b/{diff.path}"
    lines = [f"--- {old}", f"+++ {new}", *([f"({diff.note})"] if diff.note else [])]
    for hunk in diff.hunks:
        lines += [hunk.header, *hunk.lines]
    return "\n".join(lines)
