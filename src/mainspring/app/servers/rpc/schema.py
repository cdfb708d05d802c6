"""The published schema of the lines, made from their structs: ``python -I -m mainspring.app.servers.rpc.schema > docs/rpc.schema.json``."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from mainspring.app.servers.rpc.protocol import PROTOCOL, Request, RpcLine


def rpc_schema() -> dict[str, Any]:
    """A JSON Schema: ``#/$defs/Request`` is a line that comes in, ``#/$defs/Line`` one that goes out."""
    (request, line), parts = msgspec.json.schema_components((Request, RpcLine), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"mainspring serve --rpc, protocol {PROTOCOL}",
        "anyOf": [request, {"$ref": "#/$defs/Line"}],
        "$defs": {"Line": line, **dict(sorted(parts.items()))},
    }


def rpc_schema_text() -> str:
    """The same as the text of its file."""
    return json.dumps(rpc_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rpc_schema_text())
