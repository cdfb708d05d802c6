"""Runs that ask: by requests of the server up to 2025-11-25, by answers that say what is missing since 2026-07-28."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry

from mainspring.app.servers.mcp import runs
from mainspring.app.servers.mcp.server import serve_mcp
from mainspring.app.servers.stdio import ChatRegistry, LineTransport
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.unit.app.chat.harness import Gate, WaitingModel
from tests.unit.app.servers.acp.harness import options_for

pytestmark = pytest.mark.covers("BYD-23")

NEW, OLD = "2026-07-28", "2025-11-25"


class Client:
    """A client of one version, which answers questions as a test says.

    Attributes:
        told: Every message of the server.
        asked: The questions that came, by requests or in answers.
    """

    def __init__(self, version: str, answer: Callable[[dict[str, Any]], Any] | None) -> None:
        self.version = version
        self.answer = answer
        self.into: asyncio.Queue[bytes] = asyncio.Queue()
        self.out: asyncio.Queue[bytes] = asyncio.Queue()
        self.told: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.calls = 0
        self._count = 0

    def say(self, **message: Any) -> None:
        self.into.put_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def next(self) -> dict[str, Any]:
        message = json.loads(await asyncio.wait_for(self.out.get(), 10))
        self.told.append(message)
        return message

    def request(self, method: str, **params: Any) -> int:
        self._count += 1
        if self.version == NEW:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": NEW,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}} if self.answer else {},
                "progressToken": f"p{self._count}",
            }
        self.say(id=self._count, method=method, params=params)
        return self._count

    async def reply(self, id: int) -> dict[str, Any]:
        """The answer to a request; questions meanwhile are answered."""
        while True:
            message = await self.next()
            if message.get("method") == "elicitation/create":
                assert self.answer is not None
                self.asked.append(message["params"])
                self.say(id=message["id"], result=self.answer(message["params"]))
            elif message.get("id") == id:
                return message

    async def start(self) -> None:
        if self.version == NEW:
            found = await self.reply(self.request("server/discover"))
            assert NEW in found["result"]["supportedVersions"]
            return
        can = {"elicitation": {}} if self.answer else {}
        about = {"protocolVersion": OLD, "capabilities": can, "clientInfo": {"name": "test", "version": "1"}}
        await self.reply(self.request("initialize", **about))
        self.say(method="notifications/initialized")

    async def call(self, **arguments: Any) -> dict[str, Any]:
        """What a call of ``run`` gives, in as many rounds as it takes."""
        more: dict[str, Any] = {}
        while True:
            self.calls += 1
            message = await self.reply(self.request("tools/call", name="run", arguments=arguments, **more))
            assert "error" not in message, message
            result = message["result"]
            if result.get("resultType") != "input_required":
                return result
            assert self.answer is not None
            self.asked += [each["params"] for each in result["inputRequests"].values()]
            answers = {id: self.answer(each["params"]) for id, each in result["inputRequests"].items()}
            more = {"inputResponses": answers, "requestState": result["requestState"]}


@asynccontextmanager
async def connected(
    folder: Path, home: Path, version: str, answer: Callable[[dict[str, Any]], Any] | None, *script: Any
) -> AsyncGenerator[tuple[Client, ScriptedModel]]:
    model = script[0] if isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    client = Client(version, answer)
    wire = LineTransport(client.into.get, client.out.put)
    task = asyncio.create_task(serve_mcp(wire, ChatRegistry(), options_for(folder, home, model)))
    await client.start()
    yield client, model
    client.into.put_nowait(b"")
    async with asyncio.timeout(10):
        await task


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def write(number: int = 1) -> ScriptedCall:
    return ScriptedCall("write_file", {"path": f"{number}.txt", "content": "x"})


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (accept(decision="once"), True),
        (accept(decision="session"), True),
        (accept(decision="deny"), False),
        (accept(decision="edit"), False),
        (accept(), False),
        ({"action": "decline"}, False),
        ({"action": "cancel"}, False),
    ],
)
async def test_decisions(tmp_path: Path, home: Path, version: str, answer: dict[str, Any], written: bool) -> None:
    async with connected(tmp_path, home, version, lambda _: answer, write(), "Done.") as (client, _):
        result = await client.call(prompt="write it")
    assert (tmp_path / "1.txt").exists() is written
    assert result["structuredContent"]["answer"] == "Done."
    assert result["structuredContent"]["denied"] == (not written)
    assert "The agent wants to write 1.txt" in client.asked[0]["message"]
    assert client.asked[0]["requestedSchema"]["properties"]["decision"]["enum"][:2] == ["once", "session"]
    progress = [message["params"] for message in client.told if message.get("method") == "notifications/progress"]
    if version == NEW:
        assert [each["message"] for each in progress] == ["Write 1.txt"]
        assert client.calls == 2


@pytest.mark.parametrize("version", [NEW, OLD])
async def test_questions_of_the_agent(tmp_path: Path, home: Path, version: str) -> None:
    options = [{"label": "red", "description": "like roses"}, {"label": "blue"}]
    script = [
        ScriptedCall("ask_user", {"question": "Which?", "options": options}),
        ScriptedCall("ask_user", {"question": "Why?"}),
        ScriptedCall("ask_user", {"question": "All?", "options": options, "multiple": True}),
        "Thanks.",
    ]
    given = {"Which?": accept(choice="red"), "Why?": accept(words="it is warm"), "All?": {"action": "decline"}}
    async with connected(tmp_path, home, version, lambda asked: given[asked["message"]], *script) as (client, model):
        result = await client.call(prompt="ask me")
    told = [request.messages[-1].tool_results[0].text for request in model.requests[1:]]
    assert told[:2] == ["The user chose: red.", "The user says: it is warm"]
    assert "gave no answer" in told[2]
    assert result["structuredContent"]["answer"] == "Thanks."


async def test_what_is_said_keeps_to_the_schema(material: Path, tmp_path: Path, home: Path) -> None:
    schema = json.loads((material / "mcp" / "spec-schema" / f"{NEW}.schema.json").read_text())
    check = {
        name: jsonschema.Draft202012Validator(
            {"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}, registry=Registry()
        )
        for name in (
            "InputRequiredResult",
            "CallToolResult",
            "DiscoverResult",
            "ListToolsResult",
            "ProgressNotification",
        )
    }
    script = [write(), ScriptedCall("ask_user", {"question": "Which?", "options": [{"label": "a"}]}), "Done."]
    answers = {"Which?": accept(choice="a", words="or b")}
    async with connected(
        tmp_path, home, NEW, lambda asked: answers.get(asked["message"], accept(decision="once")), *script
    ) as (client, _):
        await client.call(prompt="write it")
        await client.reply(client.request("tools/list"))
    kinds: list[str] = []
    for message in client.told:
        if "method" in message:
            kinds.append("ProgressNotification")
            check["ProgressNotification"].validate(message)
            continue
        result = message["result"]
        if "supportedVersions" in result:
            name = "DiscoverResult"
        elif "tools" in result:
            name = "ListToolsResult"
        else:
            name = "InputRequiredResult" if result["resultType"] == "input_required" else "CallToolResult"
        kinds.append(name)
        check[name].validate(result)
    assert kinds.count("InputRequiredResult") == 2
    assert set(kinds) == set(check)


async def test_a_client_without_forms_is_not_asked(tmp_path: Path, home: Path) -> None:
    async with connected(tmp_path, home, NEW, None, write(), "Done.") as (client, model):
        result = await client.call(prompt="write it")
    assert result["structuredContent"]["denied"] == 1
    assert "no user is available" in repr(model.requests[1].messages)


async def test_answers_that_are_none(tmp_path: Path, home: Path) -> None:
    """A state is good for one time and one call; what is not answered is asked again."""
    arguments = {"prompt": "write it"}
    async with connected(tmp_path, home, NEW, lambda _: None, write(), "Done.") as (client, _):

        async def say(**more: Any) -> dict[str, Any]:
            return await client.reply(client.request("tools/call", name="run", **{"arguments": arguments, **more}))

        first = (await say())["result"]
        again = (await say(requestState=first["requestState"], inputResponses={"other": accept(decision="once")}))[
            "result"
        ]
        assert again["inputRequests"] == first["inputRequests"]
        assert again["requestState"] != first["requestState"]
        for state in (first["requestState"], "", "nonsense"):
            refused = (await say(requestState=state))["error"]
            assert (refused["code"], refused["data"]["reason"]) == (-32602, "invalid_request_state")
        refused = (await say(requestState=again["requestState"], arguments={"prompt": "something else"}))["error"]
        assert refused["data"]["reason"] == "invalid_request_state"
    assert not (tmp_path / "1.txt").exists()


async def test_more_questions_than_clients_take(tmp_path: Path, home: Path) -> None:
    """What is asked behind the last round that clients take part in is denied, and the run goes on."""
    script = [*[write(number) for number in range(runs.MAX_INPUT_ROUNDS + 2)], "Done."]
    async with connected(tmp_path, home, NEW, lambda _: accept(decision="once"), *script) as (client, _):
        result = await client.call(prompt="write them")
    assert len(client.asked) == runs.MAX_INPUT_ROUNDS
    assert result["structuredContent"]["denied"] == 2
    assert "--allow RULE" in result["content"][0]["text"]


async def test_a_client_that_does_not_come_back(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run is stopped when its time is up, and kept; others go on meanwhile."""
    ended = asyncio.Event()

    class Noted(runs.ToolRun):
        async def live(self, chats: Any, options: Any) -> None:
            await super().live(chats, options)
            ended.set()

    monkeypatch.setattr(runs, "SUSPEND_SECONDS", 0.05)
    monkeypatch.setattr(runs, "ToolRun", Noted)
    async with connected(tmp_path, home, NEW, lambda _: None, write(), "Done.") as (client, _):
        asked = await client.reply(client.request("tools/call", name="run", arguments={"prompt": "write it"}))
        await asyncio.wait_for(ended.wait(), 10)
        state = asked["result"]["requestState"]
        late = await client.reply(
            client.request("tools/call", name="run", arguments={"prompt": "write it"}, requestState=state)
        )
        assert late["error"]["data"]["reason"] == "invalid_request_state"
        listed = await client.reply(client.request("tools/call", name="sessions", arguments={}))
        assert "write it" in listed["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", [NEW, OLD])
async def test_cancellation(tmp_path: Path, home: Path, version: str) -> None:
    gate = Gate()
    model = WaitingModel("Again.", gates={0: gate})
    async with connected(tmp_path, home, version, lambda _: None, model) as (client, _):
        id = client.request("tools/call", name="run", arguments={"prompt": "for ever"})
        await gate.reached_limit.wait()
        client.say(method="notifications/cancelled", params={"requestId": id, "reason": "enough"})
        model.gates.clear()
        result = await client.call(prompt="once more")
        assert result["structuredContent"]["answer"] == "Again."
        listed = await client.reply(client.request("tools/call", name="sessions", arguments={}))
        assert "for ever" in listed["result"]["content"][0]["text"], "what was cancelled is kept, too"
