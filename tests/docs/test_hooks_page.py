"""The hooks page is generated from the code."""

import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.loop.hooks import HOOKS
from mainspring.loop.hooks.names import ALIASES, HOOK_NAMES


def test_hooks_page_is_current(repository: Path) -> None:
    done = subprocess.run([sys.executable, "scripts/make_hooks_page.py", "--check"], cwd=repository, check=False)
    assert done.returncode == 0, "run `python scripts/make_hooks_page.py`"


@pytest.mark.covers("HOK-41")
def test_hooks_page_describes_late_handlers_and_each_hook(repository: Path) -> None:
    page = (repository / "docs" / "hooks.md").read_text(encoding="utf-8")
    assert (
        "`skills:resolve`, `skills:catalog`) fire once,\n  in `warmup()` or the first run. A handler registered after that misses them"
        in page
    )
    for name in HOOK_NAMES:
        part = page.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
        assert "Fires: " in part
        kind = ALIASES[name].kind if name in ALIASES else HOOKS[name]
        assert kind.__name__ in part
        if name in HOOKS:
            assert all(f"`{field}`" in part.split("Changeable: ")[1] for field in HOOKS[name].mutable)
