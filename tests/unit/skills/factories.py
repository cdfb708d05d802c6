"""Skills and agents for these tests."""

from pathlib import Path
from typing import Any

from mainspring import Agent
from mainspring.env.memory import MemoryEnv
from mainspring.messages import ToolResultBlock
from mainspring.skills import SkillsConfig, SkillsPlug
from mainspring.testing import ScriptedModel


def write_skill(folder: Path, name: str, body: str = "Do it well.", head: str = "", **files: str) -> Path:
    """Create a skill folder; keyword arguments are more files, with ``__`` for ``/`` in their paths."""
    skill_folder = folder / name
    skill_folder.mkdir(parents=True, exist_ok=True)
    lines = head if "description:" in head else f"description: All about {name}.\n{head}"
    (skill_folder / "SKILL.md").write_text(f"---\nname: {name}\n{lines}\n---\n\n{body}\n", encoding="utf-8")
    for path, text in files.items():
        file = skill_folder / path.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return skill_folder


def make_agent(folder: Path, *script: Any, **options: Any) -> tuple[Agent, ScriptedModel, SkillsPlug]:
    """Create an agent with the skills of a folder, a scripted model, and an in-memory environment."""
    model = options.pop("model", None) or ScriptedModel(*script)
    config = {k: options.pop(k) for k in ("max_skills", "max_active", "inline") if k in options}
    plug = {k: options.pop(k) for k in ("catalog_mode", "usage", "toolsets", "confirm", "catalog") if k in options}
    skills = SkillsPlug(SkillsConfig(user=(str(folder),), builtin=False, **config), **plug)
    options.setdefault("execution", MemoryEnv())
    return Agent(model, skills=skills, system="Be kind.", **options), model, skills


def results(agent: Agent) -> list[ToolResultBlock]:
    """Return all tool results, in order."""
    return [b for m in agent.messages for b in getattr(m, "tool_results", ())]
