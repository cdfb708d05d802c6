"""`apply_patch`: apply a patch to several files, all changes or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_function
from mainspring.tools.tool import Tool

if TYPE_CHECKING:
    from mainspring.tools.support.editing.patch import access, execute
else:  # loaded on the first patch
    access = lazy_function("mainspring.tools.support.editing.patch", "access")
    execute = lazy_function("mainspring.tools.support.editing.patch", "execute")

apply_patch = Tool(
    name="apply_patch",
    description=(
        "Change several files in one call; all or nothing. The patch:\n"
        "*** Begin Patch\n*** Add File: a.txt\n+line\n*** Update File: b.py\n*** Move to: c.py\n@@ def f():\n     x = 1\n"
        "-    return x\n+    return 2 * x\n*** Delete File: d.txt\n*** End Patch\n"
        "Lines of an update begin with a space (unchanged), - or +; give about three lines around a change. @@ names "
        "a line before it, such as a function's first, and begins each further change."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "patch": {"type": "string", "description": "The whole patch."},
            "partial": {
                "type": "boolean",
                "default": False,
                "description": "Keep the changes before one that fails.",
            },
        },
        "required": ["patch"],
        "additionalProperties": False,
    },
    execute=execute,
    label="Patch",
    source="builtin",
    concurrency_safe=False,
    access=access,
)
"""Change several files with one patch."""
