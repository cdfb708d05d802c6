"""Break the feature of each requirement and see that one of the tests that claim it fails: `python -m scripts.mutants SES-17`.

`tests/mutants/*.toml` has one mutant for each requirement: the smallest change that breaks what the requirement says. Either one
text of a file is replaced by another,

    [SES-17]
    file = "src/mainspring/sessions/turns.py"
    old = "return first, last"
    new = "return 0, last"

or the body of a function is:

    [RET-06]
    function = "src/mainspring/models/retry.py:RetryPolicy.delay"
    body = "return 0.0"

Each worker has a copy of the checkout in `mutants/`, kept for the next run, whose interpreter finds the packages of the current
environment and the source of the copy. A mutant is killed if a test that claims its requirement fails, and survives if all of them pass.
"""

import argparse
import ast
import fcntl
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from queue import SimpleQueue

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = Path("tests/mutants")
WORKERS = Path("mutants")
TIMEOUT = 600  # seconds for all tests of one requirement
KILLED = "killed"
SURVIVED = "survived"
INVALID = "invalid"


class MutantError(Exception):
    """A mutant that cannot be applied; the text says why."""


@dataclass(frozen=True)
class Mutant:
    """One change that breaks a requirement: a text of a file (`old`, `new`), or a new body of a function."""

    requirement: str
    file: str
    old: str = ""
    new: str = ""
    function: str = ""
    body: str = ""

    def mutate(self, source: str) -> str:
        """Return the changed source.

        Raises:
            MutantError: The text occurs not once, the function does not exist, or nothing would change.
        """
        changed = self._replace_body(source) if self.function else self._replace_text(source)
        if changed == source:
            raise MutantError(f"{self.requirement}: the mutant changes nothing in {self.file}")
        return changed

    def _replace_text(self, source: str) -> str:
        found = source.count(self.old) if self.old else 0
        if found != 1:
            raise MutantError(
                f"{self.requirement}: `old` must occur once in {self.file}, but occurs {found} times: {self.old!r}"
            )
        return source.replace(self.old, self.new)

    def _replace_body(self, source: str) -> str:
        found = _find_function(source, self.function)
        if found is None:
            raise MutantError(f"{self.requirement}: {self.file} has no function {self.function}")
        first = found.body[1] if ast.get_docstring(found, clean=False) is not None and found.body[1:] else found.body[0]
        lines = source.splitlines(keepends=True)
        body = textwrap.indent(textwrap.dedent(self.body).strip("\n") + "\n", " " * first.col_offset)
        return "".join([*lines[: first.lineno - 1], body, *lines[found.end_lineno :]])


def _find_function(source: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    scope: ast.AST = _parse(source)
    *classes, function = name.split(".")
    for part in classes:
        scope = next((n for n in ast.walk(scope) if isinstance(n, ast.ClassDef) and n.name == part), ast.Module([], []))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(scope) if isinstance(node, kinds) and node.name == function]
    return found[-1] if found else None  # the last of several overloads is the implementation


@cache
def _parse(source: str) -> ast.Module:
    return ast.parse(source)


def load_mutants(root: Path = REPOSITORY) -> dict[str, Mutant]:
    """Return the mutants by requirement.

    Raises:
        MutantError: Two files break the same requirement, or an entry has neither a text nor a function.
    """
    mutants: dict[str, Mutant] = {}
    for path in sorted((root / FOLDER).glob("*.toml")):
        for requirement, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if requirement in mutants:
                raise MutantError(f"{path.name}: {requirement} has a mutant already")
            mutants[requirement] = _read_entry(requirement, entry)
    return mutants


def _read_entry(requirement: str, entry: dict[str, str]) -> Mutant:
    match entry:
        case {"file": file, "old": old, "new": new, **rest} if not rest:
            return Mutant(requirement, file, old=old, new=new)
        case {"function": function, "body": body, **rest} if not rest and ":" in function:
            file, _, name = function.partition(":")
            return Mutant(requirement, file, function=name, body=body)
        case _:
            raise MutantError(
                f"{requirement}: a mutant has `file`, `old`, and `new`, or `function` (file:name) and `body`"
            )


def find_tests(requirement: str, root: Path = REPOSITORY) -> list[str]:
    """Return the test files that name a requirement."""
    return [name for name, text in _test_sources(root) if f'"{requirement}"' in text]


@cache
def _test_sources(root: Path) -> list[tuple[str, str]]:
    paths = sorted((root / "tests").rglob("test_*.py"))
    return [(str(path.relative_to(root)), path.read_text(encoding="utf-8")) for path in paths]


@dataclass(frozen=True)
class Outcome:
    """What the tests said about a mutant; `detail` names the failed test, or the reason why the mutant is invalid."""

    requirement: str
    verdict: str
    detail: str


class Worker:
    """A copy of the checkout in which mutants are tested one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / ".venv" / "bin" / "python"

    def update(self) -> None:
        """Make the copy equal to the checkout as it is; what has not changed keeps its bytecode."""
        if not (self.folder / ".git").exists():
            subprocess.run(["git", "clone", "-q", "--shared", REPOSITORY, self.folder], check=True)
        git = ["git", "-C", self.folder]
        subprocess.run([*git, "fetch", "-q", "origin", "HEAD"], check=True)
        subprocess.run([*git, "reset", "-q", "FETCH_HEAD"], check=True)
        names = {name for name in _list_files(REPOSITORY) if (REPOSITORY / name).is_file()}
        for name in _list_files(self.folder):
            if name not in names:
                (self.folder / name).unlink(missing_ok=True)
        for name in names:
            source, copy = REPOSITORY / name, self.folder / name
            if not copy.exists() or _fingerprint(source) != _fingerprint(copy):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
        if not self.python.exists():
            self._create_environment()

    def _create_environment(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / ".venv"], check=True)
        packages = self.folder / ".venv" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        (packages / "mutant.pth").write_text(f"{self.folder / 'src'}\n{sysconfig.get_path('purelib')}\n")
        for program in Path(sys.executable).parent.iterdir():
            copy = self.python.with_name(program.name)
            if program.name == "mainspring":
                script = program.read_text().partition("\n")[2]
                copy.write_text(f"#!{self.python}\n{script}")
                copy.chmod(0o755)
            elif not copy.exists() and not program.name.startswith(("python", "activate", "Activate")):
                copy.symlink_to(program)

    def test(self, mutant: Mutant) -> Outcome:
        """Apply a mutant, run the tests that claim its requirement, and restore the source."""
        path = self.folder / mutant.file
        tests = find_tests(mutant.requirement)
        if not tests:
            return Outcome(mutant.requirement, INVALID, "no test claims this requirement")
        try:
            source = path.read_text(encoding="utf-8")
            changed = mutant.mutate(source)
            if path.suffix == ".py":
                ast.parse(changed)
        except (OSError, SyntaxError, MutantError) as error:
            return Outcome(mutant.requirement, INVALID, str(error))
        try:
            _write_source(path, changed)
            return self._run_tests(mutant.requirement, tests)
        finally:
            _write_source(path, source)

    def _run_tests(self, requirement: str, tests: Sequence[str]) -> Outcome:
        command = [
            self.python,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--tb=line",
            "-p",
            "no:cacheprovider",
            "--covers",
            requirement,
            *tests,
        ]
        try:
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return Outcome(requirement, KILLED, f"no end within {TIMEOUT} s")
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        match done.returncode:
            case 0:
                return Outcome(requirement, SURVIVED, ", ".join(tests))
            case 1:
                return Outcome(requirement, KILLED, failed.group(1) if failed else "a test failed")
            case code:
                lines = (done.stdout + done.stderr).strip().splitlines()[-12:]
                return Outcome(
                    requirement, INVALID, f"pytest exits with {code}:\n" + textwrap.indent("\n".join(lines), "    ")
                )


def _list_files(checkout: Path) -> list[str]:
    command = ["git", "-C", checkout, "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name]


def _fingerprint(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _write_source(path: Path, text: str) -> None:
    """Write a source file and forget its bytecode, which Python compares only by size and second."""
    path.write_text(text, encoding="utf-8")
    if path.suffix == ".py":
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def run_mutants(mutants: Sequence[Mutant], workers: int) -> Iterator[Outcome]:
    """Test mutants side by side, each in a copy of the checkout, and yield their outcomes as they come."""
    free: SimpleQueue[Worker] = SimpleQueue()

    def run(mutant: Mutant) -> Outcome:
        worker = free.get()
        try:
            return worker.test(mutant)
        finally:
            free.put(worker)

    with ExitStack() as stack:
        for _ in range(min(workers, len(mutants))):
            worker = stack.enter_context(_lock_worker())
            worker.update()
            free.put(worker)
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for done in as_completed([pool.submit(run, mutant) for mutant in mutants]):
            yield done.result()


@contextmanager
def _lock_worker() -> Iterator[Worker]:
    """Yield the first worker that no other process uses."""
    folder = REPOSITORY / WORKERS
    folder.mkdir(exist_ok=True)
    for number in count():
        with (folder / f"{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield Worker(folder / str(number))
            return


def select(mutants: dict[str, Mutant], names: Sequence[str], sample: int | None, seed: int) -> list[Mutant]:
    """Return the mutants of some requirements (`SES-17`) or sections (`SES`), all by default, or a random sample of them.

    Raises:
        MutantError: A name matches no mutant.
    """
    unknown = [name for name in names if not any(key.startswith(name) for key in mutants)]
    if unknown:
        raise MutantError(f"no mutant for {', '.join(unknown)}")
    chosen = [mutant for key, mutant in sorted(mutants.items()) if not names or key.startswith(tuple(names))]
    return chosen if sample is None else random.Random(seed).sample(chosen, min(sample, len(chosen)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the selected mutants and print one line for each; returns 1 if one was not killed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description="Test mutants of the requirements.")
    parser.add_argument("names", nargs="*", metavar="ID", help="requirements or sections: SES-17 RET; all by default")
    parser.add_argument("--sample", type=int, metavar="N", help="test N random mutants of the selected ones")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the sample")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at once")
    options = parser.parse_args(arguments)
    try:
        mutants = select(load_mutants(), options.names, options.sample, options.seed)
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2
    if options.sample is not None:
        print(f"{len(mutants)} random mutants, --seed {options.seed}", flush=True)
    outcomes: list[Outcome] = []
    for outcome in run_mutants(mutants, options.workers):
        outcomes.append(outcome)
        print(f"{len(outcomes):3}/{len(mutants)} {outcome.requirement} {outcome.verdict}: {outcome.detail}", flush=True)
    open_ones = sorted(o.requirement for o in outcomes if o.verdict != KILLED)
    print(
        f"{len(outcomes) - len(open_ones)} of {len(outcomes)} killed"
        + (f"; not {', '.join(open_ones)}" if open_ones else "")
    )
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
