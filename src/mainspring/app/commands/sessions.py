"""``mainspring sessions``: list, show, search, rename, remove, and import sessions."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.export import render_markdown
from mainspring.app.export.format import KIND_LABELS, call_headline
from mainspring.app.workspace.saved_sessions import (
    Transcript,
    export_transcript,
    import_file,
    list_saved_sessions,
    purge_sessions,
    remove_session,
    rename_session,
    search,
)
from mainspring.app.workspace.session_summaries import describe_session, summarize_session
from mainspring.sessions.transcript import TranscriptItem
from mainspring.text import escape_invisible, pluralize, truncate_end

_TEXT = 72


def format_tree(transcript: Transcript) -> Iterator[str]:
    """Format the tree of a session: ``*`` marks the active branch, and other branches are indented.

    Each line contains the ID of an entry, its kind, the beginning of its text, and its label in brackets.

    Args:
        transcript: Transcript of the session, without secrets.
    """
    children: dict[str | None, list[TranscriptItem]] = defaultdict(list)
    for item in transcript.items:
        children[item.parent].append(item)
    todo = [(item, 0) for item in reversed(children[None])]
    while todo:
        item, depth = todo.pop()
        yield _line(item, depth)
        following = children[item.id]
        deeper = depth + (len(following) > 1)
        todo += [(child, deeper) for child in reversed(following)]


def _line(item: TranscriptItem, depth: int) -> str:
    text = escape_invisible(
        " ".join(" ".join((item.text or item.error, *map(call_headline, item.calls))).split()), prose=True
    )
    label = f"  [{escape_invisible(item.label)}]" if item.label else ""
    return f"{'*' if item.active else ' '} {'  ' * depth}{item.id}  {KIND_LABELS[item.kind].lower()}: {truncate_end(text, _TEXT)}{label}"


_MISSING_ARGUMENT = {
    "import": "a FILE from `mainspring export --format jsonl`",
    "search": "words to search for",
    "rm": "a session ID or title",
    "name": "a session ID or title, and a new NAME",
}


def run(options: argparse.Namespace) -> int:
    """Run an action, and return the exit code.

    Raises:
        UsageError: If an argument is missing.
    """
    works: dict[str, Callable[[argparse.Namespace, Console], int]] = {
        "list": _list,
        "show": _show,
        "tree": _print_tree,
        "search": _search,
        "name": _name,
        "rm": _remove,
        "purge": _purge,
        "import": _import,
    }
    needed = 2 if options.action == "name" else 1
    if options.action in _MISSING_ARGUMENT and len(options.words) < needed:
        raise UsageError(f"sessions {options.action} requires {_MISSING_ARGUMENT[options.action]}.")
    return run_command(options, lambda console: works[options.action](options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_saved_sessions(workspace_options(options), everywhere=options.all)
    now = datetime.now(UTC)
    rows = (
        f"{info.id}  {describe_session(info, summarize_session(info), now):26}  "
        f"{one_line(info.problem or info.title or info.preview, 80)}" + (f"  {info.cwd}" if options.all else "")
        for info in found
    )
    more = "" if options.all else " List the sessions of all folders with --all."
    console.write_list(found, rows, f"No sessions yet. Start one with `mainspring`.{more}", as_json=options.json)
    return 0


def _show(options: argparse.Namespace, console: Console) -> int:
    transcript = export_transcript(" ".join(options.words) or None, workspace_options(options))
    if options.json:
        console.write_json(transcript)
    else:
        console.answer(render_markdown(transcript))
    return 0


def _print_tree(options: argparse.Namespace, console: Console) -> int:
    transcript = export_transcript(" ".join(options.words) or None, workspace_options(options))
    for problem in transcript.problems:
        console.info(f"Note: {problem}")
    console.write_list(transcript.items, format_tree(transcript), as_json=options.json)
    return 0


def _search(options: argparse.Namespace, console: Console) -> int:
    hits = search(" ".join(options.words), workspace_options(options), everywhere=options.all)
    rows = (f"{hit.session.id}  {_format_time(hit.when)}  {hit.role}: {one_line(hit.text, 160)}" for hit in hits)
    empty = "No matches" + ("" if options.all else " in this folder. Search all folders with --all.")
    console.write_list(hits, rows, empty, as_json=options.json)
    return 0 if hits or options.json else 1


def _name(options: argparse.Namespace, console: Console) -> int:
    name, *title = options.words
    info = rename_session(name, " ".join(title), workspace_options(options))
    console.info(f"Renamed session {info.id} to {' '.join(title)!r}")
    return 0


def _remove(options: argparse.Namespace, console: Console) -> int:
    info = remove_session(" ".join(options.words), workspace_options(options))
    console.info(f"Removed session {info.id}")
    return 0


def _purge(options: argparse.Namespace, console: Console) -> int:
    removed = purge_sessions(options.keep, workspace_options(options))
    for info in removed:
        console.row(info.id)
    console.info(
        f"Removed {pluralize(len(removed), 'session')}. The {options.keep} most recent sessions of this folder remain."
    )
    return 0


def _import(options: argparse.Namespace, console: Console) -> int:
    session, problems = import_file(" ".join(options.words), workspace_options(options))
    for problem in problems:
        console.info(f"Note: {problem}")
    console.info(f"Imported. Resume it with: mainspring --session {session} -p ...")
    console.row(session)
    return 0


def _format_time(time: datetime | None) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M}" if time else "?"
