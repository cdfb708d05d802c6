"""A new skill, as a folder with something to fill in."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from mainspring.skills.manifest import LONGEST_DESCRIPTION
from mainspring.skills.skill import SkillError
from mainspring.skills.strict_validation import strict_faults

_DESCRIPTION = "Says what this skill does. Use it when the user asks for that."

_TEXT = """---
name: {name}
description: {description}
---

# {title}

Say here, step by step, what is to be done. Keep it short: the whole text is read whenever the skill is used.

## Steps

1. First do this.
2. Then check that.

## Examples

- "A request that this skill is for": what is done then.
"""


def scaffold(folder: Path, name: str, *, description: str = "", scripts: bool = False) -> Path:
    """Make the folder of a new skill. Blocks.

    Args:
        folder: The folder of skills to make it in.
        name: Its name: lower-case letters, digits and single hyphens.
        description: What it does and when to use it; a text to fill in if left out.
        scripts: Whether it has programs.

    Returns:
        Its ``SKILL.md``.

    Raises:
        SkillError: If the name or description cannot be, there is one of that name, or it cannot be written.
    """
    told = " ".join(description.split()) or _DESCRIPTION
    if len(told) > LONGEST_DESCRIPTION:
        raise SkillError(f"a description has {LONGEST_DESCRIPTION} characters at most, not {len(told)}")
    quoted = '"' + told.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = _TEXT.format(
        name=name, description=quoted if description else told, title=name.replace("-", " ").capitalize()
    )
    faults = strict_faults(text, name)
    if faults or not name.strip() or "/" in name:
        why = "; ".join(f.text for f in faults) or "it has a name"
        raise SkillError(
            f"{name!r} cannot be the name of a skill: {why}. Take lower-case letters, digits and single hyphens"
        )
    target = folder / name
    if os.path.lexists(target):
        raise SkillError(f"there is {target} already")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=".staging-", dir=folder))
        try:
            made = outer / name
            made.mkdir(mode=0o755)
            (made / "SKILL.md").write_text(text, encoding="utf-8")
            if scripts:
                (made / "scripts").mkdir()
                (made / "scripts" / "example.py").write_text(_SCRIPT, encoding="utf-8")
            made.rename(target)
        finally:
            shutil.rmtree(outer, ignore_errors=True)
    except OSError as error:
        raise SkillError(f"{target}: cannot be made: {error.strerror or error}") from error
    return target / "SKILL.md"


_SCRIPT = '''"""An example: prints its arguments. The agent runs it as scripts/example.py."""

import sys

print("arguments:", *sys.argv[1:])
'''
