"""The events page is generated from the event structs."""

from pathlib import Path
from typing import get_args

from mainspring.events import RunEvent
from scripts import make_events_page


def test_events_page_is_current(repository: Path) -> None:
    page = (repository / "docs" / "events.md").read_text(encoding="utf-8")
    assert page == make_events_page.page(), "run `python -m scripts.make_events_page`"


def test_each_event_has_its_tag_its_meaning_and_its_encoded_fields() -> None:
    page = make_events_page.page()
    for kind in get_args(RunEvent):
        part = page.split(f"\n### {kind.__name__}\n")[1].split("\n### ")[0]
        assert f"`{kind.__struct_config__.tag}`" in part
        for name in kind.__struct_fields__:
            assert (f"\n- `{name}`: " in part) == (name not in kind.in_process)
