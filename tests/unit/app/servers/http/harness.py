"""The service on a free port of this process, with scripted agents, and a client."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from mainspring import Agent, Permissions, tool
from mainspring.app.run_service.service import Factory, RunService, ServiceOptions
from mainspring.app.servers.http.app import create_app, create_server
from mainspring.app.servers.http.auth import OriginPolicy, TenantTokens
from mainspring.app.servers.http.server import ServerOptions, open_socket
from mainspring.app.servers.http.sse import StreamTimeouts
from mainspring.app.servers.http.state import Limits, ServerState
from mainspring.durable import DurableSteps, MemoryEngine
from mainspring.testing.scripted_model import ScriptedModel

ANN, BEN = "ann-0123456789abcdef", "ben-0123456789abcdef"


@tool
async def note(text: str) -> str:
    """Note something."""
    return f"noted {text}"


def script_agent(*script: Any) -> Factory:
    """Return a factory of agents that need approval for their tool."""

    def make_agent(steps: DurableSteps) -> Agent:
        permissions = Permissions(ask=["note"], unattended="pause")
        return Agent(_Model(*script), tools=[note], permissions=permissions, steps=steps)

    return make_agent


class Gate:
    """A model response that waits until the gate opens."""

    def __init__(self, text: str = "done") -> None:
        self.open = asyncio.Event()
        self.asked = asyncio.Event()
        self.text = text

    def __call__(self, _: Any) -> str:
        return self.text


class _Model(ScriptedModel):
    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        step = self._script[self._next] if self.remaining else None
        if isinstance(step, Gate):
            step.asked.set()
            await step.open.wait()
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event


@dataclass
class ServerEvent:
    """An event as a follower receives it."""

    id: str
    name: str
    data: Any


@dataclass
class Client:
    """Sends requests to a service as one tenant."""

    url: str
    session: aiohttp.ClientSession
    token: str = ANN
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def _headers(self, extra: Mapping[str, str]) -> dict[str, str]:
        authorization = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return {**authorization, **self.headers, **extra}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the body of a response."""
        given = {k.replace("_", "-"): v for k, v in headers.items()}
        options: dict[str, Any] = {} if body is None else {"json": body}
        async with self.session.request(method, self.url + path, headers=self._headers(given), **options) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if "json" in answer.headers.get("content-type", "") else text

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        return await self.ask("POST", path, body)

    async def start(self, prompt: str = "hello", **fields: Any) -> str:
        """Start a run and return its ID."""
        status, run = await self.post("v1/runs", {"prompt": prompt, **fields})
        assert status == 201, run
        return run["id"]

    async def wait_for_result(self, run_id: str) -> Any:
        """Wait for the end of a run and return its result."""
        status, result = await self.get(f"v1/runs/{run_id}/result?wait=60")
        assert status == 200, result
        return result

    async def wait_for_state(self, run_id: str, state: str) -> Any:
        """Wait for a state and return the run."""
        async for _ in self.follow(run_id):
            run = (await self.get(f"v1/runs/{run_id}"))[1]
            if run["state"] == state:
                return run
        run = (await self.get(f"v1/runs/{run_id}"))[1]
        assert run["state"] == state, run
        return run

    async def follow(self, run_id: str, query: str = "", **headers: str) -> AsyncGenerator[ServerEvent]:
        """Yield the events of a run to the end of the stream."""
        given = self._headers({k.replace("_", "-"): v for k, v in headers.items()})
        async with self.session.get(f"{self.url}v1/runs/{run_id}/events{query}", headers=given) as answer:
            assert answer.status == 200, await answer.text()
            async for event in parse_events(answer.content):
                yield event


async def parse_events(lines: aiohttp.StreamReader) -> AsyncIterator[ServerEvent]:
    """Yield the events of a stream."""
    fields: dict[str, str] = {}
    async for text in _iter_lines(lines):
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif "data" in fields:
            data = fields["data"]
            yield ServerEvent(fields.get("id", ""), fields["event"], data if data == "[DONE]" else json.loads(data))
            fields = {}
        else:
            fields = {}


async def _iter_lines(stream: aiohttp.StreamReader) -> AsyncIterator[str]:
    """Yield lines of any length."""
    buffer = bytearray()
    async for piece in stream.iter_any():
        buffer += piece
        if b"\n" in piece:
            *whole, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            for line in whole:
                yield line.decode()


@dataclass
class RunningServer:
    """A service that is running."""

    url: str
    session: aiohttp.ClientSession
    state: ServerState
    service: RunService
    engine: MemoryEngine
    tokens: TenantTokens

    @property
    def ann(self) -> Client:
        return Client(self.url, self.session, ANN)

    @property
    def ben(self) -> Client:
        return Client(self.url, self.session, BEN)

    @property
    def anonymous(self) -> Client:
        return Client(self.url, self.session, "")


@asynccontextmanager
async def run_server(
    agents: Mapping[str, Factory],
    *,
    limits: Limits | None = None,
    options: ServiceOptions | None = None,
    timeouts: StreamTimeouts | None = None,
    doors: OriginPolicy | None = None,
    drain: float = 0.0,
    engine: MemoryEngine | None = None,
) -> AsyncGenerator[RunningServer]:
    """Run a service with two tenants on a free port; a new one with the same engine resumes its runs."""
    engine = engine or MemoryEngine()
    service = RunService(engine, agents, options)
    tokens = TenantTokens({ANN: "ann", BEN: "ben"})
    app, state = create_app(
        service, tokens, doors=doors, limits=limits or Limits(requests=1_000_000), timeouts=timeouts
    )
    place = ServerOptions(port=0, drain=drain)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        service,
        create_server(app, state, place).in_background(open_socket(place)) as url,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield RunningServer(url, session, state, service, engine, tokens)
