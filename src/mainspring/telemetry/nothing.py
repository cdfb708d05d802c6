"""What stands for a tracer and a meter where telemetry is off, so that whoever uses them need not ask whether it is."""

from __future__ import annotations

from typing import Any, Self


class Nothing:
    """A tracer, a meter, a span or an instrument that does nothing: whatever is asked of it gives it again. It is false, so a span of
    it is not recording; used as a decorator it gives the function as it was.
    """

    def __getattr__(self, name: str) -> Self:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Itself; or the function that it decorates."""
        return given[0] if len(given) == 1 and not options and callable(given[0]) else self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False
