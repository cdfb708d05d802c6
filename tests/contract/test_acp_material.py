"""Every example of the protocol's documents: parsed where its schema takes it, refused where it does not."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema as sdk
from pydantic import TypeAdapter

from tests.unit.app.server.acp.rules import Rules
from tests.unit.app.server.acp.stage import options_for, serving

pytestmark = pytest.mark.covers("BYD-23")

_METHOD_NOT_FOUND, _INVALID_PARAMS, _NO_SUCH_SESSION = -32601, -32602, -32002


def examples(material: Path) -> list[tuple[str, dict[str, Any]]]:
    lines = (material / "acp" / "doc-examples.jsonl").read_text().splitlines()
    return [(each["file"], each["json"]) for each in map(json.loads, lines)]


async def answers(tmp_path: Path, home: Path, messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """What the agent answers to each request."""
    found: dict[int, dict[str, Any]] = {}
    async with serving(options_for(tmp_path, home, None)) as line:
        for number, message in enumerate(messages):
            await line.send({**message, "id": number})
        while len(found) < len(messages):
            told = await line.receive()
            assert told is not None
            if "method" not in told:
                found[told["id"]] = told
    return found


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_requests_to_the_agent(material: Path, tmp_path: Path, home: Path, version: str) -> None:
    """A request that its own schema takes is not refused for its shape; one that v1 does not take, or does not know, is."""
    rules = Rules(material / "acp", "v1")
    known = set(rules.methods["agentMethods"].values()) | {"session/fork"}
    asked = [
        message
        for file, message in examples(material)
        if f"/{version}/" in file and "method" in message and "id" in message and "clientInfo" not in message
    ]
    ours = set(Rules(material / "acp", version).methods["agentMethods"].values())
    requests = [m for m in asked if m["method"] in ours or m["method"].startswith("_")]
    assert len(requests) > 10
    codes = Counter[str]()
    found = await answers(tmp_path, home, requests)
    for number, message in enumerate(requests):
        code = found[number].get("error", {}).get("code")
        method = message["method"]
        name = rules.types.get(("agent", method, False))
        if method not in known:
            assert code == _METHOD_NOT_FOUND, message
            codes["unknown"] += 1
        elif name is not None and not rules.takes(name, message.get("params", {})):
            assert code in {_INVALID_PARAMS, _METHOD_NOT_FOUND}, message
            codes["refused"] += 1
        else:
            errors = found[number].get("error", {}).get("data") or {}
            assert "errors" not in errors, f"{message}: {errors}"
            codes["taken"] += 1
    assert codes["taken"] > 5


def test_what_a_client_gets(material: Path) -> None:
    """Updates, requests and results of v1 are those that the types of the package, with which we speak, can read."""
    rules = Rules(material / "acp", "v1")
    notified = asked = 0
    for file, message in examples(material):
        if "/v1/" not in file or "method" not in message:
            continue
        name = rules.types.get(("client", message["method"], False))
        if name is None:
            continue
        taken = rules.takes(name, message["params"])
        model = getattr(sdk, name)
        try:
            TypeAdapter(model).validate_python(message["params"])
            parsed = True
        except ValueError:
            parsed = False
        assert parsed or not taken, message
        notified += message["method"] == "session/update"
        asked += message["method"] != "session/update"
    assert (notified > 5, asked > 3) == (True, True)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_example_is_accounted_for(material: Path, version: str) -> None:
    """Each is a message of its version, a part of one, or of something else that the documents show (an extension, a file)."""
    rules = Rules(material / "acp", version)
    kinds = Counter[str]()
    for file, example in examples(material):
        if f"/{version}/" not in file:
            continue
        method = example.get("method")
        if isinstance(method, str):
            names = [n for (_, m, answer), n in rules.types.items() if m == method and not answer]
            taken = any(rules.takes(name, example.get("params", {})) for name in names)
            kinds["message" if taken else "not of the stable schema" if names else "extension"] += 1
        elif "result" in example or "error" in example:
            kinds["answer"] += 1
        else:
            kinds["part" if rules.fits_some(example) else "other"] += 1
    assert kinds["message"] > 20
    assert kinds["not of the stable schema"] <= 12, kinds
    assert sum(kinds.values()) > 80


def test_the_package_speaks_version_one() -> None:
    assert acp.PROTOCOL_VERSION == 1
