"""The habits of Claude Code users work; see `tests.e2e.habits`."""

import pytest

from tests.e2e.habits import HABITS, Habit
from tests.e2e.terminal import TerminalChat, chat
from tests.requires import on_posix, on_tmux

pytestmark = [on_posix, on_tmux]

__all__ = ["chat"]


@pytest.mark.parametrize("habit", HABITS, ids=[habit.name for habit in HABITS])
def test_habit_works(chat: TerminalChat, habit: Habit) -> None:
    if not habit.is_supported():
        pytest.skip(f"{habit.keys} is not supported yet")
    habit.play(chat)
