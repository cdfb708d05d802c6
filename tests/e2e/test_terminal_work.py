"""A complete task in a real terminal."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.servers.chat import Reply, Step, call
from tests.e2e.terminal import Terminal, TerminalChat, chat
from tests.requires import on_posix, on_tmux

pytestmark = [pytest.mark.slow, on_posix, on_tmux]

__all__ = ["chat"]

ANSWER = """# Plan

The file needs **two** changes:

1. the first line
2. the last line

```python
def main():
    return 1
```

| what | where |
|------|-------|
| one  | top   |
| two  | end   |

That is all."""

SHOWN = """Plan

The file needs two changes:

 1. the first line
 2. the last line

  def main():
      return 1

 what  where
 -----------
 one   top
 two   end

That is all."""

LINES = "".join(f"{'twice' if i in {1, 39} else 'line'} {i}\n" for i in range(40))


def test_task_with_streaming_approval_and_edit(chat: TerminalChat) -> None:
    file = chat.terminal.folder / "code.txt"
    file.write_text(LINES)
    edits = [{"old_string": f"twice {i}\n", "new_string": f"once {i}\n"} for i in (1, 39)]
    script = [
        Reply(text=ANSWER, pieces=60, delay=0.01),
        call("shell", command="for i in 1 2 3 4 5 6 7 8 9; do echo row-$i; done; touch made"),
        call("read_file", path="code.txt"),
        call("multi_edit", path="code.txt", edits=edits),
        "Both are made.",
    ]
    terminal = chat.begin(script=script)

    terminal.send("What is to be done?")
    screen = terminal.wait("That is all.")
    assert f"> What is to be done?\n\n{SHOWN}" in screen
    terminal.wait_gone("Esc to stop")
    assert terminal.full_output().count("def main():") == 1

    terminal.send("Do it")
    screen = terminal.wait("Run this command?")
    assert "> y  Yes\n  s  Yes, and don't ask again this session\n" in screen
    terminal.answer("y")
    screen = terminal.wait("Edit code.txt?")
    assert "... 4 more lines (Ctrl-O to show)" in terminal.full_output()
    for row in ("  1   line 0", "  2 - twice 1", "  2 + once 1", "  40 - twice 39", "  40 + once 39"):
        assert row in terminal.full_output(), terminal.full_output()
    terminal.answer("h")
    terminal.wait("Change 1 of 2: >[x] [x]")
    terminal.keys("n")
    terminal.wait("Change 2 of 2: [ ] >[x]")
    terminal.keys("Enter")
    terminal.wait("Both are made.")
    terminal.wait_gone("Esc to stop")
    assert file.read_text() == LINES.replace("twice 39", "once 39")
    assert "1 of 2 changes applied" in terminal.full_output()

    terminal.keys("C-o")
    terminal.wait("(end of file")
    terminal.keys("C-o")
    terminal.wait("row-1\n")
    chat.end()


def test_key_typed_as_an_approval_appears_goes_to_the_input(chat: TerminalChat) -> None:
    questions = 6  # a machine that stalls for half a second needs another try
    terminal = chat.begin(script=[*[call("shell", command=f"touch ran-{i}") for i in range(questions)], "Done."])
    terminal.send("Do it")
    for _ in range(questions):
        terminal.wait("Run this command?")
        terminal.keys("y")
        screen = terminal.wait(lambda shown: "> y\n" in shown or "Run this command?" not in shown)
        if "> y\n" in screen:
            break
    assert "Run this command?" in terminal.screen()
    terminal.answer("Escape")
    terminal.keys("C-u")


def test_steering_and_queued_messages_are_sent(chat: TerminalChat) -> None:
    script = [
        call("shell", command="sleep 30 & wait"),
        "I went to the left.",
        "And the sum is 3.",
    ]
    terminal = chat.begin("--allow", "'shell(*)'", script=script)
    terminal.send("Go")
    terminal.wait("Running Shell")
    terminal.send("to the left")
    terminal.wait("steering: to the left")
    terminal.type("what is the difference")
    terminal.keys("Tab")
    terminal.wait("queued: what is the difference")
    terminal.keys("M-Up")
    terminal.wait("e what is the difference")
    terminal.keys("C-w")
    terminal.send("sum")
    terminal.wait("queued: what is the sum")

    terminal.keys("Escape")
    terminal.wait("Stopped")
    terminal.wait("Queue paused: Enter to send the first")
    terminal.keys("Enter")
    terminal.wait("I went to the left.")
    terminal.wait("And the sum is 3.")
    chat.end()


def test_stopped_session_can_be_resumed(chat: TerminalChat) -> None:
    script = ["I go.", Reply(text="This never ends ...", stall=True)]
    terminal = chat.begin(script=script)
    terminal.send("Go")
    terminal.wait("I go.")
    terminal.wait_gone("Esc to stop")
    terminal.send("never mind")
    terminal.wait("This never ends ...")
    terminal.keys("C-c")
    terminal.wait("Stopped")
    terminal.wait_gone("Esc to stop")
    chat.end()
    assert "Resume this session with: mainspring -c, or mainspring --session " in terminal.screen()

    terminal = chat.begin("--continue", script=["Here we are again."])
    screen = terminal.screen()
    assert "> Go" in terminal.full_output()
    assert "This never ends ..." in screen
    terminal.send("go on")
    terminal.wait("Here we are again.")
    messages = [m["content"] for m in chat.server.requests[-1]["messages"] if m["role"] == "user"]
    assert "never mind" in str(messages)
    terminal.wait_gone("Esc to stop")
    terminal.keys("C-c")
    terminal.wait("Press Ctrl-C again to exit")
    terminal.keys("C-c")
    terminal.wait("ready$")


def test_large_paste_prompt_history_and_resizing(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["Read it all.", Reply(text=ANSWER, pieces=80, delay=0.02), "narrow"])
    text = "\n".join(f"row {i}" for i in range(5000))
    terminal.type("look at ")
    terminal.paste(text)
    terminal.wait("> look at [pasted 5000 lines]")
    terminal.keys("Enter")
    terminal.wait("Read it all.")
    messages = chat.server.requests[-1]["messages"][-1]["content"]
    assert (messages if isinstance(messages, str) else messages[0]["text"]) == f"look at {text}"
    assert "row 4999" not in terminal.screen()

    terminal.paste("one\ntwo\nthree", bracketed=False)
    terminal.wait("> one\n  two\n  three")
    terminal.keys("C-c")
    terminal.wait_gone("three")
    terminal.send("again")
    terminal.wait("The file needs")
    terminal.resize(50, 16)
    terminal.wait("That is all.")
    terminal.resize(24, 10)
    terminal.wait(lambda screen: "openai:test-model" in screen)
    terminal.resize(100, 30)
    terminal.wait_gone("Esc to stop")
    output = terminal.full_output()
    assert output.count("That is all.") == 1, output
    assert output.count("openai:test-model") == 1, output
    terminal.keys("Up")
    terminal.wait("> again")
    terminal.keys("C-c")
    terminal.wait(lambda screen: ">" in screen.split("\n"))  # the input is empty again
    chat.end()


def test_completion_of_commands_and_files(chat: TerminalChat) -> None:
    folder = chat.terminal.folder
    (folder / ".git").mkdir()
    (folder / "src").mkdir()
    (folder / "src" / "needle.py").write_text("x = 1\n")
    (folder / "needle.secret").write_text("hidden")
    (folder / ".gitignore").write_text("*.secret\n")
    terminal = chat.begin(script=["I see."])
    terminal.type("/hel")
    terminal.wait(lambda screen: "/help" in screen.split("> /hel", 1)[-1])
    terminal.keys("Tab")
    terminal.wait("> /help")
    terminal.keys("Enter")
    terminal.wait("Attach a file")
    assert "Ctrl-O                 Show the last collapsed output" in terminal.full_output()
    assert "/model" in terminal.full_output()
    terminal.type("what is in @need")
    screen = terminal.wait("needle.py")
    assert "secret" not in screen.split("what is in")[-1]
    terminal.keys("Tab")
    terminal.wait("@src/needle.py")
    terminal.keys("Enter")
    terminal.wait("I see.")
    assert "x = 1" in str(chat.server.requests[-1]["messages"][-1])
    chat.end()


EXTENSION = """
def extension(api):
    api.register_command("status", lambda arguments, ctx: f"status of {arguments}", description="how it stands")
    api.register_shortcut("alt+j", lambda ctx: ctx.ui.notify("the shortcut was pressed"), description="say so")
"""


def test_extension_commands_shortcuts_and_custom_commands_work(chat: TerminalChat, home: Path) -> None:
    (home / ".agent" / "extensions").mkdir(parents=True)
    (home / ".agent" / "extensions" / "mine.py").write_text(EXTENSION)
    (home / ".agent" / "commands").mkdir()
    (home / ".agent" / "commands" / "shout.md").write_text("---\ndescription: louder\n---\nShout: $ARGUMENTS")
    terminal = chat.begin(script=["HELLO"])
    terminal.type("/stat")
    terminal.wait("how it stands")
    terminal.keys("C-c")
    terminal.wait_gone("/stat")
    terminal.send("/status of things")
    terminal.wait("status of of things")
    terminal.keys("M-j")
    terminal.wait("the shortcut was pressed")
    terminal.send("/shout hello")
    terminal.wait("HELLO")
    assert "Shout: hello" in str(chat.server.requests[-1]["messages"][-1])
    chat.end()


def test_subagents_are_shown_nested_under_their_names(chat: TerminalChat) -> None:
    def step(request: dict[str, Any]) -> Reply:
        """The main agent starts two subagents, each of which runs a command."""
        messages = str(request["messages"])
        child = next(
            (name for name in ("left", "right") if f"look to the {name}" in messages and "Split it" not in messages), ""
        )
        if request["messages"][-1]["role"] == "tool":
            return Reply(f"It is {child}." if child else "Both have looked.")
        if child:
            return call("shell", command=f"echo {child}-2; while [ ! -e go ]; do sleep 0.05; done")
        return Reply(calls=[("spawn", {"task": f"look to the {name}"}) for name in ("left", "right")])

    steps: list[Step] = [step] * 6
    terminal = chat.begin("--allow", "'shell(*)'", script=steps)
    terminal.send("Split it")
    screen = terminal.wait(lambda screen: screen.count("Shell echo") == 2 and "2 subagents" in screen)
    assert "+ subagent 1: look to the left\n+ subagent 2: look to the right\n" in screen
    (terminal.folder / "go").touch()
    screen = terminal.wait("Both have looked.")
    for number, name in ((1, "left"), (2, "right")):
        assert re.search(rf"^  \| (?:subagent {number} )?\* Shell \$ echo {name}", screen, re.M), screen
        assert f"+ subagent {number} done  2 turns, 30 tokens" in screen
        assert f"* Subagent look to the {name}" in screen
        assert f"    It is {name}." in screen
    chat.end()


def test_shift_tab_switches_the_mode_in_the_status_line(chat: TerminalChat) -> None:
    folder = chat.terminal.folder
    script = [call("write_file", path="a.txt", content="a"), call("shell", command="touch ran"), "Done."]
    terminal = chat.begin(script=script)
    assert "sandbox off" in _status(terminal)
    assert "project" in _status(terminal)
    assert "accept edits" not in _status(terminal)
    terminal.keys("BTab")
    terminal.wait(lambda _: "accept edits" in _status(terminal))
    terminal.keys("BTab")
    terminal.wait(lambda _: "plan mode" in _status(terminal))
    terminal.keys("BTab")
    terminal.wait(lambda _: "plan mode" not in _status(terminal) and "accept edits" not in _status(terminal))
    terminal.keys("BTab")
    terminal.wait(lambda _: "accept edits" in _status(terminal))

    terminal.send("Do it")
    terminal.wait("Run this command?")
    assert (folder / "a.txt").read_text() == "a"
    terminal.resize(40, 24)
    screen = terminal.wait("  a  Yes, and always allow `shell(touch\n     ran)` in this project")
    assert all(len(line) <= 40 for line in screen.splitlines())
    assert "test-model" in _status(terminal)
    assert "accept edits" in _status(terminal)
    terminal.resize(80, 24)
    terminal.answer("Escape")
    terminal.wait("Done.")
    assert not (folder / "ran").exists()
    chat.end()


def _status(terminal: Terminal) -> str:
    """Return the last row that is not empty."""
    return terminal.screen().splitlines()[-1]


SCRIPT = "#!/bin/sh\necho $0 >> {canary}\n"


def test_always_allow_applies_to_this_project_only(chat: TerminalChat, tmp_path: Path) -> None:
    project, other, canary = chat.terminal.folder, tmp_path / "other", tmp_path / "canary"
    other.mkdir()
    for folder in (project, other):
        (folder / "deploy.sh").write_text(SCRIPT.format(canary=canary))
        (folder / "deploy.sh").chmod(0o755)
    script = [call("shell", command="./deploy.sh"), "Done."]

    terminal = chat.begin(script=script)
    terminal.send("Deploy")
    screen = terminal.wait("Run this command?")
    assert "a  Yes, and always allow `shell(./deploy.sh)` in this project" in screen
    assert "every project" not in screen
    terminal.answer("a")
    terminal.wait("Done.")
    assert len(canary.read_text().split()) == 1
    chat.end()

    terminal = chat.begin("--cwd", str(other), script=script)
    terminal.send("Deploy")
    terminal.wait("Run this command?")
    terminal.answer("Escape")
    terminal.wait("Done.")
    assert len(canary.read_text().split()) == 1
    chat.end()

    terminal = chat.begin(script=[*script, *script])
    terminal.send("Deploy")
    terminal.wait("Done.")
    assert len(canary.read_text().split()) == 2
    terminal.send("/permissions")
    screen = terminal.wait("1  allow   shell(./deploy.sh")
    assert "this project" in screen
    assert ".agent/grants.json" in screen
    terminal.send("/permissions revoke 1")
    terminal.wait("Revoked for this project: allow shell(./deploy.sh)")
    terminal.send("Deploy again")
    terminal.wait("Run this command?")
    terminal.answer("Escape")
    chat.end()
    assert len(canary.read_text().split()) == 2


def test_paste_into_a_question_is_shown_and_answers_nothing(chat: TerminalChat) -> None:
    terminal = chat.begin(script=[call("shell", command="touch ran"), "Done."])
    terminal.send("go")
    terminal.wait("Run this command?")
    terminal.paste("y\nyes\n")
    terminal.wait(lambda screen: "Your input returns after the question:" in screen and "y yes" in screen)
    terminal.answer("Escape")
    terminal.wait(lambda screen: "\n> y\n  yes" in screen)
    assert not (terminal.folder / "ran").exists()
