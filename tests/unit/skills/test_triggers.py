import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.skills.skill import Skill
from mainspring.skills.skill import TriggerWords as Given
from mainspring.skills.triggers import TriggerMatcher, asks_for_skills, max_safe_length, sort_matches


def skill(name: str, *keywords: str, verbs: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> Skill:
    return Skill(
        name=name,
        description=name,
        brief=name,
        source="user",
        triggers=Given(keywords=keywords, verbs=verbs, patterns=patterns),
    )


def found(prompt: str, *skills: Skill) -> list[str]:
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
def test_words_count_between_word_boundaries_and_patterns_anywhere(prompt: str, matches: bool) -> None:
    one = skill("one", "pull request", "c++", "Straße", verbs=("merge",), patterns=(r"[A-Z]{3}-\d+",))

    assert found(prompt, one) == (["one"] if matches else [])


@pytest.mark.covers("SKL-10", "SKL-11")
def test_a_name_counts_where_it_is_meant_as_one() -> None:
    plain, long, worded = skill("pdf"), skill("release-notes"), skill("review", "diff")

    assert found("read the pdf", plain, long, worded) == []
    assert found("use the PDF skill", plain, long, worded) == ["pdf"]
    assert found("/pdf a.pdf", plain, long, worded) == ["pdf"]
    assert found("with $pdf", plain, long, worded) == ["pdf"]
    assert found("a/pdf/b", plain, long, worded) == []
    assert found("write release-notes", plain, long, worded) == ["release-notes"]
    assert found("review it", plain, long, worded) == ["review"]


@pytest.mark.covers("SKL-11", "SKL-12")
def test_named_goes_before_phrase_before_recent_use_before_the_rest() -> None:
    skills = [
        skill("beta", "tests"),
        skill("alpha", "tests"),
        skill("gamma", "tests"),
        skill("phrase", "failing tests"),
        skill("named", "tests"),
    ]
    hits = TriggerMatcher(skills).find("use named on the failing tests")

    ranked = [s.name for s in sort_matches(hits, {"gamma": 2.0, "beta": 1.0}, 9)]

    assert ranked == ["named", "phrase", "gamma", "beta", "alpha"]
    assert [s.name for s in sort_matches(hits, {}, 3)] == ["named", "phrase", "alpha"]
    assert sort_matches(hits, {}, 0) == []


@pytest.mark.covers("SKL-10", "SKL-37")
def test_a_pattern_that_would_take_for_ever_is_left_out_or_bounded() -> None:
    triggers = TriggerMatcher([skill("slow", patterns=(r"^(a+)+$", r"(x*)*y", "(", "a" * 600))])
    started = time.perf_counter()

    hits = triggers.find("a" * 19_999 + "!")

    assert hits == []
    assert time.perf_counter() - started < 2
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
def test_a_question_for_the_list_is_one(prompt: str) -> None:
    assert asks_for_skills(prompt)


@pytest.mark.covers("SKL-15")
@pytest.mark.parametrize("prompt", ["what can you do about this bug? no", "list the files", "skills of a baker", ""])
def test_another_question_is_none(prompt: str) -> None:
    assert asks_for_skills(prompt) is prompt.startswith("what can you do")


@given(prompt=st.text(max_size=300), words=st.lists(st.text(min_size=1, max_size=20), max_size=5))
@pytest.mark.covers("SKL-10")
def test_no_prompt_and_no_keyword_breaks_the_search(prompt: str, words: list[str]) -> None:
    one = skill("one", *words)

    triggers = TriggerMatcher([one])

    assert [h.skill for h in triggers.find(prompt)] in ([], [one])
    for word in words:
        if word.strip():
            assert triggers.find(f"a {word} b") or not word.strip()


@pytest.mark.parametrize(("pattern", "low", "high"), [("(", -1, -1), ("^[a-z]{3}$", 10_000, 2**20), ("^(a+)+$", 1, 64)])
def test_a_pattern_is_searched_up_to_a_safe_length(pattern: str, low: int, high: int):
    assert low <= max_safe_length(pattern) <= high
