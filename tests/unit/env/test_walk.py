"""Ignore rules of a walk: names that no rule mentions are recognized without the matcher."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.env import LocalEnv
from mainspring.env.local_files import LocalFiles, LocalWalkSource
from mainspring.env.walk import IGNORE_FILE_NAMES, DirectoryWalker, IgnoreRules

RULES = st.lists(st.text("ab.*?![]^-\\/ \t#", max_size=8), max_size=4)


NAMES = st.text("ab.-^ ]", min_size=1, max_size=4)
any_rule = pytest.mark.filterwarnings("ignore:Possible (nested )?set:FutureWarning")  # pathspec compiles it unchanged


@any_rule
@settings(max_examples=400)
@given(RULES, NAMES, st.booleans(), st.booleans())
def test_name_that_is_not_mentioned_matches_no_rule(
    rules: list[str], name: str, is_folder: bool, is_deep: bool
) -> None:
    check_name(rules, name, is_folder, is_deep)


@pytest.mark.soak
@any_rule
@settings(max_examples=5_000)
@given(RULES, NAMES, st.booleans(), st.booleans())
def test_name_that_is_not_mentioned_matches_none_of_many_rules(
    rules: list[str], name: str, is_folder: bool, is_deep: bool
) -> None:
    check_name(rules, name, is_folder, is_deep)


def check_name(rules: list[str], name: str, is_folder: bool, is_deep: bool) -> None:
    rules = [rule for rule in rules if rule.strip(" \t/!")]  # pathspec applies such rules, git and ripgrep do not
    level = IgnoreRules("/root", None, {".gitignore": "\n".join(rules).encode()})
    folder = "/root/q" if is_deep else "/root"
    if is_deep and level.mentions("q"):
        return  # a rule may apply to the parent folder, and through it to everything inside
    if not level.mentions(name):
        assert level.match(".gitignore", f"{folder}/{name}", is_folder) is None


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("*.py[co]", "a.pyc"),
        ("[^a]", "b"),
        ("[[:alpha:]]x", "ax"),
        ("a\\ ", "a "),
        ("\\!a", "!a"),
        ("!a", "a"),
        ("/x/**/a", "a"),
        ("a/", "a"),
        ("a/**", "deep"),
    ],
)
def test_name_that_a_rule_may_match_is_mentioned(rule: str, name: str) -> None:
    level = IgnoreRules("/root", None, {".ignore": b"other\n"})
    assert IgnoreRules("/root/x", level, {".gitignore": rule.encode()}).mentions(name)
    assert IgnoreRules("/root/x", level, {".gitignore": rule.encode()}).mentions("other")


def test_ignore_files_are_read_only_where_they_exist(tmp_path: Path) -> None:
    for folder in ("a", "b/c", "b/d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "b" / ".gitignore").write_text("c\n")
    read: list[str] = []

    class Source(LocalWalkSource):
        def read(self, path: str) -> bytes | None:
            read.append(path)
            return super().read(path)

    source = Source(LocalFiles(str(tmp_path), str(tmp_path)))
    walker = DirectoryWalker(source, str(tmp_path), depth=None, limit=100, is_cancelled=lambda: False)
    result = walker.walk(use_rules=True, use_rules_above=False)
    assert [entry.path for entry in result.entries] == ["a", "b", "b/.gitignore", "b/d"]
    assert read == [str(tmp_path / "b" / ".gitignore")]


@pytest.mark.parametrize("name", IGNORE_FILE_NAMES)
async def test_matcher_is_loaded_only_for_mentioned_names(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pathspec", None)  # an import fails
    (tmp_path / name).write_text("*.log\nbuild/\n")
    (tmp_path / "a.py").write_text("")
    env = LocalEnv(tmp_path)
    assert [entry.path for entry in (await env.walk(".")).entries] == [name, "a.py"]
    assert not await env.is_ignored("a.py")
    (tmp_path / "a.log").write_text("")
    with pytest.raises(ImportError):
        await env.walk(".")
