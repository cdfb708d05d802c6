"""The loop: a model is asked, its tools run, it is asked again, until it has answered.

Free functions over explicit data. `agent_loop` needs no Agent: give it a conversation and what to work with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from mainspring.errors import AgentAbortedError, AgentError, AgentProviderError, InvalidResponseError
from mainspring.events import (
    AgentAbort,
    AgentDone,
    AgentEnd,
    AgentStart,
    CancelToken,
    MessageEnd,
    MessageStart,
    RunPause,
    SessionEnd,
    SessionStart,
    SessionTurns,
    SteerInject,
    ToolIntent,
    ToolResultsAfter,
    TurnEnd,
    TurnSource,
)
from mainspring.loop.dispatch import BROKEN_OFF, NO_ANSWER, SKIPPED, TRUNCATED, Answers, answer_calls, settle
from mainspring.loop.run import LoopConfig, LoopContext, LoopResult, Pending, Run
from mainspring.loop.turn import TurnFailed, take_turn
from mainspring.messages import AgentMessage, Message, as_messages


async def agent_loop(
    prompts: str | AgentMessage | Sequence[AgentMessage],
    context: LoopContext,
    config: LoopConfig,
    signal: CancelToken | None = None,
) -> LoopResult:
    """Run a conversation until the model has answered, a limit is reached, or something fails.

    Args:
        prompts: What joins the history first; nothing, to go on from where the history stands.
        context: The conversation. Its history grows; nothing in it is changed.
        config: The model, the hooks, the steps and the limits to work with.
        signal: Set it to abort.

    Returns:
        How the run ended and what it added. A limit ends a run with its status; it does not raise.

    Raises:
        AgentProviderError: If the model failed for good; AgentContextExceededError where the conversation is too long.
        AgentAbortedError: If ``signal`` was set.
    """
    run = Run(context, config, signal or CancelToken())
    error: BaseException | None = None
    await _begin(run, resumed=bool(context.messages))
    try:
        await _prompt(run, as_messages(prompts))
        while run.status is None:  # outer: as long as something follows up
            while run.status is None:  # inner: as long as there are results, steering or a policy's word to answer
                if run.signal.cancelled:
                    raise AgentAbortedError(run.signal.reason)
                more = await _resume(run, context.pending) if context.pending else await _turn(run)
                if run.signal.cancelled:
                    raise AgentAbortedError(run.signal.reason)
                if run.status is None and not await _steer(run) and not more:
                    break
            if run.status is None and not await _follow_up(run):
                run.status = "completed"
    except TurnFailed as failed:
        error = failed.error
        await _keep_partial(run, failed.message)
        raise error from None
    except BaseException as raised:
        error = raised
        raise
    finally:
        await _end(run, error)
    return run.result()


async def _turn(run: Run) -> bool:
    """One turn: the model's answer, and the results of its calls. Says whether the model must be asked again."""
    limit = run.over_limit()
    if limit is not None:
        run.status = limit
        return False
    message, after = await take_turn(run)
    if message.tool_uses:
        more = await _calls(run, message)
    else:
        await _join(run, (message,), "assistant")
        run.config.bus.publish(TurnEnd(run.turn, message, ()))
        more = await _reask(run, message)
    if after is not None and after.continue_with:
        await _join(run, after.continue_with, "synthetic")
        return True
    return more


async def _calls(run: Run, message: Message) -> bool:
    """Have the calls answered; a cut-off answer runs nothing, since its arguments may be cut off too."""
    bus = run.config.bus
    if bus.has(ToolIntent):
        await bus.emit(ToolIntent(run.id, message))
    if message.stop_reason == "max_tokens":
        caps = (run.config.behavior.max_output_tokens, run.config.model.info.max_output_tokens)
        cap = min(filter(None, caps), default=None)
        limit = f" of {cap} tokens" if cap else ""
        answers = Answers(results={})
        settle(run, message, answers, TRUNCATED.format(limit=limit))
        await _pair(run, message, answers)
        _unusable(run, f"the answer was cut off at the output limit{limit}", "output_limit")
        return True
    return await _answer(run, message, Pending(message))


async def _prompt(run: Run, messages: Sequence[AgentMessage]) -> None:
    """Let the prompt join. Calls that a paused run left are not made any more then: the user has moved on."""
    pending = run.context.pending
    if messages and pending is not None:
        run.context.pending = None
        answers = Answers(results=dict(pending.results))
        settle(run, pending.message, answers, SKIPPED)
        await _pair(run, pending.message, answers)
    await _join(run, messages, "prompt")


async def _resume(run: Run, pending: Pending) -> bool:
    """Take up the calls that a paused run left."""
    run.context.pending = None
    run.turn_id = run.config.steps.new_id()
    return await _answer(run, pending.message, pending)


async def _answer(run: Run, message: Message, pending: Pending) -> bool:
    answers = Answers(results=dict(pending.results))
    try:
        await answer_calls(run, message, answers)
    except asyncio.CancelledError:
        await _pair(run, message, answers)
        raise
    if answers.paused:
        run.context.pending = Pending(message, answers.results)
        run.status = "paused"
        if run.config.bus.has(RunPause):
            await run.config.bus.emit(RunPause(run.id, message, answers.results, answers.paused))
        return False
    await _pair(run, message, answers)
    if answers.steering:
        await _inject(run, answers.steering, "steer")
    if answers.denied:
        run.status = "denied"
    elif answers.usable:
        run.repairs = 0
    elif not answers.steering:
        _unusable(run, "no tool call could be understood", "bad_tool_calls")
    return True


async def _pair(run: Run, message: Message, answers: Answers) -> None:
    """Calls and results join the history together, so that it never holds one without the other."""
    steps, bus = run.config.steps, run.config.bus
    ordered = tuple([answers.results[c.id] for c in message.tool_uses])
    results = Message("user", ordered, timestamp=steps.now(), id=steps.new_id())
    run.append((message, results))
    if bus.has(ToolResultsAfter):
        await bus.emit(ToolResultsAfter(run.id, message, results))
    bus.publish(MessageStart(results))
    bus.publish(MessageEnd(results))
    bus.publish(TurnEnd(run.turn, message, ordered))


async def _join(run: Run, messages: str | Sequence[AgentMessage], source: TurnSource) -> None:
    """Messages join the history, under an id, and stores hear of them before anything else happens."""
    if not messages:
        return
    bus = run.config.bus
    stamped = tuple([m if m.id else replace(m, id=run.config.steps.new_id()) for m in as_messages(messages)])
    run.append(stamped)
    if source != "assistant":  # an answer was announced while it was received
        for message in stamped:
            bus.publish(MessageStart(message))
            bus.publish(MessageEnd(message))
    if bus.has(SessionTurns):
        await bus.emit(SessionTurns(run.id, stamped, source))


async def _inject(run: Run, messages: Sequence[AgentMessage], kind: Literal["steer", "follow_up"]) -> bool:
    if messages and run.config.bus.has(SteerInject):
        messages = (await run.config.bus.emit(SteerInject(kind, list(messages)))).messages
    await _join(run, messages, kind)
    return bool(messages)


async def _steer(run: Run) -> bool:
    """Let a waiting message join; at a limit it stays where it waits."""
    if run.config.get_steering is None or run.over_limit() is not None:
        return False
    return await _inject(run, await run.config.steps.receive("steer", run.config.get_steering), "steer")


async def _follow_up(run: Run) -> bool:
    if run.config.get_follow_up is None or run.over_limit() is not None:
        return False
    return await _inject(run, await run.config.steps.receive("follow_up", run.config.get_follow_up), "follow_up")


async def _reask(run: Run, message: Message) -> bool:
    """An answer of nothing (or of reasoning only) is no answer: ask again, but not for ever."""
    if message.text.strip():
        run.repairs = 0
        return False
    _unusable(run, "the model gave neither an answer nor a tool call", "empty")
    await _join(run, (Message.user(NO_ANSWER, timestamp=run.config.steps.now()),), "synthetic")
    return True


def _unusable(run: Run, what: str, reason: str) -> None:
    """Count an answer that led nowhere.

    Raises:
        AgentProviderError: If there were too many in a row.
    """
    run.repairs += 1
    if run.repairs > run.config.behavior.max_repairs:
        model = run.config.model
        text = f"{what}, {run.repairs} times in a row ({model.provider}:{model.model}); try another model or a simpler task"
        raise AgentProviderError(
            text, cause=InvalidResponseError(text, reason=reason, provider=model.provider, model=model.model)
        )


async def _keep_partial(run: Run, message: Message) -> None:
    """What had arrived of a broken-off answer stays on record; its calls get results that say they never ran."""
    if message.tool_uses:
        answers = Answers(results={})
        settle(run, message, answers, BROKEN_OFF)
        await _pair(run, message, answers)
    elif message.content:
        await _join(run, (message,), "assistant")


async def _begin(run: Run, *, resumed: bool) -> None:
    bus = run.config.bus
    bus.publish(AgentStart(run.id))
    if bus.has(SessionStart):
        await bus.emit(SessionStart(run.id, run.config.agent, resumed))


async def _end(run: Run, error: BaseException | None) -> None:
    """The same on every way out: the store hears it, then everybody, then the stream ends."""
    bus = run.config.bus
    stopped = isinstance(error, AgentAbortedError | asyncio.CancelledError)
    if error is not None:
        run.status = "aborted" if stopped else "error"
    assert run.status is not None
    if isinstance(error, AgentError):
        error.outcome = run.result()
    if stopped and bus.has(AgentAbort):
        await bus.emit(AgentAbort(run.id, run.signal.reason or "cancelled"))
    if bus.has(SessionEnd):
        await bus.emit(SessionEnd(run.id, run.status, run.turn, run.usage, error))
    if bus.has(AgentDone):
        await bus.emit(AgentDone(run.id, run.status, run.turn, run.usage, error))
    told = error if isinstance(error, Exception) else None
    bus.publish(AgentEnd(run.id, tuple(run.added), run.status, told))
