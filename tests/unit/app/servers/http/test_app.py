"""The OpenAPI document matches docs/openapi.json and the responses of the service."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from mainspring.app.servers.http.app import build_openapi
from mainspring.app.servers.http.routes import OPERATIONS
from mainspring.testing.scripted_model import Reply, ScriptedCall
from tests.unit.app.servers.http.harness import run_server, script_agent

FILE = Path(__file__).resolve().parents[5] / "docs" / "openapi.json"


def to_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_documented_schema_matches_the_routes():
    # To update the file: python -m tests.unit.app.servers.http.test_app
    assert json.loads(FILE.read_text(encoding="utf-8")) == to_json(build_openapi())


def test_every_operation_is_documented_once():
    found = [o["operationId"] for path in build_openapi()["paths"].values() for o in path.values()]
    assert sorted(found) == sorted(o.name for o in OPERATIONS)


def validate(value: Any, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": build_openapi()["components"]}
    Draft202012Validator(schema).validate(value)


async def test_responses_match_the_schema():
    script = [Reply("see", thinking="hm", calls=[ScriptedCall("note", {"text": "x"})]), "over"]
    async with run_server({"bot": script_agent(*script)}) as server:
        assert (await server.anonymous.get("openapi.json"))[1] == to_json(build_openapi())
        run = await server.ann.start()
        paused = await server.ann.wait_for_state(run, "paused")
        validate(paused, "RunView")
        await server.ann.post(f"v1/runs/{run}/approve", {"call_id": paused["waiting"][0]["call_id"]})
        validate(await server.ann.wait_for_result(run), "ResultView")
        validate((await server.ann.get("v1/runs"))[1], "RunList")
        validate((await server.ann.get("v1/agents"))[1], "AgentList")
        validate((await server.ann.get("v1/runs/x"))[1], "Problem")
        kinds: set[str] = set()
        async for event in server.ann.follow(run):
            validate(event.data, "Event")
            assert event.data["type"] == event.name
            kinds.add(event.name)
        assert kinds >= {
            "attempt_start",
            "turn_start",
            "text_delta",
            "thinking_delta",
            "message_end",
            "approval_request",
            "tool_execution_start",
            "tool_execution_end",
            "agent_end",
        }


if __name__ == "__main__":
    FILE.write_text(json.dumps(build_openapi(), indent=2) + "\n", encoding="utf-8")
