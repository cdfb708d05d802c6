"""Workers as processes of their own, for tests that kill them: forked from one that has everything imported.

    python durable_workers.py

reads a line of JSON for each worker to start, and answers with its process id: ``{"url": ..., "folder": ..., "name": ...}``.
What model and tools do is noted in ``folder``, beyond any kill.
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


def note(path: Path, text: str) -> None:
    """Append a line, whole or not at all."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{text}\n".encode())
    os.close(handle)


def model(folder: Path, turns: int = -1) -> ScriptedModel:
    """Pays and looks, turn by turn, until it is told to finish or has done so many."""

    def answer(request: ModelRequest) -> Any:
        messages = [m for m in request.messages if isinstance(m, Message)]
        turn = sum(m.role == "assistant" for m in messages)
        said = [m.text for m in messages if m.role == "user" and not m.tool_results]
        note(folder / "asked", f"{said[0]} {turn}")
        if "finish" in said or turn == turns:
            return Reply("Done.", delta_delay=0.001, chunk_count=3)
        key = f"{said[0]}-{turn}"
        return Reply(
            "So.",
            calls=[ScriptedCall("pay", {"key": key}), ScriptedCall("look", {"key": key})],
            delta_delay=0.001,
            chunk_count=3,
        )

    return ScriptedModel(answer, loop=True)


def tools(folder: Path, pause: float) -> list[Tool]:
    """One that must not be run twice, and one that may be."""

    @tool
    async def pay(key: str) -> str:
        """Pay."""
        note(folder / "paid", key)
        await asyncio.sleep(pause)
        return f"paid {key}"

    @tool(idempotent=True)
    async def look(key: str) -> str:
        """Look."""
        await asyncio.sleep(pause)
        return f"saw {key}"

    @tool(idempotent=True)
    async def die() -> str:
        """Take all memory."""
        note(folder / "died", str(os.getpid()))
        if not (folder / "mended").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return "lived"

    return [pay, look, die]


def agents(folder: Path, pause: float) -> dict[str, Callable[[DurableSteps], CoreAgent]]:
    """What the workers know."""

    def make(steps: DurableSteps, turns: int = -1, **options: Any) -> CoreAgent:
        return Agent(model(folder, turns), tools=tools(folder, pause), execution=MemoryEnv({}), steps=steps, **options)

    def asking(steps: DurableSteps) -> CoreAgent:
        return make(
            steps, 2, permissions=Permissions(rules=RuleSet.build(ask=["pay"], allow=["look"]), unattended="pause")
        )

    def deadly(steps: DurableSteps) -> CoreAgent:
        def answer(request: ModelRequest) -> Any:
            return "Done." if len(request.messages) > 1 else ScriptedCall("die")

        return Agent(ScriptedModel(answer, loop=True), tools=tools(folder, pause), execution=MemoryEnv({}), steps=steps)

    return {
        "told": make,
        "deadly": deadly,
        "three": lambda steps: make(steps, 3),
        "short": lambda steps: make(steps, 2),
        "asking": asking,
    }


async def work(options: dict[str, Any]) -> None:
    """Be a worker until SIGTERM."""
    folder = Path(options["folder"])
    engine = DbosEngine(
        options["url"],
        worker=options["name"],
        poll=options.get("poll", 0.05),
        heartbeat=options.get("heartbeat", 0.1),
        dead_after=options.get("dead_after", 0.8),
        max_crashes=options.get("max_crashes", 20),
    )
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    known = agents(folder, options.get("pause", 0.01))
    known = {name: known[name] for name in options.get("agents", known)}
    async with DurableWorker(engine, known, concurrency=options.get("concurrency", 8)) as running:
        note(folder / "up", options["name"])
        await over.wait()
        await running.drain(5)


def main() -> None:
    """Fork a worker for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        options = json.loads(line)
        pid = os.fork()
        if not pid:
            # Nothing of this worker may hold the pipe to the test open.
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            asyncio.run(work(options))
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
