"""Distinguish rules that mean the same in every project from those that name a file of one project."""

from __future__ import annotations

import posixpath

from mainspring.permissions.command_patterns import compile_command_pattern
from mainspring.permissions.rules import COMMAND_TOOLS, FILE_TOOLS, PermissionRule
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.programs import INTERPRETERS, SHELLS

_SOURCING = frozenset(("source", "."))
_ROOTED = ("/", "~", wildcards.HOME)
_SCRIPTS = tuple(
    ".sh .bash .zsh .py .pyz .js .mjs .cjs .ts .rb .pl .php .lua .jar .go .ps1 .bat .cmd .exe .tcl .awk .R".split()
)
_MAX_DEPTH = 3


def is_portable(rule: PermissionRule) -> bool:
    """Return True if a rule is about the same thing in every project: it names no path that starts at the project's folder."""
    if relative_program(rule):
        return False
    about_files = rule.tool in FILE_TOOLS or (rule.scope or "").startswith("fs-")
    return not (about_files and rule.pattern is not None and not rule.pattern.startswith(_ROOTED))


def relative_program(rule: PermissionRule) -> str:
    """Return the program or script that a rule about commands names by a relative path, or an empty string.

    Such a path is another file in each project.
    """
    about_commands = rule.scope == "shell-run" or any(
        rule.tool and wildcards.fullmatch(wildcards.encode_wildcards(rule.tool), name) for name in COMMAND_TOOLS
    )
    if not about_commands or rule.pattern is None:
        return ""
    return _relative_word(rule.pattern)


def _relative_word(command: str, depth: int = 0) -> str:
    tokens = compile_command_pattern(command).tokens
    for i, token in enumerate(tokens):
        if _is_relative_path(token) or _is_script(token):
            return _format_argument(token)
        inner = _relative_word(token, depth + 1) if " " in token and depth < _MAX_DEPTH else ""  # code of `sh -c`
        if inner:
            return inner
        if _runs_scripts(token):
            script = next((t for t in tokens[i + 1 :] if not t.startswith("-")), "")
            by_option = any(t in ("-m", "-c", "-e") for t in tokens[i + 1 : i + 2])
            if script and wildcards.is_literal(script) and not by_option and not script.startswith(_ROOTED):
                return _format_argument(script)
    return ""


def _is_relative_path(token: str) -> bool:
    """Return True for ``./x``, ``../x``, and ``folder/x``.

    Return False for options, assignments, and URLs.
    """
    if token.startswith((*_ROOTED, "-")) or "/" not in token:
        return False
    head = token.partition("/")[0]
    return not any(sign in head for sign in ("=", ":", "@"))


def _is_script(token: str) -> bool:
    return (
        token.endswith(_SCRIPTS)
        and wildcards.is_literal(token)
        and not token.startswith((*_ROOTED, "-"))
        and ":" not in token
    )


def _runs_scripts(token: str) -> bool:
    name = posixpath.basename(token)
    return name in SHELLS or name in _SOURCING or name.rstrip("0123456789.") in INTERPRETERS


def _format_argument(token: str) -> str:
    return token.replace(wildcards.ANY_TEXT, "*").replace(wildcards.ANY_CHAR, "?").replace(wildcards.VISIBLE, "?")
