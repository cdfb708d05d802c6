"""Finding files and text in them."""

from mainspring.tools.builtin.search.glob import glob
from mainspring.tools.builtin.search.grep import grep
from mainspring.tools.builtin.search.list_files import list_files

__all__ = ["glob", "grep", "list_files"]
