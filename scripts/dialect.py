"""Count the dialect words in code and docs: `python -m scripts.dialect [--list] [PATH...]`.

`check_sizes.py` stores the counts, which may only fall. A match in code counts if it is in a docstring, a comment, or a string.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

DIALECT = {
    r"told|tells?(?! the agent what to do instead)|telling": "notify, report, publish",
    r"whoever": "the caller, the client",
    r"there (?:is|are|was|were) no(?:ne|thing)?": "unknown X, X not found, X does not exist",
    r"(?:is|are|was|were) no(?:ne)?(?! longer)": "is not a, invalid",
    r"somebody|nobody|anybody|everybody|people|persons?": "the user, no user, any client",
    r"stands?|stood|standing": "is, is stored, applies",
    r"go(?:es|ing|ne)? on|went on": "continues, is running, resumes",
    r"gave|give(?:s|n)? back|gives|giving": "returned, returns",
    r"(?:take[sn]?|taking|took) (?:up|along|away)": "resume, start, remove",
    r"as far as|as it is|as they are|as it was": "if known, unchanged",
    r"mend(?:s|ed|ing)?": "fix",
    r"brought|brings?|bringing": "provide, include, add",
    r"anew|meanwhile|in vain|for ever|at last": "again, while, forever (or delete)",
    r"at once": "immediately, at the same time",
    r"beside|besides|behind": "in addition to, after, next to",
    r"by (?:itself|themselves)|of its own|of their own": "automatically, separate, custom",
    r"(?:is|are|was|were) to be": "must, should, will",
    r"as in": "for example,",
    r"look(?:s|ed|ing)? (?:at|through|for)|looks": "check, find, search",
    r"says?|said|saying": "contains, reports, states",
    r"let(?:s|ting)? go": "release",
    r"com(?:es|e|ing) (?:to|of it)|came to": "results in, reaches",
    r"kept|keeps to": "stored, preserved",
    r"(?:take|took|taken|takes) for": "treated as",
    r"holds?|held|holding": "applies, contains, stores",
    r"twins?|halves|rooms?|seats?|lanes?|desks?|deeds?|doors?|entrances?": "counterpart, state, queue, action",
    r"belongs? into": "is not allowed in",
    r"ways? out|put right|set right|fall(?:s|en)? away|broken? off|breaks off|broke off": "exit, fix, expire, abort",
}
"""Words of the private dialect, and what to write instead: the only list of them. The style guide explains each."""

PATTERN = re.compile(rf"\b(?:{'|'.join(DIALECT)})\b", re.IGNORECASE)

FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)


def find_words(text: str) -> list[str]:
    """Return every dialect word of a text, in lower case."""
    return [match.lower() for match in PATTERN.findall(text)]


def doc_text(text: str) -> str:
    """Return the prose of a Markdown page, without code in backticks, and the comments in its code blocks."""

    def comments(match: re.Match[str]) -> str:
        return "\n".join(line.partition("#")[2] for line in match[0].splitlines())

    return re.sub(r"`[^`\n]+`", "", FENCE.sub(comments, text))


def code_texts(source: str, tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module, docstrings included, and its comments."""
    lines = source.splitlines()
    strings: dict[int, list[tuple[int, int]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            last = node.end_lineno or node.lineno
            for number in range(node.lineno, last + 1):
                start = node.col_offset if number == node.lineno else 0
                end = (node.end_col_offset or 0) if number == last else sys.maxsize
                strings.setdefault(number, []).append((start, end))
    for number, line in enumerate(lines, 1):
        at = line.find("#")
        while at >= 0:
            if not any(start <= at < end for start, end in strings.get(number, ())):
                yield line[at + 1 :]
                break
            at = line.find("#", at + 1)


def count_code(source: str, tree: ast.AST) -> int:
    """Count the dialect words of a module."""
    return sum(len(PATTERN.findall(text)) for text in code_texts(source, tree))


def doc_files() -> list[Path]:
    """Return the pages, the README, and the other Markdown files of the project that users read."""
    return [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        *[p for p in sorted((ROOT / "docs").rglob("*.md")) if "python-api" not in (p.parent.name, p.stem)],
    ]


def count_docs() -> int:
    """Count the dialect words of the documentation."""
    return sum(len(find_words(doc_text(path.read_text(encoding="utf-8")))) for path in doc_files())


def words_of(path: Path) -> list[str]:
    """Return the dialect words of a page or a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return find_words(doc_text(text))
    return [word for part in code_texts(text, ast.parse(text)) for word in find_words(part)]


def main(arguments: Iterable[str] | None = None) -> int:
    """Print the counts by file, the largest first; with `--list` the words too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="List the words of each file")
    parser.add_argument("paths", nargs="*", type=Path, help="Files (default: docs and src)")
    options = parser.parse_args(arguments if arguments is None else list(arguments))
    paths = options.paths or [*doc_files(), *sorted((ROOT / "src").rglob("*.py"))]
    found = {path: words_of(path) for path in paths}
    for path, words in sorted(found.items(), key=lambda item: len(item[1]), reverse=True):
        if words:
            listed = ", ".join(f"{word} {n}" for word, n in Counter(words).most_common()) if options.list else ""
            print(f"{len(words):5} {path} {listed}")
    for suffix in (".md", ".py"):
        print(f"{sum(len(words) for path, words in found.items() if path.suffix == suffix):5} in {suffix} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
