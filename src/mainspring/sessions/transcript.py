"""A session as people read it: every message of every branch, calls with their results, and what else happened."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from mainspring import errors
from mainspring.messages import CustomMessage, ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from mainspring.sessions.entries import (
    BranchEntry,
    CompactionEntry,
    Entry,
    IntentEntry,
    Kept,
    MessageEntry,
    ModelChangeEntry,
    PauseEntry,
    ResultEntry,
    RunEndEntry,
)
from mainspring.sessions.loader import SessionTree, read_path, read_tree
from mainspring.sessions.store import SessionStore
from mainspring.text import pluralize

TranscriptItemKind = Literal["user", "assistant", "system", "compaction", "branch", "model", "pause", "error", "custom"]
"""What an item of a transcript is."""


class TranscriptCall(Struct, frozen=True, kw_only=True):
    """A tool call and what became of it.

    Attributes:
        id: Id of the call.
        name: Name of the tool.
        input: Its arguments, or their text where they were no JSON object.
        output: What it gave; ``None`` if that is not stored.
        images: Images that it gave.
        is_error: Whether it failed.
        details: What the tool keeps for applications, as the diff of an edit.
        seconds: How long it took.
    """

    id: str
    name: str
    input: dict[str, Any] | str
    output: str | None = None
    images: tuple[ImageBlock, ...] = ()
    is_error: bool = False
    details: Any = None
    seconds: float = 0.0


class TranscriptItem(Struct, frozen=True, kw_only=True):
    """One thing that was said or happened.

    Attributes:
        id: The entry that holds it.
        parent: The item before it on its branch; none for the first.
        kind: What it is.
        when: When, in UTC.
        text: What was said, or what there is to say about it.
        thinking: Reasoning of the model.
        images: Images in it.
        calls: Tool calls of the model.
        usage: Tokens and cost of the model call.
        model: Who answered, as ``provider:model``.
        error: What went wrong.
        source: Where a message of the user came from: ``prompt``, ``steer``, ``follow_up``, ...
        label: Name that the entry was given.
        active: Whether it is on the branch that the session goes on with.
    """

    id: str
    parent: str | None
    kind: TranscriptItemKind
    when: datetime
    text: str = ""
    thinking: str = ""
    images: tuple[ImageBlock, ...] = ()
    calls: tuple[TranscriptCall, ...] = ()
    usage: Usage | None = None
    model: str = ""
    error: str = ""
    source: str = ""
    label: str = ""
    active: bool = True


class Transcript(Struct, frozen=True, kw_only=True):
    """A whole session.

    Attributes:
        id: Id of the session.
        title: Its name for people.
        cwd: Its folder.
        created: When it was made.
        items: What is in it, in the order in which it was written; a parent stands before its children.
        problems: What could not be read.
    """

    id: str
    title: str
    cwd: str
    created: datetime
    items: tuple[TranscriptItem, ...]
    problems: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls, those of branches that were left included."""
        total = Usage.zero()
        for item in self.items:
            if item.usage:
                total += item.usage
        return total


def read_transcript(store: SessionStore, name: str | os.PathLike[str]) -> Transcript:
    """The transcript of a stored session. Nothing is locked or written.

    Args:
        store: Where it is kept.
        name: Its id, the beginning of its id, or its place.

    Raises:
        SessionError: If there is no such session, or what is there is none.
        OSError: If it cannot be read.
    """
    log = store.open(os.fspath(name), write=False)
    try:
        tree = read_tree(log)
        active = {node.id for node in tree.path(tree.leaf)}
        reader = _TranscriptBuilder(tree, active)
        for node, line in zip(tree.nodes.values(), read_path(log, tree.nodes.values()), strict=True):
            reader.take(node.id, node.parent, line.entry)
    finally:
        log.close()
    header = tree.header
    return Transcript(
        id=header.id,
        title=tree.labels.get(header.id, header.title),
        cwd=header.cwd,
        created=header.timestamp,
        items=tuple(reader.items()),
        problems=tuple(p.text for p in tree.problems),
    )


class _TranscriptBuilder:
    """Goes over the entries once, oldest first."""

    def __init__(self, tree: SessionTree, active: set[str]) -> None:
        self._tree = tree
        self._active = active
        self._last: dict[str, str | None] = {}  # for each entry the item that stands there or last before it
        self._items: dict[str, TranscriptItem] = {}
        self._intents: dict[str, IntentEntry] = {}
        self._on_tool_results: dict[str, ResultEntry] = {}
        self._of_intent: dict[str, list[str]] = {}

    def items(self) -> list[TranscriptItem]:
        """What was found; calls that never joined a history stand at their place, with what is known of them."""
        return list(self._items.values())

    def take(self, id: str, parent: str | None, entry: Entry | None) -> None:
        before = None if parent is None else self._last.get(parent)
        item = None if entry is None else self._item(entry, before)
        if item is not None:
            self._items[item.id] = item
            self._last[id] = item.id
        else:
            self._last[id] = before

    def _item(self, entry: Entry, before: str | None) -> TranscriptItem | None:
        match entry:
            case MessageEntry(message=message):
                return self._message(entry, message, before)
            case IntentEntry():
                self._intents[entry.id] = entry
                return self._asked(entry, before, ())
            case ResultEntry():
                self._on_tool_results[entry.id] = entry
                self._of_intent.setdefault(entry.intent, []).append(entry.id)
                self._update(entry.intent)
                return None
            case _:
                told = _describe_entry(entry)
                return None if told is None else self._plain(entry, before, *told)

    def _plain(self, entry: Entry, before: str | None, kind: TranscriptItemKind, text: str) -> TranscriptItem:
        return TranscriptItem(
            id=entry.id,
            parent=before,
            kind=kind,
            when=entry.timestamp,
            text=text,
            label=self._tree.labels.get(entry.id, ""),
            active=entry.id in self._active,
        )

    def _message(self, entry: MessageEntry, message: Message | CustomMessage, before: str | None) -> TranscriptItem:
        if not isinstance(message, Message):
            return self._plain(entry, before, "custom", text=message.custom_type)
        return self._said(entry, message, before, source=entry.source)

    def _said(self, entry: Entry, message: Message, before: str | None, **more: Any) -> TranscriptItem:
        known = message.provider and message.model
        return TranscriptItem(
            id=entry.id,
            parent=before,
            kind=message.role,
            when=message.timestamp,
            text="\n".join(b.text for b in message.content if isinstance(b, TextBlock)),
            thinking=message.thinking,
            images=tuple([b for b in message.content if isinstance(b, ImageBlock)]),
            usage=message.usage,
            model=f"{message.provider}:{message.model}" if known else "",
            error=message.error or "",
            label=self._tree.labels.get(entry.id, ""),
            active=entry.id in self._active,
            **more,
        )

    def _asked(self, entry: IntentEntry, before: str | None, results: tuple[ResultEntry, ...]) -> TranscriptItem:
        named = {r.call: r for r in results}
        calls = tuple([_call(c, named.get(c.id)) for c in entry.message.tool_uses])
        return self._said(entry, entry.message, before, calls=calls)

    def _update(self, intent: str) -> None:
        entry, item = self._intents.get(intent), self._items.get(intent)
        if entry is not None and item is not None:
            results = tuple([self._on_tool_results[id] for id in self._of_intent.get(intent, ())])
            self._items[intent] = self._asked(entry, item.parent, results)


def _describe_entry(entry: Entry) -> tuple[TranscriptItemKind, str] | None:
    """What an entry that holds no message is to people; ``None`` for one that is only of use to the program."""
    match entry:
        case CompactionEntry():
            return "compaction", _kept(entry)
        case BranchEntry():
            return "branch", "\n\n".join(filter(None, (entry.label, entry.summary)))
        case ModelChangeEntry():
            return "model", entry.model
        case PauseEntry():
            return "pause", "; ".join(entry.reasons.values())
        case RunEndEntry(error=error) if error:
            return "error", _error_text(error, stopped=entry.status == "aborted")
        case _:  # also what an application or the chat keeps for itself: there is only its name to show
            return None


def _error_text(error: str, *, stopped: bool) -> str:
    """What went wrong, for people: the name of a class of ours says nothing that its text does not."""
    name, colon, text = error.partition(": ")
    said = text if colon and (hasattr(errors, name) or stopped) else error
    return f"stopped: {said}".rstrip(": ") if stopped else said


def _call(call: ToolUseBlock, result: ResultEntry | None) -> TranscriptCall:
    block: ToolResultBlock | None = result.result if result else None
    content = block.content if block else ""
    return TranscriptCall(
        id=call.id,
        name=call.name,
        input=call.input if call.raw_input is None else call.raw_input,
        output=None if block is None else block.text,
        images=() if isinstance(content, str) else tuple([b for b in content if isinstance(b, ImageBlock)]),
        is_error=block.is_error if block else False,
        details=block.details if block else None,
        seconds=result.seconds if result else 0.0,
    )


def _kept(entry: CompactionEntry) -> str:
    """What stands in the history from then on, as far as it is new."""
    texts = [m.text for m in entry.history if isinstance(m, Message)]
    count = sum(isinstance(m, Kept) for m in entry.history)
    return "\n\n".join([f"({entry.reason or 'compacted'}; {pluralize(count, 'message')} kept)", *texts])
