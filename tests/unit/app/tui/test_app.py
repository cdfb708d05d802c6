import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from mainspring.app.chat import events as told
from mainspring.app.chat.approvals import choices_for
from mainspring.app.chat.command_results import Candidate, Choice, Clipboard, Picker, Table
from mainspring.app.chat.command_results import Screen as ScreenAction
from mainspring.app.chat.commands import (
    Abort,
    Answer,
    Approve,
    ChatCommand,
    CommandReceipt,
    EditQueued,
    Prompt,
    Queue,
    RemoveQueued,
    SendQueued,
    SetMode,
    Shell,
    Shortcut,
    Slash,
    Steer,
)
from mainspring.app.chat.types import AgentMode, FileDiff, Hunk, Option, Queued
from mainspring.app.tui.input_field import HistoryFile
from tests.unit.app.tui.fake_chat import ScriptedChat
from tests.unit.app.tui.harness import TuiHarness, desk

DIFF = FileDiff(
    path="a.py",
    hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+b")), Hunk(1, "@@ -9 +9 @@", ("-c", "+d"))),
)
ASKED = told.ApprovalAsked(
    "q1",
    "t1",
    "edit",
    "Edit",
    "write",
    "a.py",
    arguments={"path": "a.py"},
    diffs=(DIFF,),
    choose_hunks=True,
    suggestions=("edit(a.py)", "edit(b.py)"),
    choices=choices_for(("edit(a.py)", "edit(b.py)"), is_edit=True),
)


def run(one: TuiHarness) -> None:
    one.chat.status = msgspec.structs.replace(one.chat.status, running=True)
    one.chat.tell(told.RunStarted("r1"), told.StatusChanged(one.chat.status))


@pytest.mark.covers("CLI-01", "CLI-02", "CLI-06", "CLI-08", "CLI-11")
async def test_a_prompt_and_its_answer(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        await one.typed("hello")
        one.keys("\r")
        assert await one.command(Prompt) == Prompt("hello")
        one.chat.tell(told.UserText("hello"), told.RunStarted("r"), told.Working("waiting for the model"))
        await one.until(lambda: "waiting for the model" in one.drawn)
        one.chat.tell(told.AnswerText("# Head\n\nSome *wor"))
        await one.until(lambda: "Some *wor" in one.drawn)
        assert "Some" not in one.written.split("Head")[0]
        one.chat.tell(told.AnswerText("ds*."), told.AnswerEnd("# Head\n\nSome *words*."), told.RunFinished("completed"))
        await one.until(lambda: "Some words." in one.written)
        await one.until(lambda: one.drawn == "")
    assert HistoryFile(tmp_path / "history.jsonl").read() == ["hello"]


@pytest.mark.covers("BYD-04", "OPT-03")
async def test_enter_steers_and_tab_queues_while_a_run_goes_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        run(one)
        await one.until(lambda: one.session.is_busy())
        await one.typed("to the left")
        one.keys("\r")
        assert await one.command(Steer) == Steer("to the left")
        await one.typed("then this")
        one.keys("\t")
        assert await one.command(Queue) == Queue("then this")
        one.chat.tell(told.QueueChanged((Queued("q1", "first"), Queued("q2", "then this"))))
        await one.until(lambda: "queued: then this" in one.drawn)

        await one.typed("half a draft")
        one.keys("\x1b[1;3A")
        await one.until(lambda: one.session.screen.buffer.text == "then this")
        one.keys("\x1b[1;3A")
        await one.until(lambda: one.session.screen.buffer.text == "first")
        await one.typed(" of all")
        one.keys("\r")
        assert await one.command(EditQueued) == EditQueued("q1", "first of all")
        await one.until(lambda: one.session.screen.buffer.text == "half a draft")

        one.keys("\x1b[1;3A")
        await one.until(lambda: one.session.screen.editing_queued_id == "q2")
        one.keys("\x15")
        await one.until(lambda: not one.session.screen.buffer.text)
        await asyncio.sleep(0.025)
        one.keys("\r")
        assert await one.command(RemoveQueued) == RemoveQueued("q2")


@pytest.mark.covers("BYD-04")
async def test_a_queued_text_that_was_sent_meanwhile_is_queued_again_as_it_was_changed(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(told.QueueChanged((Queued("q1", "first"),)))
        await one.until(lambda: one.session.connection.queued)
        one.keys("\x1b[1;3A")
        await one.until(lambda: one.session.screen.buffer.text == "first")
        await asyncio.sleep(0.025)
        one.chat.refuse = "no text waits"
        one.keys("\r")
        await one.command(EditQueued)
        one.chat.refuse = ""
        assert await one.command(Queue) == Queue("first")


async def test_what_waits_after_a_stop_is_sent_with_enter(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(told.QueueChanged((Queued("q1", "first"),), held=True))
        await one.until(lambda: "Enter to send" in one.drawn)
        one.keys("\r")
        assert await one.command(SendQueued) == SendQueued("q1")


async def test_what_is_refused_is_in_the_input_again(tmp_path: Path) -> None:
    chat = ScriptedChat()
    chat.refuse = "no model"
    async with desk(tmp_path, chat) as one:
        await one.typed("a long thought")
        one.keys("\r")
        await one.command(Prompt)
        await one.until(lambda: one.session.screen.buffer.text == "a long thought")


async def test_slash_commands_shell_lines_and_shortcuts(tmp_path: Path) -> None:
    chat = ScriptedChat()
    chat.shortcuts = {"alt+j": "jump", "ctrl+o": "taken already"}
    async with desk(tmp_path, chat) as one:
        for line, command in (("/model x", Slash("/model x")), ("!ls", Shell("ls")), ("!!ls", Shell("ls", tell=False))):
            await one.typed(line)
            one.keys("\r")
            assert await one.command(type(command)) == command
        one.keys("\x1bj")
        assert await one.command(Shortcut) == Shortcut("alt+j")
        one.keys("\x0f")
        await one.until(lambda: "No collapsed output" in one.written)


@pytest.mark.covers("CLI-02")
async def test_new_lines(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        await one.typed("one")
        one.keys("\x1b\r")
        await one.typed("two")
        one.keys("\n")
        await one.typed("three\\")
        one.keys("\r")
        await one.until(lambda: one.session.screen.buffer.text.endswith("three\n"))
        await one.typed("four")
        one.keys("\r")
        assert await one.command(Prompt) == Prompt("one\ntwo\nthree\nfour")


@pytest.mark.covers("CLI-02")
async def test_pastes(tmp_path: Path) -> None:
    text = "\n".join(f"line {i}" for i in range(5000))
    async with desk(tmp_path) as one:
        await one.typed("see ")
        one.keys(f"\x1b[200~{text}\x1b[201~")
        await one.until(lambda: len(one.session.screen.buffer.text) == 5)
        await one.until(lambda: "[pasted 5000 lines]" in one.written)
        one.keys("\r")
        assert await one.command(Prompt) == Prompt(f"see {text}")
        one.keys("/etc/passwd\rand more\rlast")  # without brackets: nothing is sent
        await one.until(lambda: one.session.screen.buffer.text == "/etc/passwd\nand more\nlast")
        assert not one.chat.commands


async def test_a_pasted_picture_is_attached(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG data")
    async with desk(tmp_path) as one:
        one.keys(f"\x1b[200~{tmp_path}/p.png\x1b[201~")
        await one.until(lambda: one.session.screen.buffer.text)
        await asyncio.sleep(0.025)
        one.keys("\r")
        prompt = await one.command(Prompt)
        assert isinstance(prompt, Prompt)
        assert prompt.text == "[image p.png]"
        assert [(a.media_type, a.data) for a in prompt.attachments] == [("image/png", b"\x89PNG data")]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y", Approve("q1", "once")),
        ("s", Approve("q1", "session")),
        ("f", Approve("q1", "edits")),
        ("nW\r", Approve("q1", "deny")),
        ("\x1b", Approve("q1", "deny")),
        ("\r", Approve("q1", "once")),
        ("a\x1b[B\r", Approve("q1", "always", rule="edit(a.py)")),
        ("x\r", Approve("q1", "never", rule="edit(a.py)\nedit(b.py)")),
        ("hn\r", Approve("q1", "once", hunks=(1,))),
        ("hnn\r", Approve("q1", "deny")),
    ],
)
@pytest.mark.covers("CLI-01", "CLI-02")
async def test_approvals(tmp_path: Path, keys: str, answer: Approve) -> None:
    async with desk(tmp_path) as one:
        run(one)
        one.chat.tell(told.ToolStarted("t1", "edit", "Edit", "a.py"), ASKED)
        await one.until(lambda: "Edit a.py?" in one.drawn)
        await one.until(lambda: "- a" in one.written)
        await one.until(one.session.screen.dialog_takes_keys)
        for key in keys.replace("\x1b[B", "D"):
            if key == "W":
                await one.until(lambda: one.session.screen.dialog and one.session.screen.dialog.wants)
                continue
            one.keys("\x1b[B" if key == "D" else key)
            await asyncio.sleep(0.01)
        assert await one.command(Approve) == answer
        await one.until(lambda: "Edit a.py?" not in one.drawn)


async def test_a_denial_with_a_reason_and_changed_arguments(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(ASKED)
        await one.until(lambda: one.session.screen.dialog_takes_keys())
        one.keys("n")
        await one.until(lambda: one.session.screen.dialog and one.session.screen.dialog.wants)
        one.keys("not this file")
        await one.until(lambda: one.session.screen.answer.text == "not this file")
        one.keys("\r")
        assert await one.command(Approve) == Approve("q1", "deny", "not this file")

        one.chat.tell(ASKED)
        await one.until(lambda: one.session.screen.dialog_takes_keys())
        one.keys("e")
        await one.until(lambda: '"a.py"' in one.session.screen.answer.text)
        one.session.screen.answer.text = "{"
        one.keys("\r")
        await one.until(lambda: "Invalid arguments" in one.drawn)
        one.session.screen.answer.text = '{"path": "b.py"}'
        one.keys("\r")
        assert await one.command(Approve) == Approve("q1", "edit", input={"path": "b.py"})


@pytest.mark.covers("BYD-04")
async def test_who_is_typing_does_not_answer_a_question_by_accident(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        await one.typed("yes but als")
        one.chat.tell(ASKED)
        await one.until(lambda: "Edit a.py?" in one.drawn)
        one.keys("o y")
        await one.until(lambda: one.session.screen.buffer.text == "yes but also y")
        assert not one.chat.commands
        await one.until(one.session.screen.dialog_takes_keys)
        one.keys("\x1b")
        assert await one.command(Approve) == Approve("q1", "deny")
        assert one.session.screen.buffer.text == "yes but also y"


@pytest.mark.covers("BYD-04")
async def test_a_key_that_meets_a_question_which_only_now_appears_does_not_answer_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(ASKED)
        await one.until(lambda: one.session.screen.dialog)
        one.keys("y")  # the first letter of something, for nothing was typed before
        await one.until(lambda: one.session.screen.buffer.text == "y")
        await one.until(lambda: "Typing goes to the input" in one.drawn)
        await one.until(one.session.screen.dialog_takes_keys)
        assert not one.chat.commands
        await one.until(lambda: "Typing goes to the input" not in one.drawn)
        one.keys("\x1b")
        assert await one.command(Approve) == Approve("q1", "deny")
        assert one.session.screen.buffer.text == "y"


@pytest.mark.covers("BYD-04")
async def test_a_key_that_is_pressed_twice_does_not_answer_the_question_behind(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(ASKED, msgspec.structs.replace(ASKED, id="q2"))
        await one.until(one.session.screen.dialog_takes_keys)
        one.keys("yy")
        assert await one.command(Approve) == Approve("q1", "once")
        await one.until(lambda: one.session.screen.buffer.text == "y")
        await one.until(one.session.screen.dialog_takes_keys)
        assert not one.chat.commands


@pytest.mark.covers("BYD-04")
async def test_whoever_types_a_text_over_a_question_does_not_answer_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(ASKED)
        await one.until(lambda: "Edit a.py?" in one.drawn)
        await one.until(one.session.screen.dialog_takes_keys)
        one.keys("to say")  # a, s, and y would all allow it
        await one.until(lambda: one.session.screen.buffer.text == "to say")
        assert not one.chat.commands


async def test_help_has_the_keys_of_the_screen(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.session.set_keys({"unfold": "F2"})
        table = Table(("command", "what it does"), (("/quit", "leave"),), "Commands")
        one.chat.tell(told.CommandDone("c1", "help", table))
        await one.until(lambda: "/quit" in one.written)
        assert "F2                     Show the last collapsed output" in one.written
        assert one.written.index("Keys") < one.written.index("Commands")


async def test_a_question_that_falls_away_is_not_shown_any_more(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(ASKED)
        await one.until(lambda: "Edit a.py?" in one.drawn)
        one.chat.tell(told.ApprovalSettled("q1", "aborted"))
        await one.until(lambda: "Edit a.py?" not in one.drawn)


@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        (told.QuestionAsked("q", "confirm", "Go?"), "y", Answer("q", ("yes",))),
        (told.QuestionAsked("q", "select", "Which?", options=(Option("a"), Option("b"))), "2", Answer("q", ("b",))),
        (
            told.QuestionAsked("q", "ask", "Which?", options=(Option("a"), Option("b")), multiple=True),
            " D \r",
            Answer("q", ("a", "b")),
        ),
        (told.QuestionAsked("q", "ask", "Which?", options=(Option("a"),)), "oWfree\r", Answer("q", (), "free")),
        (told.QuestionAsked("q", "input", "Name?"), "Wme\r", Answer("q", (), "me")),
        (told.QuestionAsked("q", "plan", "1. do **it**"), "y", Answer("q", ("approve",))),
        (told.QuestionAsked("q", "plan", "1. do it"), "rWless\r", Answer("q", ("revise",), "less")),
        (told.QuestionAsked("q", "select", "Which?", options=(Option("a"),)), "\x1b", Answer("q", declined=True)),
    ],
)
async def test_questions(tmp_path: Path, question: told.QuestionAsked, keys: str, answer: Answer) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(question)
        await one.until(lambda: one.session.screen.dialog and one.session.screen.dialog_takes_keys())
        screen = one.session.screen
        for key in keys:
            if key == "W":
                await one.until(lambda: screen.dialog is not None and screen.dialog.wants)
                continue
            one.keys("\x1b[B" if key == "D" else key)
            await asyncio.sleep(0.03)
        assert await one.command(Answer) == answer


@pytest.mark.covers("CLI-19", "OPT-03")
async def test_stopping_and_leaving(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        run(one)
        await one.until(lambda: one.session.is_busy())
        one.keys("\x1b")
        assert await one.command(Abort) == Abort("Stopped by the user")
        one.keys("\x03")
        assert await one.command(Abort) == Abort("Stopped by the user")
        one.keys("\x03")
        await one.until(lambda: not one.session.screen.app.is_running)


async def test_ctrl_c_clears_the_input_and_does_not_lose_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        await one.typed("a thought")
        one.keys("\x03")
        await one.until(lambda: not one.session.screen.buffer.text)
        await one.until(lambda: one.session.screen.buffer.working_index)  # the history is there again
        one.keys("\x1b[A")
        await one.until(lambda: one.session.screen.buffer.text == "a thought")


async def test_ctrl_d_leaves_only_with_an_empty_input(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        await one.typed("x")
        one.keys("\x04")
        one.keys("\x7f")
        await one.until(lambda: not one.session.screen.buffer.text)
        one.keys("\x04")
        await one.until(lambda: not one.session.screen.app.is_running)


@pytest.mark.covers("CLI-02")
async def test_completion_of_what_the_chat_offers(tmp_path: Path) -> None:
    chat = ScriptedChat()
    chat.candidates = (Candidate("/help", 0, "what there is"), Candidate("/hello", 0), Candidate("/he", 0))
    async with desk(tmp_path, chat) as one:
        await one.typed("/he")
        await one.until(lambda: "what there is" in one.written)
        one.keys("\r")  # what was typed wins while nothing was chosen
        assert await one.command(Slash) == Slash("/he")
        await one.typed("/hel")
        await one.until(lambda: one.session.screen.buffer.complete_state)
        one.keys("\t")
        await one.until(lambda: one.session.screen.buffer.text == "/help")
        one.keys("\r")
        assert await one.command(Slash) == Slash("/help")


@pytest.mark.parametrize(
    ("path", "key", "sent"),
    [("@notes.md", "\t", True), ("@notes.md", "\x1b[B", False), ("@notes/", "\t", False)],
)
async def test_enter_sends_a_file_that_tab_completed(tmp_path: Path, path: str, key: str, sent: bool) -> None:
    chat = ScriptedChat()
    chat.candidates = (Candidate(path, 4), Candidate("@not", 4))
    async with desk(tmp_path, chat) as one:
        buffer = one.session.screen.buffer
        await one.typed("see @n")
        await one.until(lambda: buffer.complete_state)
        one.keys(key)
        await one.until(lambda: buffer.text == f"see {path}")
        one.keys("\r")
        await one.until(lambda: not buffer.complete_state)
        if not sent:
            assert buffer.text == f"see {path}"
            await asyncio.sleep(0.025)
            one.keys("\r")
        assert await one.command(Prompt) == Prompt(f"see {path}")


async def test_what_commands_give(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        picker = Picker("Models", (Choice("one", "/model one"), Choice("two", "/model two", current=True)))
        one.chat.tell(told.CommandDone("c1", "model", picker))
        await one.until(lambda: one.session.screen.dialog)
        one.keys("\x1b[A")
        await asyncio.sleep(0.02)
        one.keys("\r")
        assert await one.command(Slash) == Slash("/model one")
        one.chat.tell(told.CommandDone("c2", "copy", Clipboard("hi")))
        await one.until(lambda: "\x1b]52;c;aGk=\x07" in one.raw)
        one.chat.tell(told.CommandDone("c3", "nope", error="there is no such command"))
        await one.until(lambda: "/nope: there is no such command" in one.written)
        before = one.raw.count("\x1b[2J")
        one.chat.tell(told.CommandDone("c5", "clear", ScreenAction("clear")))
        await one.until(lambda: one.raw.count("\x1b[2J") > before)
        one.chat.tell(told.CommandDone("c4", "quit", ScreenAction("quit")))
        await one.until(lambda: not one.session.screen.app.is_running)


async def test_a_long_history_is_cut_when_a_session_begins(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    history = HistoryFile(file)
    history.add("first")
    file.write_bytes(file.read_bytes() * 3000)
    async with desk(tmp_path) as one:
        await one.until(lambda: file.read_bytes().count(b"\n") <= 1000)
        assert one.session.connection.is_open


async def test_folded_output_can_be_seen(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        output = "\n".join(f"row {i}" for i in range(30))
        one.chat.tell(
            told.ToolStarted("t", "shell", "Run", "make"), told.ToolFinished("t", "shell", "Run", output=output)
        )
        await one.until(lambda: "row 29" in one.written)
        assert "row 3\n" not in one.written
        one.keys("\x0f")
        await one.until(lambda: "row 3 " in one.written or "row 3\n" in one.written.replace("\r", ""))


@pytest.mark.covers("CLI-19")
async def test_an_agent_that_fails_ends_the_screen_with_its_error(tmp_path: Path) -> None:
    class Broken(ScriptedChat):
        async def send(self, command: ChatCommand) -> CommandReceipt:
            raise ValueError("it broke")

    async with desk(tmp_path, Broken(), fails=True) as one:
        await one.typed("x")
        one.keys("\r")
        await one.until(lambda: not one.session.screen.app.is_running)
    assert repr(one.session.failure) == "ValueError('it broke')"


async def test_modes_and_the_draft_of_a_rewind(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        modes: tuple[AgentMode, ...] = ("build", "accept_edits", "plan")
        for before, after in zip(modes, (*modes[1:], modes[0]), strict=True):
            status = msgspec.structs.replace(one.chat.status, mode=before)
            one.chat.tell(told.StatusChanged(status))
            await one.until(lambda status=status: one.session.connection.status == status)
            one.keys("\x1b[Z")
            assert await one.command(SetMode) == SetMode(after)
        one.chat.tell(told.SessionChanged("rewound", draft="say it again"))
        await one.until(lambda: one.session.screen.buffer.text == "say it again")


@pytest.mark.covers("BYD-24")
async def test_only_who_looks_elsewhere_is_told(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.session.set_notifications("unfocused", ("bell", "osc9"), None, 5.0)
        one.keys("\x1b[I")
        await one.until(lambda: one.session.notifier.focused)
        one.chat.tell(told.RunFinished("completed", text="all done", seconds=9))
        await one.until(lambda: "9.0 s" in one.written)
        assert "\a" not in one.raw
        one.keys("\x1b[O")
        await one.until(lambda: one.session.notifier.focused is False)
        one.chat.tell(told.RunFinished("completed", text="all done", seconds=9))
        await one.until(lambda: "\x1b]9;all done\a" in one.raw)


async def test_nothing_is_drawn_while_nothing_happens(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(told.AnswerText("some"), told.AnswerEnd("some"), told.RunFinished("completed"))
        await one.until(lambda: "some" in one.written)
        await asyncio.sleep(0.3)
        frames = one.session.screen.app.render_counter
        await asyncio.sleep(0.5)
        assert one.session.screen.app.render_counter == frames


async def test_whoever_typed_just_now_looks(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        await one.typed("x")
        one.keys("\x7f")
        await one.until(lambda: not one.session.screen.buffer.text)
        one.chat.tell(ASKED)
        await one.until(lambda: "Edit a.py?" in one.drawn)
        await asyncio.sleep(0.05)
        assert "\a" not in one.raw.replace("\x1b]", "")


async def test_frames_are_written_whole(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(told.AnswerText("a\n\nb\n\nc"), told.AnswerEnd("a\n\nb\n\nc"))
        await one.until(lambda: "a\n" in one.written)
        frames = one.raw.split("\x1b[?2026h")[1:]
        assert frames
        assert all(frame.count("\x1b[?2026l") == 1 for frame in frames)
        assert any("a\r\n" in frame and ">" in frame for frame in frames)  # what is printed and what is drawn, in one


@pytest.mark.covers("CLI-19")
async def test_a_terminal_that_is_gone_ends_the_session(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.lose()
        one.chat.tell(told.Notice("hello"))
        await one.until(lambda: not one.session.screen.app.is_running)
    assert one.session.failure is None


async def test_of_a_long_session_the_end_is_shown_and_that_there_is_more(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        notices = [told.Notice(f"notice {i}.") for i in range(500)]
        one.chat.tell(told.ReplayStarted(500), *notices, told.ReplayFinished())
        await one.until(lambda: "notice 499." in one.written)
        assert "earlier messages are not shown" in one.written
        assert "notice 50." not in one.written


async def test_the_input_stands_apart_from_what_was_printed_where_there_is_room(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(told.Notice("by the way"))
        await one.until(lambda: "by the way" in one.written)
        assert one.session.live_rows(80, 24, 18) == [[]]
        assert one.session.live_rows(80, 12, 6) == []


async def test_a_clock_that_is_set_back_holds_up_no_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path) as one:
        await one.typed("before")
        await one.until(lambda: "before" in one.written)
        now = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: now)
        await one.typed(" and after")
        await one.until(lambda: "and after" in one.written)
        one.keys("\x03")
        await one.until(lambda: not one.session.screen.buffer.text)
