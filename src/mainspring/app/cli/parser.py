"""Reading a command line: a parser that raises, the values of options, and the options that most commands have. Imports nothing but
the standard library, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Sequence
from typing import NoReturn

STDIN_MARK = "-"


class UsageError(Exception):
    """The command line is wrong; ``usage`` is how it is meant."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises, and offers the nearest option for one it does not know."""

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
        self.add_argument("-h", "--help", action="help", help="show this and leave")

    @property
    def arguments(self) -> Sequence[argparse.Action]:
        """The options and arguments that it knows."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise UsageError(message, self.format_usage())

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse, with a hint for what is unknown."""
        options, unknown = self.parse_known_intermixed_args(arguments)  # options may stand between what is named
        if unknown:
            first = unknown[0]
            known = [text for action in self._actions for text in action.option_strings]
            near = difflib.get_close_matches(first.partition("=")[0], known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            if first == "--json" and "--output" in known:
                hint = "; did you mean --output json?"
            if not first.startswith("-"):
                hint = "; put a prompt after -p, in quotes" if " " not in self.prog else f"; see {self.prog} --help"
            self.error(f"unknown argument {first!r}{hint}")
        return options


def positive_int(text: str) -> int:
    """A whole number, 1 or more."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def positive_float(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def comma_list(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip() and name.strip() != "none")


def add_permission_options(
    parser: argparse.ArgumentParser, default: str = "reading in the folder is allowed, writing and running is not"
) -> None:
    """Options for rules; ``default`` says what holds without any."""
    group = parser.add_argument_group(f"permissions ({default})")
    rule = "as in read_file, 'edit(docs/**)', 'shell(git diff *)', scope:fs-write"
    group.add_argument("--allow", action="append", default=[], metavar="RULE", help=f"allow it: {rule}")
    group.add_argument(
        "--ask", action="append", default=[], metavar="RULE", help="ask before it; without a terminal: deny"
    )
    group.add_argument("--deny", action="append", default=[], metavar="RULE", help="deny it, whatever else allows it")


def add_workspace_options(parser: argparse.ArgumentParser) -> None:
    """Options for where a command works."""
    parser.add_argument("--cwd", metavar="DIR", help="work in this folder")
    parser.add_argument("--offline", action="store_true", help="use no network but the model's own; fetch nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="details on stderr")
