"""One run, shown in the form that was asked for. Whatever happens, it ends with its result and its exit code."""

from __future__ import annotations

import argparse
import asyncio
import os
import threading

from msgspec.structs import replace

from mainspring.app.cli.arguments import STDIN
from mainspring.app.cli.console import Console, OutputError
from mainspring.app.cli.interrupts import Interrupts
from mainspring.app.cli.runner import ask_options, framed
from mainspring.app.cli.stdin import PATIENCE, Piped, hide_prompt
from mainspring.app.compose.conversation import Conversation
from mainspring.app.printing.output_schema import schema_of
from mainspring.app.printing.print_mode import ask
from mainspring.app.printing.text_output import Renderer, renderer
from mainspring.app.run.events import Outcome
from mainspring.app.run.options import AskOptions
from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError

_TEARDOWN_SECONDS = 5.0


def print_run(given: argparse.Namespace, piped: Piped) -> int:
    """Run a prompt; the exit code."""
    return framed(given, lambda console: _Run(given, piped, console).go())


class _Run:
    """One run of the command."""

    def __init__(self, given: argparse.Namespace, piped: Piped, console: Console) -> None:
        self._given = given
        self._piped = piped
        self._console = console
        self._show: Renderer = renderer(given.output, console)
        self._signal = CancelToken()
        self._interrupts = Interrupts(self._signal, self._leave)
        self._conversation: Conversation | None = None
        self._told = False

    def go(self) -> int:
        with self._interrupts:
            return asyncio.run(self._go())

    async def _go(self) -> int:
        try:
            outcome = await ask(await self._options(), self._show.report, self._signal, on_ready=self._ready)
        except (BrokenPipeError, OutputError):
            raise
        except (AgentAbortedError, KeyboardInterrupt):
            outcome = Outcome(status="aborted")
        except Exception as error:  # it is the outcome, in every form of output
            outcome = Outcome(status="error", error=error)
        self._told = True
        code = self._show.finish(outcome, self._interrupts.number)
        self._console.close()
        self._be_gone(code)
        return code

    async def _options(self) -> AskOptions:
        """What was asked for, with what is piped in.

        Raises:
            ConfigError: If what is piped in cannot be used.
        """
        given = self._given
        own = "" if given.prompt in {None, STDIN} else _clean(given.prompt)
        if own and given.owns_process:
            hide_prompt(str(given.prompt))
        piped = await asyncio.to_thread(self._read, not own and given.execute is None)
        return replace(
            ask_options(given),
            prompt=own,
            piped=piped,
            schema=await asyncio.to_thread(schema_of, given.schema) if given.schema else None,
            execute=given.execute,
        )

    def _read(self, needed: bool) -> str:
        """What is piped in; where there is a prompt, only what comes soon."""
        piped = self._piped
        if not needed:
            if piped.terminal:
                return ""
            if not piped.ready():
                self._console.say(
                    f"note: stdin is open, but nothing came within {PATIENCE:g} s, so it is not read; "
                    "pipe the prompt itself in (-p -) to wait for it"
                )
                return ""
        elif piped.terminal:
            self._console.say("the prompt is read from the terminal; end it with Ctrl-D")
        if not piped.wait(stop=lambda: self._signal.cancelled):
            self._console.say("waiting for the end of stdin ...")
        return piped.text(stop=lambda: self._signal.cancelled)

    def _ready(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def _leave(self, number: int) -> None:
        """Leave at once: end the programs, and close the output with its last line."""
        known = self._conversation
        if known is not None:
            known.env.kill_all()
        if not self._told:
            self._told = True
            session = known.session.id if known is not None and known.session is not None else ""
            model = known.choice.name if known is not None else None
            self._show.finish(Outcome(status="aborted", session_id=session, model=model), number)

    def _be_gone(self, code: int) -> None:
        """Whatever may still hold the process, it ends soon."""
        if self._given.owns_process:
            limit = threading.Timer(_TEARDOWN_SECONDS, os._exit, (code,))
            limit.daemon = True
            limit.start()


def _clean(text: str) -> str:
    """An argument as text: bytes that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
