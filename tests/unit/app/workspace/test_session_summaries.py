"""Summaries of sessions: counts, previews, ages, and titles of forks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Agent, Session
from mainspring.app.workspace.session_summaries import create_fork_title, format_age, summarize_session
from mainspring.sessions import SessionInfo, list_sessions
from mainspring.testing import ScriptedModel

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(seconds=-5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(minutes=59), "59 minutes ago"),
        (timedelta(hours=3), "3 hours ago"),
        (timedelta(days=1, hours=3), "yesterday"),
        (timedelta(days=3), "3 days ago"),
        (timedelta(days=20), "2026-02-18"),
    ],
)
def test_age_is_relative_within_a_week(ago: timedelta, text: str) -> None:
    assert format_age(NOW - ago, NOW) == text


async def test_session_is_summarized_and_forks_get_titles_of_their_own(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    folder.mkdir()
    session = Session.create(folder, home=home)
    agent = Agent(ScriptedModel("Apples.", "Pears\nand plums."), session=session)
    await agent.run("what fruit?")
    await agent.run("and what else?")
    session.close()

    [info] = list_sessions(folder, home=home)
    summary = summarize_session(info)
    assert summary.prompts == 2
    assert summary.preview == "> what fruit?\n> and what else?\nPears and plums."
    assert summarize_session(SessionInfo(id="x", place=str(tmp_path / "x"))).prompts == 0

    titles: list[str] = []
    with Session.open(info.place, home=home) as opened:
        for _ in range(2):
            titles.append(create_fork_title(opened))
            with opened.fork(title=titles[-1]) as fork:
                fork.save()
                titles.append(create_fork_title(fork))
    assert titles == ["what fruit? (fork)", "what fruit? (fork 2)", "what fruit? (fork 2)", "what fruit? (fork 3)"]
