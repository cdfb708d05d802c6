"""The output that the runs of an agent must return: its schema, its validators, and the check of the current run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.lazy import lazy_function
from mainspring.loop import RunResult
from mainspring.run_options import RunOptions

if TYPE_CHECKING:
    from mainspring.loop.hooks import HookBus
    from mainspring.policies.structured import StructuredOutput
    from mainspring.tools import RunContext
    from mainspring.tools.schema.output import OutputSchema
else:  # only agents with an output type need them
    StructuredOutput = lazy_function("mainspring.policies.structured", "StructuredOutput")
    OutputSchema = lazy_function("mainspring.tools.schema.output", "OutputSchema")


class ExpectedOutput:
    """Compiles the output type of an agent once, and checks the output of each run.

    Attributes:
        validators: The output validators, in the order of their registration.
    """

    def __init__(self) -> None:
        self.validators: list[Callable[..., Any]] = []
        self._compiled: tuple[Any, OutputSchema] | None = None
        self._current: StructuredOutput | None = None
        self._detach: Callable[[], None] = lambda: None

    def copy(self) -> ExpectedOutput:
        """Return the same output, with the same validators, for another conversation."""
        other = ExpectedOutput()
        other.validators, other._compiled = self.validators, self._compiled
        return other

    def get_schema(self, schema: Any) -> OutputSchema | None:
        """Return the compiled schema; runs with the same one share it. ``None`` for the text of the response."""
        if schema is None:
            return None
        if self._compiled is None or self._compiled[0] is not schema:
            self._compiled = schema, OutputSchema(schema)
        return self._compiled[1]

    def create_check(self, behavior: RunOptions) -> StructuredOutput | None:
        """Return the check of a run's output; ``None`` if any text is an output."""
        if behavior.schema is None and not self.validators:
            return None
        schema, retries = self.get_schema(behavior.schema), behavior.max_output_retries
        return StructuredOutput(schema, retries=retries, validators=self.validators)

    def attach(
        self, check: StructuredOutput | None, bus: HookBus, create_context: Callable[[Any, str], RunContext[Any]]
    ) -> None:
        """Check the output of the run from now on; ``None``: any text is an output."""
        self.detach()
        self._current = check
        if check is not None:
            self._detach = check.attach_to_bus(bus, create_context)

    def detach(self) -> None:
        """End the check of the current run."""
        self._detach()
        self._current, self._detach = None, lambda: None

    def add_to(self, result: RunResult[Any]) -> RunResult[Any]:
        """Return the result of the current run with its output."""
        return result if self._current is None else self._current.result(result)
