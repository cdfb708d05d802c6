"""Dialogs alone: what they show, and which keys they handle."""

from pathlib import Path
from typing import Any

import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.approvals import choices_for
from mainspring.app.chat.command_results import Choice, Picker, UiSetting
from mainspring.app.chat.commands import Approve, ChatCommand, Slash
from mainspring.app.chat.events import QuestionRequest
from mainspring.app.tui.approval_dialog import ApprovalDialog
from mainspring.app.tui.dialogs import PickerDialog, QuestionDialog
from mainspring.app.tui.safe_text import width
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.theme import detect_theme
from mainspring.events import ApprovalRequest, Option
from tests.unit.app.chat import event_builders as make
from tests.unit.app.tui.harness import open_tui


def make_request(resource: str, reason: str = "", **more: Any) -> ApprovalRequest:
    choices = choices_for(more.get("suggestions", ()), is_edit=more.pop("is_edit", False))
    given: dict[str, Any] = {"tool": "shell", "display": "Shell", "action": "run", "choices": choices, **more}
    return make.approval(id="q", call_id="t", resource=resource, reason=reason, **given)


def render(dialog: ApprovalDialog | PickerDialog, columns: int = 60, max_rows: int = 20) -> str:
    return to_text(dialog.rows(columns, max_rows))


@pytest.mark.covers("CLI-06")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm -rf x\recho hi", r"rm -rf x\recho hi"),  # a terminal would overwrite the line after a carriage return
        ("echo hi\x1b]0;; rm -rf x\x07", r"echo hi\x1b]0;; rm -rf x\x07"),  # a terminal would interpret this as a title
        ("echo \x1b[8m; rm x", r"echo \x1b[8m; rm x"),
        ("echo \x1b[2K\x1b[1A; rm x", r"echo \x1b[2K\x1b[1A; rm x"),
        ("echo \u202ecba", r"echo \u202ecba"),
    ],
)
def test_approval_shows_hidden_characters(command: str, expected: str) -> None:
    text = render(ApprovalDialog(make_request(command, suggestions=(command,)), lambda _: None), 120)
    assert f"  {expected}\n" in text
    assert f"always allow `{expected}` in this project" in text
    assert "\x1b" not in text


COMMAND = "cat > a.txt <<'EOT'\n" + "\n".join(f"line {i} of a text\twith a tab" for i in range(40)) + "\nEOT"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_command_has_real_lines_and_can_be_scrolled(columns: int) -> None:
    request = make.approval(
        "q", "t", "shell", "Shell", "run", COMMAND.replace("\n", "\\n"), arguments={"command": COMMAND},
        reason=COMMAND.replace("\n", "\\n") + ": it writes files, which needs approval here", choices=choices_for(("shell(cat *)",)),
    )  # fmt: skip
    dialog = ApprovalDialog(request, lambda _: None)
    seen: list[str] = []
    for _ in range(60):
        rows = dialog.rows(columns, 20)
        text = to_text(rows)
        assert len(rows) <= 20
        assert "\\n" not in text
        assert all(width(line) < columns for line in text.splitlines())
        seen += [line for line in text.splitlines() if line not in seen]
        dialog.on_key("pagedown")
    shown = " ".join(" ".join(seen).split())
    assert "Run this command?" in shown
    assert all(f"line {i} of a text" in shown for i in range(40))
    assert "it writes files, which needs approval here" in shown
    assert "Yes, and don't ask again this session" in shown
    assert "..." not in shown.replace("Edit arguments...", "")
    for _ in range(60):
        dialog.on_key("pageup")
    assert to_text(dialog.rows(columns, 20)).startswith("Run this command?\n  cat > a.txt <<'EOT'\n  line 0 of")


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_smallest_window_shows_the_question_and_the_start_of_what_it_is_about(columns: int) -> None:
    request = make.approval(
        "q", "t", "shell", "Shell", "run", COMMAND.replace("\n", "\\n"), arguments={"command": COMMAND},
        choices=choices_for(("shell(cat *)",)),
    )  # fmt: skip
    for dialog, start in (
        (ApprovalDialog(request, lambda _: None), "Run this command?\n  cat > a.txt"),
        (
            QuestionDialog(QuestionRequest("q", "plan", text="A plan", title="Delete the folder"), lambda _: None),
            "Delete",
        ),
    ):
        rows = dialog.rows(columns, 5)
        assert len(rows) <= 5
        assert to_text(rows).startswith(start)
        assert "> y" in to_text(rows)


def test_command_is_shown_with_every_question_about_it() -> None:
    request = make.approval("q", "t", "shell", "Shell", "write", "/etc/x", arguments={"command": "echo 1\ntee /etc/x"})
    assert to_text(ApprovalDialog(request, lambda _: None).rows(80, 20)).startswith(
        "Edit /etc/x?\n  echo 1\n  tee /etc/x\n"
    )


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_question_and_hints_are_shown_whole(columns: int) -> None:
    text = "The shell is about to run a command that runs code from a web server. Do you want to continue with this?"
    for kind in ("confirm", "ask", "input"):
        options = (Option("a", "One"),) if kind == "ask" else ()
        dialog = QuestionDialog(QuestionRequest("q", kind, text, options=options), lambda _: None)
        shown = to_text(dialog.rows(columns, 18))
        assert "..." not in shown.replace("Other...", "")
        assert text in " ".join(shown.split())
        assert all(width(line) < columns for line in shown.splitlines())


def test_dialog_handles_only_its_own_keys() -> None:
    answers: list[ChatCommand | None] = []
    dialog = ApprovalDialog(make_request("ls"), answers.append)
    assert [dialog.on_key(key) for key in "tol9"] == [False] * 4
    assert answers == []
    assert dialog.on_key("down")
    assert dialog.on_key("y")
    assert answers == [Approve("q", "once")]
    assert not QuestionDialog(QuestionRequest("q", "confirm", text="Sure?"), answers.append).on_key("q")


def test_denial_reason_is_sent() -> None:
    answers: list[ChatCommand | None] = []
    dialog = ApprovalDialog(make_request("ls"), answers.append)
    dialog.on_key("n")
    dialog.submit_text(" not that ")
    assert (answers, dialog.text_request) == ([Approve("q", "deny", "not that")], None)


PICKER = Picker(
    "Models",
    (
        Choice("openai:gpt-5", "/model openai:gpt-5", "ready", current=True),
        Choice("openai:gpt-5.1-codex", "/model openai:gpt-5.1-codex", "ready"),
        Choice("ollama:qwen", "/model ollama:qwen", "down"),
    ),
)


def test_position_in_a_long_list_is_never_cut() -> None:
    dialog = PickerDialog(Picker("Sessions", tuple([Choice("word " * i, "/x") for i in range(30)])), lambda _: None)
    for row in range(30):
        lines = render(dialog, 40, 12).splitlines()
        assert lines[-1].endswith(f"  {row + 1} of 30")
        assert all(width(line) < 40 for line in lines)
        dialog.on_key("down")


@pytest.mark.covers("CLI-09")
def test_typing_filters_a_picker() -> None:
    answers: list[ChatCommand | None] = []
    dialog = PickerDialog(PICKER, answers.append)
    assert "openai:gpt-5          (current) ready\n" in render(dialog)
    assert "ollama:qwen           down\n" in render(dialog)
    for key in ("5", ".", "1", "space", "c", "x", "backspace"):
        assert dialog.on_key(key)
    assert render(dialog) == "Models\nFilter: 5.1 c\n>    openai:gpt-5.1-codex  ready\n"
    dialog.on_key("x")
    dialog.on_key("enter")
    assert "No matches" in render(dialog)
    assert answers == []
    dialog.go_back()
    assert render(dialog).count("\n") == 6
    dialog.on_key("q")
    dialog.on_key("enter")
    assert answers == [Slash("/model ollama:qwen")]
    dialog = PickerDialog(PICKER, answers.append)
    dialog.go_back()
    assert answers[1:] == [None]


SESSIONS = Picker(
    "Sessions",
    (
        Choice(
            "fix the tests", "/resume a", "2 hours ago, 3 prompts; a", preview="> fix the tests\n> and the docs\nDone."
        ),
        Choice(
            "plan a trip", "/resume b", "yesterday, 1 prompt; b", preview="> plan a trip to the mountains\nTake boots."
        ),
    ),
)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_picker_shows_and_searches_the_preview_of_the_selected_entry(columns: int) -> None:
    dialog = PickerDialog(SESSIONS, lambda _: None)
    shown = render(dialog, columns)
    assert shown.endswith("  2 hours ago, 3 prompts; a\n  > fix the tests\n  > and the docs\n  Done.\n")
    dialog.on_key("down")
    assert render(dialog, columns).endswith(
        "  yesterday, 1 prompt; b\n  > plan a trip to the mountains\n  Take boots.\n"
    )
    for key in "docs":
        dialog.on_key(key)
    shown = render(dialog, columns)
    assert shown.endswith("  > and the docs\n")
    assert "plan a trip" not in shown
    assert all(len(line) < columns for line in shown.splitlines())
    assert "> and the docs" not in render(dialog, columns, 6)  # the list has precedence


CHOICES = """\
Run this command?
  npm test
  no rule allows it
> y  Yes
  s  Yes, and don't ask again this session
  a  Yes, and always allow `shell(npm test)` in this project
  g  Yes, and always allow `shell(npm test)` in every project
  e  Edit arguments...
  n  No, and tell the agent what to do instead
  x  No, and never allow `shell(npm test)` in this project
"""

NARROW = """\
Edit src/app.py?
  no rule allows it
> y  Yes
  s  Yes, and don't ask again this
     session
  f  Yes, and allow all edits in this
     project this session
  a  Yes, and always allow
     `edit(src/app.py)` in this project
  e  Edit arguments...
  n  No, and tell the agent what to do
     instead
  x  No, and never allow
     `edit(src/app.py)` in this project
"""


def test_approval_choices_name_their_scope_at_any_width() -> None:
    command = make_request("npm test", "npm test: no rule allows it", suggestions=("shell(npm test)",))
    edit = {"tool": "edit", "display": "Edit", "action": "write", "is_edit": True}
    change = make_request("src/app.py", "src/app.py: no rule allows it", suggestions=("edit(src/app.py)",), **edit)
    assert render(ApprovalDialog(command, lambda _: None), 80) == CHOICES
    assert render(ApprovalDialog(change, lambda _: None), 40) == NARROW
    low = ApprovalDialog(command, lambda _: None)
    for row in range(7):
        lines = render(low, 40, 9).splitlines()
        assert len(lines) <= 9
        assert lines[-1] == f"  {row + 1} of 7"
        assert sum(line.startswith("> ") for line in lines) == 1
        low.on_key("down")


@pytest.mark.parametrize(("key", "decision"), [("a", "always"), ("g", "everywhere"), ("x", "never")])
def test_each_rule_scope_is_a_separate_decision(key: str, decision: Any) -> None:
    answers: list[ChatCommand | None] = []
    ApprovalDialog(make_request("npm test", suggestions=("shell(npm test)",)), answers.append).on_key(key)
    assert answers == [Approve("q", decision, rule="shell(npm test)")]


@pytest.mark.parametrize(
    "rule", ["shell(./deploy.sh)", "shell(bash deploy.sh *)", "shell(python tool.py)", "edit(a.py)"]
)
def test_rule_for_a_project_file_is_not_offered_globally(rule: str) -> None:
    dialog = ApprovalDialog(make_request("x", suggestions=(rule,)), lambda _: None)
    assert "in this project" in render(dialog, 120)
    assert "every project" not in render(dialog, 120)
    assert not dialog.on_key("g")


def test_text_request_shows_its_label() -> None:
    dialog = ApprovalDialog(make_request("ls", choices=choices_for()), lambda _: None)
    dialog.on_key("n")

    assert "Tell the agent what to do instead" in render(dialog)


async def test_theme_is_previewed_and_restored(tmp_path: Path) -> None:
    choices = tuple([Choice(name, f"/theme {name}") for name in ("dark", "high-contrast", "color-blind")])
    picker = Picker("Theme", choices, preview="theme")
    async with open_tui(tmp_path, COLORFGBG="15;0") as tui:
        for key, command in (("\x1b", None), ("\r", Slash("/theme color-blind"))):
            before = tui.session.screen.look
            tui.chat.publish(chat_events.CommandEnd("1", "theme", picker))
            await tui.wait_for(lambda: "+ added  - removed" in tui.drawn)
            tui.keys("\x1b[B")
            await tui.wait_for(lambda: tui.session.screen.look.theme == "high-contrast")
            tui.keys("\x1b[B")
            await tui.wait_for(lambda: tui.session.transcript.look.theme == "color-blind")
            await tui.wait_for(lambda: "38;5;" in tui.raw)  # a color of this theme
            tui.keys(key)
            await tui.wait_for(lambda: "Theme" not in tui.drawn)
            if command is None:
                assert tui.session.screen.look == before
            else:
                assert await tui.next_command(Slash) == command
        tui.chat.publish(chat_events.CommandEnd("2", "theme", UiSetting("theme", "light")))
        await tui.wait_for(lambda: "Theme set to light." in tui.written)
        assert tui.session.screen.look.light


async def test_theme_can_change_while_a_response_streams(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(run_events.AgentStart("r"), make.text("some text\nwithout an end"))
        await tui.wait_for(lambda: "without an end" in tui.drawn)
        tui.session.set_theme(detect_theme({"TERM": "xterm"}, "utf-8", "light"))
        assert "without an end" in tui.drawn


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_options_of_a_question_are_shown_whole(columns: int) -> None:
    options = (
        Option(
            "a",
            "Rewrite the parser with a table of states",
            "Takes longer, but covers all the sequences of the kitty protocol",
        ),
        Option("b", "Keep the parser", ""),
    )
    for multiple in (False, True):
        dialog = QuestionDialog(QuestionRequest("q", "ask", "How?", options=options, multiple=multiple), lambda _: None)
        shown = "".join(f"{to_text([row])}" for row in dialog.rows(columns, 20))
        joined = " ".join(shown.split())
        assert "Rewrite the parser with a table of states" in joined
        assert "Takes longer, but covers all the sequences of the kitty protocol" in joined
        assert shown.count("[ ]") == (3 if multiple else 0)
        assert all(len(line) < columns for line in shown.splitlines())


@pytest.mark.parametrize("key", ["n", "r"])
def test_rejecting_with_a_reason_opens_a_labeled_field(key: str) -> None:
    dialog = ApprovalDialog(make_request("npm test"), lambda _: None)
    dialog.on_key(key)
    assert dialog.text_request is not None
    for columns in (40, 80, 200):
        shown = to_text(dialog.rows(columns, 20))
        assert "Tell the agent what to do instead" in " ".join(shown.split())
        assert "Enter to send; leave empty to only deny" in " ".join(shown.split())
        assert all(len(line) < columns for line in shown.splitlines())
