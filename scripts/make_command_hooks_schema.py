"""Write docs/command-hooks.schema.json from the types: `python scripts/make_command_hooks_schema.py`. A test holds it to the code."""

import json
from pathlib import Path
from typing import Any

import msgspec

from mainspring.events.codec import unindent_descriptions
from mainspring.extensions.command_hooks import HookOutput
from mainspring.extensions.command_hooks.protocol import INPUTS

FILE = Path(__file__).resolve().parent.parent / "docs" / "command-hooks.schema.json"


def schema() -> dict[str, Any]:
    """What commands get (``input``, by event) and may answer (``output``)."""
    refs, parts = msgspec.json.schema_components([*INPUTS.values(), HookOutput], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Commands as hooks: what goes to standard input, and what may come from standard output",
        "properties": {
            "input": {"properties": dict(zip(INPUTS, refs, strict=False))},
            "output": refs[-1],
        },
        "$defs": unindent_descriptions(parts),
    }


def text() -> str:
    """The file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
