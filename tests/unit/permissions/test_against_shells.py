"""What a shell runs is what was judged: random lines, run by real shells in which every command only writes down its words."""

import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mainspring.permissions.commandpattern import CommandPattern, concerns
from mainspring.shell_analysis import Unit, analyse

NAMES = ["c0", "c1", "c2", "c3", "a", "b", "x", "f", "EOF", "X", "foo", "in", "do", "]", "1"]
LINES = [
    "c0 a && c1 b || c2", "c0 | c1 | c2 a", "(c0; c1) > f", "{ c0; c1; } 2>&1", "c0 $(c1 $(c2))", "c0 `c1 a`",
    "c0 \"$(c1 \"a b\")\" 'x y'", "c0 <<EOF\nfoo $(c1)\nEOF\nc2", "c0 <<'EOF' | c1\n$(c3) `c3`\nEOF\nc2 a", "c0 <<-X\n\tfoo\n\tX\nc1",
    "for i in a b; do c0 $i; c1; done", "if c0; then c1; else c2; fi", "case a in a) c0;; b|c) c1;; *) c2;; esac", "f() { c0; }; f",
    "[[ a == a ]] && c0", "[ a = a ] && c1 b", "x=1 c0 a", "x=$(c0) y=`c1`; c2 $x", "c0 ${x:-$(c1)} ${y:=a}", "c0 <(c1) >(c2)",
    "c0 a # c1 b\nc2", "c0 a#b; c1", "! c0 | c1", "time c0 | c1", "c0 & c1 &", "eval 'c0 a; c1'", "command c0 a; builtin eval c1",
    "exec c0 a", "c0 $((1+2)) $[3]", "c0 *.x ~ ~/y", "c0 $'a\\'b' $\"c\" 'd'\"e\"f", "c0 a\\ b \\; c1",
    "c0 > f 2> g < /dev/null c1 a", "c0 <<< \"a $(c1)\" b", "c0 \\\n a \\\n b\nc1", "trap 'c0 a' EXIT; c1",
    "if [ -f x ]; then\n c0\nelse\n c1 \\\n  b\nfi\nc2", "c0 \"a\nb\" 'c\nd'\nc1", "{ c0; } && (c1) || { c2; }", "let x=1; c1",
    "declare x=$(c0); export y=$(c1)", "c0 a;c1 b&c2 c", "c0 \"`c1 \\\"a\\\"`\"", "c0 \"${x:-`c1`}\"", "a=(c0 $(c1)) c2",
    "c0 <<\"E F\"\nx\nE F\nc1", "$(c0)", "c0 &>f; c1 >&2", "c0 |& c1", "function g { c0; }; g", "for ((i=0;i<2;i++)); do c0; done",
    "c0 \"${x:-'$(c1)'}\" \"${x:+'a'}\"", "c0 \"${x:-'}\"; c1; c2 \"'}\"", "c0 <<EOF\n${x:-'$(c1)'}\nEOF\nc2", "[ -v \"a[\\$(c1)]\" ]; c0",
    "x='a[$(c0)]'; [[ \"x\" -eq 0 ]]; c1", "x='a[$(c0)]'; y[\"x\"]=1; c1 $((\"x\"))", "[[ \"a[\\$(c0)]\" -lt 1 ]] || c1", "x='-v a[$(c0)]'; [ $x ]", "printf -v'a[$(c0)]' b", "x=-v; test $x 'a[$(c0)]'", "[ $(c0) = a ]", "a\n1<<EOF x\nEOF\nc2", "c0 <<EOF\n\\\n${x:-'$(c1)'}\nEOF\nc2", "c0 <f\nx=\\\n a b", "c1 \\  \n\nc2", "c0 </dev/null\n\\\n  >|a b", "time [ -v 'a[$(c1)]' ]; c0", "command test -v 'a[$(c1)]'", "c0 </dev/null\n\\\n a b", "c0 >x\n\\\nc1", "c0 <<<$ \"a\" b", "c0 >$ \"a\"", "c0 >&'a$(c1)'", "c0 >&\"a\\$(c1)\"; c2",
    "[[ \na == a ]] && c0", "[[ a == \na ]]; c0", "eval $'c0 a; c1'", "time x='a[$(c0)]'; c1 $((x))", ": ${x:='a[$(c0)]'}; c1 $((x))",
    "c0 $[3\n]", "c0 $[3 | c1 ]", "c0 $[1 > f]", "c0 -<<X a\nX\nc1", "c0 -b<<EOF x\nEOF\nc2",
    "c0 - <<EOF\nfoo\nEOF\nc1", "c0 a - <<'EOF'\n$(c1)\nEOF\nc2", "c0 - <<EOF | c1\nfoo\nEOF", "c0 -  <<EOF b\nfoo\nEOF\nc1",
]  # fmt: skip
PIECES = [
    " ", "\n", ";", " && ", " || ", " | ", " & ", " ( ", " ) ", " { ", "; } ", "$(", ")", "`", '"', "'", "\\", "\\\n", "#", " #", " <<EOF\n",
    "\nEOF\n", " <<'EOF'\n", " >", "<(", ">(", "${x:-", "}", "$((", "))", "[[ ", " ]]", "c0 ", "c1 ", "x=", "x=c1 ", "$x", "time ", " <<<",
    "&>", "2>&1", " >|", "\\`", "\\$", "~", "*", "[ab]", "${x#", "$[", "]", "|&", "eval ", "exec ", "coproc ", "f() ", "a=(", " -- ",
    "if ", "then ", "fi", "case x in ", "x) ", " ;; ", "esac", "!", "$'", '$"', "((", "{fd}>", "<&-", "$$", "\"${x:-", "'$(c1)'", "'}", "[ -v ", "a[\\$(c1)]", "x='a[$(c0)]'; ", " -eq 0 ", "$@", "=", "\t", "else ",
]  # fmt: skip
CHARACTERS = "\\'\"`$#(){}[];&|<>\n \t=!*?~-^%@,"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of commands that write down their words."""
    folder = tmp_path_factory.mktemp("programs")
    for name in NAMES:
        program = folder / name
        program.write_text('#!/bin/sh\nprintf \'%s\\0\' "${0##*/}" "$@" > "$LOG/$$"\n')
        program.chmod(0o755)
    return folder


def ran(shell: str, line: str, folder: Path, programs: Path) -> list[list[str]]:
    """The commands that a shell runs for a line, each as its words."""
    log, work = folder / "log", folder / "work"
    for place in (log, work):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    process = subprocess.Popen(
        [shell, "-c", line],
        env={"PATH": str(programs), "LOG": str(log)},
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with suppress(subprocess.TimeoutExpired):
        process.wait(2)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    texts = [entry.read_text(errors="surrogateescape") for entry in log.iterdir()]
    return [re.sub(r"/dev/fd/6\d", "/dev/fd/63", text).split("\0")[:-1] for text in texts if text]


def judged(words: list[str], units: tuple[Unit, ...]) -> bool:
    """Whether a command that ran is one of those that were judged."""
    wanted = CommandPattern(tuple(words), len(words), "")
    for unit in (inner for outer in units for inner in outer.walk()):
        behind = next((i for i, word in enumerate(unit.words) if "=" not in word.text), len(unit.words))
        starts = range(len(unit.words)) if unit.scan else range(behind + 1)
        if unit.unknown or any(concerns(wanted, unit.words[i:]) != "no" for i in starts if unit.words[i:]):
            return True
    return False


def mutated(random: random.Random) -> str:
    line = random.choice(LINES)
    for _ in range(random.choice((1, 1, 2, 3))):
        at, length = random.randrange(len(line) + 1), random.randint(1, 3)
        line = random.choice(
            [
                line[:at] + random.choice(PIECES) + line[at:],
                line[:at] + random.choice(CHARACTERS) + line[at:],
                line[:at] + line[at + length :],
                line[:at] + line[at : at + length][::-1] + line[at + length :],
            ]
        )
    return line


def undoubted(seed: int, count: int) -> Iterator[tuple[str, tuple[Unit, ...]]]:
    source = random.Random(seed)
    for _ in range(count):
        line = mutated(source)
        analysis = analyse(line)
        if not analysis.doubts:
            yield line, analysis.units


def compare(shell: str, seed: int, count: int, folder: Path, programs: Path) -> int:
    commands = 0
    for line, units in undoubted(seed, count):
        for words in ran(shell, line, folder, programs):
            commands += 1
            told = words[:1] if "$'" in line and shell != "/bin/bash" else words  # only bash knows escapes in $'...'
            assert judged(told, units), (line, words)
    return commands


SHELLS = pytest.mark.parametrize("shell", [s for s in ("/bin/bash", "/bin/sh") if Path(s).exists()])


@SHELLS
@pytest.mark.parametrize("line", LINES)
def test_plain_lines(shell: str, line: str, tmp_path: Path, programs: Path) -> None:
    analysis = analyse(line)

    assert analysis.doubts or all(judged(words, analysis.units) for words in ran(shell, line, tmp_path, programs))


@SHELLS
@pytest.mark.timeout(120)
def test_changed_lines(shell: str, tmp_path: Path, programs: Path) -> None:
    assert compare(shell, 1, 400, tmp_path, programs) > 50


@SHELLS
@pytest.mark.soak
def test_many_changed_lines(shell: str, tmp_path: Path, programs: Path) -> None:
    assert compare(shell, 2, 20_000, tmp_path, programs) > 2_000
