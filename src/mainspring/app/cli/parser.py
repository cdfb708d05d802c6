"""The argument parser, the types of option values, and the options that most commands share. Imports no packages of others, so that
``--help`` is fast.
"""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mainspring.app.cli.console import write_output

STDIN_MARK = "-"
_MAX_USAGE_LINES = 4
"""Maximum number of lines of usage above an error."""
_SYNONYMS = (("rm", "remove", "delete"), ("list", "ls"), ("show", "view", "cat", "get"), ("add", "new", "create"))
"""Names of actions that other programs use for the same."""


class UsageError(Exception):
    """The command line is invalid; ``usage`` is the usage text."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises errors and suggests the closest option for an unknown one."""

    def __init__(self, prog: str, usage: str | None = None, description: str = "", epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "--help", action="help", help="Show this help and exit")

    @property
    def arguments(self) -> Sequence[argparse.Action]:
        """Options and arguments of the parser."""
        return self._actions

    def print_help(self, file: object = None) -> None:
        """Print the help, and fail if that is impossible."""
        write_output(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError`."""
        usage = self.format_usage()
        text = message[:1].upper() + message[1:]
        if usage.count("\n") > _MAX_USAGE_LINES:  # it would hide the error
            end = "" if text.endswith((".", "?")) else "."
            raise UsageError(text if "--help" in text else f"{text}{end} See `{self.prog} --help`.")
        raise UsageError(text, usage)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Reject a value that is not a choice, and suggest the closest one."""
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            same = [name for names in _SYNONYMS if value in names for name in names if name in choices]
            near = same or difflib.get_close_matches(str(value), choices, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (choose from {', '.join(choices)}).{hint}")

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments, and suggest a fix for unknown ones."""
        options, unknown = self.parse_known_intermixed_args(
            arguments
        )  # options may appear between positional arguments
        if unknown:
            first = unknown[0]
            known = [text for action in self._actions for text in action.option_strings]
            near = difflib.get_close_matches(first.partition("=")[0], known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            if first == "--json" and "--output" in known:
                hint = " Did you mean --output json?"
            if not first.startswith("-"):
                hint = (
                    " Put the prompt in quotes after -p."
                    if " " not in self.prog
                    else f" Put text of several words in quotes. See `{self.prog} --help`."
                )
            self.error(f"Unknown argument: {first}.{hint}")
        return options


def positive_int(text: str) -> int:
    """Parse an integer, 1 or more."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def positive_float(text: str) -> float:
    """Parse a finite number greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number greater than 0, not {text!r}")
    return value


def comma_list(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names."""
    return tuple(name.strip() for name in text.split(",") if name.strip() and name.strip() != "none")


class AgentFlag:
    """A flag, the key of its setting in ``agent``, and the arguments of its parser."""

    def __init__(
        self,
        flag: str,
        key: str,
        metavar: str,
        help: str,
        kind: Callable[[str], Any] | None = None,
        choices: tuple[str, ...] | None = None,
    ) -> None:
        self.flag = flag
        self.key = key
        self.metavar = metavar
        self.help = help
        self.kind = kind
        self.choices = choices

    @property
    def name(self) -> str:
        """Name of the value among the parsed options."""
        return self.flag[2:].replace("-", "_")

    def add_to(self, add_argument: Callable[..., Any]) -> None:
        """Add the flag with the method of a parser or a group."""
        if self.kind is bool:
            add_argument(self.flag, action=argparse.BooleanOptionalAction, help=self.help)
            return
        values: dict[str, Any] = {"choices": self.choices} if self.choices else {"type": self.kind}
        add_argument(self.flag, metavar=self.metavar, help=self.help, **values)


def add_permission_options(
    parser: argparse.ArgumentParser,
    default: str = "default: reading in the folder is allowed, writing and running commands is not",
) -> None:
    """Add the options for permission rules; ``default`` describes the behavior without rules."""
    group = parser.add_argument_group(f"permissions ({default})")
    rule = "for example, read_file, 'edit(docs/**)', 'shell(git diff *)', scope:fs-write"
    group.add_argument(
        "--allow", action="append", default=[], metavar="RULE", help=f"Allow matching tool calls: {rule}"
    )
    group.add_argument(
        "--ask",
        action="append",
        default=[],
        metavar="RULE",
        help="Ask before matching tool calls run; without a terminal, deny them",
    )
    group.add_argument(
        "--deny",
        action="append",
        default=[],
        metavar="RULE",
        help="Deny matching tool calls; overrides all other rules",
    )


def add_common_options(parser: Parser) -> Parser:
    """Add ``--json`` and the options of the workspace, and return the parser."""
    parser.add_argument("--json", action="store_true", help="Output JSON")
    add_workspace_options(parser)
    return parser


def add_deny_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--on-deny``."""
    parser.add_argument(
        "--on-deny",
        choices=("continue", "stop"),
        default="continue",
        help="Whether a denied tool call stops the run: continue or stop (default: continue)",
    )


def add_workspace_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the working folder, the network, and verbosity."""
    parser.add_argument("--cwd", metavar="DIR", help="Working folder (default: the current folder)")
    parser.add_argument("--offline", action="store_true", help="Disable network access, except for the model")
    parser.add_argument("-v", "--verbose", action="store_true", help="Print details to stderr")
