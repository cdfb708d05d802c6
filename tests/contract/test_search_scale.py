"""A search of 50,000 files uses bounded memory and takes time comparable to ripgrep alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requires import on_linux, skip_missing

pytestmark = on_linux

FILES, FOLDERS = 50_000, 250

PROGRAM = """
import asyncio, json, sys, time
from mainspring.env import LocalEnv
from mainspring.tools import ToolContext
from mainspring.tools.builtin import grep
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
async def main():
    ctx = ToolContext(env=LocalEnv(sys.argv[1]))
    await grep(ctx, pattern="nothing", path="d0")
    open("/proc/self/clear_refs", "w").write("5")
    before, began = peak(), time.monotonic()
    result = await grep(ctx, pattern=sys.argv[2])
    seconds = time.monotonic() - began
    grown = peak() - before
    began = time.monotonic()
    rg = await ctx.env.find_program("rg")
    if rg is None:
        return
    await ctx.env.run([rg, "--count", "-e", sys.argv[2], "."])
    alone = time.monotonic() - began
    print(json.dumps([result.metadata["matches"], result.metadata["shown"], grown, seconds, alone, len(result.text)]))
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    first = root / "d0"
    first.mkdir()
    for j in range(FILES // FOLDERS):
        (first / f"f{j}.py").write_bytes(b"def f():\n    return 1\n# needle %d\n" % j)
    for i in range(1, FOLDERS):
        os.mkdir(f"{root}/d{i}")
        for j in range(FILES // FOLDERS):  # a link takes half the time of a file
            os.link(f"{first}/f{j}.py", f"{root}/d{i}/f{j}.py")
    return root


@pytest.mark.covers("TOL-15")
@pytest.mark.parametrize(("pattern", "matches"), [("needle", FILES), ("needle 7$", FOLDERS)])
def test_search_uses_bounded_memory(tree: Path, pattern: str, matches: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tree), pattern], capture_output=True, text=True, check=True
    )
    if not done.stdout:
        skip_missing("ripgrep")
    found, shown, growth, seconds, alone, length = json.loads(done.stdout)
    assert found == matches
    assert shown <= 250
    assert length < 100_000
    assert growth < 96 * 1024, "KiB"
    assert seconds < 10 * alone + 10, done.stdout
