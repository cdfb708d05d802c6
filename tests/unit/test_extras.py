"""Hints about missing packages."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring import extras
from mainspring.extras import install_command

SOURCE = Path(__file__).parents[2] / "src" / "mainspring"


@pytest.mark.parametrize(
    ("origin", "what"),
    [
        ({}, "'mainspring[mcp]'"),
        ({"url": "https://example.org/mainspring.whl"}, "'mainspring[mcp]'"),
        ({"url": "file:///a%20b/clone", "dir_info": {"editable": True}}, "-e '/a b/clone[mcp]'"),
        ({"url": "file:///clone", "dir_info": {}}, "'/clone[mcp]'"),
    ],
)
def test_install_command_depends_on_the_install_source(
    origin: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_install_source", lambda: origin)

    assert install_command("mcp") == f"{shlex.quote(sys.executable)} -I -m pip install {what}"


def test_install_command_is_valid_for_this_installation() -> None:
    assert re.search(r" -I -m pip install (-e )?'.*\[mcp\]'$", install_command("mcp"))


def test_install_hints_come_from_one_module() -> None:
    texts = {f: f.read_text(encoding="utf-8") for f in SOURCE.rglob("*.py") if f.name != "extras.py"}

    assert [str(f) for f, text in texts.items() if re.search(r"""pip install ["']?mainspring""", text)] == []
