"""Drive the command in a real terminal: a separate tmux server, keys in, the screen as text out."""

import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.command import KEY
from tests.e2e.servers.chat import ChatServer, Step

TIMEOUT_SECONDS = 120.0
"""Seconds to wait for something to appear: a guard against a hang."""


class Terminal:
    """One window of a fixed size with a shell in it.

    Args:
        socket: The socket of the tmux server of this test.
        folder: The working folder of the shell.
        environ: Variables of the shell in addition to those of this process.
        columns: The width of the window.
        rows: The height of the window.
    """

    def __init__(self, socket: Path, folder: Path, environ: dict[str, str], columns: int = 80, rows: int = 24) -> None:
        self._tmux = [shutil.which("tmux") or "tmux", "-S", str(socket), "-f", "/dev/null"]
        self.folder = folder
        shell = f"env {' '.join(f'{k}={shlex.quote(v)}' for k, v in environ.items())} PS1='ready$ ' sh"
        self.run("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), shell)
        self.run("set-option", "-g", "history-limit", "20000")
        self.wait("ready$")

    def run(self, *arguments: str, data: str | None = None) -> str:
        """Run a tmux command."""
        done = subprocess.run(
            [*self._tmux, *arguments],
            input=data,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
        return done.stdout

    def close(self) -> None:
        """Stop the server and everything in it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=TIMEOUT_SECONDS, check=False)

    def keys(self, *names: str) -> None:
        """Press keys, by their tmux names."""
        self.run("send-keys", *names)

    def type(self, text: str) -> None:
        """Type a text and wait until it is visible."""
        self.run("send-keys", "-l", text)
        end = text.split("\n")[-1][-20:].rstrip()
        self.wait(end)

    def send(self, text: str) -> None:
        """Type a line, press Enter, and wait until it is accepted, because keys that arrive together look like a paste."""
        self.type(text)
        before = self._cursor()
        self.keys("Enter")
        self.wait(lambda _: self._cursor() != before)

    def _cursor(self) -> str:
        return self.run("display-message", "-p", "#{cursor_x},#{cursor_y}")

    def paste(self, text: str, *, bracketed: bool = True) -> None:
        """Paste a text like a terminal does."""
        self.run("load-buffer", "-", data=text)
        self.run("paste-buffer", *(["-p"] if bracketed else []), "-d")

    def screen(self) -> str:
        """Return the visible text without trailing blanks."""
        return _trim(self.run("capture-pane", "-p"))

    def full_output(self) -> str:
        """Return the visible and the scrolled text, with long rows joined."""
        return _trim(self.run("capture-pane", "-p", "-J", "-S", "-", "-E", "-"))

    def styled(self) -> str:
        """Return the visible text with its color sequences."""
        return self.run("capture-pane", "-p", "-e")

    def wait(self, expected: str | Callable[[str], bool], seconds: float = TIMEOUT_SECONDS) -> str:
        """Wait for a text or a condition and return the screen."""
        pause = threading.Event()
        end = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if expected in screen if isinstance(expected, str) else expected(screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError(f"{expected!r} did not appear:\n{screen}")
            pause.wait(0.03)

    def wait_gone(self, removed: str) -> str:
        """Wait until a text is gone and return the screen."""
        return self.wait(lambda screen: removed not in screen)

    def answer(self, key: str) -> None:
        """Press a key that answers a question, after keys are accepted."""
        self.wait_gone("Typing goes to the input")
        self.keys(key)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window."""
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def cursor_visible(self) -> bool:
        """True if the cursor is visible."""
        return self.run("display-message", "-p", "#{cursor_flag}").strip() == "1"

    @property
    def modes(self) -> str:
        """The terminal modes that a shell does not turn on: mouse, keypad, cursor keys, alternate screen."""
        flags = "mouse_any_flag keypad_cursor_flag keypad_flag alternate_on insert_flag".split()
        return self.run("display-message", "-p", " ".join(f"#{{{flag}}}" for flag in flags)).strip()

    def stty(self) -> str:
        """Return the terminal settings of the shell, from ``stty -a``."""
        file = self.folder / "stty.txt"
        file.unlink(missing_ok=True)
        self.keys("C-u", "stty -a > stty.txt; mv stty.txt stty-done.txt", "Enter")
        done = self.folder / "stty-done.txt"
        end = time.monotonic() + TIMEOUT_SECONDS
        while not done.exists():
            assert time.monotonic() < end, self.screen()
            threading.Event().wait(0.03)
        text = done.read_text()
        done.unlink()
        return re.sub(r"rows \d+; columns \d+;", "", text)

    def pid_of(self, words: str) -> int:
        """Return the ID of the process whose command line contains a text."""
        (number,) = {
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and words.encode() in _command_line(entry) and _parent(entry) == self._shell()
        }
        return number

    def _shell(self) -> int:
        return int(self.run("display-message", "-p", "#{pane_pid}"))


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


class TerminalChat:
    """The command in a terminal, with a server that responds."""

    def __init__(self, terminal: Terminal, server: ChatServer, command: str) -> None:
        self.terminal = terminal
        self.server = server
        self.command = command

    def begin(self, *arguments: str, script: "list[Step] | None" = None) -> Terminal:
        """Start the command and wait until it accepts input."""
        self.server.script = [*(script or [])]
        terminal = self.terminal
        terminal.keys("C-u", f"clear; {self.command} {' '.join(arguments)}", "Enter")
        terminal.wait(lambda screen: "test-model" in screen.split("\n")[-1] and "ready$" not in screen)
        return terminal

    def end(self) -> None:
        """Exit the command."""
        self.terminal.keys("C-d")
        self.terminal.wait("ready$")


def open_chat(
    tmp_path: Path, home: Path, columns: int = 80, rows: int = 24, **variables: str
) -> Iterator[TerminalChat]:
    """Yield the command in a terminal, with a server, for fixtures."""
    folder = tmp_path / "project"
    folder.mkdir()
    with ChatServer() as server:
        environ = {
            "HOME": str(home),
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": KEY,
            "LC_ALL": "C.UTF-8",
            "MAINSPRING_HOME": str(home / ".agent"),
            **variables,
        }
        terminal = Terminal(tmp_path / "tmux", folder, environ, columns, rows)
        try:
            python = sys.executable
            yield TerminalChat(terminal, server, f"{python} -m mainspring --model openai:test-model")
        finally:
            terminal.close()


@pytest.fixture
def chat(tmp_path: Path, home: Path) -> Iterator[TerminalChat]:
    """Yield the command in a terminal of 80 by 24."""
    yield from open_chat(tmp_path, home)
