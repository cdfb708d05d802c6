"""The local profile: few tools in a line each, a short prompt, a history that only grows."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.messages import ImageBlock, Message, TextBlock, ToolDefinition, ToolResultBlock, ToolUseBlock
from mainspring.models.embedded.prompt import (
    MAX_CALLS,
    MAX_TOOLS,
    RESULT_CHARACTERS,
    TurnRules,
    argument_schema,
    default_arguments,
    render_turns,
    rules_for_next_turn,
    select_tools,
    system_prompt,
    tool_signature,
    truncate_middle,
    without_calls,
)
from mainspring.tools.builtin import builtin_tools

pytestmark = pytest.mark.covers("PRV-38")


BUILT_IN = [tool.spec for tool in builtin_tools()]
READING = [spec for spec in BUILT_IN if spec.name in {"read_file", "list_files", "grep"}]


def spec(
    name: str, properties: dict[str, Any], required: list[str], description: str = "Does it. And more."
) -> ToolDefinition:
    return ToolDefinition(name, description, {"type": "object", "properties": properties, "required": required})


FORECAST = spec(
    "forecast",
    {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F"]},
        "verbose": {"type": "boolean"},
    },
    ["city"],
)


def call(name: str, id: str = "c1", **given: Any) -> Message:
    return Message.assistant([ToolUseBlock(id, name, given)])


def result(text: str, name: str = "read_file", id: str = "c1", **fields: Any) -> Message:
    return Message.user([ToolResultBlock(id, name, text, **fields)])


def test_of_many_tools_it_is_told_of_five_reading_first() -> None:
    names = [s.name for s in select_tools(BUILT_IN)]
    assert names == ["read_file", "list_files", "grep", "write_file", "edit"]
    assert len(names) == MAX_TOOLS


def test_tools_of_the_application_go_before_writing_and_the_wanted_one_before_all() -> None:
    assert [s.name for s in select_tools([*BUILT_IN, FORECAST])][3] == "forecast"
    assert select_tools(BUILT_IN, "shell")[0].name == "shell"


def test_a_tool_is_one_line_with_what_is_required_and_little_else() -> None:
    assert tool_signature(FORECAST) == "forecast(city, days?: integer, unit?: C|F): Does it"
    assert list(argument_schema(FORECAST)["properties"]) == ["city", "days", "unit"]
    assert tool_signature(next(s for s in BUILT_IN if s.name == "read_file")).startswith("read_file(path): ")


def test_built_in_tools_are_known_by_their_present_schemas() -> None:
    required = {s.name: argument_schema(s)["required"] for s in BUILT_IN}
    assert required["list_files"] == ["path"]
    assert required["grep"] == ["pattern"]
    assert {s.name: default_arguments(s) for s in BUILT_IN if default_arguments(s)} == {"grep": {"ignore_case": True}}


@pytest.mark.parametrize("tools", [READING, BUILT_IN, [FORECAST]])
def test_the_prompt_is_short_and_says_all_tools(tools: list[ToolDefinition]) -> None:
    chosen = select_tools(tools)
    prompt = system_prompt(chosen, "")
    assert len(prompt) < 1600  # some 400 tokens; the e2e test counts them
    assert all(f"{s.name}(" in prompt for s in chosen)


def test_examples_use_only_tools_that_are_there() -> None:
    assert "write_file" not in system_prompt(READING, "")
    assert "Created ok.txt" in system_prompt(select_tools(BUILT_IN), "")
    assert '{"tool": "forecast", "args": {"city": "..."' in system_prompt([FORECAST], "")


def test_the_callers_instructions_are_passed_on_up_to_a_limit() -> None:
    assert system_prompt(READING, "Answer in French.").endswith("\n\nAnswer in French.")
    assert "characters left out" in system_prompt(READING, "word " * 1000)


def test_calls_results_and_answers_become_plain_turns() -> None:
    conversation = [
        Message.user("What is in a.txt?"),
        call("read_file", path="a.txt"),
        result("1\tone\n2\ttwo\n(end of file, 2 lines)"),
        Message.assistant("Two lines."),
    ]
    assert [(turn.role, turn.text) for turn in render_turns(conversation)] == [
        ("user", "What is in a.txt?"),
        ("assistant", '{"tool": "read_file", "args": {"path": "a.txt"}}'),
        ("user", "Result of read_file:\none\ntwo\n(end of file, 2 lines)"),
        ("assistant", '{"answer": "Two lines."}'),
    ]
    assert render_turns(conversation, is_bare=True)[-1].text == "Two lines."


def test_added_arguments_are_not_shown_and_errors_say_so() -> None:
    shown = render_turns([call("grep", pattern="x", ignore_case=True), result("no", "grep", is_error=True)])
    assert shown[0].text == '{"tool": "grep", "args": {"pattern": "x"}}'
    assert shown[1].text == "Error of grep:\nno"


def test_a_call_without_a_result_gets_one_and_an_image_is_named() -> None:
    shown = render_turns([call("read_file", path="a"), Message.user("go on"), result("x", id="other")])
    assert "interrupted" in shown[1].text
    image = Message.user([ToolResultBlock("c1", "read_file", (ImageBlock("image/png", "AA=="), TextBlock("ok")))])
    assert render_turns([call("read_file"), image])[1].text == "Result of read_file:\n[image/png]\nok"


def test_a_long_result_is_cut_and_says_how_much_is_missing() -> None:
    lines = "\n".join(f"{n}\tline {n}" for n in range(1, 2000)) + "\n(end of file, 1999 lines)"
    text = render_turns([call("read_file", path="a"), result(lines)])[1].text
    assert len(text) < RESULT_CHARACTERS + 200
    assert text.endswith("(end of file, 1999 lines)")
    assert "characters left out here" in text


@given(st.text(), st.integers(1, 500))
def test_shortening_keeps_the_beginning(text: str, most: int) -> None:
    short = truncate_middle(text, most)
    assert short == text if len(text) <= most else short.partition("\n[")[0] in text


units = st.sampled_from(
    [
        [Message.user("Q")],
        [call("read_file", path="a"), result("1\tone")],
        [call("grep", id="c2", pattern="x", ignore_case=True), result("hit", "grep", id="c2")],
        [Message.assistant("A")],
    ]
)


@given(st.lists(units, max_size=8), units)
def test_what_was_sent_stays_as_it_was(conversation: list[list[Message]], later: list[Message]) -> None:
    sent = [message for unit in conversation for message in unit]
    before = [turn.text for turn in render_turns(sent)]
    assert [turn.text for turn in render_turns([*sent, *later])][: len(before)] == before


ALL = select_tools([tool.spec for tool in builtin_tools()])
IDS = count()
NEXT_TURN_READING = [spec for spec in ALL if spec.name in {"read_file", "list_files", "grep"}]


def made(name: str, text: str = "ok", error: bool = False, **given: Any) -> list[Message]:
    id = f"c{next(IDS)}"
    return [
        Message.assistant([ToolUseBlock(id, name, given)]),
        Message.user([ToolResultBlock(id, name, text, is_error=error)]),
    ]


def step(*messages: Message, tools: list[ToolDefinition] = NEXT_TURN_READING, **options: Any) -> TurnRules:
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
    only = [spec for spec in NEXT_TURN_READING if spec.name == "read_file"]
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
