"""The clipboard: text to it through the terminal, images from it through the desktop's own tools.

The user's own editor for a longer text.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

from mainspring.programs import find_program

_MAX_TEXT_CHARS = 74_000
"""Terminals drop longer sequences."""


_SECONDS = 3.0
_MOST_IMAGE = 10 << 20
_PNG = "image/png"


def osc52_copy(text: str, environ: Mapping[str, str]) -> str | None:
    """What to write so that the terminal copies a text (OSC 52); ``None`` if it is too long for that."""
    data = base64.b64encode(text.encode()).decode()
    if len(data) > _MAX_TEXT_CHARS:
        return None
    sequence = f"\x1b]52;c;{data}\a"
    if environ.get("STY"):
        return f"\x1bP{sequence}\x1b\\"  # screen hands on what is wrapped
    return sequence


async def read_clipboard_image(environ: Mapping[str, str]) -> bytes | None:
    """The PNG image in the clipboard, if there is one and a tool that hands it out."""
    for command in _commands(environ):
        program = find_program(command[0], path=environ.get("PATH"))
        if program:
            data = await _output((program, *command[1:]), environ)
            if data and data.startswith(b"\x89PNG"):
                return data
    return None


def _commands(environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        commands.append(("wl-paste", "--no-newline", "--type", _PNG))
    if environ.get("DISPLAY"):
        commands.append(("xclip", "-selection", "clipboard", "-target", _PNG, "-out"))
    return [*commands, ("pngpaste", "-")]


async def _output(command: tuple[str, ...], environ: Mapping[str, str]) -> bytes | None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environ),
    )
    try:
        async with asyncio.timeout(_SECONDS):
            data, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return data if process.returncode == 0 and len(data) <= _MOST_IMAGE else None


_FALLBACKS = "vi"


def edit_in_editor(text: str, environ: Mapping[str, str], suffix: str = ".md") -> str:
    """The text as it is after the editor was closed. Waits for it; the terminal belongs to the editor meanwhile.

    Args:
        text: What to begin with.
        environ: Names the editor: ``VISUAL``, else ``EDITOR``, else ``vi``.
        suffix: Ending of the file's name, by which editors choose colours.

    Raises:
        OSError: If it cannot be started, or says that it failed; the text is to be kept then.
    """
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or _FALLBACKS)
    handle, name = mkstemp(prefix="mainspring-", suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        code = subprocess.run([*command, name], env=dict(environ), check=False).returncode
        if code:
            raise OSError(f"{command[0]} ended with {code}; the text is as it was")
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    finally:
        path.unlink(missing_ok=True)
