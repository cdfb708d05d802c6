"""The database for the tables in addition to those of DBOS: SQLite or PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from mainspring.durable.engine import Worker

if TYPE_CHECKING:
    import sqlalchemy as sa


MAX_ATTEMPTS = 20
"""Maximum number of attempts when two writers create or number something at the same time."""


class Database:
    """A database. All methods block; call them in a thread.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.

    Attributes:
        sa: The SQLAlchemy module, which is imported when the first database is opened.
        is_sqlite: Whether the database is SQLite.
        data: The tables that `make` creates.
        clash: The exception that is raised for a duplicate key.
    """

    def __init__(self, url: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy import exc

        self.sa = sa
        self.is_sqlite = url.startswith("sqlite")
        # A file has one writer at a time; the second writer waits instead of failing.
        options: dict[str, Any] = (
            {"connect_args": {"timeout": 30}} if self.is_sqlite else {"pool_size": 4, "max_overflow": 0}
        )
        address = sa.make_url(url) if self.is_sqlite else sa.make_url(url).set(drivername="postgresql+psycopg")
        self._engine = sa.create_engine(address, pool_pre_ping=not self.is_sqlite, **options)
        self._absent = (exc.OperationalError, exc.ProgrammingError)
        self.DuplicateKeyError = exc.IntegrityError
        self.data = sa.MetaData()

    def make(self) -> None:
        """Create missing tables. Concurrent creation is not an error."""
        for table in self.data.sorted_tables:
            for attempts_left in reversed(range(MAX_ATTEMPTS)):
                try:
                    with self.begin() as connection:
                        connection.execute(self.sa.schema.CreateTable(table, if_not_exists=True))
                    self._add_missing_columns(table)
                    break
                except (
                    *self._absent,
                    self.DuplicateKeyError,
                ):  # PostgreSQL checks before it creates, and another process can create the table in between.
                    if not attempts_left:
                        raise

    def _add_missing_columns(self, table: sa.Table) -> None:
        """Add columns that a table of an earlier version does not have. Each has a default."""
        for column in table.columns:
            if column.server_default is None:
                continue
            try:
                self.rows(self.sa.select(column).limit(0))
            except self._absent:
                what = str(self.sa.schema.CreateColumn(column).compile(self._engine))
                with self.begin() as connection:
                    connection.execute(self.sa.text(f"ALTER TABLE {table.name} ADD COLUMN {what}"))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """Start a transaction."""
        return self._engine.begin()

    def rows(self, query: Any) -> Sequence[Any]:
        """Return the matching rows."""
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    def insert(self, table: sa.Table) -> Any:
        """Return an INSERT that can define what happens on a duplicate key."""
        if self.is_sqlite:
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert
        return insert(table)

    def now(self) -> Any:
        """Return the database's time in seconds since 1970. The clocks of machines differ."""
        func = self.sa.func
        if self.is_sqlite:
            return (func.julianday("now") - 2440587.5) * 86400.0
        return self.sa.cast(self.sa.extract("epoch", func.clock_timestamp()), self.sa.Float)


class WorkerTable:
    """The table of workers. All methods block; call them in a thread."""

    def __init__(self, database: Database) -> None:
        sa = database.sa
        self._database = database
        id, seen = sa.Column("id", sa.Text, primary_key=True), sa.Column("seen", sa.Float, nullable=False)
        version, agents = sa.Column("version", sa.Text, nullable=False), sa.Column("agents", sa.Text, nullable=False)
        self._workers = sa.Table("mainspring_workers", database.data, id, version, agents, seen)

    def heartbeat(self, worker: Worker) -> None:
        """Record that a worker is alive."""
        values = {"version": worker.version, "agents": json.dumps(worker.agents), "seen": self._database.now()}
        with self._database.begin() as connection:
            put = self._database.insert(self._workers).values(id=worker.name, **values)
            connection.execute(put.on_conflict_do_update(index_elements=["id"], set_=values))

    def mark_stopped(self, worker: str) -> None:
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
