"""Show memory files, and add notes to them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.memory import Memory, NoteSection, Where, find_memory_files


class MemoryFileView(Struct, frozen=True):
    """A memory file.

    Attributes:
        where: Owner: user or project.
        path: File.
        text: Content; empty if the file does not exist.
        read: Whether sessions here read it; a project's file requires trust.
    """

    where: Where
    path: str
    text: str
    read: bool


def list_memory_files(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> list[MemoryFileView]:
    """List the memory files of a folder.

    Raises:
        ConfigError: If the folder does not exist.
        MainspringError: If a file cannot be read.
    """
    cwd, settings = load_rules(place, environ=environ)
    found = find_memory_files(cwd, settings.home.root if settings.home else None)
    trusted = TrustStore(settings.home).covers(cwd)
    shown: list[MemoryFileView] = []
    if found.user is not None:
        shown.append(MemoryFileView("user", str(found.user.path), found.user.read(), True))
    if found.project is not None:
        shown.append(MemoryFileView("project", str(found.project.path), found.project.read(), trusted))
    return shown


async def add_memory(
    note: str,
    place: WorkspaceOptions,
    *,
    section: NoteSection = "Context",
    where: Where = "project",
    environ: Mapping[str, str] = os.environ,
    trust_command: str = "`mainspring trust`",
) -> str:
    """Add a note that the user typed, without confirmation, and return a message.

    Args:
        note: The note.
        place: Workspace options.
        section: Section of the memory file.
        where: Whose memory it is added to.
        environ: Environment variables.
        trust_command: How the user trusts the folder, for the message.

    Raises:
        ConfigError: If the note is invalid, or cannot be stored.
    """
    cwd, settings = load_rules(place, environ=environ)
    memory = Memory.for_folder(cwd, settings.home.root if settings.home else None, confirm=lambda _: True)
    try:
        added = await memory.remember(note, section=section, where=where)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if where == "project" and not TrustStore(settings.home).covers(cwd):
        return f"{added} The agent reads it once you trust this folder with {trust_command}."
    return added
