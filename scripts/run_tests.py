"""Run the tests of a target of the Makefile, and those that failed again, alone and one after the other: ``python -m scripts.run_tests test``.

At most MAX_REPEATED tests are repeated. The run fails if one fails again or is then skipped, if more failed, or if pytest ended
otherwise, for example because a file could not be collected.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.requirements_plugin import FIRST_RUN

MAX_REPEATED = 5


def run_target(target: str, cache: Path, *variables: str, options: str = "") -> bool:
    """Run pytest by the Makefile with a cache of its own, and all tests despite ``-x``. Return True if it succeeds."""
    pytest_options = f"{os.environ.get('PYTEST', '')} -o cache_dir={cache} --maxfail=0 {options}"
    command = ["make", "--no-print-directory", target, f"PYTEST={pytest_options}", *variables]
    return subprocess.run(command, check=False).returncode == 0


def read_cache(cache: Path, name: str) -> dict[str, Any]:
    """Return a value of pytest's cache."""
    file = cache / "v" / name
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def run_twice(target: str, cache: Path) -> bool:
    """Run a target, and repeat its failed tests. Return True if each test passed in one of the runs."""
    if run_target(target, cache):
        return True
    failed = sorted(read_cache(cache, "cache/lastfailed"))
    are_tests = all("::" in name for name in failed)  # not files that could not be collected
    if read_cache(cache, FIRST_RUN).get("exit_code") != 1 or not are_tests or not 0 < len(failed) <= MAX_REPEATED:
        return False
    print(f"\nrepeated alone, since they failed: {', '.join(failed)}\n", flush=True)
    repeated = run_target(target, cache, "WORKERS=0", options="--last-failed")
    skipped = set(read_cache(cache, FIRST_RUN)["skipped"]).intersection(failed)
    failed_again = read_cache(cache, "cache/lastfailed")  # also has a test that was not found again
    for name in failed:
        again = "skipped" if name in skipped else "passed"
        print(f"failed {'twice' if name in failed_again else f'once, {again} when repeated'}: {name}", flush=True)
    return repeated and not failed_again and not skipped


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not run_twice(sys.argv[1], Path(folder)))
