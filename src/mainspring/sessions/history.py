"""What entries add up to: the history of a conversation, and the calls that are still open.

The same fold serves a session that is read and one that is being written, so that what is in memory is what a reader of
the file would get.

Every call has exactly one result right behind it, whatever became of the program that made it.

What is put in says what really happened, as far as that is known, and that it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock
from mainspring.sessions.entries import (
    BranchEntry,
    CallStartedEntry,
    CompactionEntry,
    Entry,
    IntentEntry,
    Kept,
    MessageEntry,
    ModelChangeEntry,
    PairEntry,
    PauseEntry,
    ResultEntry,
    RunEndEntry,
    RunStartEntry,
)


class PendingCalls(Struct, eq=False):
    """A message with calls that has not joined the history yet, and what is known of them.

    Attributes:
        entry: The entry with the message.
        at: Where in the history it stands.
        started: Ids of the calls whose tool was started.
        results: By call id: the entry with the result, and the result.
        reasons: What is to be answered, by call id, if the run stopped for that and nothing has happened since.
        doubtful: Whether lines after it were lost, so that nothing follows from what is missing.
    """

    entry: IntentEntry
    at: int
    started: set[str] = field(default_factory=set[str])
    results: dict[str, tuple[str, ToolResultBlock]] = field(default_factory=dict[str, tuple[str, ToolResultBlock]])
    reasons: dict[str, str] | None = None
    doubtful: bool = False

    @property
    def message(self) -> Message:
        """The message with the calls."""
        return self.entry.message


def branch_message(entry: BranchEntry) -> Message:
    """What a new branch knows of the one that was left."""
    name = f' label="{entry.label}"' if entry.label else ""
    text = f"<left-branch{name}>\nThis was tried before, and left:\n\n{entry.summary}\n</left-branch>"
    return Message.user(text, timestamp=entry.timestamp, id=entry.id)


class History:
    """The history as far as entries have been applied.

    Attributes:
        messages: The messages, oldest first.
        refs: For each the entry that holds it; empty for one that stands in no entry of its own.
        open: Calls that have not joined, by the id of their ``intent``.
        run: The run that has begun and not ended.
        ended: How the last run that ended did so.
        model: The model that was chosen last.
        lost: Entries that did not fit what was before them, for `Problem`.
    """

    def __init__(self) -> None:
        self.messages: list[AgentMessage] = []
        self.refs: list[str] = []
        self.open: dict[str, PendingCalls] = {}
        self.run: RunStartEntry | None = None
        self.ended: RunEndEntry | None = None
        self.model = ""
        self.lost: list[str] = []

    def apply(self, entry: Entry, joined: Message | None = None) -> None:
        """Take an entry in.

        Args:
            entry: The next one of the path.
            joined: For a ``pair`` that is being written, the message with the results.
        """
        match entry:
            case MessageEntry():
                self._add(entry.message, entry.id)
            case IntentEntry():
                self.open[entry.id] = PendingCalls(entry, len(self.messages))
            case CallStartedEntry() | ResultEntry() | PauseEntry():
                self._progress(entry)
            case PairEntry():
                self._apply_results(entry, joined)
            case CompactionEntry():
                self._apply_compaction(entry)
            case RunStartEntry():
                self.run = entry
            case RunEndEntry():
                self.run, self.ended = None, entry
            case ModelChangeEntry():
                self.model = entry.model
            case BranchEntry():
                self.run = None
                if entry.summary:
                    self._add(branch_message(entry), entry.id)
            case _:
                pass

    def places(self) -> dict[int, str]:
        """The entry that holds each message of the history, by the message's identity."""
        return {id(m): ref for m, ref in zip(self.messages, self.refs, strict=True) if ref}

    def find(self, message: Message) -> PendingCalls | None:
        """The open calls of a message."""
        for calls in reversed(self.open.values()):
            if calls.message is message or (message.id and calls.message.id == message.id):
                return calls
        return None

    def _add(self, message: AgentMessage, ref: str) -> None:
        self.messages.append(message)
        self.refs.append(ref)

    def _progress(self, entry: CallStartedEntry | ResultEntry | PauseEntry) -> None:
        calls = self.open.get(entry.intent)
        if calls is None:
            self.lost.append(f"{entry.id}: the calls it belongs to ({entry.intent}) are not there")
            return
        match entry:
            case CallStartedEntry():
                calls.started.add(entry.call)
                calls.reasons = None
            case ResultEntry():
                calls.results[entry.call] = (entry.id, entry.result)
                calls.reasons = None
            case PauseEntry():
                calls.reasons = entry.reasons

    def _apply_results(self, entry: PairEntry, joined: Message | None) -> None:
        calls = self.open.pop(entry.intent, None)
        if calls is None:
            self.lost.append(f"{entry.id}: the calls it belongs to ({entry.intent}) are not there")
            return
        if joined is None:
            named = dict(calls.results.values())
            blocks = tuple([named[ref] for ref in entry.results if ref in named])
            joined = Message("user", blocks, timestamp=entry.timestamp, id=entry.message)
        if calls.at == len(self.messages):
            self._add(calls.message, entry.intent)
            self._add(joined, entry.id)
            return
        self.messages[calls.at : calls.at] = [calls.message, joined]
        self.refs[calls.at : calls.at] = [entry.intent, entry.id]
        for other in self.open.values():
            if other.at > calls.at:
                other.at += 2

    def _apply_compaction(self, entry: CompactionEntry) -> None:
        stored = dict(zip(self.refs, self.messages, strict=True))
        stored.update({ref: calls.message for ref, calls in self.open.items()})
        self.messages, self.refs, self.open = [], [], {}
        for item in entry.history:
            if not isinstance(item, Kept):
                self._add(item, "")
            elif item.entry in stored:
                self._add(stored[item.entry], item.entry)
            else:
                self.lost.append(f"{entry.id}: a message that it keeps ({item.entry}) is not there")


INTERRUPTED = (
    "Interrupted, outcome unknown: the program was stopped while this call was running. It may have taken effect in full, in "
    "part or not at all; look before you make it again."
)
NOT_STARTED = "Not started: the program was stopped before this call ran."
RECORD_LOST = "Outcome unknown: the record of this call is damaged. Look before you make it again."


def build_missing_results(calls: PendingCalls) -> list[ToolResultBlock]:
    """For each call without a result one that says why, in the order of the calls."""
    return [_missing(calls, call) for call in calls.message.tool_uses if call.id not in calls.results]


def _missing(calls: PendingCalls, call: ToolUseBlock) -> ToolResultBlock:
    if calls.doubtful:
        text = RECORD_LOST
    else:
        text = INTERRUPTED if call.id in calls.started else NOT_STARTED
    return ToolResultBlock(call.id, call.name, text, True)


def repair_pairs(
    messages: Sequence[AgentMessage], refs: Sequence[str]
) -> tuple[list[AgentMessage], list[str], int] | None:
    """The history with each call answered once, right behind it, and no result without its call.

    Returns:
        The messages, the entries that hold them, and how many places were mended; ``None`` if there was nothing to do.
    """
    out: list[AgentMessage] = []
    held: list[str] = []
    mended = 0
    waiting: Sequence[ToolUseBlock] = ()
    for message, ref in zip(messages, refs, strict=True):
        if not isinstance(message, Message):  # a model does not see it, so it may stand anywhere
            out.append(message)
            held.append(ref)
            continue
        results = message.tool_results
        answering = bool(results) and message.role == "user"
        if waiting and not answering:
            out.append(_lost_results(waiting, message))
            held.append("")
            mended += 1
        fixed = _with_results(message, waiting if answering else []) if results else message
        mended += fixed is not message
        waiting = fixed.tool_uses if fixed.role == "assistant" else ()
        if fixed.content or not results:
            out.append(fixed)
            held.append(ref if fixed is message else "")
    if waiting:
        out.append(_lost_results(waiting, out[-1]))
        held.append("")
        mended += 1
    return (out, held, mended) if mended else None


def _lost_results(calls: Sequence[ToolUseBlock], near: AgentMessage) -> Message:
    blocks = tuple([ToolResultBlock(c.id, c.name, RECORD_LOST, True) for c in calls])
    return Message("user", blocks, timestamp=near.timestamp)


def _with_results(message: Message, calls: Sequence[ToolUseBlock]) -> Message:
    """The message with one result for each of ``calls``, in their order, before whatever else it holds."""
    given: dict[str, ToolResultBlock] = {}
    for block in message.tool_results:
        given.setdefault(block.tool_use_id, block)
    wanted = [given.get(c.id) or ToolResultBlock(c.id, c.name, RECORD_LOST, True) for c in calls]
    if len(message.tool_results) == len(wanted) and all(
        a is b for a, b in zip(message.tool_results, wanted, strict=True)
    ):
        return message
    rest = [b for b in message.content if not isinstance(b, ToolResultBlock)]
    return replace(message, content=(*wanted, *rest))
