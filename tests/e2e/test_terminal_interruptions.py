"""After a stop, the model and the user have what arrived, once, in the same chat and in the resumed one."""

from typing import Any

import pytest

from tests.e2e.servers.chat import Reply, Step, call
from tests.e2e.terminal import Terminal, TerminalChat, chat
from tests.requires import on_posix, on_tmux

pytestmark = [on_posix, on_tmux]

__all__ = ["chat"]

COMMAND = "echo half; sleep 60"
NOTE = (
    "[Your response above was interrupted (Stopped by the user) before it was complete; the user saw it up to there.]"
)
OUTPUT = "half\n[interrupted: the run was stopped, and this command with it; the output is partial]"
TYPED = "[interrupted: the user stopped this command; the output is partial]"
SHOWN = """> First

The answer begins here and

Stopped

> second

- Shell $ echo half; sleep 60 stopped
    half
    [interrupted: the run was stopped, and this command with it; the output is
    partial]

Stopped

! echo typed; sleep 60
  typed
  Stopped

> third

Three.
"""


def stop(terminal: Terminal, visible: str) -> None:
    terminal.wait(visible)
    stops = terminal.screen().count("\nStopped\n")
    terminal.keys("Escape")
    terminal.wait(lambda screen: screen.count("\nStopped\n") > stops or "  Stopped\n" in screen)
    terminal.wait_gone("Esc to stop")


def messages(chat: TerminalChat) -> list[tuple[str, Any]]:
    return [(m["role"], m.get("content")) for m in chat.server.requests[-1]["messages"] if m["role"] != "system"]


@pytest.mark.covers("BYD-04", "CLI-02")
def test_stopped_response_and_commands_are_kept(chat: TerminalChat) -> None:
    steps: list[Step] = [Reply("The answer begins here and", stall=True), call("shell", command=COMMAND), "Three."]
    terminal = chat.begin("--allow", "'shell(*)'", script=steps)
    terminal.resize(80, 50)
    terminal.send("First")
    stop(terminal, "begins here and")
    terminal.send("second")
    stop(terminal, "\n    half")
    terminal.send("!echo typed; sleep 60")
    stop(terminal, "\n  typed")
    terminal.send("third")
    terminal.wait("Three.")
    terminal.wait_gone("Esc to stop")
    assert SHOWN in terminal.screen()
    expected = [
        ("user", "First"),
        ("assistant", "The answer begins here and"),
        ("user", NOTE),
        ("user", "second"),
        ("assistant", None),
        ("tool", OUTPUT),
        ("user", f"I ran a command:\n\n<shell>\n$ echo typed; sleep 60\ntyped\n{TYPED}\n</shell>"),
        ("user", "third"),
    ]
    assert messages(chat) == expected
    chat.end()

    chat.begin("--continue", script=["Four."])
    assert SHOWN in terminal.screen()
    terminal.send("fourth")
    terminal.wait("Four.")
    assert messages(chat) == [*expected, ("assistant", "Three."), ("user", "fourth")]
