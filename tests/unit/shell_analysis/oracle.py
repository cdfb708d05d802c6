"""Compares the commands that real shells run for a line with the analysis of the line."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace

from mainspring.env import local
from mainspring.shell_analysis import AnalyzedLine, wildcards
from mainspring.shell_analysis.syntax import Redirect, Word

HERE = Path(__file__).parent
NAMES = (
    "c0",
    "c1",
    "c2",
    "c3",
    "a",
    "b",
    "x",
    "f",
    "env",
    "time",
    "kill",
    "which",
    "test",
    "printf",
    "do",
    "done",
    "then",
    "in",
    "X",
    "EOF",
    "!",
    "=",
    "{}",
    "{",
    "}",
    "]",
    "=c1",
)
SHELLS = ("/bin/bash", "/usr/bin/dash", "/usr/bin/zsh", "/usr/bin/busybox")
WRAPPER: str = vars(local)["_READ_SCRIPT"].format("exec </dev/null")  # the same wrapper as in the shell tool


def installed_shells() -> list[list[str]]:
    """Return the start commands of the shells on this machine."""
    found = [path for path in SHELLS if os.path.exists(path)]
    return [[path, "sh", "-c"] if path.endswith("busybox") else [path, "-c"] for path in found]


class Oracle:
    """Runs lines in all shells of this machine, in a separate folder.

    Args:
        folder: A new folder.
        workers: The number of lines that run at the same time.
    """

    def __init__(self, workers: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="oracle-"))
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        recorder = self.programs / "c0"
        compiler = shutil.which("cc") or "cc"
        subprocess.run([compiler, "-O1", "-o", str(recorder), str(HERE / "recorder.c")], check=True)
        for name in NAMES[1:]:
            os.link(recorder, self.programs / name)
        for name in ("bash", "sh"):
            (self.programs / name).symlink_to(shutil.which(name) or "/bin/sh")
        self.folder.chmod(0o755)
        self.programs.chmod(0o755)
        self._workers = [self._start(number) for number in range(workers)]

    def _start(self, number: int) -> "subprocess.Popen[str]":
        scratch = self.folder / str(number)
        scratch.mkdir()
        scratch.chmod(0o777)
        arguments = [str(self.programs), str(scratch), json.dumps(installed_shells()), WRAPPER]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(HERE / "runner.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """Stop the workers and remove the folder."""
        for worker in self._workers:
            worker.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check(self, lines: list[tuple[str, AnalyzedLine]]) -> list[str]:
        """Run supported lines and return descriptions of the divergences."""
        count = len(self._workers)
        with ThreadPoolExecutor(count) as pool:
            found = pool.map(self._check_some, range(count), [lines[number::count] for number in range(count)])
            return [problem for problems in found for problem in problems]

    def _check_some(self, number: int, lines: list[tuple[str, AnalyzedLine]]) -> list[str]:
        worker = self._workers[number]
        assert worker.stdin is not None
        assert worker.stdout is not None
        work = str(self.folder / str(number) / "work")
        problems: list[str] = []
        for line, analysis in lines:
            worker.stdin.write(json.dumps(line) + "\n")
            worker.stdin.flush()
            for shell, _, log, changed in json.loads(worker.stdout.readline()):
                if "**" in line and shell.endswith("zsh"):
                    continue  # it expands through folders; the environment runs lines in bash or sh
                problems += [f"{shell}: {line!r}: {p}" for p in find_divergences(analysis, log, changed, work)]
        return problems


def find_divergences(analysis: AnalyzedLine, log: str, changed: list[str], work: str) -> Iterator[str]:
    """Yield commands and files that were used but are missing in the analysis."""
    units = [inner for unit in analysis.units for inner in unit.walk()]
    files = [part for part in analysis.parts if isinstance(part, Redirect)]
    moved = any(unit.cd_target is not None for unit in units)
    for record in log.split("\2\0")[:-1]:
        words, _, rest = record.partition("\1\0")
        argv = words.split("\0")[:-1]
        folder, *opened = rest.split("\0")[:-1]
        if not any(matches(unit.words, argv, work) for unit in units):
            yield f"ran {argv}"
        if folder != work and not moved:
            yield f"ran in {folder}"
        for path in opened:
            if path.startswith(work + "/") and not any(_is_file(file, path, work) for file in files):
                yield f"had {path} open"
    for path in changed:
        if not any(file.writes and _is_file(file, path, work) for file in files):
            yield f"changed {path}"


def matches(words: tuple[Word, ...], argv: list[str], work: str) -> bool:
    """Return True if an executed command matches the words of the analysis."""
    if not words:
        return not argv
    word = words[0]
    if word.splits:
        pattern = _to_regex(word, work)
        for count_used in range(len(argv) + 1):
            if (
                count_used
                and wildcards.ANY_TEXT not in word.text
                and not pattern.fullmatch(argv[count_used - 1])
                and argv[count_used - 1] != _literal_text(word)
            ):
                return False
            if matches(words[1:], argv[count_used:], work):
                return True
        return False
    return bool(argv) and (_to_regex(word, work).fullmatch(argv[0]) is not None) and matches(words[1:], argv[1:], work)


def _literal_text(word: Word) -> str:
    """Return a word whose wildcards match no file, unchanged as in a shell."""
    return re.sub(r"['\"\\]", "", word.source)


def _to_regex(word: Word, work: str) -> re.Pattern[str]:
    pieces = {
        wildcards.ANY_TEXT: ".*",
        wildcards.ANY_CHAR: "[^/]*",
        wildcards.VISIBLE: r"(?:(?<=[^/])|(?!\.))[^/]*",
        wildcards.HOME: re.escape(work),
        wildcards.CWD: ".*",
    }
    return re.compile("".join(pieces.get(c, re.escape(c)) for c in word.text), re.DOTALL)


def _is_file(file: Redirect, path: str, work: str) -> bool:
    """Return True if a path is the file of a redirection, in any of the folders."""
    text = _to_regex(replace(file.target, text=file.target.text.rstrip("/")), work)
    folders = (work, f"{work}/src", f"{work}/sub dir", f"{work}/d", os.path.dirname(work))
    names = [path, *(os.path.relpath(path, folder) for folder in folders)]
    return any(text.fullmatch(form) for name in names for form in (name, f"./{name}"))
