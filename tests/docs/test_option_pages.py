"""The tables of options in the docs, the schema of the settings, and the flags follow the options that the policies declare."""

from pathlib import Path

import pytest

from scripts import make_option_pages


@pytest.mark.parametrize(
    ("path", "text"), make_option_pages.build().items(), ids=lambda each: getattr(each, "name", "")
)
def test_generated_options_are_current(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run `python -m scripts.make_option_pages`"


def test_page_without_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="one table"):
        make_option_pages.replace_rows("# Title\n", "nothing", ())
