#!/usr/bin/env python3
"""How many recorded exchanges we decode as a plain reading of their bodies does; the rest by name and reason.

`python scripts/compare_traffic.py FOLDER`. The plain readings are those of the contract tests: a few lines each, written without
the decoders.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

PROTOCOLS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")


def main() -> None:
    readings: dict[str, Callable[[dict[str, Any]], list[str]]]
    modules = [import_module(f"tests.contract.traffic.{name}") for name in PROTOCOLS]
    readings = {api: module.READING.find_differences for module in modules for api in module.READING.apis}
    total, agreeing, rest = Counter[str](), Counter[str](), list[str]()
    for file in sorted(Path(sys.argv[1]).rglob("*.json")):
        exchange = json.loads(file.read_bytes())
        if not isinstance(exchange, dict):
            continue
        api = str(exchange.get("api"))
        total[api] += 1
        found = readings[api](exchange) if api in readings else [f"unsupported protocol {api}"]
        agreeing[api] += not found
        rest += [f"{file}: {'; '.join(found)[:300]}"] if found else []
    for api in sorted(total):
        print(f"{api:<26}{agreeing[api]:>6} of {total[api]:>5} agree")
    print(f"{'all':<26}{sum(agreeing.values()):>6} of {sum(total.values()):>5} agree; the rest:")
    print("\n".join(rest))


if __name__ == "__main__":
    main()
