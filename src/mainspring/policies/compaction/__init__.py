"""Keeping a conversation within the model's window."""

from mainspring.policies.compaction.overflow import OverflowRecovery
from mainspring.policies.compaction.port import Compactor
from mainspring.policies.compaction.tail import TailCompactor, TailStubs

__all__ = ["Compactor", "OverflowRecovery", "TailCompactor", "TailStubs"]
