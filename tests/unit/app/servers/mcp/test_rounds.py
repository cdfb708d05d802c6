"""Runs that ask: with server requests up to 2025-11-25, with "input required" results since 2026-07-28."""

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
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.helpers.memory_lines import MemoryLines
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.servers.acp.harness import options_for

pytestmark = pytest.mark.covers("BYD-23")

NEW, OLD = "2026-07-28", "2025-11-25"


class Client(MemoryLines):
    """A client of one protocol version, which answers questions with a function of the test.

    Attributes:
        messages: Every message of the server.
        questions: The questions in requests or results.
    """

    def __init__(self, version: str, answer: Callable[[dict[str, Any]], Any] | None) -> None:
        super().__init__()
        self.version = version
        self.answer = answer
        self.messages: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self.calls = 0
        self._count = 0

    def send(self, **message: Any) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def next(self) -> dict[str, Any]:
        message = json.loads(await self.written())
        self.messages.append(message)
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
        self.send(id=self._count, method=method, params=params)
        return self._count

    async def reply(self, id: int) -> dict[str, Any]:
        """Return the response to a request, and answer questions that arrive first."""
        while True:
            message = await self.next()
            if message.get("method") == "elicitation/create":
                assert self.answer is not None
                self.questions.append(message["params"])
                self.send(id=message["id"], result=self.answer(message["params"]))
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
        self.send(method="notifications/initialized")

    async def call(self, **arguments: Any) -> dict[str, Any]:
        """Call ``run`` and return its result after as many rounds as needed."""
        more: dict[str, Any] = {}
        while True:
            self.calls += 1
            message = await self.reply(self.request("tools/call", name="run", arguments=arguments, **more))
            assert "error" not in message, message
            result = message["result"]
            if result.get("resultType") != "input_required":
                return result
            assert self.answer is not None
            self.questions += [each["params"] for each in result["inputRequests"].values()]
            answers = {id: self.answer(each["params"]) for id, each in result["inputRequests"].items()}
            more = {"inputResponses": answers, "requestState": result["requestState"]}


@asynccontextmanager
async def connect(
    folder: Path, home: Path, version: str, answer: Callable[[dict[str, Any]], Any] | None, *script: Any
) -> AsyncGenerator[tuple[Client, ScriptedModel]]:
    model = script[0] if isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    client = Client(version, answer)
    task = asyncio.create_task(serve_mcp(client.wire, ChatRegistry(), options_for(folder, home, model)))
    await client.start()
    yield client, model
    client.feed(b"")
    await task


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def write_call(number: int = 1) -> ScriptedCall:
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
async def test_approval_decisions(
    tmp_path: Path, home: Path, version: str, answer: dict[str, Any], written: bool
) -> None:
    async with connect(tmp_path, home, version, lambda _: answer, write_call(), "Done.") as (client, _):
        result = await client.call(prompt="write it")
    assert (tmp_path / "1.txt").exists() is written
    assert result["structuredContent"]["answer"] == "Done."
    assert result["structuredContent"]["denied"] == (not written)
    assert "The agent wants to write 1.txt" in client.questions[0]["message"]
    assert client.questions[0]["requestedSchema"]["properties"]["decision"]["enum"][:2] == ["once", "session"]
    progress = [message["params"] for message in client.messages if message.get("method") == "notifications/progress"]
    if version == NEW:
        assert [each["message"] for each in progress] == ["Write 1.txt"]
        assert client.calls == 2


@pytest.mark.parametrize("version", [NEW, OLD])
async def test_agent_questions_are_answered_by_the_client(tmp_path: Path, home: Path, version: str) -> None:
    options = [{"label": "red", "description": "like roses"}, {"label": "blue"}]
    script = [
        ScriptedCall("ask_user", {"question": "Which?", "options": options}),
        ScriptedCall("ask_user", {"question": "Why?"}),
        ScriptedCall("ask_user", {"question": "All?", "options": options, "multiple": True}),
        "Thanks.",
    ]
    given = {"Which?": accept(choice="red"), "Why?": accept(words="it is warm"), "All?": {"action": "decline"}}
    async with connect(tmp_path, home, version, lambda question: given[question["message"]], *script) as (
        client,
        model,
    ):
        result = await client.call(prompt="ask me")
    texts = [request.messages[-1].tool_results[0].text for request in model.requests[1:]]
    assert texts[:2] == ["The user chose: red.", "The user says: it is warm"]
    assert "did not answer" in texts[2]
    assert result["structuredContent"]["answer"] == "Thanks."


async def test_messages_match_the_schema(material: Path, tmp_path: Path, home: Path) -> None:
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
    script = [write_call(), ScriptedCall("ask_user", {"question": "Which?", "options": [{"label": "a"}]}), "Done."]
    answers = {"Which?": accept(choice="a", words="or b")}
    async with connect(
        tmp_path, home, NEW, lambda request: answers.get(request["message"], accept(decision="once")), *script
    ) as (client, _):
        await client.call(prompt="write it")
        await client.reply(client.request("tools/list"))
    kinds: list[str] = []
    for message in client.messages:
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


async def test_client_without_forms_gets_no_questions(tmp_path: Path, home: Path) -> None:
    async with connect(tmp_path, home, NEW, None, write_call(), "Done.") as (client, model):
        result = await client.call(prompt="write it")
    assert result["structuredContent"]["denied"] == 1
    assert "no user is available" in repr(model.requests[1].messages)


async def test_invalid_or_reused_request_state_is_rejected(tmp_path: Path, home: Path) -> None:
    """A request state is valid once and for one call; unanswered questions are asked again."""
    arguments = {"prompt": "write it"}
    async with connect(tmp_path, home, NEW, lambda _: None, write_call(), "Done.") as (client, _):

        async def call_run(**more: Any) -> dict[str, Any]:
            return await client.reply(client.request("tools/call", name="run", **{"arguments": arguments, **more}))

        first = (await call_run())["result"]
        again = (await call_run(requestState=first["requestState"], inputResponses={"other": accept(decision="once")}))[
            "result"
        ]
        assert again["inputRequests"] == first["inputRequests"]
        assert again["requestState"] != first["requestState"]
        for state in (first["requestState"], "", "nonsense"):
            rejected = (await call_run(requestState=state))["error"]
            assert (rejected["code"], rejected["data"]["reason"]) == (-32602, "invalid_request_state")
        rejected = (await call_run(requestState=again["requestState"], arguments={"prompt": "something else"}))["error"]
        assert rejected["data"]["reason"] == "invalid_request_state"
    assert not (tmp_path / "1.txt").exists()


async def test_requests_beyond_the_round_limit_are_denied(tmp_path: Path, home: Path) -> None:
    """Requests after the last allowed round are denied, and the run continues."""
    script = [*[write_call(number) for number in range(runs.MAX_INPUT_ROUNDS + 2)], "Done."]
    async with connect(tmp_path, home, NEW, lambda _: accept(decision="once"), *script) as (client, _):
        result = await client.call(prompt="write them")
    assert len(client.questions) == runs.MAX_INPUT_ROUNDS
    assert result["structuredContent"]["denied"] == 2
    assert "--allow RULE" in result["content"][0]["text"]


async def test_run_of_an_absent_client_is_stopped(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stops after a time limit and is stored; other runs continue."""
    ended = asyncio.Event()

    class ObservedRun(runs.ToolRun):
        async def run(self, chats: Any, options: Any) -> None:
            await super().run(chats, options)
            ended.set()

    monkeypatch.setattr(runs, "SUSPEND_SECONDS", 0.05)
    monkeypatch.setattr(runs, "ToolRun", ObservedRun)
    async with connect(tmp_path, home, NEW, lambda _: None, write_call(), "Done.") as (client, _):
        request = await client.reply(client.request("tools/call", name="run", arguments={"prompt": "write it"}))
        await ended.wait()
        state = request["result"]["requestState"]
        late = await client.reply(
            client.request("tools/call", name="run", arguments={"prompt": "write it"}, requestState=state)
        )
        assert late["error"]["data"]["reason"] == "invalid_request_state"
        listed = await client.reply(client.request("tools/call", name="sessions", arguments={}))
        assert "write it" in listed["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", [NEW, OLD])
async def test_cancelled_call_stops_the_run_and_keeps_its_session(tmp_path: Path, home: Path, version: str) -> None:
    gate = Gate()
    model = WaitingModel("Again.", gates={0: gate})
    async with connect(tmp_path, home, version, lambda _: None, model) as (client, _):
        id = client.request("tools/call", name="run", arguments={"prompt": "for ever"})
        await gate.reached_limit.wait()
        client.send(method="notifications/cancelled", params={"requestId": id, "reason": "enough"})
        model.gates.clear()
        result = await client.call(prompt="once more")
        assert result["structuredContent"]["answer"] == "Again."
        listed = await client.reply(client.request("tools/call", name="sessions", arguments={}))
        assert "for ever" in listed["result"]["content"][0]["text"], "a cancelled run is stored"
