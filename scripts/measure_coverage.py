"""Measure the branch coverage of packages in which an untested branch costs most: ``python -m scripts.measure_coverage [PACKAGE...]``.

Runs the tests that concern the packages, prints percentages and uncovered lines, and fails if a package has too few covered
branches. A line followed by an arrow is a condition that never led to the other line. Needs coverage.py, which `make coverage`
installs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MIN_PERCENT = 95.0
TESTS: dict[str, tuple[str, ...]] = {
    "loop": (
        "tests/unit/loop",
        "tests/unit/policies",
        "tests/unit/subagents",
        "tests/unit/extensions",
        "tests/unit/mcp/test_plug.py",
        "tests/unit/skills",
    ),
    "models.wire": (
        "tests/unit/models",
        "tests/contract/test_model_traffic.py",
        "tests/contract/test_odd_histories.py",
        "tests/contract/test_wire_mutations.py",
    ),
    "permissions": ("tests/unit/permissions",),
    "sessions": (
        "tests/unit/sessions",
        "tests/contract/test_session_faults.py",
        "tests/contract/test_session_store.py",
        "tests/contract/test_hostile_sessions.py",
        "tests/unit/app/export",
    ),
    "shell_analysis": ("tests/unit/shell_analysis", "tests/unit/permissions"),
}
"""The packages below `mainspring`, each with the tests that concern it."""


def run_tests(packages: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run the tests of packages and return the report of coverage.py."""
    environment = {**os.environ, "COVERAGE_FILE": str(folder / "data")}
    coverage = [sys.executable, "-m", "coverage"]
    tests = sorted({test for package in packages for test in TESTS[package]})
    tests = [test for test in tests if not any(test.startswith(f"{other}/") for other in tests)]
    source = ",".join(f"mainspring.{package}" for package in packages)
    options = ["-q", "-n", os.environ.get("WORKERS", "2"), "-m", "not soak", "-p", "tests.helpers.coverage_plugin"]
    done = subprocess.run(
        [*coverage, "run", f"--source={source}", "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env=environment,
        check=False,
    )
    if done.returncode:
        sys.exit("Tests failed, so the coverage is unknown.")
    for command in (["combine", "-q"], ["json", "-q", "-o", str(folder / "report.json")]):
        subprocess.run([*coverage, *command], cwd=ROOT, env=environment, check=True)
    return json.loads((folder / "report.json").read_text())["files"]


def print_package(package: str, files: Mapping[str, Any]) -> float:
    """Print the coverage of a package with its uncovered lines, and return the percentage of covered branches."""
    folder = f"src/mainspring/{package.replace('.', '/')}/"
    own = {
        name.removeprefix("src/mainspring/"): file for name, file in sorted(files.items()) if name.startswith(folder)
    }
    statements, lines, branches, covered = (
        sum(file["summary"][key] for file in own.values())
        for key in ("num_statements", "covered_lines", "num_branches", "covered_branches")
    )
    percent = 100 * covered / max(1, branches)
    print(
        f"{package}: {percent:.2f} % of {branches} branches, {100 * lines / statements:.2f} % of {statements} statements"
    )
    for name, file in own.items():
        missing = set(file["missing_lines"])
        jumps = [f"{a}->{'exit' if b < 0 else b}" for a, b in file["missing_branches"] if b not in missing]
        if missing or jumps:
            print(f"  {name}: {', '.join([*map(str, sorted(missing)), *jumps])}")
    return percent


def main(arguments: Sequence[str]) -> int:
    """Measure the named packages, or all of them."""
    unknown = [name for name in arguments if name not in TESTS]
    if unknown:
        sys.exit(f"Unknown package: {unknown[0]}. Choose from {', '.join(TESTS)}.")
    packages = arguments or list(TESTS)
    with tempfile.TemporaryDirectory(prefix="mainspring-coverage-") as folder:
        files = run_tests(packages, Path(folder))
    low = [package for package in packages if print_package(package, files) < MIN_PERCENT]
    if low:
        print(f"Less than {MIN_PERCENT:g} % of the branches are covered: {', '.join(low)}.")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
