"""Sessions of an asynchronous store: failures, slow calls, and blocking calls; the contract tests have the rest."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring import Agent, tool
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, SessionError
from mainspring.loop import Approve
from mainspring.messages import encode_messages
from mainspring.permissions import Permissions
from mainspring.sessions import AsyncSessions, CustomEntry, Session, SessionOptions
from mainspring.testing import ScriptedCall, ScriptedModel
from tests.helpers.async_store import SlowStore

OPTIONS = SessionOptions(retry_after=0.0)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"found {key}"


def agent(*script: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(*script), tools=[look], execution=MemoryEnv(), **options)


async def test_failed_append_is_reported_and_repeated_and_nothing_is_lost() -> None:
    store = SlowStore()
    session = await AsyncSessions(store, options=OPTIONS).create(id="s1")
    conversation = agent("One.", "Two.").conversation(session=session)

    class DatabaseError(Exception):
        pass

    store.error = DatabaseError("connection lost")
    assert (await conversation.run("1?")).text == "One."
    assert store.lines == {}
    assert [p.kind for p in session.problems] == ["unsaved"]
    assert "SlowStore:s1 (DatabaseError: connection lost)" in str(session.problems[0])
    store.error = None
    await conversation.run("2?")
    assert [p.kind for p in session.problems] == ["unsaved", "saved"]
    await session.aclose()
    async with await AsyncSessions(store).open("s1") as again:
        assert [m.text for m in again.messages] == ["1?", "One.", "2?", "Two."]


async def test_close_stores_the_rest_right_after_a_failure() -> None:
    store = SlowStore()
    session = await AsyncSessions(store, options=SessionOptions(retry_after=3600)).create(id="s1")
    store.error = OSError("disk full")
    await agent("One.").conversation(session=session).run("1?")
    store.error = None
    await session.aclose()
    async with await AsyncSessions(store).open("s1") as again:
        assert len(again.messages) == 2


async def test_close_reports_what_could_not_be_stored_and_releases_the_session() -> None:
    store = SlowStore()
    session = await AsyncSessions(store).create(id="s1")
    store.error = OSError("disk full")
    await agent("One.").conversation(session=session).run("1?")
    await session.aclose()
    assert "could not be saved" in str(session.problems[-1])
    assert store.writers == set()


async def test_call_is_stored_before_its_tool_runs() -> None:
    store = SlowStore()
    session = await AsyncSessions(store).create(id="s1")
    seen: list[bytes] = []

    @tool
    async def act() -> str:
        """Act."""
        seen.extend(store.lines["s1"])
        return "done"

    model = ScriptedModel(ScriptedCall("act", {}), "Done.")
    await Agent(model, tools=[act], execution=MemoryEnv()).conversation(session=session).run("Go")
    assert any(b'"call_started"' in line for line in seen)
    await session.aclose()


async def test_reader_and_fork_during_a_write_miss_nothing_and_see_nothing_twice() -> None:
    store = SlowStore()
    session = await AsyncSessions(store).create(id="s1")
    conversation = agent("One.", "Two.").conversation(session=session)
    await conversation.run("1?")
    store.gate = asyncio.Event()
    session.add_custom("note", 1)
    saving = asyncio.create_task(session.asave())
    for _ in range(100):
        await asyncio.sleep(0)
        assert sum(isinstance(entry, CustomEntry) for entry in session.entries()) == 1
    assert len(session.fork().messages) == 2
    store.gate.set()
    while not saving.done():
        await asyncio.sleep(0)
        assert sum(isinstance(entry, CustomEntry) for entry in session.entries()) == 1
    await session.aclose()


async def test_cancelled_caller_does_not_cancel_the_write() -> None:
    store = SlowStore()
    session = await AsyncSessions(store).create(id="s1")
    store.gate = asyncio.Event()
    saving = asyncio.create_task(session.asave())
    await asyncio.sleep(0)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    store.gate.set()
    await session.aclose()
    assert len(store.lines["s1"]) == 1


async def test_many_conversations_wait_for_the_store_together() -> None:
    store = SlowStore()
    sessions = AsyncSessions(store)
    opened = [await sessions.create(id=f"s{i}") for i in range(50)]
    store.gate = asyncio.Event()
    saves = [asyncio.create_task(session.asave()) for session in opened]
    for _ in range(100):
        await asyncio.sleep(0)
    store.gate.set()  # all appends wait here now, none for a thread
    await asyncio.gather(*saves)
    assert len(store.lines) == 50
    await asyncio.gather(*[session.aclose() for session in opened])


async def test_paused_run_is_resumed_in_another_session_object() -> None:
    store = SlowStore()
    sessions = AsyncSessions(store)
    async with await sessions.create(id="s1") as session:
        pausing = agent(ScriptedCall("look", {"key": "x"}), permissions=Permissions(ask=["look"], unattended="pause"))
        result = await pausing.conversation(session=session).run("Look")
        assert result.status == "paused"
    async with await sessions.open("s1") as session:
        resuming = agent("Seen.", permissions=Permissions(ask=["look"], unattended="pause")).conversation(
            session=session
        )
        pending = resuming.pending
        assert pending is not None
        resuming.answer({call: Approve() for call in pending.reasons})
        assert (await resuming.run()).text == "Seen."


async def test_blocking_calls_are_rejected_and_change_nothing() -> None:
    store = SlowStore()
    session = await AsyncSessions(store).create(id="s1")
    await agent("One.").conversation(session=session).run("1?")
    closed: list[bool] = []
    session.on_close.append(lambda: closed.append(True))
    session.label("A title")
    for call in (session.close, session.save):
        with pytest.raises(SessionError, match="await session.aclose"):
            call()
    assert not closed
    assert session.writable
    await session.aclose()
    assert closed
    session.close()  # nothing is left to do
    assert [info.title for info in await AsyncSessions(store).list()] == ["A title"]


async def test_asynchronous_store_is_not_accepted_as_a_blocking_one() -> None:
    store: Any = SlowStore()
    with pytest.raises(ConfigError, match="AsyncSessions"):
        Session.create(home=store)
    session = await AsyncSessions(store).create()
    with pytest.raises(SessionError, match="asynchronous store"):
        session.store.open(session.id)


async def test_every_store_can_be_closed_asynchronously(tmp_path: Any) -> None:
    session = Session.create(home=tmp_path)
    async with session:
        await agent("One.").conversation(session=session).run("1?")
        session.label("A title")
    again = Session.open(session.id, home=tmp_path)
    assert again.title == "A title"
    assert encode_messages(again.messages) == encode_messages(session.messages)
    await again.asave()
    await again.aclose()
    with pytest.raises(SessionError, match="is closed"):
        await again.asave()


async def test_unknown_and_ambiguous_names() -> None:
    store = SlowStore()
    sessions = AsyncSessions(store)
    for id in ("ab1", "ab2", "ab"):
        async with await sessions.create(id=id) as session:
            await session.asave()
    assert (await sessions.open("ab", write=False)).id == "ab"
    assert (await sessions.open("SlowStore:ab1", write=False)).id == "ab1"
    await sessions.delete("ab")
    with pytest.raises(SessionError, match="matches 2 sessions: ab"):
        await sessions.open("ab")
    with pytest.raises(SessionError, match="Unknown session: zz"):
        await sessions.open("zz")
    with pytest.raises(SessionError, match="Invalid session ID"):
        await sessions.create(id="../x")
    with pytest.raises(SessionError, match="No sessions"):
        await sessions.latest("/nowhere")


async def test_failed_open_releases_the_session() -> None:
    store = SlowStore()
    await store.append("s1", [b"not a session"], await _info())
    with pytest.raises(SessionError):
        await AsyncSessions(store).open("s1")
    assert store.writers == set()


async def _info() -> Any:
    store = SlowStore()
    async with await AsyncSessions(store).create(id="s1") as session:
        await session.asave()
    return store.infos["s1"]


async def test_failed_read_releases_the_id_of_a_new_session() -> None:
    class BrokenStore(SlowStore):
        async def read(self, id: str) -> Sequence[bytes]:
            raise OSError("down")

    store = BrokenStore()
    with pytest.raises(OSError, match="down"):
        await AsyncSessions(store).create(id="s1")
    assert store.writers == set()
