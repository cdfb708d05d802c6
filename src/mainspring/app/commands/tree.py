"""The tree of a session, a line for each thing that was said or happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mainspring.app.export.format import NAMES, headline
from mainspring.app.workspace.export import Item, Transcript
from mainspring.text import visible

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
