"""Going back: a conversation and the files that tools changed, together or apart, without any version control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.sessions.rewind.restore import Conflict as Conflict
    from mainspring.sessions.rewind.restore import Restore as Restore
    from mainspring.sessions.rewind.restore import RewindPlan as RewindPlan
    from mainspring.sessions.rewind.restore import Rewound as Rewound
    from mainspring.sessions.rewind.restore import plan_rewind as plan_rewind
    from mainspring.sessions.rewind.restore import plan_undo as plan_undo
    from mainspring.sessions.rewind.restore import rewind as rewind
    from mainspring.sessions.rewind.snapshots import FileRecorder as FileRecorder
    from mainspring.sessions.rewind.snapshots import FileState as FileState

__all__, __getattr__ = exports(
    __name__,
    {
        "restore": "Conflict Restore RewindPlan plan_rewind plan_undo Rewound rewind",
        "snapshots": "FileRecorder FileState",
    },
)
