"""Draw the pictures of docs/terminal.md from a real session: ``python -m tests.e2e.screenshots``."""

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.e2e.servers.chat import call
from tests.e2e.terminal import TerminalChat, open_chat

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
COLUMNS, ROWS = 84, 26

ANSWER = """## What there is

The parser reads **one line** at a time; two things are missing:

1. comments, from `#` to the end of the line
2. empty lines

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

CODE = """

def parse(line: str) -> list[str]:
    return line.split()


def read(path: str) -> list[list[str]]:
    with open(path) as file:
        return [parse(line) for line in file]
"""

EDITS = [
    {
        "old_string": "    return line.split()\n",
        "new_string": '    text, _, _ = line.partition("#")\n    return text.split()\n',
    },
    {
        "old_string": "[parse(line) for line in file]",
        "new_string": "[words for line in file if (words := parse(line))]",
    },
]

TESTS = "for i in 1 2 3 4 5 6; do echo test_parse.py::test_$i PASSED; sleep 1.5; done"


def draw(chat: TerminalChat, name: str) -> None:
    """Write the visible screen as an SVG picture."""
    lines = chat.terminal.styled().rstrip("\n").split("\n")
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="ignore", crop=False)
    picture = console.export_svg(title="mainspring", unique_id="t")
    (PICTURES / f"terminal-{name}.svg").write_text(picture, encoding="utf-8")


@contextmanager
def terminal() -> Iterator[TerminalChat]:
    """Yield a terminal with a server, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        yield from open_chat(Path(folder), home, COLUMNS, ROWS)


def main() -> None:
    """Draw all pictures."""
    with terminal() as chat:
        project = chat.terminal.folder
        (project / ".git").mkdir()
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (project / "parse.py").write_text(CODE)
        script = [
            ANSWER,
            call("read_file", path="parse.py"),
            call("multi_edit", path="parse.py", edits=EDITS),
            call("shell", command=TESTS),
            "Comments and empty lines are left out now; all tests pass.",
            "It is written.",
        ]
        window = chat.begin(script=list(script))
        window.send("What is missing in the parser?")
        window.wait("two more tests")
        window.wait_gone("Esc to stop")
        draw(chat, "answer")
        window.send("Do it")
        window.wait("Edit parse.py?")
        window.wait_gone("Typing goes to the input")
        draw(chat, "approval")
        window.answer("h")
        window.wait("Change 1 of 2")
        draw(chat, "changes")
        window.keys("Enter")
        window.wait("test_2")
        window.send("use pytest -q next time")
        window.wait("steering:")
        window.type("then write the changelog")
        window.keys("Tab")
        window.wait("queued: then")
        draw(chat, "queue")
        window.wait("It is written.")
        window.wait_gone("Esc to stop")
        window.type("/mo")
        window.wait("/memory")
        draw(chat, "completion")


if __name__ == "__main__":
    main()
