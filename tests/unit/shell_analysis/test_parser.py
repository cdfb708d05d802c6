"""Supported and unsupported constructs of shell lines."""

import shlex

import pytest

from mainspring.shell_analysis import analyze, wildcards
from mainspring.shell_analysis.syntax import Redirect
from tests.rows import each_row
from tests.unit.permissions.harness import decide_call, shell

NAMED = [
    ("x='a[$(touch F)]'; z=([x]=1)", "an array assignment"),
    ("a[0]=1", "an array assignment"),
    ("a+=(1)", "'+='"),
    ("echo $((1))", "arithmetic expansion"),
    ("(( 1 ))", "'((...))'"),
    ("echo ${x%a}", "'${x%a...'"),
    ("echo ${!x}", "'${!x...'"),
    ("echo ${x@P}", "'${x@P...'"),
    ("f() { ls; }", "a function definition"),
    ("function f { ls; }", "'function'"),
    ("cat <(ls)", "process substitution"),
    ("ls > >(cat)", "process substitution"),
    ("cat <<EOF\na\nEOF", "a here-document with an unquoted delimiter"),
    ("cat <<'EOF'\na", "a here-document without an end"),
    ("cat <<'EOF' ", "a here-document without an end"),
    ("echo $(cat <<'EOF' )\nx\nEOF", "a here-document without an end"),
    ("cat <<'EOF'a\nEOF", "a here-document with something right before or after it"),
    ("cat <<'EOF' 'a\nb'\nx\nEOF", "a quoted line end in the line that begins a here-document"),
    ("cat <<'EOF' $(ls)\nx\nEOF", "'$(...)' in the line that begins a here-document"),
    ("c0 $(sh <<'EOF'\nc1\nEOF\nc2 b; c3)", "a here-document next to other commands inside '$(...)'"),
    ("c0 $(until c1; do sh <<'EOF'\nc1\nEOF\nbreak; done)", "a here-document next to other commands inside '$(...)'"),
    ("c0 $( (sh <<'EOF'\nc1\nEOF\n); c2)", "a here-document next to other commands inside '$(...)'"),
    ("c0 $(until sh <<'EOF'\nc1\nEOF\ndo c2 $(c3); done)", "a here-document next to other commands inside '$(...)'"),
    ("2>&- if c0\n", "a redirection before the name of a command"),
    ("> f c0 a", "a redirection before the name of a command"),
    ("c0 $(c1 $(sh <<'EOF'\nc1\nEOF\n))", "a here-document inside nested '$(...)'"),
    ("cat <<< a", "a here-string"),
    ("[[ a == b ]]", "'[['"),
    ("case a in *) ls;; esac", "'case'"),
    ("select x in a; do ls; done", "'select'"),
    ("coproc ls", "'coproc'"),
    ("eval ls", "the builtin 'eval'"),
    ("trap ls EXIT", "the builtin 'trap'"),
    (". ./x.sh", "the builtin '.'"),
    ("source x.sh", "the builtin 'source'"),
    ("export x=1", "'export'"),
    ("declare -i x=1", "'declare'"),
    ("read x", "the builtin 'read'"),
    ("alias a=b", "the builtin 'alias'"),
    ("exec > out", "'exec'"),
    ("printf -v x a", "'printf'"),
    ("[ -v x ]", "'['"),
    ("test a -o b", "'test'"),
    ("echo `ls`", "backquotes"),
    ("echo $'a'", "'$'...'"),
    ("echo $\"a\"", "'$\"...'"),
    ("echo {a,b}", "braces"),
    ("zsh -c 'ls **/*.py'", "'**'"),
    ("bash -lc 'ls **/*.py'", "'**'"),
    ("ls =cat", "a word that begins with '='"),
    ("ls *(N)", "parentheses right after a word"),
    ("echo $x", "the variable x"),
    ("echo $SECRET_KEY", "the variable SECRET_KEY"),
    ("PATH=. ls", "an assignment to PATH"),
    ("FOO=$(ls) make", "an assignment to FOO with a value that is not known"),
    ("x=a:=b ls", "'=' after ':' in an assignment"),
    ("ls >#a", "a '#' that may or may not begin a comment"),
    ("echo }", "braces that some shells expand"),
    ("bash -o posix -c ls", "options that may change how code is read"),
    ("for path in a; do ls; done", "an assignment to path"),
    ("$(echo ls)", "a command name that is not known"),
    ("ls |& cat", "'|&'"),
    ("for i in 1 2; do cat key; cd private; done", "'cd' in a loop"),
    ("while cat key; do true | cd private; done", "'cd' in a loop"),
    ("for i in 1 2; do if cat key; then { cd private; }; fi; done", "'cd' in a loop"),
    ("ls a\\\nb", "a backslash at the end of a line"),
    ("bash -O extglob -c ls", "options that may change how code is read"),
    ("fish -c ls", "code for fish"),
    ("bash -c 'echo $((1))'", "arithmetic expansion"),
    ("env X=1 bash -c 'z=(1)'", "an array assignment"),
    ("find . -exec sh -c 'z=(1)' ';'", "an array assignment"),
    ("echo a | xargs timeout 5 bash -c 'eval ls'", "the builtin 'eval'"),
]  # fmt: skip

HIDDEN = r"""
x='a[$(touch F)]'; export z=([x]=1)
x='a[$(touch F)]'; declare z=([x]=1)
x='a[$(touch F)]'; true | z=([x]=1)
x='a[$(touch F)]'; case a in a) z=([x]=1);; esac
x='a[$(touch F)]'; (z=([x]=1))
x='a[$(touch F)]'; if true; then z=([x]=1); fi
for i in 1; do x='a[$(touch F)]'; z=([x]=1); done
echo $(x='a[$(touch F)]'; z=([x]=1))
x='a[$(touch F)]'; [ "$x" -eq 1 ]
x='a[$(touch F)]'; test $x -gt 1
x='a[$(touch F)]'; printf %d $x
x='a[$(touch F)]'; exit $x
printf '%d' 'a[$(touch F)]'
printf '%*s' 'a[$(touch F)]' x
printf '%d%s' 1 b 'a[$(touch F)]'
x='b a[$(touch F)]'; printf '%s%d' $x
printf '%n' 'a[$(touch F)]'
return 'a[$(touch F)]'
shift 'a[$(touch F)]'
for i in 1; do break 'a[$(touch F)]'; done
command [ -v 'a[$(touch F)]' ]
time [ -v 'a[$(touch F)]' ]
[ -t 'a[$(touch F)]' ]
[ a -a -v 'a[$(touch F)]' ]
v=-v; [ $v 'a[$(touch F)]' ]
v=-v; [ "$v" 'a[$(touch F)]' ]
read 'a[$(touch F)]' < README.md
unset 'a[$(touch F)]'
wait -p 'a[$(touch F)]'
echo ${x:$(touch F)}
echo "${x:-$(touch F)}"
let 'a[$(touch F)]'
COLUMNS='a[$(touch F)]' ls
RANDOM='a[$(touch F)]' ls
FOO='a[$(touch F)]' ls
IFS=x ls
x=1 :; touch F
ls *(e:'touch F':)
ls ''=touch F
ls 1&>touch F
ls &> out touch F
command eval 'touch F'
builtin eval 'touch F'
f() { touch F; }; f
cat <<< "$(touch F)"
if ls { touch F }
ls &! touch F
ls &| touch F
repeat 2 touch F
noglob touch F
nocorrect touch F
- touch F
alias ls='touch F'; ls
hash -p ./touch F ls
typeset -i x='a[$(touch F)]'
sched +1 touch F
enable -n touch F
ulimit -n 'a[$(touch F)]'
fc -e touch F
bash -i -c 'touch F'
bash -k -c 'touch F'
time { touch F; }
time ! touch F
! ! touch F
{touch F; }
{ touch F }
ls 2>&1>out; touch F
ls {fd}>out; touch F
echo $USER[1]; touch F
echo "$USER:h"; touch F
echo $~USER; touch F
cd src other; touch F
set -k; touch F
shopt -s extglob; touch F
"""

WORDS = [
    ("c 'a b' \"c d\" e\\ f", ["c", "a b", "c d", "e f"]),
    ("c '' \"\"", ["c", "", ""]),
    ("c a'b'\"c\"\\d", ["c", "abcd"]),
    ('c "\\$x \\a \\\\"', ["c", "$x \\a \\"]),
    ("c *.py [ab]? 'x*'", ["c", f"{wildcards.VISIBLE}.py", wildcards.VISIBLE * 2, "x*"]),
    ("c ~ ~/a \"$HOME/b\" a~", ["c", wildcards.HOME, f"{wildcards.HOME}/a", f"{wildcards.HOME}/b", "a~"]),
    ("c HEAD~1 HEAD@{1} HEAD^{} {} ^a a#b a=b", ["c", "HEAD~1", "HEAD@{1}", "HEAD^{}", "{}", "^a", "a#b", "a=b"]),
    ('c "a$(d)b" "$USER"', ["c", f"a{wildcards.ANY_TEXT}b", wildcards.ANY_TEXT]),
    ("c \\\n  a \\\n  b", ["c", "a", "b"]),
    ("c a # b", ["c", "a"]),
    ("x=a; c $x/b", ["c", "a/b"]),
]  # fmt: skip


@each_row("line, construct", NAMED)
@pytest.mark.covers("SEC-01")
async def test_unsupported_construct_is_named_and_asks(line: str, construct: str) -> None:
    decision = await shell(line, "shell", "shell(*)", "scope:shell-run", reads_free=True)

    assert construct in analyze(line).problem
    assert (decision.outcome, construct in decision.reason) == ("ask", True)


@each_row("line", HIDDEN.strip().split("\n"))
@pytest.mark.covers("SEC-01", "SEC-02")
async def test_commands_after_an_unsupported_construct_are_not_allowed(line: str) -> None:
    free = await decide_call("shell", {"command": line}, mode="allow")
    denied = await shell(line, "shell", deny=["shell(touch *)"])

    assert analyze(line).problem
    assert free.outcome == "ask"
    assert denied.outcome == ("deny" if "touch F" in line else "ask")


@pytest.mark.parametrize(("line", "words"), WORDS)
def test_words_are_split_like_in_a_shell(line: str, words: list[str]) -> None:
    analysis = analyze(line)

    assert not analysis.problem
    assert words in [[word.text for word in unit.words] for unit in analysis.units]


def test_loop_is_analyzed_as_its_commands() -> None:
    units = analyze('for f in a "b c" d/*; do cat "$f"; wc $f; done').units

    seen = [(unit.words[1].text, unit.words[1].splits) for unit in units]
    assert seen == [
        ("a", False), ("b c", False), (f"d/{wildcards.VISIBLE}", False),
        ("a", False), (wildcards.ANY_TEXT, True), (wildcards.ANY_TEXT, True),
    ]  # fmt: skip


def test_too_many_values_or_levels_are_not_analyzed() -> None:
    loops = "".join(f"for {name} in 1 2 3 4; do " for name in "abc")
    nested = "ls"
    for _ in range(7):
        nested = f"sh -c {shlex.quote(nested)}"

    assert analyze(f"{loops} c $a$b; {'done; ' * 3}").problem == ""
    assert (
        analyze(f"{loops} c $a$b$c; {'done; ' * 3}").problem == "it uses variables with too many values in one command"
    )
    assert analyze(nested).problem == "it is nested too deeply"


def test_possibly_unassigned_variable_has_an_unknown_value() -> None:
    analysis = analyze("true || x=a; c $x")

    assert [unit.words[1].text for unit in analysis.units if len(unit.words) > 1] == ["a", wildcards.ANY_TEXT]


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("c > a 2>> b < 'c d'", [("a", True), ("b", True), ("c d", False)]),
        ("{ c; d; } > a", [("a", True)]),
        ("for x in a b; do c; done < in", [("in", False)]),
        ("c &> a", [("a", True)]),
        ("c 2>&1 >&2 2>&-", []),
        ("bash -c 'c > a'", [("a", True)]),
        ("c <<'EOF' > a\n> b\nEOF", [("a", True)]),
    ],
)
def test_redirections_are_found(line: str, files: list[tuple[str, bool]]) -> None:
    found = [(part.target.text, part.writes) for part in analyze(line).parts if isinstance(part, Redirect)]

    assert found == files


@pytest.mark.covers("SEC-01")
async def test_rule_can_name_a_whole_line() -> None:
    line = "for ((i = 0; i < 3; i++)); do echo $i > /tmp/out; done"
    rule = f"shell({line})"

    assert (await shell(line, rule)).outcome == "allow"
    assert (await shell(f" {line}\n", rule)).outcome == "allow"
    assert (await shell(f"{line}; ls", rule)).outcome == "ask"
    assert (await shell(line, rule, deny=["shell(echo *)"])).outcome == "deny"
    assert (await shell(line, rule, ask=["scope:shell-run"])).outcome == "ask"
    assert (await shell(line, rule, deny=["write_file(/tmp/**)"])).outcome == "deny"


async def test_rule_can_name_a_line_of_several_commands() -> None:
    rule = "shell(npm test && npm run lint > out.txt)"

    assert (await shell("npm test && npm run lint > out.txt", rule)).outcome == "allow"
    assert (await shell("npm test", rule)).outcome == "ask"
    assert (await shell("npm test '&&' npm run lint '>' out.txt", rule)).outcome == "ask"
    assert (await shell("npm test && npm run lint > .env", "shell(npm test && npm run lint > .env)")).outcome == "ask"


@pytest.mark.parametrize("line", ["x=(1); cat .env", "x=(1); cat config/credentials.json", "x=(1); cat ~/.ssh/id_rsa"])
async def test_sensitive_paths_in_an_unanalyzable_line_ask(line: str) -> None:
    decision = await shell(line, f"shell({line})")

    assert decision.outcome == "ask"
    assert "so it always asks" in decision.reason
