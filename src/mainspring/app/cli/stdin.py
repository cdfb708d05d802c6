"""What is piped in, and what of the command line is hidden. Reading never hangs on a stdin that is open and silent."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable

from mainspring.errors import ConfigError

_MAX_BYTES = 4 << 20
"""Bytes that are taken; more than any model reads."""

FIRST_BYTE_SECONDS = 1.0
"""Seconds in which something has to come where nobody asked for stdin and nobody in sight is going to write to it."""

_SLOW_SECONDS = 3.0
_SHOWN = b"(prompt)"
_STEP = 0.1


def _never() -> bool:
    return False


def has_producer(descriptor: int) -> bool:
    """Whether a sibling process holds the other end of the pipe, as in ``producer | mainspring``: then it is worth waiting.

    A stdin that is merely inherited (from ssh, CI, another program) has its other end somewhere else. Only Linux can tell;
    elsewhere the answer is no.
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
        pass  # it has ended, or is none of ours
    return False


class StdinReader:
    """Reads stdin in a thread, from the moment it is made.

    Attributes:
        is_terminal: Whether stdin is a terminal; then nothing is read before it is asked for.
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

    def wait_for_data(self, seconds: float = FIRST_BYTE_SECONDS) -> bool:
        """Whether something (or the end) came within some time, or is going to come."""
        return self._first.wait(0.0) or has_producer(self._descriptor) or self._first.wait(seconds)

    @property
    def is_empty(self) -> bool:
        """Whether the end came with nothing before it."""
        return self._done.is_set() and not self._data

    def wait(self, seconds: float = _SLOW_SECONDS, *, stop: Callable[[], bool] = _never) -> bool:
        """Whether the end came within some time, or ``stop`` said that it does not matter any more."""
        if self.is_terminal and not self._done.is_set():
            self.is_terminal = False
            self._start()
        limit = time.monotonic() + seconds
        while not self._done.wait(_STEP) and not stop():
            if time.monotonic() > limit:
                return False
        return True

    def text(self, *, stop: Callable[[], bool] = _never) -> str:
        """Everything, once the end has come; nothing if ``stop`` says so before.

        Raises:
            ConfigError: If it is too much, or no text.
        """
        while not self.wait(stop=stop):
            pass
        if not self._done.is_set():
            return ""
        if self._error is not None and not self._data:
            raise ConfigError(f"stdin cannot be read: {self._error.strerror}")
        if len(self._data) > _MAX_BYTES:
            raise ConfigError(
                f"stdin holds more than {_MAX_BYTES >> 20} MiB, which is more than a model reads; save it to a file and name the "
                "file in the prompt, so that what matters is looked up"
            )
        if b"\0" in self._data:
            raise ConfigError("stdin holds binary data; save it to a file and name the file in the prompt")
        return self._data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def hide_prompt_in_process_list(prompt: str) -> None:
    """Write over the prompt where the system looks for the arguments of this process; where it cannot be done it stays.

    ``pkill -f server`` of a model that was asked about a server would else end the agent too.

    Args:
        prompt: As it was given, for one argument of its own.
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
        pass  # no Linux, or one that does not let a process write to itself
