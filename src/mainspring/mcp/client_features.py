"""Handle elicitation and sampling requests from MCP servers.

Without a user to ask, requests are declined.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from mainspring.errors import MainspringError, describe_failure
from mainspring.mcp.types import ElicitRequest, ElicitResult, SamplingRequest, SamplingResult
from mainspring.tools.interaction import INTERACTION_KEY, Option, Reply, UserInteraction, UserQuestion

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.tools import ToolContext

ElicitCallback = Callable[[ElicitRequest], "ElicitResult | Awaitable[ElicitResult]"]
"""Function that answers a server's question to the user."""
AllowSamplingCallback = Callable[[SamplingRequest], "bool | Awaitable[bool]"]
"""Function that returns whether a server may send a prompt to the model."""
SamplingCallback = Callable[[SamplingRequest], Awaitable[SamplingResult]]
"""Function that sends a server's prompt to the model."""

_YES, _NO = "Yes", "No"
_MAX_SHOWN_CHARS = 2_000
_SKIP_CHOICE = "(skip)"

_T = TypeVar("_T")

ElicitValue = str | int | float | bool | list[str] | None


class ServerClient:
    """The user and the model of one conversation, for the requests of servers during its tool calls. Its questions are sequential.

    Attributes:
        interaction: Function that returns the interface to the user; ``None`` if no user is available.
        sample_model: Function that sends a prompt to the model during a run.
    """

    def __init__(self) -> None:
        self.interaction: Callable[[], UserInteraction | None] = lambda: None
        self.sample_model: SamplingCallback | None = None
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def question_lock(self) -> asyncio.Lock:
        """Return the lock for one question after the other, in the running event loop."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]

    def bind(self, agent: CoreAgent) -> None:
        """Use the user of an agent, and make the agent's tool calls known as those of this client."""
        self.interaction = lambda: agent.extra.get(INTERACTION_KEY)
        agent.extra = {**agent.extra, _CLIENT_KEY: self}


_CLIENT_KEY = "mcp_client"


class ClientFeatures:
    """Handlers of server requests.

    Args:
        elicit: Function that answers in place of the user.
        allow_sampling: Function that decides in place of the user.

    Attributes:
        client: The client of requests outside of tool calls.
    """

    def __init__(
        self, elicit: ElicitCallback | None = None, allow_sampling: AllowSamplingCallback | None = None
    ) -> None:
        self._elicit = elicit
        self._allow = allow_sampling
        self.client = ServerClient()

    async def elicit(self, request: ElicitRequest, client: ServerClient | None) -> ElicitResult:
        """Return the user's answer; ``decline`` if no user is available, or if it is unknown which one."""
        async with (client or self.client).question_lock():
            if self._elicit is not None:
                answer = self._elicit(request)
                return await answer if inspect.isawaitable(answer) else answer
            user = client.interaction() if client else None
            if user is None:
                return ElicitResult("decline")
            return await (_ask_to_open_url(user, request) if request.url else _ask_form(user, request))

    async def create_message(self, request: SamplingRequest, client: ServerClient | None) -> SamplingResult | str:
        """Return the model's response, or the reason why the request failed."""
        if client is None:
            return "Several conversations are using the server, so it is unknown which of them the request is for. Try again later"
        async with client.question_lock():
            if not await self._confirm_sampling(request, client):
                return "The user did not allow it"
            if client.sample_model is None:
                return "No model is available"
            try:
                return await client.sample_model(request)
            except MainspringError as error:  # A limit of the run, or an error of the model: report it to the server; the tool call continues.
                return f"The model call failed: {describe_failure(error)}"

    async def _confirm_sampling(self, request: SamplingRequest, client: ServerClient) -> bool:
        if self._allow is not None:
            answer = self._allow(request)
            return (await answer if inspect.isawaitable(answer) else answer) is True
        user = client.interaction()
        if user is None:
            return False
        prompt = "\n".join([f"{m.role}: {_content_text(m.content)}" for m in request.messages])[-_MAX_SHOWN_CHARS:]
        text = f"MCP server {request.server!r} wants to send this prompt to the model (uses tokens):\n{prompt}\nAllow?"
        reply = await user.ask(UserQuestion(text, (Option(_NO), Option(_YES))))
        return reply is not None and reply.chosen == (_YES,)


class CallTimer:
    """Timer of a call."""

    def __init__(self, seconds: float, scope: asyncio.Timeout) -> None:
        self._seconds = seconds
        self._scope = scope
        self._paused = False

    def reset(self) -> None:
        """Reset the timer after a response or progress."""
        if not self._paused and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def pause(self, paused: bool) -> None:
        """Pause the timer, or restart it."""
        self._paused = paused
        if not self._scope.expired():
            self._scope.reschedule(None if paused else asyncio.get_running_loop().time() + self._seconds)


class ServerCalls:
    """The requests to a server that are in progress, and the answers to requests of the server during its tool calls.

    Args:
        server: Name of the server.
        features: Handlers of the server's requests.
    """

    def __init__(self, server: str, features: ClientFeatures) -> None:
        self._server = server
        self._features = features
        self._clocks: set[CallTimer] = set()
        self._pauses = 0
        self._contexts: list[ToolContext | None] = []

    async def run(
        self, seconds: float, work: Callable[[CallTimer], Awaitable[_T]], slow: Callable[[], Exception]
    ) -> _T:
        """Run a function with a timeout; after the timeout, cancel it and raise the exception that ``slow`` returns."""
        clock: CallTimer | None = None
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                clock = CallTimer(seconds, scope)
                self._clocks.add(clock)
                if self._pauses:
                    clock.pause(True)
                return await work(clock)
        except TimeoutError:
            if scope.expired():
                raise slow() from None
            raise
        finally:
            if clock is not None:
                self._clocks.discard(clock)

    @contextmanager
    def tool_call(self, context: ToolContext | None) -> Generator[None]:
        """Register a tool call during the block.

        Args:
            context: Context of the agent's call, whose user and model answer requests of the server.
        """
        self._contexts.append(context)
        try:
            yield
        finally:
            self._contexts.remove(context)

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """Ask the user; the timeouts of calls pause."""
        client, context = self._find_caller()
        with self._pause_all():
            return await self._features.elicit(replace(request, server=self._server, context=context), client)

    async def sample(self, request: SamplingRequest) -> SamplingResult | str:
        """Ask the user for approval, then call the model; the timeouts of calls pause."""
        client, context = self._find_caller()
        with self._pause_all():
            return await self._features.create_message(replace(request, server=self._server, context=context), client)

    def _find_caller(self) -> tuple[ServerClient | None, ToolContext | None]:
        """Return the client whose tool calls are in progress, and the context of the last one; ``None`` if there are several clients.

        The protocol does not relate requests to calls.
        """
        shared = self._features.client
        callers = [shared if call is None else call.extra.get(_CLIENT_KEY, shared) for call in self._contexts]
        client = (callers or [shared])[-1]
        if any(each is not client for each in callers):
            return None, None
        return client, self._contexts[-1] if self._contexts else None

    @contextmanager
    def _pause_all(self) -> Generator[None]:
        """Pause all timers during the block."""
        self._pauses += 1
        for clock in self._clocks:
            clock.pause(True)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for clock in self._clocks:
                    clock.pause(False)


def _content_text(content: Any) -> str:
    return " ".join([str(b.get("text", f"[{b.get('type')}]")) for b in content])


async def _ask_to_open_url(interaction: UserInteraction, request: ElicitRequest) -> ElicitResult:
    """Ask the user to open a URL. The program never opens it, since the server chose it."""
    text = f"MCP server {request.server!r} asks you to open this URL: {request.message}\n{request.url}\nDone?"
    reply = await interaction.ask(UserQuestion(text, (Option(_NO), Option(_YES))))
    if reply is None:
        return ElicitResult("cancel")
    return ElicitResult("accept" if reply.chosen == (_YES,) else "decline")


async def _ask_form(interaction: UserInteraction, request: ElicitRequest) -> ElicitResult:
    """Ask the questions of a form sequentially."""
    intro = f"MCP server {request.server!r} asks: {request.message}"
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
            is_blank = not (reply.chosen or reply.text.strip())
            if "default" in field and (is_blank or _DEFAULT_CHOICE in reply.chosen):
                content[name] = field["default"]
                break
            if _SKIP_CHOICE in reply.chosen or (name not in required and is_blank):
                break
            try:
                content[name] = _parse_reply(field, reply)
            except ValueError as error:
                problem = f"{error}\n"
                continue
            break
    return ElicitResult("accept", content)


_DECLINE_CHOICE = "(decline)"
_DEFAULT_CHOICE = "(default)"


def _field_question(intro: str, name: str, field: Mapping[str, Any], *, optional: bool) -> UserQuestion:
    about = f" ({field['description']})" if field.get("description") else ""
    default = f" [{json.dumps(field['default'], ensure_ascii=False)}]" if "default" in field else ""
    options = [Option(label) for label in _choices(field)]
    if field.get("type") == "boolean":
        options = [Option(_YES), Option(_NO)]
    options += [Option(_DEFAULT_CHOICE)] if "default" in field else []
    options += [Option(_SKIP_CHOICE)] if optional else []
    text = f"{intro}\n{field.get('title') or name}{about}{default}"
    return UserQuestion(text, (*options, Option(_DECLINE_CHOICE)), multiple=field.get("type") == "array")


def _choices(field: Mapping[str, Any]) -> dict[str, str]:
    """Return the choices: the value of each label."""
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
    """Convert the user's reply to the value that the form expects.

    Raises:
        ValueError: The reply does not fit the field.
    """
    choices = _choices(field)
    chosen = [choices.get(c, c) for c in reply.chosen]
    answer_text = reply.text.strip()
    match field.get("type"):
        case "boolean":
            word = (chosen[0] if chosen else answer_text).lower()
            if word not in ("yes", "no", "true", "false", "y", "n"):
                raise ValueError("Answer Yes or No.")
            return word in ("yes", "true", "y")
        case "integer" | "number" as kind:
            try:
                number = int(answer_text) if kind == "integer" else float(answer_text)
                if not math.isfinite(number):  # JSON has no such number
                    raise ValueError
                return number
            except ValueError:
                raise ValueError(
                    f"Not a {'whole number' if kind == 'integer' else 'number'}: {answer_text!r}."
                ) from None
        case "array":
            return chosen or [part.strip() for part in answer_text.split(",") if part.strip()]
        case _:
            text = chosen[0] if chosen else answer_text
            if choices and text not in choices.values():
                raise ValueError(f"Choose one of {', '.join(choices)}.")
            return text
