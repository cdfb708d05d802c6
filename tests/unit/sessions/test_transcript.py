"""The transcript of a session: its items for users."""

from pathlib import Path

from mainspring.messages import CustomMessage, Message, ToolUseBlock, Usage
from mainspring.sessions import (
    BranchEntry,
    CompactionEntry,
    IntentEntry,
    JsonlStore,
    Kept,
    MessageEntry,
    ModelChangeEntry,
    PauseEntry,
    RunEndEntry,
    Session,
    SessionEntry,
    encode_entry,
    list_session_runs,
    read_transcript,
)
from tests.unit.sessions.test_loader import NOW, make_entry, prompt_entry, result_entry


def test_items_of_all_kinds_have_a_text(tmp_path: Path) -> None:
    call = Message.assistant([ToolUseBlock("a", "look")], timestamp=NOW, usage=Usage(10, 5))
    history = [Message.user("summary of zebras", timestamp=NOW), Kept("1")]
    entries = [
        SessionEntry(id="s1", parent=None, timestamp=NOW, version=1, cwd="/work"),
        prompt_entry("1", None, "Find zebras"),
        make_entry(MessageEntry, "2", "1", message=CustomMessage("note", timestamp=NOW), source="application"),
        make_entry(ModelChangeEntry, "3", "2", model="scripted:other"),
        make_entry(IntentEntry, "4", "3", message=call),
        make_entry(PauseEntry, "5", "4", intent="4", reasons={"a": "may I?", "b": "and I?"}),
        result_entry("6", "5", "4", "a"),
        result_entry("7", "6", "lost", "a"),
        make_entry(CompactionEntry, "8", "7", history=history, reason=""),
        make_entry(BranchEntry, "9", "8", label="early", left="7", summary="It failed."),
        make_entry(RunEndEntry, "10", "9", run="lost", status="error", error="SessionError: gone"),
        make_entry(RunEndEntry, "11", "10", run="lost", status="aborted", error="AgentAbortedError: "),
        make_entry(RunEndEntry, "12", "11", run="lost", status="error", error="OSError: gone"),
    ]
    file = tmp_path / "s1.jsonl"
    file.write_bytes(b"\n".join(map(encode_entry, entries)) + b"\n")

    found = read_transcript(JsonlStore(tmp_path / "home"), file)

    assert [(item.kind, item.text) for item in found.items] == [
        ("user", "Find zebras"),
        ("custom", "note"),
        ("model", "scripted:other"),
        ("assistant", ""),
        ("pause", "may I?; and I?"),
        ("compaction", "(compacted; 1 message preserved)\n\nsummary of zebras"),
        ("branch", "early\n\nIt failed."),
        ("error", "gone"),
        ("stop", "Stopped"),
        ("error", "OSError: gone"),
    ]
    assert [each.output for each in found.items[3].calls] == ["of a"]
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.unpriced_calls) == (10, 5, 1)
    session = Session.open(file, home=tmp_path / "home", write=False)
    assert list_session_runs(session) == []
