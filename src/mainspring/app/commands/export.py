"""``mainspring export``."""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.export import render_html, render_markdown
from mainspring.app.workspace.saved_sessions import create_export_path, export_jsonl, export_transcript
from mainspring.errors import MainspringError

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl"}
_SUFFIX = {"html": ".html", "markdown": ".md", "jsonl": ".jsonl"}


def run(options: argparse.Namespace) -> int:
    """Export a session, and return the exit code.

    Raises:
        UsageError: If the format cannot be inferred from the file name.
    """
    form = options.format or (_SUFFIXES.get(Path(options.out).suffix.lower()) if options.out else "html")
    if form is None and options.out != STDIN_MARK:
        raise UsageError(f"Cannot infer the format of --out {options.out}. Add --format html, markdown, or jsonl.")
    return run_command(options, lambda console: _export(options, form or "html", console))


def _export(options: argparse.Namespace, format: str, console: Console) -> int:
    place = workspace_options(options)
    if format == "jsonl":
        lines = export_jsonl(options.session, place)
        text = "".join(f"{line.decode('utf-8')}\n" for line in lines)
        name = options.session or "session"
    else:
        transcript = export_transcript(options.session, place)
        text = render_html(transcript) if format == "html" else render_markdown(transcript)
        name = transcript.id
    if options.out == STDIN_MARK:
        console.answer(text)
        return 0
    file = options.out or create_export_path(f"{Path(name).stem}{_SUFFIX[format]}", replace=options.force)
    target = Path(os.path.expanduser(file))
    if options.cwd and not target.is_absolute():
        target = Path(options.cwd) / target
    _write(target, text, replace=options.force)
    console.info(f"Saved to {target}")
    return 0


def _write(target: Path, text: str, *, replace: bool) -> None:
    """Write a file that only its owner may read, because sessions are private."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    try:
        with os.fdopen(
            os.open(target, flags, stat.S_IRUSR | stat.S_IWUSR), "w", encoding="utf-8", newline="\n"
        ) as stream:
            stream.write(text)
    except FileExistsError:
        raise MainspringError(f"{target} already exists. Use --force to overwrite it.") from None
