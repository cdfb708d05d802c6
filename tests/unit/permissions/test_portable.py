"""Portable rules have the same meaning in every project."""

import pytest

from mainspring.permissions import is_portable, parse_rule, relative_program


@pytest.mark.parametrize(
    ("rule", "program"),
    [
        ("shell(./deploy.sh)", "./deploy.sh"),
        ("shell(./deploy.sh *)", "./deploy.sh"),
        ("shell('./deploy.sh' --prod)", "./deploy.sh"),
        ("shell(../up.sh)", "../up.sh"),
        ("shell(scripts/run)", "scripts/run"),
        ("shell(.venv/bin/pytest *)", ".venv/bin/pytest"),
        ("shell(bash deploy.sh)", "deploy.sh"),
        ("shell(bash -x deploy.sh)", "deploy.sh"),
        ("shell(/bin/sh deploy *)", "deploy"),
        ("shell(. env.sh)", "env.sh"),
        ("shell(source env.sh)", "env.sh"),
        ("shell(python tool.py *)", "tool.py"),
        ("shell(python3.12 -u tool.py)", "tool.py"),
        ("shell(node build.js)", "build.js"),
        ("shell(env CI=1 ./x)", "./x"),
        ("shell(timeout 5 ./x)", "./x"),
        ("shell(sudo bash x.sh)", "x.sh"),
        ("shell(bash -c ./x)", "./x"),
        ("shell(bash -c 'sh x')", "x"),
        ("shell(sh -c 'true; . env')", "env"),
        ("shell(java -jar tool.jar)", "tool.jar"),
        ("shell(go run main.go)", "main.go"),
        ("shell(uv run tool.py)", "tool.py"),
        ("scope:shell-run(./x)", "./x"),
        ("*(./x)", "./x"),
        ("shell(npm test)", ""),
        ("shell(git status *)", ""),
        ("shell(/opt/tool/run *)", ""),
        ("shell(~/bin/run)", ""),
        ("shell(bash /opt/x.sh)", ""),
        ("shell(python -m pytest *)", ""),
        ("shell(python ~/tools/x.py)", ""),
        ("shell(ruff check *.py)", ""),
        ("shell(curl https://example.com/x)", ""),
        ("shell(git clone git@example.com:a/b)", ""),
        ("shell", ""),
        ("write_file(./x)", ""),
    ],
)
def test_relative_program_is_recognized(rule: str, program: str) -> None:
    assert relative_program(parse_rule(rule, "allow")) == program


@pytest.mark.parametrize(
    ("rule", "portable"),
    [
        ("shell(npm test)", True),
        ("fetch(example.com)", True),
        ("write_file", True),
        ("read_file(/etc/hosts)", True),
        ("scope:fs-read(~/notes/**)", True),
        ("shell(./x)", False),
        ("write_file(docs/**)", False),
        ("scope:fs-write(out/**)", False),
        ("edit(a.py)", False),
    ],
)
def test_rules_about_project_files_are_not_portable(rule: str, portable: bool) -> None:
    assert is_portable(parse_rule(rule, "allow")) is portable
