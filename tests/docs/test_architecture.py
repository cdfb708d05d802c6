"""The page about the architecture shows the code: its diagrams are generated, and its tables list every package."""

import re
from pathlib import Path

import pytest

from scripts import make_architecture


def test_the_diagrams_are_current(repository: Path) -> None:
    images, page = make_architecture.build()

    assert make_architecture.PAGE.read_text(encoding="utf-8") == page, "run `python -m scripts.make_architecture`"
    for path, svg in images.items():
        assert path.read_text(encoding="utf-8") == svg, "run `python -m scripts.make_architecture`"


def test_the_recorded_turn_has_the_hooks_and_events_in_order() -> None:
    names = [moment.name for moment in make_architecture.record_run()]

    expected = ["AgentStart", "turn:before", "TurnStart", "model.stream()", "Done", "turn:after", "tool:gate"]
    expected += ["tool:permit", "tool.execute()", "ToolExecutionEnd", "TurnEnd", "session:end", "AgentEnd"]
    assert [name for name in names if name in expected] == expected
    assert all(moment.path for moment in make_architecture.record_run())


@pytest.mark.parametrize(("contract", "prefix"), [("layers", ""), ("app-layers", "app.")])
def test_a_table_lists_every_package_of_a_contract(contract: str, prefix: str) -> None:
    page = make_architecture.PAGE.read_text(encoding="utf-8").split("\n## Layers\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    packages = [f"{prefix}{name}" for names in make_architecture.read_layers(contract) for name in names]

    assert sorted(name for name in listed if name.startswith("app.") == bool(prefix)) == sorted(packages)


def test_the_way_of_an_event_names_its_readers() -> None:
    _, lines = make_architecture.draw_events()
    text = "\n".join(lines)

    assert "chat events -> app/servers/acp" in text
    assert "feed -> app/commands" in text
    assert "agent.subscribe(fn)" in text


def test_a_page_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no markers for turn"):
        make_architecture.fill("<!-- generated: turn -->\n", {"turn": []})
