"""Connect the requirements of `requirements.toml` with the tests that prove them.

A test names what it proves with `@pytest.mark.covers("TEX-07", ...)`. An ID that is not in the manifest fails the collection of
its file. A run ends with `requirements covered: N of M`: the IDs all of whose tests ran and passed.
A test that was skipped, failed, or was deselected leaves its IDs uncovered. A test over the recorded material, which is not in the
repository, claims no ID, and neither does a slow test, which `make test` leaves out.

After a run with failed tests, `--last-failed` continues it: the IDs that only those tests left uncovered are covered if they now pass.

Options: `--requirements` also lists the uncovered IDs, by section; `--requirements-issue 2` counts only the IDs of one issue.
`--covers SES-17` runs only the tests that claim this ID.
"""

import tomllib
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

MANIFEST = Path(__file__).with_name("requirements.toml")
PROPERTY = "covers"
MATERIAL = "material"
"""The fixture of files from outside the repository: a plain clone skips its tests."""
FIRST_RUN = "requirements/run"
"""The key of the results of a run in pytest's cache, for `--last-failed` and `scripts/run_tests.py`."""


@dataclass(frozen=True)
class Section:
    """One section of the manifest: a title and its requirements by ID."""

    title: str
    requirements: dict[str, str]


@dataclass(frozen=True)
class Manifest:
    """Every requirement by section, and the requirements of each issue."""

    sections: list[Section]
    issues: dict[str, list[str]]

    @property
    def ids(self) -> set[str]:
        """All IDs."""
        return {key for section in self.sections for key in section.requirements}


@cache
def load_manifest(path: Path = MANIFEST) -> Manifest:
    """Read the manifest."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    sections = [Section(entry["title"], entry["requirements"]) for entry in raw["section"]]
    return Manifest(sections, raw["issues"])


def ids_of(item: pytest.Item) -> list[str]:
    """Return the IDs of a test, including those of its class and module. Those of a test that may not run are proven by others."""
    return [] if may_not_run(item) else [name for mark in item.iter_markers("covers") for name in mark.args]


def may_not_run(item: pytest.Item) -> str:
    """Return why `make test` in a plain clone does not run the test, or an empty string."""
    if MATERIAL in getattr(item, "fixturenames", ()):
        return f"uses `{MATERIAL}`, which a plain clone does not have"
    if item.get_closest_marker("slow"):
        return "is `slow`, and `make test` leaves it out"
    return ""


@dataclass
class Ledger:
    """The results of the tests of each ID in this run."""

    passed: set[str] = field(default_factory=set[str])
    spoiled: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])

    def record(self, report: pytest.TestReport) -> None:
        ids = {str(value) for name, value in report.user_properties if name == PROPERTY}
        if report.failed:
            self.failed |= ids
        elif report.skipped:
            self.spoiled |= ids
        elif report.when == "call":
            self.passed |= ids

    @property
    def covered(self) -> set[str]:
        return self.passed - self.spoiled - self.failed


def summary(ledger: Ledger, manifest: Manifest, *, issue: str | None = None, list_open: bool = False) -> list[str]:
    """Return the closing lines of a run."""
    requested = set(manifest.issues[issue]) if issue else manifest.ids
    covered = ledger.covered & requested
    lines: list[str] = []
    for section in manifest.sections if list_open else ():
        open_ids = [key for key in section.requirements if key in requested and key not in covered]
        if open_ids:
            lines += ["", section.title, *(f"  {key}  {section.requirements[key]}" for key in open_ids)]
    if lines:
        lines.append("")
    of_issue = f" (issue {issue})" if issue else ""
    return [*lines, f"requirements covered: {len(covered)} of {len(requested)}{of_issue}"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("requirements")
    group.addoption("--requirements", action="store_true", help="list the requirements without a passing test")
    group.addoption("--requirements-issue", metavar="N", help="count and list only the ids of issue N")
    group.addoption("--covers", metavar="ID", help="run only the tests that claim a requirement")


def pytest_configure(config: pytest.Config) -> None:
    issue = config.getoption("requirements_issue")
    issues = load_manifest().issues
    if issue is not None and issue not in issues:
        raise pytest.UsageError(f"Unknown issue in {MANIFEST.name}: {issue}. Known issues: {', '.join(issues)}")
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(_Worker(config) if is_worker else _Controller(config), "requirements")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    unknown = unknown_ids(item for item in report.result or () if isinstance(item, pytest.Item))
    if unknown:
        report.outcome = "failed"
        report.longrepr = "\n".join(
            f"{node}: Unknown requirement in {MANIFEST.name}: {name!r}" for node, name in unknown
        )
        report.result = []
    elif claims := [
        f"{item.nodeid}: This test cannot claim a requirement: it {reason}. Claim it in another test."
        for item in report.result or ()
        if isinstance(item, pytest.Item) and _claims(item) and (reason := may_not_run(item))
    ]:
        report.outcome = "failed"
        report.longrepr = "\n".join(claims)
        report.result = []
    return report


def _claims(item: pytest.Item) -> bool:
    return any(mark.name == PROPERTY for mark in item.own_markers)


def unknown_ids(items: Iterable[pytest.Item]) -> list[tuple[str, str]]:
    """Return pairs of a test and an unknown ID."""
    known_ids = load_manifest().ids
    return [(item.nodeid, str(name)) for item in items for name in ids_of(item) if name not in known_ids]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    requested = config.getoption("covers")
    if requested is not None:
        others = [item for item in items if requested not in ids_of(item)]
        items[:] = [item for item in items if requested in ids_of(item)]
        config.hook.pytest_deselected(items=others)
    for item in items:
        item.user_properties.extend((PROPERTY, name) for name in ids_of(item))


class _Worker:
    """An xdist worker: xdist sends its reports, but not its deselected tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.output: dict[str, Any] = cast(Any, config).workeroutput
        self.output[PROPERTY] = []

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self.output[PROPERTY] += sorted({name for item in items for name in ids_of(item)})


class _Controller:
    """The process that prints: the only one, or the controller of the xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.ledger = Ledger()
        self._skipped: set[str] = set()
        self._first_run: dict[str, Any] = {}
        if config.getoption("lf", False):
            self._first_run = cast(Any, config).cache.get(FIRST_RUN, {})
            self.ledger = Ledger(set(self._first_run.get("passed", ())), set(self._first_run.get("spoiled", ())))

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        if not self._first_run:  # it has run the others
            self.ledger.spoiled |= {name for item in items for name in ids_of(item)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self.ledger.spoiled |= set(getattr(node, "workeroutput", {}).get(PROPERTY, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ledger.record(report)
        if report.skipped:
            self._skipped.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None, None, None]:
        yield  # the terminal reporter prints its closing line here
        if (cache := getattr(self.config, "cache", None)) is not None:
            result = {"passed": sorted(self.ledger.passed), "spoiled": sorted(self.ledger.spoiled)}
            cache.set(FIRST_RUN, {"exit_code": int(exitstatus), "skipped": sorted(self._skipped), **result})
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or self.config.getoption("collectonly"):
            return
        if str(self.config.getoption("markexpr")).startswith("slow"):
            return  # "0 of 636" after `make test-slow` would look like a failure
        issue = self.config.getoption("requirements_issue")
        for line in summary(
            self.ledger, load_manifest(), issue=issue, list_open=bool(self.config.getoption("requirements"))
        ):
            terminal.write_line(line)
