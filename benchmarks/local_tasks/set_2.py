"""The second ten: written after the prompt was first fixed, and measured then (5 right with the 0.5B, 8 with the 1.5B).

After that they were looked at while the profile was improved, so since then they measure nothing by themselves; the third ten
do.
"""

from benchmarks.local_tasks.task import Task, TaskSet, holds, says

SECOND = TaskSet(
    "second",
    {
        "recipes/pancakes.md": "# Pancakes\n\n- 200 g flour\n- 3 eggs\n- 400 ml milk\n",
        "recipes/soup.md": "# Leek soup\n\n- 2 leeks\n- 1 l stock\n",
        "recipes/bread.md": "# Bread\n\n- 500 g flour\n- 10 g salt\n- 7 g yeast\n",
        "members.csv": "name,city\nJonas,Bergen\nMira,Lyon\nPablo,Cadiz\nAiko,Kobe\n",
        "settings.json": '{\n  "theme": "dark",\n  "language": "fr",\n  "volume": 7\n}\n',
        "journal/monday.txt": "Rain all day. Read two chapters.\n",
        "journal/friday.txt": "Sunny again. Left the umbrella at the office.\n",
        "old_prices.txt": "coffee 2\ntea 3\ncake 5\n",
        "new_prices.txt": "coffee 2\ntea 4\ncake 5\n",
        "letter.txt": "Dear Mr Kowalski,\n\nthank you for the parcel.\n\nYours, Ines\n",
        "main.py": "def area(width, height):\n    return width * height\n\n\nprint(area(3, 4))\n",
    },
    (
        Task("list", "List the files in the recipes folder.", says("bread", "pancakes", "soup")),
        Task("read", "What language is set in settings.json?", says(r"\bfr\b|french")),
        Task(
            "count lines", "How many members are listed in members.csv?", says(r"\b(4|four)\b", never=r"\b(5|five)\b")
        ),
        Task("count files", "How many recipes are there in the recipes folder?", says(r"\b(3|three)\b")),
        Task("find", "In which file is the word umbrella mentioned?", says(r"friday\.txt")),
        Task(
            "compare",
            "Are old_prices.txt and new_prices.txt the same? If not, which price has changed?",
            says(r"\btea\b", never=r"(coffee|cake)[^.]*(changed|differ)"),
        ),
        Task(
            "create",
            "Create a file called greeting.txt with this text: Good morning everyone",
            holds("greeting.txt", "Good morning everyone"),
            allow=("write_file",),
        ),
        Task("who", "Who is letter.txt addressed to?", says("Kowalski")),
        Task(
            "code",
            "What does the function area in main.py return?",
            says(r"width\s*(\*|times|x|×|and|by)\s*(the )?height|product"),
        ),
        Task("search and read", "How many eggs do I need for the pancakes?", says(r"\b(3|three)\b")),
    ),
)
