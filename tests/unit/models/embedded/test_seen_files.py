"""The files that a conversation has named, found in the results of the real tools."""

from pathlib import Path

import pytest

from mainspring.env import LocalEnv
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.models.embedded.prompt import collect_file_names, extract_file_names
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin import glob, grep, list_files, read_file

pytestmark = pytest.mark.covers("PRV-38")

FILES = ("README.md", "docs/guide/start.md", "docs/notes - old.txt", "src/app.py", "with space.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("tulips\n12:30 tea\n")
    return tmp_path


async def run_tool(folder: Path, tool: Tool, **given: object) -> list[str]:
    env = LocalEnv(str(folder))
    try:
        result = await tool(ToolContext(env=env), **given)
    finally:
        await env.aclose()
    return collect_file_names(
        [
            Message.assistant([ToolUseBlock("c", tool.name, dict(given))]),
            Message.user([ToolResultBlock("c", tool.name, result.text, is_error=result.is_error)]),
        ]
    )


async def test_listing_adds_files_with_their_folders(folder: Path) -> None:
    found = await run_tool(folder, list_files, path=".")
    assert found == ["README.md", "docs/notes - old.txt", "src/app.py", "with space.txt"]
    assert await run_tool(folder, list_files, path="docs") == ["docs/guide/start.md", "docs/notes - old.txt"]


async def test_search_adds_files_with_hits(folder: Path) -> None:
    assert sorted(await run_tool(folder, grep, pattern="tulips")) == sorted(FILES)
    assert await run_tool(folder, grep, pattern="nothing like it") == []


async def test_glob_and_read_add_files(folder: Path) -> None:
    assert await run_tool(folder, glob, pattern="**/*.py") == ["src/app.py"]
    assert await run_tool(folder, read_file, path="src/app.py") == ["src/app.py"]
    assert await run_tool(folder, read_file, path="missing.py") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Compare a.txt and data/b.csv.", ["a.txt", "data/b.csv"]),
        ("What is in (src/app/main.py)?", ["src/app/main.py"]),
        ("ünïcode.txt, ./x.py and ../y.md", ["ünïcode.txt", "./x.py", "../y.md"]),
        ("see https://example.com/x.html, mail me@host.com, e.g. or i.e. version 3.11", []),
        ("call file.read() twice", []),
    ],
)
def test_file_names_are_found_in_a_text(text: str, names: list[str]) -> None:
    assert extract_file_names(text) == names
