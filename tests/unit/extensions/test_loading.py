"""Extensions in folders and packages, at run time, and anew; broken ones harm nothing and say why."""

import asyncio
import gc
import sys
import weakref
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.extensions import EVENTS, ExtensionAPI, Extensions, ExtensionSource, find_extensions
from mainspring.loop.hooks import HOOKS
from mainspring.messages import Message
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel


def agent_of(*script: Any, extensions: Any = (), **options: Any) -> Agent:
    return Agent(ScriptedModel(*script), execution=MemoryEnv(), extensions=extensions, **options)


def bus_of(agent: Agent) -> dict[Any, list[Any]]:
    """What is on the bus now."""
    return {kind: list(entries) for kind, entries in agent.bus._handlers.items()}


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


GREET = """
def extension(api):
    def greet(name: str) -> str:
        '''Greet somebody.'''
        return f"{word} {{name}}"
    word = "{word}"
    api.register_tool(greet)
"""


@pytest.mark.covers("EXT-01", "EXT-08")
async def test_a_file_and_a_package_in_a_folder_are_extensions(tmp_path: Path) -> None:
    write(tmp_path, "greeter.py", GREET.format(word="Hello"))
    write(tmp_path, "pack/__init__.py", "from .inner import extension as extension\n")
    write(
        tmp_path,
        "pack/inner.py",
        "async def extension(api):\n    api.register_command('inner', lambda arguments: 'from inside')\n",
    )
    write(tmp_path, "_helper.py", "raise SystemExit('not an extension')")
    write(tmp_path, "notes.txt", "not an extension")

    found = find_extensions(user=[tmp_path])
    agent = agent_of(
        Reply("", calls=[ScriptedCall("greet", {"name": "Ann"})]), "done", extensions=Extensions(discovered=found)
    )
    await agent.run("go")

    assert [(s.name, s.origin) for s in found.extensions] == [("greeter", "user"), ("pack", "user")]
    assert found.problems == ()
    [result] = [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]
    assert result.text == "Hello Ann"
    assert (await agent.run("/inner")).text == "from inside"


@pytest.mark.covers("EXT-01")
@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("def extension(api):\n    x = (\n", "SyntaxError", 2),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", 2),
        ("x = 1\n", "it has no function 'extension'", 0),
        ("def extension(api):\n    pass\n    api.on('tool_cal', print)\n", "Unknown hook: 'tool_cal'", 3),
        ("def extension(api):\n    helper()\n\ndef helper():\n    {}['key']\n", "KeyError: 'key'", 5),
        ("async def extension(api):\n    raise ValueError('late')\n", "ValueError: late", 2),
        ("def extension(api):\n    async def late(): pass\n    return late()\n", "Define it with `async def`", 0),
    ],
)
async def test_a_broken_extension_harms_nothing_and_says_where_it_broke(
    tmp_path: Path, text: str, reason: str, line: int
) -> None:
    file = write(tmp_path, "broken.py", text)
    write(tmp_path, "sound.py", GREET.format(word="Hi"))

    extensions = Extensions(discovered=find_extensions(user=[tmp_path]))
    agent = agent_of("done", extensions=extensions)
    before = len(agent.bus._handlers)
    assert (await agent.run("go")).text == "done"

    [problem] = extensions.problems
    assert (problem.name, problem.file, problem.line) == ("broken", str(file), line)
    assert reason in problem.reason
    assert str(problem).startswith("extension broken: ")
    assert [s.name for s in extensions.loaded] == ["sound"]
    assert len(agent.bus._handlers) == before
    assert not [m for m in sys.modules if m.endswith("_broken") and "SyntaxError" in reason]


async def test_an_extension_that_fails_half_way_leaves_nothing_behind() -> None:
    def half(api: ExtensionAPI) -> None:
        api.on("tool_call", lambda event: {"block": True})
        api.register_command("half", lambda arguments: "half")
        raise RuntimeError("half way")

    extensions = Extensions([half])
    agent = agent_of(extensions=extensions)

    without = bus_of(agent_of(extensions=Extensions()))
    assert {kind: len(entries) for kind, entries in bus_of(agent).items()} == {k: len(e) for k, e in without.items()}
    assert not extensions.runner.has_handlers("tool_call")
    assert not len(extensions.runner.commands)
    assert extensions.problems[0].line > 0
    assert extensions.problems[0].file.endswith("test_loading.py")


async def test_of_two_of_one_name_the_first_counts_and_the_other_is_told(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    write(user, "same.py", GREET.format(word="user"))
    write(project, "same.py", GREET.format(word="project"))

    found = find_extensions(user=[user], project=project, trusted=True)
    extensions = Extensions(discovered=found)
    agent_of(extensions=extensions)

    assert [s.origin for s in extensions.loaded] == ["user"]
    [problem] = extensions.problems
    assert "of this name already" in problem.reason
    assert problem.file == str(project / "same.py")


async def test_a_tool_or_command_that_is_taken_keeps_the_extension_out_whole() -> None:
    def first(api: ExtensionAPI) -> None:
        api.register_command("/Go", lambda arguments: "one")

    def second(api: ExtensionAPI) -> None:
        api.on("tool_call", lambda event: {"block": True})
        api.register_command("go", lambda arguments: "two")

    def third(api: ExtensionAPI) -> None:
        api.register_command("quit", lambda arguments: "three")

    extensions = Extensions([first, second, third], reserved=["quit"])
    agent = agent_of(extensions=extensions)

    assert [p.name for p in extensions.problems] == ["second", "third"]
    assert "registered by the extension 'first'" in extensions.problems[0].reason
    assert "registered by the program itself" in extensions.problems[1].reason
    assert not extensions.runner.has_handlers("tool_call")
    assert (await agent.run("/go")).text == "one"


@pytest.mark.covers("SEC-12")
def test_nothing_of_an_untrusted_project_is_even_read(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    file = write(tmp_path / "ext", "evil.py", f"open({str(trace)!r}, 'w').close()\ndef extension(api): ...\n")

    found = find_extensions(project=tmp_path / "ext", trusted=False)

    assert found.extensions == ()
    assert [(p.name, p.file) for p in found.problems] == [("evil", str(file))]
    assert "not trusted" in found.problems[0].reason
    assert not trace.exists()
    assert [s.name for s in find_extensions(project=tmp_path / "ext", trusted=True).extensions] == ["evil"]
    assert trace.exists()


def test_installed_packages_name_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "packaged_extension.py", "def start(api): ...\nnothing = None\n")
    write(tmp_path, "pe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pe\nVersion: 1.0\n")
    write(
        tmp_path,
        "pe-1.0.dist-info/entry_points.txt",
        "[mainspring.extensions]\ngood = packaged_extension:start\nbad = packaged_extension:nothing\nworse = no_such_module:x\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    found = find_extensions(packages=True, leave_out=["worse"])

    assert [(s.name, s.origin, s.place) for s in found.extensions if s.place == "pe"] == [("good", "package", "pe")]
    assert [p.name for p in found.problems] == ["bad"]
    assert "is not a function" in found.problems[0].reason


# --- anew -----------------------------------------------------------------------------------------------------------


async def test_reload_takes_what_is_new_and_keeps_what_is_broken_now(tmp_path: Path) -> None:
    for name in ("one", "two", "gone"):
        write(
            tmp_path, f"{name}.py", f"def extension(api):\n    api.register_command('{name}', lambda a: 'old {name}')\n"
        )
    extensions = Extensions(find=lambda: find_extensions(user=[tmp_path]))
    agent = agent_of("ok", extensions=extensions)
    heard: list[str] = []
    await extensions.add(
        ExtensionSource("watch", lambda api: api.on("session_shutdown", lambda e: heard.append(e.reason)))
    )
    await agent.run("hello")

    write(tmp_path, "one.py", "def extension(api):\n    api.register_command('one', lambda a: 'new one')\n")
    write(tmp_path, "two.py", "def extension(api)\n    broken\n")
    write(tmp_path, "three.py", "def extension(api):\n    api.register_command('three', lambda a: 'new three')\n")
    (tmp_path / "gone.py").unlink()
    problems = await extensions.reload()

    assert [p.name for p in problems] == ["two"]
    assert sorted(s.name for s in extensions.loaded) == ["one", "three", "two", "watch"]
    said = [await extensions.runner.run_command(f"/{name}") for name in ("one", "two", "three", "gone")]
    assert said == ["new one", "old two", "new three", None]
    assert heard == ["reload"]

    write(tmp_path, "two.py", "def extension(api):\n    api.register_command('two', lambda a: 'new two')\n")
    assert await extensions.reload() == ()
    assert await extensions.runner.run_command("/two") == "new two"


async def test_reload_with_an_extension_that_raises_now_keeps_the_old_one_whole(tmp_path: Path) -> None:
    text = "def extension(api):\n    api.on('tool_call', lambda e: {'block': 'old'})\n    api.register_command('a', lambda a: 'old')\n"
    write(tmp_path, "a.py", text)
    extensions = Extensions(find=lambda: find_extensions(user=[tmp_path]))
    agent = agent_of(extensions=extensions)
    before = bus_of(agent)

    write(tmp_path, "a.py", text.replace("'old'", "'new'") + "    raise ValueError('no')\n")
    [problem] = await extensions.reload()

    assert "ValueError: no" in problem.reason
    assert {k: len(v) for k, v in bus_of(agent).items()} == {k: len(v) for k, v in before.items()}
    assert await extensions.runner.run_command("/a") == "old"


async def test_reload_tells_the_new_ones_while_a_conversation_is_open() -> None:
    heard: list[str] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("session_start", lambda e: heard.append(f"start {e.reason}"))
        api.on("session_shutdown", lambda e: heard.append(f"shutdown {e.reason}"))

    extensions = Extensions([extension])
    agent = agent_of("ok", extensions=extensions)
    await extensions.reload()
    assert heard == []
    await agent.run("go")
    await extensions.reload()
    await agent.shutdown()

    assert heard == ["start startup", "shutdown reload", "start reload", "shutdown exit"]


# --- at run time ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-17")
async def test_an_extension_comes_and_goes_while_the_agent_lives() -> None:
    extensions = Extensions()
    agent = agent_of(
        "one", "two", Reply("", calls=[ScriptedCall("greet", {"name": "Ann"})]), "three", extensions=extensions
    )
    await agent.run("go")
    before = bus_of(agent)

    async def late(api: ExtensionAPI) -> None:
        def greet(name: str) -> str:
            """Greet."""
            return f"Hello {name}"

        api.register_tool(greet)
        api.on("context", lambda event: {"messages": event.messages[-1:]})

    await extensions.add(late)
    with pytest.raises(ConfigError, match="of this name already"):
        await extensions.add(late)
    assert "greet" in agent.tools
    assert cast("Any", agent.tools.get("greet")).source == "extension"
    await agent.run("on")
    assert len(cast("Any", agent.model).requests[-1].request.messages) == 1

    assert extensions.remove("late")
    assert not extensions.remove("late")
    assert bus_of(agent) == before
    assert "greet" not in agent.tools


async def test_a_broken_one_that_is_added_raises_and_leaves_nothing() -> None:
    extensions = Extensions()
    agent = agent_of(extensions=extensions)
    before = bus_of(agent)

    def broken(api: ExtensionAPI) -> None:
        api.on("context", lambda event: None)
        raise ValueError("no")

    with pytest.raises(ConfigError, match="extension broken: ValueError: no"):
        await extensions.add(broken)
    assert bus_of(agent) == before


async def test_an_extension_that_never_ends_loading_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.extensions.plug.LOAD_SECONDS", 0.02)

    async def slow(api: ExtensionAPI) -> None:
        await asyncio.Event().wait()

    extensions = Extensions([slow])
    agent = agent_of("done", extensions=extensions)

    assert (await agent.run("go")).text == "done"
    assert "did not load within 0.02 seconds" in extensions.problems[0].reason


def test_one_plug_serves_one_agent_and_what_is_no_function_is_refused() -> None:
    extensions = Extensions()
    with pytest.raises(ConfigError, match="not installed in an agent yet"):
        assert extensions.loaded
    agent_of(extensions=extensions)
    with pytest.raises(ConfigError, match="another agent"):
        agent_of(extensions=extensions)
    with pytest.raises(ConfigError, match="is not an extension"):
        Extensions(cast("Any", [3]))


EVENT_NAMES = sorted({*EVENTS, *HOOKS})


@given(
    st.lists(st.tuples(st.sampled_from(EVENT_NAMES), st.integers(-3, 3)), max_size=12),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_registering_and_taking_away_leaves_the_bus_as_it_was(
    wanted: list[tuple[str, int]], random: Any, one_by_one: bool
) -> None:
    extensions = Extensions()
    agent = agent_of(extensions=extensions)
    agent.on("tool:gate", print)
    before = bus_of(agent)
    removers: list[Any] = []

    def extension(api: ExtensionAPI) -> None:
        removers.extend(api.on(event, lambda e: None, order=order) for event, order in wanted)

    extensions.runner.load_now(ExtensionSource("x", extension))
    assert sum(map(len, bus_of(agent).values())) >= sum(map(len, before.values())) + len(wanted)
    if one_by_one:
        random.shuffle(removers)
        for remove in removers:
            remove()
            remove()  # a second time does nothing
    else:
        extensions.remove("x")

    assert bus_of(agent) == before


async def test_an_agent_that_was_let_go_is_not_kept_for_the_end_of_the_process() -> None:
    agent = agent_of("ok", extensions=[lambda api: api.on("session_shutdown", lambda event: None)])
    await agent.run("go")
    left = weakref.ref(agent)
    del agent
    gc.collect()
    assert left() is None
