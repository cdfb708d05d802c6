"""Words of a command that the wildcards of a rule cover, by the table in `data/wildcards.toml`."""

import tomllib
from pathlib import Path

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from tests.unit.permissions.harness import TOOLS

TABLE: dict[str, dict[str, list[str]]] = tomllib.loads((Path(__file__).parent / "data" / "wildcards.toml").read_text())
FILES = {"README.md": "", "notes.txt": "", "src/app.py": "", "src/deep/er.py": "", "build/out.o": "", "docs/a.md": ""}
LINKS = {
    "link-out": "/etc",
    "src/link-out": "/etc",
    "src/file-link": "/etc/passwd",
    "src/up": "..",
    "src/sub": "src/deep",
    "srclink": "/tmp",
}


def pairs(kind: str) -> list[tuple[str, str]]:
    return [(rule, line) for rule, lines in TABLE[kind].items() for line in lines]


async def decide(rule: str, line: str, *more: str) -> PermissionDecision:
    env = MemoryEnv({**FILES, **dict.fromkeys(more, "")}, links=LINKS)
    permissions = Permissions(allow=[f"shell({rule})", "scope:fs-write(docs/**)"], reads_free=False)
    return await permissions.decide("shell", {"command": line}, env=env, definition=TOOLS["shell"], advise=True)


def test_wildcard_table_is_large_enough() -> None:
    assert len(set(pairs("covered"))) >= 150
    assert len(set(pairs("uncovered"))) >= 400


@pytest.mark.parametrize(("rule", "line"), pairs("covered"))
@pytest.mark.covers("SEC-01")
async def test_everyday_commands_are_covered(rule: str, line: str) -> None:
    decision = await decide(rule, line)

    assert decision.outcome == "allow", [(v.resource, v.reason) for v in decision.needs_answer]


@pytest.mark.parametrize(("rule", "line"), pairs("uncovered"))
@pytest.mark.covers("SEC-01")
async def test_commands_with_outside_effects_are_not_covered(rule: str, line: str) -> None:
    decision = await decide(rule, line)

    assert decision.outcome != "allow", [(v.resource, v.reason) for v in decision.verdicts]


@pytest.mark.parametrize(
    ("rule", "line", "named", "advised"),
    [
        ("git *", "git -c a.b=c status", "the option '-c'", "shell(git -c a.b=c *)"),
        ("git *", "git --no-pager config a b", "the subcommand 'config'", "shell(git --no-pager config *)"),
        ("mytool *", "mytool --foo bar", "the option '--foo'", "shell(mytool --foo *)"),
        ("make *", "make SHELL=x all", "the setting 'SHELL='", "shell(make SHELL=x *)"),
        ("curl *", "curl -s --trace F http://x", "the option '--trace'", "shell(curl -s --trace F *)"),
        ("pytest *", "pytest -q -p x tests", "the option '-p'", "shell(pytest -q -p x *)"),
        ("timeout 5 pytest *", "timeout 5 pytest -p x tests", "the option '-p'", "shell(timeout 5 pytest -p x *)"),
        ("python tool.py *", "python tool.py --flag x", "the option '--flag'", "shell(python tool.py --flag *)"),
        ("curl -o *", "curl -o x http://h", "the value of the option '-o'", "shell(curl -o x *)"),
        ("cat src/*", "cat src/link-out/passwd", "a path that leads out of the folder that it names", ""),
    ],
)
async def test_approval_request_names_the_uncovered_part(rule: str, line: str, named: str, advised: str) -> None:
    decision = await decide(rule, line)

    assert decision.outcome == "ask"
    [reason] = {v.reason for v in decision.needs_answer if v.scope == "shell-run"}
    assert reason == f"the rule 'shell({rule})' does not cover {named}"
    if advised:
        assert advised in [v for each in decision.needs_answer for v in each.allow]
        widened = Permissions(allow=[advised], reads_free=False)
        env = MemoryEnv(FILES, links=LINKS)
        again = await widened.decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])
        assert again.outcome == "allow"


async def test_wildcard_does_not_match_a_file_named_like_an_option() -> None:
    for name, outcome in (("--config=x", "ask"), ("x", "allow")):
        assert (await decide("ruff check *", "ruff check *", name)).outcome == outcome
    assert (await decide("ruff check *", "ruff check -- *", "--config=x")).outcome == "allow"


async def test_deny_rules_match_every_option() -> None:
    for line in ("curl --trace F http://x", "git --no-pager config a b", "cat src/../x"):
        for rule in (f"shell({line.split()[0]} *)", "shell(*)"):
            permissions = Permissions(allow=["shell"], deny=[rule])
            env = MemoryEnv(FILES, links=LINKS)
            decision = await permissions.decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])
            assert decision.outcome == "deny"


async def test_bare_rule_covers_every_command() -> None:
    for rule in ("shell", "shell(*)"):
        permissions = Permissions(allow=[rule])
        decision = await permissions.decide(
            "shell", {"command": "mytool --foo bar"}, env=MemoryEnv(FILES), definition=TOOLS["shell"]
        )
        assert decision.outcome == "allow"
