"""Sessions: a conversation is stored as it happens, and goes on after the process has ended, however it ended."""

from typing import TYPE_CHECKING

from mainspring.lazy import exports
from mainspring.sessions.entries import (
    BranchEntry,
    CallStartedEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    IntentEntry,
    Kept,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    PairEntry,
    PauseEntry,
    ResultEntry,
    RunEndEntry,
    RunStartEntry,
    SessionEntry,
    decode_entry,
    encode_entry,
    entry_schema,
)
from mainspring.sessions.journal import SessionOptions
from mainspring.sessions.jsonl_store import JsonlLog, JsonlStore
from mainspring.sessions.memory_store import MemoryLog, MemoryStore
from mainspring.sessions.plug import SessionPlug
from mainspring.sessions.session import Session, list_sessions, store_of
from mainspring.sessions.store import Problem, Row, SessionInfo, SessionLog, SessionStore
from mainspring.sessions.stored_messages import SessionTurn, turns_to_messages

if TYPE_CHECKING:
    from mainspring.sessions.branch_summary import branch_with_summary as branch_with_summary
    from mainspring.sessions.event_log import EventLog as EventLog
    from mainspring.sessions.event_log import LogEvent as LogEvent
    from mainspring.sessions.event_log import all_events as all_events
    from mainspring.sessions.event_log import read_events as read_events
    from mainspring.sessions.import_export import find_session as find_session
    from mainspring.sessions.import_export import import_session as import_session
    from mainspring.sessions.import_export import raw_lines as raw_lines
    from mainspring.sessions.runs import SessionRun, session_runs
    from mainspring.sessions.search import Hit, search_sessions
    from mainspring.sessions.sqlite_store import SqliteLog as SqliteLog
    from mainspring.sessions.sqlite_store import SqliteStore as SqliteStore
    from mainspring.sessions.transcript import Item, Transcript, TranscriptCall, read_transcript

__all__ = [
    "BranchEntry",
    "CallStartedEntry",
    "CompactionEntry",
    "CustomEntry",
    "Entry",
    "EventLog",
    "Hit",
    "IntentEntry",
    "Item",
    "JsonlLog",
    "JsonlStore",
    "Kept",
    "LabelEntry",
    "LogEvent",
    "MemoryLog",
    "MemoryStore",
    "MessageEntry",
    "ModelChangeEntry",
    "PairEntry",
    "PauseEntry",
    "Problem",
    "ResultEntry",
    "Row",
    "RunEndEntry",
    "RunStartEntry",
    "Session",
    "SessionEntry",
    "SessionInfo",
    "SessionLog",
    "SessionOptions",
    "SessionPlug",
    "SessionRun",
    "SessionStore",
    "SessionTurn",
    "SqliteLog",
    "SqliteStore",
    "Transcript",
    "TranscriptCall",
    "all_events",
    "branch_with_summary",
    "decode_entry",
    "encode_entry",
    "entry_schema",
    "find_session",
    "import_session",
    "list_sessions",
    "raw_lines",
    "read_events",
    "read_transcript",
    "search_sessions",
    "session_runs",
    "store_of",
    "turns_to_messages",
]

# What not every program needs is loaded when it is asked for.
_, __getattr__ = exports(
    __name__,
    {
        "branch_summary": "branch_with_summary",
        "event_log": "EventLog LogEvent all_events read_events",
        "import_export": "find_session import_session raw_lines",
        "runs": "SessionRun session_runs",
        "search": "Hit search_sessions",
        "sqlite_store": "SqliteLog SqliteStore",
        "transcript": "Item Transcript TranscriptCall read_transcript",
    },
)
