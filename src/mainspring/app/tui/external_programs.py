"""The clipboard of the terminal and of the desktop, and the editor of the user."""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

from mainspring.programs import find_program, wait_for_end

_MAX_TEXT_CHARS = 74_000
"""Terminals ignore longer sequences."""


_SECONDS = 3.0
_MAX_IMAGE_BYTES = 10 << 20
_PNG = "image/png"
_APPLESCRIPT_START = "«data PNGf".encode()


def osc52_copy(text: str, environ: Mapping[str, str]) -> str | None:
    """Return the sequence that copies a text (OSC 52), or None if the text is too long."""
    data = base64.b64encode(text.encode()).decode()
    if len(data) > _MAX_TEXT_CHARS:
        return None
    sequence = f"\x1b]52;c;{data}\a"
    if environ.get("STY"):
        return f"\x1bP{sequence}\x1b\\"  # GNU screen passes on what is wrapped like this
    return sequence


class NoClipboardImageError(Exception):
    """The clipboard has no image, or no program can read it."""


async def read_clipboard_image(environ: Mapping[str, str]) -> bytes:
    """Return the PNG image in the clipboard.

    Raises:
        NoClipboardImageError: If no image can be read. The message is for the user.
    """
    problem = (
        "No program can read the clipboard here. Install wl-clipboard (Wayland), xclip (X11), or pngpaste (macOS), "
        "or mention the file of the image as @PATH."
    )
    for command in _commands(environ):
        program = find_program(command[0], path=environ.get("PATH"))
        if program:
            problem = "No image in the clipboard."
            data = _decode_applescript(await _output((program, *command[1:]), environ) or b"")
            if data.startswith(b"\x89PNG"):
                return data
    raise NoClipboardImageError(problem)


def _decode_applescript(data: bytes) -> bytes:
    """Return the bytes of an image that AppleScript printed in hexadecimal digits, and other output unchanged."""
    digits = data.strip().removeprefix(_APPLESCRIPT_START).removesuffix("»".encode())
    return bytes.fromhex(digits.decode("ascii", "replace")) if data.startswith(_APPLESCRIPT_START) else data


def _commands(environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        commands.append(("wl-paste", "--no-newline", "--type", _PNG))
    if environ.get("DISPLAY"):
        commands.append(("xclip", "-selection", "clipboard", "-target", _PNG, "-out"))
    return [*commands, ("pngpaste", "-"), ("osascript", "-e", "get the clipboard as «class PNGf»")]


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
            await wait_for_end(process)
    return data if process.returncode == 0 and len(data) <= 2 * _MAX_IMAGE_BYTES + 64 else None


_FALLBACKS = "vi"


def edit_in_editor(text: str, environ: Mapping[str, str], suffix: str = ".md") -> str:
    """Edit a text in the editor of the user and return it. Blocks; the editor uses the terminal.

    Args:
        text: The initial text.
        environ: Names the editor: ``VISUAL``, else ``EDITOR``, else ``vi``.
        suffix: File extension, which selects the syntax highlighting.

    Raises:
        OSError: If the editor cannot be started or fails.
    """
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or _FALLBACKS)
    handle, name = mkstemp(prefix="mainspring-", suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        code = subprocess.run([*command, name], env=dict(environ), check=False).returncode
        if code:
            raise OSError(f"{command[0]} exited with code {code}. The text is unchanged.")
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    finally:
        path.unlink(missing_ok=True)
