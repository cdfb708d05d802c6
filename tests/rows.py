"""Tables in one test: cheaper than a test for each row if a row takes less time than pytest needs for a test."""

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
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
            failures = _Failures()
            for row in table:
                with failures.collect(row):
                    body(**fixtures, **row)
            failures.report(len(table))

        async def async_test(**fixtures: Any) -> None:
            failures = _Failures()
            for row in table:
                with failures.collect(row):
                    await body(**fixtures, **row)
            failures.report(len(table))

        signature = inspect.signature(body)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        wrapper = functools.wraps(body)(async_test if inspect.iscoroutinefunction(body) else test)
        vars(wrapper)["__signature__"] = signature.replace(parameters=fixtures)
        return wrapper

    return decorate


class _Failures:
    """The errors of the rows that failed."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def collect(self, row: dict[str, Any]) -> ExitStack:
        """Return a context that collects an error, so that the next row runs too."""

        def add(_: object, error: BaseException | None, __: object) -> bool:
            if not isinstance(error, Exception):
                return False
            error.add_note(f"row: {', '.join(f'{name}={value!r}' for name, value in row.items())}")
            self._errors.append(error)
            return True

        context = ExitStack()
        context.push(add)
        return context

    def report(self, count: int) -> None:
        """Raise the collected errors."""
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} of {count} rows failed", self._errors)
