"""Run workers as separate processes that tests can kill, forked from one process that has imported everything.

    python durable_workers.py

Reads one JSON line per worker and writes its process ID: ``{"url": ..., "folder": ..., "name": ...}``.
The model and the tools log their calls in ``folder``, where a kill cannot remove them.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dbos
import psycopg
from sqlalchemy.dialects import postgresql, sqlite

from mainspring import Agent
from mainspring.durable import DurableSteps, DurableWorker
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.env.memory import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.messages import Message
from mainspring.models.port import ModelRequest
from mainspring.permissions import Permissions, RuleSet
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, tool

LOADED: tuple[Any, ...] = (Agent, DbosEngine, dbos.DBOSClient, psycopg, postgresql, sqlite)


def append_line(path: Path, text: str) -> None:
    """Append a line in one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{text}\n".encode())
    os.close(handle)


def create_model(folder: Path, turns: int = -1) -> ScriptedModel:
    """Create a model that calls both tools in each turn until it gets "finish" or reaches the number of turns."""

    def answer(request: ModelRequest) -> Any:
        messages = [m for m in request.messages if isinstance(m, Message)]
        turn = sum(m.role == "assistant" for m in messages)
        prompts = [m.text for m in messages if m.role == "user" and not m.tool_results]
        append_line(folder / "requested", f"{prompts[0]} {turn}")
        if "finish" in prompts or turn == turns:
            return Reply("Done.", delta_delay=0.001, chunk_count=3)
        key = f"{prompts[0]}-{turn}"
        return Reply(
            "So.",
            calls=[ScriptedCall("pay", {"key": key}), ScriptedCall("look", {"key": key})],
            delta_delay=0.001,
            chunk_count=3,
        )

    return ScriptedModel(answer, loop=True)


async def _moment() -> None:
    await asyncio.sleep(0.02)


def create_tools(folder: Path, pause: float) -> list[Tool]:
    """Create a tool that must not run twice and waits while the file "hold" exists, one that may, and one that kills the worker."""

    @tool
    async def pay(key: str) -> str:
        """Pay."""
        append_line(folder / "paid", key)
        await asyncio.sleep(pause)
        while (folder / "hold").exists():
            await _moment()
        return f"paid {key}"

    @tool(idempotent=True)
    async def look(key: str) -> str:
        """Look."""
        await asyncio.sleep(pause)
        return f"saw {key}"

    @tool(idempotent=True)
    async def die() -> str:
        """Kill the worker unless it is fixed."""
        append_line(folder / "died", str(os.getpid()))
        if not (folder / "fixed").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return "lived"

    return [pay, look, die]


def create_agents(folder: Path, pause: float) -> dict[str, Callable[[DurableSteps], CoreAgent]]:
    """Return the agents that the workers can run."""

    def create_agent(steps: DurableSteps, turns: int = -1, **options: Any) -> CoreAgent:
        return Agent(
            create_model(folder, turns),
            tools=create_tools(folder, pause),
            execution=MemoryEnv({}),
            steps=steps,
            **options,
        )

    def asking_agent(steps: DurableSteps) -> CoreAgent:
        return create_agent(
            steps, 2, permissions=Permissions(rules=RuleSet.build(ask=["pay"], allow=["look"]), unattended="pause")
        )

    def deadly_agent(steps: DurableSteps) -> CoreAgent:
        def answer(request: ModelRequest) -> Any:
            return "Done." if len(request.messages) > 1 else ScriptedCall("die")

        return Agent(
            ScriptedModel(answer, loop=True), tools=create_tools(folder, pause), execution=MemoryEnv({}), steps=steps
        )

    return {
        "steered": create_agent,
        "deadly": deadly_agent,
        "three": lambda steps: create_agent(steps, 3),
        "short": lambda steps: create_agent(steps, 2),
        "asking": asking_agent,
    }


async def run_worker(options: dict[str, Any]) -> None:
    """Run a worker until SIGTERM."""
    folder = Path(options["folder"])
    engine = DbosEngine(
        options["url"],
        worker=options["name"],
        poll=options.get("poll", 0.05),
        heartbeat=options.get("heartbeat", 0.1),
        dead_after=options.get("dead_after", 0.8),
        max_crashes=options.get("max_crashes", 20),
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    factories = create_agents(folder, options.get("pause", 0.01))
    factories = {name: factories[name] for name in options.get("agents", factories)}
    async with DurableWorker(engine, factories, concurrency=options.get("concurrency", 8)) as running:
        append_line(folder / "up", options["name"])
        await stopped.wait()
        await running.drain(5)


def main() -> None:
    """Fork a worker for each line of stdin."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        options = json.loads(line)
        pid = os.fork()
        if not pid:
            # The worker must not keep the pipe to the test open.
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            asyncio.run(run_worker(options))
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
