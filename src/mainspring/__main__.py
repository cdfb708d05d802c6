"""``python -I -m mainspring``: the command. Without ``-I``, Python imports modules of the current folder first."""

import sys

from mainspring.app.cli.main import main

sys.exit(main())
