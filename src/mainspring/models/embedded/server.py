"""One llama.cpp server per model file: a child process on loopback with a random key, started on demand, stopped at exit.

Blocking work runs in threads, and a server belongs to the process rather than to an event loop, so that several loops of
one process (``run_sync`` twice, tests) share it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from mainspring.errors import ModelError, NetworkError, ProviderConfigError
from mainspring.models.embedded.engine import ALTERNATIVES_HINT, check_engine, thread_count
from mainspring.python import package_folders, python_script

_CHILD = Path(__file__).with_name("server_process.py")
_START_SECONDS = 180.0
_END_SECONDS = 3.0
_DYING_SECONDS = 0.5
_TAIL = 6
_ILLEGAL_INSTRUCTION = (-4, 0xC000001D)  # SIGILL, and its equivalent on Windows
_KILLED = -9


class Endpoint(Struct, frozen=True):
    """Address and key of a running server."""

    base_url: str
    key: str


class LlamaServer:
    """The server of one model file.

    Args:
        model: Path of the GGUF file.
        context: Maximum number of prompt and output tokens together.
        cache_mib: Memory for cached prompts of idle conversations.
    """

    def __init__(self, model: Path, *, context: int = 8192, cache_mib: int = 256) -> None:
        self.model = model
        self.context = context
        self.cache_mib = cache_mib
        self.users = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._endpoint: Endpoint | None = None
        self._stderr: IO[bytes] | None = None
        self._owner_pid = 0

    @property
    def pid(self) -> int | None:
        """Process ID of the child process, if it is running."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Return True if the server accepts requests."""
        return self._endpoint is not None and self._process is not None and self._process.poll() is None

    async def endpoint(self) -> Endpoint:
        """Return the endpoint; start the server if necessary.

        Raises:
            ModelError: The server cannot be started; the text contains the cause and the fix.
        """
        if self._endpoint is not None and self.running:
            return self._endpoint
        return await asyncio.to_thread(self._start)

    def failure(self) -> str:
        """Return the exit status and the last output of the process if it crashed; otherwise an empty string."""
        process = self._process
        if process is None:
            return ""
        try:
            code = process.wait(_DYING_SECONDS)  # its connections close shortly before it exits
        except subprocess.TimeoutExpired:
            return ""
        return f"the model's process exited ({_describe_exit(code)}){_quoted(self._stderr_tail())}"

    def stop(self) -> None:
        """Stop the process. Another request starts it again."""
        with self._lock:
            self._stop()

    def _start(self) -> Endpoint:
        with self._lock:
            if self._endpoint is not None and self.running:
                return self._endpoint
            self._stop()
            check_engine()
            key = secrets.token_urlsafe(32)
            try:
                self._endpoint = Endpoint(self._launch(key), key)
            except ModelError:
                self._stop()
                raise
            return self._endpoint

    def _launch(self, key: str) -> str:
        self._process = process = self._spawn()
        late = threading.Event()

        def expire() -> None:
            late.set()
            process.kill()

        limit = threading.Timer(_START_SECONDS, expire)
        limit.start()
        try:
            answer = self._configure(process, key)
        finally:
            limit.cancel()
        if "address" in answer:
            return answer["address"]
        if late.is_set():
            text = f"The embedded model {self.model.name} did not load within {_START_SECONDS:g}s."
            raise NetworkError(text, provider="embedded", reason="engine_slow")
        raise self._start_error(process)

    def _spawn(self) -> subprocess.Popen[str]:
        self._stderr = tempfile.TemporaryFile()
        self._owner_pid = os.getpid()
        # A separate process group: Ctrl-C is meant for the parent, which may only abort a response.
        apart: dict[str, Any] = {"creationflags": 0x200} if sys.platform == "win32" else {"start_new_session": True}
        try:
            return subprocess.Popen(
                python_script(str(_CHILD), *package_folders()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                encoding="utf-8",
                cwd=self.model.parent,
                env={**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"},
                **apart,
            )
        except OSError as error:
            raise ProviderConfigError(f"Cannot start the embedded model: {error}", provider="embedded") from error

    def _configure(self, process: subprocess.Popen[str], key: str) -> dict[str, str]:
        assert process.stdin is not None
        assert process.stdout is not None
        config = {
            "model": str(self.model),
            "key": key,
            "context": self.context,
            "cache_mib": self.cache_mib,
            "threads": thread_count(),
        }
        try:
            process.stdin.write(json.dumps(config) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline() or "{}")
        except (OSError, ValueError):
            return {}

    def _start_error(self, process: subprocess.Popen[str]) -> ModelError:
        try:
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        lines = self._stderr_tail()
        reasons = [line.partition("error loading model: ")[2] for line in lines]
        name = self.model.name
        if code in _ILLEGAL_INSTRUCTION:
            text = (
                "The embedded model is not supported on this processor: its engine requires AVX2, FMA, and BMI2 (x86-64). "
                + ALTERNATIVES_HINT
            )
        elif code == _KILLED:
            text = (
                f"The embedded model {name} was killed during loading, probably because of low memory. "
                f"Try a smaller model: mainspring --model embedded:smollm2-135m. {ALTERNATIVES_HINT}"
            )
        elif code == 1 and lines:
            text = f"Cannot load the embedded model {name}: {next(filter(None, reasons), lines[-1])}"
        else:
            text = f"Cannot start the embedded model {name} ({_describe_exit(code)}){_quoted(lines)}"
            return NetworkError(text, provider="embedded", reason="engine_crashed")
        return ProviderConfigError(text, provider="embedded", reason="engine_failed")

    def _stderr_tail(self) -> list[str]:
        if self._stderr is None:
            return []
        try:
            self._stderr.seek(0)
            lines = self._stderr.read().decode("utf-8", "replace").splitlines()
        except (OSError, ValueError):
            return []
        return [line.partition(" E ")[2].strip() or line.strip() for line in lines if line.strip()]

    def _stop(self) -> None:
        process, self._process, self._endpoint = self._process, None, None
        if process is not None and self._owner_pid == os.getpid():
            for pipe in (process.stdin, process.stdout):
                _close(pipe)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _close(self._stderr)
        self._stderr = None


class ServerPool:
    """The servers of this process, one per file, shared by all users and stopped with the last one or at exit."""

    def __init__(self) -> None:
        self._servers: dict[tuple[Path, int], LlamaServer] = {}
        self._lock = threading.Lock()
        atexit.register(self.stop_all)

    def acquire(self, model: Path, context: int) -> LlamaServer:
        """Return the server of this file and count the user."""
        with self._lock:
            server = self._servers.setdefault((model, context), LlamaServer(model, context=context))
            server.users += 1
            return server

    async def release(self, server: LlamaServer) -> None:
        """Release a server; the last release stops it."""
        with self._lock:
            server.users -= 1
            if server.users > 0:
                return
        await asyncio.to_thread(server.stop)

    def stop_all(self) -> None:
        """Stop all running servers."""
        for server in self._servers.values():
            server.stop()


_shared = ServerPool()
borrow = _shared.acquire
give_back = _shared.release


def _close(file: IO[Any] | None) -> None:
    if file is not None:
        try:
            file.close()
        except OSError:
            pass


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _quoted(lines: list[str]) -> str:
    return f". Last output: {' | '.join(lines[-_TAIL:])}" if lines else ""
