"""Tables in one test: cheaper than a test for each row if a row takes less time than pytest needs for a test."""

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def each_row(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test body with each row of a table, in one test that reports every failed row.

    Used like `pytest.mark.parametrize`, for tables of hundreds of rows. All rows share the fixtures of the test.

    Args:
        names: The arguments of the body that a row provides, separated by commas.
        rows: The rows: tuples for several names, else values.

    Raises:
        ExceptionGroup: The failures, each with its row as a note.
        ValueError: The table is empty, or a row has another number of values.
    """
    keys = [name.strip() for name in names.split(",")]
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    if not table:
        raise ValueError("The table has no rows.")

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        def test(**fixtures: Any) -> None:
            with _report_failures(len(table)) as collect:
                for row in table:
                    with collect(row):
                        body(**fixtures, **row)

        async def async_test(**fixtures: Any) -> None:
            with _report_failures(len(table)) as collect:
                for row in table:
                    with collect(row):
                        await body(**fixtures, **row)

        signature = inspect.signature(body)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        wrapper = functools.wraps(body)(async_test if inspect.iscoroutinefunction(body) else test)
        vars(wrapper)["__signature__"] = signature.replace(parameters=fixtures)
        return wrapper

    return decorate


@contextmanager
def _report_failures(count: int) -> Generator[Callable[[dict[str, Any]], AbstractContextManager[None]]]:
    failures: list[Exception] = []

    @contextmanager
    def collect(row: dict[str, Any]) -> Generator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a row that fails must not hide the rows after it
            error.add_note(f"row: {', '.join(f'{name}={value!r}' for name, value in row.items())}")
            failures.append(error)

    yield collect
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} rows failed", failures)
