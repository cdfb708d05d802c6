"""A run reports the tokens that its own requests refreshed."""

import time
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent
from mainspring.env.memory import MemoryEnv
from mainspring.events import OauthRefresh
from mainspring.models.auth import OAuthTokens, TokenFile
from mainspring.models.auth.credentials import current_listener
from mainspring.models.registry import create_model
from mainspring.testing import ScriptedModel
from tests.unit.models.auth.test_oauth import given
from tests.unit.models.responses_wire import completed, sse, text_item
from tests.unit.models.server import Received, chunked, serve


@pytest.mark.covers("PRV-29")
async def test_oauth_refresh_fires_on_the_run_that_needed_the_token(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "codex.json")
    file.write(OAuthTokens("old", "refresh-1", time.time() - 5, "acc-1"))

    def respond(request: Received) -> Any:
        if request.target == "/oauth/token":
            return given(access_token="new", expires_in=3600)
        return chunked(sse(completed(text_item("Hello"))))

    refreshes: list[tuple[str, str, str]] = []
    other_refreshes: list[OauthRefresh] = []
    async with serve(respond) as server:
        model = create_model("codex", base_url=server.url, tokenFile=str(file.path), issuer=server.url)
        agent = Agent(model, execution=MemoryEnv({}))
        agent.on(OauthRefresh, lambda hook: refreshes.append((hook.provider, hook.account, hook.reason)))
        other = Agent(ScriptedModel("ok"), execution=MemoryEnv({}))
        other.on("oauth:refresh", other_refreshes.append)

        await other.run("Hi")
        await agent.run("Hi")
        await agent.run("Hi again")

    assert refreshes == [("codex", "acc-1", "expired")]
    assert other_refreshes == []
    assert current_listener() is None
