"""Every example of the protocol's documents: parsed where its schema takes it, refused where it does not."""

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
    request = [
        message
        for file, message in examples(material)
        if f"/{version}/" in file and "method" in message and "id" in message and "clientInfo" not in message
    ]
    ours = set(Rules(material / "acp", version).methods["agentMethods"].values())
    requests = [m for m in request if m["method"] in ours or m["method"].startswith("_")]
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
    notified = request = 0
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
        request += message["method"] != "session/update"
    assert (notified > 5, request > 3) == (True, True)


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


def pairs(material: Path) -> list[tuple[str, Any]]:
    """What clients answer in the documents of v1, with the method that they answer."""
    request: dict[tuple[str, Any], str] = {}
    known = set(Rules(material / "acp", "v1").methods["clientMethods"].values())
    for file, message in examples(material):
        if message.get("method") in known and "id" in message:
            request[file, message["id"]] = message["method"]
    return [
        (request[file, message["id"]], message["result"])
        for file, message in examples(material)
        if "/v1/" in file and "result" in message and (file, message.get("id")) in request
    ]


def spoilt(value: Any) -> list[Any]:
    """The same with one field left out, or of another kind; nothing; and something else."""
    made: list[Any] = [None, [], "text", 7]
    for key in value:
        made.append({k: v for k, v in value.items() if k != key})
        made += [{**value, key: wrong} for wrong in (None, 5, -1, "text", [], {}, True)]
    return made


def call(method: str, number: int) -> ScriptedCall:
    """A call during which the client is asked by some method."""
    match method.split("/"):
        case ["session", _]:
            return ScriptedCall("write_file", {"path": f"new{number}.txt", "content": "x"})
        case ["fs", _]:
            return ScriptedCall("read_file", {"path": f"b{number}.txt"})
        case ["terminal", _]:
            return ScriptedCall("shell", {"command": f"echo ours {number}"})
        case _:
            return ScriptedCall("ask_user", {"question": f"Which {number}?"})


GOOD: dict[str, Any] = {
    "fs/read_text_file": {"content": "in the editor"},
    "terminal/create": {"terminalId": "t"},
    "terminal/output": {"output": "theirs", "truncated": False},
    "terminal/wait_for_exit": {"exitCode": 0},
    "terminal/release": {},
    "elicitation/create": {"action": "accept", "content": {"words": "red"}},
}
REFUSED = {
    "session/request_permission": "denied",
    "fs/read_text_file": "on the disk",
    "terminal/create": "ours",
    "terminal/output": "The editor does not report",
    "terminal/wait_for_exit": "The editor does not report",
    "elicitation/create": "gave no answer",
}
"""What the model is told where an answer is none: a no, what is on the disk, a command of ours; never a guess."""


async def told_of(folder: Path, home: Path, method: str, answers: list[Any]) -> list[str]:
    """What the model is told of calls during which a client answers a method in some way, and others well."""
    model = ScriptedModel(*[step for number in range(len(answers)) for step in (call(method, number), "ok")])
    options = options_for(folder, home, model)
    options = replace(options, ask=replace(options.ask, rules=AllowRules(allow=("shell",))))
    can = {"fs": {"readTextFile": True}, "terminal": True, "elicitation": {"form": {}}}
    async with serving(options) as line:

        async def asked(id: int, about: str, answer: Any = None, **params: Any) -> Any:
            await line.send({"jsonrpc": "2.0", "id": id, "method": about, "params": params})
            while (told := await line.receive()) is not None:
                if told.get("id") == id and "method" not in told:
                    return told["result"]
                if "id" in told:
                    given = answer if told["method"] == method else GOOD[told["method"]]
                    await line.send({"jsonrpc": "2.0", "id": told["id"], "result": given})
            raise EOFError

        await asked(1000, "initialize", protocolVersion=1, clientCapabilities=can)
        session = (await asked(1001, "session/new", cwd=str(folder), mcpServers=[]))["sessionId"]
        for number, answer in enumerate(answers):
            (folder / f"b{number}.txt").write_text("on the disk")
            prompt = [{"type": "text", "text": "go"}]
            done = await asked(2000 + number, "session/prompt", answer, sessionId=session, prompt=prompt)
            assert done["stopReason"] == "end_turn"
    return [request.messages[-1].tool_results[0].text for request in model.requests[1::2]]


def forgiving(rules: Rules, name: str, answer: Any) -> bool:
    """Whether the schema tells readers to pass over what is wrong in it."""
    fields = rules.schema["$defs"][name].get("properties", {})
    if not isinstance(answer, dict):
        return False
    return rules.takes(
        name, {k: v for k, v in answer.items() if "x-deserialize-default-on-error" not in fields.get(k, {})}
    )


@pytest.mark.parametrize("method", sorted(REFUSED))
async def test_what_a_client_answers(material: Path, tmp_path: Path, home: Path, method: str) -> None:
    """An answer that the schema takes is taken, and one that it does not take is refused."""
    rules = Rules(material / "acp", "v1")
    name = rules.types["client", method, True]
    documented = [answer for about, answer in pairs(material) if about == method] or [GOOD[method]]
    answers = [*documented, *spoilt(documented[0])]
    counts = Counter[bool]()
    for answer, told in zip(answers, await told_of(tmp_path, home, method, answers), strict=True):
        taken = rules.takes(name, answer)
        counts[taken] += 1
        if (
            taken and method != "session/request_permission"
        ):  # what is chosen there in the documents is no option of ours
            assert REFUSED[method] not in told or answer != documented[0], (answer, told)
        elif not taken and not forgiving(rules, name, answer):
            assert REFUSED[method] in told, (answer, told)
    assert min(counts[True], counts[False]) > 0, counts


def is_left_to_us(method: str, example: dict[str, Any], params: Any) -> bool:
    """Whether either is right: any version is answered with ours, and there are no options here that are on or off."""
    if not isinstance(params, dict):
        return False
    if method == "initialize":
        return "protocolVersion" in params and params["protocolVersion"] is not example["protocolVersion"]
    return method == "session/set_config_option" and params.get("type") == "boolean"


async def test_spoilt_requests(material: Path, tmp_path: Path, home: Path) -> None:
    """What the schema does not take is refused as such, and nothing else happens."""
    rules = Rules(material / "acp", "v1")
    known = set(rules.methods["agentMethods"].values())
    documented = {
        message["method"]: message.get("params", {})
        for file, message in examples(material)
        if "/v1/" in file and "id" in message and message.get("method") in known
    }
    sent = [
        {"jsonrpc": "2.0", "method": method, "params": params}
        for method, example in documented.items()
        for params in spoilt(example)
        if method != "logout" and not is_left_to_us(method, example, params)
    ]
    found = await answers(tmp_path, home, sent)
    counts = Counter[str]()
    wrong: list[Any] = []
    for number, message in enumerate(sent):
        name = rules.types["agent", message["method"], False]
        code = found[number].get("error", {}).get("code")
        if not rules.takes(name, message["params"]) and not forgiving(rules, name, message["params"]):
            if code not in (_INVALID_PARAMS, -32600):
                wrong.append((message["method"], message["params"], found[number]))
            counts["refused"] += 1
        elif rules.takes(name, message["params"]):
            if "errors" in (found[number].get("error", {}).get("data") or {}):
                wrong.append((message["method"], message["params"], found[number]))
            counts["taken"] += 1
    assert wrong == []
    assert min(counts.values()) > 20, counts
