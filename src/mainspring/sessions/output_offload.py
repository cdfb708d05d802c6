"""Moves large outputs out of the history.

They return by a tool call, or when the next prompt is about them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from mainspring.errors import AgentAbortedError, MainspringError, SessionError, single_conversation_error
from mainspring.lazy import lazy_function, lazy_re
from mainspring.loop import Plugin
from mainspring.loop.hooks import ContextTransform, MessagesAdded, SessionStart, ToolTransform
from mainspring.messages import AgentMessage, ImageBlock, Message, TextBlock, utc_now
from mainspring.models import ModelRequest
from mainspring.policies.compaction.summary_format import is_injected
from mainspring.policies.large_results.store import (
    LargeOutput,
    LargeOutputStore,
    OutputReference,
    summarize_call_arguments,
)
from mainspring.tools import Tool, ToolContext, ToolOutput, define_tool
from mainspring.tools.tool import no_access

if TYPE_CHECKING:
    from html import escape

    from mainspring.loop import CoreAgent
else:  # Takes a millisecond to import, and only a long output needs it.
    escape = lazy_function("html", "escape")

if TYPE_CHECKING:
    from mainspring.policies.relevant_history import rank
else:
    rank = lazy_function("mainspring.policies.relevant_history", "rank")

logger = logging.getLogger("mainspring")

Selection = Literal["keywords", "model", "off"]
"""Selects which earlier outputs a prompt is about: by common words, by the model, or not at all."""

DEFAULT_THRESHOLD_BYTES = 30_000
"""Bytes from which an output is moved."""

EXCLUDED_TOOLS = ("read_file", "context_read", "skills_use", "skills_read", "spawn")
"""Tools whose output stays in the history: it is a page of something that can be requested again, or was written to be read."""

READ_TOOL = "context_read"
"""The tool that reads a moved output."""

_MAX_LINES = 2000
_MAX_LINE_CHARS = 2000  # characters of a line; a longer one is shown as several
_MAX_POINTERS = 60
_STUB = lazy_re(r'<context-output name="([^"]+)"')
_SYSTEM = "You choose which outputs of earlier tool calls matter for a question. Answer with their numbers, separated by commas, or with: none."


class OffloadOutputsPlug(Plugin):
    """Moves large outputs out of the history, and restores those that a prompt is about for its run.

    Args:
        store: Where they are stored.
        threshold: Bytes from which an output is moved.
        select: Selects which earlier outputs a prompt is about.
        budget: Maximum characters that are restored for one prompt.
        exclude: Tools whose output stays in the history.
    """

    def __init__(
        self,
        store: LargeOutputStore,
        *,
        threshold: int = DEFAULT_THRESHOLD_BYTES,
        select: Selection = "keywords",
        budget: int = 60_000,
        exclude: tuple[str, ...] = EXCLUDED_TOOLS,
    ) -> None:
        self.store = store
        self.threshold = threshold
        self.selection: Selection = select
        self.max_restored_chars = budget
        self.exclude = exclude
        self._run_id = ""
        self._prompt: Message | None = None
        self._restored: Message | None = None
        self._has_selected = False

    def install(self, agent: CoreAgent) -> None:
        """See `Plugin`."""
        agent.on(SessionStart, self._begin)
        agent.on(MessagesAdded, self._on_prompt)
        agent.on(ToolTransform, self._offload, order=90)  # Runs last: the stored output is the final one.
        if self.selection != "off":
            agent.on(ContextTransform, self._restore_relevant, order=-150)
        if agent.tools.get(READ_TOOL) is None:  # A subagent uses its parent's tool, which reads from the same store.
            agent.tools.add(self.tool())

    def for_child(self) -> Plugin:
        """Return a plugin for a subagent, which stores outputs in the same place and restores none of its parent's."""
        return OffloadOutputsPlug(self.store, threshold=self.threshold, select="off", exclude=self.exclude)

    def for_conversation(self) -> Plugin:
        """Raise ConfigError: the data belong to one conversation."""
        raise single_conversation_error("OffloadOutputsPlug")

    async def close(self) -> None:
        """Forget all outputs: they end with the session."""
        await asyncio.to_thread(self.store.clear)

    def tool(self) -> Tool:
        """The tool `context_read`: reads a stored output by lines."""

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
            del ctx
            record = await asyncio.to_thread(self.store.load, arguments["name"])
            lines = _lines(record.result)
            first, count = arguments.get("offset", 1), min(arguments.get("limit", _MAX_LINES), _MAX_LINES)
            sizes = accumulate(len(line) for line in lines[first - 1 : first - 1 + count])
            count = max(1, sum(size <= DEFAULT_THRESHOLD_BYTES for size in sizes))
            shown = lines[first - 1 : first - 1 + count]
            last = first + len(shown) - 1
            end = (
                ""
                if last >= len(lines)
                else f"\n(lines {first} to {last} of {len(lines)}; offset={last + 1} continues)"
            )
            return "\n".join(shown) + end

        return define_tool(
            READ_TOOL,
            description="Read an output of an earlier call that was put aside because it was long, by lines "
            f"(one of more than {_MAX_LINE_CHARS} characters counts as several).",
            parameters={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name in its <context-output> mark."},
                    "offset": {"type": "integer", "minimum": 1, "description": "First line, from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": f"Most lines (default {_MAX_LINES})."},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            execute=execute,
            source="builtin",
            idempotent=True,
            access=no_access,  # it returns a result of this conversation
        )

    def _begin(self, hook: SessionStart) -> None:
        self._run_id = hook.run_id
        self._prompt = self._restored = None
        self._has_selected = False

    def _on_prompt(self, hook: MessagesAdded) -> None:
        prompts = [m for m in hook.messages if isinstance(m, Message) and m.role == "user"]
        if hook.source == "prompt" and prompts:
            self._prompt = next((m for m in reversed(prompts) if not is_injected(m)), prompts[-1])

    async def _offload(self, hook: ToolTransform) -> None:
        output = hook.result.output
        text = output if isinstance(output, str) else "\n".join(b.text for b in output if isinstance(b, TextBlock))
        text = text.encode("utf-8", "replace").decode()  # Half a surrogate pair cannot be stored.
        if hook.name in self.exclude or hook.result.is_error or len(text.encode()) <= self.threshold:
            return
        record = LargeOutput(
            tool=hook.name, args=dict(hook.input), result=text, timestamp=utc_now(), query_id=self._run_id
        )
        try:
            pointer = await asyncio.to_thread(self.store.save, record)
        except (OSError, ValueError) as error:
            logger.warning("a large output of %s stays in the conversation: %s", hook.name, error)
            return
        stub = _placeholder_text(pointer)
        images = () if isinstance(output, str) else tuple([b for b in output if isinstance(b, ImageBlock)])
        hook.result = replace(
            hook.result,
            output=(TextBlock(stub), *images) if images else stub,
            metadata={**hook.result.metadata, "context_output": pointer.name},
        )

    async def _restore_relevant(self, hook: ContextTransform) -> None:
        """Add the outputs that the prompt is about directly after it.

        Selected once per run, so that the prompt's prefix stays the same.
        """
        prompt = self._prompt
        if prompt is None:
            return
        if not self._has_selected:
            self._has_selected = True
            earlier = [p for p in self.store.list() if p.query_id != self._run_id][-_MAX_POINTERS:]
            self._restored = (
                await self._load_outputs(await self._select_relevant(hook, prompt.text, earlier)) if earlier else None
            )
        if self._restored is not None and prompt in hook.messages:
            at = next(i for i, m in enumerate(hook.messages) if m is prompt)
            hook.messages.insert(at + 1, self._restored)

    async def _select_relevant(
        self, hook: ContextTransform, question: str, pointers: list[OutputReference]
    ) -> list[OutputReference]:
        about = [f"{p.tool} {summarize_call_arguments(p.args)}\n{p.preview}" for p in pointers]
        if self.selection == "keywords":
            return [pointers[i] for i in rank(question, about, 5)]
        listed = "\n".join(
            f"{i}. {p.tool}({summarize_call_arguments(p.args)}): {' '.join(p.preview[:300].split())}"
            for i, p in enumerate(pointers, 1)
        )
        request = ModelRequest(
            [Message.user(f"Question:\n{question}\n\nOutputs:\n{listed}")],
            system=_SYSTEM,
            max_output_tokens=100,
            thinking="off",
            cache=False,
        )
        try:
            answer = await hook.side_call("relevance", request)
        except AgentAbortedError:
            raise
        except MainspringError as error:  # The response matters more than its context.
            logger.warning("could not select earlier outputs: %s", error)
            return []
        numbers = dict.fromkeys(int(n) for n in re.findall(r"(?<!\d)\d{1,4}(?!\d)", answer.text)[:_MAX_POINTERS])
        return [pointers[n - 1] for n in numbers if 1 <= n <= len(pointers)]

    async def _load_outputs(self, pointers: list[OutputReference]) -> Message | None:
        parts: list[str] = []
        remaining = self.max_restored_chars
        for pointer in pointers:
            try:
                record = await asyncio.to_thread(self.store.load, pointer.name)
            except SessionError:
                continue
            if len(record.result) > remaining:
                continue
            remaining -= len(record.result)
            body = record.result.replace("</context-output", "&lt;/context-output")
            parts.append(f"<context-output {_attributes(pointer)}>\n{body}\n</context-output>")
        if not parts:
            return None
        return Message.user("Outputs of earlier calls that may matter here:\n\n" + "\n\n".join(parts))


def count_missing_outputs(messages: Sequence[AgentMessage], store: LargeOutputStore) -> int:
    """Count the outputs that a history refers to and that no longer exist, for example, after a resume."""
    named = {
        name
        for message in messages
        if isinstance(message, Message)
        for result in message.tool_results
        for name in _STUB.findall(result.text[:400])
    }
    return sum(not _exists(store, name) for name in named)


def _exists(store: LargeOutputStore, name: str) -> bool:
    try:
        store.load(name)
    except SessionError:
        return False
    return True


def _lines(text: str) -> list[str]:
    return [
        line[i : i + _MAX_LINE_CHARS] for line in text.splitlines() for i in range(0, len(line) or 1, _MAX_LINE_CHARS)
    ]


def _placeholder_text(pointer: OutputReference) -> str:
    preview = pointer.preview.replace("</context-output", "&lt;/context-output")
    return (
        f"<context-output {_attributes(pointer)}>\n{preview}\n[These are the first {len(pointer.preview)} of {pointer.size} characters; "
        f"context_read shows the rest.]\n</context-output>"
    )


def _attributes(pointer: OutputReference) -> str:
    return f'name="{pointer.name}" tool="{escape(pointer.tool)}" characters="{pointer.size}"'
