"""The entry point: reads the command line, hands it to a command, and turns whatever happens into an exit code."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from mainspring import __version__
from mainspring.app.cli.startup_interrupt import (
    INTERRUPTED,
    drop_relative_entries,
    exit_on_interrupt,
    restore_keyboard_interrupt,
)

TYPE_CHECKING = False  # `typing` itself would be most of what is loaded before Ctrl-C is heard
if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN_SIGNAL_HANDLING = "ask"
"""The command that listens to signals by itself from where it can be left in good order."""

_COLLECT_AFTER = 100_000
"""New objects between two looks for cycles: what is loaded at the start stays, and looking through it was a sixteenth of the start."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program; that of the process if not given.

    Returns:
        The exit code.
    """
    if arguments is None:
        exit_on_interrupt()
        drop_relative_entries()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"mainspring {__version__}")
        return 0
    if arguments is None:
        gc.set_threshold(_COLLECT_AFTER)
    try:
        return _run(given, owns_process=arguments is None)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        if arguments is None:
            exit_on_interrupt()
            gc.freeze()  # the interpreter looks for cycles in all there is once more when it ends, which nobody needs


def _run(arguments: list[str], *, owns_process: bool) -> int:
    console = import_module("mainspring.app.cli.console")
    if owns_process:
        console.reserve_standard_fds()
        console.use_utf8(sys.stdout, sys.stderr)
    args = import_module("mainspring.app.cli.arguments")
    try:
        name, options = args.parse_arguments(arguments)
        if getattr(options, "version", False):
            print(f"mainspring {__version__}")
            return 0
        options.owns_process = owns_process
        if getattr(options, "worktree", None):
            restore_keyboard_interrupt()
            import_module("mainspring.app.commands.worktrees").apply_worktree_option(options)
        command = import_module(
            f"mainspring.app.commands.{name}" if name in args.COMMANDS else "mainspring.app.cli.default"
        )
        if name != _OWN_SIGNAL_HANDLING:
            restore_keyboard_interrupt()
        return command.run(options)
    except args.UsageError as error:
        return import_module("mainspring.app.cli.errors").report_usage_error(error, arguments)


if __name__ == "__main__":
    sys.exit(main())
