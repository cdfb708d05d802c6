"""The hooks page is generated from the code."""

import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.loop.hooks import HOOK_NAMES, Hook, resolve


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
        target = resolve(name)
        kind = target.kind
        part = page.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
        assert kind.__name__ in part
        assert "Fires: " in part
        assert "Fires: .\n" not in part
        if issubclass(kind, Hook):
            assert all(f"`{field}`" in part.split("Changeable: ")[1] for field in kind.mutable)
        else:
            assert all(f"`{field}`" in part.split("Fields: ")[1] for field in kind.__struct_fields__)
            assert ("`SubagentEvent`" in part) == target.subagents
