"""Parsing of skill files: accepted forms, warnings, and errors."""

import json

import pytest
from hypothesis import given, strategies as st

from mainspring.skills.content import decode_skill_file, extract_examples, find_shell_commands, read_body
from mainspring.skills.manifest import first_sentence, normalize_name, parse_list, parse_skill, parse_tool_rules
from mainspring.skills.skill import Script, Skill, SkillError, TriggerWords

FULL = """---
name: pdf-forms
description: Fills in PDF forms. Use when a user has a form (e.g. a tax form) to fill.
brief_description: Fills forms.
version: 1.10
license: MIT
compatibility: Requires qpdf
metadata:
  author: Ada
  tags: [pdf, forms]
allowed-tools: Read, shell(git diff *), Bash(uv run *) mcp__x__*
tools: read_file grep
default_enabled: no
disable-model-invocation: true
user-invocable: "false"
argument-hint: <form>
triggers:
  keywords: [form, tax form]
  verbs: [fill]
  patterns: ['\\bW-?2\\b']
toolsets:
  - tools.py:Forms
  - package.module:More
scripts:
  - name: fill
    path: ./scripts/fill.py
    description: Fills one.
    timeout: 10
  - scripts/check.sh
requires: [qpdf, "python:pypdf>=4", "env:FORM_KEY"]
---

# Forms

Do this.

## Examples

- One.

## More
"""


@pytest.mark.covers("SKL-01", "SKL-04", "SKL-05", "SKL-06")
def test_all_fields_are_parsed() -> None:
    skill = parse_skill(FULL, default_name="pdf-forms")

    assert skill == Skill(
        name="pdf-forms",
        description="Fills in PDF forms. Use when a user has a form (e.g. a tax form) to fill.",
        brief="Fills forms.",
        source="inline",
        text=skill.text,
        version="1.10",
        license="MIT",
        compatibility="Requires qpdf",
        metadata={"author": "Ada", "tags": "pdf, forms"},
        tools=("read_file", "grep"),
        allowed_tools=("Read", "shell(git diff *)", "Bash(uv run *)", "mcp__x__*"),
        triggers=TriggerWords(keywords=("form", "tax form"), verbs=("fill",), patterns=(r"\bW-?2\b",)),
        scripts=(
            Script(name="fill", path="scripts/fill.py", description="Fills one.", timeout=10.0),
            Script(name="scripts/check.sh", path="scripts/check.sh"),
        ),
        toolsets=("tools.py:Forms", "package.module:More"),
        requires=("qpdf", "python:pypdf>=4", "env:FORM_KEY"),
        default_enabled=False,
        model_invocable=False,
        user_invocable=False,
        argument_hint="<form>",
    )
    assert read_body(skill).startswith("# Forms\n\nDo this.")
    assert extract_examples(read_body(skill)) == "- One."


@pytest.mark.covers("SKL-04")
def test_missing_fields_have_defaults() -> None:
    skill = parse_skill("---\nname: a\ndescription: Does a thing.\n---\n")
    assert (skill.default_enabled, skill.model_invocable, skill.user_invocable) == (True, True, True)
    assert (skill.allowed_tools, skill.tools, skill.scripts, skill.toolsets) == (None, (), (), ())
    assert not skill.triggers
    assert (skill.version, skill.warnings) == (None, ())


@pytest.mark.covers("SKL-07")
@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("Does a thing. Use it often.", "Does a thing."),
        ("Does e.g. this, and i.e. that. More.", "Does e.g. this, and i.e. that."),
        ("Version 1.2 of node.js files. More.", "Version 1.2 of node.js files."),
        ("Really? Yes.", "Really?"),
        ("No full stop", "No full stop"),
        ("処理します。次。", "処理します。"),
        ("word " * 100, ("word " * 100)[:199].rstrip() + "…"),
        ("", ""),
    ],
)
def test_brief_is_the_first_sentence(text: str, brief: str) -> None:
    assert first_sentence(text) == brief
    if text:
        assert parse_skill(f"---\nname: a\ndescription: '{text.strip()}'\n---\n").brief == brief


@pytest.mark.covers("SKL-03", "BYD-07")
@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("", "the file is empty", 0),
        ("\ufeff  \n", "the file is empty", 0),
        ("# Only text\n", "it has no front matter", 1),
        ("---\nname: a\ndescription: b\n", "its front matter has no end", 1),
        ("---\n---\ntext", "its front matter has no fields", 1),
        ("---\n- a\n- b\n---\ntext", "its front matter has no fields", 1),
        ("---\nname: a\n---\n", "it has no description", 1),
        ("---\nname: a\ndescription: '  '\n---\n", "it has no description", 3),
        ("---\nname: a\ndescription: [x]\n---\n", "it has no description", 3),
        ("---\ndescription: b\n---\n", "it has no name", 1),
        ("---\nname: '!!'\ndescription: b\n---\n", "its name has no letter or digit", 2),
        (f"---\ndescription: b\nname: {'x' * 65}\n---\n", "its name has 65 characters", 3),
        ("../../shared/pdf/SKILL.md", "it is a link that was checked out as a file", 0),
    ],
)
def test_invalid_file_raises_with_reason_and_line(text: str, reason: str, line: int) -> None:
    with pytest.raises(SkillError) as caught:
        parse_skill(text)
    assert reason in str(caught.value)
    assert caught.value.line == line


@pytest.mark.covers("SKL-03")
@pytest.mark.parametrize(
    ("name", "expected_name", "has_warning"),
    [
        ("pdf", "pdf", False),
        ("a1-b2", "a1-b2", False),
        ("données-été", "données-été", False),
        ("x" * 64, "x" * 64, False),
        ("PDF Forms", "pdf-forms", True),
        ("code_explorer", "code-explorer", True),
        ("-a--b-", "a-b", True),
        ("acme/pdf", "acme-pdf", True),
        ("../../etc", "etc", True),
        ("ﬁne", "fine", True),
        ("x" * 65, "folder", True),
        ("***", "folder", True),
    ],
)
def test_names_are_normalized(name: str, expected_name: str, has_warning: bool) -> None:
    skill = parse_skill(
        f"---\nname: '{name}'\ndescription: d\n---\n", default_name=expected_name if not has_warning else "folder"
    )
    assert skill.name == expected_name
    assert bool(skill.warnings) == has_warning


@pytest.mark.parametrize("value", ["on", "yes", "1.0", "null", "2024", "0x1f", "true"])
def test_yaml_values_are_read_as_text(value: str) -> None:  # K-02
    skill = parse_skill(f"---\nname: {value}\ndescription: no\nversion: 1.10\nallowed-tools: [on, off]\n---\n")
    assert skill.name == normalize_name(value)
    assert (skill.description, skill.version, skill.allowed_tools) == ("no", "1.10", ("on", "off"))


@pytest.mark.covers("SKL-01", "SKL-03", "SKL-21")
@pytest.mark.parametrize(
    ("head", "description", "warning"),
    [
        ("name: a\ndescription: Use when: it rains", "Use when: it rains", "line 3: description is not valid YAML"),
        ("name: a\ndescription: It's \"quoted\": yes", "It's \"quoted\": yes", "description is not valid YAML"),
        ("name: a\ndescription: [unclosed", "[unclosed", "description is not valid YAML"),
        ("name: a\ndescription: @mention `code`", "@mention `code`", "description is not valid YAML"),
        ("name: a\ndescription: \"unclosed", "unclosed", "description is not valid YAML"),
        ("name: a\ndescription: >\n  one\n  two", "one two", ""),
        ("name: a\ndescription: |\n  one\n  two", "one two", ""),
        ("name: a\r\ndescription: d\r", "d", ""),
        ("name: a\nmetadata:\n\tauthor: x\ndescription: d", "d", "its front matter is not valid YAML"),
        ("name: a\nstray words\ndescription: d", "d", "its front matter is not valid YAML"),
        ("name: a\ndescription: one\ndescription: two", "two", "description is a duplicate"),
        ("Name: a\nDescription: d", "d", ""),
        ("name: a\ndescription: d\nfancy: x", "d", "fancy is not a field of a skill"),
        ("name: a\ndescription: d\nmodel: x", "d", "has no effect here"),
        (f"name: a\ndescription: {'w' * 501}", "w" * 501, "its description has 501 characters"),
        (f"name: a\ndescription: {'w' * 1025}", "w" * 1023 + "…", "is truncated to 1024"),
        ("name: a\ndescription: d\nmetadata: words", "d", "metadata must be a map"),
        ("name: a\ndescription: d\nmetadata:\n  x:\n    y: z", "d", "metadata.x is not text"),
        ("name: a\ndescription: d\ndefault_enabled: maybe", "d", "default_enabled must be true or false"),
        ("name: a\ndescription: d\nscripts: [../x.sh]", "d", "has no path inside the skill's folder"),
        ("name: a\ndescription: d\nscripts: [/bin/sh]", "d", "has no path inside the skill's folder"),
        ("name: a\ndescription: d\nscripts:\n  - path: a.py\n    timeout: 600", "d", "at most 60 seconds"),
        ("name: a\ndescription: d\nscripts: [a.py, a.py]", "d", "is a duplicate"),
        ("name: a\ndescription: d\ntoolsets: [nothing]", "d", "use tools.py:Class"),
        ("name: a\ndescription: d\ntoolsets: [../x.py:Y]", "d", "use tools.py:Class"),
        ("name: a\ndescription: d\ntriggers:\n  patterns: ['(']", "d", "the trigger pattern '(' is invalid"),
        ("name: a\ndescription: d\ntriggers:\n  words: [x]", "d", "triggers has an unknown key words"),
    ],
)  # fmt: skip
def test_common_mistakes_are_accepted_with_a_warning(head: str, description: str, warning: str) -> None:  # K-01
    skill = parse_skill(f"---\n{head}\n---\nbody", default_name="a")
    assert (skill.name, skill.description) == ("a", description)
    assert warning in "; ".join(skill.warnings)
    assert bool(skill.warnings) == bool(warning)


@pytest.mark.covers("SKL-01")
@pytest.mark.parametrize(
    "data",
    [
        "---\nname: a\ndescription: é\n---\nx\ny".encode(),
        b"\xef\xbb\xbf---\nname: a\ndescription: \xc3\xa9\n---\nx\ny",
        "---\r\nname: a\r\ndescription: é\r\n---\r\nx\r\ny".encode(),
        "---\rname: a\rdescription: é\r---\rx\ry".encode(),
        "\n\n---\nname: a\ndescription: é\n---\nx\ny".encode(),
        "---  \nname: a\ndescription: é\n--- \nx\ny".encode(),
        "---\nname: a\ndescription: é\n---\nx\ny".encode("utf-16"),
    ],
)
def test_common_encodings_and_line_endings_are_read(data: bytes) -> None:  # K-01
    skill = parse_skill(decode_skill_file(data), default_name="a")
    assert (skill.name, skill.description, read_body(skill)) == ("a", "é", "x\ny")


@pytest.mark.parametrize(
    ("data", "reason", "line"),
    [
        ("---\nname: a\ndescription: é\n---\n".encode("latin-1"), "it is not UTF-8 (byte 25)", 3),
        (b"---\nname: a\0\n---\n", "it is not text", 0),
        (b"x" * (1 << 20) + b"x", "it is larger than 1024 KiB", 0),
    ],
)
def test_unreadable_file_raises_with_reason_and_line(data: bytes, reason: str, line: int) -> None:
    with pytest.raises(SkillError) as caught:
        decode_skill_file(data)
    assert reason in str(caught.value)
    assert caught.value.line == line


@pytest.mark.covers("SKL-37")
def test_hidden_characters_are_removed() -> None:
    hidden = "\U000e0041\u202e\u200b\x1b[31m"
    skill = parse_skill(
        f'---\nname: a{hidden}\ndescription: "Nice.{hidden}"\nlicense: "M{hidden}IT"\n---\nDo{hidden} it.'
    )
    for text in (skill.name, skill.description, skill.brief, skill.license or "", read_body(skill)):
        assert not set(text) & set("\U000e0041\u202e\u200b\x1b")


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        ("Read Write Edit Bash", ("Read", "Write", "Edit", "Bash")),
        ("Bash(git:*) Read", ("Bash(git:*)", "Read")),
        ("Bash(uv run pytest *), Bash(a && b *), Read", ("Bash(uv run pytest *)", "Bash(a && b *)", "Read")),
        ("[Read, 'Bash(x, y)']", ("Read", "Bash(x, y)")),
        (["Read", "Grep, Glob"], ("Read", "Grep", "Glob")),
        ("Read Read", ("Read",)),
        ("", ()),
        ({"a": "b"}, ()),
    ],
)
def test_tool_rules_are_parsed_from_many_forms(value: object, rules: tuple[str, ...]) -> None:
    assert parse_tool_rules(value) == rules


@pytest.mark.parametrize("text", ["allowed-tools: []", "allowed-tools: ''", "allowed-tools:"])
def test_empty_allowed_tools_differ_from_missing_ones(text: str) -> None:
    skill = parse_skill(f"---\nname: a\ndescription: d\n{text}\n---\n")
    assert skill.allowed_tools == (() if "[" in text else None)


def test_requirements_are_parsed_from_many_forms() -> None:
    def parse_requires(text: str) -> tuple[str, ...]:
        return parse_skill(f"---\nname: a\ndescription: d\n{text}\n---\n").requires

    assert parse_requires("requires: git, jq") == ("git", "jq")
    assert parse_requires("requires:\n  bins: [git]\n  python: [pandas]\n  env: [KEY]") == (
        "git",
        "python:pandas",
        "env:KEY",
    )
    assert parse_requires("dependencies: python>=3.8, pandas>=2, python-docx") == (
        "python:pandas>=2",
        "python:python-docx",
    )


def test_commands_and_examples_are_extracted() -> None:
    assert find_shell_commands("a !`git status` b !`ls -l` c !`git status` `!x`") == ("git status", "ls -l")
    body = "# T\n```md\n## Examples\nno\n```\n### Usage examples\nyes\n#### deeper\nalso\n## Next\nno"
    assert extract_examples(body) == "yes\n#### deeper\nalso"
    assert extract_examples("# Nothing\n") == ""


@pytest.mark.covers("SKL-37")
def test_yaml_bomb_stays_small() -> None:
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    text = f"---\nname: a\ndescription: d\n{laughs}metadata:\n  m: *i\ntools: *i\nallowed-tools: *i\nrequires: *h\nscripts: *i\n---\n"
    skill = parse_skill(text)
    assert (skill.metadata, skill.tools, skill.allowed_tools, skill.requires, skill.scripts) == ({}, (), (), (), ())
    for loop in ("tools", "allowed-tools", "triggers", "scripts", "toolsets", "requires", "metadata"):
        parse_skill(f"---\nname: a\ndescription: d\n{loop}: &l [*l]\n---\n")


def _try_parse(text: str) -> Skill | None:
    try:
        return parse_skill(text, default_name="a")
    except SkillError:
        return None


@given(st.text())
def test_arbitrary_text_does_not_crash(text: str) -> None:
    skill = _try_parse(text)
    assert skill is None or (skill.name == normalize_name(skill.name) and skill.description)


_scalars = st.text(st.characters(codec="utf-8"), max_size=30)
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_scalars, inner, max_size=3), max_leaves=8
)


@given(
    st.dictionaries(
        st.sampled_from(
            "name description license compatibility metadata allowed-tools tools triggers scripts toolsets requires "
            "default_enabled version dependencies brief_description argument-hint x".split()
        ),
        _values,
    )
)
def test_arbitrary_fields_do_not_crash(fields: dict[str, object]) -> None:
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items())
    skill = _try_parse(f"---\n{head}---\n")
    if skill is not None:
        assert all(isinstance(each, str) for each in (*skill.tools, *skill.toolsets, *skill.metadata.values()))
        assert len(skill.description) <= 1024


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_normalizing_is_idempotent(text: str) -> None:
    assert normalize_name(normalize_name(text)) == normalize_name(text)
    assert all(t == t.strip() and t for t in parse_list(text))


@pytest.mark.covers("SKL-03")
def test_description_over_500_characters_gives_a_warning() -> None:
    def warning(length: int) -> list[str]:
        return [w for w in parse_skill(f"---\nname: a\ndescription: {'d' * length}\n---\nB\n").warnings if "500" in w]

    assert warning(500) == []
    assert len(warning(501)) == 1


@pytest.mark.covers("SKL-37")
def test_number_of_warnings_is_limited() -> None:
    unknown_fields = "".join(f"k{n}: v\n" for n in range(5_000))
    found = parse_skill(f"---\nname: a\ndescription: d\n{unknown_fields}---\nB\n")

    assert len(found.warnings) == 31
    assert found.warnings[-1] == "and 4970 more of this kind"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[query]", "[query]"),
        ("[source, target]", "[source, target]"),
        ('["[path] [--full|--fast]"]', "[path] [--full|--fast]"),
        ("{name}", "{name}"),
        ('[action] — e.g. "list"', '[action] — e.g. "list"'),
        ("<file>", "<file>"),
    ],
)
def test_argument_hint_in_brackets_is_meant_literally(written: str, expected: str) -> None:
    skill = parse_skill(f"---\nname: s\ndescription: Does it.\nargument-hint: {written}\n---\nDo it.")

    assert skill.argument_hint == expected


@pytest.mark.parametrize("before", ["<!-- (c) 2026 Acme -->\n", "\ufeff<!--\nname: x\n-->\n\n<!-- --- -->\r\n"])
def test_comments_may_precede_the_front_matter(before: str) -> None:
    skill = parse_skill(f"{before}---\nname: s\ndescription: Does it.\n---\nDo it.")

    assert (skill.name, skill.text) == ("s", "Do it.")
