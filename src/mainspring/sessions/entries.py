"""Session v1: the entries of a session, one JSON object per line.

The first line is the header, `SessionEntry`. Every other entry names its ``parent``, so that the entries form a tree; a
conversation is the path from the root to a leaf. Keys are camelCase; a message inside an entry has the form of
`mainspring.messages.encode_message`. A reader ignores unknown fields and types of entries.

Calls are written as they happen: ``intent`` (the model's message, before any call is checked), ``call_started``,
``result``, and ``pair``, which adds calls and results to the history in one write.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.events.codec import unindent_descriptions
from mainspring.lazy import lazy_decoder
from mainspring.messages import AgentMessage, CustomMessage, Message, ToolResultBlock, Usage, strip_surrogates

VERSION = 1
"""The version of the format that this program writes."""


class _Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type", eq=False):
    """Common fields of all entries.

    Attributes:
        id: Unique in its session.
        parent: The previous entry on its path. None at the root.
        timestamp: Time in UTC.
    """

    id: str
    parent: str | None
    timestamp: datetime


class SessionEntry(_Entry, frozen=True, kw_only=True, tag="session", eq=False):
    """The header, always the first line.

    ``id`` is the session's ID, ``timestamp`` its creation time.

    Attributes:
        version: Version of the format.
        cwd: The folder of the session, resolved.
        title: Title for users.
        forked_from: The session that this one was forked from.
    """

    version: int
    cwd: str
    title: str = ""
    forked_from: str = ""


class MessageEntry(_Entry, frozen=True, kw_only=True, tag="message", eq=False):
    """A message that joined the history. Not used for tool calls and their results.

    Attributes:
        message: The message.
        source: ``prompt``, ``steer``, ``follow_up``, ``assistant``, ``synthetic``, or ``given`` for a history that the
            application provided.
        run: ID of its run.
    """

    message: AgentMessage
    source: str
    run: str = ""


class RunStartEntry(_Entry, frozen=True, kw_only=True, tag="run_start", eq=False):
    """A run started.

    Attributes:
        run: Its ID.
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
    """A run ended. If this entry is missing, its process was killed.

    Attributes:
        run: Its ID.
        status: How it ended, see `RunStatus`.
        turns: Number of model calls.
        usage: Total token usage.
        first: The first entry of the run with a message.
        last: The last entry of the run with a message.
        error: The error, if it failed.
    """

    run: str
    status: str
    turns: int = 0
    usage: Usage = Usage()
    first: str = ""
    last: str = ""
    error: str = ""


class IntentEntry(_Entry, frozen=True, kw_only=True, tag="intent", eq=False):
    """The model requested tool calls. Written before any of the calls is checked.

    Attributes:
        message: The message with the calls. It joins the history with the ``pair``.
        run: ID of its run.
    """

    message: Message
    run: str = ""


class CallStartedEntry(_Entry, frozen=True, kw_only=True, tag="call_started", eq=False):
    """A tool is about to run.

    Attributes:
        intent: The entry with the call.
        call: ID of the call.
        tool: Name of the tool.
        idempotent: Whether running it twice is harmless.
        input: The final arguments, if they differ from those of the call.
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
        call: ID of the call.
        result: The result.
        seconds: Run time of the tool.
        repaired: Whether it was added after the program had been stopped.
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
        message: ID of the message with the results.
        repaired: Whether it was added after the program had been stopped.
    """

    intent: str
    results: tuple[str, ...]
    message: str = ""
    repaired: bool = False


class PauseEntry(_Entry, frozen=True, kw_only=True, tag="pause", eq=False):
    """The run paused with calls that wait for an answer.

    Attributes:
        intent: The entry with the calls.
        reasons: The question for each call ID.
    """

    intent: str
    reasons: dict[str, str]


class Kept(Struct, frozen=True, tag_field="kind", tag="kept", rename="camel"):
    """A reference to a message of a compacted history that is stored in an earlier entry (``message``, ``intent``, or ``pair``)."""

    entry: str


class Before(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A summary of all entries before a compaction, so that a reader can skip them.

    Attributes:
        entries: Number of entries.
        damaged: Number of unreadable lines.
        labels: Labels of entries and of the session, by ID.
        model: The last model selected on this path.
        run: The run that has started on this path and not ended.
        ended: The last run on this path that ended.
    """

    entries: int = 0
    damaged: int = 0
    labels: dict[str, str] = {}
    model: str = ""
    run: RunStartEntry | None = None
    ended: RunEndEntry | None = None


class CompactionEntry(_Entry, frozen=True, kw_only=True, tag="compaction", eq=False):
    """The history was replaced, usually by a shorter one. Earlier entries are unchanged.

    Attributes:
        history: The new history: messages, and references to unchanged ones.
        reason: The reason.
        before: Summary of the earlier entries.
    """

    history: tuple[Kept | Message | CustomMessage, ...]
    reason: str = ""
    before: Before | None = None


class BranchEntry(_Entry, frozen=True, kw_only=True, tag="branch", eq=False):
    """The conversation continues from ``parent``.

    Attributes:
        label: A reason or name.
        left: The leaf of the abandoned branch.
        summary: Summary of the abandoned branch. It joins the history as a user message.
    """

    label: str = ""
    left: str = ""
    summary: str = ""


class LabelEntry(_Entry, frozen=True, kw_only=True, tag="label", eq=False):
    """A label for an entry.

    On the session's own ID, the title. The last label applies; an empty one removes it.

    Attributes:
        target: The entry, or the session.
        label: The label.
    """

    target: str
    label: str


class ModelChangeEntry(_Entry, frozen=True, kw_only=True, tag="model_change", eq=False):
    """Another model responds from here on.

    Attributes:
        model: For example, ``provider:model``.
        thinking: Reasoning effort. Empty if not set.
    """

    model: str
    thinking: str = ""


class CustomEntry(_Entry, frozen=True, kw_only=True, tag="custom", eq=False):
    """Data of an application. Not part of the history; use `CustomMessage` for that.

    Attributes:
        custom_type: The application's type.
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
"""The union of all entries, distinguished by ``type``."""


class EntryHeader(Struct, frozen=True):
    """Fields of any entry, including types that this version does not know."""

    type: str
    id: str
    parent: str | None = None


ENTRY_TYPES = frozenset({str(kind.__struct_config__.tag) for kind in Entry.__args__})
"""The entry types of this version."""

ENTRY_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding a line may raise."""

_encoder = msgspec.json.Encoder(enc_hook=str)
_entries = lazy_decoder(Entry)
_links = lazy_decoder(EntryHeader)


def encode_entry(entry: Entry) -> bytes:
    """Encode one entry as a line of JSON, without the line end.

    A lone surrogate becomes U+FFFD. Values that JSON cannot represent (in ``details`` of a result, in an application's own data)
    become text.

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
    """Replace values that JSON cannot represent by text."""
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
    """Decode a line, also one without some of its fields.

    Raises:
        ENTRY_ERRORS: If it is not an entry of this version.
    """
    try:
        return _entries.decode(line)
    except ENTRY_ERRORS:
        if (entry := _decode_incomplete(line)) is None:
            raise
        return entry


def try_decode_entry(line: bytes) -> Entry | None:
    """Decode a line, also one without some of its fields. ``None`` if it is not an entry of this version."""
    try:
        return decode_entry(line)
    except ENTRY_ERRORS:
        return None


UNKNOWN_TIME = "1970-01-01T00:00:00Z"
"""The time of an entry without one."""

_DEFAULTS = {"parent": None, "timestamp": UNKNOWN_TIME, "source": "", "status": "", "idempotent": False}
"""Values of fields that the history does not need; only a program other than this one leaves them out."""


def _decode_incomplete(line: bytes) -> Entry | None:
    try:
        found = msgspec.json.decode(line, type=dict[str, Any])
        given = {key: value for key, value in found.items() if value is not None}
        if given.get("type") != SessionEntry.__struct_config__.tag:  # the ID of a session is in its name, too
            given.setdefault("id", hashlib.sha256(line).hexdigest()[:16])
        return cast("Entry", msgspec.convert({**_DEFAULTS, **given}, Entry))
    except ENTRY_ERRORS:
        return None


def decode_session_header(line: bytes, place: object) -> SessionEntry:
    """Decode the first line of a session.

    Raises:
        SessionError: If it is not a header. The message names the place.
    """
    entry = try_decode_entry(line)
    if not isinstance(entry, SessionEntry):
        raise SessionError(f"Not a session: the first line of {place} is not a session header.")
    return entry


def decode_header(line: bytes) -> EntryHeader:
    """Decode type, ID, and parent of a line, ignoring the rest. An entry without an ID gets one, always the same.

    Raises:
        ENTRY_ERRORS: If it is not an entry.
    """
    try:
        return _links.decode(line)
    except ENTRY_ERRORS:
        if (entry := _decode_incomplete(line)) is None:
            raise
        return EntryHeader(str(entry.__struct_config__.tag), entry.id, entry.parent)


def entry_schema() -> dict[str, Any]:
    """Return the JSON Schema of one line of a session file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of a Mainspring session file, version {VERSION}",
        **unindent_descriptions(msgspec.json.schema(Entry)),
    }
