"""The manifest is well formed, and the plugin counts passed tests, alone and under xdist."""

import re
import textwrap

import pytest

from tests.requirements_plugin import Ledger, Manifest, Section, load_manifest, summary

MANIFEST = load_manifest()


def test_ids_are_unique_and_numbered_by_family() -> None:
    ids = [key for section in MANIFEST.sections for key in section.requirements]

    assert len(ids) == len(set(ids)) == 636
    assert all(re.fullmatch(r"[A-Z]{3}-\d\d", key) for key in ids)
    for family in {key[:3] for key in ids}:
        numbers = sorted(int(key[4:]) for key in ids if key.startswith(family))
        assert numbers == list(range(1, len(numbers) + 1)), family


def test_every_requirement_has_a_unique_text() -> None:
    texts = [text for section in MANIFEST.sections for text in section.requirements.values()]

    assert all(text and text == text.strip() for text in texts)
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("issue", MANIFEST.issues)
def test_issues_name_known_ids_once(issue: str) -> None:
    ids = MANIFEST.issues[issue]

    assert len(ids) == len(set(ids))
    assert set(ids) <= MANIFEST.ids


SMALL = Manifest(
    [Section("First", {"AAA-01": "one", "AAA-02": "two"}), Section("Second", {"BBB-01": "three"})],
    {"7": ["AAA-02", "BBB-01"]},
)


def test_summary_counts_and_lists_by_section() -> None:
    ledger = Ledger(passed={"AAA-01", "BBB-01"}, spoiled={"BBB-01"})

    assert summary(ledger, SMALL) == ["requirements covered: 1 of 3"]
    assert summary(ledger, SMALL, list_open=True) == [
        "", "First", "  AAA-02  two", "", "Second", "  BBB-01  three", "", "requirements covered: 1 of 3"
    ]  # fmt: skip
    assert summary(ledger, SMALL, issue="7") == ["requirements covered: 0 of 2 (issue 7)"]


SUITE = """
    import pytest

    @pytest.mark.covers("PKG-01")
    def test_passes(): pass

    @pytest.mark.covers("PKG-01", "PKG-02")
    @pytest.mark.parametrize("value", [1, 2])
    def test_passes_too(value): pass

    @pytest.mark.covers("PKG-03")
    def test_passes_here(): pass

    @pytest.mark.covers("PKG-03")
    @pytest.mark.parametrize("value", [1, 2])
    def test_fails_once(value): assert value == 1

    @pytest.mark.covers("PKG-04")
    def test_is_skipped(): pytest.skip("not here")

    @pytest.mark.covers("PKG-05")
    def test_runs(): pass

    @pytest.mark.covers("PKG-05")
    @pytest.mark.soak
    def test_is_deselected(): pass

    @pytest.fixture
    def broken():
        yield
        raise RuntimeError("teardown")

    @pytest.mark.covers("PKG-06")
    def test_breaks_afterwards(broken): pass

    @pytest.mark.covers("PKG-07")
    class TestAll:
        def test_of_class(self): pass
"""


@pytest.fixture
def inner_suite(pytester: pytest.Pytester, repository: object, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Create a small test suite that uses the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    pytester.makeini("[pytest]\nmarkers =\n  covers\n  slow\n  soak\n")
    pytester.makepyfile(textwrap.dedent(SUITE))
    return pytester


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_id_is_covered_when_all_its_tests_ran_and_passed(
    inner_suite: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = inner_suite.runpytest_subprocess(
        "-p", "tests.requirements_plugin", "-m", "not soak", "--requirements", *workers
    )

    lines = result.outlines
    assert lines[-1] == "requirements covered: 3 of 636"
    listed = {line.split()[0] for line in lines if re.match(r"  [A-Z]{3}-\d\d  ", line)}
    assert MANIFEST.ids - listed == {"PKG-01", "PKG-02", "PKG-07"}
    closing = next(index for index, line in enumerate(lines) if re.match(r"=+ .*1 failed.* in ", line))
    assert closing < lines.index("Packaging, layers, principles")


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_unknown_id_fails_the_collection(inner_suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    inner_suite.makepyfile(test_bad='import pytest\n@pytest.mark.covers("PKG-99")\ndef test_it(): pass\n')

    result = inner_suite.runpytest_subprocess("-p", "tests.requirements_plugin", *workers)

    result.stdout.fnmatch_lines(["*test_bad.py::test_it: Unknown requirement in requirements.toml: 'PKG-99'*"])
    assert result.ret != 0


@pytest.mark.parametrize(("mark", "argument"), [("", "material"), ("@pytest.mark.slow", "")], ids=["material", "slow"])
def test_test_that_may_not_run_claims_nothing(inner_suite: pytest.Pytester, mark: str, argument: str) -> None:
    module = """
        import pytest
        {module_mark}
        @pytest.fixture
        def material(): pytest.skip("not here")

        @pytest.mark.covers("PKG-01")
        def test_with_own_data(): pass

        {mark}
        {own_mark}
        def test_other({argument}): pass
    """
    module = module.replace("{mark}", mark).replace("{argument}", argument)
    claim = 'pytest.mark.covers("PKG-01")'
    text = textwrap.dedent(module).format(module_mark=f"pytestmark = {claim}", own_mark="")
    inner_suite.makepyfile(test_module=text)
    result = inner_suite.runpytest_subprocess("-p", "tests.requirements_plugin", "test_module.py")
    assert result.outlines[-1] == "requirements covered: 1 of 636"

    inner_suite.makepyfile(test_module=textwrap.dedent(module).format(module_mark="", own_mark=f"@{claim}"))
    result = inner_suite.runpytest_subprocess("-p", "tests.requirements_plugin", "test_module.py")
    result.stdout.fnmatch_lines(["*::test_other: This test cannot claim a requirement: it *"])
    assert result.ret != 0


def test_issue_option_limits_the_summary(inner_suite: pytest.Pytester) -> None:
    result = inner_suite.runpytest_subprocess(
        "-p", "tests.requirements_plugin", "-m", "not soak", "--requirements-issue", "2"
    )

    assert result.outlines[-1] == f"requirements covered: 2 of {len(MANIFEST.issues['2'])} (issue 2)"


def test_unknown_issue_is_a_usage_error(inner_suite: pytest.Pytester) -> None:
    result = inner_suite.runpytest_subprocess("-p", "tests.requirements_plugin", "--requirements-issue", "99")

    result.stderr.fnmatch_lines(["*Unknown issue in requirements.toml: 99. Known issues: *"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
