"""What all commands have in common: every failure becomes a line and an exit code."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from msgspec.structs import replace

from mainspring.app.cli.console import Console, OutputError
from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.exit_codes import ERROR, INTERRUPTED, PIPE_CLOSED, exit_code_for_error
from mainspring.app.run.options import LaunchOptions, PermissionFlags, SandboxOptions, WorkspaceOptions
from mainspring.redaction import redact_environment


def run_command(options: argparse.Namespace, work: Callable[[Console], int]) -> int:
    """Do the work of a command.

    Args:
        options: Its options.
        work: Gets the console, gives the exit code.
    """
    console = Console(verbose=options.verbose)
    if getattr(options, "owns_process", False):
        configure_logging(options.verbose)
    try:
        return work(console)
    except BrokenPipeError:
        return PIPE_CLOSED
    except OutputError as error:
        console.fail(f"error: {redact_environment(str(error))}")
        return ERROR
    except KeyboardInterrupt:
        console.fail("interrupted")
        return INTERRUPTED
    except Exception as error:  # whatever it is, people read a line and scripts a code
        console.fail(f"error: {describe_error(error)}")
        console.verbose_info(format_traceback(error))
        return exit_code_for_error(error)
    finally:
        console.close()


class _RedactingFormatter(logging.Formatter):
    """Formats a record, with its stack trace, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_environment(super().format(record))


def configure_logging(wanted: bool) -> None:
    """Have the library's log on stderr, or nowhere: its records are for developers, what matters is told as a notice."""
    log = logging.getLogger("mainspring")
    log.propagate = False
    log.handlers.clear()
    if not wanted:
        log.addHandler(logging.NullHandler())
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_RedactingFormatter("%(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def workspace_options(options: argparse.Namespace) -> WorkspaceOptions:
    """Where a command works."""
    return WorkspaceOptions(cwd=options.cwd, offline=options.offline)


def permission_flags(options: argparse.Namespace) -> PermissionFlags:
    """The permission rules of a command line."""
    return PermissionFlags(allow=tuple(options.allow), ask=tuple(options.ask), deny=tuple(options.deny))


def launch_options(options: argparse.Namespace) -> LaunchOptions:
    """What the command line of any front end says about a conversation."""
    return LaunchOptions(
        prompt="",
        place=workspace_options(options),
        model=options.model,
        provider=options.provider,
        thinking=options.thinking,
        session=options.session,
        session_id=options.session_id,
        save=not options.no_session,
        max_turns=options.max_turns,
        max_seconds=options.max_seconds,
        max_cost=options.max_cost,
        max_total_tokens=options.max_tokens,
        max_output_tokens=options.max_output_tokens,
        rules=permission_flags(options),
        on_deny=options.on_deny,
        sandbox=SandboxOptions(layer=options.sandbox, network=options.sandbox_network),
        plan=options.plan,
    )


def chat_launch_options(options: argparse.Namespace) -> LaunchOptions:
    """What the command line of a person's own conversation says, in the chat or by ``-p``."""
    return replace(
        launch_options(options),
        accept_edits=options.accept_edits,
        system=options.system,
        tools=options.tools,
        continued=options.continued,
        fork=options.fork,
    )
