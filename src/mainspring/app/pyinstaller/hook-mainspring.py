"""Run by PyInstaller when a program that it freezes imports mainspring."""

from mainspring.app.pyinstaller import data_files, list_modules

hiddenimports = list_modules()
datas = data_files()
