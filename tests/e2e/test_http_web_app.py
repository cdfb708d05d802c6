"""Several agents within a web application: one process, no shared state, and nothing on stdout."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from mainspring import Agent, tool
from mainspring.app.servers.http.server import ServerOptions, local_url, open_socket
from mainspring.events import TextDelta
from mainspring.testing import Reply, ScriptedCall, ScriptedModel

BOTH = 2  # both meet before either continues, so they run in parallel


def create_application(folder: Path) -> Starlette:
    """Create an application with an agent for each request and one shared agent."""
    meeting: dict[str, asyncio.Barrier] = {}
    shared = Agent(ScriptedModel("one", "two"), name="shared")
    queue = asyncio.Lock()

    def create_agent(name: str) -> Agent:
        place = folder / name
        place.mkdir(exist_ok=True)

        @tool
        async def meet() -> str:
            """Wait for another agent."""
            await meeting.setdefault(name[0], asyncio.Barrier(BOTH)).wait()
            return f"{name} met"

        def answer(request: Any) -> str:
            return f"{request.system} {request.messages[0].text}: {request.messages[-1].tool_results[0].text}"

        script = [Reply(calls=[ScriptedCall("meet")]), answer]
        return Agent(ScriptedModel(*script), name=name, system=f"I am {name}", tools=[meet], execution=str(place))

    async def ask(request: Request) -> JSONResponse:
        result = await create_agent(request.path_params["name"]).run(request.query_params["q"])
        return JSONResponse({"text": result.text, "turns": result.turns})

    async def stream(request: Request) -> StreamingResponse:
        async def pieces() -> AsyncGenerator[str]:
            run = create_agent(request.path_params["name"]).stream(request.query_params["q"])
            async with run:
                async for event in run:
                    if isinstance(event, TextDelta):
                        yield event.text

        return StreamingResponse(pieces(), media_type="text/plain")

    async def run_shared(_: Request) -> JSONResponse:
        async with queue:  # an agent has one conversation
            return JSONResponse({"text": (await shared.run("next")).text})

    return Starlette(routes=[Route("/ask/{name}", ask), Route("/stream/{name}", stream), Route("/shared", run_shared)])


def process_state() -> Any:
    root = logging.getLogger()
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    return (
        os.getcwd(),
        dict(os.environ),
        list(sys.path),
        root.level,
        list(root.handlers),
        handlers,
        sys.stdout,
        sys.excepthook,
    )


@pytest.mark.covers("BYD-16")
async def test_several_agents_run_in_one_web_application(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    config = uvicorn.Config(create_application(tmp_path), log_config=None, access_log=False, lifespan="off")
    server, listening = uvicorn.Server(config), open_socket(ServerOptions(port=0))
    before = process_state()
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    url = local_url(listening)
    names = [f"{message}{number}" for message in "abcdefgh" for number in range(BOTH)]
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> str:
            async with session.get(url + path) as answer:
                assert answer.status == 200
                return await answer.text()

        answers = await asyncio.gather(*[get(f"ask/{name}?q=Q{name}") for name in names])
        streamed = await asyncio.gather(*[get(f"stream/{name}?q=S{name}") for name in names])
        both = await asyncio.gather(get("shared"), get("shared"))
    for name, answer, text in zip(names, answers, streamed, strict=True):
        assert f"I am {name} Q{name}: {name} met" in answer
        assert '"turns":2' in answer
        assert text.endswith(f"I am {name} S{name}: {name} met")
    assert sorted(both) == ['{"text":"one"}', '{"text":"two"}']
    server.should_exit = True
    await serving
    assert process_state() == before
    assert capfd.readouterr() == ("", "")
