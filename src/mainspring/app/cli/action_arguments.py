"""The arguments of each action of a command: how many it takes, and what shell completion offers for each. Imports only the standard library."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

from mainspring.app.cli.parser import Parser, UsageError

ArgumentKinds = tuple[str, ...]
"""The kinds of the arguments of an action, in order. A kind that ends with ``...`` repeats. Lowercase kinds can be completed."""

_ONE_SERVER = ("server",)
_ONE_RUN = ("run",)

ACTION_ARGUMENTS: Mapping[str, Mapping[str, ArgumentKinds]] = {
    "models": {"list": (), "get": ("weights",)},
    "tools": {"list": (), "call": ("tool", "JSON")},
    "sessions": {
        "list": (),
        "show": ("session...",),
        "tree": ("session...",),
        "search": ("TEXT...",),
        "name": ("session", "TEXT..."),
        "rm": ("session...",),
        "purge": (),
        "import": ("file...",),
    },
    "config": {
        "show": ("setting",),
        "get": ("setting",),
        "init": ("provider",),
        "set": ("setting", "value"),
        "unset": ("setting",),
        "edit": (),
        "validate": (),
        "provider": ("provider-action", "provider"),
        "schema": (),
        "path": (),
    },
    "replay": {"traffic": ("file...",)},
    "export": {"": ("session",)},
    "rewind": {"": ("session",)},
    "trust": {"": ("folder",)},
    "memory": {"show": (), "add": ("TEXT",), "path": ()},
    "permissions": {
        "list": (),
        "allow": ("tool",),
        "deny": ("tool",),
        "revoke": ("RULE",),
        "explain": ("tool", "ARGUMENTS"),
    },
    "extensions": {"list": ()},
    "hooks": {"list": (), "test": ("event", "JSON")},
    "mcp": {
        "list": _ONE_SERVER,
        "add": ("NAME", "URL"),
        "remove": _ONE_SERVER,
        "test": _ONE_SERVER,
        "tools": _ONE_SERVER,
        "login": _ONE_SERVER,
        "logout": _ONE_SERVER,
        "logs": _ONE_SERVER,
    },
    "telemetry": {"start": (), "stop": (), "status": (), "url": (), "serve": ()},
    "login": {"": ("login",)},
    "logout": {"": ("login",)},
    "completion": {"": ("shell",)},
    "worktrees": {"list": (), "remove": ("worktree",)},
    "commands": {"list": (), "show": ("command", "TEXT...")},
    "skills": {
        "list": (),
        "show": ("skill",),
        "validate": ("file...",),
        "install": ("file",),
        "enable": ("skill",),
        "disable": ("skill",),
        "update": ("skill...",),
        "remove": ("skill",),
        "new": ("NAME",),
    },
    "runs": {
        "list": (),
        "start": ("TEXT",),
        "show": _ONE_RUN,
        "follow": _ONE_RUN,
        "answer": ("run", "CALL", "TEXT"),
        "steer": ("run", "TEXT"),
        "abort": _ONE_RUN,
        "cancel": _ONE_RUN,
        "retry": _ONE_RUN,
        "delete": ("run...",),
        "prune": (),
    },
}
"""The actions of each command; the arguments of a command without actions are under the empty string."""


def reject_extra_arguments(command: str, parser: Parser, options: argparse.Namespace) -> None:
    """Check that an action takes all arguments it was given.

    Raises:
        UsageError: If it does not, since users would expect an effect of the argument.
    """
    action = getattr(options, "action", "")
    kinds = ACTION_ARGUMENTS.get(command, {}).get(action, ("...",))
    if kinds and kinds[-1].endswith("..."):
        return
    given: list[str] = []
    for argument in parser.arguments:
        if not argument.option_strings and argument.dest != "action":
            value = getattr(options, argument.dest)
            given += value if isinstance(value, list) else [] if value is None else [value]
    if len(given) > len(kinds):
        name = f"mainspring {command} {action}".rstrip()
        hint = (
            f"To show it, use `mainspring {command} show {shlex.quote(given[0])}`. "
            if _can_show(command, action)
            else ""
        )
        hint = "Put text of several words in quotes. " if "TEXT" in kinds else hint
        raise UsageError(
            f"Unexpected argument of `{name}`: {given[len(kinds)]}. {hint}See `mainspring {command} --help`."
        )


def _can_show(command: str, action: str) -> bool:
    return action == "list" and bool(ACTION_ARGUMENTS[command].get("show"))
