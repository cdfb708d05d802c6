"""Rewind a conversation and the files that tools changed, together or separately, without version control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.sessions.rewind.restore import Conflict as Conflict
    from mainspring.sessions.rewind.restore import FileRestore as FileRestore
    from mainspring.sessions.rewind.restore import RewindPlan as RewindPlan
    from mainspring.sessions.rewind.restore import RewindResult as RewindResult
    from mainspring.sessions.rewind.restore import plan_rewind as plan_rewind
    from mainspring.sessions.rewind.restore import plan_undo as plan_undo
    from mainspring.sessions.rewind.restore import rewind as rewind
    from mainspring.sessions.rewind.snapshots import FileSnapshots as FileSnapshots
    from mainspring.sessions.rewind.snapshots import FileState as FileState

lazy_exports(
    __name__,
    {
        "restore": "Conflict FileRestore RewindPlan plan_rewind plan_undo RewindResult rewind",
        "snapshots": "FileSnapshots FileState",
    },
)
