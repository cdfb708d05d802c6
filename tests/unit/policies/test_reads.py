"""What was read: not sent twice, read before edited, left out once it is stale."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Agent, Message, RunOptions, Session, ToolResult, define_tool
from mainspring.env.memory import MemoryEnv
from mainspring.loop.hooks import ContextTransform, ToolFinished, ToolTransform
from mainspring.messages import AgentMessage
from mainspring.permissions import Permissions
from mainspring.policies.reads import ClearStaleReads, FileReadState, FileVersion
from mainspring.policies.reads.policies import FileFact
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools.builtin.apply_patch import apply_patch
from tests.unit.policies.harness import TOOLS, agent, edit, project, read, requests, results, texts, turn, write

UNCHANGED = "Unchanged: a.py is as it was"


@pytest.mark.covers("GRD-01")
async def test_the_same_lines_of_an_unchanged_file_come_back_as_one_line() -> None:
    made = agent(read("a.py"), read("a.py"), read("./a.py"), "done", env=project(a__py="one\ntwo\n"))

    await made.run("go")

    first, second, third = texts(made.messages)
    assert "one" in first
    assert second.startswith(UNCHANGED)
    assert third.startswith(UNCHANGED)
    assert not any(r.is_error for r in results(made.messages))


async def test_other_lines_and_a_changed_file_are_shown() -> None:
    env = project(a__py="one\ntwo\n")
    calls = [
        read("a.py"),
        read("a.py", offset=2),
        read("a.py", line_numbers=False),
        edit("a.py", "two", "2"),
        read("a.py"),
    ]
    made = agent(*calls, "done", env=env)

    await made.run("go")
    assert not any(t.startswith("Unchanged") for t in texts(made.messages))

    await env.write_bytes("a.py", b"from outside\n")
    made = agent(read("a.py"), "done", read("a.py"), "done", env=env)
    await made.run("go")
    await env.write_bytes("a.py", b"changed\n")
    await made.run("go")
    assert "changed" in texts(made.messages)[-1]


@pytest.mark.covers("GRD-01", "AGT-27")
async def test_it_can_be_off_for_an_agent_or_a_run() -> None:
    made = agent(
        read("a.py"), read("a.py"), "done", read("a.py"), "done", env=project(a__py="one\n"), dedup_reads=False
    )

    await made.run("go")
    assert not any(t.startswith("Unchanged") for t in texts(made.messages))
    await made.run("go", behavior=RunOptions(dedup_reads=True))
    assert texts(made.messages)[-1].startswith(UNCHANGED)


async def test_what_the_model_no_longer_has_is_shown_again() -> None:
    made = agent(read("a.py"), "done", read("a.py"), "done", read("a.py"), "done", env=project(a__py="one\n"))

    await made.run("go")
    made.reset()
    await made.run("go")
    assert "one" in texts(made.messages)[0]

    made.context.messages[:] = made.messages[:1]  # an application forgot the rest
    await made.run("go")
    assert "one" in texts(made.messages)[-1]


@pytest.mark.covers("GRD-01")
@pytest.mark.parametrize(
    "options",
    [
        {"transform": lambda messages, signal: messages[:1] + messages[3:]},
        {"hooks": {ContextTransform: lambda hook: {"messages": hook.messages[:1] + hook.messages[3:]}}},
    ],
)
async def test_what_an_application_leaves_out_of_requests_is_shown_again(options: Any) -> None:
    made = agent(read("a.py"), read("a.py"), read("a.py"), "done", env=project(a__py="one\n"), **options)

    await made.run("go")

    first, second, third = texts(made.messages)
    assert first == second  # the first was not sent when it was asked for again
    assert third.startswith(UNCHANGED)


async def test_what_an_application_changed_in_the_result_counts_as_it_stands() -> None:
    made = agent(read("a.py"), read("a.py"), "done", env=project(a__py="one\n"))
    made.on(ToolTransform, lambda hook: setattr(hook.result, "output", f"[checked] {hook.result.output}"))

    await made.run("go")

    assert texts(made.messages)[0].startswith("[checked]")
    assert texts(made.messages)[1].startswith(UNCHANGED)


async def test_a_file_that_may_no_longer_be_read_is_refused_not_answered_from_memory() -> None:
    made = agent(read("a.py"), "done", read("a.py"), "done", env=project(a__py="one\n"), permissions=Permissions())
    await made.run("go")
    Permissions(deny=["read_file"]).install(made)

    await made.run("go")

    assert texts(made.messages)[-1].startswith("Permission denied")


async def test_a_hit_is_a_call_like_any_other() -> None:
    seen: list[bool] = []
    made = agent(read("a.py"), read("a.py"), "done", env=project(a__py="one\n"))
    made.on(ToolFinished, lambda hook: seen.append("unchanged" in hook.metadata))

    result = await made.run("go")

    assert seen == [False, True]
    assert result.stats.tool_counts == {"read_file": 2}


@pytest.mark.covers("GRD-04")
def test_what_was_read_is_kept_by_folder_and_path() -> None:
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
async def test_a_file_must_have_been_read(call: ScriptedCall) -> None:
    env = project(a__py="one\n")
    made = agent(call, read("a.py"), call, "done", env=env, require_read_before_edit=True)

    await made.run("go")

    rejected, _, done = results(made.messages)
    assert rejected.is_error
    assert "a.py was not read in this conversation" in rejected.text
    assert not done.is_error
    assert env.files["a.py"] in (b"1\n", b"all new\n")


@pytest.mark.covers("GRD-02")
async def test_off_by_default_and_new_files_need_no_read() -> None:
    made = agent(edit("a.py", "one", "1"), "done", env=project(a__py="one\n"))
    await made.run("go")
    assert not results(made.messages)[0].is_error

    made = agent(write("b.py", "new\n"), edit("b.py", "new", "old"), "done", require_read_before_edit=True)
    await made.run("go")
    assert not any(r.is_error for r in results(made.messages))


@pytest.mark.covers("GRD-02")
async def test_a_file_that_changed_since_must_be_read_again() -> None:
    env = project(a__py="one\n")
    script = [read("a.py"), "done", edit("a.py", "one", "1"), read("a.py"), edit("a.py", "one", "1"), "done"]
    made = agent(*script, env=env, require_read_before_edit=True)

    await made.run("go")
    await env.write_bytes("a.py", b"one more\n")
    await made.run("go")

    _, rejected, _, done = results(made.messages)
    assert "a.py has changed since you last saw it" in rejected.text
    assert not done.is_error
    assert env.files["a.py"] == b"1 more\n"


@pytest.mark.covers("GRD-02", "GRD-12")
async def test_what_was_forgotten_was_not_read() -> None:
    env = project(a__py="one\n")
    made = agent(read("a.py"), "done", edit("a.py", "one", "1"), "done", env=env, require_read_before_edit=True)

    await made.run("go")
    made.reset()
    await made.run("go")

    assert "a.py was not read in this conversation" in texts(made.messages)[0]


@pytest.mark.covers("GRD-03")
async def test_what_happened_in_a_run_without_the_guard_is_known_too() -> None:
    script = [read("a.py"), "done", edit("a.py", "one", "1"), "done", edit("a.py", "1", "2"), "done"]
    made = agent(*script, env=project(a__py="one\n"), require_read_before_edit=True)

    await made.run("go")
    await made.run("go", behavior=RunOptions(require_read_before_edit=False))
    await made.run("go")

    assert not any(r.is_error for r in results(made.messages))


@pytest.mark.covers("GRD-02")
async def test_looking_at_what_is_no_text_is_enough() -> None:
    env = MemoryEnv({"a.bin": b"\0\1\2"})
    made = agent(
        write("a.bin", "x"), read("a.bin"), write("a.bin", "x"), "done", env=env, require_read_before_edit=True
    )

    await made.run("go")

    assert [r.is_error for r in results(made.messages)] == [True, False, False]


@pytest.mark.covers("GRD-03")
async def test_edits_chain_in_turns_and_within_an_answer() -> None:
    env = project(a__py="one two three\n")
    batch = [read("a.py"), edit("a.py", "one", "1"), edit("a.py", "two", "2")]
    made = agent(batch, edit("a.py", "three", "3"), "done", env=env, require_read_before_edit=True)

    await made.run("go")

    assert not any(r.is_error for r in results(made.messages))
    assert env.files["a.py"] == b"1 2 3\n"


@pytest.mark.covers("GRD-02", "GRD-03")
async def test_patches_of_several_files_are_guarded_too() -> None:
    env = project(a__py="one\n", b__py="two\n")
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+1\n*** Update File: b.py\n@@\n-two\n+2\n*** End Patch\n"
    call = ScriptedCall("apply_patch", {"patch": patch})
    script = [read("a.py"), call, read("b.py"), call, edit("b.py", "2", "3"), "done"]
    tools = {**TOOLS, apply_patch.name: apply_patch}.values()
    made = agent(*script, env=env, tools=tools, require_read_before_edit=True)

    await made.run("go")

    _, rejected, _, done, edited = results(made.messages)
    assert "b.py was not read" in rejected.text
    assert not done.is_error
    assert not edited.is_error
    assert env.files["b.py"] == b"3\n"


@pytest.mark.covers("GRD-04", "GRD-12")
async def test_a_conversation_that_is_taken_up_knows_what_it_read(tmp_path: Any) -> None:
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

    _, edited, shown, unchanged = results(again.messages)
    assert not edited.is_error
    assert "1" in shown.text
    assert unchanged.text.startswith(UNCHANGED)


@pytest.mark.covers("GRD-12")
def test_what_is_known_goes_with_the_agent() -> None:
    made = agent(read("a.py"), read("a.py"), "done", env=project(a__py="one\n"))
    made.run_sync("go")
    state = weakref.ref(made._policies._conversation.reads)
    assert state() is not None

    del made
    gc.collect()

    assert state() is None


# --- stale reads --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("GRD-11")
async def test_what_was_read_before_a_change_is_left_out_of_requests() -> None:
    env = project(a__py="one\n", b__py="bee\n")
    script = [[read("a.py"), read("b.py")], edit("a.py", "one", "1"), read("a.py"), "done"]
    made = agent(*script, env=env, elide_stale_reads=True)

    await made.run("go")

    before, after_edit, last = (texts(r.messages) for r in requests(made)[1:])
    assert "one" in before[0]
    assert after_edit[0] == "[Left out: a.py has changed since it was read here. Read it again if you need its lines.]"
    assert "bee" in after_edit[1]
    assert last[:2] == after_edit[:2]
    assert "1" in last[3]
    assert "one" in texts(made.messages)[0]  # the history stays


@pytest.mark.covers("GRD-11")
async def test_it_is_off_by_default_and_what_is_left_out_is_read_again_in_full() -> None:
    env = project(a__py="one\n")
    script = [read("a.py"), edit("a.py", "one", "1"), edit("a.py", "1", "one"), read("a.py"), "done"]
    plain, eliding = agent(*script, env=env), agent(*script, env=project(a__py="one\n"), elide_stale_reads=True)

    await plain.run("go")
    await eliding.run("go")

    assert "one" in texts(requests(plain)[-1].messages)[0]
    assert texts(plain.messages)[-1].startswith(UNCHANGED)  # it is again what stands there
    assert texts(eliding.messages)[-1].startswith("1\tone")  # what stands there is not sent


_path, _hash = st.sampled_from("ab"), st.sampled_from("xyz")
_events = st.lists(st.tuples(st.sampled_from(["read", "edit", "other"]), _path, _hash), max_size=30)


def _message(number: int, kind: str, path: str, version: str) -> tuple[Message, Message]:
    details: dict[str, Any] | None = None if kind == "other" else {"path": path, "hash": version}
    if details and kind == "read":
        details["first_line"] = 1
    return turn((kind, f"{path} {version} {number}", details), number=number)


@given(_events, st.data())
@pytest.mark.covers("GRD-11")
def test_stale_is_what_a_later_result_contradicts_however_it_is_followed(
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
        left_out = texts([hook.messages[2 * number + 1]])[0].startswith("[Left out")
        assert left_out == stale
    again = ContextTransform(list(history), 0, "")
    policy.on_context_transform(again)
    assert all(a is b for a, b in zip(again.messages, hook.messages, strict=True))  # the prompt's prefix is stable
    assert len(sent) <= len(hook.messages)


def test_another_history_is_looked_at_anew() -> None:
    history: list[AgentMessage] = [*_message(0, "read", "a", "x"), *_message(1, "edit", "a", "y")]
    policy = ClearStaleReads(lambda: history, "/")
    policy.on_context_transform(ContextTransform(list(history), 0, ""))
    history[:] = [*_message(2, "read", "a", "y")]

    hook = ContextTransform(list(history), 0, "")
    policy.on_context_transform(hook)

    assert hook.messages == history


async def test_a_tool_of_ones_own_takes_part_by_its_metadata() -> None:
    async def show(args: dict[str, Any], ctx: Any) -> ToolResult:
        return ToolResult(output="page", metadata={"path": "/wiki/x", "hash": "h1", "first_line": 1})

    own = define_tool(
        "show", {"description": "Show.", "parameters": {"type": "object"}, "execute": show, "path_params": ("page",)}
    )
    made = agent(ScriptedCall("show"), ScriptedCall("show"), "done", tools=[own], env=MemoryEnv({}))

    await made.run("go")

    assert texts(made.messages) == ["page", texts(made.messages)[1]]
    assert texts(made.messages)[1].startswith("Unchanged: /wiki/x")


async def test_a_file_that_was_deleted_is_not_known_when_it_comes_back() -> None:
    env = project(a__py="one\n")
    patch = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n"
    tools = {**TOOLS, apply_patch.name: apply_patch}.values()
    script = [read("a.py"), ScriptedCall("apply_patch", {"patch": patch}), "done", edit("a.py", "other", "x"), "done"]
    made = agent(*script, env=env, tools=tools, require_read_before_edit=True)

    await made.run("go")
    await env.write_bytes("a.py", b"other\n")
    await made.run("go")

    _, deleted, rejected = results(made.messages)
    assert not deleted.is_error
    assert "a.py has changed since you last saw it" in rejected.text
    assert env.files["a.py"] == b"other\n"
