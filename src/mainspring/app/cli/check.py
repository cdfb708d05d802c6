"""``mainspring check``."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DONE, code_of_error
from mainspring.app.cli.failures import in_words
from mainspring.app.cli.frame import framed, place_of
from mainspring.runtime.commands.check import Report, check
from mainspring.runtime.redaction import redact

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
            console.answer(redact(_shown(report)))
        return code_of_error(report.error) if report.error else DONE

    return framed(options, work)


def _shown(report: Report) -> str:
    lines: list[str] = []
    for item in report.items:
        lines.append(f"{_MARKS[item.state]}  {item.name}: {item.text}\n")
        lines += [f"        {line.strip()}\n" for line in item.advice.splitlines()]
    return "".join(lines)
