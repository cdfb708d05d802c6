"""An AG-UI client that stores the conversation, starts runs with it, and checks the stream against the protocol."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.unit.app.servers.http.harness import Client, parse_events

MATERIAL = Path(__file__).resolve().parents[5].parent / "shared" / "material" / "ag-ui"


class StreamRules:
    """Rules of an AG-UI stream: everything that starts also ends, and no event is outside a run."""

    def __init__(self) -> None:
        self.running = False
        self.texts: dict[str, str] = {}
        self.open: set[str] = set()
        self.calls: dict[str, str] = {}

    def check(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        assert self.running != (kind == "RUN_STARTED"), event
        name = event.get("messageId") or event.get("toolCallId") or event.get("stepName") or ""
        match kind:
            case "RUN_STARTED":
                self.running = True
            case "RUN_FINISHED" | "RUN_ERROR":
                assert kind == "RUN_ERROR" or not self.open, self.open
                self.open.clear()
                self.running = False
            case "TOOL_CALL_RESULT":
                assert event["toolCallId"] in self.calls
            case "CUSTOM":
                pass
            case _ if kind.endswith(("_START", "_STARTED")):
                assert (key := f"{kind.rpartition('_')[0]} {name}") not in self.open
                self.open.add(key)
                if kind == "TOOL_CALL_START":
                    assert name not in self.calls, f"{name} is reopened: its arguments would be joined"
                    self.calls[name] = ""
            case _ if kind.endswith(("_END", "_FINISHED")):
                self.open.remove(f"{kind.rpartition('_')[0]} {name}")
            case _:
                assert kind.endswith(("_CONTENT", "_ARGS"))
                assert f"{kind.rpartition('_')[0]} {name}" in self.open
                assert event["delta"]
                buffers = self.calls if kind == "TOOL_CALL_ARGS" else self.texts
                buffers[name] = buffers.get(name, "") + event["delta"]


@cache
def schema(name: str) -> Draft202012Validator | None:
    """Return a schema of the protocol, if the published files are next to the checkout."""
    file = MATERIAL / f"{name}.schema.json"
    return Draft202012Validator(json.loads(file.read_text())) if file.exists() else None


@dataclass
class Thread:
    """A conversation with an agent."""

    client: Client
    query: str = ""
    id: str = "thread-1"
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    rules: StreamRules = field(default_factory=StreamRules)
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    location: str = ""
    runs: int = 0

    def make_input(self, text: str = "", **more: Any) -> dict[str, Any]:
        """Return the input of the next run."""
        self.runs += 1
        if text:
            self.messages.append({"id": f"u{self.runs}", "role": "user", "content": text})
        run = f"run-{self.runs}"
        run_input = {"threadId": self.id, "runId": run, "protocolVersion": "1.0", "messages": self.messages, **more}
        if (validator := schema("run-agent-input")) is not None:
            validator.validate(run_input)
        return run_input

    async def ask(self, text: str = "", **more: Any) -> dict[str, Any]:
        """Run once, add the messages to the conversation, and return the last event."""
        async for _ in self.stream(self.make_input(text, **more)):
            pass
        return self.events[-1]

    async def stream(self, given: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of one run after applying them."""
        async with self.post(given) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["content-type"].startswith("text/event-stream")
            self.location = answer.headers["location"]
            self.events = []
            async for event in parse_events(answer.content):
                self._apply(event.data, given["runId"])
                yield event.data
        assert not self.rules.running, self.events[-1:]

    def post(self, given: Any) -> Any:
        url = f"{self.client.url}v1/ag-ui{self.query}"
        headers = {"authorization": f"Bearer {self.client.token}", "accept": "text/event-stream"}
        return self.client.session.post(url, json=given, headers=headers)

    async def post_rejected(self, given: Any) -> tuple[int, Any]:
        """Return the status and the body of a rejected input."""
        async with self.post(given) as answer:
            return answer.status, await answer.json()

    def _apply(self, event: dict[str, Any], run: str) -> None:
        self.events.append(event)
        self.rules.check(event)
        if (validator := schema("events")) is not None:
            validator.validate(event)
        match event["type"]:
            case "RUN_STARTED" | "RUN_FINISHED":
                assert (event["threadId"], event["runId"]) == (self.id, run)
            case "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": event["role"], "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                self._find_message(event["messageId"])["content"] += event["delta"]
            case "TOOL_CALL_START":
                if not self.messages or self.messages[-1]["id"] != event["parentMessageId"]:
                    self.messages.append({"id": event["parentMessageId"], "role": "assistant"})
                call = {"name": event["toolCallName"], "arguments": ""}
                calls = self.messages[-1].setdefault("toolCalls", [])
                calls.append({"id": event["toolCallId"], "type": "function", "function": call})
            case "TOOL_CALL_ARGS":
                calls = [c for m in self.messages for c in m.get("toolCalls", ())]
                next(c for c in calls if c["id"] == event["toolCallId"])["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                result = {"id": event["messageId"], "toolCallId": event["toolCallId"], "content": event["content"]}
                self.messages.append({"role": "tool", **result})
            case _:
                pass

    def _find_message(self, name: str) -> dict[str, Any]:
        return next(m for m in self.messages if m["id"] == name)

    def add_tool_result(self, call_id: str, content: Any, **more: Any) -> None:
        """Add the result of a tool that the client ran."""
        self.messages.append({"id": f"t-{call_id}", "role": "tool", "toolCallId": call_id, "content": content, **more})

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        return self.events[-1].get("outcome", {}).get("interrupts", [])


def resolve(interrupt: dict[str, Any], **payload: Any) -> dict[str, Any]:
    """Return the answer to an interrupt."""
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True, **payload}}


def cancel(interrupt: dict[str, Any]) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "cancelled"}
