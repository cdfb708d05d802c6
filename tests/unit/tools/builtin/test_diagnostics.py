"""Language server diagnostics after an edit; servers can never delay or break the edit."""

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.env import LocalEnv, MemoryEnv
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin import apply_patch, edit, write_file
from mainspring.tools.diagnostics import LanguageServerConfig, with_diagnostics
from mainspring.tools.diagnostics.protocol import (
    LspDecoder,
    LspFramingError,
    encode_message,
    parse_diagnostics,
    path_to_uri,
)
from tests.helpers.processes import ended
from tests.requires import skip_missing

FAKE = str(Path(__file__).with_name("language_server.py"))


def fake_server(mode: str) -> LanguageServerConfig:
    return LanguageServerConfig((sys.executable, FAKE, mode), {".txt": "text"}, "fake", settings={"x": {"a": 1}})


def make_tools(*servers: LanguageServerConfig, limit: float = 120.0) -> tuple[Tool, Tool]:
    return with_diagnostics(write_file, servers, limit=limit), with_diagnostics(edit, servers, limit=limit)


@pytest.mark.covers("BYD-22")
@pytest.mark.parametrize("mode", ["push", "versions", "pull"])
async def test_only_new_problems_are_reported(ctx: ToolContext, project: Path, mode: str) -> None:
    write, change = make_tools(fake_server(mode))
    await asyncio.to_thread((project / "a.txt").write_text, "bad old\nfine\n")
    first = await change(ctx, path="a.txt", old_string="fine", new_string="bad new")
    assert first.text == (
        "Edited a.txt: 1 replacement at line 2 (+1 -1 lines).\n[fake: 1 new problem in a.txt]\n2:1 error: bad new (B1)"
    )
    moved = await change(ctx, path="a.txt", old_string="bad old\n", new_string="x\ny\nbad old\n")
    assert moved.text == "Edited a.txt: 1 replacement at line 1 (+2 -0 lines)."
    assert moved.metadata["diagnostics"] == []
    swapped = await change(ctx, path="a.txt", old_string="bad new", new_string="bad newer")
    assert swapped.text.endswith("[fake: 1 new problem in a.txt, 1 gone]\n4:1 error: bad newer (B1)")
    created = await write(ctx, path="b.txt", content="bad\n" * 12)
    assert "[fake: 12 new problems in b.txt]\n1:1 error: bad (B1)\n" in created.text
    assert created.text.endswith("\nand 2 more")
    assert len(created.metadata["diagnostics"]) == 12


@pytest.mark.covers("BYD-22")
async def test_no_server_is_asked_for_other_files_or_failed_edits(ctx: ToolContext) -> None:
    write, change = make_tools(fake_server("push"))
    result = await write(ctx, path="a.py", content="bad")
    assert "diagnostics" not in result.metadata
    assert (await change(ctx, path="none.txt", old_string="a", new_string="b")).is_error
    # A start that is cancelled by the end of the event loop never returns.
    for watch in ctx.env.scratch["language-servers"].values():
        await watch.client.ensure_running()


async def test_every_file_of_a_patch_is_checked(ctx: ToolContext) -> None:
    tool = with_diagnostics(apply_patch, [fake_server("push")], limit=120)
    patch = "*** Begin Patch\n*** Add File: a.txt\n+bad a\n*** Add File: b.txt\n+bad b\n*** Add File: c.py\n+bad c\n*** End Patch"
    result = await tool(ctx, patch=patch)
    assert "new problem in a.txt]\n1:1 error: bad a" in result.text
    assert "new problem in b.txt]\n1:1 error: bad b" in result.text
    assert "bad c" not in result.text


@pytest.mark.covers("BYD-22")
@pytest.mark.parametrize("mode", ["hang", "crash", "garbage", "silent", "flood"])
async def test_misbehaving_server_does_not_delay_the_edit(ctx: ToolContext, project: Path, mode: str) -> None:
    write, _ = make_tools(fake_server(mode), limit=0.5)
    for i in range(5):
        result = await write(ctx, path="a.txt", content=f"bad {i}\n")
        assert result.text.startswith(("Created a.txt", "Updated a.txt"))
        assert "new problem" not in result.text
    await ctx.env.aclose()


@pytest.mark.covers("BYD-22")
async def test_crashed_server_is_restarted_after_a_delay(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.tools.diagnostics.client.INITIAL_BACKOFF", 0.0)
    write, change = make_tools(fake_server("crash once"))
    assert "new problem" in (await write(ctx, path="a.txt", content="bad one\n")).text
    assert "new problem" not in (await change(ctx, path="a.txt", old_string="one", new_string="two")).text
    again = await change(ctx, path="a.txt", old_string="two", new_string="three")
    assert "[fake: 1 new problem in a.txt, 1 gone]\n1:1 error: bad three (B1)" in again.text


@pytest.mark.covers("BYD-22")
async def test_restart_delay_grows(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.tools.diagnostics.client.INITIAL_BACKOFF", 600.0)
    write, _ = make_tools(fake_server("crash"))
    for i in range(4):
        await write(ctx, path="a.txt", content=f"{i}\n")
    [watch] = ctx.env.scratch["language-servers"].values()
    assert watch.client._failures == 1  # no restart within the first delay
    assert watch.client._not_before > time.monotonic()


async def test_missing_server_is_ignored(ctx: ToolContext) -> None:
    write, _ = make_tools(LanguageServerConfig(("no-such-language-server",), {".txt": "text"}))
    assert (await write(ctx, path="a.txt", content="x\n")).text == "Created a.txt (1 line, 2 bytes)."
    memory = ToolContext(env=MemoryEnv())
    assert (await write(memory, path="a.txt", content="x\n")).text == "Created a.txt (1 line, 2 bytes)."


@pytest.mark.covers("BYD-22")
async def test_servers_stop_with_their_environment(local_env: LocalEnv) -> None:
    write, _ = make_tools(fake_server("push"))
    await write(ToolContext(env=local_env), path="a.txt", content="bad\n")
    [watch] = local_env.scratch["language-servers"].values()
    pid = watch.client._connection.pid
    await local_env.aclose()
    assert ended(pid)


REAL = [
    pytest.param(("pylsp",), "undefined name 'nowhere'", id="pylsp"),
    pytest.param(
        ("pyright-langserver", "--stdio"), '"nowhere" is not defined', id="pyright", marks=pytest.mark.covers("BYD-22")
    ),
]


@pytest.mark.parametrize(("command", "expected"), REAL)
async def test_real_language_servers(ctx: ToolContext, command: tuple[str, ...], expected: str) -> None:
    next_to_python = Path(sys.executable).with_name(command[0])
    if not (await asyncio.to_thread(next_to_python.exists) or shutil.which(command[0])):
        skip_missing(command[0])
    write, change = make_tools(LanguageServerConfig(command, {".py": "python"}), limit=120)
    assert "new problem" not in (await write(ctx, path="a.py", content="import os\n\nprint(os.sep)\n")).text
    broken = await change(ctx, path="a.py", old_string="os.sep", new_string="nowhere, os")
    assert expected in broken.text
    assert "3:7 error" in broken.text
    fixed = await change(ctx, path="a.py", old_string="nowhere, os", new_string="os.sep")
    assert "new problem" not in fixed.text


# --- messages -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.dictionaries(st.sampled_from(["method", "result"]), st.text())), st.integers(1, 50))
def test_messages_are_decoded_from_chunks_of_any_size(messages: list[dict[str, Any]], size: int) -> None:
    data = b"".join(map(encode_message, messages))
    decoder = LspDecoder()
    found = [m for i in range(0, len(data), size) for m in decoder.feed(data[i : i + size])]
    assert [m.method for m in found] == [m.get("method") for m in messages]
    assert [m.result for m in found] == [m.get("result") for m in messages]


@pytest.mark.parametrize(
    "data",
    [b"x" * 5000, b"Hello: 3\r\n\r\nabc", b"Content-Length: 99999999999\r\n\r\n", b"Content-Length: 3\r\n\r\n[1]",
     b"Content-Length: 3\r\n\r\n{{{", b"Content-Length: -1\r\n\r\n"],
)  # fmt: skip
def test_invalid_message_raises_a_framing_error(data: bytes) -> None:
    with pytest.raises(LspFramingError):
        LspDecoder().feed(data)


PLACES = st.fixed_dictionaries(
    {}, optional={"line": st.integers(-1, 3), "character": st.sampled_from([0, 1, "x", None])}
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "range": st.fixed_dictionaries({}, optional={"start": PLACES | st.none()}),
        "message": st.sampled_from(["m", 1, None]),
        "severity": st.sampled_from([0, 1, 4, 9, -2, "x", None]),
        "code": st.sampled_from([7, "c", True, None]),
    },
)


@given(st.lists(ITEMS | st.none() | st.integers(), max_size=4))
def test_malformed_diagnostics_are_accepted(items: list[Any]) -> None:
    parse_diagnostics(items)


def test_path_to_uri() -> None:
    assert path_to_uri("/a b/ü#.py") == "file:///a%20b/%C3%BC%23.py"
