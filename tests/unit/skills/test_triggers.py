import pytest
from hypothesis import given, strategies as st

from mainspring.skills.skill import Skill, TriggerWords as Given
from mainspring.skills.triggers import TriggerMatcher, asks_for_skills, max_safe_length, sort_matches


def make_skill(name: str, *keywords: str, verbs: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> Skill:
    return Skill(
        name=name,
        description=name,
        brief=name,
        source="user",
        triggers=Given(keywords=keywords, verbs=verbs, patterns=patterns),
    )


def find_names(prompt: str, *skills: Skill) -> list[str]:
    return [hit.skill.name for hit in TriggerMatcher(skills).find(prompt)]


@pytest.mark.covers("SKL-10")
@pytest.mark.parametrize(
    ("prompt", "matches"),
    [
        ("Merge these", True),
        ("MERGE, please", True),
        ("submerged", False),
        ("emerge", False),
        ("merger", False),
        ("merge_all", False),
        ("learn c++ now", True),
        ("c+++", True),
        ("the pull\n request", True),
        ("pull the request", False),
        ("ticket ABC-12", True),
        ("ABC-", False),
        ("straße", True),
        ("straßen", False),
    ],
)
def test_words_match_at_word_boundaries_and_patterns_anywhere(prompt: str, matches: bool) -> None:
    one = make_skill("one", "pull request", "c++", "Straße", verbs=("merge",), patterns=(r"[A-Z]{3}-\d+",))

    assert find_names(prompt, one) == (["one"] if matches else [])


@pytest.mark.covers("SKL-10", "SKL-11")
def test_skill_name_matches_in_unambiguous_forms() -> None:
    plain, long, worded = make_skill("pdf"), make_skill("release-notes"), make_skill("review", "diff")

    assert find_names("read the pdf", plain, long, worded) == []
    assert find_names("use the PDF skill", plain, long, worded) == ["pdf"]
    assert find_names("/pdf a.pdf", plain, long, worded) == ["pdf"]
    assert find_names("with $pdf", plain, long, worded) == ["pdf"]
    assert find_names("a/pdf/b", plain, long, worded) == []
    assert find_names("write release-notes", plain, long, worded) == ["release-notes"]
    assert find_names("review it", plain, long, worded) == ["review"]


@pytest.mark.covers("SKL-11", "SKL-12")
def test_matches_are_ranked_by_name_phrase_and_recent_use() -> None:
    skills = [
        make_skill("beta", "tests"),
        make_skill("alpha", "tests"),
        make_skill("gamma", "tests"),
        make_skill("phrase", "failing tests"),
        make_skill("named", "tests"),
    ]
    hits = TriggerMatcher(skills).find("use named on the failing tests")

    ranked = [s.name for s in sort_matches(hits, {"gamma": 2.0, "beta": 1.0}, 9)]

    assert ranked == ["named", "phrase", "gamma", "beta", "alpha"]
    assert [s.name for s in sort_matches(hits, {}, 3)] == ["named", "phrase", "alpha"]
    assert sort_matches(hits, {}, 0) == []


@pytest.mark.covers("SKL-10", "SKL-37")
def test_slow_pattern_is_rejected_or_bounded() -> None:
    triggers = TriggerMatcher([make_skill("slow", patterns=(r"^(a+)+$", r"(x*)*y", "(", "a" * 600))])
    hits = triggers.find("a" * 19_999 + "!")

    assert hits == []
    assert len(triggers.problems) >= 2


@pytest.mark.covers("SKL-15")
@pytest.mark.parametrize(
    "prompt",
    [
        "What can you do?",
        "please list skills",
        "list all your skills",
        "which skills are there",
        "show me available skills",
    ],
)
def test_question_about_skills_is_recognized(prompt: str) -> None:
    assert asks_for_skills(prompt)


@pytest.mark.covers("SKL-15")
@pytest.mark.parametrize("prompt", ["what can you do about this bug? no", "list the files", "skills of a baker", ""])
def test_other_questions_are_not_recognized(prompt: str) -> None:
    assert asks_for_skills(prompt) is prompt.startswith("what can you do")


@given(prompt=st.text(max_size=300), words=st.lists(st.text(min_size=1, max_size=20), max_size=5))
@pytest.mark.covers("SKL-10")
def test_arbitrary_prompts_and_keywords_do_not_crash(prompt: str, words: list[str]) -> None:
    one = make_skill("one", *words)

    triggers = TriggerMatcher([one])

    assert [h.skill for h in triggers.find(prompt)] in ([], [one])
    for word in words:
        if word.strip():
            assert triggers.find(f"a {word} b") or not word.strip()


@pytest.mark.parametrize(("pattern", "low", "high"), [("(", -1, -1), ("^[a-z]{3}$", 10_000, 2**20), ("^(a+)+$", 1, 64)])
def test_a_pattern_is_searched_up_to_a_safe_length(pattern: str, low: int, high: int):
    assert low <= max_safe_length(pattern) <= high
