"""Signs of life of the workers on a database."""

from __future__ import annotations

import json

from mainspring.durable.dbos.database import Database
from mainspring.durable.engine import Worker


class WorkerTable:
    """The table of workers. Everything here blocks; call it in a thread."""

    def __init__(self, database: Database) -> None:
        sa = database.sa
        self._database = database
        id, seen = sa.Column("id", sa.Text, primary_key=True), sa.Column("seen", sa.Float, nullable=False)
        version, agents = sa.Column("version", sa.Text, nullable=False), sa.Column("agents", sa.Text, nullable=False)
        self._workers = sa.Table("mainspring_workers", database.data, id, version, agents, seen)

    def beat(self, worker: Worker) -> None:
        """Say that a worker is alive."""
        values = {"version": worker.version, "agents": json.dumps(worker.agents), "seen": self._database.now()}
        with self._database.begin() as connection:
            put = self._database.insert(self._workers).values(id=worker.name, **values)
            connection.execute(put.on_conflict_do_update(index_elements=["id"], set_=values))

    def leave(self, worker: str) -> None:
        """Say that a worker is gone: its runs can be taken up at once."""
        table = self._workers
        with self._database.begin() as connection:
            connection.execute(table.update().where(table.c.id == worker).values(seen=0.0))

    def alive(self, seconds: float) -> list[Worker]:
        """The workers that gave a sign of life in the last ``seconds``, by the clock of the database."""
        table, since = self._workers, self._database.now() - seconds
        query = self._database.sa.select(table.c.id, table.c.version, table.c.agents).where(table.c.seen >= since)
        return [Worker(name, version, tuple(json.loads(known))) for name, version, known in self._database.rows(query)]

    def dead(self, seconds: float, version: str) -> list[str]:
        """The workers of a version that gave none, and that nobody has buried yet."""
        table, since = self._workers, self._database.now() - seconds
        query = self._database.sa.select(table.c.id).where(table.c.seen < since, table.c.version == version)
        return [name for (name,) in self._database.rows(query)]

    def remove_dead(self, worker: str, seconds: float) -> None:
        """Forget a worker, unless it is back."""
        table, since = self._workers, self._database.now() - seconds
        with self._database.begin() as connection:
            connection.execute(table.delete().where(table.c.id == worker, table.c.seen < since))
