"""The entry point: reads the command line, hands it to a command, and turns whatever happens into an exit code."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from mainspring import __version__
from mainspring.app.cli.startup_interrupt import INTERRUPTED, drop_relative_entries, end_at_once, raise_again

TYPE_CHECKING = False  # `typing` itself would be most of what is loaded before Ctrl-C is heard
if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTENS_ITSELF = "ask"
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
        end_at_once()
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
            end_at_once()
            gc.freeze()  # the interpreter looks for cycles in all there is once more when it ends, which nobody needs


def _run(given: list[str], *, owns_process: bool) -> int:
    console = import_module("mainspring.app.cli.console")
    if owns_process:
        console.claim_standard_files()
        console.use_utf8(sys.stdout, sys.stderr)
    args = import_module("mainspring.app.cli.arguments")
    try:
        name, options = args.parse(given)
        if getattr(options, "version", False):
            print(f"mainspring {__version__}")
            return 0
        options.owns_process = owns_process
        if getattr(options, "worktree", None):
            raise_again()
            import_module("mainspring.app.commands.worktrees").enter(options)
        command = import_module(
            f"mainspring.app.commands.{name}" if name in args.COMMANDS else "mainspring.app.cli.default"
        )
        if name != _LISTENS_ITSELF:
            raise_again()
        return command.run(options)
    except args.UsageError as error:
        return import_module("mainspring.app.cli.errors").complain(error, given)


if __name__ == "__main__":
    sys.exit(main())
