"""What all commands have in common: every failure becomes a line and an exit code."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from msgspec.structs import replace

from mainspring.app.cli.console import Console, OutputError
from mainspring.app.cli.errors import in_full, in_words
from mainspring.app.cli.exit_codes import ERROR, INTERRUPTED, PIPE_CLOSED, code_of_error
from mainspring.app.run.options import AskOptions, Confinement, Place, Rules
from mainspring.redaction import redact


def framed(options: argparse.Namespace, work: Callable[[Console], int]) -> int:
    """Do the work of a command.

    Args:
        options: Its options.
        work: Gets the console, gives the exit code.
    """
    console = Console(verbose=options.verbose)
    if getattr(options, "owns_process", False):
        log_to_stderr(options.verbose)
    try:
        return work(console)
    except BrokenPipeError:
        return PIPE_CLOSED
    except OutputError as error:
        console.fail(f"error: {redact(str(error))}")
        return ERROR
    except KeyboardInterrupt:
        console.fail("interrupted")
        return INTERRUPTED
    except Exception as error:  # whatever it is, people read a line and scripts a code
        console.fail(f"error: {in_words(error)}")
        console.detail(in_full(error))
        return code_of_error(error)
    finally:
        console.close()


class _RedactingFormatter(logging.Formatter):
    """Formats a record, with its stack trace, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def log_to_stderr(wanted: bool) -> None:
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


def place_of(options: argparse.Namespace) -> Place:
    """Where a command works."""
    return Place(cwd=options.cwd, offline=options.offline)


def rules_of(options: argparse.Namespace) -> Rules:
    """The permission rules of a command line."""
    return Rules(allow=tuple(options.allow), ask=tuple(options.ask), deny=tuple(options.deny))


def asked(options: argparse.Namespace) -> AskOptions:
    """What the command line of any front end says about a conversation."""
    return AskOptions(
        prompt="",
        place=place_of(options),
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
        rules=rules_of(options),
        on_deny=options.on_deny,
        sandbox=Confinement(layer=options.sandbox, network=options.sandbox_network),
        plan=options.plan,
    )


def ask_options(options: argparse.Namespace) -> AskOptions:
    """What the command line of a person's own conversation says, in the chat or by ``-p``."""
    return replace(
        asked(options),
        accept_edits=options.accept_edits,
        system=options.system,
        tools=options.tools,
        continued=options.continued,
        fork=options.fork,
    )
