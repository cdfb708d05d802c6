import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.approvals import choices_for
from mainspring.app.chat.command_results import (
    Candidate,
    Choice,
    Clipboard,
    Picker,
    Screen as ScreenAction,
    Table,
    Text,
)
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
from mainspring.app.chat.message_queue import MessageNotSentError
from mainspring.app.chat.types import AgentMode, Queued
from mainspring.app.tui.input_field import HistoryFile
from mainspring.app.tui.styled_text import to_text
from mainspring.events import FileDiff, Hunk, Option
from tests.unit.app.chat import event_builders as make
from tests.unit.app.tui.fake_chat import ScriptedChat
from tests.unit.app.tui.harness import TuiHarness, open_tui

DIFF = FileDiff(
    path="a.py",
    hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+b")), Hunk(1, "@@ -9 +9 @@", ("-c", "+d"))),
)
APPROVAL = make.approval(
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


def start_run(tui: TuiHarness) -> None:
    tui.chat.status = msgspec.structs.replace(tui.chat.status, running=True)
    tui.chat.publish(run_events.AgentStart("r1"), chat_events.StatusChange(tui.chat.status))


@pytest.mark.covers("CLI-01", "CLI-02", "CLI-06", "CLI-08", "CLI-11")
async def test_prompt_and_its_response_are_shown(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("hello")
        tui.keys("\r")
        assert await tui.next_command(Prompt) == Prompt("hello")
        tui.chat.publish(
            make.user_text("hello", "prompt"),
            run_events.AgentStart("r"),
            chat_events.WorkingChange("waiting for the model"),
        )
        await tui.wait_for(lambda: "waiting for the model" in tui.drawn)
        tui.chat.publish(make.text("# Head\n\nSome *wor"))
        await tui.wait_for(lambda: "Some *wor" in tui.drawn)
        assert "Some" not in tui.written.split("Head")[0]
        tui.chat.publish(
            make.text("ds*."),
            make.response("# Head\n\nSome *words*."),
            make.run_end("completed"),
        )
        await tui.wait_for(lambda: "Some words." in tui.written)
        await tui.wait_for(lambda: tui.drawn == "")
    assert HistoryFile(tmp_path / "history.jsonl").read() == ["hello"]


def todo_list(*todos: tuple[str, str]) -> run_events.ToolExecutionEnd:
    """The end of a call that replaced the todo list."""
    end = make.tool_end("t", "todo_write", "Todos", output="[ ] list")
    items = [{"content": content, "status": status} for content, status in todos]
    return msgspec.structs.replace(end, call=msgspec.structs.replace(end.call, input={"todos": items}))


async def test_todo_list_stays_in_view_while_items_are_open(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(todo_list(("read", "completed"), ("write the parser", "pending"), ("test it", "in_progress")))
        await tui.wait_for(lambda: tui.drawn)
        assert tui.drawn == "\nTodos: 1 of 3 done\n  > test it\n  - write the parser\n"
        for columns in (40, 80, 200):
            rows = tui.session.live_rows(columns, 24, 18)
            assert all(len(line) < columns for line in to_text(rows).splitlines())
        assert to_text(tui.session.live_rows(40, 12, 6)) == "> test it  1 of 3 done\n"
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: "Todos" not in tui.drawn)  # a question gets the space
        tui.chat.publish(run_events.ApprovalResult("q1", "once"), make.run_end("completed"))
        await tui.wait_for(lambda: "Todos" in tui.drawn)
        tui.chat.publish(todo_list(*[(f"step {i}", "pending") for i in range(30)]))
        await tui.wait_for(lambda: tui.drawn.endswith("  - step 3\n  ... 26 more\n"))
        tui.chat.publish(todo_list(("a", "completed"), ("b", "cancelled")))
        await tui.wait_for(lambda: "Todos" not in tui.drawn)


async def test_todo_list_belongs_to_its_session(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        messages = [make.user_text(f"message {i}.", "prompt") for i in range(200)]
        tui.chat.publish(
            chat_events.ReplayStart(200), todo_list(("old", "pending")), *messages, chat_events.ReplayEnd()
        )
        await tui.wait_for(lambda: "  - old" in tui.drawn)
        tui.chat.publish(chat_events.SessionChange("renamed", "s", "title", 200, ""))
        tui.chat.publish(chat_events.SessionChange("new", "s2", "", 0, ""))
        await tui.wait_for(lambda: "old" not in tui.drawn)


@pytest.mark.covers("BYD-04", "OPT-03")
async def test_enter_steers_and_tab_queues_during_a_run(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        start_run(tui)
        await tui.wait_for(lambda: tui.session.is_busy())
        await tui.type_text("to the left")
        tui.keys("\r")
        assert await tui.next_command(Steer) == Steer("to the left")
        await tui.type_text("then this")
        tui.keys("\t")
        assert await tui.next_command(Queue) == Queue("then this")
        tui.chat.publish(chat_events.QueueChange((Queued("q1", "first"), Queued("q2", "then this"))))
        await tui.wait_for(lambda: "queued: then this" in tui.drawn)

        await tui.type_text("half a draft")
        tui.keys("\x1b[1;3A")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "then this")
        tui.keys("\x1b[1;3A")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "first")
        await tui.type_text(" of all")
        tui.keys("\r")
        assert await tui.next_command(EditQueued) == EditQueued("q1", "first of all")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "half a draft")

        tui.keys("\x1b[1;3A")
        await tui.wait_for(lambda: tui.session.screen.editing_queued_id == "q2")
        tui.keys("\x15")
        await tui.wait_for(lambda: not tui.session.screen.buffer.text)
        await asyncio.sleep(0.025)
        tui.keys("\r")
        assert await tui.next_command(RemoveQueued) == RemoveQueued("q2")


@pytest.mark.covers("BYD-04")
async def test_edited_message_is_queued_again_if_the_original_was_sent(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(chat_events.QueueChange((Queued("q1", "first"),)))
        await tui.wait_for(lambda: tui.session.connection.queued)
        tui.keys("\x1b[1;3A")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "first")
        await asyncio.sleep(0.025)
        tui.chat.refuse = "no text waits"
        tui.keys("\r")
        await tui.next_command(EditQueued)
        tui.chat.refuse = ""
        assert await tui.next_command(Queue) == Queue("first")


async def test_enter_sends_queued_messages_after_a_stop(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(chat_events.QueueChange((Queued("q1", "first"),), held=True))
        await tui.wait_for(lambda: "Enter to send" in tui.drawn)
        tui.keys("\r")
        assert await tui.next_command(SendQueued) == SendQueued("q1")


async def test_rejected_prompt_returns_to_the_input(tmp_path: Path) -> None:
    chat = ScriptedChat()
    chat.refuse = "no model"
    async with open_tui(tmp_path, chat) as tui:
        await tui.type_text("a long thought")
        tui.keys("\r")
        await tui.next_command(Prompt)
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "a long thought")


@pytest.mark.covers("CLI-09")
async def test_slash_commands_shell_lines_and_shortcuts_are_sent(tmp_path: Path) -> None:
    chat = ScriptedChat()
    chat.shortcuts = {"alt+j": "jump", "ctrl+o": "taken already"}
    async with open_tui(tmp_path, chat) as tui:
        for line, command in (("/model x", Slash("/model x")), ("!ls", Shell("ls")), ("!!ls", Shell("ls", tell=False))):
            await tui.type_text(line)
            tui.keys("\r")
            assert await tui.next_command(type(command)) == command
        tui.keys("\x1bj")
        assert await tui.next_command(Shortcut) == Shortcut("alt+j")
        tui.keys("\x0f")
        await tui.wait_for(lambda: "No collapsed output" in tui.written)


@pytest.mark.covers("CLI-02")
async def test_input_accepts_new_lines(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("one")
        tui.keys("\x1b\r")
        await tui.type_text("two")
        tui.keys("\n")
        await tui.type_text("three\\")
        tui.keys("\r")
        await tui.wait_for(lambda: tui.session.screen.buffer.text.endswith("three\n"))
        await tui.type_text("four")
        tui.keys("\r")
        assert await tui.next_command(Prompt) == Prompt("one\ntwo\nthree\nfour")


@pytest.mark.covers("CLI-02")
async def test_paste_is_shown_as_a_placeholder_and_sent_in_full(tmp_path: Path) -> None:
    text = "\n".join(f"line {i}" for i in range(5000))
    async with open_tui(tmp_path) as tui:
        await tui.type_text("see ")
        tui.keys(f"\x1b[200~{text}\x1b[201~")
        await tui.wait_for(lambda: len(tui.session.screen.buffer.text) == 5)
        await tui.wait_for(lambda: "[pasted 5000 lines]" in tui.written)
        tui.keys("\r")
        assert await tui.next_command(Prompt) == Prompt(f"see {text}")
        tui.keys("/etc/passwd\rand more\rlast")  # without brackets, nothing is sent
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "/etc/passwd\nand more\nlast")
        assert not tui.chat.commands


async def test_pasted_image_path_is_attached(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG data")
    async with open_tui(tmp_path) as tui:
        tui.keys(f"\x1b[200~{tmp_path}/p.png\x1b[201~")
        await tui.wait_for(lambda: tui.session.screen.buffer.text)
        await asyncio.sleep(0.025)
        tui.keys("\r")
        prompt = await tui.next_command(Prompt)
        assert isinstance(prompt, Prompt)
        assert prompt.text == "[Image 1: p.png]"
        assert [(a.media_type, a.data) for a in prompt.attachments] == [("image/png", b"\x89PNG data")]


async def test_clipboard_image_is_attached_with_a_marker_and_pasted_text_is_not(tmp_path: Path) -> None:
    tool = tmp_path / "wl-paste"
    tool.write_text('#!/bin/sh\nprintf "\\211PNG data"\n')
    tool.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    async with open_tui(tmp_path, PATH=path, WAYLAND_DISPLAY="w") as tui:
        await tui.type_text("what is ")
        tui.keys("\x16")
        await tui.wait_for(lambda: "[Image 1]" in tui.session.screen.pastes.to_display(tui.session.screen.buffer.text))
        tui.keys("\x1b[200~ a text\x1b[201~")
        await tui.wait_for(lambda: tui.session.screen.buffer.text.endswith(" a text"))
        await asyncio.sleep(0.025)
        tui.keys("\r")
        prompt = await tui.next_command(Prompt)
        assert isinstance(prompt, Prompt)
        assert prompt.text == "what is [Image 1] a text"
        assert [(a.media_type, a.data) for a in prompt.attachments] == [("image/png", b"\x89PNG data")]
    async with open_tui(tmp_path, PATH=str(tmp_path / "none")) as tui:
        tui.keys("\x16")
        await tui.wait_for(lambda: "No program can read the clipboard here" in tui.written)
        assert not tui.session.screen.buffer.text


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
async def test_approval_keys_send_the_decision(tmp_path: Path, keys: str, answer: Approve) -> None:
    async with open_tui(tmp_path) as tui:
        start_run(tui)
        tui.chat.publish(make.tool_start("t1", "edit", "Edit", "a.py"), APPROVAL)
        await tui.wait_for(lambda: "Edit a.py?" in tui.drawn)
        await tui.wait_for(lambda: "- a" in tui.written)
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        for key in keys.replace("\x1b[B", "D"):
            if key == "W":
                await tui.wait_for(lambda: tui.session.screen.dialog and tui.session.screen.dialog.text_request)
                continue
            tui.keys("\x1b[B" if key == "D" else key)
            await asyncio.sleep(0.01)
        assert await tui.next_command(Approve) == answer
        await tui.wait_for(lambda: "Edit a.py?" not in tui.drawn)


async def test_denial_with_a_reason_and_edited_arguments(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: tui.session.screen.dialog_takes_keys())
        tui.keys("n")
        await tui.wait_for(lambda: tui.session.screen.dialog and tui.session.screen.dialog.text_request)
        tui.keys("not this file")
        await tui.wait_for(lambda: tui.session.screen.answer.text == "not this file")
        tui.keys("\r")
        assert await tui.next_command(Approve) == Approve("q1", "deny", "not this file")

        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: tui.session.screen.dialog_takes_keys())
        tui.keys("e")
        await tui.wait_for(lambda: '"a.py"' in tui.session.screen.answer.text)
        tui.session.screen.answer.text = "{"
        tui.keys("\r")
        await tui.wait_for(lambda: "Invalid arguments" in tui.drawn)
        tui.session.screen.answer.text = '{"path": "b.py"}'
        tui.keys("\r")
        assert await tui.next_command(Approve) == Approve("q1", "edit", input={"path": "b.py"})


@pytest.mark.covers("BYD-04")
async def test_typing_does_not_answer_a_new_dialog(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("yes but als")
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: "Edit a.py?" in tui.drawn)
        tui.keys("o y")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "yes but also y")
        assert not tui.chat.commands
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        tui.keys("\x1b")
        assert await tui.next_command(Approve) == Approve("q1", "deny")
        assert tui.session.screen.buffer.text == "yes but also y"


@pytest.mark.covers("BYD-04")
async def test_key_pressed_as_a_dialog_appears_does_not_answer_it(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: tui.session.screen.dialog)
        tui.keys("y")  # could be the first letter of a message, because nothing was typed before
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "y")
        await tui.wait_for(lambda: "Typing goes to the input" in tui.drawn)
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        assert not tui.chat.commands
        await tui.wait_for(lambda: "Typing goes to the input" not in tui.drawn)
        tui.keys("\x1b")
        assert await tui.next_command(Approve) == Approve("q1", "deny")
        assert tui.session.screen.buffer.text == "y"


@pytest.mark.covers("BYD-04")
async def test_repeated_key_does_not_answer_the_next_dialog(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(APPROVAL, msgspec.structs.replace(APPROVAL, id="q2"))
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        tui.keys("yy")
        assert await tui.next_command(Approve) == Approve("q1", "once")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "y")
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        assert not tui.chat.commands


@pytest.mark.covers("BYD-04")
async def test_typed_text_does_not_answer_a_dialog(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: "Edit a.py?" in tui.drawn)
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        tui.keys("to say")  # a, s, and y are all keys that allow the call
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "to say")
        assert not tui.chat.commands


async def test_help_lists_the_keys(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.set_keys({"unfold": "F2"})
        table = Table(("command", "what it does"), (("/quit", "leave"),), "Commands")
        tui.chat.publish(chat_events.CommandEnd("c1", "help", table))
        await tui.wait_for(lambda: "/quit" in tui.written)
        assert "F2                     Show the last collapsed output" in tui.written
        assert tui.written.index("Keys") < tui.written.index("Commands")


@pytest.mark.covers("CLI-06")
async def test_settled_approval_disappears(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: "Edit a.py?" in tui.drawn)
        tui.chat.publish(run_events.ApprovalResult("q1", "aborted"))
        await tui.wait_for(lambda: "Edit a.py?" not in tui.drawn)


@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        (chat_events.QuestionRequest("q", "confirm", "Go?"), "y", Answer("q", ("yes",))),
        (
            chat_events.QuestionRequest("q", "select", "Which?", options=(Option("a"), Option("b"))),
            "2",
            Answer("q", ("b",)),
        ),
        (
            chat_events.QuestionRequest("q", "ask", "Which?", options=(Option("a"), Option("b")), multiple=True),
            " D \r",
            Answer("q", ("a", "b")),
        ),
        (
            chat_events.QuestionRequest("q", "ask", "Which?", options=(Option("a"),)),
            "oWfree\r",
            Answer("q", (), "free"),
        ),
        (chat_events.QuestionRequest("q", "input", "Name?"), "Wme\r", Answer("q", (), "me")),
        (chat_events.QuestionRequest("q", "plan", "1. do **it**"), "y", Answer("q", ("approve",))),
        (chat_events.QuestionRequest("q", "plan", "1. do it"), "rWless\r", Answer("q", ("revise",), "less")),
        (
            chat_events.QuestionRequest("q", "select", "Which?", options=(Option("a"),)),
            "\x1b",
            Answer("q", declined=True),
        ),
    ],
)
async def test_question_keys_send_the_answer(
    tmp_path: Path, question: chat_events.QuestionRequest, keys: str, answer: Answer
) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(question)
        await tui.wait_for(lambda: tui.session.screen.dialog and tui.session.screen.dialog_takes_keys())
        screen = tui.session.screen
        for key in keys:
            if key == "W":
                await tui.wait_for(lambda: screen.dialog is not None and screen.dialog.text_request)
                continue
            tui.keys("\x1b[B" if key == "D" else key)
            await asyncio.sleep(0.03)
        assert await tui.next_command(Answer) == answer


@pytest.mark.covers("CLI-19", "OPT-03")
async def test_stop_keys_abort_the_run_and_then_quit(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        start_run(tui)
        await tui.wait_for(lambda: tui.session.is_busy())
        tui.keys("\x1b")
        assert await tui.next_command(Abort) == Abort("Stopped by the user")
        tui.keys("\x03")
        assert await tui.next_command(Abort) == Abort("Stopped by the user")
        tui.keys("\x03")
        await tui.wait_for(lambda: not tui.session.screen.app.is_running)


async def test_ctrl_c_clears_the_input_and_keeps_it_in_the_history(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("a thought")
        tui.keys("\x03")
        await tui.wait_for(lambda: not tui.session.screen.buffer.text)
        await tui.wait_for(lambda: tui.session.screen.buffer.working_index)  # the history is loaded again
        tui.keys("\x1b[A")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "a thought")


async def test_ctrl_d_quits_only_with_an_empty_input(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("x")
        tui.keys("\x04")
        tui.keys("\x7f")
        await tui.wait_for(lambda: not tui.session.screen.buffer.text)
        tui.keys("\x04")
        await tui.wait_for(lambda: not tui.session.screen.app.is_running)


@pytest.mark.parametrize(("keys", "line"), [("\x04", ""), ("\r", "/quit"), ("\x03\x03", "")])
async def test_exit_with_running_commands_needs_a_second_time(tmp_path: Path, keys: str, line: str) -> None:
    chat = ScriptedChat()
    chat.running_jobs = ("make watch", "npm run\x1b[2J dev")
    async with open_tui(tmp_path, chat) as tui:
        await tui.type_text(line)
        tui.keys(keys)
        await tui.wait_for(lambda: "Exit again to confirm." in " ".join(tui.written.split()))
        assert "Exiting stops 2 background commands (make watch; npm run\\x1b[2J dev)." in " ".join(tui.written.split())
        assert tui.session.screen.app.is_running
        tui.keys("\x04")
        await tui.wait_for(lambda: not tui.session.screen.app.is_running)
    assert tui.session.stopped_jobs == chat.running_jobs


@pytest.mark.covers("CLI-02")
async def test_completion_menu_offers_candidates(tmp_path: Path) -> None:
    chat = ScriptedChat()
    chat.candidates = (Candidate("/help", 0, "what there is"), Candidate("/hello", 0), Candidate("/he", 0))
    async with open_tui(tmp_path, chat) as tui:
        await tui.type_text("/he")
        await tui.wait_for(lambda: "what there is" in tui.written)
        tui.keys("\r")  # the typed text wins while no candidate is selected
        assert await tui.next_command(Slash) == Slash("/he")
        await tui.type_text("/hel")
        await tui.wait_for(lambda: tui.session.screen.buffer.complete_state)
        tui.keys("\t")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "/help")
        tui.keys("\r")
        assert await tui.next_command(Slash) == Slash("/help")


@pytest.mark.parametrize(
    ("path", "key", "sent"),
    [("@notes.md", "\t", True), ("@notes.md", "\x1b[B", False), ("@notes/", "\t", False)],
)
async def test_enter_sends_a_file_that_tab_completed(tmp_path: Path, path: str, key: str, sent: bool) -> None:
    chat = ScriptedChat()
    chat.candidates = (Candidate(path, 4), Candidate("@not", 4))
    async with open_tui(tmp_path, chat) as tui:
        buffer = tui.session.screen.buffer
        await tui.type_text("see @n")
        await tui.wait_for(lambda: buffer.complete_state)
        tui.keys(key)
        await tui.wait_for(lambda: buffer.text == f"see {path}")
        tui.keys("\r")
        await tui.wait_for(lambda: not buffer.complete_state)
        if not sent:
            assert buffer.text == f"see {path}"
            await asyncio.sleep(0.025)
            tui.keys("\r")
        assert await tui.next_command(Prompt) == Prompt(f"see {path}")


async def test_command_results_take_effect(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        picker = Picker("Models", (Choice("one", "/model one"), Choice("two", "/model two", current=True)))
        tui.chat.publish(chat_events.CommandEnd("c0", "model", picker))
        await tui.wait_for(lambda: "Models" in tui.drawn)
        tui.keys("t")
        await tui.wait_for(lambda: "Filter: t" in tui.drawn)
        tui.keys("\x03")
        await tui.wait_for(lambda: "Models" not in tui.drawn)
        tui.chat.publish(chat_events.CommandEnd("c1", "model", picker))
        await tui.wait_for(lambda: tui.session.screen.dialog)
        tui.keys("\x1b[A")
        await asyncio.sleep(0.02)
        tui.keys("\r")
        assert await tui.next_command(Slash) == Slash("/model one")
        tui.chat.publish(chat_events.CommandEnd("c2", "copy", Clipboard("hi")))
        await tui.wait_for(lambda: "\x1b]52;c;aGk=\x07" in tui.raw)
        tui.chat.publish(chat_events.CommandEnd("c3", "nope", error="there is no such command"))
        await tui.wait_for(lambda: "/nope: there is no such command" in tui.written)
        before = tui.raw.count("\x1b[2J")
        tui.chat.publish(chat_events.CommandEnd("c5", "clear", ScreenAction("clear")))
        await tui.wait_for(lambda: tui.raw.count("\x1b[2J") > before)
        tui.chat.publish(chat_events.CommandEnd("c4", "quit", ScreenAction("quit")))
        await tui.wait_for(lambda: not tui.session.screen.app.is_running)


async def test_long_input_history_is_trimmed_at_start(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    history = HistoryFile(file)
    history.add("first")
    file.write_bytes(file.read_bytes() * 3000)
    async with open_tui(tmp_path) as tui:
        await tui.wait_for(lambda: file.read_bytes().count(b"\n") <= 1000)
        assert tui.session.connection.is_open


async def test_collapsed_output_can_be_expanded(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        output = "\n".join(f"row {i}" for i in range(30))
        tui.chat.publish(
            make.tool_start("t", "shell", "Run", "make"),
            make.tool_end("t", "shell", "Run", output=output),
        )
        await tui.wait_for(lambda: "row 29" in tui.written)
        assert "row 3\n" not in tui.written
        tui.keys("\x0f")
        await tui.wait_for(lambda: "row 3 " in tui.written or "row 3\n" in tui.written.replace("\r", ""))


@pytest.mark.covers("CLI-19")
async def test_failed_send_ends_the_app_with_its_error(tmp_path: Path) -> None:
    class FailingChat(ScriptedChat):
        async def send(self, command: ChatCommand) -> CommandReceipt:
            raise ValueError("it broke")

    async with open_tui(tmp_path, FailingChat(), fails=True) as tui:
        await tui.type_text("x")
        tui.keys("\r")
        await tui.wait_for(lambda: not tui.session.screen.app.is_running)
    assert repr(tui.session.failure) == "ValueError('it broke')"


async def test_mode_key_cycles_and_rewind_restores_the_draft(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        modes: tuple[AgentMode, ...] = ("default", "accept_edits", "plan")
        for before, after in zip(modes, (*modes[1:], modes[0]), strict=True):
            status = msgspec.structs.replace(tui.chat.status, mode=before)
            tui.chat.publish(chat_events.StatusChange(status))
            await tui.wait_for(lambda status=status: tui.session.connection.status == status)
            tui.keys("\x1b[Z")
            assert await tui.next_command(SetMode) == SetMode(after)
        tui.chat.publish(chat_events.SessionChange("rewound", draft="say it again"))
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "say it again")


@pytest.mark.covers("BYD-24")
async def test_notifications_need_an_unfocused_terminal(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.set_notifications("unfocused", ("bell", "osc9"), None, 5.0)
        tui.keys("\x1b[I")
        await tui.wait_for(lambda: tui.session.notifier.focused)
        tui.chat.publish(make.run_end("completed", text="all done", seconds=9))
        await tui.wait_for(lambda: "9.0s" in tui.written)
        assert "\a" not in tui.raw
        tui.keys("\x1b[O")
        await tui.wait_for(lambda: tui.session.notifier.focused is False)
        tui.chat.publish(make.run_end("completed", text="all done", seconds=9))
        await tui.wait_for(lambda: "\x1b]9;all done\a" in tui.raw)
        tui.session.transcript.to_work_seconds = lambda seconds: 1.0  # the rest of the time, a question was open
        tui.chat.publish(make.run_end("completed", text="too short", seconds=9))
        tui.chat.publish(chat_events.WorkingChange(""), run_events.Notice("and then"))
        await tui.wait_for(lambda: "and then" in tui.written)
        assert "too short" not in tui.raw


async def test_idle_app_draws_nothing(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(make.text("some"), make.response("some"), make.run_end("completed"))
        await tui.wait_for(lambda: "some" in tui.written)
        screen, frames = tui.session.screen, list[int]()
        while frames[-2:-1] != frames[-1:]:  # the last frames may come late, but then none for a second and a half
            assert len(frames) < 20
            await asyncio.sleep(1.5 if frames else 0)
            frames.append(screen.app.render_counter)


async def test_recent_typing_suppresses_the_bell(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("x")
        tui.keys("\x7f")
        await tui.wait_for(lambda: not tui.session.screen.buffer.text)
        tui.chat.publish(APPROVAL)
        await tui.wait_for(lambda: "Edit a.py?" in tui.drawn)
        await asyncio.sleep(0.05)
        assert "\a" not in tui.raw.replace("\x1b]", "")


async def test_frames_are_written_atomically(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(make.text("a\n\nb\n\nc"), make.response("a\n\nb\n\nc"))
        await tui.wait_for(lambda: "a\n" in tui.written)
        frames = tui.raw.split("\x1b[?2026h")[1:]
        assert frames
        assert all(frame.count("\x1b[?2026l") == 1 for frame in frames)
        assert any(
            "a\r\n" in frame and ">" in frame for frame in frames
        )  # printed lines and live rows are in one frame


@pytest.mark.covers("CLI-19")
async def test_closed_terminal_ends_the_app(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.close_terminal()
        tui.chat.publish(run_events.Notice("hello"))
        await tui.wait_for(lambda: not tui.session.screen.app.is_running)
    assert tui.session.failure is None


@pytest.mark.parametrize("typed", ["", "something else"])
async def test_text_of_a_message_that_was_not_sent_returns_to_the_input(tmp_path: Path, typed: str) -> None:
    async with open_tui(tmp_path) as tui:
        text = "look at @nothing.txt"
        await tui.type_text(text)
        tui.keys("\r")
        await tui.next_command(Prompt)
        tui.chat.publish(make.user_text(text, "prompt"), run_events.AgentStart("r"))
        if typed:
            await tui.type_text(typed)
        failed = make.run_end("error", error="The message was not sent. File not found.")
        assert failed.error is not None
        error = msgspec.structs.replace(failed.error, type=MessageNotSentError.__name__)
        tui.chat.publish(msgspec.structs.replace(failed, error=error))
        await tui.wait_for(lambda: "File not found" in tui.written)
        assert tui.session.screen.buffer.text == (typed or text)


async def test_open_question_leaves_space_for_the_row_that_the_run_waits(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        start_run(tui)
        lines = "\n".join(f"echo {i}" for i in range(40))
        question = make.approval("q1", "t1", "shell", "Shell", "run", lines, arguments={"command": lines})
        tui.chat.publish(msgspec.structs.replace(question, choices=APPROVAL.choices))
        await tui.wait_for(lambda: "Run this command?" in tui.drawn)
        assert "? Waiting for you" in tui.drawn
        assert "Working" not in tui.drawn


async def test_long_session_shows_its_end_and_a_hint(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        older = run_events.Notice("7 earlier messages are not shown.")
        messages = [make.user_text(f"message {i}.", "prompt") for i in range(500)]
        tui.chat.publish(chat_events.ReplayStart(500), older, *messages, chat_events.ReplayEnd())
        await tui.wait_for(lambda: "message 499." in tui.written)
        assert "7 earlier messages are not shown" in tui.written
        assert "... 440 earlier messages are not shown (Ctrl-O to show). Save all" in tui.written
        assert "message 439." not in tui.written
        tui.keys("\x0f")
        await tui.wait_for(lambda: "message 439." in tui.written)
        assert "message 50." in tui.written
        assert "message 39." not in tui.written
        tui.keys("\x0f")
        await tui.wait_for(lambda: "message 39." in tui.written)
        assert "message 0." in tui.written


async def test_resumed_session_starts_at_a_prompt_and_renders_only_some_screens(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        events: list[chat_events.ChatEvent] = []
        for i in range(300):
            events += [make.user_text(f"question {i}.", "prompt"), make.response(f"answer {i}.\n\n" + "text\n\n" * 20)]
        tui.chat.publish(chat_events.ReplayStart(600), *events, chat_events.ReplayEnd())
        await tui.wait_for(lambda: "answer 299." in tui.written)
        shown = [i for i in range(300) if f"answer {i}." in tui.written]
        assert shown == [298, 299]
        assert tui.written.index("> question 298.") < tui.written.index("answer 298.")


async def test_input_has_a_blank_row_above_if_there_is_room(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(run_events.Notice("by the way"))
        await tui.wait_for(lambda: "by the way" in tui.written)
        assert tui.session.live_rows(80, 24, 18) == [[]]
        assert tui.session.live_rows(80, 12, 6) == []


async def test_clock_set_back_does_not_block_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("before")
        await tui.wait_for(lambda: "before" in tui.written)
        now = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: now)
        await tui.type_text(" and after")
        await tui.wait_for(lambda: "and after" in tui.written)
        tui.keys("\x03")
        await tui.wait_for(lambda: not tui.session.screen.buffer.text)


async def test_side_question_shows_that_it_waits_and_can_be_cancelled(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        for key in ("", "\x1b"):
            await tui.type_text("/btw why?")
            tui.keys("\r")
            assert await tui.next_command(Slash) == Slash("/btw why?")
            assert tui.session.screen.hint == "Answering the side question..."
            if key:
                tui.keys(key)
                assert await tui.next_command(Abort) == Abort("Stopped by the user")
            shown = Text("Because.", "Side question: why?", markdown=True)
            tui.chat.publish(chat_events.CommandEnd("1", "btw", None if key else shown, "Stopped" if key else ""))
            await tui.wait_for(lambda: not tui.session.screen.hint)
        await tui.wait_for(lambda: "Side question: why?\nBecause." in tui.written.replace("\r", ""))
