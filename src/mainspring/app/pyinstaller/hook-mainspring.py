"""Run by PyInstaller when a program that it freezes imports mainspring."""

from mainspring.app.pyinstaller import data_files, modules

hiddenimports = modules()
datas = data_files()
