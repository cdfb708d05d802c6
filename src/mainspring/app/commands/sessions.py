"""The tree of a session, a line for each thing that was said or happened.

``mainspring sessions``.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.export import markdown
from mainspring.app.export.format import NAMES, headline
from mainspring.app.workspace.saved_sessions import (
    Item,
    Transcript,
    export_transcript,
    import_file,
    name_session,
    purge_sessions,
    remove_session,
    saved_sessions,
    search,
)
from mainspring.text import counted, visible

_TEXT = 72


def tree_lines(transcript: Transcript) -> Iterator[str]:
    """The tree from its root: ``*`` marks the branch that the session goes on with, and branches stand further to the right.

    Each line has the id of its entry, what it is, how its text begins, and its label in brackets.

    Args:
        transcript: The session, without secrets.
    """
    children: dict[str | None, list[Item]] = defaultdict(list)
    for item in transcript.items:
        children[item.parent].append(item)
    todo = [(item, 0) for item in reversed(children[None])]
    while todo:
        item, depth = todo.pop()
        yield _line(item, depth)
        following = children[item.id]
        deeper = depth + (len(following) > 1)
        todo += [(child, deeper) for child in reversed(following)]


def _line(item: Item, depth: int) -> str:
    text = visible(" ".join(" ".join((item.text or item.error, *map(headline, item.calls))).split()), prose=True)
    text = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
    label = f"  [{visible(item.label)}]" if item.label else ""
    return f"{'*' if item.active else ' '} {'  ' * depth}{item.id}  {NAMES[item.kind].lower()}: {text}{label}"


_NEEDS = {
    "import": "a FILE, as `mainspring export --format jsonl` writes it",
    "search": "words to look for",
    "rm": "the id or title of a session",
    "name": "the id or title of a session, and its new NAME",
}


def run(options: argparse.Namespace) -> int:
    """Do what was asked; the exit code.

    Raises:
        UsageError: If something is missing.
    """
    works: dict[str, Callable[[argparse.Namespace, Console], int]] = {
        "list": _list,
        "show": _show,
        "tree": _tree,
        "search": _search,
        "name": _name,
        "rm": _remove,
        "purge": _purge,
        "import": _import,
    }
    needed = 2 if options.action == "name" else 1
    if options.action in _NEEDS and len(options.words) < needed:
        raise UsageError(f"sessions {options.action} needs {_NEEDS[options.action]}")
    return framed(options, lambda console: works[options.action](options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = saved_sessions(place_of(options), everywhere=options.all)
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return 0
    for info in found:
        where = f"  {info.cwd}" if options.all else ""
        text = one_line(info.problem or info.title or info.preview, 80)
        console.row(f"{info.id}  {_time(info.updated)}  {text}{where}")
    if not found:
        console.say(
            "there are no sessions" + ("" if options.all else " of this folder; --all lists those of all folders")
        )
    return 0


def _show(options: argparse.Namespace, console: Console) -> int:
    transcript = export_transcript(" ".join(options.words) or None, place_of(options))
    if options.json:
        console.data(msgspec.json.encode(transcript).decode())
    else:
        console.answer(markdown(transcript))
    return 0


def _tree(options: argparse.Namespace, console: Console) -> int:
    transcript = export_transcript(" ".join(options.words) or None, place_of(options))
    for problem in transcript.problems:
        console.say(f"note: {problem}")
    if options.json:
        console.data(msgspec.json.encode(transcript.items).decode())
        return 0
    for line in tree_lines(transcript):
        console.row(line)
    return 0


def _search(options: argparse.Namespace, console: Console) -> int:
    hits = search(" ".join(options.words), place_of(options), everywhere=options.all)
    if options.json:
        console.data(msgspec.json.encode(hits).decode())
        return 0
    for hit in hits:
        console.row(f"{hit.session.id}  {_time(hit.when)}  {hit.role}: {one_line(hit.text, 160)}")
    if not hits:
        console.say("nothing was found" + ("" if options.all else " in this folder; --all looks through all folders"))
    return 0 if hits else 1


def _name(options: argparse.Namespace, console: Console) -> int:
    name, *title = options.words
    info = name_session(name, " ".join(title), place_of(options))
    console.say(f"session {info.id} is called {' '.join(title)!r} now")
    return 0


def _remove(options: argparse.Namespace, console: Console) -> int:
    info = remove_session(" ".join(options.words), place_of(options))
    console.say(f"session {info.id} was removed")
    return 0


def _purge(options: argparse.Namespace, console: Console) -> int:
    removed = purge_sessions(options.keep, place_of(options))
    for info in removed:
        console.row(info.id)
    console.say(
        f"{counted(len(removed), 'session was', 'sessions were')} removed; the last {options.keep} of this folder stay"
    )
    return 0


def _import(options: argparse.Namespace, console: Console) -> int:
    session, problems = import_file(" ".join(options.words), place_of(options))
    for problem in problems:
        console.say(f"note: {problem}")
    console.say(f"imported; go on with: mainspring --session {session} -p ...")
    console.row(session)
    return 0


def _time(when: datetime | None) -> str:
    return f"{when.astimezone():%Y-%m-%d %H:%M}" if when else "?"
