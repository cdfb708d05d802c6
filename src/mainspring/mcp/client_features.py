"""When a server asks: the user answers its questions, and says whether it may ask the model. With nobody there, it may not."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from mainspring.errors import MainspringError
from mainspring.mcp.types import ElicitRequest, ElicitResult, SamplingRequest, SamplingResult
from mainspring.messages import TextBlock
from mainspring.tools.interaction import Option, Reply, UserInteraction, UserQuestion

ElicitCallback = Callable[[ElicitRequest], "ElicitResult | Awaitable[ElicitResult]"]
"""Answers a server's question to the user."""
AllowSamplingCallback = Callable[[SamplingRequest], "bool | Awaitable[bool]"]
"""Says whether a server may ask the model this."""
SamplingCallback = Callable[[SamplingRequest], Awaitable[SamplingResult]]
"""Asks the model."""

_YES, _NO = "Yes", "No"
_MAX_SHOWN_CHARS = 2_000
_SKIP_CHOICE = "(leave it out)"

ElicitValue = str | int | float | bool | list[str] | None


class ClientFeatures:
    """Who is asked. Questions come one after the other.

    Args:
        elicit: Answers in place of the user.
        allow_sampling: Decides in place of the user.

    Attributes:
        interaction: Gives whoever can talk to the user; ``None`` if there is nobody.
        sample_model: Asks the model, while a run goes on.
    """

    def __init__(
        self, elicit: ElicitCallback | None = None, allow_sampling: AllowSamplingCallback | None = None
    ) -> None:
        self._elicit = elicit
        self._allow = allow_sampling
        self.interaction: Callable[[], UserInteraction | None] = lambda: None
        self.sample_model: SamplingCallback | None = None
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """What the user says; ``cancel`` if there is nobody."""
        async with self._question_lock():
            if self._elicit is not None:
                answer = self._elicit(request)
                return await answer if inspect.isawaitable(answer) else answer
            user = self.interaction()
            if user is None:
                return ElicitResult("decline")
            return await (_ask_to_open_url(user, request) if request.url else _ask_form(user, request))

    async def create_message(self, request: SamplingRequest) -> SamplingResult | str:
        """The model's answer; or why there is none."""
        async with self._question_lock():
            if not await self._confirm_sampling(request):
                return "the user did not allow it"
            if self.sample_model is None:
                return "no model can be asked here"
            try:
                return await self.sample_model(request)
            except (
                MainspringError
            ) as error:  # a limit of the run, or the model: the server is told, and the call goes on
                return f"the model could not be asked: {error}"

    async def _confirm_sampling(self, request: SamplingRequest) -> bool:
        if self._allow is not None:
            answer = self._allow(request)
            return (await answer if inspect.isawaitable(answer) else answer) is True
        user = self.interaction()
        if user is None:
            return False
        said = "\n".join([f"{m.role}: {_content_text(m.content)}" for m in request.messages])[-_MAX_SHOWN_CHARS:]
        text = f"The MCP server {request.server!r} wants to ask the model this (it costs tokens):\n{said}\nMay it?"
        reply = await user.ask(UserQuestion(text, (Option(_NO), Option(_YES))))
        return reply is not None and reply.chosen == (_YES,)

    def _question_lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]


def _content_text(content: Any) -> str:
    return " ".join([str(b.get("text", f"[{b.get('type')}]")) for b in content])


async def _ask_to_open_url(interaction: UserInteraction, request: ElicitRequest) -> ElicitResult:
    """A page to visit. It is shown and never opened by us: the server chose where it leads."""
    text = f"The MCP server {request.server!r} asks you to open a page: {request.message}\n{request.url}\nHave you done so?"
    reply = await interaction.ask(UserQuestion(text, (Option(_NO), Option(_YES))))
    if reply is None:
        return ElicitResult("cancel")
    return ElicitResult("accept" if reply.chosen == (_YES,) else "decline")


async def _ask_form(interaction: UserInteraction, request: ElicitRequest) -> ElicitResult:
    """A form, question by question."""
    intro = f"The MCP server {request.server!r} asks: {request.message}"
    fields = cast("dict[str, Any]", request.schema.get("properties") or {})
    required = set(cast("list[str]", request.schema.get("required") or []))
    if not fields:
        reply = await interaction.ask(UserQuestion(intro, (Option(_NO), Option(_YES))))
        if reply is None:
            return ElicitResult("cancel")
        return ElicitResult("accept" if reply.chosen == (_YES,) else "decline")
    content: dict[str, ElicitValue] = {}
    for name, given in fields.items():
        field = cast("dict[str, Any]", given if isinstance(given, dict) else {})
        problem = ""
        while True:
            reply = await interaction.ask(
                _field_question(f"{intro}\n{problem}", name, field, optional=name not in required)
            )
            if reply is None or _DECLINE_CHOICE in reply.chosen:
                return ElicitResult("decline" if reply is not None else "cancel")
            if _SKIP_CHOICE in reply.chosen or (name not in required and not (reply.chosen or reply.text.strip())):
                break
            try:
                content[name] = _parse_reply(field, reply)
            except ValueError as error:
                problem = f"{error}\n"
                continue
            break
    return ElicitResult("accept", content)


_DECLINE_CHOICE = "(do not answer)"


def _field_question(intro: str, name: str, field: Mapping[str, Any], *, optional: bool) -> UserQuestion:
    about = f" ({field['description']})" if field.get("description") else ""
    default = f" [{json.dumps(field['default'], ensure_ascii=False)}]" if "default" in field else ""
    options = [Option(label) for label in _choices(field)]
    if field.get("type") == "boolean":
        options = [Option(_YES), Option(_NO)]
    options += [Option(_SKIP_CHOICE)] if optional else []
    text = f"{intro}\n{field.get('title') or name}{about}{default}"
    return UserQuestion(text, (*options, Option(_DECLINE_CHOICE)), multiple=field.get("type") == "array")


def _choices(field: Mapping[str, Any]) -> dict[str, str]:
    """What can be chosen: the value, by what is shown."""
    inner = field.get("items") if field.get("type") == "array" else field
    if not isinstance(inner, dict):
        return {}
    table = cast("dict[str, Any]", inner)
    titled = cast("list[Any]", table.get("oneOf") or table.get("anyOf") or [])
    if titled:
        pairs = [cast("dict[str, Any]", o) for o in titled if isinstance(o, dict) and "const" in o]
        return {str(o.get("title") or o["const"]): str(o["const"]) for o in pairs}
    values = [str(v) for v in cast("list[Any]", table.get("enum") or [])]
    names = cast("list[Any]", table.get("enumNames") or [])
    return (
        {str(n): v for n, v in zip(names, values, strict=True)} if len(names) == len(values) else {v: v for v in values}
    )


def _parse_reply(field: Mapping[str, Any], reply: Reply) -> ElicitValue:
    """What the user said, as the form wants it.

    Raises:
        ValueError: If it does not fit.
    """
    choices = _choices(field)
    chosen = [choices.get(c, c) for c in reply.chosen]
    said = reply.text.strip()
    match field.get("type"):
        case "boolean":
            word = (chosen[0] if chosen else said).lower()
            if word not in ("yes", "no", "true", "false", "y", "n"):
                raise ValueError("answer Yes or No")
            return word in ("yes", "true", "y")
        case "integer" | "number" as kind:
            try:
                return int(said) if kind == "integer" else float(said)
            except ValueError:
                raise ValueError(f"{said!r} is no {'whole number' if kind == 'integer' else 'number'}") from None
        case "array":
            return chosen or [part.strip() for part in said.split(",") if part.strip()]
        case _:
            text = chosen[0] if chosen else said
            if choices and text not in choices.values():
                raise ValueError(f"choose one of {', '.join(choices)}")
            if not text and "default" in field:
                return cast("ElicitValue", field["default"])
            return text


def sampling_messages(request: SamplingRequest) -> list[tuple[str, tuple[TextBlock, ...]]]:
    """The messages of a sampling as text, by role."""
    return [(m.role, (TextBlock(_content_text(m.content)),)) for m in request.messages]
