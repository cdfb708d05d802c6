"""The published schema of command hooks matches the code."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from mainspring.extensions.command_hooks import COMMAND_EVENTS
from mainspring.extensions.command_hooks.protocol import PreToolUseInput, encode_payload


@pytest.mark.covers("BYD-01")
def test_schema_is_current(repository: Path) -> None:
    code = "import sys; sys.path.insert(0, 'scripts'); import make_command_hooks_schema as c; print(c.text())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, encoding="utf-8", check=True
    )
    published = (repository / "docs" / "command-hooks.schema.json").read_text(encoding="utf-8")
    assert json.loads(done.stdout) == json.loads(published), "run `python scripts/make_command_hooks_schema.py`"


def test_schema_accepts_sent_events_and_rejects_unknown_fields(repository: Path) -> None:
    schema = json.loads((repository / "docs" / "command-hooks.schema.json").read_text(encoding="utf-8"))
    sent = json.loads(encode_payload(PreToolUseInput(tool_name="shell", tool_input={"command": "ls"})))
    inputs = Draft202012Validator(
        {"$defs": schema["$defs"], **schema["properties"]["input"]["properties"]["PreToolUse"]}
    )
    outputs = Draft202012Validator({"$defs": schema["$defs"], **schema["properties"]["output"]})

    assert inputs.is_valid(sent)
    assert not inputs.is_valid({**sent, "tool_input": "ls"})
    assert outputs.is_valid({"decision": "block", "reason": "no", "continue": False})
    assert not outputs.is_valid({"decison": "block"})
    assert sorted(schema["properties"]["input"]["properties"]) == sorted(COMMAND_EVENTS)
    assert (
        msgspec.json.decode(encode_payload(PreToolUseInput(tool_name="x", tool_input={})))["hook_event_name"]
        == "PreToolUse"
    )
