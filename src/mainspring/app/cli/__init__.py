"""The command line of ``mainspring``."""
