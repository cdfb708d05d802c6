"""Values of a run: its options and the events that it reports."""
