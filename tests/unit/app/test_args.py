"""Parsing of command line arguments."""

import pytest

from mainspring.app.cli.action_arguments import ACTION_ARGUMENTS
from mainspring.app.cli.arguments import COMMANDS, UsageError, parse_arguments, run_parser


def test_run_options_are_parsed() -> None:
    name, options = parse_arguments(
        [
            "-p",
            "do it",
            "--output",
            "json",
            "--max-turns",
            "3",
            "--allow",
            "edit",
            "--allow",
            "shell(git *)",
            "--tools",
            "a, b",
        ]
    )

    assert name == "ask"
    assert (options.prompt, options.output, options.max_turns) == ("do it", "json", 3)
    assert options.allow == ["edit", "shell(git *)"]
    assert options.tools == ("a", "b")


@pytest.mark.parametrize("arguments", [["-p"], ["-p", "-"], ["-p", "--output", "json"]])
def test_prompt_can_come_from_stdin(arguments: list[str]) -> None:
    assert parse_arguments(arguments)[1].prompt == "-"


def test_prompt_can_look_like_an_option_or_a_command() -> None:
    assert parse_arguments(["-p", "check"])[1].prompt == "check"
    assert parse_arguments(["-p", "-5 degrees?"])[1].prompt == "-5 degrees?"
    assert parse_arguments(["--prompt=--help"])[1].prompt == "--help"


@pytest.mark.parametrize("arguments", [["fix the tests"], ["--plan", "fix the tests"], ["fix the tests", "--plan"]])
def test_quoted_argument_is_the_first_prompt_of_a_chat(arguments: list[str]) -> None:
    name, options = parse_arguments(arguments)

    assert (name, options.message, options.prompt) == ("ask", "fix the tests", None)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_parsed(name: str) -> None:
    more = {"replay": ["traffic", "x"], "completion": ["bash"], "serve": ["--rpc"]}.get(name, [])

    assert parse_arguments([name, *more, "--cwd", "/x"])[0] == name


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--modle", "x"], "Did you mean --model"),
        (["-p", "hi", "--json"], "Did you mean --output json"),
        (["-p", "hello", "world"], "Put the prompt in quotes after -p"),
        (["hello"], "To send a prompt, use -p"),
        (["chekc"], "Did you mean check"),
        (["--plan", "chekc"], "Did you mean check"),
        (["fix", "the", "tests"], "To start a chat with it, put it in quotes"),
        (["-p", "hello", "two words"], "Put the prompt in quotes after -p"),
        (["-p", "x", "--output", "xml"], "invalid choice"),
        (["-p", "x", "--max-turns", "0"], "must be 1 or more"),
        (["-p", "x", "--max-turns", "x"], "must be an integer"),
        (["-p", "x", "--max-cost", "nan"], "must be a number greater than 0"),
        (["-p", "x", "--max-seconds", "-1"], "must be a number greater than 0"),
        (["-p", "x", "--continue", "--session", "y"], "Use only one of"),
        (["-p", "x", "--continue", "--no-session"], "Use only one of --no-session"),
        (["tools", "cal"], "invalid choice: 'cal' .* Did you mean call?"),
        (["tools", "list", "grep"], "Unexpected argument of `mainspring tools list`: grep"),
        (["sessions", "list", "x"], "use `mainspring sessions show x`"),
        (["mcp", "remove", "a", "b"], "Unexpected argument of `mainspring mcp remove`: b"),
        (["version"], "Use --version"),
        (["chat"], "Use `mainspring` without a command"),
        (["sessions", "delete", "x"], r"Did you mean rm\?"),
        (["mcp", "rm", "x"], r"Did you mean remove\? See `mainspring mcp --help`\."),
        (["config", "path", "x"], "Unexpected argument"),
        (["memory", "add", "use", "tabs"], "Put text of several words in quotes"),
        (["replay"], "required"),
    ],
)
def test_usage_errors_explain_the_problem(arguments: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_arguments(arguments)


def test_every_action_has_its_arguments_in_the_table() -> None:
    for name, make in COMMANDS.items():
        positional = [action for action in make().arguments if not action.option_strings]
        actions = [str(choice) for action in positional if action.dest == "action" for choice in action.choices or ()]
        assert list(ACTION_ARGUMENTS.get(name, ())) == (actions or [""] * bool(positional)), name


def test_help_names_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        parse_arguments(["--help"])

    output = capsys.readouterr().out
    assert exited.value.code == 0
    for name in COMMANDS:
        assert name in output
    assert "exit codes: 0 success" in output


@pytest.mark.parametrize(
    ("arguments", "usage"), [(["help"], "usage: mainspring ["), (["help", "mcp"], "usage: mainspring mcp")]
)
def test_help_is_a_command_too(arguments: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        parse_arguments(arguments)
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith(usage)


def test_every_option_has_help() -> None:
    for parser in (run_parser(), *(make() for make in COMMANDS.values())):
        for action in parser._actions:
            assert action.help, action
