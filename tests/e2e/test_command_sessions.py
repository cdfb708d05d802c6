"""Sessions with the real command: the event log, and the tree."""

import json
import re
import stat

import pytest

from mainspring.events import AgentStart, MessageEnd, ToolExecutionEnd
from mainspring.sessions import JsonlStore, MessageEntry, Session, read_events
from tests.e2e.command import KEY, Command, command, finish
from tests.e2e.servers.chat import Reply, call

__all__ = ["command"]


@pytest.mark.covers("SES-03", "SES-04", "SES-05", "SES-07", "SES-08", "SES-20", "TST-03")
def test_event_log_records_runs_and_continues_after_a_restart(command: Command) -> None:
    (command.folder / ".env").write_text("PASSWORD=hunter2hunter2\n")
    (command.folder / "notes.txt").write_text("nothing but moss\n")
    script = [call("read_file", path="notes.txt"), call("read_file", path=".env"), f"The key is {KEY}.", "Yes."]
    command.server.script += script
    assert command.run("-p", "read my notes", "--allow", "read_file").code == 0
    assert command.run("-p", "really?", "--continue").code == 0

    [file] = (command.home / ".agent" / "logs").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    for secret in ("hunter2", "moss", KEY, "read my notes"):
        assert secret not in text
    [info] = JsonlStore(command.home / ".agent").list()
    lines = read_events(info.id, home=command.home / ".agent")
    assert [line.event.type for line in lines if line.event.type != "session_opened"] == [
        "agent_start", "message_end", "tool_execution_end", "message_end", "tool_execution_end", "message_end", "agent_end",
        "session_shutdown", "agent_start", "message_end", "agent_end", "session_shutdown",
    ]  # fmt: skip
    ends = [line.event for line in lines if isinstance(line.event, ToolExecutionEnd)]
    assert [(e.call.name, e.status, e.call.input["path"]) for e in ends] == [
        ("read_file", "ok", "notes.txt"), ("read_file", "denied", ".env"),
    ]  # fmt: skip
    messages = [line.event for line in lines if isinstance(line.event, MessageEnd)]
    assert all(e.seconds > 0 for e in messages)
    assert {getattr(e.message, "model", "") for e in messages} == {command.server.requests[0]["model"]}
    assert len({line.event.run_id for line in lines if isinstance(line.event, AgentStart)}) == 2


@pytest.mark.covers("SES-11", "SES-12")
def test_sessions_tree_shows_branches_ids_and_labels(command: Command) -> None:
    command.server.script += ["A bridge.", "Of paper.", "Of stone."]
    assert command.run("-p", "what is there?", "--session-id", "s1").code == 0
    assert command.run("-p", "of what?", "--session", "s1").code == 0
    home = command.home / ".agent"
    with Session.open("s1", home=home) as session:
        first = next(e for e in session.entries() if isinstance(e, MessageEntry) and e.source == "assistant")
        session.label("the fork", first.id)
        session.branch(first.id, "another idea")
    assert command.run("-p", "really?", "--session", "s1").code == 0

    lines = command.run("sessions", "tree", "s1").out.splitlines()
    rows = [re.sub(r"[0-9a-f]{8}-[0-9a-f]+", "ID", line) for line in lines]
    assert rows == [
        "* ID  user: what is there?",
        "* ID  assistant: A bridge.  [the fork]",
        "    ID  user: of what?",
        "    ID  assistant: Of paper.",
        "*   ID  branch: another idea",
        "*   ID  user: really?",
        "*   ID  assistant: Of stone.",
    ]
    assert first.id in lines[1]
    items = json.loads(command.run("sessions", "tree", "--json").out)
    assert [i["active"] for i in items] == [True, True, False, False, True, True, True]
    assert command.run("sessions", "tree", "nowhere").code == 2


@pytest.mark.covers("OPT-05")
def test_purge_keeps_fifty_sessions_of_a_folder(command: Command) -> None:
    home = command.home / ".agent"
    for i in range(52):
        session = Session.create(command.folder, home=home, id=f"s{i:02}")
        session.save()
        session.close()
    logs = home / "logs"
    logs.mkdir()
    for i in range(52):
        (logs / f"s{i:02}.jsonl").touch()
    removed = command.run("sessions", "purge").out.split()
    assert sorted(removed) == ["s00", "s01"]
    assert len(list(JsonlStore(home).list())) == 50
    assert len(list(logs.iterdir())) == 50


@pytest.mark.parametrize("round", range(3))
def test_commands_that_start_together_with_one_session_id_keep_both_conversations(command: Command, round: int) -> None:
    command.server.script += ["Fine."] * 3
    prompts = ["count the doors", "count the keys", "count the steps"]
    started = [command.start("-p", prompt, "--session-id", "shared") for prompt in prompts]
    results = [finish(process) for process in started]
    assert [r.code for r in results] == [0, 0, 0]
    texts = [file.read_text() for file in (command.home / ".agent" / "sessions").rglob("*.jsonl")]
    for prompt in prompts:
        assert sum(f'"{prompt}"' in text for text in texts) >= 1, [r.err for r in results]
    copied = [r.err for r in results if re.search("Continuing in a (copy|new session)", r.err)]
    assert len(texts) == 1 + len(copied)


def test_copy_of_a_busy_session_leaves_out_the_prompt_that_has_no_response_yet(command: Command) -> None:
    command.server.script += ["Hello.", Reply("Wait", stall=True), "Here."]
    assert command.run("-p", "greet me", "--session-id", "s1").code == 0
    with command.start("-p", "count forever", "--session-id", "s1") as busy:
        assert command.server.stalled.wait(120)
        other = command.run("-p", "are you there?", "--continue")
        busy.terminate()
        busy.communicate(timeout=240)
    assert other.out == "Here.\n"
    assert "Continuing in a copy" in other.err
    sent = json.dumps(command.server.requests[2]["messages"])
    assert "greet me" in sent
    assert "count forever" not in sent


def test_sessions_in_one_database_work_with_every_command(command: Command) -> None:
    command.settings({"sessions": {"store": "sqlite"}})
    command.server.script += ["A bridge.", "Of paper.", "Of stone.", "Of glass."]
    assert command.run("-p", "what is there?", "--session-id", "s1").code == 0
    assert command.run("-p", "of what?", "--continue").code == 0
    assert command.run("-p", "and here?", "--resume", "s1", "--fork").code == 0
    home = command.home / ".agent"
    assert (home / "sessions.db").is_file()
    assert not list(home.rglob("sessions/*/*.jsonl"))
    assert [len(r["messages"]) for r in command.server.requests] == [2, 4, 6]

    listed = json.loads(command.run("sessions", "list", "--json").out)
    assert {i["preview"] for i in listed} == {"what is there?"}
    [fork] = [i["id"] for i in listed if i["id"] != "s1"]
    assert command.run("sessions", "name", "s1", "Bridges").code == 0
    assert "Bridges" in command.run("sessions", "list").out
    assert {hit["session"]["id"] for hit in json.loads(command.run("sessions", "search", "paper", "--json").out)} == {
        "s1",
        fork,
    }
    assert "Of stone." in command.run("sessions", "show", fork).out
    assert "of what?" in command.run("sessions", "tree", "s1").out
    assert len(command.run("cost", "--json").out) > 10
    assert "of what?" in command.run("rewind", "--list", "Bridges").out

    assert command.run("export", "s1", "--format", "jsonl", "-o", "s1.jsonl").code == 0
    assert command.run("export", "s1", "--format", "markdown", "-o", "s1.md").code == 0
    assert "Of paper." in (command.folder / "s1.md").read_text()
    assert command.run("sessions", "rm", "Bridges").code == 0
    assert command.run("sessions", "import", "s1.jsonl").out == "s1\n"
    assert command.run("-p", "and now?", "--resume", "s1").out == "Of glass.\n"
    assert len(command.server.requests[-1]["messages"]) == 6
    assert command.run("sessions", "purge", "--keep", "1").out.split() == [fork]
    assert not list(home.rglob("sessions/*/*.jsonl"))


def test_unknown_store_of_sessions_is_rejected(command: Command) -> None:
    command.settings({"sessions": {"store": "redis"}})
    done = command.run("-p", "hi")
    assert done.code == 2
    assert "sessions.store" in done.err
