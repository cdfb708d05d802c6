"""Which words of a command the wildcards of a rule cover, by the table in `data/wildcards.toml`."""

import tomllib
from pathlib import Path

import pytest

from mainspring.permissions import Decision, Permissions
from mainspring.testing import MemoryEnv
from tests.unit.permissions.stage import TOOLS

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


async def decide(rule: str, line: str, **options: object) -> Decision:
    files = {**FILES, **dict.fromkeys(options.pop("files", ()), "")}  # type: ignore[attr-defined]
    env = MemoryEnv(files, links=LINKS)
    permissions = Permissions(allow=[f"shell({rule})", "scope:fs-write(docs/**)"], reads_free=False)
    return await permissions.decide("shell", {"command": line}, env=env, definition=TOOLS["shell"], advise=True)


def test_the_table_has_as_many_pairs_as_promised() -> None:
    assert len(set(pairs("covered"))) >= 150
    assert len(set(pairs("uncovered"))) >= 400


@pytest.mark.parametrize(("rule", "line"), pairs("covered"))
@pytest.mark.covers("SEC-01")
async def test_everyday_lines_are_covered(rule: str, line: str) -> None:
    decision = await decide(rule, line)

    assert decision.outcome == "allow", [(v.resource, v.reason) for v in decision.asked]


@pytest.mark.parametrize(("rule", "line"), pairs("uncovered"))
@pytest.mark.covers("SEC-01")
async def test_what_may_act_elsewhere_is_not_covered(rule: str, line: str) -> None:
    decision = await decide(rule, line)

    assert decision.outcome != "allow", [(v.resource, v.reason) for v in decision.verdicts]
