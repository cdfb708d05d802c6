"""The plugin: offers the tool for the final answer, validates the answer, and asks again if it is invalid."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring.env import LocalEnv
from mainspring.errors import AgentOutputError, ConfigError, ErrorCode, ToolError, describe_failure
from mainspring.loop.hooks import (
    MessagesAdded,
    ModelErrorHook,
    OutputHook,
    SessionEnd,
    SessionStart,
    ToolGate,
    TurnAfter,
    TurnBefore,
)
from mainspring.loop.hooks.bus import remove_all
from mainspring.messages import ToolDefinition
from mainspring.policies.structured.options import OUTPUT_TOOL
from mainspring.text import pluralize
from mainspring.tools import RunContext, ToolErrorCode, error_result, safe_str
from mainspring.tools.schema.output import Answer, OutputFunctionCall, OutputSchema, call_function, extract_json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mainspring.loop import CoreAgent, HookBus, Plugin, RunResult
    from mainspring.messages import ToolUseBlock

_DESCRIPTION = (
    "Takes the final answer. When everything else is done, call this exactly once, with the complete answer as its arguments, "
    "in place of answering in text."
)
_ACCEPTED = "The answer was taken; the task is complete."
_DUPLICATE = "Not taken: a final answer was given before this one."
_RETRY_PROMPT = "Not taken: {error}\nCall {tool} again with an answer that fits its schema."
_FORMAT_REMINDER = (
    "The answer must be given in a fixed form, and the last reply was not: {error}\n"
    "Give the same answer again by calling the tool {tool}. If you cannot call tools, reply with nothing but one JSON value that "
    "fits this schema:\n{schema}"
)
_NO_OUTPUT = "The model stopped without the requested output: {reason}."
_NO_OUTPUT_ADVICE = (
    "{advice}, or use another model. The text of the last response is in the result (error.outcome.text)."
)
_CUT_OFF = "it was cut off at the output limit"
_OFFER_ORDER = 50  # after handlers that choose tools, before handlers that count the request
_ACCEPT_ORDER = 1  # after the application's own gates, before gates that know only registered tools
_CALL_AGAIN_PROMPT = "Not taken: {error}\nCall {tool} again."
_ANSWER_AGAIN_PROMPT = "Not taken: {error}\nAnswer again, in the same form."
_BROKEN_VALIDATOR = "The answer could not be checked."
_SCHEMA_CHARACTERS = 8000  # a longer schema is in the tool's definition only: it would fill the window of a small model


class StructuredOutput:
    """Makes runs end with a value that matches a schema.

    The model gets one more tool, ``__output__``, whose arguments are the answer. Its other tools stay usable. The first valid
    answer ends the run; other calls in the same message still run. An invalid answer is returned with its errors. An answer in
    text is accepted if it contains exactly one JSON value that matches; otherwise the model is asked, and if the provider supports
    it, forced, to call the tool. When all attempts are used the run fails: its status is ``no_output``.

    Args:
        schema: The expected output: an `OutputSchema`, or its argument. ``None``: the text of the response, for validators of texts.
        retries: Number of further attempts after invalid answers.
        validators: Functions that check or replace a valid output. They are called in order, with the output, or with the context
            of the run and the output. A `ToolError` rejects the output: the model gets its text and tries again.

    Attributes:
        target: The expected output as a schema; ``None`` for text.
        output: The output of the last run; ``None`` if it has none.
        error: Reason for the missing output; empty if there is an output.
        attempts: Number of answers checked in the last run.

    Raises:
        ConfigError: If the schema is invalid.
    """

    def __init__(self, schema: Any, *, retries: int = 2, validators: Sequence[Callable[..., Any]] = ()) -> None:
        self.target = schema if schema is None or isinstance(schema, OutputSchema) else OutputSchema(schema)
        self.retries = retries
        self._validators = [(validator, validator_takes_context(validator)) for validator in validators]
        self._specs: tuple[ToolDefinition, ...] = ()
        if self.target is not None:
            self._specs = (ToolDefinition(OUTPUT_TOOL, _DESCRIPTION, self.target.arguments),)
        self._tools: tuple[Sequence[ToolDefinition], tuple[ToolDefinition, ...]] = ((), self._specs)
        self._may_force = True
        self._reset()

    def _reset(self) -> None:
        self.output: Any = None
        self.error = ""
        self.attempts = 0
        self._raw_value: Any = None
        self._accepted_value = self._gave_up = self._force = self._forced = False
        self._answers: dict[str, Answer] = {}
        self._text = ""
        self._failure: Exception | None = None

    def install(self, agent: CoreAgent) -> None:
        """Attach to the hooks of an agent, for all its runs."""

        def context(deps: Any, turn_id: str) -> RunContext[Any]:
            return RunContext(env=agent.env, deps=deps, turn_id=turn_id, agent=agent.name, extra=agent.extra)

        self.attach_to_bus(agent.bus, context)

    def for_child(self) -> Plugin | None:
        """Return ``None``: a subagent has its own output."""
        return None

    def attach_to_bus(
        self, bus: HookBus, context: Callable[[Any, str], RunContext[Any]] | None = None
    ) -> Callable[[], None]:
        """Attach to the hooks of a bus; the returned function detaches.

        Args:
            bus: The bus.
            context: Returns the context for output functions and validators from the dependencies and the ID of the turn.
        """
        self._bus = bus
        self._create_context = context or _default_context
        removers = [
            bus.on(SessionStart, self._on_session_start),
            bus.on(MessagesAdded, self._on_new_input),
            bus.on(TurnBefore, self._on_turn_before, order=_OFFER_ORDER),
            bus.on(TurnAfter, self._on_turn_after),
            bus.on(ToolGate, self._on_tool_gate, order=_ACCEPT_ORDER),
            bus.on(ModelErrorHook, self._on_model_error),
            bus.on(SessionEnd, self._end, order=-50),
        ]
        return partial(remove_all, removers)

    def result(self, run: RunResult) -> RunResult:
        """Return the result of a run with its output, or with the reason why it is missing."""
        text = run.text or self._text if self.error else run.text
        stats = replace(run.stats, output=self.output)
        return replace(run, text=text, output_or_none=self.output, output_error=self.error, stats=stats)

    # --- one run ----------------------------------------------------------------------------------------------------

    def _on_session_start(self, hook: SessionStart) -> None:
        self._reset()

    def _on_new_input(self, hook: MessagesAdded) -> None:
        """Discard the answer: a message arrived after it, so another answer is needed."""
        if hook.source in ("steer", "follow_up"):
            self._accepted_value = self._gave_up = False
            self.output = None

    def _on_turn_before(self, hook: TurnBefore) -> None:
        request = hook.request
        if (
            self._answers and not self._accepted_value
        ):  # These calls were never admitted; a model that repeats them forever must stop, too.
            self.attempts += 1
            self._can_retry("the call was denied")
        self._answers = {}
        if self._accepted_value or self._gave_up:
            hook.stop = hook.stop or "completed"
            return
        if request.tools is not self._tools[0]:  # Otherwise the same object, so that it is encoded once.
            others = [t for t in request.tools if t.name != OUTPUT_TOOL]  # A registered choice could not be called now.
            self._tools = (request.tools, (*others, *self._specs))
        # Some hosts do not allow a forced tool call with reasoning; the model is only asked to call it.
        thinks = request.thinking not in (None, "off") or request.thinking_budget is not None
        self._forced = self._force and self._may_force and not thinks
        hook.request = replace(
            request, tools=self._tools[1], tool_choice=OUTPUT_TOOL if self._forced else request.tool_choice
        )

    async def _on_turn_after(self, hook: TurnAfter) -> None:
        """Check the model's response: calls of the output tool are validated here, since their text is complete."""
        message, target = hook.message, self.target
        if hook.error is not None:
            return
        cut_off = message.stop_reason == "max_tokens"
        if cut_off and not self._accepted_value:
            self.error = f"the last response is incomplete: {_CUT_OFF}"
        calls = [c for c in message.tool_uses if c.name == OUTPUT_TOOL]
        if message.tool_uses:
            if not cut_off:  # The loop does not execute calls of a truncated response.
                self._answers = {c.id: self._parse_call(c, target) for c in calls if target is not None}
            return
        if (
            message.stop_reason == "pause_turn" or not message.text.strip()
        ):  # The loop requests another response, within its usual limit.
            return
        answers = _answers_in_text(target, message.text)
        found = [a for a in answers if a.error is None]
        self.attempts += 1
        error, is_rejected = _CUT_OFF if cut_off else _problem(answers, found), False
        if len(found) == 1 and not cut_off:
            answer = await self._complete(found[0], hook)
            if answer.error is None:
                self._accept(answer)
                return
            error, is_rejected = answer.error, True
        if not self._can_retry(error):
            return
        if target is None or is_rejected:
            hook.continue_with = _ANSWER_AGAIN_PROMPT.format(error=error)
            return
        self._force = True
        schema = self._schema_text(target)
        hook.continue_with = _FORMAT_REMINDER.format(error=error, tool=OUTPUT_TOOL, schema=schema)

    def _parse_call(self, call: ToolUseBlock, target: OutputSchema) -> Answer:
        return target.parse_arguments(call.input if call.raw_input is None else call.raw_input)

    async def _on_tool_gate(self, hook: ToolGate) -> None:
        """Accept the final answer if this call is one; an earlier gate may still deny it."""
        if hook.name != OUTPUT_TOOL or hook.result is not None or self.target is None:
            return
        answer = self._answers.pop(hook.call_id, None) or self.target.parse_arguments(hook.input)
        if self._accepted_value:
            hook.result = error_result(_DUPLICATE, ToolErrorCode.VALIDATION_ERROR)
            return
        self.attempts += 1
        prompt = _RETRY_PROMPT
        if answer.error is None:
            answer, prompt = await self._complete(answer, hook), _CALL_AGAIN_PROMPT
        if answer.error is None:
            self._accept(answer)
            hook.result = _ACCEPTED
            return
        self._raw_value = answer.raw
        self._text = msgspec.json.encode(answer.raw).decode()
        self._can_retry(answer.error)
        text = prompt.format(error=answer.error, tool=OUTPUT_TOOL)
        hook.result = error_result(text, ToolErrorCode.VALIDATION_ERROR)

    async def _complete(self, answer: Answer, hook: ToolGate | TurnAfter) -> Answer:
        """Return the answer after the output function, if it is one, and all validators."""
        value = answer.value
        if not self._validators and not isinstance(value, OutputFunctionCall):
            return answer
        context = self._create_context(hook.deps, hook.turn_id)
        try:
            if isinstance(value, OutputFunctionCall):
                value = await value.run(context)
            for validate, with_context in self._validators:
                checked = await call_function(validate, *((context, value) if with_context else (value,)))
                if checked is None and value is not None and not self._accepts_none():
                    raise TypeError(
                        f"The output validator {_function_name(validate)} returned None. Return the output."
                    )
                value = checked
        except ToolError as error:
            return Answer(None, answer.raw, safe_str(error))
        except Exception as error:  # a bug of the application: another attempt of the model cannot fix it
            self._failure = error
            return Answer(None, answer.raw, _BROKEN_VALIDATOR)
        return Answer(value, answer.raw)

    def _accepts_none(self) -> bool:
        target = self.target
        return target is not None and (target.has_functions or target.convert(None).error is None)

    def _on_model_error(self, hook: ModelErrorHook) -> None:
        """Retry without a forced call if the host rejects it."""
        rejected = hook.error.code is ErrorCode.UNKNOWN or hook.error.reason == "bad_request"
        if self._forced and rejected and "tool_choice" in str(hook.error):
            self._may_force = False
            hook.retry()

    async def _end(self, hook: SessionEnd) -> None:
        if not self._accepted_value and (not self.error or hook.status != "completed"):
            reason = self.error if hook.error is None else describe_failure(hook.error)
            self.error = f"The run ended ({hook.status}) without an output{reason and f': {reason}'}"
        if self._bus.has(OutputHook):
            output_hook = await self._bus.emit(OutputHook(self.output, self._raw_value, self.attempts, self.error))
            self.output = output_hook.output
            if self.output is not None:  # a handler may provide one in place of the missing one
                self.error = ""
        if self.error and self._failure is not None:
            failed = AgentOutputError(
                f"The output could not be checked: {type(self._failure).__name__}: {safe_str(self._failure)}. "
                "To reject an output, so that the model tries again, raise ToolError."
            )
            failed.__cause__ = self._failure
            hook.correct("no_output", failed)
        elif self.error and hook.status == "completed":
            more = "Allow more attempts (max_output_retries), simplify the schema"
            advice = "Raise max_output_tokens" if self.error.endswith(_CUT_OFF) else more
            reason = _NO_OUTPUT.format(reason=self.error)
            text = f"{reason} {_NO_OUTPUT_ADVICE.format(advice=advice)}"
            hook.correct("no_output", AgentOutputError(text, reason))
        elif not self.error and hook.status in ("max_turns", "max_total_tokens", "max_cost"):
            # A valid answer on the last turn that a limit allows is complete: no further request was needed.
            hook.correct("completed")

    def _accept(self, answer: Answer) -> None:
        self._accepted_value, self._force = True, False
        self.output, self._raw_value, self.error = answer.value, answer.raw, ""

    def _can_retry(self, error: str) -> bool:
        """Return True if another attempt is allowed; otherwise the run ends without an output."""
        self.error = f"no response matched the schema in {pluralize(self.attempts, 'attempt', 'attempts')}; the last error: {error}"
        self._gave_up = self.attempts > self.retries or self._failure is not None
        return not self._gave_up

    def _schema_text(self, target: OutputSchema) -> str:
        text = msgspec.json.encode(target.schema).decode()
        return text if len(text) <= _SCHEMA_CHARACTERS else f"(that of the arguments of {OUTPUT_TOOL})"


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _default_context(deps: Any, turn_id: str) -> RunContext[Any]:
    return RunContext(env=LocalEnv("."), deps=deps, turn_id=turn_id)


def _answers_in_text(target: OutputSchema | None, text: str) -> list[Answer]:
    """Return the values of a response in text."""
    if target is None:
        return [Answer(text, text)]
    answers = [target.validate(value) for value in extract_json_values(text)]
    if target.takes_text and not any(answer.error is None for answer in answers):
        return [Answer(text, text)]
    return answers


def validator_takes_context(validator: Callable[..., Any]) -> bool:
    """Return True if an output validator takes the context of the run before the output.

    Raises:
        ConfigError: If it takes neither one nor two arguments.
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in inspect.signature(validator).parameters.values() if p.kind in kinds]
    required = [p for p in parameters if p.default is inspect.Parameter.empty]
    if len(required) > 2 or not parameters:
        raise ConfigError(
            "An output validator takes the output, or the context and the output: def check(ctx: RunContext[Db], output: Report)."
        )
    return len(required) == 2


def _problem(answers: Sequence[Answer], fitting: Sequence[Answer]) -> str:
    """Return the reason why an answer in text was rejected."""
    if fitting:
        return f"it contains {pluralize(len(fitting), 'value that matches', 'values that match')} the schema, but must contain one"
    if len(answers) == 1:
        return answers[0].error or ""
    return "it contains no JSON value that matches the schema"
