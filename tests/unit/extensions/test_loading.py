"""Extensions in folders and packages, at run time, and on reload; broken ones are reported and skipped."""

import asyncio
import gc
import sys
import weakref
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.extensions import EVENTS, ExtensionAPI, Extensions, ExtensionSource, find_extensions
from mainspring.loop.hooks import HOOKS
from mainspring.messages import Message
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel


def make_agent(*script: Any, extensions: Any = (), **options: Any) -> Agent:
    return Agent(ScriptedModel(*script), execution=MemoryEnv(), extensions=extensions, **options)


def handlers_by_hook(agent: Agent) -> dict[Any, list[Any]]:
    """Return the handlers that are registered now."""
    return {kind: list(entries) for kind, entries in agent.bus._handlers.items()}


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


GREET = """
def extension(api):
    def greet(name: str) -> str:
        '''Greet a user.'''
        return f"{word} {{name}}"
    word = "{word}"
    api.register_tool(greet)
"""


@pytest.mark.covers("EXT-01", "EXT-08")
async def test_file_and_package_in_a_folder_are_extensions(tmp_path: Path) -> None:
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
    agent = make_agent(
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
async def test_broken_extension_is_reported_with_its_location_and_skipped(
    tmp_path: Path, text: str, reason: str, line: int
) -> None:
    file = write(tmp_path, "broken.py", text)
    write(tmp_path, "sound.py", GREET.format(word="Hi"))

    extensions = Extensions(discovered=find_extensions(user=[tmp_path]))
    agent = make_agent("done", extensions=extensions)
    before = len(agent.bus._handlers)
    assert (await agent.run("go")).text == "done"

    [problem] = extensions.problems
    assert (problem.name, problem.file, problem.line) == ("broken", str(file), line)
    assert reason in problem.reason
    assert str(problem).startswith("extension broken: ")
    assert [s.name for s in extensions.loaded] == ["sound"]
    assert len(agent.bus._handlers) == before
    assert not [m for m in sys.modules if m.endswith("_broken") and "SyntaxError" in reason]


async def test_extension_that_fails_while_loading_registers_nothing() -> None:
    def half(api: ExtensionAPI) -> None:
        api.on("tool_call", lambda event: {"block": True})
        api.register_command("half", lambda arguments: "half")
        raise RuntimeError("half way")

    extensions = Extensions([half])
    agent = make_agent(extensions=extensions)

    without = handlers_by_hook(make_agent(extensions=Extensions()))
    assert {kind: len(entries) for kind, entries in handlers_by_hook(agent).items()} == {
        k: len(e) for k, e in without.items()
    }
    assert not extensions.runner.has_handlers("tool_call")
    assert not len(extensions.runner.commands)
    assert extensions.problems[0].line > 0
    assert extensions.problems[0].file.endswith("test_loading.py")


async def test_duplicate_extension_is_reported_and_the_first_wins(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    write(user, "same.py", GREET.format(word="user"))
    write(project, "same.py", GREET.format(word="project"))

    found = find_extensions(user=[user], project=project, trusted=True)
    extensions = Extensions(discovered=found)
    make_agent(extensions=extensions)

    assert [s.origin for s in extensions.loaded] == ["user"]
    [problem] = extensions.problems
    assert "of this name already" in problem.reason
    assert problem.file == str(project / "same.py")


async def test_extension_with_a_duplicate_command_is_not_loaded() -> None:
    def first(api: ExtensionAPI) -> None:
        api.register_command("/Go", lambda arguments: "one")

    def second(api: ExtensionAPI) -> None:
        api.on("tool_call", lambda event: {"block": True})
        api.register_command("go", lambda arguments: "two")

    def third(api: ExtensionAPI) -> None:
        api.register_command("quit", lambda arguments: "three")

    extensions = Extensions([first, second, third], reserved=["quit"])
    agent = make_agent(extensions=extensions)

    assert [p.name for p in extensions.problems] == ["second", "third"]
    assert "registered by the extension 'first'" in extensions.problems[0].reason
    assert "registered by the program itself" in extensions.problems[1].reason
    assert not extensions.runner.has_handlers("tool_call")
    assert (await agent.run("/go")).text == "one"


@pytest.mark.covers("SEC-12")
def test_extensions_of_an_untrusted_project_are_not_executed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    file = write(tmp_path / "ext", "evil.py", f"open({str(trace)!r}, 'w').close()\ndef extension(api): ...\n")

    found = find_extensions(project=tmp_path / "ext", trusted=False)

    assert found.extensions == ()
    assert [(p.name, p.file) for p in found.problems] == [("evil", str(file))]
    assert "not trusted" in found.problems[0].reason
    assert not trace.exists()
    assert [s.name for s in find_extensions(project=tmp_path / "ext", trusted=True).extensions] == ["evil"]
    assert trace.exists()


def test_installed_packages_can_provide_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# --- reload ---------------------------------------------------------------------------------------------------------


async def test_reload_loads_new_files_and_keeps_broken_ones(tmp_path: Path) -> None:
    for name in ("one", "two", "gone"):
        write(
            tmp_path, f"{name}.py", f"def extension(api):\n    api.register_command('{name}', lambda a: 'old {name}')\n"
        )
    extensions = Extensions(find=lambda: find_extensions(user=[tmp_path]))
    agent = make_agent("ok", extensions=extensions)
    reasons: list[str] = []
    await extensions.add(
        ExtensionSource("watch", lambda api: api.on("session_shutdown", lambda e: reasons.append(e.reason)))
    )
    await agent.run("hello")

    write(tmp_path, "one.py", "def extension(api):\n    api.register_command('one', lambda a: 'new one')\n")
    write(tmp_path, "two.py", "def extension(api)\n    broken\n")
    write(tmp_path, "three.py", "def extension(api):\n    api.register_command('three', lambda a: 'new three')\n")
    (tmp_path / "gone.py").unlink()
    problems = await extensions.reload()

    assert [p.name for p in problems] == ["two"]
    assert sorted(s.name for s in extensions.loaded) == ["one", "three", "two", "watch"]
    replies = [await extensions.runner.run_command(f"/{name}") for name in ("one", "two", "three", "gone")]
    assert replies == ["new one", "old two", "new three", None]
    assert reasons == ["reload"]

    write(tmp_path, "two.py", "def extension(api):\n    api.register_command('two', lambda a: 'new two')\n")
    assert await extensions.reload() == ()
    assert await extensions.runner.run_command("/two") == "new two"


async def test_reload_keeps_the_old_extension_if_the_new_one_raises(tmp_path: Path) -> None:
    text = "def extension(api):\n    api.on('tool_call', lambda e: {'block': 'old'})\n    api.register_command('a', lambda a: 'old')\n"
    write(tmp_path, "a.py", text)
    extensions = Extensions(find=lambda: find_extensions(user=[tmp_path]))
    agent = make_agent(extensions=extensions)
    before = handlers_by_hook(agent)

    write(tmp_path, "a.py", text.replace("'old'", "'new'") + "    raise ValueError('no')\n")
    [problem] = await extensions.reload()

    assert "ValueError: no" in problem.reason
    assert {k: len(v) for k, v in handlers_by_hook(agent).items()} == {k: len(v) for k, v in before.items()}
    assert await extensions.runner.run_command("/a") == "old"


async def test_reload_publishes_session_events_during_a_session() -> None:
    reasons: list[str] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("session_start", lambda e: reasons.append(f"start {e.reason}"))
        api.on("session_shutdown", lambda e: reasons.append(f"shutdown {e.reason}"))

    extensions = Extensions([extension])
    agent = make_agent("ok", extensions=extensions)
    await extensions.reload()
    assert reasons == []
    await agent.run("go")
    await extensions.reload()
    await agent.shutdown()

    assert reasons == ["start startup", "shutdown reload", "start reload", "shutdown exit"]


# --- at run time ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-17")
async def test_extension_can_be_added_and_removed_at_run_time() -> None:
    extensions = Extensions()
    agent = make_agent(
        "one", "two", Reply("", calls=[ScriptedCall("greet", {"name": "Ann"})]), "three", extensions=extensions
    )
    await agent.run("go")
    before = handlers_by_hook(agent)

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
    assert handlers_by_hook(agent) == before
    assert "greet" not in agent.tools


async def test_failing_extension_that_is_added_raises_and_registers_nothing() -> None:
    extensions = Extensions()
    agent = make_agent(extensions=extensions)
    before = handlers_by_hook(agent)

    def broken(api: ExtensionAPI) -> None:
        api.on("context", lambda event: None)
        raise ValueError("no")

    with pytest.raises(ConfigError, match="extension broken: ValueError: no"):
        await extensions.add(broken)
    assert handlers_by_hook(agent) == before


async def test_extension_that_never_finishes_loading_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.extensions.plug.LOAD_SECONDS", 0.02)

    async def slow(api: ExtensionAPI) -> None:
        await asyncio.Event().wait()

    extensions = Extensions([slow])
    agent = make_agent("done", extensions=extensions)

    assert (await agent.run("go")).text == "done"
    assert "did not load within 0.02 seconds" in extensions.problems[0].reason


def test_extensions_object_belongs_to_one_agent_and_takes_only_functions() -> None:
    extensions = Extensions()
    with pytest.raises(ConfigError, match="not installed in an agent yet"):
        assert extensions.loaded
    make_agent(extensions=extensions)
    with pytest.raises(ConfigError, match="another agent"):
        make_agent(extensions=extensions)
    with pytest.raises(ConfigError, match="is not an extension"):
        Extensions(cast("Any", [3]))


EVENT_NAMES = sorted({*EVENTS, *HOOKS})


@given(
    st.lists(st.tuples(st.sampled_from(EVENT_NAMES), st.integers(-3, 3)), max_size=12),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_removing_handlers_restores_the_hook_bus(
    registrations: list[tuple[str, int]], random: Any, one_by_one: bool
) -> None:
    extensions = Extensions()
    agent = make_agent(extensions=extensions)
    agent.on("tool:gate", print)
    before = handlers_by_hook(agent)
    removers: list[Any] = []

    def extension(api: ExtensionAPI) -> None:
        removers.extend(api.on(event, lambda e: None, order=order) for event, order in registrations)

    extensions.runner.load_now(ExtensionSource("x", extension))
    assert sum(map(len, handlers_by_hook(agent).values())) >= sum(map(len, before.values())) + len(registrations)
    if one_by_one:
        random.shuffle(removers)
        for remove in removers:
            remove()
            remove()  # The second call does nothing.
    else:
        extensions.remove("x")

    assert handlers_by_hook(agent) == before


async def test_discarded_agent_is_garbage_collected() -> None:
    agent = make_agent("ok", extensions=[lambda api: api.on("session_shutdown", lambda event: None)])
    await agent.run("go")
    agent_ref = weakref.ref(agent)
    del agent
    gc.collect()
    assert agent_ref() is None
