"""What the model has read of files, and what follows from it."""

from mainspring.policies.reads.policies import DedupReads, ElideStaleReads, ReadBeforeEdit
from mainspring.policies.reads.state import FileRead, ReadState

__all__ = ["DedupReads", "ElideStaleReads", "FileRead", "ReadBeforeEdit", "ReadState"]
