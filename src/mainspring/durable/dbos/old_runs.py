"""Runs that are over, and how they are deleted from a database with all that is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.durable.dbos.database import Database

if TYPE_CHECKING:
    import sqlalchemy as sa

_AT_ONCE = 200
"""How many runs are deleted in one transaction: others wait no longer than for these."""


class Old(Struct, frozen=True):
    """Runs that are over: of these states of DBOS's, and since so many seconds at least."""

    states: Sequence[str]
    seconds: float = 0.0


class OldRuns:
    """Deletes runs, each as a whole. Everything here blocks; call it in a thread.

    Args:
        database: Where they are.
        name: What DBOS calls the workflow that is a run; others in the same database are left alone.
        kept: The tables with something of runs, and of those of their sub-agents.
        children: The table that says whose sub-agent's run is whose.
    """

    def __init__(self, database: Database, name: str, kept: Sequence[sa.Table], children: sa.Table) -> None:
        sa = database.sa
        self._database = database
        self._name = name
        self._kept = kept
        self._children = children
        # DBOS describes these tables to its users. What it has for programs deletes runs that are not over as well, and
        # not together with ours.
        schema = None if database.lite else "dbos"
        columns: list[Any] = [sa.column(c) for c in ("workflow_uuid", "name", "status", "completed_at", "updated_at")]
        self._runs = sa.table("workflow_status", *columns, schema=schema)
        payload = ("workflow_input", "workflow_output", "operation_outputs")
        self._payload = [sa.table(table, sa.column("workflow_uuid", sa.Text), schema=schema) for table in payload]

    def delete(self, run_id: str, old: Old) -> bool:
        """Delete a run if it is old enough."""
        with self._database.begin() as connection:
            return self._delete(connection, (self._runs.c.workflow_uuid == run_id) & self._are(old)) > 0

    def delete_some(self, old: Old) -> int:
        """Delete some of the runs that are old enough, the oldest first; says how many, 0 once there are none."""
        uuid = self._runs.c.workflow_uuid
        some = self._database.sa.select(uuid).where(self._are(old)).order_by(self._runs.c.completed_at)
        # Others that delete at the same moment take other ones.
        some = some.limit(_AT_ONCE).with_for_update(skip_locked=True)
        with self._database.begin() as connection:
            return self._delete(connection, uuid.in_(some) & self._are(old))

    def count(self, old: Old) -> int:
        """How many runs are old enough."""
        query = self._database.sa.select(self._database.sa.func.count()).select_from(self._runs)
        return int(self._database.rows(query.where(self._are(old)))[0][0])

    def _are(self, old: Old) -> Any:
        """Which runs. Asked in the very statement that deletes them: one that was tried again meanwhile stays."""
        runs, func = self._runs.c, self._database.sa.func
        wanted = (runs.name == self._name) & runs.status.in_(old.states)
        if old.seconds <= 0:
            return wanted
        return wanted & (
            func.coalesce(runs.completed_at, runs.updated_at) < (self._database.now() - old.seconds) * 1000
        )

    def _delete(self, connection: sa.Connection, which: Any) -> int:
        """Delete runs and what belongs to them, all or nothing."""
        uuid, children = self._runs.c.workflow_uuid, self._children
        gone = connection.execute(self._runs.delete().where(which).returning(uuid)).scalars().all()
        if not gone:
            return 0
        theirs = self._database.sa.select(children.c.run_id).where(children.c.root.in_(gone))
        for table in self._kept:
            connection.execute(table.delete().where(table.c.run_id.in_(gone) | table.c.run_id.in_(theirs)))
        connection.execute(children.delete().where(children.c.root.in_(gone)))
        for table in self._payload:
            connection.execute(table.delete().where(table.c.workflow_uuid.in_(gone)))
        return len(gone)
