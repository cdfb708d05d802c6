"""One measurement in one process: ``python -m benchmarks.sample raw|ours SCENARIO URL``. Prints one JSON line."""

import asyncio
import gc
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from importlib import import_module

TRANSPORTS = {
    "direct": ("http1.client", "Http1Transport"),
    "httpx2": ("httpx_transport", "HttpxTransport"),
}
"""By value of the variable TRANSPORT; without it, the default transport is measured."""

MARKS: list[float] = []
COUNT = 0


async def lookup(key: str) -> str:
    """Look up a value by its key.

    Args:
        key: The key to look up.
    """
    MARKS.append(time.process_time())
    return "value of " + key


def prompt() -> str:
    global COUNT
    COUNT += 1
    return f"[conv={os.getpid()}-{COUNT}] Look things up, then answer."


class HandwrittenSide:
    def __init__(self, url: str, model: str) -> None:
        from benchmarks.handwritten_loop import Raw

        self.loop = Raw(url, model, {"lookup": lookup})

    async def run(self) -> str:
        return await self.loop.run(prompt())

    async def stream(self, on_delta) -> str:
        return await self.loop.run(prompt(), on_delta)

    async def close(self) -> None:
        await self.loop.close()


class MainspringSide:
    def __init__(self, url: str, model: str) -> None:
        from mainspring import Agent, tool
        from mainspring.models import create_model

        self.model = create_model(f"openai:{model}", base_url=url, api_key="bench")
        if named := os.environ.get("TRANSPORT"):
            module, name = TRANSPORTS[named]
            self.model = self.model.with_transport(
                getattr(import_module(f"mainspring.models.transport.{module}"), name)()
            )
        self.tool = tool(lookup)
        self.agent = lambda: Agent(self.model, system="You are a helpful assistant. Use the tools.", tools=[self.tool])

    async def run(self) -> str:
        return (await self.agent().run(prompt())).text

    async def stream(self, on_delta) -> str:
        from mainspring import TextDelta

        async with self.agent().stream(prompt()) as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    on_delta(event.text)
            return (await run.result()).text

    async def close(self) -> None:
        await self.model.aclose()


def side(which: str, url: str, model: str):
    return HandwrittenSide(url, model) if which == "raw" else MainspringSide(url, model)


def rss_kb(kind: str = "VmRSS") -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(f"{kind}:")), 0)


async def timed(work) -> tuple[float, float]:
    gc.collect()  # else a full collection of what was loaded before falls into some measurements and not into others
    cpu, wall = time.process_time(), time.perf_counter()
    await work
    return time.process_time() - cpu, time.perf_counter() - wall


async def turns(which: str, url: str) -> dict:
    async with AsyncExitStack() as stack:
        it = side(which, url, "bench-t50")
        stack.push_async_callback(it.close)
        await it.run()
        cpu, wall = await timed(it.run())
        return {"cpu_ms_per_turn": cpu / 51 * 1e3, "wall_ms_per_turn": wall / 51 * 1e3}


async def deltas(which: str, url: str) -> dict:
    seen: list[str] = []
    async with AsyncExitStack() as stack:
        it = side(which, url, "bench-c5000")
        stack.push_async_callback(it.close)
        await it.stream(lambda text: None)
        cpu, _ = await timed(it.stream(seen.append))
        assert len(seen) == 5000, len(seen)
        return {"cpu_us_per_delta": cpu / 5000 * 1e6}


async def concurrent(which: str, url: str) -> dict:
    return await together(which, url, 500)


async def thousand(which: str, url: str) -> dict:
    figures = await together(which, url, 1000)
    ideal = 6 * 0.05  # six requests one after the other, each 50 ms, if nothing else took time
    return {**figures, "cpu_ms_per_run": figures["cpu_s"], "wall_over_ideal": figures["wall_s"] / ideal}


async def together(which: str, url: str, count: int) -> dict:
    async with AsyncExitStack() as stack:
        it = side(which, url, "bench-t5-l50")
        stack.push_async_callback(it.close)
        await it.run()
        gc.collect()
        before = rss_kb()

        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(count):
                    tasks.create_task(it.run())

        cpu, wall = await timed(all_of_them())
        return {"cpu_s": cpu, "wall_s": wall, "peak_kb_per_run": (rss_kb("VmHWM") - before) / count}


async def dispatch(which: str, url: str) -> dict:
    """The calls of one answer, each given as JSON text; what a run costs besides is taken off."""
    count = 2000
    if which == "raw":

        async def by_hand() -> None:
            for n in range(count):
                await lookup(**json.loads(json.dumps({"key": f"k{n}"})))

        cpu, _ = await timed(by_hand())
        return {"us_per_call": cpu / count * 1e6, "us_with_ten": cpu / count * 1e6}

    from mainspring import Agent, tool
    from mainspring.env.memory import MemoryEnv
    from mainspring.loop.hooks import HOOKS
    from mainspring.testing.scripted_model import Reply, ScriptedCall as Call, ScriptedModel

    request = ("gate", "before", "permit", "start", "transform", "after")

    async def run(calls: int, handlers: int) -> float:
        reply = Reply(calls=[Call("lookup", {"key": f"k{n}"}, f"c{n}") for n in range(calls)])
        agent = Agent(ScriptedModel(reply, "done"), execution=MemoryEnv(), tools=[tool(lookup)])
        for n in range(handlers):
            agent.on(HOOKS[f"tool:{request[n % len(request)]}"], lambda ctx: None)
        cpu, _ = await timed(agent.run("go"))
        return cpu

    figures = {}
    for name, handlers in (("us_per_call", 0), ("us_with_ten", 10)):
        await run(10, handlers)
        figures[name] = (await run(count, handlers) - await run(1, handlers)) / count * 1e6
    return figures


async def growth(which: str, url: str) -> dict:
    async with AsyncExitStack() as stack:
        it = side(which, url, "bench-t400")
        stack.push_async_callback(it.close)
        MARKS.clear()
        cpu, _ = await timed(it.run())
        early, late = MARKS[50] - MARKS[0], MARKS[399] - MARKS[349]
        return {"cpu_s": cpu, "late_over_early": late / early, "late_ms_per_turn": late / 50 * 1e3}


async def first(which: str, url: str) -> dict:
    it = side(which, url, "bench")
    await it.run()
    await it.close()
    return {"rss_mb": rss_kb() / 1024}


if __name__ == "__main__":
    which, scenario, url = sys.argv[1:4]
    print(json.dumps(asyncio.run(globals()[scenario](which, url))))
