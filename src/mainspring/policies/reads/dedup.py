"""A file that is read again, unchanged, need not be sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mainspring.env.paths import shown
from mainspring.loop.hooks import ToolTransform, TurnBefore
from mainspring.messages import AgentMessage, Message
from mainspring.policies.reads.state import UNCHANGED, ReadState, versions

TEXT = "Unchanged: {name} is as it was when you read these lines. They stand in the earlier result; there is no need to read them again."


class DedupReads:
    """Puts one line in the place of lines that the model has before it already.

    The tool has run, so permissions were asked and the file was looked at. The earlier result must be of the same version of the
    file, and must stand word for word in the request that made the call: what was compacted, left out or reworded is shown.

    Args:
        state: What the model knows.
        history: Gives the conversation.
        cwd: For names in texts.
    """

    def __init__(self, state: ReadState, history: Callable[[], Sequence[AgentMessage]], cwd: str) -> None:
        self._state = state
        self._history = history
        self._cwd = cwd
        self._sent: Sequence[Message] = ()

    def before(self, hook: TurnBefore) -> None:
        """The handler of `turn:before`; belongs behind those of the application."""
        self._sent = hook.request.messages

    def transform(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`; belongs behind those of the application."""
        result = hook.result
        for version in versions(result.metadata, hook.input):
            if not version.is_read or result.is_error or not isinstance(result.output, str):
                continue
            self._state.follow(self._history())
            earlier = self._state.shown(version)
            if earlier and self._stands(earlier, result.output):
                text = TEXT.format(name=shown(version.path, self._cwd))
                hook.result = replace(result, output=text, metadata={**result.metadata, UNCHANGED: earlier})

    def _stands(self, call_id: str, text: str) -> bool:
        """Whether the model was sent this result of that call. Only looked for where there may be one."""
        for message in reversed(self._sent):
            for block in message.tool_results if message.role == "user" else ():
                if block.tool_use_id == call_id:
                    return block.content == text
        return False
