"""Going back: a conversation and the files that tools changed, together or apart, without any version control."""

from mainspring.sessions.blobs import Blobs
from mainspring.sessions.rewind.plan import Conflict, Restore, RewindPlan, plan_rewind, plan_undo
from mainspring.sessions.rewind.recorder import FileRecorder
from mainspring.sessions.rewind.rewind import Rewound, rewind
from mainspring.sessions.rewind.state import FileState

__all__ = [
    "Blobs",
    "Conflict",
    "FileRecorder",
    "FileState",
    "Restore",
    "RewindPlan",
    "Rewound",
    "plan_rewind",
    "plan_undo",
    "rewind",
]
