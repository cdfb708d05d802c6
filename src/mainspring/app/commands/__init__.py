"""The subcommands of ``mainspring``, one module for each noun. Each has functions that return data, and ``run``, which prints it."""
