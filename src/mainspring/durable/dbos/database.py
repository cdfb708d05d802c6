"""The database for the tables in addition to those of DBOS: SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

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
        lite: Whether the database is SQLite.
        data: The tables that `make` creates.
        clash: The exception that is raised for a duplicate key.
    """

    def __init__(self, url: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy import exc

        self.sa = sa
        self.lite = url.startswith("sqlite")
        # A file has one writer at a time; the second writer waits instead of failing.
        options: dict[str, Any] = (
            {"connect_args": {"timeout": 30}} if self.lite else {"pool_size": 4, "max_overflow": 0}
        )
        address = sa.make_url(url) if self.lite else sa.make_url(url).set(drivername="postgresql+psycopg")
        self._engine = sa.create_engine(address, pool_pre_ping=not self.lite, **options)
        self._absent = (exc.OperationalError, exc.ProgrammingError)
        self.DuplicateKeyError = exc.IntegrityError
        self.data = sa.MetaData()

    def make(self) -> None:
        """Create missing tables. Concurrent creation is not an error."""
        for table in self.data.sorted_tables:
            for left in reversed(range(MAX_ATTEMPTS)):
                try:
                    with self.begin() as connection:
                        connection.execute(self.sa.schema.CreateTable(table, if_not_exists=True))
                    self._add_missing_columns(table)
                    break
                except (
                    *self._absent,
                    self.DuplicateKeyError,
                ):  # PostgreSQL checks before it creates, and another process can create the table in between.
                    if not left:
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
        if self.lite:
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert
        return insert(table)

    def now(self) -> Any:
        """Return the database's time in seconds since 1970. The clocks of machines differ."""
        func = self.sa.func
        if self.lite:
            return (func.julianday("now") - 2440587.5) * 86400.0
        return self.sa.cast(self.sa.extract("epoch", func.clock_timestamp()), self.sa.Float)
