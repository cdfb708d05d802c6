"""The completion scripts in their shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import Command, command
from tests.requires import skip_missing

__all__ = ["command"]

CASES = [
    ("mainspring ses", "sessions"),
    ("mainspring --outp", "--output"),
    ("mainspring --output ", "stream-json"),
    ("mainspring completion ", "fish"),
    ("mainspring sessions ", "purge"),
    ("mainspring sessions --a", "--all"),
    ("mainspring -p hi --mod", "--model"),
    ("mainspring --model openai:gpt-4.1-n", "openai:gpt-4.1-nano"),
    ("mainspring --provider openr", "openrouter"),
    ("mainspring config --project set agent.maxTu", "agent.maxTurns"),
    ("mainspring config set agent.thinking x", "xhigh"),
    ("mainspring config set model openai:gpt-4.1-n", "openai:gpt-4.1-nano"),
    ("mainspring config provider ad", "add"),
    ("mainspring memory --section Lea", "Learned"),
    ("mainspring tools call read", "read_file"),
    ("mainspring hooks test PreT", "PreToolUse"),
    ("mainspring models get smol", "smollm2-135m"),
    ("mainspring skills show hello", "hello-extended"),
]

ZSH = r"""
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PS1='%% '; fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -d $PWD/dump; $LOAD; print RE''ADY"
zpty -r -m shell out '*READY*'
while IFS='|' read -r line wanted; do
    zpty -w -n shell "$line"$'\t'
    zpty -r -m shell out "*$wanted*" && print -r -- "$line|$wanted"
    zpty -w -n shell $'\x15'"print CLE''AR"$'\n'
    zpty -r -m shell out '*CLEAR*'
done
zpty -d shell
"""


def install_command(command: Command) -> None:
    """Put ``mainspring`` into the search path of the shell."""
    (command.folder / "bin").mkdir()
    program = command.folder / "bin" / "mainspring"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mainspring "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    command.variables["PATH"] = f"{program.parent}:{os.environ['PATH']}"


def completion_script(command: Command, shell: str) -> str:
    done = command.run("completion", shell)
    assert done.code == 0
    return done.out


@pytest.fixture
def fish() -> str:
    return shutil.which("fish") or skip_missing("fish")


@pytest.fixture
def zsh() -> str:
    return shutil.which("zsh") or skip_missing("zsh")


def test_fish_completes_commands_options_and_files(command: Command, fish: str) -> None:
    (command.folder / "m.fish").write_text(completion_script(command, "fish"), encoding="utf-8")
    (command.folder / "a-file.txt").touch()
    install_command(command)

    def completions(line: str) -> list[str]:
        code = f"source m.fish; complete -C '{line}'"
        done = subprocess.run(
            [fish, "--no-config", "-c", code],
            cwd=command.folder,
            env=command.environment,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert done.stderr == ""
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    for line, requested in CASES:
        assert [found for found in completions(line) if found.startswith(requested)], line
    assert "show" not in completions("mainspring sessions list ")
    assert "a-file.txt" not in completions("mainspring sessions ")
    assert "a-file.txt" in completions("mainspring --schema ")
    assert "a-file.txt" in completions("mainspring sessions import ")


@pytest.mark.parametrize("load", ["source", "fpath"])
def test_zsh_completes_commands_and_options(command: Command, zsh: str, load: str) -> None:
    functions = command.folder / "functions"
    functions.mkdir()
    place = functions / "_mainspring" if load == "fpath" else command.folder / "mainspring.zsh"
    place.write_text(completion_script(command, "zsh"), encoding="utf-8")

    install_command(command)
    done = subprocess.run(
        [zsh, "-f", "-c", ZSH],
        cwd=command.folder,
        env={**command.environment, "LOAD": ":" if load == "fpath" else f"source {Path(place)}"},
        input="".join(f"{line}|{requested}\n" for line, requested in CASES),
        capture_output=True,
        encoding="utf-8",
        timeout=35,
        check=True,
    )

    assert done.stdout.splitlines() == [f"{line}|{requested}" for line, requested in CASES]


BASH = r"""
source mainspring.bash
while IFS='|' read -r line; do
    COMP_WORDBREAKS=$' \t\n='
    read -ra parts <<< "${line//=/ = }"
    [[ $line == *' ' || $line == *= ]] && parts+=("")
    COMP_LINE=$line COMP_POINT=${#line}
    COMP_WORDS=("${parts[@]}") COMP_CWORD=$((${#parts[@]} - 1)) COMPREPLY=()
    _mainspring
    echo "${COMPREPLY[*]}"
done
"""


def test_bash_completes_the_part_of_a_model_after_its_colon(command: Command) -> None:
    bash = shutil.which("bash") or skip_missing("bash")
    (command.folder / "mainspring.bash").write_text(completion_script(command, "bash"), encoding="utf-8")
    words = "COMP_WORDS=(mainspring --model openai : gpt-4.1-n) COMP_CWORD=4 COMP_POINT=${#COMP_LINE}"
    code = f"source mainspring.bash; COMP_LINE='mainspring --model openai:gpt-4.1-n'; {words}; _mainspring; echo $COMPREPLY"
    done = subprocess.run([bash, "--norc", "-c", code], cwd=command.folder, capture_output=True, encoding="utf-8")
    assert (done.stdout, done.stderr) == ("gpt-4.1-nano\n", "")


OPTION_VALUES = {
    "mainspring ses": "sessions",
    "mainspring --output ": "text json stream-json",
    "mainspring --output js": "json",
    "mainspring --output=": "text json stream-json",
    "mainspring --output=st": "stream-json",
    "mainspring --plan --thinking=m": "minimal medium",
    "mainspring export --format=": "html markdown jsonl",
    "mainspring cost --by mo": "model",
    "mainspring --model openai:gpt-4.1-n": "openai:gpt-4.1-nano",
    "mainspring check --model=openai:gpt-4.1-n": "openai:gpt-4.1-nano",
    "mainspring config --model openai:gpt-4.1-n": "",
    "mainspring --schema ": "",  # bash completes names of files
    "mainspring --cwd=s": "",
    "mainspring sessions --keep 5 sh": "show",
    "mainspring sessions list sh": "",
    "mainspring completion bash b": "",
    "mainspring --provider openr": "openrouter",
    "mainspring config set agent.thinking m": "minimal medium",
    "mainspring config unset agent.maxTu": "agent.maxTurns",
    "mainspring config set model openai:gpt-4.1-n": "openai:gpt-4.1-nano",
    "mainspring permissions explain multi": "multi_edit",
    "mainspring memory --section L": r"Learned\ Patterns",
    "mainspring --resume ": "SESSION",
    "mainspring sessions show ": "SESSION",
    "mainspring rewind --undo ": "SESSION",
    "mainspring mcp remove ": r"a\$\(\>ran\)b",  # a name is no code
    "mainspring sessions import ": "",  # bash completes names of files
}


def test_bash_completes_values_of_options(command: Command) -> None:
    bash = shutil.which("bash") or skip_missing("bash")
    (command.folder / "mainspring.bash").write_text(completion_script(command, "bash"), encoding="utf-8")
    command.server.script += ["Hello."]
    session = command.run("-p", "hi", "--model", "openai:test-model", "--output", "json").result["session_id"]
    command.settings({"mcp": {"servers": {"a$(>ran)b": {"url": "http://127.0.0.1:1"}}}})
    install_command(command)
    done = subprocess.run(
        [bash, "--norc", "-c", BASH],
        cwd=command.folder,
        env=command.environment,
        input="".join(f"{line}\n" for line in OPTION_VALUES),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    requested = {line: values.replace("SESSION", session) for line, values in OPTION_VALUES.items()}
    assert dict(zip(OPTION_VALUES, done.stdout.splitlines(), strict=True)) == requested
    assert not (command.folder / "ran").exists()
