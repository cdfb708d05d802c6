from pathlib import Path

import pytest

from mainspring import Agent
from mainspring.env import LocalEnv
from mainspring.errors import SessionError
from mainspring.sessions import (
    JsonlStore,
    MemorySessionStore,
    Session,
    SessionStore,
    SqliteSessionStore,
    search_sessions,
)
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools

pytestmark = pytest.mark.covers("BYD-12")


@pytest.fixture(params=["jsonl", "memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    factories = {
        "memory": MemorySessionStore,
        "sqlite": lambda: SqliteSessionStore(tmp_path / "s.db"),
        "jsonl": lambda: JsonlStore(tmp_path),
    }
    return factories[request.param]()


async def run_prompt(
    store: SessionStore, folder: str, prompt: str, *replies: Reply, session: Session | None = None
) -> Session:
    session = session or Session.create(folder, home=store)
    agent = Agent(ScriptedModel(*replies), execution=LocalEnv("/"), tools=builtin_tools(), session=session)
    await agent.run(prompt)
    return session


async def test_words_are_found_in_prompts_responses_calls_and_results(store: SessionStore, tmp_path: Path) -> None:
    folder = str(tmp_path)
    file = tmp_path / "notes.txt"
    file.write_text("the zebra sleeps", encoding="utf-8")
    first = await run_prompt(store, folder, "Tell me about Ostriches", Reply("They RUN fast."))
    second = await run_prompt(
        store, folder, "look", Reply(calls=[ScriptedCall("read_file", {"path": str(file)})]), Reply("ok")
    )

    for words, session, role in (
        ("ostrich", first, "user"),
        ("run fast", first, "assistant"),
        ("notes.txt", second, "assistant"),
        ("ZEBRA sleeps", second, "tool"),
    ):
        hit = search_sessions(words, folder, home=store)[0]
        assert (hit.session.id, hit.role) == (session.id, role), words
        assert hit.entry in {entry.id for entry in session.entries()}
    assert search_sessions("giraffe", folder, home=store) == []


async def test_short_words_and_other_scripts_are_found(store: SessionStore, tmp_path: Path) -> None:
    await run_prompt(store, str(tmp_path), 'go to 東京タワー, "now"', Reply("はい"))

    for words in ("go", "タワー", "京", '"now"', "はい", "go 東京"):
        assert len(search_sessions(words, str(tmp_path), home=store)) == 1, words


async def test_other_folders_are_searched_on_request(store: SessionStore, tmp_path: Path) -> None:
    session = await run_prompt(store, str(tmp_path), "the marmot", Reply("yes"))

    assert search_sessions("marmot", "/elsewhere", home=store) == []
    assert search_sessions("marmot", "/elsewhere", home=store, everywhere=True)[0].session.id == session.id


async def test_new_messages_are_found_in_the_next_search(store: SessionStore, tmp_path: Path) -> None:
    session = await run_prompt(store, str(tmp_path), "first lemur", Reply("one"))
    assert len(search_sessions("lemur", str(tmp_path), home=store)) == 1

    await run_prompt(store, str(tmp_path), "second lemur", Reply("two"), session=session)

    hits = search_sessions("lemur", str(tmp_path), home=store)
    assert [hit.text for hit in hits] == ["second lemur", "first lemur"]
    assert len(search_sessions("lemur", str(tmp_path), home=store, limit=1)) == 1


async def test_only_changed_sessions_are_read_again(tmp_path: Path) -> None:
    opened: list[str] = []

    class CountingStore(JsonlStore):
        def open(self, name: str, *, write: bool = True):
            opened.append(name)
            return super().open(name, write=write)

    store = CountingStore(tmp_path)
    for text in ("one koala", "two koala", "three koala"):
        (await run_prompt(store, str(tmp_path), text, Reply("ok"))).close()
    search_sessions("koala", str(tmp_path), home=store)
    opened.clear()

    assert len(search_sessions("koala", str(tmp_path), home=store)) == 3
    assert opened == []


@pytest.mark.parametrize("content", [b"broken", b"SQLite format 3\0" + b"\0" * 3000])
async def test_corrupt_index_is_rebuilt(content: bytes, tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    await run_prompt(store, str(tmp_path), "the ocelot", Reply("ok"))
    (tmp_path / "search.db").write_bytes(content)

    assert len(search_sessions("ocelot", str(tmp_path), home=store)) == 1
    assert (tmp_path / "search.db").stat().st_mode & 0o077 == 0


def test_empty_query_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="search query is empty"):
        search_sessions("  ", home=JsonlStore(tmp_path))


HOSTILE = [
    'koala" OR "x',
    "koala AND NOT",
    "NEAR(koala",
    "text:koala*",
    "^koala",
    "(((",
    '"""',
    "ko'; DROP TABLE texts; --",
    "koa\0la",
    "\ud800koala",
    "k" * 100_000,
    " ".join(f"word{i}" for i in range(5000)),
]


@pytest.mark.parametrize("query", HOSTILE)
async def test_special_characters_are_searched_literally(query: str, tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    (await run_prompt(store, str(tmp_path), "a koala sleeps", Reply("ok"))).close()
    (await run_prompt(store, str(tmp_path), f"say: {query}", Reply("ok"))).close()

    plain = [w for w in query.split() if not any(0xD800 <= ord(c) < 0xE000 for c in w)]
    found = search_sessions(query, str(tmp_path), home=store)

    assert len(found) == (1 if plain == query.split() else 0)
    assert len(search_sessions("koala sleeps", str(tmp_path), home=store)) == 1  # the index still works


async def test_session_deleted_during_a_search_is_skipped(tmp_path: Path) -> None:
    class VanishingStore(JsonlStore):
        def open(self, name: str, *, write: bool = True):
            if not write and name == first.location:
                Path(name).unlink(missing_ok=True)
            return super().open(name, write=write)

    store = VanishingStore(tmp_path)
    first = await run_prompt(store, str(tmp_path), "one koala", Reply("ok"))
    first.close()
    (await run_prompt(store, str(tmp_path), "two koala", Reply("ok"))).close()

    assert [hit.text for hit in search_sessions("koala", str(tmp_path), home=store)] == ["two koala"]


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_deleted_session_is_removed_from_the_index(kind: str, tmp_path: Path) -> None:
    store = JsonlStore(tmp_path) if kind == "jsonl" else SqliteSessionStore(tmp_path / "s.db")
    session = await run_prompt(store, str(tmp_path), "the pangolin", Reply("ok"))
    session.close()
    other = await run_prompt(store, str(tmp_path), "the ocelot", Reply("ok"))
    other.close()
    assert search_sessions("pangolin", str(tmp_path), home=store)
    assert b"pangolin" in (tmp_path / "search.db").read_bytes()

    store.delete(session.id)

    assert search_sessions("pangolin", str(tmp_path), home=store) == []
    assert len(search_sessions("ocelot", str(tmp_path), home=store)) == 1
    assert b"pangolin" not in (tmp_path / "search.db").read_bytes()


async def test_sessions_are_read_directly_if_no_index_can_be_written(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    (await run_prompt(store, str(tmp_path), "the ocelot", Reply("ok"))).close()
    (tmp_path / "search.db").mkdir()

    assert len(search_sessions("ocelot", str(tmp_path), home=store)) == 1
    assert search_sessions("ocelot", str(tmp_path), home=store, limit=0) == []
