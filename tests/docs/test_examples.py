"""The Python blocks of README.md and docs/ run.

The blocks of a page run in order, in one namespace, in an empty folder. A word after `python` on the opening fence changes that:
`python notest` is compiled only (it needs a key or a network), `python async` may use `await` at the top level, as in a notebook.
"""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from mainspring.models.provider_table import PROVIDERS
from scripts.check_examples import Block, find_blocks, find_pages, join_blocks
from tests.requires import durable_on_sqlite

REPOSITORY = Path(__file__).resolve().parents[2]
INFOS = {"", "notest", "async"}
PAGES = find_pages()
EXAMPLES = [path for path in (REPOSITORY / "examples").rglob("*") if path.suffix in (".py", ".md", ".json")]


def run_blocks(path: Path, blocks: list[Block]) -> dict[str, object]:
    """Run the blocks of a page in order, and return their names; line numbers in errors are those of the page."""
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
    return namespace


def _mark_page(page: Path) -> Any:
    needs_sqlite = 'DbosEngine("sqlite:' in page.read_text(encoding="utf-8")
    return pytest.param(page, marks=[durable_on_sqlite] if needs_sqlite else [], id=str(page.relative_to(REPOSITORY)))


@pytest.mark.parametrize("page", [_mark_page(page) for page in PAGES])
def test_examples_of_each_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    run_blocks(page, find_blocks(page.read_text(encoding="utf-8")))


def test_blocks_share_a_namespace_and_keep_line_numbers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# Page\n\n```python\na = 1\n```\n\n- item\n\n  ```python async\n  import asyncio\n  await asyncio.sleep(0)\n  assert a == 2\n  ```\n\n```python notest\nraise SystemExit\n```\n"

    blocks = find_blocks(text)

    assert [(block.line, block.info) for block in blocks] == [(4, ""), (10, "async"), (16, "notest")]
    with pytest.raises(AssertionError) as caught:
        run_blocks(page, blocks)
    assert caught.traceback[-1].lineno == 11  # counted from 0: line 12 of the page


def test_joined_blocks_keep_the_line_numbers_of_the_page() -> None:
    text = "# Page\n\n```python\na = 1\n```\n\n- item\n\n  ```python async\n  b = 2\n  ```\n"

    assert join_blocks(find_blocks(text)).splitlines() == ["", "", "", "a = 1", "", "", "", "", "", "b = 2"]


def test_block_that_does_not_compile_fails(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run_blocks(tmp_path / "page.md", find_blocks("```python notest\nx =\n```\n"))


def heading_anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, in the format of the site and of GitHub."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_reach_a_file_and_a_heading() -> None:
    broken: list[str] = []
    for page in PAGES:
        for target, anchor in re.findall(
            r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")
        ):
            file = page.parent / target if target else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in heading_anchors(file)):
                broken.append(f"{page.relative_to(REPOSITORY)}: {target}#{anchor}")

    assert broken == []


def test_documentation_paths_in_the_source_exist() -> None:
    references = {
        (name, str(path.relative_to(REPOSITORY)))
        for path in [
            *(REPOSITORY / "src").rglob("*.py"),
            *(REPOSITORY / "scripts").iterdir(),
            REPOSITORY / "CONTRIBUTING.md",
        ]
        if path.is_file()
        for name in re.findall(r"\bdocs/[\w-]+\.(?:md|json|schema\.json)\b", path.read_text(encoding="utf-8"))
    }

    assert [entry for entry in sorted(references) if not (REPOSITORY / entry[0]).exists()] == []


EXTERNAL_NAMES = {"ChatVertexAI", "LoopResult", "MyUI", "OpenTelemetry", "PowerShell"}
"""Names in the documentation that belong to other programs, to examples, or to old versions."""


def test_names_in_the_documentation_exist() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "src").rglob("*.py"))
    source_names = set(re.findall(r"\w+", source)) | EXTERNAL_NAMES
    unknown_names: set[tuple[str, str]] = set()
    for page in [page for page in PAGES if page.name != "deviations.md"]:  # It names what others call something.
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for code in re.findall(r"`([^`\n]+)`", text):
            for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w*[a-z]\b|\b[a-z]+_[a-z_]+(?=\()", code):
                if name not in source_names:
                    unknown_names.add((page.name, name))

    assert unknown_names == set()


OTHER_MODELS = {"gpt-5.3-codex": "an example of a model that supports only Responses"}
"""Models in the documentation that are not the default of a provider, and why."""

MODEL_NAME = re.compile(r"\b(?:gpt-(?:oss-)?\d|claude-[a-z]*-?\d|gemini-\d|llama\d|phi-\d)[\w.:-]*(?<![.:-])")


def test_models_in_the_documentation_are_the_defaults_of_the_provider_table() -> None:
    defaults = {name.rpartition("/")[2] for p in PROVIDERS.values() for name in (p.model, p.cloud_model) if name}
    written = [page for page in PAGES if page.name != "deviations.md" and page.parent.name != "python-api"]
    pages = [*written, *EXAMPLES]
    found = {
        (re.sub(r"(?<=\d)\.(?=\d)", "-", name.removesuffix("-v1:0")) if name.startswith("claude") else name, page.name)
        for page in pages
        for name in MODEL_NAME.findall(page.read_text(encoding="utf-8"))
    }

    assert {(name, page) for name, page in found if name not in defaults | OTHER_MODELS.keys()} == set()
    assert {name for name, _ in found} >= {"gpt-5-mini", "claude-sonnet-5-5", "gemini-3.7-flash", "llama3.3:latest"}
