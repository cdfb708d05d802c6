"""The architecture page matches the code: its diagrams are generated, and its tables list every package."""

from pathlib import Path

import pytest

from scripts import make_architecture

pytestmark = pytest.mark.slow


def test_diagrams_are_current(repository: Path) -> None:
    images, page = make_architecture.build()

    assert make_architecture.PAGE.read_text(encoding="utf-8") == page, "run `python -m scripts.make_architecture`"
    for path, svg in images.items():
        assert path.read_text(encoding="utf-8") == svg, "run `python -m scripts.make_architecture`"


def test_recorded_turn_has_hooks_and_events_in_order() -> None:
    moments = make_architecture.record_run()
    names = [moment.name for moment in moments]

    expected = ["AgentStart", "turn:before", "TurnStart", "model.stream()", "Done", "turn:after", "tool:gate"]
    expected += ["tool:permit", "tool.execute()", "ToolExecutionEnd", "TurnEnd", "session:end", "AgentEnd"]
    assert [name for name in names if name in expected] == expected
    assert all(moment.path for moment in moments)


def test_package_table_lists_every_package_with_its_importers() -> None:
    page = "| `callbacks` | calls functions | nothing |\n"

    [row] = make_architecture.package_table(page, ["callbacks"])[2:]

    assert row == "| `callbacks` | calls functions | `agent` |"
    with pytest.raises(ValueError, match="does not describe the package tools"):
        make_architecture.package_table(page, ["callbacks", "tools"])


def test_protocol_table_lists_definition_implementations_and_users() -> None:
    [row] = make_architecture.protocol_table(["SpanSource"])[2:]

    assert row == "| `SpanSource` | `events/span.py` | `telemetry` (`Tracing`) | `callbacks` |"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("Missing", "0 protocols are named Missing"), ("ServerObserver", "no other package implements ServerObserver")],
)
def test_protocol_without_definition_or_implementation_is_an_error(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make_architecture.protocol_table([name])


def test_event_diagram_names_its_readers() -> None:
    _, lines = make_architecture.draw_events()
    text = "\n".join(lines)

    assert "chat events -> app/servers/acp" in text
    assert "feed -> app/commands" in text
    assert "agent.subscribe(fn)" in text


def test_page_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no markers for turn"):
        make_architecture.fill("<!-- generated: turn -->\n", {"turn": []})
