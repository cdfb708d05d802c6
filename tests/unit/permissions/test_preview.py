"""What is shown for a yes is what is written."""

from typing import Any

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.messages import Message
from mainspring.permissions import PermissionRequest, Permissions, Reply
from mainspring.testing import Reply as Says
from mainspring.testing import ScriptedCall, ScriptedModel
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


def env() -> MemoryEnv:
    return MemoryEnv(dict(FILES))


async def content(where: MemoryEnv, path: str) -> bytes | None:
    try:
        return await where.read_bytes(path)
    except FileNotFoundError:
        return None


@pytest.mark.covers("CLI-12")
@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_preview_is_to_the_byte_what_the_call_does(tool: Any, arguments: dict[str, Any]) -> None:
    where = env()

    shown = await preview_changes(tool, arguments, where)
    before = {path: await content(where, path) for path in FILES}
    await tool(ToolContext(env=where), **arguments)

    assert shown is not None
    assert shown.changes
    assert before == {path: text.encode() for path, text in FILES.items()}  # nothing was written by looking
    for change in shown.changes:
        assert await content(where, change.path) == change.after
    touched = {change.path for change in shown.changes}
    assert {p: await content(where, p) for p in FILES if p not in touched} == {
        p: t.encode() for p, t in FILES.items() if p not in touched
    }


async def test_a_change_of_line_ends_is_said() -> None:
    shown = await preview_changes(write_file, {"path": "crlf.txt", "content": "one\ntwo\n"}, env())

    assert shown is not None
    assert "CRLF" in shown.changes[0].note


async def test_a_call_that_would_fail_shows_why_and_other_tools_show_nothing() -> None:
    failing = await preview_changes(edit, {"path": "a.txt", "old_string": "nine", "new_string": "9"}, env())

    assert failing is not None
    assert "not in the file" in failing.problem
    assert await preview_changes(shell, {"command": "ls"}, env()) is None


class Person:
    """Says yes, and does something before that."""

    def __init__(self, meanwhile: Any = None, answer: Any = True) -> None:
        self.asked: list[PermissionRequest] = []
        self._meanwhile = meanwhile
        self._answer = answer

    async def __call__(self, request: PermissionRequest) -> Any:
        self.asked.append(request)
        if self._meanwhile is not None:
            await self._meanwhile()
        return self._answer


async def run(where: MemoryEnv, person: Person, *calls: ScriptedCall) -> list[str]:
    agent = CoreAgent(
        ScriptedModel(Says(calls=list(calls)), "done"),
        env=where,
        tools=TOOLS,
        plugs=[Permissions(on_permission_request=person)],
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
async def test_a_file_that_changed_after_the_yes_is_not_written(call: ScriptedCall, path: str) -> None:
    where = env()

    async def meanwhile() -> None:
        await where.write_bytes(path, b"two of another kind\n")

    [told] = await run(where, Person(meanwhile), call)

    assert "changed after this call was approved" in told
    assert await content(where, path) == b"two of another kind\n"


async def test_the_same_change_at_other_lines_is_still_the_same() -> None:
    where = env()
    calls = [
        ScriptedCall("edit", {"path": "a.txt", "old_string": "one", "new_string": "0\n1"}, id="a"),
        ScriptedCall("edit", {"path": "a.txt", "old_string": "three", "new_string": "3"}, id="b"),
    ]

    told = await run(where, Person(), *calls)

    assert all(text.startswith("Edited a.txt") for text in told)
    assert await content(where, "a.txt") == b"0\n1\ntwo\n3\n"


async def test_an_answer_may_say_more_than_yes_or_no() -> None:
    where = env()
    call = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})

    [told] = await run(where, Person(answer=Reply(allow=False, reason="leave it")), call)
    twice = Person(answer=Reply(allow=True, session=True))
    await run(where, twice, call, ScriptedCall("write_file", {"path": "a.txt", "content": "y"}, id="2"))

    assert "leave it" in told
    assert len(twice.asked) == 1
    assert twice.asked[0].preview is not None
    assert twice.asked[0].agent == "agent"


async def test_rules_hold_for_as_long_as_they_are_wanted() -> None:
    from mainspring.permissions import parse_rule

    permissions = Permissions()
    rule = parse_rule("write_file(**)", "allow")
    where = env()

    async def outcome() -> str:
        return (await permissions.decide("write_file", {"path": "a.txt"}, env=where, definition=write_file)).outcome

    with permissions.temporary_rules(rule):
        inside = await outcome()
        permissions.add(parse_rule("write_file(a.txt)", "allow"))
    after = await outcome()

    assert inside == "allow"
    assert after == "allow"  # by the rule that was added meanwhile
    assert len(permissions.engine.rules) == 1
