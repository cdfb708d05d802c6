"""Read piped input, and hide the prompt from the process list. Reading never blocks on an open, silent stdin."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable

from mainspring.errors import ConfigError

_MAX_BYTES = 4 << 20
"""Maximum number of bytes to read; more than any model accepts."""

FIRST_BYTE_SECONDS = 1.0
"""Seconds to wait for the first byte if stdin was not requested and no process in the pipeline writes to it."""

_SLOW_SECONDS = 3.0
_SHOWN = b"(prompt)"
_STEP = 0.1


def _never() -> bool:
    return False


def has_producer(descriptor: int) -> bool:
    """Return True if a sibling process has the other end of the pipe, for example ``producer | mainspring``.

    An inherited stdin (from ssh, CI, another program) has its other end elsewhere. Only Linux can detect this; the result is
    False on other systems.
    """
    try:
        pipe = os.fstat(descriptor)
        parent = os.getppid()
        tasks = os.listdir(f"/proc/{parent}/task")
        siblings = {pid for task in tasks for pid in _read_null_separated(f"/proc/{parent}/task/{task}/children")}
    except OSError:
        return False
    return stat.S_ISFIFO(pipe.st_mode) and any(_is_writer(pid, pipe) for pid in siblings - {str(os.getpid())})


def _read_null_separated(path: str) -> list[str]:
    with open(path, encoding="ascii") as file:
        return file.read().split()


def _is_writer(pid: str, pipe: os.stat_result) -> bool:
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if os.lstat(path).st_mode & stat.S_IWUSR and os.path.samestat(os.stat(path), pipe):
                return True
    except OSError:
        pass  # the process ended, or belongs to another user
    return False


class StdinReader:
    """Read stdin in a thread that starts immediately.

    Attributes:
        is_terminal: Whether stdin is a terminal; if so, reading starts on request.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self.is_terminal = os.isatty(self._descriptor)
        self._data = bytearray()
        self._first = threading.Event()
        self._done = threading.Event()
        self._error: OSError | None = None
        if not self.is_terminal:
            self._start()

    def _start(self) -> None:
        threading.Thread(target=self._read, daemon=True, name="stdin").start()

    def _read(self) -> None:
        try:
            while len(self._data) <= _MAX_BYTES:
                piece = os.read(self._descriptor, 1 << 16)
                if not piece:
                    break
                self._data += piece
                self._first.set()
        except OSError as error:
            self._error = error
        self._done.set()
        self._first.set()

    def wait_for_data(self) -> bool:
        """Return True if data or the end of input arrived within a timeout, or is expected."""
        return self._first.wait(0.0) or has_producer(self._descriptor) or self._first.wait(FIRST_BYTE_SECONDS)

    @property
    def is_empty(self) -> bool:
        """Return True if the input ended without data."""
        return self._done.is_set() and not self._data

    def wait(self, seconds: float = _SLOW_SECONDS, *, stop: Callable[[], bool] = _never) -> bool:
        """Return True if the input ended within a timeout, or ``stop`` returned True."""
        if self.is_terminal and not self._done.is_set():
            self.is_terminal = False
            self._start()
        limit = time.monotonic() + seconds
        while not self._done.wait(_STEP) and not stop():
            if time.monotonic() > limit:
                return False
        return True

    def text(self, *, stop: Callable[[], bool] = _never) -> str:
        """Return the input once it has ended, or an empty text if ``stop`` returns True before that.

        Raises:
            ConfigError: If the input is too large, or not text.
        """
        while not self.wait(stop=stop):
            pass
        if not self._done.is_set():
            return ""
        if self._error is not None and not self._data:
            raise ConfigError(f"Cannot read stdin: {self._error.strerror}.")
        if len(self._data) > _MAX_BYTES:
            raise ConfigError(
                f"The input on stdin is larger than {_MAX_BYTES >> 20} MiB, which is too large for a model. Save it to a file, and name the "
                "file in the prompt."
            )
        if b"\0" in self._data:
            raise ConfigError("The input on stdin is binary. Save it to a file, and name the file in the prompt.")
        return self._data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def hide_prompt_in_process_list(prompt: str) -> None:
    """Overwrite the prompt in the arguments of this process, if possible.

    Otherwise, ``pkill -f server``, run by a model whose prompt mentions the server, would also kill the agent.

    Args:
        prompt: Prompt as given in an argument.
    """
    text = os.fsencode(prompt)
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            line = memory.read(end - start)
            at = max(line.rfind(before + text + b"\0") for before in (b"\0", b"="))
            if text and at >= 0:
                memory.seek(start + at + 1)
                memory.write(_SHOWN[: len(text)].ljust(len(text), b"\0"))
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or the process cannot write to its own memory
