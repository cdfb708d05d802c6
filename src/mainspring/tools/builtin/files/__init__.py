"""Reading and changing files."""

from mainspring.tools.builtin.files.apply_patch import apply_patch
from mainspring.tools.builtin.files.edit import edit
from mainspring.tools.builtin.files.hunks import (
    APPROVE_HUNK,
    Approve,
    Hunk,
    Outcome,
    Outcomes,
    format_outcomes,
    parse_outcomes,
)
from mainspring.tools.builtin.files.multi_edit import multi_edit
from mainspring.tools.builtin.files.preview import FileChange, Preview, preview
from mainspring.tools.builtin.files.read_file import read_file
from mainspring.tools.builtin.files.write_file import write_file

__all__ = [
    "APPROVE_HUNK",
    "Approve",
    "FileChange",
    "Hunk",
    "Outcome",
    "Outcomes",
    "Preview",
    "apply_patch",
    "edit",
    "format_outcomes",
    "multi_edit",
    "parse_outcomes",
    "preview",
    "read_file",
    "write_file",
]
