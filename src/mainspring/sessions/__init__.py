"""Sessions: a conversation is stored as it happens and can be resumed after the process ends, for any reason."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports
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
from mainspring.sessions.history import SessionTurn, turns_to_messages
from mainspring.sessions.home import list_sessions, resolve_store
from mainspring.sessions.journal import SessionOptions
from mainspring.sessions.jsonl_store import JsonlSessionLog, JsonlStore
from mainspring.sessions.session import Session, SessionPlug
from mainspring.sessions.store import (
    MemorySessionLog,
    MemorySessionStore,
    Problem,
    SessionInfo,
    SessionLog,
    SessionStore,
    StoredLine,
)

if TYPE_CHECKING:
    from mainspring.sessions.async_log import AsyncSessionStore as AsyncSessionStore
    from mainspring.sessions.async_sessions import AsyncSessions as AsyncSessions
    from mainspring.sessions.branch_summary import branch_and_summarize as branch_and_summarize
    from mainspring.sessions.event_log import (
        SessionEventLog as SessionEventLog,
        iter_all_events as iter_all_events,
        read_events as read_events,
    )
    from mainspring.sessions.import_export import (
        find_session as find_session,
        import_session as import_session,
        read_raw_lines as read_raw_lines,
    )
    from mainspring.sessions.log_lines import LogLine as LogLine
    from mainspring.sessions.output_offload import OffloadOutputsPlug as OffloadOutputsPlug
    from mainspring.sessions.runs import SessionRun as SessionRun, list_session_runs as list_session_runs
    from mainspring.sessions.search import SearchHit as SearchHit, search_sessions as search_sessions
    from mainspring.sessions.sqlite_store import (
        SqliteSessionLog as SqliteSessionLog,
        SqliteSessionStore as SqliteSessionStore,
    )
    from mainspring.sessions.transcript import (
        Transcript as Transcript,
        TranscriptCall as TranscriptCall,
        TranscriptItem as TranscriptItem,
        read_transcript as read_transcript,
    )

__all__ = [
    "AsyncSessionStore",
    "AsyncSessions",
    "BranchEntry",
    "CallStartedEntry",
    "CompactionEntry",
    "CustomEntry",
    "Entry",
    "IntentEntry",
    "JsonlSessionLog",
    "JsonlStore",
    "Kept",
    "LabelEntry",
    "LogLine",
    "MemorySessionLog",
    "MemorySessionStore",
    "MessageEntry",
    "ModelChangeEntry",
    "OffloadOutputsPlug",
    "PairEntry",
    "PauseEntry",
    "Problem",
    "ResultEntry",
    "RunEndEntry",
    "RunStartEntry",
    "SearchHit",
    "Session",
    "SessionEntry",
    "SessionEventLog",
    "SessionInfo",
    "SessionLog",
    "SessionOptions",
    "SessionPlug",
    "SessionRun",
    "SessionStore",
    "SessionTurn",
    "SqliteSessionLog",
    "SqliteSessionStore",
    "StoredLine",
    "Transcript",
    "TranscriptCall",
    "TranscriptItem",
    "branch_and_summarize",
    "decode_entry",
    "encode_entry",
    "entry_schema",
    "find_session",
    "import_session",
    "iter_all_events",
    "list_session_runs",
    "list_sessions",
    "read_events",
    "read_raw_lines",
    "read_transcript",
    "resolve_store",
    "search_sessions",
    "turns_to_messages",
]

# Modules that not every program needs are loaded on first use.
lazy_exports(
    __name__,
    {
        "async_log": "AsyncSessionStore",
        "async_sessions": "AsyncSessions",
        "branch_summary": "branch_and_summarize",
        "event_log": "SessionEventLog iter_all_events read_events",
        "log_lines": "LogLine",
        "import_export": "find_session import_session read_raw_lines",
        "output_offload": "OffloadOutputsPlug",
        "runs": "SessionRun list_session_runs",
        "search": "SearchHit search_sessions",
        "sqlite_store": "SqliteSessionLog SqliteSessionStore",
        "transcript": "TranscriptItem Transcript TranscriptCall read_transcript",
    },
)
