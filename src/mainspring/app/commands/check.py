"""``mainspring check``."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from mainspring.app.cli.console import Console
from mainspring.app.cli.errors import in_words
from mainspring.app.cli.exit_codes import DONE, code_of_error
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.commands.check_actions import Report, check
from mainspring.redaction import redact

_MARKS = {"ok": "ok  ", "note": "note", "missing": "MISS", "wrong": "FAIL"}


def run(options: argparse.Namespace) -> int:
    """Show what was found; the exit code is that of a run here."""

    def work(console: Console) -> int:
        report = asyncio.run(check(place_of(options), model=options.model))
        if options.json:
            model = {"model": report.model.spec if report.model else None}
            error = {"error": in_words(report.error) if report.error else None}
            console.data(redact(msgspec.json.encode({**model, **error, "items": report.items}).decode()))
        else:
            for line in _shown(report, every=console.verbose):
                console.row(redact(line))
        return code_of_error(report.error) if report.error else DONE

    return framed(options, work)


def _shown(report: Report, *, every: bool) -> list[str]:
    """What was found; the providers that nobody set up in one line, unless everything is asked for."""
    lines: list[str] = []
    unused: list[str] = []
    for item in report.items:
        if not every and item.state == "note" and item.name.startswith("provider "):
            unused.append(item.name.removeprefix("provider "))
            continue
        lines.append(f"{_MARKS[item.state]}  {item.name}: {item.text}")
        lines += [f"        {line.strip()}" for line in item.advice.splitlines()]
    if unused:
        at = next((i for i, line in enumerate(lines) if line[6:].startswith("model: ")), len(lines))
        lines[at:at] = [
            f"{_MARKS['note']}  not set up: {', '.join(unused)}",
            "        to set one up: mainspring config init NAME; what each lacks: mainspring check -v",
        ]
    return lines
