"""A model sums up the older part of a conversation; the newest part stays as it is.

Where a history is cut in two: what is summed up, and what stays.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.errors import AgentAbortedError, AgentError, ContextExceededError, MainspringError, ModelError
from mainspring.lazy import lazy_re
from mainspring.loop.option_types import Compaction
from mainspring.messages import AgentMessage, Message
from mainspring.messages.token_estimate import CHARS_PER_TOKEN, estimate_tokens
from mainspring.models import ModelRequest
from mainspring.policies.compaction import summary_format
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider


_WRITE_TOOLS = {"write_file", "edit", "multi_edit", "apply_patch", "remember", "present_plan"}
_KEYWORDS = lazy_re(
    r"\b(must|never|always|important|decid\w*|because|instead|constraint|require\w*|prefer\w*|do not|don't|bug|fix\w*|root cause)\b",
    re.IGNORECASE,
)


def importance_score(message: AgentMessage) -> float:
    """How much is lost with a message: 0 is nothing, above 1 is much.

    What the user said counts most, then decisions and changes, then what failed; long results of tools that worked count least.
    """
    if not isinstance(message, Message):
        return 0.0
    points = min(len(_KEYWORDS.findall(message.text)), 4) * 0.2
    if message.role == "user" and not message.tool_results:
        points += 1.0
    points += 0.6 * any(call.name in _WRITE_TOOLS for call in message.tool_uses)
    points += 0.4 * any(result.is_error for result in message.tool_results)
    return points


def select_important(
    messages: Sequence[AgentMessage], budget: int, chars_per_token: float = CHARS_PER_TOKEN
) -> set[int]:
    """The indices of the messages to keep: the most important ones that fit, a call always with its results.

    Args:
        messages: The old part of a history.
        budget: Most tokens that they may have together.
        chars_per_token: How many characters make a token.
    """
    units = _group_call_pairs(messages)
    scored = [(max(importance_score(messages[i]) for i in unit), -unit[0], unit) for unit in units]
    chosen: set[int] = set()
    for points, _, unit in sorted(scored, key=lambda s: s[:2], reverse=True):
        size = estimate_tokens([messages[i] for i in unit], chars_per_token)
        if points > 0 and size <= budget:
            chosen.update(unit)
            budget -= size
    return chosen


def _group_call_pairs(messages: Sequence[AgentMessage]) -> list[list[int]]:
    """Messages that only make sense together."""
    units: list[list[int]] = []
    for i, message in enumerate(messages):
        results = isinstance(message, Message) and bool(message.tool_results)
        if results and units:
            units[-1].append(i)
        else:
            units.append([i])
    return units


def find_cut_index(messages: Sequence[AgentMessage], keep: int, chars_per_token: float = CHARS_PER_TOKEN) -> int:
    """The index of the first message that stays; 0 if there is nothing to cut.

    At least ``keep`` tokens stay, unless the newest turn alone has more. A cut falls before a message of the user if one is near,
    else before an answer of the model, and never between a call and its result.

    Args:
        messages: The history.
        keep: About how many tokens of its end stay.
        chars_per_token: How many characters make a token.
    """
    kept = 0
    requested = len(messages)
    while requested > 0 and kept < keep:
        requested -= 1
        kept += estimate_tokens(messages[requested : requested + 1], chars_per_token)
    if requested == 0:
        return 0
    places = [i for i in range(1, len(messages)) if is_valid_cut(messages, i)]
    if not places:
        return 0
    prompts = [i for i in places if _is_prompt(messages[i])]
    before = [i for i in prompts if i <= requested]
    # Not so far back that much more stays than was asked for: then the turn is split.
    if before and estimate_tokens(messages[before[-1] : requested], chars_per_token) <= keep // 2:
        return before[-1]
    near = [i for i in places if i <= requested]
    return near[-1] if near else places[0]


def is_valid_cut(messages: Sequence[AgentMessage], index: int) -> bool:
    """Whether a cut before this message parts no call from its result."""
    message = messages[index]
    if not isinstance(message, Message) or message.tool_results:
        return False
    before = messages[index - 1]
    return not (isinstance(before, Message) and before.role == "assistant" and before.tool_uses)


def splits_turn(messages: Sequence[AgentMessage], cut: int) -> bool:
    """Whether the cut falls inside a turn: what the user asked for is summed up, part of its answer stays."""
    return cut < len(messages) and not _is_prompt(messages[cut])


def _is_prompt(message: AgentMessage) -> bool:
    return isinstance(message, Message) and message.role == "user" and not message.tool_results


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
    files: summary_format.TouchedFiles
    calls: int


class SummaryCompactor:
    """A `Compactor` that asks a model for a summary. The history is only replaced once there is a good one.

    A summary that came before is brought up to date, not summed up again. What is too long for one request goes in pieces, and a
    piece that is still too long in halves. Where no summary can be had, the history stays (`None`); where it does not fit
    the model any more (``reason`` is ``overflow``), the oldest messages are left out and the history says so.

    Args:
        options: See `Compaction`.

    Attributes:
        last_result: What the last compaction did.
    """

    def __init__(self, options: Compaction | None = None) -> None:
        self.options = options or Compaction()
        self.last_result: CompactionResult | None = None
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
        keep = self.options.keep_tokens_for(window)
        cut = find_cut_index(messages, keep, chars_per_token)
        if cut == 0 and reason == "overflow":  # even the newest part is too long: keep as little as can be
            cut = find_cut_index(messages, keep // 8, chars_per_token)
        old = messages[:cut]
        if not old or all(map(summary_format.is_summary, old)):
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
        return self._build_history(messages, cut, summary, keep, chars_per_token)

    def _build_history(
        self, messages: Sequence[AgentMessage], cut: int, summary: str, keep: int, chars_per_token: float
    ) -> Sequence[AgentMessage]:
        old, new = messages[:cut], messages[cut:]
        before = [m for m in old if summary_format.is_summary(m)]
        earlier, files, said = (
            summary_format.parse_summary_message(before[-1])
            if before and isinstance(before[-1], Message)
            else ("", summary_format.TouchedFiles(), [])
        )
        files |= summary_format.collect_files(old)
        said += [m.text for m in old if isinstance(m, Message) and _is_user_prompt(m)]
        room = round(keep * _PROMPTS_SHARE * chars_per_token)
        text = summary or "\n\n".join(
            filter(None, (earlier, f"(No summary could be made of {pluralize(len(old), 'older message')}; left out.)"))
        )
        kept = self._pinned_messages(old)
        head = summary_format.summary_message(text, files, _fit_prompts(said, room))
        result = [head, *kept, *new]
        self.last_result = CompactionResult(
            summary=summary,
            first_kept=next((m.id or "" for m in (*kept, *new) if isinstance(m, Message)), ""),
            tokens_before=estimate_tokens(messages, chars_per_token),
            tokens_after=estimate_tokens(result, chars_per_token),
            files=files,
            calls=self._calls,
        )
        return result

    def _pinned_messages(self, old: Sequence[AgentMessage]) -> list[AgentMessage]:
        """What the application wants to stay of the old part, calls with their results."""
        keep, important = self.options.keep, set[int]()
        if self.options.keep_important:
            important = select_important(old, self.options.keep_important)
        elif keep is None:
            return []
        requested = [
            (i in important or bool(keep and keep(m))) and not summary_format.is_summary(m) for i, m in enumerate(old)
        ]
        for i in range(1, len(old)):
            calls, results = old[i - 1], old[i]
            if isinstance(calls, Message) and calls.tool_uses and isinstance(results, Message) and results.tool_results:
                requested[i - 1] = requested[i] = requested[i - 1] or requested[i]
        return [m for m, stays in zip(old, requested, strict=True) if stays]

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
            if summary_format.is_summary(message) and isinstance(message, Message):
                earlier = summary_format.parse_summary_message(message)[0]
        model = self.options.model
        if model is not None:
            window = model.info.context_window or window
        room = _CHUNK if window is None else max(window - _SUMMARY_TOKENS * 2 - 2000, _SMALLEST)
        task = "\n\n".join(
            filter(
                None,
                (
                    self.options.prompt or summary_format.SUMMARY_PROMPT,
                    summary_format.SPLIT_TURN_NOTE if splits_turn(messages, cut) else "",
                    instructions,
                ),
            )
        )
        pieces = summary_format.render_transcript(old)
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
            parts += [summary_format.UPDATE_PROMPT, f"<previous-summary>\n{earlier}\n</previous-summary>"]
        parts.append(f"<conversation>\n{text}\n</conversation>")
        request = ModelRequest(
            [Message.user("\n\n".join(parts))],
            system=summary_format.SUMMARY_SYSTEM_PROMPT,
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
        and not summary_format.is_summary(message)
        and not summary_format.is_injected(message)
    )


def _fit_prompts(prompts: Sequence[str], max_chars: int) -> list[str]:
    """What the user said, the first and the newest before the rest, as far as it fits."""
    if not prompts:
        return []
    chosen: dict[int, str] = {}
    for i in (0, *range(len(prompts) - 1, 0, -1)):
        text = prompts[i] if len(prompts[i]) <= max_chars // 2 else f"{prompts[i][: max_chars // 2]}…"
        if len(text) > max_chars:
            break
        chosen[i] = text
        max_chars -= len(text)
    return [chosen[i] for i in sorted(chosen)]


def _count_fitting(pieces: Sequence[str], budget: int) -> int:
    """How many pieces go into a request of so many tokens, one at least; three characters a token, to be safe."""
    size, count = 0, 0
    for piece in pieces:
        size += len(piece)
        if count and size > budget * 3:
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
    return None if shorter is None or compactor.last_result is None else (shorter, compactor.last_result)
