"""The entry point: reads the command line, hands it to a command, and turns whatever happens into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from mainspring import __version__

USAGE = 2
ERROR = 1
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a program that SIGPIPE ended gives: 128 + 13."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program; that of the process if not given.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"mainspring {__version__}")
        return 0
    try:
        return _run(given)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        import_module("mainspring.app.cli.console").abandon(sys.stdout)
        return PIPE_CLOSED


def _run(given: list[str]) -> int:
    from mainspring.app.cli.args import UsageError, parse

    try:
        name, options = parse(given)
    except UsageError as error:
        return import_module("mainspring.app.cli.complain").usage(error, given)
    if getattr(options, "version", False):
        print(f"mainspring {__version__}")
        return 0
    command = import_module(f"mainspring.app.cli.{name}")
    return command.run(options)


if __name__ == "__main__":
    sys.exit(main())
