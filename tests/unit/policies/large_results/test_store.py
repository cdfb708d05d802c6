import stat
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from mainspring.errors import SessionError
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.policies.large_results.store import (
    FileOutputStore,
    IContextManager,
    LargeOutput,
    LargeOutputStore,
    MemoryOutputStore,
)
from mainspring.policies.relevant_history import RelevantHistory, rank, words_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LargeOutputStore:
    return FileOutputStore(tmp_path / "context") if request.param == "files" else MemoryOutputStore()


def record(result: str = "long " * 1000, tool: str = "grep", query: str = "q1") -> LargeOutput:
    return LargeOutput(tool=tool, args={"pattern": "x"}, result=result, timestamp=NOW, query_id=query)


@pytest.mark.covers("CTX-01", "CTX-11")
def test_outputs_are_kept_under_a_pointer_and_come_back_whole(store: LargeOutputStore) -> None:
    manager: IContextManager = store
    pointer = manager.store(record())

    assert manager.retrieve(pointer.name) == record()
    assert (pointer.tool, pointer.size, pointer.query_id) == ("grep", 5000, "q1")
    assert pointer.preview == record().result[:2048]
    assert manager.store(record()) == pointer
    assert [p.name for p in manager.pointers()] == [pointer.name]
    assert manager.store(record("other")).name != pointer.name


@pytest.mark.covers("CTX-02", "CTX-03")
def test_a_file_is_named_by_tool_and_hash_and_is_the_owner_s_only(tmp_path: Path) -> None:
    pointer = FileOutputStore(tmp_path / "context").store(record(tool="mcp:x/../y"))

    [file] = (tmp_path / "context").iterdir()
    assert file.name == f"{pointer.name}.json"
    assert pointer.name.startswith("mcp_x____y_")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert msgspec.json.decode(file.read_bytes()) == {
        "tool": "mcp:x/../y",
        "args": {"pattern": "x"},
        "result": "long " * 1000,
        "timestamp": "2026-01-02T00:00:00Z",
        "queryId": "q1",
    }


@pytest.mark.covers("CTX-05")
def test_clearing_lets_go_of_everything(store: LargeOutputStore, tmp_path: Path) -> None:
    pointer = store.store(record())

    store.clear()

    assert store.pointers() == ()
    assert not (tmp_path / "context").exists()
    with pytest.raises(SessionError, match="not there any more"):
        store.retrieve(pointer.name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a", "grep_0123456789ab"])
def test_a_name_cannot_lead_elsewhere(store: LargeOutputStore, name: str) -> None:
    with pytest.raises(SessionError, match="not there any more"):
        store.retrieve(name)


@pytest.mark.covers("OPT-08")
def test_texts_are_ranked_by_the_words_that_they_share() -> None:
    texts = [
        "the weather in Oslo",
        "tests of parseUserName fail",
        "a list of invoices",
        "Oslo invoices and the weather",
    ]

    assert rank("What do the invoices of Oslo say?", texts, 3)[0] == 3
    assert rank("user name parsing", texts, 3) == [1]
    assert rank("nothing of it", texts, 3) == []
    assert "the" not in words_of("the the the")


@pytest.mark.covers("OPT-08")
def test_a_history_is_narrowed_to_the_turns_that_matter_and_no_pair_is_parted() -> None:
    messages: list[AgentMessage] = []
    for i, topic in enumerate(["zebras", "invoices", "tea", "bridges", "kites", "lamps"]):
        messages += [
            Message.user(f"Tell me about {topic}"),
            Message("assistant", (ToolUseBlock(f"c{i}", "grep", {"pattern": topic}),)),
            Message("user", (ToolResultBlock(f"c{i}", "grep", f"{topic} here"),)),
            Message("assistant", (TextBlock("ok"),)),
        ]
    messages.append(Message.user("And what of the zebras?"))

    kept = RelevantHistory(keep_recent=2, limit=1)(messages)

    assert kept == [*messages[:4], *messages[20:]]
    assert RelevantHistory(keep_recent=50)(messages) == messages
