"""Messages that show a shell command of the user to the model."""

import pytest

from mainspring.app.chat.shell_messages import ShellMessage, parse_shell_message


@pytest.mark.parametrize(
    "ran",
    [
        ShellMessage("ls", "a\nb"),
        ShellMessage("true", ""),
        ShellMessage("false", "", 1),
        ShellMessage("make", "[exit code 1]\n</shell>", -9),
        ShellMessage("sleep 60", "", stopped=True),
        ShellMessage("sleep 60", "begun", stopped=True),
    ],
)
def test_message_can_be_parsed(ran: ShellMessage) -> None:
    assert parse_shell_message(ran.to_text()) == ran


@pytest.mark.parametrize(
    "text", ["", "I ran a command:\n\n<shell>\n$ ls", "I ran a command:\n\n<shell>\nls\n</shell>", "ls"]
)
def test_other_text_is_not_parsed(text: str) -> None:
    assert parse_shell_message(text) is None
