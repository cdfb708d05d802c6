"""``mainspring skills``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line, visible_row
from mainspring.app.cli.exit_codes import ERROR, OK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.workspace.skill_manager import (
    PendingSkill,
    SkillChange,
    SkillDetail,
    Verdict,
    apply_pending,
    discard_pending,
    fetch_skills,
    fetch_updates,
    list_installed_skills,
    new_skill,
    remove_skill,
    set_skill_enabled,
    show_skill,
    validate_skills,
)
from mainspring.skills.install import InstallPreview, SkillChanges
from mainspring.text import pluralize

_MISSING_ARGUMENT = {
    "show": "the NAME of a skill",
    "install": "a folder or the URL of a repository",
    "enable": "the NAME of a skill",
    "disable": "the NAME of a skill",
    "remove": "the NAME of a skill",
    "new": "a NAME",
}
_MAX_SHOWN = 40
_VALIDITY_LABELS = {
    (True, True): "valid",
    (True, False): "valid, but not usable here",
    (False, True): "does not conform to the specification, but usable here",
    (False, False): "not valid, and not usable",
}
"""Labels by whether a skill conforms to the format, and whether it can be used."""


def run(options: argparse.Namespace) -> int:
    """Run an action, and return the exit code.

    Raises:
        UsageError: If an argument is missing.
    """
    words, action = options.words, options.action
    if action in _MISSING_ARGUMENT and len(words) != 1:
        raise UsageError(f"skills {action} requires {_MISSING_ARGUMENT[action]}.")
    return run_command(options, lambda console: _ACTIONS[action](options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_installed_skills(workspace_options(options))
    if options.json:
        console.write_json(found)
        return OK
    width = max([len(s.name) for s in found.skills], default=0)
    for each in found.skills:
        state = "" if each.state == "on" else f"  ({each.state})"
        console.row(f"{each.name:<{width}}  {each.source:<7}  {one_line(each.brief, 100)}{state}")
    if not found.skills:
        console.info(
            "No skills yet. Create one with `mainspring skills new NAME`, or install some with `mainspring skills install`."
        )
    lost = [p for p in found.problems if p.level == "error"]
    for problem in lost:
        console.info(f"Not loaded: {problem.path}{f':{problem.line}' if problem.line else ''}: {problem.reason}")
    odd = [p for p in found.problems if p.level != "error"]
    for problem in odd:
        console.verbose_info(f"warning: {problem.path}: {problem.reason}")
    if odd and not options.verbose:
        console.info(f"Skills with warnings: {len({p.path for p in odd})}. Show them with -v.")
    return OK


def _show(options: argparse.Namespace, console: Console) -> int:
    found = show_skill(options.words[0], workspace_options(options))
    if options.json:
        console.write_json(found)
        return OK
    for line in _skill_details(found):
        console.info(line)
    console.answer(found.body.rstrip("\n") + "\n")
    return OK


def _skill_details(detail: SkillDetail) -> list[str]:
    """Format the details of a skill, one per line."""
    view, skill = detail.view, detail.skill
    lines = [f"{skill.name} ({view.source}, {view.state}) {view.path or ''}".rstrip(), skill.description]
    if view.origin:
        lines.append(f"from {view.origin}{f' at {view.commit}' if view.commit else ''}")
    facts = {
        "version": skill.version,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed tools": ", ".join(skill.allowed_tools) if skill.allowed_tools is not None else None,
        "scripts": ", ".join(s.name for s in skill.scripts),
        "toolsets": ", ".join(skill.toolsets),
        "runs on use": "; ".join(detail.shell_lines),
    }
    lines += [f"{name}: {value}" for name, value in facts.items() if value]
    return [*lines, *[f"missing: {text}" for text in detail.lacking], *[f"warning: {text}" for text in skill.warnings]]


def _validate(options: argparse.Namespace, console: Console) -> int:
    verdicts = validate_skills(options.words, workspace_options(options))
    code = OK if all(v.valid for v in verdicts) else ERROR
    if options.json:
        console.write_json(verdicts)
        return code
    for verdict in verdicts:
        for line in _format_verdict(verdict):
            console.row(line)
    if len(verdicts) > 1:
        valid, loads = sum(v.valid for v in verdicts), sum(v.loads for v in verdicts)
        console.info(f"{len(verdicts)} skills: {valid} conform to the specification, {loads} usable here")
    return code


def _format_verdict(verdict: Verdict) -> list[str]:
    lines = [f"{verdict.path}: {_VALIDITY_LABELS[verdict.valid, verdict.loads]}"]
    lines += [f"  error: {f'line {f.line}: ' if f.line else ''}{f.text}" for f in verdict.faults]
    if verdict.reason and verdict.reason not in {f.text for f in verdict.faults}:
        lines.append(f"  not loaded: {verdict.reason}")
    return [*lines, *[f"  warning: {text}" for text in verdict.warnings]]


def _install(options: argparse.Namespace, console: Console) -> int:
    fetched = asyncio.run(
        fetch_skills(
            options.words[0],
            workspace_options(options),
            ref=options.ref,
            path=options.path,
            names=options.skill,
            select_all=options.all,
            force=options.force,
        )
    )
    return _confirm_and_apply(fetched, "Install", options, console)


def _update(options: argparse.Namespace, console: Console) -> int:
    fetched = asyncio.run(fetch_updates(options.words, workspace_options(options), force=options.force))
    if not fetched and not options.json:
        console.info("No installed skills to update")
    return _confirm_and_apply(fetched, "Update", options, console)


def _confirm_and_apply(
    fetched: Sequence[PendingSkill], verb: str, options: argparse.Namespace, console: Console
) -> int:
    """Show each pending skill, ask for confirmation, and apply it. Return the exit code."""
    done: list[SkillChange] = []
    try:
        for each in fetched:
            requested = False
            if each.preview is not None:
                for line in _format_preview(each.preview, each.changes):
                    console.info(line)
                requested = options.yes or _confirm(f"{verb} {each.name}?", console)
            done.append(apply_pending(each, is_confirmed=requested))
    finally:
        discard_pending(fetched)
    return _report(done, options, console)


def _report(done: Sequence[SkillChange], options: argparse.Namespace, console: Console) -> int:
    if options.json:
        console.write_json(done)
    for each in () if options.json else done:
        more = f" {each.commit[:12]}" if each.commit else ""
        if each.what == "failed":
            console.fail(f"{each.name}: {each.text}")
        elif each.what == "refused":
            console.info(f"{each.name}: not changed")
        else:
            console.row(f"{each.name}: {each.what}{more}  {each.path}")
            if each.text:
                console.info(each.text)
    return ERROR if any(each.what in ("failed", "refused") for each in done) else OK


def _format_preview(preview: InstallPreview, changes: SkillChanges | None) -> list[str]:
    """Format the content of a skill to install, with everything that can run."""
    lines = [
        f"{preview.name}: {preview.description}",
        f"  {pluralize(len(preview.files), 'file')}, {pluralize(preview.size, 'byte')}",
    ]
    parts = {
        "programs that the agent may run": [s.path for s in preview.scripts],
        "code that runs inside Mainspring": list(preview.toolsets),
        "commands that run on use": list(preview.shell_lines),
        "limits the session to these tools": list(preview.allowed_tools or ()),
    }
    for title, items in parts.items():
        if items:
            lines.append(f"  {title}:")
            lines += [f"    {one_line(item)}" for item in items[:_MAX_SHOWN]]
            lines += [f"    and {len(items) - _MAX_SHOWN} more"] if len(items) > _MAX_SHOWN else []
    lines += [f"  missing: {each.text}" for each in preview.lacking]
    lines += [f"  warning: {text}" for text in preview.warnings]
    if changes is not None:
        lines.append(
            "  replaces an existing skill; changed files:"
            if changes
            else "  replaces an existing skill with the same files"
        )
        for mark, names in (("+", changes.added), ("-", changes.removed), ("~", changes.changed)):
            lines += [f"    {mark} {one_line(name)}" for name in names[:_MAX_SHOWN]]
        lines += [f"    {line}" for line in changes.instructions.splitlines()]
    return lines


def _confirm(question: str, console: Console) -> bool:
    if not sys.stdin.isatty():
        console.info(f"{question} Not confirmed, because stdin is not a terminal. To confirm, use --yes.")
        return False
    print(f"{visible_row(question)} (y/N): ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _enable(options: argparse.Namespace, console: Console) -> int:
    return _set_enabled(options, console, is_enabled=True)


def _disable(options: argparse.Namespace, console: Console) -> int:
    return _set_enabled(options, console, is_enabled=False)


def _set_enabled(options: argparse.Namespace, console: Console, *, is_enabled: bool) -> int:
    name = options.words[0]
    note = set_skill_enabled(name, is_enabled, workspace_options(options))
    console.info(f"{name} is {'on' if is_enabled else 'off'}{f'. Note: {note}' if note else ''}")
    return OK


def _remove(options: argparse.Namespace, console: Console) -> int:
    name = options.words[0]
    removed = remove_skill(
        name, workspace_options(options), lambda path: options.yes or _confirm(f"Remove {path}?", console)
    )
    console.info(f"{name}: not changed" if removed is None else f"Removed {removed}")
    return ERROR if removed is None else OK


def _new(options: argparse.Namespace, console: Console) -> int:
    created = new_skill(
        options.words[0],
        workspace_options(options),
        description=options.description,
        project=options.project,
        scripts=options.scripts,
    )
    console.row(str(created))
    console.info(f"Edit it, then run `mainspring skills validate {options.words[0]}`.")
    return OK


_ACTIONS: dict[str, Callable[[argparse.Namespace, Console], int]] = {
    "list": _list,
    "show": _show,
    "validate": _validate,
    "install": _install,
    "enable": _enable,
    "disable": _disable,
    "update": _update,
    "remove": _remove,
    "new": _new,
}
