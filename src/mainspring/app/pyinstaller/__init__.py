"""Lists of modules and files that packagers must include, since they are loaded by name."""

from mainspring.app.pyinstaller.contents import data_files as data_files
from mainspring.app.pyinstaller.contents import hook_dirs as hook_dirs
from mainspring.app.pyinstaller.contents import list_modules

__all__ = ["data_files", "hook_dirs", "list_modules"]
