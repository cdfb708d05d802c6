"""Memory: what is worth knowing in the next conversation, as plain text that people can read, edit and delete."""

from mainspring.memory.notes import (
    FILE,
    SECTIONS,
    Located,
    MemoryFile,
    Section,
    add_note,
    checked_note,
    locate,
    prompt_part,
)
from mainspring.memory.plug import Confirm, Memory, Note, Where

__all__ = [
    "FILE",
    "SECTIONS",
    "Confirm",
    "Located",
    "Memory",
    "MemoryFile",
    "Note",
    "Section",
    "Where",
    "add_note",
    "checked_note",
    "locate",
    "prompt_part",
]
