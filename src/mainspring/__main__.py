"""``python -m mainspring``: the command."""

import sys

from mainspring.app.cli.main import main

sys.exit(main())
