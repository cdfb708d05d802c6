"""The output streams of the command: results go to stdout, everything else to stderr. Control sequences in texts are escaped."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TextIO

from mainspring.lazy import lazy_re
from mainspring.text import escape_invisible, truncate_to_fit, visible_json

_DIM, _RED, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"

_BLANKS = lazy_re(r"[ \t\n]+")
_KEPT = 8
"""Characters of the output that are stored as context for the next piece: a joiner or combining mark belongs to the character before it."""


def visible_row(text: str) -> str:
    """Format a text on one row, with line breaks and tabs escaped."""
    return escape_invisible(text, prose=True).replace("\n", "\\n").replace("\t", "\\t")


def one_line(text: str, max_chars: int = 200) -> str:
    """Format a text on one line, truncated if it is too long."""
    return truncate_to_fit(_BLANKS.sub(" ", escape_invisible(text, prose=True)).strip(), max_chars, "...")


def reserve_standard_fds() -> None:
    """Open closed standard descriptors, so that no socket or file of ours gets the number 0, 1, or 2.

    Writing to a closed stdout fails; what is written to a closed stderr is lost. A program that shares its pipe may have made it
    non-blocking, and a full pipe would then cut off the output.
    """
    for number, mode in enumerate((os.O_RDWR, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
        with suppress(OSError, AttributeError):  # Windows has no such function before Python 3.12
            os.set_blocking(number, True)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")


def use_utf8(*streams: TextIO) -> None:
    """Write UTF-8 to streams regardless of the locale, and escape characters that cannot be encoded."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


class OutputError(Exception):
    """The output cannot be written; the message contains the reason."""


class Console:
    """The output of a command.

    Args:
        out: Stream for results.
        err: Stream for everything else.
        environ: Environment variables, which control colors.
        verbose: Whether to show details.

    Attributes:
        is_stdout_terminal: Whether stdout is a terminal.
        verbose: Whether to show details.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        verbose: bool = False,
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.is_stdout_terminal = _is_terminal(self._out)
        self.is_stderr_terminal = _is_terminal(self._err)
        self.verbose = verbose
        self._styled = self.is_stderr_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self._out_open = False
        self._tail = ""
        self._progress = False
        self._step = -1

    def answer(self, text: str) -> None:
        """Write a piece of the result to stdout.

        Raises:
            BrokenPipeError: If the reader closed the pipe.
            OutputError: If the output cannot be written.
        """
        if not text:
            return
        self._write_out(escape_invisible(text, prose=True, before=self._tail) if self.is_stdout_terminal else text)
        self._tail = (self._tail + text)[-_KEPT:]
        self._out_open = not text.endswith("\n")

    def row(self, text: str) -> None:
        """Write a row of a list. Names in it cannot add lines or control sequences, even in files and pipes."""
        self.answer(f"{visible_row(text)}\n")

    def end_answer(self) -> None:
        """End the line that the result left open."""
        if self._out_open:
            self.answer("\n")

    def break_line(self) -> None:
        """Start a new line on a terminal before other output."""
        if self.is_stdout_terminal:
            self.end_answer()

    def data(self, text: str) -> None:
        """Write one line of JSON.

        Raises:
            BrokenPipeError: If the reader closed the pipe.
            OutputError: If the output cannot be written.
        """
        self._write_out((visible_json(text) if self.is_stdout_terminal else text) + "\n")

    def write_json(self, value: object) -> None:
        """Write a value as one line of JSON; see `data`. Names in it contain no invisible characters, even in files and pipes."""
        import msgspec  # not needed for --help

        self.data(visible_json(msgspec.json.encode(value).decode()))

    def write_list(self, value: object, rows: Iterable[str], empty: str = "", *, as_json: bool) -> None:
        """Write a value as JSON, or its rows; without rows, ``empty`` is written as information."""
        if as_json:
            self.write_json(value)
            return
        has_rows = False
        for row in rows:
            self.row(row)
            has_rows = True
        if empty and not has_rows:
            self.info(empty)

    def _write_out(self, text: str) -> None:
        write_output(text, self._out)

    def info(self, text: str) -> None:
        """Print a message to stderr."""
        self._line(text, _DIM)

    def verbose_info(self, text: str) -> None:
        """Print a message to stderr if ``-v`` is set."""
        if self.verbose:
            self._line(text, _DIM)

    def fail(self, text: str) -> None:
        """Print an error to stderr."""
        self._line(text, _RED)

    def progress(self, text: str, share: float = 0.0, *, last: bool = False) -> None:
        """Show progress: in place on a terminal, or a line for each 10%."""
        if self.is_stderr_terminal:
            self._write(f"\r{escape_invisible(text)}\x1b[K" if self._styled else f"\r{escape_invisible(text)}")
            self._progress = not last
            if last:
                self._write("\n")
            return
        step = int(share * 10)
        if last or step != self._step:
            self._step = step
            self._line(text, _DIM)

    def _line(self, text: str, style: str) -> None:
        if self._progress:
            self._progress = False
            self._write("\n")
        self.break_line()
        shown = escape_invisible(text, prose=True)
        self._write(f"{style}{shown}{_PLAIN}\n" if self._styled else f"{shown}\n")

    def _write(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except (OSError, ValueError):
            pass  # stderr is closed; the command continues

    def close(self) -> None:
        """Flush stdout. A closed pipe is not an error here."""
        try:
            self._out.flush()
        except (OSError, ValueError):
            discard_stream(self._out)


def write_output(text: str, out: TextIO | None = None) -> None:
    """Write text to stdout, or another stream for results.

    Raises:
        BrokenPipeError: If the reader closed the pipe.
        OutputError: If the output cannot be written.
    """
    stream = out or sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        discard_stream(stream)
        is_closed = isinstance(error, ValueError) or error.errno == errno.EBADF
        reason = "stdout is closed" if isinstance(error, ValueError) or is_closed else error.strerror or error
        raise OutputError(f"Cannot write the output: {reason}.") from error


def write_error(text: str) -> None:
    """Write a line to stderr; if it is full or closed, the line is lost, and the exit code is the message."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard_stream(sys.stderr)


def discard_stream(stream: TextIO) -> None:
    """Redirect a closed stream to the null device, so that the interpreter's last flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass


def discard_failed_stream(stream: TextIO) -> None:
    """Discard a stream if its last text cannot be written; otherwise the interpreter would exit with code 120."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard_stream(stream)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False
