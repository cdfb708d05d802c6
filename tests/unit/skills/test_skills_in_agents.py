"""Skills in an agent: listing, activation, and deactivation."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring import Agent, AgentError, Approve, ConfigError
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.events import SkillChange
from mainspring.events.codec import encode
from mainspring.loop.hooks import (
    PermissionCheck,
    SkillsCatalog,
    ToolFinished,
    ToolGate,
)
from mainspring.messages import Message
from mainspring.skills import Skill, SkillError, SkillsConfig, SkillsPlug
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from tests.unit.skills.factories import make_agent, results, write_skill

pytestmark = pytest.mark.usefixtures("no_blocking")


def record_events(agent: Agent) -> list[tuple[str, ...]]:
    """Return a list that records activations and deactivations of skills."""
    events: list[tuple[str, ...]] = []
    agent.on("skills:activate", lambda e: events.append(("on", e.name, e.reason)))
    agent.on("skills:deactivate", lambda e: events.append(("off", e.name, e.reason)))
    return events


def use_skill(name: str) -> ScriptedCall:
    return ScriptedCall("skills_use", {"name": name})


@pytest.mark.covers("SKL-17", "SKL-22", "SKL-29", "TOL-19")
async def test_prompt_lists_skills_and_a_tool_returns_the_text(tmp_path: Path) -> None:
    skill_folder = write_skill(
        tmp_path, "pdf", "Rotate by 90.", "compatibility: needs qpdf\nallowed-tools: Read", references__guide_dot_md="x"
    )
    agent, model, _ = make_agent(tmp_path, use_skill("pdf"), "done")

    await agent.run("rotate it")

    first = model.requests[0].request
    assert first.system.startswith("Be kind.\n\n# Skills")
    assert "- pdf: All about pdf." in first.system
    assert "Rotate by 90" not in first.system
    assert [t.name for t in first.tools] == ["skills_use", "skills_read", "skills_run_script"]
    assert results(agent)[0].text == (
        f'<skill_content name="pdf" directory="{skill_folder}">\nCompatibility: needs qpdf\nAllowed tools: Read\n'
        "Files, for skills_read: references/guide.md\n\nRotate by 90.\n</skill_content>"
    )


@pytest.mark.covers("HOK-35")
async def test_changes_have_the_skill_and_its_cause(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, _ = make_agent(tmp_path, use_skill("pdf"), "done")
    changes: list[SkillChange] = []
    agent.on("skills:activate", changes.append)
    agent.on("skills:deactivate", changes.append)

    await agent.run("rotate it")
    await agent.activate_skill("pdf")
    agent.reset()

    assert [(c.skill.name, c.skill.description) for c in changes] == [("pdf", "All about pdf.")] * 4
    assert [(c.via, c.reason) for c in changes] == [
        ("model", "model"),
        ("", "run-end"),
        ("explicit", "explicit"),
        ("", "reset"),
    ]
    assert "All about" not in encode(changes[0]).decode(), "only the name leaves the process"


@pytest.mark.covers("SKL-13", "SKL-22")
async def test_agent_without_skills_has_no_list_and_no_tools(tmp_path: Path) -> None:
    agent, model, skills = make_agent(tmp_path, "hi", "ho")

    await agent.run("hello")
    await agent.run("again")

    assert model.requests[1].request.system == "Be kind."
    assert model.requests[1].request.tools == ()
    assert len(skills.catalog) == 0


@pytest.mark.covers("SKL-17")
async def test_unknown_skill_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, _ = make_agent(
        tmp_path,
        [use_skill("pfd"), use_skill("zzz"), ScriptedCall("skills_read", {"skill": "no", "path": "x"})],
        "done",
    )

    await agent.run("go")

    assert [(r.is_error, r.text) for r in results(agent)] == [
        (True, "Skill not found: pfd. Did you mean pdf?"),
        (True, "Skill not found: zzz. Available: pdf."),
        (True, "Skill not found: no. Available: pdf."),
    ]


@pytest.mark.covers("SKL-23", "SKL-25", "SKL-26", "HOK-35")
async def test_skill_is_active_until_the_end_of_the_run(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, skills = make_agent(
        tmp_path, [use_skill("pdf"), use_skill(" /PDF ")], use_skill("pdf"), "done", use_skill("pdf"), "done"
    )
    events = record_events(agent)

    await agent.run("go")
    assert skills.active.names == ()
    await agent.run("again")

    texts = [r.text for r in results(agent)]
    assert [t.startswith("<skill_content") for t in texts] == [True, False, False, False]
    assert texts[1] == texts[2] == "The skill pdf is active already; its instructions are above and still apply."
    assert texts[3] == "The skill pdf is active again; its instructions are above, unchanged."
    assert events == [("on", "pdf", "model"), ("off", "pdf", "run-end")] * 2
    assert len({seen.request.system for seen in model.requests}) == 1


@pytest.mark.covers("SKL-23")
async def test_number_of_active_skills_is_limited(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_skill(tmp_path, name)
    agent, _, _ = make_agent(
        tmp_path, [use_skill("a"), use_skill("b"), use_skill("c"), use_skill("a")], "done", max_active=2
    )

    await agent.run("go")

    third, again = results(agent)[2:]
    assert third.is_error
    assert third.text == "The skill c was not activated: 2 skills are active (a, b), which is the maximum"
    assert not again.is_error


@pytest.mark.covers("SKL-24", "SKL-25", "SKL-26")
async def test_application_can_activate_a_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, skills = make_agent(tmp_path, "one", "two", "three")
    events = record_events(agent)

    await agent.activate_skill("pdf")
    assert skills.active.names == ("pdf",)
    await agent.run("go")
    await agent.run("go on")

    second = model.requests[0].messages[1]
    assert second.role == "user"
    assert second.text.startswith('<skill_content name="pdf"')
    assert [m.text.count("<skill_content") for m in model.requests[1].messages] == [0, 1, 0, 0]
    assert events == [("on", "pdf", "explicit"), ("off", "pdf", "run-end")]

    await agent.activate_skill("pdf")
    await agent.activate_skill("pdf")
    await agent.run("asserted again")
    assert skills.active.names == ("pdf",)
    assert await agent.deactivate_skill("pdf")
    assert not await agent.deactivate_skill("pdf")
    assert events[-1] == ("off", "pdf", "explicit")


@pytest.mark.covers("SKL-24", "SKL-29")
async def test_reactivated_skill_is_announced_without_its_text(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(tmp_path, "one", "two")

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
async def test_skill_activated_during_a_run_is_added_after_the_results(tmp_path: Path) -> None:
    write_skill(tmp_path, "a")
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(tmp_path, use_skill("a"), "done")

    async def activate(hook: Any) -> None:
        if hook.name == "skills_use":
            await agent.activate_skill("pdf")

    agent.on(ToolFinished, activate)
    await agent.run("go")

    last = model.requests[1].messages[-1]
    assert last.text.startswith('<skill_content name="pdf"')
    assert agent.messages[3] is last


@pytest.mark.covers("SKL-25", "AGT-26")
async def test_reset_deactivates_skills_and_notifies_handlers(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, skills = make_agent(tmp_path, "hi")
    events = record_events(agent)
    later: list[str] = []

    async def record_reason(hook: Any) -> None:
        later.append(hook.reason)

    agent.on("skills:deactivate", record_reason)
    await agent.activate_skill("pdf")
    agent.reset()

    assert skills.active.names == ()
    assert events == [("on", "pdf", "explicit"), ("off", "pdf", "reset")]
    await agent.run("hi")
    assert later == ["reset"]
    assert len(events) == 2


@pytest.mark.covers("SKL-26")
async def test_paused_run_keeps_active_skills_and_aborted_run_does_not(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, skills = make_agent(
        tmp_path,
        use_skill("pdf"),
        ScriptedCall("skills_read", {"skill": "pdf", "path": "SKILL.md"}),
        "done",
        use_skill("pdf"),
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

    activated = asyncio.Event()
    agent.on("skills:activate", lambda h: activated.set())
    running = asyncio.ensure_future(agent.run("go on"))
    await activated.wait()
    agent.abort()
    with pytest.raises(AgentAbortedError):
        await running
    assert skills.active.names == ()


@pytest.mark.covers("SKL-32", "HOK-35", "AGT-11")
async def test_skills_are_discovered_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, _, _ = make_agent(tmp_path, "hi")
    events: list[str] = []
    agent.on("skills:resolve", lambda h: events.append(f"resolve {[s.name for s in h.skills]}"))
    agent.on(SkillsCatalog, lambda h: events.append("catalog"))

    await asyncio.gather(agent.activate_skill("pdf"), agent.warmup(), agent.activate_skill("pdf"))
    await agent.run("hi")
    await agent.warmup()

    assert events == ["resolve ['pdf']", "catalog"]


@pytest.mark.covers("AGT-11")
async def test_skills_are_discovered_in_parallel_with_other_plugins(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    resolved, connected = asyncio.Event(), asyncio.Event()

    class FakeServer:
        """Replaces a server whose startup and the skill discovery wait for each other."""

        def install(self, agent: Any) -> None: ...

        def for_child(self) -> None: ...

        async def prepare(self) -> None:
            connected.set()
            await resolved.wait()

    agent, _, skills = make_agent(tmp_path, "hi", plugs=[FakeServer()])

    async def wait_for_server(hook: Any) -> None:
        await connected.wait()
        resolved.set()

    agent.on("skills:resolve", wait_for_server)

    await agent.warmup()

    assert len(skills.catalog) == 1


@pytest.mark.covers("SKL-40", "HOK-35")
async def test_handler_can_change_the_skill_list(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(tmp_path, "hi")
    agent.on(SkillsCatalog, lambda h: {"catalog": h.catalog.replace("All about pdf.", "Ours.")})
    agent.on(SkillsCatalog, lambda h: {"catalog": 5})  # invalid, so the handler fails

    await agent.run("hi")

    assert "- pdf: Ours." in model.requests[0].request.system


@pytest.mark.covers("SKL-23")
async def test_concurrent_activations_activate_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", "!`date`")
    env = MemoryEnv(run=lambda command: "now")
    agent, model, skills = make_agent(tmp_path, "hi", execution=env)
    events = record_events(agent)

    await asyncio.gather(*[agent.activate_skill("pdf") for _ in range(5)])
    await agent.run("hi")

    assert env.commands == ["date"]
    assert events[0] == ("on", "pdf", "explicit")
    assert sum(m.text.count("<skill_content") for m in model.requests[0].messages) == 1
    assert skills.active.names == ("pdf",)  # the other four calls changed nothing


@pytest.mark.covers("TOL-19")
async def test_load_skill_is_an_alias_of_skills_use(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, skills = make_agent(
        tmp_path, [ScriptedCall("load_skill", {"skill": "pdf"}), ScriptedCall("load_skill", {"name": "x"})], "done"
    )
    await agent.run("go")
    first, second = results(agent)
    assert not first.is_error
    assert first.text.startswith("<skill_content")
    assert second.text == "Skill not found: x. Available: pdf."
    assert "load_skill" not in [t.name for t in model.requests[0].request.tools]

    other, _, other_skills = make_agent(tmp_path, ScriptedCall("load_skill", {"name": "pdf"}), "done")
    other.on(PermissionCheck, lambda h: h.deny("not here") if h.name == "skills_use" else None)
    await other.run("go")
    assert results(other)[0].text == "Permission denied: not here"
    assert "pdf" not in other_skills.active


@pytest.mark.covers("TOL-19")
async def test_alias_of_the_tool_is_used_in_the_prompt(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(
        tmp_path, ScriptedCall("load_skill", {"name": "pdf"}), "done", tool_aliases={"skills_use": "load_skill"}
    )

    await agent.run("go")

    assert "call load_skill with" in model.requests[0].request.system
    assert "load_skill" in [t.name for t in model.requests[0].request.tools]
    assert results(agent)[0].text.startswith("<skill_content")


@pytest.mark.covers("SKL-14", "SKL-15", "SKL-16", "SKL-12", "SKL-11")
async def test_breadcrumb_mode_lists_on_request_and_activates_on_triggers(tmp_path: Path) -> None:
    for name in ("aa", "bb", "cc", "dd"):
        write_skill(tmp_path, name, f"Body of {name}.", "triggers:\n  keywords: [merge, split]")
    agent, model, skills = make_agent(tmp_path, "1", "2", "3", "4", catalog_mode="breadcrumb")
    events = record_events(agent)

    await agent.run("hello")
    await agent.run("What can you do?")
    await agent.run('merge\n<file path="x">\nsplit dd\n</file>')
    await agent.run("now bb: split it")

    assert {seen.request.system for seen in model.requests} == {"Be kind.\n\n[4 skills available]"}
    added = [m.text for m in model.requests[3].messages if m.role == "user"]
    assert added[0] == "hello"
    assert added[2].startswith("<available_skills>\n- aa: All about aa.")
    assert [t.split("\n")[-2] for t in added[4:7]] == ["Body of aa.", "Body of bb.", "Body of cc."]
    assert [each for each in events if each[0] == "on"][:3] == [("on", n, "trigger") for n in ("aa", "bb", "cc")]
    assert events[6] == ("on", "bb", "trigger")  # named in the prompt, so it comes first
    assert sum(t.count("Body of bb.") for t in added) == 1  # the text is already in the history
    assert skills.active.names == ()


@pytest.mark.covers("SKL-15")
async def test_breadcrumb_mode_lists_skills_without_triggers(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(tmp_path, "hi", catalog_mode="breadcrumb")

    await agent.run("hi")

    assert (
        model.requests[0].request.system == "Be kind.\n\n<available_skills>\n- pdf: All about pdf.\n</available_skills>"
    )


@pytest.mark.covers("SKL-13")
async def test_mode_none_announces_no_skills(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", "B.", "triggers:\n  keywords: [pdf]")
    agent, model, _ = make_agent(tmp_path, "hi", catalog_mode="none")

    await agent.run("my pdf: list skills")

    assert model.requests[0].request.system == "Be kind."
    assert len(model.requests[0].messages) == 1


@pytest.mark.covers("SKL-11", "SKL-12")
async def test_usage_store_is_read_and_updated(tmp_path: Path) -> None:
    for name in ("aa", "bb"):
        write_skill(tmp_path, name, head="triggers:\n  keywords: [merge]")

    class FakeUsage:
        def __init__(self) -> None:
            self.names: list[str] = []

        def last_used(self) -> Mapping[str, float]:
            return {"bb": 5.0}

        def record_use(self, name: str) -> None:
            self.names.append(name)

    usage = FakeUsage()
    agent, _, _ = make_agent(tmp_path, "hi", usage=usage, max_skills=1)
    events = record_events(agent)

    await agent.run("merge")

    assert events[0] == ("on", "bb", "trigger")
    assert usage.names == ["bb"]


@pytest.mark.covers("SKL-16")
async def test_steering_message_can_trigger_a_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "aa")
    write_skill(tmp_path, "zip", "Zip it.", "triggers:\n  keywords: [archive]")
    agent, model, _ = make_agent(tmp_path, use_skill("aa"), "done")
    agent.on(ToolFinished, lambda h: agent.steer("make an archive"))

    await agent.run("go")

    assert [m.text.split("\n")[-2:][0] for m in model.requests[1].messages[-2:]] == ["make an archive", "Zip it."]


@pytest.mark.covers("SKL-22")
async def test_run_with_its_own_tools_gets_no_skill_list(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(tmp_path, "hi")

    await agent.run("hi", tools=[])

    assert model.requests[0].request.system == "Be kind."


async def test_tool_of_the_application_with_the_same_name_wins(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")

    def skills_use(name: str) -> str:
        """Mine."""
        return f"mine {name}"

    agent, _, skills = make_agent(tmp_path, use_skill("pdf"), "done", tools=[skills_use])

    await agent.run("go")

    assert results(agent)[0].text == "mine pdf"
    assert "a tool with this name exists" in skills.problems[0]


@pytest.mark.covers("SKL-24")
async def test_options_and_errors(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    inline = Skill(name="inline", description="d", brief="d", source="inline", text="Inline text.", trusted=True)
    model = ScriptedModel(use_skill("inline"), "done")
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


async def test_user_only_skill_is_hidden_from_the_model(tmp_path: Path) -> None:
    write_skill(tmp_path, "deploy", head="disable-model-invocation: true")
    write_skill(tmp_path, "pdf")
    agent, model, _ = make_agent(tmp_path, use_skill("deploy"), "done")

    await agent.activate_skill("deploy")
    await agent.run("go")

    assert "deploy" not in model.requests[0].request.system
    assert results(agent)[0].text == "Skill not found: deploy. Available: pdf."
    assert model.requests[0].messages[1].text.startswith('<skill_content name="deploy"')


@pytest.mark.covers("SKL-17")
async def test_deleted_skill_is_an_error_on_activation(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path, "pdf")
    agent, _, skills = make_agent(tmp_path, use_skill("pdf"), "done")
    await agent.warmup()
    (skill_folder / "SKILL.md").unlink()

    await agent.run("go")

    assert results(agent)[0].is_error
    assert "was not activated" in results(agent)[0].text
    assert isinstance(agent.messages[0], Message)
    assert skills.active.names == ()
