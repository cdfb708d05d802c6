"""Write the index of bundled skills from their front matter: `python -m scripts.make_skill_index`."""

import json

from mainspring.frontmatter import parse_fields_and_body
from mainspring.skills.content import read_text
from mainspring.skills.discovery import BUNDLED_FOLDER, BUNDLED_INDEX


def build() -> str:
    """Return the text of the index."""
    files = sorted(BUNDLED_FOLDER.glob("*/SKILL.md"))
    index = {file.parent.name: parse_fields_and_body(read_text(file))[0] for file in files}
    return json.dumps(index, ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    BUNDLED_INDEX.write_text(build(), encoding="utf-8")
