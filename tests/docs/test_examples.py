"""The Python blocks of README.md and docs/ run.

The blocks of a page run in order, in one namespace, in an empty folder. What comes after `python` on the opening fence says more:
`python notest` is compiled only (it needs a key or a network), `python async` may use `await` at the top level, as in a notebook.
"""

import ast
import asyncio
import inspect
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```python(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
INFOS = {"", "notest", "async"}


@dataclass(frozen=True)
class Block:
    """One fenced block: the line of its first statement, its info string, its code."""

    line: int
    info: str
    code: str


def blocks_of(text: str) -> list[Block]:
    blocks: list[Block] = []
    for match in FENCE.finditer(text):
        indent = match["indent"]
        code = re.sub(f"^{indent}", "", match["code"], flags=re.MULTILINE)
        blocks.append(Block(text.count("\n", 0, match.start("code")) + 1, match["info"].strip(), code))
    return blocks


def run_blocks(path: Path, blocks: list[Block]) -> None:
    """Run the blocks of a page one after the other; line numbers in errors are those of the page."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        assert block.info in INFOS, f"{path.name}:{block.line}: unknown word after python: {block.info!r}"
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if block.info in {"async", "notest"} else 0
        code = compile("\n" * (block.line - 1) + block.code, str(path), "exec", flags=flags, dont_inherit=True)
        if block.info == "notest":
            continue
        outcome = eval(code, namespace)
        if inspect.iscoroutine(outcome):
            asyncio.run(outcome)


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    run_blocks(page, blocks_of(page.read_text(encoding="utf-8")))


def test_blocks_share_a_namespace_and_know_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# Page\n\n```python\na = 1\n```\n\n- item\n\n  ```python async\n  import asyncio\n  await asyncio.sleep(0)\n  assert a == 2\n  ```\n\n```python notest\nraise SystemExit\n```\n"

    blocks = blocks_of(text)

    assert [(block.line, block.info) for block in blocks] == [(4, ""), (10, "async"), (16, "notest")]
    with pytest.raises(AssertionError) as caught:
        run_blocks(page, blocks)
    assert caught.traceback[-1].lineno == 11  # counted from 0: line 12 of the page


def test_a_block_that_does_not_compile_fails(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run_blocks(tmp_path / "page.md", blocks_of("```python notest\nx =\n```\n"))


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(REPOSITORY)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []
