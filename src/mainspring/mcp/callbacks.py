"""What a server asks and tells, from the SDK's types to ours."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mainspring.mcp.types import Block, ClientSide, Elicitation, Kind, PromptMessage, Sampling

if TYPE_CHECKING:
    from mcp import Client, types
    from mcp.client.session import ClientRequestContext

_KINDS: dict[str, Kind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
_LOG = "notifications/message"
_AGAIN_SECONDS = 5.0
_TRIES = 5


class Callbacks:
    """Hands the SDK's calls on to a `ClientSide`.

    Args:
        server: The server's name.
        side: Whom to ask and tell.
    """

    def __init__(self, server: str, side: ClientSide) -> None:
        self._server = server
        self._side = side

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """The user is asked."""
        from mcp import types

        schema: Any = getattr(params, "requested_schema", None) or {}
        url = getattr(params, "url", "")
        asked = Elicitation(server=self._server, message=params.message, schema=schema, url=url)
        answer = await self._side.elicit(asked)
        content = dict(answer.content) if answer.action == "accept" and not url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """The model is asked."""
        from mcp import types

        asked = Sampling(
            server=self._server,
            messages=tuple([PromptMessage(role=m.role, content=_blocks(m.content)) for m in params.messages]),
            system=params.system_prompt or "",
            max_tokens=params.max_tokens,
            temperature=params.temperature,
        )
        answer = await self._side.sample(asked)
        if isinstance(answer, str):
            return types.ErrorData(code=-1, message=answer)  # the code that the protocol has for a refusal by the user
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=answer.text),
            model=answer.model,
            stop_reason=answer.stop_reason,
        )

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """Where it may work."""
        from mcp import types

        folders = [Path(folder) for folder in self._side.roots()]
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": f.absolute().as_uri(), "name": f.name or str(f)} for f in folders]}
        )

    async def heard(self, method: str, params: Any) -> bool:
        """Take a notification; false if it is none of those that are taken here."""
        kind = _KINDS.get(method)
        if kind is not None:
            self._side.changed(kind)
        elif method == _LOG:
            await self._log(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
        else:
            return False
        return True

    async def _log(self, params: dict[str, Any]) -> None:
        """A line of its log."""
        data, logger = params.get("data"), params.get("logger")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        await self._side.say(f"[{params.get('level', 'info')}] {f'{logger}: ' if logger else ''}{text}")

    @asynccontextmanager
    async def listening(self, client: Client) -> AsyncGenerator[None]:
        """Hear of lists that change, where the protocol has that asked for."""
        import anyio

        abilities = client.server_capabilities
        wanted = {
            f"{kind}_list_changed": True
            for kind in ("tools", "resources", "prompts")
            if getattr(getattr(abilities, kind, None), "list_changed", False)
        }
        if client.session.discover_result is None or not wanted:
            yield  # the older protocol tells without being asked
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, client, wanted)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _listen(self, client: Client, wanted: dict[str, Any]) -> None:
        import anyio
        from mcp import MCPError

        for tried in range(_TRIES):
            try:
                async with client.listen(**wanted) as events:
                    if tried:  # something may have changed meanwhile
                        self._side.changed("tools")
                    async for event in events:
                        self._tell(type(event).__name__.removesuffix("ListChanged").lower())
            except (MCPError, RuntimeError, TimeoutError):
                pass  # a server need not keep what it promised; the connection is as good without
            await anyio.sleep(_AGAIN_SECONDS)

    def _tell(self, kind: str) -> None:
        if kind in ("tools", "resources", "prompts"):
            self._side.changed(kind)


def _blocks(content: Any) -> tuple[Block, ...]:
    several = cast("list[Any]", content) if isinstance(content, list) else [content]
    return tuple([block.model_dump(by_alias=True, exclude_none=True, mode="json") for block in several])
