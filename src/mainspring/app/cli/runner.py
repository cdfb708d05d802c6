"""Run a command, and turn every error into a message and an exit code."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from msgspec.structs import replace

from mainspring.app.cli.agent_flags import AGENT_FLAGS
from mainspring.app.cli.console import Console, OutputError
from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.exit_codes import ERROR, INTERRUPTED, PIPE_CLOSED, exit_code_for_error
from mainspring.app.run.options import LaunchOptions, PermissionFlags, SandboxOptions, WorkspaceOptions
from mainspring.redaction import redact_environment


def run_command(options: argparse.Namespace, work: Callable[[Console], int]) -> int:
    """Run a command.

    Args:
        options: Parsed options of the command.
        work: Function that receives the console and returns the exit code.
    """
    console = Console(verbose=options.verbose)
    if getattr(options, "owns_process", False):
        configure_logging(options.verbose)
    try:
        return work(console)
    except BrokenPipeError:
        return PIPE_CLOSED
    except OutputError as error:
        console.fail(f"Error: {redact_environment(str(error))}")
        return ERROR
    except KeyboardInterrupt:
        console.fail("Interrupted.")
        return INTERRUPTED
    except Exception as error:  # users need a message and scripts an exit code, whatever the error is
        console.fail(f"Error: {describe_error(error)}")
        console.verbose_info(format_traceback(error))
        return exit_code_for_error(error)
    finally:
        console.close()


class _RedactingFormatter(logging.Formatter):
    """Format log records and their stack traces without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_environment(super().format(record))


def configure_logging(verbose: bool) -> None:
    """Write the library's log to stderr, or discard it: log records are for developers, and notices are for users."""
    log = logging.getLogger("mainspring")
    log.propagate = False
    log.handlers.clear()
    if not verbose:
        log.addHandler(logging.NullHandler())
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_RedactingFormatter("%(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def workspace_options(options: argparse.Namespace) -> WorkspaceOptions:
    """Return the workspace options of a command line."""
    return WorkspaceOptions(cwd=options.cwd, offline=options.offline)


def permission_flags(options: argparse.Namespace) -> PermissionFlags:
    """Return the permission rules of a command line."""
    return PermissionFlags(allow=tuple(options.allow), ask=tuple(options.ask), deny=tuple(options.deny))


def launch_options(options: argparse.Namespace) -> LaunchOptions:
    """Return the session options that the command line of every front end has."""
    return LaunchOptions(
        prompt="",
        place=workspace_options(options),
        model=options.model,
        provider=options.provider,
        session=options.session,
        session_id=options.session_id,
        save=not options.no_session,
        agent={flag.key: value for flag in AGENT_FLAGS if (value := getattr(options, flag.name)) is not None},
        rules=permission_flags(options),
        on_deny=options.on_deny,
        sandbox=SandboxOptions(layer=options.sandbox, network=options.sandbox_network),
        plan=options.plan,
    )


def chat_launch_options(options: argparse.Namespace) -> LaunchOptions:
    """Return the session options of the chat and of ``-p``."""
    return replace(
        launch_options(options),
        accept_edits=options.accept_edits,
        require_mcp=options.require_mcp,
        system=options.system,
        tools=options.tools,
        continued=options.continued,
        fork=options.fork,
    )
