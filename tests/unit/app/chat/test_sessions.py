"""Sessions of a chat: replayed, resumed, forked, rewound, named, exported, and compacted."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.app.chat.command_results import Changes, Clipboard, Picker, Table, Text
from mainspring.app.chat.commands import (
    Abort,
    Approve,
    Background,
    Compact,
    Fork,
    NewSession,
    Prompt,
    Rename,
    Resume,
    Rewind,
    Shell,
    Slash,
)
from mainspring.app.chat.events import (
    CommandEnd,
    CommandRejected,
    ReplayEnd,
    ReplayStart,
    SessionChange,
    ShellEnd,
    ShellStart,
)
from mainspring.app.chat.status import OTHER_CALLS
from mainspring.errors import NetworkError
from mainspring.events import (
    AgentEnd,
    ContextCompacted,
    Notice,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from mainspring.messages import Usage
from mainspring.models import ModelInfo
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.chat import event_builders as make
from tests.unit.app.chat.harness import Reader, chatting

YES = Approve("", "once")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return tmp_path


def write_call(content: str) -> ScriptedCall:
    return ScriptedCall("write_file", {"path": "b.txt", "content": content})


@pytest.mark.covers("CLI-13", "CLI-16")
async def test_replay_publishes_the_same_events(folder: Path, home: Path) -> None:
    script = (Reply("I look.", thinking="hm", calls=[ScriptedCall("read_file", {"path": "a.txt"})]), "It says one.")
    compared = (
        "MessageEnd",
        "ThinkingDelta",
        "TextDelta",
        "ToolExecutionStart",
        "ToolExecutionEnd",
    )
    async with chatting(folder, home, *script) as chat:
        await chat.run("what is in a.txt?")
        live = [e for e in chat.seen if type(e).__name__ in compared]
    async with chatting(folder, home, ask={"continued": True}) as again:
        await again.until(ReplayEnd)

    assert again.of(ReplayStart)[0].messages == 4
    assert again.of(SessionChange)[0].reason == "resumed"
    replayed = [e for e in again.seen if type(e).__name__ in compared]
    assert [type(e) for e in replayed] == [type(e) for e in live]
    for kind in (ThinkingDelta, ToolExecutionStart):
        assert make.encoded(again.of(kind)) == make.encoded(chat.of(kind))
    assert again.responses() == chat.responses()
    assert again.reasoning() == chat.reasoning()
    assert again.of(ToolExecutionEnd)[0].result.text == chat.of(ToolExecutionEnd)[0].result.text
    assert again.users()[0].message.text == "what is in a.txt?"


async def test_replayed_prompt_omits_attached_files(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        await chat.run("see @a.txt")
    async with chatting(folder, home, ask={"continued": True}) as again:
        replayed_text = await again.until_user()

    assert replayed_text.message.text == "see @a.txt"


@pytest.mark.covers("CLI-04", "BYD-12")
async def test_earlier_session_can_be_resumed(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "one", "two", "three") as chat:
        await chat.run("first")
        await chat.send(Rename("the first"))
        await chat.until(SessionChange, lambda s: s.reason == "renamed")
        first = chat.chat.status.session_id
        await chat.send(NewSession())
        await chat.until(SessionChange, lambda s: s.reason == "new")
        await chat.run("second")
        listed = await chat.slash("/sessions")
        await chat.send(Resume("the first"))
        changed = await chat.until(SessionChange, lambda s: s.reason == "resumed")
        await chat.until(ReplayEnd)
        end = await chat.run("third")
        seen = str(chat.model.requests[-1].messages)

    assert isinstance(listed.shown, Picker)
    assert {c.label for c in listed.shown.choices} == {"the first", "second"}
    assert all(c.detail.startswith("just now, 1 prompt; ") for c in listed.shown.choices)
    assert {c.preview for c in listed.shown.choices} == {"> first\none", "> second\ntwo"}
    assert (changed.id, changed.title) == (first, "the first")
    assert end.text == "three"
    assert "first" in seen
    assert "second" not in seen


async def test_session_that_is_open_or_of_another_folder_is_reported_once(folder: Path, home: Path) -> None:
    other = folder / "other"
    other.mkdir()
    async with chatting(folder, home, "one") as chat:
        await chat.run("first")
        id = chat.chat.status.session_id
        async with chatting(other, home, "two", ask={"session": id}) as copy:
            await copy.run("second")
            copied = copy.chat.status.session_id
            await copy.send(Shell("sleep 60"))
            await copy.until(ShellStart)
            await copy.send(Background())
            await copy.until(ShellEnd)
            await copy.slash("/clear")

    assert [notice.text for notice in copy.of(Notice)] == [
        f"Session {id} is already open. Continuing in a copy: {copied}.",
        f"This session was started in {folder}. It continues in {other}.",
        "Stopped 1 background command (sleep 60) of the last session.",
    ]


async def test_unknown_session_changes_nothing(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "one", "two") as chat:
        await chat.run("first")
        before = chat.chat.status.session_id
        done = await chat.slash("/resume nonsense")
        await chat.run("second")
        after = chat.chat.status.session_id

    assert done.error
    assert before == after


@pytest.mark.parametrize("text", ["", "partial text"])
async def test_error_of_a_resumed_run_is_shown_once(folder: Path, home: Path, text: str) -> None:
    replies = [Reply(text, error=NetworkError("the line broke", retryable=False)), "fine"]
    async with chatting(folder, home, *replies, *replies) as chat:
        for prompt in ("one", "two", "three"):
            await chat.run(prompt)
        session = chat.chat.status.session_id
        await chat.send(NewSession())
        await chat.until(SessionChange, lambda s: s.reason == "new")
        start = len(chat.seen)
        await chat.send(Resume(session))
        await chat.until(ReplayEnd)

    replayed = [event for event in chat.seen[start:] if isinstance(event, Notice)]
    assert [event.text for event in replayed] == [
        "Error: the line broke",
        "Error: the line broke",
    ]  # of the first and the third run


async def test_resumed_session_shows_runs_that_stopped(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), gates={0: gate})
    async with chatting(folder, home, model, ask={"agent": {"maxTurns": 1}}) as chat:
        await chat.send(Prompt("one"))
        await gate.reached_limit.wait()
        await chat.send(Abort())
        await chat.until(AgentEnd)
        gate.open.set()
        await chat.run("two")
    async with chatting(folder, home, ask={"continued": True}) as again:
        await again.until(ReplayEnd)

    assert [event.text for event in again.of(Notice)] == ["Stopped", "Stopped: turn limit reached"]


async def test_fork_continues_from_an_entry(folder: Path, home: Path) -> None:
    async with chatting(folder, home, ScriptedCall("read_file", {"path": "a.txt"}), "one", "two", "three") as chat:
        await chat.run("first")
        await chat.run("second")
        old = chat.chat.status.session_id
        tree = await chat.slash("/tree")
        assert isinstance(tree.shown, Picker)
        places = [c.line.split()[1] for c in tree.shown.choices]
        await chat.send(Fork(places[1]))  # a response with tool calls: the fork starts after their results
        await chat.until(SessionChange, lambda s: s.reason == "forked")
        await chat.until(ReplayEnd)
        new, title = chat.chat.status.session_id, chat.chat.status.title
        await chat.run("third")
        seen = str(chat.model.requests[-1].messages)

    assert old != new
    assert title == "first (fork)"
    assert "first" in seen
    assert "second" not in seen


# --- rewind ---------------------------------------------------------------------------------------------------------------


async def two_writes(chat: Reader) -> None:
    await chat.run("write one", YES)
    await chat.run("write two", YES)


@pytest.mark.covers("BYD-02")
async def test_rewind_restores_conversation_and_files_and_can_be_undone(folder: Path, home: Path) -> None:
    read = ScriptedCall("read_file", {"path": "b.txt"})
    async with chatting(
        folder, home, write_call("1"), "done", Reply(calls=[read, write_call("2")]), "done", "again"
    ) as chat:
        await two_writes(chat)
        preview = await chat.slash("/rewind 1 preview")
        assert (folder / "b.txt").read_text(encoding="utf-8") == "2"
        await chat.send(Rewind())
        changed = await chat.until(SessionChange, lambda s: s.reason == "rewound")
        await chat.until(CommandEnd)
        back = (folder / "b.txt").read_text(encoding="utf-8")
        undone = await chat.slash("/rewind undo")
        again = (folder / "b.txt").read_text(encoding="utf-8")

    assert isinstance(preview.shown, Changes)
    assert preview.shown.text.startswith("Would rewind")
    assert preview.shown.diffs[0].path == "b.txt"
    assert (back, again) == ("1", "2")
    assert changed.draft == "write two"
    assert undone.error == ""


@pytest.mark.covers("BYD-02")
async def test_rewind_can_restore_files_or_conversation_alone(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call("1"), "done") as chat:
        await chat.run("write one", YES)
        await chat.slash("/rewind 1 conversation")
        file_exists = (folder / "b.txt").exists()
        messages = chat.of(SessionChange)[-1].messages
        await chat.slash("/rewind undo")
        await chat.slash("/rewind 1 files")
        file_removed = not (folder / "b.txt").exists()
        remaining = len(await rewind_choices(chat))

    assert file_exists
    assert messages == 0
    assert file_removed
    assert remaining == 1


async def test_rewind_names_the_background_commands_that_still_run(folder: Path, home: Path) -> None:
    """Of the removed turns: those of earlier turns belong to the conversation."""

    def start(seconds: int) -> ScriptedCall:
        return ScriptedCall("shell", {"command": f"sleep {seconds}", "background": True})

    async with chatting(folder, home, start(60), "done", start(61), "done", start(62), "done") as chat:
        for prompt in ("first", "second", "third"):
            await chat.run(prompt, YES)
        await chat.slash("/jobs kill job3")
        preview = await chat.slash("/rewind 2 preview")
        done = await chat.slash("/rewind 2")
        listed = await chat.slash("/jobs")
        undone = await chat.slash("/rewind undo")

    note = "Still running: 1 background command (sleep 61). To stop: /jobs kill job2."
    assert isinstance(preview.shown, Changes)
    assert isinstance(done.shown, Changes)
    assert isinstance(listed.shown, Table)
    assert isinstance(undone.shown, Changes)
    assert preview.shown.text.endswith(f". {note}")
    assert done.shown.text.endswith(f"Undo with /rewind undo. {note}")
    assert [row[1].split()[0] for row in listed.shown.rows] == ["running", "running", "killed"]
    assert "Still running" not in undone.shown.text


async def rewind_choices(chat: Reader) -> list[str]:
    picker = await chat.slash("/rewind")
    assert isinstance(picker.shown, Picker)
    return [c.line for c in picker.shown.choices]


@pytest.mark.covers("BYD-02")
async def test_rewind_skips_a_file_changed_by_another_program(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call("1"), "done") as chat:
        await chat.run("write one", YES)
        (folder / "b.txt").write_text("mine", encoding="utf-8")
        rejected = await chat.slash("/rewind")
        done = await chat.slash("/rewind 1")
        file_text = (folder / "b.txt").read_text(encoding="utf-8")
        forced = await chat.slash("/rewind 1 force")

    assert rejected.error == ""
    assert "Nothing was rewound" in done.error
    assert "use /rewind 1 force" in done.error
    assert file_text == "mine"
    assert forced.error == ""
    assert not (folder / "b.txt").exists()


async def test_commands_that_need_an_idle_agent_are_rejected_during_a_run(folder: Path, home: Path) -> None:
    gate = Gate()
    async with chatting(folder, home, WaitingModel("one", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        for command in (NewSession(), Resume(), Fork(), Rewind(), Compact(), Slash("/clear")):
            receipt = await chat.send(command)
            assert "top it first" in receipt.refused
        gate.open.set()
        end = await chat.until(AgentEnd)

    assert len(chat.of(CommandRejected)) == 6
    assert end.status == "completed"


async def test_compact_command_shortens_the_conversation(folder: Path, home: Path) -> None:
    long = "word " * 30_000
    summary = Reply("## Summary\n\nThey talked about words.", usage=Usage(1400, 50))
    async with chatting(folder, home, long, long, summary, "go on") as chat:
        await chat.run("one")
        await chat.run("two")
        before = chat.chat.status.context_used
        done = await chat.slash("/compact keep the words")
        after = chat.chat.status.context_used
        costs = await chat.slash("/cost")
        await chat.run("three")
        spent = (await chat.slash("/cost")).shown
    async with chatting(folder, home, "unused", ask={"continued": True}) as later:
        spent_later = (await later.slash("/cost")).shown

    [compacted] = chat.of(ContextCompacted)
    assert done.error == ""
    assert compacted.before > compacted.after
    assert "talked about words" in compacted.summary
    assert isinstance(costs.shown, Table)
    [summaries] = [row for row in costs.shown.rows if row[0] == OTHER_CALLS]
    assert summaries[4] == "1,450"
    assert spent_later == spent
    assert after < before


async def test_session_can_be_renamed_exported_and_copied(folder: Path, home: Path) -> None:
    exporters = {"md": lambda transcript: f"# {transcript.title}\n{len(transcript.items)} items\n"}
    async with chatting(folder, home, "the answer", exporters=exporters) as chat:
        await chat.run("question")
        await chat.slash("/name A title")
        copied = await chat.slash("/copy")
        lines = await chat.slash("/export out.jsonl")
        page = await chat.slash("/export out.md")
        again = await chat.slash("/export out.md")
        odd = await chat.slash("/export out.exe")
        nowhere = await chat.slash("/export none/out.md")
        before = sorted(folder.iterdir())
        unnamed = [await chat.slash("/export") for _ in range(2)]
        title = chat.chat.status.title

    assert title == "A title"
    assert copied.shown == Clipboard("the answer")
    assert lines.error == page.error == ""
    assert (folder / "out.md").read_text(encoding="utf-8").startswith("# A title")
    assert "question" in (folder / "out.jsonl").read_text(encoding="utf-8")
    assert again.error  # an existing file is not replaced
    assert ".md, .jsonl" in odd.error
    assert nowhere.error == f"{folder}/none/out.md: No such file or directory"
    assert sorted(folder.iterdir()) == before
    exports = [home / ".agent" / "exports" / f"{chat.chat.status.session_id}{end}" for end in (".md", "-2.md")]
    assert [done.shown for done in unnamed] == [Text(f"Saved to {path}") for path in exports]
    assert all(path.stat().st_mode & 0o077 == 0 for path in exports)


@pytest.mark.covers("BYD-02")
async def test_earlier_prompt_can_be_edited_and_nothing_is_lost(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call("1"), "done", "two done", "other done") as chat:
        await chat.run("write one", YES)
        await chat.run("then two")
        listed = await chat.slash("/rewind list conversation")
        assert isinstance(listed.shown, Picker)
        assert [choice.label for choice in listed.shown.choices] == ["then two", "write one"]
        line = listed.shown.choices[1].line
        await chat.send(Slash(line))
        changed = await chat.until(SessionChange, lambda s: s.reason == "rewound")
        await chat.until(CommandEnd)
        assert chat.chat.messages == ()
        await chat.run("something else")
        tree = await chat.slash("/tree")

    assert (changed.draft, line) == ("write one", "/rewind 2 conversation")
    assert (folder / "b.txt").exists()
    assert isinstance(tree.shown, Picker)
    labels = [choice.label for choice in tree.shown.choices]
    assert {"user: write one", "user: then two", "user: something else"} <= set(labels)


class NoticedModel(ScriptedModel):
    """A model with a notice for the user."""

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, notice="It is for trying out.")


async def test_notice_about_the_model_follows_the_start_of_the_session(tmp_path: Path, home: Path) -> None:
    async with chatting(tmp_path, home, NoticedModel("x")) as chat:
        notice = await chat.until(Notice, lambda each: "It is for trying out." in each.text)
    assert [type(event) for event in chat.seen][0] is SessionChange
    assert notice.text.startswith("Using scripted:")
    assert "/model" in notice.text
    assert "--" not in notice.text
