"""Keeping a conversation within the model's window."""

from mainspring.policies.compaction.auto import AutoCompact
from mainspring.policies.compaction.cut import find_cut
from mainspring.policies.compaction.overflow import OverflowRecovery
from mainspring.policies.compaction.port import Compactor
from mainspring.policies.compaction.summary import Compaction, CompactionReport, SummaryCompactor, compact_now
from mainspring.policies.compaction.tail import TailCompactor, TailStubs
from mainspring.policies.compaction.tokens import TokenMeter, estimate_overhead, estimate_tokens
from mainspring.policies.compaction.wording import Files, is_summary, parse_summary

__all__ = [
    "AutoCompact",
    "Compaction",
    "CompactionReport",
    "Compactor",
    "Files",
    "OverflowRecovery",
    "SummaryCompactor",
    "TailCompactor",
    "TailStubs",
    "TokenMeter",
    "compact_now",
    "estimate_overhead",
    "estimate_tokens",
    "find_cut",
    "is_summary",
    "parse_summary",
]
