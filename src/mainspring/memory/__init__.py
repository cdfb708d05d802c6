"""Memory: notes for later conversations, as plain text that users can read, edit, and delete."""

from mainspring.memory.notes import (
    MEMORY_FILE_NAME,
    SECTIONS,
    MemoryFile,
    MemoryFiles,
    NoteSection,
    add_note,
    find_memory_files,
    render_prompt,
    validate_note,
)
from mainspring.memory.plug import ConfirmNote, Memory, Note, Where

__all__ = [
    "ConfirmNote",
    "MEMORY_FILE_NAME",
    "Memory",
    "MemoryFile",
    "MemoryFiles",
    "Note",
    "NoteSection",
    "SECTIONS",
    "Where",
    "add_note",
    "find_memory_files",
    "render_prompt",
    "validate_note",
]
