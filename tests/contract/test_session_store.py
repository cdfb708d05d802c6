"""The common behavior of session stores: files, memory, SQLite, and an asynchronous one; users run the same tests on theirs."""

from pathlib import Path

import pytest

from mainspring.sessions import JsonlStore, MemorySessionStore, SessionStore, SqliteSessionStore
from mainspring.testing.contracts import AsyncSessionStoreContract, SessionStoreContract
from tests.helpers.async_store import SlowStore

pytestmark = pytest.mark.covers("SES-09")


class TestJsonlStore(SessionStoreContract):
    def create_store(self, folder: Path) -> SessionStore:
        return JsonlStore(folder)


class TestMemorySessionStore(SessionStoreContract):
    def create_store(self, folder: Path) -> SessionStore:
        return MemorySessionStore()


class TestSqliteSessionStore(SessionStoreContract):
    def create_store(self, folder: Path) -> SessionStore:
        return SqliteSessionStore(folder / "sessions.db")


class TestSlowStore(AsyncSessionStoreContract):
    async def create_store(self, folder: Path) -> SlowStore:
        return SlowStore()
