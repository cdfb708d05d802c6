"""Random shell lines over the whole bash grammar, supported or not, and random edits of lines."""

import random
from collections.abc import Callable

NAMES = ("c0", "c1", "c2", "c3")
WORDS = (
    "a", "b", "x=1", "-v", "--opt=val", "a.x", "src/c.x", "in.txt", "HEAD~1", "HEAD^", "HEAD@{1}", "@{u}", "^a", "a#b", "%1", "1", "42", "-n", "{}",
    "a{}b", "+1", ":", ",", "./a", "../b", "a:b", "do", "done", "in", "then", "!", "!a", "=", "a]", "é", "日本", "~", "~/x", "a~", "x!y", "foo$", "--",
    "if", "fi", "a@b", "a%b", "]", "time", "f-1",
)  # fmt: skip
ODD_WORDS = (
    "{a,b}", "{1..3}", "**", "*(N)", "@(a|b)", "~root", "~+", "=c0", "==", "a=~/x", "$'a\\'b'", '$"a"', "${x:-a}", "${x:=$(c1)}", "${#x}", "${!x}",
    "${x@P}", "${x[0]}", "$((1+1))", "$[1+1]", "`c1`", "`c1 \\`c2\\``", "$x[1]", "$x:h", "$1", "$@", "$*", "$#", "$$", "$!", "$-", "$0", "$_",
    "<(c1)", ">(c1)", "=(c1)", "<1-5>", "[[:alpha:]]", "[a", "a[", "}", "{", "a}", "\\", "a\\\nb", "{x}", "${x%%*}", "${x/a/b}", "${x^^}", "$~x", "$=x",
    "$^x", "$+x", "${(e)x}", "a(b)", "()", "(a)", "?(a)", "x=(1)", "[ab]c*", "~a/b", "a=(c1)", "[$(c1)]", "'a", '"a', "$(", "${", "$((", "\x07", "\u00a0", "#a",
    "'a'\\''b'", "\\é",
)  # fmt: skip
TESTS = (
    "[ -f a.x ]", "[ a = b ]", "[ 1 -eq 1 ]", "test -n a", "[ ! -d src ]", "test a != b", '[ "$x" = a ]', "[ $? -eq 0 ]", "[ a == b ]", '[ -z "$x" ]',
    "[ -e src/c.x ]",
)  # fmt: skip
ODD_TESTS = (
    "[[ a == b ]]", "[[ $x -eq 0 ]]", "[ -v 'a[$(c1)]' ]", "[ 'a[$(c1)]' -eq 0 ]", "test $x -eq 0", "(( x ))", "let x=1", "[ $x ]", "[ a -a b ]",
    "[[ a =~ b ]]", "[ a ] && [ -R x ]", '[ "a[$(c1)]" -lt 1 ]', "[ $(c1) = a ]", "test -t 'a[$(c1)]'",
)  # fmt: skip
ODD_COMMANDS = (
    "x='a[$(c1)]'; z=([x]=1)", "x='a[$(c1)]'; export z=([x]=1)", "a=(c0 $(c1))", "a+=(x)", "a[0]=1", "declare -A x", "eval 'c1 a'", "trap 'c1 a' EXIT",
    "f() { c1; }; f", "function f { c1; }; f", "coproc c1", "case a in a) c1;; *) c2;; esac", "select x in a b; do c1; break; done", "let 'x=1'",
    "for ((i=0;i<2;i++)); do c1; done", "(( 1 ))", "alias c0=c1; c0", "printf -v x a", "read x < in.txt", "unset 'a[$(c1)]'", "exec > f", "exec 3< in.txt",
    "set -- a b", "shopt -s extglob", "IFS=,", "PATH=.", "RANDOM='a[$(c1)]'", "COLUMNS='a[$(c1)]' c0", "export x=1", "local x=1", "typeset -i x='a[$(c1)]'",
    ". ./a.x", "source a.x", "repeat 2 c1", "foreach x (a b) c1; end", "noglob c1 *", "nocorrect c1", "- c1", "builtin eval c1", "command eval c1",
    "time -p c1", "time c1", "time { c1; }", "time ! c1", "time x=1 c1", "exec c1", "exec -a x c1", "mapfile x < in.txt", "getopts a x", "printf '%d' 'a[$(c1)]'",
    "exit 'a[$(c1)]'", "return x", "shift 'a[$(c1)]'", "c0 <<EOF\n$(c1)\nEOF", "c0 <<-'EOF'\n\ta\n\tEOF", "c0 <<< $(c1)", "c0 |& c1", "c0 &| c1", "c0 &! c1",
    "c0 >& f", "c0 >&2x", "c0 2>&1>f", "c0 <> f", "c0 {fd}> f", "c0 >| f", "c0 >! f", "> f", "< in.txt", ": > f", "c0 10> f", "! ! c1", "c0 &> f c1", "c0 &>1",
    "c0 &>> f", "c0 &> p", "if c0 { c1 }", "while c0 { c1; break }", "{ c0 } always { c1 }", "for x in a { c1 }", "for x; do c1; done", "c0 ;; c1", "disable c0",
    "enable -f x c0", "hash c0=c1", "emulate ksh", "setopt shwordsplit", "zmodload zsh/system", "print -z c1", "vared x", "fc -e c1", "r c1", "%1", "=c1",
    "path=(x)", "path=src; c0", "for path in src; do c1; done", "status=1", "argv=x", "unset PATH", "c0() c1", "(c0)(c1)", "((c0);c1)", "$(c0) a", '"$x" a',
    "printf '%n' 'a[$(c1)]'", "printf '%*s' 'a[$(c1)]' b", "wait -n", "wait -p x", "kill -l 'a[$(c1)]'", "cd src sub", "x=1 :; c0 $x", "for x in a; do x=b :; c0 $x; done", "c0 1&>f", "c0;# c1", "FOO='a[$(c1)]' c0", "x=5; [ $x -gt 3 ]", "x='a[$(c1)]'; [ $x -eq 1 ]", "c0 | c1 < in.txt", "c0 < in.txt < a.x", "c0 == a", "c0 à", "cd -", "pushd src", "limit", "ulimit -n 5",
)  # fmt: skip
ESCAPED = tuple(" $*'\"\\;&|<>(){}[]#~!=`?-a")
CHARACTERS = "\\'\"`$#(){}[];&|<>\n \t=!*?~-^%@,:+0xa"
PIECES = (
    " ", "\n", ";", " && ", " || ", " | ", " & ", " ( ", " ) ", " { ", "; } ", "$(", ")", "`", '"', "'", "\\", "\\\n", "#", " #", " <<'EOF'\n", "\nEOF\n",
    " >", " <", "<(", "${x:-", "}", "$((", "))", "[[ ", " ]]", "c0 ", "c1 ", "x=", "x=c1 ", "$x", "time ", " <<<", "&>", "2>&1", " >|", "~", "*", "[ab]", "$[",
    "|&", "eval ", "exec ", "f() ", "a=(", "if ", "then ", "fi", "esac", "!", "$'", '$"', "((", "{fd}>", "<&-", "$$", "[ -v ", " -eq 0 ", "$@", "=", "\t",
    "else ", "do ", "done", "in ", "for x in a; do ", "while ", "{}", "$?", "~/", "=c1", "(c1)", "&!", "[1]", ":h", "\\ ",
)  # fmt: skip


class Generator:
    """Generates random lines.

    Args:
        source: The source of random choices.
        odd: The probability of unsupported constructs, from 0 to 1.
    """

    def __init__(self, source: random.Random, odd: float) -> None:
        self.random = source
        self.odd = odd
        self.depth = 0
        self.names = ["x"]

    def line(self) -> str:
        text = self._list()
        if self._chance(0.2):
            value = self._pick(("a", "src/c.x", "'a b'", "$(c3)", "", "-o"))
            text = f"x={value}" + self._pick(("; ", "\n", " && ")) + text
        return (
            self._pick(("", " ", "\n", "# c3 'x\n", "\t"))
            + text
            + self._pick(("", "", ";", "\n", " # c3", " &", "\n\n"))
        )

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _pick(self, choices: tuple[str, ...] | list[str]) -> str:
        return self.random.choice(choices)

    def _list(self) -> str:
        parts = [self._and_or()]
        while self._chance(0.22):
            parts.append(self._pick(("; ", ";", "\n", " & ", " ;\n ", "\n# c1 it's\n", "&")) + self._and_or())
        return "".join(parts)

    def _and_or(self) -> str:
        text = self._pipeline()
        while self._chance(0.25):
            text += self._pick((" && ", " || ", "&&", "||", " &&\n", " || ")) + self._pipeline()
        return text

    def _pipeline(self) -> str:
        text = self._pick(("! ",)) if self._chance(0.06) else ""
        text += self._command()
        while self._chance(0.2):
            text += self._pick((" | ", "|", " |\n")) + self._command()
        return text

    def _command(self) -> str:
        if self._chance(self.odd * 0.3):
            return self._pick(ODD_COMMANDS)
        if self._chance(self.odd * 0.1):
            return self._pick(ODD_TESTS)
        self.depth += 1
        kinds: list[Callable[[], str]] = [self._simple] * 6
        if self.depth < 5:
            kinds += [self._group, self._subshell, self._if, self._text_purpose, self._while, self._test][
                self.depth // 3 :
            ]
        text = self.random.choice(kinds)()
        self.depth -= 1
        return text

    def _group(self) -> str:
        return "{" + self._pick((" ", "\n")) + self._list() + self._pick(("; ", "\n", ";")) + "}" + self._redirects(0.2)

    def _subshell(self) -> str:
        return (
            "("
            + self._pick(("", " ", "\n"))
            + self._list()
            + self._pick(("", " ", ";", "\n"))
            + ")"
            + self._redirects(0.2)
        )

    def _if(self) -> str:
        text = f"if {self._list()}{self._stop()}then {self._list()}{self._stop()}"
        if self._chance(0.2):
            text += f"elif {self._list()}{self._stop()}then\n{self._list()}{self._stop()}"
        if self._chance(0.3):
            text += f"else {self._list()}{self._stop()}"
        return f"{text}fi{self._redirects(0.1)}"

    def _text_purpose(self) -> str:
        name = self._pick(("x", "f", "i", "file"))
        words = " ".join(self._word() for _ in range(self.random.randint(1, 3)))
        self.names.append(name)
        text = f"for {name} in {words}{self._stop()}do {self._list()}{self._stop()}done{self._redirects(0.1)}"
        self.names.pop()
        return text

    def _while(self) -> str:
        word = self._pick(("while", "until"))
        return f"{word} {self._simple()}{self._stop()}do {self._list()}; break{self._stop()}done{self._redirects(0.1)}"

    def _test(self) -> str:
        return self._pick(TESTS)

    def _stop(self) -> str:
        return self._pick(("; ", "\n", " ;\n", "; "))

    def _simple(self) -> str:
        text = ""
        if self._chance(0.06):
            value = self._pick(("1", "a", "'a b'", '"b c"', "", "a/b:c"))
            text = self._pick(("FOO", "x", "CI", "LC_ALL", "COLUMNS")) + f"={value} "
        if self._chance(0.05):
            text += self._redirect().strip() + " " if not text else ""
        name = self._pick(NAMES)
        if self._chance(0.15):
            name = self._pick(("echo", "cd src", "true", "false", "printf '%s\\n'", "cd", "pwd", ":", "command c1", "exec c1", "c'0'", '"c1"', "\\c2", "c\\0",
                               "cd 'sub dir'", "test", "bash -c 'c1 a; c2'", "sh -c 'c1 | c2 \"b\"'", "env c1", "time c3", "set -e;", "type", "command -v", "wait;",
                               "echo $?", "sh <<'EOF'\nc1 a\nEOF\nc0", "kill"))  # fmt: skip
        text += name
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3))):
            text += self._pick((" ",) * 12 + ("  ", "\t", " \\\n ")) + self._word()
            if self._chance(0.08):
                text += self._redirect()
        return text + self._redirects(0.15)

    def _redirects(self, probability: float) -> str:
        text = ""
        while self._chance(probability):
            text += self._redirect()
        return text

    def _redirect(self) -> str:
        if self._chance(0.12):
            body = self._pick(("a\n", "", "a b\n$(c3) `c3`\n", "it's\n", "a\n EOF\nb\n", "c3 'x\n\\\n"))
            after = self._pick(("", "", " a", " | c2", " > f", "; c3"))
            return f" <<'EOF'{after}\n{body}EOF\n" if self.depth < 2 else " <<'EOF'\nplain\nEOF\n"
        file = self._pick(
            (
                "f",
                "a.x",
                "src/g",
                "'h i'",
                '"h"',
                "in.txt",
                "d/e",
                "/dev/null",
                "~/k",
                "$HOME/k",
                '"$x"',
                "$x",
                "b.x",
                "new-1",
            )
        )
        operator = self._pick((">", ">>", "<", "2>", "2>>", ">|", "1>", "0<", "&>", "3>"))
        if operator == "<":
            file = self._pick(("in.txt", "a.x", "src/c.x", "/dev/null"))
        if self._chance(0.3):
            return self._pick((" 2>&1", " >&2", " <&-", " 2>/dev/null", " >/dev/null 2>&1", " 1>&2", " <&0", " 2>&-"))
        return f"{self._pick((' ', ' ', ''))}{operator}{self._pick(('', ' '))}{file}"

    def _word(self) -> str:
        if self._chance(self.odd * 0.25):
            return self._pick(ODD_WORDS)
        if self._chance(0.45):
            return self._pick(WORDS)
        return "".join(self._piece() for _ in range(self.random.choice((1, 1, 1, 2, 3))))

    def _piece(self) -> str:
        match self.random.randrange(11):
            case 0:
                return (
                    "'"
                    + self._pick(("a b", "$x", "$(c3)", "*", "", "a\nb", "`c3`", "\\", '"', "#", "{a,b}", "~", "-"))
                    + "'"
                )
            case 1 | 2:
                return f'"{self._quoted()}"'
            case 3:
                return "\\" + self._pick(ESCAPED)
            case 4:
                return self._pick(("*", "?", "[ab]", "*.x", "src/*", "a?x", "[!a]*", "[a-c].x"))
            case 5:
                name = self._pick([*self.names, "HOME", "PWD", "USER", "?"])
                return f"${name}" if self._chance(0.6) or name == "?" else f"${{{name}}}"
            case 6:
                return self._substitution()
            case 7 if self._chance(self.odd):
                return self._pick(ODD_WORDS)
            case _:
                return self._pick(
                    ("a", "b", "-", "/", ".", "=", ":", "1", "x", "@", "%", "+", ",", "^", "!", "#", "$", "~")
                )

    def _quoted(self) -> str:
        text = ""
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            text += self._pick(("a", " ", "b c", "'", "\\$", "\\\\", '\\"', "\\`", "\\a", "*", "~", "#", "{a,b}", ";", "&", "(", ")", "!", "\n", "$ ", "é", "[1]",
                                ":h", "=", "|", "<", "/", "it's", "$", "\\n"))  # fmt: skip
            if self._chance(0.35):
                name = self._pick([*self.names, "HOME", "USER", "PWD"])
                text += self._pick((f"${name}", f"${{{name}}}", self._substitution(), "$?"))
        return text

    def _substitution(self) -> str:
        if self.depth > 4:
            return "$(c3)"
        self.depth += 1
        text = "$(" + self._pick(("", " ")) + self._list() + self._pick(("", " ", "\n")) + ")"
        self.depth -= 1
        return text


def change(source: random.Random, line: str) -> str:
    """Insert, delete, or reverse a few characters of a line."""
    for _ in range(source.choice((1, 1, 2, 3))):
        at, length = source.randrange(len(line) + 1), source.randint(1, 3)
        line = source.choice(
            [
                line[:at] + source.choice(PIECES) + line[at:],
                line[:at] + source.choice(CHARACTERS) + line[at:],
                line[:at] + line[at + length :],
                line[:at] + line[at : at + length][::-1] + line[at + length :],
            ]
        )
    return line
