"""Display paths, path variants, and lookalike names."""

import pytest

from mainspring.env.paths import display_path, is_inside, is_lookalike_name, path_variants


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/a/proj", "/a/proj", True),
        ("/a/proj/x", "/a/proj", True),
        ("/a/proj-secrets/x", "/a/proj", False),
        ("/a", "/a/proj", False),
        ("/x", "/", True),
    ],
)
def test_is_inside_rejects_a_shared_name_prefix(path: str, folder: str, expected: bool) -> None:
    assert is_inside(path, folder) is expected


@pytest.mark.parametrize(
    ("path", "expected"), [("/p/a/b", "a/b"), ("/p", "."), ("/pp/a", "/pp/a"), ("/p/a\udcffb\n", "a\\xffb\\x0a")]
)
def test_display_path_is_relative_and_on_one_line(path: str, expected: str) -> None:
    assert display_path(path, "/p") == expected


def test_plain_path_has_no_variants() -> None:
    assert path_variants("src/app.py") == ()


@pytest.mark.parametrize(
    ("path", "intended"),
    [
        ("@src/a.py", "src/a.py"),
        ("cafe\u0301.txt", "caf\u00e9.txt"),
        ("caf\u00e9", "cafe\u0301"),
        ("a\\xffb", "a\udcffb"),
    ],
)
def test_path_variants_contain_the_intended_path(path: str, intended: str) -> None:
    assert intended in path_variants(path)


def test_lookalike_names_differ_in_spaces_quotes_and_composition() -> None:
    assert is_lookalike_name("Shot 1.02.03\u202fPM.png", "Shot 1.02.03 PM.png")
    assert is_lookalike_name("It\u2019s.md", "It's.md")
    assert is_lookalike_name("cafe\u0301", "caf\u00e9")
    assert not is_lookalike_name("a.py", "A.py")


def test_lookalike_of_an_ascii_name_is_not_the_same_name() -> None:
    assert not is_lookalike_name("\u212aeys", "Keys")
    assert not is_lookalike_name("\uff0eenv", ".env")
    assert path_variants("\u212aeys") == ()
