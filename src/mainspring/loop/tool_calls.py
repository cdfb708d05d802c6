"""Tool calls: from the response of the model to one result for each call.

Steps of each call: gate, lookup, validate and coerce, before, count, permit, start, run, transform, replace images, after. The tools
of MCP servers have further hooks: gate and before after `tool:before`, transform and after before `tool:transform`.
The calls of one response are checked one by one, in order; those that allow it then run together; results keep the order of the calls.
Whatever happens, every call gets exactly one result, and no exception of a tool leaves this module.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from mainspring.errors import AgentAbortedError, ToolError
from mainspring.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate, ToolInputCoerced
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import (
    BeforeToolRun,
    McpToolBefore,
    McpToolFinished,
    McpToolGate,
    McpToolTransform,
    PermissionCheck,
    ToolBefore,
    ToolFailed,
    ToolFinished,
    ToolGate,
    ToolTransform,
    ToolUnknown,
    ValidationReject,
)
from mainspring.loop.hooks.tools import MCP_SOURCE
from mainspring.loop.state import Approve, Deny, RunState
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock
from mainspring.tools import (
    Tool,
    ToolContext,
    ToolErrorCode,
    ToolResult,
    error_result,
    output_bytes,
    replace_images,
    result_from_exception,
    run_tool,
    to_tool_result,
)
from mainspring.tools.execute import ABORTED_WHILE_RUNNING, NOT_RUN_ABORTED, SKIPPED

if TYPE_CHECKING:
    from mainspring.tools import parse_arguments
else:
    parse_arguments = lazy_function("mainspring.tools.arguments.parse", "parse_arguments")

CallStatus = Literal["ok", "error", "denied", "skipped"]


class _CheckedCall(Struct, kw_only=True):
    """A tool call after its checks: it is ready to run, has its result already, or pauses the run.

    Attributes:
        call: The call.
        tool_counts: The counts before this call, for its hooks.
        tool: The tool to run.
        arguments: The validated arguments to run it with.
        permission: The decision that allowed the call, if handlers made one.
        result: The result of a call that will not run.
        status: How the call ended, if that is not in its result.
        is_substitute: Whether a gate provided ``result`` in place of the tool, so that it is handled like the tool's own.
        is_invalid: Whether the model made a mistake: an unknown tool or invalid arguments.
        pause: Why the call needs an approval first.
        has_started: Whether the tool has started.
        exception: The exception that the tool raised.
    """

    call: ToolUseBlock
    tool_counts: Mapping[str, int]
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    permission: PermissionCheck | None = None
    result: ToolResult | None = None
    status: CallStatus | None = None
    is_substitute: bool = False
    is_invalid: bool = False
    pause: str = ""
    has_started: bool = False
    exception: Exception | None = None

    @property
    def is_of_server(self) -> bool:
        """Return True if the hooks of calls to MCP servers apply."""
        return self.tool is not None and self.tool.source.startswith(MCP_SOURCE)


class ToolCallBatch:
    """The tool calls of one message while they are executed.

    Attributes:
        results: The results by call ID; complete unless the run pauses.
        steering: Steering messages that arrived between two calls; the calls after them are skipped.
        pauses: Why calls need an approval first, by call ID.
        has_valid_call: Whether at least one call was not a mistake of the model.
        ends_run: Whether a denial ends the run.
    """

    def __init__(
        self,
        run: RunState,
        message: Message,
        results: dict[str, ToolResultBlock],
        resolutions: Mapping[str, Approve | Deny],
    ) -> None:
        self._run = run
        self._message = message
        self._resolutions = resolutions
        self._shared_counts: Mapping[str, int] | None = None
        self.results = results
        self.steering: list[AgentMessage] = []
        self.pauses: dict[str, str] = {}
        self.has_valid_call = False
        self.ends_run = False

    async def execute(self) -> None:
        """Give each call that has no result yet its result.

        Raises:
            asyncio.CancelledError: If the run is cancelled from outside; the results are complete nevertheless.
        """
        calls = [call for call in self._message.tool_uses if call.id not in self.results]
        try:
            if self._run.config.behavior.tool_execution == "sequential":
                await self._execute_in_sequence(calls)
            else:
                await self._execute_in_parallel(calls)
        except AgentAbortedError:
            # The abort ended the wait for a gate; the loop checks the signal again.
            self.pauses = {}
        except BaseException:
            await self._fill_missing_results()
            raise
        if not self.pauses:
            await self._fill_missing_results()

    async def _fill_missing_results(self) -> None:
        is_skipped = self.steering and not self._run.signal.cancelled
        reason = SKIPPED if is_skipped else NOT_RUN_ABORTED
        await self._run.fill_missing_results(self._message, self.results, reason)

    # --- the order of the calls -------------------------------------------------------------------------------------

    async def _execute_in_sequence(self, calls: Sequence[ToolUseBlock]) -> None:
        for i, call in enumerate(calls):
            if self._run.signal.cancelled or (i and await self._take_steering()):
                return
            checked = await self._check_call(call)
            if checked.pause:
                self.pauses[call.id] = checked.pause
                return
            await self._finish_call(checked)

    async def _execute_in_parallel(self, calls: Sequence[ToolUseBlock]) -> None:
        # All calls are checked before the first one runs, so that approvals are requested before any call has an effect.
        self._shared_counts = self._tool_counts()
        checked_calls: list[_CheckedCall] = []
        for call in calls:
            if self._run.signal.cancelled:
                return
            checked_calls.append(await self._check_call(call))
        self.pauses = {checked.call.id: checked.pause for checked in checked_calls if checked.pause}
        if self.pauses:
            return
        for i, group in enumerate(_group_concurrent(checked_calls)):
            if self._run.signal.cancelled or (i and await self._take_steering()):
                return
            await self._finish_group(group)

    async def _finish_group(self, group: Sequence[_CheckedCall]) -> None:
        if len(group) == 1:
            await self._finish_call(group[0])
            return
        limit = asyncio.Semaphore(max(1, self._run.config.behavior.tool_concurrency))

        async def finish_limited(checked: _CheckedCall) -> None:
            async with limit:
                await self._finish_call(checked)

        async with asyncio.TaskGroup() as tasks:
            for checked in group:
                tasks.create_task(finish_limited(checked))

    async def _take_steering(self) -> bool:
        """Take the steering messages that arrived.

        Return True if there are any, so that no further call runs.
        """
        self.steering.extend(await self._run.take_queued("steer", self._run.config.get_steering))
        return bool(self.steering)

    def _tool_counts(self) -> Mapping[str, int]:
        """The counts for hooks of checks: those before the first call if calls run together."""
        return MappingProxyType(dict(self._run.tool_counts)) if self._shared_counts is None else self._shared_counts

    # --- the checks before a call runs ------------------------------------------------------------------------------

    async def _check_call(self, call: ToolUseBlock) -> _CheckedCall:
        """Check a call in order: an earlier denial, the gate, the arguments, the permission."""
        run = self._run
        tool = run.context.tools.get(call.name)
        label = (tool.label if tool else "") or run.config.aliases.get(call.name, call.name)
        await run.notify(ToolExecutionStart(call, label, tool.source if tool else ""))

        # After a pause the user may have denied the call.
        resolution = self._resolutions.get(call.id)
        if isinstance(resolution, Deny):
            self.ends_run = self.ends_run or resolution.stop
            self.has_valid_call = True
            return _CheckedCall(call=call, tool_counts={}, result=_denial(resolution.reason))

        checked = _CheckedCall(call=call, tool_counts=self._tool_counts())
        passes = not run.bus.has(ToolGate) or await self._check_gate(checked, ToolGate)
        if passes:
            await self._check_arguments(checked)
            if checked.is_of_server and run.bus.has(McpToolGate):
                passes = await self._check_gate(checked, McpToolGate)
            if passes and checked.is_of_server and run.bus.has(McpToolBefore):
                await self._call_before(checked, McpToolBefore)
        # What a gate blocks is not counted.
        if passes or checked.is_substitute:
            run.count_tool(call.name)
        if passes and checked.result is None:
            await self._check_permission(checked)
        if not checked.is_invalid:
            self.has_valid_call = True
        return checked

    async def _check_gate(self, checked: _CheckedCall, kind: type[ToolGate]) -> bool:
        """Call an early gate; return True if the call passes it."""
        run, call = self._run, checked.call
        gate = kind(call, run.turn_id, checked.tool_counts, approved=self._is_approved(call))
        if checked.tool is not None:
            gate.input = copy.deepcopy(checked.arguments)
        await run.emit(gate)
        if gate.block:
            reason = (gate.block if isinstance(gate.block, str) else gate.reason) or "not allowed"
            checked.result = _denial(reason, "Blocked")
        elif gate.pause and not gate.approved:
            checked.pause = gate.pause
        elif gate.result is not None:
            checked.result, checked.is_substitute = to_tool_result(gate.result), True
        else:
            return True
        return False

    async def _check_arguments(self, checked: _CheckedCall) -> None:
        """Look up the tool, validate the arguments, and call `tool:before`, whose handlers may replace them."""
        run, bus, call = self._run, self._run.bus, checked.call
        tool = run.context.tools.get(call.name)
        if tool is None:
            await self._check_unknown_tool(checked)
            return
        resolution = self._resolutions.get(call.id)
        raw = call.input if call.raw_input is None else call.raw_input
        if isinstance(resolution, Approve) and resolution.input is not None:
            raw = resolution.input
        parsed = parse_arguments(tool.input_schema, raw, tool.check)
        if parsed.error is not None:
            await self._reject_arguments(checked, parsed.error)
            return
        checked.tool, checked.arguments = tool, parsed.value
        if (parsed.coercions or parsed.repaired) and bus.is_heard(ToolInputCoerced):
            coercions = tuple([f"{c.path}: {c.rule}" for c in parsed.coercions])
            shown = run.config.aliases.get(call.name, call.name)
            await run.notify(
                ToolInputCoerced(call.id, call.name, coercions, parsed.repaired, run.turn_id, display_name=shown)
            )
        if bus.has(ToolBefore):
            await self._call_before(checked, ToolBefore, parsed.coercions)

    async def _call_before(self, checked: _CheckedCall, kind: type[ToolBefore], coercions: Sequence[Any] = ()) -> None:
        """Call the handlers that may replace the arguments, and validate what they set."""
        run, tool = self._run, checked.tool
        assert tool is not None
        copied = copy.deepcopy(checked.arguments)
        hook = kind(checked.call, run.turn_id, copied, coercions, checked.tool_counts, tool, run.config.env)
        await run.emit(hook)
        if hook.input != checked.arguments:
            parsed = parse_arguments(tool.input_schema, hook.input, tool.check)
            if parsed.error is not None:
                await self._reject_arguments(checked, parsed.error)
            else:
                checked.arguments = parsed.value

    async def _reject_arguments(self, checked: _CheckedCall, error: str) -> None:
        run = self._run
        if run.bus.has(ValidationReject):
            error = (await run.emit(ValidationReject(checked.call, run.turn_id, error))).error
        name = run.config.aliases.get(checked.call.name, checked.call.name)
        checked.result = error_result(f'Validation error: tool "{name}": {error}', ToolErrorCode.VALIDATION_ERROR)
        checked.tool, checked.is_invalid = None, True

    async def _check_unknown_tool(self, checked: _CheckedCall) -> None:
        run, bus, call = self._run, self._run.bus, checked.call
        text = run.context.tools.unknown(call.name, run.config.aliases)
        result = error_result(text, ToolErrorCode.NOT_FOUND)
        error: ToolError | None = ToolError(text)
        if bus.has(ToolUnknown):
            unknown = await run.emit(ToolUnknown(call, run.turn_id))
            if unknown.suppress_error:
                error = None
            if unknown.result is not None:
                result = to_tool_result(unknown.result)
        if error is not None and bus.has(ToolFailed):
            failed = await run.emit(ToolFailed(call, run.turn_id, error))
            if failed.result is not None:
                result = to_tool_result(failed.result)
        checked.result, checked.exception, checked.is_invalid = result, error, True

    async def _check_permission(self, checked: _CheckedCall) -> None:
        """Decide on the final arguments. Handlers get a copy, so that they judge exactly what runs."""
        run, call = self._run, checked.call
        assert checked.tool is not None
        if not run.bus.has(PermissionCheck) and not checked.tool.requires_approval:
            return
        arguments, is_approved = copy.deepcopy(checked.arguments), self._is_approved(call)
        permission = PermissionCheck(call, run.turn_id, arguments, checked.tool, run.config.env, approved=is_approved)
        await run.emit(permission)
        checked.permission = permission
        if permission.denied:
            checked.result = _denial("; ".join(permission.denied))
            self.ends_run = self.ends_run or permission.ends_run
        elif permission.skip_reason:
            checked.result = error_result(f"Not run: {permission.skip_reason}", ToolErrorCode.UNKNOWN)
            checked.status = "skipped"
        elif permission.paused:
            checked.pause = permission.paused
        elif not permission.is_confirmed and checked.tool.needs_approval(checked.arguments):
            checked.result = _denial("it requires an approval, and no user can be asked")

    def _is_approved(self, call: ToolUseBlock) -> bool:
        return isinstance(self._resolutions.get(call.id), Approve)

    # --- from the checks to the result ------------------------------------------------------------------------------

    async def _finish_call(self, checked: _CheckedCall) -> None:
        """Run a call that is ready; store and publish its result."""
        run, bus, call, seconds = self._run, self._run.bus, checked.call, 0.0
        has_output = checked.is_substitute
        try:
            if checked.result is None:
                started = run.config.steps.elapsed()
                result = await self._run_tool(checked)
                seconds = run.config.steps.elapsed() - started
                has_output = checked.has_started
            else:
                result = checked.result
            if has_output:
                if checked.is_of_server:
                    result = await self._transform_server_result(checked, result, seconds)
                if bus.has(ToolTransform):
                    result = await self._transform(checked, result, ToolTransform)
        except asyncio.CancelledError:  # the whole run is being cancelled
            self.results[call.id] = block = ToolResultBlock(call.id, call.name, ABORTED_WHILE_RUNNING, True)
            status = "error" if checked.has_started else "skipped"
            await run.notify(
                ToolExecutionEnd(call, block, status=status, has_output=False, exception=checked.exception)
            )
            raise
        except AgentAbortedError:
            reason = ABORTED_WHILE_RUNNING if checked.has_started else NOT_RUN_ABORTED
            result = error_result(reason, ToolErrorCode.UNKNOWN)
            checked.status = "error" if checked.has_started else "skipped"
        except Exception as error:  # a handler provided an unusable result
            result = await self._result_of_failure(checked, error)

        content = result.output
        if not isinstance(content, str) and not run.config.model.info.vision:
            content = replace_images(content)
        self.results[call.id] = block = ToolResultBlock(call.id, call.name, content, result.is_error, result.details)
        if has_output and bus.has(ToolFinished):
            await self._report_result(checked, block, ToolFinished, seconds, result.metadata)
        status = checked.status or _call_status(result)
        if status == "denied":
            run.denied.append(block.text)
        await run.notify(
            ToolExecutionEnd(
                call, block, result.title, seconds, status, has_output=has_output, exception=checked.exception
            )
        )

    async def _transform_server_result(self, checked: _CheckedCall, result: ToolResult, seconds: float) -> ToolResult:
        """Call the hooks for the result of an MCP server, which come before those for any result."""
        bus, call = self._run.bus, checked.call
        if bus.has(McpToolTransform):
            result = await self._transform(checked, result, McpToolTransform)
        if bus.has(McpToolFinished):
            block = ToolResultBlock(call.id, call.name, result.output, result.is_error, result.details)
            await self._report_result(checked, block, McpToolFinished, seconds, result.metadata)
        return result

    async def _transform(self, checked: _CheckedCall, result: ToolResult, kind: type[ToolTransform]) -> ToolResult:
        hook = kind(checked.call, self._run.turn_id, checked.arguments, result, output_bytes(result.output))
        return to_tool_result((await self._run.emit(hook)).result)

    async def _report_result(
        self,
        checked: _CheckedCall,
        block: ToolResultBlock,
        kind: type[ToolFinished],
        seconds: float,
        metadata: dict[str, Any],
    ) -> None:
        finished = kind(
            checked.call,
            self._run.turn_id,
            block,
            output_bytes=output_bytes(block.content),
            seconds=seconds,
            metadata=metadata,
            tool_counts=checked.tool_counts,
        )
        await self._run.emit(finished)

    async def _run_tool(self, checked: _CheckedCall) -> ToolResult:
        """Run the tool and return its result; every exception becomes a result."""
        run, config, call, tool = self._run, self._run.config, checked.call, checked.tool
        assert tool is not None
        if run.bus.has(BeforeToolRun):
            # A copy: the tool runs with the arguments that were permitted, even if handlers change theirs.
            arguments = copy.deepcopy(checked.arguments)
            start = await run.emit(BeforeToolRun(call, run.turn_id, arguments, tool.idempotent))
            if start.block:
                checked.status = "skipped"
                return error_result(f"Not run: {start.block}", ToolErrorCode.UNKNOWN)
        context = ToolContext(
            env=config.env,
            deps=config.deps,
            call_id=call.id,
            session_id=config.session_id,
            message_id=self._message.id,
            turn_id=run.turn_id,
            agent=config.agent,
            signal=run.signal,
            paths=checked.permission and checked.permission.paths,
            environment=checked.permission and checked.permission.environment,
            extra=config.extra,
            on_update=partial(self._publish_progress, call) if run.bus.is_heard(ToolExecutionUpdate) else None,
        )
        checked.has_started = True

        async def run_with_grace() -> ToolResult:
            return await run_tool(tool, checked.arguments, context, config.behavior.abort_grace)

        try:
            return await config.steps.tool(call, run_with_grace)
        except asyncio.CancelledError:
            if not run.signal.cancelled:
                raise
            return error_result(ABORTED_WHILE_RUNNING, ToolErrorCode.UNKNOWN)
        except Exception as error:
            return await self._result_of_failure(checked, error)
        finally:
            context.on_update = None  # an abandoned tool may still run, but its call has ended

    async def _result_of_failure(self, checked: _CheckedCall, error: Exception) -> ToolResult:
        call, checked.exception = checked.call, error
        if self._run.bus.has(ToolFailed):
            hook = await self._run.emit(ToolFailed(call, self._run.turn_id, error))
            if hook.result is not None:
                return to_tool_result(hook.result)
        return result_from_exception(call.name, error)

    def _publish_progress(
        self, call: ToolUseBlock, output: str, title: str | None, metadata: dict[str, Any] | None
    ) -> None:
        self._run.bus.publish(ToolExecutionUpdate(call.id, call.name, output, title or "", metadata or {}))


def _denial(reason: str, prefix: str = "Permission denied") -> ToolResult:
    return error_result(f"{prefix}: {reason}", ToolErrorCode.PERMISSION_DENIED)


def _call_status(result: ToolResult) -> CallStatus:
    if not result.is_error:
        return "ok"
    return "denied" if result.code is ToolErrorCode.PERMISSION_DENIED else "error"


def _group_concurrent(checked_calls: Iterable[_CheckedCall]) -> list[list[_CheckedCall]]:
    """Group neighboring calls that may run together; any other call is a separate group."""
    groups: list[list[_CheckedCall]] = []
    is_open = False
    for checked in checked_calls:
        is_safe = checked.tool is None or checked.tool.concurrency_safe
        if is_safe and is_open:
            groups[-1].append(checked)
        else:
            groups.append([checked])
        is_open = is_safe
    return groups
