"""Loading of session files, including damaged ones."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.messages import CustomMessage, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.sessions import (
    BranchEntry,
    CallStartedEntry,
    CompactionEntry,
    Entry,
    IntentEntry,
    Kept,
    MessageEntry,
    PairEntry,
    PauseEntry,
    ResultEntry,
    RunStartEntry,
    Session,
    SessionEntry,
    encode_entry,
    import_session,
)
from mainspring.sessions.history import INTERRUPTED_TEXT, NOT_STARTED, RECORD_LOST, History, repair_pairs
from tests.rows import each_row
from tests.unit.sessions.harness import QUICK, check_paired, describe, make_agent

NOW = datetime(2026, 1, 2, tzinfo=UTC)

OpenLines = Callable[..., Session]


@pytest.fixture
def open_lines(tmp_path: Path) -> OpenLines:
    """Return a function that opens a session file with the given lines after its header."""

    def write_session(*lines: Entry | bytes, end: bytes = b"\n") -> Session:
        header = SessionEntry(id="s1", parent=None, timestamp=NOW, version=1, cwd="/work")
        data = [line if isinstance(line, bytes) else encode_entry(line) for line in (header, *lines)]
        (tmp_path / "s1.jsonl").write_bytes(b"\n".join(data) + end)
        return Session.open(tmp_path / "s1.jsonl", options=QUICK)

    return write_session


def make_entry(kind: type[Any], id: str, parent: str | None, **fields: Any) -> Any:
    return kind(id=id, parent=parent, timestamp=NOW, **fields)


def prompt_entry(id: str, parent: str | None, text: str = "") -> MessageEntry:
    return make_entry(MessageEntry, id, parent, message=Message.user(text or id, timestamp=NOW), source="prompt")


def answer_entry(id: str, parent: str | None) -> MessageEntry:
    message = Message.assistant([TextBlock(id)], timestamp=NOW)
    return make_entry(MessageEntry, id, parent, message=message, source="assistant")


def intent_entry(id: str, parent: str | None, *calls: str) -> IntentEntry:
    message = Message.assistant([ToolUseBlock(c, "look") for c in calls], timestamp=NOW, id=f"m-{id}")
    return make_entry(IntentEntry, id, parent, message=message)


def started_entry(id: str, parent: str, intent: str, call: str) -> CallStartedEntry:
    return make_entry(CallStartedEntry, id, parent, intent=intent, call=call, tool="look", idempotent=False)


def result_entry(id: str, parent: str, intent: str, call: str) -> ResultEntry:
    return make_entry(
        ResultEntry, id, parent, intent=intent, call=call, result=ToolResultBlock(call, "look", f"of {call}")
    )


def problem_kinds(session: Session) -> list[str]:
    return [p.kind for p in session.problems]


# --- calls of a killed process --------------------------------------------------------------------------------------


@pytest.mark.covers("SES-15")
def test_calls_of_a_killed_process_get_fitting_results(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None),
        intent_entry("2", "1", "a", "b", "c", "d"),
        started_entry("3", "2", "2", "a"),
        started_entry("4", "3", "2", "b"),
        result_entry("5", "4", "2", "a"),
        result_entry("6", "5", "2", "c"),
    )
    assert describe(session.messages) == [
        "user: 1", "assistant: a? b? c? d?", f"user: a=of a b={INTERRUPTED_TEXT} c=of c d={NOT_STARTED}",
    ]  # fmt: skip
    blocks = session.messages[-1].tool_results
    assert [b.is_error for b in blocks] == [False, True, False, True]
    assert session.pending is None
    assert session.problems == []


def test_repair_is_written_with_the_next_entry_not_on_open(open_lines: OpenLines) -> None:
    session = open_lines(prompt_entry("1", None), intent_entry("2", "1", "a"), started_entry("3", "2", "2", "a"))
    path = Path(session.location)
    before = path.read_bytes()
    session.close()
    assert path.read_bytes() == before
    again = Session.open(path, options=QUICK)
    again.add_custom("mine", 1)
    again.close()
    assert path.read_bytes().startswith(before)
    added = [json.loads(line) for line in path.read_bytes()[len(before) :].splitlines()]
    assert [line["type"] for line in added] == ["result", "pair", "custom"]
    assert [line.get("repaired") for line in added] == [True, True, None]
    last = Session.open(path, options=QUICK)
    assert describe(last.messages) == describe(again.messages)
    last.close()
    assert len(path.read_bytes().splitlines()) == 7


def test_run_without_an_end_entry_was_interrupted(open_lines: OpenLines) -> None:
    assert open_lines(prompt_entry("1", None), make_entry(RunStartEntry, "2", "1", run="r")).was_interrupted


def test_paused_calls_are_pending_after_loading(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), intent_entry("2", "1", "a", "b"), result_entry("3", "2", "2", "a"),
        make_entry(PauseEntry, "4", "3", intent="2", reasons={"b": "may I?"}),
    )  # fmt: skip
    assert session.pending is not None
    assert list(session.pending.results) == ["a"]
    assert describe(session.messages) == ["user: 1"]


@pytest.mark.parametrize(
    "damage", [b"garbage", b'{"type":"call_begun","id":"3","parent":"2"}', b'{"type":"result","id":"3"}']
)
def test_call_after_damaged_lines_is_reported_as_lost(open_lines: OpenLines, damage: bytes) -> None:
    session = open_lines(prompt_entry("1", None), intent_entry("2", "1", "a"), damage)
    assert describe(session.messages)[-1] == f"user: a={RECORD_LOST}"


def test_lost_pair_entry_is_rebuilt(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), intent_entry("2", "1", "a", "b"), started_entry("3", "2", "2", "a"), result_entry("4", "3", "2", "a"), b"{damaged",
        prompt_entry("6", "5"), intent_entry("7", "6", "c"), result_entry("8", "7", "7", "c"), make_entry(PairEntry, "9", "8", intent="7", results=("8",)),
    )  # fmt: skip
    assert describe(session.messages) == [
        "user: 1", "assistant: a? b?", f"user: a=of a b={RECORD_LOST}", "user: 6", "assistant: c?", "user: c=of c",
    ]  # fmt: skip
    assert "line 6" in str(session.problems[0])


def test_damage_before_a_call_does_not_affect_it(open_lines: OpenLines) -> None:
    session = open_lines(prompt_entry("1", None), b"garbage", intent_entry("2", "1", "a"))
    assert describe(session.messages)[-1] == f"user: a={NOT_STARTED}"


def test_orphaned_entries_are_skipped_and_reported(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), result_entry("2", "1", "?", "a"), make_entry(PairEntry, "3", "2", intent="?", results=("2",)),
        make_entry(PairEntry, "4", "3", intent="?", results=()), prompt_entry("5", "4"),
    )  # fmt: skip
    assert describe(session.messages) == ["user: 1", "user: 5"]
    assert problem_kinds(session) == ["damaged"] * 3


# --- lines ---------------------------------------------------------------------------------------------------------------


def test_incomplete_last_line_is_reported(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), prompt_entry("2", "1"), encode_entry(prompt_entry("3", "2"))[:-9], end=b""
    )
    assert describe(session.messages) == ["user: 1", "user: 2"]
    assert problem_kinds(session) == ["torn"]
    assert "line 4" in str(session.problems[0])


def test_damaged_line_is_skipped_and_reported_with_its_number(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), b"\x00\x00\x00", b"[1]", b"null", b"{}", b'"x"', prompt_entry("2", "1")
    )
    assert describe(session.messages) == ["user: 1", "user: 2"]
    assert problem_kinds(session) == ["damaged"] * 5
    assert [str(p).split()[1] for p in session.problems] == ["3", "4", "5", "6", "7"]


def test_child_of_a_damaged_line_is_attached_to_the_previous_entry(open_lines: OpenLines) -> None:
    session = open_lines(prompt_entry("1", None), b"was 2", prompt_entry("3", "2"), prompt_entry("4", "3"))
    assert describe(session.messages) == ["user: 1", "user: 3", "user: 4"]
    assert problem_kinds(session) == ["damaged", "damaged"]


def test_duplicate_entry_is_skipped(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), prompt_entry("2", "1"), prompt_entry("2", "1", "other"), prompt_entry("3", "2")
    )
    assert describe(session.messages) == ["user: 1", "user: 2", "user: 3"]
    assert problem_kinds(session) == ["damaged"]


def test_entry_cannot_have_a_later_parent(open_lines: OpenLines) -> None:
    session = open_lines(prompt_entry("1", "2"), prompt_entry("2", "1"))
    assert describe(session.messages) == ["user: 1", "user: 2"]


def test_second_header_is_skipped(open_lines: OpenLines) -> None:
    second = make_entry(SessionEntry, "s2", None, version=1, cwd="/other")
    session = open_lines(prompt_entry("1", None), second, prompt_entry("2", "1"))
    assert (session.id, describe(session.messages)) == ("s1", ["user: 1", "user: 2"])
    assert problem_kinds(session) == ["damaged"]


@pytest.mark.covers("SES-10")
def test_order_of_the_lines_applies_if_no_entry_has_a_parent(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), answer_entry("2", None), prompt_entry("3", None), answer_entry("4", None)
    )
    assert describe(session.messages) == ["user: 1", "assistant: 2", "user: 3", "assistant: 4"]
    assert "line 3 has no parent" in str(session.problems[0])
    assert len(session.problems) == 1


@pytest.mark.covers("SES-10")
@each_row("field", ["parent", "timestamp", "source", "run"])
def test_entry_without_a_field_that_the_history_does_not_need_is_read(open_lines: OpenLines, field: str) -> None:
    entries = prompt_entry("1", None), answer_entry("2", "1"), prompt_entry("3", "2")
    for value in ({}, {field: None}):
        fields = [msgspec.json.decode(encode_entry(entry)) for entry in entries]
        lines = [msgspec.json.encode({k: v for k, v in each.items() if k != field} | value) for each in fields]
        session = open_lines(*lines)
        assert describe(session.messages) == ["user: 1", "assistant: 2", "user: 3"]
        session.close()


@pytest.mark.covers("SES-10")
@each_row("without", ["1", "2", "3", "123"])
def test_entry_without_an_id_is_read_and_the_session_continues_after_it(
    open_lines: OpenLines, tmp_path: Path, without: str
) -> None:
    """It gets the same ID whenever it is read, so that the next entry can follow it; entries that name its lost ID follow, too."""
    entries = prompt_entry("1", None), answer_entry("2", "1"), prompt_entry("3", "2")
    fields = [msgspec.json.decode(encode_entry(entry)) for entry in entries]
    lines = [msgspec.json.encode({k: v for k, v in e.items() if k != "id" or e["id"] not in without}) for e in fields]
    with open_lines(*lines) as session:
        assert describe(session.messages) == ["user: 1", "assistant: 2", "user: 3"]
        asyncio.run(make_agent(session, "4").run("go"))
    with Session.open(tmp_path / "s1.jsonl", options=QUICK) as again:
        assert describe(again.messages) == ["user: 1", "assistant: 2", "user: 3", "user: go", "assistant: 4"]
        assert all("cannot be read" not in str(problem) for problem in again.problems)
    id, problems = import_session(tmp_path / "s1.jsonl", "/work", home=tmp_path / without)
    assert problems == ()
    assert len(Session.open(id, home=tmp_path / without, write=False).messages) == 5


def test_prompt_without_a_parent_starts_a_new_history(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), answer_entry("2", "1"), prompt_entry("3", None), answer_entry("4", "3")
    )
    assert describe(session.messages) == ["user: 3", "assistant: 4"]
    assert session.problems == []


@pytest.mark.covers("SES-10")
def test_entries_of_a_newer_version_are_preserved_and_reported(open_lines: OpenLines) -> None:
    newer = b'{"type":"hologram","id":"2","parent":"1","timestamp":"2030-01-01T00:00:00Z","data":{"x":1}}'
    block = encode_entry(prompt_entry("3", "2")).replace(b'"type":"text","text"', b'"type":"smell","smell"')
    session = open_lines(prompt_entry("1", None), newer, block, prompt_entry("4", "3"))
    assert describe(session.messages) == ["user: 1", "user: 4"]
    assert problem_kinds(session) == ["unknown", "unknown"]
    assert "hologram" in str(session.problems[0])
    session.add_custom("mine")
    session.close()
    saved = Path(session.location).read_bytes()
    assert newer in saved
    assert block in saved


def test_unknown_fields_are_preserved(open_lines: OpenLines) -> None:
    line = encode_entry(prompt_entry("1", None)).replace(b'"source"', b'"mood":"good","source"')
    session = open_lines(line)
    assert session.problems == []
    session.add_custom("mine")
    session.close()
    assert line in Path(session.location).read_bytes()


def test_long_line_is_loaded(open_lines: OpenLines) -> None:
    session = open_lines(prompt_entry("1", None, "x" * 5_000_000), prompt_entry("2", "1"))
    assert [len(t) for t in describe(session.messages)] == [5_000_006, 7]


# --- the tree ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SES-11")
def test_history_is_the_path_to_the_last_entry(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), prompt_entry("2", "1"), prompt_entry("3", "2"), make_entry(BranchEntry, "4", "1", label="again", left="3"),
        prompt_entry("5", "4"), prompt_entry("6", "5"),
    )  # fmt: skip
    assert describe(session.messages) == ["user: 1", "user: 5", "user: 6"]
    session.branch("3")
    assert describe(session.messages) == ["user: 1", "user: 2", "user: 3"]
    assert [e.id for e in session.entries()][:3] == ["1", "2", "3"]


def test_calls_of_another_branch_are_not_repaired(open_lines: OpenLines) -> None:
    session = open_lines(
        prompt_entry("1", None), intent_entry("2", "1", "a"), make_entry(BranchEntry, "3", "1"), prompt_entry("4", "3")
    )
    assert describe(session.messages) == ["user: 1", "user: 4"]
    assert session.problems == []


def test_compaction_is_applied_and_missing_references_are_reported(open_lines: OpenLines) -> None:
    history = (Message.user("short", timestamp=NOW), Kept("2"), Kept("9"), Kept("gone"))
    session = open_lines(
        prompt_entry("1", None), prompt_entry("2", "1"), intent_entry("3", "2", "a"), result_entry("8", "3", "3", "a"),
        make_entry(PairEntry, "9", "8", intent="3", results=("8",)), make_entry(CompactionEntry, "10", "9", history=history, reason="r"),
        prompt_entry("11", "10"),
    )  # fmt: skip
    # The compaction kept only the results of the pair, which are removed without their call.
    assert describe(session.messages) == ["user: short", "user: 2", "user: 11"]
    assert problem_kinds(session) == ["damaged", "damaged"]


# --- pairing ----------------------------------------------------------------------------------------------------------


def make_call(*ids: str) -> Message:
    return Message.assistant([ToolUseBlock(i, "look") for i in ids])


def make_results(*ids: str, text: str = "") -> Message:
    blocks = [ToolResultBlock(i, "look", f"of {i}") for i in ids]
    return Message("user", (*blocks, *Message.user(text).content) if text else tuple(blocks))


NOTE = CustomMessage("note")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([make_call("a"), make_results("a")], None),
        ([Message.user("x"), make_call("a", "b"), NOTE, make_results("a", "b"), Message.assistant("y")], None),
        ([make_call("a")], ["a?", f"a={RECORD_LOST}"]),
        ([make_call("a"), Message.user("x")], ["a?", f"a={RECORD_LOST}", "x"]),
        ([make_call("a"), make_call("b"), make_results("b")], ["a?", f"a={RECORD_LOST}", "b?", "b=of b"]),
        ([make_call("a", "b"), make_results("b", "a")], ["a? b?", "a=of a b=of b"]),
        ([make_call("a", "b"), make_results("b", text="and")], ["a? b?", f"and a={RECORD_LOST} b=of b"]),
        ([make_results("a"), Message.user("x"), make_results("b", text="y")], ["x", "y"]),
        ([make_call("a"), make_results("a", "a", "c")], ["a?", "a=of a"]),
        ([make_call("a"), make_results("a"), make_results("a")], ["a?", "a=of a"]),
        ([make_call("a"), make_results("x")], ["a?", f"a={RECORD_LOST}"]),
    ],
)
def test_repair_gives_every_call_one_result(given: list[Message], expected: list[str] | None) -> None:
    repaired = repair_pairs(given, ["ref"] * len(given))
    if repaired is None:
        assert expected is None
        check_paired(given)
        return
    messages, refs, count = repaired
    assert [t.partition(": ")[2] for t in describe(messages)] == expected
    assert len(refs) == len(messages)
    assert count > 0
    check_paired(messages)
    assert repair_pairs(messages, refs) is None


def test_repair_moves_paused_calls_to_the_end_of_the_history(open_lines: OpenLines) -> None:
    message = Message.assistant([ToolUseBlock("x", "look")], timestamp=NOW)
    lost = make_entry(MessageEntry, "1", None, message=message, source="model")
    session = open_lines(
        lost, intent_entry("2", "1", "a"), make_entry(PauseEntry, "3", "2", intent="2", reasons={"a": "may I?"}),
        result_entry("4", "3", "2", "a"), make_entry(PauseEntry, "5", "4", intent="2", reasons={"b": "may I?"}),
    )  # fmt: skip

    assert session.pending is not None
    assert [p.kind for p in session.problems] == ["damaged"]
    [calls] = session.journal.history.open.values()
    assert calls.at == len(session.messages) == 2


def test_pair_with_invalid_data_keeps_no_messages(open_lines: OpenLines) -> None:
    pair = b'{"type":"pair","id":"4","parent":"3","timestamp":"2026-01-02T00:00:00Z","intent":5,"results":[]}'
    session = open_lines(
        prompt_entry("1", None), intent_entry("2", "1", "a"), result_entry("3", "2", "2", "a"), pair,
        make_entry(CompactionEntry, "5", "4", history=[Kept("1"), Kept("4")], reason="x"),
    )  # fmt: skip

    assert describe(session.messages) == ["user: 1"]
    assert "damaged" in problem_kinds(session)


def test_calls_that_join_late_keep_their_place() -> None:
    history = History()
    for entry in (
        prompt_entry("1", None), intent_entry("2", "1", "a"), prompt_entry("3", "2"), intent_entry("4", "3", "b"),
        result_entry("5", "4", "2", "a"), make_entry(PairEntry, "6", "5", intent="2", results=("5",), message="m"),
        result_entry("7", "6", "4", "b"), make_entry(PairEntry, "8", "7", intent="4", results=("7",), message="n"),
    ):  # fmt: skip
        history.apply(entry)

    assert describe(history.messages) == [
        "user: 1", "assistant: a?", "user: a=of a", "user: 3", "assistant: b?", "user: b=of b",
    ]  # fmt: skip
    assert history.entry_ids == ["1", "2", "6", "3", "4", "8"]


def test_earlier_open_calls_are_found() -> None:
    history = History()
    first, second = intent_entry("1", None, "a"), intent_entry("2", "1", "b")
    for entry in (first, second):
        history.apply(entry)

    found = [history.find(each.message) for each in (first, second)]

    assert [calls and calls.entry.id for calls in found] == ["1", "2"]
    assert history.find(Message.user("3")) is None
