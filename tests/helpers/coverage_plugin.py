"""A pytest plugin for measuring coverage: ``-p tests.helpers.coverage_plugin``.

Only the workers of pytest-xdist are measured. Programs that tests start keep their speed and their output.

A task passes the exception of a finished future to its coroutine with ``throw``. If a coroutine handles the exception, Python 3.11
reports no call to the trace function for the coroutines that await it, so the lines that they run next count as not run.
The tasks of this plugin let the innermost coroutine ask the future for the exception. Programs notice no difference.
"""

import asyncio
import os
import sys
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

if sys.version_info < (3, 12):
    PythonTask: Any = vars(asyncio.tasks)["_PyTask"]

    class MeasuredTask(PythonTask):
        """A task that never throws the exception of a future into its coroutine."""

        def _Task__wakeup(self, future: Any) -> None:
            self._Task__step()

    for module in (asyncio, asyncio.tasks):
        vars(module)["Task"] = MeasuredTask
