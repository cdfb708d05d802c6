"""Print mode: one run, printed as text or JSON."""
