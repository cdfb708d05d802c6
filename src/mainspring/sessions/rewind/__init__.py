"""Rewind a conversation and the files that tools changed, together or separately, without version control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.sessions.rewind.restore import (
        Conflict as Conflict,
        FileRestore as FileRestore,
        RewindPlan as RewindPlan,
        RewindResult as RewindResult,
        plan_rewind as plan_rewind,
        plan_undo as plan_undo,
        rewind as rewind,
    )
    from mainspring.sessions.rewind.snapshots import FileSnapshots as FileSnapshots, FileState as FileState

lazy_exports(
    __name__,
    {
        "restore": "Conflict FileRestore RewindPlan plan_rewind plan_undo RewindResult rewind",
        "snapshots": "FileSnapshots FileState",
    },
)
