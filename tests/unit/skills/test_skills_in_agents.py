"""Skills in an agent: told of, taken up, let go."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring import Agent, AgentError, Approve, ConfigError
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.loop.hooks import (
    PermissionCheck,
    SkillsActivate,
    SkillsCatalog,
    SkillsDeactivate,
    SkillsResolve,
    ToolFinished,
    ToolGate,
)
from mainspring.messages import Message
from mainspring.skills import Skill, SkillError, SkillsConfig, SkillsPlug
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from tests.unit.skills.factories import agent_with, results, write_skill

pytestmark = pytest.mark.usefixtures("no_blocking")


def told(agent: Agent) -> list[tuple[str, ...]]:
    """What the hooks of skills tell from now on."""
    heard: list[tuple[str, ...]] = []
    agent.on(SkillsActivate, lambda h: heard.append(("on", h.name, h.via)))
    agent.on(SkillsDeactivate, lambda h: heard.append(("off", h.name, h.reason)))
    return heard


def use(name: str) -> ScriptedCall:
    return ScriptedCall("skills_use", {"name": name})


@pytest.mark.covers("SKL-17", "SKL-22", "SKL-29", "TOL-19")
async def test_the_index_is_in_the_prompt_and_the_text_comes_by_tool(tmp_path: Path) -> None:
    own = write_skill(
        tmp_path, "pdf", "Rotate by 90.", "compatibility: needs qpdf\nallowed-tools: Read", references__guide_dot_md="x"
    )
    agent, model, _ = agent_with(tmp_path, use("pdf"), "done")

    await agent.run("rotate it")

    first = model.requests[0].request
    assert first.system.startswith("Be kind.\n\n# Skills")
    assert "- pdf: All about pdf." in first.system
    assert "Rotate by 90" not in first.system
    assert [t.name for t in first.tools] == ["skills_use", "skills_read", "skills_run_script"]
    assert results(agent)[0].text == (
        f'<skill_content name="pdf" directory="{own}">\nCompatibility: needs qpdf\nAllowed tools: Read\n'
        "Files, for skills_read: references/guide.md\n\nRotate by 90.\n</skill_content>"
    )


@pytest.mark.covers("SKL-13", "SKL-22")
async def test_without_skills_nothing_is_there(tmp_path: Path) -> None:
    agent, model, skills = agent_with(tmp_path, "hi", "ho")

    await agent.run("hello")
    await agent.run("again")

    assert model.requests[1].request.system == "Be kind."
    assert model.requests[1].request.tools == ()
    assert len(skills.catalog) == 0


@pytest.mark.covers("SKL-17")
async def test_an_unknown_skill_is_an_error_that_helps(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, _ = agent_with(
        tmp_path, [use("pfd"), use("zzz"), ScriptedCall("skills_read", {"skill": "no", "path": "x"})], "done"
    )

    await agent.run("go")

    assert [(r.is_error, r.text) for r in results(agent)] == [
        (True, "Skill not found: pfd. Did you mean pdf?"),
        (True, "Skill not found: zzz. Available: pdf."),
        (True, "Skill not found: no. Available: pdf."),
    ]


@pytest.mark.covers("SKL-23", "SKL-25", "SKL-26", "HOK-35")
async def test_active_until_the_end_of_the_run_delivered_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, skills = agent_with(tmp_path, [use("pdf"), use(" /PDF ")], use("pdf"), "done", use("pdf"), "done")
    heard = told(agent)

    await agent.run("go")
    assert skills.active.names == ()
    await agent.run("again")

    texts = [r.text for r in results(agent)]
    assert [t.startswith("<skill_content") for t in texts] == [True, False, False, False]
    assert texts[1] == texts[2] == "The skill pdf is active already; its instructions stand above and still hold."
    assert texts[3] == "The skill pdf is active again; its instructions stand above, unchanged."
    assert heard == [("on", "pdf", "model"), ("off", "pdf", "run-end")] * 2
    assert len({seen.request.system for seen in model.requests}) == 1


@pytest.mark.covers("SKL-23")
async def test_no_more_than_max_active(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_skill(tmp_path, name)
    agent, _, _ = agent_with(tmp_path, [use("a"), use("b"), use("c"), use("a")], "done", max_active=2)

    await agent.run("go")

    third, again = results(agent)[2:]
    assert third.is_error
    assert third.text == "The skill c was not activated: 2 skills are active (a, b), which is the maximum"
    assert not again.is_error


@pytest.mark.covers("SKL-24", "SKL-25", "SKL-26")
async def test_the_host_activates_and_the_text_joins_the_run(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, skills = agent_with(tmp_path, "one", "two", "three")
    heard = told(agent)

    await agent.activate_skill("pdf")
    assert skills.active.names == ("pdf",)
    await agent.run("go")
    await agent.run("go on")

    second = model.requests[0].messages[1]
    assert second.role == "user"
    assert second.text.startswith('<skill_content name="pdf"')
    assert [m.text.count("<skill_content") for m in model.requests[1].messages] == [0, 1, 0, 0]
    assert heard == [("on", "pdf", "explicit"), ("off", "pdf", "run-end")]

    await agent.activate_skill("pdf")
    await agent.activate_skill("pdf")
    await agent.run("asserted again")
    assert skills.active.names == ("pdf",)
    assert await agent.deactivate_skill("pdf")
    assert not await agent.deactivate_skill("pdf")
    assert heard[-1] == ("off", "pdf", "explicit")


@pytest.mark.covers("SKL-24", "SKL-29")
async def test_activated_again_the_text_is_not_sent_again_and_word_of_it_is(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(tmp_path, "one", "two")

    await agent.activate_skill("pdf")
    await agent.run("go")
    await agent.activate_skill("pdf")
    await agent.run("again")

    assert sum(m.text.count("Do it well.") for m in model.requests[1].messages) == 1
    assert (
        model.requests[1].messages[-1].text
        == "[The skill pdf is active again; its instructions stand above, unchanged.]"
    )


@pytest.mark.covers("SKL-24")
async def test_activated_while_it_runs_the_text_joins_behind_the_results(tmp_path: Path) -> None:
    write_skill(tmp_path, "a")
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(tmp_path, use("a"), "done")

    async def activate(hook: Any) -> None:
        if hook.name == "skills_use":
            await agent.activate_skill("pdf")

    agent.on(ToolFinished, activate)
    await agent.run("go")

    last = model.requests[1].messages[-1]
    assert last.text.startswith('<skill_content name="pdf"')
    assert agent.messages[3] is last


@pytest.mark.covers("SKL-25")
async def test_reset_lets_go_and_tells_sync_and_async_handlers(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, skills = agent_with(tmp_path, "hi")
    heard = told(agent)
    later: list[str] = []

    async def hear(hook: Any) -> None:
        later.append(hook.reason)

    agent.on(SkillsDeactivate, hear)
    await agent.activate_skill("pdf")
    agent.reset()

    assert skills.active.names == ()
    assert heard == [("on", "pdf", "explicit"), ("off", "pdf", "reset")]
    await agent.run("hi")
    assert later == ["reset"]
    assert len(heard) == 2


@pytest.mark.covers("SKL-26")
async def test_a_paused_run_keeps_its_skills_and_an_aborted_one_does_not(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, skills = agent_with(
        tmp_path,
        use("pdf"),
        ScriptedCall("skills_read", {"skill": "pdf", "path": "SKILL.md"}),
        "done",
        use("pdf"),
        Reply("slow", delay=30),
    )
    agent.on(ToolGate, lambda h: {"pause": "sure?"} if h.name == "skills_read" else None)

    paused = await agent.run("go")
    assert paused.status == "paused"
    assert skills.active.names == ("pdf",)
    agent.answer(Approve())
    await agent.run()
    assert results(agent)[-1].text == "Do it well."
    assert skills.active.names == ()

    taken = asyncio.Event()
    agent.on(SkillsActivate, lambda h: taken.set())
    running = asyncio.ensure_future(agent.run("go on"))
    await taken.wait()
    agent.abort()
    with pytest.raises(AgentAbortedError):
        await running
    assert skills.active.names == ()


@pytest.mark.covers("SKL-32", "HOK-35", "AGT-11")
async def test_they_are_looked_for_once_whoever_comes_first(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, _ = agent_with(tmp_path, "hi")
    heard: list[str] = []
    agent.on(SkillsResolve, lambda h: heard.append(f"resolve {[s.name for s in h.skills]}"))
    agent.on(SkillsCatalog, lambda h: heard.append("catalog"))

    await asyncio.gather(agent.activate_skill("pdf"), agent.warmup(), agent.activate_skill("pdf"))
    await agent.run("hi")
    await agent.warmup()

    assert heard == ["resolve ['pdf']", "catalog"]


@pytest.mark.covers("AGT-11")
async def test_skills_are_looked_for_while_others_get_ready(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    resolved, connected = asyncio.Event(), asyncio.Event()

    class Server:
        """Stands for a server: each of the two waits for the other."""

        def install(self, agent: Any) -> None: ...

        def for_child(self) -> None: ...

        async def prepare(self) -> None:
            connected.set()
            await resolved.wait()

    agent, _, skills = agent_with(tmp_path, "hi", plugs=[Server()])

    async def wait(hook: Any) -> None:
        await connected.wait()
        resolved.set()

    agent.on(SkillsResolve, wait)

    await asyncio.wait_for(agent.warmup(), 5)

    assert len(skills.catalog) == 1


@pytest.mark.covers("SKL-40", "HOK-35")
async def test_the_list_may_be_changed_before_it_reaches_the_prompt(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(tmp_path, "hi")
    agent.on(SkillsCatalog, lambda h: {"catalog": h.catalog.replace("All about pdf.", "Ours.")})
    agent.on(SkillsCatalog, lambda h: {"catalog": 5})  # of no use, so it is a failure of the handler

    await agent.run("hi")

    assert "- pdf: Ours." in model.requests[0].request.system


@pytest.mark.covers("SKL-23")
async def test_two_activations_at_once_make_one(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", "!`date`")
    env = MemoryEnv(run=lambda command: "now")
    agent, model, skills = agent_with(tmp_path, "hi", execution=env)
    heard = told(agent)

    await asyncio.gather(*[agent.activate_skill("pdf") for _ in range(5)])
    await agent.run("hi")

    assert env.commands == ["date"]
    assert heard[0] == ("on", "pdf", "explicit")
    assert sum(m.text.count("<skill_content") for m in model.requests[0].messages) == 1
    assert skills.active.names == ("pdf",)  # four of them asserted it again


@pytest.mark.covers("TOL-19")
async def test_load_skill_is_the_same_and_is_decided_on_as_such(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, skills = agent_with(
        tmp_path, [ScriptedCall("load_skill", {"skill": "pdf"}), ScriptedCall("load_skill", {"name": "x"})], "done"
    )
    await agent.run("go")
    first, second = results(agent)
    assert not first.is_error
    assert first.text.startswith("<skill_content")
    assert second.text == "Skill not found: x. Available: pdf."
    assert "load_skill" not in [t.name for t in model.requests[0].request.tools]

    other, _, theirs = agent_with(tmp_path, ScriptedCall("load_skill", {"name": "pdf"}), "done")
    other.on(PermissionCheck, lambda h: h.deny("not here") if h.name == "skills_use" else None)
    await other.run("go")
    assert results(other)[0].text == "Permission denied: not here"
    assert "pdf" not in theirs.active


@pytest.mark.covers("TOL-19")
async def test_an_alias_is_what_the_model_is_told(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(
        tmp_path, ScriptedCall("load_skill", {"name": "pdf"}), "done", tool_aliases={"skills_use": "load_skill"}
    )

    await agent.run("go")

    assert "call load_skill with" in model.requests[0].request.system
    assert "load_skill" in [t.name for t in model.requests[0].request.tools]
    assert results(agent)[0].text.startswith("<skill_content")


@pytest.mark.covers("SKL-14", "SKL-15", "SKL-16", "SKL-12", "SKL-11")
async def test_a_breadcrumb_the_list_when_asked_and_texts_on_a_match(tmp_path: Path) -> None:
    for name in ("aa", "bb", "cc", "dd"):
        write_skill(tmp_path, name, f"Body of {name}.", "triggers:\n  keywords: [merge, split]")
    agent, model, skills = agent_with(tmp_path, "1", "2", "3", "4", tell="breadcrumb")
    heard = told(agent)

    await agent.run("hello")
    await agent.run("What can you do?")
    await agent.run('merge\n<file path="x">\nsplit dd\n</file>')
    await agent.run("now bb: split it")

    assert {seen.request.system for seen in model.requests} == {"Be kind.\n\n[4 skills available]"}
    added = [m.text for m in model.requests[3].messages if m.role == "user"]
    assert added[0] == "hello"
    assert added[2].startswith("<available_skills>\n- aa: All about aa.")
    assert [t.split("\n")[-2] for t in added[4:7]] == ["Body of aa.", "Body of bb.", "Body of cc."]
    assert [each for each in heard if each[0] == "on"][:3] == [("on", n, "trigger") for n in ("aa", "bb", "cc")]
    assert heard[6] == ("on", "bb", "trigger")  # named, so it comes first
    assert sum(t.count("Body of bb.") for t in added) == 1  # it stands there already
    assert skills.active.names == ()


@pytest.mark.covers("SKL-15")
async def test_without_triggers_the_list_stands_in_for_the_breadcrumb(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(tmp_path, "hi", tell="breadcrumb")

    await agent.run("hi")

    assert (
        model.requests[0].request.system == "Be kind.\n\n<available_skills>\n- pdf: All about pdf.\n</available_skills>"
    )


@pytest.mark.covers("SKL-13")
async def test_nothing_is_told_where_nothing_is_to_be(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", "B.", "triggers:\n  keywords: [pdf]")
    agent, model, _ = agent_with(tmp_path, "hi", tell="none")

    await agent.run("my pdf: list skills")

    assert model.requests[0].request.system == "Be kind."
    assert len(model.requests[0].messages) == 1


@pytest.mark.covers("SKL-11", "SKL-12")
async def test_recent_use_is_asked_for_and_noted(tmp_path: Path) -> None:
    for name in ("aa", "bb"):
        write_skill(tmp_path, name, head="triggers:\n  keywords: [merge]")

    class Noted:
        def __init__(self) -> None:
            self.names: list[str] = []

        def last_used(self) -> Mapping[str, float]:
            return {"bb": 5.0}

        def record_use(self, name: str) -> None:
            self.names.append(name)

    usage = Noted()
    agent, _, _ = agent_with(tmp_path, "hi", usage=usage, max_skills=1)
    heard = told(agent)

    await agent.run("merge")

    assert heard[0] == ("on", "bb", "trigger")
    assert usage.names == ["bb"]


@pytest.mark.covers("SKL-16")
async def test_what_is_said_meanwhile_calls_for_skills_too(tmp_path: Path) -> None:
    write_skill(tmp_path, "aa")
    write_skill(tmp_path, "zip", "Zip it.", "triggers:\n  keywords: [archive]")
    agent, model, _ = agent_with(tmp_path, use("aa"), "done")
    agent.on(ToolFinished, lambda h: agent.steer("make an archive"))

    await agent.run("go")

    assert [m.text.split("\n")[-2:][0] for m in model.requests[1].messages[-2:]] == ["make an archive", "Zip it."]


@pytest.mark.covers("SKL-22")
async def test_a_run_with_tools_of_its_own_is_not_told(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(tmp_path, "hi")

    await agent.run("hi", tools=[])

    assert model.requests[0].request.system == "Be kind."


async def test_a_tool_of_that_name_stays_the_applications(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")

    def skills_use(name: str) -> str:
        """Mine."""
        return f"mine {name}"

    agent, _, skills = agent_with(tmp_path, use("pdf"), "done", tools=[skills_use])

    await agent.run("go")

    assert results(agent)[0].text == "mine pdf"
    assert "a tool with this name exists" in skills.problems[0]


@pytest.mark.covers("SKL-24")
async def test_options_and_mistakes(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    inline = Skill(name="inline", description="d", brief="d", source="inline", text="Inline text.", trusted=True)
    model = ScriptedModel(use("inline"), "done")
    agent = Agent(model, skills=[tmp_path, inline], execution=MemoryEnv())
    await agent.run("go")
    assert "Inline text." in results(agent)[0].text
    assert "- pdf:" in model.requests[0].request.system

    with pytest.raises(ConfigError, match="takes Skills"):
        Agent(ScriptedModel(), execution=MemoryEnv(), skills=cast("Any", [5]))
    with pytest.raises(AgentError, match="has no skills"):
        await Agent(ScriptedModel(), execution=MemoryEnv()).activate_skill("x")
    with pytest.raises(SkillError, match="Skill not found: nope"):
        await agent.activate_skill("nope")
    plug = SkillsPlug(SkillsConfig(builtin=False))
    Agent(ScriptedModel(), execution=MemoryEnv(), skills=plug)
    with pytest.raises(ConfigError, match="belong to another agent"):
        Agent(ScriptedModel(), execution=MemoryEnv(), skills=plug)


async def test_a_skill_only_for_people_is_not_told_and_not_used_by_the_model(tmp_path: Path) -> None:
    write_skill(tmp_path, "deploy", head="disable-model-invocation: true")
    write_skill(tmp_path, "pdf")
    agent, model, _ = agent_with(tmp_path, use("deploy"), "done")

    await agent.activate_skill("deploy")
    await agent.run("go")

    assert "deploy" not in model.requests[0].request.system
    assert results(agent)[0].text == "Skill not found: deploy. Available: pdf."
    assert model.requests[0].messages[1].text.startswith('<skill_content name="deploy"')


@pytest.mark.covers("SKL-17")
async def test_a_skill_that_is_gone_or_broken_by_then_is_an_error(tmp_path: Path) -> None:
    own = write_skill(tmp_path, "pdf")
    agent, _, skills = agent_with(tmp_path, use("pdf"), "done")
    await agent.warmup()
    (own / "SKILL.md").unlink()

    await agent.run("go")

    assert results(agent)[0].is_error
    assert "was not activated" in results(agent)[0].text
    assert isinstance(agent.messages[0], Message)
    assert skills.active.names == ()
