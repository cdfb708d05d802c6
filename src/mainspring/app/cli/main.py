"""The entry point: parses the command line, runs a command, and returns an exit code for any outcome."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

from mainspring import __version__
from mainspring.app.cli.startup_interrupt import (
    INTERRUPTED,
    PIPE_CLOSED,
    drop_relative_entries,
    exit_on_interrupt,
    keep_exit_codes,
    restore_keyboard_interrupt,
)

TYPE_CHECKING = False  # Importing `typing` would take most of the time before Ctrl-C is handled.
if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN_SIGNAL_HANDLING = "ask"
"""The command that handles signals itself, from the point where it can stop cleanly."""

_COLLECT_AFTER = 100_000
"""Number of new objects between two garbage collections. The modules loaded at startup stay, and traversing them took 6% of the startup time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Command-line arguments without the program name (default: those of the process).

    Returns:
        The exit code.
    """
    if arguments is None:
        exit_on_interrupt()
        keep_exit_codes()
        drop_relative_entries()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        if given in (["--version"], ["-V"]) and _is_version_printed():
            return 0
        gc.set_threshold(_COLLECT_AFTER)
    try:
        return _run(given, owns_process=arguments is None)
    except KeyboardInterrupt:
        import_module("mainspring.app.cli.console").write_error("Interrupted.")
        return INTERRUPTED
    finally:
        if arguments is None:
            exit_on_interrupt()
            gc.freeze()  # Skip the last garbage collection at exit, which takes time and frees nothing useful.


def _is_version_printed() -> bool:
    """Print the version. Return False if that fails, which only the modules loaded for other commands can report."""
    try:
        # Not `print`: text that cannot be written stays in the buffer of stdout, and fails once more at exit.
        os.write(1, f"mainspring {__version__}\n".encode())
    except OSError:
        return False
    return True


def _run(arguments: list[str], *, owns_process: bool) -> int:
    console = import_module("mainspring.app.cli.console")
    if owns_process:
        console.reserve_standard_fds()
        console.use_utf8(sys.stdout, sys.stderr)
    try:
        return _dispatch(arguments, owns_process=owns_process)
    except BrokenPipeError:
        console.discard_stream(sys.stdout)
        return PIPE_CLOSED
    except console.OutputError as error:
        console.write_error(f"Error: {error}")
        return 1
    finally:
        if owns_process:
            console.discard_failed_stream(sys.stderr)


def _dispatch(arguments: list[str], *, owns_process: bool) -> int:
    args = import_module("mainspring.app.cli.arguments")
    end_worktree = None
    try:
        name, options = args.parse_arguments(arguments)
        if getattr(options, "version", False):
            import_module("mainspring.app.cli.console").write_output(f"mainspring {__version__}\n")
            return 0
        options.owns_process = owns_process
        if getattr(options, "worktree", None):
            restore_keyboard_interrupt()
            end_worktree = import_module("mainspring.app.commands.worktrees").apply_worktree_option(options)
        command = import_module(
            f"mainspring.app.commands.{name}" if name in args.COMMANDS else "mainspring.app.cli.default"
        )
        if name != _OWN_SIGNAL_HANDLING:
            restore_keyboard_interrupt()
        code = command.run(options)
    except args.UsageError as error:
        code = import_module("mainspring.app.cli.errors").report_usage_error(error, arguments)
    if end_worktree is not None:
        end_worktree(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
