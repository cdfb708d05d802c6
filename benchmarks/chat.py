"""The chat in a pseudo-terminal: echo of keys, a long response, and the time until a session of 1,000 entries is ready.

Measured are the bytes that the command writes; no terminal emulator runs. The response times exclude those of the model server,
which is a process of its own. CPU times are those of the command's process. `--command`, or `MAINSPRING_COMMAND`, names the command (absolute path),
so that the same script measures an older version: `python -m benchmarks.chat --command OLD --command NEW` runs them alternately.
Linux only.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

COLUMNS, ROWS = 100, 40
ENTRIES = 1_000
LINES = 2_000
KEYS = "БГДЁЖЗИЙЛПУФЦЧШЩЪЫЬЭЮЯ"
"""Letters that neither the chat nor the model writes, so that their bytes on the terminal are an echo."""
ROUNDS = 3
TIMEOUT_SECONDS = 60.0
AIMS = {"resume_s": 0.8, "resume_cpu_s": 0.8}


class Chat:
    """The command in a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path, environ: dict[str, str]) -> None:
        self.started = time.monotonic()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environ)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.output = bytearray()

    def wait(self, *texts: str, since: int = 0) -> float:
        """Read until all texts were written after an offset. Return when the last of them arrived."""
        expected = [text.encode() for text in texts]
        end = time.monotonic() + TIMEOUT_SECONDS
        while not all(self.output.find(text, since) >= 0 for text in expected):
            if time.monotonic() > end or not self.read(end - time.monotonic()):
                raise SystemExit(f"{texts} did not appear:\n{self.output.decode(errors='replace')[-3000:]}")
        return time.monotonic()

    def read(self, seconds: float) -> bool:
        """Read what the command has written; False if it wrote nothing."""
        if not select.select([self.terminal], [], [], max(seconds, 0))[0]:
            return False
        try:
            self.output += os.read(self.terminal, 65536)
        except OSError:  # the command ended
            return False
        return True

    def drain(self, seconds: float) -> None:
        """Read until nothing was written for some seconds."""
        while self.read(seconds):
            pass

    def pause(self, seconds: float) -> None:
        """Read for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(end - time.monotonic())

    def press(self, text: str) -> float:
        """Press keys. Return when."""
        now = time.monotonic()
        os.write(self.terminal, text.encode())
        return now

    def cpu(self) -> float:
        """CPU seconds of the process."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def close(self) -> None:
        """End the command."""
        os.kill(self.pid, signal.SIGTERM)
        with contextlib.suppress(OSError):
            while os.read(self.terminal, 65536):
                pass
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


class Bench:
    """One command with a folder and a home of its own, at a model server."""

    def __init__(self, command: str, root: str, place: Path) -> None:
        self.command = shlex.split(command)
        self.root = root
        self.folder, home = place / "project", place / "home"
        for made in (self.folder, home):
            made.mkdir(parents=True)
        (self.folder / "notes.txt").write_text("a line of notes that the model reads again and again\n" * 200)
        self.home = home
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
            "HOME": str(home),
            "MAINSPRING_HOME": str(home / ".agent"),
            "OPENAI_BASE_URL": f"{root}/v1",
            "OPENAI_API_KEY": "bench",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        self.session = str(self.build_session())

    def arguments(self, model: str, *more: str) -> list[str]:
        return [*self.command, "--model", f"openai:bench-{model}", *more]

    def build_session(self) -> Path | None:
        """Save a session of 1,000 entries with the command, as each version has a format of its own. Return its file."""
        more: list[str] = []
        while self.count_entries() < ENTRIES:  # the first run also compiles the modules
            command = self.arguments("t9-c100-r1", *more, "-p", f"[conv=c{self.count_entries()}] Read the notes.")
            done = subprocess.run(
                command, cwd=self.folder, env=self.environ, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
            if done.returncode:
                raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr[-2000:]}")
            more = ["--continue"]
        return self.session_file()

    def session_file(self) -> Path | None:
        return max(self.home.rglob("*.jsonl"), key=lambda path: path.stat().st_size, default=None)

    def count_entries(self) -> int:
        file = self.session_file()
        return file.read_bytes().count(b"\n") if file else 0

    @contextlib.contextmanager
    def open(self, model: str, *more: str) -> Iterator[Chat]:
        chat = Chat(self.arguments(model, *more), self.folder, self.environ)
        try:
            yield chat
        finally:
            chat.close()

    def measure(self) -> dict[str, float]:
        figures = {
            **self.measure_start("new"),
            **self.measure_start("resume", "--session", self.session),
            **self.measure_echo(),
        }
        return {**figures, **self.measure_response()}

    def measure_start(self, name: str, *more: str) -> dict[str, float]:
        """Seconds until the status line and the end of the conversation are visible and a key is echoed."""
        with self.open("c1", *more) as chat:
            first = chat.wait("> ") - chat.started
            chat.wait("bench-c1", *(["forest"] if more else []))
            chat.press(KEYS[0])
            ready = chat.wait(KEYS[0]) - chat.started
            return {f"{name}_first_frame_s": first, f"{name}_s": ready, f"{name}_cpu_s": chat.cpu()}

    def measure_echo(self) -> dict[str, float]:
        """Seconds from a key to its first byte on the terminal, while the chat is idle and while a response streams."""
        with self.open("c4000-p3") as chat:
            chat.wait("bench-c4")
            chat.drain(0.3)
            idle = self.type_keys(chat)
            chat.press("go")
            chat.pause(0.2)
            chat.press("\r")
            chat.wait("the quick brown")
            streaming = self.type_keys(chat)
        figures: dict[str, float] = {}
        for name, times in (("echo_idle", idle), ("echo_streaming", streaming)):
            figures[f"{name}_ms"] = statistics.median(times)
            figures[f"{name}_p95_ms"] = statistics.quantiles(times, n=20)[-1]
        return figures

    def type_keys(self, chat: Chat) -> list[float]:
        times: list[float] = []
        for _ in range(ROUNDS):
            for key in KEYS:
                offset = len(chat.output)
                times.append(-chat.press(key) + chat.wait(key, since=offset))
                chat.pause(0.043)  # not a multiple of the time between frames
            chat.press("\x15")
            chat.pause(0.2)
        return times

    def measure_response(self) -> dict[str, float]:
        """Seconds from Enter until the last of 2,000 lines is on the terminal, without those of the server."""
        with self.open(f"i{LINES}") as chat:
            chat.wait("bench-i")
            chat.press("go")
            chat.pause(0.2)
            before = chat.cpu()
            entered = chat.press("\r")
            took = chat.wait(f"item {LINES}") - entered
            chat.drain(0.3)
            cpu = chat.cpu() - before
        with urllib.request.urlopen(f"{self.root}/stats") as response:
            stats = json.load(response)
        return {"lines_s": took - (stats["sent"] - stats["arrived"]), "lines_cpu_s": cpu}


@contextlib.contextmanager
def serve() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.model_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin
        assert server.stdout
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.stdin.close()


def measure(commands: list[str] | None = None, samples: int = 3) -> None:
    """Print the medians of each command, and the ratio of the last to the first."""
    default = os.environ.get("MAINSPRING_COMMAND") or f"{shlex.quote(sys.executable)} -m mainspring"
    named = commands or [default]
    with serve() as root, tempfile.TemporaryDirectory() as place:
        benches = [Bench(command, root, Path(place) / str(i)) for i, command in enumerate(named)]
        found: list[list[dict[str, float]]] = [[] for _ in benches]
        for _ in range(samples):
            for bench, figures in zip(benches, found, strict=True):
                figures.append(bench.measure())
    for i, command in enumerate(named, 1):
        print(f"chat        command {i}: {command}")
    heads = "".join(f"{f'command {i}':>12}" for i in range(1, len(named) + 1))
    print(f"{'chat':<12}{'figure':<24}{heads}{'ratio':>8}{'aim':>6}")
    for name in found[0][0]:
        medians = [statistics.median(sample[name] for sample in samples) for samples in found]
        factor = 1e3 if name.endswith("_ms") else 1
        values = "".join(f"{value * factor:>12.3f}" for value in medians)
        print(f"{'':<12}{name:<24}{values}{medians[-1] / medians[0]:>8.2f}{AIMS.get(name, ''):>6}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chat", description=__doc__)
    parser.add_argument("--command", action="append", help="command to measure; may be repeated")
    parser.add_argument("--samples", type=int, default=3)
    args = parser.parse_args()
    measure(args.command, args.samples)


if __name__ == "__main__":
    main()
