"""A session in readable form: every message of every branch, calls with their results, and other events."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from mainspring import errors
from mainspring.events.base import STOP_DESCRIPTIONS
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

TranscriptItemKind = Literal[
    "user", "assistant", "system", "compaction", "branch", "model", "pause", "error", "stop", "custom"
]
"""The kind of a transcript item. ``error``: a run failed; ``stop``: it was stopped, by the user or a limit."""


class TranscriptCall(Struct, frozen=True, kw_only=True):
    """A tool call and its result.

    Attributes:
        id: ID of the call.
        name: Name of the tool.
        input: Its arguments, or their text if they were not a JSON object.
        output: Its output. ``None`` if that is not stored.
        images: Images in the result.
        is_error: Whether it failed.
        details: Data that the tool stores for applications, for example, the diff of an edit.
        seconds: Run time.
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
    """A message or event.

    Attributes:
        id: Its entry.
        parent: The previous item on its branch. None for the first.
        kind: Its kind.
        when: Time in UTC.
        text: The text of the message, or a description of the event.
        thinking: Reasoning of the model.
        images: Its images.
        calls: Tool calls of the model.
        usage: Tokens and cost of the model call.
        model: The model, as ``provider:model``.
        error: The error, if any.
        source: The source of a user message: ``prompt``, ``steer``, ``follow_up``, ...
        label: Label of the entry.
        active: Whether it is on the current branch.
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
        id: ID of the session.
        title: Its title for users.
        cwd: Its folder.
        created: When it was created.
        items: Its items in the order in which they were written. A parent precedes its children.
        problems: Unreadable parts.
    """

    id: str
    title: str
    cwd: str
    created: datetime
    items: tuple[TranscriptItem, ...]
    problems: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls, including abandoned branches."""
        total = Usage.zero()
        for item in self.items:
            if item.usage:
                total += item.usage
        return total


def read_transcript(store: SessionStore, name: str | os.PathLike[str]) -> Transcript:
    """Read the transcript of a stored session. Nothing is locked or written.

    Args:
        store: The store.
        name: Its ID, a prefix of the ID, or its place.

    Raises:
        SessionError: If the session is unknown or not a session.
        OSError: If it cannot be read.
    """
    log = store.open(os.fspath(name), write=False)
    try:
        tree = read_tree(log)
        active = {node.id for node in tree.path(tree.leaf)}
        reader = _TranscriptBuilder(tree, active)
        for node, line in zip(tree.nodes.values(), read_path(log, tree.nodes.values()), strict=True):
            reader.add_entry(node.id, node.parent, line.entry)
        problems = [p.text for p in (*log.problems, *tree.problems)]
    finally:
        log.close()
    header = tree.header
    return Transcript(
        id=header.id,
        title=tree.labels.get(header.id, header.title),
        cwd=header.cwd,
        created=header.timestamp,
        items=tuple(reader.items()),
        problems=tuple(problems),
    )


class _TranscriptBuilder:
    """Iterates over the entries once, oldest first."""

    def __init__(self, tree: SessionTree, active: set[str]) -> None:
        self._tree = tree
        self._active = active
        self._last: dict[str, str | None] = {}  # for each entry, its item or the last item before it
        self._items: dict[str, TranscriptItem] = {}
        self._intents: dict[str, IntentEntry] = {}
        self._results: dict[str, ResultEntry] = {}
        self._of_intent: dict[str, list[str]] = {}

    def items(self) -> list[TranscriptItem]:
        """Return the items.

        Calls that never joined a history are included at their position, with what is known of them.
        """
        return list(self._items.values())

    def add_entry(self, id: str, parent: str | None, entry: Entry | None) -> None:
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
                return self._calls_item(entry, before, ())
            case ResultEntry():
                self._results[entry.id] = entry
                self._of_intent.setdefault(entry.intent, []).append(entry.id)
                self._update(entry.intent)
                return None
            case _:
                description = _describe_entry(entry)
                return None if description is None else self._plain(entry, before, *description)

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
        return self._message_item(entry, message, before, source=entry.source)

    def _message_item(self, entry: Entry, message: Message, before: str | None, **more: Any) -> TranscriptItem:
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

    def _calls_item(self, entry: IntentEntry, before: str | None, results: tuple[ResultEntry, ...]) -> TranscriptItem:
        named = {r.call: r for r in results}
        calls = tuple([_call(c, named.get(c.id)) for c in entry.message.tool_uses])
        return self._message_item(entry, entry.message, before, calls=calls)

    def _update(self, intent: str) -> None:
        entry, item = self._intents.get(intent), self._items.get(intent)
        if entry is not None and item is not None:
            results = tuple([self._results[id] for id in self._of_intent.get(intent, ())])
            self._items[intent] = self._calls_item(entry, item.parent, results)


def _describe_entry(entry: Entry) -> tuple[TranscriptItemKind, str] | None:
    """Describe an entry without a message for users.

    ``None`` for an entry that only the program uses.
    """
    match entry:
        case CompactionEntry():
            return "compaction", _compaction_text(entry)
        case BranchEntry():
            return "branch", "\n\n".join(filter(None, (entry.label, entry.summary)))
        case ModelChangeEntry():
            return "model", entry.model
        case PauseEntry():
            return "pause", "; ".join(entry.reasons.values())
        case RunEndEntry(status="aborted", error=error):
            return "stop", error.partition(": ")[2] or "Stopped"
        case RunEndEntry(status=status) if status in STOP_DESCRIPTIONS:
            return "stop", STOP_DESCRIPTIONS[status]
        case RunEndEntry(error=error) if error:
            return "error", _error_text(error)
        case _:  # Also data that an application or the chat stores for itself: only its name can be shown.
            return None


def _error_text(error: str) -> str:
    """Return the error for users. The name of a Mainspring class adds nothing to its message."""
    name, colon, text = error.partition(": ")
    return text if colon and hasattr(errors, name) else error


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


def _compaction_text(entry: CompactionEntry) -> str:
    """Return the messages that the compaction added to the history."""
    texts = [m.text for m in entry.history if isinstance(m, Message)]
    count = sum(isinstance(m, Kept) for m in entry.history)
    return "\n\n".join([f"({entry.reason or 'compacted'}; {pluralize(count, 'message')} preserved)", *texts])
