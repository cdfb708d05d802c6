"""Which variables programs get."""

import pytest

from mainspring.env.variables import child_environment


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "AZURE_OPENAI_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "CEREBRAS_API_KEY",
        "MAINSPRING_HOME",
        "MAINSPRING_TOKEN",
        "_MEIPASS2",
    ],
)
def test_what_belongs_to_this_program_is_left_out(name: str) -> None:
    assert child_environment({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "OPENAI_BASE_URL", "MY_API_KEY", "AWS_SECRET_ACCESS_KEY", "VIRTUAL_ENV"]
)
def test_what_belongs_to_the_user_stays(name: str) -> None:
    assert child_environment({name: "x"}) == {name: "x"}


def test_a_bundlers_library_path_is_put_back() -> None:
    found = child_environment({"LD_LIBRARY_PATH": "/bundle", "LD_LIBRARY_PATH_ORIG": "/users"})
    assert found == {"LD_LIBRARY_PATH": "/users"}


def test_more_can_be_hidden() -> None:
    assert child_environment({"A": "1", "B": "2"}, ["A"]) == {"B": "2"}
