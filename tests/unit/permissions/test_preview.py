"""Previews in approval requests equal the changes that are written."""

from typing import Any

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.messages import Message
from mainspring.permissions import PermissionRequest, Permissions, Reply
from mainspring.testing import Reply as Says, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext
from mainspring.tools.builtin import apply_patch, edit, multi_edit, shell, write_file
from mainspring.tools.support.editing.preview import preview_changes

FILES = {"a.txt": "one\ntwo\nthree\n", "crlf.txt": "one\r\ntwo\r\n"}
TOOLS = (write_file, edit, multi_edit, apply_patch)

CALLS: list[tuple[Any, dict[str, Any]]] = [
    (write_file, {"path": "a.txt", "content": "new\n"}),
    (write_file, {"path": "sub/new.txt", "content": "new\n"}),
    (write_file, {"path": "crlf.txt", "content": "one\n2\n"}),
    (edit, {"path": "crlf.txt", "old_string": "two", "new_string": "2\n3"}),
    (edit, {"path": "a.txt", "old_string": "e\n", "new_string": "E\n", "replace_all": True}),
    (
        multi_edit,
        {"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}, {"old_string": "1", "new_string": "I"}]},
    ),
    (
        apply_patch,
        {
            "patch": "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-two\n+2\n*** Add File: c.txt\n+c\n"
            "*** Delete File: crlf.txt\n*** End Patch"
        },
    ),
]


def make_env() -> MemoryEnv:
    return MemoryEnv(dict(FILES))


async def read_content(where: MemoryEnv, path: str) -> bytes | None:
    try:
        return await where.read_bytes(path)
    except FileNotFoundError:
        return None


@pytest.mark.covers("CLI-12")
@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_preview_equals_the_written_bytes(tool: Any, arguments: dict[str, Any]) -> None:
    where = make_env()

    preview = await preview_changes(tool, arguments, where)
    before = {path: await read_content(where, path) for path in FILES}
    await tool(ToolContext(env=where), **arguments)

    assert preview is not None
    assert preview.changes
    assert before == {path: text.encode() for path, text in FILES.items()}  # the preview wrote nothing
    for change in preview.changes:
        assert await read_content(where, change.path) == change.after
    touched = {change.path for change in preview.changes}
    assert {p: await read_content(where, p) for p in FILES if p not in touched} == {
        p: t.encode() for p, t in FILES.items() if p not in touched
    }


async def test_preview_notes_changed_line_endings() -> None:
    preview = await preview_changes(write_file, {"path": "crlf.txt", "content": "one\ntwo\n"}, make_env())

    assert preview is not None
    assert "CRLF" in preview.changes[0].note


async def test_preview_shows_the_problem_of_a_failing_call() -> None:
    failing = await preview_changes(edit, {"path": "a.txt", "old_string": "nine", "new_string": "9"}, make_env())

    assert failing is not None
    assert "not in the file" in failing.problem
    assert await preview_changes(shell, {"command": "ls"}, make_env()) is None


class FakeUser:
    """Approves calls, and may change something first."""

    def __init__(self, before_reply: Any = None, answer: Any = True) -> None:
        self.requests: list[PermissionRequest] = []
        self._before_reply = before_reply
        self._answer = answer

    async def __call__(self, request: PermissionRequest) -> Any:
        self.requests.append(request)
        if self._before_reply is not None:
            await self._before_reply()
        return self._answer


async def run_calls(where: MemoryEnv, user: FakeUser, *calls: ScriptedCall) -> list[str]:
    agent = CoreAgent(
        ScriptedModel(Says(calls=list(calls)), "done"),
        env=where,
        tools=TOOLS,
        plugs=[Permissions(on_permission_request=user)],
    )
    result = await agent.run("go", raise_errors=False)
    return [b.text for m in result.messages if isinstance(m, Message) for b in m.tool_results]


@pytest.mark.covers("CLI-12")
@pytest.mark.parametrize(
    ("call", "path"),
    [
        (ScriptedCall("write_file", {"path": "a.txt", "content": "new\n"}), "a.txt"),
        (ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"}), "a.txt"),
        (ScriptedCall("write_file", {"path": "fresh.txt", "content": "new\n"}), "fresh.txt"),
    ],
)
async def test_file_changed_after_approval_is_not_written(call: ScriptedCall, path: str) -> None:
    where = make_env()

    async def before_reply() -> None:
        await where.write_bytes(path, b"two of another kind\n")

    [outputs] = await run_calls(where, FakeUser(before_reply), call)

    assert "changed after this call was approved" in outputs
    assert await read_content(where, path) == b"two of another kind\n"


async def test_same_change_at_other_lines_is_applied() -> None:
    where = make_env()
    calls = [
        ScriptedCall("edit", {"path": "a.txt", "old_string": "one", "new_string": "0\n1"}, id="a"),
        ScriptedCall("edit", {"path": "a.txt", "old_string": "three", "new_string": "3"}, id="b"),
    ]

    outputs = await run_calls(where, FakeUser(), *calls)

    assert all(text.startswith("Edited a.txt") for text in outputs)
    assert await read_content(where, "a.txt") == b"0\n1\ntwo\n3\n"


async def test_approval_may_include_a_reason_or_a_session_grant() -> None:
    where = make_env()
    call = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})

    [outputs] = await run_calls(where, FakeUser(answer=Reply(allow=False, reason="leave it")), call)
    twice = FakeUser(answer=Reply(allow=True, session=True))
    await run_calls(where, twice, call, ScriptedCall("write_file", {"path": "a.txt", "content": "y"}, id="2"))

    assert "leave it" in outputs
    assert len(twice.requests) == 1
    assert twice.requests[0].preview is not None
    assert twice.requests[0].agent == "agent"


async def test_temporary_rules_apply_only_inside_their_block() -> None:
    from mainspring.permissions import parse_rule

    permissions = Permissions()
    rule = parse_rule("write_file(**)", "allow")
    where = make_env()

    async def decide_write() -> str:
        return (await permissions.decide("write_file", {"path": "a.txt"}, env=where, definition=write_file)).outcome

    with permissions.temporary_rules(rule):
        inside = await decide_write()
        permissions.add(parse_rule("write_file(a.txt)", "allow"))
    after = await decide_write()

    assert inside == "allow"
    assert after == "allow"  # because of the rule added inside the block
    assert len(permissions.engine.rules) == 1


FAILING = [
    ScriptedCall("edit", {"path": "a.txt", "old_string": "nine", "new_string": "9"}),
    ScriptedCall("edit", {"path": "a.txt", "old_string": "e\n", "new_string": "E\n"}),
    ScriptedCall("edit", {"path": "missing.txt", "old_string": "one", "new_string": "1"}),
    ScriptedCall("multi_edit", {"path": "a.txt", "edits": [{"old_string": "nine", "new_string": "9"}]}),
    ScriptedCall("apply_patch", {"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-nine\n+9\n*** End Patch"}),
    ScriptedCall("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: missing.txt\n*** End Patch"}),
]


@pytest.mark.parametrize("call", FAILING)
async def test_edit_that_fails_is_not_asked_about(call: ScriptedCall) -> None:
    where, user = make_env(), FakeUser()

    [text] = await run_calls(where, user, call)

    assert user.requests == []
    preview = await preview_changes({tool.name: tool for tool in TOOLS}[call.name], call.input, where)
    assert preview is not None
    assert preview.problem
    assert text == preview.problem
    assert {path: await read_content(where, path) for path in FILES} == {p: t.encode() for p, t in FILES.items()}


@pytest.mark.parametrize("path", [".env", "/outside/a.txt", "/outside/missing.txt", "../up.txt"])
async def test_edit_of_a_file_that_may_not_be_read_is_asked_about_before_its_error_is_known(path: str) -> None:
    where = MemoryEnv({".env": "KEY=hunter2\n", "/outside/a.txt": "KEY=hunter2\n"})
    user = FakeUser(answer=False)

    [text] = await run_calls(
        where, user, ScriptedCall("edit", {"path": path, "old_string": "KEY=x", "new_string": "1"})
    )

    assert len(user.requests) == 1
    assert "denied" in text
    assert "hunter2" not in text


async def test_edit_that_would_succeed_by_the_time_it_runs_is_not_made_without_approval() -> None:
    where, user = MemoryEnv({"a.txt": "one\n"}), FakeUser()
    calls = [
        ScriptedCall("edit", {"path": "a.txt", "old_string": "one", "new_string": "two"}, id="a"),
        ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "three"}, id="b"),
    ]

    _, second = await run_calls(where, user, *calls)

    assert len(user.requests) == 1
    assert "read the file again and make the call again" in second
    assert await read_content(where, "a.txt") == b"two\n"
