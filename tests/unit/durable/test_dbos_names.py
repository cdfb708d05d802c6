"""What is used of DBOS without being promised by it: a version that has it no more fails here, and says what is gone.

The version is held below the next major one in pyproject.toml; names that begin with an underscore can go in any.
"""

import inspect
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOS, DBOSClient, StepReservation, error

from mainspring.durable.dbos import engine
from mainspring.durable.dbos import tables as old_runs
from tests.contract.test_durable_engines import empty_database

ROOT = Path(__file__).resolve().parents[3]


def test_the_private_names_are_there() -> None:
    for module, name, used_for in (
        ("dbos._dbos", "_dbos_global_instance", "whether this process has a worker"),
        ("dbos._recovery", "recover_pending_workflows", "taking up the runs of a worker that died"),
    ):
        assert hasattr(import_module(module), name), (
            f"DBOS has no {module}.{name} any more, by which mainspring.durable.dbos.engine does: {used_for}"
        )
        assert f'"{module}")' in inspect.getsource(engine), f"{module} is used no more: take it out of this test"
    recover = inspect.signature(import_module("dbos._recovery").recover_pending_workflows)
    assert list(recover.parameters)[:2] == ["dbos", "executor_ids"]


def test_the_names_that_need_this_version_are_there() -> None:
    requested = {
        DBOSClient: {
            "enqueue": ("options",),
            "list_workflow_steps": ("load_output",),
            "list_workflows": ("workflow_ids", "load_input", "load_output", "workflow_id_prefix"),
            "register_queue": ("worker_concurrency", "polling_interval_sec"),
            "resume_workflow": ("queue_name",),
            "rewind_workflow": ("start_step", "queue_name"),
        },
        DBOS: {"reserve_step": (), "listen_queues": (), "destroy": ("destroy_registry",), "migrate": ()},
        StepReservation: {"run_async": ()},
    }
    for kind, methods in requested.items():
        for name, parameters in methods.items():
            method = getattr(kind, name, None)
            assert method is not None, f"{kind.__name__} has no {name} any more"
            known = inspect.signature(method).parameters
            gone = [p for p in parameters if p not in known]
            assert not gone, f"{kind.__name__}.{name} takes no {', '.join(gone)} any more"


def test_a_step_that_differs_names_both_at_their_places() -> None:
    told = error.DBOSUnexpectedStepError("r", 1, "now", "then")
    assert told.inputs[2:] == ("now", "then")


def test_the_tables_that_runs_are_deleted_from_are_all_that_have_something_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(empty_database())
    database = sa.create_engine(f"sqlite:///{tmp_path}/runs.db")
    looking = sa.inspect(database)
    tables = {name: {c["name"] for c in looking.get_columns(name)} for name in looking.get_table_names()}
    follow = {
        name
        for name in tables
        if any(k.get("options", {}).get("ondelete") == "CASCADE" for k in looking.get_foreign_keys(name))
    }
    database.dispose()
    assert {"workflow_uuid", "name", "status", "completed_at", "updated_at"} <= tables["workflow_status"]
    with_runs = {name for name, columns in tables.items() if "workflow_uuid" in columns} - {"workflow_status"} - follow
    unknown = [name for name in with_runs if f'"{name}"' not in inspect.getsource(old_runs)]
    assert not unknown, f"DBOS keeps something of runs in {', '.join(unknown)} too: OldRuns has to delete it"


@pytest.mark.parametrize("place", ["optional-dependencies", "dependency-groups"])
def test_the_next_major_version_is_kept_out(place: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"][place] if place == "optional-dependencies" else project[place]
    request = [need for needs in groups.values() for need in needs if isinstance(need, str) and need.startswith("dbos")]
    assert request
    assert set(request) == {"dbos>=3.4,<4"}
