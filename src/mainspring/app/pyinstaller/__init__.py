"""Lists of modules and files that packagers must include, since they are loaded by name."""

from mainspring.app.pyinstaller.contents import data_files as data_files, hook_dirs as hook_dirs, list_modules

__all__ = ["data_files", "hook_dirs", "list_modules"]
