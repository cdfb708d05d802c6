"""`write_file`."""

import errno
import os
import stat
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.events import AgentEnd, ToolExecutionEnd
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import read_file, write_file


@pytest.mark.covers("TOL-09")
async def test_result_describes_the_change(ctx: ToolContext, project: Path) -> None:
    created = await write_file(ctx, path="src/new/a.py", content="x = 1\n")
    assert created.text == "Created src/new/a.py (1 line, 6 bytes)."
    assert (await write_file(ctx, path="src/new/a.py", content="x = 1\n")).text.startswith("No change needed")
    updated = await write_file(ctx, path="src/new/a.py", content="x = 2\ny = 3\n")
    assert updated.text == "Updated src/new/a.py (2 lines, 12 bytes)."
    assert updated.metadata["diff"] == "--- a/src/new/a.py\n+++ b/src/new/a.py\n@@ -1 +1,2 @@\n-x = 1\n+x = 2\n+y = 3\n"
    assert (project / "src/new/a.py").read_bytes() == b"x = 2\ny = 3\n"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "permission denied by the operating system"),
        (errno.EPERM, "Operation not permitted"),
        (errno.EROFS, "the file system is read-only"),
        (errno.ENOSPC, "the disk is full"),
        (errno.EISDIR, "it is a folder"),
    ],
)
async def test_refusal_of_the_operating_system_is_a_failure_and_not_a_denial(number: int, reason: str) -> None:
    class RefusingEnv(MemoryEnv):
        async def write_bytes(self, *args: Any, **options: Any) -> Any:
            raise OSError(number, os.strerror(number), "a.txt")

    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    statuses: list[str] = []
    agent = Agent(ScriptedModel(write, "done"), tools=[write_file], execution=RefusingEnv())
    agent.on(ToolExecutionEnd, lambda event: statuses.append(event.status))
    agent.on(AgentEnd, lambda event: statuses.extend(event.denied))
    result = await agent.run("write")
    assert statuses == ["error"]
    assert f"Cannot write a.txt: {reason}." in result.messages[2].tool_results[0].text


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_name_with_other_accents_is_the_same_file(form: Any) -> None:
    other = "NFD" if form == "NFC" else "NFC"
    env = MemoryEnv({normalize(form, "für/é.txt"): "old"})
    ctx = ToolContext(env=env)
    assert "Updated" in (await write_file(ctx, path=normalize(other, "für/é.txt"), content="new")).text
    await write_file(ctx, path=normalize(other, "für/ä.txt"), content="beside it")
    assert {os.path.dirname(name) for name in env.files} == {normalize(form, "für")}
    assert len(env.files) == 2


@given(st.text(st.characters(codec="utf-8")))
async def test_content_is_written_unchanged(content: str) -> None:
    env = MemoryEnv()
    await write_file(ToolContext(env=env), path="x", content=content)
    assert env.files["x"] == content.encode()


@given(st.text(st.characters(codec="utf-8")), st.sampled_from(["utf-16", "utf-8-sig"]))
async def test_byte_order_mark_and_encoding_are_preserved(content: str, encoding: str) -> None:
    env = MemoryEnv({"x": "old text\n".encode(encoding)})
    await write_file(ToolContext(env=env), path="x", content=content)
    assert env.files["x"].decode(encoding) == content.removeprefix("\ufeff")


async def test_legacy_encoding_is_preserved_or_rejected() -> None:
    old = "größer für alle\n".encode("cp1252")
    env = MemoryEnv({"x": old})
    ctx = ToolContext(env=env)
    rejected = await write_file(ctx, path="x", content="日本\n")
    assert rejected.is_error
    assert "cp1252, which has no '日'" in rejected.text
    assert env.files["x"] == old
    assert "cp1252 preserved" in (await write_file(ctx, path="x", content="größte\n")).text
    assert env.files["x"] == "größte\n".encode("cp1252")


async def test_line_endings_are_written_unchanged_and_reported() -> None:
    env = MemoryEnv({"x": "a\r\nb\r\n"})
    ctx = ToolContext(env=env)
    assert "end in LF now" in (await write_file(ctx, path="x", content="a\nb\n")).text
    assert env.files["x"] == b"a\nb\n"
    await write_file(ctx, path="x", content="a\r\nb\n")
    assert env.files["x"] == b"a\r\nb\n"


async def test_lone_surrogate_is_rejected() -> None:
    result = await write_file(ToolContext(env=MemoryEnv()), path="x", content="a\ud83d")
    assert result.is_error
    assert "surrogate" in result.text


async def test_mode_and_link_are_preserved(ctx: ToolContext, project: Path) -> None:
    (project / "run.sh").write_text("old")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("run.sh")
    await write_file(ctx, path="link", content="new")
    assert (project / "link").is_symlink()
    assert stat.S_IMODE((project / "run.sh").stat().st_mode) == 0o755
    os.link(project / "run.sh", project / "other")
    assert "2 names (hard links)" in (await write_file(ctx, path="run.sh", content="newer")).text


async def test_errors_are_short_and_name_the_path(ctx: ToolContext, project: Path, tmp_path: Path) -> None:
    (project / "folder").mkdir()
    (project / "file").write_text("x")
    expected = {
        "folder": "Cannot write folder: it is a folder.",
        "file/x": "Cannot write file/x: a part of the path is a file, not a folder.",
        "../none/x": f"Cannot write {tmp_path}/none/x: its folder does not exist, and outside the project none is made.",
    }
    for path, text in expected.items():
        result = await write_file(ctx, path=path, content="x")
        assert result.is_error
        assert result.text.startswith(text)
    assert not (tmp_path / "none").exists()


async def test_path_replaced_by_a_link_is_not_followed(ctx: ToolContext, project: Path, tmp_path: Path) -> None:
    (project / "x").symlink_to(tmp_path / "outside")
    ctx.paths = {"x": f"{project}/x"}
    result = await write_file(ctx, path="x", content="new")
    assert result.code is ToolErrorCode.PERMISSION_DENIED
    assert not (tmp_path / "outside").exists()


async def test_hash_equals_the_hash_of_read_file(ctx: ToolContext) -> None:
    written = await write_file(ctx, path="x", content="a\n")
    assert (await read_file(ctx, path="x")).metadata["hash"] == written.metadata["hash"]


async def test_long_diff_is_complete() -> None:
    env = MemoryEnv({"x": "".join(f"line {i}\n" for i in range(1500))})
    result = await write_file(ToolContext(env=env), path="x", content="".join(f"other {i}\n" for i in range(1500)))
    assert result.metadata["diff"].count("\n") == 3 + 3_000
    huge = await write_file(ToolContext(env=env), path="x", content="z\n" * 10_000)
    assert huge.metadata["diff"].count("\n+z") == 10_000
