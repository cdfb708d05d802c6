"""What an engine on a database keeps beside the engine's own tables: letters, what runs publish, workers, logs of sub-agents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainspring.durable.engine import Letter

if TYPE_CHECKING:
    import sqlalchemy


class Tables:
    """The tables, made when they are first needed. Everything here blocks; call it in a thread.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
    """

    def __init__(self, url: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy import exc

        lite = url.startswith("sqlite")
        # A file has one writer at a time; who comes second waits rather than fails.
        options: dict[str, Any] = {"connect_args": {"timeout": 30}} if lite else {"pool_size": 4, "max_overflow": 4}
        address = sa.make_url(url)
        self._engine = sa.create_engine(
            address if lite else address.set(drivername="postgresql+psycopg"), pool_pre_ping=not lite, **options
        )
        data = sa.MetaData()
        number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
        self._letters = sa.Table(
            "mainspring_letters",
            data,
            sa.Column("number", number, primary_key=True, autoincrement=True),
            sa.Column("run_id", sa.Text, nullable=False, index=True),
            sa.Column("topic", sa.Text, nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
            sa.Column("key", sa.Text),
            sa.UniqueConstraint("run_id", "key"),
        )
        self._published = sa.Table(
            "mainspring_published",
            data,
            sa.Column("run_id", sa.Text, primary_key=True),
            sa.Column("name", sa.Text, primary_key=True),
            sa.Column("value", sa.LargeBinary, nullable=False),
        )
        self._workers = sa.Table(
            "mainspring_workers",
            data,
            sa.Column("id", sa.Text, primary_key=True),
            sa.Column("version", sa.Text, nullable=False),
            sa.Column("seen", sa.Float, nullable=False),
        )
        self._steps = sa.Table(
            "mainspring_steps",
            data,
            sa.Column("run_id", sa.Text, primary_key=True),
            sa.Column("number", sa.Integer, primary_key=True),
            sa.Column("value", sa.LargeBinary, nullable=False),
        )
        self._sa = sa
        self._failures = (exc.OperationalError, exc.ProgrammingError, exc.IntegrityError)
        self._data = data

    def make(self) -> None:
        """Make what is missing; two that do so at once are no failure."""
        try:
            self._data.create_all(self._engine)
        except self._failures:
            self._data.create_all(self._engine)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # --- letters ----------------------------------------------------------------------------------------------------

    def send(self, run_id: str, topic: str, body: bytes, key: str) -> None:
        """Keep a letter; a second one with the same key is dropped."""
        row = {"run_id": run_id, "topic": topic, "body": body, "key": key or None}
        try:
            with self._engine.begin() as connection:
                connection.execute(self._letters.insert().values(row))
        except self._failures:
            if not key or not self._has(run_id, key):
                raise

    def _has(self, run_id: str, key: str) -> bool:
        table = self._letters
        return bool(
            self._rows(self._sa.select(table.c.number).where((table.c.run_id == run_id) & (table.c.key == key)))
        )

    def letters(self, run_id: str, after: int) -> list[Letter]:
        """The letters to a run with a higher number."""
        table = self._letters
        wanted = (table.c.run_id == run_id) & (table.c.number > after)
        query = self._sa.select(table.c.number, table.c.topic, table.c.body).where(wanted).order_by(table.c.number)
        return [Letter(n, topic, bytes(body)) for n, topic, body in self._rows(query)]

    def receivers(self, after: int) -> tuple[int, set[str]]:
        """The highest number of all letters, and the runs that got one with a number above ``after``."""
        table = self._letters
        rows = self._rows(self._sa.select(table.c.number, table.c.run_id).where(table.c.number > after))
        return max((n for n, _ in rows), default=after), {run for _, run in rows}

    # --- what runs publish ------------------------------------------------------------------------------------------

    def publish(self, run_id: str, name: str, value: bytes) -> None:
        """Put a value in the place of the one before."""
        self._put(self._published, {"run_id": run_id, "name": name}, {"value": value})

    def read(self, run_id: str, name: str) -> bytes | None:
        """The value, if there is one."""
        table = self._published
        rows = self._rows(self._sa.select(table.c.value).where((table.c.run_id == run_id) & (table.c.name == name)))
        return bytes(rows[0][0]) if rows else None

    # --- logs of sub-agents -----------------------------------------------------------------------------------------

    def steps(self, run_id: str) -> dict[int, bytes]:
        """The finished steps of a sub-agent's run."""
        table = self._steps
        rows = self._rows(self._sa.select(table.c.number, table.c.value).where(table.c.run_id == run_id))
        return {number: bytes(value) for number, value in rows}

    def keep_step(self, run_id: str, number: int, value: bytes) -> None:
        """Keep what a step gave."""
        self._put(self._steps, {"run_id": run_id, "number": number}, {"value": value})

    # --- workers ----------------------------------------------------------------------------------------------------

    def beat(self, worker: str, version: str) -> None:
        """Say that a worker is alive."""
        self._put(self._workers, {"id": worker}, {"version": version, "seen": time.time()})

    def leave(self, worker: str) -> None:
        """Say that a worker is gone."""
        table = self._workers
        with self._engine.begin() as connection:
            connection.execute(table.delete().where(table.c.id == worker))

    def workers(self, seen_since: float) -> list[tuple[str, str]]:
        """The workers that were alive at that time or later: names and versions."""
        table = self._workers
        rows = self._rows(self._sa.select(table.c.id, table.c.version).where(table.c.seen >= seen_since))
        return [(name, version) for name, version in rows]

    def _put(self, table: sqlalchemy.Table, key: dict[str, Any], values: dict[str, Any]) -> None:
        """Insert or replace a row."""
        if self._engine.dialect.name == "sqlite":
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert
        statement = insert(table).values({**key, **values}).on_conflict_do_update(index_elements=list(key), set_=values)
        with self._engine.begin() as connection:
            connection.execute(statement)

    def _rows(self, query: Any) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()
