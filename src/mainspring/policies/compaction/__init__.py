"""Compaction: keep a conversation within the model's window."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports
from mainspring.policies.compaction.auto_compact import AutoCompact, OverflowRecovery, compaction_handlers
from mainspring.policies.compaction.clear_tool_results import TailCompactor, ToolResultClearing
from mainspring.policies.compaction.options import Compaction, CompactionOptions, Compactor
from mainspring.policies.compaction.summary_format import TouchedFiles, is_summary, parse_summary_message

if TYPE_CHECKING:
    from mainspring.policies.compaction.summary import (
        CompactionResult,
        SummaryCompactor,
        compact_history,
        find_cut_index,
    )

__all__ = [
    "AutoCompact",
    "Compaction",
    "CompactionOptions",
    "CompactionResult",
    "Compactor",
    "OverflowRecovery",
    "SummaryCompactor",
    "TailCompactor",
    "ToolResultClearing",
    "TouchedFiles",
    "compact_history",
    "compaction_handlers",
    "find_cut_index",
    "is_summary",
    "parse_summary_message",
]

# Most runs need no summary.
lazy_exports(__name__, {"summary": "CompactionResult SummaryCompactor compact_history find_cut_index"})
