"""The page of the hooks is that of the code."""

import subprocess
import sys
from pathlib import Path


def test_the_page_is_current(repository: Path) -> None:
    done = subprocess.run([sys.executable, "scripts/hooks_page.py", "--check"], cwd=repository, check=False)
    assert done.returncode == 0, "run `python scripts/hooks_page.py`"
