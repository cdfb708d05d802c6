"""``mainspring cost``: tokens and money by day, project, model, or session, from the event logs of saved sessions."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from msgspec import Struct

from mainspring.app.cli.console import Console, one_line, visible_row
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.events import format_cost
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.errors import ConfigError
from mainspring.events import AgentEnd, AgentStart, MessageEnd, UsageUpdate
from mainspring.lazy import lazy_re
from mainspring.messages import Cost, Message, Usage
from mainspring.sessions import LogLine, iter_all_events
from mainspring.text import pluralize

GroupBy = Literal["day", "project", "model", "session"]
"""The grouping of rows."""


UNKNOWN_MODEL = "(unknown)"


_SPAN = lazy_re(r"(\d{1,5})\s*([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


class CostRow(Struct, kw_only=True, rename="camel"):
    """Usage of one group.

    Attributes:
        key: Day, folder, model, or session.
        calls: Number of model calls, including those of subagents and those outside the conversation.
        input_tokens: Input tokens outside any cache.
        cache_read: Input tokens read from a cache.
        cache_write: Input tokens written to a cache.
        output_tokens: Output tokens, including reasoning.
        reasoning_tokens: Reasoning tokens, if reported.
        cost: US dollars of the calls with a known price.
        unpriced_calls: Number of calls with an unknown price, which ``cost`` excludes.
        unpriced_tokens: Tokens of those calls, which the other token counts include.
        by_children: US dollars of ``cost`` that subagents spent.
    """

    key: str
    calls: int = 0
    input_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    unpriced_calls: int = 0
    unpriced_tokens: int = 0
    by_children: float = 0.0

    def add(self, record: SpendingRecord) -> None:
        """Add a record."""
        usage = record.usage
        self.calls += record.calls
        self.input_tokens += usage.input_tokens
        self.cache_read += usage.cache_read
        self.cache_write += usage.cache_write
        self.output_tokens += usage.output_tokens
        self.reasoning_tokens += usage.reasoning_tokens
        if usage.cost is not None:
            self.cost += usage.cost.total
            self.by_children += usage.cost.total if record.child else 0.0
            self.unpriced_calls += usage.unpriced_calls
        elif usage.total_tokens:
            self.unpriced_calls += max(record.calls, 1)
            self.unpriced_tokens += usage.total_tokens


class CostReport(Struct, kw_only=True, rename="camel"):
    """A cost report.

    Attributes:
        by: Grouping of the rows.
        since: Start of the period in UTC; None for all records.
        rows: Days in order, other groups by cost with the highest first.
        total: Sum of all rows.
    """

    by: GroupBy
    since: datetime | None
    rows: list[CostRow]
    total: CostRow


class SpendingRecord(Struct, frozen=True, kw_only=True):
    """A record of usage.

    Attributes:
        time: Time of the usage.
        project: Folder.
        session: Session.
        model: Model as ``provider:model``.
        usage: Tokens and money.
        calls: Number of model calls; 0 for failed attempts.
        child: Whether a subagent spent it.
    """

    time: datetime
    project: str
    session: str
    model: str
    usage: Usage
    calls: int = 1
    child: bool = False


def cost_report(
    place: WorkspaceOptions,
    *,
    by: GroupBy = "day",
    since: str = "",
    here: bool = False,
    environ: Mapping[str, str] = os.environ,
    now: datetime | None = None,
) -> CostReport:
    """Create a cost report.

    Args:
        place: Workspace options.
        by: Grouping of the rows.
        since: Start of the period: ``2026-11-01``, ``today``, or an age such as ``24h``, ``7d``, ``4w``; empty for all records.
        here: Whether to include only records of this folder.
        environ: Environment variables.
        now: Current time.

    Raises:
        ConfigError: If ``since`` is invalid.
    """
    if by not in get_args(GroupBy):
        raise ConfigError(f"Cannot group by {by!r}. Use one of {', '.join(get_args(GroupBy))}.")
    begin = parse_since(since, now or datetime.now(UTC)) if since else None
    cwd, settings = load_rules(place, environ=environ)
    rows: dict[str, CostRow] = {}
    total = CostRow(key="total")
    lines = iter_all_events(home=settings.home.root) if settings.home is not None else ()
    for spent in iter_spending(lines):
        if (begin is not None and spent.time < begin) or (here and spent.project != cwd):
            continue
        key = _key(spent, by)
        rows.setdefault(key, CostRow(key=key)).add(spent)
        total.add(spent)
    order = sorted(rows.values(), key=lambda r: r.key)
    if by != "day":
        order.sort(key=lambda r: (-r.cost, -r.calls))
    return CostReport(by=by, since=begin, rows=order, total=total)


def parse_since(text: str, now: datetime) -> datetime:
    """Parse the start of a period.

    Raises:
        ConfigError: If the text is not a time.
    """
    text = text.strip().lower()
    span = _SPAN.fullmatch(text)
    if span:
        return now - timedelta(hours=int(span[1]) * _HOURS[span[2]])
    if text == "today":
        return now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        return datetime.fromisoformat(text.upper()).astimezone()
    except ValueError:
        raise ConfigError(
            f"Invalid --since {text!r}. Use a date such as 2026-11-01, or today, 24h, 7d, or 4w."
        ) from None


def iter_spending(lines: Iterable[LogLine]) -> Iterator[SpendingRecord]:
    """Return usage records, one for each model call. Usage of a run beyond its calls is that of failed attempts, which get a separate record.

    Args:
        lines: Lines of whole logs, one session after the other, each in order.
    """
    run: _RunSpending | None = None
    for line in lines:
        if run is not None and line.session_id != run.session:
            run = None
        match line.event:
            case AgentStart() as start if run is None or start.agent == run.agent:
                run = _RunSpending(start)
            case MessageEnd(message=Message(provider=provider, model=model, usage=usage)):
                spent = _call(line, run, usage or Usage.zero(), f"{provider}:{model}" if model else UNKNOWN_MODEL)
                if run is not None:
                    run.add(spent)
                yield spent
            case UsageUpdate(usage=usage):
                spent = _call(line, run, usage, UNKNOWN_MODEL)
                if run is not None:
                    run.add(spent)
                yield spent
            case AgentEnd(stats=stats) if run is not None and line.run_id == run.id:
                rest = run.unaccounted(line.time, stats.usage)
                run = None
                if rest is not None:
                    yield rest
            case _:
                pass


class _RunSpending:
    """Usage of the current run of a session, including its subagents."""

    def __init__(self, start: AgentStart) -> None:
        self.id = start.run_id
        self.agent = start.agent
        self.session = start.session_id
        self.project = start.cwd
        self.usage = Usage.zero()
        self.models: list[str] = []

    def add(self, record: SpendingRecord) -> None:
        """Add a logged model call."""
        self.usage += record.usage
        if record.model != UNKNOWN_MODEL and record.model not in self.models:
            self.models.append(record.model)

    def unaccounted(self, time: datetime, total: Usage) -> SpendingRecord | None:
        """Return the usage of the run beyond its calls."""
        known = self.usage
        counts = [
            max(0, getattr(total, name) - getattr(known, name))
            for name in ("input_tokens", "output_tokens", "cache_read", "cache_write", "reasoning_tokens")
        ]
        if not any(counts):
            return None
        cost = None
        if total.cost is not None and known.cost is not None:
            a, b = total.cost, known.cost
            cost = Cost(
                max(0.0, a.input - b.input),
                max(0.0, a.output - b.output),
                max(0.0, a.cache_read - b.cache_read),
                max(0.0, a.cache_write - b.cache_write),
            )
        return SpendingRecord(
            time=time,
            project=self.project,
            session=self.session,
            model=self.models[0] if len(self.models) == 1 else UNKNOWN_MODEL,
            usage=Usage(*counts, cost=cost),
            calls=0,
        )


def _call(line: LogLine, run: _RunSpending | None, usage: Usage, model: str) -> SpendingRecord:
    return SpendingRecord(
        time=line.time,
        project=run.project if run is not None else "",
        session=line.session_id,
        model=model,
        usage=usage,
        child=run is not None and line.run_id != run.id,
    )


def _key(record: SpendingRecord, group_by: GroupBy) -> str:
    match group_by:
        case "day":
            return f"{record.time.astimezone():%Y-%m-%d}"
        case "project":
            return record.project or "(no folder)"
        case "model":
            return record.model
        case "session":
            return record.session


_COLUMNS = ("calls", "input", "cache read", "cache write", "output", "cost")


def run(options: argparse.Namespace) -> int:
    """Print the report, and return the exit code."""
    return run_command(options, lambda console: _show(options, console))


def _show(options: argparse.Namespace, console: Console) -> int:
    report = cost_report(workspace_options(options), by=options.by, since=options.since or "", here=options.here)
    if options.json:
        console.write_json(report)
        return 0
    if options.csv:
        console.answer(_csv(report))
        return 0
    if not report.rows:
        console.info(
            "No costs" + (" in this period" if report.since else " yet. Runs that are not saved are not included.")
        )
        return 0
    console.answer(_table(report))
    total = report.total
    if total.unpriced_calls:
        console.info(
            f"The total excludes {pluralize(total.unpriced_calls, 'call')} with {total.unpriced_tokens:,} tokens, because their price is unknown. "
            'Set it in "prices" of the provider (docs/cost.md).'
        )
    if total.by_children:
        console.info(f"Subagents spent {format_cost(total.by_children)} of the total.")
    return 0


def _table(report: CostReport) -> str:
    rows = [*report.rows, *([report.total] if len(report.rows) > 1 else [])]
    lines = [(report.by, *_COLUMNS), *[_format_row(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    cells = [
        "  ".join([line[0].ljust(widths[0]), *[line[i].rjust(widths[i]) for i in range(1, len(line))]]).rstrip()
        for line in lines
    ]
    return "\n".join(cells) + "\n"


def _format_row(row: CostRow) -> tuple[str, ...]:
    counts = (row.calls, row.input_tokens, row.cache_read, row.cache_write, row.output_tokens)
    return (one_line(row.key, 80), *[f"{n:,}" for n in counts], format_cost_row(row))


def format_cost_row(row: CostRow) -> str:
    """Format the cost, and mark it if calls with an unknown price are missing."""
    known = format_cost(row.cost)
    if not row.unpriced_calls:
        return known
    return f"{known} + unknown" if row.cost else "unknown"


def _csv(report: CostReport) -> str:
    """Format the rows as CSV, without a total, so that a spreadsheet can compute its own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [n for n in CostRow.__struct_fields__ if n != "key"]
    writer.writerow([report.by, *names])
    for row in report.rows:
        name = visible_row(row.key)
        key = f"'{name}" if name[:1] in "=+-@" else name  # spreadsheets interpret these as formulas
        writer.writerow([key, *[getattr(row, name) for name in names]])
    return out.getvalue()
