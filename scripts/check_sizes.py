"""Check the sizes of files, classes, and functions, the shape of the source, and the number of suppressed checks and dialect words.

What is over a limit of LIMITS has an entry in `size_limits.toml` with its exact size. An entry, and every count there, may only
fall: the run fails when something grew, when an entry is larger than what is measured (lower it), and when an entry is no longer
needed (remove it). `--list` prints every measured exception and count, to copy from.
"""

import argparse
import ast
import gc
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from scripts.dialect import count_code, count_docs
from scripts.structure import Module, count_shape, inner_blocks, read_module

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = Path(__file__).with_name("size_limits.toml")

LIMITS = {"file": 600, "test file": 1000, "class lines": 400, "class methods": 20, "function statements": 50}

SUPPRESSIONS = {"noqa": re.compile(r"#\s*noqa\b"), "type: ignore": re.compile(r"#\s*(type|pyright):\s*ignore\b")}


@dataclass(frozen=True)
class Finding:
    """A measured size: what kind, of what, how much, and the limit that it has to keep."""

    kind: str
    name: str
    size: int
    limit: int


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def measure_file(path: Path, text: str, tree: ast.Module) -> list[Finding]:
    """Sizes of a file and of what it defines."""
    name = relative(path)
    kind = "test file" if name.startswith("tests/") else "file"
    found = [Finding(kind, name, len(text.splitlines()), LIMITS[kind])]
    measure_block(tree.body, name, found)
    return found


def measure_block(statements: list[ast.stmt], file: str, found: list[Finding]) -> int:
    """Measure the classes and functions of a block; return its number of statements, nested ones included.

    Only statements are visited: expressions are most of a tree, and hold neither.
    """
    count = len(statements)
    for node in statements:
        inner = sum(measure_block(block, file, found) for block in inner_blocks(node))
        count += inner
        if isinstance(node, ast.ClassDef):
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = {method.name for method in methods if not method.name.startswith("_")}
            lines = count_lines(node) - sum(count_lines(m) for m in methods if is_overload(m))
            found.append(Finding("class lines", f"{file}::{node.name}", lines, LIMITS["class lines"]))
            found.append(Finding("class methods", f"{file}::{node.name}", len(public), LIMITS["class methods"]))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = inner - (ast.get_docstring(node, clean=False) is not None)
            found.append(Finding("function statements", f"{file}::{node.name}", size, LIMITS["function statements"]))
    return count


def count_lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a class or function, with its decorators."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return (node.end_lineno or node.lineno) - first + 1


def is_overload(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a signature without a body: if it counted, types would be dropped to save lines."""
    return any(dotted_name(decorator) == "overload" for decorator in method.decorator_list)


def only_reexports(tree: ast.Module) -> bool:
    """Whether an `__init__.py` holds imports, `__all__`, dunder or private names, and lazy functions and exports, nothing else."""

    def is_fine(node: ast.stmt) -> bool:
        match node:
            case ast.Import() | ast.ImportFrom():
                return True
            case ast.Expr(value=ast.Constant(value=str()) | ast.Call(func=ast.Name(id="lazy_exports"))):
                return True
            case ast.Assign(value=ast.Call(func=ast.Name(id="lazy_function"))):
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name.startswith("_")
            case ast.Assign(targets=[ast.Tuple(elts=elements)]):
                return all(isinstance(e, ast.Name) and e.id.startswith("_") for e in elements)
            case ast.FunctionDef(name="__getattr__" | "__dir__"):
                return True
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return all(is_fine(inner) for inner in (*node.body, *node.orelse))
            case _:
                return False

    return all(is_fine(node) for node in tree.body)


def dotted_name(node: ast.expr) -> str:
    """`a.b.c` of an expression, empty where it is something else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted_name(value)}.{attr}"
        case _:
            return ""


def is_mock(name: str) -> bool:
    parts = name.split(".")
    return parts[-1] in {"Mock", "MagicMock", "AsyncMock"} or (parts[0] in {"mock", "mocker"} and "patch" in parts[1:])


def is_skip(name: str) -> bool:
    return name in {"pytest.skip", "pytest.xfail", "pytest.importorskip"} or name.startswith(
        ("pytest.mark.skip", "pytest.mark.xfail")
    )


TEST_HABITS: dict[str, Callable[[str], bool]] = {
    "mocks": is_mock,
    "sleeps": lambda name: name == "time.sleep",
    "skips": is_skip,
}


MAY_HAVE_HABITS = re.compile(
    r"\bmock(?:er)?\.|\b(?:Magic|Async)?Mock\b|\btime\.sleep\b|\bpytest\.(?:mark\.)?(?:skip|xfail|importorskip)"
)
"""Files without a match have none of TEST_HABITS: to walk a whole tree is slow."""


def count_habits(tree: ast.Module) -> Counter[str]:
    """How often a test file mocks, sleeps, and skips or expects to fail."""
    counts: Counter[str] = Counter()
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name | ast.Import)]
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if not isinstance(node, ast.Import) and id(node) not in inner:
            name = dotted_name(node)
            if name.startswith("time.") and "time" not in imported:
                continue  # a clock of the test's own
            counts.update(habit for habit, matches in TEST_HABITS.items() if matches(name))
    return counts


def count_suppressions(text: str) -> Counter[str]:
    """How many comments switch a check off."""
    if not any(pattern.search(text) for pattern in SUPPRESSIONS.values()):
        return Counter()  # reading tokens is slow
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    return Counter(name for name, pattern in SUPPRESSIONS.items() for comment in comments if pattern.search(comment))


def compare(measured: Mapping[str, int], allowed: Mapping[str, int], what: str) -> list[str]:
    """Complaints about exceptions that grew, fell below their entry, or are gone."""
    complaints: list[str] = []
    for name in sorted(measured.keys() | allowed.keys()):
        now, entry = measured.get(name, 0), allowed.get(name, 0)
        if now > entry:
            complaints.append(f"{what}: {name} is {now}, allowed are {entry}")
        elif now < entry:
            advice = f"lower its entry to {now}" if now else "remove its entry"
            complaints.append(f"{what}: {name} is down from {entry}: {advice} in {ALLOWED.name}")
    return complaints


@dataclass
class FileReport:
    """The measurements of a file."""

    findings: list[Finding]
    counts: Counter[str] = field(default_factory=Counter[str])
    is_valid_init: bool = True
    module: Module | None = None


def measure(path: Path) -> FileReport:
    """Parse a file once, and measure it."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    area = relative(path).partition("/")[0]
    report = FileReport(measure_file(path, text, tree))
    report.counts.update(f"{name} in {area}" for name in count_suppressions(text).elements())
    if area == "tests" and MAY_HAVE_HABITS.search(text):
        report.counts.update(f"{name} in tests" for name in count_habits(tree).elements())
    if area == "src":
        report.counts["dialect words in src"] = count_code(text, tree)
        report.is_valid_init = path.name != "__init__.py" or only_reexports(tree)
        report.module = read_module(path, text, tree)
    return report


@dataclass
class SizeReport:
    """Everything that the ratchet looks at."""

    findings: list[Finding]
    counts: dict[str, int]
    inits: list[str]

    @classmethod
    def take(cls) -> "SizeReport":
        """Measure all files, on all cores: most of the time is spent in the parser."""
        paths = list(python_files("src", "tests", "scripts", "benchmarks", "examples"))
        with ProcessPoolExecutor(initializer=gc.disable) as pool:  # syntax trees have no cycles
            reports = list(pool.map(measure, paths, chunksize=32))
        counts = sum((report.counts for report in reports), Counter[str]())
        counts["dialect words in docs"] = count_docs()
        counts.update(count_shape({r.module.name: r.module for r in reports if r.module is not None}))
        inits = [relative(path) for path, report in zip(paths, reports, strict=True) if not report.is_valid_init]
        return cls([finding for report in reports for finding in report.findings], dict(counts), inits)

    @property
    def exceptions(self) -> dict[str, dict[str, int]]:
        """What is over its limit, by kind."""
        over: dict[str, dict[str, int]] = {}
        for finding in self.findings:
            if finding.size > finding.limit:
                over.setdefault(finding.kind, {})[finding.name] = finding.size
        return over

    def complaints(self, allowed: Mapping[str, Mapping[str, int]]) -> list[str]:
        kinds = sorted(self.exceptions.keys() | (allowed.keys() - {"counts"}))
        return [
            *(line for kind in kinds for line in compare(self.exceptions.get(kind, {}), allowed.get(kind, {}), kind)),
            *compare(self.counts, allowed.get("counts", {}), "count"),
            *(f"{name}: an __init__.py only re-exports" for name in self.inits),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description="hold the sizes of files, classes and functions")
    parser.add_argument("--list", action="store_true", help="print what is over its limit, and every count, as TOML")
    survey = SizeReport.take()
    if parser.parse_args().list:
        for kind, entries in {**survey.exceptions, "counts": survey.counts}.items():
            print(f'["{kind}"]')
            for name, size in sorted(entries.items()):
                print(f'"{name}" = {size}')
        return 0
    complaints = survey.complaints(tomllib.loads(ALLOWED.read_text(encoding="utf-8")))
    for line in complaints:
        print(line)
    if not complaints:
        sizes = sorted(f.size for f in survey.findings if f.kind == "file")
        largest = max((f for f in survey.findings if f.kind == "file"), key=lambda f: f.size)
        print(f"{len(sizes)} files, median {sizes[len(sizes) // 2]} lines, largest {largest.name} {largest.size}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
