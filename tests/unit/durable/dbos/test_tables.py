"""Tables in addition to those of DBOS: outdated attempts cannot write, and numbers have no gaps."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mainspring.durable.attempt import LeaseLostError
from mainspring.durable.dbos.tables import Tables
from mainspring.durable.engine import Worker

pytestmark = pytest.mark.covers("BYD-31")


@pytest.fixture(params=["sqlite", "postgres"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    url = f"sqlite:///{tmp_path}/t.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").database()
    created = Tables(url)
    created.make()
    yield created
    created.close()


def test_writes_of_an_earlier_attempt_are_rejected(tables: Tables) -> None:
    first, second = tables.claim("r").attempt, tables.claim("r").attempt
    assert (first, second, tables.attempts(["r", "x"])) == (1, 2, {"r": 2})
    with pytest.raises(LeaseLostError):
        tables.keep_step("r.child", 1, "model", b"1", root="r", attempt=first)
    with pytest.raises(LeaseLostError):
        tables.publish("r", first, "pending", b"1", "r")
    with pytest.raises(LeaseLostError):
        tables.append("r", [b"1"], first)
    tables.keep_step("r.child", 1, "model", b"2", root="r", attempt=second)
    tables.publish("r", second, "pending", b"2", "r")
    assert tables.append("r", [b"2"], second) == 1
    assert tables.steps("r.child") == {1: ("model", b"2")}
    assert tables.read("r", "pending") == b"2"
    assert tables.events("r", 0, 10) == [(1, b"2")]


def test_messages_are_numbered_per_run_and_keys_are_deduplicated(tables: Tables) -> None:
    with ThreadPoolExecutor(4) as threads:
        numbers = list(threads.map(lambda n: tables.send("r", "steer", b"%d" % n, ""), range(12)))
    assert sorted(numbers) == list(range(1, 13))
    assert tables.send("other", "steer", b"x", "k") == 1
    assert tables.send("other", "steer", b"y", "k") == 0
    assert [message.body for message in tables.messages("other", 0)] == [b"x"]
    assert tables.last_messages(["r", "other", "none"]) == {"r": 12, "other": 1}


def test_workers_are_alive_dead_or_removed(tables: Tables) -> None:
    tables.signs.heartbeat(Worker("a", "1", ("x", "y")))
    tables.signs.heartbeat(Worker("b", "2", ()))
    assert sorted(w.name for w in tables.signs.alive(30)) == ["a", "b"]
    assert tables.signs.dead(30, "1") == []
    tables.signs.mark_stopped("a")
    assert tables.signs.dead(30, "1") == ["a"]
    tables.signs.remove_dead("b", 30)
    tables.signs.remove_dead("a", 30)
    assert [w.name for w in tables.signs.alive(30)] == ["b"]
    assert tables.signs.dead(30, "1") == []
