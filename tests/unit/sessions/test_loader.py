"""Reading what is on disk, whatever is on disk."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring.messages import CustomMessage, Message, ToolResultBlock, ToolUseBlock
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
)
from mainspring.sessions.history import INTERRUPTED_TEXT, NOT_STARTED, RECORD_LOST, repair_pairs
from tests.unit.sessions.harness import QUICK, check_paired, texts

NOW = datetime(2026, 1, 2, tzinfo=UTC)

Write = Callable[..., Session]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Opens a session file with the given lines behind its header."""

    def write(*lines: Entry | bytes, end: bytes = b"\n") -> Session:
        header = SessionEntry(id="s1", parent=None, timestamp=NOW, version=1, cwd="/work")
        data = [line if isinstance(line, bytes) else encode_entry(line) for line in (header, *lines)]
        (tmp_path / "s1.jsonl").write_bytes(b"\n".join(data) + end)
        return Session.open(tmp_path / "s1.jsonl", options=QUICK)

    return write


def entry(kind: type[Any], id: str, parent: str | None, **fields: Any) -> Any:
    return kind(id=id, parent=parent, timestamp=NOW, **fields)


def said(id: str, parent: str | None, text: str = "") -> MessageEntry:
    return entry(MessageEntry, id, parent, message=Message.user(text or id, timestamp=NOW), source="prompt")


def asked(id: str, parent: str | None, *calls: str) -> IntentEntry:
    message = Message.assistant([ToolUseBlock(c, "look") for c in calls], timestamp=NOW, id=f"m-{id}")
    return entry(IntentEntry, id, parent, message=message)


def started(id: str, parent: str, intent: str, call: str) -> CallStartedEntry:
    return entry(CallStartedEntry, id, parent, intent=intent, call=call, tool="look", idempotent=False)


def gave(id: str, parent: str, intent: str, call: str) -> ResultEntry:
    return entry(ResultEntry, id, parent, intent=intent, call=call, result=ToolResultBlock(call, "look", f"of {call}"))


def kinds(session: Session) -> list[str]:
    return [p.kind for p in session.problems]


# --- calls that a stopped program left ------------------------------------------------------------------------------


@pytest.mark.covers("SES-15")
def test_calls_of_a_stopped_program_get_the_result_they_deserve(written: Write) -> None:
    session = written(
        said("1", None),
        asked("2", "1", "a", "b", "c", "d"),
        started("3", "2", "2", "a"),
        started("4", "3", "2", "b"),
        gave("5", "4", "2", "a"),
        gave("6", "5", "2", "c"),
    )
    assert texts(session.messages) == [
        "user: 1", "assistant: a? b? c? d?", f"user: a=of a b={INTERRUPTED_TEXT} c=of c d={NOT_STARTED}",
    ]  # fmt: skip
    blocks = session.messages[-1].tool_results
    assert [b.is_error for b in blocks] == [False, True, False, True]
    assert session.pending is None
    assert session.problems == []


def test_opening_changes_nothing_and_the_next_write_holds_the_repair(written: Write) -> None:
    session = written(said("1", None), asked("2", "1", "a"), started("3", "2", "2", "a"))
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
    assert texts(last.messages) == texts(again.messages)
    last.close()
    assert len(path.read_bytes().splitlines()) == 7


def test_a_run_without_an_end_was_interrupted(written: Write) -> None:
    assert written(said("1", None), entry(RunStartEntry, "2", "1", run="r")).was_interrupted


def test_paused_calls_are_given_back(written: Write) -> None:
    session = written(
        said("1", None), asked("2", "1", "a", "b"), gave("3", "2", "2", "a"),
        entry(PauseEntry, "4", "3", intent="2", reasons={"b": "may I?"}),
    )  # fmt: skip
    assert session.pending is not None
    assert list(session.pending.results) == ["a"]
    assert texts(session.messages) == ["user: 1"]


@pytest.mark.parametrize(
    "damage", [b"garbage", b'{"type":"call_begun","id":"3","parent":"2"}', b'{"type":"result","id":"3"}']
)
def test_where_lines_were_lost_nothing_is_said_not_to_have_run(written: Write, damage: bytes) -> None:
    session = written(said("1", None), asked("2", "1", "a"), damage)
    assert texts(session.messages)[-1] == f"user: a={RECORD_LOST}"


def test_a_pair_that_was_lost_in_the_middle_is_put_together_again(written: Write) -> None:
    session = written(
        said("1", None), asked("2", "1", "a", "b"), started("3", "2", "2", "a"), gave("4", "3", "2", "a"), b"{damaged",
        said("6", "5"), asked("7", "6", "c"), gave("8", "7", "7", "c"), entry(PairEntry, "9", "8", intent="7", results=("8",)),
    )  # fmt: skip
    assert texts(session.messages) == [
        "user: 1", "assistant: a? b?", f"user: a=of a b={RECORD_LOST}", "user: 6", "assistant: c?", "user: c=of c",
    ]  # fmt: skip
    assert "line 6" in str(session.problems[0])


def test_a_record_that_was_lost_before_the_calls_says_nothing_about_them(written: Write) -> None:
    session = written(said("1", None), b"garbage", asked("2", "1", "a"))
    assert texts(session.messages)[-1] == f"user: a={NOT_STARTED}"


def test_what_belongs_to_nothing_is_left_out_and_told(written: Write) -> None:
    session = written(
        said("1", None), gave("2", "1", "?", "a"), entry(PairEntry, "3", "2", intent="?", results=("2",)),
        entry(PairEntry, "4", "3", intent="?", results=()), said("5", "4"),
    )  # fmt: skip
    assert texts(session.messages) == ["user: 1", "user: 5"]
    assert kinds(session) == ["damaged"] * 3


# --- lines ---------------------------------------------------------------------------------------------------------------


def test_a_torn_last_line_is_told_and_the_rest_is_kept(written: Write) -> None:
    session = written(said("1", None), said("2", "1"), encode_entry(said("3", "2"))[:-9], end=b"")
    assert texts(session.messages) == ["user: 1", "user: 2"]
    assert kinds(session) == ["torn"]
    assert "line 4" in str(session.problems[0])


def test_a_damaged_line_is_left_out_with_its_number(written: Write) -> None:
    session = written(said("1", None), b"\x00\x00\x00", b"[1]", b"null", b"{}", b'"x"', said("2", "1"))
    assert texts(session.messages) == ["user: 1", "user: 2"]
    assert kinds(session) == ["damaged"] * 5
    assert [str(p).split()[1] for p in session.problems] == ["3", "4", "5", "6", "7"]


def test_what_hung_on_a_damaged_line_hangs_on_the_one_before(written: Write) -> None:
    session = written(said("1", None), b"was 2", said("3", "2"), said("4", "3"))
    assert texts(session.messages) == ["user: 1", "user: 3", "user: 4"]
    assert kinds(session) == ["damaged", "damaged"]


def test_an_entry_that_is_there_twice_counts_once(written: Write) -> None:
    session = written(said("1", None), said("2", "1"), said("2", "1", "other"), said("3", "2"))
    assert texts(session.messages) == ["user: 1", "user: 2", "user: 3"]
    assert kinds(session) == ["damaged"]


def test_an_entry_cannot_hang_on_one_that_comes_later(written: Write) -> None:
    session = written(said("1", "2"), said("2", "1"))
    assert texts(session.messages) == ["user: 1", "user: 2"]


def test_a_second_header_is_left_out(written: Write) -> None:
    second = entry(SessionEntry, "s2", None, version=1, cwd="/other")
    session = written(said("1", None), second, said("2", "1"))
    assert (session.id, texts(session.messages)) == ("s1", ["user: 1", "user: 2"])
    assert kinds(session) == ["damaged"]


@pytest.mark.covers("SES-10")
def test_entries_of_a_newer_version_are_kept_and_told(written: Write) -> None:
    newer = b'{"type":"hologram","id":"2","parent":"1","timestamp":"2030-01-01T00:00:00Z","data":{"x":1}}'
    block = encode_entry(said("3", "2")).replace(b'"type":"text","text"', b'"type":"smell","smell"')
    session = written(said("1", None), newer, block, said("4", "3"))
    assert texts(session.messages) == ["user: 1", "user: 4"]
    assert kinds(session) == ["unknown", "unknown"]
    assert "hologram" in str(session.problems[0])
    session.add_custom("mine")
    session.close()
    kept = Path(session.location).read_bytes()
    assert newer in kept
    assert block in kept


def test_unknown_fields_are_kept(written: Write) -> None:
    line = encode_entry(said("1", None)).replace(b'"source"', b'"mood":"good","source"')
    session = written(line)
    assert session.problems == []
    session.add_custom("mine")
    session.close()
    assert line in Path(session.location).read_bytes()


def test_a_long_line_is_read(written: Write) -> None:
    session = written(said("1", None, "x" * 5_000_000), said("2", "1"))
    assert [len(t) for t in texts(session.messages)] == [5_000_006, 7]


# --- the tree ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SES-11")
def test_the_history_is_the_path_to_the_last_entry(written: Write) -> None:
    session = written(
        said("1", None), said("2", "1"), said("3", "2"), entry(BranchEntry, "4", "1", label="again", left="3"),
        said("5", "4"), said("6", "5"),
    )  # fmt: skip
    assert texts(session.messages) == ["user: 1", "user: 5", "user: 6"]
    session.branch("3")
    assert texts(session.messages) == ["user: 1", "user: 2", "user: 3"]
    assert [e.id for e in session.entries()][:3] == ["1", "2", "3"]


def test_calls_of_another_branch_are_not_touched(written: Write) -> None:
    session = written(said("1", None), asked("2", "1", "a"), entry(BranchEntry, "3", "1"), said("4", "3"))
    assert texts(session.messages) == ["user: 1", "user: 4"]
    assert session.problems == []


def test_a_compaction_holds_and_what_it_cannot_find_is_told(written: Write) -> None:
    history = (Message.user("short", timestamp=NOW), Kept("2"), Kept("9"), Kept("gone"))
    session = written(
        said("1", None), said("2", "1"), asked("3", "2", "a"), gave("8", "3", "3", "a"),
        entry(PairEntry, "9", "8", intent="3", results=("8",)), entry(CompactionEntry, "10", "9", history=history, reason="r"),
        said("11", "10"),
    )  # fmt: skip
    # Only the results of the pair were kept: they go, since no call has them.
    assert texts(session.messages) == ["user: short", "user: 2", "user: 11"]
    assert kinds(session) == ["damaged", "damaged"]


# --- pairing ----------------------------------------------------------------------------------------------------------


def use(*ids: str) -> Message:
    return Message.assistant([ToolUseBlock(i, "look") for i in ids])


def answer(*ids: str, text: str = "") -> Message:
    blocks = [ToolResultBlock(i, "look", f"of {i}") for i in ids]
    return Message("user", (*blocks, *Message.user(text).content) if text else tuple(blocks))


NOTE = CustomMessage("note")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([use("a"), answer("a")], None),
        ([Message.user("x"), use("a", "b"), NOTE, answer("a", "b"), Message.assistant("y")], None),
        ([use("a")], ["a?", f"a={RECORD_LOST}"]),
        ([use("a"), Message.user("x")], ["a?", f"a={RECORD_LOST}", "x"]),
        ([use("a"), use("b"), answer("b")], ["a?", f"a={RECORD_LOST}", "b?", "b=of b"]),
        ([use("a", "b"), answer("b", "a")], ["a? b?", "a=of a b=of b"]),
        ([use("a", "b"), answer("b", text="and")], ["a? b?", f"and a={RECORD_LOST} b=of b"]),
        ([answer("a"), Message.user("x"), answer("b", text="y")], ["x", "y"]),
        ([use("a"), answer("a", "a", "c")], ["a?", "a=of a"]),
        ([use("a"), answer("a"), answer("a")], ["a?", "a=of a"]),
        ([use("a"), answer("x")], ["a?", f"a={RECORD_LOST}"]),
    ],
)
def test_every_call_gets_one_result(given: list[Message], expected: list[str] | None) -> None:
    repaired = repair_pairs(given, ["ref"] * len(given))
    if repaired is None:
        assert expected is None
        check_paired(given)
        return
    messages, refs, count = repaired
    assert [t.partition(": ")[2] for t in texts(messages)] == expected
    assert len(refs) == len(messages)
    assert count > 0
    check_paired(messages)
    assert repair_pairs(messages, refs) is None
