"""Session v1: the entries that a session is made of, one JSON object a line.

The first line is the header, `SessionEntry`. Every other entry names its ``parent``, so that the entries form a tree; a
conversation is the path from the root to a leaf. Keys are camelCase; a message inside an entry has the form of
`mainspring.messages.encode_message`. What a reader does not know (a field, a type of entry) it leaves alone.

Calls are written as they happen: ``intent`` (the model's message, before any call is looked at), ``call_started``,
``result``, and ``pair``, by which calls and results join the history in one write.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.messages import AgentMessage, CustomMessage, Message, ToolResultBlock, Usage, strip_surrogates

VERSION = 1
"""The version of the format that is written."""


class _Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type", eq=False):
    """What all entries have.

    Attributes:
        id: Unique in its session.
        parent: The entry before this one on its path; none at the root.
        timestamp: When, in UTC.
    """

    id: str
    parent: str | None
    timestamp: datetime


class SessionEntry(_Entry, frozen=True, kw_only=True, tag="session", eq=False):
    """The header, always the first line; ``id`` is that of the session, ``timestamp`` when it was made.

    Attributes:
        version: Of the format.
        cwd: The folder it belongs to, resolved.
        title: Name for people.
        forked_from: The session whose entries it began with.
    """

    version: int
    cwd: str
    title: str = ""
    forked_from: str = ""


class MessageEntry(_Entry, frozen=True, kw_only=True, tag="message", eq=False):
    """A message that joined the history: any but those of tool calls and their results.

    Attributes:
        message: The message.
        source: ``prompt``, ``steer``, ``follow_up``, ``assistant``, ``synthetic``, or ``given`` for a history that the
            application brought along.
        run: The run it came in.
    """

    message: AgentMessage
    source: str
    run: str = ""


class RunStartEntry(_Entry, frozen=True, kw_only=True, tag="run_start", eq=False):
    """A run began.

    Attributes:
        run: Its id.
        agent: Name of the agent.
        resumed: Whether there was a history before it.
        pid: The process.
        host: The machine.
    """

    run: str
    agent: str = ""
    resumed: bool = False
    pid: int = 0
    host: str = ""


class RunEndEntry(_Entry, frozen=True, kw_only=True, tag="run_end", eq=False):
    """A run ended. Where this is missing, its process was killed.

    Attributes:
        run: Its id.
        status: How it ended, as in `RunStatus`.
        turns: How many model calls it made.
        usage: Tokens of all of them.
        first: The first entry of the run that holds a message.
        last: The last one.
        error: What failed.
    """

    run: str
    status: str
    turns: int = 0
    usage: Usage = Usage()
    first: str = ""
    last: str = ""
    error: str = ""


class IntentEntry(_Entry, frozen=True, kw_only=True, tag="intent", eq=False):
    """The model asked for tools; written before any of the calls is looked at.

    Attributes:
        message: The message with the calls. It joins the history with the ``pair``.
        run: The run it came in.
    """

    message: Message
    run: str = ""


class CallStartedEntry(_Entry, frozen=True, kw_only=True, tag="call_started", eq=False):
    """A tool is about to run.

    Attributes:
        intent: The entry with the call.
        call: Id of the call.
        tool: Name of the tool.
        idempotent: Whether running it twice does no harm.
        input: The final arguments, where they are not those of the call.
    """

    intent: str
    call: str
    tool: str
    idempotent: bool
    input: dict[str, Any] | None = None


class ResultEntry(_Entry, frozen=True, kw_only=True, tag="result", eq=False):
    """A call has its result.

    Attributes:
        intent: The entry with the call.
        call: Id of the call.
        result: What it gave.
        seconds: How long the tool took.
        repaired: Whether it was put in after the program had been stopped.
    """

    intent: str
    call: str
    result: ToolResultBlock
    seconds: float = 0.0
    repaired: bool = False


class PairEntry(_Entry, frozen=True, kw_only=True, tag="pair", eq=False):
    """Calls and results join the history together.

    Attributes:
        intent: The entry with the message of the calls.
        results: The entries with the results, in the order of the calls.
        message: Id of the message that holds the results.
        repaired: Whether it was put in after the program had been stopped.
    """

    intent: str
    results: tuple[str, ...]
    message: str = ""
    repaired: bool = False


class PauseEntry(_Entry, frozen=True, kw_only=True, tag="pause", eq=False):
    """The run stopped with calls that wait for an answer.

    Attributes:
        intent: The entry with the calls.
        reasons: What is to be answered, by call id.
    """

    intent: str
    reasons: dict[str, str]


class Kept(Struct, frozen=True, tag_field="kind", tag="kept", rename="camel"):
    """A message of a compacted history that stands in an earlier entry (a ``message``, an ``intent`` or a ``pair``)."""

    entry: str


class Before(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a reader needs to know of all that lies before a compaction, so that it need not be read.

    Attributes:
        entries: How many entries there are.
        damaged: How many lines cannot be read.
        labels: Names of entries and of the session, by id.
        model: The model that was chosen last on this path.
        run: The run that has begun on this path and not ended.
        ended: The last run on this path that ended.
    """

    entries: int = 0
    damaged: int = 0
    labels: dict[str, str] = {}
    model: str = ""
    run: RunStartEntry | None = None
    ended: RunEndEntry | None = None


class CompactionEntry(_Entry, frozen=True, kw_only=True, tag="compaction", eq=False):
    """The history became another, usually a shorter one. The entries before it stay as they are.

    Attributes:
        history: The new history: messages, and references to those that stayed.
        reason: Why.
        before: What lies before it, in short.
    """

    history: tuple[Kept | Message | CustomMessage, ...]
    reason: str = ""
    before: Before | None = None


class BranchEntry(_Entry, frozen=True, kw_only=True, tag="branch", eq=False):
    """The conversation goes on from ``parent``, wherever it stood before.

    Attributes:
        label: Why, or a name.
        left: The leaf that was left.
        summary: What was said on the branch that was left, in short; it joins the history as a message of the user.
    """

    label: str = ""
    left: str = ""
    summary: str = ""


class LabelEntry(_Entry, frozen=True, kw_only=True, tag="label", eq=False):
    """A name for an entry; on the session's own id, its title. The last one holds, an empty one takes it away.

    Attributes:
        target: The entry, or the session.
        label: The name.
    """

    target: str
    label: str


class ModelChangeEntry(_Entry, frozen=True, kw_only=True, tag="model_change", eq=False):
    """Another model answers from here on.

    Attributes:
        model: As ``provider:model``.
        thinking: How much it is to reason; empty where that was not set.
    """

    model: str
    thinking: str = ""


class CustomEntry(_Entry, frozen=True, kw_only=True, tag="custom", eq=False):
    """Something of an application's own. It is no part of the history; for that there is `CustomMessage`.

    Attributes:
        custom_type: What it is.
        data: Any JSON value.
    """

    custom_type: str
    data: Any = None


Entry = (
    SessionEntry
    | MessageEntry
    | RunStartEntry
    | RunEndEntry
    | IntentEntry
    | CallStartedEntry
    | ResultEntry
    | PairEntry
    | PauseEntry
    | CompactionEntry
    | BranchEntry
    | LabelEntry
    | ModelChangeEntry
    | CustomEntry
)
"""Everything a session can hold, told apart by ``type``."""


class EntryHeader(Struct, frozen=True):
    """What any entry has, also one of a type that this version does not know."""

    type: str
    id: str
    parent: str | None


ENTRY_TYPES = frozenset({str(kind.__struct_config__.tag) for kind in Entry.__args__})
"""The types of entries of this version."""

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a line may raise."""

_encoder = msgspec.json.Encoder(enc_hook=str)
_entries = msgspec.json.Decoder(Entry)
_links = msgspec.json.Decoder(EntryHeader)


def encode_entry(entry: Entry) -> bytes:
    """One entry as a line of JSON, without the line end.

    A lone surrogate becomes U+FFFD. What JSON has no form for (in ``details`` of a result, in an application's own data)
    becomes text.

    Raises:
        RecursionError: If the data of an application contains itself.
    """
    try:
        return _encoder.encode(entry)
    except (UnicodeEncodeError, TypeError, OverflowError):
        return _encoder.encode(_to_json_value(msgspec.to_builtins(entry, enc_hook=str)))
    except RecursionError:
        if not isinstance(entry, ResultEntry) or entry.result.details is None:
            raise
        text = "left out: it contains itself"
        return encode_entry(replace(entry, result=replace(entry.result, details=text)))


def _to_json_value(value: Any) -> Any:
    """The same value with text in place of what JSON cannot hold."""
    match value:
        case dict():
            return {strip_surrogates(str(k)): _to_json_value(v) for k, v in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_to_json_value(v) for v in cast("list[Any]", value)]
        case int() if not -(1 << 63) <= value < (1 << 64):
            return str(value)
        case _:
            return strip_surrogates(value)


def decode_entry(line: bytes) -> Entry:
    """The entry of a line.

    Raises:
        UNREADABLE: If it is none that this version knows.
    """
    return _entries.decode(line)


def decode_header(line: bytes) -> EntryHeader:
    """Type, id and parent of a line, whatever else is in it.

    Raises:
        UNREADABLE: If it is no entry.
    """
    return _links.decode(line)


def entry_schema() -> dict[str, Any]:
    """The JSON Schema of one line of a session file."""
    schema = msgspec.json.schema(Entry)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of a Mainspring session file, version {VERSION}",
        **schema,
    }
