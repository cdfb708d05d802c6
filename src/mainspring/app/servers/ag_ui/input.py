"""Input of an AG-UI 1.0 client that starts a run, and its conversion to messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mainspring.app.run_service.service import InvalidError
from mainspring.durable.client_tools import ClientContext, ClientTool
from mainspring.messages import ContentBlock, ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.messages.message import Role

AgUiId = Annotated[str, Meta(min_length=1, max_length=500)]
_EMPTY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


class _DataSource(Struct, frozen=True, tag="data"):
    value: str
    mimeType: str


class _UrlSource(Struct, frozen=True, tag="url"):
    value: str
    mimeType: str | None = None


class _FileSource(Struct, frozen=True, tag="file"):
    value: str
    provider: str | None = None
    mimeType: str | None = None


_Source = _DataSource | _UrlSource | _FileSource


class _TextPart(Struct, frozen=True, tag="text"):
    text: str


class _ImagePart(Struct, frozen=True, tag="image"):
    source: _Source


class _AudioPart(Struct, frozen=True, tag="audio"):
    source: _Source


class _VideoPart(Struct, frozen=True, tag="video"):
    source: _Source


class _DocumentPart(Struct, frozen=True, tag="document"):
    source: _Source


_Part = _TextPart | _ImagePart | _AudioPart | _VideoPart | _DocumentPart


class _FunctionCall(Struct, frozen=True):
    name: str
    arguments: str


class _ToolCall(Struct, frozen=True):
    id: AgUiId
    function: _FunctionCall
    type: Literal["function"] = "function"


class _Developer(Struct, frozen=True, tag_field="role", tag="developer"):
    id: str
    content: str


class _System(Struct, frozen=True, tag_field="role", tag="system"):
    id: str
    content: str


class _User(Struct, frozen=True, tag_field="role", tag="user"):
    id: str
    content: str | tuple[_Part, ...]


class _Assistant(Struct, frozen=True, tag_field="role", tag="assistant"):
    id: str
    content: str | None = None
    toolCalls: tuple[_ToolCall, ...] | None = None


class _ToolAnswer(Struct, frozen=True, tag_field="role", tag="tool"):
    id: str
    content: str | tuple[_Part, ...]
    toolCallId: AgUiId
    error: str | None = None


class _Reasoning(Struct, frozen=True, tag_field="role", tag="reasoning"):
    id: str
    content: str


class _Activity(Struct, frozen=True, tag_field="role", tag="activity"):
    id: str
    activityType: str
    content: dict[str, Any]


_Message = _Developer | _System | _User | _Assistant | _ToolAnswer | _Reasoning | _Activity


class _Tool(Struct, frozen=True):
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,128}$")]
    description: str
    parameters: dict[str, Any] | None = None


class _Context(Struct, frozen=True):
    description: str
    value: str


class Verdict(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision about a tool call."""

    approved: bool
    input: Annotated[dict[str, Any] | None, Meta(description="Other arguments for the tool call.")] = None
    reason: Annotated[
        str, Meta(max_length=10_000, description="Reason for denying the call; the model receives it.")
    ] = ""


class Resolved(Struct, frozen=True, tag_field="status", tag="resolved"):
    """An interrupt that was answered."""

    interruptId: AgUiId
    payload: Verdict


class Cancelled(Struct, frozen=True, tag_field="status", tag="cancelled"):
    """An interrupt that was not answered: the call is denied."""

    interruptId: AgUiId


ResumeEntry = Resolved | Cancelled


class RunAgentInput(Struct, frozen=True, kw_only=True):
    """Input of an AG-UI client that starts a run: the whole conversation and its context. Unknown fields are ignored."""

    threadId: Annotated[AgUiId, Meta(description="ID of the thread (the conversation).")]
    runId: Annotated[AgUiId, Meta(description="ID of the run to start; a new one for each run.")]
    messages: Annotated[
        tuple[_Message, ...], Meta(description="The conversation so far; the run continues after its last message.")
    ]
    protocolVersion: str | None = None
    parentRunId: str | None = None
    state: Annotated[
        Any, Meta(description='State of the client. Tools of the agent read it from `ctx.extra["client"]["state"]`.')
    ] = None
    tools: Annotated[
        Annotated[tuple[_Tool, ...], Meta(max_length=128)] | None, Meta(description="Tools that the client executes.")
    ] = None
    context: Annotated[tuple[_Context, ...] | None, Meta(description="Context for the model.")] = None
    forwardedProps: Annotated[
        Any,
        Meta(
            description='Properties of the client. Tools of the agent read them from `ctx.extra["client"]["forwardedProps"]`.'
        ),
    ] = None
    resume: Annotated[
        tuple[ResumeEntry, ...] | None, Meta(description="Answers to the interrupts with which the last run finished.")
    ] = None


def client_context(given: RunAgentInput) -> ClientContext:
    """Return what the client sent in addition to the conversation: its tools, state, and properties.

    Raises:
        InvalidError: If two tools have the same name.
    """
    tools = given.tools or ()
    if len({tool.name for tool in tools}) < len(tools):
        raise InvalidError("Two tools have the same name.")
    state: Any = {} if given.state is None else given.state
    return ClientContext(
        tools=tuple([ClientTool(name=t.name, description=t.description, parameters=_object(t)) for t in tools]),
        extra={"state": state, "forwardedProps": given.forwardedProps},
    )


def _object(tool: _Tool) -> dict[str, Any]:
    parameters = tool.parameters or _EMPTY_SCHEMA
    if parameters.get("type", "object") != "object":
        raise InvalidError(f"The parameters of tool {tool.name} must have the type object.")
    return {"type": "object", **parameters}


class AgUiConversation:
    """The messages of an input in the library's form.

    Args:
        given: The input.

    Attributes:
        messages: The messages; consecutive messages of the same role are merged.
        warnings: Warnings for the client about content that cannot be used.
    """

    def __init__(self, given: RunAgentInput) -> None:
        self.warnings: list[str] = []
        self._names: dict[str, str] = {}
        self._parts: list[tuple[Role, list[ContentBlock], bool]] = []
        context = given.context or ()
        for n, message in enumerate(given.messages):
            if n == len(given.messages) - 1 and context:
                facts = [f"{each.description}:\n{each.value}" for each in context]
                self._append("system", [TextBlock("From the application:\n\n" + "\n\n".join(facts))])
            self._add(message)
        self.messages = [Message(role, tuple(blocks)) for role, blocks, _ in self._parts]

    @property
    def answers(self) -> dict[str, ToolResultBlock]:
        """Return the results of tool calls, by call ID."""
        return {result.tool_use_id: result for message in self.messages for result in message.tool_results}

    @property
    def can_run(self) -> bool:
        """Return True if the conversation ends with a user message or a tool result."""
        return bool(self.messages) and self.messages[-1].role == "user"

    def _add(self, message: _Message) -> None:
        match message:
            case _Developer() | _System():
                self._append("system", self._blocks(message.content))
            case _User():
                self._append("user", self._blocks(message.content))
            case _Assistant():
                self._append("assistant", self._assistant_blocks(message), joins=True)
            case _ToolAnswer():
                self._append("user", [self._result(message)], joins=True)
            case _Reasoning() | _Activity():
                pass  # reasoning, which cannot be verified, and display-only content

    def _append(self, role: Role, blocks: Sequence[ContentBlock], *, joins: bool = False) -> None:
        """Add a message. Clients send each call and each result separately, but models expect them together."""
        if not blocks:
            return
        if joins and self._parts and self._parts[-1][0] == role and self._parts[-1][2]:
            self._parts[-1][1].extend(blocks)
        else:
            self._parts.append((role, list(blocks), joins))

    def _assistant_blocks(self, message: _Assistant) -> list[ContentBlock]:
        blocks: list[ContentBlock] = [TextBlock(message.content)] if message.content else []
        for call in message.toolCalls or ():
            self._names[call.id] = call.function.name
            blocks.append(_call(call))
        return blocks

    def _result(self, message: _ToolAnswer) -> ToolResultBlock:
        content = message.content
        blocks = () if isinstance(content, str) else tuple(self._blocks(content))
        text: Any = content if isinstance(content, str) else blocks
        if message.error and not text:
            text = message.error
        name = self._names.get(message.toolCallId, "")
        return ToolResultBlock(message.toolCallId, name, text, bool(message.error))

    def _blocks(self, content: str | tuple[_Part, ...]) -> list[TextBlock | ImageBlock]:
        if isinstance(content, str):
            return [TextBlock(content)] if content.strip() else []
        found: list[TextBlock | ImageBlock] = []
        for part in content:
            match part:
                case _TextPart(text=text):
                    if text:
                        found.append(TextBlock(text))
                case _ImagePart(source=_DataSource(value=data, mimeType=media)) if _is_image(data, media):
                    found.append(ImageBlock(media, data))
                case _:
                    kind = str(part.__struct_config__.tag)
                    self.warnings.append(f"A part of type {kind} was left out: only images as data are supported.")
        if not found and content:
            found.append(TextBlock("[unsupported content]"))
        return found


def _is_image(data: str, media: str) -> bool:
    try:
        return media.startswith("image/") and bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _call(call: _ToolCall) -> ToolUseBlock:
    try:
        arguments = msgspec.json.decode(call.function.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return ToolUseBlock(call.id, call.function.name, {}, call.function.arguments)
    return ToolUseBlock(call.id, call.function.name, arguments)
