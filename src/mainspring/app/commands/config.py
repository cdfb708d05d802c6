"""``mainspring config``: show, check, and change settings.

``mainspring config edit`` edits a copy in an editor, and replaces the file once the copy is valid.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import ERROR, OK, USAGE
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.workspace.manage_settings import (
    SettingsView,
    change_config,
    describe_settings,
    find_setting,
    read_for_editing,
    save_edited,
    settings_schema,
    validate_config,
    validate_text,
)
from mainspring.errors import ConfigError
from mainspring.programs import find_program


def run(options: argparse.Namespace) -> int:
    """Show, check, or change settings, and return the exit code.

    Raises:
        UsageError: If the key or value is missing.
    """
    action = options.action
    if action in {"get", "set", "unset"} and not options.key:
        raise UsageError(
            f"config {action} requires a KEY, for example, agent.maxTurns. List all keys with `mainspring config show --all`."
        )
    if action == "set" and options.value is None:
        raise UsageError("config set requires a VALUE; '-' reads it from stdin.")
    if action == "provider":
        _check_provider(options)
    if action in {"init", "provider"}:
        return run_command(
            options, lambda console: import_module("mainspring.app.commands.setup").run(options, console)
        )
    if action == "edit":
        return run_command(
            options, lambda console: import_module("mainspring.app.commands.config").run_edit(options, console)
        )
    if action == "schema":
        return run_command(options, _schema)
    work = {"set": _set_or_unset, "unset": _set_or_unset, "get": _get, "validate": _validate}.get(action, _show)
    return run_command(options, lambda console: work(options, console))


def _check_provider(options: argparse.Namespace) -> None:
    if options.key not in {None, "list", "add", "remove"}:
        raise UsageError(f"Unknown action: config provider {options.key}. Use list, add, or remove.")
    if options.key in {"add", "remove"} and not options.value:
        raise UsageError(
            f"config provider {options.key} requires a NAME. List the providers with `mainspring config provider list`."
        )


def _set_or_unset(options: argparse.Namespace, console: Console) -> int:
    value: str | None = None
    if options.action == "set":
        value = StdinReader().text().strip() if options.value == STDIN_MARK else options.value
    change = change_config(options.key, value, place=workspace_options(options), project=options.project)
    if value is not None:
        console.info(f"Set {options.key} in {change.file}")
    else:
        console.info(
            f"{f'Removed {options.key} from' if change.changed else f'{options.key} is not set in'} {change.file}"
        )
    for problem in change.problems:
        console.info(f"Note: {problem}")
    return 0


def _validate(options: argparse.Namespace, console: Console) -> int:
    found = validate_config(workspace_options(options), strict=options.strict)
    wrong = any(f.level == "error" for f in found)
    console.write_list(found, (f"{f.level}: {f.text or f.file}" for f in found), as_json=options.json)
    return USAGE if wrong else 0


def _schema(console: Console) -> int:
    console.answer(settings_schema())
    return 0


def _get(options: argparse.Namespace, console: Console) -> int:
    found = find_setting(options.key, workspace_options(options))
    if options.json:
        console.write_json(found)
    elif found.value is None:
        console.info(f"{found.key} is not set")
    else:
        console.row(found.value if isinstance(found.value, str) else json.dumps(found.value, ensure_ascii=False))
    return ERROR if found.value is None else OK


def _show(options: argparse.Namespace, console: Console) -> int:
    found = describe_settings(workspace_options(options), include_unset=options.all, section=options.key or "")
    for warning in found.warnings:
        console.info(f"Note: {warning}")
    if options.action == "path":
        for file in found.files:
            console.row(file)
    elif options.json:
        console.write_json(found)
    else:
        for line in _format_table(found):
            console.row(line)
        if not found.settings and not options.key:
            console.info("No settings yet. Set up a provider with `mainspring config init`.")
    return 0


def _format_table(view: SettingsView) -> list[str]:
    shown = [(f"{s.key} = {json.dumps(s.value, ensure_ascii=False)}", s.origin) for s in view.settings]
    width = min(max((len(text) for text, _ in shown), default=0), 60)
    return [f"{text:{width}}   # {origin}" for text, origin in shown]


_EDITORS = ("nano", "vim", "vi")


def run_edit(options: argparse.Namespace, console: Console) -> int:
    """Edit the settings, and return the exit code.

    Raises:
        ConfigError: If no editor is found, or the file cannot be written.
    """
    editor = _find_editor()
    file, before = read_for_editing(workspace_options(options), project=options.project)
    with tempfile.TemporaryDirectory(prefix="mainspring-") as folder:
        copy = Path(folder, "settings.json")
        copy.touch(0o600)
        copy.write_text(before, encoding="utf-8")
        while True:
            code = subprocess.run([*editor, str(copy)], check=False).returncode
            if code:
                raise ConfigError(f"The editor {editor[0]} exited with code {code}. Your changes were not saved.")
            text = copy.read_text(encoding="utf-8-sig")
            try:
                warnings = validate_text(text, file)
                break
            except ConfigError as error:
                console.fail(str(error))
                if not (sys.stdin.isatty() and _ask_retry()):
                    console.info(f"No changes to {file}")
                    return USAGE
    if text == before:
        console.info(f"No changes to {file}")
        return 0
    save_edited(file, before, text, private=not options.project)
    for warning in warnings:
        console.info(f"Note: {warning}")
    console.info(f"Saved {file}")
    return 0


def _find_editor() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        if given := os.environ.get(name, "").strip():
            return shlex.split(given)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):  # these editors draw on the terminal
        raise ConfigError("config edit requires a terminal. Use `mainspring config set KEY VALUE`, or set EDITOR.")
    found = next((program for name in _EDITORS if (program := find_program(name))), None)
    if found is None:
        raise ConfigError("No editor found. Set EDITOR, or use `mainspring config set KEY VALUE`.")
    return [found]


def _ask_retry() -> bool:
    print("Edit again? (Y/n) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower()[:1] != "n"
