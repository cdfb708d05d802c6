"""The third ten: written after the last change of the local profile, and never used to change it."""

from benchmarks.local_tasks.task import Task, TaskSet, holds, says

THIRD = TaskSet(
    "third",
    {
        "inventory.txt": "hammer\nsaw\ndrill\nladder\n",
        "manual/index.txt": "Setup, safety, repair.\n",
        "manual/setup.txt": "Bolt the lathe to the floor.\n",
        "manual/safety.txt": "Wear goggles.\n",
        "manual/repair.txt": "Oil the bearings once a year.\n",
        "contact.txt": "Workshop of Tilda Brandt\nPhone: 555-0142\nOpen from 8 to 16\n",
        "version.toml": 'name = "lathe"\nversion = "2.4.1"\n',
        "logs/march.log": "INFO start\nERROR belt slipped\nINFO stop\n",
        "logs/april.log": "INFO start\nINFO stop\n",
        "draft.txt": "The blade is made of steel.\nIt costs 40 euros.\n",
        "final.txt": "The blade is made of steel.\nIt costs 45 euros.\n",
        "calc.py": (
            "def total(prices):\n    return sum(prices)\n\n\n"
            "def mean(prices):\n    return total(prices) / len(prices)\n"
        ),
    },
    (
        Task("list", "Show me which files the folder manual contains.", says("index", "setup", "safety", "repair")),
        Task("read", "Which version does version.toml give?", says(r"\b2\.4\.1\b")),
        Task("count lines", "How many tools are listed in inventory.txt?", says(r"\b(4|four)\b")),
        Task("count files", "How many log files are in the folder logs?", says(r"\b(2|two)\b")),
        Task("find", "Which file mentions a belt?", says(r"march\.log", never=r"april\.log")),
        Task("compare", "What is different between draft.txt and final.txt?", says(r"\b40\b", r"\b45\b")),
        Task(
            "create",
            "Make a new file named label.txt containing the text: Fragile, handle with care",
            holds("label.txt", "Fragile, handle with care"),
            allow=("write_file",),
        ),
        Task("fact", "What is the phone number in contact.txt?", says("555-0142")),
        Task("code", "Which functions are defined in calc.py?", says(r"\btotal\b", r"\bmean\b")),
        Task("search and read", "Who owns the workshop?", says("Tilda Brandt")),
    ),
)
