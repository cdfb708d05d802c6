"""The environment variables of child processes."""

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
def test_variables_of_this_program_are_removed(name: str) -> None:
    assert child_environment({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "OPENAI_BASE_URL", "MY_API_KEY", "AWS_SECRET_ACCESS_KEY", "VIRTUAL_ENV"]
)
def test_variables_of_the_user_are_kept(name: str) -> None:
    assert child_environment({name: "x"}) == {name: "x"}


def test_library_path_of_a_bundler_is_restored() -> None:
    found = child_environment({"LD_LIBRARY_PATH": "/bundle", "LD_LIBRARY_PATH_ORIG": "/users"})
    assert found == {"LD_LIBRARY_PATH": "/users"}


def test_additional_variables_can_be_hidden() -> None:
    assert child_environment({"A": "1", "B": "2"}, ["A"]) == {"B": "2"}
