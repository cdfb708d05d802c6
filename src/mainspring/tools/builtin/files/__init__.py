"""Reading and changing files."""

from mainspring.tools.builtin.files.apply_patch import apply_patch
from mainspring.tools.builtin.files.edit import edit
from mainspring.tools.builtin.files.multi_edit import multi_edit
from mainspring.tools.builtin.files.read_file import read_file
from mainspring.tools.builtin.files.write_file import write_file

__all__ = ["apply_patch", "edit", "multi_edit", "read_file", "write_file"]
