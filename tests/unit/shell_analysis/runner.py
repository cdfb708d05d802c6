"""Runs lines in real shells, as an unprivileged user, and reports what each line ran and which files it changed.

The oracle starts this program, which reads lines as JSON from standard input and writes a report for each line.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path

NOBODY = 65534
LOG = 99
LIFE = 98
SECONDS = 3.0


def prepare(work: Path) -> None:
    """Create the initial content of the scratch folder."""
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("src", "sub dir", "d"):
        (work / folder).mkdir(parents=True)
    for name in ("a.x", "b.x", "in.txt", "src/c.x", "d/e"):
        (work / name).write_text("text\n")
        os.utime(work / name, (1, 1))


def read_state(work: Path) -> dict[str, int]:
    """Return the files below a folder with their modification times."""
    found: dict[str, int] = {}
    todo = [str(work)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    found[entry.path] = 0
                    todo.append(entry.path)
                else:
                    found[entry.path] = entry.stat(follow_symlinks=False).st_mtime_ns
    return found


def run(shell: list[str], line: str, stdin: bytes | None, programs: str, work: Path, log: int) -> bool:
    """Run a line; return True if it ended before the timeout."""
    os.ftruncate(log, 0)
    null = os.open("/dev/null", os.O_RDWR)
    source = null
    if stdin is not None:
        source, end = os.pipe()
        os.write(end, stdin)
        os.close(end)
    variables = {"PATH": programs, "HOME": str(work), "USER": "nobody", "LANG": "C.UTF-8"}
    actions = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    read_end, write_end = os.pipe()
    os.dup2(write_end, LIFE, inheritable=True)
    os.close(write_end)
    arguments = [*shell, *([] if stdin is not None else [line])]
    pid = os.posix_spawn(shell[0], arguments, variables, file_actions=actions, setpgroup=0)
    os.close(LIFE)
    for descriptor in {source, null}:
        os.close(descriptor)
    ready, _, _ = select.select(
        [read_end], [], [], SECONDS
    )  # readable once the shell and all its child processes have ended
    os.close(read_end)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return bool(ready)


def main() -> None:
    programs, scratch, shells, wrapper = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    work = scratch / "work"
    opened = os.open(scratch / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, LOG, inheritable=True)
    prepare(work)
    os.chdir(work)
    before = read_state(work)
    for text in sys.stdin:
        line = json.loads(text)
        report: list[object] = []
        for shell in shells:
            given = line.encode() + b"\0" if wrapper and os.path.basename(shell[0]) == "bash" else None
            ended = run([*shell, wrapper] if given is not None else shell, line, given, programs, work, LOG)
            size = os.fstat(LOG).st_size
            data = os.pread(LOG, size, 0).decode("utf-8", "surrogateescape")
            after = read_state(work)
            changed = [path for path, changed in after.items() if before.get(path) != changed]
            report.append([shell[0], ended, data, changed])
            if after != before:
                os.chdir("/")
                prepare(work)
                os.chdir(work)
                before = read_state(work)
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
