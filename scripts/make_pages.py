"""Copy the pages of the site: `python scripts/make_pages.py docs build/docs`.

A word for the tests may follow the language on the fence of a block (`python async`, `python notest`). The site generator does not
recognize such a fence, so the copies have only the language.
"""

import re
import shutil
import sys
from pathlib import Path

FENCE = re.compile(r"^( *)(`{3,})([\w+-]+)[ \t]+[^`\n]*$", re.MULTILINE)


def strip_fence_words(text: str) -> str:
    """Return a page whose fences have only the language."""
    return FENCE.sub(r"\1\2\3", text)


def main(source: Path, target: Path) -> None:
    """Replace the target folder with a copy of all pages, images, and schemas."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("reference"))
    for page in target.rglob("*.md"):
        page.write_text(strip_fence_words(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
