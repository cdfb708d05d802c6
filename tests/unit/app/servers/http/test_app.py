"""The OpenAPI document: it is what docs/openapi.json says, and what the service does."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from mainspring.app.servers.http.app import build_openapi
from mainspring.app.servers.http.routes import OPERATIONS
from mainspring.testing.scripted_model import Reply, ScriptedCall
from tests.unit.app.servers.http.harness import on_stage, scripted

FILE = Path(__file__).resolve().parents[5] / "docs" / "openapi.json"


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_the_document_in_docs_is_that_of_the_routes():
    # To renew it: python -m tests.unit.app.servers.http.test_app
    assert json.loads(FILE.read_text(encoding="utf-8")) == as_json(build_openapi())


def test_every_operation_is_in_it_once():
    found = [o["operationId"] for path in build_openapi()["paths"].values() for o in path.values()]
    assert sorted(found) == sorted(o.name for o in OPERATIONS)


def check(value: Any, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": build_openapi()["components"]}
    Draft202012Validator(schema).validate(value)


async def test_what_comes_back_fits_the_document():
    script = [Reply("see", thinking="hm", calls=[ScriptedCall("note", {"text": "x"})]), "over"]
    async with on_stage({"bot": scripted(*script)}) as stage:
        assert (await stage.nobody.get("openapi.json"))[1] == as_json(build_openapi())
        run = await stage.ann.start()
        paused = await stage.ann.until(run, "paused")
        check(paused, "RunView")
        await stage.ann.post(f"v1/runs/{run}/approve", {"call_id": paused["waiting"][0]["call_id"]})
        check(await stage.ann.ended(run), "ResultView")
        check((await stage.ann.get("v1/runs"))[1], "RunList")
        check((await stage.ann.get("v1/agents"))[1], "AgentList")
        check((await stage.ann.get("v1/runs/x"))[1], "Problem")
        kinds: set[str] = set()
        async for event in stage.ann.follow(run):
            check(event.data, "Event")
            assert event.data["type"] == event.name
            kinds.add(event.name)
        assert kinds >= {"attempt", "turn", "text", "thinking", "message", "asked", "tool_start", "tool_end", "end"}


if __name__ == "__main__":
    FILE.write_text(json.dumps(build_openapi(), indent=2) + "\n", encoding="utf-8")
