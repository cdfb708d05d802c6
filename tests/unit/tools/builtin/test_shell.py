"""`shell`."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mainspring.env import CapturedOutput, LocalEnv, MemoryEnv, ProcessResult
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import shell
from mainspring.tools.support.background import TailBuffer, TerminalText, split_limit, strip_partial_character


@pytest.mark.covers("TOL-08")
async def test_footer_has_status_and_duration(ctx: ToolContext, project: Path) -> None:
    result = await shell(ctx, command="echo out; echo err >&2; exit 3")
    assert re.fullmatch(rf"out\n\[stderr\]\nerr\n\[in {project}\]\n\(exit 3, \d+ms\)", result.text)
    assert not result.is_error
    assert result.metadata["exit_code"] == 3


@pytest.mark.covers("TOL-08")
async def test_footer_can_be_omitted(ctx: ToolContext) -> None:
    assert (await shell(ctx, command="echo out; echo err >&2; exit 3", metadata=False)).text == "out\nerr\n"
    assert (await shell(ctx, command="true", metadata=False)).text == ""


@pytest.mark.covers("TOL-06")
async def test_end_of_long_output_is_kept(ctx: ToolContext) -> None:
    result = await shell(ctx, command="seq 1 20000", metadata=False)
    mark, _, rest = result.text.partition("\n")
    assert mark == f"…({108_894 - 32_768} bytes truncated from head)…"
    output, _, note = rest.partition("[full output, 108894 bytes: ")
    assert len(output.encode()) == 32_768
    assert output.endswith("19999\n20000\n")
    assert result.metadata["spool"] == note.rstrip("]\n")


@pytest.mark.covers("TOL-06")
async def test_zero_limit_keeps_everything(ctx: ToolContext) -> None:
    result = await shell(ctx, command="seq 1 20000; seq 1 20000 >&2", max_bytes=0, metadata=False)
    assert len(result.text.encode()) == 2 * 108_894
    small = await shell(ctx, command="printf 0123456789", max_bytes=4, metadata=False)
    assert small.text.startswith("…(6 bytes truncated from head)…\n6789")


@pytest.mark.covers("TOL-06")
async def test_stdout_and_stderr_share_the_limit(ctx: ToolContext) -> None:
    result = await shell(ctx, command="seq 1 20000; seq 1 20000 >&2", metadata=False)
    parts = re.split(r"…\(\d+ bytes truncated from head\)…\n", result.text)
    assert [len(p) for p in parts[1:]][0] == 16_384
    assert result.text.count("truncated from head") == 2
    little = await shell(ctx, command="seq 1 20000; echo cause >&2")
    assert "[stderr]\ncause\n" in little.text


@pytest.mark.covers("TOL-07")
@pytest.mark.parametrize("limit", range(1, 12))
async def test_characters_are_never_split(ctx: ToolContext, limit: int) -> None:
    result = await shell(ctx, command="printf 'añ日😀é'", max_bytes=limit, metadata=False)
    remaining = re.sub(r"…\(\d+ bytes truncated from head\)…\n|\n?\[full.*", "", result.text)
    assert "añ日😀é".endswith(remaining)
    assert "\ufffd" not in result.text


@pytest.mark.covers("TOL-07")
@given(st.text(st.characters(codec="utf-8")), st.integers(1, 40), st.lists(st.integers(0, 60), max_size=6))
def test_tail_buffer_returns_valid_text(text: str, limit: int, cuts: list[int]) -> None:
    tail = TailBuffer(limit)
    places = sorted({0, len(text), *[c for c in cuts if c < len(text)]})
    for start, end in zip(places, places[1:], strict=False):
        tail.feed(text[start:end])
    remaining = re.sub(r"\A…\(\d+ bytes truncated from head\)…\n", "", tail.text(limit)) if tail.total > limit else text
    assert text.endswith(remaining)
    assert len(remaining.encode()) <= limit
    assert len(remaining.encode()) > min(limit, tail.total) - 4


@given(st.text(st.characters(codec="utf-8")), st.lists(st.integers(0, 200), max_size=8))
def test_screen_accepts_output_in_any_chunks(text: str, cuts: list[int]) -> None:
    data = text.encode()
    whole = TerminalText()
    expected = whole.feed(data) + whole.finish()
    screen = TerminalText()
    places = sorted({0, len(data), *[c for c in cuts if c < len(data)]})
    pieces = [screen.feed(data[a:b]) for a, b in zip(places, places[1:], strict=False)]
    assert "".join(pieces) + screen.finish() == expected


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"\x1b[31mred\x1b[0m \x1b[1;4mbold\x1b[m\n", "red bold\n"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "textlink\n"),
        (b"\x1bPq#0\x1b\\after\x1b(B\x1b7\x1b8\n", "after\n"),
        (b" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"progress\r", "progress"),
        (b"bo\x08old N\x08NA\x08A\n", "bold NA\n"),
        (b"\x08\x08x\0\x07y\n", "xy\n"),
        (b"caf\xc3\xa9 \xff\n", "café \ufffd\n"),
        (b"no newline", "no newline"),
        (b"\x1b", ""),
    ],
)
def test_output_is_rendered_as_on_a_terminal(written: bytes, seen: str) -> None:
    screen = TerminalText()
    assert screen.feed(written) + screen.finish() == seen


def test_progress_bar_is_reduced_to_its_last_state() -> None:
    screen = TerminalText()
    fed = "".join([screen.feed(b"\r%06d" % i) for i in range(50_000)])
    assert fed + screen.finish() == "049999"


def test_long_line_is_passed_on_in_pieces() -> None:
    screen = TerminalText()
    assert len(screen.feed(b"x" * 100_000)) > 30_000


def test_split_limit() -> None:
    assert split_limit(5, 5, 0) == (5, 5)
    assert split_limit(5, 5, 20) == (5, 5)
    assert split_limit(100, 5, 20) == (15, 5)
    assert split_limit(5, 100, 20) == (5, 15)
    assert split_limit(100, 100, 20) == (10, 10)
    assert strip_partial_character("é".encode()[1:] + b"x") == b"x"


async def test_timeout_is_reported_with_the_limit(ctx: ToolContext) -> None:
    result = await shell(ctx, command="echo begun; sleep 300", timeout=3)
    assert result.code is ToolErrorCode.TIMEOUT
    assert result.is_error
    assert result.text.startswith("begun\n[timed out: stopped after ")
    assert "the limit was 3s. The output is partial." in result.text


async def test_cancellation_is_reported(ctx: ToolContext) -> None:
    ctx.signal.cancel()
    result = await shell(ctx, command="sleep 30")
    assert result.is_error
    assert "[cancelled: stopped with everything it had started" in result.text


async def test_nonzero_exit_is_not_an_error_result(ctx: ToolContext) -> None:
    for command in ("grep x /dev/null", "false", "kill -9 $$"):
        assert not (await shell(ctx, command=command)).is_error
    assert "[ended by SIGKILL]\n" in (await shell(ctx, command="kill -9 $$")).text
    assert "(exit 127," in (await shell(ctx, command="no-such-command-here")).text


async def test_command_that_cannot_start_is_an_error(ctx: ToolContext, project: Path) -> None:
    assert (await shell(ctx, command="  ")).code is ToolErrorCode.VALIDATION_ERROR
    assert "NUL" in (await shell(ctx, command="echo \0")).text
    os.rmdir(project)
    result = await shell(ctx, command="true")
    assert result.is_error
    assert result.text == f"The command could not be started: {project}: it does not exist."


async def test_working_folder_is_reported_and_does_not_change(ctx: ToolContext, project: Path) -> None:
    moved = await shell(ctx, command="cd / && pwd")
    assert f"[in {project}; the next call starts there again]" in moved.text
    assert (await shell(ctx, command="pwd", metadata=False)).text == f"{project}\n"


async def test_commands_never_wait_for_a_user(ctx: ToolContext, project: Path) -> None:
    command = 'read x; echo "$PAGER $GIT_TERMINAL_PROMPT $NO_COLOR $TERM"; $EDITOR x || echo no editor; cat'
    result = await shell(ctx, command=command, timeout=120, metadata=False)
    assert result.text == "cat 0 1 dumb\nno editor\n"


async def test_background_process_is_reported(ctx: ToolContext) -> None:
    result = await shell(ctx, command="sleep 60 & echo started")
    [pid] = result.metadata["survivors"]
    assert f"[still running in the background: pid {pid}; further output goes to " in result.text
    assert "(exit 0," in result.text


async def test_output_is_streamed(local_env: LocalEnv) -> None:
    seen: list[str] = []
    ctx = ToolContext(env=local_env, on_update=lambda text, title, metadata: seen.append(text))
    await shell(ctx, command="echo \x1b[1mone; sleep 0.05; echo two >&2")
    assert "".join(seen) == "one\ntwo\n"


async def test_shell_works_in_any_environment() -> None:
    failed = ProcessResult(exit_code=2, stderr=CapturedOutput(b"bad\n", b"", 4), seconds=0.5)
    ctx = ToolContext(env=MemoryEnv(run={"make": failed, "ls": "a\nb"}))
    assert (await shell(ctx, command="make")).text == "[stderr]\nbad\n[in /project]\n(exit 2, 500ms)"
    assert (await shell(ctx, command="ls")).text == "a\nb\n[in /project]\n(exit 0, 0ms)"
    assert (await shell(ctx, command="ls", description="List")).title == "List"


async def test_excessive_output_is_reported(local_env: LocalEnv) -> None:
    flood = ProcessResult(exit_code=143, signal="SIGTERM", overflowed=True)
    ctx = ToolContext(env=MemoryEnv(run={"yes": flood}))
    assert "[stopped: it wrote more output than is allowed" in (await shell(ctx, command="yes")).text
