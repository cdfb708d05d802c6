"""The in-memory environment: features for tests beyond the common interface."""

import pytest

from mainspring.env import CapturedOutput, MemoryEnv, ProcessResult

pytestmark = pytest.mark.covers("TST-04")


async def test_files_are_read_and_written_by_path() -> None:
    env = MemoryEnv({"src/a.py": "x = 1\n", "/etc/hosts": b"local"})
    await env.write_bytes("b", b"2")
    assert env.files == {"/etc/hosts": b"local", "b": b"2", "src/a.py": b"x = 1\n"}


async def test_commands_are_recorded_and_return_configured_results() -> None:
    failed = ProcessResult(exit_code=1, stderr=CapturedOutput(b"no", b"", 2))
    env = MemoryEnv(run={"git status": "clean", "make test": failed, "true": ""})
    assert (await env.run("git status")).stdout.text == "clean"
    assert (await env.run(["make", "test"])).exit_code == 1
    assert (await env.run("true")).exit_code == 0
    assert (await env.run("rm -rf /")).exit_code == 127
    assert env.commands == ["git status", ["make", "test"], "true", "rm -rf /"]


async def test_function_can_return_command_results() -> None:
    async def answer(command: str | list[str]) -> str:
        return f"ran {command}"

    assert (await MemoryEnv(run=answer).run("x")).stdout.text == "ran x"
    assert (await MemoryEnv(run=lambda c: "plain").run("x")).stdout.text == "plain"


async def test_symlinks_are_followed() -> None:
    env = MemoryEnv({"real/x": "1"}, links={"link": "real", "out": "/etc", "a": "b", "b": "a"})
    assert await env.realpath("link/x") == "/project/real/x"
    assert await env.realpath("out/passwd") == "/etc/passwd"
    await env.write_bytes("link/x", b"2")
    assert env.files == {"real/x": b"2"}
    assert [(e.name, e.kind) for e in await env.list_dir(".")][0] == ("a", "symlink")
    with pytest.raises(OSError, match="symbolic links"):
        await env.realpath("a")


async def test_file_cannot_be_used_as_a_folder() -> None:
    env = MemoryEnv({"x": "1"})
    with pytest.raises(NotADirectoryError):
        await env.write_bytes("x/y", b"")
