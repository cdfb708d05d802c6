"""A file that is read again, unchanged, need not be sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mainspring.env.paths import shown
from mainspring.events import ToolTransform
from mainspring.messages import AgentMessage
from mainspring.policies.reads.state import UNCHANGED, ReadState, versions

TEXT = "Unchanged: {name} is as it was when you read these lines. They stand in the earlier result; there is no need to read them again."


class DedupReads:
    """Puts one line in the place of lines that the model has before it already.

    The tool has run, so permissions were asked and the file was looked at; the earlier result must stand in the history word for
    word, of the same version of the file.

    Args:
        state: What the model knows.
        history: Gives the conversation.
        cwd: For names in texts.
        hidden: Whether a result is left out of requests, though it stands in the history.
    """

    def __init__(
        self,
        state: ReadState,
        history: Callable[[], Sequence[AgentMessage]],
        cwd: str,
        hidden: Callable[[str], bool] = lambda call_id: False,
    ) -> None:
        self._state = state
        self._history = history
        self._cwd = cwd
        self._hidden = hidden

    def transform(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`; belongs behind those of the application."""
        result = hook.result
        for version in versions(result.metadata, hook.input):
            if not version.is_read or result.is_error or not isinstance(result.output, str):
                continue
            self._state.follow(self._history())
            earlier = self._state.shown(version, result.output)
            if earlier and not self._hidden(earlier):
                text = TEXT.format(name=shown(version.path, self._cwd))
                hook.result = replace(result, output=text, metadata={**result.metadata, UNCHANGED: earlier})
