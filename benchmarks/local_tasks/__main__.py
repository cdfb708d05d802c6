"""python -m benchmarks.local_tasks [--model NAME]... [--set first|second|third] [--only TASK]... [--keep]"""

import argparse
import asyncio
from pathlib import Path

from benchmarks.local_tasks.runner import main
from benchmarks.local_tasks.set_1 import FIRST
from benchmarks.local_tasks.set_2 import SECOND
from benchmarks.local_tasks.set_3 import THIRD

SETS = {tasks.name: tasks for tasks in (FIRST, SECOND, THIRD)}
TRANSCRIPTS = Path(__file__).with_name("transcripts")

parser = argparse.ArgumentParser(
    prog="python -m benchmarks.local_tasks", description="Simple tasks for embedded models."
)
parser.add_argument("--model", action="append", help="default: qwen-coder-0.5b and qwen-coder-1.5b")
parser.add_argument("--set", action="append", choices=list(SETS), help="default: all")
parser.add_argument("--only", action="append", default=[], metavar="TASK")
parser.add_argument("--keep", action="store_true", help="write the transcripts")
given = parser.parse_args()
for model in given.model or ["qwen-coder-0.5b", "qwen-coder-1.5b"]:
    for name in given.set or SETS:
        asyncio.run(main(model, SETS[name], TRANSCRIPTS if given.keep else None, tuple(given.only)))
