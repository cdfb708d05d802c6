"""Memory: notes for later conversations, as plain text that users can read, edit, and delete."""

from mainspring.memory.plug import (
    MEMORY_FILE_NAME,
    MEMORY_TOOL,
    SECTIONS,
    ConfirmNote,
    Memory,
    MemoryFile,
    MemoryFiles,
    Note,
    NoteSection,
    Where,
    add_note,
    find_memory_files,
    render_prompt,
    validate_note,
)

__all__ = [
    "ConfirmNote",
    "MEMORY_FILE_NAME",
    "MEMORY_TOOL",
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


def __dir__() -> list[str]:
    return __all__
