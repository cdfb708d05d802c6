"""The agent answers any input of a client within the protocol and continues."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.app.servers.acp.harness import Line, options_for, serving

pytestmark = pytest.mark.covers("BYD-23")

values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
methods = st.sampled_from(
    ["initialize", "session/new", "session/load", "session/prompt", "session/cancel", "session/list", "session/fork"]
    + [
        "session/set_mode",
        "session/set_config_option",
        "session/close",
        "session/delete",
        "authenticate",
        "_x/y",
        "$/cancel_request",
        "",
    ]
)
keys = st.sampled_from(["sessionId", "cwd", "prompt", "_meta", "mcpServers", "modeId", "value", "protocolVersion"])
params = values | st.dictionaries(keys, values, max_size=4)
messages = st.one_of(
    values,
    st.fixed_dictionaries({"method": methods | values}, optional={"id": values, "params": params, "jsonrpc": values}),
    st.fixed_dictionaries({"id": values}, optional={"result": values, "error": values}),
)
lines = st.one_of(
    st.binary(max_size=40),
    messages.map(lambda value: json.dumps(value).encode()),
    st.integers(1, 20_000).map(lambda depth: b"[" * depth),
    st.integers(1, 600).map(
        lambda depth: b'{"method":"session/new","id":1,"params":' + b"[" * depth + b"]" * depth + b"}"
    ),
)


async def read_until_response(line: Line) -> list[dict[str, Any]]:
    """Send a request and return the messages that arrived before its response."""
    line.lines.send_line(b'{"jsonrpc":"2.0","id":"ours","method":"initialize","params":{"protocolVersion":1}}')
    earlier: list[dict[str, Any]] = []
    while True:
        message = json.loads(await line.lines.written())
        if message.get("id") == "ours":
            assert message["result"]["protocolVersion"] == 1
            return earlier
        earlier.append(message)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=40)
@given(sent=st.lists(lines.map(lambda each: each.replace(b"\n", b" ")), max_size=8))
async def test_any_input_is_answered_and_the_agent_continues(tmp_path: Path, home: Path, sent: list[bytes]) -> None:
    async with serving(options_for(tmp_path, home, None)) as line:
        for each in sent:
            line.lines.send_line(each)
        for message in await read_until_response(line):
            assert message["jsonrpc"] == "2.0"
            assert ("result" in message) != ("error" in message)


async def test_errors_have_the_right_code(tmp_path: Path, home: Path) -> None:
    async with serving(options_for(tmp_path, home, None)) as line:

        async def send_and_read_error(text: str) -> tuple[Any, int]:
            line.lines.send_line(text.encode())
            message = json.loads(await line.lines.written())
            return message["id"], message["error"]["code"]

        assert await send_and_read_error("{nonsense") == (None, -32700)
        assert await send_and_read_error("[]") == (None, -32600)
        assert await send_and_read_error('{"id": 1}') == (1, -32600)
        assert await send_and_read_error('{"id": {}, "method": "x"}') == (None, -32600)
        assert await send_and_read_error('{"id": 2, "method": "nope"}') == (2, -32601)
        assert await send_and_read_error('{"id": 3, "method": "session/new", "params": {"cwd": 5}}') == (3, -32602)
        assert await send_and_read_error(
            '{"id": 4, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}}'
        ) == (
            4,
            -32002,
        )
        meta = '{"id": 5, "method": "session/prompt", "params": {"sessionId": "x", "prompt": [], "_meta": {"session_id": 1}}}'
        assert await send_and_read_error(meta) == (5, -32002)
