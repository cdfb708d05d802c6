"""Commands that ``find`` runs for the files it finds."""

from typing import Any

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.tools.builtin import shell
from tests.rows import each_row

FILES = {"README.md": "a\n", "src/app.py": "b\n", "src/-n": "c\n", "src/x /etc/passwd": "d\n", "private/key.py": "e\n"}
SECRET = {**FILES, ".env": "KEY=1\n"}

PROVED = r"""
find . -type f -exec cat {} +
find . -type f -exec cat '{}' \;
find src README.md -type f -exec wc -l {} +
find . -type f -name '*.py' -print -exec grep -n foo {} \;
find . -type f -exec grep -q foo {} \; -exec wc -l {} +
find . -type f -a -name '*.py' -exec sed -n 1,5p {} \;
find . -type f -exec awk '{print $1}' {} +
find . -type f -exec uniq {} \;
find -type f -newer README.md -exec cat {} +
"""
NOT_PROVED = r"""
find . -exec cat {} +
find . -type d -exec cat {} +
find . -type l -exec cat {} +
find . -type f,l -exec cat {} +
find . -xtype f -exec cat {} +
find . -exec cat {} + -type f
find . -exec cat {} \; -type f
find -L . -type f -exec cat {} +
find -H link -type f -exec cat {} +
find . -follow -type f -exec cat {} +
find . ! -type f -exec cat {} +
find . -not -type f -exec cat {} +
find . -type f -o -exec cat {} +
find . -type f -o -name x -exec cat {} +
find . -type f , -exec cat {} +
find . -type f -print -o -exec cat {} \;
find . \( -type f -o -type l \) -exec cat {} +
find . \( -type f \) -exec cat {} +
find . -type f -exec cat {} + -o -type l -exec cat {} +
find . -name -type f -exec cat {} +
find . -name -exec -exec cat {} \;
find . -type f -name -exec -exec cat {} \;
find . -type f -execdir cat {} +
find . -type f -ok cat {} \;
find . -type f -okdir cat {} \;
find . -type f -newerXY x -exec cat {} +
find -files0-from list -type f -exec cat {} +
find . -type f -exec cat {} + -delete
find . -type f -fprint out -exec cat {} +
find . -type f -exec sh -c 'cat {}' \;
find . -type f -exec sh -c 'cat "$1"' _ {} \;
find . -type f -exec {} \;
find . -type f -exec {} foo +
find . -type f -exec env cat {} \;
find . -type f -exec xargs -a {} cat \;
find . -type f -exec find {} -delete \;
find . -type f -exec git diff {} \;
find . -type f -exec grep -f {} README.md \;
find . -type f -exec grep -f README.md {} \;
find . -type f -exec grep {} README.md \;
find . -type f -exec grep {} +
find . -type f -exec grep -e {} README.md \;
find . -type f -exec grep --include={} -r x \;
find . -type f -exec sed {} README.md \;
find . -type f -exec sed -f {} README.md \;
find . -type f -exec sed -i s/a/b/ {} +
find . -type f -exec sed -n 'w out' {} +
find . -type f -exec sed -n 'r /etc/passwd' {} +
find . -type f -exec sed 's/a/id/e' {} +
find . -type f -exec awk 'BEGIN { system("id") }' {} +
find . -type f -exec awk '{ print > "out" }' {} +
find . -type f -exec awk -f {} +
find . -type f -exec awk -f {} README.md \;
find . -type f -exec sort -o {} {} \;
find . -type f -exec sort -o out {} +
find . -type f -exec sort --files0-from={} \;
find . -type f -exec sort --files0-from {} \;
find . -type f -exec wc --files0-from={} \;
find . -type f -exec uniq {} +
find . -type f -exec uniq {} {} \;
find . -type f -exec uniq {} out \;
find . -type f -exec xxd -r {} +
find . -type f -exec cat {} ../x \;
find . -type f -exec cat {} /etc/passwd \;
find . -type f -exec cat /etc/passwd {} +
find . -type f -exec cat {} README.md \;
find . -type f -exec cat {} src/* \;
find . -type f -exec cat ../{} \;
find . -type f -exec cat {}/../../x \;
find . -type f -exec cat '{} ' \;
find . -type f -exec cat {}{} \;
find . -type f -exec cat -{} \;
find . -type f -exec cat $X {} \;
find . -type f -exec cat "$(pwd)" {} \;
find . -type f -exec diff {} /etc/passwd \;
find . -type f -exec tar -cf out {} +
find . -type f -exec tar -tf {} \;
find . -type f -exec tar {} \;
find . -type f -exec cp {} /tmp \;
find . -type f -exec rm {} +
find . -type f -exec echo + -exec rm {} \;
find . -type f -exec cat {} x +
find . -type f -exec cat + {} \;
find . -type f -exec cat '{}' {} +
find . -type f -exec cat {} + -exec rm {} +
find . -type f -exec rm {} \; -exec cat {} \;
find . -type f -exec cat {} + -execdir rm {} \;
find . -type f -exec cat {}
find . -type f -exec
find . -type f -exec \;
find . -type f -exec +
find . -type f -exec ls \;
find . -type f -exec test -s {} \;
find . -type f -exec [ -s {} ] \;
find . -type f -exec ./cat {} +
find . -type f -exec src/cat {} +
find . -type f -exec c* {} +
find . -type f -exec cat* {} +
find * -type f -exec cat {} +
find src/* -type f -exec cat {} +
find s* -type f -exec cat {} +
find -- -n -type f -exec cat {} +
find +1 -type f -exec tail {} +
find .. -type f -exec cat {} +
find / -type f -exec cat {} +
find ~ -type f -exec cat {} +
find /etc/passwd -type f -exec cat {} +
find link -type f -exec cat {} +
find link/ -type f -exec cat {} +
find link/. -type f -exec cat {} +
find $X -type f -exec cat {} +
find . -type f -newer /etc/passwd -exec cat {} +
find . -type f -exec cat {} + > out
find . -type f -exec rg --pre {} x \;
find . -type f -exec rg -f {} x \;
find . -type f -exec file -f {} \;
find . -type f -exec file -m {} README.md \;
find . -type f -exec md5sum -c {} \;
find . -type f -exec date -f {} \;
find . -type f -exec date -r {} \;
find . -type f -exec jq -f {} README.md \;
find . -type f -exec jq {} README.md \;
find . -type f -exec jq --slurpfile x {} . README.md \;
find . -type f -exec tree --fromfile {} \;
find . -type f -exec du --files0-from={} \;
find . -type f -exec python {} \;
"""
SHOWS_A_SECRET = r"""
find . -type f -exec cat {} +
find -type f -exec cat {} +
find -type f -newer README.md -exec cat {} +
find . -type f -exec cat {} + -name '*.py'
find . -type f -exec grep -q a {} \; -name '*.py' -exec cat {} \;
find . -type f -name '*' -exec cat {} +
find . -type f -name '.e*' -exec cat {} +
find . -type f -name '.en[v]' -exec cat {} +
find . -type f -name '.en\v' -exec cat {} +
find . -type f -name '????' -exec cat {} +
find . -type f -iname '*.PY' -exec cat {} +
find .env -type f -exec cat {} +
find . .env -type f -name '*.py' -exec cat {} +
find src .. -type f -name '*.py' -exec cat {} +
find . -type f -name '*.py' -exec cat {} .env \;
find . -type f -name '*.py' -exec grep -r KEY {} . \;
"""

XARGS_PROVED = r"""
find . -type f -print0 | xargs -0 wc -l
find . -type f -name '*.md' -print0 | xargs -0 -n 1 -P 4 grep -n foo
find src -type f -name '*.py' -print0 2>/dev/null | xargs -0r cat | sort | head
find private -type f | xargs wc -l
find private -type f -name '*.py' -print | xargs -r cat
find . -type f -name '*.py' | xargs grep -n TODO
find . -name '*.py' | xargs wc -l
find private | xargs ls -l
grep -rl e private | xargs wc -l
grep -rliw --include='*.py' e private | xargs cat
rg -l e private | xargs sed -n 1,3p
rg --files private | xargs wc -l
find private README.md -type f | xargs ls -l
"""
XARGS_NOT_PROVED = r"""
find . -type f | xargs wc -l
find . | xargs wc -l
find private | xargs grep -r e
find private | xargs diff -r src
find private | xargs rg e
grep -rl e . | xargs cat
grep -rl e private | xargs -0 cat
grep -rlc e private | xargs cat
grep -rn e private | xargs cat
grep -rl e private | xargs rm
grep -rl --color=always e private | xargs cat
grep -l e link | xargs cat
grep -rlZ e private | xargs cat
grep -rl e private 2>&1 | xargs cat
rg -l --stats e private | xargs cat
rg -l --json e private | xargs cat
rg -lc e private | xargs cat
rg -l e | xargs cat
find . -print0 | xargs -0 cat
find . -type l -print0 | xargs -0 cat
find . -print0 -type f | xargs -0 cat
find . -type f -o -print0 | xargs -0 cat
find . ! -type f -print0 | xargs -0 cat
find -L . -type f -print0 | xargs -0 cat
find . -type f -print0 | xargs cat
find private -type f -print | xargs -0 cat
find private -type f | xargs -0 cat
find private -type f -name -print0 | xargs -0 cat
find private -type f -newer -print0 | xargs -0 cat
find private -type f -printf '/etc/passwd' | xargs cat
find private -type f -printf '/etc/passwd\0' -print0 | xargs -0 cat
find private -type f -ls | xargs cat
find private -type f -print0 -print | xargs cat
find private -type f -exec echo /etc/passwd \; | xargs cat
find private -type f -exec echo {} + | xargs cat
find private -type f -exec cat {} + | xargs cat
find private -type f -exec cat {} + -print0 | xargs -0 cat
find . -type f -print0 2>&1 | xargs -0 cat
find private -type f 2>&1 | xargs cat
find private -type f | cat | xargs cat
find private -type f | sort | xargs cat
find private -type f | tee out | xargs cat
find private -type f; xargs cat
find private -type f && ls | xargs cat
ls | xargs cat
echo /etc/passwd | xargs cat
{ find private -type f; echo /etc/passwd; } | xargs cat
(find private -type f; echo /etc/passwd) | xargs cat
find private -type f $(echo x) | xargs cat
find private -type f | xargs cat $(echo x)
X=1 find private -type f | X=1 xargs cat
find private -type f | xargs -I{} cat {}
find private -type f | xargs -I{} cat {}/../../x
find private -type f | xargs -i cat {}
find private -type f | xargs -a list cat
find private -type f | xargs --arg-file=list cat
find private -type f -print0 | xargs -0 -a list cat
find private -type f -print0 | xargs -0 -o cat
find private -type f -print0 | xargs -0 -p cat
find private -type f | xargs -d , cat
find private -type f | xargs -E x cat
find private -type f | xargs -L 1 cat
find private -type f | xargs -s 100 cat
find private -type f | xargs cat ../x
find private -type f | xargs cat /etc/passwd
find private -type f | xargs cat README.md
find private -type f | xargs cat src/*
find private -type f | xargs grep
find private -type f | xargs grep -f
find private -type f | xargs grep -e
find private -type f | xargs grep -f list
find private -type f | xargs sort -o
find private -type f | xargs sort -o out
find private -type f | xargs uniq
find private -type f | xargs -n 1 uniq
find private -type f | xargs sed -i s/a/b/
find private -type f | xargs sed -n
find private -type f | xargs awk
find private -type f | xargs awk -f
find private -type f | xargs awk 'BEGIN { system("id") }'
find private -type f | xargs sh
find private -type f | xargs sh -c
find private -type f | xargs sh -c 'cat "$@"' _
find private -type f | xargs env cat
find private -type f | xargs xargs cat
find private -type f | xargs rm
find private -type f | xargs ./cat
find private -type f | xargs test -s
find private -type f | xargs tar -tf
find private -type f | xargs git diff
find private -type f | xargs python
find private -type f | ./xargs cat
find private -type f | sudo xargs cat
find private -type f | xargs cat > out
./find private -type f | xargs cat
find 'src/x ' -type f | xargs cat
find ~ -type f | xargs cat
find .. -type f -print0 | xargs -0 cat
find /etc -type f -print0 | xargs -0 cat
find $X -type f -print0 | xargs -0 cat
find * -type f -print0 | xargs -0 cat
find link/ -type f -print0 | xargs -0 cat
"""
XARGS_SHOWS_A_SECRET = r"""
find . -type f -print0 | xargs -0 cat
find . -type f -name '*.py' -print0 | xargs -0 grep -r KEY
find private -type f | xargs grep -r KEY
find private -type f | xargs rg --hidden KEY
find . -type f -name '.e*' | xargs cat
find .env -type f | xargs cat
"""


async def decide_line(line: str, files: dict[str, str], **options: Any) -> str:
    """Return the outcome for a line in a small project with a link to an outside folder."""
    env = MemoryEnv(files, links={"link": "/etc", "src/passwd": "/etc/passwd"})
    permissions = Permissions(**options)
    return (await permissions.decide("shell", {"command": line}, env=env, definition=shell)).outcome


@each_row("line", (PROVED + XARGS_PROVED).strip().replace("\n\n", "\n").splitlines())
async def test_find_with_a_read_only_command_is_allowed(line: str) -> None:
    assert await decide_line(line, FILES) == "allow"


@each_row("line", (NOT_PROVED + XARGS_NOT_PROVED).strip().replace("\n\n", "\n").splitlines())
async def test_unproven_find_command_asks(line: str) -> None:
    assert await decide_line(line, FILES) != "allow"


@pytest.mark.parametrize("line", (SHOWS_A_SECRET + XARGS_SHOWS_A_SECRET).strip().replace("\n\n", "\n").splitlines())
async def test_find_that_may_match_a_sensitive_file_asks(line: str) -> None:
    assert await decide_line(line, SECRET) != "allow"


async def test_find_that_cannot_match_a_sensitive_file_is_allowed() -> None:
    assert await decide_line("find . -name '*.py' -type f -exec cat {} +", SECRET) == "allow"


async def test_find_that_may_match_a_denied_file_asks() -> None:
    line = "find . -name '*.py' -type f -exec cat {} +"

    assert await decide_line(line, FILES, deny=("read_file(private/**)",)) != "allow"
    assert await decide_line(line, FILES, deny=("scope:fs-read(private/*.md)",)) == "allow"


async def test_find_with_a_denied_command_is_not_allowed() -> None:
    assert await decide_line("find . -type f -exec cat {} +", FILES, deny=("shell(cat *)",)) != "allow"


async def test_find_that_may_match_an_ignored_file_asks() -> None:
    files = {**FILES, ".agentignore": "private/\n"}

    assert await decide_line("find . -name '*.py' -type f -exec cat {} +", files) != "allow"
    assert await decide_line("find src -name '*.py' -type f -exec cat {} +", files) == "allow"
