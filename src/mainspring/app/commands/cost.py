"""``mainspring cost``."""

from __future__ import annotations

import argparse
import csv
import io

import msgspec

from mainspring.app.cli.console import Console, one_line, visible_row
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.commands.cost_actions import CostReport, CostRow, cost_report
from mainspring.counting import counted

_COLUMNS = ("calls", "input", "cache read", "cache write", "output", "cost")
_SMALLEST = 0.0001


def run(options: argparse.Namespace) -> int:
    """Show the report; the exit code."""
    return framed(options, lambda console: _show(options, console))


def _show(options: argparse.Namespace, console: Console) -> int:
    report = cost_report(place_of(options), by=options.by, since=options.since or "", here=options.here)
    if options.json:
        console.data(msgspec.json.encode(report).decode())
        return 0
    if options.csv:
        console.answer(_csv(report))
        return 0
    if not report.rows:
        console.say(
            "nothing was spent" + (" since then" if report.since else "; runs that are not saved are not counted")
        )
        return 0
    console.answer(_table(report))
    total = report.total
    if total.unpriced_calls:
        console.say(
            f"{counted(total.unpriced_calls, 'call')} with {total.unpriced_tokens:,} tokens, of which the price is not known, are not in the sum; "
            'set one: "prices" of the provider, see docs/cost.md'
        )
    if total.by_children:
        console.say(f"of the sum, sub-agents spent ${total.by_children:.4f}")
    return 0


def _table(report: CostReport) -> str:
    rows = [*report.rows, *([report.total] if len(report.rows) > 1 else [])]
    lines = [(report.by, *_COLUMNS), *[_cells(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    made = [
        "  ".join([line[0].ljust(widths[0]), *[line[i].rjust(widths[i]) for i in range(1, len(line))]]).rstrip()
        for line in lines
    ]
    return "\n".join(made) + "\n"


def _cells(row: CostRow) -> tuple[str, ...]:
    counts = (row.calls, row.input_tokens, row.cache_read, row.cache_write, row.output_tokens)
    return (one_line(row.key, 80), *[f"{n:,}" for n in counts], money(row))


def money(row: CostRow) -> str:
    """What it cost, and whether that is all of it."""
    known = f"${row.cost:.4f}" if row.cost >= _SMALLEST or not row.cost else f"< ${_SMALLEST}"
    if not row.unpriced_calls:
        return known
    return f"{known} + unknown" if row.cost else "unknown"


def _csv(report: CostReport) -> str:
    """One line for each row; no sum, so that a sheet can make its own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [n for n in CostRow.__struct_fields__ if n != "key"]
    writer.writerow([report.by, *names])
    for row in report.rows:
        name = visible_row(row.key)
        key = f"'{name}" if name[:1] in "=+-@" else name  # a sheet takes these for formulas
        writer.writerow([key, *[getattr(row, name) for name in names]])
    return out.getvalue()
