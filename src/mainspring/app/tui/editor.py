"""The user's own editor for a longer text."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

_FALLBACKS = "vi"


def edit_text(text: str, environ: Mapping[str, str], suffix: str = ".md") -> str:
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
