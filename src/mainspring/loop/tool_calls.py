"""Tool calls: from what the model asked for to one result each.

Order for each call: gate, count, lookup, validate and coerce, before, permit, start, execute, transform, image strip, after.
Calls of one answer are checked one by one, in order; those that allow it then run together; results stand in the order of
the calls. Whatever happens, every call gets exactly one result, and no exception of a tool leaves this module.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from mainspring.errors import AgentAbortedError, ToolError
from mainspring.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from mainspring.loop.hooks import (
    BeforeToolRun,
    PermissionCheck,
    ToolBefore,
    ToolFailed,
    ToolFinished,
    ToolGate,
    ToolTransform,
    ToolUnknown,
    ValidationCoerce,
    ValidationReject,
)
from mainspring.loop.state import Approve, Deny, RunState
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock
from mainspring.tools import (
    Tool,
    ToolContext,
    ToolErrorCode,
    ToolResult,
    error_result,
    output_bytes,
    parse_arguments,
    replace_images,
    result_from_exception,
    run_tool,
    to_tool_result,
)
from mainspring.tools.execute import ABORTED_WHILE_RUNNING, NOT_RUN_ABORTED, SKIPPED


class ToolCallBatch(Struct, kw_only=True):
    """What became of the calls of one message.

    Attributes:
        results: By call id; complete unless the run pauses.
        steering: Messages that came in meanwhile and are to be seen next.
        valid_calls: How many calls were more than a mistake of the model (unknown tool, bad arguments).
        denied: Whether a refusal is to end the run.
        paused: What must be answered first, by call id.
        given: What was answered since a pause, by call id.
        counts: How often each tool was called, as the hooks of calls that run together see it: before all of them.
    """

    results: dict[str, ToolResultBlock]
    steering: list[AgentMessage] = field(default_factory=list[AgentMessage])
    valid_calls: int = 0
    denied: bool = False
    paused: dict[str, str] = field(default_factory=dict[str, str])
    given: Mapping[str, Approve | Deny] = field(default_factory=dict[str, Approve | Deny])
    counts: Mapping[str, int] | None = None


class _PendingCall(Struct, kw_only=True):
    """A call on its way: either ``result`` is settled before it runs, or ``tool`` is to be run with ``arguments``."""

    call: ToolUseBlock
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    result: ToolResult | None = None
    finish: bool = False  # whether a settled result still goes through transform and after
    is_invalid: bool = False
    pause: str = ""
    granted: PermissionCheck | None = None
    started: bool = False


async def run_tool_calls(run: RunState, message: Message, answers: ToolCallBatch) -> None:
    """Answer every call of ``message`` that has no result in ``answers`` yet.

    Raises:
        asyncio.CancelledError: If the whole run is cancelled from outside; the results are complete all the same.
    """
    calls = [c for c in message.tool_uses if c.id not in answers.results]
    try:
        if run.config.behavior.tool_execution == "sequential":
            await _sequential(run, calls, answers)
        else:
            await _parallel(run, calls, answers)
    except AgentAbortedError:  # a gate was waiting; the loop sees the signal
        answers.paused = {}
    except BaseException:
        fill_missing_results(run, message, answers)
        raise
    if not answers.paused:
        fill_missing_results(run, message, answers)


def fill_missing_results(run: RunState, message: Message, answers: ToolCallBatch, reason: str = "") -> None:
    """Give every call that has no result yet one that says why."""
    text = reason or (SKIPPED if answers.steering and not run.signal.cancelled else NOT_RUN_ABORTED)
    for call in message.tool_uses:
        if call.id not in answers.results:
            answers.results[call.id] = block = ToolResultBlock(call.id, call.name, text, True)
            run.bus.publish(ToolExecutionEnd(call, block))


async def _sequential(run: RunState, calls: Sequence[ToolUseBlock], answers: ToolCallBatch) -> None:
    for i, call in enumerate(calls):
        if run.signal.cancelled or (i and await _take_steering(run, answers)):
            return
        entry = await _preflight(run, call, answers)
        if entry.pause:
            answers.paused[call.id] = entry.pause
            return
        await _run_one(run, entry, answers)


async def _parallel(run: RunState, calls: Sequence[ToolUseBlock], answers: ToolCallBatch) -> None:
    entries: list[_PendingCall] = []
    answers.counts = _untrusted_note(run, answers)
    for call in calls:
        if run.signal.cancelled:
            return
        entries.append(await _preflight(run, call, answers))
    answers.paused = {e.call.id: e.pause for e in entries if e.pause}
    if answers.paused:
        return
    for i, group in enumerate(_group_concurrent(entries)):
        if run.signal.cancelled or (i and await _take_steering(run, answers)):
            return
        if len(group) == 1:
            await _run_one(run, group[0], answers)
            continue
        room = asyncio.Semaphore(max(1, run.config.behavior.tool_concurrency))
        async with asyncio.TaskGroup() as tasks:
            for entry in group:
                tasks.create_task(_run_limited(room, run, entry, answers))


async def _run_limited(
    semaphore: asyncio.Semaphore, run: RunState, entry: _PendingCall, answers: ToolCallBatch
) -> None:
    async with semaphore:
        await _run_one(run, entry, answers)


def _group_concurrent(entries: Iterable[_PendingCall]) -> list[list[_PendingCall]]:
    """Calls that may run together, in order; one that may not stands alone."""
    groups: list[list[_PendingCall]] = []
    open_group = False
    for entry in entries:
        safe = entry.tool is None or entry.tool.concurrency_safe
        if safe and open_group:
            groups[-1].append(entry)
        else:
            groups.append([entry])
        open_group = safe
    return groups


async def _take_steering(run: RunState, answers: ToolCallBatch) -> bool:
    answers.steering.extend(await run.take_queued("steer", run.config.get_steering))
    return bool(answers.steering)


def _untrusted_note(run: RunState, answers: ToolCallBatch) -> Mapping[str, int]:
    return MappingProxyType(dict(run.counts)) if answers.counts is None else answers.counts


async def _preflight(run: RunState, call: ToolUseBlock, answers: ToolCallBatch) -> _PendingCall:
    """Everything up to the decision whether and how the call runs."""
    run.bus.publish(ToolExecutionStart(call, _label(run, call)))
    given = answers.given.get(call.id)
    if isinstance(given, Deny):
        answers.denied = answers.denied or given.stop
        answers.valid_calls += 1
        return _PendingCall(
            call=call, result=error_result(f"Permission denied: {given.reason}", ToolErrorCode.PERMISSION_DENIED)
        )
    entry = await _gate(run, call, answers)
    if entry is None:
        run.counts[call.name] = run.counts.get(call.name, 0) + 1
        entry = await _check(run, call, answers)
        if entry.result is None:
            await _permit(run, entry, answers)
    elif entry.finish:  # a substitute counts as a call
        run.counts[call.name] = run.counts.get(call.name, 0) + 1
    if not entry.is_invalid:
        answers.valid_calls += 1
    return entry


def _label(run: RunState, call: ToolUseBlock) -> str:
    tool = run.context.tools.get(call.name)
    return (tool.label if tool else "") or run.config.aliases.get(call.name, call.name)


async def _gate(run: RunState, call: ToolUseBlock, answers: ToolCallBatch) -> _PendingCall | None:
    if not run.bus.has(ToolGate):
        return None
    approved = isinstance(answers.given.get(call.id), Approve)
    gate = ToolGate(call, run.turn_id, _untrusted_note(run, answers), approved=approved)
    await run.emit(gate)
    if gate.block:
        reason = gate.block if isinstance(gate.block, str) else gate.reason
        return _PendingCall(
            call=call, result=error_result(f"Blocked: {reason or 'not allowed'}", ToolErrorCode.PERMISSION_DENIED)
        )
    if gate.pause and not gate.approved:
        return _PendingCall(call=call, pause=gate.pause)
    if gate.result is not None:
        return _PendingCall(call=call, result=to_tool_result(gate.result), finish=True)
    return None


async def _check(run: RunState, call: ToolUseBlock, answers: ToolCallBatch) -> _PendingCall:
    """Lookup, validation, and `tool:before`."""
    bus, given = run.bus, answers.given.get(call.id)
    tool = run.context.tools.get(call.name)
    if tool is None:
        return await _handle_unknown_tool(run, call)
    raw = call.input if call.raw_input is None else call.raw_input
    if isinstance(given, Approve) and given.input is not None:
        raw = given.input
    parsed = parse_arguments(tool.input_schema, raw)
    if parsed.error is not None:
        return await _reject(run, call, parsed.error)
    if (parsed.coercions or parsed.repaired) and bus.has(ValidationCoerce):
        await run.emit(ValidationCoerce(call, run.turn_id, parsed.coercions, parsed.repaired))
    arguments = parsed.value
    if bus.has(ToolBefore):
        counts = _untrusted_note(run, answers)
        copied, env = copy.deepcopy(arguments), run.config.env
        before = await run.emit(ToolBefore(call, run.turn_id, copied, parsed.coercions, counts, tool, env))
        if before.input != arguments:
            parsed = parse_arguments(tool.input_schema, before.input)
            if parsed.error is not None:
                return await _reject(run, call, parsed.error)
            arguments = parsed.value
    return _PendingCall(call=call, tool=tool, arguments=arguments)


async def _reject(run: RunState, call: ToolUseBlock, error: str) -> _PendingCall:
    if run.bus.has(ValidationReject):
        error = (await run.emit(ValidationReject(call, run.turn_id, error))).error
    return _PendingCall(
        call=call, is_invalid=True, result=error_result(f"Validation error: {error}", ToolErrorCode.VALIDATION_ERROR)
    )


async def _handle_unknown_tool(run: RunState, call: ToolUseBlock) -> _PendingCall:
    bus = run.bus
    text = run.context.tools.unknown(call.name)
    result = error_result(text, ToolErrorCode.NOT_FOUND)
    suppressed = False
    if bus.has(ToolUnknown):
        unknown = await run.emit(ToolUnknown(call, run.turn_id))
        suppressed = unknown.suppress_error
        if unknown.result is not None:
            result = to_tool_result(unknown.result)
    if not suppressed and bus.has(ToolFailed):
        failed = await run.emit(ToolFailed(call, run.turn_id, ToolError(text)))
        if failed.result is not None:
            result = to_tool_result(failed.result)
    return _PendingCall(call=call, result=result, is_invalid=True)


async def _permit(run: RunState, entry: _PendingCall, answers: ToolCallBatch) -> None:
    """The decision on the final arguments; handlers get a copy, so that what they judged is what runs."""
    if not run.bus.has(PermissionCheck):
        return
    assert entry.tool is not None
    call, arguments = entry.call, copy.deepcopy(entry.arguments)
    approved = isinstance(answers.given.get(call.id), Approve)
    permit = PermissionCheck(call, run.turn_id, arguments, entry.tool, run.config.env, approved=approved)
    await run.emit(permit)
    entry.granted = permit
    if permit.denied:
        text = f"Permission denied: {'; '.join(permit.denied)}"
        entry.result = error_result(text, ToolErrorCode.PERMISSION_DENIED)
        answers.denied = answers.denied or permit.ends_run
    elif permit.skip_reason:
        entry.result = error_result(f"Not run: {permit.skip_reason}", ToolErrorCode.UNKNOWN)
    elif permit.paused:
        entry.pause = permit.paused


async def _run_one(run: RunState, entry: _PendingCall, answers: ToolCallBatch) -> None:
    """From the decision to the result."""
    bus, call, seconds = run.bus, entry.call, 0.0
    try:
        if entry.result is None:
            started = run.config.steps.elapsed()
            result = await _execute(run, entry)
            seconds = run.config.steps.elapsed() - started
            entry.finish = entry.started
        else:
            result = entry.result
        if entry.finish and bus.has(ToolTransform):
            size = output_bytes(result.output)
            result = to_tool_result(
                (await run.emit(ToolTransform(call, run.turn_id, entry.arguments, result, size))).result
            )
    except asyncio.CancelledError:  # the whole run is being cancelled
        answers.results[call.id] = block = ToolResultBlock(call.id, call.name, ABORTED_WHILE_RUNNING, True)
        bus.publish(ToolExecutionEnd(call, block))
        raise
    except AgentAbortedError:
        result = error_result(ABORTED_WHILE_RUNNING if entry.started else NOT_RUN_ABORTED, ToolErrorCode.UNKNOWN)
    except Exception as error:  # what a handler put in place of a result is none
        result = await _handle_tool_error(run, call, error)
    content = result.output
    if not isinstance(content, str) and not run.config.model.info.vision:
        content = replace_images(content)
    block = ToolResultBlock(call.id, call.name, content, result.is_error, result.details)
    answers.results[call.id] = block
    if entry.finish and bus.has(ToolFinished):
        await run.emit(
            ToolFinished(
                call,
                run.turn_id,
                block,
                output_bytes=output_bytes(block.content),
                seconds=seconds,
                metadata=result.metadata,
                tool_counts=MappingProxyType(dict(run.counts)),
            )
        )
    bus.publish(ToolExecutionEnd(call, block, result.title, seconds))


async def _execute(run: RunState, entry: _PendingCall) -> ToolResult:
    """Run the tool. Whatever it raises becomes a result."""
    config, call, tool, signal = run.config, entry.call, entry.tool, run.signal
    assert tool is not None
    if config.bus.has(BeforeToolRun):
        arguments = copy.deepcopy(
            entry.arguments
        )  # what was permitted is what runs, whatever handlers do to what they get
        start = await run.emit(BeforeToolRun(call, run.turn_id, arguments, tool.idempotent))
        if start.block:
            return error_result(f"Not run: {start.block}", ToolErrorCode.UNKNOWN)
    context = ToolContext(
        env=config.env,
        call_id=call.id,
        session_id=config.session_id,
        message_id=run.turn_id,
        agent=config.agent,
        signal=signal,
        paths=entry.granted and entry.granted.paths,
        environment=entry.granted and entry.granted.environment,
        extra=config.extra,
        on_update=_progress_reporter(run, call) if config.bus.listeners else None,
    )
    entry.started = True

    async def execute_guarded() -> ToolResult:
        return await run_tool(tool, entry.arguments, context, config.behavior.abort_grace)

    try:
        return await config.steps.tool(call, execute_guarded)
    except asyncio.CancelledError:
        if not signal.cancelled:
            raise
        return error_result(ABORTED_WHILE_RUNNING, ToolErrorCode.UNKNOWN)
    except Exception as error:
        return await _handle_tool_error(run, call, error)
    finally:
        context.on_update = None  # an abandoned tool has nothing more to tell


async def _handle_tool_error(run: RunState, call: ToolUseBlock, error: Exception) -> ToolResult:
    if run.bus.has(ToolFailed):
        hook = await run.emit(ToolFailed(call, run.turn_id, error))
        if hook.result is not None:
            return to_tool_result(hook.result)
    return result_from_exception(call.name, error)


def _progress_reporter(run: RunState, call: ToolUseBlock) -> Callable[[str, str | None, dict[str, Any] | None], None]:
    def report(output: str, title: str | None, metadata: dict[str, Any] | None) -> None:
        run.bus.publish(ToolExecutionUpdate(call.id, call.name, output, title, metadata))

    return report
