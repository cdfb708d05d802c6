"""The command warns when a limit is near."""

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import call

__all__ = ["command"]


@pytest.mark.covers("BYD-20", "SEC-11")
@pytest.mark.parametrize(
    ("limit", "warning"),
    [
        (["--max-turns", "5"], "4 of 5 turns used. The run stops at the limit."),
        (["--max-total-tokens", "1000000"], ""),
    ],
)
def test_command_warns_once_when_a_limit_is_near(command: Command, limit: list[str], warning: str) -> None:
    command.server.script += [call("list_files")] * 5 + ["done"]

    done = command.run("-p", "x", *limit)

    assert done.code == (3 if warning else 0)
    assert done.err.count(warning or "are used") == (1 if warning else 0)


@pytest.mark.covers("BYD-20", "SEC-11")
def test_json_line_warns_once_when_a_limit_is_near(command: Command) -> None:
    command.server.script += [call("list_files")] * 5 + ["done"]

    done = command.run("-p", "x", "--max-turns", "5", "--output", "stream-json")

    warnings = [line for line in done.lines if line["type"] in {"notice", "limit_warning"} and "limit" in str(line)]
    assert warnings == [{"type": "limit_warning", "limit": "max_turns", "scope": "run", "spent": 4.0, "max": 5.0}]
