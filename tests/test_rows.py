"""A table in one test names each failed row."""

import pytest

from tests.rows import each_row

ROWS = """
import pytest
from tests.rows import each_row

@pytest.fixture
def limit() -> int:
    return 2

@each_row("name, size", [("a", 1), ("b", 2), ("c", 3)])
def test_sizes(name: str, size: int, limit: int) -> None:
    assert size < limit

@pytest.mark.anyio
@each_row("size", [1, 9])
async def test_async(limit: int, size: int) -> None:
    assert size < limit

@each_row("size", [0, 1])
def test_passes(limit: int, size: int) -> None:
    assert size < limit
"""


def test_failed_rows_are_reported_together(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ROWS)

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")

    result.assert_outcomes(passed=1, failed=2)
    output = result.stdout.str()
    assert "2 of 3 rows failed" in output
    assert "row: name='b', size=2" in output
    assert "row: name='c', size=3" in output
    assert "row: name='a'" not in output
    assert "1 of 2 rows failed" in output
    assert "row: size=9" in output


@pytest.mark.parametrize(("names", "rows"), [("a", []), ("a, b", [(1,)])])
def test_table_without_rows_or_with_incomplete_rows_fails(names: str, rows: list[object]) -> None:
    with pytest.raises(ValueError, match="no rows|shorter"):
        each_row(names, rows)
