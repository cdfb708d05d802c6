from pathlib import Path
from typing import Any

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.skills import Skill, ToolsetContext, load_toolset
from mainspring.skills.activation import ToolsetError, create_tools
from mainspring.testing.scripted_model import ScriptedCall
from mainspring.tools import ToolContext, tool
from tests.unit.skills.factories import make_agent, results, write_skill

_TOOLS = '''
class Greeter:
    """Greets."""

    def __init__(self, dependencies):
        self.client = dependencies.extra.get("client")

    async def greet(self, name: str) -> str:
        """Greet a user.

        Args:
            name: Whom.
        """
        return self.client.greet(name)

    async def aclose(self):
        self.client.closed = True
'''


class FakeClient:
    """Replaces a client of the application."""

    closed = False

    def greet(self, name: str) -> str:
        return f"Hello, {name}"


def use_skill(name: str = "hello") -> ScriptedCall:
    return ScriptedCall("skills_use", {"name": name})


@pytest.mark.covers("SKL-08", "SKL-39")
async def test_toolset_is_available_while_its_skill_is_active(tmp_path: Path) -> None:
    write_skill(tmp_path, "hello", head='toolsets: ["tools.py:Greeter"]\nallowed-tools: Read', tools_dot_py=_TOOLS)
    client = FakeClient()
    agent, model, _ = make_agent(
        tmp_path, use_skill(), ScriptedCall("greet", {"name": "Ada"}), "done", "later", extra={"client": client}
    )

    await agent.run("go")
    await agent.run("later")

    assert results(agent)[1].text == "Hello, Ada"
    assert [[t.name for t in seen.request.tools][3:] for seen in model.requests] == [[], ["greet"], ["greet"], []]
    assert client.closed


@pytest.mark.covers("SKL-39")
async def test_toolset_can_be_replaced_in_tests(tmp_path: Path) -> None:
    write_skill(
        tmp_path, "hello", head='toolsets: ["tools.py:Greeter"]', tools_dot_py="raise RuntimeError('not loaded')"
    )

    class FakeToolset:
        def greet(self, name: str) -> str:
            """Greet."""
            return f"fake {name}"

    agent, _, skills = make_agent(
        tmp_path, use_skill(), ScriptedCall("greet", {"name": "x"}), "done", toolsets={"hello": [FakeToolset]}
    )

    await agent.run("go")

    assert results(agent)[1].text == "fake x"
    assert skills.problems == ()


@pytest.mark.covers("SKL-08")
@pytest.mark.parametrize(
    ("spec", "code", "why"),
    [
        ("tools.py:Missing", _TOOLS, "AttributeError"),
        ("tools.py:Broken", "1 / 0", "ZeroDivisionError"),
        ("../outside.py:T", "", "outside the skill's folder"),
        ("link.py:T", "", "outside the skill's folder"),
        ("../outside:T", "", "outside the skill's folder"),
        ("link:T", "", "outside the skill's folder"),
        ("toolsets/index:T", "", "FileNotFoundError"),
        ("no.module.there:T", "", "ModuleNotFoundError"),
        ("tools.py:Leaves", "raise SystemExit(3)", "SystemExit: 3"),
        ("os:getcwd.x", "", "use tools.py:Class"),
        ("tools.py", _TOOLS, "use tools.py:Class"),
        ("tools.py:a.b", _TOOLS, "use tools.py:Class"),
        ("tools.py:X", "X = 5", "is not a class"),
        ("tools.py:Empty", "class Empty: pass", "has no tools"),
        ("tools.py:Raises", "class Raises:\n    def __init__(self): raise ValueError('no')", "ValueError: no"),
    ],
)
async def test_invalid_toolset_raises_an_error(tmp_path: Path, spec: str, code: str, why: str) -> None:
    skill_folder = write_skill(tmp_path, "hello", "The text.", tools_dot_py=code)
    (tmp_path / "outside.py").write_text("class T: pass", encoding="utf-8")
    (skill_folder / "link.py").symlink_to(tmp_path / "outside.py")
    skill = Skill(
        name="hello",
        description="d",
        brief="d",
        source="user",
        trusted=True,
        directory=str(skill_folder),
        path=str(skill_folder / "SKILL.md"),
        toolsets=(spec,),
    )

    def load_tools() -> Any:
        return create_tools(load_toolset(skill, spec), ToolsetContext(MemoryEnv(), {}, "a", skill))

    with pytest.raises(ToolsetError, match=why):
        load_tools()


@pytest.mark.covers("SKL-08")
async def test_each_public_method_becomes_a_tool(tmp_path: Path) -> None:
    code = "class T:\n    def one(self) -> str:\n        return '1'\n    def two(self) -> str:\n        return '2'\n    def _no(self): ...\n"
    write_skill(tmp_path, "hello", head='toolsets: ["tools.py:T"]', tools_dot_py=code)
    agent, model, _ = make_agent(tmp_path, use_skill(), [ScriptedCall("one", {}), ScriptedCall("two", {})], "done")

    await agent.run("go")

    assert [t.name for t in model.requests[1].request.tools][3:] == ["one", "two"]
    assert [r.text for r in results(agent)[1:]] == ["1", "2"]


@pytest.mark.covers("SKL-08")
async def test_toolset_file_may_be_named_without_its_ending(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path, "hello", head='toolsets: ["toolsets/index:HelloToolset", "more:More"]')
    (skill_folder / "toolsets").mkdir()
    code = "class HelloToolset:\n    def wave(self) -> str:\n        return 'waves'\n"
    (skill_folder / "toolsets" / "index.py").write_text(code, encoding="utf-8")
    (skill_folder / "more.py").write_text("class More:\n    def bow(self) -> str:\n        return 'bows'\n")
    agent, _, skills = make_agent(tmp_path, use_skill(), [ScriptedCall("wave"), ScriptedCall("bow")], "done")

    await agent.run("go")

    assert [r.text for r in results(agent)[1:]] == ["waves", "bows"]
    assert skills.problems == ()
    assert skills.catalog.problems == ()


@pytest.mark.covers("SKL-08")
async def test_skill_with_a_broken_toolset_is_still_activated(tmp_path: Path) -> None:
    write_skill(tmp_path, "hello", "The text.", 'toolsets: ["tools.py:Greeter"]', tools_dot_py="1 / 0")
    agent, _, skills = make_agent(tmp_path, use_skill(), "done")

    await agent.run("go")

    assert "The text." in results(agent)[0].text
    assert (
        "[The tools of this skill are not there: hello: the toolset tools.py:Greeter cannot be loaded"
        in results(agent)[0].text
    )
    assert len(skills.problems) == 1


@pytest.mark.covers("SKL-08", "SKL-37")
def test_code_of_an_untrusted_skill_is_not_imported(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path, "hello", tools_dot_py=f"open({str(tmp_path / 'ran')!r}, 'w')")
    skill = Skill(name="hello", description="d", brief="d", source="project", directory=str(skill_folder))

    with pytest.raises(ToolsetError, match="untrusted"):
        load_toolset(skill, "tools.py:T")
    assert not (tmp_path / "ran").exists()


async def test_existing_tools_keep_their_names(tmp_path: Path) -> None:
    code = "class T:\n    def tools(self):\n        def shell() -> str:\n            '''S.'''\n            return 'theirs'\n        def read() -> str:\n            '''R.'''\n            return 'r'\n        def load_skill() -> str:\n            '''L.'''\n            return 'l'\n        return [shell, read, load_skill]\n"
    write_skill(tmp_path, "shell", head='toolsets: ["tools.py:T"]', tools_dot_py=code)

    @tool
    def shell(ctx: ToolContext) -> str:
        """Ours."""
        return "ours"

    agent, _, skills = make_agent(
        tmp_path,
        use_skill("shell"),
        [ScriptedCall("shell"), ScriptedCall("load_skill", {"name": "shell"})],
        "done",
        "again",
        tools=[shell],
        tool_aliases={"x": "read"},
    )

    await agent.run("go")
    await agent.run("again")

    assert results(agent)[1].text == "ours"
    assert results(agent)[2].text.startswith("The skill shell is active already")
    assert len(skills.problems) == 3


async def test_toolset_is_closed_if_the_skill_text_cannot_be_read(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path, "hello", head='toolsets: ["tools.py:Greeter"]', tools_dot_py=_TOOLS)
    client = FakeClient()
    agent, _, _ = make_agent(tmp_path, use_skill(), "done", extra={"client": client})
    await agent.warmup()
    (skill_folder / "SKILL.md").unlink()

    await agent.run("go")

    assert results(agent)[0].is_error
    assert client.closed
