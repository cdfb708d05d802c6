"""What a small model may do next."""

from itertools import count
from typing import Any

import pytest

from mainspring.messages import Message, ToolDefinition, ToolResultBlock, ToolUseBlock
from mainspring.models.embedded.next_turn import MAX_CALLS, TurnRules, rules_for_next_turn, without_calls
from mainspring.models.embedded.prompt import select_tools
from mainspring.tools.builtin import builtin_tools

pytestmark = pytest.mark.covers("PRV-38")

ALL = select_tools([tool.spec for tool in builtin_tools()])
IDS = count()
READING = [spec for spec in ALL if spec.name in {"read_file", "list_files", "grep"}]


def made(name: str, text: str = "ok", error: bool = False, **given: Any) -> list[Message]:
    id = f"c{next(IDS)}"
    return [
        Message.assistant([ToolUseBlock(id, name, given)]),
        Message.user([ToolResultBlock(id, name, text, is_error=error)]),
    ]


def step(*messages: Message, tools: list[ToolDefinition] = READING, **options: Any) -> TurnRules:
    return rules_for_next_turn(messages, tools, **options)


def paths(of: TurnRules, tool: str = "read_file") -> Any:
    return of.calls[tool]["properties"]["path"].get("enum")


def test_a_file_that_the_question_names_is_looked_at_first() -> None:
    found = step(Message.user("What is the port in config.ini?"), tools=ALL)
    assert found.answer is None
    assert list(found.calls) == ["read_file"]
    assert paths(found) == ["config.ini"]


def test_a_named_file_may_be_written_where_nothing_is_asked() -> None:
    found = step(Message.user("Create hello.txt with the text: hi"), tools=ALL)
    assert set(found.calls) == {"read_file", "write_file", "edit"}
    assert paths(found, "write_file") == ["hello.txt"]


def test_the_second_named_file_is_only_read() -> None:
    found = step(Message.user("Compare a.txt and b.txt."), *made("read_file", path="a.txt"), tools=ALL)
    assert (list(found.calls), paths(found), found.answer) == (["read_file"], ["b.txt"], None)
    after = step(
        Message.user("Compare a.txt and b.txt."), *made("read_file", path="a.txt"), *made("read_file", path="b.txt")
    )
    assert after.answer is not None


def test_other_files_are_read_only_under_a_name_that_has_come_up() -> None:
    first = step(Message.user("How many eggs?"))
    assert set(first.calls) == {"list_files", "grep"}
    listed = step(
        Message.user("How many eggs?"), *made("list_files", "a.md\nsub/\n  b.md\n(2 files, 1 folder)", path=".")
    )
    assert paths(listed) == ["a.md", "sub/b.md"]


def test_a_name_is_completed_by_the_path_that_is_known() -> None:
    history = made("list_files", "docs/\n  intro.md\n(1 file, 1 folder)", path=".")
    assert paths(step(*history, Message.user("Read intro.md"))) == ["docs/intro.md"]


def test_without_a_tool_that_finds_files_any_may_be_read() -> None:
    only = [spec for spec in READING if spec.name == "read_file"]
    assert paths(step(Message.user("How many eggs?"), tools=only)) is None


def test_a_pasted_text_full_of_names_forces_nothing() -> None:
    assert step(Message.user("a.txt b.txt c.txt d.txt e.txt: what are these?")).answer is not None


def test_the_same_call_again_is_a_repetition_until_something_changes() -> None:
    question = Message.user("Find it")
    assert step(question, *made("grep", pattern="x")).is_repeated("grep", {"pattern": "x"})
    assert not step(question, *made("grep", pattern="x")).is_repeated("grep", {"pattern": "y"})
    changed = step(question, *made("grep", pattern="x"), *made("write_file", path="a", content="b"), tools=ALL)
    assert not changed.is_repeated("grep", {"pattern": "x"})
    assert changed.is_repeated("write_file", {"path": "a", "content": "b"})
    assert not step(question, *made("grep", pattern="x"), Message.user("Again")).is_repeated("grep", {"pattern": "x"})


def test_after_many_calls_it_has_to_answer() -> None:
    calls = [message for n in range(MAX_CALLS) for message in made("grep", pattern=str(n))]
    assert step(Message.user("Find it"), *calls).calls == {}
    assert step(Message.user("Find it"), *calls[2:]).calls


def test_the_tool_choice_is_obeyed() -> None:
    question = Message.user("What is in a.txt?")
    assert step(question, choice="none").calls == {}
    required = step(question, choice="required")
    assert (len(required.calls), required.answer) == (3, None)
    assert list(step(question, choice="grep").calls) == ["grep"]


def test_a_wanted_form_of_the_answer_is_kept() -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}}
    found = step(Message.user("Count"), answer=form)
    assert found.answer == form
    assert without_calls(found).schema["properties"]["answer"] == form


@pytest.mark.parametrize(
    "attached",
    ["<stdin>\n--- a/README.md\n+++ b/notes.txt\n</stdin>", '<file path="notes.md">\nTeh fox, see a.txt.\n</file>'],
)
def test_text_that_the_question_brings_is_not_looked_for(attached: str) -> None:
    found = step(Message.user(f"Write a commit message for this\n\n{attached}"), tools=ALL)
    assert found.answer is not None
    assert set(found.calls) <= {"write_file", "edit", "multi_edit", "shell"}
    assert step(Message.user(f"What is this about?\n\n{attached}"), tools=ALL).calls == {}


def test_names_inside_attached_text_are_not_files_of_the_folder() -> None:
    messages = [
        Message.user("Go on\n\n<stdin>\nb/README.md\n</stdin>"),
        Message.assistant("Yes."),
        Message.user("List all files."),
    ]
    found = step(*messages)
    assert "read_file" not in found.calls
