"""Compare the same two programs in Mainspring and in pydantic-ai: `python -m benchmarks.side_by_side`.

Prints the lines of each program, the planted mistakes that pyright finds in strict mode, and the times of the import and of the first
answer as ratios to `import asyncio, ssl`. pydantic-ai is installed into a virtual environment of its own, in the temporary folder.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEER = "pydantic-ai-slim[openai]"
BASELINE = "import asyncio, ssl"
PROGRAMS = {
    "support": [
        ("Where is order 7?", "It is on its way."),
        ("I want my money back for order 7.", "refund of 12.5 dollars for order 7"),
    ],
    "research": [("An electric car", "30,000 dollars, 400 km.")],
}
IMPORTS = {
    "mainspring": "from mainspring import Agent",
    "pydantic_ai": "from pydantic_ai import Agent",
}
SUPPORT_MISTAKES = {
    "dependencies of another type": ("deps=Shop())", 'deps="Books")'),
    "no dependencies": ("question, deps=Shop())", "question)"),
    "a field of only one of the outputs": ("if isinstance(result.output, Refund):", "if result.output.order:"),
    "a misspelled field of the output": ("{result.output.dollars}", "{result.output.dolars}"),
    "a misspelled method of the dependencies": (
        "await ctx.deps.find_payment(order)}",
        "await ctx.deps.find_payments(order)}",
    ),
    "a validator of another output": ("refund: Refund) -> Refund:", "refund: Answer) -> Answer:"),
    "a tool for other dependencies": (
        "async def main(",
        "async def count(ctx: CONTEXT[int], order: int) -> int:\n    return ctx.deps + order\n\n\n"
        "Agent(MODEL, deps_type=Shop, tools=[count])\n\n\nasync def main(",
    ),
    "a misspelled option": ("deps_type=Shop, output_type=Refund", "deps_type=Shop, output_types=Refund"),
    "a tool called with a wrong argument": (
        "async def main(",
        'async def call(ctx: CONTEXT[Shop]) -> None:\n    await find_payment(ctx, order="seven")\n\n\nasync def main(',
    ),
}
"""The text of the program, and its replacement: the same for both."""


def plant_mistake(source: str, mistake: str, framework: str) -> str:
    """Return the program with the mistake in it."""
    old, new = SUPPORT_MISTAKES[mistake]
    assert source.count(old) >= 1, mistake
    return source.replace(old, new.replace("CONTEXT", "ToolContext" if framework == "mainspring" else "RunContext"), 1)


def count_lines(path: Path) -> int:
    """Count the lines of code, without blank lines."""
    return sum(bool(line.strip()) for line in path.read_text().splitlines())


def find_type_errors(folder: Path, python: str) -> dict[str, int]:
    """Return the number of pyright's errors for each file of a folder."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", python, "--project", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    counts = {path.stem: 0 for path in folder.glob("*.py")}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            counts[Path(each["file"]).stem] += 1
    return counts


def check_mistakes(framework: str, python: str, folder: Path) -> dict[str, bool]:
    """Return whether pyright finds each planted mistake; the programs themselves must have no error."""
    folder.mkdir()
    sources = {name: (HERE / f"{framework}_" / f"{name}.py").read_text() for name in PROGRAMS}
    for number, mistake in enumerate(SUPPORT_MISTAKES):
        sources[f"mistake_{number}"] = plant_mistake(sources["support"], mistake, framework)
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    counts = find_type_errors(folder, python)
    for name in PROGRAMS:
        assert not counts[name], f"pyright reports errors in {framework}_/{name}.py"
    return {mistake: counts[f"mistake_{number}"] > 0 for number, mistake in enumerate(SUPPORT_MISTAKES)}


def run_program(python: str, server: str, *command: str) -> tuple[float, str]:
    """Run a program and return its seconds and its output."""
    environment = {**os.environ, "SERVER": server, "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    started = time.perf_counter()
    done = subprocess.run([python, *command], capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return seconds, done.stdout.strip()


def measure_times(pythons: dict[str, str], server: str, repetitions: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of the baseline, the import, and the first answer; all take turns."""
    commands = {
        framework: {
            "baseline": ("-c", BASELINE),
            "import": ("-c", IMPORTS[framework]),
            "first answer": (str(HERE / f"{framework}_" / "support.py"), PROGRAMS["support"][0][0]),
        }
        for framework in pythons
    }
    samples: dict[str, dict[str, list[float]]] = {f: {name: [] for name in commands[f]} for f in pythons}
    for number in range(repetitions + 1):
        for framework, python in pythons.items():
            for name, command in commands[framework].items():
                seconds, _ = run_program(python, server, *command)
                if number:  # the first one writes the bytecode
                    samples[framework][name].append(seconds)
    return {f: {name: statistics.median(values) for name, values in each.items()} for f, each in samples.items()}


def install_peer(folder: Path) -> str:
    """Install pydantic-ai unless it is installed; return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEER], check=True)
    return str(python)


def check_programs(pythons: dict[str, str], server: str) -> None:
    """Run both programs of both, and compare what they print."""
    for framework, python in pythons.items():
        for name, questions in PROGRAMS.items():
            for question, expected in questions:
                _, printed = run_program(python, server, str(HERE / f"{framework}_" / f"{name}.py"), question)
                assert printed == expected, f"{framework}_/{name}.py printed {printed!r} instead of {expected!r}"


def format_table(
    mistakes: dict[str, dict[str, bool]], seconds: dict[str, dict[str, float]], versions: dict[str, str]
) -> str:
    """Return the results as a Markdown table."""
    names = list(mistakes)
    rows = [["", *[versions[n] for n in names]], ["---"] * (len(names) + 1)]
    rows += [[f"lines of `{p}.py`", *[str(count_lines(HERE / f"{n}_" / f"{p}.py")) for n in names]] for p in PROGRAMS]
    totals = [f"{sum(mistakes[n].values())} of {len(SUPPORT_MISTAKES)}" for n in names]
    rows.append(["planted mistakes that pyright finds", *totals])
    rows += [[f"- {m}", *["found" if mistakes[n][m] else "missed" for n in names]] for m in SUPPORT_MISTAKES]
    for name in ("import", "first answer"):
        ratios = [f"{seconds[n][name] / seconds[n]['baseline']:.1f} x" for n in names]
        rows.append([f"{name}, to `{BASELINE}`", *ratios])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def find_version(python: str, name: str) -> str:
    """Return the name and version of an installed package."""
    code = f"from importlib.metadata import version; print('{name}', version('{name}'))"
    return run_program(python, "", "-c", code)[1]


def main() -> None:
    """Install, check, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(tempfile.gettempdir()) / "mainspring-side-by-side" / "venv"
    parser.add_argument("--venv", type=Path, default=default, help="Environment of pydantic-ai")
    parser.add_argument("--repetitions", type=int, default=7, help="Samples of each time (default: 7)")
    given = parser.parse_args()
    pythons = {"mainspring": sys.executable, "pydantic_ai": install_peer(given.venv)}
    server = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        check_programs(pythons, address)
        seconds = measure_times(pythons, address, given.repetitions)
        with tempfile.TemporaryDirectory() as folder:
            mistakes = {f: check_mistakes(f, python, Path(folder) / f"{f}_checks") for f, python in pythons.items()}
        names = {"mainspring": "mainspring", "pydantic_ai": "pydantic-ai-slim"}
        versions = {f: find_version(python, names[f]) for f, python in pythons.items()}
        print(format_table(mistakes, seconds, versions))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
