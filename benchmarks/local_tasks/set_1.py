"""The first ten: the prompt of the local profile was written looking at these, so they measure nothing by themselves."""

from benchmarks.local_tasks.task import Task, TaskSet, holds, says

FIRST = TaskSet(
    "first",
    {
        "notes.txt": "Meeting on Tuesday at 10:30 in room 4.\nBring the printed budget.\nAsk Lena about the new chairs.\n",
        "config.ini": "[server]\nhost = localhost\nport = 8123\ndebug = false\n",
        "shopping.txt": "milk\nbread\napples\ncoffee\nrice\n",
        "a.txt": "red\ngreen\nblue\n",
        "b.txt": "red\nyellow\nblue\n",
        "README.md": "# Tide tables\n\nA small program that prints tide tables for harbours.\nLicence: MIT\n",
        "src/tides.py": (
            '"""Tide tables."""\n\n\ndef load_table(path):\n    with open(path) as file:\n'
            "        return file.read().splitlines()\n\n\ndef print_table(rows):\n    for row in rows:\n        print(row)\n"
        ),
        "docs/intro.md": "# Introduction\n",
        "docs/install.md": "# Install\n\nRun make install.\n",
        "docs/usage.md": "# Usage\n",
        "data/harbours.csv": "name,depth\nOban,7\nLeith,9\nDover,11\nHull,6\n",
        "todo.md": "- paint the fence\n- call the plumber\n- send the parcel\n",
    },
    (
        Task("list", "Which files are in the folder docs?", says("intro", "install", "usage")),
        Task("read", "What is the port in config.ini?", says(r"\b8123\b")),
        Task("count lines", "How many items are on the list in shopping.txt?", says(r"\b(5|five)\b")),
        Task("count files", "How many files are in the folder docs?", says(r"\b(3|three)\b")),
        Task("find", "Which file contains the word plumber?", says(r"todo\.md")),
        Task("compare", "Compare a.txt and b.txt. Which line is different?", says("green", "yellow")),
        Task(
            "create",
            "Create a file named hello.txt that contains the text: Hello from the harbour",
            holds("hello.txt", "Hello from the harbour"),
            allow=("write_file",),
        ),
        Task("greatest", "Which harbour in data/harbours.csv is the deepest?", says("Dover")),
        Task("code", "Which functions does src/tides.py define?", says("load_table", "print_table")),
        Task("two facts", "When is the meeting in notes.txt, and in which room?", says("10:30", r"\b4\b")),
    ),
)
