"""`todo_write` and `todo_read`."""

import pytest

from mainspring.env import LocalEnv, MemoryEnv
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import todo_read, todo_write
from mainspring.tools.builtin.todos import TODO_STORE_KEY, EnvTodoStore

LIST = [{"content": "read"}, {"content": "write", "status": "in_progress"}, {"content": "test", "status": "completed"}]
SHOWN = "[ ] read\n[>] write\n[x] test\n(1 pending, 1 in progress, 1 completed)"


@pytest.mark.covers("OPT-12", "OPT-02")
async def test_todos_are_stored_per_session(local_env: LocalEnv) -> None:
    """A new store and context on the same files behave like another process."""
    for session in ("s1", "../../etc/x", ""):
        ctx = ToolContext(env=MemoryEnv(), session_id=session, extra={TODO_STORE_KEY: EnvTodoStore(local_env)})
        assert (await todo_write(ctx, todos=LIST)).text == SHOWN
        later = ToolContext(env=MemoryEnv(), session_id=session, extra={TODO_STORE_KEY: EnvTodoStore(local_env)})
        assert (await todo_read(later)).text == SHOWN
    other = ToolContext(env=MemoryEnv(), session_id="s2", extra={TODO_STORE_KEY: EnvTodoStore(local_env)})
    assert (await todo_read(other)).text == "(nothing to do)"
    assert {e.kind for e in await local_env.list_dir("todos")} == {"file"}
    assert [e.name for e in await local_env.list_dir(".")] == ["todos"]


async def test_todos_without_a_store_last_as_long_as_the_environment() -> None:
    env = MemoryEnv()
    await todo_write(ToolContext(env=env, session_id="a"), todos=LIST)
    assert (await todo_read(ToolContext(env=env, session_id="a"))).text == SHOWN
    assert (await todo_read(ToolContext(env=env, session_id="b"))).text == "(nothing to do)"
    assert env.files == {}


async def test_todo_list_is_replaced_completely() -> None:
    ctx = ToolContext(env=MemoryEnv())
    await todo_write(ctx, todos=LIST)
    assert (await todo_write(ctx, todos=[])).text == "(nothing to do)"
    rejected = await todo_write(ctx, todos=[{"content": "  "}])
    assert rejected.code == ToolErrorCode.VALIDATION_ERROR


async def test_todo_file_errors_are_reported_without_failing_reads(local_env: LocalEnv) -> None:
    await local_env.write_bytes("todos/default.json", b"{broken")
    ctx = ToolContext(env=MemoryEnv(), extra={TODO_STORE_KEY: EnvTodoStore(local_env)})
    assert (await todo_read(ctx)).text == "(nothing to do)"
    await local_env.write_bytes("blocked", b"")
    ctx = ToolContext(env=MemoryEnv(), extra={TODO_STORE_KEY: EnvTodoStore(local_env, "blocked/todos")})
    result = await todo_write(ctx, todos=LIST)
    assert result.code == ToolErrorCode.IO_ERROR
    assert "Continue without it" in result.text
