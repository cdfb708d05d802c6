"""What the model has read of files, and what follows from it."""

from mainspring.policies.reads.policies import (
    ClearStaleReads,
    FileReadState,
    FileVersion,
    ReadBeforeEdit,
    UnchangedReads,
)

__all__ = ["ClearStaleReads", "FileReadState", "FileVersion", "ReadBeforeEdit", "UnchangedReads"]
