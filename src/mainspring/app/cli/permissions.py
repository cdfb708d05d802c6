"""``mainspring permissions``."""

from __future__ import annotations

import argparse
import asyncio
import shlex

import msgspec

from mainspring.app.cli.args import STDIN, UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DONE
from mainspring.app.cli.frame import framed, place_of, rules_of
from mainspring.app.cli.stdin import Piped
from mainspring.runtime.commands.permissions import Explanation, RuleView, explain, rules_in_force


def run(options: argparse.Namespace) -> int:
    """List or explain; the exit code.

    Raises:
        UsageError: If the tool is missing.
    """
    if options.action == "explain" and not options.tool:
        raise UsageError(
            "permissions explain needs a TOOL and its arguments, as in: mainspring permissions explain shell 'git push'"
        )
    work = _list if options.action == "list" else _explain
    return framed(options, lambda console: work(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = rules_in_force(place_of(options), rules_of(options))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return DONE
    for rule in found:
        console.row(_rule(rule))
    if not found:
        console.say("there are no rules: reading in the folder is allowed, all else asks")
    return DONE


def _explain(options: argparse.Namespace, console: Console) -> int:
    arguments = Piped().text() if options.arguments == STDIN else options.arguments or ""
    found = asyncio.run(explain(options.tool, arguments, place_of(options), rules_of(options)))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
    else:
        for line in _told(found):
            console.row(line)
    return DONE


def _told(found: Explanation) -> list[str]:
    lines = [f"{found.outcome}: {found.reason}"]
    if found.rule is not None:
        lines.append(f"decided by: {_rule(found.rule)}")
    for part in found.parts:
        lines.append(f"  {part.outcome:5}  {part.scope:9}  {part.resource}")
        lines.append(f"         {part.reason}" + (f"; {_rule(part.rule)}" if part.rule is not None else ""))
    lines += [
        f"would be allowed by: {' '.join(f'--allow {shlex.quote(rule)}' for rule in each)}" for each in found.advice
    ]
    return lines


def _rule(rule: RuleView) -> str:
    idle = "" if rule.counts else "  (does not count: the folder is not trusted)"
    return f"{rule.effect} {rule.rule}  [{rule.origin}]{idle}"
