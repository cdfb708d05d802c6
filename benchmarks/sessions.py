"""Resume and append of a session of 100,000 entries beside one of 1,000, both with a compaction near their end.

Each figure is of a fresh process: CPU time of `Session.open` (the best of some), the memory that one takes at its peak, CPU time of
recording and storing one entry. ``python -m benchmarks sessions``, or with further sizes: ``python -m benchmarks.sessions 1000 100000``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from mainspring.messages import Message, ToolResultBlock, ToolUseBlock, utc_now
from mainspring.sessions import (
    CallStartedEntry,
    IntentEntry,
    MessageEntry,
    PairEntry,
    ResultEntry,
    Session,
    SessionOptions,
    SessionStore,
    SqliteSessionStore,
    resolve_store,
)

SIZES = (1_000, 100_000)
STORES = ("jsonl", "sqlite")
QUICK = SessionOptions(fsync="never", redact_line=None)
_AFTER = 200  # entries behind the compaction
_APPENDS = 500
_OPENS = 8
_TEXT = "A sentence of about the length that people write to programs, with something to look up in it. " * 4


def store(kind: str, folder: Path) -> SessionStore:
    return SqliteSessionStore(folder / "sessions.db") if kind == "sqlite" else resolve_store(folder)


def build(where: SessionStore, count: int) -> None:
    """A session of so many entries; turns of a prompt, a call with its result, and an answer."""
    session = Session.create("/work", home=where, id="s", options=QUICK)
    journal, made = session.journal, 0
    while made < count - _AFTER:
        made = turn(session, made)
    messages = [Message.user("summary of what came before: " + _TEXT), *session.messages[-20:]]
    session.plug()._record_replacement(messages, "threshold")
    while made < count:
        made = turn(session, made)
    journal.save()
    session.close()


def turn(session: Session, made: int) -> int:
    journal, call = session.journal, f"call-{made}"
    journal.record(MessageEntry, message=Message.user(f"{made} {_TEXT}", timestamp=utc_now()), source="prompt")
    request = journal.record(
        IntentEntry, message=Message.assistant([ToolUseBlock(call, "look", {"key": made})], timestamp=utc_now())
    )
    journal.record(CallStartedEntry, intent=request.id, call=call, tool="look", idempotent=True)
    block = ToolResultBlock(call, "look", _TEXT)
    result = journal.record(ResultEntry, intent=request.id, call=call, result=block)
    journal.record(PairEntry, intent=request.id, results=(result.id,), message=f"results-{made}")
    journal.record(MessageEntry, message=Message.assistant(_TEXT, timestamp=utc_now()), source="assistant")
    if made % 3000 == 0:
        journal.save()
    return made + 6


def work(kind: str, folder: Path) -> dict[str, float]:
    """Open the session and append to it; in a process of its own."""
    where = store(kind, folder)
    seconds: list[float] = []
    for _ in range(_OPENS):
        started = time.process_time()
        Session.open("s", home=where, options=QUICK).close()
        seconds.append(time.process_time() - started)
    tracemalloc.start()
    session = Session.open("s", home=where, options=QUICK)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    started = time.process_time()
    for i in range(_APPENDS):
        session.add_custom("bench", i)
        session.save()
    append = (time.process_time() - started) / _APPENDS
    session.close()
    return {
        "open_ms": min(seconds) * 1e3,
        "memory_mb": memory / 1e6,
        "append_us": append * 1e6,
        "unread": session.unread_entries,
    }


def measure(sizes: tuple[int, ...] = SIZES, samples: int = 5) -> dict[str, dict[int, dict[str, float]]]:
    """Print the figures, and how those of the largest compare with those of the smallest session."""
    everything: dict[str, dict[int, dict[str, float]]] = {}
    print(f"{'sessions':<10}{'entries':>9}{'open ms':>10}{'memory MB':>11}{'append us':>11}{'not read':>10}")
    for kind in STORES:
        found = everything[kind] = {}
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                build(store(kind, Path(folder)), size)
                found[size] = median([sample(kind, folder) for _ in range(samples)])
            row = found[size]
            print(
                f"{kind:<10}{size:>9}{row['open_ms']:>10.2f}{row['memory_mb']:>11.2f}{row['append_us']:>11.1f}{row['unread']:>10.0f}"
            )
        small, large = found[min(sizes)], found[max(sizes)]
        ratios = [large[key] / small[key] if small[key] else 1.0 for key in ("open_ms", "memory_mb", "append_us")]
        print(f"{'':<10}{'ratio':>9}{ratios[0]:>10.2f}{ratios[1]:>11.2f}{ratios[2]:>11.2f}")
    return everything


def median(samples: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median([s[key] for s in samples]) for key in samples[0]}


def sample(kind: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.sessions", "--work", kind, folder]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, help="numbers of entries (1000 100000)")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--work", nargs=2, metavar=("STORE", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        print(json.dumps(work(args.work[0], Path(args.work[1]))))
    else:
        measure(tuple(args.sizes) or SIZES, args.samples)


if __name__ == "__main__":
    main()
