"""Files that the model has read, and the policies that depend on them."""

from mainspring.policies.reads.policies import (
    ClearStaleReads,
    FileReadState,
    FileVersion,
    ReadBeforeEdit,
    ReadOptions,
    UnchangedReads,
    read_handlers,
)

__all__ = [
    "ClearStaleReads",
    "FileReadState",
    "FileVersion",
    "ReadBeforeEdit",
    "ReadOptions",
    "UnchangedReads",
    "read_handlers",
]
