"""`mainspring runs` on a database: runs are deleted, pruned, and retried."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, ModelError, Permissions, RunOptions, tool
from mainspring.app.cli.main import main
from mainspring.app.commands.runs import get_run, list_durable_runs
from mainspring.durable import DurableWorker, MemoryEngine
from mainspring.env.memory import MemoryEnv
from mainspring.events import ApprovalRequest
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.contract.test_durable_engines import empty_database
from tests.requires import durable_on_sqlite

pytestmark = [durable_on_sqlite, pytest.mark.covers("BYD-31")]

Runs = Callable[..., tuple[int, str, str]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "runs.db").write_bytes(empty_database())
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def runs(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs `mainspring runs` with arguments; returns exit code, stdout, and stderr."""
    monkeypatch.setenv("MAINSPRING_RUNS_URL", url)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["runs", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_delete_removes_all_named_runs_or_none(runs: Runs) -> None:
    for name in ("one", "two", "three"):
        assert runs("start", "Hi.", "--id", name)[1] == f"{name}\n"
    assert runs("cancel", "one") == (0, "", "")
    assert runs("cancel", "two")[0] == 0
    code, _, err = runs("delete", "one", "three")
    assert (code, "Run three is waiting. Only finished runs can be deleted" in err) == (1, True)
    code, _, err = runs("delete", "one", "none")
    assert (code, "Unknown run: none" in err) == (1, True)
    assert runs()[1].count("\n") == 3, "nothing was deleted"
    assert runs("delete", "one", "two", "one") == (0, "", "")
    assert [run["id"] for run in json.loads(runs("--json")[1])] == ["three"]


def test_prune_counts_and_deletes_old_runs(runs: Runs) -> None:
    for name in ("one", "two", "three"):
        runs("start", "Hi.", "--id", name)
    for name in ("one", "two"):
        runs("cancel", name)
    assert runs("prune", "--older-than", "30d") == (0, "0 runs deleted\n", "")
    assert runs("prune", "--older-than", "0s", "--state", "done")[1] == "0 runs deleted\n"
    assert runs("prune", "--older-than", "0s", "--dry-run")[1] == "2 runs would be deleted\n"
    assert runs("prune", "--older-than", "0s", "--json")[1] == '{"runs":2,"deleted":true}\n'
    assert [run["id"] for run in json.loads(runs("--json")[1])] == ["three"]


def test_retry_queues_a_cancelled_run_again(runs: Runs) -> None:
    runs("start", "Hi.", "--id", "one")
    code, _, err = runs("retry", "one")
    assert (code, "is waiting. Only failed and cancelled runs can be retried" in err) == (1, True)
    runs("cancel", "one")
    assert "cancelled" in runs("show", "one")[1]
    assert runs("retry", "one")[0] == 0
    assert "waiting" in runs("show", "one")[1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["prune"], "runs prune requires --older-than AGE"),
        (["prune", "one", "--older-than", "1d"], "Unexpected argument of `mainspring runs prune`: one"),
        (["prune", "--older-than", "30"], "must be a number with the unit s, m, h, d, or w"),
        (["prune", "--older-than", "-1d"], "older-than"),
        (["prune", "--older-than", "1d", "--state", "running"], "invalid choice"),
        (["delete"], "runs delete requires at least one ID."),
        (["cancel"], "runs cancel requires an ID"),
    ],
)
def test_usage_errors_change_nothing(runs: Runs, arguments: list[str], why: str) -> None:
    code, out, err = runs(*arguments)
    assert (code, out) == (2, "")
    assert why in err


def test_start_rejects_an_empty_prompt_and_warns_of_an_unknown_agent(runs: Runs) -> None:
    code, out, err = runs("start", "")
    assert (code, out, "The prompt is empty." in err or "Nothing to run" in err) == (1, "", True)
    code, out, err = runs("start", "Hi.", "--agent", "nope", "--id", "one")
    assert (code, out) == (0, "one\n")
    assert "no worker that knows the agent 'nope' is alive" in err


async def test_list_shows_paused_failed_and_aborted_runs() -> None:
    @tool
    async def act() -> str:
        """Act."""
        return "done"

    def make_agent(steps: Any) -> Agent:
        script = (ModelError("down"),) if len(attempts) == 1 else (ScriptedCall("act", {}, id="c1"), "done")
        attempts.append("")
        permissions = Permissions(ask=["act"], unattended="pause")
        behavior = RunOptions(retry=None)
        return Agent(
            ScriptedModel(*script),
            execution=MemoryEnv({}),
            tools=[act],
            permissions=permissions,
            steps=steps,
            behavior=behavior,
        )

    attempts: list[str] = []
    async with DurableWorker(MemoryEngine(), {"one": make_agent}) as agents:
        paused = await agents.start("one", "go", run_id="paused")
        async for item in paused.events():
            if isinstance(item.event, ApprovalRequest):
                break
        failed = await agents.start("one", "go", run_id="failed")
        await failed.result()
        assert {(r.run.id, r.run.state, r.run.status, r.run.error) for r in await list_durable_runs(agents, 10)} == {
            ("paused", "paused", "paused", ""),
            ("failed", "done", "error", "down"),
        }
        (waiting,) = (await get_run(paused)).waiting
        assert (waiting.call_id, waiting.tool, waiting.input) == ("c1", "act", {})
        await paused.abort("enough")
        await paused.result()
        assert (await get_run(paused)).run.status == "aborted"
