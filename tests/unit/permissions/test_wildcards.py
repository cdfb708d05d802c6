"""Words of a command that the wildcards of a rule cover, by the table in `data/wildcards.toml`."""

import shutil
import subprocess
import tomllib
from itertools import product
from pathlib import Path

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.shell_analysis import analyze
from mainspring.shell_analysis.wildcards import may_match
from tests.requires import skip_missing
from tests.rows import each_row
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


@each_row("rule, line", pairs("covered"))
@pytest.mark.covers("SEC-01")
async def test_everyday_commands_are_covered(rule: str, line: str) -> None:
    decision = await decide(rule, line)

    assert decision.outcome == "allow", [(v.resource, v.reason) for v in decision.needs_answer]


@each_row("rule, line", pairs("uncovered"))
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


HIDDEN_FILES = {
    "a.py": "",
    "env": "",
    "src/b.py": "",
    ".env": "",
    ".env.py": "",
    "docs/.env/x.md": "",
    "docs/a/x.md": "",
}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("ls *.py", "allow"),
        ("cat *", "allow"),
        ("cat ?env", "allow"),
        ("cat *env", "allow"),
        ("cat [.]env*", "allow"),
        ("cat [!a]*", "allow"),
        ("cat ./*.py src/*.py", "allow"),
        ("cat docs/*/x.md", "allow"),
        ('for f in *.py; do cat "$f"; done', "allow"),
        ("bash -c 'cat *.py'", "allow"),
        ("timeout 5 sh -c 'cat *.py'", "allow"),
        ("cat .*", "deny"),
        ("cat .[e]*", "deny"),
        ("cat '.'*", "deny"),
        ("cat \\.*", "deny"),
        ('x=.; cat "$x"*', "deny"),
        ("cat docs/.*/x.md", "deny"),
        ("cat .*.md", "ask"),  # matches no file now, but may
        ("bash -lc 'cat *.py'", "ask"),  # a login shell and zsh read the user's files, which may switch hidden files on
        ("zsh -c 'cat *'", "ask"),
        ("env BASHOPTS=dotglob bash -c 'cat *.py'", "ask"),
        ("BASHOPTS=dotglob bash -c 'cat *.py'", "ask"),
        ("bash -O dotglob -c 'cat *'", "ask"),
        ("shopt -s dotglob; cat *", "ask"),
        ("setopt globdots; cat *", "ask"),
        ("GLOBIGNORE=x; cat *", "ask"),
    ],
)
async def test_wildcards_match_hidden_files_only_where_the_shell_does(line: str, outcome: str) -> None:
    permissions = Permissions(deny=["read_file(**/.env*)"], mode="allow")

    decision = await permissions.decide(
        "shell", {"command": line}, env=MemoryEnv(HIDDEN_FILES), definition=TOOLS["shell"]
    )

    assert decision.outcome == outcome, [(v.resource, v.reason) for v in decision.verdicts]


GLOB_PIECES = ("*", "?", "[.]", "[!a]", "[.e]", ".", '"."', "'.'", "\\.", "''", "e", "env", "/", "./", "docs/", ".py")


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "busybox"])
def test_words_match_every_hidden_file_that_a_shell_finds(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        skip_missing(shell)
    for name in HIDDEN_FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    patterns = ["".join(pieces) for count in (1, 2, 3) for pieces in product(GLOB_PIECES, repeat=count)]
    known = [(p, analyze(f"cat {p}").units) for p in patterns]
    words = [(p, units[0].words[1].text) for p, units in known if units and len(units[0].words) == 2]
    assert len(words) > 2000
    options = ["sh"] if shell == "busybox" else ["-f", "-o", "no_nomatch"] if shell == "zsh" else []
    script = "".join(f"printf '%s\\n' {p}; echo ::\n" for p, _ in words)
    output = subprocess.run([program, *options], input=script.encode(), cwd=tmp_path, capture_output=True, check=True)

    found = output.stdout.decode().split("::\n")[:-1]
    assert len(found) == len(words)
    for (pattern, word), matched in zip(words, found, strict=True):
        parts = [p for p in word.split("/") if p not in ("", ".")]
        for name in matched.splitlines():
            names = [n for n in name.split("/") if n not in ("", ".")]
            if any(n.startswith(".") for n in names) and "[" not in name and len(names) == len(parts):
                assert all(map(may_match, names, parts)), (pattern, name)
