"""Search 50,000 files with `grep` and `glob`, with and without ripgrep, beside plain ``rg`` in the same run.

Prints seconds (median of some runs) and the memory that a search adds at its peak: ``python -m benchmarks.search``.
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

from mainspring.env import LocalEnv
from mainspring.tools import ToolContext, ToolResult
from mainspring.tools.builtin import glob, grep

FILES = 50_000


class NoRipgrep(LocalEnv):
    """This machine, as if it had no ripgrep."""

    async def find_program(self, name: str) -> str | None:
        return None if name == "rg" else await super().find_program(name)


def build(root: Path, count: int) -> None:
    text = "".join(f"line {i} of some ordinary text that says nothing\n" for i in range(40))
    for i in range(count):
        folder = root / f"d{i // 500:03}" / f"e{i % 500 // 50}"
        if i % 50 == 0:
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{i}.txt").write_text(text + (f"needle {i}\n" if i % 500 == 0 else ""))


def plain(command: list[str], root: Path, runs: int) -> float:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(command, cwd=root, check=True, capture_output=True)
        return time.perf_counter() - began

    return statistics.median([once() for _ in range(runs)])


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 10 if sys.platform == "linux" else 1 << 20)


async def measure(name: str, runs: int, call: Callable[[], Awaitable[ToolResult]]) -> None:
    before = peak_mb()
    seconds: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        result = await call()
        seconds.append(time.perf_counter() - began)
        last = result.text.rstrip().rpartition("\n")[2]
    print(f"{name:34} {statistics.median(seconds):8.3f} s   +{peak_mb() - before:5.0f} MB peak   {last[:70]}")


async def run(root: Path, runs: int) -> None:
    for label, env in (("", LocalEnv(root)), (" without ripgrep", NoRipgrep(root))):
        ctx = ToolContext(env=env)
        await measure(f"grep needle{label}", runs, lambda ctx=ctx: grep(ctx, pattern="needle"))
        await measure(
            f"grep in every line, 250 shown{label}", 1, lambda ctx=ctx: grep(ctx, pattern="line", output_mode="count")
        )
        await measure(f"glob *.txt{label}", runs, lambda ctx=ctx: glob(ctx, pattern="*.txt"))
        await env.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(root, args.files)
        rg = shutil.which("rg") or str(Path(sys.executable).with_name("rg"))
        print(f"{args.files} files")
        print(f"{'rg needle':34} {plain([rg, '--no-config', 'needle', '.'], root, args.runs):8.3f} s")
        print(f"{'rg --files':34} {plain([rg, '--no-config', '--files', '.'], root, args.runs):8.3f} s")
        asyncio.run(run(root, args.runs))


if __name__ == "__main__":
    main()
