"""Habits of Claude Code users: keys and commands that they type without thinking, played in a terminal.

`python -m tests.e2e.habits` plays all of them and prints which work.
"""

import base64
import contextlib
import inspect
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

import mainspring
from mainspring.app.cli.arguments import parse_arguments
from mainspring.app.cli.parser import UsageError
from tests.e2e.servers.chat import Reply, Step, call
from tests.e2e.terminal import Terminal, TerminalChat, open_chat

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
_ENDLESS = Reply(text="This never ends ...", stall=True)


class Habit(Struct, frozen=True):
    """A habit.

    Attributes:
        keys: What users type.
        effect: What they expect.
        play: Types it and fails unless the effect is visible.
        is_supported: Returns False if the command does not have what the habit needs.
    """

    keys: str
    effect: str
    play: Callable[[TerminalChat], None]
    is_supported: Callable[[], bool]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.play.__name__


def _is_in_source(text: str) -> Callable[[], bool]:
    """Return a check for a text in the source of the chat."""
    folder = Path(mainspring.__file__).parent / "app"
    return lambda: any(text in path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))


def _has_prompt_argument() -> bool:
    """Return True if the command accepts a prompt as its argument."""
    try:
        parse_arguments(["fix the tests"])
    except UsageError:
        return False
    return True


HABITS: list[Habit] = []


def habit(
    keys: str, effect: str, *, needs: Callable[[], bool] = lambda: True
) -> Callable[[Callable[[TerminalChat], None]], Callable[[TerminalChat], None]]:
    """Add a function to the habits."""

    def add(play: Callable[[TerminalChat], None]) -> Callable[[TerminalChat], None]:
        HABITS.append(Habit(keys, effect, play, needs))
        return play

    return add


def _last_prompt(chat: TerminalChat) -> str:
    content = chat.server.requests[-1]["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content)


def _status(terminal: Terminal) -> str:
    return terminal.screen().splitlines()[-1]


def _run(terminal: Terminal, prompt: str, response: str) -> None:
    terminal.send(prompt)
    terminal.wait(response)
    terminal.wait_gone("Esc to stop")


@habit("Shift-Tab", "cycles default, accept edits, plan; edits are accepted, commands still ask")
def shift_tab_cycles_the_modes(chat: TerminalChat) -> None:
    steps: list[Step] = [call("write_file", path="a.txt", content="a"), call("shell", command="touch ran"), "Done."]
    terminal = chat.begin(script=steps)
    for mode in ("accept edits", "plan mode"):
        terminal.keys("BTab")
        terminal.wait(lambda _, mode=mode: mode in _status(terminal))
    terminal.keys("BTab")
    terminal.wait(lambda _: "plan mode" not in _status(terminal))
    terminal.keys("BTab")
    terminal.wait(lambda _: "accept edits" in _status(terminal))
    terminal.send("go")
    terminal.wait("Run this command?")
    assert (terminal.folder / "a.txt").read_text() == "a"
    terminal.answer("Escape")


@habit("Esc", "interrupts the response and leaves what arrived")
def escape_interrupts(chat: TerminalChat) -> None:
    terminal = chat.begin(script=[_ENDLESS])
    terminal.send("go")
    terminal.wait("This never ends")
    terminal.keys("Escape")
    assert "This never ends" in terminal.wait("Stopped")


@habit("Esc Esc", "edits an earlier prompt; the conversation continues from before it")
def escape_twice_edits_an_earlier_prompt(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One.", "Two.", "Three."])
    _run(terminal, "first prompt", "One.")
    _run(terminal, "second prompt", "Two.")
    terminal.keys("Escape")
    terminal.wait("Press Esc again to edit an earlier prompt")
    terminal.keys("Escape")
    terminal.wait("Edit an earlier prompt")
    terminal.keys("Down", "Enter")
    terminal.wait(lambda screen: "\n> first prompt\n" in screen and "Rewound" in screen)
    terminal.keys("End")
    terminal.send(" again")
    terminal.wait("Three.")
    assert _last_prompt(chat) == "first prompt again"
    assert "second prompt" not in str(chat.server.requests[-1])


@habit("Ctrl-R", "searches earlier inputs, also of earlier sessions")
def control_r_searches_the_history(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One."])
    _run(terminal, "a prompt about needles", "One.")
    chat.end()
    terminal = chat.begin(script=["Two."])
    terminal.keys("C-r")
    terminal.wait("Earlier inputs")
    terminal.run("send-keys", "-l", "needle")
    terminal.wait("Filter: needle")
    terminal.keys("Enter")
    terminal.wait("> a prompt about needles")
    terminal.keys("Enter")
    terminal.wait("Two.")


@habit("Up", "recalls the previous prompt")
def up_recalls_the_previous_prompt(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One."])
    _run(terminal, "hello there", "One.")
    terminal.keys("Up")
    terminal.wait(lambda screen: screen.count("> hello there") == 2)


@habit("/btw QUESTION", "answers a side question during a run; the conversation stays unchanged")
def side_question_during_a_run(chat: TerminalChat) -> None:
    steps: list[Step] = [call("shell", command="while [ ! -e go ]; do sleep 0.05; done"), "Forty-two.", "Done."]
    terminal = chat.begin("--allow", "'shell(*)'", script=steps)
    terminal.send("go")
    terminal.wait("Running Shell")
    terminal.send("/btw how many?")
    screen = terminal.wait("Forty-two.")
    assert "Side question: how many?" in screen
    (terminal.folder / "go").touch()
    terminal.wait("Done.")
    assert "how many?" not in str(chat.server.requests[-1])


@habit("!COMMAND", "runs a shell command and shows its output to the model")
def exclamation_mark_runs_a_command(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["I see."])
    terminal.send("!echo out-$((40 + 2))")
    terminal.wait("out-42")
    _run(terminal, "what was it?", "I see.")
    assert "out-42" in str(chat.server.requests[-1]["messages"])


@habit("@FILE Tab", "completes and attaches a file")
def at_sign_attaches_a_file(chat: TerminalChat) -> None:
    (chat.terminal.folder / "needle.py").write_text("x = 42\n")
    terminal = chat.begin(script=["I see."])
    terminal.type("read @need")
    terminal.wait("needle.py")
    terminal.keys("Tab")
    terminal.wait("@needle.py")
    terminal.keys("Enter")
    terminal.wait("I see.")
    assert "x = 42" in _last_prompt(chat)


@habit("Ctrl-V", "attaches the image in the clipboard")
def control_v_attaches_an_image(chat: TerminalChat) -> None:
    programs = chat.terminal.folder.parent / "programs"
    programs.mkdir()
    (programs / "image.png").write_bytes(PNG)
    (programs / "wl-paste").write_text(f"#!/bin/sh\ncat {programs / 'image.png'}\n")
    (programs / "wl-paste").chmod(0o755)
    chat.command = f"WAYLAND_DISPLAY=w PATH={programs}:$PATH {chat.command}"
    terminal = chat.begin(script=["A dot."])
    terminal.keys("C-v")
    terminal.wait("> [Image 1]")
    terminal.send(" what is it?")
    terminal.wait("A dot.")
    assert "data:image/png;base64," in _last_prompt(chat)


@habit("\\ Enter", "inserts a new line")
def backslash_enter_inserts_a_line(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["I see."])
    terminal.type("one\\")
    terminal.keys("Enter")
    terminal.wait("> one\n")
    terminal.send("two")
    terminal.wait("I see.")
    assert _last_prompt(chat) == "one\ntwo"


@habit("text, Enter during a run", "steers the agent")
def typing_during_a_run_steers(chat: TerminalChat) -> None:
    steps: list[Step] = [call("shell", command="while [ ! -e go ]; do sleep 0.05; done"), "To the left."]
    terminal = chat.begin("--allow", "'shell(*)'", script=steps)
    terminal.send("go")
    terminal.wait("Running Shell")
    terminal.send("turn left")
    terminal.wait("steering: turn left")
    (terminal.folder / "go").touch()
    terminal.wait("To the left.")
    assert "turn left" in str(chat.server.requests[-1]["messages"])


@habit("Ctrl-O", "shows collapsed output in full")
def control_o_shows_the_output(chat: TerminalChat) -> None:
    terminal = chat.begin("--allow", "'shell(*)'", script=[call("shell", command="seq 1 30"), "Done."])
    _run(terminal, "count", "Done.")
    terminal.keys("C-o")
    terminal.wait(lambda _: "\n    7\n" in terminal.full_output())


@habit("/model", "lists the models, to choose one")
def model_command_lists_models(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.send("/model")
    terminal.wait("(current)")
    terminal.keys("Escape")


@habit("/clear", "starts a new conversation")
def clear_starts_a_new_conversation(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One.", "Two."])
    _run(terminal, "first prompt", "One.")
    terminal.send("/clear")
    terminal.wait(lambda _: True)
    _run(terminal, "second prompt", "Two.")
    assert "first prompt" not in str(chat.server.requests[-1])


@habit("/cost, /context", "show what was spent and what fills the window")
def cost_and_context_are_shown(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One."])
    _run(terminal, "hello", "One.")
    terminal.send("/cost")
    terminal.wait("total")
    terminal.send("/context")
    terminal.wait("system prompt")


@habit("/vim", "edits the input with vim keys; the mode is shown")
def vim_command_changes_the_keys(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One."])
    terminal.send("/vim")
    terminal.wait(lambda _: _status(terminal).startswith("INSERT"))
    terminal.type("hello world")
    terminal.keys("Escape")
    terminal.wait(lambda _: _status(terminal).startswith("NORMAL"))
    terminal.run("send-keys", "-l", "0cw")
    terminal.wait(lambda _: _status(terminal).startswith("INSERT"))
    terminal.type("goodbye")
    terminal.keys("Enter")
    terminal.wait("One.")
    assert _last_prompt(chat) == "goodbye world"


@habit("/theme", "previews themes while the selection moves")
def theme_command_previews(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.send("/theme")
    terminal.wait("+ added")
    terminal.keys("Down", "Down", "Down", "Down")
    terminal.wait(lambda screen: "> " in screen and "color-blind" in screen and "38;5;" in terminal.styled())
    terminal.keys("Enter")
    terminal.wait("Theme set to color-blind.")


def _edit(chat: TerminalChat, *keys: str) -> None:
    editor = chat.terminal.folder.parent / "editor"
    editor.write_text('#!/bin/sh\nprintf "edited text" > "$1"\n')
    editor.chmod(0o755)
    chat.command = f"VISUAL={editor} {chat.command}"
    terminal = chat.begin()
    terminal.type("draft")
    terminal.keys(*keys)
    terminal.wait("> edited text")


@habit("Ctrl-G", "opens the editor with the text")
def control_g_opens_the_editor(chat: TerminalChat) -> None:
    _edit(chat, "C-g")


@habit("--continue", "continues the last session of the folder")
def continue_flag_resumes(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One."])
    _run(terminal, "remember me", "One.")
    chat.end()
    terminal = chat.begin("--continue", script=["Two."])
    _run(terminal, "and now?", "Two.")
    assert "remember me" in str(chat.server.requests[-1])


@habit("Ctrl-C Ctrl-C", "exits")
def control_c_twice_exits(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.keys("C-c")
    terminal.wait("Press Ctrl-C again to exit")
    terminal.keys("C-c")
    terminal.wait("ready$")


@habit("/exit", "exits", needs=_is_in_source('name="exit"'))
def exit_command_exits(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("/exit")
    terminal.keys("Enter")
    terminal.wait("ready$")


@habit('mainspring "PROMPT"', "opens a chat with a first prompt", needs=_has_prompt_argument)
def argument_is_the_first_prompt(chat: TerminalChat) -> None:
    chat.begin("'fix the tests'", script=["Fixed."]).wait("Fixed.")
    assert _last_prompt(chat) == "fix the tests"


@habit("/init", "asks the agent to write AGENTS.md", needs=_is_in_source('name="init"'))
def init_command_writes_instructions(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["Written."])
    _run(terminal, "/init", "Written.")
    assert "AGENTS.md" in str(chat.server.requests[-1]["messages"][-1])


@habit(
    "Ctrl-B, /jobs",
    "moves a running command to the background and lists it",
    needs=_is_in_source('"background", (("c-b",)'),
)
def control_b_moves_a_command_to_the_background(chat: TerminalChat) -> None:
    terminal = chat.begin("--allow", "'shell(*)'", script=[call("shell", command="sleep 600"), "It runs."])
    terminal.send("go")
    terminal.wait("Running Shell")  # the call is shown before that
    terminal.keys("C-b")
    terminal.wait("It runs.")
    terminal.send("/jobs")
    terminal.wait(lambda screen: re.search("job1 +running for .* sleep 600", screen) is not None)


@habit("?", "shows the keys and the commands")
def question_mark_shows_help(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("?")
    terminal.keys("Enter")
    terminal.wait("Attach a file")
    assert "Shift-Tab" in terminal.full_output()
    assert not chat.server.requests


@habit("# NOTE", "adds a note to the memory")
def number_sign_adds_a_note(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("# always use tabs")
    terminal.keys("Enter")
    terminal.wait("Remembered in")
    assert "always use tabs" in (terminal.folder / ".agent" / "MEMORY.md").read_text()
    assert not chat.server.requests


@habit("Ctrl-C", "clears the input; Up brings it back")
def control_c_clears_the_input(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("a draft")
    terminal.keys("C-c")
    terminal.wait(lambda screen: ">" in screen.split("\n"))
    terminal.keys("Up")
    terminal.wait("> a draft")


@habit("Up, Down", "from a draft of several lines to earlier inputs and back")
def up_and_down_keep_a_draft(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["One."])
    _run(terminal, "hello there", "One.")
    terminal.type("first line")
    terminal.keys("M-Enter")
    terminal.type("second line")
    terminal.keys("Up", "Up")
    terminal.wait(lambda screen: screen.count("> hello there") == 2)
    terminal.keys("Down")
    terminal.wait("> first line\n  second line")


@habit("Ctrl-W, Ctrl-Y", "removes a word and inserts it again")
def kill_ring_inserts_removed_text(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("two words")
    terminal.keys("C-w", "C-a", "C-y")
    terminal.wait("> wordstwo")


@habit("Shift-Enter, Alt-Enter", "insert a new line")
def modified_enter_inserts_a_line(chat: TerminalChat) -> None:
    terminal = chat.begin(script=["I see."])
    terminal.type("one")
    terminal.keys("M-Enter")
    terminal.type("two")
    terminal.run("send-keys", "-H", *(f"{byte:x}" for byte in b"\x1b[13;2u"))
    terminal.type("three")
    terminal.wait("> one\n  two\n  three")


@habit("Ctrl-X Ctrl-E", "opens the editor with the text")
def control_x_control_e_opens_the_editor(chat: TerminalChat) -> None:
    _edit(chat, "C-x", "C-e")


@habit("Ctrl-Z, fg", "suspends and resumes with the draft")
def control_z_suspends(chat: TerminalChat) -> None:
    terminal = chat.terminal
    terminal.send("set -m")
    chat.begin()
    terminal.type("a draft")
    terminal.keys("C-z")
    terminal.wait(lambda screen: screen.rstrip().endswith("ready$"))
    terminal.send("fg")
    terminal.wait("> a draft")


@habit("Ctrl-L", "redraws the screen and leaves the draft")
def control_l_redraws(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("a draft")
    terminal.keys("C-l")
    terminal.wait("> a draft")


@habit("Ctrl-D", "exits with an empty input, and never with a draft")
def control_d_exits_without_a_draft(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.type("a draft")
    terminal.keys("C-d")
    terminal.type(" stays")
    terminal.wait("> a draft stays")
    terminal.keys("C-u", "C-d")
    terminal.wait("ready$")


@habit("Alt-Up during a run", "edits a queued message")
def queued_message_can_be_edited(chat: TerminalChat) -> None:
    terminal = chat.begin("--allow", "'shell(*)'", script=[call("shell", command="sleep 600"), "Done.", "Later."])
    terminal.send("go")
    terminal.wait("Running Shell")
    terminal.type("later")
    terminal.keys("Tab")
    terminal.wait("queued: later")
    terminal.keys("M-Up")
    terminal.wait("e later")
    terminal.send(" on")
    terminal.wait("queued: later on")


@habit("/resume, /mcp, /permissions, /export, /memory", "each answers")
def commands_of_claude_code_answer(chat: TerminalChat) -> None:
    terminal = chat.begin()
    for command, answer in (
        ("/mcp", "mainspring mcp add"),
        ("/permissions", "No rules yet"),
        ("/export", "Saved to"),
        ("/memory", "MEMORY.md"),
        ("/usage", "Use /cost."),
        ("/doctor", "mainspring check"),
        ("/resume", "Sessions"),
    ):
        terminal.send(command)
        terminal.wait(answer)


@habit("paste of 12 MB", "is refused with a reason; the text stays")
def large_paste_stays_in_the_input(chat: TerminalChat) -> None:
    terminal = chat.begin()
    terminal.paste("0123456789 abc\n" * 800_000)
    terminal.wait("[pasted 800001 lines]")
    terminal.keys("Enter")
    screen = terminal.wait("The message was not sent: it is 12.0 MB long")
    assert "\n> [pasted 800001 lines]" in screen


def main() -> int:
    """Play all habits and print which work. Return the exit code."""
    failed = 0
    for each in HABITS:
        if not each.is_supported():
            sys.stdout.write(f"not yet  {each.keys:24} {each.effect}\n")
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "home"
            home.mkdir()
            try:
                with contextlib.contextmanager(open_chat)(Path(folder), home) as chat:
                    each.play(chat)
            except AssertionError as error:
                failed += 1
                sys.stdout.write(f"FAILS    {each.keys:24} {each.effect}\n{inspect.cleandoc(str(error))}\n")
                continue
        sys.stdout.write(f"works    {each.keys:24} {each.effect} ({time.monotonic() - started:.1f}s)\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
