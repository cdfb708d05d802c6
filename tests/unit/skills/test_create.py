"""Creating a skill from a conversation; later conversations can use the skill."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionRequest, Permissions, Reply
from mainspring.skills import SkillDraft, SkillsConfig, SkillsPlug
from mainspring.skills.authoring import render_skill
from mainspring.skills.manifest import parse_skill
from mainspring.testing import ScriptedCall, ScriptedModel
from tests.unit.skills.factories import results

_TEXT = "1. Read the log.\n2. Link tickets.\n\nRules: no adjectives."


def create_call(**more: object) -> ScriptedCall:
    given = {
        "name": "release-notes",
        "description": 'Writes notes: "short" ones. Use for releases.',
        "instructions": _TEXT,
    }
    return ScriptedCall("skills_create", {**given, **more})


def make_skills_agent(tmp_path: Path, *script: Any, confirm: Any = None) -> tuple[Agent, ScriptedModel]:
    config = SkillsConfig(
        user=(str(tmp_path / "home" / "skills"),), project=str(tmp_path / "p"), trust_project_skills=True
    )
    model = ScriptedModel(*script)
    return Agent(model, skills=SkillsPlug(config, confirm=confirm), execution=MemoryEnv()), model


@pytest.mark.covers("SKL-34", "SKL-37")
async def test_confirmed_skill_is_written_and_used_later(tmp_path: Path) -> None:
    drafts: list[SkillDraft] = []

    def confirm(written: SkillDraft) -> bool:
        drafts.append(written)
        return True

    use = ScriptedCall("skills_use", {"name": "create-skill"})
    agent, model = make_skills_agent(
        tmp_path,
        "the notes",
        use,
        create_call(),
        "there it is",
        use,
        create_call(replace=True, instructions="3. Newest first."),
        "done",
        confirm=confirm,
    )
    await agent.run("write release notes; no adjectives")
    await agent.run("Create a skill from what we just did")
    await agent.run("newest first, please")

    file = tmp_path / "p" / ".agent" / "skills" / "release-notes" / "SKILL.md"
    assert file.read_text(encoding="utf-8").endswith("---\n\n3. Newest first.\n")
    assert [(w.path, w.replaces) for w in drafts] == [(str(file), False), (str(file), True)]
    assert drafts[0].text.endswith(f"{_TEXT}\n")
    assert "create-skill" in (model.requests[0].request.system or "")
    assert "skills_create" not in [t.name for t in model.requests[0].request.tools]
    assert "skills_create" in [t.name for t in model.requests[2].request.tools]

    later, model = make_skills_agent(tmp_path, ScriptedCall("skills_use", {"name": "release-notes"}), "done")
    await later.run("release notes, please")
    assert '- release-notes: Writes notes: "short" ones. Use for releases.' in (model.requests[0].request.system or "")
    assert "3. Newest first." in results(later)[0].text


@pytest.mark.covers("SKL-34", "SKL-37")
async def test_link_in_the_project_cannot_redirect_a_new_skill(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "p" / ".agent").mkdir(parents=True)
    (tmp_path / "p" / ".agent" / "skills").symlink_to(outside)
    agent, _ = make_skills_agent(
        tmp_path, ScriptedCall("skills_use", {"name": "create-skill"}), create_call(), "no", confirm=lambda _: True
    )

    await agent.run("Create a skill from what we just did")

    assert "leads out of it" in str(results(agent)[-1].content)
    assert list(outside.iterdir()) == []


@pytest.mark.covers("SKL-34")
@pytest.mark.parametrize(("where", "folder"), [("user", "home/skills"), ("project", "p/.agent/skills")])
async def test_skill_is_written_to_the_requested_folder(tmp_path: Path, where: str, folder: str) -> None:
    use = ScriptedCall("skills_use", {"name": "create-skill"})
    agent, _ = make_skills_agent(tmp_path, use, create_call(where=where), "ok", confirm=lambda _: True)

    await agent.run("create a skill")

    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("SKILL.md")] == [f"{folder}/release-notes/SKILL.md"]


@pytest.mark.covers("SKL-34", "SKL-37")
async def test_unconfirmed_skill_is_not_written(tmp_path: Path) -> None:
    async def reject(written: SkillDraft) -> bool:
        return False

    for confirm in (None, reject, lambda written: "yes"):
        agent, _ = make_skills_agent(
            tmp_path, ScriptedCall("skills_use", {"name": "create-skill"}), create_call(), "ok", confirm=confirm
        )
        await agent.run("create a skill")
        assert "did not confirm it" in results(agent)[1].text
    assert not (tmp_path / "p").exists()


@pytest.mark.covers("SKL-34", "SKL-37")
@pytest.mark.parametrize(
    ("invalid_fields", "why"),
    [
        ({"name": "../evil"}, "is not a valid name"),
        ({"name": "Upper"}, "is not a valid name"),
        ({"name": "a--b"}, "is not a valid name"),
        ({"name": "x" * 65}, "is not a valid name"),
        ({"description": " "}, "needs 1 to 1024"),
        ({"description": "x" * 1025}, "needs 1 to 1024"),
        ({"instructions": "\n"}, "need 1 to"),
        ({"instructions": "x" * 60_001}, "need 1 to 60000"),
        ({"instructions": "do \u202eit"}, "invisible characters"),
        ({"instructions": "key: sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ"}, "key or password"),
        ({"name": "there"}, "is there already"),
        ({"name": "linked", "replace": True}, "it is a link"),
    ],
)
async def test_invalid_skill_is_rejected(tmp_path: Path, invalid_fields: dict[str, object], why: str) -> None:
    folder = tmp_path / "p" / ".agent" / "skills"
    (folder / "there").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    agent, _ = make_skills_agent(
        tmp_path,
        ScriptedCall("skills_use", {"name": "create-skill"}),
        create_call(**invalid_fields),
        "ok",
        confirm=lambda written: True,
    )

    await agent.run("create a skill")

    assert results(agent)[1].is_error
    assert why in results(agent)[1].text
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.covers("SKL-34")
async def test_permission_request_has_the_file_content(tmp_path: Path) -> None:
    permission_requests: list[PermissionRequest] = []

    def ask(request: PermissionRequest) -> bool:
        permission_requests.append(request)
        return True

    config = SkillsConfig(project=str(tmp_path), trust_project_skills=True)
    model = ScriptedModel(ScriptedCall("skills_use", {"name": "create-skill"}), create_call(), "done")
    agent = Agent(
        model,
        skills=SkillsPlug(config, confirm=lambda written: True),
        execution=str(tmp_path),
        permissions=Permissions(on_permission_request=ask, allow=["scope:fs-write"]),
    )

    await agent.run("create a skill")

    assert [(a.tool, a.action, a.input["instructions"]) for a in permission_requests] == [
        ("skills_create", "write", _TEXT)
    ]
    assert not results(agent)[1].is_error


@pytest.mark.covers("SKL-34")
@given(
    description=st.text(min_size=1, max_size=80).filter(lambda t: t.strip() and t.isprintable()),
    body=st.text(alphabet="ab-#:`'\"\\\n ", min_size=1, max_size=80).filter(str.strip),
)
def test_rendered_skill_parses_back(description: str, body: str) -> None:
    try:
        text = render_skill("a-b", description, body)
    except ValueError:
        return

    parsed = parse_skill(text, source="user")

    assert parsed.name == "a-b"
    assert parsed.description == " ".join(description.split())
    assert not parsed.warnings


async def test_approval_of_a_new_skill_applies_to_one_call(tmp_path: Path) -> None:
    requests: list[PermissionRequest] = []

    def ask(request: PermissionRequest) -> Reply:
        requests.append(request)
        return Reply(allow=True, session=True)

    script = [ScriptedCall("skills_use", {"name": "create-skill"}), create_call(), create_call(replace=True), "done"]
    agent, _ = make_skills_agent(tmp_path, *script, confirm=lambda draft: True)
    permissions = Permissions(on_permission_request=ask)
    permissions.install(agent)
    await agent.run("go")

    assert [(r.is_once, r.suggestions, r.wider) for r in requests] == [(True, (), ())] * 2
    assert permissions.session_grants == ()
