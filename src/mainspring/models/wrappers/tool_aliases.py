"""Show tools to the model under other names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ModelError
from mainspring.events import Done, StreamEvent, StreamStart, ToolCallEnd, ToolCallStart
from mainspring.messages import Message
from mainspring.models.message_builder import rename_tool
from mainspring.models.port import ModelProvider, ModelRequest, ModelWrapper

ToolNames = Mapping[str, str]


class _CachedTranslation(Struct, frozen=True):
    """Translated messages of the last request of a conversation."""

    names: ToolNames
    before: tuple[Message, ...]
    after: tuple[Message, ...]


class ToolAliasModel(ModelWrapper):
    """A model that receives tools under other names than the rest of the program.

    Requests (tools, calls and results in the history, the tool choice) contain the aliases, responses the original names. A
    message is translated once and stays the same object, so that the provider's cache of the encoded conversation stays
    valid.

    Args:
        model: The model.
        aliases: Names for the model, by original tool name; other tools keep their names.
    """

    def __init__(self, model: ModelProvider, aliases: ToolNames) -> None:
        super().__init__(model)
        self._out = dict(aliases)
        self._back = {wire: name for name, wire in aliases.items()}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send a request and stream the response.

        Raises:
            ModelError: Errors of the model.
        """
        events = cast("AsyncGenerator[StreamEvent, None]", self._model.stream(self._translate_request(request)))
        try:
            async with aclosing(events):
                async for event in events:
                    yield self._restore_names(event)
        except ModelError as error:
            if error.partial is not None:
                error.partial = _rename_calls(error.partial, self._back)
            raise

    def _translate_request(self, request: ModelRequest) -> ModelRequest:
        return replace(
            request,
            messages=self._translate_messages(request),
            tools=tuple([replace(t, name=self._out[t.name]) if t.name in self._out else t for t in request.tools]),
            tool_choice=self._out.get(request.tool_choice, request.tool_choice),
        )

    def _translate_messages(self, request: ModelRequest) -> list[Message]:
        """Return the messages with the aliases; messages that were translated before are the same objects."""
        slots: dict[str, _CachedTranslation] = request.scratch.entries if request.scratch else {}
        known = slots.get("aliases")
        before, after = (known.before, known.after) if known and known.names == self._out else ((), ())
        same = 0
        for old, new in zip(before, request.messages, strict=False):
            if old is not new:
                break
            same += 1
        translated = [*after[:same], *(_rename_calls(m, self._out) for m in request.messages[same:])]
        slots["aliases"] = _CachedTranslation(self._out, tuple(request.messages), tuple(translated))
        return translated

    def _restore_names(self, event: StreamEvent) -> StreamEvent:
        match event:
            case StreamStart(draft=draft) if draft is not None:
                draft.tool_names = self._back
                return event
            case ToolCallStart(name=name) if name in self._back:
                return replace(event, name=self._back[name])
            case ToolCallEnd(call=call) if call.name in self._back:
                return replace(event, call=replace(call, name=self._back[call.name]))
            case Done(message=message):
                return replace(event, message=_rename_calls(message, self._back))
            case _:
                return event


def _rename_calls(message: Message, names: ToolNames) -> Message:
    """Return the message with renamed tools; the same object if nothing changes."""
    content = [rename_tool(block, names) for block in message.content]
    same = all(a is b for a, b in zip(content, message.content, strict=True))
    return message if same else replace(message, content=tuple(content))
