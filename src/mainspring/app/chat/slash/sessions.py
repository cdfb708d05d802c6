"""Commands about sessions: listed, resumed, forked, rewound, named, exported, summed up, left."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Sequence

from mainspring.app.chat.command_results import Choice, CommandResult, Picker, Text
from mainspring.app.chat.commands import Rewind
from mainspring.app.chat.slash.base import SlashCommand, SlashContext, split_words
from mainspring.app.chat.tool_display import one_line
from mainspring.app.workspace.saved_sessions import export_jsonl, export_transcript
from mainspring.errors import ConfigError, SessionError


async def sessions(seat: SlashContext, arguments: str) -> CommandResult:
    """The sessions of the folder, or of all folders."""
    return await _session_picker(seat, everywhere=arguments.strip() in ("all", "--all"))


async def resume(seat: SlashContext, arguments: str) -> CommandResult | None:
    """Go on with another session."""
    if not arguments.strip():
        return await _session_picker(seat, everywhere=False)
    await seat.switching.resume(arguments.strip())
    return None


async def _session_picker(seat: SlashContext, *, everywhere: bool) -> Picker:
    listed = await asyncio.to_thread(lambda: seat.switching.others(everywhere=everywhere))
    current = seat.room.conversation.session
    choices = [
        Choice(
            label=one_line(info.title or info.preview or info.id, 80),
            line=f"/resume {info.id}",
            detail="; ".join(
                filter(
                    None,
                    (
                        f"{info.updated:%Y-%m-%d %H:%M}" if info.updated else "",
                        info.id,
                        info.problem,
                        info.cwd if everywhere else "",
                    ),
                )
            ),
            current=current is not None and info.id == current.id,
        )
        for info in listed
    ]
    return Picker("Sessions", tuple(choices), "there are no sessions of this folder yet")


async def _ids(seat: SlashContext) -> Sequence[tuple[str, str]]:
    listed = await asyncio.to_thread(seat.switching.others)
    return [(info.id, one_line(info.title or info.preview, 60)) for info in listed if not info.problem]


async def tree(seat: SlashContext, _: str) -> CommandResult:
    """The session with all its branches; each place can be forked from."""
    transcript = await seat.switching.transcript()
    depth: dict[str | None, int] = {None: 0}
    children: dict[str | None, int] = {}
    choices: list[Choice] = []
    for item in transcript.items:
        children[item.parent] = children.get(item.parent, 0) + 1
        branches = children[item.parent] > 1
        depth[item.id] = depth.get(item.parent, 0) + (1 if branches else 0)
        if item.kind in ("user", "assistant", "compaction", "branch"):
            calls = ", ".join(call.name for call in item.calls)
            label = one_line(item.text or calls or item.kind, 80)
            choices.append(Choice(f"{item.kind}: {label}", f"/fork {item.id}", item.label, item.active, depth[item.id]))
    return Picker("Branches", tuple(choices), "nothing was said yet")


async def fork(seat: SlashContext, arguments: str) -> None:
    """Go on in a copy."""
    await seat.switching.fork(arguments.strip())


async def rewind(seat: SlashContext, arguments: str) -> CommandResult:
    """Go back to before a prompt."""
    given = split_words(arguments)
    flags = {word for word in given if word in ("files", "conversation", "both", "preview", "force")}
    rest = [word for word in given if word not in flags]
    if not given:
        prompts = await seat.switching.prompts()
        choices = [
            Choice(one_line(item.text, 80), f"/rewind {number}", f"{item.when:%H:%M}")
            for number, (item, _) in enumerate(prompts, 1)
        ]
        return Picker("Go back to before", tuple(choices), "there is no prompt yet to go back to")
    if len(rest) > 1 or len(flags & {"files", "conversation", "both"}) > 1:
        raise ConfigError("/rewind [N | ENTRY | undo] [files | conversation] [preview] [force]")
    what = "files" if "files" in flags else "conversation" if "conversation" in flags else "both"
    return await seat.switching.rewind(
        Rewind(rest[0] if rest else "", what, preview="preview" in flags, force="force" in flags)
    )


async def _complete_rewind_points(seat: SlashContext) -> Sequence[tuple[str, str]]:
    prompts = await seat.switching.prompts()
    found = [(str(number), one_line(item.text, 60)) for number, (item, _) in enumerate(prompts, 1)]
    return [*found, ("undo", "take the last rewind back")]


async def name(seat: SlashContext, arguments: str) -> CommandResult:
    """The session's title; or another one."""
    if not arguments.strip():
        title = seat.room.status().title
        return Text(f"the session is named {title!r}" if title else "the session has no name; /name TITLE gives it one")
    await seat.switching.rename(arguments)
    return Text(f"the session is named {arguments.strip()!r}")


async def clear(seat: SlashContext, _: str) -> None:
    """Begin anew."""
    await seat.switching.new()


async def compact(seat: SlashContext, arguments: str) -> CommandResult:
    """Sum up the conversation so far."""
    report = await seat.room.conversation.agent.compact(arguments.strip())
    if report is None:
        return Text("there is nothing to sum up yet, or no good summary could be had; the conversation stays as it is")
    return Text(f"summed up: about {report.tokens_before:,} tokens became {report.tokens_after:,}")


async def export(seat: SlashContext, arguments: str) -> CommandResult:
    """Write the conversation to a file, without secrets."""
    room = seat.room
    session = room.conversation.session
    if session is None:
        raise SessionError("this conversation is not saved, so there is nothing to export")
    await session.journal.flush()
    options = room.options
    file = arguments.strip() or f"{session.id}.{next(iter(options.exporters), 'jsonl')}"
    kind = posixpath.splitext(file)[1].lstrip(".").lower()
    render = options.exporters.get(kind)
    if render is not None:
        transcript = await asyncio.to_thread(export_transcript, session.place, options.ask.place, options.environ)
        data = render(transcript).encode("utf-8", "replace")
    elif kind == "jsonl":
        lines = await asyncio.to_thread(export_jsonl, session.place, options.ask.place, options.environ)
        data = b"\n".join(lines) + b"\n"
    else:
        known = ", ".join(f".{each}" for each in (*options.exporters, "jsonl"))
        raise ConfigError(f"{file!r} does not say how to write it; a name may end in {known}")
    path = await asyncio.to_thread(_write, room.conversation.env.cwd, file, data)
    return Text(f"written to {path}")


def _write(cwd: str, name: str, data: bytes) -> str:
    path = os.path.join(cwd, os.path.expanduser(name))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # nothing is replaced by it
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


SESSION_COMMANDS = (
    SlashCommand(name="sessions", summary="the sessions of this folder", arguments="[all]", run=sessions),
    SlashCommand(
        name="resume", summary="go on with another session", arguments="[SESSION]", run=resume, complete=_ids, idle=True
    ),
    SlashCommand(name="tree", summary="the session with all its branches", run=tree),
    SlashCommand(name="fork", summary="go on in a copy", arguments="[ENTRY]", run=fork, idle=True),
    SlashCommand(
        name="rewind",
        summary="go back to before a prompt, with the files",
        arguments="[N | ENTRY | undo] [files | conversation] [preview] [force]",
        run=rewind,
        complete=_complete_rewind_points,
        idle=True,
    ),
    SlashCommand(name="name", summary="give the session a title", arguments="[TITLE]", run=name),
    SlashCommand(name="clear", summary="begin anew; the session so far stays on disk", run=clear, idle=True),
    SlashCommand(
        name="compact", summary="sum up the conversation so far", arguments="[WHAT MATTERS]", run=compact, idle=True
    ),
    SlashCommand(name="export", summary="write the conversation to a file", arguments="[FILE]", run=export),
)
"""The commands of this file."""
