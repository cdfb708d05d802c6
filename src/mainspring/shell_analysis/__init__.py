"""Shell lines: which commands run, which files and hosts they touch, or why the line is not understood. Knows no rules."""
