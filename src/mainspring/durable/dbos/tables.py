"""Runs that are over, and how they are deleted from a database with all that is kept of them.

What an engine on a database keeps beside DBOS's own tables: letters, feeds, what runs publish, logs of sub-agents, attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.durable.attempt import LeaseLostError
from mainspring.durable.dbos.database import MAX_ATTEMPTS, Database
from mainspring.durable.dbos.heartbeat import WorkerTable
from mainspring.durable.engine import RunMessage

if TYPE_CHECKING:
    import sqlalchemy as sa


_AT_ONCE = 200
"""How many runs are deleted in one transaction: others wait no longer than for these."""


class FinishedRunFilter(Struct, frozen=True):
    """Runs that are over: of these states of DBOS's, and since so many seconds at least."""

    states: Sequence[str]
    seconds: float = 0.0


class RunRetention:
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

    def delete(self, run_id: str, old: FinishedRunFilter) -> bool:
        """Delete a run if it is old enough."""
        with self._database.begin() as connection:
            return self._delete(connection, (self._runs.c.workflow_uuid == run_id) & self._condition(old)) > 0

    def delete_some(self, old: FinishedRunFilter) -> int:
        """Delete some of the runs that are old enough, the oldest first; says how many, 0 once there are none."""
        uuid = self._runs.c.workflow_uuid
        some = self._database.sa.select(uuid).where(self._condition(old)).order_by(self._runs.c.completed_at)
        # Others that delete at the same moment take other ones.
        some = some.limit(_AT_ONCE).with_for_update(skip_locked=True)
        with self._database.begin() as connection:
            return self._delete(connection, uuid.in_(some) & self._condition(old))

    def count(self, old: FinishedRunFilter) -> int:
        """How many runs are old enough."""
        query = self._database.sa.select(self._database.sa.func.count()).select_from(self._runs)
        return int(self._database.rows(query.where(self._condition(old)))[0][0])

    def _condition(self, old: FinishedRunFilter) -> Any:
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


RUN = "mainspring.run"
"""What DBOS calls the workflow that is a run."""


class Claim(Struct, frozen=True):
    """An attempt at a run: its number, and how many workers died while they had the run."""

    attempt: int
    deaths: int


class Tables:
    """The tables. Everything here blocks; call it in a thread.

    Letters and feeds are numbered from 1 in each run, by a key that two writers cannot both have: who reads a number has seen all
    lower ones, on every database. What an attempt at a run writes is refused once a later attempt has claimed the run.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.

    Attributes:
        signs: Signs of life of workers.
        old: Runs that are over.
    """

    def __init__(self, url: str) -> None:
        self._database = database = Database(url)
        sa, data = database.sa, database.data

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
        begun = sa.Column("attempt", sa.Integer, nullable=False)
        # Attempts that nobody has let go of: the one under way, and those whose workers died.
        held = sa.Column("held", sa.Integer, nullable=False, server_default=sa.text("0"))
        self._claims = sa.Table("mainspring_claims", data, run_id(), begun, held)
        root = sa.Column("root", sa.Text, primary_key=True)
        self._children = sa.Table("mainspring_children", data, root, run_id())
        self.signs = WorkerTable(database)
        kept = (self._letters, self._feed, self._steps, self._published, self._claims)
        self.old = RunRetention(database, RUN, kept, self._children)

    def make(self) -> None:
        """Make what is missing."""
        self._database.make()

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # --- attempts ---------------------------------------------------------------------------------------------------

    def claim(self, run_id: str) -> Claim:
        """Begin an attempt at a run, numbered from 1. What earlier attempts write from now on is refused."""
        table = self._claims
        more = {"attempt": table.c.attempt + 1, "held": table.c.held + 1}
        with self._database.begin() as connection:
            put = self._database.insert(table).values(run_id=run_id, attempt=1, held=1)
            put = put.on_conflict_do_update(index_elements=["run_id"], set_=more)
            row = connection.execute(put.returning(table.c.attempt, table.c.held)).one()
        return Claim(row.attempt, row.held - 1)

    def let_go(self, run_id: str) -> None:
        """End an attempt at a run whose worker lives: it is not one that died of it."""
        table = self._claims
        mine = (table.c.run_id == run_id) & (table.c.held > 0)
        with self._database.begin() as connection:
            connection.execute(table.update().where(mine).values(held=table.c.held - 1))

    def reset_crash_count(self, run_id: str) -> None:
        """Forget how many workers died while they had a run."""
        table = self._claims
        with self._database.begin() as connection:
            connection.execute(table.update().where(table.c.run_id == run_id).values(held=0))

    def attempts(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The latest attempts at runs."""
        table = self._claims
        query = self._database.sa.select(table.c.run_id, table.c.attempt).where(table.c.run_id.in_(run_ids))
        return dict(self._database.rows(query))

    def _lock_lease(self, connection: sa.Connection, run_id: str, attempt: int) -> None:
        """Keep others from claiming the run until this transaction ends.

        Raises:
            LostRunError: If one has.
        """
        table = self._claims
        mine = (table.c.run_id == run_id) & (table.c.attempt == attempt)
        if connection.execute(table.update().where(mine).values(attempt=attempt)).rowcount != 1:
            raise LeaseLostError(run_id)

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
        return bool(self._database.rows(self._database.sa.select(table.c.number).where(wanted)))

    def letters(self, run_id: str, after: int) -> list[RunMessage]:
        """The letters to a run with a higher number."""
        table = self._letters
        wanted = (table.c.run_id == run_id) & (table.c.number > after)
        query = (
            self._database.sa.select(table.c.number, table.c.topic, table.c.body).where(wanted).order_by(table.c.number)
        )
        return [RunMessage(n, topic, bytes(body)) for n, topic, body in self._database.rows(query)]

    def drop_letters(self, run_id: str) -> None:
        """Delete the letters to a run."""
        with self._database.begin() as connection:
            connection.execute(self._letters.delete().where(self._letters.c.run_id == run_id))

    def last_letters(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """The number of the last letter to each of these runs."""
        return self._keep_alive(self._letters, run_ids)

    # --- feeds ------------------------------------------------------------------------------------------------------

    def append(self, run_id: str, events: Sequence[bytes], attempt: int = 0) -> int:
        """Add events to a run's feed and give the number of the last.

        Raises:
            LostRunError: If ``attempt`` is given and is not the latest.
        """
        table = self._feed

        def put(connection: sa.Connection) -> int:
            if attempt:
                self._lock_lease(connection, run_id, attempt)
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
        query = (
            self._database.sa.select(table.c.number, table.c.event).where(wanted).order_by(table.c.number).limit(limit)
        )
        return [(n, bytes(event)) for n, event in self._database.rows(query)]

    def last_events(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """The number of the last event of each of these runs."""
        return self._keep_alive(self._feed, run_ids)

    # --- what runs publish ------------------------------------------------------------------------------------------

    def publish(self, run_id: str, attempt: int, name: str, value: bytes, of: str) -> None:
        """Put a value in the place of the one before.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``of``.
        """
        with self._database.begin() as connection:
            self._lock_lease(connection, of, attempt)
            put = self._database.insert(self._published).values(run_id=run_id, name=name, value=value)
            connection.execute(put.on_conflict_do_update(index_elements=["run_id", "name"], set_={"value": value}))

    def read(self, run_id: str, name: str) -> bytes | None:
        """The value, if there is one."""
        table = self._published
        rows = self._database.rows(
            self._database.sa.select(table.c.value).where((table.c.run_id == run_id) & (table.c.name == name))
        )
        return bytes(rows[0][0]) if rows else None

    # --- logs of sub-agents -----------------------------------------------------------------------------------------

    def steps(self, run_id: str) -> dict[int, tuple[str, bytes]]:
        """The finished steps of a sub-agent's run: what each did, and what it gave."""
        table = self._steps
        query = self._database.sa.select(table.c.number, table.c.step, table.c.value).where(table.c.run_id == run_id)
        return {number: (step, bytes(value)) for number, step, value in self._database.rows(query)}

    def keep_step(self, run_id: str, number: int, step: str, value: bytes, *, root: str, attempt: int) -> None:
        """Keep what a step of a sub-agent gave.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``root``, in whose tree it is.
        """
        with self._database.begin() as connection:
            self._lock_lease(connection, root, attempt)
            connection.execute(self._steps.insert().values(run_id=run_id, number=number, step=step, value=value))

    def link_subagent_run(self, run_id: str, *, root: str, attempt: int) -> None:
        """Note whose sub-agent's run it is, so that it goes when that one does.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``root``, in whose tree it is.
        """
        with self._database.begin() as connection:
            self._lock_lease(connection, root, attempt)
            put = self._database.insert(self._children).values(root=root, run_id=run_id)
            connection.execute(put.on_conflict_do_nothing())

    # --- for all of these -------------------------------------------------------------------------------------------

    def _numbered(self, put: Callable[[sa.Connection], int], dropped: Callable[[], bool] = lambda: False) -> int:
        """Do something that takes the next number of a run, again where another one took it first."""
        for left in reversed(range(MAX_ATTEMPTS)):
            try:
                with self._database.begin() as connection:
                    return put(connection)
            except self._database.DuplicateKeyError:
                if dropped():
                    return 0
                if not left:
                    raise
        return 0

    def _last(self, connection: sa.Connection, table: sa.Table, run_id: str) -> int:
        query = self._database.sa.select(self._database.sa.func.max(table.c.number)).where(table.c.run_id == run_id)
        return connection.execute(query).scalar() or 0

    def _keep_alive(self, table: sa.Table, run_ids: Sequence[str]) -> Mapping[str, int]:
        query = self._database.sa.select(table.c.run_id, self._database.sa.func.max(table.c.number)).group_by(
            table.c.run_id
        )
        return dict(self._database.rows(query.where(table.c.run_id.in_(run_ids))))
