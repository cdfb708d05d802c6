"""Commands that other commands run, the files that commands change, and the hosts that they name."""

import pytest

from mainspring.shell_analysis import analyze, wildcards
from mainspring.shell_analysis.file_reads import find_recursive_read
from mainspring.shell_analysis.references import normalize_host, parse_host
from tests.unit.permissions.harness import shell


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("bash --norc -c 'ls a'", "ls a"),
        ("bash -o pipefail -c 'ls a'", "ls a"),
        ("bash -c -- 'ls a'", "ls a"),
        ("nice -- ls a", "ls a"),
        ("watch -n 2 ls a", "ls a"),
        ('timeout "$PWD" ls a', "ls a"),
    ],
)
def test_inner_command_is_found(line: str, inner: str) -> None:
    [unit] = analyze(line).units

    assert [" ".join(word.text for word in each.words) for each in unit.inner] == [inner]


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("watch --foo ls", "its options are unknown"),
        ("watch", "its options are unknown"),
        ('watch "$HOME/x"', "the code it runs is not known"),
    ],
)
def test_unknown_inner_command_has_a_reason(line: str, unknown: str) -> None:
    assert analyze(line).units[-1].unknown == unknown


async def test_command_at_an_unknown_position_may_be_denied() -> None:
    line = "timeout $(ls) rm x"

    assert (await shell(line, "shell(timeout *)", "shell(ls)", deny=["shell(rm *)"])).outcome == "deny"


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("python -u x.py a", 3),
        ("python -m pytest -q", 3),
        ("bash -- x.sh a", 3),
        ("awk '{ print }' a", 1),
        ("awk -F , a", 4),
        ("awk -v", 2),
    ],
)
def test_rule_must_name_the_words_that_select_code(line: str, fixed: int) -> None:
    assert analyze(line).units[0].fixed == (fixed if fixed != 4 else 1)


@pytest.mark.parametrize(
    ("line", "effects"),
    [
        ("dd if=a of=b bs=1", [("fs-read", "a"), ("fs-write", "b")]),
        ("git mv a b", [("fs-delete", "a"), ("fs-write", "b")]),
        ("git clean -fd", [("fs-delete", ".")]),
        ("git clean -fd src", [("fs-delete", "src")]),
        ("git clean -nd src", []),
        ("ls | xargs -I {} rm {} a{}", [("fs-delete", wildcards.ANY_TEXT), ("fs-delete", f"a{wildcards.ANY_TEXT}")]),
        ("ls | xargs -I{} rm {}", [("fs-delete", wildcards.ANY_TEXT)]),
        ("ls | xargs --replace rm {}", [("fs-delete", wildcards.ANY_TEXT)]),
        ("printf -- '%s' a", []),
    ],
)
@pytest.mark.covers("SEC-02")
def test_files_that_a_command_changes_are_found(line: str, effects: list[tuple[str, str]]) -> None:
    found = [(each.scope, each.word.text) for unit in analyze(line).units[-1].walk() for each in unit.file_accesses]

    assert found == effects


@pytest.mark.parametrize("line", ["git status | xargs cat", "git | xargs cat", "ls -*"])
async def test_read_of_unknown_files_asks(line: str) -> None:
    assert (await shell(line, reads_free=True)).outcome == "ask"


async def test_wildcard_does_not_cover_a_word_that_may_be_an_option() -> None:
    decision = await shell("find src/$(ls)", "shell(find *)", "shell(ls)")

    assert decision.reason == ("the rule 'shell(find *)' does not cover the word 'src/$(ls)', which may be an option")


def test_command_after_an_unknown_assignment_is_no_recursive_read() -> None:
    unit = analyze("x=$(ls) grep -r a .").units[-1]

    assert find_recursive_read(unit) is None
    assert [find_recursive_read(inner) is not None for inner in unit.inner] == [True]


def test_here_document_alone_in_a_group_is_analyzed() -> None:
    [inner, unit] = analyze("echo $({ cat <<'EOF'\nx\nEOF\n})").units

    assert inner.text == "cat <<'EOF'"
    assert unit.words[1].text == wildcards.ANY_TEXT


@pytest.mark.parametrize(
    ("name", "host"),
    [("müller.example", "xn--mller-kva.example"), ("a..ü", None), (f"{'ü' * 80}.example", None)],
)
def test_host_beyond_ascii_is_spelled_as_in_a_url(name: str, host: str | None) -> None:
    assert parse_host(f"https://{name}/x") == host
    assert normalize_host(name) == (host or name)
