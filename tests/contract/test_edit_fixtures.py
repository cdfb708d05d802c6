"""Real edits from changes of public repositories, some with the typical mistakes of models."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.tools import ToolContext
from mainspring.tools.builtin import apply_patch, edit

FUNCTION = 'def greet(name):\n    if name:\n        return "Hello, " + name\n    return None\n\n\nprint(greet("you"))\n'


def case(kind: str, before: str, old: str, new: str, **expected: Any) -> dict[str, Any]:
    expected.setdefault("result", "ok")
    return {"id": kind, "before": before, "old_string": old, "new_string": new, "expected": expected}


# Each kind of edit once, small enough to read. `exact_old_string` is the correct text.
KINDS = [
    case("exact", FUNCTION, "name:\n", "name is not None:\n"),
    case("deletion", FUNCTION, "    return None\n", ""),
    case("without the last newline", FUNCTION, '        return "Hello, " + name', "        return name"),
    case("at a file end without newline", "a\nb", "b", "b\nc"),
    case("with a byte order mark", "\ufefffirst\nsecond\n", "first\n", "1st\n"),
    case("ambiguous", "x = 1\ny = 2\nx = 1\n", "x = 1\n", "x = 3\n", result="ambiguous", matches=2),
    case(
        "a file with CRLF",
        FUNCTION.replace("\n", "\r\n"),
        "    if name:\n",
        "    if not name:\n        name = input()\n    if name:\n",
        result="not_found_exact",
        tolerant_after=FUNCTION.replace(
            "    if name:\n", "    if not name:\n        name = input()\n    if name:\n"
        ).replace("\n", "\r\n"),
    ),
    case("CRLF spelled out", "a\r\nb\r\n", "a\r\n", "a\r\n\nc\n"),
    case(
        "line numbers",
        FUNCTION,
        '    3\t        return "Hello, " + name\n    4\t    return None\n',
        "        return name\n",
        result="not_found",
        exact_old_string='        return "Hello, " + name\n    return None\n',
    ),
    case(
        "lost indentation",
        FUNCTION,
        'if name:\n    return "Hello, " + name\n',
        '    if name:\n        return "Hi, " + name\n',
        result="not_found",
        exact_old_string='    if name:\n        return "Hello, " + name\n',
    ),
    case(
        "indentation lost as far as there was any",
        '{\n    "a": 1,\n  },\n    "b": 2\n',
        '"a": 1,\n  },\n"b": 2\n',
        '    "a": 1,\n  },\n    "b": 3\n',
        result="not_found",
        exact_old_string='    "a": 1,\n  },\n    "b": 2\n',
    ),
    case(
        "indentation lost in both",
        FUNCTION,
        'if name:\n    return "Hello, " + name\n',
        'if name is not None:\n    log(name)\n    return "Hello, " + name\n',
        result="not_found",
        exact_old_string="    if name:\n",
        after=FUNCTION.replace("    if name:\n", "    if name is not None:\n        log(name)\n"),
    ),
    case(
        "tabs for spaces",
        FUNCTION,
        '\tif name:\n\t\treturn "Hello, " + name\n',
        '    if name:\n        return "Hi, " + name\n',
        result="not_found",
        exact_old_string='    if name:\n        return "Hello, " + name\n',
    ),
    case(
        "curly quotes",
        FUNCTION,
        "        return “Hello, ” + name\n",
        '        return "Hi, " + name\n',
        result="not_found",
        exact_old_string='        return "Hello, " + name\n',
    ),
    case(
        "curly apostrophes",
        "a = 'x'\nb = 'y'\n",
        "a = ’x’\nb = ’y’\n",
        "a = 'z'\n",
        result="not_found",
        exact_old_string="a = 'x'\nb = 'y'\n",
    ),
    case(
        "spaces at line ends",
        "one  \ntwo\nthree\n",
        "one\ntwo  \n",
        "1\n2\n",
        result="not_found",
        exact_old_string="one  \ntwo\n",
    ),
    case("nowhere", FUNCTION, "class Greeter:\n    pass\n", "", result="nowhere"),
]


def expected_content(row: dict[str, Any]) -> str | None:
    """Return the expected content of the file, or ``None`` if the edit should be rejected."""
    expected, before, new = row["expected"], row["before"], row["new_string"]
    match expected["result"]:
        case "ok":
            return row.get("after", before.replace(row["old_string"], new, 1))
        case "not_found_exact":
            return expected["tolerant_after"]
        case "not_found":
            return expected.get("after", before.replace(expected["exact_old_string"], new, 1))
        case _:
            return None


async def check_edit(row: dict[str, Any]) -> None:
    before = row["before"].encode()
    env = MemoryEnv({"file": before})
    result = await edit(ToolContext(env=env), path="file", old_string=row["old_string"], new_string=row["new_string"])
    after = expected_content(row)
    if after is not None:
        assert not result.is_error, result.text
        assert env.files["file"].decode() == after
        return
    assert result.is_error
    assert env.files["file"] == before
    if "matches" in row["expected"]:
        assert f"matches at {row['expected']['matches']} places" in result.text
    if "after_replace_all" in row:
        arguments = {"old_string": row["old_string"], "new_string": row["new_string"], "replace_all": True}
        assert not (await edit(ToolContext(env=env), path="file", **arguments)).is_error
        assert env.files["file"].decode() == row["after_replace_all"]


@pytest.mark.covers("TOL-10", "TOL-11", "TOL-12")
@pytest.mark.parametrize("row", KINDS, ids=lambda row: row["id"])
async def test_edit_handles_each_kind_of_input(row: dict[str, Any]) -> None:
    await check_edit(row)


async def test_edit_matches_recorded_edits(material: Path) -> None:
    rows = [json.loads(line) for line in (material / "edits" / "cases.jsonl").read_text("utf-8").splitlines()]
    failed: list[str] = []
    for row in rows:
        try:
            await check_edit(row)
        except AssertionError as e:
            failed.append(f"{row['id']}: {e}")
    assert not failed, f"{len(failed)} of {len(rows)}: {failed[:5]}"


async def test_apply_patch_matches_recorded_patches(material: Path) -> None:
    """The recorded program keeps the changes before a failure; apply_patch does so only with ``partial``."""
    rows = [
        json.loads(line)
        for line in (material / "edits" / "apply-patch-scenarios.jsonl").read_text("utf-8").splitlines()
    ]
    failed: list[str] = []
    for row in rows:
        partial = "partial_success" in row["id"]
        env = MemoryEnv(row["input"])
        result = await apply_patch(ToolContext(env=env), patch=row["patch"], partial=partial)
        after = {name: data.decode() for name, data in env.files.items()}
        if after != row["expected"]:
            failed.append(f"{row['id']}: {result.text}")
        if partial:
            env = MemoryEnv(row["input"])
            assert (await apply_patch(ToolContext(env=env), patch=row["patch"])).is_error
            assert env.files == MemoryEnv(row["input"]).files
    assert not failed, f"{len(failed)} of {len(rows)}: {failed[:5]}"
