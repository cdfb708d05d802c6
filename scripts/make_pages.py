"""Copy the pages of the site: `python scripts/make_pages.py docs build/docs`.

On the fence of a block a word may follow the language, for the tests (`python async`, `python notest`). What makes the site takes such a
line for text, and everything behind it for code; so the copies have the language only.
"""

import re
import shutil
import sys
from pathlib import Path

FENCE = re.compile(r"^( *)(`{3,})([\w+-]+)[ \t]+[^`\n]*$", re.MULTILINE)


def for_site(text: str) -> str:
    """A page as the site needs it."""
    return FENCE.sub(r"\1\2\3", text)


def main(source: Path, target: Path) -> None:
    """Copy all pages and what they show; what the folder held before is gone."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("reference"))
    for page in target.rglob("*.md"):
        page.write_text(for_site(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
