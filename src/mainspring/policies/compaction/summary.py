"""A model sums up the older part of a conversation; the newest part stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.errors import AgentAbortedError, AgentError, ContextExceededError, MainspringError, ModelError
from mainspring.loop.option_types import Compaction
from mainspring.messages import AgentMessage, Message
from mainspring.messages.token_estimate import CHARS_PER_TOKEN, estimate_tokens
from mainspring.models import ModelRequest
from mainspring.policies.compaction import summary_format as wording
from mainspring.policies.compaction.selection import find_cut_index, select_important, splits_turn
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider

logger = logging.getLogger("mainspring.compaction")
logger.addHandler(logging.NullHandler())


_SUMMARY_TOKENS = 4096
_PROMPTS_SHARE = 0.2  # of what stays, for the user's own words
_CHUNK = 60_000  # tokens of one request where the window is not known
_SMALLEST = 1000
_SHORTEST = 16  # characters; less is no summary


class CompactionResult(Struct, frozen=True, kw_only=True):
    """What a compaction did.

    Attributes:
        summary: The summary; empty where older messages were only left out.
        first_kept: Id of the first message that stayed after the summary.
        tokens_before: About how many tokens the messages had.
        tokens_after: About how many they have.
        files: The files that the part was about which was summed up.
        calls: How many requests to a model it took.
    """

    summary: str
    first_kept: str
    tokens_before: int
    tokens_after: int
    files: wording.TouchedFiles
    calls: int


class SummaryCompactor:
    """A `Compactor` that asks a model for a summary. The history is only replaced once there is a good one.

    A summary that came before is brought up to date, not summed up again. What is too long for one request goes in pieces, and a
    piece that is still too long in halves. Where no summary can be had, the history stays (`None`); where it does not fit
    the model any more (``reason`` is ``overflow``), the oldest messages are left out and the history says so.

    Args:
        options: See `Compaction`.

    Attributes:
        last: What the last compaction did.
    """

    def __init__(self, options: Compaction | None = None) -> None:
        self.options = options or Compaction()
        self.last: CompactionResult | None = None
        self._calls = 0

    async def compact(
        self,
        messages: Sequence[AgentMessage],
        *,
        reason: str,
        side_call: SideModelCall | None = None,
        window: int | None = None,
        chars_per_token: float = CHARS_PER_TOKEN,
        instructions: str = "",
    ) -> Sequence[AgentMessage] | None:
        """See `Compactor`.

        Args:
            messages: The history.
            reason: Why, as in ``threshold`` or ``overflow``.
            side_call: Asks a model; without it older messages can only be left out.
            window: The model's window in tokens, where it is known.
            chars_per_token: How many characters make a token.
            instructions: What the summary should look at in particular.
        """
        keep = self.options.kept(window)
        cut = find_cut_index(messages, keep, chars_per_token)
        if cut == 0 and reason == "overflow":  # even the newest part is too long: keep as little as can be
            cut = find_cut_index(messages, keep // 8, chars_per_token)
        old = messages[:cut]
        if not old or all(map(wording.is_summary, old)):
            return None
        self._calls = 0
        try:
            summary = await self._summarize(messages, cut, side_call, window, instructions)
        except AgentAbortedError:
            raise
        except (MainspringError, ValueError) as error:
            logger.warning("the conversation could not be summed up (%s); it stays as it is", error)
            if reason != "overflow":
                return None
            summary = ""
        return self._made(messages, cut, summary, keep, chars_per_token)

    def _made(
        self, messages: Sequence[AgentMessage], cut: int, summary: str, keep: int, chars_per_token: float
    ) -> Sequence[AgentMessage]:
        old, new = messages[:cut], messages[cut:]
        before = [m for m in old if wording.is_summary(m)]
        earlier, files, said = (
            wording.parse_summary_message(before[-1])
            if before and isinstance(before[-1], Message)
            else ("", wording.TouchedFiles(), [])
        )
        files |= wording.collect_files(old)
        said += [m.text for m in old if isinstance(m, Message) and _is_user_prompt(m)]
        room = round(keep * _PROMPTS_SHARE * chars_per_token)
        text = summary or "\n\n".join(
            filter(None, (earlier, f"(No summary could be made of {pluralize(len(old), 'older message')}; left out.)"))
        )
        kept = self._always(old)
        head = wording.summary_message(text, files, _fit_prompts(said, room))
        result = [head, *kept, *new]
        self.last = CompactionResult(
            summary=summary,
            first_kept=next((m.id or "" for m in (*kept, *new) if isinstance(m, Message)), ""),
            tokens_before=estimate_tokens(messages, chars_per_token),
            tokens_after=estimate_tokens(result, chars_per_token),
            files=files,
            calls=self._calls,
        )
        return result

    def _always(self, old: Sequence[AgentMessage]) -> list[AgentMessage]:
        """What the application wants to stay of the old part, calls with their results."""
        keep, important = self.options.keep, set[int]()
        if self.options.keep_important:
            important = select_important(old, self.options.keep_important)
        elif keep is None:
            return []
        wanted = [(i in important or bool(keep and keep(m))) and not wording.is_summary(m) for i, m in enumerate(old)]
        for i in range(1, len(old)):
            calls, results = old[i - 1], old[i]
            if isinstance(calls, Message) and calls.tool_uses and isinstance(results, Message) and results.tool_results:
                wanted[i - 1] = wanted[i] = wanted[i - 1] or wanted[i]
        return [m for m, stays in zip(old, wanted, strict=True) if stays]

    async def _summarize(
        self,
        messages: Sequence[AgentMessage],
        cut: int,
        side_call: SideModelCall | None,
        window: int | None,
        instructions: str,
    ) -> str:
        """The summary of what is cut off.

        Raises:
            MainspringError: If no good one could be had.
        """
        if side_call is None:
            raise AgentError("there is nobody to ask for a summary")
        old = messages[:cut]
        earlier = ""
        for message in old:
            if wording.is_summary(message) and isinstance(message, Message):
                earlier = wording.parse_summary_message(message)[0]
        model = self.options.model
        if model is not None:
            window = model.info.context_window or window
        room = _CHUNK if window is None else max(window - _SUMMARY_TOKENS * 2 - 2000, _SMALLEST)
        task = "\n\n".join(
            filter(
                None,
                (
                    self.options.prompt or wording.SUMMARY_PROMPT,
                    wording.SPLIT_TURN_NOTE if splits_turn(messages, cut) else "",
                    instructions,
                ),
            )
        )
        pieces = wording.render_transcript(old)
        while pieces:
            count = _count_fitting(pieces, room)
            try:
                earlier = await self._request_summary(side_call, task, earlier, "\n\n".join(pieces[:count]))
            except ContextExceededError:
                if room <= _SMALLEST:
                    raise
                room //= 2
                if count == 1:
                    pieces[0] = pieces[0][: room * 3]
                continue
            pieces = pieces[count:]
        return earlier

    async def _request_summary(self, side_call: SideModelCall, task: str, earlier: str, text: str) -> str:
        parts = [task]
        if earlier:
            parts += [wording.UPDATE_PROMPT, f"<previous-summary>\n{earlier}\n</previous-summary>"]
        parts.append(f"<conversation>\n{text}\n</conversation>")
        request = ModelRequest(
            [Message.user("\n\n".join(parts))],
            system=wording.SUMMARY_SYSTEM_PROMPT,
            max_output_tokens=_SUMMARY_TOKENS,
            thinking="off",
            cache=False,
        )
        self._calls += 1
        answer = await side_call("summary", request, model=self.options.model)
        summary = answer.text.strip()
        if len(summary) < _SHORTEST:
            raise ModelError("the model gave no summary", reason="empty")
        return summary


def _is_user_prompt(message: Message) -> bool:
    """Whether it is the user's own words."""
    return (
        message.role == "user"
        and not message.tool_results
        and bool(message.text.strip())
        and not wording.is_summary(message)
        and not wording.is_injected(message)
    )


def _fit_prompts(said: Sequence[str], room: int) -> list[str]:
    """What the user said, the first and the newest before the rest, as far as it fits."""
    if not said:
        return []
    chosen: dict[int, str] = {}
    for i in (0, *range(len(said) - 1, 0, -1)):
        text = said[i] if len(said[i]) <= room // 2 else f"{said[i][: room // 2]}…"
        if len(text) > room:
            break
        chosen[i] = text
        room -= len(text)
    return [chosen[i] for i in sorted(chosen)]


def _count_fitting(pieces: Sequence[str], room: int) -> int:
    """How many pieces go into a request of so many tokens, one at least; three characters a token, to be safe."""
    size, count = 0, 0
    for piece in pieces:
        size += len(piece)
        if count and size > room * 3:
            break
        count += 1
    return count


async def compact_history(
    messages: Sequence[AgentMessage],
    model: ModelProvider,
    options: Compaction | None = None,
    *,
    instructions: str = "",
    chars_per_token: float = CHARS_PER_TOKEN,
) -> tuple[Sequence[AgentMessage], CompactionResult] | None:
    """Sum up a history now, outside of any run.

    Args:
        messages: The history.
        model: Who sums up, unless ``options`` names another.
        options: How.
        instructions: What the summary should look at in particular.
        chars_per_token: How many characters make a token.

    Returns:
        The new history and what was done; ``None`` if there is nothing to sum up, or no good summary could be had.
    """

    async def ask(purpose: str, request: ModelRequest, *, model: ModelProvider | None = None) -> Message:
        del purpose
        return (await (model or own).complete(request)).message

    own = model
    compactor = SummaryCompactor(options)
    shorter = await compactor.compact(
        messages,
        reason="asked",
        side_call=ask,
        window=model.info.context_window,
        chars_per_token=chars_per_token,
        instructions=instructions,
    )
    return None if shorter is None or compactor.last is None else (shorter, compactor.last)
