"""Reads: not sent twice, required before edits, left out of requests when stale."""

import gc
import hashlib
import weakref
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent, Message, RunOptions, Session, ToolResult, define_tool
from mainspring.env.memory import MemoryEnv
from mainspring.loop.hooks import ContextTransform, ToolFinished, ToolTransform
from mainspring.messages import AgentMessage
from mainspring.permissions import Permissions
from mainspring.policies.reads import ClearStaleReads, FileReadState, FileVersion
from mainspring.policies.reads.policies import FileFact
from mainspring.prompt_tags import wrap_in_tag
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools.builtin.apply_patch import apply_patch
from tests.unit.policies.harness import TOOLS, edit, make_agent, project, read, requests, results, texts, turn, write

UNCHANGED = "Unchanged: a.py has not changed"


@pytest.mark.covers("GRD-01")
async def test_repeated_read_of_an_unchanged_file_returns_one_line() -> None:
    agent = make_agent(read("a.py"), read("a.py"), read("./a.py"), "done", env=project(a__py="one\ntwo\n"))

    await agent.run("go")

    first, second, third = texts(agent.messages)
    assert "one" in first
    assert second.startswith(UNCHANGED)
    assert third.startswith(UNCHANGED)
    assert not any(r.is_error for r in results(agent.messages))


async def test_other_lines_and_changed_files_are_read_again() -> None:
    env = project(a__py="one\ntwo\n")
    calls = [
        read("a.py"),
        read("a.py", offset=2),
        read("a.py", line_numbers=False),
        edit("a.py", "two", "2"),
        read("a.py"),
    ]
    agent = make_agent(*calls, "done", env=env)

    await agent.run("go")
    assert not any(t.startswith("Unchanged") for t in texts(agent.messages))

    await env.write_bytes("a.py", b"from outside\n")
    agent = make_agent(read("a.py"), "done", read("a.py"), "done", env=env)
    await agent.run("go")
    await env.write_bytes("a.py", b"changed\n")
    await agent.run("go")
    assert "changed" in texts(agent.messages)[-1]


@pytest.mark.covers("GRD-01", "AGT-27")
async def test_deduplication_can_be_off_for_an_agent_or_a_run() -> None:
    agent = make_agent(
        read("a.py"), read("a.py"), "done", read("a.py"), "done", env=project(a__py="one\n"), dedup_reads=False
    )

    await agent.run("go")
    assert not any(t.startswith("Unchanged") for t in texts(agent.messages))
    await agent.run("go", behavior=RunOptions(dedup_reads=True))
    assert texts(agent.messages)[-1].startswith(UNCHANGED)


async def test_lines_dropped_from_the_history_are_read_again() -> None:
    agent = make_agent(read("a.py"), "done", read("a.py"), "done", read("a.py"), "done", env=project(a__py="one\n"))

    await agent.run("go")
    agent.reset()
    await agent.run("go")
    assert "one" in texts(agent.messages)[0]

    agent.context.messages[:] = agent.messages[:1]  # the application dropped the rest
    await agent.run("go")
    assert "one" in texts(agent.messages)[-1]


@pytest.mark.covers("GRD-01")
@pytest.mark.parametrize(
    "options",
    [
        {"transform": lambda messages, signal: messages[:1] + messages[3:]},
        {"hooks": {ContextTransform: lambda hook: {"messages": hook.messages[:1] + hook.messages[3:]}}},
    ],
)
async def test_lines_left_out_of_requests_are_read_again(options: Any) -> None:
    agent = make_agent(read("a.py"), read("a.py"), read("a.py"), "done", env=project(a__py="one\n"), **options)

    await agent.run("go")

    first, second, third = texts(agent.messages)
    assert first == second  # the first result was not in the request of the second call
    assert third.startswith(UNCHANGED)


async def test_result_changed_by_a_hook_still_counts_as_read() -> None:
    agent = make_agent(read("a.py"), read("a.py"), "done", env=project(a__py="one\n"))
    agent.on(ToolTransform, lambda hook: setattr(hook.result, "output", f"[checked] {hook.result.output}"))

    await agent.run("go")

    assert texts(agent.messages)[0].startswith("[checked]")
    assert texts(agent.messages)[1].startswith(UNCHANGED)


async def test_unreadable_file_is_denied_despite_an_earlier_read() -> None:
    agent = make_agent(
        read("a.py"), "done", read("a.py"), "done", env=project(a__py="one\n"), permissions=Permissions()
    )
    await agent.run("go")
    Permissions(deny=["read_file"]).install(agent)

    await agent.run("go")

    assert texts(agent.messages)[-1].startswith("Permission denied")


async def test_deduplicated_read_counts_as_a_tool_call() -> None:
    seen: list[bool] = []
    agent = make_agent(read("a.py"), read("a.py"), "done", env=project(a__py="one\n"))
    agent.on(ToolFinished, lambda hook: seen.append("unchanged" in hook.metadata))

    result = await agent.run("go")

    assert seen == [False, True]
    assert result.stats.tool_counts == {"read_file": 2}


@pytest.mark.covers("GRD-04")
def test_reads_are_tracked_by_folder_and_path() -> None:
    details = {"path": "/p/a", "hash": "h", "mtime_ns": 7, "first_line": 3, "last_line": 4}
    calls, answers = turn(("read_file", "text", details))
    calls = Message.assistant(
        [type(b)(b.id, b.name, {"path": "a", "offset": 3, "limit": 2, "max_bytes": 9}) for b in calls.tool_uses]
    )
    state = FileReadState("/p")

    state.update([calls, answers])

    expected = FileVersion("h", 7, 3, 2, 9)
    assert state.known("/p/a") == expected
    assert state.known("/p/b") is None
    assert state.find_earlier_read(FileFact("/p/a", expected, True)) == "c0_0"
    for other in (
        FileVersion("i", 7, 3, 2, 9),
        FileVersion("h", 7, 4, 2, 9),
        FileVersion("h", 7, 3, 3, 9),
        FileVersion("h", 7, 3, 2, 8),
    ):
        assert state.find_earlier_read(FileFact("/p/a", other, True)) is None
    assert state.find_earlier_read(FileFact("/p/a", FileVersion("h", 8, 3, 2, 9), True))  # touched, not changed


@pytest.mark.covers("GRD-02")
@pytest.mark.parametrize("call", [edit("a.py", "one", "1"), write("a.py", "all new\n")])
async def test_edit_requires_an_earlier_read(call: ScriptedCall) -> None:
    env = project(a__py="one\n")
    agent = make_agent(call, read("a.py"), call, "done", env=env, require_read_before_edit=True)

    await agent.run("go")

    rejected, _, done = results(agent.messages)
    assert rejected.is_error
    assert "a.py was not read in this conversation" in rejected.text
    assert not done.is_error
    assert env.files["a.py"] in (b"1\n", b"all new\n")


@pytest.mark.covers("GRD-02")
async def test_read_requirement_is_off_by_default_and_skips_new_files() -> None:
    agent = make_agent(edit("a.py", "one", "1"), "done", env=project(a__py="one\n"))
    await agent.run("go")
    assert not results(agent.messages)[0].is_error

    agent = make_agent(write("b.py", "new\n"), edit("b.py", "new", "old"), "done", require_read_before_edit=True)
    await agent.run("go")
    assert not any(r.is_error for r in results(agent.messages))


@pytest.mark.covers("GRD-02")
async def test_changed_file_must_be_read_again_before_an_edit() -> None:
    env = project(a__py="one\n")
    script = [read("a.py"), "done", edit("a.py", "one", "1"), read("a.py"), edit("a.py", "one", "1"), "done"]
    agent = make_agent(*script, env=env, require_read_before_edit=True)

    await agent.run("go")
    await env.write_bytes("a.py", b"one more\n")
    await agent.run("go")

    _, rejected, _, done = results(agent.messages)
    assert "a.py has changed since you last saw it" in rejected.text
    assert not done.is_error
    assert env.files["a.py"] == b"1 more\n"


@pytest.mark.covers("GRD-02", "GRD-12")
async def test_reset_conversation_has_no_earlier_reads() -> None:
    env = project(a__py="one\n")
    agent = make_agent(read("a.py"), "done", edit("a.py", "one", "1"), "done", env=env, require_read_before_edit=True)

    await agent.run("go")
    agent.reset()
    await agent.run("go")

    assert "a.py was not read in this conversation" in texts(agent.messages)[0]


@pytest.mark.covers("GRD-03")
async def test_reads_in_runs_without_the_requirement_are_tracked() -> None:
    script = [read("a.py"), "done", edit("a.py", "one", "1"), "done", edit("a.py", "1", "2"), "done"]
    agent = make_agent(*script, env=project(a__py="one\n"), require_read_before_edit=True)

    await agent.run("go")
    await agent.run("go", behavior=RunOptions(require_read_before_edit=False))
    await agent.run("go")

    assert not any(r.is_error for r in results(agent.messages))


@pytest.mark.covers("GRD-02")
async def test_reading_a_binary_file_meets_the_requirement() -> None:
    env = MemoryEnv({"a.bin": b"\0\1\2"})
    agent = make_agent(
        write("a.bin", "x"), read("a.bin"), write("a.bin", "x"), "done", env=env, require_read_before_edit=True
    )

    await agent.run("go")

    assert [r.is_error for r in results(agent.messages)] == [True, False, False]


@pytest.mark.covers("GRD-03")
async def test_consecutive_edits_need_one_read() -> None:
    env = project(a__py="one two three\n")
    batch = [read("a.py"), edit("a.py", "one", "1"), edit("a.py", "two", "2")]
    agent = make_agent(batch, edit("a.py", "three", "3"), "done", env=env, require_read_before_edit=True)

    await agent.run("go")

    assert not any(r.is_error for r in results(agent.messages))
    assert env.files["a.py"] == b"1 2 3\n"


@pytest.mark.covers("GRD-02", "GRD-03")
async def test_patches_require_reads_of_every_file() -> None:
    env = project(a__py="one\n", b__py="two\n")
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+1\n*** Update File: b.py\n@@\n-two\n+2\n*** End Patch\n"
    call = ScriptedCall("apply_patch", {"patch": patch})
    script = [read("a.py"), call, read("b.py"), call, edit("b.py", "2", "3"), "done"]
    tools = {**TOOLS, apply_patch.name: apply_patch}.values()
    agent = make_agent(*script, env=env, tools=tools, require_read_before_edit=True)

    await agent.run("go")

    _, rejected, _, done, edited = results(agent.messages)
    assert "b.py was not read" in rejected.text
    assert not done.is_error
    assert not edited.is_error
    assert env.files["b.py"] == b"3\n"


@pytest.mark.covers("GRD-02", "GRD-03")
@pytest.mark.parametrize("before", [[], [read("a.py")]])
async def test_file_that_is_unread_or_changed_is_not_deleted(before: list[ScriptedCall]) -> None:
    env = project(a__py="one\n")
    remove = ScriptedCall("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n"})
    tools = [*TOOLS.values(), apply_patch]
    agent = make_agent(
        *before, "done", remove, read("a.py"), remove, "done", env=env, tools=tools, require_read_before_edit=True
    )

    await agent.run("go")
    if before:
        await env.write_bytes("a.py", b"changed by the user\n")
    await agent.run("delete it")

    *_, rejected, _, done = results(agent.messages)
    assert ("has changed" if before else "was not read") in rejected.text
    assert not done.is_error
    assert "a.py" not in env.files


@pytest.mark.covers("GRD-04", "GRD-12")
async def test_resumed_session_knows_earlier_reads(tmp_path: Any) -> None:
    env = project(a__py="one\n")
    session = Session.create(str(tmp_path), home=tmp_path)
    first = Agent(ScriptedModel(read("a.py"), "done"), execution=env, tools=TOOLS.values(), session=session)
    await first.run("go")
    session.close()

    session = Session.open(session.id, home=tmp_path)
    script = [edit("a.py", "one", "1"), "done", read("a.py"), read("a.py"), "done"]
    again = Agent(
        ScriptedModel(*script),
        execution=env,
        tools=TOOLS.values(),
        session=session,
        behavior=RunOptions(require_read_before_edit=True),
    )
    await again.run("go on")
    await again.run("go on")
    session.close()

    _, edited, read_again, unchanged = results(again.messages)
    assert not edited.is_error
    assert "1" in read_again.text
    assert unchanged.text.startswith(UNCHANGED)


@pytest.mark.covers("GRD-12")
def test_read_state_is_released_with_the_agent() -> None:
    agent = make_agent(read("a.py"), read("a.py"), "done", env=project(a__py="one\n"))
    agent.run_sync("go")
    state = weakref.ref(agent._policies._states[FileReadState][1])
    assert state() is not None

    del agent
    gc.collect()

    assert state() is None


# --- stale reads --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("GRD-11")
async def test_stale_reads_are_left_out_of_requests() -> None:
    env = project(a__py="one\n", b__py="bee\n")
    script = [[read("a.py"), read("b.py")], edit("a.py", "one", "1"), read("a.py"), "done"]
    agent = make_agent(*script, env=env, elide_stale_reads=True)

    await agent.run("go")

    before, after_edit, last = (texts(r.messages) for r in requests(agent)[1:])
    assert "one" in before[0]
    assert after_edit[0] == "[Left out: a.py has changed since it was read here. Read it again if you need its lines.]"
    assert "bee" in after_edit[1]
    assert last[:2] == after_edit[:2]
    assert "1" in last[3]
    assert "one" in texts(agent.messages)[0]  # the history is unchanged


@pytest.mark.covers("GRD-11")
async def test_stale_reads_are_kept_by_default() -> None:
    env = project(a__py="one\n")
    script = [read("a.py"), edit("a.py", "one", "1"), edit("a.py", "1", "one"), read("a.py"), "done"]
    plain, eliding = (
        make_agent(*script, env=env),
        make_agent(*script, env=project(a__py="one\n"), elide_stale_reads=True),
    )

    await plain.run("go")
    await eliding.run("go")

    assert "one" in texts(requests(plain)[-1].messages)[0]
    assert texts(plain.messages)[-1].startswith(UNCHANGED)  # the file has the same content as in the first read
    assert texts(eliding.messages)[-1].startswith("1\tone")  # the first read was left out of the request


_path, _hash = st.sampled_from("ab"), st.sampled_from("xyz")
_events = st.lists(st.tuples(st.sampled_from(["read", "edit", "other"]), _path, _hash), max_size=30)


def _message(number: int, kind: str, path: str, version: str) -> tuple[Message, Message]:
    details: dict[str, Any] | None = None if kind == "other" else {"path": path, "hash": version}
    if details and kind == "read":
        details["first_line"] = 1
    return turn((kind, f"{path} {version} {number}", details), number=number)


@given(_events, st.data())
@pytest.mark.covers("GRD-11")
def test_read_is_stale_if_a_later_result_has_another_version(
    events: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    history: list[AgentMessage] = []
    policy = ClearStaleReads(lambda: history, "/")
    sent: list[AgentMessage] = []
    for number, event in enumerate(events):
        history += _message(number, *event)
        if data.draw(st.booleans()):
            hook = ContextTransform(list(history), number, "")
            policy.on_context_transform(hook)
            sent = hook.messages
    hook = ContextTransform(list(history), 0, "")
    policy.on_context_transform(hook)

    for number, (kind, path, version) in enumerate(events):
        stale = kind == "read" and any(k != "other" and p == path and v != version for k, p, v in events[number + 1 :])
        is_left_out = texts([hook.messages[2 * number + 1]])[0].startswith("[Left out")
        assert is_left_out == stale
    again = ContextTransform(list(history), 0, "")
    policy.on_context_transform(again)
    assert all(
        a is b for a, b in zip(again.messages, hook.messages, strict=True)
    )  # the prefix of the request is stable
    assert len(sent) <= len(hook.messages)


def test_replaced_history_is_scanned_from_the_start() -> None:
    history: list[AgentMessage] = [*_message(0, "read", "a", "x"), *_message(1, "edit", "a", "y")]
    policy = ClearStaleReads(lambda: history, "/")
    policy.on_context_transform(ContextTransform(list(history), 0, ""))
    history[:] = [*_message(2, "read", "a", "y")]

    hook = ContextTransform(list(history), 0, "")
    policy.on_context_transform(hook)

    assert hook.messages == history


async def test_custom_tool_is_tracked_by_its_metadata() -> None:
    async def show(args: dict[str, Any], ctx: Any) -> ToolResult:
        return ToolResult(output="page", metadata={"path": "/wiki/x", "hash": "h1", "first_line": 1})

    custom_tool = define_tool(
        "show", {"description": "Show.", "parameters": {"type": "object"}, "execute": show, "path_params": ("page",)}
    )
    agent = make_agent(ScriptedCall("show"), ScriptedCall("show"), "done", tools=[custom_tool], env=MemoryEnv({}))

    await agent.run("go")

    assert texts(agent.messages) == ["page", texts(agent.messages)[1]]
    assert texts(agent.messages)[1].startswith("Unchanged: /wiki/x")


async def test_deleted_file_must_be_read_again() -> None:
    env = project(a__py="one\n")
    patch = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n"
    tools = {**TOOLS, apply_patch.name: apply_patch}.values()
    script = [read("a.py"), ScriptedCall("apply_patch", {"patch": patch}), "done", edit("a.py", "other", "x"), "done"]
    agent = make_agent(*script, env=env, tools=tools, require_read_before_edit=True)

    await agent.run("go")
    await env.write_bytes("a.py", b"other\n")
    await agent.run("go")

    _, deleted, rejected = results(agent.messages)
    assert not deleted.is_error
    assert "a.py has changed since you last saw it" in rejected.text
    assert env.files["a.py"] == b"other\n"


def shell(text: str, *, changes: tuple[MemoryEnv, bytes] | None = None) -> Any:
    """Return a tool `shell` that prints a text, and may change `a.py`."""

    async def execute(args: dict[str, Any], ctx: Any) -> ToolResult:
        if changes:
            await changes[0].write_bytes("a.py", changes[1])
        return ToolResult(output=text, metadata={"exit_code": 0})

    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    return define_tool("shell", {"description": "Run.", "parameters": schema, "execute": execute})


@pytest.mark.parametrize(
    ("attached", "is_known"),
    [
        ("one\ntwo\n", True),
        ("one\n", False),  # a part of the file
        ("three\n", False),  # changed since
    ],
)
async def test_attached_file_counts_as_read_if_it_is_whole_and_unchanged(attached: str, is_known: bool) -> None:
    env = project(a__py="one\ntwo\n")
    agent = make_agent(edit("a.py", "one", "1"), "done", env=env, require_read_before_edit=True)

    await agent.run(f"Fix it.\n\n{wrap_in_tag('file', attached, path='./a.py')}")

    assert results(agent.messages)[0].is_error is not is_known
    assert (env.files["a.py"] == b"1\ntwo\n") is is_known


async def test_attached_file_in_another_encoding_counts_as_read() -> None:
    env = MemoryEnv({"a.py": "one\r\ncaf\u00e9\r\n".encode("cp1252")})
    agent = make_agent(edit("a.py", "one", "1"), "done", env=env, require_read_before_edit=True)

    await agent.run(wrap_in_tag("file", "one\ncaf\u00e9\n", path="a.py"))

    assert env.files["a.py"] == "1\r\ncaf\u00e9\r\n".encode("cp1252")


async def test_empty_file_needs_no_read() -> None:
    env = MemoryEnv({"a.py": b""})
    await make_agent(write("a.py", "x"), "done", env=env, require_read_before_edit=True).run("go")

    assert env.files["a.py"] == b"x"


async def test_attached_file_of_another_path_is_no_read() -> None:
    env = project(a__py="one\n", b__py="one\n")
    agent = make_agent(edit("a.py", "one", "1"), "done", env=env, require_read_before_edit=True)

    await agent.run(wrap_in_tag("file", "one\n", path="b.py"))

    assert "a.py was not read" in results(agent.messages)[0].text


async def test_attachment_before_a_later_write_is_outdated() -> None:
    env = project(a__py="one\n")
    agent = make_agent(
        edit("a.py", "one", "1"), "done", edit("a.py", "one", "2"), "done", env=env, require_read_before_edit=True
    )
    await agent.run(wrap_in_tag("file", "one\n", path="a.py"))
    await env.write_bytes("a.py", b"one\n")  # the user takes the edit back
    await agent.run("go")

    assert "a.py has changed since you last saw it" in results(agent.messages)[-1].text


@pytest.mark.parametrize(
    ("command", "output", "is_known"),
    [
        ("cat a.py", "one\ntwo\n[in /p]\n(exit 0, 5ms)", True),
        ("head -1 a.py", "one\n[in /p]\n(exit 0, 5ms)", False),
        ("cat a.py", "one\r\ntwo\r\n[in /p]\n(exit 0, 5ms)", True),
        ("cat b.py", "one\ntwo\n[in /p]\n(exit 0, 5ms)", False),
        ("sed -i s/zero/one/ a.py", "[in /p]\n(exit 0, 5ms)", False),
    ],
)
async def test_output_with_the_whole_file_counts_as_read(command: str, output: str, is_known: bool) -> None:
    env = project(a__py="one\ntwo\n")
    tools = [*(t for t in TOOLS.values() if t.name != "shell"), shell(output)]
    script = [ScriptedCall("shell", {"command": command}), edit("a.py", "one", "1"), "done"]
    agent = make_agent(*script, env=env, tools=tools, require_read_before_edit=True)

    await agent.run("go")

    assert results(agent.messages)[1].is_error is not is_known


async def test_command_that_changes_a_file_requires_a_new_read() -> None:
    env = project(a__py="one\n")
    tools = [*(t for t in TOOLS.values() if t.name != "shell"), shell("", changes=(env, b"eins\n"))]
    script = [read("a.py"), ScriptedCall("shell"), write("a.py", "x"), read("a.py"), write("a.py", "x"), "done"]
    agent = make_agent(*script, env=env, tools=tools, require_read_before_edit=True)

    await agent.run("go")

    assert [r.is_error for r in results(agent.messages)] == [False, False, True, False, False]


async def test_formatter_after_an_edit_is_reported_and_needs_no_read() -> None:
    env = project(a__py="one\ntwo\n")
    script = [read("a.py"), edit("a.py", "one", "1"), edit("a.py", "two", "2"), write("a.py", "new\n"), "done"]
    agent = make_agent(*script, env=env, require_read_before_edit=True)

    async def format_file(hook: ToolTransform) -> None:
        if hook.name != "read_file":
            await env.write_bytes("a.py", env.files["a.py"].rstrip() + b"  # formatted\n")

    agent.on(ToolTransform, format_file)
    await agent.run("go")

    first, *edits = results(agent.messages)
    assert not any(r.is_error for r in (first, *edits))
    assert all("A hook or the editor changed this right after the call: a.py." in r.text for r in edits)
    assert env.files["a.py"] == b"new  # formatted\n"
    assert edits[-1].details["hash"] == hashlib.sha256(env.files["a.py"]).hexdigest()  # for a resumed session

    await env.write_bytes("a.py", b"by the user\n")
    agent.model = ScriptedModel(edit("a.py", "user", "x"), "done")
    await agent.run("go")
    assert "a.py has changed since you last saw it" in results(agent.messages)[-1].text


async def test_subagent_reads_for_itself() -> None:
    env = project(a__py="one\n")
    spawn = ScriptedCall("spawn", {"task": "edit it"})
    script = [read("a.py"), spawn, edit("a.py", "one", "1"), "refused", edit("a.py", "one", "2"), "done"]
    agent = make_agent(*script, env=env, require_read_before_edit=True, subagents=True)

    await agent.run("go")

    assert env.files["a.py"] == b"2\n"  # only the parent has read it


async def test_line_numbers_are_left_out_unless_the_call_asks_for_them() -> None:
    script = (read("a.py"), read("a.py", line_numbers=True, limit=1), ScriptedCall("grep", {"pattern": "one"}), "done")
    agent = make_agent(*script, env=project(a__py="one\n"), read_line_numbers=False)
    await agent.run("go")
    plain, numbered, found = texts(agent.messages)
    assert plain.startswith("one\n")
    assert numbered.startswith("1\tone")
    assert "one" in found
    default = make_agent(read("a.py"), "done", env=project(a__py="one\n"))
    await default.run("go")
    assert texts(default.messages)[0].startswith("1\tone")


@pytest.mark.parametrize("own", [True, False])
async def test_line_numbers_of_a_run_override_those_of_the_agent(own: bool) -> None:
    agent = make_agent(*(read("a.py"), "done") * 2, env=project(a__py="one\n"), read_line_numbers=own)
    await agent.run("go", behavior=RunOptions(read_line_numbers=not own))
    await agent.run("go", behavior=RunOptions(max_turns=5))
    first, second = texts(agent.messages)
    assert (first.startswith("1\tone"), second.startswith("1\tone")) == (not own, own)
