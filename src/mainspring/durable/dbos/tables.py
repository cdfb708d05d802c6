"""The tables of an engine in addition to those of DBOS, and the deletion of finished runs.

The tables store messages, feeds, published values, logs of subagents, and attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.durable.attempt import LeaseLostError
from mainspring.durable.dbos.database import MAX_ATTEMPTS, Database, WorkerTable
from mainspring.durable.engine import RunMessage

if TYPE_CHECKING:
    import sqlalchemy as sa


_MAX_OUTPUT_CHUNK = 200
"""Number of runs that one transaction deletes: other writers wait no longer than that."""


class FinishedRunFilter(Struct, frozen=True):
    """Selects finished runs: those in these DBOS states that ended at least this many seconds ago."""

    states: Sequence[str]
    seconds: float = 0.0


class RunRetention:
    """Deletes runs, each as a whole. All methods block; call them in a thread.

    Args:
        database: The database.
        name: The DBOS name of the workflow that executes runs. Other workflows in the same database are untouched.
        tables: The tables with data of runs and of their subagents' runs.
        children: The table that maps a subagent's run to its parent.
    """

    def __init__(self, database: Database, name: str, tables: Sequence[sa.Table], children: sa.Table) -> None:
        sa = database.sa
        self._database = database
        self._name = name
        self._tables = tables
        self._children = children
        # DBOS documents these tables for its users. Its API for deletion also deletes unfinished runs, and not in the same
        # transaction as ours.
        schema = None if database.is_sqlite else "dbos"
        columns: list[Any] = [sa.column(c) for c in ("workflow_uuid", "name", "status", "completed_at", "updated_at")]
        self._runs = sa.table("workflow_status", *columns, schema=schema)
        payload = ("workflow_input", "workflow_output", "operation_outputs")
        self._payload = [sa.table(table, sa.column("workflow_uuid", sa.Text), schema=schema) for table in payload]

    def delete(self, run_id: str, old: FinishedRunFilter) -> bool:
        """Delete a run if it is old enough."""
        with self._database.begin() as connection:
            return self._delete(connection, (self._runs.c.workflow_uuid == run_id) & self._condition(old)) > 0

    def delete_some(self, old: FinishedRunFilter) -> int:
        """Delete the oldest of the runs that are old enough. Returns the number of deleted runs, 0 if none is left."""
        uuid = self._runs.c.workflow_uuid
        some = self._database.sa.select(uuid).where(self._condition(old)).order_by(self._runs.c.completed_at)
        # Other processes that delete at the same time take other runs.
        some = some.limit(_MAX_OUTPUT_CHUNK).with_for_update(skip_locked=True)
        with self._database.begin() as connection:
            return self._delete(connection, uuid.in_(some) & self._condition(old))

    def count(self, old: FinishedRunFilter) -> int:
        """Count the runs that are old enough."""
        query = self._database.sa.select(self._database.sa.func.count()).select_from(self._runs)
        return int(self._database.rows(query.where(self._condition(old)))[0][0])

    def _condition(self, old: FinishedRunFilter) -> Any:
        """Build the condition that selects the runs. Part of the DELETE itself, so that a run retried in between stays."""
        runs, func = self._runs.c, self._database.sa.func
        requested = (runs.name == self._name) & runs.status.in_(old.states)
        if old.seconds <= 0:
            return requested
        return requested & (
            func.coalesce(runs.completed_at, runs.updated_at) < (self._database.now() - old.seconds) * 1000
        )

    def _delete(self, connection: sa.Connection, which: Any) -> int:
        """Delete runs and all their data, all or nothing."""
        uuid, children = self._runs.c.workflow_uuid, self._children
        deleted = connection.execute(self._runs.delete().where(which).returning(uuid)).scalars().all()
        if not deleted:
            return 0
        theirs = self._database.sa.select(children.c.run_id).where(children.c.root.in_(deleted))
        for table in self._tables:
            connection.execute(table.delete().where(table.c.run_id.in_(deleted) | table.c.run_id.in_(theirs)))
        connection.execute(children.delete().where(children.c.root.in_(deleted)))
        for table in self._payload:
            connection.execute(table.delete().where(table.c.workflow_uuid.in_(deleted)))
        return len(deleted)


RUN_WORKFLOW = "mainspring.run"
"""The DBOS name of the workflow that executes runs."""


class Claim(Struct, frozen=True):
    """An attempt at a run: its number, and how many workers crashed while they had the run."""

    attempt: int
    crashes: int


class Tables:
    """The tables. All methods block; call them in a thread.

    Messages and feed events are numbered from 1 in each run by a unique key: a reader that sees a number has seen all lower ones,
    on every database. Writes of an attempt are refused once a later attempt has claimed the run.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.

    Attributes:
        signs: Heartbeats of workers.
        old: Finished runs.
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
        self._messages = sa.Table(
            "mainspring_letters", data, run_id(), number(), text("topic"), blob("body"), key, once
        )
        self._feed = sa.Table("mainspring_feed", data, run_id(), number(), blob("event"))
        self._steps = sa.Table("mainspring_steps", data, run_id(), number(), text("step"), blob("value"))
        name = sa.Column("name", sa.Text, primary_key=True)
        self._published = sa.Table("mainspring_published", data, run_id(), name, blob("value"))
        begun = sa.Column("attempt", sa.Integer, nullable=False)
        # Attempts that were not released: the current one, and those of crashed workers.
        lease = sa.Column("held", sa.Integer, nullable=False, server_default=sa.text("0"))
        self._claims = sa.Table("mainspring_claims", data, run_id(), begun, lease)
        root = sa.Column("root", sa.Text, primary_key=True)
        self._children = sa.Table("mainspring_children", data, root, run_id())
        self.signs = WorkerTable(database)
        tables = (self._messages, self._feed, self._steps, self._published, self._claims)
        self.old = RunRetention(database, RUN_WORKFLOW, tables, self._children)

    def make(self) -> None:
        """Create missing tables."""
        self._database.make()

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # --- attempts ---------------------------------------------------------------------------------------------------

    def claim(self, run_id: str) -> Claim:
        """Start an attempt at a run, numbered from 1. Later writes of earlier attempts are refused."""
        table = self._claims
        more = {"attempt": table.c.attempt + 1, "held": table.c.held + 1}
        with self._database.begin() as connection:
            put = self._database.insert(table).values(run_id=run_id, attempt=1, held=1)
            put = put.on_conflict_do_update(index_elements=["run_id"], set_=more)
            row = connection.execute(put.returning(table.c.attempt, table.c.held)).one()
        return Claim(row.attempt, row.held - 1)

    def release(self, run_id: str) -> None:
        """End an attempt whose worker is alive, so that it does not count as a crash."""
        table = self._claims
        mine = (table.c.run_id == run_id) & (table.c.held > 0)
        with self._database.begin() as connection:
            connection.execute(table.update().where(mine).values(held=table.c.held - 1))

    def reset_crash_count(self, run_id: str) -> None:
        """Forget how many workers crashed while they had a run."""
        table = self._claims
        with self._database.begin() as connection:
            connection.execute(table.update().where(table.c.run_id == run_id).values(held=0))

    def attempts(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return the latest attempts at runs."""
        table = self._claims
        query = self._database.sa.select(table.c.run_id, table.c.attempt).where(table.c.run_id.in_(run_ids))
        return dict(self._database.rows(query))

    def _lock_lease(self, connection: sa.Connection, run_id: str, attempt: int) -> None:
        """Prevent other attempts from claiming the run until this transaction ends.

        Raises:
            LostRunError: If another attempt has claimed it.
        """
        table = self._claims
        mine = (table.c.run_id == run_id) & (table.c.attempt == attempt)
        if connection.execute(table.update().where(mine).values(attempt=attempt)).rowcount != 1:
            raise LeaseLostError(run_id)

    # --- messages ---------------------------------------------------------------------------------------------------

    def send(self, run_id: str, topic: str, body: bytes, key: str) -> int:
        """Store a message and return its number. A second message with the same key is dropped and returns 0."""
        table = self._messages

        def insert(connection: sa.Connection) -> int:
            last = self._last(connection, table, run_id)
            row = {"run_id": run_id, "number": last + 1, "topic": topic, "body": body, "key": key or None}
            connection.execute(table.insert().values(row))
            return last + 1

        return self._numbered(insert, lambda: bool(key) and self._has(run_id, key))

    def _has(self, run_id: str, key: str) -> bool:
        table = self._messages
        requested = (table.c.run_id == run_id) & (table.c.key == key)
        return bool(self._database.rows(self._database.sa.select(table.c.number).where(requested)))

    def messages(self, run_id: str, after: int) -> list[RunMessage]:
        """Return the messages to a run with a higher number."""
        table = self._messages
        requested = (table.c.run_id == run_id) & (table.c.number > after)
        query = (
            self._database.sa.select(table.c.number, table.c.topic, table.c.body)
            .where(requested)
            .order_by(table.c.number)
        )
        return [RunMessage(n, topic, bytes(body)) for n, topic, body in self._database.rows(query)]

    def delete_messages(self, run_id: str) -> None:
        """Delete the messages to a run."""
        with self._database.begin() as connection:
            connection.execute(self._messages.delete().where(self._messages.c.run_id == run_id))

    def last_messages(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the number of the last message to each of these runs."""
        return self._last_numbers(self._messages, run_ids)

    # --- feeds ------------------------------------------------------------------------------------------------------

    def append(self, run_id: str, events: Sequence[bytes], attempt: int = 0) -> int:
        """Add events to a run's feed and return the number of the last one.

        Raises:
            LostRunError: If ``attempt`` is given and is not the latest.
        """
        table = self._feed

        def insert(connection: sa.Connection) -> int:
            if attempt:
                self._lock_lease(connection, run_id, attempt)
            last = self._last(connection, table, run_id)
            rows = [{"run_id": run_id, "number": last + n, "event": event} for n, event in enumerate(events, 1)]
            if rows:
                connection.execute(table.insert(), rows)
            return last + len(rows)

        return self._numbered(insert)

    def events(self, run_id: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the events of a run with a higher number, with their numbers."""
        table = self._feed
        requested = (table.c.run_id == run_id) & (table.c.number > after)
        query = (
            self._database.sa.select(table.c.number, table.c.event)
            .where(requested)
            .order_by(table.c.number)
            .limit(limit)
        )
        return [(n, bytes(event)) for n, event in self._database.rows(query)]

    def last_events(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the number of the last event of each of these runs."""
        return self._last_numbers(self._feed, run_ids)

    # --- published values -------------------------------------------------------------------------------------------

    def publish(self, run_id: str, attempt: int, name: str, value: bytes, of: str) -> None:
        """Replace a published value.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``of``.
        """
        with self._database.begin() as connection:
            self._lock_lease(connection, of, attempt)
            put = self._database.insert(self._published).values(run_id=run_id, name=name, value=value)
            connection.execute(put.on_conflict_do_update(index_elements=["run_id", "name"], set_={"value": value}))

    def read(self, run_id: str, name: str) -> bytes | None:
        """Return the value, if any."""
        table = self._published
        rows = self._database.rows(
            self._database.sa.select(table.c.value).where((table.c.run_id == run_id) & (table.c.name == name))
        )
        return bytes(rows[0][0]) if rows else None

    # --- logs of subagents ------------------------------------------------------------------------------------------

    def steps(self, run_id: str) -> dict[int, tuple[str, bytes]]:
        """Return the finished steps of a subagent's run: the action and the result of each."""
        table = self._steps
        query = self._database.sa.select(table.c.number, table.c.step, table.c.value).where(table.c.run_id == run_id)
        return {number: (step, bytes(value)) for number, step, value in self._database.rows(query)}

    def keep_step(self, run_id: str, number: int, step: str, value: bytes, *, root: str, attempt: int) -> None:
        """Store the result of a subagent's step.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``root``, in whose tree it is.
        """
        with self._database.begin() as connection:
            self._lock_lease(connection, root, attempt)
            connection.execute(self._steps.insert().values(run_id=run_id, number=number, step=step, value=value))

    def link_subagent_run(self, run_id: str, *, root: str, attempt: int) -> None:
        """Record the parent of a subagent's run, so that both are deleted together.

        Raises:
            LostRunError: If ``attempt`` is not the latest at the run ``root``, in whose tree it is.
        """
        with self._database.begin() as connection:
            self._lock_lease(connection, root, attempt)
            put = self._database.insert(self._children).values(root=root, run_id=run_id)
            connection.execute(put.on_conflict_do_nothing())

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _numbered(self, put: Callable[[sa.Connection], int], dropped: Callable[[], bool] = lambda: False) -> int:
        """Write with the next number of a run. Retries if another writer took the number first."""
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            try:
                with self._database.begin() as connection:
                    return put(connection)
            except self._database.DuplicateKeyError:
                if dropped():
                    return 0
                if not attempts_left:
                    raise
        return 0

    def _last(self, connection: sa.Connection, table: sa.Table, run_id: str) -> int:
        query = self._database.sa.select(self._database.sa.func.max(table.c.number)).where(table.c.run_id == run_id)
        return connection.execute(query).scalar() or 0

    def _last_numbers(self, table: sa.Table, run_ids: Sequence[str]) -> Mapping[str, int]:
        query = self._database.sa.select(table.c.run_id, self._database.sa.func.max(table.c.number)).group_by(
            table.c.run_id
        )
        return dict(self._database.rows(query.where(table.c.run_id.in_(run_ids))))
