import pytest
from hypothesis import given, strategies as st

from mainspring.app.tui.streaming_markdown import MarkdownBlock, MarkdownBlocks

TEXT = """# Title
Some words
go on.

- one
- two

  more of two

  ```py
  x = 1

  y = 2
  ```
- three

After the list.
```sh
ls

pwd
```
| a | b |
|---|---|
| 1 | 2 |

Under
=====
> said
> so

***
end"""

WORDS = [
    "# head\n",
    "word ",
    "\n",
    "\n\n",
    "```\n",
    "```py\n",
    "~~~\n",
    "- item\n",
    "1. one\n",
    "  inner\n",
    "---\n",
    "> q\n",
    "|a|b|\n",
    "===\n",
]


def split_blocks(text: str, size: int) -> list[MarkdownBlock]:
    blocks = MarkdownBlocks()
    done: list[MarkdownBlock] = []
    for at in range(0, len(text), size):
        done += blocks.feed(text[at : at + size])
    return done + blocks.close()


def test_text_is_split_into_blocks() -> None:
    found = split_blocks(TEXT, 10_000)
    assert [block.text.split("\n")[0] for block in found] == [
        "# Title", "Some words", "- one", "After the list.", "ls", "| a | b |", "Under", "> said", "***", "end",
    ]  # fmt: skip
    assert [block.code for block in found if block.code is not None] == ["sh"]
    assert "```py" in found[2].text
    assert "- three" in found[2].text


@pytest.mark.covers("CLI-01")
@given(st.lists(st.sampled_from(WORDS), max_size=30), st.integers(1, 7))
def test_blocks_do_not_depend_on_chunk_sizes(words: list[str], size: int) -> None:
    text = "".join(words)
    assert split_blocks(text, size) == split_blocks(text, len(text) + 1)


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.integers(1, 7))
def test_every_line_is_in_exactly_one_block(words: list[str], size: int) -> None:
    text = "".join(words)
    printed = "\n".join(block.text for block in split_blocks(text, size)).split()
    expected = [word for word in text.split() if not word.startswith(("```", "~~~"))]
    assert [word for word in printed if not word.startswith(("```", "~~~"))] == expected


@given(st.lists(st.sampled_from(WORDS), max_size=60), st.integers(2, 6))
def test_partial_blocks_are_printed_once(words: list[str], max_lines: int) -> None:
    text = "".join(words)
    blocks = MarkdownBlocks()
    done: list[MarkdownBlock] = []
    for at in range(0, len(text), 3):
        done += blocks.feed(text[at : at + 3])
        done += blocks.flush_partial(max_lines)
    done += blocks.close()
    whole = "\n".join(block.text for block in split_blocks(text, 1000)).split()
    assert "\n".join(block.text for block in done).split() == whole


def test_unclosed_fence_is_code_to_the_end() -> None:
    blocks = MarkdownBlocks()
    assert blocks.feed("```py\nx = 1\n\ny = ") == []
    tail = blocks.tail
    assert tail is not None
    assert (tail.text, tail.code) == ("x = 1\n\ny = ", "py")
    assert blocks.close() == [MarkdownBlock("x = 1\n\ny = ", "py")]


def test_long_fence_is_split_at_definitions() -> None:
    blocks = MarkdownBlocks()
    code = "".join(f"def f{i}():\n    return {i}\n\n\n" for i in range(50))
    parts: list[MarkdownBlock] = []
    for line in ("```python\n" + code + "```\n").splitlines(keepends=True):
        parts += blocks.feed(line)
        parts += blocks.flush_partial(20)
    assert len(parts) > 5
    assert all(part.text.startswith("def") for part in parts)
    assert [part.begins for part in parts].count(True) == 1
    assert [part.ends for part in parts].count(True) == 1


def test_line_without_end_is_the_tail() -> None:
    blocks = MarkdownBlocks()
    blocks.feed("word " * 1000)
    tail = blocks.tail
    assert tail is not None
    assert len(tail.text) == 5000
