"""Type-check the Python blocks of README.md and docs/ in strict mode, as a user's code: `python -m scripts.check_examples [PAGE...]`.

The blocks of a page are one module, each line at its line of the page, so that pyright's positions are those of the page. Blocks
marked `async` or `notest` may use `await` at the top level; pyright's complaint about that is left out.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent> *)```python(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
TOP_LEVEL_AWAIT = re.compile(
    r'"await" allowed only within async function|Use of "async" not allowed outside of async function'
)
SETTINGS = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportMissingModuleSource": False}


@dataclass(frozen=True)
class Block:
    """One fenced block: the line of its first statement, its info string, its code."""

    line: int
    info: str
    code: str


def find_blocks(text: str) -> list[Block]:
    """Return the Python blocks of a page, in order."""
    blocks: list[Block] = []
    for match in FENCE.finditer(text):
        code = re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        blocks.append(Block(text.count("\n", 0, match.start("code")) + 1, match["info"].strip(), code))
    return blocks


def find_pages() -> list[Path]:
    """Return the README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def join_blocks(blocks: Sequence[Block]) -> str:
    """Return one module with each block at its line of the page."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.code.splitlines()
    return "\n".join(lines) + "\n"


def find_problems(pages: Sequence[Path]) -> Iterator[str]:
    """Run pyright once over the blocks of all pages and yield its complaints."""
    with tempfile.TemporaryDirectory(prefix="mainspring-examples-") as name:
        folder = Path(name)
        modules: dict[str, tuple[Path, list[Block]]] = {}
        for page in pages:
            blocks = find_blocks(page.read_text(encoding="utf-8"))
            if blocks:
                module = folder / (re.sub(r"\W", "_", page.relative_to(ROOT).as_posix()) + ".py")
                module.write_text(join_blocks(blocks), encoding="utf-8")
                modules[module.name] = page, blocks
        environment = {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}
        (folder / "pyrightconfig.json").write_text(json.dumps({**SETTINGS, **environment}), encoding="utf-8")
        for found in run_pyright(folder):
            page, blocks = modules[Path(found["file"]).name]
            line = found["range"]["start"]["line"] + 1
            block = next((b for b in reversed(blocks) if b.line <= line), blocks[0])
            if not (block.info and TOP_LEVEL_AWAIT.search(found["message"])):
                yield f"{page.relative_to(ROOT)}:{line}: {found['message']}"


def run_pyright(folder: Path) -> list[dict[str, Any]]:
    """Run pyright in a folder and return its diagnostics.

    Raises:
        SystemExit: If pyright does not run.
    """
    program = shutil.which("pyright", path=str(Path(sys.executable).parent)) or "pyright"
    done = subprocess.run(
        [program, "--outputjson", "-p", str(folder)], capture_output=True, encoding="utf-8", check=False
    )
    try:
        return json.loads(done.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        sys.exit(f"pyright failed: {done.stderr or done.stdout}")


def main() -> int:
    pages = [Path(name).resolve() for name in sys.argv[1:]] or find_pages()
    problems = list(find_problems(pages))
    print("\n".join(problems) if problems else f"{len(pages)} pages, no type errors")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
