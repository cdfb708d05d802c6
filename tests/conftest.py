"""The environment of every test: no user files, no keys, asyncio only."""

import contextlib
import gc
import itertools
import logging
import os
import re
import signal
import sys
import types
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

from tests.requires import describe_skipped, skip_missing

pytest_plugins = ["pytester", "tests.requirements_plugin", "tests.helpers.containers", "tests.helpers.postgres"]

# A test run in the background of a shell inherits an ignored Ctrl-C, and so would every command that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where bytecode is not kept, every worker and every command of a test compiles the same files again: a third of the time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

REPOSITORY = Path(__file__).resolve().parent.parent
REAL_HOME = Path.home()

# Variables of the machine that tests must not see: keys, endpoints, mainspring options, and paths of user files.
_HIDDEN_ENDINGS = ("_API_KEY", "_TOKEN", "_BASE_URL", "_ENDPOINT")
_HIDDEN_STARTS = ("MAINSPRING_", "AGENT_", "AZURE_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OTEL_", "XDG_")
_VISIBLE = {"MAINSPRING_MODELS_DIR"}
_STARTED_IN = os.getcwd()

# `deadline` and `too_slow` measure the machine. All examples of a test share its fixtures on purpose.
settings.register_profile(
    "mainspring",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("mainspring")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Return the ID of a union as a parameter: Python 3.14 names each of them `Union`."""
    return str(val) if isinstance(val, types.UnionType) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Every second worker begins with the last file: in a new checkout each compiles what the others then find compiled."""
    report = yield
    if isinstance(collector, pytest.Directory) and os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579":
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All workers must have the tests in the same order."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.path.parts)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the collected tests from garbage collection, which took a sixth of the collection and a tenth of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """List last, after the failures, what did not run on this machine, and how to run it."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    lines = describe_skipped(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple))
    if lines:
        terminalreporter.section("not run")
        for line in lines:
            terminalreporter.line(line)


class _FailedAssertHandler(logging.Handler):
    """Collects failed asserts that are only logged: in hook handlers and in event listeners."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], AssertionError):
            self.failed.append(f"{record.getMessage()}: {record.exc_info[1]}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that leaves the process in another folder, instead of the next test."""
    yield
    folder = os.getcwd()
    if folder != _STARTED_IN:
        os.chdir(_STARTED_IN)
        pytest.fail(f"The test ended in {folder}. Use monkeypatch.chdir, which restores the working folder.")


@pytest.fixture(autouse=True)
def no_lost_asserts() -> Iterator[None]:
    """Fail a test if an assert in a handler failed, because the run only logs it."""
    handler = _FailedAssertHandler()
    logger = logging.getLogger("mainspring")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not handler.failed, handler.failed


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio."""
    return "asyncio"


_folder_numbers = itertools.count()


def _make_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a new folder; `mktemp` lists the thousands of folders of earlier tests to find the next number."""
    folder = factory.getbasetemp() / f"{name}_{next(_folder_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder named after the test."""
    return _make_folder(tmp_path_factory, re.sub(r"\W", "_", request.node.name)[:30])


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty home folder; no key, endpoint, or setting of the machine is visible.

    Tests share only the downloaded weights: $MAINSPRING_MODELS_DIR keeps its value.
    """
    for name in list(os.environ):
        hidden = name.endswith(_HIDDEN_ENDINGS) or name.startswith(_HIDDEN_STARTS)
        if hidden and name not in _VISIBLE:
            monkeypatch.delenv(name)
    folder = _make_folder(tmp_path_factory, "home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("MAINSPRING_HOME", str(folder / ".agent"))
    if "MAINSPRING_MODELS_DIR" not in os.environ:
        monkeypatch.setenv("MAINSPRING_MODELS_DIR", str(REAL_HOME / ".cache" / "mainspring" / "models"))
    yield folder
    with contextlib.suppress(OSError):  # few tests write to it
        folder.rmdir()


@pytest.fixture(autouse=True)
def no_learned_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget limits that hosts of other tests reported; hosts of different tests have the same address."""
    token_limits = sys.modules.get("mainspring.models.token_limits")
    if token_limits is not None:
        monkeypatch.setattr(token_limits, "_learned", token_limits._LimitCache())


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def material() -> Path:
    """Return the folder with recorded traffic and public test suites next to the checkout; skip the test without it."""
    folder = REPOSITORY.parent / "shared" / "material"
    if not folder.is_dir():
        skip_missing("../shared/material beside the checkout")
    return folder


@pytest.fixture
def no_blocking() -> Iterator[None]:
    """Fail a test if our code makes a blocking call (file, socket, lock, sleep) in the event loop.

    For a whole file: `pytestmark = pytest.mark.usefixtures("no_blocking")`.
    """
    with blockbuster_ctx("mainspring") as watcher:
        for function in watcher.functions.values():
            # Finalizers of objects of earlier tests: the garbage collector runs them in any test.
            function.can_block_in("weakref.py", "__call__")
        yield
