"""The prompt of the embedded model: few tools with one line each, a short system prompt, and a history that only grows."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given, strategies as st

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


def test_select_tools_keeps_five_with_reading_tools_first() -> None:
    names = [s.name for s in select_tools(BUILT_IN)]
    assert names == ["read_file", "list_files", "grep", "write_file", "edit"]
    assert len(names) == MAX_TOOLS


def test_application_tools_precede_writing_tools_and_the_chosen_tool_is_first() -> None:
    assert [s.name for s in select_tools([*BUILT_IN, FORECAST])][3] == "forecast"
    assert select_tools(BUILT_IN, "shell")[0].name == "shell"


def test_tool_signature_has_required_and_few_optional_arguments() -> None:
    assert tool_signature(FORECAST) == "forecast(city, days?: integer, unit?: C|F): Does it"
    assert list(argument_schema(FORECAST)["properties"]) == ["city", "days", "unit"]
    assert tool_signature(next(s for s in BUILT_IN if s.name == "read_file")).startswith("read_file(path): ")


def test_built_in_tools_have_known_required_arguments() -> None:
    required = {s.name: argument_schema(s)["required"] for s in BUILT_IN}
    assert required["list_files"] == ["path"]
    assert required["grep"] == ["pattern"]
    assert {s.name: default_arguments(s) for s in BUILT_IN if default_arguments(s)} == {"grep": {"ignore_case": True}}


@pytest.mark.parametrize("tools", [READING, BUILT_IN, [FORECAST]])
def test_system_prompt_is_short_and_lists_all_tools(tools: list[ToolDefinition]) -> None:
    chosen = select_tools(tools)
    prompt = system_prompt(chosen, "")
    assert len(prompt) < 1600  # about 400 tokens; the e2e test counts them
    assert all(f"{s.name}(" in prompt for s in chosen)


def test_examples_use_only_available_tools() -> None:
    assert "write_file" not in system_prompt(READING, "")
    assert "Created ok.txt" in system_prompt(select_tools(BUILT_IN), "")
    assert '{"tool": "forecast", "args": {"city": "..."' in system_prompt([FORECAST], "")


def test_instructions_of_the_caller_are_appended_and_truncated() -> None:
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


def test_default_arguments_are_hidden_and_errors_are_marked() -> None:
    turns = render_turns([call("grep", pattern="x", ignore_case=True), result("no", "grep", is_error=True)])
    assert turns[0].text == '{"tool": "grep", "args": {"pattern": "x"}}'
    assert turns[1].text == "Error of grep:\nno"


def test_call_without_a_result_is_interrupted_and_an_image_is_named() -> None:
    turns = render_turns([call("read_file", path="a"), Message.user("go on"), result("x", id="other")])
    assert "interrupted" in turns[1].text
    image = Message.user([ToolResultBlock("c1", "read_file", (ImageBlock("image/png", "AA=="), TextBlock("ok")))])
    assert render_turns([call("read_file"), image])[1].text == "Result of read_file:\n[image/png]\nok"


def test_long_result_is_truncated_with_the_number_of_missing_characters() -> None:
    lines = "\n".join(f"{n}\tline {n}" for n in range(1, 2000)) + "\n(end of file, 1999 lines)"
    text = render_turns([call("read_file", path="a"), result(lines)])[1].text
    assert len(text) < RESULT_CHARACTERS + 200
    assert text.endswith("(end of file, 1999 lines)")
    assert "characters left out here" in text


@given(st.text(), st.integers(1, 500))
def test_truncate_middle_keeps_the_beginning(text: str, limit: int) -> None:
    short = truncate_middle(text, limit)
    assert short == text if len(text) <= limit else short.partition("\n[")[0] in text


units = st.sampled_from(
    [
        [Message.user("Q")],
        [call("read_file", path="a"), result("1\tone")],
        [call("grep", id="c2", pattern="x", ignore_case=True), result("hit", "grep", id="c2")],
        [Message.assistant("A")],
    ]
)


@given(st.lists(units, max_size=8), units)
def test_rendered_turns_do_not_change_when_messages_are_added(
    conversation: list[list[Message]], later: list[Message]
) -> None:
    sent = [message for unit in conversation for message in unit]
    before = [turn.text for turn in render_turns(sent)]
    assert [turn.text for turn in render_turns([*sent, *later])][: len(before)] == before


ALL = select_tools([tool.spec for tool in builtin_tools()])
IDS = count()
NEXT_TURN_READING = [spec for spec in ALL if spec.name in {"read_file", "list_files", "grep"}]


def make_tool_turn(name: str, text: str = "ok", error: bool = False, **given: Any) -> list[Message]:
    id = f"c{next(IDS)}"
    return [
        Message.assistant([ToolUseBlock(id, name, given)]),
        Message.user([ToolResultBlock(id, name, text, is_error=error)]),
    ]


def next_turn_rules(*messages: Message, tools: list[ToolDefinition] = NEXT_TURN_READING, **options: Any) -> TurnRules:
    return rules_for_next_turn(messages, tools, **options)


def allowed_paths(of: TurnRules, tool: str = "read_file") -> Any:
    return of.calls[tool]["properties"]["path"].get("enum")


def test_file_named_in_the_question_is_read_first() -> None:
    found = next_turn_rules(Message.user("What is the port in config.ini?"), tools=ALL)
    assert found.answer is None
    assert list(found.calls) == ["read_file"]
    assert allowed_paths(found) == ["config.ini"]


def test_file_named_in_an_instruction_can_be_written() -> None:
    found = next_turn_rules(Message.user("Create hello.txt with the text: hi"), tools=ALL)
    assert set(found.calls) == {"read_file", "write_file", "edit"}
    assert allowed_paths(found, "write_file") == ["hello.txt"]


def test_second_named_file_is_only_read() -> None:
    found = next_turn_rules(
        Message.user("Compare a.txt and b.txt."), *make_tool_turn("read_file", path="a.txt"), tools=ALL
    )
    assert (list(found.calls), allowed_paths(found), found.answer) == (["read_file"], ["b.txt"], None)
    after = next_turn_rules(
        Message.user("Compare a.txt and b.txt."),
        *make_tool_turn("read_file", path="a.txt"),
        *make_tool_turn("read_file", path="b.txt"),
    )
    assert after.answer is not None


def test_other_files_are_readable_only_after_a_listing() -> None:
    first = next_turn_rules(Message.user("How many eggs?"))
    assert set(first.calls) == {"list_files", "grep"}
    listed = next_turn_rules(
        Message.user("How many eggs?"),
        *make_tool_turn("list_files", "a.md\nsub/\n  b.md\n(2 files, 1 folder)", path="."),
    )
    assert allowed_paths(listed) == ["a.md", "sub/b.md"]


def test_file_name_is_completed_with_its_known_path() -> None:
    history = make_tool_turn("list_files", "docs/\n  intro.md\n(1 file, 1 folder)", path=".")
    assert allowed_paths(next_turn_rules(*history, Message.user("Read intro.md"))) == ["docs/intro.md"]


def test_any_file_is_readable_if_no_tool_finds_files() -> None:
    only = [spec for spec in NEXT_TURN_READING if spec.name == "read_file"]
    assert allowed_paths(next_turn_rules(Message.user("How many eggs?"), tools=only)) is None


def test_many_file_names_in_a_text_force_no_call() -> None:
    assert next_turn_rules(Message.user("a.txt b.txt c.txt d.txt e.txt: what are these?")).answer is not None


def test_same_call_is_repeated_until_something_changes() -> None:
    question = Message.user("Find it")
    assert next_turn_rules(question, *make_tool_turn("grep", pattern="x")).is_repeated("grep", {"pattern": "x"})
    assert not next_turn_rules(question, *make_tool_turn("grep", pattern="x")).is_repeated("grep", {"pattern": "y"})
    changed = next_turn_rules(
        question, *make_tool_turn("grep", pattern="x"), *make_tool_turn("write_file", path="a", content="b"), tools=ALL
    )
    assert not changed.is_repeated("grep", {"pattern": "x"})
    assert changed.is_repeated("write_file", {"path": "a", "content": "b"})
    assert not next_turn_rules(question, *make_tool_turn("grep", pattern="x"), Message.user("Again")).is_repeated(
        "grep", {"pattern": "x"}
    )


def test_many_calls_force_an_answer() -> None:
    calls = [message for n in range(MAX_CALLS) for message in make_tool_turn("grep", pattern=str(n))]
    assert next_turn_rules(Message.user("Find it"), *calls).calls == {}
    assert next_turn_rules(Message.user("Find it"), *calls[2:]).calls


def test_tool_choice_is_obeyed() -> None:
    question = Message.user("What is in a.txt?")
    assert next_turn_rules(question, choice="none").calls == {}
    required = next_turn_rules(question, choice="required")
    assert (len(required.calls), required.answer) == (3, None)
    assert list(next_turn_rules(question, choice="grep").calls) == ["grep"]


def test_answer_schema_is_kept() -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}}
    found = next_turn_rules(Message.user("Count"), answer=form)
    assert found.answer == form
    assert without_calls(found).schema["properties"]["answer"] == form


@pytest.mark.parametrize(
    "attached",
    ["<stdin>\n--- a/README.md\n+++ b/notes.txt\n</stdin>", '<file path="notes.md">\nTeh fox, see a.txt.\n</file>'],
)
def test_names_in_attached_text_are_not_searched(attached: str) -> None:
    found = next_turn_rules(Message.user(f"Write a commit message for this\n\n{attached}"), tools=ALL)
    assert found.answer is not None
    assert set(found.calls) <= {"write_file", "edit", "multi_edit", "shell"}
    assert next_turn_rules(Message.user(f"What is this about?\n\n{attached}"), tools=ALL).calls == {}


def test_names_in_attached_text_are_not_known_files() -> None:
    messages = [
        Message.user("Go on\n\n<stdin>\nb/README.md\n</stdin>"),
        Message.assistant("Yes."),
        Message.user("List all files."),
    ]
    found = next_turn_rules(*messages)
    assert "read_file" not in found.calls
