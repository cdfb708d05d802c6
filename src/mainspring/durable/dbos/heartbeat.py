"""Heartbeats of the workers on a database."""

from __future__ import annotations

import json

from mainspring.durable.dbos.database import Database
from mainspring.durable.engine import Worker


class WorkerTable:
    """The table of workers. All methods block; call them in a thread."""

    def __init__(self, database: Database) -> None:
        sa = database.sa
        self._database = database
        id, seen = sa.Column("id", sa.Text, primary_key=True), sa.Column("seen", sa.Float, nullable=False)
        version, agents = sa.Column("version", sa.Text, nullable=False), sa.Column("agents", sa.Text, nullable=False)
        self._workers = sa.Table("mainspring_workers", database.data, id, version, agents, seen)

    def beat(self, worker: Worker) -> None:
        """Record that a worker is alive."""
        values = {"version": worker.version, "agents": json.dumps(worker.agents), "seen": self._database.now()}
        with self._database.begin() as connection:
            put = self._database.insert(self._workers).values(id=worker.name, **values)
            connection.execute(put.on_conflict_do_update(index_elements=["id"], set_=values))

    def leave(self, worker: str) -> None:
        """Record that a worker has left. Its runs can be resumed immediately."""
        table = self._workers
        with self._database.begin() as connection:
            connection.execute(table.update().where(table.c.id == worker).values(seen=0.0))

    def alive(self, seconds: float) -> list[Worker]:
        """Return the workers with a heartbeat in the last ``seconds``, by the clock of the database."""
        table, since = self._workers, self._database.now() - seconds
        query = self._database.sa.select(table.c.id, table.c.version, table.c.agents).where(table.c.seen >= since)
        return [Worker(name, version, tuple(json.loads(known))) for name, version, known in self._database.rows(query)]

    def dead(self, seconds: float, version: str) -> list[str]:
        """Return the workers of a version without a heartbeat that are not removed yet."""
        table, since = self._workers, self._database.now() - seconds
        query = self._database.sa.select(table.c.id).where(table.c.seen < since, table.c.version == version)
        return [name for (name,) in self._database.rows(query)]

    def remove_dead(self, worker: str, seconds: float) -> None:
        """Remove a worker, unless it has returned."""
        table, since = self._workers, self._database.now() - seconds
        with self._database.begin() as connection:
            connection.execute(table.delete().where(table.c.id == worker, table.c.seen < since))
