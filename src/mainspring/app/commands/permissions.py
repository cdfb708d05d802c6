"""``mainspring permissions``."""

from __future__ import annotations

import argparse
import asyncio
import shlex

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import permission_flags, run_command, workspace_options
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.workspace.permissions import (
    CallExplanation,
    RuleView,
    active_rules,
    explain_permission,
    revoke_rule,
    save_rule,
)


def run(options: argparse.Namespace) -> int:
    """List, save, revoke, or explain permission rules, and return the exit code.

    Raises:
        UsageError: If an argument is missing.
    """
    if options.action == "explain" and not options.tool:
        raise UsageError(
            "permissions explain requires a TOOL and its arguments, for example: mainspring permissions explain shell 'git push'"
        )
    if options.action in ("allow", "deny", "revoke") and (not options.tool or options.arguments):
        what = "NUMBER or RULE" if options.action == "revoke" else "RULE"
        raise UsageError(f"permissions {options.action} requires one {what}, in quotes.")
    works = {"list": _list, "allow": _save, "deny": _save, "revoke": _revoke, "explain": _explain}
    work = works[options.action]
    return run_command(options, lambda console: work(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = active_rules(workspace_options(options), permission_flags(options))
    empty = (
        "No rules yet. Reading in the folder is allowed, everything else asks. "
        "Allow something in this project with: mainspring permissions allow 'shell(npm test)'"
    )
    console.write_list(found, map(_format_rule, found), empty, as_json=options.json)
    return OK


def _save(options: argparse.Namespace, console: Console) -> int:
    file, notices = save_rule(options.action, options.tool, workspace_options(options), everywhere=options.everywhere)
    reach = "every project" if options.everywhere else "this project"
    console.info(f"Saved for {reach} in {file}: {options.action} {options.tool}")
    for notice in notices:
        console.info(f"Note: {notice}")
    return OK


def _revoke(options: argparse.Namespace, console: Console) -> int:
    rule, file = revoke_rule(options.tool, workspace_options(options))
    console.info(f"Revoked in {file}: {rule.effect} {rule.rule}")
    return OK


def _explain(options: argparse.Namespace, console: Console) -> int:
    arguments = StdinReader().text() if options.arguments == STDIN_MARK else options.arguments or ""
    found = asyncio.run(
        explain_permission(options.tool, arguments, workspace_options(options), permission_flags(options))
    )
    console.write_list(found, _format_explanation(found), as_json=options.json)
    return OK


def _format_explanation(explanation: CallExplanation) -> list[str]:
    lines = [f"{explanation.outcome}: {explanation.reason}"]
    if explanation.rule is not None:
        lines.append(f"decided by: {_format_rule(explanation.rule)}")
    for part in explanation.parts:
        lines.append(f"  {part.outcome:5}  {part.scope:9}  {part.resource}")
        lines.append(f"         {part.reason}" + (f"; {_format_rule(part.rule)}" if part.rule is not None else ""))
    lines += [
        f"To allow it, use: {' '.join(f'--allow {shlex.quote(rule)}' for rule in each)}" for each in explanation.advice
    ]
    return lines


def _format_rule(rule: RuleView) -> str:
    idle = "" if rule.counts else "  (inactive: the folder is not trusted)"
    number = f"{rule.number}. " if rule.number else ""
    return f"{number}{rule.effect} {rule.rule}  [{rule.origin}]{idle}"
