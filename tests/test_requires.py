"""The end of a test run lists what did not run on this machine, and how to run it."""

from pathlib import Path

import pytest

from tests.requires import describe_skipped

REPOSITORY = Path(__file__).resolve().parent.parent


def test_skipped_tests_are_counted_with_what_they_need() -> None:
    reasons = [
        "Skipped: needs Chromium",
        "Skipped: needs Chromium",
        "Skipped: needs ../shared/material beside the checkout",
        "needs bubblewrap, which is not installed",
        "needs a moon",
    ]

    lines = describe_skipped(reasons)

    assert lines[0] == "2 tests need Chromium (apt-get install chromium)"
    assert "1 test needs a moon" in lines
    assert any("put the folder shared/material next to the checkout" in line for line in lines)
    assert any("apt-get install bubblewrap" in line for line in lines)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("TEST_PODMAN=1, podman and busybox-static", "podman busybox-static, then TEST_PODMAN=1 make test"),
        ("busybox-static", "apt-get install busybox-static"),
        ("a sandbox that works here: bubblewrap is not installed", "apt-get install bubblewrap"),
        ("uv, and a package index", "pip install uv"),
        ("PyInstaller", "pip install pyinstaller"),
        ("root: others cannot read it anyway", "run the tests as root"),
    ],
)
def test_missing_thing_is_listed_with_a_way_to_provide_it(what: str, how: str) -> None:
    [line] = describe_skipped([f"needs {what}"])

    assert line.startswith(f"1 test needs {what} (")
    assert how in line


def test_run_ends_with_what_did_not_run(pytester: pytest.Pytester) -> None:
    hook = (
        "from tests.conftest import pytest_terminal_summary\n"  # the hook of this repository, without its other plugins
    )
    pytester.makeconftest(f"import sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n{hook}")
    pytester.makepyfile(
        "import pytest\n\ndef test_page():\n    pytest.skip('needs Chromium')\n\ndef test_fails():\n    assert 0\n"
    )

    result = pytester.runpytest_subprocess("-q", "-ra", "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(
        ["FAILED *", "*not run*", "1 test needs Chromium (apt-get install chromium)", "1 failed, 1 skipped*"]
    )
