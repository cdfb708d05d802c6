"""DBOS names without a stability promise: a version without one of them fails here and names it.

pyproject.toml excludes the next major version; names that begin with an underscore can disappear in any version.
"""

import inspect
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOS, DBOSClient, StepReservation, error

from mainspring.durable.dbos import engine, tables as old_runs
from tests.contract.test_durable_engines import empty_database

ROOT = Path(__file__).resolve().parents[3]


def test_private_dbos_names_exist() -> None:
    for module, name, used_for in (
        ("dbos._dbos", "_dbos_global_instance", "whether this process has a worker"),
        ("dbos._recovery", "recover_pending_workflows", "resuming the runs of a worker that crashed"),
    ):
        assert hasattr(import_module(module), name), (
            f"DBOS no longer has {module}.{name}, which mainspring.durable.dbos.engine uses for: {used_for}"
        )
        assert f'"{module}")' in inspect.getsource(engine), f"{module} is no longer used: remove it from this test"
    recover = inspect.signature(import_module("dbos._recovery").recover_pending_workflows)
    assert list(recover.parameters)[:2] == ["dbos", "executor_ids"]


def test_dbos_names_of_this_version_exist() -> None:
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
            assert method is not None, f"{kind.__name__} no longer has {name}"
            accepted = inspect.signature(method).parameters
            missing = [p for p in parameters if p not in accepted]
            assert not missing, f"{kind.__name__}.{name} no longer takes {', '.join(missing)}"


def test_unexpected_step_error_keeps_both_names() -> None:
    error_now = error.DBOSUnexpectedStepError("r", 1, "now", "then")
    assert error_now.inputs[2:] == ("now", "then")


def test_old_runs_deletes_from_every_dbos_table_with_run_data(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(empty_database())
    database = sa.create_engine(f"sqlite:///{tmp_path}/runs.db")
    inspector = sa.inspect(database)
    tables = {name: {c["name"] for c in inspector.get_columns(name)} for name in inspector.get_table_names()}
    cascading = {
        name
        for name in tables
        if any(k.get("options", {}).get("ondelete") == "CASCADE" for k in inspector.get_foreign_keys(name))
    }
    database.dispose()
    assert {"workflow_uuid", "name", "status", "completed_at", "updated_at"} <= tables["workflow_status"]
    with_runs = (
        {name for name, columns in tables.items() if "workflow_uuid" in columns} - {"workflow_status"} - cascading
    )
    unknown = [name for name in with_runs if f'"{name}"' not in inspect.getsource(old_runs)]
    assert not unknown, f"DBOS also stores run data in {', '.join(unknown)}: OldRuns must delete it"


@pytest.mark.parametrize("place", ["optional-dependencies", "dependency-groups"])
def test_next_major_version_of_dbos_is_excluded(place: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"][place] if place == "optional-dependencies" else project[place]
    request = [need for needs in groups.values() for need in needs if isinstance(need, str) and need.startswith("dbos")]
    assert request
    assert set(request) == {"dbos>=3.4,<4"}
