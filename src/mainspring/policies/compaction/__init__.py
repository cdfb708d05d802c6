"""Keeping a conversation within the model's window."""

from mainspring.policies.compaction.auto_compact import AutoCompact
from mainspring.policies.compaction.clear_tool_results import TailCompactor, TailStubs
from mainspring.policies.compaction.overflow import Compactor, OverflowRecovery
from mainspring.policies.compaction.selection import find_cut
from mainspring.policies.compaction.summary import Compaction, CompactionReport, SummaryCompactor, compact_now
from mainspring.policies.compaction.summary_format import Files, is_summary, parse_summary

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
    "compact_now",
    "find_cut",
    "is_summary",
    "parse_summary",
]
