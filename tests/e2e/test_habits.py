"""The habits of Claude Code users work; see `tests.e2e.habits`."""

import pytest

from tests.e2e.habits import HABITS, Habit
from tests.e2e.terminal import TerminalChat, chat
from tests.requires import on_posix, on_tmux

pytestmark = [pytest.mark.slow, on_posix, on_tmux]

__all__ = ["chat"]


SUPPORTED = [habit for habit in HABITS if habit.is_supported()]


@pytest.mark.parametrize("habit", SUPPORTED, ids=[habit.name for habit in SUPPORTED])
def test_habit_works(chat: TerminalChat, habit: Habit) -> None:
    habit.play(chat)


def test_twenty_habits_are_supported() -> None:
    assert len(SUPPORTED) >= 20
