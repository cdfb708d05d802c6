"""What an engine on a database keeps beside the engine's own tables: letters, feeds, what runs publish, workers, logs of sub-agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainspring.durable.attempts import LostRunError
from mainspring.durable.engine import Letter, Worker

if TYPE_CHECKING:
    import sqlalchemy as sa

_TRIES = 20
"""How often two who number something at the same moment try again."""


class Tables:
    """The tables. Everything here blocks; call it in a thread.

    Letters and feeds are numbered from 1 in each run, by a key that two writers cannot both have: who reads a number has seen all
    lower ones, on every database. What an attempt at a run writes is refused once a later attempt has claimed the run.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
    """

    def __init__(self, url: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy import exc

        self._sa = sa
        self._lite = url.startswith("sqlite")
        # A file has one writer at a time; who comes second waits rather than fails.
        options: dict[str, Any] = (
            {"connect_args": {"timeout": 30}} if self._lite else {"pool_size": 4, "max_overflow": 0}
        )
        address = sa.make_url(url) if self._lite else sa.make_url(url).set(drivername="postgresql+psycopg")
        self._engine = sa.create_engine(address, pool_pre_ping=not self._lite, **options)
        self._failures = (exc.OperationalError, exc.ProgrammingError, exc.IntegrityError)
        self._clash = exc.IntegrityError
        self._data = data = sa.MetaData()

        def run_id() -> sa.Column[str]:
            return sa.Column("run_id", sa.Text, primary_key=True)

        def number() -> sa.Column[int]:
            return sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)

        def text(name: str) -> sa.Column[str]:
            return sa.Column(name, sa.Text, nullable=False)

        def blob(name: str) -> sa.Column[bytes]:
            return sa.Column(name, sa.LargeBinary, nullable=False)

        key, once = sa.Column("key", sa.Text), sa.UniqueConstraint("run_id", "key")
        self._letters = sa.Table("mainspring_letters", data, run_id(), number(), text("topic"), blob("body"), key, once)
        self._feed = sa.Table("mainspring_feed", data, run_id(), number(), blob("event"))
        self._steps = sa.Table("mainspring_steps", data, run_id(), number(), text("step"), blob("value"))
        name = sa.Column("name", sa.Text, primary_key=True)
        self._published = sa.Table("mainspring_published", data, run_id(), name, blob("value"))
        self._claims = sa.Table("mainspring_claims", data, run_id(), sa.Column("attempt", sa.Integer, nullable=False))
        id, seen = sa.Column("id", sa.Text, primary_key=True), sa.Column("seen", sa.Float, nullable=False)
        self._workers = sa.Table("mainspring_workers", data, id, text("version"), text("agents"), seen)

    def make(self) -> None:
        """Make what is missing; two that do so at once are no failure."""
        for table in self._data.sorted_tables:
            for left in reversed(range(_TRIES)):
                try:
                    with self._engine.begin() as connection:
                        connection.execute(self._sa.schema.CreateTable(table, if_not_exists=True))
                    break
                except self._failures:  # PostgreSQL looks before it leaps, and another one may leap between
                    if not left:
                        raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # --- attempts ---------------------------------------------------------------------------------------------------

    def claim(self, run_id: str) -> int:
        """Begin an attempt at a run: gives its number, from 1. What earlier attempts write from now on is refused."""
        table = self._claims
        more = {"attempt": table.c.attempt + 1}
        with self._engine.begin() as connection:
            put = self._insert(table).values(run_id=run_id, attempt=1)
            put = put.on_conflict_do_update(index_elements=["run_id"], set_=more).returning(table.c.attempt)
            return int(connection.execute(put).scalar_one())

    def attempts(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The latest attempts at runs."""
        table = self._claims
        query = self._sa.select(table.c.run_id, table.c.attempt).where(table.c.run_id.in_(run_ids))
        return dict(self._rows(query))

    def _hold(self, connection: sa.Connection, run_id: str, attempt: int) -> None:
        """Keep others from claiming the run until this transaction ends.

        Raises:
            LostRunError: If one has.
        """
        table = self._claims
        mine = (table.c.run_id == run_id) & (table.c.attempt == attempt)
        if connection.execute(table.update().where(mine).values(attempt=attempt)).rowcount != 1:
            raise LostRunError(run_id)

    # --- letters ----------------------------------------------------------------------------------------------------

    def send(self, run_id: str, topic: str, body: bytes, key: str) -> int:
        """Keep a letter and give its number; a second one with the same key is dropped: 0."""
        table = self._letters

        def put(connection: sa.Connection) -> int:
            last = self._last(connection, table, run_id)
            row = {"run_id": run_id, "number": last + 1, "topic": topic, "body": body, "key": key or None}
            connection.execute(table.insert().values(row))
            return last + 1

        return self._numbered(put, lambda: bool(key) and self._has(run_id, key))

    def _has(self, run_id: str, key: str) -> bool:
        table = self._letters
        wanted = (table.c.run_id == run_id) & (table.c.key == key)
        return bool(self._rows(self._sa.select(table.c.number).where(wanted)))

    def letters(self, run_id: str, after: int) -> list[Letter]:
        """The letters to a run with a higher number."""
        table = self._letters
        wanted = (table.c.run_id == run_id) & (table.c.number > after)
        query = self._sa.select(table.c.number, table.c.topic, table.c.body).where(wanted).order_by(table.c.number)
        return [Letter(n, topic, bytes(body)) for n, topic, body in self._rows(query)]

    def last_letters(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """The number of the last letter to each of these runs."""
        return self._lasts(self._letters, run_ids)

    # --- feeds ------------------------------------------------------------------------------------------------------

    def append(self, run_id: str, events: Sequence[bytes], attempt: int = 0) -> int:
        """Add events to a run's feed and give the number of the last.

        Raises:
            LostRunError: If ``attempt`` is given and is not the latest.
        """
        table = self._feed

        def put(connection: sa.Connection) -> int:
            if attempt:
                self._hold(connection, run_id, attempt)
            last = self._last(connection, table, run_id)
            rows = [{"run_id": run_id, "number": last + n, "event": event} for n, event in enumerate(events, 1)]
            if rows:
                connection.execute(table.insert(), rows)
            return last + len(rows)

        return self._numbered(put)

    def events(self, run_id: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """The events of a run with a higher number, with their numbers."""
        table = self._feed
        wanted = (table.c.run_id == run_id) & (table.c.number > after)
        query = self._sa.select(table.c.number, table.c.event).where(wanted).order_by(table.c.number).limit(limit)
        return [(n, bytes(event)) for n, event in self._rows(query)]

    def last_events(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """The number of the last event of each of these runs."""
        return self._lasts(self._feed, run_ids)

    # --- what runs publish ------------------------------------------------------------------------------------------

    def publish(self, run_id: str, attempt: int, name: str, value: bytes, of: str) -> None:
        """Put a value in the place of the one before.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``of``.
        """
        with self._engine.begin() as connection:
            self._hold(connection, of, attempt)
            put = self._insert(self._published).values(run_id=run_id, name=name, value=value)
            connection.execute(put.on_conflict_do_update(index_elements=["run_id", "name"], set_={"value": value}))

    def read(self, run_id: str, name: str) -> bytes | None:
        """The value, if there is one."""
        table = self._published
        rows = self._rows(self._sa.select(table.c.value).where((table.c.run_id == run_id) & (table.c.name == name)))
        return bytes(rows[0][0]) if rows else None

    # --- logs of sub-agents -----------------------------------------------------------------------------------------

    def steps(self, run_id: str) -> dict[int, tuple[str, bytes]]:
        """The finished steps of a sub-agent's run: what each did, and what it gave."""
        table = self._steps
        query = self._sa.select(table.c.number, table.c.step, table.c.value).where(table.c.run_id == run_id)
        return {number: (step, bytes(value)) for number, step, value in self._rows(query)}

    def keep_step(self, run_id: str, number: int, step: str, value: bytes, *, root: str, attempt: int) -> None:
        """Keep what a step of a sub-agent gave.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``root``, in whose tree it is.
        """
        with self._engine.begin() as connection:
            self._hold(connection, root, attempt)
            connection.execute(self._steps.insert().values(run_id=run_id, number=number, step=step, value=value))

    # --- workers ----------------------------------------------------------------------------------------------------

    def beat(self, worker: Worker) -> None:
        """Say that a worker is alive."""
        values = {"version": worker.version, "agents": json.dumps(worker.agents), "seen": self._now()}
        with self._engine.begin() as connection:
            put = self._insert(self._workers).values(id=worker.name, **values)
            connection.execute(put.on_conflict_do_update(index_elements=["id"], set_=values))

    def leave(self, worker: str) -> None:
        """Say that a worker is gone: its runs can be taken up at once."""
        table = self._workers
        with self._engine.begin() as connection:
            connection.execute(table.update().where(table.c.id == worker).values(seen=0.0))

    def alive(self, seconds: float) -> list[Worker]:
        """The workers that gave a sign of life in the last ``seconds``, by the clock of the database."""
        table = self._workers
        query = self._sa.select(table.c.id, table.c.version, table.c.agents).where(
            table.c.seen >= self._now() - seconds
        )
        return [Worker(name, version, tuple(json.loads(agents))) for name, version, agents in self._rows(query)]

    def dead(self, seconds: float, version: str) -> list[str]:
        """The workers of a version that gave none, and that nobody has buried yet."""
        table = self._workers
        query = self._sa.select(table.c.id).where(table.c.seen < self._now() - seconds, table.c.version == version)
        return [name for (name,) in self._rows(query)]

    def bury(self, worker: str, seconds: float) -> None:
        """Forget a worker, unless it is back."""
        table = self._workers
        with self._engine.begin() as connection:
            connection.execute(table.delete().where(table.c.id == worker, table.c.seen < self._now() - seconds))

    # --- for all of these -------------------------------------------------------------------------------------------

    def _now(self) -> Any:
        """Seconds since 1970 as the database has them: the clocks of machines differ."""
        func = self._sa.func
        if self._lite:
            return (func.julianday("now") - 2440587.5) * 86400.0
        return self._sa.cast(self._sa.extract("epoch", func.clock_timestamp()), self._sa.Float)

    def _insert(self, table: sa.Table) -> Any:
        if self._lite:
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert
        return insert(table)

    def _numbered(self, put: Callable[[sa.Connection], int], dropped: Callable[[], bool] = lambda: False) -> int:
        """Do something that takes the next number of a run, again where another one took it first."""
        for left in reversed(range(_TRIES)):
            try:
                with self._engine.begin() as connection:
                    return put(connection)
            except self._clash:
                if dropped():
                    return 0
                if not left:
                    raise
        return 0

    def _last(self, connection: sa.Connection, table: sa.Table, run_id: str) -> int:
        query = self._sa.select(self._sa.func.max(table.c.number)).where(table.c.run_id == run_id)
        return connection.execute(query).scalar() or 0

    def _lasts(self, table: sa.Table, run_ids: Sequence[str]) -> Mapping[str, int]:
        query = self._sa.select(table.c.run_id, self._sa.func.max(table.c.number)).group_by(table.c.run_id)
        return dict(self._rows(query.where(table.c.run_id.in_(run_ids))))

    def _rows(self, query: Any) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()
