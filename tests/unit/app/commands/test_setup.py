"""The questions of ``mainspring config init`` check their answers."""

import getpass
import io
import sys

import pytest

from mainspring.app.cli.console import Console
from mainspring.app.commands import setup
from mainspring.app.providers.setup import SetupAnswers, find_answer_problem
from tests.e2e.servers.chat import ChatServer


@pytest.mark.parametrize(
    ("provider", "setting", "value", "problem"),
    [
        ("openai", "apiKey", "sk-proj-abc", ""),
        ("openai", "apiKey", '"sk-abc"', "The key contains blanks, quotes"),
        ("openai", "apiKey", "OPENAI_API_KEY = sk-abc", "The key contains blanks"),
        ("openai", "apiKey", "sk-ant-abc", "The key has the format of anthropic, not of openai."),
        ("anthropic", "apiKey", "sk-abc", "The key has the format of openai, not of anthropic."),
        ("groq", "apiKey", "gsk_abc", ""),
        ("compatible", "apiKey", "sk-ant-abc", ""),
        ("compatible", "baseUrl", "localhost:8000/v1", "'localhost:8000/v1' is not an address."),
        ("compatible", "baseUrl", "http://127.0.0.1:1/v1", "Nothing answers at http://127.0.0.1:1/v1: "),
        ("anthropic", "model", "claude-sonnet-5-5", ""),
        ("anthropic", "model", "claude-sonet-5-5", "Unknown model of anthropic: claude-sonet-5-5. Did you mean"),
        ("compatible", "model", "anything", ""),
    ],
)
async def test_answers_that_seem_wrong_are_reported(provider: str, setting: str, value: str, problem: str) -> None:
    found = await find_answer_problem(provider, setting, value)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


async def test_address_that_answers_is_accepted_and_none_is_contacted_offline() -> None:
    with ChatServer() as server:
        assert await find_answer_problem("compatible", "baseUrl", server.base_url) == ""
    assert await find_answer_problem("compatible", "baseUrl", "http://127.0.0.1:1/v1", offline=True) == ""


def test_answer_is_asked_again_or_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    keys = iter(["sk ant", "sk-ant-good"])
    monkeypatch.setattr(getpass, "getpass", lambda _: next(keys))
    monkeypatch.setattr(sys, "stdin", io.StringIO("claude-sonet-5-5\nn\nclaude-next\ny\nn\n"))
    wizard = SetupAnswers(provider="anthropic", values={}).wizard
    answers = setup._ask_questions(wizard, SetupAnswers(provider="anthropic", values={}), Console(verbose=False))

    assert answers.values == {"model": "claude-next", "apiKey": "sk-ant-good"}
    shown = capsys.readouterr().err
    assert shown.count("Keep it anyway? (y/N)") == 3
    assert "sk ant" not in shown


def test_wrong_name_and_wrong_choice_are_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda _: "")
    monkeypatch.setattr(sys, "stdin", io.StringIO("http://127.0.0.1:1/v1\nmine\nhttp://127.0.0.1:1/v1\nm\n"))
    compatible = SetupAnswers(provider="compatible", values={})
    answers = setup._ask_questions(compatible.wizard, compatible, Console(verbose=False), offline=True)
    assert answers.provider == "mine"
    assert "'http://127.0.0.1:1/v1' is not a name of a provider." in capsys.readouterr().err

    monkeypatch.setattr(sys, "stdin", io.StringIO("moon\nlocal\n\n\n"))
    foundry = SetupAnswers(provider="foundry", values={})
    answers = setup._ask_questions(foundry.wizard, foundry, Console(verbose=False), offline=True)
    assert answers.values["mode"] == "local"
    asked = capsys.readouterr()
    assert "Choose local or cloud." in asked.err
    assert "Project endpoint" not in asked.err + asked.out, "only a project in the cloud has one"

    monkeypatch.setattr(sys, "stdin", io.StringIO("cloud\n\nhttps://x.example/api/projects/p\n\n"))
    answers = setup._ask_questions(foundry.wizard, foundry, Console(verbose=False), offline=True)
    assert answers.values["projectEndpoint"] == "https://x.example/api/projects/p"
