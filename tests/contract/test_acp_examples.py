"""Every example in the documentation of the protocol is accepted if it matches its schema, and rejected otherwise."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema as sdk
from msgspec.structs import replace
from pydantic import TypeAdapter

from mainspring.app.run.options import PermissionFlags as AllowRules
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.unit.app.servers.acp.harness import options_for, serving
from tests.unit.app.servers.acp.schema_rules import Rules

pytestmark = pytest.mark.covers("BYD-23")

_METHOD_NOT_FOUND, _INVALID_PARAMS, _NO_SUCH_SESSION = -32601, -32602, -32002


def load_examples(material: Path) -> list[tuple[str, dict[str, Any]]]:
    lines = (material / "acp" / "doc-examples.jsonl").read_text().splitlines()
    return [(each["file"], each["json"]) for each in map(json.loads, lines)]


async def send_requests(tmp_path: Path, home: Path, messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Send requests and return the response of the agent to each."""
    found: dict[int, dict[str, Any]] = {}
    async with serving(options_for(tmp_path, home, None)) as line:
        for number, message in enumerate(messages):
            await line.send({**message, "id": number})
        while len(found) < len(messages):
            received = await line.receive()
            assert received is not None
            if "method" not in received:
                found[received["id"]] = received
    return found


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_agent_accepts_valid_requests_and_rejects_invalid_ones(
    material: Path, tmp_path: Path, home: Path, version: str
) -> None:
    """A request that is valid in its schema is not rejected for its structure; an invalid or unknown one is rejected."""
    rules = Rules(material / "acp", "v1")
    method_names = set(rules.methods["agentMethods"].values()) | {"session/fork"}
    request = [
        message
        for file, message in load_examples(material)
        if f"/{version}/" in file and "method" in message and "id" in message and "clientInfo" not in message
    ]
    ours = set(Rules(material / "acp", version).methods["agentMethods"].values())
    requests = [m for m in request if m["method"] in ours or m["method"].startswith("_")]
    assert len(requests) > 10
    codes = Counter[str]()
    found = await send_requests(tmp_path, home, requests)
    for number, message in enumerate(requests):
        code = found[number].get("error", {}).get("code")
        method = message["method"]
        name = rules.types.get(("agent", method, False))
        if method not in method_names:
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


def test_client_messages_parse_with_the_sdk_types(material: Path) -> None:
    """The SDK types can parse the v1 updates, requests, and results."""
    rules = Rules(material / "acp", "v1")
    notified = request = 0
    for file, message in load_examples(material):
        if "/v1/" not in file or "method" not in message:
            continue
        name = rules.types.get(("client", message["method"], False))
        if name is None:
            continue
        is_valid = rules.takes(name, message["params"])
        model = getattr(sdk, name)
        try:
            TypeAdapter(model).validate_python(message["params"])
            parsed = True
        except ValueError:
            parsed = False
        assert parsed or not is_valid, message
        notified += message["method"] == "session/update"
        request += message["method"] != "session/update"
    assert (notified > 5, request > 3) == (True, True)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_documented_example_is_classified(material: Path, version: str) -> None:
    """Each example is a message of its version, a part of one, or something else (an extension, a file)."""
    rules = Rules(material / "acp", version)
    kinds = Counter[str]()
    for file, example in load_examples(material):
        if f"/{version}/" not in file:
            continue
        method = example.get("method")
        if isinstance(method, str):
            names = [n for (_, m, answer), n in rules.types.items() if m == method and not answer]
            is_valid = any(rules.takes(name, example.get("params", {})) for name in names)
            kinds["message" if is_valid else "not of the stable schema" if names else "extension"] += 1
        elif "result" in example or "error" in example:
            kinds["answer"] += 1
        else:
            kinds["part" if rules.fits_some(example) else "other"] += 1
    assert kinds["message"] > 20
    assert kinds["not of the stable schema"] <= 12, kinds
    assert sum(kinds.values()) > 80


def test_sdk_uses_protocol_version_1() -> None:
    assert acp.PROTOCOL_VERSION == 1


def client_results(material: Path) -> list[tuple[str, Any]]:
    """Return the client results in the v1 documentation, with their methods."""
    request: dict[tuple[str, Any], str] = {}
    method_names = set(Rules(material / "acp", "v1").methods["clientMethods"].values())
    for file, message in load_examples(material):
        if message.get("method") in method_names and "id" in message:
            request[file, message["id"]] = message["method"]
    return [
        (request[file, message["id"]], message["result"])
        for file, message in load_examples(material)
        if "/v1/" in file and "result" in message and (file, message.get("id")) in request
    ]


def mutate(value: Any) -> list[Any]:
    """Return variants of a value: a missing field, a field of another type, null, and other values."""
    mutated: list[Any] = [None, [], "text", 7]
    for key in value:
        mutated.append({k: v for k, v in value.items() if k != key})
        mutated += [{**value, key: wrong} for wrong in (None, 5, -1, "text", [], {}, True)]
    return mutated


def call_for_method(method: str, number: int) -> ScriptedCall:
    """Return a call during which the client gets a request of this method."""
    match method.split("/"):
        case ["session", _]:
            return ScriptedCall("write_file", {"path": f"new{number}.txt", "content": "x"})
        case ["fs", _]:
            return ScriptedCall("read_file", {"path": f"b{number}.txt"})
        case ["terminal", _]:
            return ScriptedCall("shell", {"command": f"echo ours {number}"})
        case _:
            return ScriptedCall("ask_user", {"question": f"Which {number}?"})


VALID_RESULTS: dict[str, Any] = {
    "fs/read_text_file": {"content": "in the editor"},
    "terminal/create": {"terminalId": "t"},
    "terminal/output": {"output": "theirs", "truncated": False},
    "terminal/wait_for_exit": {"exitCode": 0},
    "terminal/release": {},
    "elicitation/create": {"action": "accept", "content": {"words": "red"}},
}
INVALID_RESULT_TEXTS = {
    "session/request_permission": "denied",
    "fs/read_text_file": "on the disk",
    "terminal/create": "ours",
    "terminal/output": "The editor does not report",
    "terminal/wait_for_exit": "The editor does not report",
    "elicitation/create": "did not answer",
}
"""The tool result after an invalid client result: a denial, the file on disk, or a local command; never a guess."""


async def collect_results(folder: Path, home: Path, method: str, answers: list[Any]) -> list[str]:
    """Return the tool results of calls during which a client returns the given results for one method and valid ones for others."""
    model = ScriptedModel(*[step for number in range(len(answers)) for step in (call_for_method(method, number), "ok")])
    options = options_for(folder, home, model)
    options = replace(options, ask=replace(options.ask, rules=AllowRules(allow=("shell",))))
    can = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True, "elicitation": {"form": {}}}
    async with serving(options) as line:

        async def send_request(id: int, about: str, answer: Any = None, **params: Any) -> Any:
            await line.send({"jsonrpc": "2.0", "id": id, "method": about, "params": params})
            while (received := await line.receive()) is not None:
                if received.get("id") == id and "method" not in received:
                    return received["result"]
                if "id" in received:
                    given = answer if received["method"] == method else VALID_RESULTS[received["method"]]
                    await line.send({"jsonrpc": "2.0", "id": received["id"], "result": given})
            raise EOFError

        await send_request(1000, "initialize", protocolVersion=1, clientCapabilities=can)
        session = (await send_request(1001, "session/new", cwd=str(folder), mcpServers=[]))["sessionId"]
        for number, answer in enumerate(answers):
            (folder / f"b{number}.txt").write_text("on the disk")
            prompt = [{"type": "text", "text": "go"}]
            done = await send_request(2000 + number, "session/prompt", answer, sessionId=session, prompt=prompt)
            assert done["stopReason"] == "end_turn"
    return [request.messages[-1].tool_results[0].text for request in model.requests[1::2]]


def is_lenient(rules: Rules, name: str, answer: Any) -> bool:
    """Return True if the schema tells readers to ignore the error."""
    fields = rules.schema["$defs"][name].get("properties", {})
    if not isinstance(answer, dict):
        return False
    return rules.takes(
        name, {k: v for k, v in answer.items() if "x-deserialize-default-on-error" not in fields.get(k, {})}
    )


@pytest.mark.parametrize("method", sorted(INVALID_RESULT_TEXTS))
async def test_agent_checks_client_results_against_the_schema(
    material: Path, tmp_path: Path, home: Path, method: str
) -> None:
    """A result that is valid in the schema is accepted, and an invalid one is rejected."""
    rules = Rules(material / "acp", "v1")
    name = rules.types["client", method, True]
    documented = [answer for about, answer in client_results(material) if about == method] or [VALID_RESULTS[method]]
    answers = [*documented, *mutate(documented[0])]
    counts = Counter[bool]()
    for answer, received in zip(answers, await collect_results(tmp_path, home, method, answers), strict=True):
        is_valid = rules.takes(name, answer)
        counts[is_valid] += 1
        if (
            is_valid and method != "session/request_permission"
        ):  # the options in the documentation are not those of mainspring
            assert INVALID_RESULT_TEXTS[method] not in received or answer != documented[0], (answer, received)
        elif not is_valid and not is_lenient(rules, name, answer):
            assert INVALID_RESULT_TEXTS[method] in received, (answer, received)
    assert min(counts[True], counts[False]) > 0, counts


def has_fixed_answer(method: str, example: dict[str, Any], params: Any) -> bool:
    """Return True if any response is right: every version gets the same version, and no option is a boolean."""
    if not isinstance(params, dict):
        return False
    if method == "initialize":
        return "protocolVersion" in params and params["protocolVersion"] is not example["protocolVersion"]
    return method == "session/set_config_option" and params.get("type") == "boolean"


async def test_mutated_requests_are_rejected(material: Path, tmp_path: Path, home: Path) -> None:
    """A request that is invalid in the schema is rejected with an error and has no other effect."""
    rules = Rules(material / "acp", "v1")
    method_names = set(rules.methods["agentMethods"].values())
    documented = {
        message["method"]: message.get("params", {})
        for file, message in load_examples(material)
        if "/v1/" in file and "id" in message and message.get("method") in method_names
    }
    sent = [
        {"jsonrpc": "2.0", "method": method, "params": params}
        for method, example in documented.items()
        for params in mutate(example)
        if method != "logout" and not has_fixed_answer(method, example, params)
    ]
    found = await send_requests(tmp_path, home, sent)
    counts = Counter[str]()
    wrong: list[Any] = []
    for number, message in enumerate(sent):
        name = rules.types["agent", message["method"], False]
        code = found[number].get("error", {}).get("code")
        if not rules.takes(name, message["params"]) and not is_lenient(rules, name, message["params"]):
            if code not in (_INVALID_PARAMS, -32600):
                wrong.append((message["method"], message["params"], found[number]))
            counts["refused"] += 1
        elif rules.takes(name, message["params"]):
            if "errors" in (found[number].get("error", {}).get("data") or {}):
                wrong.append((message["method"], message["params"], found[number]))
            counts["taken"] += 1
    assert wrong == []
    assert min(counts.values()) > 20, counts
