"""The history of a conversation and its open calls, built from the entries of a session.

Reading and writing apply entries in the same way, so that the state in memory equals what a reader of the file gets.

Each call has exactly one result directly after it, even if the program was killed. Results that are added later describe what
really happened, if known, and are marked as errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.messages import (
    AgentMessage,
    ContentBlock,
    Message,
    Role,
    StopReason,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from mainspring.prompt_tags import strip_attachments
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


class UnfinishedCalls(Struct, eq=False):
    """A message with calls that has not joined the history yet, and the state of the calls.

    Attributes:
        entry: The entry with the message.
        at: Its position in the history.
        started: IDs of the calls whose tool was started.
        results: By call ID: the entry with the result, and the result.
        reasons: The questions by call ID, if the run paused for them and nothing has happened since.
        doubtful: Whether lines after it were lost, so that a missing line proves nothing.
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
    """Create the message that summarizes an abandoned branch."""
    name = f' label="{entry.label}"' if entry.label else ""
    text = f"<left-branch{name}>\nThis was tried before, and left:\n\n{entry.summary}\n</left-branch>"
    return Message.user(text, timestamp=entry.timestamp, id=entry.id)


class History:
    """The history after the entries applied so far.

    Attributes:
        messages: The messages, oldest first.
        entry_ids: The entry of each message. Empty for a message without its own entry.
        open: Calls that have not joined, by the ID of their ``intent``.
        run: The run that has started and not ended.
        ended: The outcome of the last run that ended.
        model: The last selected model.
        skipped: Entries that did not fit the earlier ones, for `Problem`.
    """

    def __init__(self) -> None:
        self.messages: list[AgentMessage] = []
        self.entry_ids: list[str] = []
        self.open: dict[str, UnfinishedCalls] = {}
        self.run: RunStartEntry | None = None
        self.ended: RunEndEntry | None = None
        self.model = ""
        self.skipped: list[str] = []

    def apply(self, entry: Entry, results_message: Message | None = None) -> None:
        """Apply an entry.

        Args:
            entry: The next entry of the path.
            results_message: For a ``pair`` that is being written, the message with the results.
        """
        match entry:
            case MessageEntry():
                self._add(entry.message, entry.id)
            case IntentEntry():
                self.open[entry.id] = UnfinishedCalls(entry, len(self.messages))
            case CallStartedEntry() | ResultEntry() | PauseEntry():
                self._apply_progress(entry)
            case PairEntry():
                self._apply_results(entry, results_message)
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

    def entries_by_message(self) -> dict[int, str]:
        """Map the identity of each message of the history to its entry."""
        return {id(m): ref for m, ref in zip(self.messages, self.entry_ids, strict=True) if ref}

    def find(self, message: Message) -> UnfinishedCalls | None:
        """Return the open calls of a message."""
        for calls in reversed(self.open.values()):
            if calls.message is message or (message.id and calls.message.id == message.id):
                return calls
        return None

    def _add(self, message: AgentMessage, ref: str) -> None:
        self.messages.append(message)
        self.entry_ids.append(ref)

    def _apply_progress(self, entry: CallStartedEntry | ResultEntry | PauseEntry) -> None:
        calls = self.open.get(entry.intent)
        if calls is None:
            self.skipped.append(f"{entry.id}: the calls it belongs to ({entry.intent}) are missing")
            return
        match entry:
            case CallStartedEntry():
                calls.started.add(entry.call)
                calls.reasons = None
            case ResultEntry():
                calls.results[entry.call] = (entry.id, entry.result)
                calls.reasons = None
            case _:
                calls.reasons = entry.reasons

    def _apply_results(self, entry: PairEntry, merged_message: Message | None) -> None:
        calls = self.open.pop(entry.intent, None)
        if calls is None:
            self.skipped.append(f"{entry.id}: the calls it belongs to ({entry.intent}) are missing")
            return
        if merged_message is None:
            named = dict(calls.results.values())
            blocks = tuple([named[ref] for ref in entry.results if ref in named])
            merged_message = Message("user", blocks, timestamp=entry.timestamp, id=entry.message)
        if calls.at == len(self.messages):
            self._add(calls.message, entry.intent)
            self._add(merged_message, entry.id)
            return
        self.messages[calls.at : calls.at] = [calls.message, merged_message]
        self.entry_ids[calls.at : calls.at] = [entry.intent, entry.id]
        for other in self.open.values():
            if other.at > calls.at:
                other.at += 2

    def _apply_compaction(self, entry: CompactionEntry) -> None:
        stored = dict(zip(self.entry_ids, self.messages, strict=True))
        stored.update({ref: calls.message for ref, calls in self.open.items()})
        self.messages, self.entry_ids, self.open = [], [], {}
        for item in entry.history:
            if not isinstance(item, Kept):
                self._add(item, "")
            elif item.entry in stored:
                self._add(stored[item.entry], item.entry)
            else:
                self.skipped.append(f"{entry.id}: a message that it keeps ({item.entry}) is missing")


INTERRUPTED_TEXT = (
    "Interrupted, outcome unknown: the program was stopped while this call was running. It may have taken effect in full, in "
    "part or not at all; look before you make it again."
)
NOT_STARTED = "Not started: the program was stopped before this call ran."
RECORD_LOST = "Outcome unknown: the record of this call is damaged. Look before you make it again."


def build_missing_results(calls: UnfinishedCalls) -> list[ToolResultBlock]:
    """Create a result with the reason for each call without one, in the order of the calls."""
    return [_missing(calls, call) for call in calls.message.tool_uses if call.id not in calls.results]


def _missing(calls: UnfinishedCalls, call: ToolUseBlock) -> ToolResultBlock:
    if calls.doubtful:
        text = RECORD_LOST
    else:
        text = INTERRUPTED_TEXT if call.id in calls.started else NOT_STARTED
    return ToolResultBlock(call.id, call.name, text, True)


def repair_pairs(
    messages: Sequence[AgentMessage], entry_ids: Sequence[str]
) -> tuple[list[AgentMessage], list[str], int] | None:
    """Repair the history so that each call has one result directly after it, and no result lacks its call.

    Returns:
        The messages, their entries, and the number of repaired places. ``None`` if nothing was to repair.
    """
    out: list[AgentMessage] = []
    postponed: list[str] = []
    repaired = 0
    waiting: Sequence[ToolUseBlock] = ()
    for message, ref in zip(messages, entry_ids, strict=True):
        if not isinstance(message, Message):  # The model does not see it, so its position does not matter.
            out.append(message)
            postponed.append(ref)
            continue
        results = message.tool_results
        answering = bool(results) and message.role == "user"
        if waiting and not answering:
            out.append(_lost_results(waiting, message))
            postponed.append("")
            repaired += 1
        fixed = _with_results(message, waiting if answering else []) if results else message
        repaired += fixed is not message
        waiting = fixed.tool_uses if fixed.role == "assistant" else ()
        if fixed.content or not results:
            out.append(fixed)
            postponed.append(ref if fixed is message else "")
    if waiting:
        out.append(_lost_results(waiting, out[-1]))
        postponed.append("")
        repaired += 1
    return (out, postponed, repaired) if repaired else None


def _lost_results(calls: Sequence[ToolUseBlock], near: AgentMessage) -> Message:
    blocks = tuple([ToolResultBlock(c.id, c.name, RECORD_LOST, True) for c in calls])
    return Message("user", blocks, timestamp=near.timestamp)


def _with_results(message: Message, calls: Sequence[ToolUseBlock]) -> Message:
    """Return the message with one result for each of ``calls``, in their order, before its other content."""
    given: dict[str, ToolResultBlock] = {}
    for block in message.tool_results:
        given.setdefault(block.tool_use_id, block)
    requested = [given.get(c.id) or ToolResultBlock(c.id, c.name, RECORD_LOST, True) for c in calls]
    if len(message.tool_results) == len(requested) and all(
        a is b for a, b in zip(message.tool_results, requested, strict=True)
    ):
        return message
    rest = [b for b in message.content if not isinstance(b, ToolResultBlock)]
    return replace(message, content=(*requested, *rest))


class SessionTurn(Struct, frozen=True, kw_only=True, eq=False):
    """A stored message.

    Attributes:
        id: Its stored ID.
        role: Its role.
        blocks: Its content.
        usage: Token usage of the call that created it.
        created_at: Time in UTC.
        stop_reason: Why the model stopped.
        error: The error, if any.
        provider: The provider.
        model: The model.
    """

    id: str
    role: Role
    blocks: tuple[ContentBlock, ...]
    usage: Usage | None = None
    created_at: datetime
    stop_reason: StopReason | None = None
    error: str | None = None
    provider: str | None = None
    model: str | None = None


def to_stored_messages(messages: Iterable[AgentMessage], ids: Iterable[str]) -> list[SessionTurn]:
    """Convert a history to turns, without application messages.

    Args:
        messages: The history.
        ids: For each message, the ID of a turn without an ID.
    """
    return [
        SessionTurn(
            id=m.id or id,
            role=m.role,
            blocks=m.content,
            usage=m.usage,
            created_at=m.timestamp,
            stop_reason=m.stop_reason,
            error=m.error,
            provider=m.provider,
            model=m.model,
        )
        for m, id in zip(messages, ids, strict=True)
        if isinstance(m, Message)
    ]


def turns_to_messages(turns: Iterable[SessionTurn]) -> list[Message]:
    """Convert stored turns to messages, without loss."""
    return [
        Message(
            role=t.role,
            content=t.blocks,
            usage=t.usage,
            stop_reason=t.stop_reason,
            error=t.error,
            provider=t.provider,
            model=t.model,
            timestamp=t.created_at,
            id=t.id,
        )
        for t in turns
    ]


def prompt_preview(text: str) -> str:
    """Return a prompt on one line, for lists: the user's text, without attached text."""
    words = strip_attachments(text).split() or text.split()
    return " ".join(words)
