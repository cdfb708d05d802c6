"""The search for sensitive paths: its shortcut changes no decision."""

import pytest
from hypothesis import given, strategies as st

from mainspring.permissions.path_patterns import ANY_DEPTH, matches
from mainspring.permissions.sensitive_paths import PathGroup, SensitivePaths
from mainspring.shell_analysis import wildcards

DEFAULT = SensitivePaths.default()
GROUPS = [g for g in (DEFAULT.anywhere, DEFAULT.below, DEFAULT.guarded, DEFAULT.placed) if g.patterns]
NAMES = sorted({name for group in GROUPS for pattern in group.patterns for name in pattern} - {ANY_DEPTH})
PARTS = (
    st.sampled_from(NAMES)
    | st.sampled_from([name.replace(wildcards.ANY_TEXT, "x").replace(wildcards.ANY_CHAR, "y") for name in NAMES])
    | st.text(st.sampled_from("a.x\x00\x01\x02"), min_size=1, max_size=3)
)


@pytest.mark.covers("SEC-03")
@given(st.lists(PARTS, max_size=6).map(tuple), st.sampled_from(GROUPS), st.data())
def test_path_is_sensitive_if_any_pattern_matches(
    parts: tuple[str, ...], group: PathGroup, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(group.patterns))
    plain = [data.draw(PARTS) if name == ANY_DEPTH else name for name in chosen]
    for path in (parts, tuple(plain), (*parts, *plain)):
        expected = any(matches(pattern, path, include_descendants=True) for pattern in group.patterns)
        assert group.contains(path) == expected
