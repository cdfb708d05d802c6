"""Measure Mainspring beside a loop written by hand, on this machine, in this run.

Prints medians and ratios; the figures of one machine say little, the ratios much. Each sample is a fresh process; the server
that plays the model is a process of its own and its time is not counted.
"""

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec

from benchmarks import chat, conversations, mcp, model_layer, sessions, telemetry

SCENARIOS = {
    "turns": "50 tool turns, then an answer",
    "deltas": "one answer of 5,000 deltas",
    "concurrent": "500 runs of 5 tool turns, 50 ms a request",
    "thousand": "1,000 runs of 5 tool turns in one process, 50 ms a request",
    "dispatch": "one tool call without a model: with nobody listening, and with ten handlers",
    "growth": "400 tool turns in one run",
    "first": "start of the process to the first request at the server",
}
IMPORT_BASE = "import asyncio, ssl"
IMPORT = "from mainspring import Agent"
IMPORT_AIM = 2.1
"""Ratio of the import of an agent to that of the modules which any asynchronous program with TLS needs."""


def measure_import() -> None:
    """Print the CPU time of the import of an agent beside that of asyncio and ssl."""
    pairs = [
        (start_up([sys.executable, "-c", IMPORT_BASE], 3), start_up([sys.executable, "-c", IMPORT], 3))
        for _ in range(5)
    ]
    base, agent = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{'import':<12}{IMPORT!r}: {agent * 1e3:.0f} ms, {IMPORT_BASE!r}: {base * 1e3:.0f} ms, ratio {agent / base:.2f} (aim {IMPORT_AIM})"
    )


SEPARATE_BENCHMARKS = {
    "import": measure_import,
    "wire": model_layer.measure,
    "sessions": sessions.measure,
    "conversations": conversations.measure,
    "telemetry": telemetry.measure,
    "mcp": mcp.measure,
    "chat": chat.measure,
}  # the model layer, saved sessions, conversations, what tracing costs, servers of tools, and the chat in a terminal
TARGETS = {
    ("turns", "cpu_ms_per_turn"): 0.5,
    ("deltas", "cpu_us_per_delta"): 5.0,
    ("concurrent", "cpu_s"): 1.2,
    ("thousand", "wall_over_ideal"): 10.0,
    ("growth", "late_over_early"): 1.2,
    ("first", "first_byte_ms"): 200.0,
}


def ask(url: str, method: str = "GET") -> dict:
    with urllib.request.urlopen(
        urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    ) as answer:
        return json.load(answer)


def sample(root: str, which: str, scenario: str) -> dict:
    ask(f"{root}/reset", "POST")
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sample", which, scenario, f"{root}/v1"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{which} {scenario} failed:\n{done.stderr[-2000:]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    stats = ask(f"{root}/stats")
    if scenario == "first":
        figures["first_byte_ms"] = (stats["first"] - started) * 1e3
        figures["request_bytes"] = stats["first_body"]
    if scenario == "growth":
        figures["sent_mb"] = stats["bytes"] / 1e6
        figures["stable_prefix"] = stats["stable"] / stats["requests"]
    return figures


def start_up(command: list[str], count: int) -> float:
    """CPU seconds of a command, over those of the bare interpreter."""

    def cpu(args: list[str]) -> float:
        before = os.times()
        subprocess.run(args, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    bare = statistics.median([cpu([sys.executable, "-c", "pass"]) for _ in range(count)])
    return statistics.median([cpu(command) for _ in range(count)]) - bare


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join([*SCENARIOS, *SEPARATE_BENCHMARKS]))
    parser.add_argument("--samples", type=int, default=3, help="fresh processes for each figure (3)")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    args = parser.parse_args()
    names = args.scenarios or [*SCENARIOS, *SEPARATE_BENCHMARKS]
    if unknown := set(names) - {*SCENARIOS, *SEPARATE_BENCHMARKS}:
        parser.error(
            f"no scenario {', '.join(sorted(unknown))}; there are {', '.join([*SCENARIOS, *SEPARATE_BENCHMARKS])}"
        )
    for name in [n for n in names if n in SEPARATE_BENCHMARKS]:
        names.remove(name)
        SEPARATE_BENCHMARKS[name]()
    if not names:
        return
    for package in find_spec("mainspring").submodule_search_locations:
        compileall.compile_dir(
            package, quiet=1
        )  # as it is once installed; some environments write no bytecode themselves
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.model_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout
    root = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    everything: dict[str, dict[str, list[dict]]] = {}
    try:
        print(f"{'scenario':<12}{'figure':<20}{'by hand':>10}{'ours':>10}{'ratio':>8}{'aim':>8}")
        for name in names:
            bags: dict[str, list[dict]] = {"raw": [], "ours": []}
            for _ in range(args.samples):
                for which, bag in bags.items():
                    bag.append(sample(root, which, name))
            everything[name] = bags
            for figure in bags["ours"][0]:
                raw, ours = (statistics.median([s[figure] for s in bags[w]]) for w in ("raw", "ours"))
                aim = TARGETS.get((name, figure))
                print(
                    f"{name:<12}{figure:<20}{raw:>10.3f}{ours:>10.3f}{ours / raw if raw else 0:>8.2f}{aim if aim else '':>8}"
                )
        if not args.scenarios:
            seconds = start_up([sys.executable, "-m", "mainspring", "--version"], args.samples * 3)
            print(f"{'--version':<12}{'cpu_s over python':<20}{'':>10}{seconds:>10.3f}{'':>8}{0.06:>8}")
    finally:
        if server.stdin:
            server.stdin.close()
        server.wait(10)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(everything, out, indent=1)


if __name__ == "__main__":
    main()
