"""Counts the letters of names: ``count_letters.py NAME...`` prints one JSON object."""

import json
import sys


def main(names: list[str]) -> int:
    """Print the number of letters of each name. Returns the exit code."""
    if not names:
        print("Pass at least one name.", file=sys.stderr)
        return 2
    print(json.dumps({name: sum(c.isalpha() for c in name) for name in names}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
