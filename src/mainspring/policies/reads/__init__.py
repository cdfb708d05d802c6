"""What the model has read of files, and what follows from it."""

from mainspring.policies.reads.policies import ClearStaleReads, ReadBeforeEdit, UnchangedReads
from mainspring.policies.reads.state import FileReadState, FileVersion

__all__ = ["ClearStaleReads", "FileReadState", "FileVersion", "ReadBeforeEdit", "UnchangedReads"]
