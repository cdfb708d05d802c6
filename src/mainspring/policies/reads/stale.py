"""What was read of a file that has changed since is left out of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mainspring.env.paths import shown
from mainspring.loop.hooks import ContextTransform
from mainspring.messages import AgentMessage, Message, ToolResultBlock
from mainspring.policies.reads.state import Trail, Version, results, versions

TEXT = "[Left out: {name} has changed since it was read here. Read it again if you need its lines.]"


class ElideStaleReads:
    """Puts a line in the place of lines of a file as they are no more. The history itself stays as it is.

    A read is stale once a later result knows another version of the file: an edit that the model made, or a read that found it
    changed. What is left out stays left out, so between changes the prompt's prefix stays as it is. Looks at each
    message once.

    Args:
        history: Gives the conversation.
        cwd: For names in texts.
    """

    def __init__(self, history: Callable[[], Sequence[AgentMessage]], cwd: str) -> None:
        self._history = history
        self._cwd = cwd
        self._trail = Trail()
        self._fresh: dict[str, list[tuple[int, str, Version]]] = {}
        self._stale: dict[int, dict[str, str]] = {}
        self._made: dict[int, tuple[AgentMessage, AgentMessage]] = {}

    def transform(self, hook: ContextTransform) -> None:
        """The handler of `context:transform`; belongs before those of the application."""
        history = self._history()
        self._follow(history)
        if len(hook.messages) != len(history):
            return  # somebody rearranged the messages before us
        for i, texts in self._stale.items():
            message = hook.messages[i]
            made = self._made.get(i)
            if made is None or made[0] is not message:
                made = self._made[i] = (message, _without(message, texts))
            hook.messages[i] = made[1]

    def _follow(self, history: Sequence[AgentMessage]) -> None:
        start = self._trail.advance(history)
        if start is None:
            for seen in (self._fresh, self._stale, self._made):
                seen.clear()
        for i, block, call in results(history, start or 0):
            for version in versions(block.details, call.input if call else {}):
                reads = self._fresh.setdefault(version.path, [])
                for at, call_id, earlier in reads:
                    if earlier.read.hash != version.read.hash:
                        self._drop(at, call_id, version.path)
                reads[:] = [r for r in reads if r[2].read.hash == version.read.hash]
                if version.is_read:
                    reads.append((i, block.tool_use_id, version))

    def _drop(self, at: int, call_id: str, path: str) -> None:
        self._stale.setdefault(at, {})[call_id] = TEXT.format(name=shown(path, self._cwd))
        self._made.pop(at, None)


def _without(message: AgentMessage, texts: dict[str, str]) -> AgentMessage:
    """The message with other texts for some results."""
    if not isinstance(message, Message):
        return message
    content = [
        replace(b, content=texts[b.tool_use_id]) if isinstance(b, ToolResultBlock) and b.tool_use_id in texts else b
        for b in message.content
    ]
    return replace(message, content=tuple(content))
