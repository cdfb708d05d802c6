"""``mainspring config edit``: the settings in an editor. A copy is edited, and takes the file's place once it is right."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.runner import place_of
from mainspring.app.workspace.editing import checked, put_back, taken_out
from mainspring.errors import ConfigError
from mainspring.programs import find_program

_EDITORS = ("nano", "vim", "vi")


def run(options: argparse.Namespace, console: Console) -> int:
    """Edit; the exit code.

    Raises:
        ConfigError: If there is no editor, or the file cannot be written.
    """
    editor = _editor()
    file, before = taken_out(place_of(options), project=options.project)
    with tempfile.TemporaryDirectory(prefix="mainspring-") as folder:
        copy = Path(folder, "settings.json")
        copy.touch(0o600)
        copy.write_text(before, encoding="utf-8")
        while True:
            code = subprocess.run([*editor, str(copy)], check=False).returncode
            if code:
                raise ConfigError(f"the editor {editor[0]} ended with {code}; nothing was changed")
            text = copy.read_text(encoding="utf-8-sig")
            try:
                warnings = checked(text, file)
                break
            except ConfigError as error:
                console.fail(str(error))
                if not (sys.stdin.isatty() and _again()):
                    console.say(f"nothing was changed in {file}")
                    return USAGE
    if text == before:
        console.say(f"nothing was changed in {file}")
        return 0
    put_back(file, before, text, private=not options.project)
    for warning in warnings:
        console.say(f"note: {warning}")
    console.say(f"{file} was changed")
    return 0


def _editor() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        if given := os.environ.get(name, "").strip():
            return shlex.split(given)
    found = next((program for name in _EDITORS if (program := find_program(name))), None)
    if found is None:
        raise ConfigError("there is no editor; set EDITOR to one, or use `mainspring config set KEY VALUE`")
    return [found]


def _again() -> bool:
    print("edit again? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower()[:1] != "n"
