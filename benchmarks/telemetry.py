"""What tracing costs: 50 tool turns with it off, on, and on with all that was said; CPU of the whole process, exporters included."""

import asyncio
import json
import statistics
import subprocess
import sys
import time

MODES = ("off", "on", "content")


class Sink(asyncio.Protocol):
    """Takes whatever is sent, and says that it is well."""

    def connection_made(self, transport):
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, rest = self.data.split(b"\r\n\r\n", 1)
            length = next(
                int(v)
                for k, _, v in (h.partition(b": ") for h in head.split(b"\r\n"))
                if k.lower() == b"content-length"
            )
            if len(rest) < length:
                return
            self.data = rest[length:]
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


async def sink() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def work(mode: str, url: str, endpoint: str) -> None:
    from benchmarks.sample import lookup, prompt
    from mainspring import Agent, tool
    from mainspring.models import create_model

    model, look = create_model("openai:bench-t50", base_url=url, api_key="bench"), tool(lookup)
    telemetry = None
    if mode != "off":
        from mainspring.telemetry import Telemetry

        telemetry = Telemetry(endpoint=endpoint, sensitive=mode == "content", close_seconds=20.0)

    async def run() -> None:
        plugs = []
        if telemetry is not None:
            from mainspring.telemetry import Tracing

            plugs = [Tracing(telemetry)]
        agent = Agent(model, system="You are a helpful assistant. Use the tools.", tools=[look], plugs=plugs)
        await agent.run(prompt())

    await run()
    cpu, wall = time.process_time(), time.perf_counter()
    await run()
    wall = time.perf_counter() - wall
    if telemetry is not None:
        await asyncio.to_thread(telemetry.close)
    cpu = time.process_time() - cpu
    await model.aclose()
    print(json.dumps({"cpu_ms_per_turn": cpu / 51 * 1e3, "wall_ms_per_turn": wall / 51 * 1e3}))


def _served(module: str, *arguments: str) -> "tuple[subprocess.Popen[str], str]":
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, f"http://127.0.0.1:{process.stdout.readline().strip()}"


def measure(samples: int = 5) -> None:
    """Print a line for each mode."""
    (server, url), (collector, endpoint) = _served("benchmarks.model_server"), _served("benchmarks.telemetry", "sink")
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    try:
        for _ in range(samples):
            for mode in MODES:
                command = [sys.executable, "-m", "benchmarks.telemetry", mode, f"{url}/v1", endpoint]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[mode].append(json.loads(done.stdout.splitlines()[-1]))
    finally:
        for process in (server, collector):
            process.communicate(timeout=10)
    off = statistics.median(s["cpu_ms_per_turn"] for s in found["off"])
    for mode, all_of_it in found.items():
        cpu, wall = (statistics.median(s[k] for s in all_of_it) for k in ("cpu_ms_per_turn", "wall_ms_per_turn"))
        print(f"telemetry {mode:<8} {cpu:7.3f} ms CPU a turn  {wall:7.3f} ms a turn  {cpu / off:5.2f} times off")


if __name__ == "__main__":
    asyncio.run(sink() if sys.argv[1] == "sink" else work(*sys.argv[1:4]))
