"""Capture the screens of the chat as text at 40, 80, and 200 columns: `python -m tests.e2e.captures FOLDER [NAME]`."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.e2e.habits import PNG
from tests.e2e.servers.chat import Reply, Step, call, error
from tests.e2e.terminal import Terminal, TerminalChat, open_chat

COLUMNS = (40, 80, 200)
SCENES: list[Callable[[TerminalChat, "Camera"], None]] = []

ANSWER = """## Plan

The parser reads **one line** at a time; two things are missing:

1. First, comments from `#` to the end of the line
2. Then empty lines

```python
def parse(line: str) -> list[str]:
    text, _, _ = line.partition("#")
    return text.split()
```

| file | to do |
|---|---|
| parse.py | leave comments out |
| test_parse.py | two more tests |
"""
SCRIPT = """set -e
for name in alpha beta gamma; do
    echo "building $name with a line that is longer than forty columns" >> build.log
done
python -c 'print("done")'"""
TODOS = [
    {"content": "Read the parser", "status": "completed"},
    {"content": "Skip comments and empty lines in the parser", "status": "in_progress"},
    {"content": "Write the tests", "status": "pending"},
]


class Camera:
    """Saves screens of one width.

    Args:
        folder: The folder of the files.
        columns: The width of the window.
    """

    def __init__(self, folder: Path, columns: int) -> None:
        self._folder = folder
        self.columns = columns

    def save(self, terminal: Terminal, name: str) -> str:
        """Save the visible screen as `NAME-COLUMNS.txt`, and return it."""
        screen = terminal.screen()
        (self._folder / f"{name}-{self.columns}.txt").write_text(screen + "\n", encoding="utf-8")
        return screen


def scene(play: Callable[[TerminalChat, Camera], None]) -> Callable[[TerminalChat, Camera], None]:
    """Add a function to the scenes."""
    SCENES.append(play)
    return play


def _send(terminal: Terminal, line: str) -> None:
    """Type a line that may wrap, and press Enter."""
    terminal.run("send-keys", "-l", line)
    terminal.wait(lambda screen: line[-10:] in screen.replace("\n  ", ""))
    terminal.keys("Enter")


def _run(terminal: Terminal, prompt: str, response: str) -> None:
    _send(terminal, prompt)
    terminal.wait(response)
    terminal.wait_gone("Esc to stop")


def _create_repository(folder: Path) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    (folder / "parse.py").write_text("def parse(line):\n    return line.split()\n")
    for command in (("init", "-qb", "main"), ("add", "."), (*author, "commit", "-qm", "Add the parser")):
        subprocess.run(["git", *command], cwd=folder, env=environ, check=True)
    (folder / "parse.py").write_text("def parse(line):\n    return line.partition('#')[0].split()\n")


@scene
def show_answer(chat: TerminalChat, camera: Camera) -> None:
    _create_repository(chat.terminal.folder)
    terminal = chat.begin(script=[Reply(ANSWER, delay=0.2, pieces=12)])
    camera.save(terminal, "start")
    _send(terminal, "What is missing in the parser?")
    terminal.wait("tokens")
    camera.save(terminal, "streaming")
    terminal.wait("two more tests")
    terminal.wait_gone("Esc to stop")
    camera.save(terminal, "answer")


@scene
def show_output(chat: TerminalChat, camera: Camera) -> None:
    terminal = chat.begin("--allow", "'shell(*)'", script=[call("shell", command="seq 1 3000"), "Counted."])
    _run(terminal, "Count", "Counted.")
    camera.save(terminal, "output-collapsed")
    terminal.keys("C-o")
    terminal.wait("  3000\n")
    shown = terminal.full_output()
    assert all(f"\n    {i}\n" in shown for i in range(1, 3001))
    camera.save(terminal, "output-expanded")


@scene
def show_interrupted(chat: TerminalChat, camera: Camera) -> None:
    steps: list[Step] = [
        Reply("The answer begins here and", stall=True),
        call("shell", command="echo half; sleep 60"),
        "The answer was cut.",
    ]
    terminal = chat.begin("--allow", "'shell(*)'", script=steps)
    _send(terminal, "Go")
    terminal.wait("begins here")
    terminal.keys("Escape")
    terminal.wait("Stopped")
    terminal.wait_gone("Esc to stop")
    _send(terminal, "Run it")
    terminal.wait("half")
    terminal.keys("Escape")
    terminal.wait(lambda screen: screen.count("Stopped") >= 2)
    terminal.wait_gone("Esc to stop")
    camera.save(terminal, "interrupted")
    _send(terminal, "/cost")
    terminal.wait("total")
    camera.save(terminal, "interrupted-cost")


@scene
def show_attachments(chat: TerminalChat, camera: Camera) -> None:
    folder = chat.terminal.folder
    (folder / "my notes.txt").write_text("notes\n")
    (folder / "dot.png").write_bytes(PNG)
    (folder / ".env").write_text("TOKEN=1\n")
    terminal = chat.begin(script=["Seen."])
    terminal.type("look at @my")
    terminal.wait("my notes.txt")
    camera.save(terminal, "attach-completion")
    terminal.keys("Tab")
    terminal.wait('@"my notes.txt"')
    terminal.run("send-keys", "-l", " @nowhere.txt")
    terminal.wait("@nowhere.txt")
    terminal.keys("Enter")
    terminal.wait(lambda screen: "was not sent" in screen and screen.count("> look at") == 2)
    camera.save(terminal, "attach-missing")
    terminal.keys("C-u")
    terminal.wait(lambda screen: screen.count("> look at") == 1)
    _send(terminal, "keys in @.env")
    terminal.wait("No")
    camera.save(terminal, "attach-sensitive")
    terminal.answer("Escape")


@scene
def show_approvals(chat: TerminalChat, camera: Camera) -> None:
    folder = chat.terminal.folder
    (folder / "parse.py").write_text("def parse(line):\n    return line.split()\n")
    steps: list[Step] = [
        call("shell", command=SCRIPT),
        call("read_file", path="parse.py"),
        call("edit", path="parse.py", old_string="line.split()", new_string='line.partition("#")[0].split()'),
        "Not done.",
    ]
    terminal = chat.begin(script=steps)
    _send(terminal, "Build it")
    terminal.wait("Run this command?")
    terminal.wait_gone("Typing goes to the input")
    screen = camera.save(terminal, "approval-command")
    assert "\\n" not in screen
    terminal.keys("r")
    terminal.wait("Enter to")
    camera.save(terminal, "approval-reason")
    terminal.run("send-keys", "-l", "use make")
    terminal.keys("Enter")
    terminal.wait("Edit parse.py?")
    terminal.wait_gone("Typing goes to the input")
    camera.save(terminal, "approval-edit")
    terminal.answer("Escape")
    terminal.wait("Not done.")
    terminal.wait_gone("Esc to stop")
    camera.save(terminal, "approval-denied")


@scene
def show_errors(chat: TerminalChat, camera: Camera) -> None:
    steps: list[Step] = [
        error(429, "Too many requests", "rate_limit_exceeded", retry_after="4"),
        "Back.",
        error(401, "Incorrect API key provided", "invalid_api_key"),
    ]
    terminal = chat.begin(script=steps)
    _send(terminal, "Go")
    terminal.wait("etry")
    camera.save(terminal, "back-off")
    terminal.wait("Back.")
    terminal.wait_gone("Esc to stop")
    _send(terminal, "Go again")
    terminal.wait(lambda screen: "Error" in screen.rpartition("> Go again")[2])
    camera.save(terminal, "error")


@scene
def show_figures(chat: TerminalChat, camera: Camera) -> None:
    terminal = chat.begin(script=[ANSWER])
    _run(terminal, "Go", "two more tests")
    _send(terminal, "/compact")
    terminal.wait("unchanged")
    camera.save(terminal, "compact")
    for name, text in (("context", "system prompt"), ("cost", "total"), ("config", "Settings")):
        _send(terminal, f"/{name}")
        terminal.wait(text)
        camera.save(terminal, name)


@scene
def show_sessions(chat: TerminalChat, camera: Camera) -> None:
    for prompt in ("Remember the apples", "Remember the pears and everything that was said about them"):
        terminal = chat.begin(script=["Noted: a preview of the response that is shown in the list."])
        _run(terminal, prompt, "Noted")
        chat.end()
    terminal = chat.begin("--resume")
    terminal.wait("Remember the pears")
    camera.save(terminal, "sessions")
    terminal.run("send-keys", "-l", "apples")
    terminal.wait("Filter: apples")
    camera.save(terminal, "sessions-filtered")
    terminal.keys("Enter")
    terminal.wait("Noted")
    _send(terminal, "/fork")
    terminal.wait("forked")
    camera.save(terminal, "fork")
    _send(terminal, "/export")
    terminal.wait("aved")
    camera.save(terminal, "export")


@scene
def show_modes_and_lists(chat: TerminalChat, camera: Camera) -> None:
    _create_repository(chat.terminal.folder)
    terminal = chat.begin(script=["One.", "Two."])
    _run(terminal, "First prompt", "One.")
    _run(terminal, "Second prompt", "Two.")
    terminal.keys("BTab")
    terminal.wait("accept edits")
    camera.save(terminal, "accept-edits")
    terminal.keys("C-r")
    terminal.wait("Earlier inputs")
    camera.save(terminal, "history-search")
    terminal.keys("Escape")
    terminal.wait_gone("Earlier inputs")
    terminal.keys("Escape")
    terminal.wait("again")
    terminal.keys("Escape")
    terminal.wait("Edit an earlier prompt")
    camera.save(terminal, "edit-earlier")
    terminal.keys("Escape")
    terminal.wait_gone("Edit an earlier prompt")
    _send(terminal, "/diff")
    terminal.wait("partition")
    camera.save(terminal, "diff")
    _send(terminal, "/model")
    terminal.wait("(current)")
    camera.save(terminal, "model")
    terminal.keys("Escape")
    terminal.wait_gone("(current)")
    _send(terminal, "/theme")
    terminal.wait("+ added")
    terminal.keys("Down", "Down", "Down", "Down")
    camera.save(terminal, "theme")
    terminal.keys("Escape")
    terminal.wait_gone("+ added")
    _send(terminal, "/vim")
    terminal.wait("INSERT")
    camera.save(terminal, "vim")
    _send(terminal, "/help")
    terminal.wait("/vim")
    camera.save(terminal, "help")


@scene
def show_work(chat: TerminalChat, camera: Camera) -> None:
    steps: list[Step] = [
        call("todo_write", todos=TODOS),
        call("shell", command="echo begun; sleep 60"),
        "It runs on.",
        "Forty-two.",
        "Reviewed.",
        "Written.",
    ]
    _create_repository(chat.terminal.folder)
    terminal = chat.begin("--allow", "'shell(*)'", script=steps)
    _send(terminal, "Go")
    terminal.wait("\n    begun")
    camera.save(terminal, "todos")
    terminal.keys("C-b")
    terminal.wait("It runs on.")
    terminal.wait_gone("Esc to stop")
    _send(terminal, "/jobs")
    terminal.wait("running for")
    camera.save(terminal, "jobs")
    _send(terminal, "/btw how many?")
    terminal.wait("Forty-two.")
    camera.save(terminal, "side-question")
    _run(terminal, "/review", "Reviewed.")
    camera.save(terminal, "review")
    _run(terminal, "/init", "Written.")
    camera.save(terminal, "init")


@scene
def show_killed(chat: TerminalChat, camera: Camera) -> None:
    steps: list[Step] = [call("todo_write", todos=TODOS), Reply("It goes on\n\nand on", stall=True)]
    terminal = chat.begin(script=steps)
    _send(terminal, "Go")
    terminal.wait("and on")
    terminal.wait("Todos: 1 of 3 done")
    os.kill(terminal.pid_of("-m mainspring"), signal.SIGKILL)
    terminal.wait(lambda screen: screen.split("\n")[-1].startswith("ready$"))
    camera.save(terminal, "killed")


@scene
def show_screen_reader(chat: TerminalChat, camera: Camera) -> None:
    terminal = chat.terminal
    chat.server.script = [call("shell", command="touch made"), "It is done."]
    terminal.keys("C-u", f"clear; {chat.command} --screen-reader", "Enter")
    terminal.wait(lambda screen: screen.split("\n")[-1].startswith(">"))
    terminal.keys("Do it", "Enter")
    terminal.wait("choice")
    camera.save(terminal, "screen-reader-approval")
    terminal.keys("1", "Enter")
    terminal.wait("It is done.")
    camera.save(terminal, "screen-reader")


def capture(folder: Path, columns: int, play: Callable[[TerminalChat, Camera], None]) -> str:
    """Play one scene. Return what failed, or an empty string."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        home.mkdir()
        with contextlib.contextmanager(open_chat)(Path(place), home, columns, 40) as chat:
            try:
                play(chat, Camera(folder, columns))
            except AssertionError as failure:
                return str(failure)
    return ""


def main(folder: str, name: str = "") -> int:
    """Capture all scenes, or those whose name contains a text. Return the exit code."""
    target, failed = Path(folder), 0
    target.mkdir(parents=True, exist_ok=True)
    for play in SCENES:
        for columns in COLUMNS:
            if name in play.__name__:
                failure = capture(target, columns, play)
                failed += bool(failure)
                sys.stdout.write(f"{'FAILS' if failure else 'saved'}  {play.__name__} {columns}\n{failure}")
                sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
